#include "comm/transport/shared_memory_channel.h"

#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/cache_line.h"
#include "base/check.h"
#include "base/futex.h"
#include "comm/transport/socket_io.h"
#include "shoal/error.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace shoal {
namespace {

constexpr std::uint64_t kMailboxMagic = 0x316c'656e'6e61'6873;  // Changes with the layout of the mailbox.
constexpr auto kLookInterval = std::chrono::milliseconds(100);
// How long the peer is believed to have a core of its own: waits in a loop of small sums are shorter.
constexpr auto kSure = std::chrono::microseconds(5);

void pause_briefly() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// Room for what goes along with an introduction: a descriptor, and who sends it.
struct alignas(cmsghdr) Ancillary {
  std::array<std::byte, CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(ucred))> bytes{};
};

template <class T>
T data_of(cmsghdr* header) {
  T value;
  std::memcpy(&value, CMSG_DATA(header), sizeof(T));
  return value;
}

}  // namespace

SharedMemoryChannel::SharedMemoryChannel(int peer, Socket socket, SharedHeap& heap, HostAllocator& blocks,
                                         Clock::time_point deadline, const SharedMemoryOptions& options)
    : peer_(peer), socket_(std::move(socket)), heap_(heap), blocks_(blocks), options_(options) {
  void* memory = heap_.map(mailbox_bytes());
  if (memory == nullptr) throw std::bad_alloc();
  mine_ = new (memory) Mailbox;  // Of zeros, as fresh pages are.
  try {
    introduce(deadline);
  } catch (...) {
    heap_.unmap(mine_, mailbox_bytes());
    throw;
  }
}

SharedMemoryChannel::~SharedMemoryChannel() {
  waiting_.clear();
  progress();
  mine_->closed.store(1, std::memory_order_seq_cst);
  wake();
  if (failure_.empty()) look_after_peer();
  // As long as the peer may look at it, nothing that it may still read is given other contents.
  const bool peer_is_gone = !failure_.empty();
  for (std::uint64_t number = acknowledged_ + 1; peer_is_gone && number <= sent_; ++number) {
    const Sent& sent = sent_messages_[number % kSlots];
    if (sent.block != nullptr) blocks_.deallocate(sent.block, sent.block_bytes);
  }
  if (peer_is_gone) heap_.unmap(mine_, mailbox_bytes());
}

/// Tells the peer where the mailbox lies, and maps the peer's heap.
void SharedMemoryChannel::introduce(Clock::time_point deadline) {
  const int yes = 1;
  setsockopt(socket_.get(), SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes));

  Introduction own{kMailboxMagic, heap_.size(), *heap_.offset_of(mine_)};
  Ancillary ancillary;
  iovec piece{&own, sizeof(own)};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = ancillary.bytes.data();
  message.msg_controllen = CMSG_SPACE(sizeof(int));
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  const int descriptor = heap_.descriptor();
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  send_message(socket_.get(), message, deadline);

  Introduction other{};
  ancillary = {};
  piece = {&other, sizeof(other)};
  message.msg_control = ancillary.bytes.data();
  message.msg_controllen = ancillary.bytes.size();
  receive_message(socket_.get(), message, deadline);
  message.msg_control = ancillary.bytes.data();
  FileDescriptor file;
  ucred sender{0, static_cast<uid_t>(-1), 0};
  for (header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET) continue;
    if (header->cmsg_type == SCM_RIGHTS) file = FileDescriptor(data_of<int>(header));
    if (header->cmsg_type == SCM_CREDENTIALS) sender = data_of<ucred>(header);
  }
  if (other.magic != kMailboxMagic || !file) {
    throw InvalidArgument(fmt::format("shared memory: process {} runs another version of Shoal", peer_));
  }
  if (sender.uid != geteuid()) {
    throw InvalidArgument(
        fmt::format("shared memory: process {} belongs to user {}, this one to {}", peer_, sender.uid, geteuid()));
  }
  peer_heap_.emplace(file, other.heap_size);
  if (other.mailbox % alignof(Mailbox) != 0 || other.mailbox > other.heap_size ||
      other.heap_size - other.mailbox < sizeof(Mailbox)) {
    throw InvalidArgument(fmt::format("shared memory: process {} has no mailbox", peer_));
  }
  theirs_ = reinterpret_cast<const Mailbox*>(peer_heap_->base() + other.mailbox);
  // A process of another namespace has no number here. Its end closes the socket, unless children of it hold that.
  if (sender.pid > 0) process_ = FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, sender.pid, 0)));
}

std::uint64_t SharedMemoryChannel::send(const MessageTag& tag, const Region& region, const std::byte* data) {
  check_region(region);
  progress();
  if (!failure_.empty()) throw_failure();
  if (!waiting_.empty() || !publish(tag, region, data)) waiting_.push_back({tag, region, data});
  return sent_ + waiting_.size();
}

/// Puts a message into the next slot; false if there is no room.
bool SharedMemoryChannel::publish(const MessageTag& tag, const Region& region, const std::byte* data) {
  if (sent_ - acknowledged_ == kSlots) return false;
  const std::uint64_t number = sent_ + 1;
  Sent& sent = sent_messages_[number % kSlots];
  const ByteRange range = range_of(region);
  const std::byte* from = data + range.begin;
  std::optional<std::size_t> place = range.size > kCopied ? heap_.offset_of(from) : std::nullopt;
  sent = {};
  if (range.size == 0) {
    place = 0;
    sent.copied = true;
  } else if (!place) {
    std::byte* copy = nullptr;
    if (range.size <= options_.arena_bytes / 2) {
      copy = arena_room(range.size, range.begin % kCacheLine);
      if (copy == nullptr) return false;
    } else {
      if (copied_bytes_ > 0 && copied_bytes_ + range.size > options_.copied_bytes) return false;
      try {
        sent.block = blocks_.allocate(range.size + kCacheLine);
      } catch (const std::bad_alloc&) {
        if (copied_bytes_ > 0) return false;
        throw;
      }
      sent.block_bytes = range.size + kCacheLine;
      copied_bytes_ += sent.block_bytes;
      copy = static_cast<std::byte*>(sent.block) + range.begin % kCacheLine;
    }
    if (region.bytes() == range.size && sent.block == nullptr) {
      std::memcpy(copy, from, range.size);
    } else {
      const PlacedCopy box{copy_in_place(region), from, copy};
      copy_boxes({&box, 1});
    }
    sent.copied = true;
    place = heap_.offset_of(copy);
    SHOAL_CHECK(place.has_value(), "blocks for copies lie in the heap");
  }
  sent.arena_end = arena_end_;
  Slot& slot = mine_->slots[number % kSlots];
  slot.place = *place;
  slot.tag = tag;
  slot.number.store(number, std::memory_order_seq_cst);
  sent_ = number;
  wake();
  return true;
}

/// Room in the arena at an address that is `phase` beyond a line of the cache, as in the array; null if it is full.
std::byte* SharedMemoryChannel::arena_room(std::size_t bytes, std::size_t phase) {
  const std::uint64_t size = options_.arena_bytes;
  const std::uint64_t needed = (phase + bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
  // An empty arena begins anew, so that few messages stay in few lines of the cache.
  if (arena_begin_ == arena_end_) arena_begin_ = arena_end_ = (arena_end_ + size - 1) / size * size;
  std::uint64_t begin = arena_end_;
  if (begin % size + needed > size) begin += size - begin % size;  // Never around the end.
  if (begin + needed - arena_begin_ > size) return nullptr;
  arena_end_ = begin + needed;
  return mine_->arena + begin % size + phase;
}

/// Frees what the peer has released, and sends what waits for that.
void SharedMemoryChannel::progress() {
  const std::uint64_t released = theirs_->released.load(std::memory_order_acquire);
  if (released > sent_ || released < acknowledged_) {
    if (failure_.empty()) failure_ = "its mailbox is damaged";
    return;
  }
  while (acknowledged_ < released) {
    Sent& sent = sent_messages_[++acknowledged_ % kSlots];
    arena_begin_ = std::max(arena_begin_, sent.arena_end);
    if (sent.block != nullptr) {
      blocks_.deallocate(sent.block, sent.block_bytes);
      copied_bytes_ -= sent.block_bytes;
    }
  }
  while (!waiting_.empty() && publish(waiting_.front().tag, waiting_.front().region, waiting_.front().data)) {
    waiting_.pop_front();
  }
  done_ = std::max(done_, acknowledged_);
  while (done_ < sent_ && sent_messages_[(done_ + 1) % kSlots].copied) ++done_;
}

bool SharedMemoryChannel::is_done(std::uint64_t number) {
  if (number <= done_) return true;
  progress();
  told_acknowledged_ = acknowledged_;
  if (number <= done_) return true;
  if (!failure_.empty()) throw_failure();
  return false;
}

const MessageTag* SharedMemoryChannel::next() {
  if (!waiting_.empty()) progress();
  if (arrived_ == accepted_) {
    const Slot& slot = theirs_->slots[(arrived_ + 1) % kSlots];
    if (slot.number.load(std::memory_order_acquire) != arrived_ + 1) {
      if (!failure_.empty()) throw_failure();
      return nullptr;
    }
    tag_ = slot.tag;
    place_ = slot.place;
    ++arrived_;
  }
  return &tag_;
}

std::uint64_t SharedMemoryChannel::accept(const Region& region) {
  SHOAL_CHECK(arrived_ > accepted_, "no message to accept");
  const ByteRange range = range_of(region);
  SHOAL_CHECK(region.bytes() == tag_.bytes, "a message is accepted as a region of its size");
  if (place_ > peer_heap_->size() || range.size > peer_heap_->size() - place_) {
    failure_ = "its mailbox is damaged";
    throw_failure();
  }
  payloads_[++accepted_ % kSlots] = peer_heap_->base() + place_ - range.begin;
  return accepted_;
}

const std::byte* SharedMemoryChannel::payload(std::uint64_t number) { return payloads_[number % kSlots]; }

void SharedMemoryChannel::release(std::uint64_t number) {
  SHOAL_CHECK(number <= accepted_, "a message is released after it was accepted");
  if (number <= mine_->released.load(std::memory_order_relaxed)) return;
  mine_->released.store(number, std::memory_order_seq_cst);
  wake();
}

// The peer says that it sleeps before it looks for the last time, and this side looks for sleepers after it has told
// what is new; all in one order. Hence one of them sees the other.
void SharedMemoryChannel::wake() {
  if (theirs_->sleeping.load(std::memory_order_seq_cst) == 0) return;
  mine_->bell.store(mine_->bell.load(std::memory_order_relaxed) + 1, std::memory_order_seq_cst);
  futex_wake(mine_->bell, FutexScope::kProcesses);
}

bool SharedMemoryChannel::has_changed() const {
  return (arrived_ == accepted_ &&
          theirs_->slots[(arrived_ + 1) % kSlots].number.load(std::memory_order_seq_cst) == arrived_ + 1) ||
         theirs_->released.load(std::memory_order_seq_cst) != told_acknowledged_;
}

void SharedMemoryChannel::sleep(Clock::time_point deadline) {
  constexpr int kLooks = 32;  // Between looks at the clock, which take as long.
  bool changed = has_changed();
  auto now = Clock::now();
  const auto sure_until = now + kSure;
  const auto awake_until = std::min(deadline, now + options_.spin);
  while (!changed && now < awake_until) {
    for (int look = 0; look < kLooks && !changed; ++look) {
      pause_briefly();
      changed = has_changed();
    }
    now = Clock::now();
    if (!changed && now >= sure_until) sched_yield();  // The peer may need this core to send what is awaited.
  }
  // Where cores are few, the peer may need this one; giving it away is quicker than being woken.
  for (int look = 0; look < kLooks && !changed && now < deadline; ++look) {
    sched_yield();
    changed = has_changed();
  }
  const auto look_at_times = [&] {
    if (now < next_look_ && theirs_->closed.load(std::memory_order_acquire) == 0) return;
    look_after_peer();
    next_look_ = now + kLookInterval;
  };
  if (!changed) look_at_times();
  while (!changed && failure_.empty() && now < deadline) {
    const std::uint32_t bell = theirs_->bell.load(std::memory_order_seq_cst);
    mine_->sleeping.store(1, std::memory_order_seq_cst);
    changed = has_changed();
    if (!changed && theirs_->closed.load(std::memory_order_seq_cst) == 0) {
      futex_wait(theirs_->bell, bell, FutexScope::kProcesses, std::min(deadline, next_look_) - now);
    }
    mine_->sleeping.store(0, std::memory_order_relaxed);
    now = Clock::now();
    look_at_times();
    changed = has_changed();
  }
  progress();
  told_acknowledged_ = acknowledged_;
  if (!changed && !failure_.empty()) throw_failure();
}

/// Notes it if the peer is no longer there. What it sent before can still be received.
void SharedMemoryChannel::look_after_peer() {
  std::array<pollfd, 2> entries{pollfd{socket_.get(), POLLIN, 0}, pollfd{process_.get(), POLLIN, 0}};
  if (theirs_->closed.load(std::memory_order_acquire) != 0) {
    failure_ = "it has closed the channel";
  } else if (poll(entries.data(), entries.size(), 0) > 0) {
    // Nothing is sent over the socket, so what makes it readable is its end.
    failure_ = theirs_->closed.load(std::memory_order_acquire) != 0 ? "it has closed the channel" : "it has ended";
  }
}

void SharedMemoryChannel::throw_failure() const {
  throw ProcessFailed(fmt::format("channel to process {}: {}", peer_, failure_));
}

}  // namespace shoal
