// A channel over MPI.
//
// A message is one message of MPI that begins with a header, followed by the bytes of its region: in the same one if
// they are few, else in others, which are received in place. MPI tells nobody that a process died, and cannot be waited
// for with a deadline; so this looks again and again, and who waits looks after the peer by other means.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "comm/transport/channel.h"
#include "comm/transport/message_memory.h"
#include "comm/transport/mpi_world.h"

namespace shoal {

class MpiChannel final : public Channel {
 public:
  /// The bytes of regions up to this size go along with the header.
  static constexpr std::size_t kSmall = std::size_t{8} << 10;

  /// To process `peer` of those that world.connect() has connected; both processes make one, at any time. The world
  /// lives longer than the channel.
  MpiChannel(int peer, MpiWorld& world)
      : peer_(peer), world_(world), api_(world.api()), input_(sizeof(Header) + kSmall) {}
  /// What was sent and is not done may not arrive.
  ~MpiChannel() override;

  int peer() const override { return peer_; }
  std::uint64_t send(const MessageTag& tag, const Region& region, const std::byte* data) override;
  bool is_done(std::uint64_t number) override;
  /// Only calls move bytes.
  bool is_on_its_way(std::uint64_t number) override { return is_done(number); }
  void expect(const MessageTag& tag, const Region& region) override;
  void expect_nothing() noexcept override { expected_.clear(); }
  void move_on() override { progress(); }
  const MessageTag* next() override;
  std::uint64_t accept(const Region& region) override;
  const std::byte* payload(std::uint64_t number) override;
  void release(std::uint64_t number) override;
  void sleep(Clock::time_point deadline) override;

 private:
  using Request = MpiApi::Request;
  enum class Kind : std::uint64_t { kMessage = 0x3169'706d'7373'656d, kGoodbye = 0x3169'706d'6579'6221 };
  struct Header {
    Kind kind = Kind::kMessage;
    MessageTag tag;
  };
  struct Outgoing {
    std::vector<std::byte> head;  // The header, and what goes along.
    Parcel parcel;
    std::vector<Request> requests;
  };
  struct Incoming {
    Landing landing;
    std::vector<Request> requests;
  };
  enum class State { kNothing, kArriving, kUnaccepted };

  void check(int error);
  bool are_done(std::vector<Request>& requests);
  void progress();
  void receive_header();
  void take_header();
  void begin_if_expected();
  void begin_payload(Landing landing);
  bool has_next() const { return expected_.begun() != nullptr || state_ == State::kUnaccepted; }
  bool has_changed() const;
  [[noreturn]] void throw_failure() const;

  const int peer_;
  MpiWorld& world_;
  const MpiApi& api_;
  std::string failure_;              // Why there will be no more messages; empty as long as there may be.
  Clock::time_point waits_since_{};  // That of sleep(), as long as nothing has changed.

  std::deque<Outgoing> outgoing_;  // From the message after done_ on.
  std::uint64_t sent_ = 0;
  std::uint64_t done_ = 0;

  State state_ = State::kNothing;
  std::vector<std::byte> input_;  // The head of the message that was not accepted.
  std::size_t input_bytes_ = 0;
  Request receiving_;
  Header header_;
  Expectations expected_;
  std::deque<Incoming> incoming_;  // From the message after released_ on.
  std::uint64_t accepted_ = 0;
  std::uint64_t complete_ = 0;  // Accepted or not.
  std::uint64_t released_ = 0;

  // What the user has been told.
  bool told_next_ = false;
  std::uint64_t told_done_ = 0;
  std::uint64_t told_complete_ = 0;
};

}  // namespace shoal
