// Building blocks of the mathematical functions: formats of floats, and sums of two floats as numbers of twice the
// precision (Dekker 1971, "A floating-point technique for extending the available precision").
#pragma once

#include <limits>
#include <span>

#include "base/check.h"
#include "ops/scalar/coefficients.h"
#include "ops/scalar/expr.h"

namespace shoal::scalar {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kPi = 0x1.921fb54442d18p+1;

/// How f32 and f64 are laid out.
struct FloatFormat {
  Dtype bits_dtype;  ///< The signed integer of the same size.
  int fraction_bits;
  int bias;
  double min_normal;
};

inline const FloatFormat& format_of(Expr x) {
  static constexpr FloatFormat kF32 = {Dtype::kI32, 23, 127, 0x1p-126};
  static constexpr FloatFormat kF64 = {Dtype::kI64, 52, 1023, 0x1p-1022};
  SHOAL_CHECK(x.dtype() == Dtype::kF32 || x.dtype() == Dtype::kF64, "a function of f32 and f64");
  return x.dtype() == Dtype::kF32 ? kF32 : kF64;
}

/// The one of two values that belongs to the dtype of x, f32 or f64.
template <class T>
T pick(Expr x, T f32, T f64) {
  return format_of(x).bias == 127 ? f32 : f64;
}

inline bool is_half(Expr x) { return x.dtype() == Dtype::kF16 || x.dtype() == Dtype::kBF16; }

/// f(x...), computed in f64 and rounded once if the operands are smaller floats.
template <class F, class... Rest>
Expr in_f64(F f, Expr x, Rest... rest) {
  SHOAL_CHECK(is_floating(x.dtype()), "a function of floats");
  return convert(f(convert(x, Dtype::kF64), convert(rest, Dtype::kF64)...), x.dtype());
}

/// f(x...), computed in f32 and rounded once if the operands are f16 or bf16.
template <class F, class... Rest>
Expr at_least_f32(F f, Expr x, Rest... rest) {
  if (!is_half(x)) return f(x, rest...);
  return convert(f(convert(x, Dtype::kF32), convert(rest, Dtype::kF32)...), x.dtype());
}

/// f32(x) or f64(x), in f32 and rounded once if x is f16 or bf16.
template <class F32, class F64>
Expr by_format(F32 f32, F64 f64, Expr x) {
  return at_least_f32([&](Expr v) { return v.dtype() == Dtype::kF32 ? f32(v) : f64(v); }, x);
}

/// The value high + low. Unless said otherwise |low| is at most half a unit in the last place of high.
struct Sum {
  Expr high;
  Expr low;
};

/// a + b without error, where a is 0 or not smaller than b in magnitude.
inline Sum fast_two_sum(Expr a, Expr b) {
  const Expr high = a + b;
  return {high, (a - high) + b};
}

/// a + b without error (Knuth).
inline Sum two_sum(Expr a, Expr b) {
  const Expr high = a + b;
  const Expr b_part = high - a;
  return {high, (a - (high - b_part)) + (b - b_part)};
}

/// a * b without error.
inline Sum two_product(Expr a, Expr b) {
  const Expr high = a * b;
  return {high, fma(a, b, -high)};
}

/// The product of two sums, to about twice the precision.
inline Sum product(Sum a, Sum b) {
  const Sum leading = two_product(a.high, b.high);
  return {leading.high, leading.low + fma(a.high, b.low, a.low * b.high)};
}

/// The quotient of two sums, to about twice the precision, by one division.
inline Sum quotient(Sum a, Sum b) {
  const Expr reciprocal = 1 / b.high;
  const Expr high = a.high * reciprocal;
  const Expr residual = fma(-high, b.high, a.high) + fma(-high, b.low, a.low);
  return {high, residual * reciprocal};
}

/// The sum of two sums, to about twice the precision of the larger one.
inline Sum sum_of(Sum a, Sum b) {
  const Sum leading = two_sum(a.high, b.high);
  return fast_two_sum(leading.high, leading.low + (a.low + b.low));
}

/// The square root of a sum that is not negative, to about twice the precision.
inline Sum root_of(Sum a) {
  const Expr high = sqrt(a.high);
  const Expr residual = fma(-high, high, a.high) + a.low;
  return {high, select(high == 0, high, residual / (2 * high))};
}

/// The constant in the dtype of x.
inline Sum words(Expr x, const Words& f32, const Words& f64) {
  const Words value = pick(x, f32, f64);
  return {x.like(value.high), x.like(value.low)};
}

/// The polynomial with the given coefficients, lowest power first, by Horner's rule.
inline Expr polynomial(Expr x, std::span<const double> coefficients) {
  Expr result = x.like(coefficients.back());
  for (std::size_t i = coefficients.size() - 1; i-- > 0;) result = fma(result, x, coefficients[i]);
  return result;
}

/// 2^n as a float like x, for an n of the integer dtype of the same size within the exponents of normal numbers.
inline Expr power_of_two(Expr n, Expr x) {
  const FloatFormat& format = format_of(x);
  return bitcast((n + format.bias) << format.fraction_bits, x.dtype());
}

/// x 2^n with one rounding, for |x| about 1 and any n up to twice the exponents of normal numbers.
inline Expr scale(Expr x, Expr n) {
  const Expr half = n >> 1;
  return x * power_of_two(half, x) * power_of_two(n - half, x);
}

/// x, but not outside [low, high]; NaN stays.
inline Expr clamp(Expr x, double low, double high) {
  const Expr raised = select(x < low, x.like(low), x);
  return select(raised > high, x.like(high), raised);
}

/// factor exp(x), for a factor of about 1 and an x whose power is in the range of f64, or not far below it: what is
/// subnormal is rounded once.
Expr exp_times(Sum x, Expr factor);

/// x^y for x positive and finite and y finite.
Expr positive_power(Expr x, Expr y);

/// A split of a positive number: x = 2^exponent (1 + fraction), 1 + fraction from sqrt(1/2) to sqrt(2).
struct SplitFloat {
  Expr exponent;  ///< An integer of the size of x.
  Expr fraction;  ///< A float.
};

/// Splits a positive finite x, which may be subnormal; anything else gives finite nonsense.
inline SplitFloat split(Expr x) {
  const FloatFormat& format = format_of(x);
  const double normalizer = pick(x, 0x1p24, 0x1p54);
  const Expr is_subnormal = x < format.min_normal;
  const Expr bits = bitcast(select(is_subnormal, x * normalizer, x), format.bits_dtype);
  const Expr split_point = bitcast(x.like(0x1.6a09e667f3bcdp-1), format.bits_dtype);
  const Expr exponent = (bits - split_point) >> format.fraction_bits;
  const Expr fraction = bitcast(bits - (exponent << format.fraction_bits), x.dtype()) - 1;
  const Expr normalized_by = select(is_subnormal, bits.like(pick(x, 24, 54)), bits.like(0));
  return {exponent - normalized_by, fraction};
}

}  // namespace shoal::scalar
