// What the processes of a job share with their host: cores, memory, and the ports at which they listen.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/resources.h"
#include "base/thread_pool.h"
#include "core/host_allocator.h"
#include "support.h"

namespace shoal {
namespace {

namespace fs = std::filesystem;
using multiprocess::everywhere;
using multiprocess::Job;
using multiprocess::numbers;
using multiprocess::Outcome;
using multiprocess::print_bits;
using multiprocess::Registered;
using multiprocess::rows;
using multiprocess::told;

// Computes, so that everything is in use that a program needs. The elements divide among up to six processes.
float total() {
  const Array x = device_put(arange(60.0F), rows());
  return jit([](Array v) { return v.sum(); })(x).item<float>();
}

// ---- Cores and memory.

const Registered kShare("share", [] {
  std::cout << "total: " << total() << std::endl;
  std::cout << "threads: " << ThreadPool::shared().thread_count() << std::endl;
  std::cout << "memory: " << HostAllocator::shared().limit() << std::endl;
});

const std::map<std::string, std::string> kNothingSaid{{"SHOAL_NUM_THREADS", ""}, {"SHOAL_MEMORY_LIMIT", ""}};

std::vector<int> threads_of(const std::vector<Outcome>& outcomes) {
  std::vector<int> threads;
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(told(outcome, "total"), "1770");
    threads.push_back(std::stoi(told(outcome, "threads")));
  }
  return threads;
}

TEST(ProcessesOfAHost, DivideItsCores) {
  const int cores = usable_cpu_count();
  for (const int processes : {1, 2, 3, 5}) {
    const Job job{
        .program = "share", .devices = std::vector<int>(static_cast<std::size_t>(processes), 1), .env = kNothingSaid};
    std::vector<int> expected;
    for (int i = 0; i < processes; ++i) {
      expected.push_back(std::max(1, cores / processes + (i < cores % processes ? 1 : 0)));
    }
    EXPECT_EQ(threads_of(multiprocess::run(job)), expected);
  }
}

// As launchers bind them: what each has for itself stays its own.
TEST(ProcessesOfAHost, DoNotDivideCoresOfOneOfThem) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  std::vector<std::size_t> cores;
  for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &all)) cores.push_back(core);
  }
  if (cores.size() < 2) GTEST_SKIP() << "there is one core";
  const std::size_t half = cores.size() / 2;
  Job job{.program = "share", .devices = {1, 1}, .env = kNothingSaid};
  job.in_child = [&](std::size_t process) {
    cpu_set_t own;
    CPU_ZERO(&own);
    for (std::size_t i = 0; i < cores.size(); ++i) {
      if ((i < half) == (process == 0)) CPU_SET(cores[i], &own);
    }
    sched_setaffinity(0, sizeof own, &own);
  };
  const int quota = usable_cpu_count();  // That of the control group may be less than the cores.
  const auto expected = [&](std::size_t own) {
    return quota == static_cast<int>(cores.size()) ? static_cast<int>(own) : std::min(static_cast<int>(own), quota);
  };
  const std::vector<int> threads = threads_of(multiprocess::run(job));
  EXPECT_LE(threads[0], expected(half));
  EXPECT_LE(threads[1], expected(cores.size() - half));
  if (quota == static_cast<int>(cores.size())) {
    EXPECT_EQ(threads, (std::vector<int>{static_cast<int>(half), static_cast<int>(cores.size() - half)}));
  }
}

TEST(ProcessesOfAHost, DivideItsMemory) {
  for (const int processes : {1, 2, 4}) {
    const Job job{
        .program = "share", .devices = std::vector<int>(static_cast<std::size_t>(processes), 1), .env = kNothingSaid};
    for (const Outcome& outcome : multiprocess::run(job)) {
      EXPECT_EQ(told(outcome, "memory"), std::to_string(usable_memory() / static_cast<std::size_t>(processes)));
    }
  }
}

TEST(ProcessesOfAHost, DoWhatVariablesSay) {
  const Job job{
      .program = "share", .devices = {1, 1}, .env = {{"SHOAL_NUM_THREADS", "3"}, {"SHOAL_MEMORY_LIMIT", "1GiB"}}};
  for (const Outcome& outcome : multiprocess::run(job)) {
    EXPECT_EQ(told(outcome, "threads"), "3");
    EXPECT_EQ(told(outcome, "memory"), std::to_string(std::size_t{1} << 30));
  }
}

/// A real control group with this limit of memory, below that of this process; an empty path where none can be made.
class MemoryGroup {
 public:
  struct GroupFiles {
    const char* mount;
    const char* limit;
  };

  explicit MemoryGroup(std::size_t limit) {
    for (const GroupFiles& files :
         {GroupFiles{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}, GroupFiles{"/sys/fs/cgroup", "memory.max"}}) {
      const fs::path folder = fs::path(files.mount) / ("shoal_test_" + std::to_string(getpid()));
      std::error_code refused;
      if (!fs::create_directory(folder, refused)) continue;
      std::ofstream(folder / files.limit) << limit << std::flush;
      std::size_t found = 0;
      if (std::ifstream(folder / files.limit) >> found && found == limit) {
        folder_ = folder;
        return;
      }
      fs::remove(folder, refused);
    }
  }
  ~MemoryGroup() {
    if (!folder_.empty()) rmdir(folder_.c_str());
  }
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;

  bool is_there() const { return !folder_.empty(); }
  /// Moves the calling process into the group.
  void enter() const { std::ofstream(folder_ / "cgroup.procs") << 0 << std::flush; }

 private:
  fs::path folder_;
};

// Processes 0 and 1 have a limit together, and process 2 has none but that of the machine.
TEST(ProcessesOfAHost, KeepToTheirControlGroup) {
  constexpr std::size_t kLimit = std::size_t{512} << 20;
  const MemoryGroup group(kLimit);
  if (!group.is_there()) GTEST_SKIP() << "this user cannot make a control group for memory";
  Job job{.program = "share", .devices = {1, 1, 1}, .env = kNothingSaid};
  job.in_child = [&](std::size_t process) {
    if (process < 2) group.enter();
  };
  const std::vector<Outcome> outcomes = multiprocess::run(job);
  EXPECT_EQ(told(outcomes[0], "memory"), std::to_string(kLimit / 2));
  EXPECT_EQ(told(outcomes[1], "memory"), std::to_string(kLimit / 2));
  EXPECT_GE(std::stoull(told(outcomes[2], "memory")), usable_memory() / 3);
}

// ---- Processes that compute with several threads each.

void many_threads() {
  const Mesh mesh = everywhere();
  const Array a = device_put(numbers({256, 192}), rows());
  const Array b = device_put(numbers({192, 160}), NamedSharding(mesh, P(none, "x")));
  const auto f = jit([](Array x, Array y) {
    const Array product = matmul(x, y);
    return std::tuple{product, tanh(product).sum(), exp(product * 0.1).sum({.axis = 0})};
  });
  const auto [product, sum, columns] = f(a, b);
  print_bits("product", multihost::to_host(product));
  print_bits("sum", multihost::to_host(sum));
  print_bits("columns", multihost::to_host(columns));
  const Array large = device_put(numbers({1 << 20}), rows());
  const auto all = [](Array v) { return lax::psum(sin(v), "x"); };
  print_bits("psum",
             multihost::to_host(jit(shard_map(all, {.mesh = mesh, .in_specs = P("x"), .out_specs = P()}))(large)));
  print_bits("sorted", multihost::to_host(jit([](Array v) { return sort(v); })(large)));
}
const Registered kManyThreads("many_threads", many_threads);

TEST(ProcessesOfAHost, GiveTheSameBitsWithManyThreads) {
  multiprocess::expect_same("many_threads", {{4, 4}, {3, 3, 2}}, 3);
}

// ---- Who can reach them.

// Where this process listens, besides sockets of Unix.
std::string own_listeners() {
  std::string text;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    const int descriptor = std::stoi(entry.path().filename());
    int listens = 0;
    socklen_t size = sizeof listens;
    if (getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0) continue;
    sockaddr_storage address{};
    size = sizeof address;
    std::array<char, INET6_ADDRSTRLEN> name{};
    if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0) continue;
    const void* number = nullptr;
    if (address.ss_family == AF_INET) number = &reinterpret_cast<const sockaddr_in&>(address).sin_addr;
    if (address.ss_family == AF_INET6) number = &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
    if (number != nullptr) text += std::string(" ") + inet_ntop(address.ss_family, number, name.data(), name.size());
  }
  return text;
}

const Registered kListen("listen", [] {
  total();
  std::cout << "listens:" << own_listeners() << std::endl;
});

TEST(ProcessesOfAHost, ListenAtLoopbackAlone) {
  for (const std::string transport : {"", "socket"}) {
    const Job job{.program = "listen",
                  .devices = {1, 1, 1},
                  .env = {{"SHOAL_TRANSPORT", transport}, {"SHOAL_SOCKET_INTERFACE", "eth0"}}};
    const std::vector<Outcome> outcomes = multiprocess::run(job);
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      // Process 0 has the coordinator, too.
      EXPECT_EQ(outcomes[i].output, i == 0 ? "listens: 127.0.0.1 127.0.0.1\n" : "listens: 127.0.0.1\n");
    }
  }
  const Job shared{.program = "listen", .devices = {1, 1}, .env = {{"SHOAL_TRANSPORT", "shm"}}};
  EXPECT_EQ(multiprocess::run(shared)[1].output, "listens:\n");
}

}  // namespace
}  // namespace shoal
