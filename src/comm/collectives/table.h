// The collectives: what works out each op of OpClass::kCollective, by the op's name.
#pragma once

#include <span>
#include <string_view>

#include "comm/collectives/collective.h"
#include "ir/graph.h"

namespace shoal::collectives {

// Each is defined in the file of its name, which says what it does with its operands and attributes.
CollectivePtr all_gather(const Context& context);
CollectivePtr all_reduce(const Context& context);
CollectivePtr all_to_all(const Context& context);
CollectivePtr axis_index(const Context& context);
CollectivePtr collective_permute(const Context& context);
CollectivePtr exclusive_scan(const Context& context);
CollectivePtr pbroadcast(const Context& context);
CollectivePtr pvary(const Context& context);
CollectivePtr ragged_all_to_all(const Context& context);
CollectivePtr rearrange(const Context& context);
CollectivePtr reduce_scatter(const Context& context);
CollectivePtr shard_slice(const Context& context);

struct Row {
  std::string_view op;
  CollectivePtr (*make)(const Context& context);
};

inline constexpr Row kTable[] = {
    {"all_gather", all_gather},
    {"all_reduce", all_reduce},
    {"all_to_all", all_to_all},
    {"axis_index", axis_index},
    {"collective_permute", collective_permute},
    {"exclusive_scan", exclusive_scan},
    {"pbroadcast", pbroadcast},
    {"pvary", pvary},
    {"ragged_all_to_all", ragged_all_to_all},
    {"rearrange", rearrange},
    {"reduce_scatter", reduce_scatter},
    {"shard_slice", shard_slice},
};

/// What a collective is worked out from: an equation of a partitioned graph, whose values have shards of these shapes.
Context context_of(const Graph& graph, const Eqn& eqn, std::span<const ShardShapes> shapes);

/// The collective of an equation of a partitioned graph, whose values have shards of these shapes. Throws InternalError
/// for an op that is not in the table.
CollectivePtr make_collective(const Graph& graph, const Eqn& eqn, std::span<const ShardShapes> shapes);

}  // namespace shoal::collectives
