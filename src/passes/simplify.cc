#include "passes/simplify.h"

#include <optional>
#include <utility>
#include <vector>

#include "ir/bodies.h"
#include "ir/makers.h"

namespace shoal {

Graph simplify(const Graph& graph) {
  Graph result;
  result.name = graph.name;
  result.axes = graph.axes;
  result.grid = graph.grid;
  result.values = graph.values;  // Values keep their numbers.
  result.inputs = graph.inputs;
  result.outputs = graph.outputs;
  result.eqns.reserve(graph.eqns.size());
  Makers makers(result);
  std::vector<ValueId> replaced(graph.values.size(), -1);  // Those that equations add are never replaced.
  const auto rename = [&](ValueId& id) {
    if (slot(id) < replaced.size() && replaced[slot(id)] >= 0) id = replaced[slot(id)];
  };
  for (const Eqn& eqn : graph.eqns) {
    Eqn copy = eqn;
    for (ValueId& id : copy.inputs) rename(id);
    map_bodies(copy, &simplify);
    const std::optional<ValueId> same = copy.op->simplify == nullptr ? std::nullopt : copy.op->simplify(copy, makers);
    if (same && result.type(*same) == result.type(copy.outputs[0])) {
      replaced[slot(copy.outputs[0])] = *same;
      continue;
    }
    result.eqns.push_back(std::move(copy));
    makers.note_last();
  }
  for (ValueId& id : result.outputs) rename(id);
  return result;
}

}  // namespace shoal
