// What a partitioned graph costs on one device, counted from its types.
#pragma once

#include "ir/graph.h"
#include "shoal/jit.h"

namespace shoal {

CostAnalysis cost_of(const Graph& graph);

}  // namespace shoal
