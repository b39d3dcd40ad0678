// Kernels of sort and top_k.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace shoal::cpu {

std::unique_ptr<Kernel> sort_kernel(const Graph& graph, const Eqn& eqn);
std::unique_ptr<Kernel> top_k_kernel(const Graph& graph, const Eqn& eqn);

}  // namespace shoal::cpu
