// Buffers: dense row-major elements in one address space, shared by reference.
//
// A buffer is written once, by the step that makes it, and is immutable from then on, so that any number of arrays,
// devices and threads may share it. A step that is the only one left to hold it may make another value of it.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

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
  /// Whether memory that the program has got elsewhere may stand for memory of this space.
  virtual bool takes_foreign() const { return false; }
  /// At least `bytes` bytes, aligned to 64. Of these, `overhead` are the owner's records, and do not count as in use.
  /// Throws std::bad_alloc.
  void* allocate(std::size_t bytes, std::size_t overhead = 0) {
    void* data = take(bytes);
    bytes_in_use_.fetch_add(bytes - overhead, std::memory_order_relaxed);
    return data;
  }
  /// Takes back what allocate() gave for the same numbers.
  void deallocate(void* data, std::size_t bytes, std::size_t overhead = 0) noexcept {
    bytes_in_use_.fetch_sub(bytes - overhead, std::memory_order_relaxed);
    give_back(data, bytes);
  }

  /// Bytes that are allocated now.
  std::size_t bytes_in_use() const { return bytes_in_use_.load(std::memory_order_relaxed); }
  /// What else there is to say of the memory when it is exhausted, as "; 5 bytes are kept"; may be empty.
  virtual std::string condition() const { return {}; }

 protected:
  AddressSpace() = default;

 private:
  virtual void* take(std::size_t bytes) = 0;
  virtual void give_back(void* data, std::size_t bytes) noexcept = 0;

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
  /// Elements of the host that somebody else owns, and keeps until the last such buffer is gone.
  static Buffer borrowed(const void* data, Dtype dtype, Shape shape);
  /// Elements that somebody else owns, as elements of a space that takes foreign memory. They do not change before
  /// `owner` is dropped; the thread that lets go of the last such buffer does so. They do not count as in use.
  static Buffer foreign(AddressSpace& space, const void* data, Dtype dtype, Shape shape,
                        std::shared_ptr<const void> owner);

  Buffer(const Buffer& other) : block_(other.block_), dtype_(other.dtype_), shape_(other.shape_) {
    if (block_ != nullptr) block_->owners.fetch_add(1, std::memory_order_relaxed);
  }
  Buffer(Buffer&& other) noexcept
      : block_(std::exchange(other.block_, nullptr)), dtype_(other.dtype_), shape_(std::move(other.shape_)) {}
  Buffer& operator=(const Buffer& other) { return *this = Buffer(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(block_, other.block_);
    dtype_ = other.dtype_;
    shape_ = std::move(other.shape_);
    other.release();
    return *this;
  }
  ~Buffer() { release(); }

  Dtype dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  AddressSpace& space() const { return *block_->space; }
  std::size_t size_bytes() const;
  const void* data() const { return block_ == nullptr ? nullptr : block_->data; }
  /// For the one step that fills the buffer.
  void* mutable_data() { return block_ == nullptr ? nullptr : block_->data; }
  TensorView view() const { return {dtype_, shape_, block_ == nullptr ? nullptr : block_->data}; }
  /// The same bytes under another shape with as many elements.
  Buffer reshaped(Shape shape) const;
  explicit operator bool() const { return block_ != nullptr; }
  /// Whether nobody else refers to the memory, as the owner of foreign memory always does. What others read of it
  /// before they let go happened before this.
  bool is_unique() const {
    return block_ != nullptr && block_->owners.load(std::memory_order_acquire) == 1 && block_->foreign_owner == nullptr;
  }
  /// Whether both are the same memory.
  friend bool same_memory(const Buffer& a, const Buffer& b) { return a.block_ == b.block_; }

 private:
  /// The memory and its owners. Where the host can write it, a block of few bytes lies in front of them.
  struct alignas(64) Block {
    std::atomic<std::size_t> owners{1};
    AddressSpace* space;
    void* data;
    std::size_t bytes;
    std::shared_ptr<const void> foreign_owner;
    bool in_front;

    Block(AddressSpace& where, void* elements, std::size_t size, bool together,
          std::shared_ptr<const void> other_owner = {})
        : space(&where), data(elements), bytes(size), foreign_owner(std::move(other_owner)), in_front(together) {}
    static Block* make(AddressSpace& space, std::size_t bytes);
    void destroy() noexcept;
  };

  void release() noexcept {
    Block* block = std::exchange(block_, nullptr);
    if (block == nullptr) return;
    // The last owner needs no atomic subtraction: nobody is left to see it.
    if (block->owners.load(std::memory_order_acquire) != 1 &&
        block->owners.fetch_sub(1, std::memory_order_acq_rel) != 1) {
      return;
    }
    block->destroy();
  }

  Block* block_ = nullptr;
  Dtype dtype_ = Dtype::kF32;
  Shape shape_;
};

}  // namespace shoal
