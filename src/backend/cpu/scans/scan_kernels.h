// Kernels of cumulative reductions (src/ops/cumulative.cc). Each takes an equation of its op.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace shoal::cpu {

std::unique_ptr<Kernel> cumsum_kernel(const Graph& graph, const Eqn& eqn);
std::unique_ptr<Kernel> cumprod_kernel(const Graph& graph, const Eqn& eqn);
std::unique_ptr<Kernel> cummax_kernel(const Graph& graph, const Eqn& eqn);
std::unique_ptr<Kernel> cummin_kernel(const Graph& graph, const Eqn& eqn);
std::unique_ptr<Kernel> cumlogsumexp_kernel(const Graph& graph, const Eqn& eqn);

}  // namespace shoal::cpu
