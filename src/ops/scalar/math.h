// The mathematical functions as scalar bodies.
//
// Functions of floats work on f32 and f64; on f16 and bf16 they compute in f32 and round once at the end. Errors are
// stated in units in the last place (ulp) of the result, as (f32, f64), and are asserted by the tests. Zeros,
// infinities, NaN, subnormal numbers and overflow are as IEEE 754 and C99 Annex F have them. Integers and complex
// numbers are accepted where a function says so; other dtypes throw InternalError.
#pragma once

#include <cstdint>

#include "ops/scalar/expr.h"

namespace shoal::scalar {

// Exponentials and logarithms.
Expr exp(Expr x);          ///< (0.8, 0.8) ulp.
Expr exp2(Expr x);         ///< (0.8, 0.8) ulp; exact for integers.
Expr expm1(Expr x);        ///< exp(x) - 1; (0.95, 1.1) ulp.
Expr log(Expr x);          ///< (0.65, 0.65) ulp.
Expr log2(Expr x);         ///< (0.75, 0.75) ulp; exact for powers of two.
Expr log1p(Expr x);        ///< log(1 + x); (0.65, 0.65) ulp.
Expr pow(Expr x, Expr y);  ///< (0.51, 0.8) ulp, special cases of C. Also of integers: wraps, and x^-n truncates.
Expr rsqrt(Expr x);        ///< 1 / sqrt(x); (0.51, 0.51) ulp.

// Sigmoid functions.
Expr tanh(Expr x);      ///< (0.8, 0.8) ulp.
Expr logistic(Expr x);  ///< 1 / (1 + exp(-x)); (0.8, 0.8) ulp.
Expr erf(Expr x);       ///< (0.95, 1) ulp.

// Trigonometric functions, reduced exactly for all finite arguments.
Expr sin(Expr x);  ///< (0.51, 0.8) ulp.
Expr cos(Expr x);  ///< (0.51, 0.8) ulp.
Expr tan(Expr x);  ///< (0.51, 1) ulp.

// Arithmetic on all numbers, complex ones included. Of complex numbers, `mul` is the textbook formula; `div` does not
// overflow or underflow on the way, has an error below 4 ulp in each part, and recovers infinities as C99 Annex G does.
Expr add(Expr x, Expr y);
Expr sub(Expr x, Expr y);
Expr mul(Expr x, Expr y);
Expr div(Expr x, Expr y);
Expr neg(Expr x);
Expr absolute(Expr x);  ///< Of complex numbers, the modulus: real, (0.51, 0.8) ulp, without overflow on the way.
Expr eq(Expr x, Expr y);
Expr ne(Expr x, Expr y);

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
/// x^n by repeated multiplication, of all numbers; n < 0 divides 1 by it and is not for integers.
Expr integer_pow(Expr x, std::int64_t n);

// Of floats.
Expr is_nan(Expr x);
Expr is_finite(Expr x);
Expr copysign(Expr magnitude, Expr sign);

}  // namespace shoal::scalar
