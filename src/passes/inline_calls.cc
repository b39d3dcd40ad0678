#include "passes/inline_calls.h"

#include <unordered_map>

#include "ir/bodies.h"

namespace shoal {
namespace {

bool is_call(const Eqn& eqn) { return eqn.op->op_class == OpClass::kCall; }

bool is_call_or_region(const Eqn& eqn) {
  if (eqn.op->control == nullptr) return is_call(eqn);
  const Control control = eqn.op->control(eqn.attrs);
  return control.num_bodies == 1 && !control.loops && control.first_argument == 0;
}

template <bool (*kIsOpened)(const Eqn&)>
Graph inlined(const Graph& graph) {
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
    if (kIsOpened(eqn)) {
      const Graph body = inlined<kIsOpened>(is_call(eqn) ? eqn.attrs.graph() : *bodies_of(eqn).front());
      const std::vector<ValueId> outputs = inline_graph(result, body, copy.inputs);
      for (std::size_t i = 0; i < outputs.size(); ++i) renamed[eqn.outputs[i]] = outputs[i];
      continue;
    }
    map_bodies(copy, &inlined<kIsOpened>);
    for (ValueId& id : copy.outputs) id = fresh(id);
    result.eqns.push_back(std::move(copy));
  }
  for (ValueId id : graph.outputs) result.outputs.push_back(renamed.at(id));
  return result;
}

}  // namespace

Graph inline_calls(const Graph& graph) { return inlined<&is_call>(graph); }
Graph inline_calls_and_regions(const Graph& graph) { return inlined<&is_call_or_region>(graph); }

}  // namespace shoal
