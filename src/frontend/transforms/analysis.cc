#include "frontend/transforms/analysis.h"

#include <vector>

#include "spmd/cost.h"

namespace shoal {
namespace {

std::int64_t bytes_of(const Type& type) {
  return num_elements(type.shape) * static_cast<std::int64_t>(size_of(type.dtype));
}

}  // namespace

CostAnalysis cost_of(const Graph& graph) {
  CostAnalysis cost;
  for (const Eqn& eqn : graph.eqns) {
    cost.bytes_exchanged += received_bytes(graph, eqn);
    if (eqn.op->op_class != OpClass::kCollective) cost.flops += flops(graph, eqn);
    for (const auto* ids : {&eqn.inputs, &eqn.outputs}) {
      for (ValueId id : *ids) cost.bytes_accessed += static_cast<double>(bytes_of(graph.type(id)));
    }
  }
  return cost;
}

}  // namespace shoal
