// What kernels share whose result is their first operand but for some elements.
#pragma once

#include <algorithm>
#include <cstring>
#include <optional>

#include "backend/backend.h"

namespace shoal::cpu {

using Views = std::span<const TensorView>;

inline std::int64_t bytes_of(const TensorView& view) {
  return num_elements(view.shape) * static_cast<std::int64_t>(size_of(view.dtype));
}

/// Tiles of so many bytes are worth a thread.
constexpr std::int64_t kUpdateTileBytes = 1 << 17;

inline std::int64_t update_tiles(const TensorView& out) {
  return std::max<std::int64_t>(1, (bytes_of(out) + kUpdateTileBytes - 1) / kUpdateTileBytes);
}

/// Whether it takes time to put so many updates in their places.
inline bool finishes_long(const TensorView& updates) {
  constexpr std::int64_t kBytes = 1 << 14;
  return bytes_of(updates) >= kBytes;
}

/// The tiles copy the array; finish() replaces a part of it by the second operand.
class UpdateKernel : public Kernel {
 public:
  Work work(Views inputs, Views outputs) const override {
    return {.tiles = update_tiles(outputs[0]), .finishes_long = finishes_long(inputs[1])};
  }
  void run(Views inputs, Views outputs, std::byte*, std::int64_t tile) const override {
    if (inputs[0].data == outputs[0].data) return;
    const std::int64_t begin = tile * kUpdateTileBytes;
    const std::int64_t end = std::min(begin + kUpdateTileBytes, bytes_of(outputs[0]));
    if (begin >= end) return;
    std::memcpy(static_cast<std::byte*>(outputs[0].data) + begin, static_cast<const std::byte*>(inputs[0].data) + begin,
                static_cast<std::size_t>(end - begin));
  }
  bool may_overwrite(std::size_t input, std::size_t) const override { return input == 0; }
  std::optional<std::size_t> copied_input() const override { return 0; }
};

}  // namespace shoal::cpu
