// Sorting of 2^22 elements: as one line, as rows of 1024, and along columns; values alone, positions, and the greatest
// of each row. items_per_second counts elements.
//
// The others are plain loops: std::sort of the values, what NumPy does at best without vectors, and std::stable_sort of
// positions, both of rows on all threads; and VectorSort, the library's sort by one thread.
#include <hwy/contrib/sort/vqsort.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "base/thread_pool.h"
#include "support.h"

namespace shoal::bench {
namespace {

constexpr std::int64_t kElements = 1 << 22;

template <class T>
const std::vector<T>& numbers() {
  static const std::vector<T> numbers = [] {
    std::vector<T> made(std::size_t{kElements});
    std::mt19937_64 random(1);
    std::uniform_real_distribution<double> draw(-1e6, 1e6);
    for (T& x : made) x = static_cast<T>(draw(random));
    return made;
  }();
  return numbers;
}

// Calls f(first element) for each line of n elements.
template <class F>
void for_each_line(std::int64_t n, F&& f) {
  ThreadPool::shared().parallel_for(kElements / n, [&](std::int64_t i) { f(i * n); });
}

template <class T>
std::vector<T> sorted_lines(std::int64_t n) {
  std::vector<T> values = numbers<T>();
  for_each_line(n, [&](std::int64_t first) { std::sort(values.begin() + first, values.begin() + first + n); });
  return values;
}

std::vector<std::int32_t> sorted_positions(std::int64_t n) {
  const std::vector<float>& values = numbers<float>();
  std::vector<std::int32_t> positions(values.size());
  for_each_line(n, [&](std::int64_t first) {
    std::iota(positions.begin() + first, positions.begin() + first + n, 0);
    std::stable_sort(positions.begin() + first, positions.begin() + first + n, [&](std::int32_t a, std::int32_t b) {
      return values[static_cast<std::size_t>(first + a)] < values[static_cast<std::size_t>(first + b)];
    });
  });
  return positions;
}

template <class T>
void expect(benchmark::State& state, const std::vector<T>& got, const std::vector<T>& want) {
  if (got != want) state.SkipWithError("the order is wrong");
  state.SetItemsProcessed(state.iterations() * kElements);
}

Array lines(std::int64_t n, auto numbers) { return array(numbers).reshape({kElements / n, n}); }

template <class F>
Array timed(benchmark::State& state, const Array& x, F&& function) {
  const auto f = jit(function);
  Array y = f(x);  // Compiles.
  y.block_until_ready();
  for (auto _ : state) {
    y = f(x);
    y.block_until_ready();
  }
  return y;
}

template <class T>
void StdSort(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(sorted_lines<T>(state.range(0)));
  state.SetItemsProcessed(state.iterations() * kElements);
}

template <class T>
void VectorSort(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  const hwy::Sorter sorter;
  std::vector<T> values;
  for (auto _ : state) {
    values = numbers<T>();
    for (std::int64_t first = 0; first < kElements; first += n) {
      sorter(values.data() + first, static_cast<std::size_t>(n), hwy::SortAscending());
    }
  }
  expect(state, values, sorted_lines<T>(n));
}

template <class T>
void Sort(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  const Array y = timed(state, lines(n, numbers<T>()), [](Array x) { return sort(x); });
  expect(state, y.to_vector<T>(), sorted_lines<T>(n));
}

// The lines lie along columns.
void SortColumns(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  const Array columns = transpose(lines(n, numbers<float>()));
  const Array y = timed(state, columns, [](Array x) { return sort(x, {.axis = 0}); });
  expect(state, transpose(y).to_vector<float>(), sorted_lines<float>(n));
}

void StdArgsort(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(sorted_positions(state.range(0)));
  state.SetItemsProcessed(state.iterations() * kElements);
}

void Argsort(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  const Array y = timed(state, lines(n, numbers<float>()), [](Array x) { return argsort(x); });
  expect(state, y.to_vector<std::int32_t>(), sorted_positions(n));
}

void Greatest(benchmark::State& state) {
  constexpr std::int64_t kKept = 16;
  const std::int64_t n = state.range(0);
  const Array y = timed(state, lines(n, numbers<float>()), [](Array x) { return lax::top_k(x, kKept).first; });
  std::vector<float> want;
  const std::vector<float> sorted = sorted_lines<float>(n);
  for (std::int64_t first = 0; first < kElements; first += n) {
    want.insert(want.end(), sorted.rend() - (first + n), sorted.rend() - (first + n) + kKept);
  }
  expect(state, y.to_vector<float>(), want);
}

void lengths(benchmark::internal::Benchmark* benchmark) {
  benchmark->Arg(8)->Arg(1024)->Arg(kElements)->UseRealTime()->Unit(benchmark::kMillisecond);
}

BENCHMARK(StdSort<float>)->Apply(lengths);
BENCHMARK(VectorSort<float>)->Apply(lengths);
BENCHMARK(Sort<float>)->Apply(lengths);
BENCHMARK(SortColumns)->Apply(lengths);
BENCHMARK(StdSort<double>)->Apply(lengths);
BENCHMARK(VectorSort<double>)->Apply(lengths);
BENCHMARK(Sort<double>)->Apply(lengths);
BENCHMARK(StdArgsort)->Apply(lengths);
BENCHMARK(Argsort)->Apply(lengths);
BENCHMARK(Greatest)->Arg(1024)->Arg(kElements)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace shoal::bench
