// The arithmetic of reductions: one step, its neutral element, and the type it accumulates in.
#pragma once

#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/dispatch.h"
#include "sharding/placement.h"
#include "shoal/dtype.h"

namespace shoal {

namespace detail {
template <class T>
struct AccumulatorOf {
  using Type = T;
};
template <>
struct AccumulatorOf<float> {
  using Type = double;
};
template <>
struct AccumulatorOf<float16_t> {
  using Type = double;
};
template <>
struct AccumulatorOf<bfloat16_t> {
  using Type = double;
};
template <>
struct AccumulatorOf<std::complex<float>> {
  using Type = std::complex<double>;
};
template <class T>
struct CombineOf {
  using Type = std::conditional_t<kIsSmallFloat<T>, float, T>;
};
}  // namespace detail

/// What the reference sums elements of T in: f64 for the smaller floats.
template <class T>
using Accumulator = typename detail::AccumulatorOf<T>::Type;

/// What two elements of T are combined in by a collective: their own type, f32 for the half-precision floats.
template <class T>
using CombineType = typename detail::CombineOf<T>::Type;

template <class Out, class Sum>
Out from_accumulator(Sum sum) {
  if constexpr (kIsSmallFloat<Out>) {
    if constexpr (kIsComplexElement<Sum>) {
      return Out(static_cast<float>(sum.real()));
    } else {
      return Out(static_cast<float>(sum));
    }
  } else if constexpr (kIsComplexElement<Sum> && !kIsComplexElement<Out>) {
    return static_cast<Out>(sum.real());
  } else if constexpr (kIsComplexElement<Out> && !kIsComplexElement<Sum>) {
    return Out(static_cast<typename Out::value_type>(sum));
  } else {
    return static_cast<Out>(sum);
  }
}

/// Calls f with the kind as an integral constant.
template <class F>
void with_kind(ReduceKind kind, F&& f) {
  switch (kind) {
    case ReduceKind::kSum:
      return f(std::integral_constant<ReduceKind, ReduceKind::kSum>{});
    case ReduceKind::kProd:
      return f(std::integral_constant<ReduceKind, ReduceKind::kProd>{});
    case ReduceKind::kMax:
      return f(std::integral_constant<ReduceKind, ReduceKind::kMax>{});
    case ReduceKind::kMin:
      return f(std::integral_constant<ReduceKind, ReduceKind::kMin>{});
    case ReduceKind::kAnd:
      return f(std::integral_constant<ReduceKind, ReduceKind::kAnd>{});
    case ReduceKind::kOr:
      return f(std::integral_constant<ReduceKind, ReduceKind::kOr>{});
  }
}

/// a and b reduced. Integers wrap; max and min give NaN if either is; and/or need integers or bool.
template <class T>
T reduce_two(ReduceKind kind, T a, T b) {
  switch (kind) {
    case ReduceKind::kSum:
      if constexpr (std::is_same_v<T, bool>) {
        return a || b;
      } else if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
      } else {
        return a + b;
      }
    case ReduceKind::kProd:
      if constexpr (std::is_same_v<T, bool>) {
        return a && b;
      } else if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
      } else {
        return a * b;
      }
    case ReduceKind::kMax:
    case ReduceKind::kMin:
      if constexpr (kIsComplexElement<T>) {
        break;
      } else {
        if constexpr (std::is_floating_point_v<T>) {
          // Without branches, which nobody could foresee for elements at random.
          using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
          const bool goes_beyond = kind == ReduceKind::kMax ? b > a : b < a;
          const bool wins_tie = (a == b) & ((kind == ReduceKind::kMax) == std::signbit(a));  // -0 < +0
          const bool takes_b = (a == a) & (goes_beyond | wins_tie | (b != b));
          const Bits mask = Bits{0} - static_cast<Bits>(takes_b);
          return std::bit_cast<T>((std::bit_cast<Bits>(b) & mask) | (std::bit_cast<Bits>(a) & ~mask));
        } else {
          return (kind == ReduceKind::kMax) == (a < b) ? b : a;
        }
      }
    case ReduceKind::kAnd:
      if constexpr (std::is_integral_v<T>) return static_cast<T>(a & b);
      break;
    case ReduceKind::kOr:
      if constexpr (std::is_integral_v<T>) return static_cast<T>(a | b);
      break;
  }
  throw InternalError("this dtype has no such reduction");
}

/// The element that changes nothing in a reduction.
template <class T>
T neutral_element(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::kSum:
      return T{};
    case ReduceKind::kProd:
      return T(1);
    case ReduceKind::kMax:
      if constexpr (std::is_floating_point_v<T>) return -std::numeric_limits<T>::infinity();
      if constexpr (std::is_integral_v<T>) return std::numeric_limits<T>::lowest();
      break;
    case ReduceKind::kMin:
      if constexpr (std::is_floating_point_v<T>) return std::numeric_limits<T>::infinity();
      if constexpr (std::is_integral_v<T>) return std::numeric_limits<T>::max();
      break;
    case ReduceKind::kAnd:
      if constexpr (std::is_same_v<T, bool>) {
        return true;
      } else if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(~T{});
      } else {
        break;
      }
    case ReduceKind::kOr:
      return T{};
  }
  throw InternalError("this dtype has no such reduction");
}

/// out[i] = lhs[i] reduced with rhs[i], for n elements of `dtype`; out may be one of the operands.
void combine(ReduceKind kind, Dtype dtype, const void* lhs, const void* rhs, void* out, std::int64_t n);

/// The bits of the neutral element in a real dtype; those of small floats are reduced in f32.
std::uint64_t neutral_bits(ReduceKind kind, Dtype dtype);

/// The neutral element, n times.
void fill_neutral(ReduceKind kind, Dtype dtype, void* out, std::int64_t n);

/// What adds nothing to a sum, not even to one of negative zeros.
template <class T>
T nothing() {
  if constexpr (kIsComplexElement<T>) {
    return T(nothing<typename T::value_type>(), nothing<typename T::value_type>());
  } else if constexpr (std::is_integral_v<T>) {
    return T{};
  } else {
    return T(-0.0F);
  }
}

}  // namespace shoal
