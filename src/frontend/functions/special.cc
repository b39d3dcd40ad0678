#include "shoal/special.h"

#include <array>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <string_view>
#include <vector>

#include "base/caller.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/promotion.h"
#include "frontend/array/trace.h"
#include "frontend/functions/gamma_slope.h"
#include "shoal/lax.h"
#include "shoal/numpy.h"

namespace shoal {
namespace special {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kPi = 3.14159265358979323846;

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

// The result of an elementwise op of ops/special.def.
Array of_floats(std::string_view op, std::initializer_list<const Operand*> operands) {
  return bind(op, {}, promote(kFloats, operands))[0];
}

Array constant(double value) { return full({}, value, {.dtype = float64}); }
Array is_whole(const Array& x) { return equal(x, floor(x)); }

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

// zeta n! in f32, for whole n: numbers whose powers stay normal have no greater factorials than that of 57, which is a
// product of two.
Array times_factorial(const Array& zeta, const Array& n) {
  constexpr int kMostOfFirst = 34;
  constexpr int kMost = 57;
  const auto number = [](double value) { return full({}, value, {.dtype = float32}); };
  Array factors[2] = {number(1), number(1)};
  double product = 1;
  for (int k = 2; k <= kMost; ++k) {
    product = k == kMostOfFirst + 1 ? k : product * k;
    Array& factor = factors[k > kMostOfFirst ? 1 : 0];
    factor = where(greater_equal(n, static_cast<double>(k)), number(product), factor);
  }
  return zeta * factors[0] * factors[1];
}

Array polygamma_of(const Array& n, const Array& x) {
  const Array next = n + 1.0;
  const Array zeta = bind_one("zeta", {}, {next, x});
  const Array times =
      x.dtype() == float32 ? times_factorial(zeta, n) : exp(lgamma(convert(next, float64))) * convert(zeta, float64);
  const Array size = convert(times, x.dtype(), x.weak_type());
  const Array value = where(is_whole(n * 0.5), -size, size);
  const Array is_order = logical_and(is_whole(n), greater_equal(n, 0));
  return where(equal(n, 0), digamma(x), where(is_order, value, kNan));
}

// The sign of the gamma function where it is not infinite.
Array sign_of_gamma(const Array& x) {
  const Array below = floor(x);
  const Array is_odd = not_equal(below, 2.0 * floor(below * 0.5));
  return where(logical_and(less(x, 0), is_odd), constant(-1), constant(1));
}

// ---- Transformations of Box and Cox.

Array boxcox_of(const Array& logarithm, const Array& lambda) {
  const Array is_zero = equal(lambda, 0);
  const Array safe = where(is_zero, 1, lambda);
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

Array i0(const Operand& x) {
  const Caller caller("i0", x.where());
  return of_floats("bessel_i0", {&x});
}
Array i1(const Operand& x) {
  const Caller caller("i1", x.where());
  return of_floats("bessel_i1", {&x});
}
Array i0e(const Operand& x) {
  const Caller caller("i0e", x.where());
  return of_floats("bessel_i0e", {&x});
}
Array i1e(const Operand& x) {
  const Caller caller("i1e", x.where());
  return of_floats("bessel_i1e", {&x});
}

Array gammainc(const Operand& a, const Operand& x) {
  const Caller caller("gammainc", a.where());
  return of_floats("igamma", {&a, &x});
}
Array gammaincc(const Operand& a, const Operand& x) {
  const Caller caller("gammaincc", a.where());
  return of_floats("igammac", {&a, &x});
}
Array igamma_grad_a(const Operand& a, const Operand& x) {
  const Caller caller("igamma_grad_a", a.where());
  return of_floats("igamma_grad_a", {&a, &x});
}
Array betainc(const Operand& a, const Operand& b, const Operand& x) {
  const Caller caller("betainc", a.where());
  return of_floats("betainc", {&a, &b, &x});
}
Array hyp1f1(const Operand& a, const Operand& b, const Operand& x) {
  const Caller caller("hyp1f1", a.where());
  return of_floats("hyp1f1", {&a, &b, &x});
}
Array hyp2f1(const Operand& a, const Operand& b, const Operand& c, const Operand& x) {
  const Caller caller("hyp2f1", a.where());
  return of_floats("hyp2f1", {&a, &b, &c, &x});
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
  return of_floats("zeta", {&x, &q});
}
Array polygamma(const Operand& n, const Operand& x) {
  const Caller caller("polygamma", n.where());
  const std::vector<Array> arrays = promote(kFloats, {&n, &x});
  return polygamma_of(arrays[0], arrays[1]);
}
Array multigammaln(const Operand& a, std::int64_t d) {
  const Caller caller("multigammaln", a.where());
  return at_least_f32(
      kFloats,
      [d](const Array& v) {
        const double count = static_cast<double>(d);
        const double constant = count * (count - 1) / 4 * std::log(kPi);
        constexpr std::int64_t kMostTerms = 32;  // Of those that are added one by one, in one loop.
        if (d < 1 || d > kMostTerms) {
          const Array halves = convert(counting(d) * -0.5, v.dtype());
          return total(lgamma(widened(v) + halves)) + constant;
        }
        Array sum = lgamma(v);
        for (std::int64_t j = 1; j < d; ++j) sum = sum + lgamma(v - static_cast<double>(j) / 2);
        return sum + constant;
      },
      a);
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

Array ndtr(const Operand& x) {
  const Caller caller("ndtr", x.where());
  return of_floats("ndtr", {&x});
}
Array ndtri(const Operand& p) {
  const Caller caller("ndtri", p.where());
  return at_least_f32(
      kFloats, [](const Array& v) { return -std::sqrt(2.0) * bind_one("erfc_inv", {}, {2.0 * v}); }, p);
}
Array log_ndtr(const Operand& x) {
  const Caller caller("log_ndtr", x.where());
  return of_floats("log_ndtr", {&x});
}
Array erfcx(const Operand& x) {
  const Caller caller("erfcx", x.where());
  return of_floats("erfcx", {&x});
}
Array erfcinv(const Operand& x) {
  const Caller caller("erfcinv", x.where());
  return of_floats("erfc_inv", {&x});
}
Array dawsn(const Operand& x) {
  const Caller caller("dawsn", x.where());
  return of_floats("dawsn", {&x});
}
Array expn(const Operand& n, const Operand& x) {
  const Caller caller("expn", n.where());
  return of_floats("expn", {&n, &x});
}
Array exp1(const Operand& x) {
  const Caller caller("exp1", x.where());
  return expn(1, x);
}
Array expi(const Operand& x) {
  const Caller caller("expi", x.where());
  return of_floats("expi", {&x});
}
Array spence(const Operand& x) {
  const Caller caller("spence", x.where());
  return of_floats("spence", {&x});
}

Array boxcox(const Operand& x, const Operand& lambda) {
  const Caller caller("boxcox", x.where());
  return at_least_f32(
      kFloats, [](const Array& v, const Array& w) { return boxcox_of(log(v), w); }, x, lambda);
}
Array boxcox1p(const Operand& x, const Operand& lambda) {
  const Caller caller("boxcox1p", x.where());
  return at_least_f32(
      kFloats, [](const Array& v, const Array& w) { return boxcox_of(log1p(v), w); }, x, lambda);
}

}  // namespace special
}  // namespace shoal
