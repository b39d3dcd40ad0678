#include "passes/simplify.h"

#include <optional>
#include <utility>
#include <vector>

#include "ir/bodies.h"
#include "ir/makers.h"

namespace shoal {

Graph simplify(Graph graph) {
  Graph result;
  result.name = graph.name;
  result.axes = graph.axes;
  result.grid = graph.grid;
  std::vector<ValueId> replaced(graph.values.size(), -1);  // Those that equations add are never replaced.
  result.values = std::move(graph.values);                 // Values keep their numbers.
  result.inputs = std::move(graph.inputs);
  result.outputs = std::move(graph.outputs);
  result.eqns.reserve(graph.eqns.size());
  Makers makers(result);
  const auto rename = [&](ValueId& id) {
    if (slot(id) < replaced.size() && replaced[slot(id)] >= 0) id = replaced[slot(id)];
  };
  for (Eqn& eqn : graph.eqns) {
    for (ValueId& id : eqn.inputs) rename(id);
    map_bodies(eqn, [](const Graph& body) { return simplify(body); });
    const std::optional<ValueId> same = eqn.op->simplify == nullptr ? std::nullopt : eqn.op->simplify(eqn, makers);
    if (same && result.type(*same) == result.type(eqn.outputs[0])) {
      replaced[slot(eqn.outputs[0])] = *same;
      continue;
    }
    result.eqns.push_back(std::move(eqn));
    makers.note_last();
  }
  for (ValueId& id : result.outputs) rename(id);
  return result;
}

}  // namespace shoal
