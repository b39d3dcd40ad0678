// Channels over MPI between the processes of a job.
#pragma once

#include <map>
#include <memory>

#include "comm/transport/mpi_channel.h"
#include "comm/transport/mpi_world.h"
#include "distributed/session.h"

namespace shoal {

class JobMpi {
 public:
  /// Tells the other processes whether MPI can be used here, if it is to be used: for what processes on different hosts
  /// exchange, if mpirun started this one; with SHOAL_TRANSPORT=mpi for what any processes exchange. Returns whether it
  /// is to be used.
  static bool announce(distributed::Session& session);
  /// What all processes do for which announce() was true, once all have called that. Null if not all can use MPI. With
  /// SHOAL_TRANSPORT=mpi it throws InvalidState then, saying in which process MPI cannot be used, and why. Throws
  /// DeadlineExceeded.
  static std::unique_ptr<JobMpi> join(distributed::Session& session);

  /// Whether messages to a process go this way.
  bool carries(int process) const;
  Channel& channel(int process);
  /// Closes the channels, and finalises MPI if Shoal has initialised it. All processes of the job call it; none does
  /// after a fault.
  void leave();

 private:
  explicit JobMpi(distributed::Session& session);

  const distributed::Session& session_;
  const bool carries_all_;
  MpiWorld world_;
  std::map<int, std::unique_ptr<MpiChannel>> channels_;
};

}  // namespace shoal
