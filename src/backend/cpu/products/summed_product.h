// Products whose results are summed over devices of one process: each tile of the sum is made from the tiles of all
// devices' products while these are in a cache, and no product is stored whole.
#pragma once

#include <span>

#include "comm/collectives/collective.h"
#include "comm/collectives/shard_set.h"
#include "ir/graph.h"

namespace shoal::cpu {

/// Whether a product and the sum of its result over devices are better computed as one, by the op `summed_product`. It
/// gives the same bits as both one after the other, as other processes may compute them.
bool sums_as_computed(const Graph& graph, const Eqn& product, const Eqn& sum);

/// What computes an equation of the op `summed_product`.
collectives::CollectivePtr summed_product(const Graph& graph, const Eqn& eqn, std::span<const ShardShapes> shapes);

}  // namespace shoal::cpu
