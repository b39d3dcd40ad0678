// Sharding propagation: from the placements that are given to one for every value.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"

namespace shoal {

/// Gives every value of `graph` a placement on its grid.
///
/// `inputs` holds the placements of the inputs that are fixed; the others are chosen. Results of sharding_constraint
/// and shard_map are fixed by their specs, but for unconstrained dimensions. The algorithm is Shardy's: each op's
/// sharding rule carries splits between the dimensions that share a factor, elementwise ops first, then all; a
/// placement is only ever refined; where tensors disagree the larger one wins. Outputs of the graph that are not fixed
/// end up evenly split.
Graph propagate(Graph graph, const std::vector<std::optional<Placement>>& inputs);

}  // namespace shoal
