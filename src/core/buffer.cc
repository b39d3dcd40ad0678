#include "core/buffer.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <new>
#include <utility>

#include "base/check.h"
#include "core/host_allocator.h"
#include "shoal/error.h"

namespace shoal {
namespace {

// Up to this many bytes lie in one piece with what is known of them.
constexpr std::size_t kSmallBytes = std::size_t{16} << 10;

class HostSpace final : public AddressSpace {
 public:
  explicit HostSpace(MemoryKind kind) : kind_(kind) {}
  std::string_view name() const override { return kind_.name(); }
  MemoryKind memory_kind() const override { return kind_; }
  bool host_accessible() const override { return true; }
  bool takes_foreign() const override { return kind_ != kPinnedHostMemory; }

  std::string condition() const override {
    const HostAllocator& memory = HostAllocator::shared();
    return fmt::format("; of the {} bytes that this process may take, {} are kept for use again", memory.limit(),
                       memory.bytes_cached());
  }

 private:
  void* take(std::size_t bytes) override { return HostAllocator::shared().allocate(bytes); }
  void give_back(void* data, std::size_t bytes) noexcept override { HostAllocator::shared().deallocate(data, bytes); }

  MemoryKind kind_;
};

// Memory of the user's program, which is only read, and that others own.
class BorrowedSpace final : public AddressSpace {
 public:
  std::string_view name() const override { return "borrowed"; }
  MemoryKind memory_kind() const override { return kUnpinnedHostMemory; }
  bool host_accessible() const override { return true; }

 private:
  void* take(std::size_t) override { throw std::bad_alloc(); }
  void give_back(void*, std::size_t) noexcept override {}
};

// Bytes of `dtype`; the most there are if their number is greater than that.
std::size_t checked_bytes(const Shape& shape, Dtype dtype) {
  std::size_t bytes = 0;
  const bool overflows = __builtin_mul_overflow(static_cast<std::size_t>(num_elements(shape)), size_of(dtype), &bytes);
  return overflows ? std::numeric_limits<std::size_t>::max() : bytes;
}

}  // namespace

AddressSpace& host_space(MemoryKind kind) {
  // Never destroyed: buffers in static storage may outlive any order of destruction.
  static auto* spaces =
      new std::array<HostSpace, 3>{HostSpace(MemoryKind::Kind::kDevice), HostSpace(MemoryKind::Kind::kPinnedHost),
                                   HostSpace(MemoryKind::Kind::kUnpinnedHost)};
  return (*spaces)[static_cast<std::size_t>(kind.kind())];
}

Buffer::Block* Buffer::Block::make(AddressSpace& space, std::size_t bytes) {
  if (bytes > kSmallBytes || !space.host_accessible()) {
    void* data = space.allocate(bytes);
    try {
      return new Block(space, data, bytes, false);
    } catch (...) {
      space.deallocate(data, bytes);
      throw;
    }
  }
  void* memory = space.allocate(sizeof(Block) + bytes, sizeof(Block));
  return new (memory) Block(space, static_cast<std::byte*>(memory) + sizeof(Block), bytes, true);
}

void Buffer::Block::destroy() noexcept {
  if (in_front) {
    space->deallocate(this, sizeof(Block) + bytes, sizeof(Block));
    return;
  }
  if (foreign_owner == nullptr) space->deallocate(data, bytes);
  delete this;
}

Buffer::Buffer(AddressSpace& space, Dtype dtype, Shape shape) : dtype_(dtype), shape_(std::move(shape)) {
  const std::size_t bytes = checked_bytes(shape_, dtype);
  try {
    block_ = Block::make(space, bytes);
  } catch (const std::bad_alloc&) {
    throw OutOfMemory(fmt::format("out of memory: {}{} needs {} bytes in memory '{}', where {} are in use{}",
                                  name_of(dtype), to_string(shape_), bytes, space.name(), space.bytes_in_use(),
                                  space.condition()));
  }
}

Buffer Buffer::borrowed(const void* data, Dtype dtype, Shape shape) {
  static auto* space = new BorrowedSpace;
  Buffer buffer;
  buffer.dtype_ = dtype;
  buffer.shape_ = std::move(shape);
  // It is never written: a buffer of this space is no result of a step.
  buffer.block_ = new Block(*space, const_cast<void*>(data), 0, false);
  return buffer;
}

Buffer Buffer::foreign(AddressSpace& space, const void* data, Dtype dtype, Shape shape,
                       std::shared_ptr<const void> owner) {
  SHOAL_CHECK(space.takes_foreign() && owner != nullptr, "foreign memory has an owner, and a space that takes it");
  Buffer buffer;
  buffer.dtype_ = dtype;
  buffer.shape_ = std::move(shape);
  // It is never written: nobody is its only owner.
  buffer.block_ = new Block(space, const_cast<void*>(data), 0, false, std::move(owner));
  return buffer;
}

std::size_t Buffer::size_bytes() const { return static_cast<std::size_t>(num_elements(shape_)) * size_of(dtype_); }

Buffer Buffer::reshaped(Shape shape) const {
  SHOAL_CHECK(num_elements(shape) == num_elements(shape_), "a reshaped buffer keeps its number of elements");
  Buffer result = *this;
  result.shape_ = std::move(shape);
  return result;
}

}  // namespace shoal
