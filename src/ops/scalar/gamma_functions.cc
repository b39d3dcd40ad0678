// The gamma function's logarithm and the derivative of that, computed in f64: Stirling's series from 8 on, recurrences
// below, and reflections for negative numbers.
#include "ops/scalar/floating.h"
#include "ops/scalar/math.h"

namespace shoal::scalar {
namespace {

constexpr double kLargeGamma = 8;

/// log(gamma(x)) for x >= kLargeGamma.
Expr stirling(Expr x) {
  const double constant = 0x1.acfe390c97d69p-2;  // (log(2 pi) - 1) / 2.
  const Expr leading = (x - 0.5) * (log(x) - 1);
  return leading + (polynomial(1 / (x * x), kStirlingF64) / x + constant);
}

/// log(gamma(x)) for 0 < x < kLargeGamma: gamma(x) = (x - 1) gamma(x - 1) leads to 1 <= x < 2.
Expr small_lgamma(Expr x) {
  const Expr is_below_one = x < 1;
  Expr rest = x;
  Expr factor = x.like(1);
  for (int step = 2; step < kLargeGamma; ++step) {
    const Expr is_above = rest >= 2;
    const Expr less = rest - 1;
    factor = select(is_above, factor * less, factor);
    rest = select(is_above, less, rest);
  }
  const Expr u = select(is_below_one, x, rest - 1);  // gamma(1 + u) is what is left, and u is exact.
  const Expr basic = u * (u - 1) * polynomial(u - 0.5, kLogGammaF64);
  return select(is_below_one, basic - log(x), basic + log(factor));
}

Expr positive_lgamma(Expr x) {
  const Expr small = small_lgamma(clamp(x, 0, kLargeGamma));
  return select(x < kLargeGamma, small, select(x < kInfinity, stirling(max(x, kLargeGamma)), x));
}

Expr compute_lgamma(Expr x) {
  // gamma(x) gamma(1 - x) = pi / sin(pi x).
  const Expr reflected = -log(abs(x * sinc(x))) - positive_lgamma(1 - x);
  const Expr value = select(x < 0.5, reflected, positive_lgamma(x));
  return select(x == -kInfinity, -x, value);
}

/// The derivative of log(gamma(x)) for x > 0.
Expr positive_digamma(Expr x) {
  // digamma(x) = digamma(x + 1) - 1 / x.
  Expr argument = x;
  Expr sum = x.like(0);
  for (int step = 0; step < kLargeGamma; ++step) {
    const Expr is_small = argument < kLargeGamma;
    sum = select(is_small, sum + 1 / argument, sum);
    argument = select(is_small, argument + 1, argument);
  }
  const Expr reciprocal = 1 / argument;
  const Expr square = reciprocal * reciprocal;
  const Expr correction = fma(square, polynomial(square, kDigammaF64), 0.5 * reciprocal);
  return log(argument) - correction - sum;
}

Expr compute_digamma(Expr x) {
  // digamma(x) = digamma(1 - x) - pi / tan(pi x). The tangent has period 1, and its reciprocal is that of 1/2 - x.
  const Expr fraction = x - rint(x);
  const Expr distance = abs(fraction);
  const double pi = 0x1.921fb54442d18p+1;
  const Expr cotangent = select(distance > 0.25, tan(pi * (0.5 - distance)), 1 / tan(pi * distance));
  const Expr reflected = positive_digamma(1 - x) - pi * copysign(cotangent, fraction);
  const Expr value = select(x < 0.5, reflected, positive_digamma(max(x, 0.5)));
  const Expr at_zero = copysign(x.like(kInfinity), -x);
  return select(x == 0, at_zero, select((x < 0) & (fraction == 0), x.like(kNan), value));
}

}  // namespace

Expr lgamma(Expr x) { return in_f64(compute_lgamma, x); }
Expr digamma(Expr x) { return in_f64(compute_digamma, x); }

}  // namespace shoal::scalar
