// What the processes of a job and their coordination service say to each other.
//
// A frame is a header and the bytes of one message. A client begins:
//
//     client   hello(nonce)  ──▶
//                            ◀──  challenge(nonce)        service
//              join, sealed  ──▶
//                            ◀──  accepted, sealed; or refused
//                            ◀──  started, when all have joined; or refused
//
// If the job has a secret, a frame's tag is a keyed hash of the frame and of how many went before it. The keys, one for
// each direction, are made of the secret and both nonces, so the first sealed frame of each side proves that it knows
// the secret. Without a secret tags are zero.
//
// Frames after `accepted`, but heartbeats, are counted, and every frame tells how many of these its sender has seen.
// The sender keeps those that were not seen: after a reset the connection goes on with them (Outbox).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "distributed/job.h"
#include "distributed/secret.h"
#include "distributed/serialization.h"

namespace shoal::distributed {

inline constexpr std::uint32_t kMagic = 0x6c6f6853;  // "Shol"
inline constexpr std::uint16_t kProtocolVersion = 2;
inline constexpr std::size_t kHeaderBytes = 36;
inline constexpr std::size_t kMaxUntrustedBody = std::size_t{16} << 10;  ///< Of those who have not joined.
inline constexpr std::size_t kMaxBody = std::size_t{64} << 20;
inline constexpr std::size_t kMaxValueBytes = std::size_t{16} << 20;  ///< Of a key's value.
inline constexpr std::size_t kMaxKeyBytes = 4096;

enum class MessageType : std::uint16_t {
  kHello,
  kChallenge,
  kJoin,
  kAccepted,
  kRefused,
  kStarted,
  kHeartbeat,
  kRequest,
  kReply,
  kReport,   ///< A Fault that a process reports.
  kFaults,   ///< The faults that the service tells.
  kLeaving,  ///< A process has entered shutdown.
  kGoodbye,  ///< The client closes the connection.
  kAsk,      ///< The service wants to know what the client has launched.
  kAnswer,
  kLast = kAnswer,
};

struct Hello {
  Nonce nonce = {};
  static void fields(auto& self, auto& archive) { archive(self.nonce); }
};

struct Challenge {
  Nonce nonce = {};
  std::string credential = {};  ///< Of which those get the secret who have none, by munge.h; or empty.
  static void fields(auto& self, auto& archive) { archive(self.nonce, self.credential); }
};

struct Join {
  std::string version;  ///< Of the library.
  std::string job;      ///< The launcher's name for the job, or empty.
  int num_processes = 0;
  Member me;                               ///< Without its address.
  std::chrono::milliseconds timeout = {};  ///< How long it waits for the others.
  bool again = false;                      ///< After a reset,
  std::uint64_t seen = 0;                  ///< when it had seen so many counted frames.
  static void fields(auto& self, auto& archive) {
    archive(self.version, self.job, self.num_processes, self.me, self.timeout, self.again, self.seen);
  }
};

struct Accepted {
  std::uint64_t seen = 0;
  static void fields(auto& self, auto& archive) { archive(self.seen); }
};

/// How a request ended. What is not kOk becomes an exception at the user's call.
enum class Status : std::uint8_t {
  kOk,
  kInvalid,    ///< InvalidArgument
  kState,      ///< InvalidState
  kDeadline,   ///< DeadlineExceeded
  kFailed,     ///< ProcessFailed
  kDisagreed,  ///< DistributedError
  kLast = kDisagreed,
};

struct Refused {
  Status status = Status::kDisagreed;
  std::string text;
  static void fields(auto& self, auto& archive) { archive(self.status, self.text); }
};

struct Started {
  std::vector<Member> members;
  std::chrono::milliseconds heartbeat_timeout = {};
  Nonce nonce = {};  ///< Of the job; keys of other connections are made of it.
  static void fields(auto& self, auto& archive) { archive(self.members, self.heartbeat_timeout, self.nonce); }
};

struct Heartbeat {
  std::string last_done;  ///< What the client did last, if that has changed.
  static void fields(auto& self, auto& archive) { archive(self.last_done); }
};

enum class RequestKind : std::uint8_t {
  kSet,
  kGet,
  kTryGet,
  kIncrement,
  kDirGet,
  kDelete,
  kBarrier,
  kLiveNodes,
  kShutdown,
  kWhereabouts,
  kLast = kWhereabouts,
};

struct Request {
  std::uint64_t id = 0;  ///< Which the reply repeats.
  RequestKind kind = RequestKind::kSet;
  std::string key = {};    ///< Or directory, or barrier.
  std::string value = {};  ///< At shutdown a Farewell.
  bool overwrite = false;
  std::int64_t increment = 0;  ///< Or the process whose whereabouts are wanted.
  std::chrono::milliseconds timeout = {};
  std::vector<int> processes = {};  ///< None: all.
  static void fields(auto& self, auto& archive) {
    archive(self.id, self.kind, self.key, self.value, self.overwrite, self.increment, self.timeout, self.processes);
  }
};

struct Reply {
  std::uint64_t id = 0;
  Status status = Status::kOk;
  std::string text = {};                                          ///< The error, or the whereabouts.
  std::vector<std::pair<std::string, std::string>> entries = {};  ///< Of a directory; one for a key that has a value.
  std::int64_t number = 0;                                        ///< The sum after an increment.
  std::vector<std::pair<int, std::uint64_t>> live = {};           ///< Process ids and incarnations.
  static void fields(auto& self, auto& archive) {
    archive(self.id, self.status, self.text, self.entries, self.number, self.live);
  }
};

struct Faults {
  std::vector<Fault> faults;  ///< The cause first.
  static void fields(auto& self, auto& archive) { archive(self.faults); }
};

struct Leaving {
  int process = 0;
  static void fields(auto& self, auto& archive) { archive(self.process); }
};

/// What some processes have launched together, as one of them counts it.
struct Launches {
  std::vector<int> processes;  ///< Ascending.
  std::uint64_t count = 0;
  std::uint64_t digest = 0;  ///< Of all of them, in their order.
  static void fields(auto& self, auto& archive) { archive(self.processes, self.count, self.digest); }
};

/// What a process tells when it enters shutdown.
struct Farewell {
  std::string last_done;
  std::vector<Launches> launches;
  static void fields(auto& self, auto& archive) { archive(self.last_done, self.launches); }
};

struct Ask {
  std::uint64_t number = 0;    ///< Which the answer repeats.
  std::vector<int> processes;  ///< Launches of these together are of most interest.
  static void fields(auto& self, auto& archive) { archive(self.number, self.processes); }
};

struct Answer {
  std::uint64_t number = 0;
  std::string log;  ///< Of its flight recorder; empty if it has none.
  static void fields(auto& self, auto& archive) { archive(self.number, self.log); }
};

/// One frame in a buffer.
struct FrameView {
  std::size_t size = 0;  ///< Of the whole frame; 0 if it is not complete yet.
  MessageType type = MessageType::kHello;
  std::uint64_t seen = 0;
  Tag tag = {};
  std::string_view sealed_header;
  std::string_view body;
};

/// The frame at the beginning of `bytes`. Looks at nothing else. Throws Malformed if none can begin so, or if its body
/// is longer than `max_body`.
FrameView parse_frame(std::string_view bytes, std::size_t max_body);

/// Whether a message is counted.
bool is_counted(MessageType type);

/// The tags of one direction of a connection.
class Seal {
 public:
  Seal() = default;
  explicit Seal(const Key& key) : key_(key) {}

  /// The next frame to send.
  std::string frame(MessageType type, std::uint64_t seen, std::string_view body);
  /// Whether a received frame is the next one of this direction.
  bool accepts(const FrameView& frame);

 private:
  Tag next_tag(std::string_view header, std::string_view body);

  std::optional<Key> key_;
  std::uint64_t count_ = 0;
};

/// Both directions of a connection, as they are after hello and challenge.
struct Seals {
  Seal to_service, to_client;
};
Seals make_seals(const std::optional<Key>& secret, const Nonce& client, const Nonce& service);

/// The counted frames that one side has sent and the other has not yet seen.
class Outbox {
 public:
  struct Item {
    MessageType type;
    std::string body;
  };
  const Item& keep(MessageType type, std::string body) { return items_.emplace_back(type, std::move(body)); }
  /// The other side has seen so many since the start.
  void seen(std::uint64_t count) {
    for (; first_ < count && !items_.empty(); ++first_) items_.pop_front();
  }
  const std::deque<Item>& items() const { return items_; }

 private:
  std::deque<Item> items_;
  std::uint64_t first_ = 0;
};

}  // namespace shoal::distributed
