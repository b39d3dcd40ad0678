#include "runtime/lane.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <vector>

namespace shoal {
namespace {

using Length = Lane::Length;

// A task that keeps the lane busy until it is let go.
class Blocker {
 public:
  Blocker() {
    Lane::shared().submit(Length::kLong, [this] {
      started_.set_value();
      released_.get_future().wait();
    });
    started_.get_future().wait();
  }
  ~Blocker() { release(); }
  void release() {
    if (!done_) released_.set_value();
    done_ = true;
    Lane::shared().drain();
  }

 private:
  std::promise<void> started_;
  std::promise<void> released_;
  bool done_ = false;
};

TEST(Lane, RunsTasksInTheOrderOfSubmission) {
  std::vector<int> order;
  Blocker blocker;
  for (int i = 0; i < 100; ++i)
    Lane::shared().submit(i % 3 == 0 ? Length::kSmall : Length::kLong, [&order, i] { order.push_back(i); });
  EXPECT_TRUE(order.empty());
  blocker.release();
  std::vector<int> expected;
  for (int i = 0; i < 100; ++i) expected.push_back(i);
  EXPECT_EQ(order, expected);
}

TEST(Lane, IsDrainedForSoLongAtMost) {
  Blocker blocker;
  EXPECT_FALSE(Lane::shared().drain_for(std::chrono::milliseconds(10)));
  blocker.release();
  EXPECT_TRUE(Lane::shared().drain_for(std::chrono::milliseconds(0)));
}

TEST(Lane, RunsLargeTasksInItsOwnThread) {
  Lane::shared().drain();
  std::thread::id first, second;
  Lane::shared().submit(Length::kLong, [&] { first = std::this_thread::get_id(); });
  Lane::shared().drain();
  Lane::shared().submit(Length::kLong, [&] { second = std::this_thread::get_id(); });
  Lane::shared().drain();
  EXPECT_NE(first, std::this_thread::get_id());
  EXPECT_EQ(first, second);
}

TEST(Lane, RunsSmallTasksInTheCallersThreadWhenIdle) {
  Lane::shared().drain();
  std::thread::id runner;
  Lane::shared().submit(Length::kSmall, [&] { runner = std::this_thread::get_id(); });
  EXPECT_EQ(runner, std::this_thread::get_id()) << "and at once";
}

TEST(Lane, QueuesSmallTasksWhenBusy) {
  std::atomic<bool> ran = false;
  std::thread::id runner;
  Blocker blocker;
  Lane::shared().submit(Length::kSmall, [&] {
    runner = std::this_thread::get_id();
    ran = true;
  });
  EXPECT_FALSE(ran);
  blocker.release();
  EXPECT_TRUE(ran);
  EXPECT_NE(runner, std::this_thread::get_id());
}

TEST(Lane, WhoWaitsRunsBriefTasksInTheirTurnUpToALongOne) {
  std::vector<int> order;
  std::thread::id of_long;
  std::atomic<int> done = 0;
  constexpr int kTasks = 200;
  for (int i = 0; i < kTasks; ++i) {
    Lane::shared().submit(i == kTasks - 1 ? Length::kLong : Length::kBrief, [&, i] {
      order.push_back(i);
      if (i == kTasks - 1) of_long = std::this_thread::get_id();
      ++done;
    });
  }
  while (done < kTasks) Lane::shared().help_until([&] { return done == kTasks; });
  Lane::shared().drain();
  EXPECT_NE(of_long, std::this_thread::get_id());
  std::vector<int> expected;
  for (int i = 0; i < kTasks; ++i) expected.push_back(i);
  EXPECT_EQ(order, expected);
}

TEST(Lane, WhoWaitsRunsNothingWhileATaskRuns) {
  std::atomic<bool> ran = false;
  Blocker blocker;
  Lane::shared().submit(Length::kBrief, [&] { ran = true; });
  Lane::shared().help_until([] { return false; });
  EXPECT_FALSE(ran);
  blocker.release();
  EXPECT_TRUE(ran);
}

TEST(Lane, WhoWaitsRunsNothingWhenItIsDone) {
  Lane::shared().drain();
  std::promise<void> started;
  std::promise<void> release;
  std::thread other([&] {
    Lane::shared().submit(Length::kSmall, [&] {
      started.set_value();
      release.get_future().wait();
    });
  });
  started.get_future().wait();
  std::thread::id runner;
  Lane::shared().submit(Length::kBrief, [&] { runner = std::this_thread::get_id(); });
  release.set_value();
  other.join();
  Lane::shared().help_until([] { return true; });
  Lane::shared().drain();
  EXPECT_NE(runner, std::thread::id());
  EXPECT_NE(runner, std::this_thread::get_id());
}

TEST(Lane, SmallTaskOfOneThreadHoldsBackOtherThreads) {
  Lane::shared().drain();
  std::vector<int> order;
  std::promise<void> started;
  std::promise<void> release;
  std::thread other([&] {
    Lane::shared().submit(Length::kSmall, [&] {
      started.set_value();
      release.get_future().wait();
      order.push_back(1);
    });
  });
  started.get_future().wait();
  Lane::shared().submit(Length::kSmall, [&] { order.push_back(2); });
  Lane::shared().submit(Length::kLong, [&] { order.push_back(3); });
  release.set_value();
  other.join();
  Lane::shared().drain();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

TEST(Lane, TasksFromTasksRunInline) {
  for (const Length length : {Length::kSmall, Length::kLong}) {
    std::vector<int> order;
    Lane::shared().submit(length, [&] {
      order.push_back(1);
      const std::thread::id me = std::this_thread::get_id();
      Lane::shared().submit(length == Length::kSmall ? Length::kLong : Length::kSmall, [&] {
        EXPECT_EQ(std::this_thread::get_id(), me);
        order.push_back(2);
        Lane::shared().submit(length, [&] { order.push_back(3); });
      });
      Lane::shared().drain();  // Must not wait for itself.
      order.push_back(4);
    });
    Lane::shared().drain();
    EXPECT_EQ(order, (std::vector<int>{1, 2, 3, 4}));
  }
}

TEST(Lane, DrainWaitsForEverything) {
  std::atomic<int> done = 0;
  for (int i = 0; i < 20; ++i) {
    Lane::shared().submit(Length::kLong, [&] {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      ++done;
    });
  }
  Lane::shared().drain();
  EXPECT_EQ(done, 20);
  Lane::shared().drain();
}

TEST(Lane, TasksOfManyThreadsNeverOverlap) {
  std::atomic<int> running = 0;
  std::atomic<int> overlaps = 0;
  std::atomic<int> done = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      int last = -1;
      for (int i = 0; i < 200; ++i) {
        Lane::shared().submit(static_cast<Length>((i + t) % 3), [&, i] {
          if (++running != 1) ++overlaps;
          if (last >= i) ++overlaps;  // A thread's own tasks keep their order.
          last = i;
          --running;
          ++done;
        });
      }
      Lane::shared().drain();
    });
  }
  for (std::thread& thread : threads) thread.join();
  Lane::shared().drain();
  EXPECT_EQ(done, 800);
  EXPECT_EQ(overlaps, 0);
}

}  // namespace
}  // namespace shoal
