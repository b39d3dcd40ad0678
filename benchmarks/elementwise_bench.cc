// Elementwise functions over memory: 64 and 512 MiB of f32, on one device and over eight, into fresh and into donated
// memory. bytes_per_second counts what is read and what is written.
//
// Copy and InPlace are the limits: what all threads do together on arrays in huge pages.
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "streams.h"
#include "support.h"

namespace shoal::bench {
namespace {

float number(std::int64_t i) { return static_cast<float>(i * 7919 % 1000) / 1000.0F - 0.5F; }

struct Function {
  Array (*of_array)(Array);
  double (*of_number)(double);
};
constexpr Function kSigmoid = {[](Array x) { return 0.5 * (tanh(0.5 * x) + 1); },
                               [](double x) { return 0.5 * (std::tanh(0.5 * x) + 1); }};
constexpr Function kLinear = {[](Array x) { return 2.5 * x + 1.25; }, [](double x) { return 2.5 * x + 1.25; }};
constexpr Function kSine = {[](Array x) { return 2 * sin(x) + 1; }, [](double x) { return 2 * std::sin(x) + 1; }};

std::int64_t elements(const benchmark::State& state) { return state.range(0) << 18; }

void count_bytes(benchmark::State& state) { state.SetBytesProcessed(state.iterations() * 2 * 4 * elements(state)); }

Array operand(const benchmark::State& state) {
  std::vector<float> x(static_cast<std::size_t>(elements(state)));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = number(static_cast<std::int64_t>(i));
  const Mesh mesh = eight_devices();
  return state.range(1) == 1 ? device_put(array(x), mesh.devices()[0])
                             : device_put(array(x), NamedSharding(mesh, P("x")));
}

// Some elements, against the function computed in f64.
void check_some(benchmark::State& state, const Array& y, const Function& function) {
  constexpr std::int64_t kStep = 104'729;  // A prime: all rests of the period.
  const std::vector<float> got = y.to_vector<float>();
  for (std::int64_t i = 0; i < elements(state); i += kStep) {
    const double want = function.of_number(static_cast<double>(number(i)));
    if (std::abs(static_cast<double>(got[static_cast<std::size_t>(i)]) - want) <= 1e-6 * (1 + std::abs(want))) continue;
    state.SkipWithError(
        fmt::format("element {} is {} instead of {}", i, got[static_cast<std::size_t>(i)], want).c_str());
    return;
  }
}

void fresh(benchmark::State& state, const Function& function) {
  const Array x = operand(state);
  const auto f = jit(function.of_array);
  Array y = f(x);  // Compiles.
  for (auto _ : state) {
    y = f(x);
    y.block_until_ready();
  }
  check_some(state, y, function);
  count_bytes(state);
}

void donated(benchmark::State& state, const Function& function) {
  const auto f = jit(function.of_array, {.donate_argnums = {0}});
  Array x = f(operand(state));  // Compiles.
  check_some(state, x, function);
  for (auto _ : state) {
    x = f(x);
    x.block_until_ready();
  }
  count_bytes(state);
}

void Copy(benchmark::State& state) {
  const Stream from(elements(state)), to(elements(state));
  for (auto _ : state) {
    for_each_piece(elements(state), [&](std::int64_t begin, std::int64_t count) {
      std::memcpy(to.data() + begin, from.data() + begin, static_cast<std::size_t>(count) * sizeof(float));
    });
    benchmark::ClobberMemory();
  }
  count_bytes(state);
}
BENCHMARK(Copy)->ArgName("MiB")->Arg(64)->Arg(512)->UseRealTime()->Unit(benchmark::kMillisecond);

void InPlace(benchmark::State& state) {
  const Stream x(elements(state));
  for (auto _ : state) {
    for_each_piece(elements(state), [&](std::int64_t begin, std::int64_t count) {
      for (std::int64_t i = begin; i < begin + count; ++i) x.data()[i] = 0.5F * x.data()[i] + 0.25F;
    });
    benchmark::ClobberMemory();
  }
  count_bytes(state);
}
BENCHMARK(InPlace)->ArgName("MiB")->Arg(64)->Arg(512)->UseRealTime()->Unit(benchmark::kMillisecond);

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"MiB", "devices"})->ArgsProduct({{64, 512}, {1, kDevices}});
  benchmark->UseRealTime()->Unit(benchmark::kMillisecond);
}
BENCHMARK_CAPTURE(fresh, sigmoid, kSigmoid)->Apply(sizes);
BENCHMARK_CAPTURE(fresh, linear, kLinear)->Apply(sizes);
BENCHMARK_CAPTURE(fresh, sine, kSine)->Apply(sizes);
BENCHMARK_CAPTURE(donated, sigmoid, kSigmoid)->Apply(sizes);
BENCHMARK_CAPTURE(donated, linear, kLinear)->Apply(sizes);

}  // namespace
}  // namespace shoal::bench
