#include "frontend/transforms/analysis.h"

#include <vector>

#include "spmd/cost.h"

namespace shoal {
CostAnalysis cost_of(const Graph& graph) {
  CostAnalysis cost;
  for_each_counted(graph, [&](const CountedEqn& one) {
    const Eqn& eqn = one.eqn;
    if (eqn.op->op_class == OpClass::kControl) return;  // What it runs is counted.
    cost.bytes_exchanged += one.times * received_bytes(one.graph, eqn);
    if (eqn.op->op_class != OpClass::kCollective) cost.flops += one.times * flops(one.graph, eqn);
    for (const auto* ids : {&eqn.inputs, &eqn.outputs}) {
      for (ValueId id : *ids) cost.bytes_accessed += one.times * bytes_of(one.graph.type(id));
    }
  });
  return cost;
}

}  // namespace shoal
