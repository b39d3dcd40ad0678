// What several processes of one host do together: `shoal run -n 2 -- processes_bench`.
//
// The barrier; psum of one device each, in a loop y = f(y), of 4 KiB, 1 MiB and 64 MiB; and collectives of 4 devices
// each, of 64 MiB per device. These are compared with `fewest`: the time of copying, in all processes at once, as many
// bytes as a process must read and write (docs/performance.md has the formulas). `checks` is what a call spends on
// saying what it belongs to and on comparing what others say. Every result is checked.
#include <fmt/format.h>
#include <shoal/distributed.h>
#include <shoal/multihost.h>
#include <shoal/shoal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "comm/transport/channel.h"

namespace shoal::bench {
namespace {

constexpr int kDevices = 4;  // Of each process.
constexpr std::int64_t kMiB = std::int64_t{1} << 20;

double median(std::vector<double> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

std::string text_of(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.2f} us", seconds * 1e6);
  return fmt::format("{:.2f} ms", seconds * 1e3);
}

void print(const std::string& name, const std::string& text) {
  if (process_index() == 0) std::cout << fmt::format("{:<38}{}", name, text) << std::endl;
}

// The median over batches of the seconds of a call of `batch`, which makes so many calls. Equal in all processes in
// how often it calls, so that they stay together.
double time_of(int batches, int calls, const std::function<void(int calls)>& batch) {
  batch(calls);
  std::vector<double> times;
  for (int i = 0; i < batches; ++i) {
    multihost::sync_global_devices("benchmark");
    const Clock::time_point begin = Clock::now();
    batch(calls);
    times.push_back(std::chrono::duration<double>(Clock::now() - begin).count() / calls);
  }
  return median(times);
}

// A mesh of the first devices of each process.
Mesh mesh_of(int devices_each) {
  std::vector<Device> some;
  for (int process = 0; process < process_count(); ++process) {
    int left = devices_each;
    for (const Device& device : devices()) {
      if (device.process_index == process && left > 0) {
        some.push_back(device);
        --left;
      }
    }
  }
  const auto count = static_cast<std::int64_t>(some.size());
  return {some, Shape{count}, {"x"}};
}

// Shards of `elements` that are 1, 2, ... along the mesh.
Array numbered(const Mesh& mesh, std::int64_t elements) {
  const auto count = static_cast<std::int64_t>(mesh.devices().size());
  return make_array_from_callback({count * elements}, NamedSharding(mesh, P("x")), [&](const ShardIndex& index) {
    return full({elements}, static_cast<float>(*index[0].start / elements + 1));
  });
}

// Every element of every shard that is here must be what value(its place) says.
void check(const std::string& name, const Array& array, const std::function<float(std::int64_t)>& value) {
  for (const Shard& shard : array.addressable_shards()) {
    const std::vector<float> elements = shard.data.to_vector<float>();
    const std::int64_t start = shard.index[0].start.value_or(0);
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const float wanted = value(start + static_cast<std::int64_t>(i));
      if (elements[i] == wanted) continue;
      throw std::runtime_error(fmt::format("{}: element {} is {} instead of {}", name,
                                           start + static_cast<std::int64_t>(i), elements[i], wanted));
    }
  }
}

double time_psum(std::int64_t bytes) {
  const Mesh mesh = mesh_of(1);
  const std::int64_t elements = bytes / 4;
  const Array x = numbered(mesh, elements);
  const auto sum = jit(shard_map([](Array v) { return lax::psum(v, "x"); },
                                 {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x"), .check_vma = false}));
  const auto n = static_cast<float>(process_count());
  check("psum", sum(x), [&](std::int64_t) { return n * (n + 1) / 2; });
  const int calls = static_cast<int>(std::clamp<std::int64_t>(32 * kMiB / bytes, 4, 2000));
  const double seconds = time_of(15, calls, [&](int count) {
    Array y = x;
    for (int i = 0; i < count; ++i) y = sum(y);
    y.block_until_ready();
  });
  print(fmt::format("psum {} KiB, 1 device each", bytes / 1024), text_of(seconds));
  return seconds;
}

// Bytes per second that all processes copy at once, read and written ones together.
double copy_speed() {
  constexpr std::size_t kBytes = std::size_t{256} << 20;
  std::vector<char> from(kBytes, 1);
  std::vector<char> to(kBytes, 2);
  const double seconds = time_of(7, 1, [&](int) { std::memcpy(to.data(), from.data(), kBytes); });
  if (to.back() != 1) throw std::runtime_error("a copy differs");
  print("copy", fmt::format("{:.1f} GB/s read and written in each process", 2 * kBytes / seconds * 1e-9));
  return 2 * kBytes / seconds;
}

void time_collectives() {
  const Mesh mesh = mesh_of(kDevices);
  const auto count = static_cast<std::int64_t>(mesh.devices().size());
  const std::int64_t elements = 64 * kMiB / 4;
  const double shard = 64 * kMiB;
  const double processes = process_count();
  const double speed = copy_speed();
  const Array x = numbered(mesh, elements);
  const auto run = [&](const std::string& name, const PartitionSpec& out, double bytes,
                       const std::function<Array(Array)>& f, const std::function<float(std::int64_t)>& value) {
    const auto mapped = jit(shard_map(f, {.mesh = mesh, .in_specs = P("x"), .out_specs = out, .check_vma = false}));
    check(name, mapped(x), value);
    const double seconds = time_of(5, 2, [&](int calls) {
      for (int i = 0; i < calls; ++i) mapped(x).block_until_ready();
    });
    const double fewest = bytes / speed;
    print(fmt::format("{} 64 MiB, {} devices each", name, kDevices),
          fmt::format("{}; fewest {}, {:.2f} times", text_of(seconds), text_of(fewest), seconds / fewest));
  };
  const auto total = static_cast<float>(count * (count + 1) / 2);
  run(
      "psum", P(), (kDevices + 2 * (processes - 1) / processes + 1) * shard, [](Array v) { return lax::psum(v, "x"); },
      [&](std::int64_t) { return total; });
  run(
      "all_gather", P(), 2 * processes * kDevices * shard,
      [](Array v) { return lax::all_gather(v, "x", {.axis = 0, .tiled = true}); },
      [&](std::int64_t i) { return static_cast<float>(i / elements + 1); });
  run(
      "psum_scatter", P("x"), (kDevices + (processes - 1) / processes + 1 / processes) * shard,
      [](Array v) { return lax::psum_scatter(v, "x", {.scatter_dimension = 0, .tiled = true}); },
      [&](std::int64_t) { return total; });
  run(
      "all_to_all", P("x"), 2 * kDevices * shard,
      [](Array v) { return lax::all_to_all(v, "x", {.split_axis = 0, .concat_axis = 0, .tiled = true}); },
      [&](std::int64_t i) { return static_cast<float>(i % elements / (elements / count) + 1); });
  std::vector<std::pair<int, int>> ring;
  for (int i = 0; i < static_cast<int>(count); ++i) ring.emplace_back(i, (i + 1) % static_cast<int>(count));
  run(
      "ppermute", P("x"), 2 * shard, [&](Array v) { return lax::ppermute(v, "x", ring); },
      [&](std::int64_t i) { return static_cast<float>((i / elements + count - 1) % count + 1); });
}

// What a launch of one argument does to say what it belongs to, and to compare one message.
void time_checks(double psum) {
  constexpr int kCalls = 100'000;
  Digest lineage = {1, 2};
  MessageTag here{.communicator = 1, .program = {3, 4}};
  bool same = true;
  const double seconds = time_of(7, 1,
                                 [&](int) {
                                   for (int i = 0; i < kCalls; ++i) {
                                     lineage = digest_of(digest_of(lineage.data(), sizeof lineage, here.program), 0);
                                     here.lineage = lineage;
                                     here.sequence += 1;
                                     const MessageTag there = here;
                                     asm volatile("" : : "r"(&there) : "memory");
                                     same = same && here == there;
                                   }
                                 }) /
                         kCalls;
  if (!same) throw std::runtime_error("equal tags differ");
  print("checks of a call", fmt::format("{}, {:.1f} % of a psum of 4 KiB", text_of(seconds), 100 * seconds / psum));
}

int run() {
  if (!std::getenv("SHOAL_NUM_CPU_DEVICES")) set_num_cpu_devices(kDevices);
  distributed::initialize();
  if (process_count() < 2) {
    std::cerr << "processes_bench compares several processes: start it by shoal run -n 2 -- processes_bench\n";
    return 2;
  }
  const double barrier = time_of(15, 200, [](int calls) {
    for (int i = 0; i < calls; ++i) multihost::sync_global_devices("barrier");
  });
  print(fmt::format("barrier, {} processes", process_count()), text_of(barrier));
  time_checks(time_psum(4096));
  time_psum(kMiB);
  time_psum(64 * kMiB);
  time_collectives();
  distributed::shutdown();
  return 0;
}

}  // namespace
}  // namespace shoal::bench

int main() {
  try {
    return shoal::bench::run();
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << std::endl;
    return 1;
  }
}
