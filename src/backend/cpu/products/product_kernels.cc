#include "backend/cpu/products/product_kernels.h"

#include "backend/cpu/machine/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/products/product_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <complex>

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
  explicit Rows(const Panels<T>& panels) : inner(kPacked ? kPanelRows : panels.lhs_inner) {
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

/// Panels of two vectors: the sums of kRows rows stay in registers.
template <class T, class Step>
struct VectorKernel {
  using D = hn::ScalableTag<T>;
  static std::int64_t panel_columns() { return 2 * static_cast<std::int64_t>(hn::Lanes(D())); }

  template <std::size_t kRows, bool kPacked>
  static HWY_NOINLINE void run(const Panels<T>& panels, T* HWY_RESTRICT out, std::int64_t stride, bool accumulate) {
    const D d;
    const std::size_t lanes = hn::Lanes(d);
    hn::Vec<D> sums[kRows][2];
    for (std::size_t i = 0; i < kRows; ++i) sums[i][0] = sums[i][1] = hn::Zero(d);
    Rows<T, kRows, kPacked> lhs(panels);
    const T* HWY_RESTRICT rhs = panels.rhs;
    const std::int64_t columns = panels.columns;
    for (std::int64_t k = 0; k < panels.inner; ++k) {
      const auto y0 = hn::LoadU(d, rhs);
      const auto y1 = hn::LoadU(d, rhs + lanes);
      for (std::size_t i = 0; i < kRows; ++i) {
        const auto x = hn::Set(d, lhs[i]);
        sums[i][0] = Step::apply(sums[i][0], x, y0);
        sums[i][1] = Step::apply(sums[i][1], x, y1);
      }
      lhs.move_on();
      rhs += panels.rhs_inner;
    }
    if (columns == panel_columns()) {
      for (std::size_t i = 0; i < kRows; ++i) {
        T* row = out + static_cast<std::int64_t>(i) * stride;
        if (accumulate) {
          sums[i][0] = Step::merge(hn::LoadU(d, row), sums[i][0]);
          sums[i][1] = Step::merge(hn::LoadU(d, row + lanes), sums[i][1]);
        }
        hn::StoreU(sums[i][0], d, row);
        hn::StoreU(sums[i][1], d, row + lanes);
      }
      return;
    }
    HWY_ALIGN T row[2 * HWY_MAX_BYTES / sizeof(T)] = {};
    for (std::size_t i = 0; i < kRows; ++i) {
      if (accumulate) {
        std::copy_n(out + static_cast<std::int64_t>(i) * stride, columns, row);
        sums[i][0] = Step::merge(hn::Load(d, row), sums[i][0]);
        sums[i][1] = Step::merge(hn::Load(d, row + lanes), sums[i][1]);
      }
      hn::Store(sums[i][0], d, row);
      hn::Store(sums[i][1], d, row + lanes);
      std::copy_n(row, columns, out + static_cast<std::int64_t>(i) * stride);
    }
  }
};

/// For elements without vectors of their own: the compiler makes of it what it can.
template <class T>
struct PlainKernel {
  static constexpr std::int64_t kColumns = 4;
  static std::int64_t panel_columns() { return kColumns; }

  static HWY_INLINE void add_product(std::uint64_t& sum, std::uint64_t x, std::uint64_t y) { sum += x * y; }
  // Not operator*, which calls a function for the sake of infinities.
  template <class R>
  static HWY_INLINE void add_product(std::complex<R>& sum, std::complex<R> x, std::complex<R> y) {
    sum = {sum.real() + (x.real() * y.real() - x.imag() * y.imag()),
           sum.imag() + (x.real() * y.imag() + x.imag() * y.real())};
  }

  template <std::size_t kRows, bool kPacked>
  static HWY_NOINLINE void run(const Panels<T>& panels, T* HWY_RESTRICT out, std::int64_t stride, bool accumulate) {
    T sums[kRows][std::size_t{kColumns}] = {};
    Rows<T, kRows, kPacked> lhs(panels);
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
  static constexpr Run kRuns[2][kPanelRows] = {
      {Kernel::template run<1, false>, Kernel::template run<2, false>, Kernel::template run<3, false>,
       Kernel::template run<4, false>, Kernel::template run<5, false>, Kernel::template run<6, false>},
      {Kernel::template run<1, true>, Kernel::template run<2, true>, Kernel::template run<3, true>,
       Kernel::template run<4, true>, Kernel::template run<5, true>, Kernel::template run<6, true>}};
  const std::int64_t width = Kernel::panel_columns();
  const bool is_packed = p.lhs_layout.line == 1 && p.lhs_layout.inner == kPanelRows;
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
    for (std::int64_t i = 0; i < p.rows; i += kPanelRows, panels.lhs += p.lhs_layout.panel) {
      const std::int64_t rows = std::min(kPanelRows, p.rows - i);
      kRuns[is_packed ? 1 : 0][rows - 1](panels, static_cast<T*>(p.out) + i * p.out_stride + j, p.out_stride,
                                         p.accumulate);
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
      return f(std::complex<float>{}, PlainKernel<std::complex<float>>());
    case Arithmetic::kC128:
      return f(std::complex<double>{}, PlainKernel<std::complex<double>>());
  }
}

std::int64_t columns_here(Arithmetic arithmetic) {
  std::int64_t columns = 0;
  with_kernel(arithmetic, [&](auto, auto kernel) { columns = kernel.panel_columns(); });
  return columns;
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

void multiply_panels(const PanelProduct& product) { SHOAL_SIMD(multiply_here)(product); }

void convert(const float16_t* from, std::int64_t n, float* to) { SHOAL_SIMD(widen_here)(from, n, to); }

void convert(const float* from, std::int64_t n, float16_t* to) { SHOAL_SIMD(narrow_here)(from, n, to); }

void convert(const float* from, std::int64_t n, bfloat16_t* to) { SHOAL_SIMD(narrow_to_bf16_here)(from, n, to); }

}  // namespace shoal::cpu
#endif
