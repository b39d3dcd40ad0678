#include "comm/transport/shared_heap.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/thread_pool.h"
#include "shoal/error.h"

#ifndef MADV_POPULATE_WRITE  // Linux 5.14
#define MADV_POPULATE_WRITE 23
#endif

namespace shoal {
namespace {

constexpr std::size_t kHuge = HostAllocator::kHugePage;
// Beyond this, the heaps of a hundred peers would not find room in the addresses of a process, of which the thread
// sanitizer leaves few.
#ifdef __SANITIZE_THREAD__
constexpr std::size_t kMostBytes = std::size_t{16} << 30;
#else
constexpr std::size_t kMostBytes = std::size_t{512} << 30;
#endif
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;

std::size_t round_up(std::size_t bytes, std::size_t step) { return (bytes + step - 1) / step * step; }

[[noreturn]] void refused(const char* call, std::size_t size) {
  throw OutOfMemory(fmt::format("shared memory: {} for a heap of {} bytes: {}; SHOAL_TRANSPORT=socket does without it",
                                call, size, std::strerror(errno)));
}

std::size_t limit_of(__rlimit_resource resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kMostBytes;
  return static_cast<std::size_t>(limit.rlim_cur);
}

// The heaps of the process, for its children.
struct Heaps {
  std::mutex mutex;
  std::vector<SharedHeap*> all;
};

Heaps& heaps() {
  static auto* const heaps = new Heaps;
  return *heaps;
}

}  // namespace

SharedHeap::SharedHeap(std::size_t size) : owner_(getpid()) {
  // A file larger than its limit would not only be refused: the process would get a signal that ends it.
  size_ = std::min({round_up(size, kHuge), kMostBytes, limit_of(RLIMIT_FSIZE)}) / kPage * kPage;
  void* room = MAP_FAILED;
  for (; size_ >= kPage; size_ = size_ / 2 / kPage * kPage) {
    room = mmap(nullptr, size_ + kHuge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room != MAP_FAILED) break;
  }
  if (room == MAP_FAILED) refused("mmap", size);
  auto* begin = static_cast<std::byte*>(room);
  base_ = begin + (kHuge - reinterpret_cast<std::uintptr_t>(begin) % kHuge) % kHuge;
  if (base_ != begin) munmap(begin, static_cast<std::size_t>(base_ - begin));
  munmap(base_ + size_, kHuge - static_cast<std::size_t>(base_ - begin));
  try {
    file_ = FileDescriptor(memfd_create("shoal", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!file_) refused("memfd_create", size_);
    if (ftruncate(file_.get(), static_cast<off_t>(size_)) != 0) refused("ftruncate", size_);
    if (fcntl(file_.get(), F_ADD_SEALS, kSeals | F_SEAL_SEAL) != 0) refused("F_ADD_SEALS", size_);
    if (mmap(base_, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file_.get(), 0) ==
        MAP_FAILED) {
      refused("mmap", size_);
    }
    madvise(base_, size_, MADV_HUGEPAGE);  // Without huge pages the memory is as good, only slower.
    add_free(0, size_);
    const std::lock_guard lock(heaps().mutex);
    static const bool watches_forks [[maybe_unused]] = [] {
      return pthread_atfork([] { heaps().mutex.lock(); }, [] { heaps().mutex.unlock(); }, &leave_to_parent) == 0;
    }();
    heaps().all.push_back(this);
  } catch (...) {
    munmap(base_, size_);
    throw;
  }
}

SharedHeap::~SharedHeap() {
  {
    const std::lock_guard lock(heaps().mutex);
    std::erase(heaps().all, this);
  }
  munmap(base_, size_);
}

SharedHeap& SharedHeap::shared() {
  // Twice the limit, so that pieces between blocks are no lack. Never destroyed: buffers in static storage may outlive
  // any order of destruction.
  static auto* const heap = [] {
    HostAllocator& allocator = HostAllocator::shared();
    auto* made = new SharedHeap(2 * std::min(allocator.limit(), kMostBytes / 2));
    allocator.set_page_source(*made);
    return made;
  }();
  return *heap;
}

// In the child of a fork: the pages become its own when it writes to them, so that the parent does not see it.
void SharedHeap::leave_to_parent() {
  for (const SharedHeap* heap : heaps().all) {
    mmap(heap->base_, heap->size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, heap->file_.get(),
         0);
  }
  heaps().mutex.unlock();
}

void* SharedHeap::map(std::size_t bytes) {
  if (bytes > size_ || getpid() != owner_) return nullptr;
  const std::size_t size = round_up(std::max<std::size_t>(bytes, 1), kPage);
  const std::size_t alignment = size >= kHuge ? kHuge : kPage;
  std::size_t offset = 0;
  try {
    const std::lock_guard lock(mutex_);
    auto found = free_by_size_.lower_bound({size, 0});
    while (found != free_by_size_.end() && round_up(found->second, alignment) + size > found->second + found->first) {
      ++found;
    }
    if (found == free_by_size_.end()) return nullptr;
    const auto [room, begin] = *found;
    offset = round_up(begin, alignment);
    free_by_size_.erase(found);
    free_.erase(begin);
    free_bytes_ -= room;
    if (offset > begin) add_free(begin, offset - begin);
    if (begin + room > offset + size) add_free(offset + size, begin + room - offset - size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  if (reserve(base_ + offset, size)) return base_ + offset;
  unmap(base_ + offset, size);
  return nullptr;
}

void SharedHeap::unmap(void* data, std::size_t bytes) noexcept {
  if (getpid() != owner_) return;
  const std::size_t size = round_up(std::max<std::size_t>(bytes, 1), kPage);
  const std::size_t offset = *offset_of(data);
  give_back_pages(offset, size);
  try {
    const std::lock_guard lock(mutex_);
    add_free(offset, size);
  } catch (const std::bad_alloc&) {
    // The addresses are lost, the pages are not.
  }
}

std::size_t SharedHeap::bytes_in_use() const {
  const std::lock_guard lock(mutex_);
  return size_ - free_bytes_;
}

/// Gives the pages their memory, by all threads if there are many: clearing them takes longer than anything that is
/// done with them later.
bool SharedHeap::reserve(std::byte* data, std::size_t bytes) const {
  constexpr std::size_t kPiece = std::size_t{4} << 20;
  std::atomic<bool> failed{false};
  const auto reserve_piece = [&](std::int64_t piece) {
    const std::size_t begin = static_cast<std::size_t>(piece) * kPiece;
    const std::size_t size = std::min(kPiece, bytes - begin);
    int result = -1;
    do {
      result = madvise(data + begin, size, MADV_POPULATE_WRITE);
    } while (result != 0 && (errno == EINTR || errno == EAGAIN) && !failed.load(std::memory_order_relaxed));
    if (result != 0 && errno == EINVAL) {  // An older kernel: the pages will be mapped when they are touched.
      do {
        result = fallocate(file_.get(), FALLOC_FL_KEEP_SIZE, data + begin - base_, static_cast<off_t>(size));
      } while (result != 0 && errno == EINTR);
    }
    if (result != 0) failed.store(true, std::memory_order_relaxed);
  };
  ThreadPool::shared().parallel_for(static_cast<std::int64_t>((bytes + kPiece - 1) / kPiece), reserve_piece);
  return !failed.load(std::memory_order_relaxed);
}

void SharedHeap::give_back_pages(std::size_t offset, std::size_t bytes) const noexcept {
  int result = 0;
  do {
    result = fallocate(file_.get(), FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, static_cast<off_t>(offset),
                       static_cast<off_t>(bytes));
  } while (result != 0 && errno == EINTR);
}

/// Adds a range to those that are free, and makes one of it and its neighbours. The caller holds mutex_, or is alone.
void SharedHeap::add_free(std::size_t offset, std::size_t bytes) {
  auto after = free_.lower_bound(offset);
  const std::size_t added = bytes;
  if (after != free_.end() && after->first == offset + bytes) {
    bytes += after->second;
    free_by_size_.erase({after->second, after->first});
    after = free_.erase(after);
  }
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == offset) {
      offset = before->first;
      bytes += before->second;
      free_by_size_.erase({before->second, before->first});
      free_.erase(before);
    }
  }
  free_.emplace(offset, bytes);
  free_by_size_.emplace(bytes, offset);
  free_bytes_ += added;
}

PeerHeap::PeerHeap(const FileDescriptor& file, std::size_t size) : size_(size) {
  struct stat status {};
  const int seals = fcntl(file.get(), F_GET_SEALS);
  if (size == 0 || seals < 0 || (seals & kSeals) != kSeals || fstat(file.get(), &status) != 0 ||
      static_cast<std::size_t>(status.st_size) != size) {
    throw InvalidArgument("shared memory: what the peer sent is not a heap of Shoal");
  }
  void* mapped = mmap(nullptr, size, PROT_READ, MAP_SHARED | MAP_NORESERVE, file.get(), 0);
  if (mapped == MAP_FAILED) refused("mmap", size);
  base_ = static_cast<const std::byte*>(mapped);
}

PeerHeap::~PeerHeap() {
  if (base_ != nullptr) munmap(const_cast<std::byte*>(base_), size_);
}

}  // namespace shoal
