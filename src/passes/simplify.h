// Removes equations that change nothing, and makes one of two that follow each other: a transpose of a transpose, a
// reshape of a reshape, an operand that is a scalar in disguise. The results keep their bits, types and devices.
#pragma once

#include "ir/graph.h"

namespace shoal {

/// In shard_map bodies too. What is no longer used stays, for dce to remove.
Graph simplify(Graph graph);

}  // namespace shoal
