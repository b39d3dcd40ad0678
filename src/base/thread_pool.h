// A fixed set of threads that run the iterations of a loop.
//
// No iteration ever waits for another: a loop inside an iteration runs inline, and so does a loop that finds the pool
// busy with another caller's. Hence nothing here can deadlock, however callers nest or compete.
//
// A worker without work looks out for some for a short time before it sleeps, if every thread has a core to itself:
// steps of a program follow each other faster than the system wakes a thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "base/function_ref.h"

namespace shoal {

class ThreadPool {
 public:
  /// A pool of `thread_count` threads, of which the caller of a loop is one; fewer where the system refuses to start
  /// more. Needs thread_count >= 1.
  explicit ThreadPool(int thread_count);
  /// Joins the threads. No loop may be running.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int thread_count() const { return static_cast<int>(workers_.size()) + 1; }

  /// Calls body(0) … body(n - 1), each once, in no fixed order, and returns when all are done. If iterations throw,
  /// those after the first failing one may be left out, and the exception of the lowest is rethrown: the one that a
  /// plain loop would have thrown. May be called from any thread. Does nothing for n <= 0.
  void parallel_for(std::int64_t n, FunctionRef<void(std::int64_t)> body);

  /// Whether this thread is inside an iteration of any pool, so that a loop would run inline.
  static bool is_nested();

  /// The pool of the process: SHOAL_NUM_THREADS threads, or as many as there are cores to use.
  static ThreadPool& shared();

 private:
  class Loop;
  class Patience;

  void work();
  bool join(std::uint32_t& last_joined);
  void leave();
  void publish(Loop& loop, std::int64_t useful_workers);
  void retire();
  bool is_open(std::uint32_t last_joined) const;

  std::mutex caller_mutex_;  // held by the caller whose loop the pool runs
  bool may_spin_ = false;    // whether each thread has a core

  // The number of the newest loop, whether workers may join it, how many are inside, and whether the caller sleeps
  // until they have left; see the source.
  alignas(64) std::atomic<std::uint32_t> gate_{0};
  Loop* loop_ = nullptr;                             // the newest loop: written before the gate opens
  alignas(64) std::atomic<std::uint32_t> calls_{0};  // what sleeping workers wait on
  std::atomic<int> sleepers_{0};
  std::atomic<bool> stopping_{false};

  std::vector<std::thread> workers_;
};

/// Calls f(begin, end) for ranges of `size` of [first, end), the last of which may be shorter, on all threads of the
/// process.
template <class F>
void in_ranges(std::int64_t first, std::int64_t end, std::int64_t size, F&& f) {
  const std::int64_t ranges = (end - first + size - 1) / size;
  if (ranges == 1) return f(first, end);
  ThreadPool::shared().parallel_for(
      ranges, [&](std::int64_t i) { f(first + i * size, std::min(end, first + (i + 1) * size)); });
}

}  // namespace shoal
