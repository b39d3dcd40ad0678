// Groups of a collective that are not all the devices along its axes.
#pragma once

#include <vector>

#include "ir/attrs.h"

namespace shoal {

/// Writes `groups` into the attributes of a collective: "groups" has all positions in a row, "group_sizes" the length
/// of each group. Nothing for none.
void set_index_groups(Attrs& attrs, const std::vector<Dims>& groups);
/// Reads them back.
std::vector<Dims> index_groups(const Attrs& attrs);

}  // namespace shoal
