// Functions that sum over memory: a sum over 512 MiB, and softmax and layer norm over 64 MiB as rows of 1024.
// bytes_per_second counts what is read and what is written.
//
// Read and Copy are the limits: what all threads do together on arrays in huge pages.
#include <cmath>
#include <cstring>
#include <vector>

#include "base/thread_pool.h"
#include "streams.h"
#include "support.h"

namespace shoal::bench {
namespace {

constexpr std::int64_t kSummed = std::int64_t{512} << 18;  // Elements.
constexpr std::int64_t kColumns = 1024;
constexpr std::int64_t kRows = (std::int64_t{64} << 18) / kColumns;

float number(std::int64_t i) { return static_cast<float>(i * 7919 % 1000) / 1000.0F; }

Array numbers(std::int64_t count) {
  std::vector<float> x(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) x[static_cast<std::size_t>(i)] = number(i);
  return device_put(array(x), eight_devices().devices()[0]);
}

void Read(benchmark::State& state) {
  const Stream x(kSummed);
  double total = 0;
  for (auto _ : state) {
    std::vector<double> sums(static_cast<std::size_t>(kSummed >> 16));
    for_each_piece(kSummed, [&](std::int64_t begin, std::int64_t count) {
      float lanes[64] = {};  // So many that additions do not wait for each other.
      for (std::int64_t i = begin; i + 64 <= begin + count; i += 64) {
        for (std::int64_t k = 0; k < 64; ++k) lanes[k] += x.data()[i + k];
      }
      for (const float lane : lanes) sums[static_cast<std::size_t>(begin >> 16)] += static_cast<double>(lane);
    });
    total = 0;
    for (const double sum : sums) total += sum;
    benchmark::DoNotOptimize(total);
  }
  if (total != static_cast<double>(kSummed)) state.SkipWithError("the sum is wrong");
  state.SetBytesProcessed(state.iterations() * kSummed * 4);
}
BENCHMARK(Read)->UseRealTime()->Unit(benchmark::kMillisecond);

void Copy(benchmark::State& state) {
  const Stream from(kRows * kColumns), to(kRows * kColumns);
  for (auto _ : state) {
    for_each_piece(kRows * kColumns, [&](std::int64_t begin, std::int64_t count) {
      std::memcpy(to.data() + begin, from.data() + begin, static_cast<std::size_t>(count) * sizeof(float));
    });
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * 2 * kRows * kColumns * 4);
}
BENCHMARK(Copy)->UseRealTime()->Unit(benchmark::kMillisecond);

void Sum(benchmark::State& state) {
  const Array x = numbers(kSummed);
  const auto f = jit([](Array v) { return sum(v); });
  Array y = f(x);  // Compiles.
  for (auto _ : state) {
    y = f(x);
    y.block_until_ready();
  }
  double want = 0;
  for (std::int64_t i = 0; i < kSummed; ++i) want += static_cast<double>(number(i));
  const double got = static_cast<double>(y.item<float>());
  if (std::abs(got - want) > 1e-5 * want) state.SkipWithError(fmt::format("{} instead of {}", got, want).c_str());
  state.SetBytesProcessed(state.iterations() * kSummed * 4);
}
BENCHMARK(Sum)->UseRealTime()->Unit(benchmark::kMillisecond);

// Against the function computed in f64, of some rows.
template <class F>
void rows(benchmark::State& state, Array (*function)(Array), F&& of_row) {
  const Array x = numbers(kRows * kColumns).reshape({kRows, kColumns});
  const auto f = jit(function);
  Array y = f(x);  // Compiles.
  for (auto _ : state) {
    y = f(x);
    y.block_until_ready();
  }
  const std::vector<float> got = y.to_vector<float>();
  for (std::int64_t row = 0; row < kRows; row += 997) {
    std::vector<double> want;
    for (std::int64_t i = 0; i < kColumns; ++i) want.push_back(static_cast<double>(number(row * kColumns + i)));
    of_row(want);
    for (std::int64_t i = 0; i < kColumns; ++i) {
      const double have = static_cast<double>(got[static_cast<std::size_t>(row * kColumns + i)]);
      if (std::abs(have - want[static_cast<std::size_t>(i)]) <= 1e-5 * (1 + std::abs(have))) continue;
      state.SkipWithError(fmt::format("element {} of row {} is {}", i, row, have).c_str());
      return;
    }
  }
  state.SetBytesProcessed(state.iterations() * 2 * kRows * kColumns * 4);
}

void Softmax(benchmark::State& state) {
  rows(
      state, [](Array x) { return nn::softmax(x, -1); },
      [](std::vector<double>& row) {
        double total = 0;
        for (double& x : row) total += x = std::exp(x);
        for (double& x : row) x /= total;
      });
}
BENCHMARK(Softmax)->UseRealTime()->Unit(benchmark::kMillisecond);

void LayerNorm(benchmark::State& state) {
  rows(
      state, [](Array x) { return nn::standardize(x, -1); },
      [](std::vector<double>& row) {
        double mean = 0, variance = 0;
        for (const double x : row) mean += x / static_cast<double>(row.size());
        for (const double x : row) variance += (x - mean) * (x - mean) / static_cast<double>(row.size());
        for (double& x : row) x = (x - mean) / std::sqrt(variance + 1e-5);
      });
}
BENCHMARK(LayerNorm)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace shoal::bench
