#include "runtime/lane.h"

#include <thread>

#include "base/at_exit.h"
#include "comm/record/communicator.h"
#include "shoal/error.h"

namespace shoal {
namespace {

thread_local bool in_task = false;

}  // namespace

Lane& Lane::shared() {
  // Never destroyed, as its worker may outlive static storage; drained first, so that no task is lost at exit.
  static Lane* lane = [] {
    auto* made = new Lane;
    at_exit([] { shared().drain(); });
    return made;
  }();
  return *lane;
}

Lane::Turn::Turn(Length length) : granted_(in_task) {
  if (granted_ || length != Length::kSmall) return;
  // Only an idle lane has nothing that comes before.
  std::uint32_t idle = 0;
  granted_ = owns_ = shared().state_.compare_exchange_strong(idle, kRunning, std::memory_order_acquire);
  in_task = granted_;
  if (granted_) began_ = given_up_.load(std::memory_order_relaxed);
}

void Lane::end_turn() {
  in_task = false;
  const std::uint32_t before = state_.fetch_and(~kRunning, std::memory_order_acq_rel);
  if ((before & kWanted) == 0) return;
  // Those who wait looked at the state under the mutex: now they wait, or see that this has ended.
  { const std::lock_guard lock(mutex_); }
  wake_.notify_one();
  idle_.notify_all();
}

void Lane::enqueue(std::unique_ptr<Task> task) {
  const std::lock_guard lock(mutex_);
  queue_.push_back(std::move(task));
  state_.fetch_or(kWanted, std::memory_order_acq_rel);
  if (!started_) {
    started_ = true;
    std::thread([this] { work(); }).detach();
  }
  wake_.notify_one();
}

// The wish to be told is uttered anew each time: another one that waited may have withdrawn it.
bool Lane::is_drained() {
  return (state_.fetch_or(kWanted, std::memory_order_acq_rel) & kRunning) == 0 && queue_.empty();
}

void Lane::drain() {
  while (!drain_for(std::chrono::hours(1))) {
  }
}

bool Lane::drain_for(std::chrono::milliseconds most) {
  if (in_task) return true;
  std::unique_lock lock(mutex_);
  if (!idle_.wait_for(lock, most, [&] { return is_drained(); })) return false;
  state_.fetch_and(~kWanted, std::memory_order_acq_rel);
  return true;
}

void Lane::interrupt() { interrupted_ = true; }

void Lane::throw_interrupted() { throw InvalidState("the process was interrupted before this was computed"); }

void Lane::throw_given_up() {
  throw InvalidState("the loop was given up: its user was interrupted while waiting for results");
}

bool Lane::is_in_task() { return in_task; }

/// Runs the first of the queue, outside the lock.
void Lane::run_first(std::unique_lock<std::mutex>& lock) {
  state_.fetch_or(kRunning, std::memory_order_acq_rel);
  std::unique_ptr<Task> task = std::move(queue_.front());
  queue_.pop_front();
  lock.unlock();
  in_task = true;
  began_ = task->began;
  task->run();
  task.reset();
  in_task = false;
  lock.lock();
  state_.fetch_and(~kRunning, std::memory_order_acq_rel);
  if (!queue_.empty()) return;
  state_.fetch_and(~kWanted, std::memory_order_acq_rel);
  idle_.notify_all();
}

void Lane::help_until(FunctionRef<bool()> is_done) {
  if (in_task) return;
  std::unique_lock lock(mutex_);
  bool helped = false;
  while (!queue_.empty() && queue_.front()->length != Length::kLong && !is_running() && !is_done()) {
    run_first(lock);
    helped = true;
  }
  // The worker may have slept again over what ran here.
  if (helped && !queue_.empty()) wake_.notify_one();
}

void Lane::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return !queue_.empty() && !is_running(); });
    run_first(lock);
  }
}

void throw_to_waiter(const std::exception_ptr& error) {
  // Tasks wait for the arguments of programs, and users for arrays.
  if (!Lane::is_in_task()) Communicator::note_told(error);
  std::rethrow_exception(error);
}

}  // namespace shoal
