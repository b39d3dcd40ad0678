// The gamma function's logarithm and the derivative of that: Stirling's series for large arguments, recurrences or a
// polynomial below, and reflections for negative numbers.
#include "ops/scalar/floating.h"
#include "ops/scalar/math.h"
#include "ops/scalar/special_coefficients.h"

namespace shoal::scalar {
namespace {

constexpr double kHalfLogOf2Pi = 0x1.acfe390c97d69p-2;  // (log(2 pi) - 1) / 2.
constexpr double kLargeGamma = 8;

/// log(gamma(x)) for x >= kLargeGamma, and from 5/2 on in f32.
Expr stirling(Expr x, Expr log_x) {
  const Expr leading = (x - 0.5) * (log_x - 1);
  const Expr rest = polynomial(1 / (x * x), pick<std::span<const double>>(x, kStirlingF32, kStirlingF64));
  return leading + (rest / x + kHalfLogOf2Pi);
}

/// log(gamma(x)) for x > 0. Below kLargeGamma, gamma(x) = (x - 1) gamma(x - 1) leads to 1 <= x < 2.
Expr positive_lgamma_f64(Expr x) {
  const Expr is_large = x >= kLargeGamma;
  const Expr is_below_one = x < 1;
  Expr rest = select(is_large, x.like(2), x);
  Expr factor = x.like(1);
  for (int step = 2; step < kLargeGamma; ++step) {
    const Expr is_above = rest >= 2;
    const Expr less = rest - 1;
    factor = select(is_above, factor * less, factor);
    rest = select(is_above, less, rest);
  }
  const Expr u = select(is_below_one, rest, rest - 1);  // gamma(1 + u) is what is left, and u is exact.
  const Expr basic = u * (u - 1) * polynomial(u - 0.5, kLogGammaF64);
  const Expr logarithm = log(select(is_large | is_below_one, x, factor));
  const Expr small = basic + select(is_below_one, -logarithm, logarithm);
  return select(is_large, select(x < kInfinity, stirling(x, logarithm), x), small);
}

/// The same in f32: below 1, too, gamma(x) = gamma(x + 1) / x has what is exact next to 1 and 2.
Expr positive_lgamma_f32(Expr x) {
  const Expr is_below_one = x < 1;
  const Expr log_x = log(x);
  const Expr from_one = select(is_below_one, x, x - 1);
  const Expr basic = from_one * (from_one - 1) * polynomial(from_one - 0.75, kLogGammaF32);
  const Expr small = select(is_below_one, basic - log_x, basic);
  return select(x >= 2.5, select(x < kInfinity, stirling(x, log_x), x), small);
}

/// sin(pi x) / pi for 0 <= x <= 1/2: without the reduction that sin(x) needs, which costs more than the rest.
Expr short_sine_of_turns(Expr x) {
  if (x.dtype() == Dtype::kF32) return sin(kPi * x) * (1 / kPi);
  const Expr is_far = x > 0.25;
  const Expr r = kPi * select(is_far, 0.5 - x, x);
  const Expr z = r * r;
  const Expr sine = fma(r * z, polynomial(z, kSinF64), r);
  const Expr cosine = fma(z * z, polynomial(z, kCosF64), fma(z, -0.5, z.like(1)));
  return select(is_far, cosine, sine) * (1 / kPi);
}

Expr compute_lgamma(Expr x) {
  // gamma(x) gamma(-x) = -pi / (x sin(pi x)).
  const Expr magnitude = abs(x);
  const Expr value = pick(x, positive_lgamma_f32, positive_lgamma_f64)(magnitude);
  const Expr fraction = abs(x - rint(x));
  const Expr reflected = -log(magnitude * short_sine_of_turns(fraction)) - value;
  return select(x < 0, select(x == -kInfinity, -x, reflected), value);
}

Expr compute_digamma(Expr x) {
  // digamma(x) = digamma(x + 1) - 1 / x; the sum of the fractions is one.
  const int steps = pick(x, 4, 8);
  Expr argument = abs(x);
  Expr numerator = x.like(0);
  Expr denominator = x.like(1);
  for (int step = 0; step < steps; ++step) {
    const Expr is_small = argument < steps;
    numerator = select(is_small, fma(numerator, argument, denominator), numerator);
    denominator = select(is_small, denominator * argument, denominator);
    argument = select(is_small, argument + 1, argument);
  }
  const Expr reciprocal = 1 / argument;
  const Expr square = reciprocal * reciprocal;
  const Expr rest = polynomial(square, pick<std::span<const double>>(x, kDigammaF32, kDigammaF64));
  const Expr right = log(argument) - fma(square, rest, 0.5 * reciprocal) - numerator / denominator;

  // digamma(x) = digamma(-x) - 1 / x - pi / tan(pi x). The tangent has period 1, and its reciprocal is that of 1/2 - x.
  const Expr fraction = x - rint(x);
  const Expr distance = abs(fraction);
  const Expr is_far = distance > 0.25;
  const Expr tangent = tan(kPi * select(is_far, 0.5 - distance, distance));
  const Expr reflected = (right - 1 / x) - kPi * copysign(select(is_far, tangent, 1 / tangent), fraction);
  const Expr value = select(x < 0, reflected, right);
  const Expr at_zero = copysign(x.like(kInfinity), -x);
  return select(x == 0, at_zero, select((x < 0) & (fraction == 0), x.like(kNan), value));
}

}  // namespace

Expr lgamma(Expr x) { return at_least_f32(compute_lgamma, x); }
Expr digamma(Expr x) { return at_least_f32(compute_digamma, x); }

}  // namespace shoal::scalar
