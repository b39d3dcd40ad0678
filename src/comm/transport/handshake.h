// How two processes of a job make sure of each other when one connects to the other.
//
// Both prove that they know the key of the job, without showing it: each makes a keyed hash (BLAKE2b, RFC 7693) of what
// both have said, random bytes of both included. What follows on the connection is not encrypted.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "comm/transport/channel.h"

namespace shoal {

/// Known to the processes of the job and to no others.
class JobKey {
 public:
  /// Of any bytes, as many as one likes; few can be guessed.
  explicit JobKey(std::string_view secret);
  const std::array<unsigned char, 32>& bytes() const { return bytes_; }

 private:
  std::array<unsigned char, 32> bytes_;
};

/// Random bytes as hexadecimal digits, two for each.
std::string random_name(std::size_t bytes);

/// The side that connects, process `me`, to process `peer`. Returns whether the peer takes the connection; if not, it
/// is connecting itself. Throws ProcessFailed if the peer closes, is another process, or has another key;
/// DeadlineExceeded.
bool greet(int socket, const JobKey& key, int me, int peer, Clock::time_point deadline);

/// The other side, process `me`. Returns the number of the process that connects, which waits for answer_greeting().
/// Throws ProcessFailed if that closes, has another key, or is no process of Shoal; DeadlineExceeded.
int receive_greeting(int socket, const JobKey& key, int me, Clock::time_point deadline);
/// Tells whether the connection is taken.
void answer_greeting(int socket, bool taken, Clock::time_point deadline);

}  // namespace shoal
