// Expressions over values of a graph, in which the derivatives of elementwise ops are written.
#pragma once

#include <string_view>

#include "ops/derivatives.h"

namespace shoal::terms {

/// A value of the graph that `build` writes to.
struct Term {
  Builder* build;
  ValueId id;

  Dtype dtype() const { return build->type(id).dtype; }
};

/// An operand or result of the equation that is differentiated, which becomes a term when it is used.
class Lazy {
 public:
  Lazy(Builder& build, Primals& primals, std::size_t place, bool is_result = false)
      : build_(&build), primals_(&primals), place_(place), is_result_(is_result) {}
  operator Term() const { return {build_, is_result_ ? primals_->result(place_) : primals_->operand(place_)}; }

 private:
  Builder* build_;
  Primals* primals_;
  std::size_t place_;
  bool is_result_;
};

template <class... Rest>
Term apply(std::string_view op, Term x, Rest... rest) {
  return {x.build, x.build->elementwise(op, {x.id, rest.id...})};
}

/// A number of the dtype of x.
Term number(Term x, double value);

#define SHOAL_TERM_UNARY(name) \
  inline Term name(Term x) { return apply(#name, x); }
#define SHOAL_TERM_BINARY(name) \
  inline Term name(Term x, Term y) { return apply(#name, x, y); }
SHOAL_TERM_UNARY(abs)
SHOAL_TERM_UNARY(bessel_i0)
SHOAL_TERM_UNARY(bessel_i0e)
SHOAL_TERM_UNARY(bessel_i1)
SHOAL_TERM_UNARY(bessel_i1e)
SHOAL_TERM_UNARY(conj)
SHOAL_TERM_UNARY(cos)
SHOAL_TERM_UNARY(cosh)
SHOAL_TERM_UNARY(digamma)
SHOAL_TERM_UNARY(erfcx)
SHOAL_TERM_UNARY(exp)
SHOAL_TERM_UNARY(exp2)
SHOAL_TERM_UNARY(imag)
SHOAL_TERM_UNARY(isfinite)
SHOAL_TERM_UNARY(isnan)
SHOAL_TERM_UNARY(lgamma)
SHOAL_TERM_UNARY(log)
SHOAL_TERM_UNARY(log1p)
SHOAL_TERM_UNARY(real)
SHOAL_TERM_UNARY(rsqrt)
SHOAL_TERM_UNARY(sign)
SHOAL_TERM_UNARY(sin)
SHOAL_TERM_UNARY(sinh)
SHOAL_TERM_UNARY(square)
SHOAL_TERM_UNARY(trunc)
SHOAL_TERM_BINARY(copysign)
SHOAL_TERM_BINARY(expn)
SHOAL_TERM_BINARY(floor_divide)
SHOAL_TERM_BINARY(igamma_grad_a)
SHOAL_TERM_BINARY(power)
SHOAL_TERM_BINARY(xlog1py)
SHOAL_TERM_BINARY(xlogy)
SHOAL_TERM_BINARY(zeta)
#undef SHOAL_TERM_UNARY
#undef SHOAL_TERM_BINARY

#define SHOAL_TERM_TERNARY(name) \
  inline Term name(Term x, Term y, Term z) { return apply(#name, x, y, z); }
#define SHOAL_TERM_QUATERNARY(name) \
  inline Term name(Term x, Term y, Term z, Term w) { return apply(#name, x, y, z, w); }
SHOAL_TERM_TERNARY(hyp1f1)
SHOAL_TERM_TERNARY(hyp1f1_grad_a)
SHOAL_TERM_TERNARY(hyp1f1_grad_b)
SHOAL_TERM_QUATERNARY(hyp2f1)
SHOAL_TERM_QUATERNARY(hyp2f1_grad_a)
SHOAL_TERM_QUATERNARY(hyp2f1_grad_c)
#undef SHOAL_TERM_TERNARY
#undef SHOAL_TERM_QUATERNARY

inline Term operator-(Term x) { return apply("negative", x); }
inline Term operator+(Term x, Term y) { return apply("add", x, y); }
inline Term operator-(Term x, Term y) { return apply("subtract", x, y); }
inline Term operator*(Term x, Term y) { return apply("multiply", x, y); }
inline Term operator/(Term x, Term y) { return apply("divide", x, y); }
inline Term operator+(Term x, double y) { return x + number(x, y); }
inline Term operator-(Term x, double y) { return x - number(x, y); }
inline Term operator-(double x, Term y) { return number(y, x) - y; }
inline Term operator*(double x, Term y) { return number(y, x) * y; }
inline Term operator*(Term x, double y) { return x * number(x, y); }
inline Term operator/(Term x, double y) { return x / number(x, y); }
inline Term operator/(double x, Term y) { return number(y, x) / y; }

inline Term equal(Term x, Term y) { return apply("equal", x, y); }
inline Term equal(Term x, double y) { return apply("equal", x, number(x, y)); }
inline Term greater(Term x, Term y) { return apply("greater", x, y); }
inline Term less(Term x, double y) { return apply("less", x, number(x, y)); }
inline Term either(Term x, Term y) { return apply("bitwise_or", x, y); }
inline Term select(Term condition, Term then, Term otherwise) {
  return {condition.build, condition.build->select(condition.id, then.id, otherwise.id)};
}
inline Term select(Term condition, Term then, double otherwise) {
  return select(condition, then, number(then, otherwise));
}
inline Term select(Term condition, double then, Term otherwise) {
  return select(condition, number(otherwise, then), otherwise);
}
Term complex(Term real, Term imag);
Term convert(Term x, Dtype dtype);

/// x, but 1 where y is 0 and 1 / x is not finite: y times its power of y - 1 is 0 there.
Term inverted_safely(Term x, Term y);
/// x where it is not zero, else 1.
inline Term unless_zero(Term x) { return select(equal(x, 0), 1, x); }
/// The share that x, an operand, has in the greatest or least element, `result`: all, none, or half of it.
Term share(Term x, Term other, Term result);
/// The derivative of sinc at x, which `sinc` is of.
Term slope_of_sinc(Term x, Term sinc);
/// The derivative of digamma.
Term trigamma(Term x);
/// The density of the gamma distribution of shape a.
Term gamma_density(Term a, Term x);

}  // namespace shoal::terms
