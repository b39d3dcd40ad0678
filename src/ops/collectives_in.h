// For tests: what a partitioned program exchanges, read from its text.
#pragma once

#include <map>
#include <string>

#include "ir/graph.h"
#include "ops/table.h"

namespace shoal::test_support {

using Collectives = std::map<std::string, int>;

/// How often each collective stands in a partitioned graph. Slices move nothing and are left out.
inline Collectives collectives_in(const std::string& text) {
  Collectives counts;
  for (const Eqn& eqn : parse_graph(text, find_op).eqns) {
    const std::string name(eqn.op->name);
    if (eqn.op->op_class != OpClass::kCollective) continue;
    if (name != "pvary" && name != "axis_index" && name != "shard_slice") ++counts[name];
  }
  return counts;
}

}  // namespace shoal::test_support
