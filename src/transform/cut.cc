#include "transform/cut.h"

#include <algorithm>
#include <utility>

namespace shoal {

Graph empty_like(const Graph& body) {
  Graph graph;
  graph.name = body.name;
  graph.axes = body.axes;
  return graph;
}

std::vector<bool> made_of(const Graph& body, const std::vector<bool>& inputs) {
  std::vector<bool> made(body.values.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) made[slot(body.inputs[i])] = inputs[i];
  for (const Eqn& eqn : body.eqns) {
    const bool all = !has_effect(eqn) && std::ranges::all_of(eqn.inputs, [&](ValueId id) { return made[slot(id)]; });
    for (const ValueId id : eqn.outputs) made[slot(id)] = all;
  }
  return made;
}

std::vector<ValueId> computed(const Graph& from, std::span<const ValueId> values, Graph& to,
                              FunctionRef<MaybeValue(ValueId)> at_hand) {
  std::vector<MaybeValue> known(from.values.size());
  std::vector<bool> needed(from.values.size());
  const auto need = [&](ValueId id) {
    if (known[slot(id)] || needed[slot(id)]) return;
    known[slot(id)] = at_hand(id);
    needed[slot(id)] = !known[slot(id)];
  };
  std::ranges::for_each(values, need);
  std::vector<const Eqn*> eqns;
  for (auto eqn = from.eqns.rbegin(); eqn != from.eqns.rend(); ++eqn) {
    if (std::ranges::none_of(eqn->outputs, [&](ValueId id) { return needed[slot(id)]; })) continue;
    eqns.push_back(&*eqn);
    std::ranges::for_each(eqn->inputs, need);
  }
  for (auto eqn = eqns.rbegin(); eqn != eqns.rend(); ++eqn) {
    Eqn copy = **eqn;
    for (ValueId& id : copy.inputs) id = known[slot(id)].value();
    for (ValueId& id : copy.outputs) {
      const ValueId own = to.add_value(from.type(id));
      if (!known[slot(id)]) known[slot(id)] = own;
      id = own;
    }
    to.eqns.push_back(std::move(copy));
  }
  std::vector<ValueId> made;
  for (const ValueId id : values) made.push_back(known[slot(id)].value());
  return made;
}

bool can_be_cut(const Eqn& eqn) {
  switch (eqn.op->op_class) {
    case OpClass::kCall:
      return !eqn.attrs.contains("transposed");
    case OpClass::kRegion:
      return true;
    case OpClass::kControl: {
      const Control control = eqn.op->control(eqn.attrs);
      return !control.asks && !control.recomputes;
    }
    default:
      return false;
  }
}

Cut::Cut(const Graph& body, const std::vector<bool>& with_tangent, const std::vector<bool>& wanted) {
  Linearized made = linearize(body, with_tangent, wanted);
  primal = std::move(made.primal);
  tangent = std::move(made.tangent);
  has_tangent = std::move(made.has_tangent);
  const auto first = primal.outputs.end() - static_cast<std::ptrdiff_t>(made.num_residuals);
  residuals.assign(first, primal.outputs.end());
  primal.outputs.erase(first, primal.outputs.end());
}

std::size_t FurtherResults::add(std::size_t b, ValueId value, Type type) {
  type.varying = type.summands = type.reduced = {};
  std::vector<MaybeValue>& own = values_[b];
  own.resize(types_.size());
  std::size_t place = 0;
  while (place < types_.size() && (own[place] || types_[place] != type)) ++place;
  if (place == types_.size()) {
    types_.push_back(std::move(type));
    own.emplace_back();
  }
  own[place] = value;
  return place;
}

void FurtherResults::append_to(Graph& body, std::size_t b) {
  std::vector<MaybeValue>& own = values_[b];
  own.resize(types_.size());
  for (std::size_t k = 0; k < own.size(); ++k) {
    Builder build(body, {});
    if (!own[k]) {
      const ValueId zeros = build.with_weakness(build.zeros(types_[k]), types_[k].weak);
      const bool lies_there = body.type(zeros).memory == types_[k].memory;
      own[k] = lies_there ? zeros : build.to_memory(zeros, types_[k].memory);
    }
    body.outputs.push_back(*own[k]);
  }
}

LinearizedEqn without_tangents(const Attrs& attrs, std::size_t count) {
  return {.attrs = attrs,
          .residuals = {},
          .tangents = [count](std::span<const MaybeValue>, std::span<const Type>, Primals&, Builder&) {
            return std::vector<MaybeValue>(count);
          }};
}

std::vector<MaybeValue> at_flags(const std::vector<bool>& flags, std::span<const ValueId> values) {
  std::vector<MaybeValue> all(flags.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < flags.size(); ++i) {
    if (flags[i]) all[i] = values[next++];
  }
  return all;
}

}  // namespace shoal
