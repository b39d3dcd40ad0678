// Collectives between eight devices of one process, with shards of 4 KiB, 1 MiB and 64 MiB.
//
// Each is timed in turns with a memcpy by all threads that reads and writes as many bytes as the collective must, all
// operands and all results once: `memcpy` gives its time, and `ratio` how much longer the collective takes, both as
// medians. What only changes the names of shards must move nothing, and has no ratio.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "base/thread_pool.h"
#include "support.h"

namespace shoal::bench {
namespace {

using Clock = std::chrono::steady_clock;

// Sums of these over the devices are exact.
std::vector<float> numbers(std::size_t count) {
  std::vector<float> x(count);
  for (std::size_t i = 0; i < count; ++i) x[i] = static_cast<float>(i % 1021);
  return x;
}

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

double median(std::vector<double> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

// memcpy as the library's threads can do it; what fits into a core's cache is left to one thread.
class Copier {
 public:
  explicit Copier(std::size_t bytes) : from_(bytes, 1), to_(bytes, 2) {}

  void copy() {
    constexpr std::size_t kAlone = std::size_t{64} << 10;
    const std::size_t bytes = from_.size();
    ThreadPool& pool = ThreadPool::shared();
    const auto pieces = bytes <= kAlone ? std::size_t{1} : static_cast<std::size_t>(pool.thread_count());
    pool.parallel_for(static_cast<std::int64_t>(pieces), [&](std::int64_t piece) {
      const std::size_t begin = bytes * static_cast<std::size_t>(piece) / pieces;
      const std::size_t end = bytes * static_cast<std::size_t>(piece + 1) / pieces;
      std::memcpy(to_.data() + begin, from_.data() + begin, end - begin);
    });
    benchmark::ClobberMemory();
  }

 private:
  std::vector<char> from_;
  std::vector<char> to_;
};

// `shards_moved` counts the shards that are read and written at least.
template <class F>
void run(benchmark::State& state, F collective, const PartitionSpec& out, std::size_t shards_moved,
         const std::vector<float>& want) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const Mesh mesh = eight_devices();
  // A matrix, so that all_to_all has dimensions to exchange.
  const auto columns = static_cast<std::int64_t>(bytes / sizeof(float) / kDevices);
  const Array x = device_put(array(numbers(kDevices * bytes / sizeof(float))).reshape({kDevices * kDevices, columns}),
                             NamedSharding(mesh, P("x")));
  // What the devices gather is equal on all, but not by its type.
  const auto f = jit(shard_map(collective, {.mesh = mesh, .in_specs = P("x"), .out_specs = out, .check_vma = false}));
  Copier copier(shards_moved * bytes / 2);
  copier.copy();
  Array y = f(x);  // Compiles.
  y.block_until_ready();
  std::vector<double> times;
  std::vector<double> copies;
  for (auto _ : state) {
    const Clock::time_point begin = Clock::now();
    y = f(x);
    y.block_until_ready();
    const Clock::time_point middle = Clock::now();
    copier.copy();
    const Clock::time_point end = Clock::now();
    times.push_back(seconds(middle - begin));
    copies.push_back(seconds(end - middle));
    state.SetIterationTime(times.back());
  }
  check_result(state, y, want);
  if (shards_moved == 0) return;
  state.counters["memcpy"] = median(copies);
  state.counters["ratio"] = median(times) / median(copies);
}

std::size_t elements(const benchmark::State& state) { return static_cast<std::size_t>(state.range(0)) / sizeof(float); }

std::vector<float> sums(std::size_t shard) {
  const std::vector<float> all = numbers(kDevices * shard);
  std::vector<float> sum(shard);
  for (std::size_t i = 0; i < all.size(); ++i) sum[i % shard] += all[i];
  return sum;
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Arg(4 << 10)->Arg(1 << 20)->Arg(64 << 20)->UseManualTime()->MinTime(0.2);
}

void Psum(benchmark::State& state) {
  run(
      state, [](Array x) { return lax::psum(x, "x"); }, P(), kDevices + 1, sums(elements(state)));
}
BENCHMARK(Psum)->Apply(sizes);

void PsumScatter(benchmark::State& state) {
  run(
      state, [](Array x) { return lax::psum_scatter(x, "x", {.tiled = true}); }, P("x"), kDevices + 1,
      sums(elements(state)));
}
BENCHMARK(PsumScatter)->Apply(sizes);

void AllGather(benchmark::State& state) {
  run(
      state, [](Array x) { return lax::all_gather(x, "x", {.tiled = true}); }, P(), 2 * kDevices,
      numbers(kDevices * elements(state)));
}
BENCHMARK(AllGather)->Apply(sizes);

// The matrix stays what it is, and is split along the other dimension.
void AllToAll(benchmark::State& state) {
  run(
      state, [](Array x) { return lax::all_to_all(x, "x", {.split_axis = 1, .concat_axis = 0, .tiled = true}); },
      P(none, "x"), 2 * kDevices, numbers(kDevices * elements(state)));
}
BENCHMARK(AllToAll)->Apply(sizes);

void Ppermute(benchmark::State& state) {
  std::vector<std::pair<int, int>> ring;
  for (int i = 0; i < kDevices; ++i) ring.emplace_back(i, (i + 1) % kDevices);
  std::vector<float> want = numbers(kDevices * elements(state));
  std::rotate(want.begin(), want.end() - static_cast<std::ptrdiff_t>(elements(state)), want.end());
  run(
      state, [&](Array x) { return lax::ppermute(x, "x", ring); }, P("x"), 0, want);
}
BENCHMARK(Ppermute)->Apply(sizes);

}  // namespace
}  // namespace shoal::bench
