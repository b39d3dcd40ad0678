// What each core operation of a scalar body computes: one function per operation, total on all operands.
//
// These functions are the definition that every tier must reproduce bit for bit (NaN payloads aside). They assume
// round to nearest even, gradual underflow and no contraction of floating-point expressions.
#pragma once

#include <bit>
#include <cmath>
#include <complex>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "ops/scalar/pio2.h"
#include "shoal/dtype.h"

namespace shoal::scalar::core_ops {

template <class T>
concept Half = std::same_as<T, float16_t> || std::same_as<T, bfloat16_t>;
template <class T>
concept Floating = Half<T> || std::floating_point<T>;
template <class T>
concept Integer = std::integral<T> && !std::same_as<T, bool>;

template <class T>
concept Real = Floating<T> || std::integral<T>;

/// The type in which arithmetic on T happens.
template <class T>
using Compute = std::conditional_t<Half<T>, float, T>;

/// The unsigned integers as wide as T.
template <class T>
using Bits = std::conditional_t<sizeof(T) == 1, std::uint8_t,
                                std::conditional_t<sizeof(T) == 2, std::uint16_t,
                                                   std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>>;

/// An unsigned type in which arithmetic on the integer T cannot overflow: small ones would be promoted to int.
template <Integer T>
using Wrapping = std::conditional_t<sizeof(T) <= 4, std::uint32_t, std::uint64_t>;

template <class T>
inline constexpr Bits<T> kSignBit = static_cast<Bits<T>>(Bits<T>{1} << (8 * sizeof(T) - 1));

template <Integer T>
T add(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
}
template <Floating T>
T add(T a, T b) {
  return static_cast<T>(static_cast<Compute<T>>(a) + static_cast<Compute<T>>(b));
}

template <Integer T>
T sub(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
}
template <Floating T>
T sub(T a, T b) {
  return static_cast<T>(static_cast<Compute<T>>(a) - static_cast<Compute<T>>(b));
}

template <Integer T>
T mul(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
}
template <Floating T>
T mul(T a, T b) {
  return static_cast<T>(static_cast<Compute<T>>(a) * static_cast<Compute<T>>(b));
}

template <Integer T>
T neg(T a) {
  return static_cast<T>(Wrapping<T>{0} - static_cast<Wrapping<T>>(a));
}
template <Floating T>
T neg(T a) {
  return std::bit_cast<T>(static_cast<Bits<T>>(std::bit_cast<Bits<T>>(a) ^ kSignBit<T>));
}

template <Integer T>
T div(T a, T b) {
  if (b == 0) return static_cast<T>(-1);
  if constexpr (std::signed_integral<T>) {
    if (b == -1) return neg(a);
  }
  return static_cast<T>(a / b);
}
template <Floating T>
T div(T a, T b) {
  return static_cast<T>(static_cast<Compute<T>>(a) / static_cast<Compute<T>>(b));
}

template <Integer T>
T rem(T a, T b) {
  if (b == 0) return a;
  if constexpr (std::signed_integral<T>) {
    if (b == -1) return 0;
  }
  return static_cast<T>(a % b);
}
template <Floating T>
T rem(T a, T b) {
  return static_cast<T>(std::fmod(static_cast<Compute<T>>(a), static_cast<Compute<T>>(b)));
}

template <Integer T>
bool is_negative(T a) {
  if constexpr (std::signed_integral<T>) {
    return a < 0;
  } else {
    return false;
  }
}

template <Integer T>
T abs(T a) {
  return is_negative(a) ? neg(a) : a;
}
template <Floating T>
T abs(T a) {
  return std::bit_cast<T>(static_cast<Bits<T>>(std::bit_cast<Bits<T>>(a) & ~kSignBit<T>));
}

template <std::integral T>
T min(T a, T b) {
  return b < a ? b : a;
}
template <Floating T>
T min(T a, T b) {
  const Compute<T> x = static_cast<Compute<T>>(a);
  const Compute<T> y = static_cast<Compute<T>>(b);
  if (x < y || std::isnan(x)) return a;
  return x == y && std::signbit(x) ? a : b;
}

template <std::integral T>
T max(T a, T b) {
  return a < b ? b : a;
}
template <Floating T>
T max(T a, T b) {
  const Compute<T> x = static_cast<Compute<T>>(a);
  const Compute<T> y = static_cast<Compute<T>>(b);
  if (x > y || std::isnan(x)) return a;
  return x == y && !std::signbit(x) ? a : b;
}

template <Floating T>
T fma(T a, T b, T c) {
  return static_cast<T>(std::fma(static_cast<Compute<T>>(a), static_cast<Compute<T>>(b), static_cast<Compute<T>>(c)));
}

template <Floating T>
T sqrt(T a) {
  return static_cast<T>(std::sqrt(static_cast<Compute<T>>(a)));
}

template <Floating T>
T floor(T a) {
  return static_cast<T>(std::floor(static_cast<Compute<T>>(a)));
}

template <Floating T>
T rint(T a) {
  return static_cast<T>(std::nearbyint(static_cast<Compute<T>>(a)));
}

template <Floating T>
T trunc(T a) {
  return static_cast<T>(std::trunc(static_cast<Compute<T>>(a)));
}

template <Real T>
bool lt(T a, T b) {
  return static_cast<Compute<T>>(a) < static_cast<Compute<T>>(b);
}

template <Real T>
bool le(T a, T b) {
  return static_cast<Compute<T>>(a) <= static_cast<Compute<T>>(b);
}

template <Real T>
bool eq(T a, T b) {
  return static_cast<Compute<T>>(a) == static_cast<Compute<T>>(b);
}

template <std::integral T>
T bit_and(T a, T b) {
  return static_cast<T>(a & b);
}

template <std::integral T>
T bit_or(T a, T b) {
  return static_cast<T>(a | b);
}

template <std::integral T>
T bit_xor(T a, T b) {
  return static_cast<T>(a ^ b);
}

template <std::integral T>
T bit_not(T a) {
  if constexpr (std::same_as<T, bool>) {
    return !a;
  } else {
    return static_cast<T>(~a);
  }
}

/// Whether a shift count lies in [0, width).
template <Integer T>
bool is_shift_in_range(T count) {
  return static_cast<Bits<T>>(count) < 8 * sizeof(T);
}

template <Integer T>
T shl(T a, T count) {
  return is_shift_in_range(count) ? static_cast<T>(static_cast<Wrapping<T>>(a) << count) : T{0};
}

template <Integer T>
T shr(T a, T count) {
  if (is_shift_in_range(count)) return static_cast<T>(a >> count);
  return is_negative(a) ? static_cast<T>(-1) : T{0};
}

template <Integer T>
T rotate(T a, T count) {
  constexpr unsigned kWidth = 8 * sizeof(T);
  const auto bits = static_cast<Bits<T>>(a);
  const auto left = static_cast<Bits<T>>(count) % kWidth;
  return static_cast<T>((bits << left) | (bits >> ((kWidth - left) % kWidth)));
}

template <class T>
T select(bool predicate, T if_true, T if_false) {
  return predicate ? if_true : if_false;
}

/// `value` as f32, rounded to odd: a further rounding to fewer than 23 bits then is as if it were the only one
/// (Boldo & Melquiond 2008, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd").
inline float round_to_odd(double value) {
  const float nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || std::isnan(value) || std::isinf(nearest)) return nearest;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(nearest);
  if (bits % 2 == 1) return nearest;
  const bool is_too_large = std::abs(static_cast<double>(nearest)) > std::abs(value);
  // A zero has no smaller magnitude to go to: it is only ever too small.
  return std::bit_cast<float>(is_too_large ? bits - 1 : bits + 1);
}

/// Likewise, of an integer.
template <Integer T>
float round_to_odd(T value) {
  std::uint64_t magnitude = static_cast<std::uint64_t>(value);
  if (is_negative(value)) magnitude = 0 - magnitude;
  const int shift = 40 - std::countl_zero(magnitude);  // f32 holds 24 bits.
  if (shift > 0) {
    const bool is_inexact = (magnitude & ((std::uint64_t{1} << shift) - 1)) != 0;
    magnitude = ((magnitude >> shift) | (is_inexact ? 1 : 0)) << shift;
  }
  const float result = static_cast<float>(magnitude);
  return is_negative(value) ? -result : result;
}

/// Truncates; saturates at the range of To; NaN gives 0.
template <Integer To, std::floating_point From>
To saturate(From value) {
  // Both bounds are powers of two or zero, hence exact in From.
  constexpr From kLowest = static_cast<From>(std::numeric_limits<To>::lowest());
  constexpr From kBeyond = 2 * static_cast<From>(std::numeric_limits<To>::max() / 2 + 1);
  if (std::isnan(value)) return 0;
  if (value < kLowest) return std::numeric_limits<To>::lowest();
  if (value >= kBeyond) return std::numeric_limits<To>::max();
  return static_cast<To>(value);
}

template <Real To, Real From>
To convert(From value) {
  if constexpr (std::same_as<To, From>) {
    return value;
  } else if constexpr (Half<From>) {
    return convert<To>(static_cast<float>(value));
  } else if constexpr (std::same_as<To, bool>) {
    return value != From{0};
  } else if constexpr (std::same_as<From, bool>) {
    return static_cast<To>(value ? 1 : 0);
  } else if constexpr (Half<To> && !std::same_as<From, float>) {
    return To(round_to_odd(value));
  } else if constexpr (Integer<To> && std::floating_point<From>) {
    return saturate<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

template <std::floating_point T>
T real(std::complex<T> a) {
  return a.real();
}

template <std::floating_point T>
T imag(std::complex<T> a) {
  return a.imag();
}

template <std::floating_point T>
std::complex<T> make_complex(T re, T im) {
  return {re, im};
}

template <std::floating_point T>
std::int32_t pio2_quadrant(T a) {
  return reduce_pio2(a).quadrant;
}

template <std::floating_point T>
double pio2_remainder(T a) {
  return reduce_pio2(a).remainder;
}

template <std::floating_point T>
double pio2_remainder_low(T a) {
  return reduce_pio2(a).remainder_low;
}

}  // namespace shoal::scalar::core_ops
