// Replaces every jit equation by the equations of its graph, in shard_map bodies too.
#pragma once

#include "ir/graph.h"

namespace shoal {

Graph inline_calls(const Graph& graph);

}  // namespace shoal
