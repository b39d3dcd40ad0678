// One thread that waits for descriptors, times and signals.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <vector>

#include "descriptor.h"

namespace shoal::tool {

using Clock = std::chrono::steady_clock;

class EventLoop {
 public:
  using Action = std::function<void()>;

  EventLoop();

  /// Calls `action` whenever the descriptor can be read (EPOLLIN) or written (EPOLLOUT), or has ended.
  void watch(int descriptor, std::uint32_t events, Action action);
  void unwatch(int descriptor);

  /// Calls `action` once, then.
  void at(Clock::time_point time, Action action) { timers_.emplace(time, std::move(action)); }
  void after(Clock::duration time, Action action) { at(Clock::now() + time, std::move(action)); }

  /// Calls `action` with each of these signals that arrives. They do nothing else any more. Returns a descriptor that
  /// can be read when one has arrived.
  int on_signals(std::initializer_list<int> signals, std::function<void(int)> action);

  /// Waits and calls, until stop().
  void run();
  void stop() { running_ = false; }

 private:
  int milliseconds_to_next_timer() const;
  void call_due_timers();

  Descriptor epoll_;
  std::vector<Descriptor> signals_;
  std::map<int, std::shared_ptr<Action>> watched_;
  std::multimap<Clock::time_point, Action> timers_;
  bool running_ = false;
};

}  // namespace shoal::tool
