#include "comm/transport/socket_channel.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "base/check.h"
#include "shoal/error.h"

namespace shoal {
namespace {

// How much is moved before others get a turn.
constexpr std::size_t kTurn = std::size_t{4} << 20;
// How long after its last use a channel is left to its user.
constexpr auto kMoment = std::chrono::milliseconds(1);

void set_option(int socket, int level, int name, int value) { setsockopt(socket, level, name, &value, sizeof(value)); }

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK; }

}  // namespace

// ---- The connection

SocketChannel::SocketChannel(int peer, Socket socket, SocketLoop& loop, const SocketOptions& options)
    : peer_(peer), socket_(std::move(socket)), loop_(loop), options_(options), input_(kInput) {
  const int fd = socket_.get();
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  // A host that is gone without a word is noticed although nothing is sent to it,
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
  // and if something is sent to it.
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(options_.silence.count()));
  number_ = loop_.add(fd, *this);
  const std::lock_guard lock(mutex_);
  leave_rest_to_loop();
}

SocketChannel::~SocketChannel() {
  loop_.remove(number_, socket_.get());
  if (!failure_.empty() || !outgoing_.empty()) return;
  const Header goodbye{Kind::kGoodbye, {}};
  ::send(socket_.get(), &goodbye, sizeof(goodbye), MSG_DONTWAIT | MSG_NOSIGNAL);
}

void SocketChannel::fail(std::string why) {
  if (failure_.empty()) failure_ = std::move(why);
}

void SocketChannel::throw_failure() const {
  throw ProcessFailed(fmt::format("channel to process {}: {}", peer_, failure_.empty() ? "it has ended" : failure_));
}

/// What there is to wait for.
std::uint32_t SocketChannel::wanted_events() const {
  if (!failure_.empty()) return 0;
  return (state_ != State::kUnaccepted ? std::uint32_t{EPOLLIN} : 0) |
         (!outgoing_.empty() && !cannot_send_ ? std::uint32_t{EPOLLOUT} : 0);
}

/// Called by the loop.
std::uint32_t SocketChannel::on_ready() {
  // A thread that uses the channel moves the bytes itself, and waits for nobody: not for this one either.
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return kLater;
  if (in_use_ || Clock::now() - last_use_ < kMoment) {
    awaited_ = kLater;
  } else {
    move_bytes();
    awaited_ = wanted_events();
  }
  return awaited_;
}

/// Makes the loop go on where the caller, who holds mutex_, leaves.
void SocketChannel::leave_rest_to_loop() {
  last_use_ = Clock::now();
  const std::uint32_t events = wanted_events();
  if (awaited_ == kLater || (events & ~awaited_) == 0) return;
  awaited_ = events;
  loop_.await(number_, socket_.get(), events);
}

/// Sends and receives what is possible without waiting. The caller holds mutex_.
void SocketChannel::move_bytes() {
  if ((wanted_events() & EPOLLOUT) != 0) send_some();
  for (std::size_t moved = 0; (wanted_events() & EPOLLIN) != 0 && moved < kTurn; moved += kInput) {
    if (!receive_some()) break;
  }
}

// ---- Sending

std::uint64_t SocketChannel::send(const MessageTag& tag, const Region& region, const std::byte* data) {
  Outgoing message{{Kind::kMessage, tag}, Parcel(region, data)};
  const std::lock_guard lock(mutex_);
  if (!failure_.empty() || cannot_send_) throw_failure();
  outgoing_.push_back(std::move(message));
  ++sent_;
  if (outgoing_.size() == 1) send_some();
  leave_rest_to_loop();
  return sent_;
}

/// Writes until the system takes no more, or all is written.
void SocketChannel::send_some() {
  constexpr std::size_t kMessages = 16;
  for (std::size_t moved = 0; !outgoing_.empty() && moved < kTurn;) {
    std::array<iovec, 2 * kMessages> pieces;
    std::size_t count = 0;
    for (std::size_t i = 0; i < std::min(kMessages, outgoing_.size()); ++i) {
      Outgoing& message = outgoing_[i];
      const std::size_t of_header = std::min(message.sent, sizeof(Header));
      const std::size_t of_data = message.sent - of_header;
      if (of_header < sizeof(Header)) {
        pieces[count++] = {reinterpret_cast<std::byte*>(&message.header) + of_header, sizeof(Header) - of_header};
      }
      if (of_data < message.parcel.bytes()) {
        pieces[count++] = {const_cast<std::byte*>(message.parcel.data()) + of_data, message.parcel.bytes() - of_data};
      }
    }
    msghdr parts{};
    parts.msg_iov = pieces.data();
    parts.msg_iovlen = count;
    const ssize_t result = sendmsg(socket_.get(), &parts, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (result < 0) {
      if (errno == EINTR) continue;
      // What the peer has sent before is still to be received, and its end noticed there.
      if (errno == EPIPE || errno == ECONNRESET) {
        cannot_send_ = true;
      } else if (!would_block()) {
        fail(std::strerror(errno));
      }
      return;
    }
    auto left = static_cast<std::size_t>(result);
    moved += left;
    while (left > 0) {
      Outgoing& message = outgoing_.front();
      const std::size_t size = sizeof(Header) + message.parcel.bytes();
      const std::size_t part = std::min(left, size - message.sent);
      message.sent += part;
      left -= part;
      if (message.sent < size) break;
      outgoing_.pop_front();
      ++done_;
    }
  }
}

bool SocketChannel::is_done(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  if (number > done_) {
    move_bytes();
    leave_rest_to_loop();
  }
  told_done_ = done_;
  if (number <= done_) return true;
  if (!failure_.empty() || cannot_send_) throw_failure();
  return false;
}

// ---- Receiving

/// Reads once, and uses what is there. Returns whether there may be more.
bool SocketChannel::receive_some() {
  iovec pieces[2];
  std::size_t count = 0;
  std::size_t into_payload = 0;
  if (state_ == State::kPayload) {
    Landing& message = incoming_.back();
    into_payload = message.bytes() - received_;
    pieces[count++] = {message.data() + received_, into_payload};
  }
  if (input_begin_ == input_end_) input_begin_ = input_end_ = 0;
  if (input_begin_ > 0) {
    std::memmove(input_.data(), input_.data() + input_begin_, input_end_ - input_begin_);
    input_end_ -= input_begin_;
    input_begin_ = 0;
  }
  pieces[count++] = {input_.data() + input_end_, input_.size() - input_end_};
  ssize_t result = -1;
  do {
    msghdr parts{};
    parts.msg_iov = pieces;
    parts.msg_iovlen = count;
    result = recvmsg(socket_.get(), &parts, MSG_DONTWAIT);
  } while (result < 0 && errno == EINTR);
  if (result < 0) {
    if (would_block()) return false;
    fail(errno == ECONNRESET ? "it has ended" : std::strerror(errno));
    return false;
  }
  if (result == 0) {
    fail("it has ended");
    return false;
  }
  const std::size_t of_payload = std::min(static_cast<std::size_t>(result), into_payload);
  received_ += of_payload;
  input_end_ += static_cast<std::size_t>(result) - of_payload;
  finish_payload();
  take_headers();
  return true;
}

/// Uses the headers that come next, as far as they have been read and what they announce is expected.
void SocketChannel::take_headers() {
  while (state_ == State::kHeader && failure_.empty() && input_end_ - input_begin_ >= sizeof(Header)) {
    std::memcpy(&header_, input_.data() + input_begin_, sizeof(Header));
    input_begin_ += sizeof(Header);
    if (header_.kind != Kind::kMessage) {
      fail(header_.kind == Kind::kGoodbye ? "it has closed the channel" : "it does not speak as Shoal does");
      return;
    }
    told_next_ = false;
    state_ = State::kUnaccepted;
    begin_if_expected();
  }
}

/// Lets the message whose header has come arrive, if it is expected.
void SocketChannel::begin_if_expected() {
  if (std::optional<Landing> landing = expected_.begin(header_.tag)) begin_payload(std::move(*landing));
}

/// The payload of the message whose header has come arrives there.
void SocketChannel::begin_payload(Landing landing) {
  incoming_.push_back(std::move(landing));
  state_ = State::kPayload;
  received_ = std::min(incoming_.back().bytes(), input_end_ - input_begin_);
  if (received_ > 0) std::memcpy(incoming_.back().data(), input_.data() + input_begin_, received_);
  input_begin_ += received_;
  finish_payload();
}

/// If all of the payload has arrived, what follows it is a header.
void SocketChannel::finish_payload() {
  if (state_ != State::kPayload || received_ < incoming_.back().bytes()) return;
  incoming_.back().finish();
  ++complete_;
  state_ = State::kHeader;
}

void SocketChannel::expect(const MessageTag& tag, const Region& region) {
  Landing landing(region);
  const std::lock_guard lock(mutex_);
  expected_.add(tag, std::move(landing));
  if (state_ == State::kUnaccepted) begin_if_expected();
  take_headers();
  leave_rest_to_loop();
}

void SocketChannel::expect_nothing() noexcept {
  const std::lock_guard lock(mutex_);
  expected_.clear();
}

const MessageTag* SocketChannel::next() {
  const std::lock_guard lock(mutex_);
  if (!has_next()) {
    move_bytes();
    leave_rest_to_loop();
  }
  if (has_next()) {
    told_next_ = true;
    return expected_.begun() == nullptr ? &header_.tag : expected_.begun();
  }
  if (!failure_.empty()) throw_failure();
  return nullptr;
}

std::uint64_t SocketChannel::accept(const Region& region) {
  std::unique_lock lock(mutex_);
  SHOAL_CHECK(has_next(), "no message to accept");
  const MessageTag* const begun = expected_.begun();
  SHOAL_CHECK(region.bytes() == (begun == nullptr ? header_.tag : *begun).bytes,
              "a message is accepted as a region of its size");
  if (begun != nullptr) {
    expected_.accept_begun();
    if (has_next()) told_next_ = false;
    return ++accepted_;
  }
  lock.unlock();  // Nobody else accepts it.
  Landing landing(region);
  lock.lock();
  ++accepted_;
  begin_payload(std::move(landing));
  take_headers();
  if (state_ == State::kPayload) move_bytes();
  leave_rest_to_loop();
  return accepted_;
}

const std::byte* SocketChannel::payload(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  if (number > complete_) {
    move_bytes();
    leave_rest_to_loop();
  }
  told_complete_ = complete_;
  if (number <= complete_) return incoming_[number - released_ - 1].array();
  if (!failure_.empty()) throw_failure();
  return nullptr;
}

void SocketChannel::release(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  SHOAL_CHECK(number <= std::min(complete_, accepted_), "a message is released after it has arrived");
  for (; released_ < number; ++released_) incoming_.pop_front();
}

// ---- Waiting

bool SocketChannel::has_changed() const {
  return (has_next() && !told_next_) || done_ != told_done_ || complete_ != told_complete_;
}

void SocketChannel::sleep(Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  in_use_ = true;
  auto now = Clock::now();
  const auto awake_until = std::min(deadline, now + options_.spin);
  while (true) {
    move_bytes();
    if (has_changed() || !failure_.empty() || now >= deadline) break;
    now = Clock::now();
    if (now < awake_until) {
      sched_yield();  // The peer may need this core to send what is awaited.
      continue;
    }
    static_assert(POLLIN == EPOLLIN && POLLOUT == EPOLLOUT);
    const auto events = static_cast<short>(wanted_events());
    pollfd entry{socket_.get(), events, 0};
    const auto left = std::max(deadline - now, Clock::duration::zero());
    const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
    const timespec timeout{nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000};
    lock.unlock();
    const int ready = ppoll(&entry, 1, &timeout, nullptr);
    lock.lock();
    // Nothing else was asked for, so it will not come to be read.
    if (ready > 0 && events == 0) fail("it has ended");
    now = Clock::now();
  }
  const bool changed = has_changed();
  in_use_ = false;
  told_next_ = has_next();
  told_done_ = done_;
  told_complete_ = complete_;
  leave_rest_to_loop();
  if (!changed && !failure_.empty()) throw_failure();
}

}  // namespace shoal
