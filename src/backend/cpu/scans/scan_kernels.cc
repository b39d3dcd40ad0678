#include "backend/cpu/scans/scan_kernels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

#include "core/dispatch.h"
#include "ops/reduction.h"

namespace shoal::cpu {
namespace {

using Views = std::span<const TensorView>;

// Elements of a tile, if lines are short.
constexpr std::int64_t kTileElements = 1 << 15;
// Lines that lie side by side and are gone through together: what they carry is in the first-level cache.
constexpr std::int64_t kLinesTogether = 256;

/// Lines along a dimension: groups of `inner` ones that lie side by side, which are divided into blocks.
struct Lines {
  std::int64_t extent;  ///< The elements of a line.
  std::int64_t inner;
  std::int64_t blocks_of_group;
  std::int64_t blocks;
  std::int64_t blocks_of_tile;

  Lines(const Shape& shape, std::size_t dim) : extent(shape[dim]) {
    std::int64_t outer = 1;
    inner = 1;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (d < dim) outer *= shape[d];
      if (d > dim) inner *= shape[d];
    }
    blocks_of_group = (inner + kLinesTogether - 1) / kLinesTogether;
    blocks = outer * blocks_of_group;
    const std::int64_t elements = std::max<std::int64_t>(1, extent * std::min(inner, kLinesTogether));
    blocks_of_tile = std::max<std::int64_t>(1, kTileElements / elements);
  }
  std::int64_t tiles() const { return std::max<std::int64_t>(1, (blocks + blocks_of_tile - 1) / blocks_of_tile); }
};

template <ReduceKind kKind>
struct Reduction {
  template <class T>
  static constexpr bool kTakes = !kIsComplexElement<T> || kKind == ReduceKind::kSum || kKind == ReduceKind::kProd;
  template <class Carried>
  static Carried step(Carried carried, Carried element) {
    return reduce_two(kKind, carried, element);
  }
};

/// log(exp(a) + exp(b)), by the greater one: nothing overflows, and the smaller one is lost no sooner than it must be.
struct LogSumExp {
  template <class T>
  static constexpr bool kTakes = std::is_same_v<Accumulator<T>, double>;
  static double step(double carried, double element) {
    if (std::isnan(carried)) return carried;
    if (std::isnan(element)) return element;
    const auto [less, greater] = std::minmax(carried, element);
    return std::isinf(greater) ? greater : greater + std::log1p(std::exp(less - greater));
  }
};

template <class Step>
class ScanKernel final : public Kernel {
 public:
  explicit ScanKernel(const Attrs& attrs)
      : dim_(static_cast<std::size_t>(attrs.get<std::int64_t>("dim"))), reverse_(attrs.get<bool>("reverse")) {}

  Work work(Views, Views outputs) const override { return {.tiles = Lines(outputs[0].shape, dim_).tiles()}; }

  void run(Views inputs, Views outputs, std::byte*, std::int64_t tile) const override {
    const TensorView& out = outputs[0];
    if (num_elements(out.shape) == 0) return;
    const Lines lines(out.shape, dim_);
    const std::int64_t end = std::min(lines.blocks, (tile + 1) * lines.blocks_of_tile);
    with_element_type(out.dtype, [&]<class T>(T) {
      if constexpr (Step::template kTakes<T>) {
        for (std::int64_t block = tile * lines.blocks_of_tile; block < end; ++block) {
          const std::int64_t first = block % lines.blocks_of_group * kLinesTogether;
          const std::int64_t at = block / lines.blocks_of_group * lines.extent * lines.inner + first;
          const std::int64_t width = std::min(kLinesTogether, lines.inner - first);
          scan(inputs[0].as<T>() + at, out.as<T>() + at, lines.extent, lines.inner, width);
        }
      }
    });
  }

  bool may_overwrite(std::size_t, std::size_t) const override { return true; }

 private:
  // Lines of n elements, `stride` from one to the next, that lie side by side.
  template <class T>
  void scan(const T* from, T* to, std::int64_t n, std::int64_t stride, std::int64_t width) const {
    using Carried = Accumulator<T>;
    if (reverse_) {
      from += (n - 1) * stride;
      to += (n - 1) * stride;
      stride = -stride;
    }
    if (width == 1) {
      auto carried = static_cast<Carried>(*from);
      for (std::int64_t i = 0;;) {
        to[i * stride] = from_accumulator<T>(carried);
        if (++i == n) return;
        carried = Step::step(carried, static_cast<Carried>(from[i * stride]));
      }
    }
    std::array<Carried, kLinesTogether> carried;
    for (std::int64_t k = 0; k < width; ++k) carried[static_cast<std::size_t>(k)] = static_cast<Carried>(from[k]);
    for (std::int64_t i = 0;;) {
      for (std::int64_t k = 0; k < width; ++k) to[k] = from_accumulator<T>(carried[static_cast<std::size_t>(k)]);
      if (++i == n) return;
      from += stride;
      to += stride;
      for (std::int64_t k = 0; k < width; ++k) {
        Carried& one = carried[static_cast<std::size_t>(k)];
        one = Step::step(one, static_cast<Carried>(from[k]));
      }
    }
  }

  std::size_t dim_;
  bool reverse_;
};

template <class Step>
std::unique_ptr<Kernel> scan_kernel(const Eqn& eqn) {
  return std::make_unique<ScanKernel<Step>>(eqn.attrs);
}

}  // namespace

std::unique_ptr<Kernel> cumsum_kernel(const Graph&, const Eqn& eqn) {
  return scan_kernel<Reduction<ReduceKind::kSum>>(eqn);
}
std::unique_ptr<Kernel> cumprod_kernel(const Graph&, const Eqn& eqn) {
  return scan_kernel<Reduction<ReduceKind::kProd>>(eqn);
}
std::unique_ptr<Kernel> cummax_kernel(const Graph&, const Eqn& eqn) {
  return scan_kernel<Reduction<ReduceKind::kMax>>(eqn);
}
std::unique_ptr<Kernel> cummin_kernel(const Graph&, const Eqn& eqn) {
  return scan_kernel<Reduction<ReduceKind::kMin>>(eqn);
}
std::unique_ptr<Kernel> cumlogsumexp_kernel(const Graph&, const Eqn& eqn) { return scan_kernel<LogSumExp>(eqn); }

}  // namespace shoal::cpu
