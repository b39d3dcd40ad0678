// Frames on sockets that do not block, for threads that wait for them.
#pragma once

#include <chrono>
#include <stdexcept>
#include <string>

#include "distributed/protocol.h"

namespace shoal::distributed {

/// A connection ended, or did not go on in time.
class Broken : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What poll() takes to wait until then.
int poll_timeout(std::chrono::steady_clock::time_point deadline);

/// Reads what is there. False if there is nothing. Throws Broken at the end.
bool read_some(int socket, std::string& in);

/// Waits for a whole frame at the beginning of `in`. Throws Broken, or Malformed for what is no frame.
FrameView receive(int socket, std::string& in, std::chrono::steady_clock::time_point deadline);

/// For short frames on a connection that has room for them. Throws Broken.
void send_all(int socket, const std::string& frame);

}  // namespace shoal::distributed
