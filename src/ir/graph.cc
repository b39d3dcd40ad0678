#include "ir/graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "ir/bodies.h"
#include "ir/explicit_axes.h"

namespace shoal {

bool graphs_equal(const Graph& a, const Graph& b) {
  const auto same_grid = [&] {
    if (a.grid == nullptr || b.grid == nullptr) return a.grid == b.grid;
    return a.grid->mesh() == b.grid->mesh() && a.grid->devices() == b.grid->devices();
  };
  const auto same_eqn = [](const Eqn& x, const Eqn& y) {
    return x.op == y.op && x.inputs == y.inputs && x.outputs == y.outputs && x.attrs == y.attrs;
  };
  return a.name == b.name && a.inputs == b.inputs && a.outputs == b.outputs && a.values == b.values &&
         a.axes == b.axes && same_grid() &&
         std::equal(a.eqns.begin(), a.eqns.end(), b.eqns.begin(), b.eqns.end(), same_eqn);
}

std::vector<Type> Graph::types(std::span<const ValueId> ids) const {
  std::vector<Type> result;
  result.reserve(ids.size());
  for (ValueId id : ids) result.push_back(type(id));
  return result;
}

ValueId Graph::add_value(Type type) {
  values.push_back({.type = std::move(type), .placement = {}, .manual = {}, .varying = {}, .global = {}});
  return static_cast<ValueId>(values.size() - 1);
}

ValueId Graph::add_input(Type type) {
  inputs.push_back(add_value(std::move(type)));
  return inputs.back();
}

std::vector<ValueId> Graph::add_eqn(const OpDef& op, Attrs attrs, std::vector<ValueId> operands, const Origin& where) {
  SHOAL_CHECK(op.arity < 0 || static_cast<std::size_t>(op.arity) == operands.size(),
              fmt::format("{} takes {} operands, not {}", op.name, op.arity, operands.size()));
  const std::vector<Type> operand_types = types(operands);
  std::vector<Type> result_types = infer_types({.op = op,
                                                .inputs = operand_types,
                                                .attrs = attrs,
                                                .axes = axes,
                                                .where = where,
                                                .is_derived = where.is_derived});
  std::vector<ValueId> results;
  for (Type& type : result_types) results.push_back(add_value(std::move(type)));
  eqns.push_back(
      {.op = &op, .attrs = std::move(attrs), .inputs = std::move(operands), .outputs = results, .where = where});
  return results;
}

namespace {

template <class Predicate>
bool holds_inside(const Eqn& eqn, Predicate&& predicate) {
  return predicate(eqn) ||
         std::ranges::any_of(bodies_of(eqn), [&](const Graph* body) { return any_eqn(*body, predicate); });
}

}  // namespace

bool calls_user(const Eqn& eqn) {
  return holds_inside(eqn, [](const Eqn& one) { return one.op->op_class == OpClass::kEffect; });
}

bool has_effect(const Eqn& eqn) {
  return holds_inside(eqn, [](const Eqn& one) { return one.op->op_class == OpClass::kEffect && !one.op->is_pure; });
}

std::vector<int> count_uses(const Graph& graph) {
  std::vector<int> uses(graph.values.size(), 0);
  for (const Eqn& eqn : graph.eqns) {
    for (ValueId id : eqn.inputs) ++uses[slot(id)];
  }
  for (ValueId id : graph.outputs) ++uses[slot(id)];
  return uses;
}

std::vector<ValueId> inline_graph(Graph& caller, const Graph& callee, std::span<const ValueId> arguments) {
  SHOAL_CHECK(arguments.size() == callee.inputs.size(), "an inlined graph takes as many arguments as it has inputs");
  std::vector<ValueId> renamed(callee.values.size(), -1);
  for (std::size_t i = 0; i < arguments.size(); ++i) renamed[slot(callee.inputs[i])] = arguments[i];
  for (const Eqn& eqn : callee.eqns) {
    Eqn copy = eqn;
    for (ValueId& id : copy.inputs) id = renamed[slot(id)];
    for (ValueId& id : copy.outputs) {
      caller.values.push_back(callee.value(id));
      id = renamed[slot(id)] = static_cast<ValueId>(caller.values.size() - 1);
    }
    caller.eqns.push_back(std::move(copy));
  }
  std::vector<ValueId> results;
  for (ValueId id : callee.outputs) results.push_back(renamed[slot(id)]);
  return results;
}

}  // namespace shoal
