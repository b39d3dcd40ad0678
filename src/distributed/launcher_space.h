// What processes tell each other by the launcher that has started them, before they can reach each other.
//
// Launchers of MPI programs keep a space of keys and values for each job. Process 0 writes a text there, all meet, and
// the others read it.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "distributed/detect.h"

namespace shoal::distributed {

/// The space of one job. The functions may wait without end.
class LauncherSpace {
 public:
  virtual ~LauncherSpace() = default;
  virtual void put(const std::string& key, const std::string& value) = 0;
  /// Returns when all processes of the job have called it. What was put before can be got.
  virtual void meet() = 0;
  /// What process 0 has put.
  virtual std::string get(const std::string& key) = 0;
};

/// That of an mpiexec that speaks version 1 of PMI over a connection which the environment names, PMI_FD: MPICH's
/// hydra. Null if there is none, or if the program uses MPI, to which the connection then belongs.
std::unique_ptr<LauncherSpace> open_pmi_space(const Environment& environment);

/// That of PMIx, of which the library is loaded: Open MPI, and Slurm by `srun --mpi=pmix`. Null if PMIx did not start
/// this process as number `process`, and under Open MPI 5 in a program that uses MPI and has not called MPI_Init.
std::unique_ptr<LauncherSpace> open_pmix_space(const Environment& environment, int process);

/// Hands `text` of process 0 to all processes of the job; it has no blanks, and 1000 bytes at most. All call it, and
/// what the others give is not used. nullopt if the launcher has no space. Throws DeadlineExceeded if not all have come
/// in time, DistributedError if the launcher fails.
std::optional<std::string> share_by_launcher(const Cluster& cluster, const std::string& text,
                                             std::chrono::milliseconds timeout);

}  // namespace shoal::distributed
