// Sine, cosine and tangent, of f64 here: argument reduction by the core operations pio2_*, then minimax polynomials on
// [-pi/4, pi/4] (Muller, "Elementary Functions"). single.cc has those of f32.
#include "ops/scalar/complex_functions.h"
#include "ops/scalar/floating.h"
#include "ops/scalar/math.h"
#include "ops/scalar/single.h"

namespace shoal::scalar {
namespace {

/// sin and cos of the reduced argument, and the quadrant it came from.
struct SinCos {
  Expr quadrant;
  Sum sin;
  Sum cos;
};

/// Of the reduced argument r + r_low.
SinCos sin_cos_f64(Expr quadrant, Expr r, Expr r_low) {
  const Sum square = two_product(r, r);
  const Expr z = square.high;

  // sin(r + r_low) = r + r^3 S(r^2) + r_low cos(r), where 1 - r^2/2 is cosine enough.
  const Expr half_z = 0.5 * z;
  const Expr sin_low = fma(r * z, polynomial(z, kSinF64), r_low * (1 - half_z));

  // cos(r + r_low) = 1 - r^2/2 + r^4 C(r^2) - r_low sin(r), where r is sine enough.
  const Sum cos = fast_two_sum(r.like(1), -half_z);
  const Expr cos_rest = fma(z * z, polynomial(z, kCosF64), -fma(r, r_low, 0.5 * square.low));
  return {quadrant, {r, sin_low}, {cos.high, cos.low + cos_rest}};
}

SinCos sin_cos(Expr x) { return sin_cos_f64(pio2_quadrant(x), pio2_remainder(x), pio2_remainder_low(x)); }

/// sin(r + quadrant pi/2).
Expr sin_at(const SinCos& reduced, Expr quadrant) {
  const Expr is_odd = (quadrant & 1) == 1;
  const Expr magnitude = select(is_odd, reduced.cos.high + reduced.cos.low, reduced.sin.high + reduced.sin.low);
  return select((quadrant & 2) == 2, -magnitude, magnitude);
}

Expr sin_f64(Expr x) {
  const SinCos reduced = sin_cos(x);
  return select(x == 0, x, sin_at(reduced, reduced.quadrant));  // Keeps -0.
}

Expr cos_f64(Expr x) {
  const SinCos reduced = sin_cos(x);
  return sin_at(reduced, reduced.quadrant + 1);
}

Expr tan_f64(Expr x) {
  const SinCos reduced = sin_cos(x);
  const Sum sin = fast_two_sum(reduced.sin.high, reduced.sin.low);
  const Sum cos = fast_two_sum(reduced.cos.high, reduced.cos.low);
  const Expr is_odd = (reduced.quadrant & 1) == 1;
  const Sum numerator = {select(is_odd, -cos.high, sin.high), select(is_odd, -cos.low, sin.low)};
  const Sum denominator = {select(is_odd, sin.high, cos.high), select(is_odd, sin.low, cos.low)};
  const Sum tan = quotient(numerator, denominator);
  return select(x == 0, x, tan.high + tan.low);  // Keeps -0.
}

/// sin(pi x) / (pi x) of an f64.
Expr compute_sinc(Expr x) {
  const Expr k = rint(2 * x);
  const Expr r = fma(k, -0.5, x);  // Exact, and at most 1/4.
  const Sum pi = words(x, kPiF32, kPiF64);
  const Sum angle = two_product(r, pi.high);
  const Expr quadrant = convert(fma(floor(0.25 * k), -4, k), Dtype::kI32);
  const SinCos reduced = sin_cos_f64(quadrant, angle.high, fma(r, pi.low, angle.low));
  const Expr is_odd = (quadrant & 1) == 1;
  const Sum sin = {select(is_odd, reduced.cos.high, reduced.sin.high),
                   select(is_odd, reduced.cos.low, reduced.sin.low)};
  const Expr sign = select((quadrant & 2) == 2, x.like(-1), x.like(1));
  const Sum numerator = fast_two_sum(sign * sin.high, sign * sin.low);
  const Sum ratio = quotient(numerator, product({x, x.like(0)}, pi));
  const Expr is_tiny = abs(x) < 0x1p-30;  // Where (pi x)^2 / 6 does not matter.
  const Expr is_huge = abs(x) > 0x1p53;   // Where all numbers are integers.
  const Expr value = select(is_huge, x.like(0), ratio.high + ratio.low);
  return select(is_tiny, x.like(1), value + 0);  // A zero is positive.
}

/// The same of an f32, by the sine of what lies between x and the nearest integer.
Expr sinc_f32(Expr x) {
  const Expr n = rint(x);
  const Expr half = 0.5 * n;
  const Expr sine = sin_f32(kPi * (x - n));
  const Expr value = select(rint(half) == half, sine, -sine) / (kPi * x);
  return select(abs(x) < 0x1p-20, x.like(1), select(is_infinite(x), x.like(0), value + 0));  // A zero is positive.
}

}  // namespace

Expr sin(Expr x) { return is_complex(x.dtype()) ? complex_sin(x) : by_format(sin_f32, sin_f64, x); }
Expr cos(Expr x) { return is_complex(x.dtype()) ? complex_cos(x) : by_format(cos_f32, cos_f64, x); }
Expr tan(Expr x) { return is_complex(x.dtype()) ? complex_tan(x) : by_format(tan_f32, tan_f64, x); }
Expr sinc(Expr x) { return by_format(sinc_f32, compute_sinc, x); }

}  // namespace shoal::scalar
