// Kernels that run an op's reference.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace shoal {

/// Throws Unsupported, naming the back end that asks, for an op without a reference.
std::unique_ptr<Kernel> reference_kernel(const Eqn& eqn, std::string_view backend);

}  // namespace shoal
