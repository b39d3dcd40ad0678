// A fixed set of threads that run the iterations of a loop.
//
// No iteration ever waits for another: a loop inside an iteration runs inline, and so does a loop that finds the pool
// busy with another caller's. Hence nothing here can deadlock, however callers nest or compete.
#pragma once

#include <condition_variable>
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

  /// The pool of the process: SHOAL_NUM_THREADS threads, or as many as there are cores to use.
  static ThreadPool& shared();

 private:
  class Loop;

  void work();
  void publish(Loop& loop, std::int64_t useful_workers);
  void retire();

  std::mutex caller_mutex_;  // held by the caller whose loop the pool runs

  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::condition_variable retired_;
  Loop* loop_ = nullptr;           // the loop that workers may join
  std::uint64_t loop_number_ = 0;  // so that a worker joins each loop once
  int joined_ = 0;                 // workers inside loop_
  bool stopping_ = false;

  std::vector<std::thread> workers_;
};

}  // namespace shoal
