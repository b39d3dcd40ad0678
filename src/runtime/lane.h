// The launch lane: the one first-in-first-out order in which a process runs its programs.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>

#include "base/function_ref.h"

namespace shoal {

class Lane {
 public:
  /// How long a task takes.
  enum class Length : std::uint8_t {
    kSmall,  ///< No longer than handing it over.
    kBrief,  ///< So little that who waits for it may run it, and need not look out for signals meanwhile.
    kLong,   ///< More, or who knows how long.
  };
  /// Of a task that makes so many elements; `alone` says that it waits for no other process.
  static constexpr Length length_of(std::int64_t elements, bool alone) {
    if (elements <= kSmallElements) return Length::kSmall;
    return alone && elements <= kBriefElements ? Length::kBrief : Length::kLong;
  }

  /// The lane of the process. It is drained at exit.
  static Lane& shared();

  /// The caller's right to run a task in its own thread, in its turn, for as long as this lives: of a small task while
  /// the lane is idle, and of any task from within a task. Else it is false, and the task is to be submitted.
  class Turn {
   public:
    explicit Turn(Length length);
    ~Turn() {
      if (owns_) shared().end_turn();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    explicit operator bool() const { return granted_; }

   private:
    bool granted_;
    bool owns_ = false;  // Not within a task, whose turn it is already.
  };

  /// Runs `task`, which must not throw, after all tasks submitted before. A small task on an idle lane runs at once in
  /// the caller's thread, without a hand-over; so does a task that is submitted from within a task.
  template <class F>
  void submit(Length length, F&& task) {
    if (const Turn turn(length); turn) {
      task();
      return;
    }
    enqueue(std::make_unique<TaskOf<std::decay_t<F>>>(length, std::forward<F>(task)));
  }

  /// For a thread that waits until `is_done`: while no task runs, it runs those that are queued itself, up to the first
  /// long one. That saves it the time in which the lane's own thread wakes, and both of them from being in each other's
  /// way where cores are few.
  void help_until(FunctionRef<bool()> is_done);

  /// Returns when every task submitted so far has run.
  void drain();
  /// The same, for so long at most; whether all have run.
  bool drain_for(std::chrono::milliseconds most);

  /// For a process that is told to end: the program that runs ends before its next step, and those that are queued or
  /// still to come do not begin. Their results raise InvalidState.
  static void interrupt();
  /// Throws if that was called.
  static void check_interrupt() {
    if (interrupted_.load(std::memory_order_relaxed)) throw_interrupted();
  }
  /// For a user who waits no longer: loops that run, or are in programs that are queued, end before their next trips.
  /// What comes later is not concerned.
  static void give_up_loops() { given_up_.fetch_add(1, std::memory_order_relaxed); }
  /// Asked by a loop in a task: throws if that, or interrupt(), was called.
  static void check_loop() {
    check_interrupt();
    if (began_ != given_up_.load(std::memory_order_relaxed)) throw_given_up();
  }
  /// For others who work for that loop: gives them what says whether check_loop() would throw.
  static auto loop_check() {
    return [began = began_] {
      return interrupted_.load(std::memory_order_relaxed) || began != given_up_.load(std::memory_order_relaxed);
    };
  }
  /// Whether this thread is running a task.
  static bool is_in_task();

 private:
  struct Task {
    explicit Task(Length given) : length(given) {}
    virtual ~Task() = default;
    virtual void run() = 0;
    const Length length;
    const std::uint64_t began = given_up_.load(std::memory_order_relaxed);
  };
  template <class F>
  struct TaskOf final : Task {
    TaskOf(Length given, F f) : Task(given), function(std::move(f)) {}
    void run() override { function(); }
    F function;
  };

  static constexpr std::int64_t kSmallElements = 1 << 16;
  static constexpr std::int64_t kBriefElements = 1 << 20;

  // What state_ may hold; 0 where the lane is idle.
  static constexpr std::uint32_t kRunning = 1;  // A task runs, in the worker or in a caller.
  static constexpr std::uint32_t kWanted = 2;   // Tasks are queued, or somebody waits for the lane to be idle.

  Lane() = default;
  [[noreturn]] static void throw_interrupted();
  [[noreturn]] static void throw_given_up();
  // Whether all tasks have run; asked for under the mutex.
  bool is_drained();
  void end_turn();
  void enqueue(std::unique_ptr<Task> task);
  void run_first(std::unique_lock<std::mutex>& lock);
  void work();
  bool is_running() const { return (state_.load(std::memory_order_acquire) & kRunning) != 0; }

  static inline std::atomic<bool> interrupted_{false};
  static inline std::atomic<std::uint64_t> given_up_{0};  // How often loops were.
  // Of the task that runs: how often they were before it.
  static constinit inline thread_local std::uint64_t began_ = 0;
  std::atomic<std::uint32_t> state_{0};  // Gets and loses kWanted under the mutex only.

  std::mutex mutex_;  // Guards what follows.
  std::condition_variable wake_;
  std::condition_variable idle_;
  std::deque<std::unique_ptr<Task>> queue_;
  bool started_ = false;  // The worker exists.
};

/// Throws the error of a computation where its result is waited for. If that is the user, a communicator whose error it
/// is need not tell it again.
[[noreturn]] void throw_to_waiter(const std::exception_ptr& error);

/// Runs `body` after all tasks submitted before, and returns when it is done: on an idle lane in the caller's thread,
/// which waits anyway. Rethrows what it throws.
template <class F>
void run_on_lane(F&& body) {
  std::packaged_task<void()> task(std::forward<F>(body));
  Lane::shared().submit(Lane::Length::kSmall, [&task] { task(); });
  try {
    task.get_future().get();
  } catch (...) {
    throw_to_waiter(std::current_exception());
  }
}

}  // namespace shoal
