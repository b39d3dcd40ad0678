// The other processes of the job, as the runtime sees them.
#pragma once

#include <exception>
#include <memory>
#include <string>

#include "comm/channel.h"

namespace shoal {

/// May be used from any thread, but for the channels.
class Peers {
 public:
  virtual ~Peers() = default;
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  /// The channel to another process; made when it is first asked for. Throws if that fails.
  virtual Channel& channel(int process) = 0;
  /// A number that processes of one host share.
  virtual int host_of(int process) const = 0;
  /// "process 3 (host n2, pid 77)".
  virtual std::string name_of(int process) const = 0;
  /// Whether a process has left the job, or is about to: it takes part in nothing any more.
  virtual bool is_leaving(int process) const = 0;
  /// Throws what has ended the job: that another process died, left early, or reported a failure.
  virtual void check() const = 0;
  /// Tells all other processes that a launch failed here, and why. Does not throw.
  virtual void report(const std::exception_ptr& error) noexcept = 0;
  /// All processes have left the job, and nothing is under way any more: closes what cannot be left open.
  virtual void leave() noexcept = 0;

 protected:
  Peers() = default;
};

/// Those of this process; null if it is alone.
Peers* peers();
void set_peers(std::unique_ptr<Peers> all);

}  // namespace shoal
