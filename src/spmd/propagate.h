// Sharding propagation: from the placements that are given to one for every value.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"

namespace shoal {

/// Gives every value of `graph` a placement on its grid.
///
/// `inputs` holds the placements of the inputs that are fixed; the others are chosen. Results of sharding_constraint
/// and shard_map are fixed by their specs, but for unconstrained dimensions.
///
/// The algorithm is Shardy's (openxla/shardy, docs/propagation.md): each op's sharding rule carries splits between the
/// dimensions that share a factor, in rounds from ops that all dimensions pass to all of them; in each round first what
/// nobody disagrees with, then the rest. A placement is only ever refined. Where tensors disagree, that wish wins with
/// which the op takes the least time (spmd/cost.h), and of equals that of the larger tensor. Where axes cannot go on,
/// as along the dimension of which a loop takes slices, others are split by them if the whole program then takes less
/// time: it is partitioned with and without. Outputs of the graph that are not fixed end up evenly split.
Graph propagate(Graph graph, const std::vector<std::optional<Placement>>& inputs);

}  // namespace shoal
