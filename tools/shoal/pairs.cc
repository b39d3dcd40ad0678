#include "pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>

#include "comm/record/peers.h"
#include "comm/transport/shared_memory_channel.h"
#include "comm/transport/socket_channel.h"
#include "core/host_allocator.h"
#include "shoal/device.h"
#include "shoal/distributed.h"
#include "shoal/error.h"

namespace shoal::tool {

namespace {

constexpr std::size_t kSmall = 8;
constexpr std::size_t kLarge = std::size_t{8} << 20;
constexpr int kRounds = 200;
constexpr int kLargeRounds = 5;
constexpr std::chrono::seconds kPatience{20};

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// Messages to and from one other process, by turns.
class Talk {
 public:
  explicit Talk(Channel& channel) : channel_(channel) { std::memset(own_.get(), 1, kLarge); }

  void send(std::size_t bytes) {
    const std::uint64_t number = channel_.send({.bytes = bytes}, region(bytes), own_.get());
    wait([&] { return channel_.is_done(number); });
  }
  void receive(std::size_t bytes) {
    wait([&] { return channel_.next() != nullptr; });
    const std::uint64_t number = channel_.accept(region(bytes));
    const std::byte* payload = nullptr;
    wait([&] { return (payload = channel_.payload(number)) != nullptr; });
    std::memcpy(copy_.data(), payload, bytes);
    channel_.release(number);
  }

 private:
  static Region region(std::size_t bytes) {
    const auto extent = static_cast<std::int64_t>(bytes);
    return {{extent}, {0}, {extent}, 1};
  }
  template <class F>
  void wait(F&& is_over) {
    const auto deadline = Clock::now() + kPatience;
    while (!is_over()) {
      if (const std::exception_ptr failure = peers()->failure_of({channel_.peer()})) std::rethrow_exception(failure);
      if (Clock::now() >= deadline) {
        throw DeadlineExceeded(fmt::format("process {} does not answer any more", channel_.peer()));
      }
      channel_.sleep(std::min(deadline, Clock::now() + std::chrono::milliseconds(100)));
    }
  }

  // As arrays do, it lies where the other process can see it.
  struct Deallocate {
    void operator()(std::byte* bytes) const { HostAllocator::shared().deallocate(bytes, kLarge); }
  };

  Channel& channel_;
  std::unique_ptr<std::byte, Deallocate> own_{static_cast<std::byte*>(HostAllocator::shared().allocate(kLarge))};
  std::vector<std::byte> copy_ = std::vector<std::byte>(kLarge);
};

std::string transport_of(const Channel& channel) {
  if (dynamic_cast<const SharedMemoryChannel*>(&channel) != nullptr) return "shared memory";
  return dynamic_cast<const SocketChannel*>(&channel) != nullptr ? "sockets" : "MPI";
}

// The first of the pair measures: the median of round trips, and the fastest of large messages.
Pair measure(int first, int second) {
  Channel& channel = peers()->channel(second);
  Talk talk(channel);
  std::vector<double> trips;
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = Clock::now();
    talk.send(kSmall);
    talk.receive(kSmall);
    trips.push_back(seconds_since(begin));
  }
  std::nth_element(trips.begin(), trips.begin() + kRounds / 2, trips.end());
  double fastest = 1e9;
  for (int round = 0; round < kLargeRounds; ++round) {
    const auto begin = Clock::now();
    talk.send(kLarge);
    talk.receive(kSmall);
    fastest = std::min(fastest, seconds_since(begin));
  }
  return {first, second, transport_of(channel), trips[kRounds / 2] / 2, static_cast<double>(kLarge) / fastest};
}

void answer(int first) {
  Talk talk(peers()->channel(first));
  for (int round = 0; round < kRounds; ++round) {
    talk.receive(kSmall);
    talk.send(kSmall);
  }
  for (int round = 0; round < kLargeRounds; ++round) {
    talk.receive(kLarge);
    talk.send(kSmall);
  }
}

}  // namespace

std::vector<Pair> measure_pairs() {
  distributed::Client& client = distributed::client();
  const int me = process_index();
  for (int first = 0; first < process_count(); ++first) {
    for (int second = first + 1; second < process_count(); ++second) {
      // Nobody disturbs the pair whose turn it is.
      client.wait_at_barrier("doctor/turn", kPatience);
      if (me == first) {
        const Pair pair = measure(first, second);
        client.key_value_set(fmt::format("doctor/pairs/{:06}-{:06}", first, second),
                             nlohmann::json{pair.transport, pair.latency, pair.bandwidth}.dump());
      }
      if (me == second) answer(first);
    }
  }
  client.wait_at_barrier("doctor/end", kPatience);
  std::vector<Pair> pairs;
  if (me != 0) return pairs;
  for (const auto& [key, value] : client.key_value_dir_get("doctor/pairs")) {
    const auto found = nlohmann::json::parse(value);
    const std::size_t dash = key.rfind('-');
    pairs.push_back(
        {std::stoi(key.substr(dash - 6, 6)), std::stoi(key.substr(dash + 1)), found.at(0), found.at(1), found.at(2)});
  }
  return pairs;
}

}  // namespace shoal::tool
