// The functions of jax.scipy.special that are not rows of elementwise.def.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "flag.h"
#include "numpy.h"

namespace shoal::python {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The operand as floats.
Operand floats(const Operand& x) {
  const Dtype dtype = type_of_operand(x).dtype;
  if (is_floating(dtype) || is_complex(dtype)) return x;
  return {astype(x, default_float()), x.where()};
}

Array logit(const Operand& x) {
  const SourceLocation where = x.where();
  return log({divide(x, {subtract({1, where}, x), where}), where});
}
// -x log(x); 0 at 0 and -infinity below.
Array entr(const Operand& given) {
  const Operand x = floats(given);
  const SourceLocation where = x.where();
  const Operand inside(negative({xlogy(x, x), where}), where);
  return shoal::where({less(x, {0, where}), where}, {-kInfinity, where}, inside);
}
Array rel_entr(const Operand& given, const Operand& other) {
  const Operand p = floats(given);
  const Operand q = floats(other);
  const SourceLocation where = p.where();
  const Operand zero(0, where);
  const Operand both(logical_and({greater(p, zero), where}, {greater(q, zero), where}), where);
  const Operand none_left(logical_and({equal(p, zero), where}, {greater_equal(q, zero), where}), where);
  const Operand one(1, where);
  const Operand safe_p(shoal::where(both, p, one), where);
  const Operand safe_q(shoal::where(both, q, one), where);
  const Operand inside(multiply(safe_p, {log({divide(safe_p, safe_q), where}), where}), where);
  return shoal::where(both, inside, {shoal::where(none_left, zero, {kInfinity, where}), where});
}
Array kl_div(const Operand& given, const Operand& other) {
  const Operand p = floats(given);
  const Operand q = floats(other);
  const SourceLocation where = p.where();
  return add({subtract({rel_entr(p, q), where}, p), where}, q);
}
// The sign of the gamma function.
Array gammasgn(const Operand& given) {
  const Operand x = floats(given);
  const SourceLocation where = x.where();
  const Operand below(floor(x), where);
  const Operand odd(not_equal({remainder(below, {2, where}), where}, {0, where}), where);
  const Operand negative_side(shoal::where(odd, {-1.0, where}, {1.0, where}), where);
  const Operand whole(logical_and({less(x, {0, where}), where}, {equal(x, below), where}), where);
  const Operand sign(shoal::where({less(x, {0, where}), where}, negative_side,
                                  {shoal::where({signbit(x), where}, {-1.0, where}, {1.0, where}), where}),
                     where);
  return astype({shoal::where(whole, {std::nan(""), where}, sign), where}, type_of_operand(x).dtype);
}
Array gamma(const Operand& given) {
  const Operand x = floats(given);
  const SourceLocation where = x.where();
  return multiply({gammasgn(x), where}, {exp({lgamma(x), where}), where});
}
Array betaln(const Operand& a, const Operand& b) {
  const SourceLocation where = a.where();
  const Operand sum(add({lgamma(a), where}, {lgamma(b), where}), where);
  return subtract(sum, {lgamma({add(a, b), where}), where});
}
Array beta(const Operand& a, const Operand& b) {
  const SourceLocation where = a.where();
  const Operand signs(multiply({gammasgn(a), where}, {gammasgn(b), where}), where);
  const Operand sign(multiply(signs, {gammasgn({add(a, b), where}), where}), where);
  return multiply(sign, {exp({betaln(a, b), where}), where});
}
// The normal distribution.
Array ndtr(const Operand& given) {
  const Operand x = floats(given);
  const SourceLocation where = x.where();
  const Operand scaled(multiply(x, {-std::sqrt(0.5), where}), where);
  return multiply({0.5, where}, {erfc(scaled), where});
}
Array ndtri(const Operand& given) {
  const Operand p = floats(given);
  const SourceLocation where = p.where();
  const Operand centred(subtract({multiply({2, where}, p), where}, {1, where}), where);
  return multiply({std::sqrt(2.0), where}, {erf_inv(centred), where});
}

using Unary = Array (*)(const Operand&);
using Binary = Array (*)(const Operand&, const Operand&);

void bind_unary(nb::module_& m, const char* name, Unary f, const char* doc) {
  m.def(
      name,
      [f, name](nb::handle x) {
        Operand a = operand(x, name);
        widen(name, {&a});
        return unlocked([&] { return f(a); });
      },
      "x"_x, doc);
}
void bind_binary(nb::module_& m, const char* name, Binary f, const char* first, const char* second, const char* doc) {
  m.def(
      name,
      [f, name](nb::handle x, nb::handle y) {
        Operand a = operand(x, name);
        Operand b = operand(y, name, "y");
        widen(name, {&a, &b});
        return unlocked([&] { return f(a, b); });
      },
      nb::arg(first).none(), nb::arg(second).none(), doc);
}

nb::object logsumexp_of(nb::handle a, nb::handle axis, nb::handle b, Flag keepdims, Flag return_sign,
                        nb::handle where_mask) {
  Operand x = operand(a, "logsumexp", "a");
  widen("logsumexp", {&x});
  const std::optional<Operand> weights = maybe_operand(b, "logsumexp", "b");
  ReduceOptions options{.axis = axes(axis, "logsumexp: axis"),
                        .keepdims = keepdims,
                        .where = maybe_array(where_mask, "logsumexp", "where")};
  const SourceLocation where = x.where();
  if (!weights && !return_sign) return nb::cast(unlocked([&] { return logsumexp(x, options); }));
  // The sum itself, scaled by its greatest term.
  const std::pair<Array, Array> result = unlocked([&] {
    const Operand terms = floats(x);
    ReduceOptions greatest{.axis = options.axis, .keepdims = true, .where = options.where};
    if (options.where) greatest.initial = Array(-kInfinity, where);
    const Array top =
        max({is_complex(type_of_operand(terms).dtype) ? real(terms) : shoal::to_array(terms), where}, greatest);
    const Operand shift(shoal::where({isfinite({top, where}), where}, {top, where}, {0, where}), where);
    Operand scaled(exp({subtract(terms, shift), where}), where);
    if (weights) scaled = Operand(multiply(scaled, *weights), where);
    ReduceOptions kept{.axis = options.axis, .keepdims = true, .where = options.where};
    const Operand total(sum(scaled, kept), where);
    const Operand magnitude(return_sign ? abs(total) : *total.array(), where);
    Array value = add({log(magnitude), where}, shift);
    Array direction = sign(total);
    if (!keepdims) {
      value = squeeze({value, where}, options.axis);
      direction = squeeze({direction, where}, options.axis);
    }
    return std::pair(value, direction);
  });
  if (return_sign) return nb::make_tuple(result.first, result.second);
  return nb::cast(result.first);
}

}  // namespace

void bind_special(nb::module_& m) {
  bind_unary(m, "expit", &logistic, "1 / (1 + exp(-x)).");
  bind_unary(m, "logit", &logit, "log(x / (1 - x)).");
  bind_unary(m, "erfinv", &erf_inv, "The inverse of erf.");
  bind_unary(m, "gammaln", &lgamma, "The logarithm of the gamma function's magnitude.");
  bind_unary(m, "loggamma", &lgamma, "The logarithm of the gamma function's magnitude.");
  bind_unary(m, "gammasgn", &gammasgn, "The sign of the gamma function.");
  bind_unary(m, "gamma", &gamma, "The gamma function.");
  bind_unary(m, "psi", &digamma, "The derivative of the gamma function's logarithm.");
  bind_unary(m, "entr", &entr, "-x log(x).");
  bind_unary(m, "ndtr", &ndtr, "The normal distribution.");
  bind_unary(m, "ndtri", &ndtri, "The inverse of the normal distribution.");
  bind_binary(m, "betaln", &betaln, "a", "b", "The logarithm of the beta function.");
  bind_binary(m, "beta", &beta, "a", "b", "The beta function.");
  bind_binary(m, "rel_entr", &rel_entr, "p", "q", "p log(p / q).");
  bind_binary(m, "kl_div", &kl_div, "p", "q", "p log(p / q) - p + q.");
  m.def(
      "factorial",
      [](nb::handle n, Flag exact) {
        if (exact) not_implemented("factorial with exact=True");
        Operand x = operand(n, "factorial", "n");
        widen("factorial", {&x});
        return unlocked([&] {
          const Operand given = floats(x);
          const SourceLocation where = given.where();
          const Operand next(add(given, {1, where}), where);
          const Operand value(exp({lgamma(next), where}), where);
          return shoal::where({less(given, {0, where}), where}, {0, where}, value);
        });
      },
      "n"_x, "exact"_x = false, "The factorial.");
  m.def("logsumexp", &logsumexp_of, "a"_x, "axis"_x = nb::none(), "b"_x = nb::none(), "keepdims"_x = false,
        "return_sign"_x = false, "where"_x = nb::none(), "log(sum(b exp(a))), without overflow on the way.");
}

}  // namespace shoal::python
