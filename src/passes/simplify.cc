#include "passes/simplify.h"

#include <optional>
#include <unordered_map>
#include <utility>

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
  Makers makers(result);
  std::unordered_map<ValueId, ValueId> replaced;
  const auto rename = [&](ValueId& id) {
    const auto found = replaced.find(id);
    if (found != replaced.end()) id = found->second;
  };
  for (const Eqn& eqn : graph.eqns) {
    Eqn copy = eqn;
    for (ValueId& id : copy.inputs) rename(id);
    map_bodies(copy, &simplify);
    const std::optional<ValueId> same = copy.op->simplify == nullptr ? std::nullopt : copy.op->simplify(copy, makers);
    if (same && result.type(*same) == result.type(copy.outputs[0])) {
      replaced[copy.outputs[0]] = *same;
      continue;
    }
    result.eqns.push_back(std::move(copy));
    makers.note_last();
  }
  for (ValueId& id : result.outputs) rename(id);
  return result;
}

}  // namespace shoal
