// How samples of the gamma distribution depend on its shape.
#pragma once

#include "shoal/array.h"

namespace shoal {

/// The derivative of log(x) by a, where x is the sample of shape a for a given share of samples below it. log_x is f64.
/// In a dtype of floats, and as exact as that.
Array slope_of_log_sample(const Array& a, const Array& log_x, Dtype dtype);

}  // namespace shoal
