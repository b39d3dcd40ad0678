// Modified Bessel functions of the first kind: a polynomial of x^2 up to 8, and one of 1 / x beyond, which is
// sqrt(x) exp(-x) times the function.
#include "ops/scalar/floating.h"
#include "ops/scalar/math.h"
#include "ops/scalar/special_coefficients.h"

namespace shoal::scalar {
namespace {

struct Parts {
  Expr is_far;
  Expr near;   ///< min(|x|, 8),
  Expr small;  ///< and the function there.
  Expr tail;   ///< exp(-|x|) times the function beyond.
};

template <int order>
Parts parts_of(Expr x) {
  using Coefficients = std::span<const double>;
  const Expr magnitude = abs(x);
  const Expr is_far = magnitude > 8;
  const Expr near = select(is_far, x.like(8), magnitude);
  const Expr far = select(is_far, magnitude, x.like(8));
  const Coefficients small = order == 0 ? pick<Coefficients>(x, kBesselI0F32, kBesselI0F64)
                                        : pick<Coefficients>(x, kBesselI1F32, kBesselI1F64);
  const Coefficients tail = order == 0 ? pick<Coefficients>(x, kBesselI0TailF32, kBesselI0TailF64)
                                       : pick<Coefficients>(x, kBesselI1TailF32, kBesselI1TailF64);
  const Expr value = polynomial(near * near, small);
  const Expr tail_value = polynomial(16 / far - 1, tail) / sqrt(far);
  return {is_far | is_nan(x), near, order == 0 ? value : near * value, select(is_nan(x), x, tail_value)};
}

template <int order>
Expr scaled(Expr x) {
  const Parts parts = parts_of<order>(x);
  const Expr value = select(parts.is_far, parts.tail, parts.small * exp(-parts.near));
  return order == 0 ? value : copysign(value, x);
}

template <int order>
Expr plain(Expr x) {
  const Parts parts = parts_of<order>(x);
  const double most = pick(x, 95.0, 720.0);  // From there on the result is infinite.
  const Expr far = select(abs(x) > most, x.like(most), abs(x));
  const Expr large = select(abs(x) > most, x.like(kInfinity), exp_times({far, x.like(0)}, parts.tail));
  const Expr value = select(parts.is_far, large, parts.small);
  return order == 0 ? value : copysign(value, x);
}

}  // namespace

Expr bessel_i0(Expr x) { return at_least_f32(plain<0>, x); }
Expr bessel_i1(Expr x) { return at_least_f32(plain<1>, x); }
Expr bessel_i0e(Expr x) { return at_least_f32(scaled<0>, x); }
Expr bessel_i1e(Expr x) { return at_least_f32(scaled<1>, x); }

}  // namespace shoal::scalar
