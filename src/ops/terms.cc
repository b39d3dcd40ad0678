#include "ops/terms.h"

#include <array>
#include <numbers>

namespace shoal::terms {

Term number(Term x, double value) { return {x.build, x.build->full(Scalar::of(value).converted_to(x.dtype()))}; }

Term complex(Term real, Term imag) { return apply("complex", real, imag); }

Term convert(Term x, Dtype dtype) { return {x.build, x.build->convert(x.id, dtype)}; }

Term inverted_safely(Term x, Term y) { return select(equal(y, 0), select(isfinite(1 / x), x, 1), x); }

Term share(Term x, Term other, Term result) {
  const Term both = select(equal(other, result), number(result, 0.5), number(result, 1));
  return select(equal(x, result), both, 0);
}

// Near 0 its Taylor series, whose derivatives are right there, too: the terms left out are below a rounding of f64.
Term slope_of_sinc(Term x, Term sinc) {
  constexpr int kTerms = 8;
  const Term squared = square(std::numbers::pi * x);
  double factor = 1;  // Of the powers of pi x: 2 k / (2 k + 1)!, with alternating signs.
  std::array<double, kTerms> factors{};
  for (int k = 1; k <= kTerms; ++k) {
    factor /= -(2 * k) * (2 * k + 1);
    factors[static_cast<std::size_t>(k - 1)] = 2 * k * factor;
  }
  Term series = number(x, factors.back());
  for (std::size_t k = kTerms - 1; k-- > 0;) series = series * squared + factors[k];
  const Term is_near = less(abs(x), 0.25);
  const Term quotient = select(isfinite(x), cos(std::numbers::pi * x) - sinc, 1) / select(is_near, 1, x);
  return select(is_near, std::numbers::pi * std::numbers::pi * x * series, quotient);
}

// Abramowitz & Stegun 6.4.6, 6.4.7 and 6.4.12: moved to where the asymptotic series holds, and reflected from the left.
Term trigamma(Term x) {
  constexpr int kSteps = 8;
  constexpr std::array<double, 7> kBernoulli = {1. / 6, -1. / 30, 1. / 42, -1. / 30, 5. / 66, -691. / 2730, 7. / 6};
  const Term is_left = less(x, 0.5);
  const Term from = select(is_left, 1 - x, x);
  Term sum = 1 / square(from);
  for (int k = 1; k < kSteps; ++k) sum = sum + 1 / square(from + k);
  const Term moved = from + kSteps;
  const Term inverse = 1 / moved;
  const Term squared = square(inverse);
  Term series = number(x, kBernoulli.back());
  for (std::size_t k = kBernoulli.size() - 1; k-- > 0;) series = series * squared + kBernoulli[k];
  const Term right = sum + inverse + 0.5 * squared + series * squared * inverse;
  const Term sine = sin(std::numbers::pi * x) / std::numbers::pi;
  return select(is_left, 1 / square(sine) - right, right);
}

Term gamma_density(Term a, Term x) { return exp(xlogy(a - 1, x) - x - lgamma(a)); }

}  // namespace shoal::terms
