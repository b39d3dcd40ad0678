// The error function's complement and inverse, computed in f64. erf itself is made of the parts of exp.
#include "ops/scalar/floating.h"
#include "ops/scalar/math.h"

namespace shoal::scalar {
namespace {

/// erfc(x) for x >= 1/2: (1 + 2 x) exp(x^2) erfc(x) is a polynomial of (x - 2) / (x + 2) (Shepherd & Laframboise 1981,
/// "Chebyshev approximation of (1 + 2x) exp(x^2) erfc x").
Expr erfc_tail(Expr x) {
  const Expr clamped = clamp(x, 0.25, 28);  // Beyond it the result is 0.
  const Expr scaled = polynomial((clamped - 2) / (clamped + 2), kErfcF64) / fma(clamped, 2, clamped.like(1));
  const Sum square = two_product(clamped, clamped);
  return exp_times({-square.high, -square.low}, scaled);
}

Expr compute_erfc(Expr x) {
  const Expr tail = erfc_tail(abs(x));
  return select(abs(x) < 0.5, 1 - erf(x), select(x < 0, 2 - tail, tail));
}

Expr compute_erf_inv(Expr x) {
  const Expr magnitude = abs(x);
  const Expr w = -log((1 - magnitude) * (1 + magnitude));
  const Expr s = sqrt(w);
  const Expr near = polynomial(w - 2.5, kErfInvF64);
  const Expr far = polynomial(s - 4, kErfInvTailF64);
  const Expr guess = select(w < 5, near, far) * magnitude;
  // One step of Halley's iteration from a guess good to a part in a million.
  const Expr residual = select(magnitude < 0.75, erf(guess) - magnitude, (1 - magnitude) - erfc_tail(guess));
  const Expr step = residual * exp(guess * guess) * 0x1.c5bf891b4ef6bp-1;  // sqrt(pi) / 2.
  const Expr value = guess - step / fma(guess, step, 1);
  const Expr at_end = select(magnitude == 1, x.like(kInfinity), x.like(kNan));
  const Expr is_tiny = magnitude < 0x1p-30;
  const Expr inside = select(is_tiny, magnitude * 0x1.c5bf891b4ef6bp-1, value);
  return copysign(select(magnitude < 1, inside, at_end), x);
}

}  // namespace

Expr erfc(Expr x) { return in_f64(compute_erfc, x); }
Expr erf_inv(Expr x) { return in_f64(compute_erf_inv, x); }

}  // namespace shoal::scalar
