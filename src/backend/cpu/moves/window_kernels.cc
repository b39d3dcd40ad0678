#include "backend/cpu/moves/window_kernels.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "backend/cpu/moves/strided_copy.h"
#include "core/dispatch.h"
#include "ops/reduction.h"

namespace shoal::cpu {
namespace {

using Views = std::span<const TensorView>;

constexpr std::int64_t kCopyTileBytes = 1 << 17;

std::int64_t bytes_of(const TensorView& view) {
  return num_elements(view.shape) * static_cast<std::int64_t>(size_of(view.dtype));
}

// An integer of any dtype; those beyond 64 bits are as far as one can go.
std::int64_t integer_at(const TensorView& view, std::int64_t place) {
  return with_element_type(view.dtype, [&](auto tag) -> std::int64_t {
    using T = decltype(tag);
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      const T value = view.as<T>()[place];
      return std::in_range<std::int64_t>(value) ? static_cast<std::int64_t>(value)
                                                : std::numeric_limits<std::int64_t>::max();
    }
    return 0;
  });
}

// The elements of a shard of an array that a shard of a window of it stands for.
struct Overlap {
  Shape extents;
  Dims in_array;  // Where they begin in each of the two shards.
  Dims in_window;
};

// `starts` say where the window begins in the whole array, or as near as it fits; `attrs` have the extents of both,
// where these are shards.
Overlap overlap_of(const Attrs& attrs, Views starts, const TensorView& array, const TensorView& window) {
  const Attr* whole = attrs.find("extents");
  const Shape& array_extents = whole == nullptr ? array.shape : std::get<Dims>(*whole);
  const Shape& window_extents = whole == nullptr ? window.shape : attrs.get<Dims>("window");
  Overlap overlap;
  for (std::size_t d = 0; d < array.shape.size(); ++d) {
    const std::int64_t fits =
        std::clamp<std::int64_t>(integer_at(starts[d], 0), 0, array_extents[d] - window_extents[d]);
    const std::int64_t window_begin = fits + window.start_of(d);
    const std::int64_t array_begin = array.start_of(d);
    const std::int64_t begin = std::max(window_begin, array_begin);
    const std::int64_t end = std::min(window_begin + window.shape[d], array_begin + array.shape[d]);
    overlap.extents.push_back(std::max<std::int64_t>(0, end - begin));
    overlap.in_array.push_back(begin - array_begin);
    overlap.in_window.push_back(begin - window_begin);
  }
  return overlap;
}

void copy_box(const TensorView& from, const Dims& from_start, const TensorView& to, const Dims& to_start,
              const Shape& extents) {
  if (num_elements(extents) == 0) return;
  const std::size_t size = size_of(to.dtype);
  StridedCopy copy{.extents = extents, .from_strides = {}, .to_strides = {}};
  const auto strides = [&](const TensorView& view, const Dims& start, std::int64_t& offset) {
    Dims bytes = row_major_strides(view.shape);
    for (std::size_t d = 0; d < bytes.size(); ++d) {
      bytes[d] *= static_cast<std::int64_t>(size);
      offset += start[d] * bytes[d];
    }
    return bytes;
  };
  copy.from_strides = strides(from, from_start, copy.from_offset);
  copy.to_strides = strides(to, to_start, copy.to_offset);
  const StridedCopy simple = copy.simplified(size);
  copy_rows(simple, size, static_cast<const std::byte*>(from.data), static_cast<std::byte*>(to.data), 0, simple.rows());
}

class WindowKernel final : public Kernel {
 public:
  explicit WindowKernel(Attrs attrs) : attrs_(std::move(attrs)) {}

  void run(Views inputs, Views outputs, std::byte*, std::int64_t) const override {
    const TensorView& window = outputs[0];
    const Overlap overlap = overlap_of(attrs_, inputs.subspan(1), inputs[0], window);
    if (overlap.extents != window.shape) {
      // What other shards have adds nothing to the sum of all.
      with_element_type(window.dtype, [&](auto tag) {
        using T = decltype(tag);
        std::fill_n(window.as<T>(), num_elements(window.shape), nothing<T>());
      });
    }
    copy_box(inputs[0], overlap.in_array, window, overlap.in_window, overlap.extents);
  }

 private:
  Attrs attrs_;
};

// The tiles copy the array; the rest replaces a part of it.
class UpdateKernel : public Kernel {
 public:
  Work work(Views, Views outputs) const override {
    return {.tiles = std::max<std::int64_t>(1, (bytes_of(outputs[0]) + kCopyTileBytes - 1) / kCopyTileBytes)};
  }
  void run(Views inputs, Views outputs, std::byte*, std::int64_t tile) const override {
    if (inputs[0].data == outputs[0].data) return;
    const std::int64_t begin = tile * kCopyTileBytes;
    const std::int64_t end = std::min(begin + kCopyTileBytes, bytes_of(outputs[0]));
    if (begin >= end) return;
    std::memcpy(static_cast<std::byte*>(outputs[0].data) + begin, static_cast<const std::byte*>(inputs[0].data) + begin,
                static_cast<std::size_t>(end - begin));
  }
  bool may_overwrite(std::size_t input, std::size_t) const override { return input == 0; }
  std::optional<std::size_t> copied_input() const override { return 0; }
};

class WindowUpdateKernel final : public UpdateKernel {
 public:
  explicit WindowUpdateKernel(Attrs attrs) : attrs_(std::move(attrs)) {}

  void finish(Views inputs, Views outputs, std::byte*) const override {
    const Overlap overlap = overlap_of(attrs_, inputs.subspan(2), outputs[0], inputs[1]);
    copy_box(inputs[1], overlap.in_window, outputs[0], overlap.in_array, overlap.extents);
  }

 private:
  Attrs attrs_;
};

class RowUpdateKernel final : public UpdateKernel {
 public:
  void finish(Views inputs, Views outputs, std::byte*) const override {
    const std::int64_t rows = num_elements(inputs[2].shape);
    const TensorView& out = outputs[0];
    if (rows == 0 || bytes_of(out) == 0) return;
    const std::int64_t row_bytes = bytes_of(inputs[1]) / rows;
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t index = integer_at(inputs[2], row);
      if (index < out.start_of(0) || index - out.start_of(0) >= out.shape[0]) continue;
      std::memcpy(static_cast<std::byte*>(out.data) + (index - out.start_of(0)) * row_bytes,
                  static_cast<const std::byte*>(inputs[1].data) + row * row_bytes, static_cast<std::size_t>(row_bytes));
    }
  }
};

}  // namespace

std::unique_ptr<Kernel> window_kernel(const Graph& graph, const Eqn& eqn) {
  if (graph.type(eqn.inputs[0]).dtype != graph.type(eqn.outputs[0]).dtype) return nullptr;
  return std::make_unique<WindowKernel>(eqn.attrs);
}

std::unique_ptr<Kernel> window_update_kernel(const Graph&, const Eqn& eqn) {
  return std::make_unique<WindowUpdateKernel>(eqn.attrs);
}

std::unique_ptr<Kernel> row_update_kernel(const Graph&, const Eqn& eqn) {
  const bool takes_rows = eqn.attrs.get<Dims>("dims") == Dims{0} && eqn.attrs.get<Dims>("array_batch").empty();
  return takes_rows ? std::make_unique<RowUpdateKernel>() : nullptr;
}

}  // namespace shoal::cpu
