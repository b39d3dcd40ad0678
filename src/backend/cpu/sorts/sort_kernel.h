// Kernels of sort and top_k.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace shoal::cpu {

/// nullptr for other ops.
std::unique_ptr<Kernel> sort_kernel(const Eqn& eqn);

}  // namespace shoal::cpu
