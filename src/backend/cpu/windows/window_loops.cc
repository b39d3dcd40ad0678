#include "backend/cpu/windows/window_loops.h"

#include "backend/cpu/machine/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/windows/window_loops.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <complex>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace shoal::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <ReduceKind kKind, class D, class V>
HWY_INLINE V reduce_vectors(D d, V a, V b) {
  using T = hn::TFromD<D>;
  if constexpr (kKind == ReduceKind::kSum) {
    return hn::Add(a, b);
  } else if constexpr (kKind == ReduceKind::kProd) {
    return hn::Mul(a, b);
  } else if constexpr (!hwy::IsFloat<T>()) {
    return kKind == ReduceKind::kMax ? hn::Max(a, b) : hn::Min(a, b);
  } else {
    // Where b is NaN, it is taken, and a where that is one. Equal numbers differ by their sign if they are zeros.
    const auto beats = kKind == ReduceKind::kMax ? hn::Lt(b, a) : hn::Lt(a, b);
    const V one = hn::IfThenElse(beats, a, b);
    const V both = kKind == ReduceKind::kMax ? hn::And(a, b) : hn::Or(a, b);
    const V ordered = hn::IfThenElse(hn::Eq(a, b), both, one);
    (void)d;
    return hn::IfThenElse(hn::Eq(a, a), ordered, a);
  }
}

template <ReduceKind kKind, class D, class T>
HWY_INLINE std::int64_t reduce_vectors_of(D d, const T* const* rows, std::int64_t count, std::int64_t i, std::int64_t n,
                                          T* out) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (; i + lanes <= n; i += lanes) {
    auto sum = hn::LoadU(d, rows[0] + i);
    for (std::int64_t k = 1; k < count; ++k) sum = reduce_vectors<kKind>(d, sum, hn::LoadU(d, rows[k] + i));
    hn::StoreU(sum, d, out + i);
  }
  return i;
}

template <ReduceKind kKind, class T>
void reduce_rows(const void* const* data, std::int64_t count, std::int64_t n, void* result) {
  const auto* rows = reinterpret_cast<const T* const*>(data);
  T* out = static_cast<T*>(result);
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  // Two vectors at once do not wait for each other. Both are read before either is written.
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    auto first = hn::LoadU(d, rows[0] + i);
    auto second = hn::LoadU(d, rows[0] + i + lanes);
    for (std::int64_t k = 1; k < count; ++k) {
      first = reduce_vectors<kKind>(d, first, hn::LoadU(d, rows[k] + i));
      second = reduce_vectors<kKind>(d, second, hn::LoadU(d, rows[k] + i + lanes));
    }
    hn::StoreU(first, d, out + i);
    hn::StoreU(second, d, out + i + lanes);
  }
  i = reduce_vectors_of<kKind>(d, rows, count, i, n, out);
  reduce_vectors_of<kKind>(hn::CappedTag<T, 1>(), rows, count, i, n, out);
}

template <class T>
HWY_INLINE T product_of(T a, T b) {
  return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}
// Not operator*, which calls a function for the sake of infinities.
template <class R>
HWY_INLINE std::complex<R> product_of(std::complex<R> a, std::complex<R> b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

/// Elements without vectors for the operation: the compiler makes of them what it can.
template <ReduceKind kKind, class T>
void reduce_plain_rows(const void* const* data, std::int64_t count, std::int64_t n, void* result) {
  const auto* rows = reinterpret_cast<const T* const*>(data);
  T* out = static_cast<T*>(result);
  for (std::int64_t i = 0; i < n; ++i) {
    T sum = rows[0][i];
    for (std::int64_t k = 1; k < count; ++k) {
      if constexpr (kKind == ReduceKind::kSum) {
        sum += rows[k][i];
      } else {
        sum = product_of(sum, rows[k][i]);
      }
    }
    out[i] = sum;
  }
}

template <class T>
void spread_elements(const void* data, std::int64_t step, std::int64_t n, void* result) {
  const T* HWY_RESTRICT from = static_cast<const T*>(data);
  T* HWY_RESTRICT to = static_cast<T*>(result);
  if (step == 2) {
    for (std::int64_t i = 0; i < n; ++i) to[i] = from[2 * i];
  } else {
    for (std::int64_t i = 0; i < n; ++i) to[i] = from[step * i];
  }
}

template <ReduceKind kKind, class T>
WindowLoops loops_with() {
  constexpr bool kHasVectors =
      !hwy::IsSame<T, std::complex<float>>() && !hwy::IsSame<T, std::complex<double>>() &&
      (kKind != ReduceKind::kProd || std::is_floating_point_v<T> || sizeof(T) == 2 || sizeof(T) == 4);
  if constexpr (kHasVectors) {
    return {reduce_rows<kKind, T>, spread_elements<T>};
  } else {
    return {reduce_plain_rows<kKind, T>, spread_elements<T>};
  }
}

// Sums and products wrap, whether numbers have signs or not.
template <ReduceKind kKind>
WindowLoops arithmetic_loops(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF32:
      return loops_with<kKind, float>();
    case Dtype::kF64:
      return loops_with<kKind, double>();
    case Dtype::kC64:
      return loops_with<kKind, std::complex<float>>();
    case Dtype::kC128:
      return loops_with<kKind, std::complex<double>>();
    default:
      break;
  }
  switch (size_of(dtype)) {
    case 1:
      return loops_with<kKind, std::uint8_t>();
    case 2:
      return loops_with<kKind, std::uint16_t>();
    case 4:
      return loops_with<kKind, std::uint32_t>();
    default:
      return loops_with<kKind, std::uint64_t>();
  }
}

template <ReduceKind kKind>
WindowLoops order_loops(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF32:
      return loops_with<kKind, float>();
    case Dtype::kF64:
      return loops_with<kKind, double>();
    case Dtype::kI8:
      return loops_with<kKind, std::int8_t>();
    case Dtype::kI16:
      return loops_with<kKind, std::int16_t>();
    case Dtype::kI32:
      return loops_with<kKind, std::int32_t>();
    case Dtype::kI64:
      return loops_with<kKind, std::int64_t>();
    case Dtype::kU16:
      return loops_with<kKind, std::uint16_t>();
    case Dtype::kU32:
      return loops_with<kKind, std::uint32_t>();
    case Dtype::kU64:
      return loops_with<kKind, std::uint64_t>();
    default:  // Bools too, which are 0 or 1.
      return loops_with<kKind, std::uint8_t>();
  }
}

WindowLoops window_loops_here(ReduceKind kind, Dtype dtype) {
  switch (kind) {
    case ReduceKind::kSum:
      return arithmetic_loops<ReduceKind::kSum>(dtype);
    case ReduceKind::kProd:
      return arithmetic_loops<ReduceKind::kProd>(dtype);
    case ReduceKind::kMax:
      return order_loops<ReduceKind::kMax>(dtype);
    default:
      return order_loops<ReduceKind::kMin>(dtype);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace shoal::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backend/cpu/machine/simd_dispatch.h"

namespace shoal::cpu {

WindowLoops window_loops(ReduceKind kind, Dtype dtype) { return SHOAL_SIMD(window_loops_here)(kind, dtype); }

}  // namespace shoal::cpu
#endif
