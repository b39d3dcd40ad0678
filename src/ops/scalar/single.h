// The functions of f32 that programs spend their time in, in as few operations as 2 ulp allow: everything in f32, one
// division at most. Their special cases are those of math.h.
#pragma once

#include "ops/scalar/expr.h"

namespace shoal::scalar {

Expr exp_f32(Expr x);
Expr exp2_f32(Expr x);
Expr expm1_f32(Expr x);
Expr log_f32(Expr x);
Expr log1p_f32(Expr x);
Expr arcsinh_f32(Expr x);
Expr tanh_f32(Expr x);
Expr logistic_f32(Expr x);
Expr erf_f32(Expr x);
Expr sin_f32(Expr x);
Expr cos_f32(Expr x);
Expr tan_f32(Expr x);

}  // namespace shoal::scalar
