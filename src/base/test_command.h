// For tests: runs a command to its end, or to a deadline.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

namespace shoal {

struct CommandOutcome {
  int code = -1;       ///< Exit code; 128 + the signal that ended it.
  std::string output;  ///< Standard output and error.
  double seconds = 0;
};

/// Whoever does not end until the deadline is killed, with its process group.
inline CommandOutcome run_command(const std::vector<std::string>& words,
                                  std::chrono::seconds most = std::chrono::seconds(60)) {
  const auto now = [] { return std::chrono::steady_clock::now(); };
  const auto begin = now();
  std::array<int, 2> pipe{};
  if (pipe2(pipe.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const pid_t pid = fork();
  if (pid < 0) throw std::runtime_error("no process");
  if (pid == 0) {
    setpgid(0, 0);
    dup2(pipe[1], STDOUT_FILENO);
    dup2(pipe[1], STDERR_FILENO);
    execvp(argv[0], argv.data());
    _exit(127);
  }
  close(pipe[1]);
  CommandOutcome outcome;
  int status = 0;
  bool is_open = true;
  while (is_open || waitpid(pid, &status, WNOHANG) == 0) {
    if (now() - begin > most) {
      kill(-pid, SIGKILL);
      waitpid(pid, &status, 0);
      outcome.output += "\n[killed at the deadline]\n";
      break;
    }
    pollfd entry{is_open ? pipe[0] : -1, POLLIN, 0};
    if (poll(&entry, 1, 20) <= 0) continue;
    std::array<char, 65536> text{};
    const ssize_t size = read(pipe[0], text.data(), text.size());
    if (size > 0) outcome.output.append(text.data(), static_cast<std::size_t>(size));
    is_open = size > 0;
  }
  close(pipe[0]);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.seconds = std::chrono::duration<double>(now() - begin).count();
  return outcome;
}

/// The file of this program.
inline std::string own_program() { return std::filesystem::read_symlink("/proc/self/exe"); }

/// The words that begin a command of Open MPI's mpirun, also where there are fewer cores than processes.
inline std::vector<std::string> mpirun_words() {
  return {"mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"};
}

}  // namespace shoal
