// A channel over a TCP connection.
//
// A message is a header and the bytes of its region, one after the other. Whole arrays are sent from where they lie,
// and received into memory where the payload's array may begin. Threads that use the channel move the bytes; while they
// do something else, a SocketLoop does.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "base/socket.h"
#include "comm/transport/channel.h"
#include "comm/transport/message_memory.h"
#include "comm/transport/socket_loop.h"

namespace shoal {

struct SocketOptions {
  /// How long sleep() looks out for something before it lets the system wake it, which takes tens of microseconds and
  /// may put it on the core of the peer that woke it. Others get the core between two looks.
  std::chrono::microseconds spin{200};
  /// How long the peer's host may be silent although something was sent to it. A peer that computes does not read, so
  /// this is more than any process may be late.
  std::chrono::milliseconds silence{std::chrono::minutes(15)};
};

class SocketChannel final : public Channel, private SocketLoop::Client {
 public:
  /// Both processes call this, each with its end of a connection, over which nothing else is sent from now on. The loop
  /// lives longer than the channel.
  SocketChannel(int peer, Socket socket, SocketLoop& loop, const SocketOptions& options = {});
  /// What was sent and is not done may not arrive.
  ~SocketChannel() override;

  int peer() const override { return peer_; }
  std::uint64_t send(const MessageTag& tag, const Region& region, const std::byte* data) override;
  bool is_done(std::uint64_t number) override;
  bool is_on_its_way(std::uint64_t /*number*/) override { return true; }  // The loop sends it.
  void expect(const MessageTag& tag, const Region& region) override;
  void expect_nothing() noexcept override;
  const MessageTag* next() override;
  std::uint64_t accept(const Region& region) override;
  const std::byte* payload(std::uint64_t number) override;
  void release(std::uint64_t number) override;
  void sleep(Clock::time_point deadline) override;

 private:
  static constexpr std::size_t kInput = std::size_t{64} << 10;

  enum class Kind : std::uint64_t { kMessage = 0x3167'7373'656d, kGoodbye = 0x3165'7962 };
  struct Header {
    Kind kind = Kind::kMessage;
    MessageTag tag;
  };

  struct Outgoing {
    Header header;
    Parcel parcel;
    std::size_t sent = 0;  // Of the header and the parcel.
  };
  enum class State { kHeader, kUnaccepted, kPayload };

  std::uint32_t on_ready() override;
  void move_bytes();
  void send_some();
  bool receive_some();
  void take_headers();
  void begin_if_expected();
  void begin_payload(Landing landing);
  void finish_payload();
  bool has_next() const { return expected_.begun() != nullptr || state_ == State::kUnaccepted; }
  std::uint32_t wanted_events() const;
  bool has_changed() const;
  void fail(std::string why);
  void leave_rest_to_loop();
  [[noreturn]] void throw_failure() const;

  const int peer_;
  Socket socket_;
  SocketLoop& loop_;
  const SocketOptions options_;
  std::uint64_t number_ = 0;  // In the loop.

  mutable std::mutex mutex_;  // Guards what follows.
  Clock::time_point last_use_{};
  std::uint32_t awaited_ = 0;  // What the loop waits for, or SocketLoop::Client::kLater.
  bool in_use_ = false;        // A thread waits in sleep().
  std::string failure_;        // Why there will be no more messages; empty as long as there may be.

  std::deque<Outgoing> outgoing_;
  bool cannot_send_ = false;  // The peer has ended. What it sent before may still arrive.
  std::uint64_t sent_ = 0;    // Messages that were given to send(),
  std::uint64_t done_ = 0;    // and that have left.

  State state_ = State::kHeader;
  std::vector<std::byte> input_;  // What has been read and not used: from input_begin_ to input_end_.
  std::size_t input_begin_ = 0;
  std::size_t input_end_ = 0;
  Header header_;             // Of the last message.
  std::size_t received_ = 0;  // Of the payload that arrives.
  Expectations expected_;
  std::deque<Landing> incoming_;
  std::uint64_t accepted_ = 0;
  std::uint64_t complete_ = 0;  // Accepted or not.
  std::uint64_t released_ = 0;  // Number of the message before incoming_.front().

  // What the user has been told.
  bool told_next_ = false;
  std::uint64_t told_done_ = 0;
  std::uint64_t told_complete_ = 0;
};

}  // namespace shoal
