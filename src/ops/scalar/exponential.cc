// Exponentials, logarithms and the functions made of them; single.cc has the shorter ones of f32. Methods: argument
// reduction and minimax polynomials after Tang (1989, 1990, "Table-driven implementation of the exponential/logarithm
// function", here without the tables) and Muller, "Elementary Functions"; compensation by sums of two floats keeps each
// final error close to one rounding.
#include "ops/scalar/complex_functions.h"
#include "ops/scalar/floating.h"
#include "ops/scalar/math.h"
#include "ops/scalar/single.h"

namespace shoal::scalar {
namespace {

/// exp of something = 2^n (1 + r + rest), |r| <= ln(2)/2 and |rest| < r^2.
struct ExpSplit {
  Expr n;  ///< An integer of the size of the float.
  Expr r;
  Expr rest;
};

ExpSplit exp_of_reduced(Expr n, Sum reduced) {
  const Sum r = fast_two_sum(reduced.high, reduced.low);
  const Expr p = polynomial(r.high, pick<std::span<const double>>(r.high, kExpF32, kExpF64));
  return {convert(n, format_of(r.high).bits_dtype), r.high, fma(r.high * r.high, p, r.low)};
}

/// Splits exp(x + low) by x - n ln(2). The difference with the leading word of ln(2) is exact: it is a multiple of
/// the unit in the last place of ln(2)/2, and short.
ExpSplit split_exp(Expr x, Expr low) {
  const Sum ln2 = words(x, kLn2F32, kLn2F64);
  const Expr n = rint(x * words(x, kLog2EF32, kLog2EF64).high);
  return exp_of_reduced(n, {fma(-n, ln2.high, x), fma(-n, ln2.low, low)});
}

ExpSplit split_exp(Expr x) { return split_exp(x, x.like(0)); }

/// 1 + r + rest.
Sum one_plus(const ExpSplit& e) {
  const Sum sum = fast_two_sum(e.r.like(1), e.r);
  return fast_two_sum(sum.high, sum.low + e.rest);
}

Expr value_of(const ExpSplit& e) { return scale(1 + (e.r + e.rest), e.n); }

/// (exp - 1) / 2, halved so that it does not overflow.
Sum half_expm1(const ExpSplit& e) {
  const Expr half_power = power_of_two(e.n - 1, e.r);
  const Sum difference = two_sum(half_power, e.r.like(-0.5));
  const Sum sum = fast_two_sum(difference.high, half_power * e.r);
  return fast_two_sum(sum.high, fma(half_power, e.rest, sum.low) + difference.low);
}

/// The same, rounded: as exact as the sum of the power and what is added to it.
Expr short_half_expm1(const ExpSplit& e) {
  const Expr half_power = power_of_two(e.n - 1, e.r);
  return fma(half_power, e.r + e.rest, half_power - 0.5);
}

/// An f64 outside the range where exp(x) is a positive finite number, moved to where it is safely 0 or infinite.
Expr clamp_to_exp_range(Expr x) { return clamp(x, -746, 710); }

/// log(1 + f), for sqrt(1/2) <= 1 + f <= sqrt(2). Not normalized: the low part may be as large as f^3/3.
Sum log1p_sum(Expr f) {
  const Sum square = two_product(f, f);
  const Sum leading = fast_two_sum(f, -0.5 * square.high);
  if (f.dtype() == Dtype::kF32) {
    return {leading.high, leading.low + fma(f * square.high, polynomial(f, kLogF32), -0.5 * square.low)};
  }
  // With s = f / (2 + f): log(1 + f) = 2 atanh(s) and f - 2 s = f^2/2 (1 - s).
  const Expr s = f / (2 + f);
  const Expr z = s * s;
  const Expr factor = fma(z, polynomial(z, kLogF64), 0.5 * square.high);
  return {leading.high, leading.low + fma(s, factor, -0.5 * square.low)};
}

/// exponent unit + rest, where the rest is less than half a unit.
Expr sum_of_log(Expr exponent, Sum unit, Sum rest) {
  const Sum power = two_product(exponent, unit.high);
  const Sum sum = fast_two_sum(power.high, rest.high);
  return sum.high + (sum.low + (fma(exponent, unit.low, power.low) + rest.low));
}

Expr sum_of_log(Expr exponent, Sum log1p) { return sum_of_log(exponent, words(log1p.high, kLn2F32, kLn2F64), log1p); }

/// `value` for positive finite arguments, and the limits of a logarithm for the others.
Expr with_log_limits(Expr argument, Expr value) {
  const Expr at_most_zero = select(argument == 0, value.like(-kInfinity), value.like(kNan));
  return select(argument < kInfinity, select(argument > 0, value, at_most_zero), argument);
}

/// log(2 x), for x positive and finite: 2 x may overflow.
Expr log_of_double(Expr x) {
  const auto [exponent, f] = split(x);
  return sum_of_log(convert(exponent + 1, x.dtype()), log1p_sum(f));
}

/// log(1 + v).
Expr log1p_of(Sum v) {
  const Sum one_plus_high = two_sum(v.high.like(1), v.high);
  const Sum argument = {one_plus_high.high, one_plus_high.low + v.low};
  const auto [exponent, rounded_f] = split(argument.high);
  // Near 1 the high part itself is f; elsewhere log(high + low) is log(high) + low/high.
  const Expr is_near_one = exponent == 0;
  const Expr f = select(is_near_one, v.high, rounded_f);
  const Expr correction = select(is_near_one, v.low, argument.low) / argument.high;
  const Sum log1p_of_f = log1p_sum(f);
  const Expr value = sum_of_log(convert(exponent, f.dtype()), {log1p_of_f.high, log1p_of_f.low + correction});
  return select(v.high == 0, v.high, with_log_limits(argument.high, value));
}

/// log(x) of a positive finite f64 to about 2^-68: the series of 2 atanh(s), s = f / (2 + f), in sums of two floats as
/// far as its terms matter.
Sum log_sum(Expr x) {
  const auto [exponent, f] = split(x);
  const Sum s = quotient({f, f.like(0)}, fast_two_sum(f.like(2), f));
  const Sum z = product(s, s);
  const Sum factor = fast_two_sum(f.like(kTwoThirdsF64.high), z.high * polynomial(z.high, kLogTailF64));
  const Sum series = product(product(z, s), {factor.high, factor.low + kTwoThirdsF64.low});
  const Sum log1p = fast_two_sum(2 * s.high, series.high);
  const Expr log1p_low = log1p.low + fma(s.low, 2, series.low);

  const Expr k = convert(exponent, f.dtype());
  const Sum power = two_product(k, f.like(kLn2F64.high));
  const Sum sum = fast_two_sum(power.high, log1p.high);
  return fast_two_sum(sum.high, sum.low + (fma(k, kLn2F64.low, power.low) + log1p_low));
}

/// In f64, by as many terms of its polynomials as leave 2^-34 of y log(x) and 2^-32 of the power.
Expr positive_power_f32(Expr x, Expr y) {
  const auto [exponent, f] = split(convert(x, Dtype::kF64));
  const Expr s = f / (2 + f);
  const Expr z = s * s;
  const Expr log1p = fma(s * z, polynomial(z, std::span(kLogF64).first(6)), 2 * s);
  const Expr log_x = fma(convert(exponent, Dtype::kF64), kLn2F64.high, log1p);
  const Expr t = clamp(convert(y, Dtype::kF64) * log_x, -110, 90);  // Beyond it the power overflows or underflows.
  const Expr n = rint(t * kLog2EF64.high);
  const Expr r = fma(n, -kLn2F64.high, t);
  const Expr power = fma(r, fma(r, polynomial(r, std::span(kExpF64).first(8)), 1), 1);
  return convert(power * power_of_two(convert(n, Dtype::kI64), r), Dtype::kF32);
}

Expr floating_pow(Expr x, Expr y) {
  const Expr one = x.like(1);
  const Expr infinity = x.like(kInfinity);
  const Expr magnitude = abs(x);

  // 0, infinity and powers of infinity: the limit is one of the two ends.
  const Expr is_limit = (magnitude == 0) | (magnitude == infinity) | (abs(y) == infinity);
  const Expr limit = select((magnitude > 1) == (y > 0), infinity, x.like(0));
  const Expr power = select(is_limit, limit, positive_power(magnitude, y));

  const Expr is_integer_power = rint(y) == y;
  const Expr half_y = 0.5 * y;
  const Expr is_odd_power = is_integer_power & (rint(half_y) != half_y);
  const Expr is_undefined = ((x < 0) & (magnitude != infinity) & ~is_integer_power) | is_nan(x) | is_nan(y);
  const Expr is_one = (y == 0) | (x == 1) | ((x == -1) & (abs(y) == infinity));
  const Expr result = select(is_odd_power, copysign(power, x), power);
  return select(is_one, one, select(is_undefined, x.like(kNan), result));
}

/// Binary powering over all bits of y.
Expr integral_pow(Expr x, Expr y) {
  const Expr zero = x.like(0);
  const Expr one = x.like(1);
  Expr result = one;
  Expr square = x;
  Expr rest = y;
  const int width = 8 * static_cast<int>(size_of(x.dtype()));
  for (int bit = 0; bit < width; ++bit) {
    result = select((rest & 1) == 1, result * square, result);
    square = square * square;
    rest = rest >> 1;
  }
  if (!is_signed(x.dtype())) return result;
  // Only 1 and -1 have a reciprocal that does not truncate to 0, and only the parity of y matters to them.
  const Expr has_reciprocal = (x == 1) | (x == -1);
  const Expr reciprocal = select(has_reciprocal, select((y & 1) == 1, x, one), zero);
  return select(y < 0, reciprocal, result);
}

/// The cube root of an f64: Halley's iteration on the fraction, whose last step has a residual of twice the precision.
Expr compute_cbrt(Expr x) {
  const auto [exponent, f] = split(abs(x));
  const Expr third = (exponent + 3 * 500) / 3 - 500;                           // Rounded down: division truncates.
  const Expr m = (1 + f) * power_of_two(exponent - third - third - third, x);  // From sqrt(1/2) to 4 sqrt(2).
  Expr y = fma(m, 0.2, m.like(0.8));
  for (int step = 0; step < 3; ++step) {
    const Expr cube = y * y * y;
    y = y * (cube + 2 * m) / (2 * cube + m);
  }
  const Sum square = two_product(y, y);
  const Sum cube = product(square, {y, y.like(0)});
  const Expr residual = (m - cube.high) - cube.low;
  const Expr root = copysign(scale(y + residual / (3 * square.high), third), x);
  return select((x == 0) | ~is_finite(x), x, root);
}

/// exp(x) / 2, which is finite a little longer than exp(x).
Expr half_exp(Expr x) {
  const ExpSplit e = split_exp(clamp(x, -10, pick(x, 91.0, 712.0)));
  return scale(one_plus(e).high, e.n - 1);
}

}  // namespace

Expr exp_times(Sum x, Expr factor) {
  const ExpSplit e = split_exp(x.high, x.low);
  return scale(one_plus(e).high * factor, e.n);
}

Expr positive_power(Expr x, Expr y) {
  if (x.dtype() == Dtype::kF32) return positive_power_f32(x, y);
  const Sum log_x = log_sum(x);
  const Sum t = two_product(y, log_x.high);
  const double limit = 800;  // Beyond it the power overflows or underflows, and the low word may be NaN.
  const Expr low = select(abs(t.high) < limit, fma(y, log_x.low, t.low), x.like(0));
  const ExpSplit e = split_exp(clamp(t.high, -limit, limit), low);
  return scale(one_plus(e).high, e.n);
}

Expr exp(Expr x) {
  if (is_complex(x.dtype())) return complex_exp(x);
  return by_format(
      exp_f32, [](Expr v) { return value_of(split_exp(clamp_to_exp_range(v))); }, x);
}

Expr exp2(Expr x) {
  return by_format(
      exp2_f32,
      [](Expr v) {
        const Expr clamped = clamp(v, -1076, 1025);
        const Expr n = rint(clamped);
        const Expr fraction = clamped - n;
        return value_of(exp_of_reduced(n, {fraction * kLn2F64.high, v.like(0)}));
      },
      x);
}

Expr expm1(Expr x) {
  if (is_complex(x.dtype())) return complex_expm1(x);
  return by_format(
      expm1_f32,
      [](Expr v) {
        const Expr half = short_half_expm1(split_exp(clamp(v, -40, 710)));
        // Where x^2/2 does not matter; also keeps -0 and the last bit of subnormal numbers.
        return select(abs(v) < 0x1p-55, v, half + half);
      },
      x);
}

Expr log(Expr x) {
  if (is_complex(x.dtype())) return complex_log(x);
  return by_format(
      log_f32,
      [](Expr v) {
        const auto [exponent, f] = split(v);
        return with_log_limits(v, sum_of_log(convert(exponent, v.dtype()), log1p_sum(f)));
      },
      x);
}

Expr log2(Expr x) {
  return at_least_f32(
      [](Expr v) {
        const auto [exponent, f] = split(v);
        const Sum log2e = words(v, kLog2EF32, kLog2EF64);
        const Sum log2_of_rest = product(log1p_sum(f), log2e);
        const Sum sum = fast_two_sum(convert(exponent, v.dtype()), log2_of_rest.high);
        return with_log_limits(v, sum.high + (sum.low + log2_of_rest.low));
      },
      x);
}

Expr log10(Expr x) {
  return at_least_f32(
      [](Expr v) {
        const auto [exponent, f] = split(v);
        const Sum rest = product(log1p_sum(f), words(v, kLog10EF32, kLog10EF64));
        const Sum log10_of_2 = words(v, kLog10Of2F32, kLog10Of2F64);
        return with_log_limits(v, sum_of_log(convert(exponent, v.dtype()), log10_of_2, rest));
      },
      x);
}

Expr log1p(Expr x) {
  if (is_complex(x.dtype())) return complex_log1p(x);
  return by_format(
      log1p_f32,
      [](Expr v) {
        return log1p_of({v, v.like(0)});
      },
      x);
}

Expr pow(Expr x, Expr y) {
  SHOAL_CHECK(x.dtype() == y.dtype(), "a power of operands of two dtypes");
  if (is_integer(x.dtype())) return integral_pow(x, y);
  if (is_complex(x.dtype())) return complex_pow(x, y);
  return at_least_f32(floating_pow, x, y);
}

Expr rsqrt(Expr x) {
  if (is_complex(x.dtype())) return complex_rsqrt(x);
  return at_least_f32([](Expr v) { return 1 / sqrt(v); }, x);
}

Expr cbrt(Expr x) { return in_f64(compute_cbrt, x); }

Expr logaddexp(Expr x, Expr y) {
  return at_least_f32(
      [](Expr a, Expr b) {
        const Expr distance = select(a == b, a.like(0), abs(a - b));  // Of equal infinities, too.
        return max(a, b) + log1p(exp(-distance));
      },
      x, y);
}

Expr logaddexp2(Expr x, Expr y) {
  return at_least_f32(
      [](Expr a, Expr b) {
        const Expr distance = select(a == b, a.like(0), abs(a - b));
        return max(a, b) + log1p(exp2(-distance)) * words(a, kLog2EF32, kLog2EF64).high;
      },
      x, y);
}

Expr xlogy(Expr x, Expr y) {
  return at_least_f32([](Expr a, Expr b) { return select(a == 0, select(is_nan(b), b, a.like(0)), a * log(b)); }, x, y);
}

Expr xlog1py(Expr x, Expr y) {
  return at_least_f32([](Expr a, Expr b) { return select(a == 0, select(is_nan(b), b, a.like(0)), a * log1p(b)); }, x,
                      y);
}

Expr sinh(Expr x) {
  if (is_complex(x.dtype())) return complex_sinh(x);
  return at_least_f32(
      [](Expr v) {
        const Expr magnitude = abs(v);
        // (m + m / (1 + m)) / 2, with m = exp(|x|) - 1, where exp(-|x|) matters; h = m / 2.
        const Expr h = short_half_expm1(split_exp(clamp(magnitude, 0, 30)));
        const Expr near = h + h / fma(h, 2, v.like(1));
        const Expr is_tiny = magnitude < pick(v, 0x1p-13, 0x1p-28);
        return select(is_tiny, v, copysign(select(magnitude > 25, half_exp(magnitude), near), v));
      },
      x);
}

Expr cosh(Expr x) {
  if (is_complex(x.dtype())) return complex_cosh(x);
  return at_least_f32(
      [](Expr v) {
        const Expr magnitude = abs(v);
        // (e + 1 / e) / 2, with e = exp(|x|), likewise.
        const Expr half_e = half_exp(magnitude);
        return half_e + 0.25 / half_e;
      },
      x);
}

Expr arcsinh(Expr x) {
  if (is_complex(x.dtype())) return complex_arcsinh(x);
  return by_format(
      arcsinh_f32,
      [](Expr v) {
        // log(1 + |x| + x^2 / (1 + sqrt(1 + x^2))), and log(2 |x|) where 1 does not matter.
        const Expr is_large = abs(v) > 0x1p28;
        const Expr magnitude = select(is_large, v.like(1), abs(v));
        const Sum square = two_product(magnitude, magnitude);
        const Sum one = {v.like(1), v.like(0)};
        const Sum rest = quotient(square, sum_of(one, root_of(sum_of(one, square))));
        const Expr near = log1p_of(sum_of({magnitude, v.like(0)}, rest));
        const Expr far = select(abs(v) < kInfinity, log_of_double(abs(v)), abs(v));
        return select(abs(v) < 0x1p-28, v, copysign(select(is_large, far, near), v));
      },
      x);
}

Expr arccosh(Expr x) {
  if (is_complex(x.dtype())) return complex_arccosh(x);
  return at_least_f32(
      [](Expr v) {
        // log(1 + t + sqrt(t (t + 2))), with t = x - 1, and log(2 x) where 1 does not matter.
        const Expr is_large = v > pick(v, 0x1p14, 0x1p28);
        const Expr t = select(is_large, v.like(2), v) - 1;
        const Expr near = log1p(t + sqrt(fma(t, t, 2 * t)));
        const Expr far = select(v < kInfinity, log_of_double(v), v);
        return select(v < 1, v.like(kNan), select(is_large, far, near));
      },
      x);
}

Expr arctanh(Expr x) {
  if (is_complex(x.dtype())) return complex_arctanh(x);
  return at_least_f32(
      [](Expr v) {
        // log(1 + 2 |x| / (1 - |x|)) / 2.
        const Expr magnitude = select(abs(v) < 1, abs(v), v.like(0));
        const Sum ratio = quotient({2 * magnitude, v.like(0)}, fast_two_sum(v.like(1), -magnitude));
        const Expr at_end = select(abs(v) == 1, v.like(kInfinity), v.like(kNan));
        const Expr value = select(abs(v) < 1, 0.5 * log1p_of(ratio), at_end);
        const Expr is_tiny = abs(v) < pick(v, 0x1p-13, 0x1p-28);
        return select(is_tiny, v, copysign(value, v));
      },
      x);
}

Expr tanh(Expr x) {
  if (is_complex(x.dtype())) return complex_tanh(x);
  return by_format(
      tanh_f32,
      [](Expr v) {
        // tanh(|x|) = -m / (2 + m), with m = exp(-2 |x|) - 1; both halved.
        const Expr argument = select(abs(v) > 20, v.like(-40), -2 * abs(v));
        const Expr m = short_half_expm1(split_exp(argument));
        return copysign(-m / (1 + m), v);
      },
      x);
}

Expr logistic(Expr x) {
  if (is_complex(x.dtype())) return complex_logistic(x);
  return by_format(
      logistic_f32,
      [](Expr v) {
        // With z = exp(-|x|): 1 / (1 + z), or z / (1 + z) for negative x.
        const Expr z = exp(-abs(v));
        return select(v < 0, z, v.like(1)) / (1 + z);
      },
      x);
}

Expr erf(Expr x) {
  return by_format(
      erf_f32,
      [](Expr v) {
        const Expr magnitude = abs(v);
        const Expr near_zero = fma(v, polynomial(v * v, kErfF64), v);
        // Elsewhere 1 - exp(-t), t a polynomial; beyond the clamp the result is 1.
        const Expr clamped = select(magnitude > 6, v.like(6), magnitude);
        const Expr t = polynomial(clamped - 1, kErfTailF64);
        const Sum half = half_expm1(split_exp(-t));
        return select(magnitude < 0.875, near_zero, copysign(2 * (half.high + half.low), v));
      },
      x);
}

}  // namespace shoal::scalar
