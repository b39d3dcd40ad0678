// What a partitioned program exchanges, read from its text.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "ir/graph.h"
#include "ops/table.h"
#include "spmd/test_collectives.h"

namespace shoal::test_support {

/// The elements of the largest array that one device receives or makes in a partitioned graph; of its inputs, what it
/// holds of them.
inline std::int64_t largest_on_a_device(const std::string& text) {
  const Graph graph = parse_graph(text, find_op);
  std::int64_t largest = 0;
  for (const Value& value : graph.values) largest = std::max(largest, num_elements(value.type.shape));
  return largest;
}

/// The elements of the largest array that a device gathers in a partitioned graph.
inline std::int64_t largest_gathered(const std::string& text) {
  const Graph graph = parse_graph(text, find_op);
  std::int64_t largest = 0;
  for (const Eqn& eqn : graph.eqns) {
    if (eqn.op->name == "all_gather") largest = std::max(largest, num_elements(graph.type(eqn.outputs[0]).shape));
  }
  return largest;
}

}  // namespace shoal::test_support
