// Who is no process of the job and connects to one: is refused, and disturbs nothing else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "comm/transport/channel_test_support.h"
#include "comm/transport/connector.h"
#include "comm/transport/socket_io.h"
#include "comm/transport/test_peer.h"

namespace shoal {
namespace {

constexpr milliseconds kGreeting{500};

// How long it takes until the other end closes the connection.
milliseconds time_to_end(const Socket& socket) {
  const auto begin = Clock::now();
  while (Clock::now() - begin < seconds(10)) {
    pollfd entry{socket.get(), POLLIN, 0};
    poll(&entry, 1, 10);
    std::array<char, 4096> some{};
    const ssize_t size = recv(socket.get(), some.data(), some.size(), MSG_DONTWAIT);
    if (size == 0 || (size < 0 && errno != EAGAIN)) break;
  }
  return std::chrono::duration_cast<milliseconds>(Clock::now() - begin);
}

void say(const Socket& socket, const std::string& text) {
  // It may be closed before all is said.
  ::send(socket.get(), text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

class StrangersTest : public testing::TestWithParam<std::string> {};

TEST_P(StrangersTest, AreRefusedAndDisturbNothing) {
  setenv("SHOAL_TRANSPORT", GetParam().c_str(), 1);
  ConnectorOptions options;
  options.greeting_timeout = kGreeting;
  Connector mine(0, JobKey("key"), options);
  Connector other(1, JobKey("key"));
  unsetenv("SHOAL_TRANSPORT");
  Channel& channel = mine.channel(1, other.card(), in(seconds(20)));
  Channel& back = other.channel(0, mine.card(), in(seconds(20)));

  const std::vector<std::pair<const char*, std::function<void(const Socket&)>>> strangers = {
      {"malformed",
       [](const auto& socket) { say(socket, "GET / HTTP/1.1\r\nHost: me\r\n\r\n" + std::string(99, 'x')); }},
      {"oversized", [](const auto& socket) { say(socket, std::string(kMiB, '\xff')); }},
      {"silent", [](const auto&) {}},
      {"slow",
       [](const auto& socket) {
         for (int i = 0; i < 20; ++i) {
           say(socket, "x");
           std::this_thread::sleep_for(milliseconds(10));
         }
       }},
      {"with another key",
       [](const auto& socket) { EXPECT_THROW(greet(socket.get(), JobKey("x"), 2, 0, in(seconds(5))), ProcessFailed); }},
      {"with another process in mind",
       [](const auto& socket) {
         EXPECT_THROW(greet(socket.get(), JobKey("key"), 2, 7, in(seconds(5))), ProcessFailed);
       }},
  };
  for (const auto& [name, behave] : strangers) {
    std::vector<Socket> many;
    for (int i = 0; i < 8; ++i) many.push_back(connect_to(mine.card(), GetParam()));
    for (const Socket& one : many) behave(one);
    // Messages go on meanwhile, and who belongs here is let in.
    std::byte data{7};
    const std::uint64_t number = send_bytes(channel, &data, 1);
    EXPECT_EQ(await_payload(back, 1)[0], data) << name;
    back.release(number);
    await_done(channel, number);
    for (const Socket& one : many) EXPECT_LT(time_to_end(one), kGreeting + seconds(2)) << name;
  }
  setenv("SHOAL_TRANSPORT", GetParam().c_str(), 1);
  Connector late(2, JobKey("key"));
  unsetenv("SHOAL_TRANSPORT");
  const auto begin = Clock::now();
  late.channel(0, mine.card(), in(seconds(20)));
  EXPECT_LT(Clock::now() - begin, seconds(2));
}

INSTANTIATE_TEST_SUITE_P(Transports, StrangersTest, testing::Values("shm", "socket"),
                         [](const auto& transport) { return transport.param; });

}  // namespace
}  // namespace shoal
