// The reduction of a group's shards, which all_reduce and reduce_scatter share.
//
// It is made in a fixed balanced tree over the positions of the group in device order, so that the bits depend on the
// mesh alone: the left half has the greatest power of two below the number of positions. One pass over the operands per
// result.
#pragma once

#include <vector>

#include "comm/collectives/collective.h"
#include "comm/collectives/collective_parts.h"

namespace shoal::collectives {

/// The shards of `result`, whose elements are the given runs of those of the operand's shards in the group, reduced.
/// There is one of `runs` for all shards of the result, or one for each.
CollectivePtr reduction(const ShardShapes& in, ShardShapes result, const Groups& groups, ReduceKind kind,
                        std::vector<Runs> runs);

}  // namespace shoal::collectives
