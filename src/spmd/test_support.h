// Helpers of this folder's tests.
#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/table.h"
#include "spmd/open_regions.h"
#include "spmd/propagate.h"

namespace shoal::test_support {

/// The graph of a text, propagated. Inputs whose placements the text gives are fixed.
inline Graph propagated(std::string_view text) {
  Graph graph = parse_graph(text, find_op);
  std::vector<std::optional<Placement>> inputs;
  for (ValueId id : graph.inputs) inputs.push_back(std::exchange(graph.value(id).placement, std::nullopt));
  verify(graph, "traced");
  Graph result = propagate(open_regions(graph), inputs);
  verify(result, "propagated");
  return result;
}

}  // namespace shoal::test_support
