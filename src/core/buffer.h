// Buffers: dense row-major elements in one address space, shared by reference.
//
// A buffer is written once, by the step that makes it, and is immutable from then on, so that any number of arrays,
// devices and threads may share it. A step that is the only one left to hold it may make another value of it.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string_view>

#include "shoal/device.h"
#include "shoal/dtype.h"
#include "shoal/shape.h"

namespace shoal {

/// Where bytes live. All CPU devices of a process share one space per memory kind; each GPU will have its own.
/// Objects live as long as the process; the functions may be called from any thread.
class AddressSpace {
 public:
  virtual ~AddressSpace() = default;
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  virtual std::string_view name() const = 0;
  virtual MemoryKind memory_kind() const = 0;
  /// Whether the host may read and write the bytes through their pointer.
  virtual bool host_accessible() const = 0;
  /// At least `bytes` bytes, aligned to 64. Throws std::bad_alloc.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void deallocate(void* data, std::size_t bytes) noexcept = 0;

  /// Bytes that are allocated now.
  std::size_t bytes_in_use() const { return bytes_in_use_.load(std::memory_order_relaxed); }

 protected:
  AddressSpace() = default;
  std::atomic<std::size_t> bytes_in_use_{0};
};

/// The address space of the CPU devices for one memory kind.
AddressSpace& host_space(MemoryKind kind);

/// What a kernel sees of an operand or a result: dense row-major elements. The data is not owned.
struct TensorView {
  Dtype dtype;
  Shape shape;
  void* data;
  Dims start = {};  ///< For ops that see it: where the shard begins in each dimension. Empty stands for zeros.

  std::int64_t start_of(std::size_t dim) const { return start.empty() ? 0 : start[dim]; }

  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

class Buffer {
 public:
  Buffer() = default;
  /// Uninitialised memory for the given elements. Throws OutOfMemory, saying how much is needed and how much in use.
  Buffer(AddressSpace& space, Dtype dtype, Shape shape);

  Dtype dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  AddressSpace& space() const { return *space_; }
  std::size_t size_bytes() const;
  const void* data() const { return data_.get(); }
  /// For the one step that fills the buffer.
  void* mutable_data() { return data_.get(); }
  TensorView view() const { return {dtype_, shape_, data_.get()}; }
  /// The same bytes under another shape with as many elements.
  Buffer reshaped(Shape shape) const;
  explicit operator bool() const { return space_ != nullptr; }
  /// Whether nobody else refers to the memory. What others read of it before they let go happened before this.
  bool is_unique() const;
  /// Whether both are the same memory.
  friend bool same_memory(const Buffer& a, const Buffer& b) { return a.data_ == b.data_; }

 private:
  AddressSpace* space_ = nullptr;
  Dtype dtype_ = Dtype::kF32;
  Shape shape_;
  std::shared_ptr<void> data_;
};

}  // namespace shoal
