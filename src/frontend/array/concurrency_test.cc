// Many threads at once: the same function, different ones, and arrays that pass between them.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "frontend/test_support.h"

namespace shoal::test {
namespace {

constexpr int kThreads = 8;
constexpr int kRounds = 25;

// Runs `work` in several threads; it returns whether all was well.
template <class F>
void in_threads(F&& work) {
  std::atomic<int> failures = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRounds; ++i) {
        if (!work(t, i)) ++failures;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
}

TEST(Concurrency, OneJittedFunction) {
  std::atomic<int> traces = 0;
  const auto f = jit([&](const Array& x, const Array& y) {
    ++traces;
    return matmul(x, y).sum() + 1;
  });
  const Array x = put(iota({8, 8}), mesh_8(), P("i"));
  const float want = f(x, x).item<float>();
  in_threads([&](int t, int) { return f(x, x).item<float>() == want && f(x + t, x).shape() == Shape{}; });
  EXPECT_EQ(traces, 1);
}

TEST(Concurrency, FirstCallsOfOneFunction) {
  const auto f = jit([](const Array& x) { return sin(x) * 2; });
  in_threads([&](int, int i) {
    const Array x = iota({1 + i % 5});
    return same(f(x), sin(x) * 2);
  });
}

TEST(Concurrency, DifferentFunctions) {
  in_threads([](int t, int i) {
    const auto f = jit([t](const Array& x) { return x * t + 1; });
    return f(static_cast<double>(i)).item<float>() == static_cast<float>(t * i + 1);
  });
}

TEST(Concurrency, EagerOperations) {
  const Array shared = put(iota({8}), mesh_8(), P("i"));
  in_threads([&](int t, int i) {
    const Array x = shared * t + i;
    return x.to_vector<float>()[7] == static_cast<float>(7 * t + i) &&
           put(x, mesh_4x2(), P("y")).sum().item<float>() == static_cast<float>(28 * t + 8 * i);
  });
}

TEST(Concurrency, ShardMaps) {
  const auto f = shard_map([](const Array& x) { return lax::psum(x, "i"); },
                           {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = P()});
  const auto g = jit(f);
  in_threads([&](int t, int) {
    const Array x = iota({8}) + t;
    const auto want = static_cast<float>(28 + 8 * t);
    return f(x).item<float>() == want && g(x).item<float>() == want;
  });
}

TEST(Concurrency, LargeAndSmallLaunches) {
  const auto large = jit([](const Array& x) { return (x * 2).sum(); });
  const Array x = put(ones({256, 256}), mesh_4x2(), P("x", "y"));
  in_threads([&](int t, int) {
    const Array big = large(x);
    const Array small = Array(1.0) + t;
    const Array both = big + small;
    return small.item<float>() == static_cast<float>(1 + t) &&
           both.item<float>() == 131072.0F + static_cast<float>(1 + t);
  });
}

TEST(Concurrency, NestedJit) {
  const auto inner = jit([](const Array& x) { return x + 1; });
  const auto outer = jit([&](const Array& x) { return inner(inner(x)); });
  in_threads([&](int t, int) {
    return outer(static_cast<double>(t)).item<float>() == static_cast<float>(t + 2) &&
           inner(static_cast<double>(t)).item<float>() == static_cast<float>(t + 1);
  });
}

TEST(Concurrency, ErrorsStayInTheirThread) {
  const auto f = jit([](const Array& x) { return x + ones({3}); });
  in_threads([&](int t, int) {
    if (t % 2 == 0) return f(ones({3})).size() == 3;
    try {
      f(ones({2}));
      return false;
    } catch (const InvalidArgument&) {
      return (Array(1) + 1).item<int>() == 2;
    }
  });
}

TEST(Concurrency, CachesAreClearedMeanwhile) {
  const auto f = jit([](const Array& x) { return sin(x) * 2; });
  const Array x = iota({4});
  const std::vector<float> want = f(x).to_vector<float>();
  in_threads([&](int t, int) {
    if (t == 0) clear_caches();
    return f(x).to_vector<float>() == want && (x + t).to_vector<float>()[1] == static_cast<float>(1 + t);
  });
  clear_caches();
  EXPECT_EQ(f.cache_size(), 0U);
}

TEST(Concurrency, OneThreadGetsADonatedArray) {
  const auto f = jit([](const Array& x) { return x * 2; }, {.donate_argnums = {0}});
  for (int round = 0; round < 20; ++round) {
    const Array x = put(iota({8}), mesh_8(), P("i")).copy();
    std::atomic<int> given{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        try {
          if (same(f(x), iota({8}) * 2)) ++given;
        } catch (const InvalidState&) {
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(given, 1);
    EXPECT_TRUE(x.is_deleted());
  }
}

TEST(Concurrency, ArraysPassBetweenThreads) {
  const auto step = jit([](const Array& x) { return x * 0.5 + 1; });
  Array x = put(iota({64}), mesh_8(), P("i"));
  const Array start = x;
  for (int i = 0; i < 10; ++i) std::thread([&] { x = step(x); }).join();
  Array y = start;
  for (int i = 0; i < 10; ++i) y = step(y);
  EXPECT_TRUE(same(x, y));
}

// The tables that kernels look things up in are made after the queue of launches, and must still be there.
TEST(ConcurrencyDeathTest, WorkUnderWayAtExitIsFinished) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto launch_and_leave = [] {
    const auto f = jit([](const Array& x) { return matmul(x, x) * 0.5 + sin(x); });
    const auto tell = jit([](const Array& x) {
      debug::callback([](const std::vector<Array>&) { std::fputs("the last is done", stderr); }, {x});
      return x;
    });
    Array x = put(ones({512, 512}), mesh_8(), P("i"));
    for (int i = 0; i < 4; ++i) x = f(x);
    tell(x);
    std::exit(0);
  };
  EXPECT_EXIT(launch_and_leave(), testing::ExitedWithCode(0), "the last is done");
}

}  // namespace
}  // namespace shoal::test
