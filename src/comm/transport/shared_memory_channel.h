// A channel between two processes of one host, over memory that both see.
//
// Each side has a mailbox in its own heap (shared_heap.h), which the other maps for reading only: a ring of slots with
// what it sends, and how much of what it got it has released. Every word has one writer. A slot names the place of the
// array in the sender's heap. Arrays that are small, or lie elsewhere, are copied there first.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "base/file_descriptor.h"
#include "base/socket.h"
#include "comm/transport/channel.h"
#include "comm/transport/region_copy.h"
#include "comm/transport/shared_heap.h"

namespace shoal {

struct SharedMemoryOptions {
  /// How long sleep() looks out for something before it lets the system wake it. Zero where threads lack cores.
  std::chrono::microseconds spin{30};
  /// Bytes of the ring through which small arrays go.
  std::size_t arena_bytes = std::size_t{512} << 10;
  /// Bytes of copies of larger arrays outside the heap that may be under way; one array may be larger.
  std::size_t copied_bytes = std::size_t{256} << 20;
};

class SharedMemoryChannel final : public Channel {
 public:
  /// Arrays up to this size are copied even if they lie in the heap. They are done at once then.
  static constexpr std::size_t kCopied = std::size_t{16} << 10;

  /// Both processes call this, each with its end of a Unix stream socket, over which nothing else is sent from now on.
  /// `blocks` gives blocks of `heap`. Both live longer than the channel. Throws InvalidArgument if the other end is no
  /// such process, or one of another user; ProcessFailed if it closes; DeadlineExceeded; std::bad_alloc.
  SharedMemoryChannel(int peer, Socket socket, SharedHeap& heap, HostAllocator& blocks, Clock::time_point deadline,
                      const SharedMemoryOptions& options = {});
  /// What was sent and not released is still there for the peer, if the arrays are.
  ~SharedMemoryChannel() override;

  int peer() const override { return peer_; }
  std::uint64_t send(const MessageTag& tag, const Region& region, const std::byte* data) override;
  bool is_done(std::uint64_t number) override;
  bool is_on_its_way(std::uint64_t number) override { return number <= sent_; }
  void move_on() override {
    if (!waiting_.empty()) progress();
  }
  const MessageTag* next() override;
  std::uint64_t accept(const Region& region) override;
  const std::byte* payload(std::uint64_t number) override;
  void release(std::uint64_t number) override;
  void sleep(Clock::time_point deadline) override;

 private:
  static constexpr std::size_t kSlots = 256;

  /// One message. The number comes last: what is before it is complete then.
  struct alignas(128) Slot {
    std::atomic<std::uint64_t> number;  // From 1 on.
    std::uint64_t place;                // Of the region's first byte in the sender's heap.
    MessageTag tag;
  };
  struct Mailbox {
    alignas(64) std::atomic<std::uint64_t> released;  // The messages of the peer up to this number.
    alignas(64) std::atomic<std::uint32_t> sleeping;  // Whether the owner may be waiting for the peer's bell.
    alignas(64) std::atomic<std::uint32_t> bell;      // Changes to wake the peer.
    std::atomic<std::uint32_t> closed;
    std::array<Slot, kSlots> slots;
    alignas(64) std::byte arena[];
  };
  /// What a process tells its peer in the beginning.
  struct Introduction {
    std::uint64_t magic;
    std::uint64_t heap_size;
    std::uint64_t mailbox;  // Its offset in the heap.
  };
  /// What is kept of a message until the peer has released it.
  struct Sent {
    std::uint64_t arena_end = 0;
    void* block = nullptr;  // With a copy of the array.
    std::size_t block_bytes = 0;
    bool copied = false;
  };
  /// A message for which there is no room yet.
  struct Waiting {
    MessageTag tag;
    Region region;
    const std::byte* data;
  };

  std::size_t mailbox_bytes() const { return sizeof(Mailbox) + options_.arena_bytes; }
  void introduce(Clock::time_point deadline);
  bool publish(const MessageTag& tag, const Region& region, const std::byte* data);
  std::byte* arena_room(std::size_t bytes, std::size_t phase);
  void progress();
  bool has_changed() const;
  void wake();
  void look_after_peer();
  [[noreturn]] void throw_failure() const;

  const int peer_;
  Socket socket_;
  FileDescriptor process_;  // Of the peer, where the system shows it.
  SharedHeap& heap_;
  HostAllocator& blocks_;
  const SharedMemoryOptions options_;
  std::optional<PeerHeap> peer_heap_;
  Mailbox* mine_ = nullptr;
  const Mailbox* theirs_ = nullptr;
  std::string failure_;  // Why there will be no more messages; empty as long as there may be.
  Clock::time_point next_look_{};

  // What is sent.
  std::uint64_t sent_ = 0;
  std::uint64_t done_ = 0;
  std::uint64_t acknowledged_ = 0;       // Released by the peer.
  std::uint64_t told_acknowledged_ = 0;  // When is_done() or sleep() looked last.
  std::array<Sent, kSlots> sent_messages_{};
  std::uint64_t arena_begin_ = 0;  // Bytes of the arena ever used and given back;
  std::uint64_t arena_end_ = 0;    // and ever used.
  std::size_t copied_bytes_ = 0;   // In blocks.
  std::deque<Waiting> waiting_;

  // What is received.
  std::uint64_t arrived_ = 0;  // At most one more than are accepted.
  std::uint64_t accepted_ = 0;
  MessageTag tag_;  // Of the one that was not accepted.
  std::uint64_t place_ = 0;
  std::array<const std::byte*, kSlots> payloads_{};
};

}  // namespace shoal
