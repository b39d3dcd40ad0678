#include "passes/inline_calls.h"

#include <unordered_map>

#include "ir/bodies.h"

namespace shoal {

Graph inline_calls(const Graph& graph) {
  Graph result;
  result.name = graph.name;
  result.axes = graph.axes;
  result.grid = graph.grid;
  std::unordered_map<ValueId, ValueId> renamed;
  const auto fresh = [&](ValueId id) {
    const ValueId made = result.add_value({});
    result.value(made) = graph.value(id);
    renamed[id] = made;
    return made;
  };
  for (ValueId id : graph.inputs) result.inputs.push_back(fresh(id));
  for (const Eqn& eqn : graph.eqns) {
    Eqn copy = eqn;
    for (ValueId& id : copy.inputs) id = renamed.at(id);
    if (eqn.op->op_class == OpClass::kCall) {
      const std::vector<ValueId> outputs = inline_graph(result, inline_calls(eqn.attrs.graph()), copy.inputs);
      for (std::size_t i = 0; i < outputs.size(); ++i) renamed[eqn.outputs[i]] = outputs[i];
      continue;
    }
    map_bodies(copy, &inline_calls);
    for (ValueId& id : copy.outputs) id = fresh(id);
    result.eqns.push_back(std::move(copy));
  }
  for (ValueId id : graph.outputs) result.outputs.push_back(renamed.at(id));
  return result;
}

}  // namespace shoal
