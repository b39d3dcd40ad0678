#include "backend/cpu/products/product_kernels.h"

#include "backend/cpu/machine/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/products/product_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <bit>
#include <complex>
#include <utility>

HWY_BEFORE_NAMESPACE();
namespace shoal::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

struct MultiplyAdd {
  template <class V>
  static HWY_INLINE V apply(V sum, V x, V y) {
    if constexpr (hwy::IsFloat<hn::TFromV<V>>()) {
      return hn::MulAdd(x, y, sum);
    } else {
      return hn::Add(hn::Mul(x, y), sum);
    }
  }
  template <class V>
  static HWY_INLINE V merge(V a, V b) {
    return hn::Add(a, b);
  }
};

struct AndOr {
  template <class V>
  static HWY_INLINE V apply(V sum, V x, V y) {
    return hn::Or(sum, hn::And(x, y));
  }
  template <class V>
  static HWY_INLINE V merge(V a, V b) {
    return hn::Or(a, b);
  }
};

/// What kernels multiply: a panel of rows and one of columns.
template <class T>
struct Panels {
  const T* lhs;
  std::int64_t lhs_line;
  std::int64_t lhs_inner;
  const T* rhs;
  std::int64_t rhs_inner;
  std::int64_t columns;
  std::int64_t inner;
};

/// The elements of the rows of a panel for one index of the inner dimension after the other. Rows of packed panels lie
/// side by side.
template <class T, std::size_t kRows, bool kPacked>
struct Rows {
  explicit Rows(const Panels<T>& panels) : inner(panels.lhs_inner) {
    for (std::size_t i = 0; i < (kPacked ? 1 : kRows); ++i)
      rows[i] = panels.lhs + static_cast<std::int64_t>(i) * panels.lhs_line;
  }
  HWY_INLINE const T& operator[](std::size_t i) const {
    return kPacked ? rows[0][at + static_cast<std::int64_t>(i)] : rows[i][at];
  }
  HWY_INLINE void move_on() { at += inner; }

  const T* rows[kPacked ? 1 : kRows];
  std::int64_t inner;
  std::int64_t at = 0;
};

/// Sums lie far apart and are wanted only after the loop over what is summed, which hides how long they take to come.
template <std::size_t kRows, class T>
HWY_INLINE void prefetch_rows(const T* out, std::int64_t stride) {
  for (std::size_t i = 0; i < kRows; ++i) __builtin_prefetch(out + static_cast<std::int64_t>(i) * stride, 1);
}

/// Panels of two vectors: the sums of kRows rows stay in registers.
template <class T, class Step>
struct VectorKernel {
  using D = hn::ScalableTag<T>;
  static std::int64_t panel_columns() { return 2 * static_cast<std::int64_t>(hn::Lanes(D())); }

  template <std::size_t kRows, bool kLhsPacked, bool kRhsPacked>
  static HWY_NOINLINE void run(const Panels<T>& panels, T* HWY_RESTRICT out, std::int64_t stride, bool accumulate) {
    const D d;
    const std::size_t lanes = hn::Lanes(d);
    const auto row = [&](std::size_t i) { return out + static_cast<std::int64_t>(i) * stride; };
    prefetch_rows<kRows>(out, stride);
    hn::Vec<D> sums[kRows][2];
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kRows; ++i) sums[i][0] = sums[i][1] = hn::Zero(d);
    Rows<T, kRows, kLhsPacked> lhs(panels);
    const T* HWY_RESTRICT rhs = panels.rhs;
    const std::int64_t columns = panels.columns;
    for (std::int64_t k = 0; k < panels.inner; ++k) {
      const auto y0 = hn::LoadU(d, rhs);
      const auto y1 = hn::LoadU(d, rhs + lanes);
      if constexpr (!kRhsPacked) __builtin_prefetch(rhs + 4 * lanes, 0, 2);  // Of the panel after the next.
#pragma GCC unroll 8
      for (std::size_t i = 0; i < kRows; ++i) {
        const auto x = hn::Set(d, lhs[i]);
        sums[i][0] = Step::apply(sums[i][0], x, y0);
        sums[i][1] = Step::apply(sums[i][1], x, y1);
      }
      lhs.move_on();
      rhs += panels.rhs_inner;
    }
    if (columns == panel_columns()) {
#pragma GCC unroll 8
      for (std::size_t i = 0; i < kRows; ++i) {
        if (accumulate) {
          sums[i][0] = Step::merge(hn::LoadU(d, row(i)), sums[i][0]);
          sums[i][1] = Step::merge(hn::LoadU(d, row(i) + lanes), sums[i][1]);
        }
        hn::StoreU(sums[i][0], d, row(i));
        hn::StoreU(sums[i][1], d, row(i) + lanes);
      }
      return;
    }
    HWY_ALIGN T part[2 * HWY_MAX_BYTES / sizeof(T)] = {};
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kRows; ++i) {
      if (accumulate) {
        std::copy_n(row(i), columns, part);
        sums[i][0] = Step::merge(hn::Load(d, part), sums[i][0]);
        sums[i][1] = Step::merge(hn::Load(d, part + lanes), sums[i][1]);
      }
      hn::Store(sums[i][0], d, part);
      hn::Store(sums[i][1], d, part + lanes);
      std::copy_n(part, columns, row(i));
    }
  }
};

/// Panels of one vector of real parts and one of imaginary ones.
template <class R>
struct ComplexKernel {
  using T = std::complex<R>;
  using D = hn::ScalableTag<R>;
  static std::int64_t panel_columns() { return static_cast<std::int64_t>(hn::Lanes(D())); }

  template <std::size_t kRows, bool kLhsPacked, bool kRhsPacked>
  static HWY_NOINLINE void run(const Panels<T>& panels, T* HWY_RESTRICT out, std::int64_t stride, bool accumulate) {
    const D d;
    const auto row = [&](std::size_t i) { return reinterpret_cast<R*>(out + static_cast<std::int64_t>(i) * stride); };
    prefetch_rows<kRows>(out, stride);
    hn::Vec<D> real[kRows];
    hn::Vec<D> imaginary[kRows];
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kRows; ++i) real[i] = imaginary[i] = hn::Zero(d);
    Rows<T, kRows, kLhsPacked> lhs(panels);
    const R* HWY_RESTRICT rhs = reinterpret_cast<const R*>(panels.rhs);
    const std::int64_t columns = panels.columns;
    for (std::int64_t k = 0; k < panels.inner; ++k) {
      hn::Vec<D> y_real;
      hn::Vec<D> y_imaginary;
      hn::LoadInterleaved2(d, rhs, y_real, y_imaginary);
#pragma GCC unroll 8
      for (std::size_t i = 0; i < kRows; ++i) {
        const auto x_real = hn::Set(d, lhs[i].real());
        const auto x_imaginary = hn::Set(d, lhs[i].imag());
        real[i] = hn::NegMulAdd(x_imaginary, y_imaginary, hn::MulAdd(x_real, y_real, real[i]));
        imaginary[i] = hn::MulAdd(x_imaginary, y_real, hn::MulAdd(x_real, y_imaginary, imaginary[i]));
      }
      lhs.move_on();
      rhs += 2 * panels.rhs_inner;
    }
    HWY_ALIGN T part[HWY_MAX_BYTES / sizeof(R)] = {};
    R* const parts = reinterpret_cast<R*>(part);
    const bool is_whole = columns == panel_columns();
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kRows; ++i) {
      if (accumulate) {
        hn::Vec<D> before_real;
        hn::Vec<D> before_imaginary;
        if (!is_whole) std::copy_n(row(i), 2 * columns, parts);
        hn::LoadInterleaved2(d, is_whole ? row(i) : parts, before_real, before_imaginary);
        real[i] = hn::Add(before_real, real[i]);
        imaginary[i] = hn::Add(before_imaginary, imaginary[i]);
      }
      hn::StoreInterleaved2(real[i], imaginary[i], d, is_whole ? row(i) : parts);
      if (!is_whole) std::copy_n(parts, 2 * columns, row(i));
    }
  }
};

/// For elements without vectors of their own: the compiler makes of it what it can.
template <class T>
struct PlainKernel {
  static constexpr std::int64_t kColumns = 4;
  static std::int64_t panel_columns() { return kColumns; }

  static HWY_INLINE void add_product(std::uint64_t& sum, std::uint64_t x, std::uint64_t y) { sum += x * y; }

  template <std::size_t kRows, bool kLhsPacked, bool kRhsPacked>
  static HWY_NOINLINE void run(const Panels<T>& panels, T* HWY_RESTRICT out, std::int64_t stride, bool accumulate) {
    T sums[kRows][std::size_t{kColumns}] = {};
    Rows<T, kRows, kLhsPacked> lhs(panels);
    const T* HWY_RESTRICT rhs = panels.rhs;
    for (std::int64_t k = 0; k < panels.inner; ++k) {
      for (std::size_t i = 0; i < kRows; ++i) {
        for (std::int64_t j = 0; j < kColumns; ++j) add_product(sums[i][j], lhs[i], rhs[j]);
      }
      lhs.move_on();
      rhs += panels.rhs_inner;
    }
    for (std::size_t i = 0; i < kRows; ++i) {
      T* row = out + static_cast<std::int64_t>(i) * stride;
      for (std::int64_t j = 0; j < panels.columns; ++j) row[j] = accumulate ? row[j] + sums[i][j] : sums[i][j];
    }
  }
};

template <class T, class Kernel>
HWY_INLINE void multiply_with(const PanelProduct& p) {
  using Run = void (*)(const Panels<T>&, T*, std::int64_t, bool);
  static constexpr auto kOfRows = []<bool kLhsPacked, bool kRhsPacked>() {
    return []<std::size_t... kLess>(std::index_sequence<kLess...>) {
      return std::array<Run, sizeof...(kLess)>{Kernel::template run<kLess + 1, kLhsPacked, kRhsPacked>...};
    }
    (std::make_index_sequence<std::size_t{kPanelRows}>());
  };
  static constexpr std::array kRuns = {
      kOfRows.template operator()<false, false>(), kOfRows.template operator()<false, true>(),
      kOfRows.template operator()<true, false>(), kOfRows.template operator()<true, true>()};
  const std::int64_t width = Kernel::panel_columns();
  const std::size_t packed = (p.lhs_layout.line == 1 ? 2U : 0U) + (p.rhs_layout.inner == width ? 1U : 0U);
  Panels<T> panels{.lhs = nullptr,
                   .lhs_line = p.lhs_layout.line,
                   .lhs_inner = p.lhs_layout.inner,
                   .rhs = static_cast<const T*>(p.rhs),
                   .rhs_inner = p.rhs_layout.inner,
                   .columns = 0,
                   .inner = p.inner};
  for (std::int64_t j = 0; j < p.columns; j += width, panels.rhs += p.rhs_layout.panel) {
    panels.columns = std::min(width, p.columns - j);
    panels.lhs = static_cast<const T*>(p.lhs);
    for (std::int64_t i = 0; i < p.rows; i += p.panel_rows, panels.lhs += p.lhs_layout.panel) {
      const std::int64_t rows = std::min(p.panel_rows, p.rows - i);
      kRuns[packed][static_cast<std::size_t>(rows - 1)](panels, static_cast<T*>(p.out) + i * p.out_stride + j,
                                                        p.out_stride, p.accumulate);
    }
  }
}

// Calls f(T{}, kernel) for the arithmetic.
template <class F>
HWY_INLINE void with_kernel(Arithmetic arithmetic, F&& f) {
  switch (arithmetic) {
    case Arithmetic::kF32:
      return f(float{}, VectorKernel<float, MultiplyAdd>());
    case Arithmetic::kF64:
      return f(double{}, VectorKernel<double, MultiplyAdd>());
    case Arithmetic::kI32:
      return f(std::uint32_t{}, VectorKernel<std::uint32_t, MultiplyAdd>());
    case Arithmetic::kBool:
      return f(std::uint32_t{}, VectorKernel<std::uint32_t, AndOr>());
    case Arithmetic::kI64:
      return f(std::uint64_t{}, PlainKernel<std::uint64_t>());
    case Arithmetic::kC64:
      return f(std::complex<float>{}, ComplexKernel<float>());
    case Arithmetic::kC128:
      return f(std::complex<double>{}, ComplexKernel<double>());
  }
}

std::int64_t columns_here(Arithmetic arithmetic) {
  std::int64_t columns = 0;
  with_kernel(arithmetic, [&](auto, auto kernel) { columns = kernel.panel_columns(); });
  return columns;
}

// 384 for vectors of 32 bytes, 256 for those of 64: both in 24 to 32 KiB.
std::int64_t inner_here() {
  const auto vector = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<float>()) * sizeof(float));
  return vector > 32 ? 256 : kMostInner;
}

void multiply_here(const PanelProduct& product) {
  with_kernel(product.arithmetic,
              [&](auto element, auto kernel) { multiply_with<decltype(element), decltype(kernel)>(product); });
}

void widen_here(const float16_t* HWY_RESTRICT from, std::int64_t n, float* HWY_RESTRICT to) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> half;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto* source = reinterpret_cast<const hwy::float16_t*>(from);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::PromoteTo(d, hn::LoadU(half, source + i)), d, to + i);
  for (; i < n; ++i) to[i] = static_cast<float>(from[i]);
}

void narrow_here(const float* HWY_RESTRICT from, std::int64_t n, float16_t* HWY_RESTRICT to) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> half;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto* target = reinterpret_cast<hwy::float16_t*>(to);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::DemoteTo(half, hn::LoadU(d, from + i)), half, target + i);
  for (; i < n; ++i) to[i] = float16_t(from[i]);
}

void narrow_to_bf16_here(const float* HWY_RESTRICT from, std::int64_t n, bfloat16_t* HWY_RESTRICT to) {
  for (std::int64_t i = 0; i < n; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(from[i]);
    const std::uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U;
    const std::uint32_t quiet = (bits >> 16U) | 0x40U;  // of NaN: rounding could make an infinity of it
    to[i].bits = static_cast<std::uint16_t>((bits & 0x7FFFFFFFU) > 0x7F800000U ? quiet : rounded);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace shoal::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backend/cpu/machine/simd_dispatch.h"

namespace shoal::cpu {

std::int64_t panel_columns(Arithmetic arithmetic) { return SHOAL_SIMD(columns_here)(arithmetic); }

std::int64_t inner_of_block() { return SHOAL_SIMD(inner_here)(); }

void multiply_panels(const PanelProduct& product) { SHOAL_SIMD(multiply_here)(product); }

void convert(const float16_t* from, std::int64_t n, float* to) { SHOAL_SIMD(widen_here)(from, n, to); }

void convert(const float* from, std::int64_t n, float16_t* to) { SHOAL_SIMD(narrow_here)(from, n, to); }

void convert(const float* from, std::int64_t n, bfloat16_t* to) { SHOAL_SIMD(narrow_to_bf16_here)(from, n, to); }

}  // namespace shoal::cpu
#endif
