// Elements at random places: 2^18 of them read from an array, or added to one, of 2^12, 2^20 and 2^24; and columns.
// items_per_second counts elements.
//
// The others are plain loops: on one thread, which asks for elements ahead, and, of what is read, on all threads.
#include <algorithm>
#include <random>
#include <vector>

#include "base/thread_pool.h"
#include "support.h"

namespace shoal::bench {
namespace {

constexpr std::int64_t kItems = 1 << 18;
constexpr std::int64_t kAhead = 64;

std::vector<std::int32_t> places(std::int64_t among) {
  std::vector<std::int32_t> made(std::size_t{kItems});
  std::mt19937_64 random(1);
  for (std::int32_t& place : made) place = static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(among));
  return made;
}

// Small integers: sums are exact.
std::vector<float> numbers(std::int64_t count) {
  std::vector<float> made(static_cast<std::size_t>(count));
  std::mt19937_64 random(2);
  for (float& x : made) x = static_cast<float>(random() % 64);
  return made;
}

template <class F>
Array timed(benchmark::State& state, F&& call) {
  Array y = call();  // Compiles.
  y.block_until_ready();
  for (auto _ : state) {
    y = call();
    y.block_until_ready();
  }
  state.SetItemsProcessed(state.iterations() * y.size());
  return y;
}

void expect(benchmark::State& state, const Array& got, const std::vector<float>& want) {
  if (got.to_vector<float>() != want) state.SkipWithError("the elements are wrong");
}

void read_in_loop(const std::vector<float>& from, const std::vector<std::int32_t>& at, std::vector<float>& to,
                  std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    if (i + kAhead < end) __builtin_prefetch(&from[static_cast<std::size_t>(at[i + kAhead])]);
    to[i] = from[static_cast<std::size_t>(at[i])];
  }
}

std::vector<float> read(const std::vector<float>& from, const std::vector<std::int32_t>& at) {
  std::vector<float> to(at.size());
  read_in_loop(from, at, to, 0, at.size());
  return to;
}

std::vector<float> added(std::vector<float> to, const std::vector<std::int32_t>& at, const std::vector<float>& what) {
  for (std::size_t i = 0; i < at.size(); ++i) to[static_cast<std::size_t>(at[i])] += what[i];
  return to;
}

void Take(benchmark::State& state) {
  const std::vector<float> x = numbers(state.range(0));
  const std::vector<std::int32_t> at = places(state.range(0));
  const auto f = jit([](const Array& from, const Array& i) { return take(from, i); });
  const Array from = array(x);
  const Array i = array(at);
  expect(state, timed(state, [&] { return f(from, i); }), read(x, at));
}

void TakeInLoop(benchmark::State& state) {
  const std::vector<float> x = numbers(state.range(0));
  const std::vector<std::int32_t> at = places(state.range(0));
  std::vector<float> to(at.size());
  const std::size_t piece = at.size() / 16;
  for (auto _ : state) {
    ThreadPool::shared().parallel_for(16, [&](std::int64_t k) {
      const std::size_t begin = static_cast<std::size_t>(k) * piece;
      read_in_loop(x, at, to, begin, begin + piece);
    });
    benchmark::DoNotOptimize(to.data());
  }
  state.SetItemsProcessed(state.iterations() * kItems);
}

void Add(benchmark::State& state) {
  const std::vector<float> x = numbers(state.range(0));
  const std::vector<std::int32_t> at = places(state.range(0));
  const std::vector<float> what = numbers(kItems);
  const auto f =
      jit([](const Array& to, const Array& i, const Array& u) { return to.at(i).add(u); }, {.donate_argnums = {0}});
  const Array i = array(at);
  const Array u = array(what);
  expect(state, f(array(x), i, u), added(x, at, what));
  Array y = array(x);
  for (auto _ : state) {
    y = f(y, i, u);
    y.block_until_ready();
  }
  state.SetItemsProcessed(state.iterations() * kItems);
}

void AddInLoop(benchmark::State& state) {
  std::vector<float> x = numbers(state.range(0));
  const std::vector<std::int32_t> at = places(state.range(0));
  const std::vector<float> what = numbers(kItems);
  for (auto _ : state) {
    for (std::size_t i = 0; i < at.size(); ++i) {
      if (i + kAhead < at.size()) __builtin_prefetch(&x[static_cast<std::size_t>(at[i + kAhead])]);
      x[static_cast<std::size_t>(at[i])] += what[i];
    }
    benchmark::DoNotOptimize(x.data());
  }
  state.SetItemsProcessed(state.iterations() * kItems);
}

void TakeColumns(benchmark::State& state) {
  constexpr std::int64_t kRows = 4096;
  constexpr std::int64_t kColumns = 1024;
  const std::vector<float> x = numbers(kRows * kColumns);
  std::vector<std::int32_t> at = places(kColumns);
  at.resize(std::size_t{kColumns});
  const auto f = jit([](const Array& from, const Array& i) { return take(from, i, {.axis = 1}); });
  const Array from = array(x).reshape({kRows, kColumns});
  const Array i = array(at);
  std::vector<float> want;
  for (std::size_t row = 0; row < kRows; ++row) {
    for (const std::int32_t column : at) want.push_back(x[row * kColumns + static_cast<std::size_t>(column)]);
  }
  const Array y = timed(state, [&] { return f(from, i); });
  expect(state, y.reshape({-1}), want);
}

void Max(benchmark::State& state) {
  std::vector<float> want = numbers(state.range(0));
  const std::vector<std::int32_t> at = places(state.range(0));
  const std::vector<float> what = numbers(kItems);
  const auto f =
      jit([](const Array& to, const Array& i, const Array& u) { return to.at(i).max(u); }, {.donate_argnums = {0}});
  const Array i = array(at);
  const Array u = array(what);
  Array y = array(want);
  for (std::size_t k = 0; k < at.size(); ++k) {
    float& place = want[static_cast<std::size_t>(at[k])];
    place = std::max(place, what[k]);
  }
  for (auto _ : state) {
    y = f(y, i, u);
    y.block_until_ready();
  }
  expect(state, y, want);
  state.SetItemsProcessed(state.iterations() * kItems);
}

BENCHMARK(Take)->Arg(1 << 12)->Arg(1 << 20)->Arg(1 << 24)->UseRealTime();
BENCHMARK(TakeInLoop)->Arg(1 << 12)->Arg(1 << 20)->Arg(1 << 24)->UseRealTime();
BENCHMARK(Add)->Arg(1 << 12)->Arg(1 << 20)->Arg(1 << 24)->UseRealTime();
BENCHMARK(AddInLoop)->Arg(1 << 12)->Arg(1 << 20)->Arg(1 << 24)->UseRealTime();
BENCHMARK(Max)->Arg(1 << 3)->Arg(1 << 12)->Arg(1 << 17)->Arg(1 << 20)->Arg(1 << 24)->UseRealTime();
BENCHMARK(TakeColumns)->UseRealTime();

}  // namespace
}  // namespace shoal::bench
