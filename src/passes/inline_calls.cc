#include "passes/inline_calls.h"

#include <algorithm>
#include <span>
#include <unordered_map>
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

// Of a graph and those that are opened in it.
struct Sizes {
  std::size_t values = 0;
  std::size_t eqns = 0;
};

const Graph& opened_graph(const Eqn& eqn) { return is_call(eqn) ? eqn.attrs.graph() : *bodies_of(eqn).front(); }

void add_sizes(const Graph& graph, IsOpened* is_opened, Sizes& sizes) {
  sizes.values += graph.values.size();
  sizes.eqns += graph.eqns.size();
  for (const Eqn& eqn : graph.eqns) {
    if (is_opened(eqn)) add_sizes(opened_graph(eqn), is_opened, sizes);
  }
}

template <class GivenGraph>
Graph inlined(GivenGraph& graph, IsOpened* is_opened);

// Takes over what a graph has that may be changed, and copies that of others.
template <class T>
T taken(T& given) {
  return std::move(given);
}
template <class T>
T taken(const T& given) {
  return given;
}

class Inliner {
 public:
  Inliner(Graph& result, IsOpened* is_opened) : result_(result), is_opened_(is_opened) {}

  ValueId add(Value value) {
    result_.values.push_back(std::move(value));
    return static_cast<ValueId>(result_.values.size() - 1);
  }

  // Appends the equations of `graph`, or of a copy if it may not be changed; returns the values that stand for its
  // outputs.
  template <class GivenGraph>
  ValueIds append(GivenGraph& graph, std::span<const ValueId> arguments) {
    std::vector<ValueId> renamed(graph.values.size(), -1);
    for (std::size_t i = 0; i < arguments.size(); ++i) renamed[slot(graph.inputs[i])] = arguments[i];
    for (auto& given : graph.eqns) {
      if (is_opened_(given)) {
        ValueIds operands = given.inputs;
        for (ValueId& id : operands) id = renamed[slot(id)];
        const ValueIds outputs = append(opened_graph(given), operands);
        for (std::size_t i = 0; i < outputs.size(); ++i) renamed[slot(given.outputs[i])] = outputs[i];
        continue;
      }
      Eqn& eqn = result_.eqns.emplace_back(taken(given));
      for (ValueId& id : eqn.inputs) id = renamed[slot(id)];
      for (ValueId& id : eqn.outputs) id = renamed[slot(id)] = add(taken(graph.value(id)));
      if (!std::ranges::all_of(bodies_of(eqn), [&](const Graph* body) { return stays(*body); })) {
        map_bodies(eqn, [&](const Graph& body) { return inlined(body, is_opened_); });
      }
    }
    ValueIds outputs;
    for (ValueId id : graph.outputs) outputs.push_back(renamed[slot(id)]);
    return outputs;
  }

 private:
  // Equations that are alike may share their body.
  bool stays(const Graph& body) {
    const auto [known, is_new] = stays_.try_emplace(&body);
    if (is_new) known->second = is_as_written(body, is_opened_);
    return known->second;
  }

  Graph& result_;
  IsOpened* is_opened_;
  std::unordered_map<const Graph*, bool> stays_ = {};  // Bodies live as long as the graphs that hold them.
};

template <class GivenGraph>
Graph inlined(GivenGraph& graph, IsOpened* is_opened) {
  Graph result;
  result.name = graph.name;
  result.axes = graph.axes;
  result.grid = graph.grid;
  Sizes sizes;
  add_sizes(graph, is_opened, sizes);
  result.values.reserve(sizes.values);
  result.eqns.reserve(sizes.eqns);
  Inliner inliner(result, is_opened);
  for (ValueId id : graph.inputs) result.inputs.push_back(inliner.add(taken(graph.value(id))));
  result.outputs = inliner.append(graph, result.inputs);
  return result;
}

}  // namespace

Graph inline_calls(const Graph& graph) { return inlined(graph, &is_call); }
Graph inline_calls_and_regions(Graph graph) { return inlined(graph, &is_call_or_region); }

}  // namespace shoal
