// Every kind of channel, between two processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "comm/transport/channel_test_support.h"
#include "comm/transport/shared_memory_channel.h"
#include "comm/transport/socket_channel.h"
#include "comm/transport/test_peer.h"

namespace shoal {
namespace {

SocketLoop& test_loop() {
  static auto* const loop = new SocketLoop;
  return *loop;
}

std::pair<Socket, Socket> connected(const std::string& transport) {
  return transport == "sockets" ? tcp_pair() : unix_pair();
}

std::unique_ptr<Channel> open_channel(const std::string& transport, Socket socket, int peer) {
  if (transport == "sockets") return std::make_unique<SocketChannel>(peer, std::move(socket), test_loop());
  return std::make_unique<SharedMemoryChannel>(peer, std::move(socket), test_heap(), test_blocks(), in(seconds(20)));
}

template <class Parameter>
class TestOfTwo : public testing::TestWithParam<Parameter> {
 protected:
  // Starts a process that plays `role`, and opens a channel to it.
  void start(const std::string& transport, const std::string& role, const std::string& words = "") {
    auto [mine, other] = connected(transport);
    peer_ = std::make_unique<PeerProcess>(role, other, transport + " " + words);
    other.close();
    channel_ = open_channel(transport, std::move(mine), 1);
  }

  std::unique_ptr<PeerProcess> peer_;
  std::unique_ptr<Channel> channel_;
};

// The other side of a test.
std::unique_ptr<Channel> join(RoleArguments& arguments) {
  const std::string transport = arguments.words.substr(0, arguments.words.find(' '));
  arguments.words.erase(0, transport.size() + 1);
  return open_channel(transport, std::move(arguments.socket), 0);
}

SHOAL_TEST_ROLE(scenario) {
  const auto channel = join(arguments);
  scenario(arguments.words).there(*channel);
}

using ChannelScenario = TestOfTwo<std::tuple<std::string, std::string>>;

TEST_P(ChannelScenario, GoesWell) {
  const auto& [name, transport] = GetParam();
  start(transport, "scenario", name);
  scenario(name).here(*channel_);
  EXPECT_EQ(peer_->wait(), 0);
}

INSTANTIATE_TEST_SUITE_P(Channel, ChannelScenario,
                         testing::Combine(testing::ValuesIn(scenario_names()),
                                          testing::Values("shared_memory", "sockets")),
                         [](const auto& test) { return std::get<0>(test.param) + "_" + std::get<1>(test.param); });

using ChannelTest = TestOfTwo<std::string>;

SHOAL_TEST_ROLE(be_silent) {
  const auto channel = join(arguments);
  std::this_thread::sleep_for(seconds(30));
}

TEST_P(ChannelTest, FailsSoonAfterThePeerIsKilled) {
  start(GetParam(), "be_silent");
  std::thread killer([&] {
    std::this_thread::sleep_for(milliseconds(300));
    peer_->signal(SIGKILL);
  });
  std::string what;
  const milliseconds time = time_to_failure(*channel_, what);
  killer.join();
  EXPECT_GE(time, milliseconds(290));
  EXPECT_LT(time, milliseconds(1500));
  EXPECT_THAT(what, testing::HasSubstr("channel to process 1: it has ended"));
  EXPECT_EQ(peer_->wait(), -SIGKILL);
  std::byte data{};
  EXPECT_THROW(send_bytes(*channel_, &data, 1), ProcessFailed);
  EXPECT_THROW(channel_->next(), ProcessFailed);
  EXPECT_THROW(channel_->sleep(in(seconds(10))), ProcessFailed);
}

TEST_P(ChannelTest, ReturnsAtTheDeadlineWhileThePeerIsStopped) {
  start(GetParam(), "be_silent");
  peer_->signal(SIGSTOP);
  for (const int time : {0, 1, 30, 250}) {
    const auto begin = Clock::now();
    EXPECT_EQ(channel_->next(), nullptr);
    channel_->sleep(begin + milliseconds(time));
    EXPECT_LT(Clock::now() - begin, milliseconds(time + 500));
  }
  peer_->signal(SIGCONT);
}

SHOAL_TEST_ROLE(leave) {
  const auto channel = join(arguments);
  send_and_leave(*channel);
  if (arguments.words == "abruptly") _exit(3);
}

TEST_P(ChannelTest, DeliversWhatWasSentBeforeThePeerLeft) {
  for (const std::string how : {"", "abruptly"}) {
    start(GetParam(), "leave", how);
    EXPECT_EQ(peer_->wait(), how.empty() ? 0 : 3);
    receive_until_the_peer_leaves(*channel_);
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, ChannelTest, testing::Values("shared_memory", "sockets"),
                         [](const auto& transport) { return transport.param; });

SHOAL_TEST_ROLE(read_in_place) {
  const auto channel = join(arguments);
  const std::byte* payload = await_payload(*channel, kMiB);
  // The array that the sender changes is the one that is seen here.
  EXPECT_EQ(payload[100], std::byte{1});
  std::byte go{};
  const std::uint64_t number = send_bytes(*channel, &go, 1);
  await_payload(*channel, 1);
  EXPECT_EQ(payload[100], std::byte{2});
  channel->release(2);
  await_done(*channel, number);
}

TEST(SharedMemoryChannel, CopiesNothingThatLiesInTheHeap) {
  auto [mine, other] = unix_pair();
  PeerProcess peer("read_in_place", other, "shared_memory ");
  const auto channel = open_channel("shared_memory", std::move(mine), 1);
  TestArray array(kMiB, true);
  array.data()[100] = std::byte{1};
  const std::uint64_t number = send_bytes(*channel, array.data(), kMiB);
  await_payload(*channel, 1);
  EXPECT_FALSE(channel->is_done(number));
  array.data()[100] = std::byte{2};
  std::byte go{};
  await_done(*channel, send_bytes(*channel, &go, 1));
  await_done(*channel, number);
  channel->release(1);
  EXPECT_EQ(peer.wait(), 0);
}

// What is expected arrives while its receiver does not call the channel; what is not waits for it.
TEST(SocketChannel, ReceivesWhatIsExpectedBeforeItIsAccepted) {
  auto [mine, other] = tcp_pair();
  const auto sender = open_channel("sockets", std::move(mine), 1);
  const auto receiver = open_channel("sockets", std::move(other), 0);
  std::vector<Message> sent = messages(21, 40, kMiB);
  sent.push_back(messages(22, 1, 1)[0]);
  sent.back().region = {{64 << 20}, {5}, {(64 << 20) - 7}, 1};
  sent.back().tag.bytes = sent.back().region.bytes();  // More than the system keeps.
  std::vector<TestArray> arrays;
  std::uint64_t number = 0;
  for (const Message& message : sent) {
    receiver->expect(message.tag, message.region);
    arrays.emplace_back(message.array_bytes(), false);
    fill(arrays.back().data(), message.array_bytes(), message.seed);
    number = sender->send(message.tag, message.region, arrays.back().data());
  }
  await_done(*sender, number);
  for (std::size_t i = 0; i < sent.size(); ++i) {
    ASSERT_EQ(await_next(*receiver), sent[i].tag);
    ASSERT_EQ(receiver->accept(sent[i].region), i + 1);
    const std::byte* payload = nullptr;
    while ((payload = receiver->payload(i + 1)) == nullptr) receiver->sleep(in(seconds(20)));
    EXPECT_TRUE(holds(payload, sent[i])) << i;
    receiver->release(i + 1);
  }
  // Of what is expected in vain nothing is left but that what comes is accepted as ever.
  receiver->expect(sent[0].tag, sent[0].region);
  send_bytes(*sender, arrays.back().data(), 1000, 7);
  EXPECT_EQ(await_next(*receiver).sequence, 7U);
  receiver->expect_nothing();
  const std::byte* const payload = await_payload(*receiver, 1000);
  EXPECT_EQ(std::memcmp(payload, arrays.back().data(), 1000), 0);
}

SHOAL_TEST_ROLE(receive_and_wait) {
  const auto channel = join(arguments);
  await_payload(*channel, kMiB);
  std::string what;
  time_to_failure(*channel, what);
}

TEST(SharedMemoryChannel, SaysThatTheHeapIsExhausted) {
  SharedHeap heap(4 * kMiB);
  HostAllocator blocks(64 * kMiB);
  blocks.set_page_source(heap);
  auto [mine, other] = unix_pair();
  PeerProcess peer("receive_and_wait", other, "shared_memory ");
  other.close();
  {
    SharedMemoryChannel channel(1, std::move(mine), heap, blocks, in(seconds(20)));
    std::vector<std::byte> array(6 * kMiB);
    EXPECT_THROW(send_bytes(channel, array.data(), array.size()), std::bad_alloc);
    EXPECT_NO_THROW(send_bytes(channel, array.data(), kMiB));
    EXPECT_EQ(heap.map(4 * kMiB), nullptr);
    auto [one, two] = unix_pair();
    SharedHeap tiny(HostAllocator::kHugePage);
    EXPECT_NE(tiny.map(HostAllocator::kHugePage), nullptr);
    EXPECT_THROW(SharedMemoryChannel(1, std::move(one), tiny, blocks, in(milliseconds(100))), std::bad_alloc);
  }
  EXPECT_EQ(peer.wait(), 0);
}

TEST(SharedMemoryChannel, NeedsAPeerThatAnswers) {
  auto [one, two] = unix_pair();
  EXPECT_THROW(SharedMemoryChannel(1, std::move(one), test_heap(), test_blocks(), in(milliseconds(200))),
               DeadlineExceeded);
  std::tie(one, two) = unix_pair();
  two.close();
  EXPECT_THROW(SharedMemoryChannel(1, std::move(one), test_heap(), test_blocks(), in(seconds(20))), ProcessFailed);
}

}  // namespace
}  // namespace shoal
