// MPI, as far as this process has it: started when it is first needed, and its processes numbered as Shoal's.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "comm/transport/channel.h"
#include "comm/transport/mpi_api.h"

namespace shoal {

/// May be used from any thread. A process has one at most.
class MpiWorld {
 public:
  /// Why MPI cannot be used in this process, and what to do about it: that the plugin or the library is missing, or
  /// that no launcher of MPI started it. Empty if it can. Does not start it.
  static std::string obstacle();

  /// Starts MPI, or takes the one that the program has initialised, which must have MPI_THREAD_MULTIPLE. All processes
  /// that the launcher started do. Throws InvalidState, saying what keeps MPI from being used; DeadlineExceeded.
  explicit MpiWorld(Clock::time_point deadline);
  /// Leaves MPI as it is.
  ~MpiWorld();
  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;

  /// The rank of this process in MPI_COMM_WORLD.
  int rank() const { return rank_; }
  /// Process number i is the one of rank ranks[i]. Called by all of these processes, with the same ranks, before any
  /// of them makes a channel. Throws DistributedError with MPI's reason, DeadlineExceeded.
  void connect(const std::vector<int>& ranks, Clock::time_point deadline);
  /// Finalises MPI, if this process's Shoal has initialised it, and is called by all processes that connect() was
  /// called by, when all channels are closed. Throws DeadlineExceeded.
  void finish(Clock::time_point deadline);

  const MpiApi& api() const { return api_; }
  /// MPI may still read what does not exist any more, so it is not used again, and not finalised.
  void abandon() { abandoned_.store(true, std::memory_order_relaxed); }
  bool is_over() const { return abandoned_.load(std::memory_order_relaxed) || api_.is_over(); }

 private:
  class Worker;

  std::string call(std::string_view what, Clock::time_point deadline, std::function<std::string()> f);

  const MpiApi& api_;
  std::atomic<bool> abandoned_{false};
  int rank_ = -1;
  std::shared_ptr<Worker> worker_;
};

}  // namespace shoal
