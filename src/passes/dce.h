// Removes equations whose results nobody uses, in shard_map bodies too. Inputs of the graph stay.
#pragma once

#include "ir/graph.h"

namespace shoal {

Graph dce(const Graph& graph);

}  // namespace shoal
