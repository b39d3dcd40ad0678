#include "passes/dce.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace shoal {

Graph dce(const Graph& graph) {
  std::vector<bool> live(graph.values.size(), false);
  const auto is_live = [&](ValueId id) { return static_cast<bool>(live[static_cast<std::size_t>(id)]); };
  const auto mark = [&](ValueId id) { live[static_cast<std::size_t>(id)] = true; };
  for (ValueId id : graph.outputs) mark(id);
  std::vector<Eqn> kept;
  for (auto eqn = graph.eqns.rbegin(); eqn != graph.eqns.rend(); ++eqn) {
    if (!std::any_of(eqn->outputs.begin(), eqn->outputs.end(), is_live)) continue;
    for (ValueId id : eqn->inputs) mark(id);
    kept.push_back(*eqn);
    if (eqn->op->op_class == OpClass::kCall) {
      kept.back().attrs.set("body", GraphAttr{std::make_shared<const Graph>(dce(eqn->attrs.graph()))});
    }
  }
  std::reverse(kept.begin(), kept.end());
  Graph result = graph;
  result.eqns = std::move(kept);
  return result;
}

}  // namespace shoal
