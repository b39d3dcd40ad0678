// `shoal run`: one program in many processes.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace shoal::tool {

struct RunOptions {
  std::optional<int> num_processes;  ///< Default: the slots of all hosts.
  std::optional<int> devices_per_process;
  std::string hosts_file;                ///< Empty: this host, without ssh.
  std::string log_dir;                   ///< Empty: no logs.
  std::vector<std::string> environment;  ///< "NAME=VALUE", or "NAME" to pass on what is set here.
  double grace = 4;                      ///< Seconds from SIGTERM to SIGKILL.
  int restarts = 0;                      ///< How often the job is started again after a process failed.
  bool elastic = false;                  ///< A process that fails does not end the others (elastic::run),
  int min_processes = 1;                 ///< as long as so many have not failed.
  bool prefix = true;
  bool json = false;
  std::vector<std::string> arguments;  ///< The program and its arguments.
};

/// Runs the program and waits for its end. Returns the exit code of the process that failed first, 128 + signal if one
/// ended it, and else 0; after restarts, that of the last run. Each run is a job of its own, with a secret and a port
/// of its own, and finds how many were before it in SHOAL_RUN_RESTART. An elastic job goes on when a process fails,
/// which is started again if it was on this host, and counts as a restart; all of its processes find in
/// SHOAL_ELASTIC_FILE a file for those that are started again, and the job has succeeded if one process has. The job is
/// not started again once the user or the system has asked for its end, and if it has written checkpoints but none in
/// its last two runs: it would fail for ever at the same step. Throws std::runtime_error if the options cannot be.
int run(const RunOptions& options);

}  // namespace shoal::tool
