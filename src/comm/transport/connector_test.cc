#include "comm/transport/connector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <future>
#include <optional>
#include <vector>

#include "comm/transport/tcp.h"
#include "comm/transport/test_peer.h"
#include "shoal/error.h"

namespace shoal {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

Clock::time_point in(Clock::duration time) { return Clock::now() + time; }

// Sends a number each way.
void talk(Channel& channel, int mine, int other) {
  const auto deadline = in(seconds(20));
  const Region region{{}, {}, {}, sizeof(int)};
  const std::uint64_t number = channel.send({.bytes = sizeof(int)}, region, reinterpret_cast<const std::byte*>(&mine));
  while (channel.next() == nullptr) {
    ASSERT_LT(Clock::now(), deadline);
    channel.sleep(deadline);
  }
  const std::uint64_t received = channel.accept(region);
  const std::byte* payload = nullptr;
  while ((payload = channel.payload(received)) == nullptr) {
    ASSERT_LT(Clock::now(), deadline);
    channel.sleep(deadline);
  }
  EXPECT_EQ(*reinterpret_cast<const int*>(payload), other);
  channel.release(received);
  while (!channel.is_done(number)) {
    ASSERT_LT(Clock::now(), deadline);
    channel.sleep(deadline);
  }
}

// A variable of the environment, for as long as this lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

// Tests of both transports; processes that are started inherit the variable.
class ConnectorTest : public testing::TestWithParam<std::string> {
 private:
  Variable transport_{"SHOAL_TRANSPORT", GetParam()};
};

template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST_P(ConnectorTest, ConnectsWhenFirstAskedFromEitherSide) {
  for (const bool lower_first : {true, false}) {
    Connector a(0, JobKey("key"));
    Connector b(1, JobKey("key"));
    Connector& first = lower_first ? a : b;
    Connector& second = lower_first ? b : a;
    const int first_number = lower_first ? 0 : 1;
    const int second_number = 1 - first_number;
    // The other side answers though nobody asks there.
    Channel& one = first.channel(second_number, second.card(), in(seconds(20)));
    Channel& other = second.channel(first_number, first.card(), in(seconds(20)));
    EXPECT_EQ(one.peer(), second_number);
    EXPECT_EQ(&first.channel(second_number, second.card(), in(seconds(20))), &one);
    std::thread thread([&] { talk(other, 7, 5); });
    talk(one, 5, 7);
    thread.join();
  }
}

TEST_P(ConnectorTest, ConnectsOnceWhenBothAskAtATime) {
  for (int repeat = 0; repeat < 20; ++repeat) {
    constexpr int kProcesses = 4;
    std::vector<std::unique_ptr<Connector>> all;
    for (int i = 0; i < kProcesses; ++i) all.push_back(std::make_unique<Connector>(i, JobKey("key")));
    std::vector<std::thread> threads;
    for (int i = 0; i < kProcesses; ++i) {
      threads.emplace_back([&all, i] {
        for (int other = 0; other < kProcesses; ++other) {
          if (other == i) continue;
          Channel& channel = all[static_cast<std::size_t>(i)]->channel(
              other, all[static_cast<std::size_t>(other)]->card(), in(seconds(20)));
          talk(channel, i, other);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

// Gives a text to the process at the other end.
void tell(const Socket& socket, const std::string& text) {
  const std::uint64_t size = text.size();
  ASSERT_EQ(write(socket.get(), &size, sizeof(size)), static_cast<ssize_t>(sizeof(size)));
  ASSERT_EQ(write(socket.get(), text.data(), size), static_cast<ssize_t>(size));
}

std::string told(const Socket& socket) {
  std::uint64_t size = 0;
  EXPECT_EQ(read(socket.get(), &size, sizeof(size)), static_cast<ssize_t>(sizeof(size)));
  std::string text(size, ' ');
  EXPECT_EQ(read(socket.get(), text.data(), size), static_cast<ssize_t>(size));
  return text;
}

SHOAL_TEST_ROLE(answer_number) {
  const std::string card = arguments.words;
  Connector connector(1, JobKey("a secret"));
  tell(arguments.socket, connector.card());
  talk(connector.channel(0, card, in(seconds(20))), 11, 22);
}

TEST_P(ConnectorTest, ConnectsProcesses) {
  auto [mine, other] = unix_pair();
  Connector connector(0, JobKey("a secret"));
  PeerProcess peer("answer_number", other, connector.card());
  const std::string card = told(mine);
  talk(connector.channel(1, card, in(seconds(20))), 22, 11);
  EXPECT_EQ(peer.wait(), 0);
}

// Its child lives on.
SHOAL_TEST_ROLE(have_a_child) {
  Connector connector(1, JobKey("a secret"));
  connector.channel(0, arguments.words, in(seconds(20)));
  const pid_t child = fork();
  if (child == 0) {
    sleep(15);
    _exit(0);
  }
  tell(arguments.socket, connector.card());
  tell(arguments.socket, std::to_string(child));
  sleep(15);
}

// Neither those who have a channel to it nor those who are about to connect wait for the child.
TEST_P(ConnectorTest, AKilledPeerIsGoneThoughItsChildLives) {
  auto [mine, other] = unix_pair();
  Connector connector(0, JobKey("a secret"));
  PeerProcess peer("have_a_child", other, connector.card());
  const std::string card = told(mine);
  const pid_t child = std::stoi(told(mine));
  Channel& channel = connector.channel(1, card, in(seconds(20)));
  peer.signal(SIGKILL);
  EXPECT_EQ(peer.wait(), -SIGKILL);
  const auto begin = Clock::now();
  EXPECT_THROW(channel.sleep(in(seconds(10))), ProcessFailed);
  Connector late(2, JobKey("a secret"));
  EXPECT_THROW(late.channel(1, card, in(seconds(10))), ProcessFailed);
  EXPECT_LT(Clock::now() - begin, seconds(2));
  EXPECT_EQ(kill(child, SIGKILL), 0);  // It was there.
}

TEST_P(ConnectorTest, RefusesAnotherKeyOnBothSides) {
  Connector a(0, JobKey("one"));
  Connector b(1, JobKey("other"));
  EXPECT_THAT(message_of([&] { a.channel(1, b.card(), in(seconds(20))); }),
              AllOf(HasSubstr("process 1"), HasSubstr("key")));
  EXPECT_THAT(message_of([&] { b.channel(0, a.card(), in(seconds(20))); }),
              AllOf(HasSubstr("process 0"), HasSubstr("key")));
}

TEST(Connector, NamesWhoIsNotThere) {
  Connector a(0, JobKey("key"));
  std::string card;
  {
    Connector gone(1, JobKey("key"));
    card = gone.card();
  }
  EXPECT_THAT(message_of([&] { a.channel(1, card, in(seconds(20))); }),
              AllOf(HasSubstr("channel to process 1: cannot connect: shared memory: Connection refused; "),
                    HasSubstr(" port ")));
  Connector other(2, JobKey("key"));
  EXPECT_THAT(message_of([&] { a.channel(1, other.card(), in(seconds(20))); }), HasSubstr("process 1"));
  EXPECT_THAT(message_of([&] { a.channel(1, "not a card", in(seconds(20))); }), HasSubstr("another version"));
}

// A peer that does not answer takes no more than the deadline.
TEST_P(ConnectorTest, ReturnsAtTheDeadline) {
  auto [mine, other] = unix_pair();
  Connector connector(0, JobKey("a secret"));
  PeerProcess peer("answer_number", other, connector.card());
  const std::string card = told(mine);
  Connector late(2, JobKey("a secret"));
  peer.signal(SIGSTOP);
  const auto begin = Clock::now();
  EXPECT_THROW(late.channel(1, card, begin + milliseconds(300)), DeadlineExceeded);
  EXPECT_LT(Clock::now() - begin, milliseconds(2000));
  peer.signal(SIGCONT);
  talk(connector.channel(1, card, in(seconds(20))), 22, 11);
  EXPECT_EQ(peer.wait(), 0);
}

// Those who connect and say nothing, or anything, disturb nobody, though they are more than it talks to at a time.
TEST(Connector, IsNotDisturbedByOthers) {
  Connector a(0, JobKey("key"));
  Connector b(1, JobKey("key"));
  std::vector<Socket> silent;
  for (int i = 0; i < 150; ++i) {
    Socket socket_ = connect_to(a.card(), "shm");
    const std::string noise(200, static_cast<char>(i));
    if (i % 10 == 0) {
      ASSERT_EQ(write(socket_.get(), noise.data(), noise.size()), 200);
    }
    silent.push_back(std::move(socket_));
  }
  const auto begin = Clock::now();
  std::thread thread([&] { talk(b.channel(0, a.card(), in(seconds(20))), 1, 2); });
  talk(a.channel(1, b.card(), in(seconds(20))), 2, 1);
  thread.join();
  EXPECT_LT(Clock::now() - begin, seconds(6));  // Long before the timeout of those that are silent.
}

// Peers beyond the limit take their turn.
TEST_P(ConnectorTest, ServesMorePeersThanItTalksToAtATime) {
  ConnectorOptions options;
  options.strangers = 2;
  constexpr int kPeers = 100;
  Connector busy(kPeers, JobKey("key"), options);
  std::vector<std::unique_ptr<Connector>> peers;
  for (int i = 0; i < kPeers; ++i) peers.push_back(std::make_unique<Connector>(i, JobKey("key")));
  std::vector<std::thread> threads;
  std::atomic<int> connected = 0;
  for (const auto& peer : peers) {
    threads.emplace_back([&] {
      const std::string failure = message_of([&] {
        peer->channel(kPeers, busy.card(), in(seconds(20)));
        ++connected;
      });
      EXPECT_EQ(failure, "nothing was thrown");
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(connected, kPeers);
}

SHOAL_TEST_ROLE(connect_as_another_user) {
  ASSERT_EQ(setuid(65534), 0);
  Connector other(1, JobKey("key"));
  EXPECT_THAT(message_of([&] { other.channel(0, arguments.words, in(seconds(20))); }),
              HasSubstr("shared memory: it runs as user 0, and this process as 65534"));
}

TEST(Connector, SharesMemoryWithItsOwnUserOnly) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can start a process as another user";
  const Variable transport("SHOAL_TRANSPORT", "shm");
  Connector connector(0, JobKey("key"));
  auto [mine, other] = unix_pair();
  EXPECT_EQ(PeerProcess("connect_as_another_user", other, connector.card()).wait(), 0);
}

INSTANTIATE_TEST_SUITE_P(Transports, ConnectorTest, testing::Values("shm", "socket"),
                         [](const auto& transport) { return transport.param; });

TEST(Connector, TakesTheTransportThatIsAskedFor) {
  const auto kind = [](Connector& a, Connector& b) {
    const Channel& channel = a.channel(1, b.card(), in(seconds(20)));
    return dynamic_cast<const SocketChannel*>(&channel) != nullptr ? "sockets" : "shared memory";
  };
  {
    Connector a(0, JobKey("key"));
    Connector b(1, JobKey("key"));
    EXPECT_STREQ(kind(a, b), "shared memory");
  }
  const Variable transport("SHOAL_TRANSPORT", "socket");
  Connector a(0, JobKey("key"));
  Connector b(1, JobKey("key"));
  EXPECT_STREQ(kind(a, b), "sockets");
}

// Where the host is another, shared memory is not tried.
TEST(Connector, UsesSocketsBetweenHosts) {
  Connector a(0, JobKey("key"));
  Connector b(1, JobKey("key"));
  std::string card = b.card();
  const std::size_t boot = card.find("\"boot\":\"") + 8;
  card[boot] = card[boot] == 'x' ? 'y' : 'x';
  Channel& channel = a.channel(1, card, in(seconds(20)));
  EXPECT_NE(dynamic_cast<SocketChannel*>(&channel), nullptr);
  std::thread thread([&] { talk(b.channel(0, a.card(), in(seconds(20))), 1, 2); });
  talk(channel, 2, 1);
  thread.join();
}

// An address that leads nowhere takes its share of the time, so the one that is known comes first.
TEST(Connector, TriesTheLikelyAddressFirst) {
  const Variable transport("SHOAL_TRANSPORT", "socket");
  ConnectorOptions options;
  options.addresses = {"127.0.0.3", "127.0.0.2"};
  const std::string card = Connector(1, JobKey("key"), options).card();
  Connector connector(0, JobKey("key"));
  const auto tried = [&](const std::string& likely) {
    const std::string text = message_of([&] { connector.channel(1, card, in(seconds(20)), likely); });
    return text.find("127.0.0.3 port") < text.find("127.0.0.2 port") ? "as published" : "the likely one first";
  };
  EXPECT_STREQ(tried(""), "as published");
  EXPECT_STREQ(tried("127.0.0.2"), "the likely one first");
  EXPECT_STREQ(tried("127.0.0.9"), "as published");
}

TEST(Connector, ListensWhereItIsToldTo) {
  const Variable transport("SHOAL_TRANSPORT", "socket");
  std::uint16_t port = 0;
  {
    const TcpListener free = listen_on_tcp({}, Reach::kAllHosts);
    port = free.port;
    const Variable range("SHOAL_PORT_RANGE", std::to_string(port));
    EXPECT_THAT(message_of([] { Connector(0, JobKey("key")); }),
                AllOf(HasSubstr("cannot listen"), HasSubstr(std::to_string(port)), HasSubstr("SHOAL_PORT_RANGE")));
  }
  const Variable range("SHOAL_PORT_RANGE", std::to_string(port) + "-" + std::to_string(port));
  const Variable interface("SHOAL_SOCKET_INTERFACE", "lo");
  Connector a(0, JobKey("key"));
  EXPECT_THAT(a.card(), AllOf(HasSubstr("\"port\":" + std::to_string(port)), HasSubstr("127.0.0.1")));
}

TEST(Connector, SaysWhatIsWrongWithAVariable) {
  for (const std::string range : {"x", "0", "70000", "5-4", "4000-", "4000-4001x"}) {
    const Variable variable("SHOAL_PORT_RANGE", range);
    EXPECT_THAT(message_of([] { Connector(0, JobKey("key")); }),
                AllOf(HasSubstr("SHOAL_PORT_RANGE"), HasSubstr(range)));
  }
  const Variable interface("SHOAL_SOCKET_INTERFACE", "none0");
  EXPECT_THAT(message_of([] { Connector(0, JobKey("key")); }),
              AllOf(HasSubstr("SHOAL_SOCKET_INTERFACE"), HasSubstr("none0"), HasSubstr("lo")));
  EXPECT_THAT(message_of([] {
                const Variable transport("SHOAL_TRANSPORT", "pigeons");
                Connector(0, JobKey("key"));
              }),
              HasSubstr("SHOAL_TRANSPORT"));
}

// Nobody else can connect, whatever the variables say that are for jobs of several hosts.
TEST(Connector, ListensAtLoopbackAloneWhereAllPeersAreOnItsHost) {
  const Variable transport("SHOAL_TRANSPORT", "socket");
  const Variable interface("SHOAL_SOCKET_INTERFACE", "eth0");
  ConnectorOptions options;
  options.reach = Reach::kHost;
  Connector a(0, JobKey("key"), options);
  Connector b(1, JobKey("key"), options);
  EXPECT_THAT(a.card(), AnyOf(HasSubstr(R"("addresses":["127.0.0.1"])"), HasSubstr(R"("addresses":["::1"])")));
  Channel& channel = a.channel(1, b.card(), in(seconds(20)));
  std::thread thread([&] { talk(b.channel(0, a.card(), in(seconds(20))), 1, 2); });
  talk(channel, 2, 1);
  thread.join();
}

TEST(Tcp, ListensAtLoopbackAlone) {
  const TcpListener listener = listen_on_tcp({}, Reach::kHost);
  EXPECT_TRUE(connect_tcp(listener.address, listener.port, in(seconds(5))));
  EXPECT_THROW(connect_tcp("127.0.0.2", listener.port, in(seconds(5))), ProcessFailed);
  const PortRange taken{listener.port, listener.port};
  EXPECT_THAT(listen_on_tcp(taken, Reach::kHost).address, "::1");  // IPv4 is tried first, and has the port.
}

TEST(Tcp, ConnectsByBothFamilies) {
  const TcpListener listener = listen_on_tcp({}, Reach::kAllHosts);
  EXPECT_TRUE(connect_tcp("127.0.0.1", listener.port, in(seconds(5))));
  try {
    EXPECT_TRUE(connect_tcp("::1", listener.port, in(seconds(5))));
  } catch (const ProcessFailed& error) {
    GTEST_SKIP() << "this host has no IPv6: " << error.what();
  }
}

}  // namespace
}  // namespace shoal
