// Functions of jax.scipy.special that are not elementwise ops: the gamma family, Bessel functions, integrals.
//
// They take floats; integers of 64 bits are taken as f64, others and bool as f32. Other dtypes throw TypeMismatch.
// Results are within 4 units in the last place unless something else is said; what iterates computes smaller floats in
// f64. Arguments outside the domain give NaN.
#pragma once

#include <cstdint>

#include "shoal/array.h"
#include "shoal/numpy.h"

namespace shoal::special {

// ---- Modified Bessel functions of the first kind.

Array i0(const Operand& x);   ///< Of order 0.
Array i1(const Operand& x);   ///< Of order 1.
Array i0e(const Operand& x);  ///< exp(-|x|) i0(x).
Array i1e(const Operand& x);  ///< exp(-|x|) i1(x).

// ---- The gamma family.

/// The share of the gamma function's integral that lies below x: f64 to 12 digits of the smaller share.
Array gammainc(const Operand& a, const Operand& x);
/// The share above x, likewise.
Array gammaincc(const Operand& a, const Operand& x);
/// The derivative of gammainc by a; for an a up to 10^6.
Array igamma_grad_a(const Operand& a, const Operand& x);
/// The share of the beta function's integral that lies below x: f64 to 12 digits, fewer for an a or b beyond 1000. It
/// has a derivative by x.
Array betainc(const Operand& a, const Operand& b, const Operand& x);
/// The derivative of a sample of the gamma distribution by its shape a, where what is random stays the same. NaN for
/// numbers that are not positive, and infinite ones; 0 for a sample of 0.
Array random_gamma_grad(const Operand& a, const Operand& sample);
/// The zeta function of Hurwitz, the sum of (q + n)^-x over n >= 0. NaN for x < 1, and for negative q unless x is an
/// integer; for q down to -5000. It has a derivative by q.
Array zeta(const Operand& x, const Operand& q);
/// The n-th derivative of digamma, for integers n >= 0; NaN for other n.
Array polygamma(const Operand& n, const Operand& x);
/// The logarithm of the gamma function of d dimensions.
Array multigammaln(const Operand& a, std::int64_t d);
/// gamma(z + m) / gamma(z).
Array poch(const Operand& z, const Operand& m);
/// How many ways there are to choose k of n, by gamma functions; 0 where k is negative or greater than n.
Array comb(const Operand& n, const Operand& k);

// ---- Integrals.

Array ndtr(const Operand& x);                    ///< The normal distribution.
Array ndtri(const Operand& p);                   ///< The inverse of ndtr.
Array log_ndtr(const Operand& x);                ///< The logarithm of the normal distribution.
Array erfcx(const Operand& x);                   ///< exp(x^2) erfc(x).
Array erfcinv(const Operand& x);                 ///< The inverse of erfc, also exact where x is small.
Array dawsn(const Operand& x);                   ///< exp(-x^2) times the integral of exp(t^2) from 0 to x.
Array expn(const Operand& n, const Operand& x);  ///< The integral of exp(-x t) / t^n from 1 on, for a whole n.
Array exp1(const Operand& x);                    ///< The same for n = 1.
Array expi(const Operand& x);                    ///< The integral of exp(t) / t up to x.
Array spence(const Operand& x);                  ///< The integral of log(t) / (1 - t) from 1 to x.

// ---- Transformations of Box and Cox.

Array boxcox(const Operand& x, const Operand& lambda);    ///< (x^lambda - 1) / lambda; log(x) where lambda is 0.
Array boxcox1p(const Operand& x, const Operand& lambda);  ///< The same of 1 + x.

}  // namespace shoal::special
