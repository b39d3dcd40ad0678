#include "backend/cpu/moves/window_kernels.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "backend/cpu/moves/strided_copy.h"
#include "backend/cpu/moves/update_kernel.h"
#include "core/dispatch.h"
#include "ops/reduction.h"

namespace shoal::cpu {
namespace {

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

}  // namespace

std::unique_ptr<Kernel> window_kernel(const Graph& graph, const Eqn& eqn) {
  if (graph.type(eqn.inputs[0]).dtype != graph.type(eqn.outputs[0]).dtype) return nullptr;
  return std::make_unique<WindowKernel>(eqn.attrs);
}

std::unique_ptr<Kernel> window_update_kernel(const Graph&, const Eqn& eqn) {
  return std::make_unique<WindowUpdateKernel>(eqn.attrs);
}

}  // namespace shoal::cpu
