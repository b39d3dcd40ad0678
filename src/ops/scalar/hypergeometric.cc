// The hypergeometric functions 1F1 and 2F1 of real numbers, and their derivatives by parameters. All are computed in
// f64 and rounded once if the operands are smaller floats, for which fewer trips do.
//
// Both are sums of products of ratios, which are as exact as their greatest term. Where the sum at 0 converges slowly
// or not at all there are: for 1F1 the transformation of Kummer and the asymptotic series (Abramowitz & Stegun 13.1.27
// and 13.5.1); for 2F1 those of Pfaff and Euler (15.3.4 and 15.3.3), and Taylor series at points nearer to 1, whose
// coefficients follow from the differential equation (15.5.1). These need no case for integers.
#include <optional>
#include <vector>

#include "ops/scalar/floating.h"
#include "ops/scalar/math.h"

namespace shoal::scalar {
namespace {

using State = std::vector<Expr>;

double enough_for(Expr x) { return x.dtype() == Dtype::kF64 ? 0x1p-54 : 0x1p-36; }

Expr is_whole(Expr x) { return rint(x) == x; }
Expr is_pole_of_gamma(Expr x) { return (x <= 0) & is_whole(x); }
/// The sign of gamma(x).
Expr gamma_sign(Expr x) {
  const Expr half = 0.5 * floor(x);
  return select((x > 0) | is_whole(half), x.like(1), x.like(-1));
}

/// A function of parameters, and its derivative along a direction of them, if that is asked for.
struct Slope {
  Expr value;
  Expr slope;
};

// ---- 1F1.

/// A direction of a and b.
struct Direction2 {
  double a;
  double b;
};

/// `first` times the sum of (a)_n / (b)_n x^n / n!, for x >= 0.
Slope series_1f1(Expr a, Expr b, Expr x, Expr first, Expr is_needed, double enough, const Direction2* direction) {
  constexpr double kMostTrips = 4000;
  const Expr zero = x.like(0);
  // sum, term, the number of the trip; derivatives of sum and term.
  State state = {first, first, zero};
  if (direction != nullptr) state.insert(state.end(), {zero, zero});
  const auto goes_on = [&](Iterated in) {
    const Expr n = in[2];
    Expr matters = abs(in[1]) > enough * abs(in[0]);
    Expr is_left = in[1] != 0;
    if (direction != nullptr) {
      matters = matters | (abs(in[4]) > enough * abs(in[3]));
      is_left = is_left | (in[4] != 0);
    }
    // Terms may be small before they grow.
    const Expr grows = (abs((a + n) * x) > 0.5 * abs((b + n) * (n + 1))) | (b + n < 1) | ((a + n < 0) & (n < x));
    return is_needed & is_left & (matters | grows) & (n < kMostTrips);
  };
  const auto next = [&](Iterated in) {
    const Expr n = in[2];
    const Expr upper = a + n;
    const Expr reciprocal = 1 / ((b + n) * (n + 1));
    const Expr step = x * reciprocal;
    const Expr ratio = select(upper == 0, zero, upper * step);
    const Expr term = in[1] * ratio;
    State made = {in[0] + term, term, n + 1};
    if (direction != nullptr) {
      Expr of_ratio = direction->a * step;
      if (direction->b != 0) of_ratio = of_ratio - direction->b * ratio * (reciprocal * (n + 1));
      const Expr slope = fma(in[4], ratio, in[1] * of_ratio);
      made.insert(made.end(), {in[3] + slope, slope});
    }
    return made;
  };
  const State last = iterate(state, goes_on, next);
  return {last[0], direction != nullptr ? last[3] : zero};
}

/// 1F1 for a large x > 0, times exp(-x) unless `with_power`.
Slope asymptotic_1f1(Expr a, Expr b, Expr x, Expr with_power, Expr is_needed, double enough,
                     const Direction2* direction) {
  const Expr zero = x.like(0);
  const Expr one = x.like(1);
  const Expr p = b - a;
  const Expr q = 1 - a;
  const double of_p = direction != nullptr ? direction->b - direction->a : 0;
  const double of_q = direction != nullptr ? -direction->a : 0;
  const Expr most = 0.8 * x;
  State state = {one, one, zero};
  if (direction != nullptr) state.insert(state.end(), {zero, zero});
  const auto goes_on = [&](Iterated in) {
    Expr matters = abs(in[1]) > enough * abs(in[0]);
    if (direction != nullptr) matters = matters | (abs(in[4]) > enough * abs(in[3])) | (in[2] < 2);
    return is_needed & matters & (in[2] < most);
  };
  const auto next = [&](Iterated in) {
    const Expr n = in[2];
    const Expr step = 1 / ((n + 1) * x);
    const Expr ratio = (p + n) * (q + n) * step;
    const Expr term = in[1] * ratio;
    State made = {in[0] + term, term, n + 1};
    if (direction != nullptr) {
      const Expr of_ratio = fma(q + n, of_p, (p + n) * of_q) * step;
      const Expr slope = fma(in[4], ratio, in[1] * of_ratio);
      made.insert(made.end(), {in[3] + slope, slope});
    }
    return made;
  };
  const State last = iterate(state, goes_on, next);
  const Expr log_x = log(x);
  const Expr exponent = (lgamma(b) - lgamma(a)) + select(with_power, x, zero) - p * log_x;
  const Expr factor = exp(exponent) * (gamma_sign(a) * gamma_sign(b));
  Expr slope = zero;
  if (direction != nullptr) {
    Expr of_factor = log_x * -of_p;
    if (direction->a != 0) of_factor = of_factor - direction->a * digamma(a);
    if (direction->b != 0) of_factor = of_factor + direction->b * digamma(b);
    slope = factor * fma(of_factor, last[0], last[3]);
  }
  return {factor * last[0], slope};
}

/// 1F1 for x >= 0, times exp(-x) where `is_left`; the direction is along a or b, or in those of Kummer's
/// transformation.
Slope right_1f1(Expr a, Expr b, Expr x, Expr is_left, double enough, const Direction2* direction) {
  const Expr p = abs(b - a);
  const Expr q = abs(1 - a);
  const Expr is_far = (x >= 100) & (p + q <= x * (1. / 6)) & (p * q <= 8 * x) & ~is_pole_of_gamma(a);
  const Expr one = x.like(1);
  const Expr near = select(is_far, one, x);
  const Slope sum = series_1f1(a, b, near, select(is_left, exp(-near), one), ~is_far, enough, direction);
  const Expr far = select(is_far, x, x.like(100));
  const Slope rest =
      asymptotic_1f1(select(is_far, a, one), select(is_far, b, one), far, ~is_left, is_far, enough, direction);
  return {select(is_far, rest.value, sum.value), select(is_far, rest.slope, sum.slope)};
}

/// 1F1, or its derivative by a (1) or b (2).
Expr compute_1f1(Expr a, Expr b, Expr x, double enough, int by) {
  const Expr is_finite = (abs(a) < kInfinity) & (abs(b) < kInfinity) & (abs(x) < kInfinity);
  const Expr ends = is_pole_of_gamma(a) & (a >= b);  // A polynomial before the pole.
  const Expr is_pole = is_pole_of_gamma(b) & (by == 1 ? b == b : ~ends);
  const Expr is_inside = is_finite & ~is_pole;
  const Expr one = x.like(1);
  const Expr upper = select(is_inside, a, one);
  const Expr lower = select(is_inside, b, one);
  const Expr at = select(is_inside, x, one);
  const Expr is_left = at < 0;
  // Where it ends, a polynomial in -x has terms of one sign.
  const Expr turns = by == 1 ? is_left : is_left & ~is_pole_of_gamma(upper);
  const Expr first = select(turns, lower - upper, upper);
  const Expr magnitude = select(turns, -at, at);
  Expr inside = one;
  if (by == 0) {
    inside = right_1f1(first, lower, magnitude, turns, enough, nullptr).value;
    inside = select((upper == lower) & (upper != 0), exp(at), inside);
  } else {
    // Kummer: exp(x) 1F1(b - a; b; -x).
    const Direction2 along_a = {1, 0};
    const Expr by_a = right_1f1(first, lower, magnitude, turns, enough, &along_a).slope;
    if (by == 1) {
      inside = select(turns, -by_a, by_a);
    } else {
      const Direction2 along_b = {0, 1};
      const Expr by_b = right_1f1(first, lower, magnitude, turns, enough, &along_b).slope;
      inside = select(turns, by_a + by_b, by_b);
    }
  }
  const Expr pole = by == 0 ? select(a == 0, one, x.like(kInfinity)) : x.like(kNan);
  return select(is_inside, inside, select(is_finite & is_pole, pole, x.like(kNan)));
}

// ---- 2F1.

/// The parameters of 2F1, or a direction of them.
struct Three {
  Expr a, b, c;
};

/// The sum of (a)_n (b)_n / (c)_n x^n / n!, its derivative by x times x, and those of both along a direction.
struct Sums {
  Expr value, by_x;
  Expr slope, slope_by_x;
};

Sums series_2f1(const Three& at, Expr x, double enough, const Three* direction) {
  constexpr double kMostTrips = 2000;
  const Expr zero = x.like(0);
  const Expr one = x.like(1);
  // sum, that of n times the terms, term, the number of the trip; their derivatives.
  State state = {one, zero, one, zero};
  if (direction != nullptr) state.insert(state.end(), {zero, zero, zero});
  const auto goes_on = [&](Iterated in) {
    const Expr n = in[3];
    Expr matters = abs(in[2]) > enough * abs(in[0]);
    Expr is_left = in[2] != 0;
    if (direction != nullptr) {
      matters = matters | (abs(in[6]) > enough * abs(in[4]));
      is_left = is_left | (in[6] != 0);
    }
    const Expr grows = (abs((at.a + n) * (at.b + n) * x) > 0.8 * abs((at.c + n) * (n + 1))) | (at.c + n < 1);
    return is_left & (matters | grows) & (n < kMostTrips);
  };
  const auto next = [&](Iterated in) {
    const Expr n = in[3];
    const Expr a = at.a + n;
    const Expr b = at.b + n;
    const Expr reciprocal = 1 / ((at.c + n) * (n + 1));
    const Expr step = x * reciprocal;
    const Expr both = a * b;
    const Expr ratio = select(both == 0, zero, both * step);
    const Expr term = in[2] * ratio;
    State made = {in[0] + term, fma(n + 1, term, in[1]), term, n + 1};
    if (direction != nullptr) {
      const Expr of_both = fma(direction->a, b, direction->b * a);
      const Expr of_ratio = fma(of_both, step, -(direction->c * ratio) * (reciprocal * (n + 1)));
      const Expr slope = fma(in[6], ratio, in[2] * of_ratio);
      made.insert(made.end(), {in[4] + slope, fma(n + 1, slope, in[5]), slope});
    }
    return made;
  };
  const State last = iterate(state, goes_on, next);
  return {last[0], last[1], direction != nullptr ? last[4] : zero, direction != nullptr ? last[5] : zero};
}

/// 2F1 at 1 - `to`, from its values at 1 - `from`: Taylor series at points 1 - s, each of which halves s or comes to
/// the end.
Slope continuation_2f1(const Three& at, const Sums& start, Expr from, Expr to, double enough, const Three* direction) {
  constexpr double kMostTrips = 20000;
  constexpr double kMostTerms = 200;
  const Expr zero = to.like(0);
  const Expr sum_ab = at.a + at.b + 1;
  const auto step_of = [&](Expr s) { return s - max(to, 0.5 * s); };
  const Expr first = step_of(from);
  const Expr scale = first / (1 - from);
  // s, the last two terms, the number of the older one, sums of terms and of n times them, the number of the trip; and
  // the derivatives of terms and sums.
  State state = {from, start.value, start.by_x * scale, zero, start.value + start.by_x * scale, start.by_x * scale,
                 zero};
  if (direction != nullptr) {
    const Expr term = start.slope_by_x * scale;
    state.insert(state.end(), {start.slope, term, start.slope + term, term});
  }
  const auto goes_on = [&](Iterated in) { return (in[0] > to) & (in[6] < kMostTrips); };
  const auto next = [&](Iterated in) {
    const Expr s = in[0];
    const Expr n = in[3];
    const Expr h = step_of(s);
    const Expr z = 1 - s;
    const Expr common = h / (s * z * ((n + 2) * (n + 1)));
    const Expr a = at.a + n;
    const Expr b = at.b + n;
    const Expr inner = fma(s - z, n, at.c - sum_ab * z) * (n + 1);
    const Expr older = a * b * h;
    const Expr term = (older * in[1] - inner * in[2]) * common;
    const Expr sum = in[4] + term;
    const Expr by_x = fma(n + 2, term, in[5]);
    Expr is_enough = (abs(term) + abs(in[2])) * (n + 2) <= enough * (abs(sum) + abs(by_x));
    Expr slope = zero, slope_sum = zero, slope_by_x = zero;
    if (direction != nullptr) {
      const Expr of_older = fma(direction->a, b, direction->b * a) * h;
      const Expr of_inner = (direction->c - (direction->a + direction->b) * z) * (n + 1);
      slope = ((older * in[7] - inner * in[8]) + (of_older * in[1] - of_inner * in[2])) * common;
      slope_sum = in[9] + slope;
      slope_by_x = fma(n + 2, slope, in[10]);
      is_enough = is_enough & ((abs(slope) + abs(in[8])) * (n + 2) <= enough * (abs(slope_sum) + abs(slope_by_x)));
    }
    const Expr ends = is_enough | (n > kMostTerms);
    const Expr there = select(ends, s - h, s);
    const Expr longer = step_of(there) / h;
    const auto pick_term = [&](Expr whole, Expr part) { return select(ends, whole, part); };
    const Expr new_by_x = by_x * longer;
    State made = {there,
                  pick_term(sum, in[2]),
                  pick_term(new_by_x, term),
                  select(ends, zero, n + 1),
                  pick_term(sum + new_by_x, sum),
                  pick_term(new_by_x, by_x),
                  in[6] + 1};
    if (direction != nullptr) {
      const Expr new_slope = slope_by_x * longer;
      made.insert(made.end(), {pick_term(slope_sum, in[8]), pick_term(new_slope, slope),
                               pick_term(slope_sum + new_slope, slope_sum), pick_term(new_slope, slope_by_x)});
    }
    return made;
  };
  const State last = iterate(state, goes_on, next);
  // A step of length 0 follows the last one, where the sum is the value.
  return {last[4], direction != nullptr ? last[9] : zero};
}

/// 2F1 at 1: the formula of Gauss (15.1.20).
Expr at_one_2f1(Expr a, Expr b, Expr c) {
  const Expr d = c - a - b;
  const Expr power = lgamma(c) + lgamma(d) - lgamma(c - a) - lgamma(c - b);
  const Expr sign = gamma_sign(c) * gamma_sign(d) * gamma_sign(c - a) * gamma_sign(c - b);
  return select(d > 0, sign * exp(power), a.like(kInfinity));
}

/// 2F1, or its derivative by a (1) or c (3).
Expr compute_2f1(Expr a, Expr b, Expr c, Expr x, double enough, int by) {
  constexpr double kFarthest = 0.6;  // Of the series at 0.
  const Expr zero = x.like(0);
  const Expr one = x.like(1);
  const Expr nan = x.like(kNan);
  const Expr is_finite = (abs(a) < kInfinity) & (abs(b) < kInfinity) & (abs(c) < kInfinity) & (abs(x) < kInfinity);
  const Expr ends_by_a = is_pole_of_gamma(a);
  const Expr ends_by_b = is_pole_of_gamma(b);
  // The derivative by a ends as well, but for what (a)_n contributes.
  const Expr ends = by == 1 ? ends_by_b : ends_by_a | ends_by_b;
  const Expr ends_before_b = ends_by_b & (b >= c);
  const Expr ends_early = by == 1 ? ends_before_b : (ends_by_a & (a >= c)) | ends_before_b;
  const Expr is_pole = is_pole_of_gamma(c) & ~ends_early;
  const Expr is_inside = is_finite & ~is_pole & ((x < 1) | ends);

  // Polynomials are summed where they are. Below 0 Pfaff: (1 - x)^-a 2F1(a, c - b; c; x / (x - 1)), of the lesser one
  // of a and b. Then Euler, where that gives a polynomial: (1 - y)^(c - a - b) 2F1(c - a, c - b; c; y).
  const Expr at = select(is_inside, x, x.like(0.5));
  const Expr turns = (at < 0) & ~ends;
  const Expr is_swapped = turns & (b < a);
  const Expr low = select(is_swapped, b, a);
  const Expr high = select(is_swapped, a, b);
  const Expr rest = 1 - at;
  const Expr y = select(turns, at / (at - 1), at);
  const Expr s = select(turns, 1 / rest, rest);
  Three to = {low, select(turns, c - high, high), c};
  to = {select(is_inside, to.a, one), select(is_inside, to.b, one), select(is_inside, to.c, one)};
  Expr is_sum = ends;
  Expr power = select(turns, low, zero);  // Of s.
  if (by == 0) {
    const Three other = {to.c - to.a, to.c - to.b, to.c};
    const Expr is_euler = is_inside & ~ends & ~(is_pole_of_gamma(to.a) | is_pole_of_gamma(to.b)) &
                          (is_pole_of_gamma(other.a) | is_pole_of_gamma(other.b));
    power = power + select(is_euler, other.a - to.b, zero);
    to = {select(is_euler, other.a, to.a), select(is_euler, other.b, to.b), to.c};
    is_sum = ends | is_pole_of_gamma(to.a) | is_pole_of_gamma(to.b);
  }

  std::optional<Three> direction;
  if (by == 1) {
    // Along a, which Pfaff's transformation keeps, or which it has taken from c.
    direction = Three{select(is_swapped, zero, one), select(is_swapped, -one, zero), zero};
  } else if (by == 3) {
    direction = Three{zero, select(turns, one, zero), one};
  }
  const Three* along = direction ? &*direction : nullptr;
  const Expr is_near = is_sum | (y <= kFarthest);
  const Sums sums = series_2f1(to, select(is_near, y, one * kFarthest), enough, along);
  const Expr from = one - kFarthest;
  const Slope far = continuation_2f1(to, sums, from, select(is_near, from, s), enough, along);
  const Expr value = select(is_near, sums.value, far.value);
  const Expr factor = select(power == 0, one, positive_power(select(s > 0, s, one), select(is_inside, power, zero)));
  Expr inside = value * factor;
  if (by != 0) {
    inside = select(is_near, sums.slope, far.slope);
    // (1 - x)^-a depends on a.
    if (by == 1) inside = inside + select(turns & ~is_swapped, value * log(select(s > 0, s, one)), zero);
    inside = inside * factor;
    return select(is_inside, inside, nan);
  }
  const Expr outside = select((x == 1) & ~is_pole_of_gamma(c), at_one_2f1(a, b, c), x.like(kInfinity));
  const Expr is_one = (x == 0) | (((a == 0) | (b == 0)) & (c != 0));
  return select(is_finite, select(is_one, one, select(is_inside, inside, outside)), nan);
}

}  // namespace

Expr hyp1f1(Expr a, Expr b, Expr x) {
  const double enough = enough_for(x);
  return in_f64([&](Expr p, Expr q, Expr v) { return compute_1f1(p, q, v, enough, 0); }, a, b, x);
}
Expr hyp1f1_grad_a(Expr a, Expr b, Expr x) {
  const double enough = enough_for(x);
  return in_f64([&](Expr p, Expr q, Expr v) { return compute_1f1(p, q, v, enough, 1); }, a, b, x);
}
Expr hyp1f1_grad_b(Expr a, Expr b, Expr x) {
  const double enough = enough_for(x);
  return in_f64([&](Expr p, Expr q, Expr v) { return compute_1f1(p, q, v, enough, 2); }, a, b, x);
}
Expr hyp2f1(Expr a, Expr b, Expr c, Expr x) {
  const double enough = enough_for(x);
  return in_f64([&](Expr p, Expr q, Expr r, Expr v) { return compute_2f1(p, q, r, v, enough, 0); }, a, b, c, x);
}
Expr hyp2f1_grad_a(Expr a, Expr b, Expr c, Expr x) {
  const double enough = enough_for(x);
  return in_f64([&](Expr p, Expr q, Expr r, Expr v) { return compute_2f1(p, q, r, v, enough, 1); }, a, b, c, x);
}
Expr hyp2f1_grad_c(Expr a, Expr b, Expr c, Expr x) {
  const double enough = enough_for(x);
  return in_f64([&](Expr p, Expr q, Expr r, Expr v) { return compute_2f1(p, q, r, v, enough, 3); }, a, b, c, x);
}

}  // namespace shoal::scalar
