// What a checkpoint with a budget keeps: of the values inside, those that save most work for the bytes that it may
// keep.
#pragma once

#include <span>

#include "ir/graph.h"
#include "transform/save_rules.h"

namespace shoal {

/// The values of a graph, and of those that its calls, branches and loops hold, with which `wanted` take least work to
/// compute again, among those that take no more than the budget of the rules. Of loops a value counts with its stack,
/// and what rules keep anyway does not count. Of up to 16 values no choice is better; of more the choice is that of two
/// greedy ones which takes less, as the problem contains that of the knapsack.
ChosenValues cheapest_to_keep(const Graph& graph, std::span<const ValueId> wanted, const SaveRules& rules);

}  // namespace shoal
