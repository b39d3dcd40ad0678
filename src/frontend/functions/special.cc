#include "shoal/special.h"

#include <array>
#include <cmath>
#include <limits>
#include <span>

#include "base/caller.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/promotion.h"
#include "frontend/functions/gamma_slope.h"
#include "ops/scalar/coefficients.h"
#include "shoal/lax.h"
#include "shoal/numpy.h"

namespace shoal {
namespace special {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kPi = 3.14159265358979323846;
constexpr double kEuler = 0.57721566490153286061;

// formula(x...) of floats in f64, rounded to the dtype that they are promoted to.
template <class F, class... Operands>
Array in_f64(F&& formula, const Operands&... operands) {
  const std::array<const Operand*, sizeof...(Operands)> given = {&operands...};
  const std::vector<Array> arrays = promote(kFloats, given);
  const auto call = [&]<std::size_t... I>(std::index_sequence<I...>) {
    return formula(convert(arrays[I], float64)...);
  };
  const Array result = call(std::index_sequence_for<Operands...>());
  return convert(result, arrays[0].dtype(), detail::impl_of(arrays[0]).type.weak);
}

Array constant(double value) { return full({}, value, {.dtype = float64}); }
Array is_whole(const Array& x) { return equal(x, floor(x)); }

Array polynomial(const Array& x, std::span<const double> coefficients) {
  Array result = constant(coefficients.back());
  for (std::size_t i = coefficients.size() - 1; i-- > 0;) result = result * x + coefficients[i];
  return result;
}

// ---- Sums and integrals over a new last dimension.

Array widened(const Array& x) { return expand_dims(x, -1); }
Array total(const Array& x) { return sum(x, ReduceOptions{.axis = -1}); }
Array counting(std::int64_t count) { return lax::iota(float64, count); }

// The integral of f from 0 on, by the double exponential formula of Takahasi & Mori 1974, "Double exponential formulas
// for numerical integration", for an f that falls off like exp(-s / scale) and is smooth on a logarithmic scale.
struct Points {
  std::int64_t count = 128;
  double begin = -3.7;
  double end = 4.0;
};
template <class F>
Array integral(const Array& scale, F&& f, const Points& at = {}) {
  const double step = (at.end - at.begin) / static_cast<double>(at.count - 1);
  const Array u = counting(at.count) * step + at.begin;
  const Array fall = exp(-u);
  const Array points = exp(u - fall);
  const Array weights = points * (fall + 1.0) * step;
  return total(f(widened(scale) * points) * weights) * scale;
}

// ---- Bessel functions.

Array scaled_bessel(const Array& a, int order, std::span<const double> small, std::span<const double> tail) {
  const Array near = minimum(a, 8);
  const Array far = maximum(a, 8);
  const Array factor = order == 0 ? exp(-near) : near * exp(-near);
  const Array below = factor * polynomial(near * near, small);
  const Array above = polynomial(16.0 / far - 1.0, tail) / sqrt(far);
  return where(a > 8, above, below);
}
Array i0e_of(const Array& x) { return scaled_bessel(abs(x), 0, scalar::kBesselI0F64, scalar::kBesselI0TailF64); }
Array i1e_of(const Array& x) {
  return copysign(scaled_bessel(abs(x), 1, scalar::kBesselI1F64, scalar::kBesselI1TailF64), x);
}
// Infinity rather than infinity times 0.
Array unscaled(const Array& scaled, const Array& x) {
  const Array size = abs(x);
  return where(equal(size, kInfinity), copysign(constant(kInfinity), scaled), scaled * exp(size));
}

// ---- The gamma family.

// Both shares of the gamma function's integral: the one that is not close to 1 is integrated.
std::pair<Array, Array> gamma_shares(const Array& a, const Array& x) {
  const Array is_below = less(x, a + 1.0);
  // x^b exp(-x) / gamma(c).
  const auto factor = [](const Array& v, const Array& b, const Array& c) { return exp(b * log(v) - v - lgamma(c)); };
  // Below: the integral of t^a exp(-t), where t = x exp(-s), and what gamma(a + 1) = a gamma(a) leaves.
  const Array low = minimum(maximum(x, 1e-300), 1e300);
  const Array order = maximum(a, 0);
  const Array next = order + 1.0;
  const Array slope = maximum(maximum(next - low, 0), sqrt(next));
  const Array inner =
      integral(1.0 / slope, [&](const Array& s) { return exp(-(widened(next) * s) - widened(low) * expm1(-s)); });
  const Array below = inner * factor(low, next, next) + factor(low, order, next);
  // Above: the integral of t^(a - 1) exp(-t), where t = x + s.
  const Array high = maximum(low, 1);
  const Array positive = maximum(order, 1e-300);
  const Array fall = maximum(1.0 - (positive - 1.0) / high, 1.0 / sqrt(high));
  const Array outer = integral(
      1.0 / fall, [&](const Array& s) { return exp((widened(positive) - 1.0) * log1p(s / widened(high)) - s); });
  const Array above = outer * factor(high, positive, positive) / high;
  return {where(is_below, below, 1.0 - above), where(is_below, 1.0 - below, above)};
}

Array gamma_share(const Array& a, const Array& x, bool lower) {
  const auto [below, above] = gamma_shares(a, x);
  const Array inside = minimum(maximum(lower ? below : above, 0), 1);
  const Array all = constant(lower ? 1 : 0);
  const Array none = constant(lower ? 0 : 1);
  const Array ends = logical_or(equal(a, 0), equal(x, kInfinity));
  const Array begins = logical_or(equal(x, 0), equal(a, kInfinity));
  const Array outside = logical_or(logical_or(less(a, 0), less(x, 0)), logical_or(isnan(a), isnan(x)));
  const Array value = where(ends, all, where(begins, none, inside));
  return where(outside, constant(kNan), value);
}

// The derivative of a sample x by a is that of its share P(a, x), over the density at x, with the other sign (Figurnov,
// Mohamed and Mnih 2018, "Implicit reparameterization gradients"). The derivative of P is the integral of
// (log(t) - digamma(a)) times the density up to x; that of all t is 0, so that where it grows the rest may be taken.
// With t = x exp(-s) below and x exp(s) above, both integrals have one form. Where x is small the first is always
// taken: the other falls off at once after a long way.
Array slope_by_shape(const Array& a, const Array& log_x, bool is_narrow) {
  const Array middle = digamma(a);
  const Array x = exp(log_x);
  const Array is_below = logical_or(less_equal(log_x, middle), less(log_x, -1));
  const Array sign = where(is_below, constant(-1), constant(1));
  const Array below = maximum(a - x, minimum(a, sqrt(a)));
  const Array above = maximum(maximum(x - a, sqrt(x)), 1.0 / (log1p(1.0 / x) + 1.0));
  const auto density = [&](const Array& s) {
    const Array power = widened(sign * a) * s - widened(x) * expm1(widened(sign) * s);
    return (s + widened(sign * (log_x - middle))) * exp(power);
  };
  // To 7 digits, or to 10.
  const Points points = is_narrow ? Points{64, -3.3, 3.8} : Points{112, -3.6, 3.95};
  return integral(1.0 / where(is_below, below, above), density, points);
}

// The first terms of the sum, then the formula of Euler and Maclaurin.
Array zeta_of(const Array& x, const Array& q) {
  constexpr int kTerms = 10;
  // B(2j) / (2j)!, of the numbers of Bernoulli.
  constexpr std::array<double, 12> kCoefficients = {
      0x1.5555555555555p-4,  -0x1.6c16c16c16c17p-10, 0x1.1566abc011567p-15, -0x1.bbd779334ef0bp-21,
      0x1.66a8f2bf70ebep-26, -0x1.22805d644267fp-31, 0x1.d6db2c4e09162p-37, -0x1.7da4e1f79955cp-42,
      0x1.355871d652e9ep-47, -0x1.f57d968caacf1p-53, 0x1.967e1f09c376fp-58, -0x1.497d9033a2b5cp-63};
  const Array exponent = -x;
  const Array first = total(power(widened(q) + counting(kTerms), widened(exponent)));
  const Array from = q + static_cast<double>(kTerms);
  const Array last = power(from, exponent);
  const Array square = 1.0 / (from * from);
  Array factor = x / from;
  Array rest = factor * kCoefficients[0];
  for (int j = 1; j < static_cast<int>(kCoefficients.size()); ++j) {
    factor = factor * ((x + (2.0 * j - 1)) * (x + 2.0 * j) * square);
    rest = rest + factor * kCoefficients[static_cast<std::size_t>(j)];
  }
  const Array tail = last * (from / (x - 1.0) + 0.5 + rest);
  // Where the last term is 0 the formula may be infinity times 0.
  const Array value = first + where(equal(last, 0), last, tail);
  const Array is_left = less_equal(q, 0);
  const Array pole = where(is_whole(x * 0.5), constant(kInfinity), constant(kNan));
  const Array outside = logical_or(less(x, 1), logical_and(is_left, logical_not(is_whole(x))));
  const Array inside = where(logical_and(is_left, is_whole(q)), pole, value);
  return where(equal(x, 1), constant(kInfinity), where(outside, constant(kNan), inside));
}

Array polygamma_of(const Array& n, const Array& x) {
  const Array next = n + 1.0;
  const Array size = exp(lgamma(next)) * zeta_of(next, x);
  const Array value = where(is_whole(n * 0.5), -size, size);
  const Array is_order = logical_and(is_whole(n), greater_equal(n, 0));
  return where(equal(n, 0), digamma(x), where(is_order, value, constant(kNan)));
}

// The sign of the gamma function where it is not infinite.
Array sign_of_gamma(const Array& x) {
  const Array is_odd = not_equal(remainder(floor(x), 2), 0);
  return where(logical_and(less(x, 0), is_odd), constant(-1), constant(1));
}

// ---- Integrals.

// exp(x^2) erfc(x), whose factors overflow and underflow beyond 25.
Array erfcx_of(const Array& x) {
  const Array near = minimum(x, 25);
  const Array far = maximum(x, 25);
  const Array w = 1.0 / (far * far);
  constexpr std::array<double, 6> kSeries = {1, -0.5, 0.75, -1.875, 6.5625, -29.53125};
  const Array above = polynomial(w, kSeries) / (far * std::sqrt(kPi));
  return where(x > 25, above, exp(near * near) * erfc(near));
}

Array log_ndtr_of(const Array& x) {
  const double root = std::sqrt(0.5);
  const Array above = log1p(-0.5 * erfc(x * root));
  const Array left = minimum(x, 0);
  const Array below = log(0.5 * erfcx_of(left * -root)) - left * left * 0.5;
  return where(x > 0, above, below);
}

// Where x is small, some steps of Newton's method on log(erfc(y)) = log(x).
Array erfcinv_of(const Array& x) {
  const Array direct = erf_inv(1.0 - x);
  const Array small = minimum(maximum(x, 1e-320), 0.1);
  const Array wanted = log(small);
  Array y = sqrt(-wanted);
  for (int step = 0; step < 5; ++step) {
    const Array scaled = erfcx_of(y);
    y = y + (log(scaled) - y * y - wanted) * scaled * (std::sqrt(kPi) / 2);
  }
  const Array value = where(logical_and(less(x, 0.1), x > 0), y, direct);
  return where(logical_or(less(x, 0), x > 2), constant(kNan), value);
}

Array dawsn_of(const Array& x) {
  // The integral over t = x exp(-s).
  const Array square = x * x;
  const Array value = x * integral(1.0 / maximum(square / 20.0, 1),
                                   [&](const Array& s) { return exp(widened(square) * expm1(s * -2.0) - s); });
  // Far out the integral is but its first terms.
  return where(abs(x) > 1e8, 0.5 / x, value);
}

// The integral over t = 1 + s / x.
Array expn_of(const Array& n, const Array& x) {
  const Array positive = minimum(maximum(x, 1e-300), 1e300);
  const Array scaled =
      integral(constant(1), [&](const Array& s) { return exp(-s - widened(n) * log1p(s / widened(positive))); });
  const Array value = scaled * exp(-positive) / positive;
  // What is left of it next to 0.
  const Array is_first = equal(n, 1);
  const Array next = where(is_first, -(log(x) + kEuler), where(n > 1, 1.0 / (n - 1.0), 1.0 / x));
  const Array inside = where(less(x, 1e-16), next, value);
  const Array outside = logical_or(logical_or(less(x, 0), less(n, 0)), isnan(x));
  return where(outside, constant(kNan), inside);
}

Array expi_of(const Array& x) {
  const Array below = -expn_of(constant(1), where(less(x, 0), -x, constant(1)));
  const Array near = minimum(maximum(x, 1e-300), 40);
  const Array k = counting(128) + 1.0;
  const Array series = exp(widened(log(near)) * k - lgamma(k + 1.0)) / k;
  const Array middle = log(near) + kEuler + total(series);
  const Array far = maximum(x, 40);
  const Array j = counting(24);
  const Array rest = total(exp(lgamma(j + 1.0) - j * widened(log(far))));
  const Array above = where(equal(far, kInfinity), far, rest * exp(far - log(far)));
  const Array right = where(x > 40, above, middle);
  return where(equal(x, 0), constant(-kInfinity), where(less(x, 0), below, right));
}

// The integral over t = 1 - (1 - x) exp(-s).
Array spence_of(const Array& x) {
  const Array is_near_zero = widened(less(x, 0.5));
  const Array value = integral(constant(1), [&](const Array& s) {
    const Array fall = exp(-s);
    const Array from_zero = log(widened(x) * fall - expm1(-s));
    return -where(is_near_zero, from_zero, log1p((widened(x) - 1.0) * fall));
  });
  const Array at_zero = where(equal(x, 0), constant(kPi * kPi / 6), value);
  return where(less(x, 0), constant(kNan), at_zero);
}

Array boxcox_of(const Array& logarithm, const Array& lambda) {
  const Array is_zero = equal(lambda, 0);
  const Array safe = where(is_zero, constant(1), lambda);
  return where(is_zero, logarithm, expm1(safe * logarithm) / safe);
}

}  // namespace

}  // namespace special

Array slope_of_log_sample(const Array& a, const Array& log_x, Dtype dtype) {
  const Caller caller("gamma", Caller::line());
  const bool is_narrow = size_of(dtype) < size_of(float64);
  return convert(special::slope_by_shape(convert(a, float64), log_x, is_narrow), dtype);
}

namespace special {

Array i0e(const Operand& x) {
  const Caller caller("i0e", x.where());
  return in_f64(&i0e_of, x);
}
Array i1e(const Operand& x) {
  const Caller caller("i1e", x.where());
  return in_f64(&i1e_of, x);
}
Array i0(const Operand& x) {
  const Caller caller("i0", x.where());
  return in_f64([](const Array& v) { return unscaled(i0e_of(v), abs(v)); }, x);
}
Array i1(const Operand& x) {
  const Caller caller("i1", x.where());
  return in_f64([](const Array& v) { return unscaled(i1e_of(v), v); }, x);
}

Array gammainc(const Operand& a, const Operand& x) {
  const Caller caller("gammainc", a.where());
  return in_f64([](const Array& v, const Array& w) { return gamma_share(v, w, true); }, a, x);
}
Array gammaincc(const Operand& a, const Operand& x) {
  const Caller caller("gammaincc", a.where());
  return in_f64([](const Array& v, const Array& w) { return gamma_share(v, w, false); }, a, x);
}
Array random_gamma_grad(const Operand& a, const Operand& sample) {
  const Caller caller("random_gamma_grad", a.where());
  const Dtype dtype = promote(kFloats, {&a, &sample})[0].dtype();
  const auto formula = [&](const Array& v, const Array& x) {
    const Array value = x * slope_by_shape(v, log(maximum(x, 1e-300)), size_of(dtype) < size_of(float64));
    const Array inside = logical_and(logical_and(v > 0, less(v, kInfinity)), logical_and(x > 0, less(x, kInfinity)));
    const Array at_zero = logical_and(v > 0, equal(x, 0));
    return where(inside, value, where(at_zero, constant(0), constant(kNan)));
  };
  return in_f64(formula, a, sample);
}
Array zeta(const Operand& x, const Operand& q) {
  const Caller caller("zeta", x.where());
  return in_f64(&zeta_of, x, q);
}
Array polygamma(const Operand& n, const Operand& x) {
  const Caller caller("polygamma", n.where());
  return in_f64(&polygamma_of, n, x);
}
Array multigammaln(const Operand& a, std::int64_t d) {
  const Caller caller("multigammaln", a.where());
  const auto formula = [d](const Array& v) {
    const double count = static_cast<double>(d);
    const Array halves = counting(d) * -0.5;
    return total(lgamma(widened(v) + halves)) + count * (count - 1) / 4 * std::log(kPi);
  };
  return in_f64(formula, a);
}
Array poch(const Operand& z, const Operand& m) {
  const Caller caller("poch", z.where());
  const auto formula = [](const Array& v, const Array& w) {
    const Array sum = v + w;
    const Array value = sign_of_gamma(sum) * sign_of_gamma(v) * exp(lgamma(sum) - lgamma(v));
    return where(equal(w, 0), constant(1), value);
  };
  return in_f64(formula, z, m);
}
Array comb(const Operand& n, const Operand& k) {
  const Caller caller("comb", n.where());
  const auto formula = [](const Array& v, const Array& w) {
    const Array rest = v - w;
    const Array value = exp(lgamma(v + 1.0) - lgamma(w + 1.0) - lgamma(rest + 1.0));
    const Array outside = logical_or(logical_or(less(w, 0), less(rest, 0)), less(v, 0));
    // Of whole numbers it is one, too.
    const Array exact =
        where(logical_and(logical_and(is_whole(v), is_whole(w)), less(value, 0x1p52)), rint(value), value);
    return where(outside, constant(0), exact);
  };
  return in_f64(formula, n, k);
}

Array log_ndtr(const Operand& x) {
  const Caller caller("log_ndtr", x.where());
  return in_f64(&log_ndtr_of, x);
}
Array erfcx(const Operand& x) {
  const Caller caller("erfcx", x.where());
  return in_f64(&erfcx_of, x);
}
Array erfcinv(const Operand& x) {
  const Caller caller("erfcinv", x.where());
  return in_f64(&erfcinv_of, x);
}
Array dawsn(const Operand& x) {
  const Caller caller("dawsn", x.where());
  return in_f64(&dawsn_of, x);
}
Array expn(const Operand& n, const Operand& x) {
  const Caller caller("expn", n.where());
  return in_f64(&expn_of, n, x);
}
Array expi(const Operand& x) {
  const Caller caller("expi", x.where());
  return in_f64(&expi_of, x);
}
Array spence(const Operand& x) {
  const Caller caller("spence", x.where());
  return in_f64(&spence_of, x);
}

Array boxcox(const Operand& x, const Operand& lambda) {
  const Caller caller("boxcox", x.where());
  return in_f64([](const Array& v, const Array& w) { return boxcox_of(log(v), w); }, x, lambda);
}
Array boxcox1p(const Operand& x, const Operand& lambda) {
  const Caller caller("boxcox1p", x.where());
  return in_f64([](const Array& v, const Array& w) { return boxcox_of(log1p(v), w); }, x, lambda);
}

}  // namespace special
}  // namespace shoal
