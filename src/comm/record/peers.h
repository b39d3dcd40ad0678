// The other processes of the job, as the runtime sees them.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "comm/transport/channel.h"

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
  /// "process 3 on n2 (pid 77)".
  virtual std::string name_of(int process) const = 0;
  /// Whether a process has left the job, or is about to: it takes part in nothing any more.
  virtual bool is_leaving(int process) const = 0;
  /// Where a process is that a launch on `processes` waits for: a sentence without its subject; empty if nothing is
  /// known. May take a second.
  virtual std::string whereabouts_of(int process, const std::vector<int>& processes) = 0;
  /// What has ended the common work of these processes: that one of them died, left early, or reported a failure of
  /// theirs. Null as long as all is well; then it takes a nanosecond.
  virtual std::exception_ptr failure_of(const std::vector<int>& processes) const = 0;
  /// Tells the other ones of these processes that a launch failed here, and why. `is_cause`: not because another one
  /// did. Returns what all of them throw, once they agree on that; they are given a few seconds.
  virtual std::exception_ptr settle(const std::vector<int>& processes, const std::exception_ptr& error,
                                    bool is_cause) noexcept = 0;
  /// All processes have left the job, and nothing is under way any more: closes what cannot be left open.
  virtual void leave() noexcept = 0;

 protected:
  Peers() = default;
};

/// Those of this process; null if it is alone.
Peers* peers();
void set_peers(std::unique_ptr<Peers> all);

/// A number that processes of one host share; 0 if this process is alone.
int host_of(int process);

}  // namespace shoal
