// Tests with a second process: the test binary itself, started again to play a role.
#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/socket.h"
#include "comm/transport/channel.h"
#include "comm/transport/tcp.h"

namespace shoal {

/// Both ends of a Unix connection.
inline std::pair<Socket, Socket> unix_pair() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  return {Socket([&] { return ends[0]; }), Socket([&] { return ends[1]; })};
}

/// Both ends of a TCP connection over loopback.
inline std::pair<Socket, Socket> tcp_pair() {
  const Socket listener([] { return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); });
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(listen(listener.get(), 1), 0);
  EXPECT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  Socket one([] { return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); });
  EXPECT_EQ(connect(one.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  Socket other([&] { return accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC); });
  EXPECT_TRUE(other);
  return {std::move(one), std::move(other)};
}

/// What a process is told that plays a role.
struct RoleArguments {
  Socket socket;  ///< Its end of a connection.
  std::string words;
};

/// A process that plays a role, which SHOAL_TEST_ROLE(name) defines. Killed in the end if it still runs.
class PeerProcess {
 public:
  PeerProcess(const std::string& role, const Socket& socket, const std::string& words = "") {
    constexpr int kSocket = 3;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, socket.get(), kSocket);
    const std::string filter = "--gtest_filter=Role.DISABLED_" + role;
    std::string program = "/proc/self/exe";
    std::vector<std::string> arguments{program, filter, "--gtest_also_run_disabled_tests", "--gtest_brief=1"};
    std::vector<std::string> variables{fmt::format("SHOAL_TEST_ROLE={}:{}", kSocket, words)};
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    std::vector<char*> envp;
    for (char** variable = environ; *variable != nullptr; ++variable) envp.push_back(*variable);
    for (std::string& variable : variables) envp.push_back(variable.data());
    envp.push_back(nullptr);
    EXPECT_EQ(posix_spawn(&pid_, program.c_str(), &actions, nullptr, argv.data(), envp.data()), 0);
    posix_spawn_file_actions_destroy(&actions);
  }
  ~PeerProcess() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  void signal(int number) const { EXPECT_EQ(kill(pid_, number), 0); }

  /// Waits for its end. Returns its exit status, or minus the number of the signal that ended it; -1000 if it still
  /// runs after `most`.
  int wait(std::chrono::seconds most = std::chrono::seconds(60)) {
    const auto deadline = std::chrono::steady_clock::now() + most;
    int status = 0;
    while (waitpid(pid_, &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > deadline) return -1000;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
};

/// The arguments of the role that this process is to play.
inline RoleArguments role_arguments() {
  const char* text = std::getenv("SHOAL_TEST_ROLE");
  if (text == nullptr) return {};
  const std::string all(text);
  const std::size_t colon = all.find(':');
  return {Socket([&] { return std::stoi(all.substr(0, colon)); }), all.substr(colon + 1)};
}

// Defines a role: a test that only processes run which are to play it.
#define SHOAL_TEST_ROLE(name)                                     \
  static void play_##name(::shoal::RoleArguments arguments);      \
  TEST(Role, DISABLED_##name) {                                   \
    ::shoal::RoleArguments arguments = ::shoal::role_arguments(); \
    if (!arguments.socket) GTEST_SKIP();                          \
    play_##name(std::move(arguments));                            \
  }                                                               \
  static void play_##name(::shoal::RoleArguments arguments)

/// A connection to the connector that has this card, over sockets or else as one that wants to share memory.
inline Socket connect_to(const std::string& card, const std::string& transport) {
  const auto found = nlohmann::json::parse(card);
  if (transport == "socket") {
    return connect_tcp("127.0.0.1", found["port"], Clock::now() + std::chrono::seconds(5));
  }
  const std::string name = found["unix"];
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  Socket made([] { return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); });
  EXPECT_EQ(connect(made.get(), reinterpret_cast<sockaddr*>(&address),
                    static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())),
            0);
  return made;
}

}  // namespace shoal
