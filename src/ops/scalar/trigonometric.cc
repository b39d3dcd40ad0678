// Sine, cosine and tangent: argument reduction by the core operations pio2_*, then minimax polynomials on
// [-pi/4, pi/4] (Muller, "Elementary Functions").
#include "ops/scalar/complex_functions.h"
#include "ops/scalar/floating.h"
#include "ops/scalar/math.h"

namespace shoal::scalar {
namespace {

/// sin and cos of the reduced argument, and the quadrant it came from. For f32 these are f64 values; the low parts then
/// are 0.
struct SinCos {
  Expr quadrant;
  Sum sin;
  Sum cos;
};

SinCos sin_cos_f32(Expr x) {
  const Expr r = pio2_remainder(x);
  const Expr z = r * r;
  const Expr zero = r.like(0);
  const Expr sin = fma(r * z, polynomial(z, kSinF32), r);
  const Expr cos = fma(z, polynomial(z, kCosF32), 1);
  return {pio2_quadrant(x), {sin, zero}, {cos, zero}};
}

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

SinCos sin_cos(Expr x) {
  if (x.dtype() == Dtype::kF32) return sin_cos_f32(x);
  return sin_cos_f64(pio2_quadrant(x), pio2_remainder(x), pio2_remainder_low(x));
}

/// sin(r + quadrant pi/2), rounded to `dtype`.
Expr sin_at(const SinCos& reduced, Expr quadrant, Dtype dtype) {
  const Expr is_odd = (quadrant & 1) == 1;
  const Expr magnitude = select(is_odd, reduced.cos.high + reduced.cos.low, reduced.sin.high + reduced.sin.low);
  return convert(select((quadrant & 2) == 2, -magnitude, magnitude), dtype);
}

Expr compute_sin(Expr x) {
  const SinCos reduced = sin_cos(x);
  return select(x == 0, x, sin_at(reduced, reduced.quadrant, x.dtype()));  // Keeps -0.
}

Expr compute_cos(Expr x) {
  const SinCos reduced = sin_cos(x);
  return sin_at(reduced, reduced.quadrant + 1, x.dtype());
}

Expr compute_tan(Expr x) {
  const SinCos reduced = sin_cos(x);
  const Sum sin = fast_two_sum(reduced.sin.high, reduced.sin.low);
  const Sum cos = fast_two_sum(reduced.cos.high, reduced.cos.low);
  const Expr is_odd = (reduced.quadrant & 1) == 1;
  const Sum numerator = {select(is_odd, -cos.high, sin.high), select(is_odd, -cos.low, sin.low)};
  const Sum denominator = {select(is_odd, sin.high, cos.high), select(is_odd, sin.low, cos.low)};
  const Sum tan = quotient(numerator, denominator);
  return select(x == 0, x, convert(tan.high + tan.low, x.dtype()));  // Keeps -0.
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
  const Expr value = select(is_huge, x * 0, ratio.high + ratio.low);
  return select(is_tiny, x.like(1), value + 0);  // A zero is positive.
}

}  // namespace

Expr sin(Expr x) { return is_complex(x.dtype()) ? complex_sin(x) : at_least_f32(compute_sin, x); }
Expr cos(Expr x) { return is_complex(x.dtype()) ? complex_cos(x) : at_least_f32(compute_cos, x); }
Expr tan(Expr x) { return is_complex(x.dtype()) ? complex_tan(x) : at_least_f32(compute_tan, x); }
Expr sinc(Expr x) { return in_f64(compute_sinc, x); }

}  // namespace shoal::scalar
