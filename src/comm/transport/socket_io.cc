#include "comm/transport/socket_io.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "shoal/error.h"

namespace shoal {
namespace {

bool should_retry() { return errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK; }

[[noreturn]] void failed(const char* what) {
  throw ProcessFailed(std::string(what) + ": " + (errno == EPIPE ? "the peer has closed" : std::strerror(errno)));
}

}  // namespace

int milliseconds_until(Clock::time_point deadline) {
  const auto now = Clock::now();
  if (deadline <= now) return 0;
  if (deadline - now > std::chrono::minutes(1)) return 60'000;
  return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(deadline - now).count());
}

void wait_ready(int socket, short events, Clock::time_point deadline) {
  pollfd entry{socket, events, 0};
  while (true) {
    const int ready = poll(&entry, 1, milliseconds_until(deadline));
    if (ready > 0) return;
    if (ready < 0 && errno != EINTR) failed("poll");
    if (Clock::now() >= deadline) throw DeadlineExceeded("the peer did not answer in time");
  }
}

void send_message(int socket, msghdr& message, Clock::time_point deadline) {
  iovec& piece = *message.msg_iov;
  while (true) {
    const ssize_t count = sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0 && !should_retry()) failed("send");
    if (count >= 0) {
      piece.iov_base = static_cast<std::byte*>(piece.iov_base) + count;
      piece.iov_len -= static_cast<std::size_t>(count);
      message.msg_control = nullptr;
      message.msg_controllen = 0;
      if (piece.iov_len == 0) return;
    }
    wait_ready(socket, POLLOUT, deadline);
  }
}

void receive_message(int socket, msghdr& message, Clock::time_point deadline) {
  iovec& piece = *message.msg_iov;
  while (true) {
    const ssize_t count = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (count < 0 && !should_retry()) failed("receive");
    if (count == 0) throw ProcessFailed("receive: the peer has closed");
    if (count > 0) {
      piece.iov_base = static_cast<std::byte*>(piece.iov_base) + count;
      piece.iov_len -= static_cast<std::size_t>(count);
      if (piece.iov_len == 0) return;
      // What came with the first byte is not to be overwritten.
      message.msg_control = nullptr;
    }
    wait_ready(socket, POLLIN, deadline);
  }
}

void send_all(int socket, std::span<const std::byte> bytes, Clock::time_point deadline) {
  if (bytes.empty()) return;
  iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  send_message(socket, message, deadline);
}

void receive_all(int socket, std::span<std::byte> bytes, Clock::time_point deadline) {
  if (bytes.empty()) return;
  iovec piece{bytes.data(), bytes.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  receive_message(socket, message, deadline);
}

}  // namespace shoal
