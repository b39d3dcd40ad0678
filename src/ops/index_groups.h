// Which devices a collective is among: the checks that its function and its record share. They throw misuse().
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace shoal {

/// The number of devices along axes, all of which `bound` has. Throws UnboundAxisError for one that no enclosing
/// shard_map or pmap binds, and InvalidArgument for one that is named twice.
std::int64_t devices_along(const AxisEnv& bound, const std::vector<std::string>& axes);

/// Throws InvalidArgument unless the groups have each of `devices` positions along the axes once and, if `even`, are of
/// one size.
void check_index_groups(const std::vector<Dims>& groups, const std::vector<std::string>& axes, std::int64_t devices,
                        bool even);

}  // namespace shoal
