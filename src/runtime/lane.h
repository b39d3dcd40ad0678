// The launch lane: the one first-in-first-out order in which a process runs its programs.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>

namespace shoal {

class Lane {
 public:
  /// The lane of the process. It is drained at exit.
  static Lane& shared();

  /// Runs `task`, which must not throw, after all tasks submitted before. A small task on an idle lane runs at once in
  /// the caller's thread, without a hand-over; so does a task that is submitted from within a task.
  void submit(bool small, std::function<void()> task);

  /// Returns when every task submitted so far has run.
  void drain();

 private:
  Lane() = default;
  void work();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable idle_;
  std::deque<std::function<void()>> queue_;
  bool busy_ = false;     // A task is running, in the worker or in a caller.
  bool started_ = false;  // The worker exists.
};

}  // namespace shoal
