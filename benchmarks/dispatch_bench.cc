// The cost of a call: functions of so few numbers that computing takes next to nothing.
//
// Of 2 * sin(x) + 1 on 64 numbers, PlainLoop is the limit: the same function as a C++ loop on one core. x + 1 and psum,
// on 8 numbers, have none but the cost of an allocation or two.
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

constexpr int kFew = 8;

std::vector<float> few_numbers(float first = 0) {
  std::vector<float> x(kFew);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = first + static_cast<float>(i);
  return x;
}

void add_one(benchmark::State& state, const Sharding& sharding) {
  const Array x = device_put(array(few_numbers()), sharding);
  const auto f = jit([](Array v) { return v + 1; });
  Array y = f(x);
  for (auto _ : state) {
    y = f(x);
    y.block_until_ready();
  }
  check_result(state, y, few_numbers(1));
}

void AddOneJitOneDevice(benchmark::State& state) { add_one(state, SingleDeviceSharding(eight_devices().devices()[0])); }
BENCHMARK(AddOneJitOneDevice);

void AddOneJitOverEight(benchmark::State& state) { add_one(state, NamedSharding(eight_devices(), P("x"))); }
BENCHMARK(AddOneJitOverEight);

// Two kinds of arguments in turn, so that the call is never that of last time.
void AddOneJitTwoShapes(benchmark::State& state) {
  const Array x = array(few_numbers());
  const Array pair = array({5.0, 6.0});
  const auto f = jit([](Array v) { return v + 1; });
  Array y;
  Array z;
  for (auto _ : state) {
    y = f(x);
    z = f(pair);
    z.block_until_ready();
  }
  check_result(state, y, few_numbers(1));
  check_result(state, z, {6, 7});
}
BENCHMARK(AddOneJitTwoShapes);

// The sum over eight devices of one number on each.
void PsumOverEight(benchmark::State& state) {
  const Mesh mesh = eight_devices();
  const Array x = device_put(array(few_numbers()), NamedSharding(mesh, P("x")));
  const auto f =
      jit(shard_map([](Array v) { return lax::psum(v, "x"); }, {.mesh = mesh, .in_specs = P("x"), .out_specs = P()}));
  Array y = f(x);
  for (auto _ : state) {
    y = f(x);
    y.block_until_ready();
  }
  check_result(state, y, {28});
}
BENCHMARK(PsumOverEight);

void AddOneEager(benchmark::State& state) {
  const Array x = array(few_numbers());
  Array y = x + 1;
  for (auto _ : state) {
    y = x + 1;
    y.block_until_ready();
  }
  check_result(state, y, few_numbers(1));
}
BENCHMARK(AddOneEager);

// The first time for each shape, compiling included.
void AddOneEagerNewShape(benchmark::State& state) {
  static std::int64_t size = 0;
  Array y;
  for (auto _ : state) {
    state.PauseTiming();
    const Array x = zeros({++size});
    state.ResumeTiming();
    y = x + 1;
    y.block_until_ready();
  }
  check_result(state, y, std::vector<float>(static_cast<std::size_t>(size), 1));
}
BENCHMARK(AddOneEagerNewShape)->Iterations(500);

void DonatedAddOne(benchmark::State& state) {
  const auto f = jit([](Array v) { return v + 1; }, {.donate_argnums = {0}});
  Array x = array(few_numbers());
  std::int64_t calls = 0;
  for (auto _ : state) {
    x = f(x);
    ++calls;
  }
  check_result(state, x, few_numbers(static_cast<float>(calls)), 0);
}
BENCHMARK(DonatedAddOne)->Iterations(100000);  // So that the numbers stay exact.

// Arguments in a tree, of which most are only handed on.
void ManyArguments(benchmark::State& state) {
  std::vector<Array> leaves;
  for (int i = 0; i < 100; ++i) leaves.push_back(array(few_numbers(static_cast<float>(i))));
  const auto f = jit([](std::vector<Array> list) { return list.front() + list.back(); });
  Array y = f(leaves);
  for (auto _ : state) {
    y = f(leaves);
    y.block_until_ready();
  }
  check_result(state, y, {99, 101, 103, 105, 107, 109, 111, 113});
}
BENCHMARK(ManyArguments);

}  // namespace
}  // namespace shoal::bench
