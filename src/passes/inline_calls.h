// Replaces every jit equation by the equations of its graph, in shard_map bodies too.
#pragma once

#include "ir/graph.h"

namespace shoal {

Graph inline_calls(const Graph& graph);

/// The same for regions of recomputation, too, which passes keep closed: once these are over, and for a look at all
/// that is computed.
Graph inline_calls_and_regions(Graph graph);

}  // namespace shoal
