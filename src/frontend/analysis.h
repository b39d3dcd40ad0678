// What a partitioned graph costs on one device, counted from its types.
#pragma once

#include <vector>

#include "ir/graph.h"
#include "shoal/jit.h"

namespace shoal {

CostAnalysis cost_of(const Graph& graph);

/// `donated` says for each input whether an output takes its memory.
MemoryAnalysis memory_of(const Graph& graph, const std::vector<bool>& donated);

}  // namespace shoal
