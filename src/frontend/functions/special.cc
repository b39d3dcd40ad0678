#include "shoal/special.h"

#include <array>
#include <cmath>
#include <limits>
#include <span>

#include "frontend/array/array_impl.h"
#include "frontend/array/term.h"
#include "ops/scalar/coefficients.h"
#include "shoal/lax.h"

namespace shoal::special {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kPi = 3.14159265358979323846;
constexpr double kEuler = 0.57721566490153286061;

// formula(x...) of floats in f64, rounded to the dtype that they are promoted to.
template <class F, class... Operands>
Array in_f64(std::string_view function, F&& formula, const Operands&... operands) {
  const std::array<const Operand*, sizeof...(Operands)> given = {&operands...};
  const SourceLocation where = given[0]->where();
  const std::vector<Array> arrays = promote(function, kFloats, given);
  const auto call = [&]<std::size_t... I>(std::index_sequence<I...>) {
    return formula(Term(convert(arrays[I], float64, false, where), where)...);
  };
  const Term result = call(std::index_sequence_for<Operands...>());
  return convert(result.array(), arrays[0].dtype(), detail::impl_of(arrays[0]).type.weak, where);
}

Term constant(const Term& x, double value) { return {full({}, x.number(value), {.dtype = float64}), x.where()}; }
Term less_than(const Term& x, double y) { return x.then(less, x.number(y)); }
Term both(const Term& x, const Term& y) { return {logical_and(x, y), x.where()}; }
Term either(const Term& x, const Term& y) { return {logical_or(x, y), x.where()}; }
Term is_equal(const Term& x, double y) { return x.then(equal, x.number(y)); }
Term is_whole(const Term& x) { return x.then(equal, x.then(floor)); }

Term polynomial(const Term& x, std::span<const double> coefficients) {
  Term result = constant(x, coefficients.back());
  for (std::size_t i = coefficients.size() - 1; i-- > 0;) result = result * x + coefficients[i];
  return result;
}

// ---- Sums and integrals over a new last dimension.

Term widened(const Term& x) { return {expand_dims(x, -1), x.where()}; }
Term total(const Term& x) { return x.then(sum, ReduceOptions{.axis = -1}); }
Term counting(std::int64_t count, SourceLocation where) { return {lax::iota(float64, count, where), where}; }

// The integral of f from 0 on, by the double exponential formula of Takahasi & Mori 1974, "Double exponential formulas
// for numerical integration", for an f that falls off like exp(-s / scale) and is smooth on a logarithmic scale.
template <class F>
Term integral(const Term& scale, F&& f) {
  constexpr std::int64_t kPoints = 128;
  constexpr double kBegin = -3.7;
  constexpr double kStep = (4.0 - kBegin) / (kPoints - 1);
  const Term u = counting(kPoints, scale.where()) * kStep + kBegin;
  const Term fall = (-u).then(exp);
  const Term points = (u - fall).then(exp);
  const Term weights = points * (fall + 1.0) * kStep;
  return total(f(widened(scale) * points) * weights) * scale;
}

// ---- Bessel functions.

Term scaled_bessel(const Term& a, int order, std::span<const double> small, std::span<const double> tail) {
  const Term near = at_most(a, 8);
  const Term far = at_least(a, 8);
  const Term factor = order == 0 ? (-near).then(exp) : near * (-near).then(exp);
  const Term below = factor * polynomial(near * near, small);
  const Term above = polynomial(16.0 / far - 1.0, tail) / far.then(sqrt);
  return select(a > 8, above, below);
}
Term i0e_of(const Term& x) { return scaled_bessel(x.then(abs), 0, scalar::kBesselI0F64, scalar::kBesselI0TailF64); }
Term i1e_of(const Term& x) {
  return scaled_bessel(x.then(abs), 1, scalar::kBesselI1F64, scalar::kBesselI1TailF64).then(copysign, x);
}
// Infinity rather than infinity times 0.
Term unscaled(const Term& scaled, const Term& x) {
  const Term size = x.then(abs);
  return select(is_equal(size, kInfinity), x.then(copysign, scaled) * kInfinity, scaled * size.then(exp));
}

// ---- The gamma family.

// Both shares of the gamma function's integral: the one that is not close to 1 is integrated.
std::pair<Term, Term> gamma_shares(const Term& a, const Term& x) {
  const Term is_below(less(x, a + 1.0), x.where());
  // x^b exp(-x) / gamma(c).
  const auto factor = [](const Term& v, const Term& b, const Term& c) {
    return (b * v.then(log) - v - c.then(lgamma)).then(exp);
  };
  // Below: the integral of t^a exp(-t), where t = x exp(-s), and what gamma(a + 1) = a gamma(a) leaves.
  const Term low = at_most(at_least(x, 1e-300), 1e300);
  const Term order = at_least(a, 0);
  const Term next = order + 1.0;
  const Term slope = at_least(next - low, 0).then(maximum, next.then(sqrt));
  const Term inner = integral(
      1.0 / slope, [&](const Term& s) { return (-(widened(next) * s) - widened(low) * (-s).then(expm1)).then(exp); });
  const Term below = inner * factor(low, next, next) + factor(low, order, next);
  // Above: the integral of t^(a - 1) exp(-t), where t = x + s.
  const Term high = at_least(low, 1);
  const Term positive = at_least(order, 1e-300);
  const Term fall = (1.0 - (positive - 1.0) / high).then(maximum, 1.0 / high.then(sqrt));
  const Term outer = integral(1.0 / fall, [&](const Term& s) {
    return ((widened(positive) - 1.0) * (s / widened(high)).then(log1p) - s).then(exp);
  });
  const Term above = outer * factor(high, positive, positive) / high;
  return {select(is_below, below, 1.0 - above), select(is_below, 1.0 - below, above)};
}

Term gamma_share(const Term& a, const Term& x, bool lower) {
  const auto [below, above] = gamma_shares(a, x);
  const Term inside = at_most(at_least(lower ? below : above, 0), 1);
  const Term all = constant(x, lower ? 1 : 0);
  const Term none = constant(x, lower ? 0 : 1);
  const Term ends = either(is_equal(a, 0), is_equal(x, kInfinity));
  const Term begins = either(is_equal(x, 0), is_equal(a, kInfinity));
  const Term outside = either(either(less_than(a, 0), less_than(x, 0)), either(a.then(isnan), x.then(isnan)));
  const Term value = select(ends, all, select(begins, none, inside));
  return select(outside, constant(x, kNan), value);
}

// The first terms of the sum, then the formula of Euler and Maclaurin.
Term zeta_of(const Term& x, const Term& q) {
  constexpr int kTerms = 10;
  // B(2j) / (2j)!, of the numbers of Bernoulli.
  constexpr std::array<double, 12> kCoefficients = {
      0x1.5555555555555p-4,  -0x1.6c16c16c16c17p-10, 0x1.1566abc011567p-15, -0x1.bbd779334ef0bp-21,
      0x1.66a8f2bf70ebep-26, -0x1.22805d644267fp-31, 0x1.d6db2c4e09162p-37, -0x1.7da4e1f79955cp-42,
      0x1.355871d652e9ep-47, -0x1.f57d968caacf1p-53, 0x1.967e1f09c376fp-58, -0x1.497d9033a2b5cp-63};
  const Term exponent = -x;
  const Term first = total((widened(q) + counting(kTerms, q.where())).then(power, widened(exponent)));
  const Term from = q + static_cast<double>(kTerms);
  const Term last = from.then(power, exponent);
  const Term square = 1.0 / (from * from);
  Term factor = x / from;
  Term rest = factor * kCoefficients[0];
  for (int j = 1; j < static_cast<int>(kCoefficients.size()); ++j) {
    factor = factor * ((x + (2.0 * j - 1)) * (x + 2.0 * j) * square);
    rest = rest + factor * kCoefficients[static_cast<std::size_t>(j)];
  }
  const Term tail = last * (from / (x - 1.0) + 0.5 + rest);
  // Where the last term is 0 the formula may be infinity times 0.
  const Term value = first + select(is_equal(last, 0), last, tail);
  const Term is_left = q.then(less_equal, q.number(0));
  const Term pole = select(is_whole(x * 0.5), constant(x, kInfinity), constant(x, kNan));
  const Term outside = either(less_than(x, 1), both(is_left, {logical_not(is_whole(x)), x.where()}));
  const Term inside = select(both(is_left, is_whole(q)), pole, value);
  return select(is_equal(x, 1), constant(x, kInfinity), select(outside, constant(x, kNan), inside));
}

Term polygamma_of(const Term& n, const Term& x) {
  const Term next = n + 1.0;
  const Term size = next.then(lgamma).then(exp) * zeta_of(next, x);
  const Term value = select(is_whole(n * 0.5), -size, size);
  const Term is_order = both(is_whole(n), n.then(greater_equal, n.number(0)));
  return select(is_equal(n, 0), x.then(digamma), select(is_order, value, constant(x, kNan)));
}

// The sign of the gamma function where it is not infinite.
Term sign_of_gamma(const Term& x) {
  const Term is_odd(not_equal(x.then(floor).then(remainder, x.number(2)), x.number(0)), x.where());
  return select(both(less_than(x, 0), is_odd), constant(x, -1), constant(x, 1));
}

// ---- Integrals.

// exp(x^2) erfc(x), whose factors overflow and underflow beyond 25.
Term erfcx_of(const Term& x) {
  const Term near = at_most(x, 25);
  const Term far = at_least(x, 25);
  const Term w = 1.0 / (far * far);
  constexpr std::array<double, 6> kSeries = {1, -0.5, 0.75, -1.875, 6.5625, -29.53125};
  const Term above = polynomial(w, kSeries) / (far * std::sqrt(kPi));
  return select(x > 25, above, (near * near).then(exp) * near.then(erfc));
}

Term log_ndtr_of(const Term& x) {
  const double root = std::sqrt(0.5);
  const Term above = (-0.5 * (x * root).then(erfc)).then(log1p);
  const Term left = at_most(x, 0);
  const Term below = (0.5 * erfcx_of(left * -root)).then(log) - left * left * 0.5;
  return select(x > 0, above, below);
}

// Where x is small, some steps of Newton's method on log(erfc(y)) = log(x).
Term erfcinv_of(const Term& x) {
  const Term direct = (1.0 - x).then(erf_inv);
  const Term small = at_most(at_least(x, 1e-320), 0.1);
  const Term wanted = small.then(log);
  Term y = (-wanted).then(sqrt);
  for (int step = 0; step < 5; ++step) {
    const Term scaled = erfcx_of(y);
    y = y + (scaled.then(log) - y * y - wanted) * scaled * (std::sqrt(kPi) / 2);
  }
  const Term value = select(both(less_than(x, 0.1), x > 0), y, direct);
  return select(either(less_than(x, 0), x > 2), constant(x, kNan), value);
}

Term dawsn_of(const Term& x) {
  // The integral over t = x exp(-s).
  const Term square = x * x;
  const Term value = x * integral(1.0 / at_least(square / 20.0, 1), [&](const Term& s) {
                       return (widened(square) * (s * -2.0).then(expm1) - s).then(exp);
                     });
  // Far out the integral is but its first terms.
  return select(x.then(abs) > 1e8, 0.5 / x, value);
}

// The integral over t = 1 + s / x.
Term expn_of(const Term& n, const Term& x) {
  const Term positive = at_most(at_least(x, 1e-300), 1e300);
  const Term scaled = integral(
      constant(x, 1), [&](const Term& s) { return (-s - widened(n) * (s / widened(positive)).then(log1p)).then(exp); });
  const Term value = scaled * (-positive).then(exp) / positive;
  // What is left of it next to 0.
  const Term is_first = is_equal(n, 1);
  const Term next = select(is_first, -(x.then(log) + kEuler), select(n > 1, 1.0 / (n - 1.0), 1.0 / x));
  const Term inside = select(less_than(x, 1e-16), next, value);
  const Term outside = either(either(less_than(x, 0), less_than(n, 0)), x.then(isnan));
  return select(outside, constant(x, kNan), inside);
}

Term expi_of(const Term& x) {
  const Term below = -expn_of(constant(x, 1), -x);
  const Term near = at_most(at_least(x, 1e-300), 40);
  const Term k = counting(128, x.where()) + 1.0;
  const Term series = (widened(near.then(log)) * k - (k + 1.0).then(lgamma)).then(exp) / k;
  const Term middle = near.then(log) + kEuler + total(series);
  const Term far = at_least(x, 40);
  const Term j = counting(24, x.where());
  const Term rest = total(((j + 1.0).then(lgamma) - j * widened(far.then(log))).then(exp));
  const Term above = select(is_equal(far, kInfinity), far, rest * (far - far.then(log)).then(exp));
  const Term right = select(x > 40, above, middle);
  return select(is_equal(x, 0), constant(x, -kInfinity), select(less_than(x, 0), below, right));
}

// The integral over t = 1 - (1 - x) exp(-s).
Term spence_of(const Term& x) {
  const Term is_near_zero = widened(less_than(x, 0.5));
  const Term value = integral(constant(x, 1), [&](const Term& s) {
    const Term fall = (-s).then(exp);
    const Term from_zero = (widened(x) * fall - (-s).then(expm1)).then(log);
    return -select(is_near_zero, from_zero, ((widened(x) - 1.0) * fall).then(log1p));
  });
  const Term at_zero = select(is_equal(x, 0), constant(x, kPi * kPi / 6), value);
  return select(less_than(x, 0), constant(x, kNan), at_zero);
}

Term boxcox_of(const Term& logarithm, const Term& lambda) {
  const Term is_zero = is_equal(lambda, 0);
  const Term safe = select(is_zero, constant(lambda, 1), lambda);
  return select(is_zero, logarithm, (safe * logarithm).then(expm1) / safe);
}

}  // namespace

Array i0e(const Operand& x) { return in_f64("i0e", &i0e_of, x); }
Array i1e(const Operand& x) { return in_f64("i1e", &i1e_of, x); }
Array i0(const Operand& x) {
  return in_f64(
      "i0", [](const Term& v) { return unscaled(i0e_of(v), v.then(abs)); }, x);
}
Array i1(const Operand& x) {
  return in_f64(
      "i1", [](const Term& v) { return unscaled(i1e_of(v), v); }, x);
}

Array gammainc(const Operand& a, const Operand& x) {
  return in_f64(
      "gammainc", [](const Term& v, const Term& w) { return gamma_share(v, w, true); }, a, x);
}
Array gammaincc(const Operand& a, const Operand& x) {
  return in_f64(
      "gammaincc", [](const Term& v, const Term& w) { return gamma_share(v, w, false); }, a, x);
}
Array zeta(const Operand& x, const Operand& q) { return in_f64("zeta", &zeta_of, x, q); }
Array polygamma(const Operand& n, const Operand& x) { return in_f64("polygamma", &polygamma_of, n, x); }
Array multigammaln(const Operand& a, std::int64_t d) {
  const auto formula = [d](const Term& v) {
    const double count = static_cast<double>(d);
    const Term halves = counting(d, v.where()) * -0.5;
    return total((widened(v) + halves).then(lgamma)) + count * (count - 1) / 4 * std::log(kPi);
  };
  return in_f64("multigammaln", formula, a);
}
Array poch(const Operand& z, const Operand& m) {
  const auto formula = [](const Term& v, const Term& w) {
    const Term sum = v + w;
    const Term value = sign_of_gamma(sum) * sign_of_gamma(v) * (sum.then(lgamma) - v.then(lgamma)).then(exp);
    return select(is_equal(w, 0), constant(v, 1), value);
  };
  return in_f64("poch", formula, z, m);
}
Array comb(const Operand& n, const Operand& k) {
  const auto formula = [](const Term& v, const Term& w) {
    const Term rest = v - w;
    const Term value = ((v + 1.0).then(lgamma) - (w + 1.0).then(lgamma) - (rest + 1.0).then(lgamma)).then(exp);
    const Term outside = either(either(less_than(w, 0), less_than(rest, 0)), less_than(v, 0));
    // Of whole numbers it is one, too.
    const Term exact = select(both(both(is_whole(v), is_whole(w)), less_than(value, 0x1p52)), value.then(rint), value);
    return select(outside, constant(v, 0), exact);
  };
  return in_f64("comb", formula, n, k);
}

Array log_ndtr(const Operand& x) { return in_f64("log_ndtr", &log_ndtr_of, x); }
Array erfcx(const Operand& x) { return in_f64("erfcx", &erfcx_of, x); }
Array erfcinv(const Operand& x) { return in_f64("erfcinv", &erfcinv_of, x); }
Array dawsn(const Operand& x) { return in_f64("dawsn", &dawsn_of, x); }
Array expn(const Operand& n, const Operand& x) { return in_f64("expn", &expn_of, n, x); }
Array expi(const Operand& x) { return in_f64("expi", &expi_of, x); }
Array spence(const Operand& x) { return in_f64("spence", &spence_of, x); }

Array boxcox(const Operand& x, const Operand& lambda) {
  return in_f64(
      "boxcox", [](const Term& v, const Term& w) { return boxcox_of(v.then(log), w); }, x, lambda);
}
Array boxcox1p(const Operand& x, const Operand& lambda) {
  return in_f64(
      "boxcox1p", [](const Term& v, const Term& w) { return boxcox_of(v.then(log1p), w); }, x, lambda);
}

}  // namespace shoal::special
