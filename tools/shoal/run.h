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
  bool prefix = true;
  bool json = false;
  std::vector<std::string> arguments;  ///< The program and its arguments.
};

/// Runs the program and waits for its end. Returns the exit code of the process that failed first, 128 + signal if one
/// ended it, and else 0; after restarts, that of the last run. Each run is a job of its own, with a secret and a port
/// of its own, and finds how many were before it in SHOAL_RUN_RESTART. The job is not started again once the user or
/// the system has asked for its end, and if it has written checkpoints but none in its last two runs: it would fail for
/// ever at the same step. Throws std::runtime_error if the options cannot be.
int run(const RunOptions& options);

}  // namespace shoal::tool
