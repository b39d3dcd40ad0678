// Sending and receiving on connected sockets, each with a deadline.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <span>

#include "comm/transport/channel.h"

namespace shoal {

/// How long it is until `deadline` for the system's calls: in whole milliseconds, rounded up, from 0 to a minute.
int milliseconds_until(Clock::time_point deadline);

/// Waits until the socket is ready for `events` of poll(). Throws DeadlineExceeded.
void wait_ready(int socket, short events, Clock::time_point deadline);

/// Sends all bytes. Throws ProcessFailed if the peer has closed, DeadlineExceeded.
void send_all(int socket, std::span<const std::byte> bytes, Clock::time_point deadline);
/// Receives so many bytes. Throws ProcessFailed if the peer closes before they have come, DeadlineExceeded.
void receive_all(int socket, std::span<std::byte> bytes, Clock::time_point deadline);

/// sendmsg() and recvmsg() of all bytes of a message of one piece, with what goes along with its first byte.
void send_message(int socket, msghdr& message, Clock::time_point deadline);
void receive_message(int socket, msghdr& message, Clock::time_point deadline);

}  // namespace shoal
