// Functions of jax.scipy.special that are not elementwise ops: the gamma family, Bessel functions, integrals.
//
// They take floats; integers of 64 bits are taken as f64, others and bool as f32. Throws TypeMismatch for other dtypes.
// Results are within 4 units in the last place unless something else is said (the hypergeometric functions, bessel_jn
// 32, sph_harm_y 16, owens_t 32 in f64, wofz 16 and 450 in f64, as tests have it); what iterates computes smaller
// floats in f64. Arguments outside the domain give NaN.
//
// @param x An array or a number, real.
// @param a As x; shapes broadcast, and dtypes promote.
// @param b As x.
// @return A float of the shape to which the arguments broadcast.
#pragma once

#include <cstdint>

#include "shoal/array.h"
#include "shoal/numpy.h"

namespace shoal::special {

// ---- Modified Bessel functions of the first kind.

/// Of order 0.
/// @example special::i0(1.0f)
///   1.2660658
Array i0(const Operand& x);
Array i1(const Operand& x);   ///< Of order 1.
Array i0e(const Operand& x);  ///< exp(-|x|) i0(x).
Array i1e(const Operand& x);  ///< exp(-|x|) i1(x).

// ---- The gamma family.

/// The share of the gamma function's integral that lies below x: f64 to 12 digits of the smaller share.
/// @param a The shape, positive.
/// @param x Where the integral ends, not negative.
/// @example special::gammainc(1.0f, 1.0f)
///   0.63212055
Array gammainc(const Operand& a, const Operand& x);
/// The share above x, likewise.
/// @param a The shape, positive.
/// @param x Where the integral begins, not negative.
Array gammaincc(const Operand& a, const Operand& x);
/// The derivative of gammainc by a; for an a up to 10^6.
/// @param a The shape, positive.
/// @param x Where the integral ends.
Array igamma_grad_a(const Operand& a, const Operand& x);
/// The share of the beta function's integral that lies below x: f64 to 12 digits, fewer for an a or b beyond 1000. It
/// has a derivative by x.
/// @param a The first shape, positive.
/// @param b The second one, positive.
/// @param x Where the integral ends, 0 to 1.
/// @example special::betainc(1.0f, 1.0f, 0.25f)
///   0.25
Array betainc(const Operand& a, const Operand& b, const Operand& x);
/// The derivative of a sample of the gamma distribution by its shape a, where what is random stays the same. NaN for
/// numbers that are not positive, and infinite ones; 0 for a sample of 0.
/// @param a The shape.
/// @param sample What was drawn.
Array random_gamma_grad(const Operand& a, const Operand& sample);
/// The zeta function of Hurwitz, the sum of (q + n)^-x over n >= 0. NaN for x < 1, and for negative q unless x is an
/// integer; for q down to -5000. It has a derivative by q.
/// @param x The exponent, at least 1.
/// @param q The shift.
/// @example special::zeta(2.0f, 1.0f)
///   1.644934
Array zeta(const Operand& x, const Operand& q);
/// The n-th derivative of digamma, for integers n >= 0; NaN for other n.
/// @param n The order of the derivative.
/// @param x Where.
Array polygamma(const Operand& n, const Operand& x);
/// The logarithm of the gamma function of d dimensions.
/// @param d The number of dimensions.
Array multigammaln(const Operand& a, std::int64_t d);
/// gamma(z + m) / gamma(z).
/// @param z Where.
/// @param m By how much the argument rises.
Array poch(const Operand& z, const Operand& m);
/// How many ways there are to choose k of n, by gamma functions; 0 where k is negative or greater than n.
/// @param n Of how many.
/// @param k How many are chosen.
/// @example special::comb(5.0f, 2.0f)
///   10.0
Array comb(const Operand& n, const Operand& k);

// ---- Integrals.

/// The normal distribution.
/// @example special::ndtr(0.0f)
///   0.5
Array ndtr(const Operand& x);
/// The inverse of ndtr.
/// @param p A probability, 0 to 1.
Array ndtri(const Operand& p);
Array log_ndtr(const Operand& x);  ///< The logarithm of the normal distribution.
Array erfcx(const Operand& x);     ///< exp(x^2) erfc(x).
Array erfcinv(const Operand& x);   ///< The inverse of erfc, also exact where x is small.
Array dawsn(const Operand& x);     ///< exp(-x^2) times the integral of exp(t^2) from 0 to x.
/// The integral of exp(-x t) / t^n from 1 on, for a whole n.
/// @param n The power, a whole number that is not negative.
Array expn(const Operand& n, const Operand& x);
Array exp1(const Operand& x);    ///< The same for n = 1.
Array expi(const Operand& x);    ///< The integral of exp(t) / t up to x.
Array spence(const Operand& x);  ///< The integral of log(t) / (1 - t) from 1 to x.

struct SiciResult {
  Array si;  ///< The sine integral.
  Array ci;  ///< The cosine integral.
};
/// The sine and cosine integrals: of sin(t) / t from 0 to x, and of cos(t) / t up to x, which is NaN for negative
/// infinity and depends on |x| otherwise. By their series up to |x| = 4, and beyond it by rational approximations of
/// the auxiliary functions f and g of Abramowitz & Stegun 1964, 5.2.6 and 5.2.7, made for this library. Where the value
/// is near 0 the error is relative to 1.
SiciResult sici(const Operand& x);
struct FresnelResult {
  Array s;  ///< The integral of the sine.
  Array c;  ///< The integral of the cosine.
};
/// The integrals of Fresnel: of sin(pi t^2 / 2) and of cos(pi t^2 / 2) from 0 to x. Up to |x| = 1.6 by their series,
/// and beyond it as sici, by 7.3.5 and 7.3.6 there.
FresnelResult fresnel(const Operand& x);
/// The function T of Owen 1956, "Tables for computing bivariate normal probabilities": the integral of
/// exp(-h^2 (1 + t^2) / 2) / (1 + t^2) from 0 to a, divided by 2 pi. By quadrature of Gauss and Legendre over the part
/// that counts, for |a| <= 1 as it is, and for others of T(a h, 1 / a).
/// @param h The number that multiplies 1 + t^2.
/// @param a Where the integral ends.
Array owens_t(const Operand& h, const Operand& a);
/// The function of Faddeeva, exp(-z^2) erfc(-i z), of complex numbers. By Weideman 1994, "Computation of the complex
/// error function": of c64 to the last digits, of c128 to 13 digits of the greater part.
/// @param z An array or a number; real ones become complex.
/// @return Complex numbers.
Array wofz(const Operand& z);

// ---- Hypergeometric functions.

// Sums of series, which are as exact as their greatest term: for parameters up to 8 in magnitude the error of f64 is at
// most 1e-13 of it for hyp1f1, and 1e-11 for hyp2f1 (1e-14 if the parameters are positive). Smaller floats are computed
// in f64 to 10 digits. Of greater parameters more digits are lost where terms have different signs. Both have
// derivatives by all operands, and second ones by x. (Pearson, Olver & Porter 2017, "Numerical methods for the
// computation of the confluent and Gauss hypergeometric functions", compares methods.)

/// 1F1, Kummer's function: the sum of (a)_n / (b)_n x^n / n! over n >= 0, where (a)_n = a (a + 1) ... (a + n - 1). It
/// is infinite for a b of 0, -1, ..., unless the terms end before; exp(x) for a = b but 0. By at most 4000 terms,
/// beyond |x| = 100 by the asymptotic series where it holds; for x < 0 by Kummer's transformation.
Array hyp1f1(const Operand& a, const Operand& b, const Operand& x);
/// 2F1, Gauss' function: the sum of (a)_n (b)_n / (c)_n x^n / n! over n >= 0, and what continues it to x <= -1. It is
/// infinite for x > 1 and for a c of 0, -1, ..., unless the terms end before. By at most 2000 terms for x up to 0.6,
/// and by Taylor series that halve the distance to 1 beyond it, of 200 terms each at most; for x < 0 by Pfaff's
/// transformation.
/// @param c As x.
Array hyp2f1(const Operand& a, const Operand& b, const Operand& c, const Operand& x);

// ---- Functions of Bessel and Legendre.

struct BesselOptions {
  std::int64_t n_iter = 50;  ///< The order from which the recurrence goes down; beyond |z| and v, or digits get lost.
};
/// Bessel functions of the first kind of orders 0 to v, along a new first dimension. By the downward recurrence of
/// Miller (Gautschi 1967, "Computational aspects of three-term recurrence relations"), in ratios, which do not
/// overflow: to digits of the greatest of them. Throws InvalidArgument for a v that is negative or not below n_iter.
/// @param z An array or a number, real.
/// @param v The greatest order.
/// @return An array [v + 1, ...].
Array bessel_jn(const Operand& z, std::int64_t v, const BesselOptions& options = {});

/// The associated Legendre functions of orders 0 to m and degrees 0 to n, with the phase of Condon and Shortley, along
/// two new first dimensions; 0 where the order is greater. Throws InvalidArgument for negative m and n.
/// @param m The greatest order.
/// @param n The greatest degree.
/// @param z Numbers between -1 and 1, of any shape.
/// @param is_normalized Whether the functions are those that spherical harmonics have as factors.
/// @return An array [m + 1, n + 1, ...].
Array lpmn_values(std::int64_t m, std::int64_t n, const Operand& z, bool is_normalized);
struct LpmnResult {
  Array values;
  Array derivatives;  ///< By z.
};
/// The functions of lpmn_values, not normalized, and their derivatives. Throws InvalidArgument for negative m and n.
/// @param m The greatest order.
/// @param n The greatest degree.
/// @param z Numbers between -1 and 1, of any shape.
/// @return Values and derivatives, both [m + 1, n + 1, ...].
LpmnResult lpmn(std::int64_t m, std::int64_t n, const Operand& z);
/// The spherical harmonics of degree n and order m, integers, at the polar angle theta and the azimuth phi: complex. No
/// degree is above n_max; those above are computed as n_max. Throws InvalidArgument for a negative n_max, and
/// TypeMismatch for a degree or order that is no integer.
/// @param n Degrees.
/// @param m Orders.
/// @param theta Polar angles, 0 to pi.
/// @param phi Azimuths, 0 to 2 pi.
/// @param n_max The greatest degree that there may be.
/// @return Complex numbers.
Array sph_harm_y(const Operand& n, const Operand& m, const Operand& theta, const Operand& phi, std::int64_t n_max);

// ---- Transformations of Box and Cox.

/// (x^lambda - 1) / lambda; log(x) where lambda is 0.
/// @param lambda The power.
Array boxcox(const Operand& x, const Operand& lambda);
/// The same of 1 + x.
/// @param lambda The power.
Array boxcox1p(const Operand& x, const Operand& lambda);

}  // namespace shoal::special
