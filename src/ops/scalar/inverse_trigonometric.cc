// The inverse trigonometric functions. In f64 all but arctan are the angle of a point, given to twice the precision of
// f64, which comes from a quotient of at most tan(pi/8), by a minimax polynomial, and a multiple of pi/4. In f32 they
// are polynomials of a quotient or sine from 0 to 1, or 1/2, and a multiple of pi/2.
#include "ops/scalar/complex_functions.h"
#include "ops/scalar/floating.h"
#include "ops/scalar/math.h"
#include "ops/scalar/special_coefficients.h"

namespace shoal::scalar {
namespace {

Sum select_sum(Expr predicate, Sum if_true, Sum if_false) {
  return {select(predicate, if_true.high, if_false.high), select(predicate, if_true.low, if_false.low)};
}

Sum negated(Sum a) { return {-a.high, -a.low}; }

/// The angle from 0 to pi of a point whose coordinates are not negative, or, mirrored at the y axis, of (-x, y). The
/// larger coordinate has an ordinary magnitude.
Expr angle_of(Sum y, Sum x, Expr is_mirrored) {
  const Expr is_steep = y.high > x.high;
  const Sum large = select_sum(is_steep, y, x);
  const Sum small = select_sum(is_steep, x, y);
  // atan(q) = pi/4 + atan((q - 1) / (q + 1)).
  const Expr is_diagonal = small.high > 0x1.a827999fcef32p-2 * large.high;
  const Sum numerator = select_sum(is_diagonal, sum_of(small, negated(large)), small);
  const Sum denominator = select_sum(is_diagonal, sum_of(small, large), large);
  const Sum t = quotient(numerator, denominator);
  const Expr z = t.high * t.high;
  // atan(t + low) = t + t^3 A(t^2) + low / (1 + t^2), where 1 - t^2 + t^4 is quotient enough.
  const Expr low = fma(t.high * z, polynomial(z, kAtanF64), t.low * fma(z, z - 1, 1));

  const Expr zero = z.like(0);
  const Sum pi = words(z, kPiF32, kPiF64);
  const Sum quarter = {0.25 * pi.high, 0.25 * pi.low};
  const Sum half = {0.5 * pi.high, 0.5 * pi.low};
  const Sum flat = select_sum(is_mirrored, pi, {zero, zero});
  const Sum diagonal = select_sum(is_mirrored, sum_of(half, quarter), quarter);
  const Sum base = select_sum(is_diagonal, diagonal, select_sum(is_steep, half, flat));
  const Expr sign = select(is_steep ^ is_mirrored, z.like(-1), z.like(1));
  const Sum sum = fast_two_sum(base.high, sign * t.high);
  return sum.high + (sum.low + fma(sign, low, base.low));
}

Expr one_if_infinite(Expr x) { return convert(is_infinite(x), x.dtype()); }

Expr compute_arctan2(Expr y, Expr x) {
  const Expr large = max(abs(x), abs(y));
  const Expr exponent = -split(large).exponent;
  const Expr is_any_infinite = is_infinite(x) | is_infinite(y);
  const Expr is_origin = (x == 0) & (y == 0);
  const auto ordinary = [&](Expr v, double at_origin) {
    const Expr finite = select(is_origin, v.like(at_origin), scale(abs(v), exponent));
    return Sum{select(is_any_infinite, one_if_infinite(v), finite), v.like(0)};
  };
  const Expr angle = angle_of(ordinary(y, 0), ordinary(x, 1), signbit(x));
  return select(is_nan(x) | is_nan(y), x.like(kNan), copysign(angle, y));
}

/// sqrt(1 - x^2), NaN beyond 1.
Sum opposite(Expr x) {
  const Expr magnitude = abs(x);
  return root_of(product(fast_two_sum(x.like(1), -magnitude), fast_two_sum(x.like(1), magnitude)));
}

Expr compute_arcsin(Expr x) {
  const Expr no = x.builder().constant(Dtype::kBool, 0);
  const Expr angle = angle_of({abs(x), x.like(0)}, opposite(x), no);
  return select(abs(x) <= 1, copysign(angle, x), x.like(kNan));
}

Expr compute_arccos(Expr x) {
  return select(abs(x) <= 1, angle_of(opposite(x), {abs(x), x.like(0)}, x < 0), x.like(kNan));
}

// ---- f32, and arctan of f64.

/// atan(t) for 0 <= t <= 1.
Expr short_arctan(Expr t) {
  const Expr z = t * t;
  return fma(t * z, polynomial(z, kAtanF32), t);
}

Expr arctan_f32(Expr x) {
  const Expr magnitude = abs(x);
  const Expr is_large = magnitude > 1;
  const Expr angle = short_arctan(select(is_large, 1 / magnitude, magnitude));
  return copysign(select(is_large, kPi / 2 - angle, angle), x);
}

/// atan(x) = k pi/4 + atan((x - 1) / (x + 1)), or of -1 / x.
Expr arctan_f64(Expr x) {
  const Expr magnitude = abs(x);
  const Expr is_steep = magnitude > 0x1.3504f333f9de6p+1;     // tan(3 pi/8).
  const Expr is_diagonal = magnitude > 0x1.a827999fcef32p-2;  // tan(pi/8).
  const Expr one = x.like(1);
  const Expr numerator = select(is_steep, -one, select(is_diagonal, magnitude - 1, magnitude));
  const Expr denominator = select(is_steep, magnitude, select(is_diagonal, magnitude + 1, one));
  const Expr t = numerator / denominator;
  const Expr z = t * t;
  const Expr share = select(is_steep, x.like(0.5), select(is_diagonal, x.like(0.25), x.like(0)));
  const Expr low = fma(share, kPiF64.low, t * z * polynomial(z, kAtanF64));
  return copysign(fma(share, kPiF64.high, t + low), x);
}

Expr arctan2_f32(Expr y, Expr x) {
  const Expr is_steep = abs(y) > abs(x);
  const Expr is_mirrored = signbit(x);
  const Expr large = select(is_steep, abs(y), abs(x));
  const Expr small = select(is_steep, abs(x), abs(y));
  // Of equal ones, and so of two infinities and of the origin, without a division.
  const Expr equal = select(large == 0, x.like(0), x.like(1));
  const Expr angle = short_arctan(select(small == large, equal, small / large));
  const Expr base = select(is_steep, x.like(kPi / 2), select(is_mirrored, x.like(kPi), x.like(0)));
  return copysign(base + select(is_steep ^ is_mirrored, -angle, angle), y);
}

/// asin(x) for |x| <= 1/2, and half of acos(|x|) = 2 asin(sqrt((1 - |x|) / 2)) beyond; NaN beyond 1.
Expr short_arcsin(Expr magnitude, Expr is_large) {
  const Expr z = select(is_large, 0.5 - 0.5 * magnitude, magnitude * magnitude);
  const Expr sine = select(is_large, sqrt(z), magnitude);
  return fma(sine * z, polynomial(z, kAsinF32), sine);
}

Expr arcsin_f32(Expr x) {
  const Expr is_large = abs(x) > 0.5;
  const Expr angle = short_arcsin(abs(x), is_large);
  return copysign(select(is_large, fma(angle, -2, angle.like(kPi / 2)), angle), x);
}

Expr arccos_f32(Expr x) {
  const Expr is_large = abs(x) > 0.5;
  const Expr angle = short_arcsin(abs(x), is_large);
  const Expr far = select(x < 0, fma(angle, -2, angle.like(kPi)), 2 * angle);
  return select(is_large, far, kPi / 2 - copysign(angle, x));
}

}  // namespace

Expr arcsin(Expr x) { return is_complex(x.dtype()) ? complex_arcsin(x) : by_format(arcsin_f32, compute_arcsin, x); }
Expr arccos(Expr x) { return is_complex(x.dtype()) ? complex_arccos(x) : by_format(arccos_f32, compute_arccos, x); }
Expr arctan2(Expr y, Expr x) {
  return at_least_f32(
      [](Expr a, Expr b) { return a.dtype() == Dtype::kF32 ? arctan2_f32(a, b) : compute_arctan2(a, b); }, y, x);
}
Expr arctan(Expr x) { return is_complex(x.dtype()) ? complex_arctan(x) : by_format(arctan_f32, arctan_f64, x); }

}  // namespace shoal::scalar
