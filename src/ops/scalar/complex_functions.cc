// By real and imaginary parts, after Kahan (1987), "Branch cuts for complex elementary functions". Results of zeros,
// infinities and NaN are those of C (ISO/IEC 9899, annex G) wherever they are not left open there.
#include "ops/scalar/complex_functions.h"

#include "ops/scalar/floating.h"
#include "ops/scalar/math.h"

namespace shoal::scalar {
namespace {

constexpr double kQuarterTurn = 0x1.921fb54442d18p0;  // π/2

/// f(z...), computed in c128 and rounded once.
template <class F, class... Rest>
Expr in_c128(F f, Expr z, Rest... rest) {
  return convert(f(convert(z, Dtype::kC128), convert(rest, Dtype::kC128)...), z.dtype());
}

Expr times_i(Expr z) { return make_complex(-imag(z), real(z)); }
Expr times_minus_i(Expr z) { return make_complex(imag(z), -real(z)); }

/// The magnitude with the sign of x. The sign of NaN means nothing, and differs between back ends: it counts as 0.
Expr with_sign(Expr magnitude, Expr x) { return copysign(magnitude, select(is_nan(x), x.like(0), x)); }

/// factor exp(x), where exp(x) alone may overflow.
Expr times_exp(Expr factor, Expr x) {
  const Expr is_large = x > 709;
  const Expr power = exp(select(is_large, 0.5 * x, x));
  const Expr product = factor * power;
  return select(is_large, product * power, product);
}

Expr exp_of(Expr z) {
  const Expr a = real(z);
  const Expr b = imag(z);
  const Expr is_lost = ~is_finite(b) & is_infinite(a);  // Some direction of 0 or infinity.
  const Expr re = select(is_lost, exp(a), times_exp(cos(b), a));
  const Expr im = select(is_lost & (a < 0), a.like(0), times_exp(sin(b), a));
  return make_complex(re, select(b == 0, b, im));
}

/// log(|a + ib|).
Expr log_modulus(Expr a, Expr b) {
  const Expr large = max(abs(a), abs(b));
  const Expr small = min(abs(a), abs(b));
  // Near the unit circle log(1 + (large^2 - 1 + small^2)) / 2, with the square to twice the precision.
  const Sum minus_one = two_sum(large, large.like(-1));
  const Sum plus_one = two_sum(large, large.like(1));
  const Sum square = sum_of(product(minus_one, plus_one), two_product(small, small));
  const Expr near = 0.5 * (log1p(square.high) + square.low / (1 + square.high));
  const Expr ratio = select(large == 0, large, small / large);
  const Expr far = log(large) + 0.5 * log1p(ratio * ratio);
  const Expr finite = select((large > 0.5) & (large < 3), near, far);
  return select(is_infinite(a) | is_infinite(b), a.like(kInfinity), finite);
}

Expr log_of(Expr z) { return make_complex(log_modulus(real(z), imag(z)), arctan2(imag(z), real(z))); }

Expr expm1_of(Expr z) {
  const Expr a = real(z);
  const Expr b = imag(z);
  const Expr half_sine = sin(0.5 * b);
  const Expr re = expm1(a) * cos(b) - 2 * half_sine * half_sine;
  const Expr im = exp(a) * sin(b);
  const Expr result = select(a > 700, exp_of(z), make_complex(re, select(b == 0, b, im)));
  return select((a == -kInfinity) & ~is_finite(b), make_complex(a.like(-1), a.like(0)), result);
}

Expr log1p_of(Expr z) {
  const Expr a = real(z);
  const Expr b = imag(z);
  const Expr zero = a.like(0);
  const Sum square = sum_of(product({a, zero}, two_sum(a.like(2), a)), two_product(b, b));  // |1 + z|^2 - 1.
  const Expr near = 0.5 * (log1p(square.high) + square.low / (1 + square.high));
  const Expr is_near = (abs(a) < 0.5) & (abs(b) < 1.5);
  return make_complex(select(is_near, near, log_modulus(1 + a, b)), arctan2(b, 1 + a));
}

Expr sqrt_of(Expr z) {
  const Expr a = real(z);
  const Expr b = imag(z);
  const Expr large = max(abs(a), abs(b));
  const Expr half_exponent = split(large).exponent >> 1;
  const Expr scaling = -(half_exponent + half_exponent);
  const Expr scaled_a = scale(abs(a), scaling);
  const Expr scaled_b = scale(abs(b), scaling);
  const Expr root = sqrt(0.5 * (scaled_a + hypot(scaled_a, scaled_b)));
  const Expr greater = scale(root, half_exponent);
  const Expr lesser = scale(scaled_b / (2 * root), half_exponent);
  const Expr is_right = ~(a < 0);
  const Expr re = select(is_right, greater, lesser);
  const Expr im = copysign(select(is_right, lesser, greater), b);
  const Expr finite = select(large == 0, make_complex(large, b), make_complex(re, im));

  const Expr infinity = a.like(kInfinity);
  const Expr nothing = 0 * b;  // NaN of NaN.
  const Expr of_infinite_a =
      select(a > 0, make_complex(infinity, copysign(nothing, b)), make_complex(abs(nothing), with_sign(infinity, b)));
  return select(is_infinite(b), make_complex(infinity, b), select(is_infinite(a), of_infinite_a, finite));
}

Expr pow_of(Expr z, Expr w) {
  const Expr one = make_complex(real(z).like(1), real(z).like(0));
  const Expr zero = make_complex(real(z).like(0), real(z).like(0));
  const Expr is_zero = (real(z) == 0) & (imag(z) == 0);
  const Expr power = select(is_zero & (real(w) > 0), zero, exp_of(mul(w, log_of(z))));
  return select((real(w) == 0) & (imag(w) == 0), one, power);
}

Expr logistic_of(Expr z) {
  const Expr is_left = real(z) < 0;
  const Expr one = make_complex(real(z).like(1), real(z).like(0));
  const Expr power = exp_of(select(is_left, z, neg(z)));
  return div(select(is_left, power, one), add(one, power));
}

/// sinh(x) and cosh(x), times a factor each.
Expr times_sinh(Expr factor, Expr x) {
  return select(abs(x) > 700, times_exp(copysign(x.like(0.5), x) * factor, abs(x)), sinh(x) * factor);
}
Expr times_cosh(Expr factor, Expr x) { return select(abs(x) > 700, times_exp(0.5 * factor, abs(x)), cosh(x) * factor); }

Expr sinh_of(Expr z) {
  const Expr a = real(z);
  const Expr b = imag(z);
  const Expr re = select(((a == 0) | is_infinite(a)) & ~is_finite(b), a, times_sinh(cos(b), a));
  return make_complex(re, select(b == 0, b, times_cosh(sin(b), a)));
}

Expr cosh_of(Expr z) {
  const Expr a = real(z);
  const Expr b = imag(z);
  const Expr signed_zero = copysign(a.like(0), with_sign(a.like(1), a) * with_sign(b.like(1), sin(b)));
  const Expr im = select((a == 0) | (b == 0), signed_zero, times_sinh(sin(b), a));
  return make_complex(select(is_infinite(a) & ~is_finite(b), abs(a), times_cosh(cos(b), a)), im);
}

Expr tanh_of(Expr z) {
  const Expr a = real(z);
  const Expr b = imag(z);
  const Expr is_far = abs(a) > 20;
  const Expr is_lost = ~is_finite(b);
  const Expr far_re = select(is_lost & ~is_infinite(a), 0 * b, copysign(a.like(1), a));
  const Expr far_im = select(is_lost & is_infinite(a), a.like(0), 4 * sin(b) * cos(b) * exp(-2 * abs(a)));
  const Expr t = tan(b);
  const Expr s = sinh(select(is_far, copysign(a.like(20), a), a));
  const Expr beta = fma(t, t, 1);
  const Expr denominator = fma(beta * s, s, s.like(1));
  const Expr near_re = beta * sqrt(fma(s, s, 1)) * s / denominator;
  const Expr re = select(is_far, far_re, select(a == 0, a, near_re));
  return make_complex(re, select(is_far, far_im, select(b == 0, b, t / denominator)));
}

/// sqrt(1 - z) and sqrt(1 + z).
struct Roots {
  Expr minus;
  Expr plus;
};

Roots roots_of(Expr z) {
  return {sqrt_of(make_complex(1 - real(z), -imag(z))), sqrt_of(make_complex(1 + real(z), imag(z)))};
}

/// The imaginary part of conj(z) w.
Expr cross(Expr z, Expr w) { return real(z) * imag(w) - imag(z) * real(w); }

Expr arcsin_of(Expr z) {
  const Roots root = roots_of(z);
  const Expr re = arctan2(real(z), real(root.minus) * real(root.plus) - imag(root.minus) * imag(root.plus));
  // At infinity the direction decides.
  const Expr a = abs(real(z));
  const Expr b = abs(imag(z));
  const Expr far_re = copysign(arctan2(a, b), real(z));
  const Expr far_im = with_sign(b.like(kInfinity), imag(z));
  const Expr is_far = is_infinite(a) | is_infinite(b);
  const Expr im = arcsinh(cross(root.minus, root.plus));
  return make_complex(select(a == 0, real(z), select(is_far, far_re, re)), select(is_far, far_im, im));
}

Expr arccos_of(Expr z) {
  const Expr a = real(z);
  const Expr b = imag(z);
  const Roots root = roots_of(z);
  const Expr re = select(a == 0, a.like(kQuarterTurn), 2 * arctan2(real(root.minus), real(root.plus)));
  const Expr im = arcsinh(cross(root.plus, root.minus));
  const Expr is_far = is_infinite(a) | is_infinite(b);
  const Expr far_im = -with_sign(b.like(kInfinity), b);
  return make_complex(select(is_far, arctan2(abs(b), a), re), select(is_far, far_im, im));
}

Expr arccosh_of(Expr z) {
  const Expr minus = sqrt_of(make_complex(real(z) - 1, imag(z)));
  const Expr plus = sqrt_of(make_complex(real(z) + 1, imag(z)));
  const Expr a = real(z);
  const Expr b = imag(z);
  const Expr re = arcsinh(real(minus) * real(plus) + imag(minus) * imag(plus));
  const Expr im = select(a == 0, with_sign(a.like(kQuarterTurn), b), 2 * arctan2(imag(minus), real(plus)));
  const Expr is_far = is_infinite(a) | is_infinite(b);
  return make_complex(select(is_far, a.like(kInfinity), re), select(is_far, arctan2(b, a), im));
}

Expr arctanh_of(Expr z) {
  const Expr a = abs(real(z));
  const Expr b = imag(z);
  const Expr is_far = max(a, abs(b)) > 0x1p500;  // Where squares may overflow, and 1 does not matter.
  const Expr c = select(is_far, a.like(0), a);
  const Expr d = select(is_far, b.like(1), b);
  const Expr rest = 1 - c;
  const Expr near_re = 0.25 * log1p(4 * c / fma(rest, rest, d * d));
  const Expr near_im = 0.5 * arctan2(2 * d, fma(rest, 1 + c, -(d * d)));
  const Expr modulus = hypot(a, b);
  const Expr far_re = a / modulus / modulus;
  const Expr is_zero = (a == 0) | is_infinite(a) | is_infinite(b);
  const Expr re = select(is_zero, a.like(0), select(is_far, far_re, near_re));
  const Expr im = select(is_far | is_infinite(b), copysign(a.like(kQuarterTurn), b), near_im);
  return make_complex(with_sign(re, real(z)), im);
}

}  // namespace

Expr complex_exp(Expr z) { return in_c128(exp_of, z); }
Expr complex_expm1(Expr z) { return in_c128(expm1_of, z); }
Expr complex_log(Expr z) { return in_c128(log_of, z); }
Expr complex_log1p(Expr z) { return in_c128(log1p_of, z); }
Expr complex_sqrt(Expr z) { return in_c128(sqrt_of, z); }
Expr complex_rsqrt(Expr z) {
  return in_c128([](Expr v) { return div(one_like(v), sqrt_of(v)); }, z);
}
Expr complex_pow(Expr z, Expr w) { return in_c128(pow_of, z, w); }
Expr complex_logistic(Expr z) { return in_c128(logistic_of, z); }
Expr complex_sin(Expr z) {
  return in_c128([](Expr v) { return times_minus_i(sinh_of(times_i(v))); }, z);
}
Expr complex_cos(Expr z) {
  return in_c128([](Expr v) { return cosh_of(times_i(v)); }, z);
}
Expr complex_tan(Expr z) {
  return in_c128([](Expr v) { return times_minus_i(tanh_of(times_i(v))); }, z);
}
Expr complex_sinh(Expr z) { return in_c128(sinh_of, z); }
Expr complex_cosh(Expr z) { return in_c128(cosh_of, z); }
Expr complex_tanh(Expr z) { return in_c128(tanh_of, z); }
Expr complex_arcsin(Expr z) { return in_c128(arcsin_of, z); }
Expr complex_arccos(Expr z) { return in_c128(arccos_of, z); }
Expr complex_arctan(Expr z) {
  return in_c128([](Expr v) { return times_minus_i(arctanh_of(times_i(v))); }, z);
}
Expr complex_arcsinh(Expr z) {
  return in_c128([](Expr v) { return times_minus_i(arcsin_of(times_i(v))); }, z);
}
Expr complex_arccosh(Expr z) { return in_c128(arccosh_of, z); }
Expr complex_arctanh(Expr z) { return in_c128(arctanh_of, z); }

}  // namespace shoal::scalar
