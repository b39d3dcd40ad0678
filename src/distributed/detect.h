// Which launcher started this process, and what it told.
//
// A launcher tells by environment variables. Launchers nest: an mpirun runs inside an allocation of Slurm, `shoal run`
// inside a step. The innermost wins, and the outer ones' variables, which are still there, are not looked at.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shoal::distributed {

/// The value of an environment variable; nullopt if it is not set.
using Environment = std::function<std::optional<std::string>(const char* variable)>;

/// This process's own environment.
std::optional<std::string> own_environment(const char* variable);

/// The name of this host with its domain, as its resolver knows it; without one if that knows none.
std::string full_host_name();

/// What a launcher told.
struct Cluster {
  std::string method;                ///< How it was found, one of detection_methods().
  std::string why;                   ///< The same as a sentence.
  std::string coordinator_address;   ///< "host:port" or "[host]:port", at process 0; empty: the launcher does not tell.
  std::optional<int> num_processes;  ///< nullopt: the launcher does not tell (Kubernetes).
  int process_id = 0;                ///< From 0 on.
  int local_process_index = 0;       ///< Among the processes on this host.
  std::optional<int> local_process_count;  ///< On this host; nullopt: the launcher does not tell.
  std::string job;                         ///< What tells this run from all others; empty: the launcher does not tell.
};

struct Detection {
  std::optional<Cluster> cluster;
  std::vector<std::string> notes;  ///< On launchers of which some variables are set, but not all that are needed.
};

/// The methods, innermost launcher first:
///
///   shoal     `shoal run`: SHOAL_RUN_*
///   torchrun  RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT
///   ompi      mpirun of Open MPI 4 and 5: OMPI_*, PRTE_LAUNCHED, PMIX_NAMESPACE. Open MPI 4 tells where mpirun runs, 5
///             tells no address.
///   pmi       mpiexec of MPICH, Intel MPI and Cray PALS: PMI_RANK, PMI_SIZE, and the rank on the host. No address.
///   slurm     a step of Slurm, as started by srun: SLURM_STEP_*. A batch shell and an allocation are none.
///   k8s       an indexed job of Kubernetes with a headless service: JOB_COMPLETION_INDEX and the pod's full name
///
/// Where a launcher tells the host but no port, the port is 61440 + k % 4096, where k is made of the job's identity: of
/// Slurm the job's number + 1021 times the step's, so that consecutive jobs on one host do not meet. Where all
/// processes are on one host, the coordinator's is 127.0.0.1.
const std::vector<std::string_view>& detection_methods();

/// The cluster of this process. `method` asks for one method alone; "deactivate" finds nothing. Throws InvalidArgument
/// for an unknown method, and for a method asked for whose launcher did not start this process.
Detection detect_cluster(const Environment& environment = own_environment,
                         const std::optional<std::string>& method = std::nullopt,
                         const std::function<std::string()>& host_name = full_host_name);

}  // namespace shoal::distributed
