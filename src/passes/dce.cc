#include "passes/dce.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "ir/bodies.h"
#include "ops/builder.h"

namespace shoal {
namespace {

// Those for which `keep` says so.
template <class List>
List only(const List& all, const std::vector<bool>& keep) {
  List left;
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

// Values are numbered anew, so that equal graphs are equal whatever was removed from them.
Graph renumbered(Graph graph, std::vector<ValueId> inputs, std::vector<Eqn> eqns, std::vector<ValueId> outputs) {
  Graph result;
  result.name = graph.name;
  result.axes = graph.axes;
  result.grid = graph.grid;
  std::vector<ValueId> renamed(graph.values.size(), -1);
  // Where values are numbered in the order of their definitions, they move up in their list; else to another one.
  ValueId last = -1;
  const auto is_next = [&](ValueId id) { return std::exchange(last, id) < id; };
  const bool in_order = std::ranges::all_of(inputs, is_next) && std::ranges::all_of(eqns, [&](const Eqn& eqn) {
                          return std::ranges::all_of(eqn.outputs, is_next);
                        });
  std::vector<Value> apart(in_order ? 0 : graph.values.size());
  std::vector<Value>& values = in_order ? graph.values : apart;
  ValueId next = 0;
  const auto keep = [&](ValueId& id) {
    if (!in_order || id != next) values[slot(next)] = std::move(graph.value(id));
    id = renamed[slot(id)] = next++;
  };
  const auto rename = [&](ValueId& id) { id = renamed[slot(id)]; };
  result.inputs = std::move(inputs);
  std::ranges::for_each(result.inputs, keep);
  for (Eqn& eqn : eqns) {
    std::ranges::for_each(eqn.inputs, rename);
    std::ranges::for_each(eqn.outputs, keep);
  }
  values.erase(values.begin() + next, values.end());
  result.values = std::move(values);
  result.eqns = std::move(eqns);
  result.outputs = std::move(outputs);
  std::ranges::for_each(result.outputs, rename);
  return result;
}

class Elimination {
 public:
  // What is needed for these outputs.
  Graph run(Graph graph, std::vector<ValueId> outputs) {
    std::vector<bool> live(graph.values.size(), false);
    const auto is_live = [&](ValueId id) { return static_cast<bool>(live[slot(id)]); };
    const auto mark = [&](ValueId id) { live[slot(id)] = true; };
    std::ranges::for_each(outputs, mark);
    std::vector<bool> stays(graph.eqns.size(), false);
    std::vector<Attrs> held;  // Those with bodies that were looked at: parts are known by them.
    for (std::size_t i = graph.eqns.size(); i-- > 0;) {
      Eqn& eqn = graph.eqns[i];
      if (std::ranges::none_of(eqn.outputs, is_live) && !has_effect(eqn)) continue;
      stays[i] = true;
      if (eqn.op->op_class == OpClass::kControl) {
        std::vector<bool> results;
        for (ValueId id : eqn.outputs) results.push_back(is_live(id));
        held.push_back(eqn.attrs);
        eqn = narrowed(eqn, std::move(results));
      } else if (!bodies_of(eqn).empty()) {
        held.push_back(eqn.attrs);
        map_bodies(eqn, [&](const Graph& body) { return run(body, body.outputs); });
      }
      std::ranges::for_each(eqn.inputs, mark);
    }
    std::vector<ValueId> inputs = graph.inputs;
    std::vector<Eqn> kept = std::move(graph.eqns);
    std::size_t next = 0;
    std::erase_if(kept, [&](const Eqn&) { return !stays[next++]; });
    return renumbered(std::move(graph), std::move(inputs), std::move(kept), std::move(outputs));
  }

  // A control equation whose results are needed as `live` says, without what it carries, takes and gives in vain. A
  // carry is needed if its result is, or if a body reads it for something that is.
  Eqn narrowed(const Eqn& eqn, std::vector<bool> live) {
    const Control control = eqn.op->control(eqn.attrs);
    const auto bodies = bodies_of(eqn);
    const std::size_t arguments = eqn.inputs.size() - control.first_argument;
    const std::size_t carries = control.loops ? control.carries : 0;
    std::vector<const Graph*> left;
    std::vector<bool> taken;
    for (bool grows = true; grows;) {
      grows = false;
      left.clear();
      taken.assign(arguments, false);
      for (const Graph* body : bodies) {
        const bool answers = control.asks && body == bodies.front();
        left.push_back(&part(*body, answers ? std::vector<bool>(body->outputs.size(), true) : live));
        const std::vector<bool> used = used_inputs(*left.back());
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
      const Graph& body = *left[next++];
      return renumbered(body, only(body.inputs, taken), body.eqns, body.outputs);
    });
    if (control.loops) {
      const auto slices = taken.begin() + static_cast<std::ptrdiff_t>(carries);
      result.attrs = with_counts(std::move(result.attrs),
                                 std::count(live.begin(), live.begin() + static_cast<std::ptrdiff_t>(carries), true),
                                 std::count(slices, slices + static_cast<std::ptrdiff_t>(control.slices), true));
    }
    return result;
  }

 private:
  // A body with those of its outputs that are live. Bodies around it ask for the same ones again and again.
  const Graph& part(const Graph& body, const std::vector<bool>& live) {
    const auto [found, is_new] = parts_.try_emplace({&body, live});
    if (is_new) {
      Graph made = run(body, only(body.outputs, live));
      found->second = std::move(made);
    }
    return found->second;
  }

  // Bodies are held by the graph that is rewritten, in which equations that hold some stay.
  std::map<std::pair<const Graph*, std::vector<bool>>, Graph> parts_;
};

}  // namespace

Graph dce(Graph graph) {
  std::vector<ValueId> outputs = graph.outputs;
  return Elimination().run(std::move(graph), std::move(outputs));
}

Eqn narrowed(const Eqn& eqn, std::vector<bool> wanted) { return Elimination().narrowed(eqn, std::move(wanted)); }

}  // namespace shoal
