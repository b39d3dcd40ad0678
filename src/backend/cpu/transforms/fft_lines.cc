#include "backend/cpu/transforms/fft_lines.h"

#include "backend/cpu/machine/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/transforms/fft_lines.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "backend/cpu/machine/workspace.h"

// Comes after what it uses.
#include "backend/cpu/decompositions/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shoal::cpu {
namespace HWY_NAMESPACE {
namespace {

template <class T>
using FftLanes = ComplexLanes<hn::ScalableTag<T>>;

// ---- Sums of a few numbers: y[k] = sum of x[j] exp(-2 pi i j k / radix).

template <class F>
using NumberOf = typename F::Number;

template <class F>
HWY_INLINE NumberOf<F> difference(NumberOf<F> x, NumberOf<F> y) {
  return {hn::Sub(x.re, y.re), hn::Sub(x.im, y.im)};
}
/// -i x.
template <class F>
HWY_INLINE NumberOf<F> turned(NumberOf<F> x) {
  return {x.im, hn::Neg(x.re)};
}
/// x - i y and x + i y.
template <class F>
HWY_INLINE NumberOf<F> minus_turned(NumberOf<F> x, NumberOf<F> y) {
  return {hn::Add(x.re, y.im), hn::Sub(x.im, y.re)};
}
template <class F>
HWY_INLINE NumberOf<F> plus_turned(NumberOf<F> x, NumberOf<F> y) {
  return {hn::Sub(x.re, y.im), hn::Add(x.im, y.re)};
}
template <class F>
HWY_INLINE typename F::Vector all(typename F::Real x) {
  return hn::Set(typename F::Tag(), x);
}

template <class F>
HWY_INLINE void sums_of_four(NumberOf<F>& a, NumberOf<F>& b, NumberOf<F>& c, NumberOf<F>& d) {
  const auto ac = F::add(a, c);
  const auto a_c = difference<F>(a, c);
  const auto bd = F::add(b, d);
  const auto b_d = difference<F>(b, d);
  a = F::add(ac, bd);
  b = minus_turned<F>(a_c, b_d);
  c = difference<F>(ac, bd);
  d = plus_turned<F>(a_c, b_d);
}

/// In place; `roots` are the cosines and sines of an odd radix.
template <class F, std::size_t kRadix>
HWY_INLINE void sums_of(NumberOf<F>* x, [[maybe_unused]] const typename F::Real* roots) {
  using Real = typename F::Real;
  if constexpr (kRadix == 1) {
  } else if constexpr (kRadix == 2) {
    const auto sum = F::add(x[0], x[1]);
    x[1] = difference<F>(x[0], x[1]);
    x[0] = sum;
  } else if constexpr (kRadix == 4) {
    sums_of_four<F>(x[0], x[1], x[2], x[3]);
  } else if constexpr (kRadix == 8) {
    sums_of_four<F>(x[0], x[2], x[4], x[6]);
    sums_of_four<F>(x[1], x[3], x[5], x[7]);
    // Now x[0], x[2], x[4], x[6] are the sums of the even ones, and the others of the odd ones.
    const auto root = all<F>(static_cast<Real>(0.70710678118654752440));
    const auto b = NumberOf<F>{hn::Mul(hn::Add(x[3].re, x[3].im), root), hn::Mul(hn::Sub(x[3].im, x[3].re), root)};
    const auto d = NumberOf<F>{hn::Mul(hn::Sub(x[7].im, x[7].re), root), hn::Mul(hn::Add(x[7].re, x[7].im), root)};
    const NumberOf<F> even[4] = {x[0], x[2], x[4], x[6]};
    const auto odd0 = x[1];
    const auto odd2 = x[5];
    x[0] = F::add(even[0], odd0);
    x[4] = difference<F>(even[0], odd0);
    x[1] = F::add(even[1], b);
    x[5] = difference<F>(even[1], b);
    x[2] = minus_turned<F>(even[2], odd2);
    x[6] = plus_turned<F>(even[2], odd2);
    // exp(-3/4 pi i) = (-1 - i) / sqrt(2): d is its product with x[7], both parts negated in turn.
    x[3] = NumberOf<F>{hn::Add(even[3].re, d.re), hn::Sub(even[3].im, d.im)};
    x[7] = NumberOf<F>{hn::Sub(even[3].re, d.re), hn::Add(even[3].im, d.im)};
  } else {
    constexpr std::size_t kHalf = kRadix / 2;
    NumberOf<F> sums[kHalf];
    NumberOf<F> differences[kHalf];
    NumberOf<F> total = x[0];
    HWY_UNROLL(8)
    for (std::size_t j = 0; j < kHalf; ++j) {
      sums[j] = F::add(x[j + 1], x[kRadix - 1 - j]);
      differences[j] = difference<F>(x[j + 1], x[kRadix - 1 - j]);
      total = F::add(total, sums[j]);
    }
    const NumberOf<F> first = x[0];
    x[0] = total;
    HWY_UNROLL(8)
    for (std::size_t k = 1; k <= kHalf; ++k) {
      NumberOf<F> even = first;
      NumberOf<F> odd = F::zero();
      HWY_UNROLL(8)
      for (std::size_t j = 1; j <= kHalf; ++j) {
        const std::size_t at = j * k % kRadix;
        even = F::scaled_add(even, sums[j - 1], all<F>(roots[2 * at]));
        odd = F::scaled_add(odd, differences[j - 1], all<F>(roots[2 * at + 1]));
      }
      x[k] = minus_turned<F>(even, odd);
      x[kRadix - k] = plus_turned<F>(even, odd);
    }
  }
}

/// The same of any odd radix.
template <class F>
HWY_NOINLINE void sums_of_many(NumberOf<F>* x, std::int64_t radix, const typename F::Real* roots) {
  const std::int64_t half = radix / 2;
  NumberOf<F> sums[kMostRadix / 2 + 1];
  NumberOf<F> differences[kMostRadix / 2 + 1];
  NumberOf<F> total = x[0];
  for (std::int64_t j = 1; j <= half; ++j) {
    sums[j] = F::add(x[j], x[radix - j]);
    differences[j] = difference<F>(x[j], x[radix - j]);
    total = F::add(total, sums[j]);
  }
  const NumberOf<F> first = x[0];
  x[0] = total;
  for (std::int64_t k = 1; k <= half; ++k) {
    NumberOf<F> even = first;
    NumberOf<F> odd = F::zero();
    std::int64_t at = 0;
    for (std::int64_t j = 1; j <= half; ++j) {
      at += k;
      if (at >= radix) at -= radix;
      even = F::scaled_add(even, sums[j], all<F>(roots[2 * at]));
      odd = F::scaled_add(odd, differences[j], all<F>(roots[2 * at + 1]));
    }
    x[k] = minus_turned<F>(even, odd);
    x[radix - k] = plus_turned<F>(even, odd);
  }
}

// ---- Where the numbers of all lanes come from and go to. Each has get(i) or set(i, x) for element i of the lines.

/// Memory of their own.
template <class F>
struct InLanes {
  typename F::Real* data;
  std::int64_t real = 0;  ///< Where real parts lie.
  std::int64_t imag = F::kLanes;

  HWY_INLINE NumberOf<F> get(std::int64_t i) const {
    const auto* const at = data + i * F::kStep;
    return {hn::Load(typename F::Tag(), at + real), hn::Load(typename F::Tag(), at + imag)};
  }
  HWY_INLINE void set(std::int64_t i, NumberOf<F> x) const {
    auto* const at = data + i * F::kStep;
    hn::Store(x.re, typename F::Tag(), at + real);
    hn::Store(x.im, typename F::Tag(), at + imag);
  }
};

/// Up to a vector of complex numbers, as they lie in memory.
template <class F>
HWY_INLINE NumberOf<F> load_pairs(const typename F::Real* from, std::int64_t count) {
  const typename F::Tag d;
  NumberOf<F> x;
  if (HWY_LIKELY(count >= F::kLanes)) {
    hn::LoadInterleaved2(d, from, x.re, x.im);
    return x;
  }
  HWY_ALIGN typename F::Real some[static_cast<std::size_t>(F::kStep)] = {};
  std::memcpy(some, from, sizeof(some[0]) * 2 * static_cast<std::size_t>(count));
  hn::LoadInterleaved2(d, some, x.re, x.im);
  return x;
}
template <class F>
HWY_INLINE void store_pairs(NumberOf<F> x, typename F::Real* to, std::int64_t count) {
  const typename F::Tag d;
  if (HWY_LIKELY(count >= F::kLanes)) return hn::StoreInterleaved2(x.re, x.im, d, to);
  HWY_ALIGN typename F::Real some[static_cast<std::size_t>(F::kStep)];
  hn::StoreInterleaved2(x.re, x.im, d, some);
  std::memcpy(to, some, sizeof(some[0]) * 2 * static_cast<std::size_t>(count));
}

/// Lines beside each other, `stride` numbers from an element to the next. Inverses exchange real and imaginary parts
/// before and after, which conjugates the roots.
template <class F>
struct FromColumns {
  const typename F::Real* data;
  std::int64_t stride;
  std::int64_t count;
  bool exchanged;

  HWY_INLINE NumberOf<F> get(std::int64_t i) const {
    const NumberOf<F> x = load_pairs<F>(data + 2 * i * stride, count);
    return exchanged ? NumberOf<F>{x.im, x.re} : x;
  }
};
template <class F>
struct ToColumns {
  typename F::Real* data;
  std::int64_t stride;
  std::int64_t count;
  bool exchanged;
  typename F::Real scale;

  HWY_INLINE void set(std::int64_t i, NumberOf<F> x) const {
    x = F::scaled(x, all<F>(scale));
    store_pairs<F>(exchanged ? NumberOf<F>{x.im, x.re} : x, data + 2 * i * stride, count);
  }
};
/// The columns of a matrix, which get their twiddles.
template <class F>
struct ToMatrix {
  typename F::Real* data;
  std::int64_t stride;
  std::int64_t count;
  const typename F::Real* real;  ///< Of these columns, and `width` from a row to the next.
  const typename F::Real* imag;
  std::int64_t width;
  const typename F::Real* group;  ///< A factor of each row; nullptr if there is none.

  HWY_INLINE void set(std::int64_t i, NumberOf<F> x) const {
    const typename F::Tag d;
    x = F::mul(x, {hn::LoadU(d, real + i * width), hn::LoadU(d, imag + i * width)});
    if (group != nullptr) x = F::mul(x, {all<F>(group[2 * i]), all<F>(group[2 * i + 1])});
    store_pairs<F>(x, data + 2 * i * stride, count);
  }
};

// ---- Lines in lanes.

/// Calls f(i) for i from `first` on, for each of the radix; 0 stands for any, of which loops are not unrolled.
template <std::size_t kRadix, class Call>
HWY_INLINE void for_each_of(std::int64_t first, std::int64_t radix, Call&& f) {
  if constexpr (kRadix == 0) {
    for (std::int64_t i = first; i < radix; ++i) f(i);
  } else {
    HWY_UNROLL(16)
    for (std::int64_t i = first; i < static_cast<std::int64_t>(kRadix); ++i) f(i);
  }
}

template <class F, std::size_t kRadix, class From, class To>
HWY_NOINLINE void do_step(const FftStep& step, const typename F::Real* table, const From& from, const To& to) {
  const std::int64_t radix = step.radix;
  const std::int64_t left = step.left;
  const std::int64_t done = step.done;
  const auto* const roots = table + step.roots;
  NumberOf<F> x[kRadix == 0 ? static_cast<std::size_t>(kMostRadix) : kRadix];
  const auto sums = [&](std::int64_t i, std::int64_t k) HWY_ATTR {
    for_each_of<kRadix>(0, radix, [&](std::int64_t m) HWY_ATTR { x[m] = from.get(i + left * (m + radix * k)); });
    if constexpr (kRadix == 0) {
      sums_of_many<F>(x, radix, roots);
    } else {
      sums_of<F, kRadix>(x, roots);
    }
  };
  if (left == 1) {
    for (std::int64_t k = 0; k < done; ++k) {
      sums(0, k);
      for_each_of<kRadix>(0, radix, [&](std::int64_t j) HWY_ATTR { to.set(k + done * j, x[j]); });
    }
    return;
  }
  for (std::int64_t k = 0; k < done; ++k) {
    const auto* twiddle = table + step.twiddles;
    for (std::int64_t i = 0; i < left; ++i) {
      sums(i, k);
      to.set(i + left * k, x[0]);
      for_each_of<kRadix>(1, radix, [&](std::int64_t j) HWY_ATTR {
        to.set(i + left * (k + done * j), F::mul(x[j], {all<F>(twiddle[2 * j - 2]), all<F>(twiddle[2 * j - 1])}));
      });
      twiddle += 2 * (radix - 1);
    }
  }
}

template <class F, class From, class To>
void do_any_step(const FftStep& step, const typename F::Real* table, const From& from, const To& to) {
  switch (step.radix) {
    case 1:
      return do_step<F, 1>(step, table, from, to);
    case 2:
      return do_step<F, 2>(step, table, from, to);
    case 3:
      return do_step<F, 3>(step, table, from, to);
    case 4:
      return do_step<F, 4>(step, table, from, to);
    case 5:
      return do_step<F, 5>(step, table, from, to);
    case 7:
      return do_step<F, 7>(step, table, from, to);
    case 8:
      return do_step<F, 8>(step, table, from, to);
    case 11:
      return do_step<F, 11>(step, table, from, to);
    case 13:
      return do_step<F, 13>(step, table, from, to);
    default:
      return do_step<F, 0>(step, table, from, to);
  }
}

/// Reals of the memory that a transform in lanes takes.
template <class F>
std::int64_t lanes_memory(std::int64_t n) {
  return 2 * n * F::kStep;
}

template <class F, class From, class To>
void transform_lanes(const LanesPlan<typename F::Real>& plan, typename F::Real* memory, const From& from,
                     const To& to) {
  const auto* const table = plan.table.data();
  const std::size_t last = plan.steps.size() - 1;
  if (last == 0) return do_any_step<F>(plan.steps[0], table, from, to);
  const InLanes<F> halves[2] = {{memory}, {memory + plan.n * F::kStep}};
  // Where the first is read from memory of lanes, it is the second half.
  do_any_step<F>(plan.steps[0], table, from, halves[0]);
  for (std::size_t s = 1; s < last; ++s) {
    do_any_step<F>(plan.steps[s], table, halves[(s + 1) % 2], halves[s % 2]);
  }
  do_any_step<F>(plan.steps[last], table, halves[(last + 1) % 2], to);
}

template <class T>
void columns_of_lanes(const LanesPlan<T>& plan, const T* from, T* to, const ColumnLayout& layout,
                      const FftOptions& options) {
  using F = FftLanes<T>;
  Workspace<T> memory(lanes_memory<F>(plan.n));
  for (std::int64_t i = 0; i < layout.count; i += F::kLanes) {
    const std::int64_t count = std::min(layout.count - i, F::kLanes);
    transform_lanes<F>(
        plan, memory.data(), FromColumns<F>{from + 2 * i, layout.from_stride, count, options.inverse},
        ToColumns<F>{to + 2 * i, layout.to_stride, count, options.inverse, static_cast<T>(options.scale)});
  }
}

/// Lines that lie in one piece each.
template <class T>
void lines_in_lanes(const LanesPlan<T>& plan, const T* from, T* to, const LineLayout& layout,
                    const FftOptions& options) {
  using F = FftLanes<T>;
  const typename F::Tag d;
  Workspace<T> workspace(lanes_memory<F>(plan.n) + 2 * plan.n * F::kStep);
  T* const given = workspace.data();
  T* const made = given + plan.n * F::kStep;
  T* const memory = made + plan.n * F::kStep;
  const std::int64_t real = options.inverse ? F::kLanes : 0;
  const InLanes<F> in{given, real, F::kLanes - real};
  const InLanes<F> out{made, real, F::kLanes - real};
  for (std::int64_t i = 0; i < layout.count; i += F::kLanes) {
    const std::int64_t count = std::min(layout.count - i, F::kLanes);
    const T* const first = from + 2 * i * layout.from_stride;
    T* const result = to + 2 * i * layout.to_stride;
    const LanePointers<const T, F::kLanes> sources(first, 2 * layout.from_stride, count,
                                                   first + 2 * (count - 1) * layout.from_stride);
    load_lanes(d, sources.matrices, 2 * plan.n, given, F::kLanes);
    transform_lanes<F>(plan, memory, in, out);
    if (options.scale != 1) {
      for (std::int64_t k = 0; k < plan.n; ++k) {
        out.set(k, F::scaled(out.get(k), all<F>(static_cast<T>(options.scale))));
      }
    }
    // Lanes without a line write over what has been read.
    const LanePointers<T, F::kLanes> targets(result, 2 * layout.to_stride, count, given);
    store_lanes(d, made, 2 * plan.n, targets.matrices);
  }
}

// ---- Lines as matrices.

template <class T>
std::int64_t stride_of_rows(const LinePlan<T>& plan) {
  // Not a power of two, so that rows do not fall into the same places of the caches.
  return plan.rows->n + LinePlan<T>::kTogether;
}

template <class T>
void split_columns(const LinePlan<T>& plan, const T* from, T* matrix, std::int64_t first, std::int64_t end,
                   const FftOptions& options, T* memory) {
  using F = FftLanes<T>;
  static_assert(LinePlan<T>::kTogether % F::kLanes == 0);
  const std::int64_t width = plan.rows->n;
  for (std::int64_t j = first; j < end; j += F::kLanes) {
    const std::int64_t count = std::min(end - j, F::kLanes);
    ToMatrix<F> to{.data = matrix + 2 * j,
                   .stride = stride_of_rows(plan),
                   .count = count,
                   .real = plan.real_twiddles.data() + j,
                   .imag = plan.imag_twiddles.data() + j,
                   .width = width,
                   .group = nullptr};
    if (plan.are_factored) {
      const std::int64_t group = j / LinePlan<T>::kTogether;
      to.real -= group * LinePlan<T>::kTogether;
      to.imag -= group * LinePlan<T>::kTogether;
      to.width = LinePlan<T>::kTogether;
      to.group = plan.groups.data() + 2 * group * plan.columns->n;
    }
    transform_lanes<F>(*plan.columns, memory, FromColumns<F>{from + 2 * j, width, count, options.inverse}, to);
  }
}

template <class T>
void split_rows(const LinePlan<T>& plan, const T* matrix, T* to, std::int64_t first, std::int64_t end,
                const FftOptions& options, T* memory) {
  using F = FftLanes<T>;
  const std::int64_t width = plan.rows->n;
  const std::int64_t height = plan.columns->n;
  const std::int64_t stride = stride_of_rows(plan);
  T* const given = memory + lanes_memory<F>(width);
  for (std::int64_t k = first; k < end; k += F::kLanes) {
    const std::int64_t count = std::min(end - k, F::kLanes);
    const T* const row = matrix + 2 * k * stride;
    const LanePointers<const T, F::kLanes> rows(row, 2 * stride, count, row + 2 * (count - 1) * stride);
    load_lanes(typename F::Tag(), rows.matrices, 2 * width, given, F::kLanes);
    transform_lanes<F>(*plan.rows, memory, InLanes<F>{given},
                       ToColumns<F>{to + 2 * k, height, count, options.inverse, static_cast<T>(options.scale)});
  }
}

/// Reals of the memory that columns and rows take besides the matrix.
template <class T>
std::int64_t split_memory(const LinePlan<T>& plan) {
  using F = FftLanes<T>;
  return std::max(lanes_memory<F>(plan.columns->n), lanes_memory<F>(plan.rows->n) + plan.rows->n * F::kStep);
}

template <class T>
void some_columns(const LinePlan<T>& plan, const T* from, T* matrix, std::int64_t first, std::int64_t end,
                  const FftOptions& options) {
  Workspace<T> memory(split_memory(plan));
  split_columns(plan, from, matrix, first, end, options, memory.data());
}

template <class T>
void some_rows(const LinePlan<T>& plan, const T* matrix, T* to, std::int64_t first, std::int64_t end,
               const FftOptions& options) {
  Workspace<T> memory(split_memory(plan));
  split_rows(plan, matrix, to, first, end, options, memory.data());
}

template <class T>
void split_lines(const LinePlan<T>& plan, const T* from, T* to, const LineLayout& layout, const FftOptions& options) {
  // What lies behind it is aligned.
  const std::int64_t size = (2 * stride_of_rows(plan) * plan.columns->n + 15) / 16 * 16;
  Workspace<T> workspace(size + split_memory(plan));
  T* const matrix = workspace.data();
  T* const memory = matrix + size;
  for (std::int64_t i = 0; i < layout.count; ++i) {
    split_columns(plan, from + 2 * i * layout.from_stride, matrix, 0, plan.rows->n, options, memory);
    split_rows(plan, matrix, to + 2 * i * layout.to_stride, 0, plan.columns->n, options, memory);
  }
}

// ---- Lines as convolutions.

/// out = x y for complex numbers; parts of x, and of the result, may be exchanged.
template <class T>
void multiply_lines(const T* x, const T* y, T* out, std::int64_t count, bool exchange_before, bool exchange_after,
                    T scale) {
  using F = FftLanes<T>;
  for (std::int64_t i = 0; i < count; i += F::kLanes) {
    const std::int64_t here = std::min(count - i, F::kLanes);
    NumberOf<F> number = load_pairs<F>(x + 2 * i, here);
    if (exchange_before) std::swap(number.re, number.im);
    number = F::scaled(F::mul(number, load_pairs<F>(y + 2 * i, here)), all<F>(scale));
    if (exchange_after) std::swap(number.re, number.im);
    store_pairs<F>(number, out + 2 * i, here);
  }
}

template <class T>
void transform_lines(const LinePlan<T>& plan, const T* from, T* to, const LineLayout& layout,
                     const FftOptions& options);

template <class T>
void chirp_lines(const LinePlan<T>& plan, const T* from, T* to, const LineLayout& layout, const FftOptions& options) {
  const std::int64_t m = plan.inner->n;
  Workspace<T> workspace(2 * m);
  T* const line = workspace.data();
  for (std::int64_t i = 0; i < layout.count; ++i) {
    multiply_lines(from + 2 * i * layout.from_stride, plan.chirp.data(), line, plan.n, options.inverse, false, T{1});
    std::fill(line + 2 * plan.n, line + 2 * m, T{});
    transform_lines(*plan.inner, line, line, {.count = 1}, {});
    multiply_lines(line, plan.spectrum.data(), line, m, false, false, T{1});
    transform_lines(*plan.inner, line, line, {.count = 1}, {.inverse = true});
    multiply_lines(line, plan.chirp.data(), to + 2 * i * layout.to_stride, plan.n, false, options.inverse,
                   static_cast<T>(options.scale));
  }
}

template <class T>
void transform_lines(const LinePlan<T>& plan, const T* from, T* to, const LineLayout& layout,
                     const FftOptions& options) {
  if (layout.count == 0) return;
  switch (plan.way) {
    case LinePlan<T>::Way::kLanes:
      return lines_in_lanes(*plan.columns, from, to, layout, options);
    case LinePlan<T>::Way::kSplit:
      return split_lines(plan, from, to, layout, options);
    case LinePlan<T>::Way::kChirp:
      return chirp_lines(plan, from, to, layout, options);
  }
}

// ---- Real numbers.
//
// With E and O the transforms of the even and odd real numbers, that of the pairs is Z = E + i O, and that of all
// X[k] = E[k] + w^k O[k]; those of real numbers are E[h - k] = conj(E[k]) (Van Loan, 4.3).

/// One pair, or a vector of them: x of k and y of h - k, with w^k.
template <class F>
HWY_INLINE void separate_pair(NumberOf<F>& x, NumberOf<F>& y, NumberOf<F> root) {
  const auto half = all<F>(static_cast<typename F::Real>(0.5));
  const auto conjugate = F::conj(y);
  const auto even = F::scaled(F::add(x, conjugate), half);
  const auto odd = turned<F>(F::mul(F::scaled(difference<F>(x, conjugate), half), root));
  x = F::add(even, odd);
  y = F::conj(difference<F>(even, odd));
}
template <class F>
HWY_INLINE void join_pair(NumberOf<F>& x, NumberOf<F>& y, NumberOf<F> root) {
  const auto half = all<F>(static_cast<typename F::Real>(0.5));
  const auto conjugate = F::conj(y);
  const auto even = F::scaled(F::add(x, conjugate), half);
  const auto product = F::mul(F::scaled(difference<F>(x, conjugate), half), F::conj(root));
  const NumberOf<F> odd{hn::Neg(product.im), product.re};
  x = F::add(even, odd);
  y = F::conj(difference<F>(even, odd));
}

template <class F>
HWY_INLINE NumberOf<F> reversed(NumberOf<F> x) {
  const typename F::Tag d;
  return {hn::Reverse(d, x.re), hn::Reverse(d, x.im)};
}

template <class F, bool kJoins, class T>
HWY_INLINE void one_pair(const T* from, T* to, std::int64_t k, std::int64_t mirrored, T real, T imag) {
  NumberOf<F> x = load_pairs<F>(from + 2 * k, 1);
  NumberOf<F> y = load_pairs<F>(from + 2 * mirrored, 1);
  const NumberOf<F> root{all<F>(real), all<F>(imag)};
  if constexpr (kJoins) {
    join_pair<F>(x, y, root);
  } else {
    separate_pair<F>(x, y, root);
  }
  store_pairs<F>(x, to + 2 * k, 1);
  // In the middle both are one.
  if (mirrored != k) store_pairs<F>(y, to + 2 * mirrored, 1);
}

template <class T, bool kJoins>
void pairs_of(const HalfPlan<T>& plan, const T* from, T* to, std::int64_t half, std::int64_t first, std::int64_t end) {
  using F = FftLanes<T>;
  const typename F::Tag d;
  std::int64_t k = first;
  if (k == 0 && end > 0) {
    const T real = from[0];
    const T other = kJoins ? from[2 * half] : from[1];
    if (kJoins) {
      to[0] = (real + other) / 2;
      to[1] = (real - other) / 2;
    } else {
      to[0] = real + other;
      to[1] = 0;
      to[2 * half] = real - other;
      to[2 * half + 1] = 0;
    }
    ++k;
  }
  for (; k + F::kLanes <= end && k + F::kLanes - 1 < half - k - F::kLanes + 1; k += F::kLanes) {
    const std::int64_t mirrored = half - k - F::kLanes + 1;
    NumberOf<F> x = load_pairs<F>(from + 2 * k, F::kLanes);
    NumberOf<F> y = reversed<F>(load_pairs<F>(from + 2 * mirrored, F::kLanes));
    const NumberOf<F> root{hn::LoadU(d, plan.real.data() + k), hn::LoadU(d, plan.imag.data() + k)};
    if constexpr (kJoins) {
      join_pair<F>(x, y, root);
    } else {
      separate_pair<F>(x, y, root);
    }
    store_pairs<F>(x, to + 2 * k, F::kLanes);
    store_pairs<F>(reversed<F>(y), to + 2 * mirrored, F::kLanes);
  }
  for (; k < end; ++k) {
    one_pair<F, kJoins>(from, to, k, half - k, plan.real[static_cast<std::size_t>(k)],
                        plan.imag[static_cast<std::size_t>(k)]);
  }
}

template <class T>
void separate_pairs(const HalfPlan<T>& plan, T* line, std::int64_t half, std::int64_t first, std::int64_t end) {
  pairs_of<T, false>(plan, line, line, half, first, end);
}

template <class T>
void join_pairs(const HalfPlan<T>& plan, const T* from, T* to, std::int64_t half, std::int64_t first,
                std::int64_t end) {
  pairs_of<T, true>(plan, from, to, half, first, end);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace shoal::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "backend/cpu/machine/simd_dispatch.h"

namespace shoal::cpu {

template <class T>
void FftLines<T>::transform(const T* from, T* to, const LineLayout& layout, const FftOptions& options) const {
  SHOAL_SIMD(transform_lines<T>)(plan_, from, to, layout, options);
}

template <class T>
void FftLines<T>::columns(const T* from, T* matrix, std::int64_t first, std::int64_t end,
                          const FftOptions& options) const {
  SHOAL_SIMD(some_columns<T>)(plan_, from, matrix, first, end, options);
}

template <class T>
void FftLines<T>::rows(const T* matrix, T* to, std::int64_t first, std::int64_t end, const FftOptions& options) const {
  SHOAL_SIMD(some_rows<T>)(plan_, matrix, to, first, end, options);
}

template <class T>
std::int64_t FftLines<T>::row_stride(const LinePlan<T>& plan) {
  return SHOAL_SIMD(stride_of_rows<T>)(plan);
}

template <class T>
void FftColumns<T>::transform(const T* from, T* to, const ColumnLayout& layout, const FftOptions& options) const {
  SHOAL_SIMD(columns_of_lanes<T>)(plan_, from, to, layout, options);
}

template <class T>
void FftHalves<T>::separate(T* line, std::int64_t half, std::int64_t first, std::int64_t end) const {
  SHOAL_SIMD(separate_pairs<T>)(plan_, line, half, first, end);
}

template <class T>
void FftHalves<T>::join(const T* from, T* to, std::int64_t half, std::int64_t first, std::int64_t end) const {
  SHOAL_SIMD(join_pairs<T>)(plan_, from, to, half, first, end);
}

template class FftLines<float>;
template class FftLines<double>;
template class FftColumns<float>;
template class FftColumns<double>;
template class FftHalves<float>;
template class FftHalves<double>;

}  // namespace shoal::cpu

#endif  // HWY_ONCE
