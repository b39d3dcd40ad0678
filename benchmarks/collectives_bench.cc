// Collectives between eight devices of one process, a shard of 1 MiB on each.
//
// bytes_per_second counts the 8 MiB that all operands have together. Memcpy copies as many bytes, with the threads that
// the library uses; MemcpyToNew copies them to memory that is allocated for each copy, as that of a result is.
#include <cstring>
#include <memory>
#include <vector>

#include "base/thread_pool.h"
#include "support.h"

namespace shoal::bench {
namespace {

constexpr std::size_t kShard = (1 << 20) / sizeof(float);  // Elements.
constexpr std::size_t kAll = kDevices * kShard;

// Sums of these over the devices are exact.
std::vector<float> numbers() {
  std::vector<float> x(kAll);
  for (std::size_t i = 0; i < kAll; ++i) x[i] = static_cast<float>(i % 1021);
  return x;
}

void count_bytes(benchmark::State& state) {
  state.SetBytesProcessed(static_cast<std::int64_t>(kAll * sizeof(float)) * state.iterations());
}

void copy(const std::vector<float>& from, float* to) {
  ThreadPool& pool = ThreadPool::shared();
  const auto pieces = static_cast<std::size_t>(pool.thread_count());
  pool.parallel_for(pool.thread_count(), [&](std::int64_t piece) {
    const std::size_t begin = kAll * static_cast<std::size_t>(piece) / pieces;
    const std::size_t end = kAll * static_cast<std::size_t>(piece + 1) / pieces;
    std::memcpy(to + begin, from.data() + begin, (end - begin) * sizeof(float));
  });
  benchmark::ClobberMemory();
}

void Memcpy(benchmark::State& state) {
  const std::vector<float> from = numbers();
  std::vector<float> to(kAll);
  for (auto _ : state) copy(from, to.data());
  count_bytes(state);
}
BENCHMARK(Memcpy)->UseRealTime();

void MemcpyToNew(benchmark::State& state) {
  const std::vector<float> from = numbers();
  for (auto _ : state) {
    const std::unique_ptr<float[]> to(new float[kAll]);
    copy(from, to.get());
  }
  count_bytes(state);
}
BENCHMARK(MemcpyToNew)->UseRealTime();

template <class F>
void run(benchmark::State& state, F collective, const PartitionSpec& out, const std::vector<float>& want) {
  const Mesh mesh = eight_devices();
  const Array x = device_put(array(numbers()), NamedSharding(mesh, P("x")));
  // What the devices gather is equal on all, but not by its type.
  const auto f = jit(shard_map(collective, {.mesh = mesh, .in_specs = P("x"), .out_specs = out, .check_vma = false}));
  Array y = f(x);  // Compiles.
  for (auto _ : state) {
    y = f(x);
    y.block_until_ready();
  }
  check_result(state, y, want);
  count_bytes(state);
}

Array psum(Array x) { return lax::psum(x, "x"); }
Array psum_scatter(Array x) { return lax::psum_scatter(x, "x", {.tiled = true}); }
Array all_gather(Array x) { return lax::all_gather(x, "x", {.tiled = true}); }

std::vector<float> sums() {
  const std::vector<float> all = numbers();
  std::vector<float> sum(kShard);
  for (std::size_t i = 0; i < kAll; ++i) sum[i % kShard] += all[i];
  return sum;
}

void Psum(benchmark::State& state) { run(state, psum, P(), sums()); }
BENCHMARK(Psum)->UseRealTime();

void PsumScatter(benchmark::State& state) { run(state, psum_scatter, P("x"), sums()); }
BENCHMARK(PsumScatter)->UseRealTime();

void AllGather(benchmark::State& state) { run(state, all_gather, P(), numbers()); }
BENCHMARK(AllGather)->UseRealTime();

}  // namespace
}  // namespace shoal::bench
