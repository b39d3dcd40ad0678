#include "transform/strong_zeros.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "ir/bodies.h"
#include "ir/op.h"

namespace shoal {
namespace {

using Flags = std::vector<bool>;

struct Shielded {
  Graph graph;
  Flags outputs;  // Which are linear.
};

Shielded shielded(const Graph& graph, const Flags& inputs);

// A loop's carries are linear if they are so after some trip.
Flags settled(const Control& control, const Graph& body, Flags arguments) {
  for (bool changes = control.loops; changes;) {
    const Flags outputs = shielded(body, arguments).outputs;
    changes = false;
    for (std::size_t i = 0; i < control.carries; ++i) {
      changes = changes || (outputs[i] && !arguments[i]);
      arguments[i] = arguments[i] || outputs[i];
    }
  }
  return arguments;
}

// Rewrites the graphs that an equation holds; which of its results are linear.
Flags shield_bodies(Eqn& eqn, Flags operands) {
  if (eqn.op->control != nullptr) {
    const Control control = eqn.op->control(eqn.attrs);
    operands.erase(operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(control.first_argument));
    operands = settled(control, *bodies_of(eqn).back(), std::move(operands));
  }
  Flags results(eqn.outputs.size(), false);
  map_bodies(eqn, [&](const Graph& body) {
    Shielded made = shielded(body, operands);
    // The question of a while loop has another result.
    for (std::size_t i = 0; i < results.size() && made.outputs.size() == results.size(); ++i) {
      results[i] = results[i] || made.outputs[i];
    }
    return std::move(made.graph);
  });
  return results;
}

bool is_opened(const Eqn& eqn) {
  const bool holds_graphs = eqn.op->op_class == OpClass::kCall || eqn.op->op_class == OpClass::kControl ||
                            eqn.op->op_class == OpClass::kRegion;
  return holds_graphs && !eqn.attrs.contains("transposed") && !eqn.attrs.contains("rules");
}

// Whether an elementwise operation takes factors beside what it is linear in, and not another summand or choice.
bool multiplies(const OpDef& op) {
  if (op.elementwise == nullptr) return false;
  const auto is = [&](std::size_t i, Linear linear) { return op.linear[i] == linear; };
  return is(0, Linear::kAlone) || (op.arity == 2 && is(0, Linear::kTogether) && is(1, Linear::kNo));
}

Shielded shielded(const Graph& graph, const Flags& inputs) {
  Shielded made{.graph = graph, .outputs = {}};
  made.graph.eqns.clear();
  Flags is_linear(graph.values.size(), false);
  for (std::size_t i = 0; i < inputs.size(); ++i) is_linear[slot(graph.inputs[i])] = inputs[i];
  for (const Eqn& eqn : graph.eqns) {
    Flags operands;
    for (const ValueId id : eqn.inputs) operands.push_back(is_linear[slot(id)]);
    const auto count = std::ranges::count(operands, true);
    Eqn copy = eqn;
    Flags results(eqn.outputs.size(), count > 0);
    if (count == 1 && multiplies(*eqn.op)) {
      std::vector<MaybeValue> values(eqn.inputs.begin(), eqn.inputs.end());
      const auto linear = static_cast<std::size_t>(std::ranges::find(operands, true) - operands.begin());
      values[linear].reset();
      Builder build(made.graph, eqn.where);
      shield(values, eqn.inputs[linear], build);
      for (std::size_t i = 0; i < values.size(); ++i) copy.inputs[i] = values[i].value_or(copy.inputs[i]);
    } else if (count > 0 && is_opened(eqn)) {
      results = shield_bodies(copy, std::move(operands));
    }
    for (std::size_t i = 0; i < results.size(); ++i) is_linear[slot(eqn.outputs[i])] = results[i];
    made.graph.eqns.push_back(std::move(copy));
  }
  for (const ValueId id : graph.outputs) made.outputs.push_back(is_linear[slot(id)]);
  return made;
}

}  // namespace

void shield(std::vector<MaybeValue>& values, ValueId linear, Builder& build) {
  const ValueId zero = build.constant(0, build.type(linear).dtype);
  for (MaybeValue& value : values) {
    if (!value || !has_tangents(build.type(*value).dtype)) continue;
    const Type& type = build.type(*value);
    const ValueId one = build.with_weakness(build.constant(1, type.dtype), type.weak);
    value = build.select(build.equal(linear, zero), one, *value);
  }
}

Graph with_strong_zeros(const Graph& linear, std::size_t first_linear) {
  Flags inputs(linear.inputs.size(), true);
  std::fill_n(inputs.begin(), first_linear, false);
  return shielded(linear, inputs).graph;
}

}  // namespace shoal
