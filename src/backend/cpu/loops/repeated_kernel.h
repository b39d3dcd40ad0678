// Kernels that run loops whole: whose bodies work element by element, on one shape and on scalars.
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
