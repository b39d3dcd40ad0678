// Memory of the host for buffers and arenas: blocks that are given back are kept and handed out again, so that results
// of a call that is repeated do not meet fresh pages, which the system has to clear, each time.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace shoal {

/// Where an allocator gets its blocks from instead of the memory that only this process sees.
class PageSource {
 public:
  virtual ~PageSource() = default;
  PageSource(const PageSource&) = delete;
  PageSource& operator=(const PageSource&) = delete;

  /// `bytes` bytes, aligned to pages, and from HostAllocator::kHugePage on to huge ones; null if there is no more.
  virtual void* map(std::size_t bytes) = 0;
  /// Takes back what map(bytes) gave.
  virtual void unmap(void* data, std::size_t bytes) noexcept = 0;
  /// Whether an address lies in what map() gives.
  virtual bool owns(const void* data) const noexcept = 0;

 protected:
  PageSource() = default;
};

/// May be used from any thread.
///
/// Sizes are rounded up to one of at most eight classes between powers of two. Blocks of 2 MiB and more are mapped on
/// their own, aligned to 2 MiB and, where the system can, made of huge pages. What is kept of blocks that are not small
/// is bounded by a quarter of the limit; beyond that, those which have been unused longest go back to the system.
/// Under the sanitizers nothing is kept, so that they see each use of memory that was given back.
class HostAllocator {
 public:
  static constexpr std::size_t kAlignment = 64;
  static constexpr std::size_t kHugePage = std::size_t{2} << 20;
  static constexpr std::size_t kSmall = std::size_t{32} << 10;  ///< Blocks up to this are kept near their threads.

  /// An allocator that takes no more than `limit` bytes of the system, for blocks in use and kept together.
  explicit HostAllocator(std::size_t limit);
  /// No block may be in use.
  ~HostAllocator();
  HostAllocator(const HostAllocator&) = delete;
  HostAllocator& operator=(const HostAllocator&) = delete;

  /// That of the process. Its limit is SHOAL_MEMORY_LIMIT, in bytes or with a suffix as "16GiB", or else what
  /// usable_memory() says at the first call. Throws InvalidArgument if that variable is malformed.
  static HostAllocator& shared();

  /// At least `bytes` bytes, aligned to kAlignment. If the limit or the system allow no more, all that is kept is given
  /// back first. Throws std::bad_alloc if that is not enough.
  void* allocate(std::size_t bytes);
  /// Takes back what allocate(bytes) gave.
  void deallocate(void* data, std::size_t bytes) noexcept;

  /// Gives all that is kept back to the system.
  void trim() noexcept;

  /// From now on blocks of more than kSmall bytes come from `source`, which must live as long as this allocator. Those
  /// in use stay what they are. May be called once.
  void set_page_source(PageSource& source);

  /// What allocate(bytes) takes of the limit.
  static std::size_t block_size(std::size_t bytes);

  std::size_t limit() const { return limit_.load(std::memory_order_relaxed); }
  /// Changes the limit. What is in use stays, even if it is more. For tests: programs are planned for the limit at
  /// which they are compiled.
  void set_limit(std::size_t limit) { limit_.store(limit, std::memory_order_relaxed); }
  /// Bytes of blocks that are kept to be handed out again.
  std::size_t bytes_cached() const;
  /// Bytes of blocks that are in use, sizes being those of their classes.
  std::size_t bytes_in_use() const;
  /// The most bytes that were in use and kept together since the last forget_peak(). After trim() that is what is taken
  /// at most, as a kept block is only handed out for its own size.
  std::size_t peak_bytes() const { return peak_.load(std::memory_order_relaxed); }
  /// From now on the peak is that of what follows. What is allocated at this time may be missed.
  void forget_peak() { peak_.store(held_.load(std::memory_order_relaxed), std::memory_order_relaxed); }
  /// How many blocks the system has given so far: those that nothing kept could stand for.
  std::uint64_t blocks_from_system() const { return blocks_from_system_.load(std::memory_order_relaxed); }

  /// Whether blocks are kept at all: not under the sanitizers.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  static constexpr bool kCaches = false;
#else
  static constexpr bool kCaches = true;
#endif

 private:
  static constexpr std::size_t kSmallClasses = 36;
  static constexpr std::size_t kLargeClasses = 384;
  static constexpr std::size_t kShelves = 8;
  static constexpr std::size_t kShelfBytes = std::size_t{2} << 20;

  /// Lies in the first bytes of a block that is kept.
  struct SmallBlock {
    SmallBlock* next;
    std::size_t size;
  };
  struct LargeBlock {
    LargeBlock* newer;  // Of all: the list that begins with oldest_.
    LargeBlock* older;
    LargeBlock* next;  // Of its class, the newest first.
    LargeBlock* previous;
    std::size_t size;
  };

  /// Small blocks that some of the threads share. Few threads meet at one, and none stays for long. Where its own shelf
  /// has none, a thread looks at the others: blocks may be taken by one thread and given back by another each time.
  struct alignas(kAlignment) Shelf {
    mutable std::atomic_flag locked = ATOMIC_FLAG_INIT;
    std::atomic<std::size_t> bytes{0};  // Changed under the lock.
    std::array<SmallBlock*, kSmallClasses> blocks{};
  };
  class ShelfLock;

  static std::size_t class_of(std::size_t size);
  std::size_t shelf();
  void* take_small(std::size_t size);
  bool keep_small(void* data, std::size_t size);
  void* take_large(std::size_t size);
  bool keep_large(void* data, std::size_t size);
  void unlink(LargeBlock& block);
  void* from_system(std::size_t size);
  void to_system(void* data, std::size_t size) noexcept;
  bool reserve(std::size_t size);

  std::atomic<std::size_t> limit_;
  std::atomic<PageSource*> source_{nullptr};
  std::atomic<std::size_t> held_{0};  // In use and kept together.
  std::atomic<std::size_t> peak_{0};  // The most of it.
  std::atomic<std::uint64_t> blocks_from_system_{0};
  std::array<Shelf, kShelves> shelves_;
  mutable std::mutex mutex_;  // Guards what follows.
  std::array<LargeBlock*, kLargeClasses> large_{};
  LargeBlock* oldest_ = nullptr;
  LargeBlock* newest_ = nullptr;
  std::size_t large_bytes_ = 0;
};

}  // namespace shoal
