#include "spawn.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <utility>

namespace shoal::tool {

Spawned spawn(const SpawnOptions& options) {
  using Input = SpawnOptions::Input;
  Pipe output = make_pipe();
  Pipe errors = make_pipe();
  Pipe failure = make_pipe();  // closes when the program runs; else tells why it does not
  Pipe input;
  if (options.input == Input::kPipe) {
    input = make_pipe();
  } else {
    input.read =
        Descriptor(options.input == Input::kInherited ? checked(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3), "fcntl")
                                                      : checked(open("/dev/null", O_RDONLY | O_CLOEXEC), "open"));
  }
  std::vector<char*> arguments;
  for (const std::string& argument : options.arguments) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);

  const pid_t parent = getpid();
  const pid_t pid = checked(fork(), "fork");
  if (pid == 0) {
    const auto fail = [&] {
      [[maybe_unused]] const ssize_t written = write(failure.write.get(), &errno, sizeof errno);
      _exit(127);
    };
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);  // it ended before
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    signal(SIGPIPE, SIG_DFL);
    dup2(input.read.get(), 0);
    dup2(output.write.get(), 1);
    dup2(errors.write.get(), 2);
    for (const std::string& variable : options.environment) putenv(const_cast<char*>(variable.c_str()));
    if (!options.folder.empty() && chdir(options.folder.c_str()) != 0) fail();
    execvp(arguments[0], arguments.data());
    fail();
  }
  setpgid(pid, pid);  // whoever comes first: from here on the group exists
  failure.write.close();
  int error = 0;
  ssize_t count = 0;
  do {
    count = read(failure.read.get(), &error, sizeof error);
  } while (count < 0 && errno == EINTR);
  if (count == sizeof error) {
    waitpid(pid, nullptr, 0);
    const std::string place = options.folder.empty() ? "" : fmt::format(" in the folder \"{}\"", options.folder);
    throw std::system_error(error, std::generic_category(),
                            fmt::format("cannot run \"{}\"{}", options.arguments[0], place));
  }
  return {pid, std::move(input.write), std::move(output.read), std::move(errors.read)};
}

std::string shell_quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

}  // namespace shoal::tool
