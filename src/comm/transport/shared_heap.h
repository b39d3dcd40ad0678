// The memory of this process that other processes of the host may read.
//
// It is one file without a name, so that nothing is left when the process ends, however it ends. The file is sparse and
// large, of fixed size, and mapped once. Peers get its descriptor over a socket and map it once, too, for reading; then
// an offset is all that is needed to show them an array.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "base/file_descriptor.h"
#include "core/host_allocator.h"

namespace shoal {

/// May be used from any thread. In a child of fork() that does not replace its program, the memory is as it was, what
/// is written to it stays there, and there is none to allocate.
class SharedHeap final : public PageSource {
 public:
  static constexpr std::size_t kPage = 4096;

  /// Reserves the addresses for `size` bytes, or as many as the limits of the process allow: no memory yet.
  /// Throws OutOfMemory, saying what the system refused.
  explicit SharedHeap(std::size_t size);
  ~SharedHeap() override;

  /// That of the process: large enough for the memory limit of HostAllocator::shared(), whose blocks come from it once
  /// the first call has made it.
  static SharedHeap& shared();

  /// `bytes` bytes, rounded up to pages, which exist from then on, so that writing them cannot fail. Aligned to pages,
  /// and from HostAllocator::kHugePage on to huge ones, of which they are where the system has them for such files.
  /// Their contents are zeros. Null if the heap or the system have no more.
  void* map(std::size_t bytes) override;
  /// Takes back what map(bytes) gave; the pages are the system's again.
  void unmap(void* data, std::size_t bytes) noexcept override;
  bool owns(const void* data) const noexcept override { return offset_of(data).has_value(); }

  /// How far from the beginning of the heap an address lies; nullopt for one outside.
  std::optional<std::size_t> offset_of(const void* data) const noexcept {
    const std::size_t offset = reinterpret_cast<std::uintptr_t>(data) - reinterpret_cast<std::uintptr_t>(base_);
    return offset < size_ ? std::optional(offset) : std::nullopt;
  }
  std::size_t size() const { return size_; }
  /// What peers map. Sealed: it neither shrinks nor grows.
  int descriptor() const { return file_.get(); }
  /// Bytes that are allocated now.
  std::size_t bytes_in_use() const;

 private:
  bool reserve(std::byte* data, std::size_t bytes) const;
  void give_back_pages(std::size_t offset, std::size_t bytes) const noexcept;
  void add_free(std::size_t offset, std::size_t bytes);
  static void leave_to_parent();

  FileDescriptor file_;
  std::byte* base_ = nullptr;
  std::size_t size_ = 0;
  pid_t owner_ = 0;

  mutable std::mutex mutex_;                                    // Guards what follows.
  std::map<std::size_t, std::size_t> free_;                     // Offsets and sizes of what is free.
  std::set<std::pair<std::size_t, std::size_t>> free_by_size_;  // Sizes and offsets.
  std::size_t free_bytes_ = 0;
};

/// The heap of another process, mapped for reading.
class PeerHeap {
 public:
  PeerHeap() = default;
  /// Throws InvalidArgument unless `file` is a heap: sealed, so that no page of it can vanish, and of that size.
  PeerHeap(const FileDescriptor& file, std::size_t size);
  PeerHeap(PeerHeap&& other) noexcept : base_(std::exchange(other.base_, nullptr)), size_(other.size_) {}
  PeerHeap& operator=(PeerHeap&&) = delete;
  ~PeerHeap();

  const std::byte* base() const { return base_; }
  std::size_t size() const { return size_; }

 private:
  const std::byte* base_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace shoal
