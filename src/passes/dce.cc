#include "passes/dce.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "ir/bodies.h"
#include "ops/builder.h"

namespace shoal {
namespace {

// Those for which `keep` says so.
template <class T>
std::vector<T> only(const std::vector<T>& all, const std::vector<bool>& keep) {
  std::vector<T> left;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (keep[i]) left.push_back(all[i]);
  }
  return left;
}

// The inputs of a graph that something in it uses.
std::vector<bool> used_inputs(const Graph& graph) {
  const std::vector<int> uses = count_uses(graph);
  std::vector<bool> used;
  for (ValueId id : graph.inputs) used.push_back(uses[slot(id)] > 0);
  return used;
}

// A control equation whose results are needed as `live` says, without what it carries, takes and gives in vain. A carry
// is needed if its result is, or if a body reads it for something that is.
Eqn narrowed(const Eqn& eqn, std::vector<bool> live) {
  const Control control = eqn.op->control(eqn.attrs);
  const auto bodies = bodies_of(eqn);
  const std::size_t arguments = eqn.inputs.size() - control.first_argument;
  const std::size_t carries = control.loops ? control.carries : 0;
  std::vector<Graph> left;
  std::vector<bool> taken;
  for (bool grows = true; grows;) {
    grows = false;
    left.clear();
    taken.assign(arguments, false);
    for (const Graph* body : bodies) {
      Graph part = *body;
      if (!(control.asks && body == bodies.front())) part.outputs = only(part.outputs, live);
      left.push_back(dce(part));
      const std::vector<bool> used = used_inputs(left.back());
      for (std::size_t i = 0; i < arguments; ++i) taken[i] = taken[i] || used[i];
    }
    for (std::size_t k = 0; k < carries; ++k) {
      grows = grows || (taken[k] && !live[k]);
      live[k] = live[k] || taken[k];
    }
  }
  for (std::size_t k = 0; k < carries; ++k) taken[k] = live[k];
  Eqn result = eqn;
  std::vector<bool> operands(control.first_argument, true);
  operands.insert(operands.end(), taken.begin(), taken.end());
  result.inputs = only(eqn.inputs, operands);
  result.outputs = only(eqn.outputs, live);
  std::size_t next = 0;
  map_bodies(result, [&](const Graph&) {
    Graph body = std::move(left[next++]);
    body.inputs = only(body.inputs, taken);
    return dce(body);
  });
  if (control.loops) {
    const auto slices = taken.begin() + static_cast<std::ptrdiff_t>(carries);
    result.attrs = with_counts(std::move(result.attrs),
                               std::count(live.begin(), live.begin() + static_cast<std::ptrdiff_t>(carries), true),
                               std::count(slices, slices + static_cast<std::ptrdiff_t>(control.slices), true));
  }
  return result;
}

}  // namespace

Graph dce(const Graph& graph) {
  std::vector<bool> live(graph.values.size(), false);
  const auto is_live = [&](ValueId id) { return static_cast<bool>(live[slot(id)]); };
  const auto mark = [&](ValueId id) { live[slot(id)] = true; };
  for (ValueId id : graph.outputs) mark(id);
  std::vector<Eqn> kept;
  for (auto eqn = graph.eqns.rbegin(); eqn != graph.eqns.rend(); ++eqn) {
    if (!std::any_of(eqn->outputs.begin(), eqn->outputs.end(), is_live) && !has_effect(*eqn)) continue;
    if (eqn->op->op_class == OpClass::kControl) {
      std::vector<bool> results;
      for (ValueId id : eqn->outputs) results.push_back(is_live(id));
      kept.push_back(narrowed(*eqn, std::move(results)));
    } else {
      kept.push_back(*eqn);
      map_bodies(kept.back(), &dce);
    }
    for (ValueId id : kept.back().inputs) mark(id);
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
    std::for_each(eqn->inputs.begin(), eqn->inputs.end(), rename);
    std::for_each(eqn->outputs.begin(), eqn->outputs.end(), keep);
    result.eqns.push_back(std::move(*eqn));
  }
  result.outputs = graph.outputs;
  std::for_each(result.outputs.begin(), result.outputs.end(), rename);
  return result;
}

}  // namespace shoal
