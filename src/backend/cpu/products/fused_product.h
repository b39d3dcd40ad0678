// Kernels of matrix products that end in a fused loop: the loop runs over each tile while it is in the cache.
#pragma once

#include <memory>
#include <optional>

#include "backend/backend.h"
#include "backend/cpu/loops/lower.h"

namespace shoal::cpu {

/// Whether an equation is a product.
bool is_product(const Eqn& eqn);

/// The loop of a graph that begins with a product, whose operands are its first two inputs, and goes on with loop ops
/// over the product's elements; nothing if no loop computes them tile by tile. The product is an input of the loop,
/// after those of the graph.
std::optional<LoopPlan> plan_after_product(const Graph& body);

/// The kernel of a graph that plan_after_product has a plan for.
std::unique_ptr<Kernel> fused_product(const Graph& body);

}  // namespace shoal::cpu
