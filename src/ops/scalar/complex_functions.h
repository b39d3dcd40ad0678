// The mathematical functions of complex numbers. c64 computes in c128 and rounds once.
//
// Each function is that of math.h with the same name, on the principal branch; branch cuts, and what signed zeros say
// about them, are as in C99 Annex G. Errors are stated there as in units in the last place of the modulus.
#pragma once

#include "ops/scalar/expr.h"

namespace shoal::scalar {

Expr complex_exp(Expr z);
Expr complex_expm1(Expr z);
Expr complex_log(Expr z);
Expr complex_log1p(Expr z);
Expr complex_sqrt(Expr z);
Expr complex_rsqrt(Expr z);
Expr complex_pow(Expr z, Expr w);
Expr complex_logistic(Expr z);
Expr complex_sin(Expr z);
Expr complex_cos(Expr z);
Expr complex_tan(Expr z);
Expr complex_sinh(Expr z);
Expr complex_cosh(Expr z);
Expr complex_tanh(Expr z);
Expr complex_arcsin(Expr z);
Expr complex_arccos(Expr z);
Expr complex_arctan(Expr z);
Expr complex_arcsinh(Expr z);
Expr complex_arccosh(Expr z);
Expr complex_arctanh(Expr z);

}  // namespace shoal::scalar
