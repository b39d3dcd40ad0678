// The partitioner: from a graph over global values with placements to the program of one device.
#pragma once

#include "ir/graph.h"

namespace shoal {

/// The program that every device runs on its shards, with communication explicit.
///
/// `graph` has been propagated. Each op runs on the split of its factors that takes the least time (spmd/cost.h), given
/// where its operands lie and where its results are wanted; manual regions have been opened. A split reduction
/// leaves its result partial until a use needs it complete, so that a partial value that is wanted split costs one
/// reduce_scatter. Outputs lie where `graph` places them. Partial results of f16 and bf16 are kept in f32. In the place
/// of ops that are composed of others stand the equations that compute a shard.
Graph partition(const Graph& graph);

}  // namespace shoal
