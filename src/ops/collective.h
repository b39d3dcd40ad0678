// Groups of a collective that are not all the devices along its axes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/attrs.h"
#include "ir/graph.h"

namespace shoal {

/// Writes `groups` into the attributes of a collective: "groups" has all positions in a row, "group_sizes" the length
/// of each group. Nothing for none.
void set_index_groups(Attrs& attrs, const std::vector<Dims>& groups);
/// Reads them back.
std::vector<Dims> index_groups(const Attrs& attrs);

// What follows throws misuse().

/// The number of devices along axes, all of which `bound` has. Throws UnboundAxisError for one that no enclosing
/// shard_map or pmap binds, and InvalidArgument for one that is named twice.
std::int64_t devices_along(const AxisEnv& bound, const std::vector<std::string>& axes);
/// Throws InvalidArgument unless the groups have each of `devices` positions along the axes once and, if `even`, are of
/// one size.
void check_index_groups(const std::vector<Dims>& groups, const std::vector<std::string>& axes, std::int64_t devices,
                        bool even);

/// Whether a collective of a partitioned graph gives each device something of its own alone: it never exchanges
/// anything, wherever the devices are.
bool exchanges_nothing(const Graph& graph, const Eqn& eqn);

}  // namespace shoal
