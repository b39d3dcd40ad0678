// The cost of a call: a jitted 2 * sin(x) + 1 on 64 numbers, which computes next to nothing.
//
// PlainLoop is the limit: the same function of the same numbers as a C++ loop, one after the other on one core.
#include <cmath>
#include <vector>

#include "support.h"

namespace shoal::bench {
namespace {

constexpr int kElements = 64;

std::vector<float> plain_loop(const std::vector<float>& x) {
  std::vector<float> y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = 2 * std::sin(x[i]) + 1;
  return y;
}

std::vector<float> numbers() {
  std::vector<float> x;
  for (int i = 0; i < kElements; ++i) x.push_back(0.1F * static_cast<float>(i));
  return x;
}

void PlainLoop(benchmark::State& state) {
  const std::vector<float> x = numbers();
  for (auto _ : state) {
    std::vector<float> y = plain_loop(x);
    benchmark::DoNotOptimize(y.data());
    benchmark::ClobberMemory();
  }
}
BENCHMARK(PlainLoop);

void call(benchmark::State& state, const Sharding& sharding) {
  const Array x = device_put(array(numbers()), sharding);
  const auto f = jit([](Array v) { return 2 * sin(v) + 1; });
  Array y = f(x);  // Compiles.
  for (auto _ : state) {
    y = f(x);
    y.block_until_ready();
  }
  check_result(state, y, plain_loop(numbers()), 1e-6F);
}

void JitOneDevice(benchmark::State& state) { call(state, SingleDeviceSharding(eight_devices().devices()[0])); }
BENCHMARK(JitOneDevice);

void JitReplicatedOverEight(benchmark::State& state) { call(state, NamedSharding(eight_devices(), P())); }
BENCHMARK(JitReplicatedOverEight);

void JitShardedOverEight(benchmark::State& state) { call(state, NamedSharding(eight_devices(), P("x"))); }
BENCHMARK(JitShardedOverEight);

}  // namespace
}  // namespace shoal::bench
