#include "frontend/analysis.h"

#include <algorithm>
#include <vector>

#include "spmd/cost.h"

namespace shoal {
namespace {

std::int64_t bytes_of(const Type& type) {
  return num_elements(type.shape) * static_cast<std::int64_t>(size_of(type.dtype));
}

std::vector<Type> types_of(const Graph& graph, const std::vector<ValueId>& ids) {
  std::vector<Type> types;
  for (ValueId id : ids) types.push_back(graph.type(id));
  return types;
}

// An elementwise op computes each element of its result; a reduction goes through all that its factors count.
double flops_of(const Graph& graph, const Eqn& eqn) {
  if (eqn.op->elementwise != nullptr) return static_cast<double>(num_elements(graph.type(eqn.outputs[0]).shape));
  if (eqn.op->rule == nullptr) return 0;
  const std::vector<Type> inputs = types_of(graph, eqn.inputs);
  const std::vector<Type> outputs = types_of(graph, eqn.outputs);
  const ShardingRule rule = eqn.op->rule({*eqn.op, inputs, outputs, eqn.attrs});
  const auto reduces = [](const Factor& factor) { return factor.kind == FactorKind::kReduction; };
  if (std::ranges::none_of(rule.factors, reduces)) return 0;
  double count = eqn.op->name == "dot_general" ? 2 : 1;  // A product and a sum.
  for (const Factor& factor : rule.factors) count *= static_cast<double>(factor.size);
  return count;
}

}  // namespace

CostAnalysis cost_of(const Graph& graph) {
  CostAnalysis cost;
  for (const Eqn& eqn : graph.eqns) {
    cost.bytes_exchanged += received_bytes(graph, eqn);
    if (eqn.op->op_class != OpClass::kCollective) cost.flops += flops_of(graph, eqn);
    for (const auto* ids : {&eqn.inputs, &eqn.outputs}) {
      for (ValueId id : *ids) cost.bytes_accessed += static_cast<double>(bytes_of(graph.type(id)));
    }
  }
  return cost;
}

}  // namespace shoal
