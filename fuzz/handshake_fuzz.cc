// The handshake of channels: whoever does not know the key is refused, whatever he says, and at once.
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "base/file_descriptor.h"
#include "comm/transport/handshake.h"
#include "shoal/error.h"

namespace {

using namespace shoal;

using Bytes = std::vector<std::uint8_t>;

// Calls f(socket) at the end of a connection over which these bytes come, and then nothing. Returns what it sent.
template <class F>
Bytes expect_refusal(const Bytes& bytes, F&& f) {
  int ends[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
  const FileDescriptor mine(ends[0]);
  const FileDescriptor other(ends[1]);
  if (send(other.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(bytes.size())) std::abort();
  shutdown(other.get(), SHUT_WR);
  bool was_refused = false;
  try {
    f(mine.get());
  } catch (const ProcessFailed&) {
    was_refused = true;
  }
  if (!was_refused) std::abort();  // It was believed, or waited for.
  Bytes answer(4096);
  const ssize_t count = recv(other.get(), answer.data(), answer.size(), MSG_DONTWAIT);
  answer.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  return answer;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const JobKey key("a key that nobody guesses");
  const auto deadline = Clock::now() + std::chrono::seconds(1);
  const auto connect = [&](int socket) { greet(socket, key, 0, 1, deadline); };
  const auto answer = [&](int socket) { receive_greeting(socket, key, 1, deadline); };
  const Bytes bytes(data, data + size);
  expect_refusal(bytes, answer);
  expect_refusal(bytes, connect);
  // What a process of the job has begun with, and goes on in any way.
  static const Bytes hello = expect_refusal({}, connect);
  if (hello.empty()) std::abort();
  Bytes replayed = hello;
  replayed.insert(replayed.end(), bytes.begin(), bytes.end());
  expect_refusal(replayed, answer);
  return 0;
}
