#include "passes/inline_calls.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "ir/bodies.h"

namespace shoal {
namespace {

bool is_call(const Eqn& eqn) { return eqn.op->op_class == OpClass::kCall; }

bool is_call_or_region(const Eqn& eqn) {
  if (eqn.op->control == nullptr) return is_call(eqn);
  const Control control = eqn.op->control(eqn.attrs);
  return control.num_bodies == 1 && !control.loops && control.first_argument == 0;
}

using IsOpened = bool(const Eqn&);

// Whether a graph is as it would be written: it opens nothing, and numbers its values in the order of their
// definitions.
bool is_as_written(const Graph& graph, IsOpened* is_opened) {
  ValueId next = 0;
  const auto is_next = [&](ValueId id) { return id == next++; };
  if (!std::ranges::all_of(graph.inputs, is_next)) return false;
  const auto is_left = [&](const Eqn& eqn) {
    return !is_opened(eqn) && std::ranges::all_of(eqn.outputs, is_next) &&
           std::ranges::all_of(bodies_of(eqn), [&](const Graph* body) { return is_as_written(*body, is_opened); });
  };
  return std::ranges::all_of(graph.eqns, is_left) && slot(next) == graph.values.size();
}

Graph inlined(Graph graph, IsOpened* is_opened);

class Inliner {
 public:
  Inliner(Graph& result, IsOpened* is_opened) : result_(result), is_opened_(is_opened) {}

  ValueId add(Value value) {
    result_.values.push_back(std::move(value));
    return static_cast<ValueId>(result_.values.size() - 1);
  }

  // Appends the equations of `graph`; returns the values that stand for its outputs.
  ValueIds append(Graph graph, std::span<const ValueId> arguments) {
    std::vector<ValueId> renamed(graph.values.size(), -1);
    for (std::size_t i = 0; i < arguments.size(); ++i) renamed[slot(graph.inputs[i])] = arguments[i];
    const auto rename = [&](ValueId& id) { id = renamed[slot(id)]; };
    for (Eqn& eqn : graph.eqns) {
      std::ranges::for_each(eqn.inputs, rename);
      if (is_opened_(eqn)) {
        const ValueIds outputs = append(is_call(eqn) ? eqn.attrs.graph() : *bodies_of(eqn).front(), eqn.inputs);
        for (std::size_t i = 0; i < outputs.size(); ++i) renamed[slot(eqn.outputs[i])] = outputs[i];
        continue;
      }
      const auto bodies = bodies_of(eqn);
      if (!std::ranges::all_of(bodies, [&](const Graph* body) { return is_as_written(*body, is_opened_); })) {
        map_bodies(eqn, [&](const Graph& body) { return inlined(body, is_opened_); });
      }
      for (ValueId& id : eqn.outputs) id = renamed[slot(id)] = add(std::move(graph.value(id)));
      result_.eqns.push_back(std::move(eqn));
    }
    ValueIds outputs;
    for (ValueId id : graph.outputs) outputs.push_back(renamed[slot(id)]);
    return outputs;
  }

 private:
  Graph& result_;
  IsOpened* is_opened_;
};

Graph inlined(Graph graph, IsOpened* is_opened) {
  Graph result;
  result.name = graph.name;
  result.axes = graph.axes;
  result.grid = graph.grid;
  result.values.reserve(graph.values.size());
  result.eqns.reserve(graph.eqns.size());
  Inliner inliner(result, is_opened);
  for (ValueId id : graph.inputs) result.inputs.push_back(inliner.add(std::move(graph.value(id))));
  result.outputs = inliner.append(std::move(graph), result.inputs);
  return result;
}

}  // namespace

Graph inline_calls(Graph graph) { return inlined(std::move(graph), &is_call); }
Graph inline_calls_and_regions(Graph graph) { return inlined(std::move(graph), &is_call_or_region); }

}  // namespace shoal
