// Kernels of ops that read or replace a part of an array, whose place is known when they run. Those that replace do so
// where the array lies, if nobody needs it any more. Each takes an equation of its op.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace shoal::cpu {

/// dynamic_slice; nullptr where the result is of another dtype.
std::unique_ptr<Kernel> window_kernel(const Graph& graph, const Eqn& eqn);
std::unique_ptr<Kernel> window_update_kernel(const Graph& graph, const Eqn& eqn);

}  // namespace shoal::cpu
