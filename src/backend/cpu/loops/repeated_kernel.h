// Kernels that run loops whole: those whose bodies work element by element, on one shape and on scalars, as fused loops
// (loop.h), and those that do so on scalars and single elements of arrays, with branches and loops, as routines
// (routine.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "backend/backend.h"

namespace shoal::cpu {

/// As Backend::compile_repeated says.
std::unique_ptr<RepeatedKernel> repeated_kernel(const Graph& body, const Graph* condition, std::size_t carries,
                                                std::int64_t trips);

}  // namespace shoal::cpu
