#include "base/thread_pool.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <limits>
#include <string>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/env.h"
#include "base/futex.h"
#include "base/resources.h"

namespace shoal {

namespace {

constexpr int kMostThreads = 4096;

/// Whether this thread is inside an iteration of any pool.
thread_local bool in_iteration = false;

/// Lets the core's other thread run while this one looks out.
void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

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

/// How long a thread looks out before it sleeps: longer where that has paid off lately.
class ThreadPool::Patience {
 public:
  /// Whether `done` became true in time.
  template <class F>
  bool wait_for(F&& done) {
    const auto end = Clock::now() + time_;
    do {
      for (int i = 0; i < 32; ++i) {
        if (done()) {
          time_ = std::min(2 * time_, kMost);
          return true;
        }
        pause();
      }
    } while (Clock::now() < end);
    time_ = std::max(time_ / 2, kLeast);
    return false;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::nanoseconds kLeast = std::chrono::microseconds(4);
  static constexpr std::chrono::nanoseconds kMost = std::chrono::microseconds(50);

  std::chrono::nanoseconds time_ = kMost;
};

namespace {

// The gate: bits 0 to 13 count the workers inside, bit 14 says whether the caller sleeps until there are none, bit 15
// whether it is open, and the others number the loops. The numbers begin anew after 2^16 loops: a worker that has slept
// through just so many misses one.
constexpr std::uint32_t kInside = (std::uint32_t{1} << 14) - 1;
constexpr std::uint32_t kAwaited = std::uint32_t{1} << 14;
constexpr std::uint32_t kOpen = std::uint32_t{1} << 15;
constexpr std::uint32_t kLoop = std::uint32_t{1} << 16;
static_assert(kMostThreads <= kInside);

std::uint32_t number_of(std::uint32_t gate) { return gate / kLoop; }

}  // namespace

ThreadPool::ThreadPool(int thread_count) : may_spin_(thread_count <= usable_cpu_count()) {
  SHOAL_CHECK(thread_count >= 1, "thread pool of " + std::to_string(thread_count) + " threads");
  workers_.reserve(static_cast<std::size_t>(thread_count - 1));
  try {
    for (int i = 1; i < thread_count; ++i) workers_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {
    // The system grants no more threads: those that exist do the work.
  }
}

ThreadPool::~ThreadPool() {
  stopping_ = true;
  ++calls_;
  futex_wake(calls_, FutexScope::kThreads);
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

/// Lets workers join the loop, and wakes as many as it has use for besides those that are awake.
void ThreadPool::publish(Loop& loop, std::int64_t useful_workers) {
  loop_ = &loop;
  gate_.store((number_of(gate_.load(std::memory_order_relaxed)) + 1) * kLoop | kOpen, std::memory_order_seq_cst);
  // A worker counts itself as asleep before it looks at the gate for the last time, so that it sees this loop or is
  // seen here.
  const int asleep = sleepers_.load(std::memory_order_seq_cst);
  if (asleep == 0) return;
  const std::int64_t wanted = useful_workers - (std::ssize(workers_) - asleep);
  if (wanted <= 0) return;
  calls_.fetch_add(1, std::memory_order_seq_cst);
  futex_wake(calls_, FutexScope::kThreads, static_cast<int>(std::min<std::int64_t>(wanted, asleep)));
}

/// Lets no more workers join and waits for those inside. A worker that has not woken yet is not waited for.
void ThreadPool::retire() {
  std::uint32_t gate = gate_.fetch_and(~kOpen, std::memory_order_acq_rel) & ~kOpen;
  const auto is_empty = [&] { return ((gate = gate_.load(std::memory_order_acquire)) & kInside) == 0; };
  if ((gate & kInside) == 0 || (may_spin_ && Patience().wait_for(is_empty))) return;
  while (!is_empty()) {
    if ((gate & kAwaited) == 0 && !gate_.compare_exchange_weak(gate, gate | kAwaited)) continue;
    futex_wait(gate_, gate | kAwaited, FutexScope::kThreads);
  }
}

bool ThreadPool::is_open(std::uint32_t last_joined) const {
  const std::uint32_t gate = gate_.load(std::memory_order_seq_cst);
  return (gate & kOpen) != 0 && number_of(gate) != last_joined;
}

/// Enters the newest loop, once, if it is still open.
bool ThreadPool::join(std::uint32_t& last_joined) {
  std::uint32_t gate = gate_.load(std::memory_order_relaxed);
  do {
    if ((gate & kOpen) == 0 || number_of(gate) == last_joined) return false;
  } while (!gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acquire, std::memory_order_relaxed));
  last_joined = number_of(gate);
  return true;
}

void ThreadPool::leave() {
  const std::uint32_t gate = gate_.fetch_sub(1, std::memory_order_acq_rel) - 1;
  if ((gate & kInside) == 0 && (gate & kAwaited) != 0) futex_wake(gate_, FutexScope::kThreads);
}

void ThreadPool::work() {
  Patience patience;
  std::uint32_t last_joined = 0;
  const auto has_work = [&] { return stopping_.load(std::memory_order_relaxed) || is_open(last_joined); };
  while (!stopping_) {
    if (join(last_joined)) {
      loop_->take_part();
      leave();
      continue;
    }
    if (may_spin_ && patience.wait_for(has_work)) continue;
    const std::uint32_t calls = calls_.load(std::memory_order_seq_cst);
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    if (!stopping_ && !is_open(last_joined)) futex_wait(calls_, calls, FutexScope::kThreads);
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  }
}

bool ThreadPool::is_nested() { return in_iteration; }

ThreadPool& ThreadPool::shared() {
  // Never destroyed: static objects of the program may still run loops while they are torn down.
  static ThreadPool& pool = *[] {
    const auto wanted = env_int("SHOAL_NUM_THREADS", 1, kMostThreads);
    return new ThreadPool(wanted ? static_cast<int>(*wanted) : usable_cpu_count());
  }();
  return pool;
}

}  // namespace shoal
