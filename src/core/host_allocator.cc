#include "core/host_allocator.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <new>
#include <thread>

#include "base/env.h"
#include "base/resources.h"

namespace shoal {
namespace {

constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

std::size_t round_up(std::size_t bytes, std::size_t step) { return (bytes + step - 1) / step * step; }

// A mapping of its own that begins at a multiple of a huge page; null if there is none.
void* map_aligned(std::size_t size) {
  constexpr std::size_t kPage = HostAllocator::kHugePage;
  void* mapped =
      mmap(nullptr, size + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* begin = static_cast<std::byte*>(mapped);
  const std::size_t skipped = (kPage - reinterpret_cast<std::uintptr_t>(begin) % kPage) % kPage;
  if (skipped != 0) munmap(begin, skipped);
  if (skipped != kPage) munmap(begin + skipped + size, kPage - skipped);
  madvise(begin + skipped, size, MADV_HUGEPAGE);  // Without huge pages the memory is as good, only slower.
  return begin + skipped;
}

}  // namespace

class HostAllocator::ShelfLock {
 public:
  explicit ShelfLock(const Shelf& shelf) : shelf_(shelf) {
    while (shelf_.locked.test_and_set(std::memory_order_acquire)) std::this_thread::yield();
  }
  ~ShelfLock() { shelf_.locked.clear(std::memory_order_release); }
  ShelfLock(const ShelfLock&) = delete;
  ShelfLock& operator=(const ShelfLock&) = delete;

 private:
  const Shelf& shelf_;
};

HostAllocator::HostAllocator(std::size_t limit) : limit_(limit) {}

HostAllocator::~HostAllocator() { trim(); }

HostAllocator& HostAllocator::shared() {
  // Never destroyed: buffers in static storage may outlive any order of destruction.
  static auto* allocator = new HostAllocator(env_bytes("SHOAL_MEMORY_LIMIT").value_or(usable_memory()));
  return *allocator;
}

// The size of the class that holds `bytes`; overflowing sizes are left as they are, for the system to refuse.
std::size_t HostAllocator::block_size(std::size_t bytes) {
  if (bytes <= kAlignment) return kAlignment;
  if (bytes > kNoLimit / 4) return bytes;
  const std::size_t octave = std::bit_floor(bytes - 1);
  const std::size_t step = bytes <= kSmall ? octave / 4 : octave / 8;
  return round_up(bytes, std::max(step, bytes < kHugePage ? kAlignment : kHugePage));
}

// Four classes for each power of two up to kSmall, and eight beyond.
std::size_t HostAllocator::class_of(std::size_t size) {
  const auto octave = static_cast<std::size_t>(std::bit_width(size - 1)) - 1;
  const std::size_t within = size - 1 - (std::size_t{1} << octave);
  if (size <= kAlignment) return 0;
  return size <= kSmall ? (octave - 6) * 4 + (within >> (octave - 2)) : (octave - 15) * 8 + (within >> (octave - 3));
}

// The number of the thread's shelf.
std::size_t HostAllocator::shelf() {
  static std::atomic<std::size_t> threads{0};
  thread_local const std::size_t mine = threads.fetch_add(1, std::memory_order_relaxed) % kShelves;
  return mine;
}

void* HostAllocator::allocate(std::size_t bytes) {
  const std::size_t size = block_size(bytes);
  if constexpr (kCaches) {
    if (void* kept = size <= kSmall ? take_small(size) : take_large(size)) return kept;
  }
  return from_system(size);
}

void HostAllocator::deallocate(void* data, std::size_t bytes) noexcept {
  const std::size_t size = block_size(bytes);
  if constexpr (kCaches) {
    if (size <= kSmall ? keep_small(data, size) : keep_large(data, size)) return;
  }
  to_system(data, size);
}

void* HostAllocator::take_small(std::size_t size) {
  const std::size_t kind = class_of(size);
  const std::size_t mine = shelf();
  for (std::size_t i = 0; i < kShelves; ++i) {
    Shelf& one = shelves_[(mine + i) % kShelves];
    if (one.bytes.load(std::memory_order_relaxed) < size) continue;
    const ShelfLock lock(one);
    SmallBlock* const block = one.blocks[kind];
    if (block == nullptr) continue;
    one.blocks[kind] = block->next;
    one.bytes.store(one.bytes.load(std::memory_order_relaxed) - size, std::memory_order_relaxed);
    return block;
  }
  return nullptr;
}

bool HostAllocator::keep_small(void* data, std::size_t size) {
  Shelf& mine = shelves_[shelf()];
  SmallBlock*& first = mine.blocks[class_of(size)];
  const ShelfLock lock(mine);
  const std::size_t bytes = mine.bytes.load(std::memory_order_relaxed) + size;
  if (bytes > kShelfBytes) return false;
  first = new (data) SmallBlock{first, size};
  mine.bytes.store(bytes, std::memory_order_relaxed);
  return true;
}

void* HostAllocator::take_large(std::size_t size) {
  if (size > limit()) return nullptr;
  const std::lock_guard lock(mutex_);
  LargeBlock* block = large_[class_of(size)];
  if (block == nullptr) return nullptr;
  unlink(*block);
  return block;
}

bool HostAllocator::keep_large(void* data, std::size_t size) {
  const std::size_t most = limit() / 4;
  if (size > most) return false;
  // What is older than the source is not handed out again.
  if (const PageSource* source = source_.load(std::memory_order_acquire)) {
    if (!source->owns(data)) return false;
  }
  const std::lock_guard lock(mutex_);
  while (large_bytes_ + size > most) {
    LargeBlock* oldest = oldest_;
    unlink(*oldest);
    to_system(oldest, oldest->size);
  }
  LargeBlock*& first = large_[class_of(size)];
  auto* block = new (data) LargeBlock{nullptr, newest_, first, nullptr, size};
  if (first != nullptr) first->previous = block;
  first = block;
  (newest_ != nullptr ? newest_->newer : oldest_) = block;
  newest_ = block;
  large_bytes_ += size;
  return true;
}

/// Takes a kept block out of both of its lists. The caller holds mutex_.
void HostAllocator::unlink(LargeBlock& block) {
  (block.newer != nullptr ? block.newer->older : newest_) = block.older;
  (block.older != nullptr ? block.older->newer : oldest_) = block.newer;
  (block.previous != nullptr ? block.previous->next : large_[class_of(block.size)]) = block.next;
  if (block.next != nullptr) block.next->previous = block.previous;
  large_bytes_ -= block.size;
}

void HostAllocator::trim() noexcept {
  for (Shelf& shelf : shelves_) {
    const ShelfLock lock(shelf);
    for (SmallBlock*& first : shelf.blocks) {
      while (first != nullptr) {
        SmallBlock* block = first;
        first = block->next;
        to_system(block, block->size);
      }
    }
    shelf.bytes.store(0, std::memory_order_relaxed);
  }
  const std::lock_guard lock(mutex_);
  while (oldest_ != nullptr) {
    LargeBlock* block = oldest_;
    unlink(*block);
    to_system(block, block->size);
  }
}

void HostAllocator::set_page_source(PageSource& source) {
  source_.store(&source, std::memory_order_release);
  trim();
}

std::size_t HostAllocator::bytes_cached() const {
  std::size_t bytes = 0;
  for (const Shelf& shelf : shelves_) {
    const ShelfLock lock(shelf);
    bytes += shelf.bytes.load(std::memory_order_relaxed);
  }
  const std::lock_guard lock(mutex_);
  return bytes + large_bytes_;
}

std::size_t HostAllocator::bytes_in_use() const {
  const std::size_t cached = bytes_cached();
  return std::max(held_.load(std::memory_order_relaxed), cached) - cached;
}

// Counts `size` bytes as held, if the limit allows it.
bool HostAllocator::reserve(std::size_t size) {
  const std::size_t most = limit();
  std::size_t held = held_.load(std::memory_order_relaxed);
  do {
    if (size > most || held > most - size) return false;
  } while (!held_.compare_exchange_weak(held, held + size, std::memory_order_relaxed));
  std::size_t peak = peak_.load(std::memory_order_relaxed);
  while (peak < held + size && !peak_.compare_exchange_weak(peak, held + size, std::memory_order_relaxed)) {
  }
  return true;
}

void* HostAllocator::from_system(std::size_t size) {
  const auto attempt = [&]() -> void* {
    if (!reserve(size)) return nullptr;
    PageSource* source = size > kSmall ? source_.load(std::memory_order_acquire) : nullptr;
    void* data = source != nullptr   ? source->map(size)
                 : size >= kHugePage ? map_aligned(size)
                                     : ::operator new(size, std::align_val_t(kAlignment), std::nothrow);
    if (data == nullptr) held_.fetch_sub(size, std::memory_order_relaxed);
    return data;
  };
  void* data = attempt();
  if (data == nullptr) {
    trim();
    data = attempt();
  }
  if (data == nullptr) throw std::bad_alloc();
  blocks_from_system_.fetch_add(1, std::memory_order_relaxed);
  return data;
}

void HostAllocator::to_system(void* data, std::size_t size) noexcept {
  PageSource* source = size > kSmall ? source_.load(std::memory_order_acquire) : nullptr;
  if (source != nullptr && source->owns(data)) {
    source->unmap(data, size);
  } else if (size >= kHugePage) {
    munmap(data, size);
  } else {
    ::operator delete(data, std::align_val_t(kAlignment));
  }
  held_.fetch_sub(size, std::memory_order_relaxed);
}

}  // namespace shoal
