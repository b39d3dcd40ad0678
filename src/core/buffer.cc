#include "core/buffer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <limits>
#include <new>
#include <utility>

#include "base/check.h"
#include "shoal/error.h"

namespace shoal {
namespace {

constexpr std::align_val_t kAlignment{64};

class HostSpace final : public AddressSpace {
 public:
  explicit HostSpace(MemoryKind kind) : kind_(kind) {}
  std::string_view name() const override { return kind_.name(); }
  MemoryKind memory_kind() const override { return kind_; }
  bool host_accessible() const override { return true; }

  void* allocate(std::size_t bytes) override {
    // What the machine has not, the system may still promise, and end the process when it is used.
    if (bytes > machine_memory()) throw std::bad_alloc();
    void* data = ::operator new(bytes, kAlignment);
    bytes_in_use_.fetch_add(bytes, std::memory_order_relaxed);
    return data;
  }

  void deallocate(void* data, std::size_t bytes) noexcept override {
    bytes_in_use_.fetch_sub(bytes, std::memory_order_relaxed);
    ::operator delete(data, kAlignment);
  }

 private:
  static std::size_t machine_memory() {
    static const std::size_t bytes = [] {
      const long pages = sysconf(_SC_PHYS_PAGES);
      const long page = sysconf(_SC_PAGESIZE);
      return pages > 0 && page > 0 ? static_cast<std::size_t>(pages) * static_cast<std::size_t>(page)
                                   : std::numeric_limits<std::size_t>::max();
    }();
    return bytes;
  }

  MemoryKind kind_;
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

Buffer::Buffer(AddressSpace& space, Dtype dtype, Shape shape)
    : space_(&space), dtype_(dtype), shape_(std::move(shape)) {
  const std::size_t bytes = checked_bytes(shape_, dtype);
  try {
    data_ =
        std::shared_ptr<void>(space.allocate(bytes), [&space, bytes](void* data) { space.deallocate(data, bytes); });
  } catch (const std::bad_alloc&) {
    throw OutOfMemory(fmt::format("out of memory: {}{} needs {} bytes in memory '{}', where {} are in use",
                                  name_of(dtype), to_string(shape_), bytes, space.name(), space.bytes_in_use()));
  }
}

std::size_t Buffer::size_bytes() const { return static_cast<std::size_t>(num_elements(shape_)) * size_of(dtype_); }

bool Buffer::is_unique() const {
  // Looking at the count alone would order nothing; releasing a reference orders this after all releases before it.
  std::shared_ptr<void> second = data_;
  const bool unique = second.use_count() == 2;
  second.reset();
  return unique;
}

Buffer Buffer::reshaped(Shape shape) const {
  SHOAL_CHECK(num_elements(shape) == num_elements(shape_), "a reshaped buffer keeps its number of elements");
  Buffer result = *this;
  result.shape_ = std::move(shape);
  return result;
}

}  // namespace shoal
