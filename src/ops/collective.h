// Collectives: groups that are not all the devices along the axes, names, and traffic.
#pragma once

#include <string_view>
#include <vector>

#include "ir/attrs.h"
#include "ir/graph.h"

namespace shoal {

/// Writes `groups` into the attributes of a collective: "groups" has all positions in a row, "group_sizes" the length
/// of each group. Nothing for none.
void set_index_groups(Attrs& attrs, const std::vector<Dims>& groups);
/// Reads them back.
std::vector<Dims> index_groups(const Attrs& attrs);

/// The function that users call for an equation, where it has another name than the op: psum for an all_reduce that
/// adds up.
std::string_view user_name(const Eqn& eqn);

/// The traffic of an all_reduce, as a reduce_scatter and an all_gather: CollectiveFacts::received_bytes.
double received_of_all_reduce(const TrafficContext& context);

/// Whether a collective of a partitioned graph gives each device something of its own alone: it never exchanges
/// anything, wherever the devices are.
bool exchanges_nothing(const Graph& graph, const Eqn& eqn);

}  // namespace shoal
