// The order of complex numbers that JAX has for maxima and the like: by real parts, then by imaginary ones, as `less`
// compares them. The library refuses complex numbers there, for lack of a meaning.
#pragma once

#include "numpy.h"

namespace shoal::python {

bool is_complex_operand(const Operand& x);

/// The greatest, or least, element over dimensions: NaN if there is one.
Array ordered_extreme(const Operand& x, const ReduceOptions& options, bool greatest);
/// The greater, or lesser, of two: NaN if either is.
Array ordered_choice(const Operand& x, const Operand& y, bool greatest);

// Functions of jax.nn of complex numbers.
Array complex_softmax(const Operand& x, const Axes& axis);
Array complex_log_softmax(const Operand& x, const Axes& axis);
Array complex_logsumexp(const Operand& x, const ReduceOptions& options);
Array complex_relu(const Operand& x);
Array complex_silu(const Operand& x);
Array complex_gelu(const Operand& x, bool approximate);

}  // namespace shoal::python
