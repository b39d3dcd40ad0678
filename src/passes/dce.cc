#include "passes/dce.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "ir/bodies.h"

namespace shoal {

Graph dce(const Graph& graph) {
  std::vector<bool> live(graph.values.size(), false);
  const auto is_live = [&](ValueId id) { return static_cast<bool>(live[slot(id)]); };
  const auto mark = [&](ValueId id) { live[slot(id)] = true; };
  for (ValueId id : graph.outputs) mark(id);
  std::vector<const Eqn*> kept;
  for (auto eqn = graph.eqns.rbegin(); eqn != graph.eqns.rend(); ++eqn) {
    if (!std::any_of(eqn->outputs.begin(), eqn->outputs.end(), is_live) && !has_effect(*eqn)) continue;
    for (ValueId id : eqn->inputs) mark(id);
    kept.push_back(&*eqn);
  }
  // Values are numbered anew, so that equal graphs are equal whatever was removed from them.
  Graph result;
  result.name = graph.name;
  result.axes = graph.axes;
  result.grid = graph.grid;
  std::vector<ValueId> renamed(graph.values.size(), -1);
  const auto keep = [&](ValueId& id) {
    result.values.push_back(graph.value(id));
    id = renamed[slot(id)] = static_cast<ValueId>(result.values.size() - 1);
  };
  const auto rename = [&](ValueId& id) { id = renamed[slot(id)]; };
  result.inputs = graph.inputs;
  std::for_each(result.inputs.begin(), result.inputs.end(), keep);
  for (auto eqn = kept.rbegin(); eqn != kept.rend(); ++eqn) {
    Eqn copy = **eqn;
    std::for_each(copy.inputs.begin(), copy.inputs.end(), rename);
    std::for_each(copy.outputs.begin(), copy.outputs.end(), keep);
    map_bodies(copy, &dce);
    result.eqns.push_back(std::move(copy));
  }
  result.outputs = graph.outputs;
  std::for_each(result.outputs.begin(), result.outputs.end(), rename);
  return result;
}

}  // namespace shoal
