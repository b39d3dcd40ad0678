// Moves out of loops what is the same in every trip, if its result takes no more memory than what it is made of: what
// is made of less is better made again. Nothing leaves a branch or a region.
#pragma once

#include "ir/graph.h"

namespace shoal {

Graph hoist(const Graph& graph);

}  // namespace shoal
