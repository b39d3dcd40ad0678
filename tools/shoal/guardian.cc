#include "guardian.h"

#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <set>
#include <utility>

namespace shoal::tool {

namespace {

/// The life of the guardian: reads groups that come (positive) and go (negative).
[[noreturn]] void guard(int pipe) {
  setsid();
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, nullptr);
  // It must not keep open what others wait to see closed.
  const int null = open("/dev/null", O_RDWR);
  for (int standard = 0; standard <= 2; ++standard) {
    if (standard != pipe && null >= 0) dup2(null, standard);
  }
  std::set<pid_t> groups;
  for (;;) {
    pid_t group = 0;
    const ssize_t count = read(pipe, &group, sizeof group);
    if (count < 0 && errno == EINTR) continue;
    if (count != sizeof group) break;
    if (group > 0) {
      groups.insert(group);
    } else {
      groups.erase(-group);
    }
  }
  for (const pid_t group : groups) kill(-group, SIGKILL);
  _exit(0);
}

}  // namespace

Guardian::Guardian() {
  Pipe pipe = make_pipe();
  pid_ = checked(fork(), "fork");
  if (pid_ == 0) {
    pipe.write.close();
    guard(pipe.read.get());
  }
  pipe_ = std::move(pipe.write);
}

Guardian::~Guardian() {
  pipe_.close();
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Guardian::tell(pid_t group) {
  // A write of less than PIPE_BUF bytes is whole. If the guardian itself was killed, there is nobody to tell.
  [[maybe_unused]] const ssize_t written = write(pipe_.get(), &group, sizeof group);
}

}  // namespace shoal::tool
