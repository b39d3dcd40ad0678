#include "distributed/frame_io.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>

#include "distributed/net.h"

namespace shoal::distributed {

int poll_timeout(std::chrono::steady_clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1 << 30));
}

bool read_some(int socket, std::string& in) {
  std::array<char, std::size_t{64} << 10> buffer;
  const ssize_t size = ::recv(socket, buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (size > 0) {
    in.append(buffer.data(), static_cast<std::size_t>(size));
    return true;
  }
  if (size == 0) throw Broken("it was closed");
  if (errno == EAGAIN || errno == EINTR) return false;
  throw Broken(error_text(errno));
}

FrameView receive(int socket, std::string& in, std::chrono::steady_clock::time_point deadline) {
  while (true) {
    const FrameView frame = parse_frame(in, kMaxBody);
    if (frame.size != 0) return frame;
    pollfd waiting{socket, POLLIN, 0};
    if (::poll(&waiting, 1, poll_timeout(deadline)) == 0) throw Broken("it did not answer in time");
    read_some(socket, in);
  }
}

void send_all(int socket, const std::string& frame) {
  if (::send(socket, frame.data(), frame.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(frame.size())) {
    throw Broken(error_text(errno));
  }
}

}  // namespace shoal::distributed
