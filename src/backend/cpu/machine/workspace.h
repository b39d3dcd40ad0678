// Memory that a kernel needs while it runs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/buffer.h"

namespace shoal::cpu {

/// Elements for as long as it lives, aligned to 64 bytes and not initialised: a few in itself, more in a buffer, which
/// is counted, and kept for whoever needs as much.
template <class T>
class Workspace {
 public:
  explicit Workspace(std::int64_t count) {
    const std::int64_t bytes = count * static_cast<std::int64_t>(sizeof(T));
    if (bytes > kOwnBytes) buffer_ = Buffer(host_space({}), Dtype::kU8, {bytes});
    data_ = static_cast<T*>(bytes > kOwnBytes ? buffer_.mutable_data() : own_);
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  T* data() const { return data_; }

 private:
  static constexpr std::int64_t kOwnBytes = 4096;
  alignas(64) std::byte own_[std::size_t{kOwnBytes}];
  Buffer buffer_;
  T* data_;
};

}  // namespace shoal::cpu
