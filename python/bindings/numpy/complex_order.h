// The order of complex numbers that JAX has for maxima and the like: by real parts, then by imaginary ones, as `less`
// compares them. The library refuses complex numbers there, for lack of a meaning.
#pragma once

#include "bindings/numpy/numpy.h"

namespace shoal::python {

bool is_complex_operand(const Operand& x);

/// The greatest, or least, element over dimensions: NaN if there is one.
Array ordered_extreme(const Operand& x, const ReduceOptions& options, bool greatest);
/// The same of the elements that are no NaN, and NaN if there are none.
Array ordered_number_extreme(const Operand& x, const ReduceOptions& options, bool greatest);
/// The greater, or lesser, of two: NaN if either is.
Array ordered_choice(const Operand& x, const Operand& y, bool greatest);

/// The same, but the other one if one is NaN.
Array ordered_number(const Operand& x, const Operand& y, bool greatest);

// Functions of jax.lax and jax.nn of complex numbers.
Array complex_log2(const Operand& x);
Array complex_exp2(const Operand& x);
Array complex_softmax(const Operand& x, const Axes& axis);
Array complex_log_softmax(const Operand& x, const Axes& axis);
Array complex_logsumexp(const Operand& x, const ReduceOptions& options);
Array complex_relu(const Operand& x);
Array complex_silu(const Operand& x);
Array complex_softplus(const Operand& x);
Array complex_log1mexp(const Operand& x);
/// log(exp(x) + exp(y)), with an argument between -pi and pi.
Array complex_logaddexp(const Operand& x, const Operand& y);
Array complex_logaddexp2(const Operand& x, const Operand& y);  ///< Likewise of base 2.
Array complex_gelu(const Operand& x);                          ///< By its approximation with tanh.

}  // namespace shoal::python
