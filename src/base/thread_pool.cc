#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <iterator>
#include <limits>
#include <string>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/cpu_count.h"
#include "base/env.h"

namespace shoal {

namespace {

constexpr int kMostThreads = 4096;

/// Whether this thread is inside an iteration of any pool.
thread_local bool in_iteration = false;

void run_inline(std::int64_t n, FunctionRef<void(std::int64_t)> body) {
  for (std::int64_t i = 0; i < n; ++i) body(i);
}

}  // namespace

/// One loop while it runs; it lives on the caller's stack.
class ThreadPool::Loop {
 public:
  Loop(std::int64_t n, int thread_count, FunctionRef<void(std::int64_t)> body)
      : n_(n), chunk_(std::max<std::int64_t>(1, n / (std::int64_t{thread_count} * kChunksPerThread))), body_(body) {}

  /// Takes chunks until none is left. Threads meet only at the counter.
  void take_part() noexcept {
    in_iteration = true;
    for (std::int64_t begin; (begin = next_chunk()) < n_;) run_chunk(begin, std::min(chunk_, n_ - begin));
    in_iteration = false;
  }

  /// Throws what the lowest failing iteration threw. Only when no thread takes part any more.
  void rethrow_failure() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  static constexpr std::int64_t kChunksPerThread = 8;  // enough to even out iterations of unequal cost

  std::int64_t next_chunk() {
    // Not fetch_add: the counter must not pass n, which may be close to the largest integer.
    std::int64_t begin = next_.load(std::memory_order_relaxed);
    while (begin < n_ &&
           !next_.compare_exchange_weak(begin, begin + std::min(chunk_, n_ - begin), std::memory_order_relaxed)) {
    }
    return begin;
  }

  void run_chunk(std::int64_t begin, std::int64_t count) noexcept {
    std::int64_t i = begin;
    try {
      for (; i < begin + count; ++i) body_(i);
    } catch (...) {
      fail(i, std::current_exception());
    }
  }

  /// Chunks are handed out in order, and one that was handed out runs to its end or its own failure. So when no more
  /// are handed out, all iterations before this one have been decided, and the lowest failure is always found.
  void fail(std::int64_t iteration, std::exception_ptr failure) {
    next_.store(n_, std::memory_order_relaxed);
    const std::lock_guard lock(failure_mutex_);
    if (iteration >= failed_iteration_) return;
    failed_iteration_ = iteration;
    failure_ = std::move(failure);
  }

  const std::int64_t n_;
  const std::int64_t chunk_;
  const FunctionRef<void(std::int64_t)> body_;
  std::atomic<std::int64_t> next_{0};

  std::mutex failure_mutex_;
  std::int64_t failed_iteration_ = std::numeric_limits<std::int64_t>::max();
  std::exception_ptr failure_;
};

ThreadPool::ThreadPool(int thread_count) {
  SHOAL_CHECK(thread_count >= 1, "thread pool of " + std::to_string(thread_count) + " threads");
  workers_.reserve(static_cast<std::size_t>(thread_count - 1));
  try {
    for (int i = 1; i < thread_count; ++i) workers_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {
    // The system grants no more threads: those that exist do the work.
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::parallel_for(std::int64_t n, FunctionRef<void(std::int64_t)> body) {
  if (n <= 1 || workers_.empty() || in_iteration) return run_inline(n, body);
  const std::unique_lock caller(caller_mutex_, std::try_to_lock);
  if (!caller) return run_inline(n, body);

  Loop loop(n, thread_count(), body);
  publish(loop, n - 1);
  loop.take_part();
  retire();
  loop.rethrow_failure();
}

/// Lets workers join the loop, and wakes as many as it has use for.
void ThreadPool::publish(Loop& loop, std::int64_t useful_workers) {
  {
    const std::lock_guard lock(mutex_);
    loop_ = &loop;
    ++loop_number_;
  }
  if (useful_workers >= std::ssize(workers_)) return wake_.notify_all();
  for (std::int64_t i = 0; i < useful_workers; ++i) wake_.notify_one();
}

/// Lets no more workers join and waits for those inside. A worker that has not woken yet is not waited for.
void ThreadPool::retire() {
  std::unique_lock lock(mutex_);
  loop_ = nullptr;
  retired_.wait(lock, [this] { return joined_ == 0; });
}

void ThreadPool::work() {
  std::uint64_t last_joined = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stopping_ || (loop_ != nullptr && loop_number_ != last_joined); });
    if (stopping_) return;
    last_joined = loop_number_;
    Loop& loop = *loop_;
    ++joined_;
    lock.unlock();
    loop.take_part();
    lock.lock();
    if (--joined_ == 0) retired_.notify_one();
  }
}

ThreadPool& ThreadPool::shared() {
  // Never destroyed: static objects of the program may still run loops while they are torn down.
  static ThreadPool& pool = *[] {
    const auto wanted = env_int("SHOAL_NUM_THREADS", 1, kMostThreads);
    return new ThreadPool(wanted ? static_cast<int>(*wanted) : usable_cpu_count());
  }();
  return pool;
}

}  // namespace shoal
