#include "base/socket.h"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <string_view>
#include <thread>

#include "base/fork.h"

namespace shoal {
namespace {

Socket open_socket() {
  return Socket([] { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); });
}

int count_sockets() {
  int count = 0;
  DIR* const folder = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(folder)) {
    char target[64] = "";
    const ssize_t size = readlinkat(dirfd(folder), entry->d_name, target, sizeof(target));
    count += size > 0 && std::string_view(target, static_cast<std::size_t>(size)).starts_with("socket:") ? 1 : 0;
  }
  closedir(folder);
  return count;
}

// What f() returns in a child.
template <class F>
int in_child(F&& f) {
  const pid_t child = fork();
  if (child == 0) _exit(f());
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Socket, ClosesWhatItHas) {
  Socket one = open_socket();
  const int number = one.get();
  ASSERT_TRUE(one);
  Socket other = std::move(one);
  EXPECT_FALSE(one);  // NOLINT(bugprone-use-after-move): it has none.
  EXPECT_EQ(other.get(), number);
  other = open_socket();
  EXPECT_EQ(fcntl(number, F_GETFD), -1);
  other.close();
  EXPECT_FALSE(other);
  const Socket none([] { return ::socket(-1, 0, 0); });
  EXPECT_EQ(errno, EAFNOSUPPORT);
  EXPECT_FALSE(none);
}

// Whatever other threads are opening and closing meanwhile.
TEST(Socket, ChildrenHaveNone) {
  const int before = count_sockets();
  std::atomic<bool> stops = false;
  std::thread opener([&] {
    while (!stops) {
      const Socket one = open_socket();
      const Socket other = open_socket();
    }
  });
  const Socket kept = open_socket();
  int most = 0;
  for (int i = 0; i < 300; ++i) most = std::max(most, in_child([&] { return count_sockets() - before; }));
  stops = true;
  opener.join();
  EXPECT_EQ(most, 0);
  EXPECT_EQ(count_sockets(), before + 1);
}

// There the number may be that of something else.
TEST(Socket, ChildrenCloseNoOthersDescriptor) {
  Socket one = open_socket();
  EXPECT_EQ(in_child([&] {
              if (!is_forked_child()) return 1;
              if (dup2(STDERR_FILENO, one.get()) != one.get()) return 2;
              const int number = one.get();
              one.close();
              return fcntl(number, F_GETFD) == -1 ? 3 : 0;
            }),
            0);
  EXPECT_FALSE(is_forked_child());
}

}  // namespace
}  // namespace shoal
