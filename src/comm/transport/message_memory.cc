#include "comm/transport/message_memory.h"

#include <sys/mman.h>

#include <new>
#include <utility>

#include "base/cache_line.h"
#include "comm/transport/region_copy.h"
#include "core/host_allocator.h"

namespace shoal {

Block::Block(std::size_t bytes, bool is_sparse)
    : bytes_(bytes), is_mapped_(is_sparse && bytes >= HostAllocator::kHugePage) {
  if (is_mapped_) {
    void* mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<std::byte*>(mapped);
  } else {
    data_ = static_cast<std::byte*>(HostAllocator::shared().allocate(bytes_));
  }
}

Block::Block(Block&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_), is_mapped_(other.is_mapped_) {}

Block& Block::operator=(Block&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(is_mapped_, other.is_mapped_);
  return *this;
}

Block::~Block() {
  if (data_ == nullptr) return;
  if (is_mapped_) {
    munmap(data_, bytes_);
  } else {
    HostAllocator::shared().deallocate(data_, bytes_);
  }
}

Parcel::Parcel(const Region& region, const std::byte* array) : bytes_(region.bytes()) {
  check_region(region);
  const ByteRange range = range_of(region);
  data_ = array + range.begin;
  if (bytes_ == range.size) return;
  copy_ = Block(bytes_);
  const PlacedCopy copy{copy_to_dense(region), data_, copy_.data()};
  copy_boxes({&copy, 1});
  data_ = copy_.data();
}

Landing::Landing(const Region& region) : region_(region), bytes_(region.bytes()) {
  check_region(region);
  const ByteRange range = range_of(region);
  // The region lies relative to lines of the cache as in an array that begins with one.
  block_ = Block(range.size + kCacheLine, range.size > 2 * bytes_);
  data_ = block_.data() + range.begin % kCacheLine;
  array_ = data_ - range.begin;
  if (bytes_ == range.size) return;
  dense_ = Block(bytes_);
  data_ = dense_.data();
}

void Landing::finish() {
  if (dense_.data() == nullptr) return;
  const PlacedCopy copy{copy_from_dense(region_), dense_.data(), array_ + range_of(region_).begin};
  copy_boxes({&copy, 1});
  dense_ = {};
}

}  // namespace shoal
