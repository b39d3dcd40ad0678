// Channels between two processes of this machine, over each transport: the round trip of nothing and of 4 KiB that both
// sides read, the way of 1 MiB and 64 MiB there, until it is released, with and without being read, and the sum of
// arrays that both have, which each makes. The last rows are what the machine gives: copies of memory, and a connected
// pair of sockets; and what Open MPI takes over TCP, if `openmpi_peer` was built.
//
// The second process is this program, started again.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/file_descriptor.h"
#include "base/socket.h"
#include "comm/transport/shared_heap.h"
#include "comm/transport/shared_memory_channel.h"
#include "comm/transport/socket_channel.h"

namespace shoal::bench {
namespace {

constexpr int kSocket = 3;  // The peer's end.
constexpr auto kLimit = std::chrono::seconds(20);

enum Order : std::uint32_t { kEcho = 1, kRead, kRelease, kSum, kStop };

SocketLoop& loop() {
  static auto* const loop = new SocketLoop;
  return *loop;
}

std::unique_ptr<Channel> open_channel(const std::string& transport, int end, int peer) {
  Socket socket([&] { return fcntl(end, F_DUPFD_CLOEXEC, 0); });
  if (transport == "sockets") return std::make_unique<SocketChannel>(peer, std::move(socket), loop());
  return std::make_unique<SharedMemoryChannel>(peer, std::move(socket), SharedHeap::shared(), HostAllocator::shared(),
                                               Clock::now() + kLimit);
}

constexpr std::array<std::pair<std::size_t, const char*>, 3> kSums{
    {{std::size_t{4} << 10, "4KiB"}, {std::size_t{1} << 20, "1MiB"}, {std::size_t{64} << 20, "64MiB"}}};

Region bytes(std::size_t count) {
  const auto extent = static_cast<std::int64_t>(count);
  return {{extent}, {0}, {extent}, 1};
}

std::uint64_t read(const std::byte* data, std::size_t count) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i + 8 <= count; i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, data + i, 8);
    sum += word;
  }
  benchmark::DoNotOptimize(sum);
  return sum;
}

const MessageTag& await_next(Channel& channel) {
  while (true) {
    if (const MessageTag* tag = channel.next()) return *tag;
    channel.sleep(Clock::now() + kLimit);
  }
}

const std::byte* await_payload(Channel& channel, std::uint64_t number) {
  while (true) {
    if (const std::byte* payload = channel.payload(number)) return payload;
    channel.sleep(Clock::now() + kLimit);
  }
}

void await_done(Channel& channel, std::uint64_t number) {
  while (!channel.is_done(number)) channel.sleep(Clock::now() + kLimit);
}

std::byte* array(std::size_t count) {
  const std::size_t size = std::max(count, HostAllocator::kSmall + 1);
  auto* data = static_cast<std::byte*>(HostAllocator::shared().allocate(size));
  std::memset(data, 1, size);
  return data;
}

// Adds what has come to an array, as one side of a sum does.
void add(const std::byte* from, std::byte* to, std::size_t count) {
  const auto* in = reinterpret_cast<const float*>(from);
  auto* out = reinterpret_cast<float*>(to);
  for (std::size_t i = 0; i < count / sizeof(float); ++i) out[i] += in[i];
  benchmark::ClobberMemory();
}

int serve(const std::string& transport) {
  constexpr std::size_t kMost = std::size_t{64} << 20;
  const auto channel = open_channel(transport, kSocket, 0);
  close(kSocket);
  std::byte* own = array(kMost);
  std::byte* sum = array(kMost);
  bool has_begun = false;
  while (true) {
    const MessageTag tag = await_next(*channel);
    const std::uint64_t number = channel->accept(bytes(tag.bytes));
    if (tag.step == kStop) return 0;
    const std::byte* payload = await_payload(*channel, number);
    if (tag.step == kSum) {
      // As in a loop of sums, the part for the next one leaves as soon as this one is there.
      const auto send_part = [&] { channel->send({.bytes = tag.bytes}, bytes(tag.bytes), own); };
      if (!std::exchange(has_begun, true)) send_part();
      add(payload, sum, tag.bytes);
      channel->release(number);
      send_part();
      continue;
    }
    if (tag.step != kRelease) read(payload, tag.bytes);
    channel->release(number);
    // A release is not seen over sockets, so it is answered.
    const std::size_t answer = tag.step == kEcho ? tag.bytes : 0;
    channel->send({.bytes = answer}, bytes(answer), own);
  }
}

std::pair<FileDescriptor, FileDescriptor> connected(const std::string& transport) {
  int ends[2] = {-1, -1};
  if (transport != "sockets") {
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
    return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
  }
  const FileDescriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* name = reinterpret_cast<sockaddr*>(&address);
  FileDescriptor one(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (bind(listener.get(), name, size) != 0 || listen(listener.get(), 1) != 0 ||
      getsockname(listener.get(), name, &size) != 0 || connect(one.get(), name, size) != 0) {
    std::abort();
  }
  return {std::move(one), FileDescriptor(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC))};
}

// The second process, and the channel to it.
class Peer {
 public:
  explicit Peer(const std::string& transport) {
    auto [mine, other] = connected(transport);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, other.get(), kSocket);
    std::string program = "/proc/self/exe";
    std::string word = "--serve=" + transport;
    char* argv[] = {program.data(), word.data(), nullptr};
    if (posix_spawn(&pid_, program.c_str(), &actions, nullptr, argv, environ) != 0) std::abort();
    posix_spawn_file_actions_destroy(&actions);
    other.reset();
    channel = open_channel(transport, mine.get(), 1);
  }
  ~Peer() {
    channel->send({.step = kStop}, bytes(0), nullptr);
    waitpid(pid_, nullptr, 0);
  }

  std::unique_ptr<Channel> channel;

 private:
  pid_t pid_ = -1;
};

void run(benchmark::State& state, const std::string& transport, Order order, std::size_t count) {
  Peer peer(transport);
  Channel& channel = *peer.channel;
  std::byte* data = array(count);
  std::byte* sum = array(count);
  const auto once = [&] {
    const std::uint64_t sent = channel.send({.step = order, .bytes = count}, bytes(count), data);
    const std::size_t answer = await_next(channel).bytes;
    const std::uint64_t number = channel.accept(bytes(answer));
    const std::byte* payload = await_payload(channel, number);
    order == kSum ? add(payload, sum, answer) : static_cast<void>(read(payload, answer));
    channel.release(number);
    await_done(channel, sent);
  };
  once();  // The peer has started then.
  for (auto _ : state) once();
  for (std::byte* block : {data, sum}) {
    HostAllocator::shared().deallocate(block, std::max(count, HostAllocator::kSmall + 1));
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(count) * state.iterations());
}

void copy(benchmark::State& state, std::size_t count) {
  std::vector<std::byte> from(count, std::byte{1});
  std::vector<std::byte> to(count, std::byte{2});
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), count);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(count) * state.iterations());
}

// Round trips over a socket, by calls that wait.
void pair(benchmark::State& state, const std::string& transport, std::size_t count) {
  auto [mine, other] = connected(transport);
  const auto move = [count](int socket, bool out, std::vector<char>& bytes) {
    for (std::size_t done = 0; done < count;) {
      const ssize_t part =
          out ? ::write(socket, bytes.data() + done, count - done) : ::read(socket, bytes.data() + done, count - done);
      if (part <= 0) return false;
      done += static_cast<std::size_t>(part);
    }
    return true;
  };
  std::vector<char> bytes(count);
  const pid_t child = fork();
  if (child == 0) {
    mine.reset();
    while (move(other.get(), false, bytes) && move(other.get(), true, bytes)) {
    }
    _exit(0);
  }
  other.reset();
  for (auto _ : state) {
    if (!move(mine.get(), true, bytes) || !move(mine.get(), false, bytes)) state.SkipWithError("the connection ended");
  }
  mine.reset();
  waitpid(child, nullptr, 0);
}

// What Open MPI takes over TCP, which it measures itself.
void open_mpi(benchmark::State& state, const std::string& work, std::size_t count) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "openmpi_peer";
  const nlohmann::json request = {{"work", "job_" + work},
                                  {"bytes", count},
                                  {"batch", std::clamp<std::size_t>((std::size_t{32} << 20) / count, 2, 200)},
                                  {"budget", 0.5}};
  const std::string command = fmt::format(
      "mpirun --allow-run-as-root --oversubscribe --bind-to none --mca btl self,tcp -n 2 {} '{}' 2>/dev/null", program,
      request.dump());
  for (auto _ : state) {
    FILE* const output = popen(command.c_str(), "r");
    std::string text;
    for (int letter = 0; output != nullptr && (letter = std::fgetc(output)) != EOF;) text += static_cast<char>(letter);
    if (output != nullptr) pclose(output);
    const auto answer = nlohmann::json::parse(text, nullptr, false);
    if (!answer.contains("seconds")) {
      state.SkipWithError("mpirun has failed");
      break;
    }
    state.SetIterationTime(answer["seconds"]);
  }
}

void register_all() {
  const auto add = [](const std::string& name, auto function, auto... arguments) {
    benchmark::RegisterBenchmark(name.c_str(), function, arguments...)->UseRealTime();
  };
  for (const std::string transport : {"shared_memory", "sockets"}) {
    add(transport + "/round_trip/0B", run, transport, kEcho, std::size_t{0});
    add(transport + "/round_trip/4KiB", run, transport, kEcho, std::size_t{4096});
    for (const auto& [size, name] :
         {std::pair(std::size_t{1} << 20, "1MiB"), std::pair(std::size_t{64} << 20, "64MiB")}) {
      add(transport + "/one_way_read/" + name, run, transport, kRead, size);
      add(transport + "/one_way_release/" + name, run, transport, kRelease, size);
    }
    for (const auto& [size, name] : kSums) add(transport + "/all_reduce/" + name, run, transport, kSum, size);
  }
  add("limit/memcpy/4KiB", copy, std::size_t{4096});
  add("limit/memcpy/1MiB", copy, std::size_t{1} << 20);
  add("limit/memcpy/64MiB", copy, std::size_t{64} << 20);
  if (std::filesystem::exists(std::filesystem::read_symlink("/proc/self/exe").parent_path() / "openmpi_peer")) {
    const auto add_peer = [](const std::string& work, const char* name, std::size_t size) {
      const std::string row = "open_mpi_tcp/" + work + "/" + name;
      benchmark::RegisterBenchmark(row.c_str(), open_mpi, work, size)->UseManualTime()->Iterations(1);
    };
    add_peer("round_trip", "4KiB", 4096);
    for (const auto& [size, name] : kSums) add_peer("all_reduce", name, size);
  }
  for (const std::string transport : {"unix", "sockets"}) {
    add("limit/" + transport + "/round_trip/4KiB", pair, transport, std::size_t{4096});
  }
}

}  // namespace
}  // namespace shoal::bench

int main(int argc, char** argv) {
  const std::string word = argc > 1 ? argv[1] : "";
  if (word.starts_with("--serve=")) return shoal::bench::serve(word.substr(word.find('=') + 1));
  benchmark::Initialize(&argc, argv);
  shoal::bench::register_all();
  benchmark::RunSpecifiedBenchmarks();
}
