// The kernel of convolutions.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace shoal::cpu {

/// The kernel of a convolution, of any dtype, in any number of dimensions. Integers wrap as in the reference; floats
/// below f64 are summed in f32 and rounded once. Each element of the result is summed in an order that depends on the
/// extents of the window and the features alone, not on how many images there are or who computes them.
std::unique_ptr<Kernel> convolution_kernel(const Graph& graph, const Eqn& eqn);

}  // namespace shoal::cpu
