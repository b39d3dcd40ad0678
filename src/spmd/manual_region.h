// The bodies of shard_map in the program of one device.
#pragma once

#include <span>
#include <vector>

#include "ir/graph.h"

namespace shoal {

/// Appends the equations of a shard_map body over `mesh` to a partitioned graph whose grid covers the mesh. The body's
/// inputs are replaced by `arguments`; returns the values that stand for its outputs. Axis names become axes of the
/// grid, and each value is noted to vary over the atoms along which devices really hold different data, which may be
/// fewer than its type says: what all_gather gives is the same on every device.
std::vector<ValueId> inline_manual_region(Graph& target, const Graph& body, const Mesh& mesh,
                                          std::span<const ValueId> arguments);

}  // namespace shoal
