// Removes equations whose results nobody uses and that have no effect, in bodies too, and carries, slices, captures and
// results of loops and branches that nobody needs. Inputs of the graph
// stay. Values are numbered anew in the order of their definition.
#pragma once

#include "ir/graph.h"

namespace shoal {

Graph dce(const Graph& graph);

}  // namespace shoal
