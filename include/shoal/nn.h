// The functions of jax.nn.
#pragma once

#include <cstdint>

#include "shoal/array.h"

namespace shoal::nn {

Array sigmoid(const Operand& x);  ///< 1 / (1 + exp(-x)).
Array relu(const Operand& x);     ///< max(x, 0).

struct OneHotOptions {
  Dtype dtype = float32;
  std::int64_t axis = -1;  ///< Where the new dimension goes.
};
/// A new dimension of extent num_classes, with 1 at the place that each element of x names and 0 elsewhere; all 0 if
/// there is no such place.
Array one_hot(const Operand& x, std::int64_t num_classes, const OneHotOptions& options = {});

}  // namespace shoal::nn
