// Channels: what two processes of a job exchange, in the order in which it is sent, each way.
//
// A message offers a region of an array. Its tag says what it belongs to; a receiver compares the tag with what it
// expects before it looks at the payload. Within a host nothing is copied: the receiver looks at the sender's memory.
// Hence a sender keeps an array as it is until the receiver has released the message. It need not wait for that: the
// channel can hold the array's buffer so long.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

#include "base/digest.h"
#include "comm/transport/region.h"
#include "core/buffer.h"

namespace shoal {

using Clock = std::chrono::steady_clock;

/// What a message belongs to. Equal on both sides, or the processes do not run the same program.
struct MessageTag {
  std::uint64_t communicator = 0;  ///< The set of processes that take part.
  std::uint64_t sequence = 0;      ///< The launch, counted in this communicator.
  std::uint32_t step = 0;          ///< The step of the launch,
  std::uint32_t part = 0;          ///< and which of the step's messages between the two processes.
  std::uint64_t trip = 0;          ///< The run of a body that the step is in, counted in the launch; 0 outside.
  std::uint64_t bytes = 0;         ///< Of the region.
  Digest program = {};             ///< What is run: structure, shapes, shardings, literals.
  Digest lineage = {};             ///< On what: the origins of the arguments.
  std::uint64_t history = 0;       ///< A digest of this launch and all before it; in strict mode of their trips, too.
  friend bool operator==(const MessageTag&, const MessageTag&) = default;
};

/// One end of a channel. The functions are called by one thread at a time, and none of them waits for the peer, but
/// sleep(). They throw what ended the channel, as the peer's death.
class Channel {
 public:
  /// Buffers that are still held stay as they are for good, since the peer may be reading them.
  virtual ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// The process at the other end.
  virtual int peer() const = 0;

  /// Offers a region of the array at `data`, which stays as it is until the message is done. Returns the number of the
  /// message among those sent, from 1 on.
  virtual std::uint64_t send(const MessageTag& tag, const Region& region, const std::byte* data) = 0;
  /// Whether the peer has released the messages sent up to this number, or they have left this process.
  virtual bool is_done(std::uint64_t number) = 0;
  /// Whether the peer gets them although this channel is not called any more.
  virtual bool is_on_its_way(std::uint64_t number) = 0;

  /// A message with this tag will be accepted as this region: its payload may arrive before. Messages arrive in the
  /// order in which they are sent, so what is expected behind one that does not come waits with it.
  virtual void expect(const MessageTag& /*tag*/, const Region& /*region*/) {}
  /// Forgets what was expected and has not begun to arrive.
  virtual void expect_nothing() noexcept {}
  /// Moves on what is under way, if nobody does so while the channel is not called.
  virtual void move_on() {}

  /// The tag of the oldest message that was not accepted; null as long as none has arrived. Valid until accept().
  virtual const MessageTag* next() = 0;
  /// Accepts it: the payload is that region of an array, which is the one that was expected for its tag, or the payload
  /// is not looked at. Returns its number among those received, from 1 on.
  virtual std::uint64_t accept(const Region& region) = 0;
  /// An array of which the region holds the payload of an accepted message, valid until it is released; its other
  /// elements are not to be touched. Null as long as not all of it has arrived.
  virtual const std::byte* payload(std::uint64_t number) = 0;
  /// The receiver is done with the messages accepted up to this number.
  virtual void release(std::uint64_t number) = 0;

  /// Holds the buffer that a message offers until the message is done: nobody makes another value of it so long.
  void hold(std::uint64_t number, Buffer buffer) { held_.emplace_back(number, std::move(buffer)); }
  /// Lets go of buffers whose messages are done.
  void let_go();

  /// Returns when something may have changed since the last call of another function, or at `deadline`; or earlier.
  virtual void sleep(Clock::time_point deadline) = 0;

 protected:
  Channel() = default;

 private:
  std::deque<std::pair<std::uint64_t, Buffer>> held_;  // By number.
};

}  // namespace shoal
