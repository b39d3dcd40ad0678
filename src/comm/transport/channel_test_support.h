// What every kind of channel must do, between two processes.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "comm/transport/channel.h"
#include "comm/transport/region_copy.h"
#include "comm/transport/shared_heap.h"
#include "core/host_allocator.h"
#include "shoal/error.h"

namespace shoal {

using std::chrono::milliseconds;
using std::chrono::seconds;

inline constexpr std::size_t kMiB = std::size_t{1} << 20;

inline Clock::time_point in(Clock::duration time) { return Clock::now() + time; }

inline SharedHeap& test_heap() {
  static auto* const heap = new SharedHeap(std::size_t{2} << 30);
  return *heap;
}

inline HostAllocator& test_blocks() {
  static auto* const blocks = [] {
    auto* made = new HostAllocator(std::size_t{2} << 30);
    made->set_page_source(test_heap());
    return made;
  }();
  return *blocks;
}

// An array, in memory that peers may read or in memory that they may not.
class TestArray {
 public:
  TestArray(std::size_t bytes, bool shared) : bytes_(std::max<std::size_t>(bytes, 1)), shared_(shared) {
    data_ = shared ? static_cast<std::byte*>(test_blocks().allocate(std::max(bytes_, HostAllocator::kSmall + 1)))
                   : static_cast<std::byte*>(std::malloc(bytes_));
  }
  TestArray(TestArray&& other) noexcept : bytes_(other.bytes_), shared_(other.shared_), data_(other.data_) {
    other.data_ = nullptr;
  }
  TestArray& operator=(TestArray&&) = delete;
  ~TestArray() {
    if (data_ == nullptr) return;
    if (shared_) {
      test_blocks().deallocate(data_, std::max(bytes_, HostAllocator::kSmall + 1));
    } else {
      std::free(data_);
    }
  }
  std::byte* data() { return data_; }

 private:
  std::size_t bytes_;
  bool shared_;
  std::byte* data_;
};

// What a message is: both sides know it, of each direction.
struct Message {
  MessageTag tag;
  Region region;
  bool shared = false;
  std::uint64_t seed = 0;

  std::size_t array_bytes() const { return static_cast<std::size_t>(num_elements(region.shape)) * region.element; }
};

inline std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 31)) * 0x7fb5d329728ea185;
  return x ^ (x >> 27);
}

// The elements of an array, by position.
inline void fill(std::byte* data, std::size_t bytes, std::uint64_t seed) {
  std::size_t i = 0;
  for (; i + 8 <= bytes; i += 8) {
    const std::uint64_t word = mixed(seed + i);
    std::memcpy(data + i, &word, 8);
  }
  for (; i < bytes; ++i) data[i] = static_cast<std::byte>(mixed(seed + i));
}

// Compares the region of an array with what fill() wrote, byte by byte.
inline bool holds(const std::byte* payload, const Message& message) {
  const Region& region = message.region;
  std::vector<std::byte> want(message.array_bytes());
  fill(want.data(), want.size(), message.seed);
  const std::size_t row =
      region.extents.empty() ? region.element : static_cast<std::size_t>(region.extents.back()) * region.element;
  const std::int64_t rows = row == 0 ? 0 : static_cast<std::int64_t>(region.bytes() / row);
  for (std::int64_t r = 0; r < rows; ++r) {
    std::int64_t rest = r;
    std::int64_t at = 0;
    std::int64_t stride = 1;
    for (std::size_t d = region.shape.size(); d-- > 0;) {
      const std::int64_t extent = d + 1 == region.shape.size() ? 1 : region.extents[d];
      at += (region.start[d] + rest % extent) * stride;
      rest /= extent;
      stride *= region.shape[d];
    }
    const std::size_t offset = static_cast<std::size_t>(at) * region.element;
    if (std::memcmp(payload + offset, want.data() + offset, row) != 0) return false;
  }
  return true;
}

// The messages of a direction: sizes from nothing to `most` bytes, small ones more often.
inline std::vector<Message> messages(std::uint64_t seed, int count, std::size_t most) {
  std::mt19937_64 random(seed);
  std::vector<Message> out;
  for (int i = 0; i < count; ++i) {
    Message message;
    message.seed = random();
    message.shared = random() % 2 == 0;
    message.region.element = std::size_t{1} << random() % 5;
    const std::size_t rank = random() % 4;
    std::size_t elements = (most >> random() % 27) / message.region.element;
    for (std::size_t d = 0; d < rank; ++d) {
      const std::size_t extent = d + 1 == rank ? elements : std::min<std::size_t>(elements, random() % 40);
      elements = extent == 0 ? 0 : elements / extent;
      message.region.shape.push_back(static_cast<std::int64_t>(extent));
      const auto part =
          random() % 3 == 0 ? static_cast<std::int64_t>(random() % (extent + 1)) : static_cast<std::int64_t>(extent);
      message.region.extents.push_back(part);
      message.region.start.push_back(
          static_cast<std::int64_t>(random() % (extent - static_cast<std::size_t>(part) + 1)));
    }
    message.tag = {.communicator = seed,
                   .sequence = static_cast<std::uint64_t>(i),
                   .step = 3,
                   .part = 4,
                   .bytes = message.region.bytes(),
                   .program = {random(), random()},
                   .lineage = {random(), 5}};
    out.push_back(message);
  }
  return out;
}

// Sends and receives all messages of both directions, several under way at a time, and checks all that comes. After
// each payload that was read, waits for so long. So many messages are expected before they are accepted.
inline void exchange(Channel& channel, const std::vector<Message>& sends, const std::vector<Message>& receives,
                     milliseconds slowness = milliseconds(0), std::size_t expected = 0) {
  struct Sending {
    std::uint64_t number;
    TestArray array;
  };
  constexpr std::size_t kUnderWay = 12;
  std::deque<Sending> under_way;
  std::vector<std::uint64_t> accepted;
  std::size_t next_send = 0;
  std::size_t next_receive = 0;
  std::size_t next_expected = 0;
  std::size_t read = 0;
  const auto deadline = in(seconds(100));
  while (next_send < sends.size() || read < receives.size() || !under_way.empty()) {
    ASSERT_LT(Clock::now(), deadline);
    bool idle = true;
    if (next_send < sends.size() && under_way.size() < kUnderWay) {
      const Message& message = sends[next_send];
      TestArray array(message.array_bytes(), message.shared);
      fill(array.data(), message.array_bytes(), message.seed);
      const std::uint64_t number = channel.send(message.tag, message.region, array.data());
      ASSERT_EQ(number, ++next_send);
      under_way.push_back({number, std::move(array)});
      idle = false;
    }
    for (; next_expected < std::min(next_receive + expected, receives.size()); ++next_expected) {
      if (next_expected < next_receive) continue;
      channel.expect(receives[next_expected].tag, receives[next_expected].region);
    }
    if (const MessageTag* tag = next_receive < receives.size() ? channel.next() : nullptr) {
      ASSERT_EQ(*tag, receives[next_receive].tag);
      const std::uint64_t number = channel.accept(receives[next_receive].region);
      ASSERT_EQ(number, ++next_receive);
      idle = false;
    }
    if (read < next_receive) {
      if (const std::byte* payload = channel.payload(read + 1)) {
        if (slowness != milliseconds(0)) std::this_thread::sleep_for(slowness);
        ASSERT_TRUE(holds(payload, receives[read])) << "message " << read;
        // Some are released together.
        if (++read % 3 == 0 || read == receives.size() || read == next_receive) channel.release(read);
        idle = false;
      }
    }
    while (!under_way.empty() && channel.is_done(under_way.front().number)) {
      // The array may change from now on.
      std::memset(under_way.front().array.data(), 0xEE, 1);
      under_way.pop_front();
      idle = false;
    }
    if (idle) channel.sleep(deadline);
  }
}

// A message of a whole array of bytes.
inline std::uint64_t send_bytes(Channel& channel, std::byte* data, std::size_t bytes, std::uint64_t sequence = 0) {
  const auto extent = static_cast<std::int64_t>(bytes);
  return channel.send({.sequence = sequence, .bytes = bytes}, {{extent}, {0}, {extent}, 1}, data);
}

inline const MessageTag& await_next(Channel& channel) {
  const auto deadline = in(seconds(20));
  while (true) {
    if (const MessageTag* tag = channel.next()) return *tag;
    SHOAL_CHECK(Clock::now() < deadline, "a message comes");
    channel.sleep(deadline);
  }
}

inline const std::byte* await_payload(Channel& channel, std::size_t bytes) {
  await_next(channel);
  const auto extent = static_cast<std::int64_t>(bytes);
  const std::uint64_t number = channel.accept({{extent}, {0}, {extent}, 1});
  const auto deadline = in(seconds(20));
  const std::byte* payload = nullptr;
  while ((payload = channel.payload(number)) == nullptr) {
    SHOAL_CHECK(Clock::now() < deadline, "a payload comes");
    channel.sleep(deadline);
  }
  return payload;
}

inline void await_done(Channel& channel, std::uint64_t number) {
  const auto deadline = in(seconds(20));
  while (!channel.is_done(number)) {
    SHOAL_CHECK(Clock::now() < deadline, "a message is released");
    channel.sleep(deadline);
  }
}

// How long it takes until the channel fails, waiting for a message.
inline milliseconds time_to_failure(Channel& channel, std::string& what) {
  const auto begin = Clock::now();
  const auto deadline = begin + seconds(10);
  try {
    while (channel.next() == nullptr && Clock::now() < deadline) channel.sleep(deadline);
    ADD_FAILURE() << "the channel does not fail";
  } catch (const ProcessFailed& error) {
    what = error.what();
  }
  return std::chrono::duration_cast<milliseconds>(Clock::now() - begin);
}

// ---- What both sides do

struct Scenario {
  std::string name;
  void (*here)(Channel&);
  void (*there)(Channel&);
};

inline void receive_slowly(Channel& channel) { exchange(channel, {}, messages(5, 60, kMiB), milliseconds(5)); }

// More than slots and staging hold is kept, and goes on as the peer releases.
inline void send_before_any_is_received(Channel& channel) {
  std::vector<std::vector<std::byte>> arrays(2000, std::vector<std::byte>(16384));
  for (std::uint64_t i = 1; i <= 2000; ++i) {
    arrays[i - 1].front() = static_cast<std::byte>(i);
    arrays[i - 1].back() = static_cast<std::byte>(i * 7);
    EXPECT_EQ(send_bytes(channel, arrays[i - 1].data(), arrays[i - 1].size(), i), i);
  }
  EXPECT_FALSE(channel.is_done(2000));
  await_done(channel, 2000);
  await_payload(channel, 1);
  channel.release(1);
}

inline void receive_after_all_are_sent(Channel& channel) {
  const auto deadline = in(seconds(20));
  std::byte go{};
  while (channel.next() == nullptr) channel.sleep(deadline);
  std::this_thread::sleep_for(milliseconds(100));
  for (std::uint64_t i = 1; i <= 2000; ++i) {
    const std::byte* payload = await_payload(channel, 16384);
    ASSERT_EQ(payload[0], static_cast<std::byte>(i));
    ASSERT_EQ(payload[16383], static_cast<std::byte>(i * 7));
    channel.release(i);
  }
  await_done(channel, send_bytes(channel, &go, 1));
}

// What was sent before is received; then the channel fails.
inline void receive_until_the_peer_leaves(Channel& channel) {
  EXPECT_EQ(await_next(channel).sequence, 1U);
  const std::byte* payload = await_payload(channel, 1000);
  EXPECT_TRUE(std::all_of(payload, payload + 1000, [](std::byte b) { return b == std::byte{17}; }));
  channel.release(1);
  EXPECT_EQ(await_next(channel).sequence, 2U);
  payload = await_payload(channel, 3 * kMiB);
  EXPECT_TRUE(std::all_of(payload, payload + 3 * kMiB, [](std::byte b) { return b == std::byte{18}; }));
  channel.release(2);
  std::string what;
  EXPECT_LT(time_to_failure(channel, what), milliseconds(1500));
}

inline void send_and_leave(Channel& channel) {
  std::vector<std::byte> small(1000, std::byte{17});
  send_bytes(channel, small.data(), small.size(), 1);
  std::vector<std::byte> large(3 * kMiB, std::byte{18});
  await_done(channel, send_bytes(channel, large.data(), large.size(), 2));
}

/// Those in which both processes go on to the end.
inline const std::vector<Scenario>& scenarios() {
  static const std::vector<Scenario> kScenarios = {
      {"CarriesAnyRegionsBothWays",
       [](Channel& channel) { exchange(channel, messages(1, 300, 4 * kMiB), messages(2, 300, 4 * kMiB)); },
       [](Channel& channel) { exchange(channel, messages(2, 300, 4 * kMiB), messages(1, 300, 4 * kMiB)); }},
      {"CarriesWhatIsExpectedBothWays",
       [](Channel& channel) {
         exchange(channel, messages(3, 300, 4 * kMiB), messages(4, 300, 4 * kMiB), milliseconds(0), 5);
       },
       [](Channel& channel) {
         exchange(channel, messages(4, 300, 4 * kMiB), messages(3, 300, 4 * kMiB), milliseconds(0), 40);
       }},
      {"CarriesLargeArraysBothWays",
       [](Channel& channel) { exchange(channel, messages(11, 12, 64 * kMiB), messages(12, 12, 64 * kMiB)); },
       [](Channel& channel) { exchange(channel, messages(12, 12, 64 * kMiB), messages(11, 12, 64 * kMiB)); }},
      {"WaitsForASlowReceiver", [](Channel& channel) { exchange(channel, messages(5, 60, kMiB), {}); }, receive_slowly},
      {"KeepsWhatThereIsNoRoomFor", send_before_any_is_received, receive_after_all_are_sent},
      {"FailsWhenThePeerHasLeft", receive_until_the_peer_leaves, send_and_leave},
  };
  return kScenarios;
}

inline std::vector<std::string> scenario_names() {
  std::vector<std::string> names;
  for (const Scenario& scenario : scenarios()) names.push_back(scenario.name);
  return names;
}

inline const Scenario& scenario(const std::string& name) {
  return *std::ranges::find(scenarios(), name, &Scenario::name);
}

}  // namespace shoal
