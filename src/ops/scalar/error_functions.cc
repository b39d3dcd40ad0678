// The error function's complement, its inverse and their relatives. erf itself is made of the parts of exp.
#include "ops/scalar/floating.h"
#include "ops/scalar/math.h"
#include "ops/scalar/special_coefficients.h"

namespace shoal::scalar {
namespace {

constexpr double kSqrtHalf = 0x1.6a09e667f3bcdp-1;
constexpr double kRootOfPi = 0x1.c5bf891b4ef6bp+0;

std::span<const double> pick(Expr x, std::span<const double> f32, std::span<const double> f64) {
  return pick<std::span<const double>>(x, f32, f64);
}

/// exp(x^2) erfc(x) for x >= 0: (1 + 2 x) times it is a polynomial of (x - 2) / (x + 2) (Shepherd & Laframboise 1981,
/// "Chebyshev approximation of (1 + 2x) exp(x^2) erfc x"). In f64 one division serves both quotients.
Expr positive_erfcx(Expr x) {
  const double most = pick(x, 0x1p50, 0x1p200);
  const Expr clamped = select(x > most, x.like(most), x);
  const Expr a = clamped + 2;
  const Expr b = fma(clamped, 2, clamped.like(1));
  const auto polynomial_of = [&](Expr t) { return polynomial(t, pick(x, kErfcxF32, kErfcxF64)); };
  Expr value = x;
  if (x.dtype() == Dtype::kF32) {
    value = polynomial_of((clamped - 2) / a) / b;
  } else {
    const Expr reciprocal = 1 / (a * b);
    value = polynomial_of((clamped - 2) * (reciprocal * b)) * (reciprocal * a);
  }
  return select(x > most, (1 / kRootOfPi) / x, value);
}

/// exp(-share x^2) factor for 0 <= x <= `most`, beyond which that is 0.
Expr gaussian_times(Expr x, double share, double most, Expr factor) {
  const Expr clamped = select(x > most, x.like(most), x);
  const Sum square = two_product(clamped, clamped);
  return exp_times({-share * square.high, -share * square.low}, factor);
}

Expr compute_erfc(Expr x) {
  const Expr magnitude = abs(x);
  const Expr tail = gaussian_times(magnitude, 1, pick(x, 10.5, 28.0), positive_erfcx(magnitude));
  const Expr erf = fma(x, polynomial(x * x, pick(x, kErfF32, kErfF64)), x);
  return select(magnitude < 0.5, 1 - erf, select(x < 0, 2 - tail, tail));
}

Expr compute_erfcx(Expr x) {
  const Expr right = positive_erfcx(abs(x));
  const Expr power = gaussian_times(abs(x), -1, pick(x, 10.0, 27.0), x.like(1));
  return select(x < 0, 2 * power - right, right);
}

/// The normal distribution at -|x|.
Expr lower_ndtr(Expr x) {
  const Expr magnitude = abs(x);
  return gaussian_times(magnitude, 0.5, pick(x, 15.0, 39.0), 0.5 * positive_erfcx(magnitude * kSqrtHalf));
}

Expr compute_ndtr(Expr x) {
  const Expr lower = lower_ndtr(x);
  return select(x > 0, 1 - lower, lower);
}

Expr compute_log_ndtr(Expr x) {
  const Expr magnitude = abs(x);
  const Expr left = fma(-0.5 * magnitude, magnitude, log(0.5 * positive_erfcx(magnitude * kSqrtHalf)));
  return select(x > 0, log1p(-lower_ndtr(x)), left);
}

/// erfinv(x) / x as a function of w = -log(1 - x^2), as Giles 2012, "Approximating the erfinv function", proposes: of
/// a w up to 17 in f32 and 37 in f64, or, if `far`, of any.
Expr erf_inv_factor(Expr w, bool far) {
  const Expr root = sqrt(w);
  const bool is_f32 = w.dtype() == Dtype::kF32;
  const auto tail = [&](std::span<const double> coefficients, double middle) {
    return polynomial(root - middle, coefficients);
  };
  Expr value = is_f32 ? tail(kErfInvTailF32, 3.2) : tail(kErfInvMiddleF64, 3.2);
  if (is_f32) {
    if (far) value = select(root < 4.2, value, tail(kErfcInvTailF32, 7.3));
  } else {
    value = select(root < 4.2, value, tail(kErfInvFarF64, 5.2));
    if (far) {
      const Expr farthest = select(root < 14, tail(kErfcInvNearF64, 10.1), tail(kErfcInvFarF64, 20.7));
      value = select(root < 6.2, value, farthest);
    }
  }
  return select(w < 5, polynomial(w - 2.5, pick(w, kErfInvF32, kErfInvNearF64)), value);
}

Expr compute_erf_inv(Expr x) {
  const Expr magnitude = abs(x);
  const Expr factor = erf_inv_factor(-log((1 - magnitude) * (1 + magnitude)), false);
  return x * select(magnitude == 1, x.like(kInfinity), factor);
}

Expr compute_erfc_inv(Expr x) {
  const Expr is_right = x > 1;
  const Expr small = select(is_right, 2 - x, x);
  const Expr factor = erf_inv_factor(-log(small * (2 - small)), true);
  const Expr value = (1 - small) * select(small == 0, x.like(kInfinity), factor);
  return select(is_right, -value, value);
}

/// Dawson's integral, by the polynomials that its ranges have.
Expr compute_dawsn(Expr x) {
  const Expr magnitude = abs(x);
  const Expr square = magnitude * magnitude;
  const Expr reciprocal = 1 / magnitude;
  const double near = pick(x, 1.2, 1.0);
  const double far = pick(x, 3.2, 5.0);
  const Expr from_zero = magnitude * polynomial(square, pick(x, kDawsonNearF32, kDawsonNearF64));
  Expr middle = polynomial(magnitude - pick(x, 2.2, 2.0), pick(x, kDawsonMiddleF32, kDawsonMiddleF64));
  if (x.dtype() == Dtype::kF64) middle = select(magnitude < 3, middle, polynomial(magnitude - 4, kDawsonLateF64));
  const Expr between = reciprocal * middle;
  const Expr beyond = 0.5 * reciprocal * polynomial(reciprocal * reciprocal, pick(x, kDawsonFarF32, kDawsonFarF64));
  const Expr value = select(magnitude < near, from_zero, select(magnitude < far, between, beyond));
  return copysign(value, x);
}

}  // namespace

Expr erfc(Expr x) { return at_least_f32(compute_erfc, x); }
Expr erfcx(Expr x) { return at_least_f32(compute_erfcx, x); }
Expr ndtr(Expr x) { return at_least_f32(compute_ndtr, x); }
Expr log_ndtr(Expr x) { return at_least_f32(compute_log_ndtr, x); }
Expr erf_inv(Expr x) { return at_least_f32(compute_erf_inv, x); }
Expr erfc_inv(Expr x) { return at_least_f32(compute_erfc_inv, x); }
Expr dawsn(Expr x) { return at_least_f32(compute_dawsn, x); }

}  // namespace shoal::scalar
