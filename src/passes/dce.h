// Removes equations whose results nobody uses and that have no effect, in shard_map bodies too. Inputs of the graph
// stay. Values are numbered anew in the order of their definition.
#pragma once

#include "ir/graph.h"

namespace shoal {

Graph dce(const Graph& graph);

}  // namespace shoal
