// Zeros that stay zeros: what a tangent or cotangent of zero is multiplied with, or divided by, may be infinite or NaN.
#pragma once

#include <vector>

#include "ir/graph.h"
#include "ops/builder.h"
#include "ops/derivatives.h"

namespace shoal {

/// Replaces the values that an elementwise operation takes beside a linear one by ones where that is zero.
void shield(std::vector<MaybeValue>& values, ValueId linear, Builder& build);

/// A graph that is linear in its inputs from `first_linear` on, with elementwise operations shielded, in the graphs of
/// calls, loops, branches and regions, too. Calls with rules of the user's stay as they are.
Graph with_strong_zeros(const Graph& linear, std::size_t first_linear);

}  // namespace shoal
