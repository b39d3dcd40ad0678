// Computes what is computed twice only once: equations of the same op, attributes and operands become one, in shard_map
// bodies too.
#pragma once

#include "ir/graph.h"

namespace shoal {

/// What costs nothing to make again, such as a constant, stays where it is: each user can then have it where it wants
/// it. Later equations are still recognised as equal.
Graph cse(Graph graph);

}  // namespace shoal
