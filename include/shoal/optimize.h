// The least value of a function: optimize::minimize.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>

#include "shoal/array.h"
#include "shoal/linalg.h"

namespace shoal::optimize {

struct MinimizeOptions {
  std::optional<Operand> maxiter = {};                               ///< Default: 200 for each unknown.
  linalg::NormOrder norm = std::numeric_limits<double>::infinity();  ///< Of the gradient, which gtol is for.
  Operand gtol = 1e-5;                                               ///< The gradient's norm at which it ends.
  std::int64_t line_search_maxiter = 10;                             ///< How many points are tried along a line.
};

/// All arrays, so that a jitted function may return it.
struct OptimizeResults {
  Array x;
  Array success;   ///< bool: whether the gradient is as small as it should be.
  Array status;    ///< i32: 0 for success, 1 if maxiter is reached, 3 and 5 if a search along a line failed.
  Array fun;       ///< The value at x,
  Array jac;       ///< and the gradient.
  Array hess_inv;  ///< What is known of the inverse of the Hessian.
  Array nfev;      ///< i32: how often the function was called,
  Array njev;      ///< and its gradient.
  Array nit;       ///< i32: the number of steps.
};

/// The x near x0, a vector of real numbers, where f(x), a real scalar, is least. Works in jit and vmap; it has no
/// derivative in reverse. Throws InvalidArgument if x0 is no vector, and TypeMismatch if it is not of floats or f gives
/// no scalar of floats.
///
/// BFGS: Nocedal and Wright, "Numerical Optimization", 1999, algorithm 6.1; along a line to where the strong Wolfe
/// conditions hold, algorithms 3.5 and 3.6.
/// @param f The function.
/// @param x0 Where it begins.
OptimizeResults minimize(const std::function<Array(const Array&)>& f, const Operand& x0,
                         const MinimizeOptions& options = {});

}  // namespace shoal::optimize
