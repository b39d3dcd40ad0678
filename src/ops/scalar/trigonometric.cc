// Sine, cosine and tangent: argument reduction by the core operations pio2_*, then minimax polynomials on
// [-pi/4, pi/4] (Muller, "Elementary Functions").
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

SinCos sin_cos_f64(Expr x) {
  const Expr r = pio2_remainder(x);
  const Expr r_low = pio2_remainder_low(x);
  const Sum square = two_product(r, r);
  const Expr z = square.high;

  // sin(r + r_low) = r + r^3 S(r^2) + r_low cos(r), where 1 - r^2/2 is cosine enough.
  const Expr half_z = 0.5 * z;
  const Expr sin_low = fma(r * z, polynomial(z, kSinF64), r_low * (1 - half_z));

  // cos(r + r_low) = 1 - r^2/2 + r^4 C(r^2) - r_low sin(r), where r is sine enough.
  const Sum cos = fast_two_sum(r.like(1), -half_z);
  const Expr cos_rest = fma(z * z, polynomial(z, kCosF64), -fma(r, r_low, 0.5 * square.low));
  return {pio2_quadrant(x), {r, sin_low}, {cos.high, cos.low + cos_rest}};
}

SinCos sin_cos(Expr x) { return x.dtype() == Dtype::kF32 ? sin_cos_f32(x) : sin_cos_f64(x); }

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

}  // namespace

Expr sin(Expr x) { return at_least_f32(compute_sin, x); }
Expr cos(Expr x) { return at_least_f32(compute_cos, x); }
Expr tan(Expr x) { return at_least_f32(compute_tan, x); }

}  // namespace shoal::scalar
