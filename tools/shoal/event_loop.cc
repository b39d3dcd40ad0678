#include "event_loop.h"

#include <sys/epoll.h>
#include <sys/signalfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

namespace shoal::tool {

EventLoop::EventLoop() : epoll_(checked(epoll_create1(EPOLL_CLOEXEC), "epoll_create1")) {}

void EventLoop::watch(int descriptor, std::uint32_t events, Action action) {
  const bool is_new = !watched_.contains(descriptor);
  epoll_event event = {};
  event.events = events;
  event.data.fd = descriptor;
  checked(epoll_ctl(epoll_.get(), is_new ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, descriptor, &event), "epoll_ctl");
  watched_[descriptor] = std::make_shared<Action>(std::move(action));
}

void EventLoop::unwatch(int descriptor) {
  if (watched_.erase(descriptor) > 0) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, descriptor, nullptr);
}

int EventLoop::on_signals(std::initializer_list<int> signals, std::function<void(int)> action) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  checked(sigprocmask(SIG_BLOCK, &set, nullptr), "sigprocmask");
  signals_.emplace_back(checked(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK), "signalfd"));
  const int descriptor = signals_.back().get();
  watch(descriptor, EPOLLIN, [descriptor, action = std::move(action)] {
    signalfd_siginfo info = {};
    while (read(descriptor, &info, sizeof info) == sizeof info) action(static_cast<int>(info.ssi_signo));
  });
  return descriptor;
}

int EventLoop::milliseconds_to_next_timer() const {
  if (timers_.empty()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(timers_.begin()->first - Clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
}

void EventLoop::call_due_timers() {
  while (!timers_.empty() && timers_.begin()->first <= Clock::now()) {
    const Action action = std::move(timers_.extract(timers_.begin()).mapped());
    action();
  }
}

void EventLoop::run() {
  running_ = true;
  while (running_) {
    std::array<epoll_event, 64> events = {};
    const int count =
        epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), milliseconds_to_next_timer());
    if (count < 0 && errno != EINTR) throw system_error("epoll_wait");
    for (int i = 0; i < count; ++i) {
      // An action may end the watch of any descriptor, its own, too.
      const auto found = watched_.find(events[static_cast<std::size_t>(i)].data.fd);
      if (found == watched_.end()) continue;
      const std::shared_ptr<Action> action = found->second;
      (*action)();
    }
    call_due_timers();
  }
}

}  // namespace shoal::tool
