#include "comm/transport/socket_loop.h"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "shoal/error.h"

namespace shoal {

SocketLoop::SocketLoop() : epoll_(epoll_create1(EPOLL_CLOEXEC)), stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  epoll_event event{};
  event.events = EPOLLIN;
  if (!epoll_ || !stop_ || epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, stop_.get(), &event) != 0) {
    throw InvalidState(fmt::format("sockets: epoll: {}", std::strerror(errno)));
  }
  thread_ = std::thread([this] { run(); });
}

SocketLoop::~SocketLoop() {
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

std::uint64_t SocketLoop::add(int socket, Client& client) {
  const std::lock_guard lock(mutex_);
  epoll_event event{};
  event.events = EPOLLONESHOT;
  event.data.u64 = next_number_;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket, &event) != 0) {
    throw InvalidState(fmt::format("sockets: epoll: {}", std::strerror(errno)));
  }
  clients_.emplace(next_number_, Entry{socket, &client});
  return next_number_++;
}

void SocketLoop::remove(std::uint64_t number, int socket) {
  const std::lock_guard lock(mutex_);
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket, nullptr);
  clients_.erase(number);
}

void SocketLoop::await(std::uint64_t number, int socket, std::uint32_t events) const {
  epoll_event event{};
  event.events = events | EPOLLONESHOT;
  event.data.u64 = number;
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, socket, &event);
}

void SocketLoop::run() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  std::array<epoll_event, 64> events;
  bool waits = true;  // Whether nothing is to be done later.
  while (true) {
    const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                 waits ? -1 : static_cast<int>(kMoment.count()));
    std::vector<std::uint64_t> due;
    if (count <= 0) {
      const std::lock_guard lock(mutex_);
      due = std::exchange(later_, {});
    }
    for (int i = 0; i < count; ++i) {
      const std::uint64_t number = events[static_cast<std::size_t>(i)].data.u64;
      if (number == 0) return;
      due.push_back(number);
    }
    for (const std::uint64_t number : due) call(number);
    const std::lock_guard lock(mutex_);
    waits = later_.empty();
  }
}

void SocketLoop::call(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  const auto found = clients_.find(number);
  if (found == clients_.end()) return;
  const std::uint32_t events = found->second.client->on_ready();
  if (events == Client::kLater) {
    later_.push_back(number);
  } else if (events != 0) {  // Errors would be told even if nothing is asked for.
    await(number, found->second.socket, events);
  }
}

}  // namespace shoal
