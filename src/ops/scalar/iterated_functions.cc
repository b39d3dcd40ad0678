// Functions by series and continued fractions, which take as many trips as their arguments need: the incomplete gamma
// and beta functions, exponential integrals, and the zeta function. All are computed in f64, and rounded once if the
// operands are smaller floats, for which fewer trips do.
#include <array>

#include "ops/scalar/floating.h"
#include "ops/scalar/math.h"
#include "ops/scalar/special_coefficients.h"

namespace shoal::scalar {
namespace {

constexpr double kEuler = 0x1.2788cfc6fb619p-1;

/// f(x..., enough), computed in f64: a term is too small to matter if it is `enough` times the sum or less.
template <class F, class... Rest>
Expr to_precision_of(F f, Expr x, Rest... rest) {
  const double enough = x.dtype() == Dtype::kF64 ? 0x1p-54 : 0x1p-31;
  return in_f64([&](auto... in) { return f(in..., enough); }, x, rest...);
}

// ---- The incomplete gamma function.

/// What an iteration carries, by name; the last one is the number of the trip.
using State = std::vector<Expr>;

/// The continued fraction 1 / (b - (1 - a) / (b + 2 - 2 (2 - a) / (b + 4 - ...))), where b = x + 1 - a: exp(x) x^-a
/// times the gamma function's integral above x (Abramowitz & Stegun 6.5.31, contracted). It is for an x that is not
/// below 1 or a. Where `is_needed` does not hold it takes no trips.
///
/// It is summed as Barnett, Feng, Steed & Goldfarb 1974 do it ("Coulomb wave functions for all real eta and rho"),
/// which loses no digits. `slope` is the derivative by a, if it is asked for.
struct Fraction {
  Expr value;
  Expr slope;
};

Fraction upper_fraction(Expr a, Expr x, Expr is_needed, double enough, bool with_slope) {
  constexpr double kMostTrips = 20000;
  const Expr base = select(is_needed, x + 1 - a, x.like(1));
  const Expr first = 1 / base;
  // value, what the last trip added to it, the ratio of the last two denominators, the number of the trip; and the
  // derivatives of the first three.
  State state = {first, first, first, x.like(1)};
  if (with_slope) {
    const Expr slope = first * first;
    state.insert(state.end(), {slope, slope, slope});
  }
  const auto goes_on = [&](Iterated in) {
    Expr matters = abs(in[1]) > enough * abs(in[0]);
    if (with_slope) matters = matters | (abs(in[5]) > enough * abs(in[4]));
    return is_needed & matters & (in[3] < kMostTrips);
  };
  const auto next = [&](Iterated in) {
    const Expr count = in[3];
    const Expr numerator = count * (a - count);
    const Expr product = numerator * in[2];
    const Expr ratio = 1 / (fma(count, 2, base) + product);
    const Expr factor = -product * ratio;
    const Expr change = factor * in[1];
    State made = {in[0] + change, change, ratio, count + 1};
    if (with_slope) {
      // The derivative of a denominator is -1, and that of a numerator the number of the trip.
      const Expr of_product = fma(count, in[2], numerator * in[6]);
      const Expr of_ratio = -(ratio * ratio) * (of_product - 1);
      const Expr of_factor = -fma(of_product, ratio, product * of_ratio);
      const Expr of_change = fma(of_factor, in[1], factor * in[5]);
      made.insert(made.end(), {in[4] + of_change, of_change, of_ratio});
    }
    return made;
  };
  const State last = iterate(state, goes_on, next);
  return {last[0], with_slope ? last[4] : x.like(0)};
}

/// The sum of x^n / ((a + 1) ... (a + n)) over n >= 0, and its derivative by a, if that is asked for.
Fraction lower_series(Expr a, Expr x, Expr is_needed, double enough, bool with_slope) {
  constexpr double kMostTrips = 20000;
  const Expr zero = x.like(0);
  const Expr one = x.like(1);
  // sum, term, a + n, the number of the trip; derivatives of sum and term.
  State state = {one, one, a, zero};
  if (with_slope) state.insert(state.end(), {zero, zero});
  const auto goes_on = [&](Iterated in) {
    const Expr matters = with_slope ? abs(in[5]) > enough * abs(in[4]) : zero > zero;
    return is_needed & ((in[1] > enough * in[0]) | matters) & (in[3] < kMostTrips);
  };
  const auto next = [&](Iterated in) {
    const Expr order = in[2] + 1;
    const Expr reciprocal = 1 / order;
    const Expr factor = x * reciprocal;
    const Expr term = in[1] * factor;
    State made = {in[0] + term, term, order, in[3] + 1};
    if (with_slope) {
      const Expr slope = fma(-in[1], reciprocal, in[5]) * factor;
      made.insert(made.end(), {in[4] + slope, slope});
    }
    return made;
  };
  const State last = iterate(state, goes_on, next);
  return {last[0], with_slope ? last[4] : zero};
}

/// What does not change under way: x^a exp(-x) / gamma(a + 1), without the loss of digits that its factors bring for
/// large a, where it is exp(-a d) over what Stirling's formula says of the gamma function, d = m - log(1 + m), and
/// m = (x - a) / a.
struct Density {
  Expr value;
  Expr deviation;  ///< a d.
  Expr log_x;
};

constexpr double kLargeShape = 8;
/// From here on the share is that of a normal distribution with corrections (Temme 1979, "The asymptotic expansion of
/// the incomplete gamma functions").
constexpr double kHugeShape = 0x1p20;

Density density_of(Expr a, Expr x) {
  const Expr is_large = a >= kLargeShape;
  const Expr log_x = log(x);
  const Expr small = select(is_large, x.like(1), a);
  const Expr large = select(is_large, a, x.like(kLargeShape));
  const Expr m = (x - large) / large;
  const Expr deviation = large * (m - log1p(m));
  const Expr rest = polynomial(1 / (large * large), kStirlingF64) / large;
  const Expr by_stirling = -deviation - rest;
  const Expr power = select(is_large, by_stirling, small * log_x - x - lgamma(small + 1));
  const Expr root = select(is_large, sqrt(2 * kPi * large), x.like(1));
  return {exp(power) / root, deviation, log_x};
}

/// Both shares of the gamma function's integral, for a > 0 and x > 0.
struct Shares {
  Expr below;
  Expr above;
};

Shares gamma_shares(Expr a, Expr x, double enough) {
  const Density density = density_of(a, x);
  const Expr is_huge = a >= kHugeShape;
  const Expr is_below = x < a + 1;
  const Fraction series = lower_series(a, x, is_below & ~is_huge, enough, false);
  const Fraction fraction = upper_fraction(a, x, ~is_below & ~is_huge, enough, false);
  Expr below = density.value * series.value;
  Expr above = density.value * a * fraction.value;

  // y^2 / 2 = d, and y has the sign of x - a.
  constexpr std::array kFirst = {-1. / 3, 1. / 12, -2. / 135, 1. / 864, 1. / 2835};
  constexpr std::array kSecond = {-1. / 540, -1. / 288};
  const Expr spread = sqrt(max(density.deviation, 0));
  const Expr y = copysign(spread * sqrt(2 / a), x - a);
  const Expr correction = polynomial(y, kFirst) + polynomial(y, kSecond) / a;
  const Expr normal = 0.5 * erfc(copysign(spread, x - a)) + density.value * correction;
  above = select(is_huge, normal, select(is_below, 1 - below, above));
  below = select(is_huge | ~is_below, 1 - above, below);
  return {below, above};
}

Expr gamma_share(Expr a, Expr x, double enough, bool lower) {
  const Expr is_inside = (a > 0) & (a < kInfinity) & (x > 0) & (x < kInfinity);
  const Shares shares = gamma_shares(select(is_inside, a, a.like(1)), select(is_inside, x, x.like(1)), enough);
  const Expr inside = clamp(lower ? shares.below : shares.above, 0, 1);
  const Expr is_all_below = (a == 0) | (x == kInfinity);
  const Expr is_undefined =
      (a < 0) | (x < 0) | is_nan(a) | is_nan(x) | ((a == 0) & (x == 0)) | ((a == kInfinity) & (x == kInfinity));
  const Expr end = select(is_all_below == a.builder().constant(Dtype::kBool, lower), a.like(1), a.like(0));
  return select(is_undefined, a.like(kNan), select(is_inside, inside, end));
}

Expr gamma_slope(Expr a, Expr x, double enough) {
  const Expr is_inside = (a > 0) & (a < kInfinity) & (x > 0) & (x < kInfinity);
  const Expr shape = select(is_inside, a, a.like(1));
  const Expr at = select(is_inside, x, x.like(1));
  const Density density = density_of(shape, at);
  const Expr is_below = at < shape + 1;
  const Fraction series = lower_series(shape, at, is_below, enough, true);
  const Fraction fraction = upper_fraction(shape, at, ~is_below, enough, true);
  // Of the density's logarithm, with gamma(a + 1) or gamma(a) below it.
  const Expr middle = digamma(select(is_below, shape + 1, shape));
  const Expr of_log = density.log_x - middle;
  const Expr below = density.value * fma(series.value, of_log, series.slope);
  const Expr above = density.value * shape * fma(fraction.value, of_log, fraction.slope);
  const Expr value = select(is_below, below, -above);
  const Expr is_undefined = (a <= 0) | (x < 0) | is_nan(a) | is_nan(x);
  return select(is_undefined, a.like(kNan), select(is_inside, value, a.like(0)));
}

// ---- The incomplete beta function.

/// The continued fraction of Abramowitz & Stegun 26.5.8, two of its terms a trip, summed as above.
Expr beta_fraction(Expr a, Expr b, Expr x, double enough) {
  constexpr double kMostTrips = 10000;
  const Expr both = a + b;
  const Expr one = x.like(1);
  const Expr first = 1 / (1 - both * x / (a + 1));
  // value, what the last trip added to it, the ratio of the last two denominators, the number of the trip.
  const State state = {first, first - 1, first, one};
  const auto goes_on = [&](Iterated in) { return (abs(in[1]) > enough * abs(in[0])) & (in[3] < kMostTrips); };
  const auto next = [&](Iterated in) {
    const Expr m = in[3];
    const Expr middle = fma(m, 2, a);
    const Expr low = middle - 1;
    const Expr high = middle + 1;
    const Expr reciprocal = x / (low * middle * high);
    const Expr even = m * (b - m) * high * reciprocal;
    const Expr odd = -(a + m) * (both + m) * low * reciprocal;
    const Expr even_product = even * in[2];
    const Expr even_ratio = 1 / (1 + even_product);
    const Expr even_change = -even_product * even_ratio * in[1];
    const Expr odd_product = odd * even_ratio;
    const Expr ratio = 1 / (1 + odd_product);
    const Expr change = -odd_product * ratio * even_change;
    return State{in[0] + (even_change + change), change, ratio, m + 1};
  };
  return iterate(state, goes_on, next)[0];
}

Expr compute_betainc(Expr a, Expr b, Expr x, double enough) {
  const Expr is_inside = (a > 0) & (b > 0) & (a < kInfinity) & (b < kInfinity) & (x > 0) & (x < 1);
  const Expr first = select(is_inside, a, a.like(1));
  const Expr second = select(is_inside, b, a.like(1));
  const Expr at = select(is_inside, x, x.like(0.5));
  // The fraction is for an x below the middle; beyond it the other share is computed.
  const Expr is_left = at * (first + second + 2) < first + 1;
  const Expr p = select(is_left, first, second);
  const Expr q = select(is_left, second, first);
  const Expr y = select(is_left, at, 1 - at);
  const Expr log_x = log(at);
  const Expr log_rest = log1p(-at);
  const Expr power = lgamma(p + q) - lgamma(p) - lgamma(q) + first * log_x + second * log_rest;
  const Expr share = exp(power) * beta_fraction(p, q, y, enough) / p;
  const Expr inside = clamp(select(is_left, share, 1 - share), 0, 1);
  const Expr is_undefined = (a < 0) | (b < 0) | (x < 0) | (x > 1) | is_nan(a) | is_nan(b) | is_nan(x) |
                            ((a == 0) & (b == 0)) | ((a == kInfinity) & (b == kInfinity));
  // All of the weight lies at 0 where a is 0 or b infinite, and at 1 where b is 0 or a infinite.
  const Expr is_all = ((a == 0) | (b == kInfinity) | (x == 1)) & ~(x == 0);
  const Expr is_late = ((b == 0) | (a == kInfinity)) & (x < 1);
  const Expr end = select(is_all & ~is_late, a.like(1), a.like(0));
  return select(is_undefined, a.like(kNan), select(is_inside, inside, end));
}

// ---- Exponential integrals.

/// E_n(x) for a whole n >= 0 and x > 0: the fraction above 1, the series of Abramowitz & Stegun 5.1.12 below.
Expr positive_expn(Expr n, Expr x, double enough) {
  constexpr double kMostTrips = 100;
  const Expr is_far = x > 1;
  const Expr fraction = upper_fraction(1 - n, x, is_far, enough, false).value;
  const Expr near = select(is_far, x.like(1), x);
  const Expr is_first = n == 1;
  const Expr last = n - 1;
  const Expr log_x = log(near);
  const Expr special = digamma(max(n, 1)) - log_x;  // In the place of 1 / (i - last) at i = last.
  const Expr start = select(is_first, -(log_x + kEuler), 1 / select(is_first, x.like(1), last));
  // sum, power (-x)^i / i!, the number of the trip.
  const auto goes_on = [&](Iterated in) { return ~is_far & (abs(in[1]) > enough * abs(in[0])) & (in[2] < kMostTrips); };
  const auto next = [&](Iterated in) {
    const Expr power = -in[1] * near / in[2];
    const Expr is_special = in[2] == last;
    const Expr factor = select(is_special, special, -1 / select(is_special, x.like(1), in[2] - last));
    return State{fma(power, factor, in[0]), power, in[2] + 1};
  };
  const Expr series = iterate({start, x.like(1), x.like(1)}, goes_on, next)[0];
  const Expr value = select(is_far, fraction * exp(-x), series);
  return select(n == 0, exp(-x) / x, value);
}

Expr compute_expn(Expr n, Expr x, double enough) {
  const Expr is_inside = (n >= 0) & (n < kInfinity) & (x > 0) & (x < kInfinity);
  const Expr value = positive_expn(select(is_inside, n, n.like(1)), select(is_inside, x, x.like(2)), enough);
  const Expr at_zero = select(n > 1, 1 / (n - 1), x.like(kInfinity));
  const Expr is_undefined = (n < 0) | (x < 0) | (rint(n) != n) | is_nan(x);
  const Expr end = select(x == 0, at_zero, x.like(0));
  return select(is_undefined, x.like(kNan), select(is_inside, value, end));
}

Expr compute_expi(Expr x, double enough) {
  constexpr double kFar = 40;
  const Expr magnitude = abs(x);
  const Expr is_finite_right = (x > 0) & (x < kInfinity);
  const Expr is_near = is_finite_right & (x <= kFar);
  // The sum of x^k / (k k!), of positive terms: sum, power, the number of the trip.
  const auto near_goes_on = [&](Iterated in) { return is_near & (in[1] > enough * in[0] * in[2]) & (in[2] < 200); };
  const auto near_next = [&](Iterated in) {
    const Expr reciprocal = 1 / in[2];
    const Expr power = in[1] * magnitude * reciprocal;
    return State{fma(power, reciprocal, in[0]), power, in[2] + 1};
  };
  const Expr zero = x.like(0);
  const Expr one = x.like(1);
  const Expr series = iterate({zero, one, one}, near_goes_on, near_next)[0];
  const Expr near = log(magnitude) + kEuler + series;
  // The asymptotic series, the sum of k! / x^k.
  const Expr is_far = is_finite_right & (x > kFar);
  const Expr step = 1 / max(magnitude, kFar);
  const auto far_goes_on = [&](Iterated in) { return is_far & (in[1] > enough * in[0]) & (in[2] < kFar); };
  const auto far_next = [&](Iterated in) {
    const Expr term = in[1] * in[2] * step;
    return State{in[0] + term, term, in[2] + 1};
  };
  const Expr sum = iterate({one, one, one}, far_goes_on, far_next)[0];
  const Expr far = exp_times({clamp(magnitude, kFar, 720), zero}, sum * step);
  const Expr is_left = (x < 0) & (x > -kInfinity);
  const Expr left = -positive_expn(one, select(is_left, magnitude, x.like(2)), enough);
  const Expr right = select(x == kInfinity, x, select(is_near, near, far));
  const Expr value = select(x > 0, right, select(x == -kInfinity, x.like(-0.0), left));
  return select(x == 0, x.like(-kInfinity), select(is_nan(x), x, value));
}

// ---- Zeta.

/// The first terms, then the formula of Euler and Maclaurin, from a q on where its terms fall off fast.
Expr compute_zeta(Expr s, Expr q, double enough) {
  constexpr double kMostTrips = 5000;
  // B(2j) / (2j)!, of the numbers of Bernoulli.
  constexpr std::array<double, 12> kCoefficients = {
      0x1.5555555555555p-4,  -0x1.6c16c16c16c17p-10, 0x1.1566abc011567p-15, -0x1.bbd779334ef0bp-21,
      0x1.66a8f2bf70ebep-26, -0x1.22805d644267fp-31, 0x1.d6db2c4e09162p-37, -0x1.7da4e1f79955cp-42,
      0x1.355871d652e9ep-47, -0x1.f57d968caacf1p-53, 0x1.967e1f09c376fp-58, -0x1.497d9033a2b5cp-63};
  const bool is_exact = enough < 0x1p-40;
  const std::size_t terms = is_exact ? 12 : 8;
  const Expr is_inside = (s > 1) & (s < kInfinity) & (q < kInfinity);
  const Expr exponent = select(is_inside, s, s.like(2));
  const Expr from = select(is_inside, q, q.like(1));
  const Expr enough_from = fma(exponent, is_exact ? 0.75 : 0.6, exponent.like(is_exact ? 8 : 4));
  const Expr is_odd = rint(0.5 * s) != 0.5 * s;
  const auto power = [&](Expr at) {
    const Expr magnitude = abs(at);
    return is_exact ? positive_power(magnitude, -exponent) : exp(-exponent * log(magnitude));
  };
  // sum, term, q, the number of the trip.
  const auto goes_on = [&](Iterated in) {
    const Expr matters = (in[2] < 1) | (in[1] > enough * in[0]);
    return (in[2] < enough_from) & matters & (in[3] < kMostTrips);
  };
  const auto next = [&](Iterated in) {
    const Expr term = power(in[2]);
    const Expr with_sign = select((in[2] < 0) & is_odd, -term, term);
    return State{in[0] + with_sign, term, in[2] + 1, in[3] + 1};
  };
  const Expr zero = q.like(0);
  const State last = iterate({zero, q.like(1), from, zero}, goes_on, next);
  const Expr at = last[2];
  const Expr reciprocal = 1 / at;
  const Expr square = reciprocal * reciprocal;
  Expr factor = exponent * reciprocal;
  Expr rest = factor * kCoefficients[0];
  for (std::size_t j = 1; j < terms; ++j) {
    const double first = 2 * static_cast<double>(j) - 1;
    factor = factor * ((exponent + first) * (exponent + (first + 1)) * square);
    rest = fma(factor, kCoefficients[j], rest);
  }
  // Where no more terms matter the formula may not hold, nor does what it gives.
  const Expr tail = power(at) * (at / (exponent - 1) + 0.5 + select(at < enough_from, zero, rest));
  const Expr value = last[0] + tail;

  const Expr is_left = q <= 0;
  const Expr pole = select(rint(0.5 * s) == 0.5 * s, s.like(kInfinity), s.like(kNan));
  const Expr is_pole = is_left & (rint(q) == q);
  const Expr is_undefined = (s < 1) | is_nan(s) | is_nan(q) | (is_left & (rint(s) != s));
  const Expr at_end = select(s == kInfinity, select(q > 1, zero, select(q == 1, s.like(1), s)), zero);
  const Expr ordinary = select(is_pole, pole, select(is_inside, value, at_end));
  return select(s == 1, s.like(kInfinity), select(is_undefined, s.like(kNan), ordinary));
}

// ---- The dilogarithm.

/// The dilogarithm of 1 - exp(-u), |u| <= ln(2).
Expr short_dilogarithm(Expr u) {
  const Expr z = u * u;
  const Expr odd = polynomial(z, pick<std::span<const double>>(u, kDilogarithmF32, kDilogarithmF64));
  return fma(z, fma(u, odd, -0.25), u);
}

Expr compute_spence(Expr x) {
  // Of 1 / x for large x, and by the reflection of Euler below 1/2.
  const Expr is_large = x > 1;
  const Expr y = select(is_large, 1 / x, x);
  const Expr log_x = log(x);
  const Expr log_y = select(is_large, -log_x, log_x);
  const Expr is_small = y < 0.5;
  const Expr log_rest = log1p(-y);
  const Expr series = short_dilogarithm(select(is_small, -log_rest, -log_y));
  const Expr product = select(y == 0, y, log_y * log_rest);
  const Expr value = select(is_small, (kPi * kPi / 6 - product) - series, series);
  const Expr far = fma(-0.5 * log_x, log_x, -value);
  return select(x < 0, x.like(kNan), select(is_large, far, value));
}

}  // namespace

Expr igamma(Expr a, Expr x) {
  return to_precision_of([](Expr s, Expr v, double enough) { return gamma_share(s, v, enough, true); }, a, x);
}
Expr igammac(Expr a, Expr x) {
  return to_precision_of([](Expr s, Expr v, double enough) { return gamma_share(s, v, enough, false); }, a, x);
}
Expr igamma_grad_a(Expr a, Expr x) { return to_precision_of(gamma_slope, a, x); }
Expr betainc(Expr a, Expr b, Expr x) { return to_precision_of(compute_betainc, a, b, x); }
Expr expn(Expr n, Expr x) { return to_precision_of(compute_expn, n, x); }
Expr expi(Expr x) { return to_precision_of(compute_expi, x); }
Expr zeta(Expr s, Expr q) { return to_precision_of(compute_zeta, s, q); }
Expr spence(Expr x) { return at_least_f32(compute_spence, x); }

}  // namespace shoal::scalar
