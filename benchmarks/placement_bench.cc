// device_put of 256 MiB to all of eight devices: from the host, and from an array that one of them holds. "MiB" is by
// how much the memory of the process has grown at most.
//
// Copy is the limit: memcpy of the same bytes to new memory, by all threads.
#include <cstring>
#include <memory>
#include <vector>

#include "base/thread_pool.h"
#include "memory_growth.h"
#include "streams.h"
#include "support.h"

namespace shoal::bench {
namespace {

constexpr std::int64_t kElements = std::int64_t{256} << 18;

std::vector<float> numbers() {
  std::vector<float> x(static_cast<std::size_t>(kElements));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 1021);
  return x;
}

void Copy(benchmark::State& state) {
  const std::vector<float> from = numbers();
  for (auto _ : state) {
    const std::unique_ptr<float[]> to(new float[from.size()]);
    for_each_piece(kElements, [&](std::int64_t begin, std::int64_t count) {
      std::memcpy(to.get() + begin, from.data() + begin, static_cast<std::size_t>(count) * sizeof(float));
    });
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * kElements * 4);
}
BENCHMARK(Copy)->UseRealTime()->Unit(benchmark::kMillisecond);

template <class F>
void replicate(benchmark::State& state, const std::vector<float>& elements, F&& source) {
  const NamedSharding everywhere(eight_devices(), P());
  device_put(zeros({64}), everywhere).block_until_ready();
  const MemoryGrowth growth;
  Array y;
  for (auto _ : state) {
    y = Array();
    y = device_put(source(), everywhere);
    y.block_until_ready();
  }
  state.counters["MiB"] = growth.mib();
  check_result(state, y, elements);
  state.SetBytesProcessed(state.iterations() * kElements * 4);
}

void FromHost(benchmark::State& state) {
  const std::vector<float> elements = numbers();
  replicate(state, elements, [&] { return array(elements); });
}
BENCHMARK(FromHost)->UseRealTime()->Unit(benchmark::kMillisecond);

void FromDevice(benchmark::State& state) {
  const std::vector<float> elements = numbers();
  const Array x = device_put(array(elements), eight_devices().devices()[0]);
  replicate(state, elements, [&] { return x; });
}
BENCHMARK(FromDevice)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace shoal::bench
