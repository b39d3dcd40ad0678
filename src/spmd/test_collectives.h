// Which collectives a partitioned program has, read from its text.
#pragma once

#include <map>
#include <string>

#include "ir/bodies.h"
#include "ir/graph.h"
#include "ops/table.h"

namespace shoal::test_support {

using Collectives = std::map<std::string, int>;

/// How often each collective stands in a partitioned graph, with what loops and branches hold. Slices move nothing and
/// are left out.
inline Collectives collectives_in(const std::string& text) {
  Collectives counts;
  for_each_eqn(parse_graph(text, find_op), [&](const Eqn& eqn) {
    const std::string name(eqn.op->name);
    if (eqn.op->op_class != OpClass::kCollective) return;
    if (name != "pvary" && name != "axis_index" && name != "shard_slice") ++counts[name];
  });
  return counts;
}

}  // namespace shoal::test_support
