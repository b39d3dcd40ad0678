// Attention and its gradient, a block of queries at a time.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace shoal::cpu {

std::unique_ptr<Kernel> attention_kernel(const Graph& graph, const Eqn& eqn);
std::unique_ptr<Kernel> attention_gradient_kernel(const Graph& graph, const Eqn& eqn);

}  // namespace shoal::cpu
