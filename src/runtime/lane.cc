#include "runtime/lane.h"

#include <cstdlib>
#include <thread>
#include <utility>

namespace shoal {
namespace {

thread_local bool in_task = false;

void run_task(const std::function<void()>& task) {
  in_task = true;
  task();
  in_task = false;
}

}  // namespace

Lane& Lane::shared() {
  // Never destroyed, as its worker may outlive static storage; drained first, so that no task is lost at exit.
  static Lane* lane = [] {
    auto* made = new Lane;
    std::atexit([] { shared().drain(); });
    return made;
  }();
  return *lane;
}

void Lane::submit(bool small, std::function<void()> task) {
  if (in_task) {
    task();
    return;
  }
  std::unique_lock lock(mutex_);
  if (small && !busy_ && queue_.empty()) {
    busy_ = true;
    lock.unlock();
    run_task(task);
    lock.lock();
    busy_ = false;
    wake_.notify_one();
    idle_.notify_all();
    return;
  }
  queue_.push_back(std::move(task));
  if (!started_) {
    started_ = true;
    std::thread([this] { work(); }).detach();
  }
  wake_.notify_one();
}

void Lane::drain() {
  if (in_task) return;
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return !busy_ && queue_.empty(); });
}

void Lane::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return !busy_ && !queue_.empty(); });
    busy_ = true;
    const std::function<void()> task = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    run_task(task);
    lock.lock();
    busy_ = false;
    idle_.notify_all();
  }
}

}  // namespace shoal
