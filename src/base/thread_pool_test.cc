#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <latch>
#include <limits>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "shoal/error.h"

namespace shoal {
namespace {

TEST(ThreadPool, RunsEachIterationOnce) {
  ThreadPool pool(4);
  EXPECT_EQ(pool.thread_count(), 4);
  for (const std::int64_t n : {0, 1, 2, 3, 31, 32, 33, 1000, 100003}) {
    std::vector<int> calls(static_cast<std::size_t>(n));
    pool.parallel_for(n, [&](std::int64_t i) { ++calls[static_cast<std::size_t>(i)]; });
    EXPECT_EQ(calls, std::vector<int>(calls.size(), 1)) << n;
  }
}

TEST(ThreadPool, NegativeCountIsAnEmptyLoop) {
  ThreadPool pool(2);
  pool.parallel_for(-1, [](std::int64_t) { FAIL(); });
}

TEST(ThreadPool, OneThreadRunsInOrderInTheCaller) {
  ThreadPool pool(1);
  std::vector<std::int64_t> order;
  pool.parallel_for(5, [&](std::int64_t i) { order.push_back(i); });
  EXPECT_EQ(order, (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
}

TEST(ThreadPool, TellsWhoIsInsideALoop) {
  ThreadPool pool(2);
  EXPECT_FALSE(ThreadPool::is_nested());
  std::atomic<int> inside = 0;
  pool.parallel_for(10, [&](std::int64_t) { inside += static_cast<int>(ThreadPool::is_nested()); });
  EXPECT_EQ(inside, 10);
  EXPECT_FALSE(ThreadPool::is_nested());
}

TEST(ThreadPool, AllThreadsTakePart) {
  constexpr int kThreads = 4;
  ThreadPool pool(kThreads);
  std::barrier everyone(kThreads);  // passes only if four threads are inside the loop at once
  std::mutex mutex;
  std::set<std::thread::id> threads;
  pool.parallel_for(kThreads, [&](std::int64_t) {
    everyone.arrive_and_wait();
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(threads.size(), static_cast<std::size_t>(kThreads));
  EXPECT_TRUE(threads.contains(std::this_thread::get_id()));
}

// A call that is lost leaves a loop without its threads, and the test without an end.
TEST(ThreadPool, WakesItsThreadsHoweverLongTheyHaveWaited) {
  constexpr int kThreads = 3;
  for (int pools = 0; pools < 20; ++pools) {
    ThreadPool pool(kThreads);
    for (int round = 0; round < 100; ++round) {
      std::barrier everyone(kThreads);
      pool.parallel_for(kThreads, [&](std::int64_t) { everyone.arrive_and_wait(); });
      // From at once to longer than they look out.
      if (round % 4 != 0) std::this_thread::sleep_for(std::chrono::microseconds(round));
    }
  }
}

TEST(ThreadPool, EndsWhileItsThreadsLookOutOrSleep) {
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> calls{0};
    {
      ThreadPool pool(3);
      pool.parallel_for(6, [&](std::int64_t) { ++calls; });
      if (round % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(round));
    }
    EXPECT_EQ(calls, 6);
  }
}

TEST(ThreadPool, RethrowsTheLowestFailure) {
  ThreadPool pool(4);
  for (int round = 0; round < 200; ++round) {
    std::string text;
    try {
      pool.parallel_for(100, [](std::int64_t i) {
        if (i >= 37) throw std::runtime_error(std::to_string(i));
      });
    } catch (const std::runtime_error& error) {
      text = error.what();
    }
    ASSERT_EQ(text, "37");
  }
}

TEST(ThreadPool, FailureEndsTheLoopEarlyAndLeavesThePoolUsable) {
  ThreadPool pool(2);
  constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max() / 2;
  EXPECT_THROW(pool.parallel_for(kEndless, [](std::int64_t) { throw InvalidState("first"); }), InvalidState);
  std::atomic<int> calls = 0;
  pool.parallel_for(10, [&](std::int64_t) { ++calls; });
  EXPECT_EQ(calls, 10);
}

TEST(ThreadPool, NestedLoopRunsInlineInItsIteration) {
  ThreadPool pool(4);
  std::atomic<int> calls = 0;
  std::atomic<int> strays = 0;
  pool.parallel_for(8, [&](std::int64_t) {
    const auto outer_thread = std::this_thread::get_id();
    pool.parallel_for(8, [&](std::int64_t) {
      ++calls;
      if (std::this_thread::get_id() != outer_thread) ++strays;
    });
  });
  EXPECT_EQ(calls, 64);
  EXPECT_EQ(strays, 0);
}

TEST(ThreadPool, SecondCallerRunsInlineWhileThePoolIsBusy) {
  ThreadPool pool(2);
  std::latch busy(2);
  std::latch finished(1);
  std::thread first([&] {
    pool.parallel_for(2, [&](std::int64_t) {
      busy.count_down();
      finished.wait();  // both threads of the pool stay inside until the second caller is done
    });
  });
  busy.wait();
  std::vector<std::thread::id> threads;
  pool.parallel_for(3, [&](std::int64_t) { threads.push_back(std::this_thread::get_id()); });
  EXPECT_EQ(threads, std::vector(3, std::this_thread::get_id()));
  finished.count_down();
  first.join();
}

TEST(ThreadPool, ManyCallersAtOnce) {
  ThreadPool pool(3);
  std::vector<std::int64_t> sums(4);
  std::vector<std::thread> callers;
  for (std::int64_t& sum : sums) {
    callers.emplace_back([&pool, &sum] {
      for (int round = 0; round < 200; ++round) {
        std::atomic<std::int64_t> total = 0;
        pool.parallel_for(50, [&](std::int64_t i) { total += i; });
        sum += total;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sums, std::vector<std::int64_t>(4, 200 * (49 * 50 / 2)));
}

// The pool numbers its loops with 16 bits.
TEST(ThreadPool, RunsMoreLoopsThanItHasNumbers) {
  ThreadPool pool(2);
  std::int64_t sum = 0;
  constexpr int kLoops = 140000;
  for (int loop = 0; loop < kLoops; ++loop) {
    std::atomic<std::int64_t> total = 0;
    pool.parallel_for(2, [&](std::int64_t i) { total += i + 1; });
    sum += total;
  }
  EXPECT_EQ(sum, std::int64_t{3} * kLoops);
}

TEST(ThreadPool, NeedsAThread) { EXPECT_THROW(ThreadPool(0), InternalError); }

TEST(ThreadPool, SharedPoolIsOne) {
  EXPECT_EQ(&ThreadPool::shared(), &ThreadPool::shared());
  EXPECT_GE(ThreadPool::shared().thread_count(), 1);
}

TEST(FunctionRef, BorrowsTheCallable) {
  int total = 0;
  auto add = [&total](int x) { return total += x; };
  const FunctionRef<int(int)> borrowed = add;
  EXPECT_EQ(borrowed(2), 2);
  EXPECT_EQ(borrowed(3), 5);
  const auto twice = [](int x) { return 2 * x; };
  EXPECT_EQ(FunctionRef<int(int)>(twice)(4), 8);
}

}  // namespace
}  // namespace shoal
