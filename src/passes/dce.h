// Removes equations whose results nobody uses and that have no effect, in bodies too, and carries, slices, captures and
// results of loops and branches that nobody needs. Inputs of the graph
// stay. Values are numbered anew in the order of their definition.
#pragma once

#include <vector>

#include "ir/graph.h"

namespace shoal {

Graph dce(Graph graph);

/// A loop or branch with what it takes to give those of its results that are `wanted`, and others that these need.
Eqn narrowed(const Eqn& eqn, std::vector<bool> wanted);

}  // namespace shoal
