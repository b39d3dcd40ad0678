// The mathematical functions as scalar bodies.
//
// Functions of floats work on f32 and f64; on f16 and bf16 they compute in f32 and round once at the end. Errors are
// stated in units in the last place (ulp) of the result, as (f32, f64), and are asserted by the tests. Zeros,
// infinities, NaN, subnormal numbers and overflow are as IEEE 754 and C99 Annex F have them. Integers are accepted
// where a function says so, and complex numbers where it is marked C: there the error is in units in the last place of
// the modulus, (c64, c128). Other dtypes throw InternalError.
#pragma once

#include <cstdint>

#include "ops/scalar/expr.h"

namespace shoal::scalar {

// Exponentials and logarithms.
Expr exp(Expr x);          ///< C; (1.7, 0.9) ulp.
Expr exp2(Expr x);         ///< (0.9, 1.2) ulp; exact for integers.
Expr expm1(Expr x);        ///< C; exp(x) - 1; (1.7, 1.7) ulp.
Expr log(Expr x);          ///< C; (1, 0.65) ulp.
Expr log2(Expr x);         ///< (0.75, 0.75) ulp; exact for powers of two.
Expr log10(Expr x);        ///< (0.75, 0.75) ulp; exact for powers of ten.
Expr log1p(Expr x);        ///< C; log(1 + x); (1.6, 0.65) ulp.
Expr pow(Expr x, Expr y);  ///< C; (0.6, 0.8) ulp, special cases of C99. Also of integers: wraps, and x^-n truncates.
Expr rsqrt(Expr x);        ///< C; 1 / sqrt(x); (1.5, 1.5) ulp.
Expr cbrt(Expr x);         ///< The real cube root; (0.51, 0.51) ulp.
Expr logaddexp(Expr x, Expr y);   ///< log(exp(x) + exp(y)); 2 ulp of the greater of |x|, |y|, |result| and 1.
Expr logaddexp2(Expr x, Expr y);  ///< log2(2^x + 2^y); likewise.
Expr xlogy(Expr x, Expr y);       ///< x log(y), and 0 where x is 0 and y a number; (1.9, 1.9) ulp.
Expr xlog1py(Expr x, Expr y);     ///< x log(1 + y), likewise.

// Sigmoid functions.
Expr tanh(Expr x);      ///< C; (1.8, 2.5) ulp.
Expr logistic(Expr x);  ///< C; 1 / (1 + exp(-x)); (1.9, 2.3) ulp.
Expr erf(Expr x);       ///< (1.6, 1) ulp.
Expr erfc(Expr x);      ///< 1 - erf(x), also accurate where that is small; (4, 4) ulp.
Expr erf_inv(Expr x);   ///< The inverse of erf; (4, 4) ulp.
Expr erfcx(Expr x);     ///< exp(x^2) erfc(x); (4, 4) ulp.
Expr erfc_inv(Expr x);  ///< The inverse of erfc, accurate where that is small; (4, 4) ulp.
Expr ndtr(Expr x);      ///< The normal distribution; (4, 4) ulp.
Expr log_ndtr(Expr x);  ///< Its logarithm; (4, 4) ulp.
Expr dawsn(Expr x);     ///< exp(-x^2) times the integral of exp(t^2) from 0 to x; (4, 4) ulp.

// The gamma function. Errors in ulp of the result, or of 1 where that is larger; those of log(gamma(x)) for positive x
// are always in ulp of the result.
Expr lgamma(Expr x);   ///< log(|gamma(x)|); (5, 6).
Expr digamma(Expr x);  ///< The derivative of log(gamma(x)); (5, 8).

// Functions by iterations in f64, to which the errors of f64 refer; those of smaller floats are below 0.6 ulp.

/// The share of the gamma function's integral that lies below x, and that above; 1e-13 + a 1e-16 of the smaller one.
Expr igamma(Expr a, Expr x);
Expr igammac(Expr a, Expr x);
/// The derivative of igamma by a; 1e-12 of the greatest value near, up to an a of 10^6.
Expr igamma_grad_a(Expr a, Expr x);
/// The share of the beta function's integral below x.
Expr betainc(Expr a, Expr b, Expr x);
Expr expn(Expr n, Expr x);  ///< The integral of exp(-x t) / t^n from 1 on, for a whole n.
Expr expi(Expr x);          ///< The integral of exp(t) / t up to x.
Expr zeta(Expr s, Expr q);  ///< The zeta function of Hurwitz.

/// Hypergeometric functions: within 1e-13 (1F1) and 1e-11 (2F1) of the greatest term of their sum, for parameters up to
/// 8 in magnitude and any x. Where the sum has no finite value it is infinite.
Expr hyp1f1(Expr a, Expr b, Expr x);
Expr hyp2f1(Expr a, Expr b, Expr c, Expr x);
/// Their derivatives by parameters, likewise. That of hyp2f1 by b is the one by a of (b, a, c, x).
Expr hyp1f1_grad_a(Expr a, Expr b, Expr x);
Expr hyp1f1_grad_b(Expr a, Expr b, Expr x);
Expr hyp2f1_grad_a(Expr a, Expr b, Expr c, Expr x);
Expr hyp2f1_grad_c(Expr a, Expr b, Expr c, Expr x);

Expr spence(Expr x);  ///< The integral of log(t) / (1 - t) from 1 to x; (4, 4) ulp of itself or 1.

// Modified Bessel functions of the first kind, also times exp(-|x|); (4, 4) ulp.
Expr bessel_i0(Expr x);
Expr bessel_i1(Expr x);
Expr bessel_i0e(Expr x);
Expr bessel_i1e(Expr x);

// Hyperbolic functions and their inverses.
Expr sinh(Expr x);     ///< C; (2.1, 2.1) ulp.
Expr cosh(Expr x);     ///< C; (1.6, 1.6) ulp.
Expr arcsinh(Expr x);  ///< C; (2.5, 0.8) ulp.
Expr arccosh(Expr x);  ///< C; (2.2, 2) ulp.
Expr arctanh(Expr x);  ///< C; (0.8, 0.8) ulp.

// Trigonometric functions, reduced exactly for all finite arguments.
Expr sin(Expr x);   ///< C; (0.51, 0.8) ulp.
Expr cos(Expr x);   ///< C; (0.51, 0.8) ulp.
Expr tan(Expr x);   ///< C; (2, 1) ulp.
Expr sinc(Expr x);  ///< sin(pi x) / (pi x), 1 at 0; (4, 0.8) ulp.

// Their inverses. arctan2 has the special cases of C.
Expr arcsin(Expr x);           ///< C; (2.5, 0.8) ulp.
Expr arccos(Expr x);           ///< C; (2.5, 0.8) ulp.
Expr arctan(Expr x);           ///< C; (2.5, 1.6) ulp.
Expr arctan2(Expr y, Expr x);  ///< The angle of the point (x, y); (3, 0.8) ulp.

// Arithmetic on all numbers, complex ones included. Of complex numbers, `mul` is the textbook formula; `div` does not
// overflow or underflow on the way, has an error below 4 ulp in each part, and recovers infinities as C99 Annex G does.
Expr one_like(Expr x);     ///< 1 in the dtype of x.
Expr square_root(Expr x);  ///< Correctly rounded; of complex numbers, C, (0.51, 2) ulp.
Expr add(Expr x, Expr y);
Expr sub(Expr x, Expr y);
Expr mul(Expr x, Expr y);
Expr div(Expr x, Expr y);
Expr neg(Expr x);
Expr absolute(Expr x);  ///< Of complex numbers, the modulus: real, (0.51, 0.8) ulp, without overflow on the way.
Expr eq(Expr x, Expr y);
Expr ne(Expr x, Expr y);
Expr lt(Expr x, Expr y);  ///< Complex numbers are compared by their real parts, then by their imaginary ones.
Expr le(Expr x, Expr y);  ///< Likewise.

/// -1, 0 or 1; zeros and NaN are returned as they are; x/|x| of complex numbers.
Expr sign(Expr x);
/// The larger one; NaN if one is NaN; real dtypes.
Expr maximum(Expr x, Expr y);
/// The smaller one; NaN if one is NaN; real dtypes.
Expr minimum(Expr x, Expr y);
/// The quotient rounded down, with the results of jnp.floor_divide, also for y = 0. Integers and floats.
Expr floor_divide(Expr x, Expr y);
/// The remainder with the sign of y, as jnp.remainder: 0 for an integer y = 0. Integers and floats.
Expr remainder(Expr x, Expr y);
/// The remainder with the sign of x, as jnp.fmod: 0 for an integer y = 0. Integers and floats.
Expr fmod(Expr x, Expr y);
/// The greater one; the other one if one is NaN. Real dtypes.
Expr fmax(Expr x, Expr y);
/// The lesser one; the other one if one is NaN. Real dtypes.
Expr fmin(Expr x, Expr y);
/// 0 for negative x, 1 for positive x, y where x is 0. Floats.
Expr heaviside(Expr x, Expr y);
/// x^n by repeated multiplication, of all numbers; n < 0 divides 1 by it and is not for integers.
Expr integer_pow(Expr x, std::int64_t n);

// Of floats.
Expr is_nan(Expr x);
Expr is_finite(Expr x);
Expr is_infinite(Expr x);
Expr copysign(Expr magnitude, Expr sign);
Expr hypot(Expr x, Expr y);      ///< sqrt(x^2 + y^2) without overflow on the way; (1.3, 1.3) ulp.
Expr nextafter(Expr x, Expr y);  ///< The next number from x towards y.

/// Whether the sign bit is set: of -0, too. Integers and floats.
Expr signbit(Expr x);

// Of integers.
Expr shift_right_logical(Expr x, Expr count);  ///< Shifts zeros in.
Expr population_count(Expr x);                 ///< The number of bits that are set.
Expr clz(Expr x);                              ///< The number of leading bits that are not set.
Expr gcd(Expr x, Expr y);                      ///< The greatest common divisor, not negative; gcd(0, 0) = 0.
Expr lcm(Expr x, Expr y);                      ///< The least common multiple; 0 if either is 0.

// Random bits.

/// Threefry with 20 rounds on two words of 32 bits: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as
/// 1, 2, 3", 2011. Of u64, whose lower half is the first word.
Expr threefry2x32(Expr key, Expr counter);
/// The words 2 i and 2 i + 1 of a stream of Philox 4x32, of which each block has four, by 10 rounds with `key`. The
/// counter of its first block has `start` as its lower half and `key` as the upper one. All are u64.
Expr philox4x32(Expr key, Expr start, Expr i);

/// The inverse of erf by polynomials, as exact as 1 - x^2 is: for random numbers, which are few near 1. It takes a part
/// of the time of erf_inv; (4, 4) ulp up to 0.99.
Expr quick_erf_inv(Expr x);

/// Functions of random numbers, in f32 with the bits of JAX 0.12 on a CPU, by its formulas, so that differences of two
/// of them are JAX's, too; smaller floats by f32. In f64 they are log, log1p and erf.
Expr quick_log(Expr x);    ///< (1.1, 0.65) ulp; numbers that are not normal count as if they were.
Expr quick_log1p(Expr x);  ///< (2.5, 0.65) ulp above -1 + 2^-24.
Expr quick_erf(Expr x);    ///< (3.1, 1) ulp.

}  // namespace shoal::scalar
