// Reductions over devices of several processes.
//
// Each process first reduces what it has: of the fixed tree (tree_reduction.h), the largest subtrees all of whose
// shards it holds. It gives others these partial results, and who makes a shard of the result finishes the tree; hence
// the bits are those of one process, however the devices are divided. Where several processes need one large shard,
// each makes a range of it, and then they give each other these ranges: of N processes that hold a subtree each, every
// one gets 2 (N - 1) / N of the shard instead of N - 1 of it. That is the algorithm of Rabenseifner, in two rounds
// instead of logarithmically many: Thakur, Rabenseifner, Gropp, Optimization of Collective Communication Operations in
// MPICH, 2005.
//
// Between hosts the same is done once more: of what crosses to another host, one process of a host first makes the
// largest subtrees all of whose shards that host holds, and what the other host has made comes to one of its processes,
// from which the others have it. So each host is sent as much as if it were one process.
#pragma once

#include <vector>

#include "comm/collectives/collective.h"
#include "comm/collectives/collective_parts.h"

namespace shoal::collectives {

/// The shards of `result`, whose elements are the given runs of those of the operand's shards in the group, reduced.
/// There is one of `runs` for all shards of the result, or one for each.
CollectivePtr process_reduction(const ShardShapes& in, ShardShapes result, const Groups& groups, ReduceKind kind,
                                std::vector<Runs> runs);

}  // namespace shoal::collectives
