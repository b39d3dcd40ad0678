// The functions of jax.nn.
#pragma once

#include "shoal/array.h"

namespace shoal::nn {

Array sigmoid(const Operand& x);  ///< 1 / (1 + exp(-x)).
Array relu(const Operand& x);     ///< max(x, 0).

}  // namespace shoal::nn
