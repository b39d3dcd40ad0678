// The functions of jax.scipy.special that are not rows of elementwise.def.
#include "bindings/scipy/special.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/caller.h"
#include "bindings/core/flag.h"
#include "bindings/numpy/numpy.h"
#include "frontend/array/promotion.h"
#include "shoal/special.h"

namespace shoal::python {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The operand as floats.
Array floats(const Operand& x) {
  const Array array = shoal::to_array(x);
  const Dtype dtype = inexact_dtype(array.dtype());
  return dtype == array.dtype() ? array : astype(array, dtype);
}

Array logit(const Operand& given) {
  const Caller caller("logit", given.where());
  const Array x = floats(given);
  return log(x / (1 - x));
}
// -x log(x); 0 at 0 and -infinity below.
Array entr(const Operand& given) {
  const Caller caller("entr", given.where());
  const Array x = floats(given);
  return shoal::where(x < 0, -kInfinity, -xlogy(x, x));
}
Array rel_entr(const Operand& given, const Operand& other) {
  const Caller caller("rel_entr", given.where());
  const Array p = floats(given);
  const Array q = floats(other);
  const Array both = logical_and(p > 0, q > 0);
  const Array none_left = logical_and(equal(p, 0), q >= 0);
  const Array safe_p = shoal::where(both, p, 1);
  const Array safe_q = shoal::where(both, q, 1);
  return shoal::where(both, safe_p * log(safe_p / safe_q), shoal::where(none_left, 0, kInfinity));
}
Array kl_div(const Operand& given, const Operand& other) {
  const Caller caller("kl_div", given.where());
  const Array p = floats(given);
  const Array q = floats(other);
  return rel_entr(p, q) - p + q;
}
// The sign of the gamma function.
Array gammasgn(const Operand& given) {
  const Caller caller("gammasgn", given.where());
  const Array x = floats(given);
  const Array below = floor(x);
  const Array negative_side = shoal::where(not_equal(below, 2 * floor(below * 0.5)), -1.0, 1.0);
  const Array whole = logical_and(x < 0, equal(x, below));
  const Array sign = shoal::where(x < 0, negative_side, shoal::where(signbit(x), -1.0, 1.0));
  return astype(shoal::where(whole, std::nan(""), sign), x.dtype());
}
Array gamma(const Operand& given) {
  const Caller caller("gamma", given.where());
  const Array x = floats(given);
  return gammasgn(x) * exp(lgamma(x));
}
Array betaln(const Operand& a, const Operand& b) {
  const Caller caller("betaln", a.where());
  return lgamma(a) + lgamma(b) - lgamma(add(a, b));
}
Array beta(const Operand& a, const Operand& b) {
  const Caller caller("beta", a.where());
  return gammasgn(a) * gammasgn(b) * gammasgn(add(a, b)) * exp(betaln(a, b));
}
using Unary = Array (*)(const Operand&);
using Binary = Array (*)(const Operand&, const Operand&);

// Functions that JAX has for real numbers alone, and says so by a ValueError.
bool is_for_real_numbers(std::string_view name) {
  static constexpr std::array<std::string_view, 9> kReal = {"entr",     "kl_div", "rel_entr", "beta",        "gamma",
                                                            "gammasgn", "poch",   "expn",     "multigammaln"};
  return std::find(kReal.begin(), kReal.end(), name) != kReal.end();
}

void bind_unary(nb::module_& m, const char* name, Unary f, const char* doc, const char* argument = "x") {
  m.def(
      name,
      [f, name](nb::handle x) {
        const Operand a = operand(x, name);
        if (is_for_real_numbers(name)) refuse_complex(name, {&a});
        return unlocked([&] { return f(a); });
      },
      nb::arg(argument).none(), doc);
}
void bind_binary(nb::module_& m, const char* name, Binary f, const char* first, const char* second, const char* doc) {
  m.def(
      name,
      [f, name](nb::handle x, nb::handle y) {
        const Operand a = operand(x, name);
        const Operand b = operand(y, name, "y");
        if (is_for_real_numbers(name)) refuse_complex(name, {&a, &b});
        return unlocked([&] { return f(a, b); });
      },
      nb::arg(first).none(), nb::arg(second).none(), doc);
}

nb::object logsumexp_of(nb::handle a, nb::handle axis, nb::handle b, Flag keepdims, Flag return_sign,
                        nb::handle where_mask) {
  const Operand x = operand(a, "logsumexp", "a");
  const std::optional<Operand> weights = maybe_operand(b, "logsumexp", "b");
  ReduceOptions options{.axis = axes(axis, "logsumexp: axis"),
                        .keepdims = keepdims,
                        .where = maybe_array(where_mask, "logsumexp", "where")};
  if (!weights && !return_sign) return nb::cast(unlocked([&] { return logsumexp(x, options); }));
  // The sum itself, scaled by its greatest term.
  const std::pair<Array, Array> result = unlocked([&] {
    const Caller caller("logsumexp", x.where());
    const Array terms = floats(x);
    ReduceOptions greatest{.axis = options.axis, .keepdims = true, .where = options.where};
    if (options.where) greatest.initial = Array(-kInfinity);
    const Array top = max(is_complex(terms.dtype()) ? real(terms) : terms, greatest);
    const Array shift = shoal::where(isfinite(top), top, 0);
    Array scaled = exp(terms - shift);
    if (weights) scaled = multiply(scaled, *weights);
    const Array total = sum(scaled, {.axis = options.axis, .keepdims = true, .where = options.where});
    Array value = log(return_sign ? abs(total) : total) + shift;
    Array direction = sign(total);
    if (!keepdims) {
      value = squeeze(value, options.axis);
      direction = squeeze(direction, options.axis);
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
  bind_unary(m, "ndtr", &special::ndtr, "The normal distribution.");
  bind_unary(m, "ndtri", &special::ndtri, "The inverse of the normal distribution.", "p");
  bind_unary(m, "log_ndtr", &special::log_ndtr, "The logarithm of the normal distribution.");
  bind_unary(m, "i0", &special::i0, "The modified Bessel function of the first kind of order 0.");
  bind_unary(m, "i1", &special::i1, "The modified Bessel function of the first kind of order 1.");
  bind_unary(m, "i0e", &special::i0e, "exp(-|x|) i0(x).");
  bind_unary(m, "i1e", &special::i1e, "exp(-|x|) i1(x).");
  bind_unary(m, "erfcx", &special::erfcx, "exp(x^2) erfc(x).");
  bind_unary(m, "erfcinv", &special::erfcinv, "The inverse of erfc.");
  bind_unary(m, "dawsn", &special::dawsn, "exp(-x^2) times the integral of exp(t^2) from 0 to x.");
  bind_unary(m, "exp1", &special::exp1, "The integral of exp(-t) / t from x on.");
  bind_unary(m, "expi", &special::expi, "The integral of exp(t) / t up to x.");
  bind_unary(m, "spence", &special::spence, "The integral of log(t) / (1 - t) from 1 to x.");
  bind_binary(m, "expn", &special::expn, "n", "x", "The integral of exp(-x t) / t^n from 1 on.");
  bind_binary(m, "gammainc", &special::gammainc, "a", "x", "The share of the gamma function's integral below x.");
  bind_binary(m, "gammaincc", &special::gammaincc, "a", "x", "The share of the gamma function's integral above x.");
  bind_binary(m, "polygamma", &special::polygamma, "n", "x", "The n-th derivative of digamma.");
  bind_binary(m, "poch", &special::poch, "z", "m", "gamma(z + m) / gamma(z).");
  bind_binary(m, "boxcox", &special::boxcox, "x", "lmbda", "(x^lmbda - 1) / lmbda; log(x) where lmbda is 0.");
  bind_binary(m, "boxcox1p", &special::boxcox1p, "x", "lmbda", "boxcox(1 + x, lmbda).");
  m.def(
      "betainc",
      [](nb::handle a, nb::handle b, nb::handle x) {
        const Operand first = operand(a, "betainc", "a");
        const Operand second = operand(b, "betainc", "b");
        const Operand third = operand(x, "betainc");
        refuse_complex("betainc", {&first, &second, &third});
        return unlocked([&] { return special::betainc(first, second, third); });
      },
      "a"_x, "b"_x, "x"_x, "The share of the beta function's integral below x.");
  m.def(
      "hyp1f1",
      [](nb::handle a, nb::handle b, nb::handle x) {
        const Operand first = operand(a, "hyp1f1", "a");
        const Operand second = operand(b, "hyp1f1", "b");
        const Operand third = operand(x, "hyp1f1");
        refuse_complex("hyp1f1", {&first, &second, &third});
        return unlocked([&] { return special::hyp1f1(first, second, third); });
      },
      "a"_x, "b"_x, "x"_x, "Kummer's function 1F1: the sum of (a)_n / (b)_n x^n / n! over n >= 0.");
  m.def(
      "hyp2f1",
      [](nb::handle a, nb::handle b, nb::handle c, nb::handle x) {
        const Operand first = operand(a, "hyp2f1", "a");
        const Operand second = operand(b, "hyp2f1", "b");
        const Operand third = operand(c, "hyp2f1", "c");
        const Operand fourth = operand(x, "hyp2f1");
        refuse_complex("hyp2f1", {&first, &second, &third, &fourth});
        return unlocked([&] { return special::hyp2f1(first, second, third, fourth); });
      },
      "a"_x, "b"_x, "c"_x, "x"_x, "Gauss' function 2F1: the sum of (a)_n (b)_n / (c)_n x^n / n! over n >= 0.");
  m.def(
      "zeta",
      [](nb::handle x, nb::handle q) {
        const Operand a = operand(x, "zeta");
        const Operand b = q.is_none() ? Operand(1, a.where()) : operand(q, "zeta", "q");
        return unlocked([&] { return special::zeta(a, b); });
      },
      "x"_x, "q"_x = nb::none(), "The zeta function of Hurwitz: the sum of (q + n)^-x over n >= 0.");
  m.def(
      "sici",
      [](nb::handle x) {
        const Operand given = operand(x, "sici");
        refuse_complex("sici", {&given});
        const special::SiciResult result = unlocked([&] { return special::sici(given); });
        return nb::make_tuple(result.si, result.ci);
      },
      "x"_x, "The integrals of sin(t) / t from 0 to x, and of cos(t) / t up to x.");
  m.def(
      "fresnel",
      [](nb::handle x) {
        const Operand given = operand(x, "fresnel");
        refuse_complex("fresnel", {&given});
        const special::FresnelResult result = unlocked([&] { return special::fresnel(given); });
        return nb::make_tuple(result.s, result.c);
      },
      "x"_x, "The integrals of sin(pi t^2 / 2) and of cos(pi t^2 / 2) from 0 to x.");
  bind_binary(m, "owens_t", &special::owens_t, "h", "a",
              "The integral of exp(-h^2 (1 + t^2) / 2) / (1 + t^2) from 0 to a, divided by 2 pi.");
  bind_unary(m, "wofz", &special::wofz, "exp(-z^2) erfc(-i z), of complex numbers.", "z");
  m.def(
      "bessel_jn",
      [](nb::handle z, nb::handle v, nb::handle n_iter) {
        const Operand x = operand(z, "bessel_jn", "z");
        refuse_complex("bessel_jn", {&x});
        const std::int64_t order = integer(v, "bessel_jn: v");
        const special::BesselOptions options{.n_iter = integer(n_iter, "bessel_jn: n_iter")};
        return unlocked([&] { return special::bessel_jn(x, order, options); });
      },
      "z"_x, nb::kw_only(), "v"_x, "n_iter"_x = 50, "Bessel functions of the first kind of orders 0 to v.");
  m.def(
      "lpmn_values",
      [](nb::handle m, nb::handle n, nb::handle z, Flag is_normalized) {
        const Operand x = operand(z, "lpmn_values", "z");
        const std::int64_t order = integer(m, "lpmn_values: m");
        const std::int64_t degree = integer(n, "lpmn_values: n");
        return unlocked([&] { return special::lpmn_values(order, degree, x, is_normalized); });
      },
      "m"_x, "n"_x, "z"_x, "is_normalized"_x, "The associated Legendre functions of orders 0 to m, degrees 0 to n.");
  m.def(
      "lpmn",
      [](nb::handle m, nb::handle n, nb::handle z) {
        const Operand x = operand(z, "lpmn", "z");
        const std::int64_t order = integer(m, "lpmn: m");
        const std::int64_t degree = integer(n, "lpmn: n");
        const special::LpmnResult result = unlocked([&] { return special::lpmn(order, degree, x); });
        return nb::make_tuple(result.values, result.derivatives);
      },
      "m"_x, "n"_x, "z"_x, "The associated Legendre functions of orders 0 to m, degrees 0 to n, and derivatives by z.");
  m.def(
      "_sph_harm_y",
      [](nb::handle n, nb::handle m, nb::handle theta, nb::handle phi, nb::handle n_max) {
        const Operand degree = operand(n, "sph_harm_y", "n");
        const Operand order = operand(m, "sph_harm_y", "m");
        const Operand polar = operand(theta, "sph_harm_y", "theta");
        const Operand azimuth = operand(phi, "sph_harm_y", "phi");
        const std::int64_t most = integer(n_max, "sph_harm_y: n_max");
        return unlocked([&] { return special::sph_harm_y(degree, order, polar, azimuth, most); });
      },
      "n"_x, "m"_x, "theta"_x, "phi"_x, "n_max"_x);
  m.def(
      "multigammaln",
      [](nb::handle a, nb::handle d) {
        const Operand x = operand(a, "multigammaln", "a");
        refuse_complex("multigammaln", {&x});
        const std::int64_t count = integer(d, "multigammaln: d");
        return unlocked([&] { return special::multigammaln(x, count); });
      },
      "a"_x, "d"_x, "The logarithm of the gamma function of d dimensions.");
  m.def(
      "comb",
      [](nb::handle N, nb::handle k, Flag exact, Flag repetition) {
        if (exact) not_implemented("comb with exact=True");
        const Operand n = operand(N, "comb", "N");
        const Operand chosen = operand(k, "comb", "k");
        return unlocked([&] {
          if (!repetition) return special::comb(n, chosen);
          const SourceLocation where = n.where();
          const Operand more(subtract({add(n, chosen), where}, {1, where}), where);
          return special::comb(more, chosen);
        });
      },
      "N"_x, "k"_x, nb::kw_only(), "exact"_x = false, "repetition"_x = false,
      "How many ways there are to choose k of N things, perhaps some of them repeatedly.");
  bind_binary(m, "betaln", &betaln, "a", "b", "The logarithm of the beta function.");
  bind_binary(m, "beta", &beta, "a", "b", "The beta function.");
  bind_binary(m, "rel_entr", &rel_entr, "p", "q", "p log(p / q).");
  bind_binary(m, "kl_div", &kl_div, "p", "q", "p log(p / q) - p + q.");
  m.def(
      "factorial",
      [](nb::handle n, Flag exact) {
        if (exact) not_implemented("factorial with exact=True");
        const Operand x = operand(n, "factorial", "n");
        return unlocked([&] {
          const Caller caller("factorial", x.where());
          const Array given = floats(x);
          return shoal::where(given < 0, 0, exp(lgamma(given + 1)));
        });
      },
      "n"_x, "exact"_x = false, "The factorial.");
  m.def("logsumexp", &logsumexp_of, "a"_x, "axis"_x = nb::none(), "b"_x = nb::none(), "keepdims"_x = false,
        "return_sign"_x = false, "where"_x = nb::none(), "log(sum(b exp(a))), without overflow on the way.");
}

}  // namespace shoal::python
