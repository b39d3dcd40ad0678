#include "transform/transpose.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "ops/builder.h"
#include "ops/derivatives.h"

namespace shoal {
namespace {

class Transposition {
 public:
  Transposition(const Graph& linear, std::size_t first_linear, const AxisNames& unchecked)
      : linear_(linear),
        first_linear_(first_linear),
        unchecked_(unchecked),
        is_linear_(linear.values.size()),
        values_(linear.values.size()),
        sums_(linear.values.size()) {
    made_.name = linear.name;
    made_.axes = linear.axes;
  }

  Graph run() {
    copy_the_rest();
    for (const ValueId output : linear_.outputs) {
      const ValueId cotangent = made_.add_input(linear_.type(output));
      if (is_linear_[slot(output)]) add(output, cotangent, {});
    }
    for (auto eqn = linear_.eqns.rbegin(); eqn != linear_.eqns.rend(); ++eqn) {
      if (is_linear_[slot(eqn->outputs[0])]) transpose(*eqn);
    }
    for (std::size_t i = first_linear_; i < linear_.inputs.size(); ++i) {
      const ValueId input = linear_.inputs[i];
      const Type& type = linear_.type(input);
      const MaybeValue sum = cotangent_of(input, {});
      Builder build(made_, {});
      made_.outputs.push_back(build.with_weakness(sum ? *sum : build.zeros(type), type.weak));
    }
    return std::move(made_);
  }

 private:
  // Equations that do not depend on what is linear stand in the transpose as they are.
  void copy_the_rest() {
    for (std::size_t i = 0; i < linear_.inputs.size(); ++i) {
      const ValueId input = linear_.inputs[i];
      is_linear_[slot(input)] = i >= first_linear_;
      if (i < first_linear_) values_[slot(input)] = made_.add_input(linear_.type(input));
    }
    for (const Eqn& eqn : linear_.eqns) {
      const bool linear = std::ranges::any_of(eqn.inputs, [&](ValueId id) { return is_linear_[slot(id)]; });
      for (const ValueId id : eqn.outputs) is_linear_[slot(id)] = linear;
      if (linear) continue;
      Eqn copy = eqn;
      for (ValueId& id : copy.inputs) id = values_[slot(id)].value();
      for (ValueId& id : copy.outputs) {
        const ValueId own = made_.add_value(linear_.type(id));
        values_[slot(id)] = own;
        id = own;
      }
      made_.eqns.push_back(std::move(copy));
    }
  }

  void transpose(const Eqn& eqn) {
    std::vector<MaybeValue> cotangents;
    for (const ValueId id : eqn.outputs) cotangents.push_back(cotangent_of(id, eqn.where));
    if (std::ranges::none_of(cotangents, [](const MaybeValue& one) { return one.has_value(); })) return;
    const std::vector<Type> operands = linear_.types(eqn.inputs);
    const std::vector<Type> results = linear_.types(eqn.outputs);
    std::vector<MaybeValue> values;
    for (const ValueId id : eqn.inputs) values.push_back(is_linear_[slot(id)] ? MaybeValue() : values_[slot(id)]);
    Builder build(made_, eqn.where);
    const std::vector<MaybeValue> given = cotangents_of({.op = *eqn.op,
                                                         .attrs = eqn.attrs,
                                                         .operands = operands,
                                                         .results = results,
                                                         .values = values,
                                                         .cotangents = cotangents,
                                                         .build = build});
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (given[i] && is_linear_[slot(eqn.inputs[i])]) add(eqn.inputs[i], *given[i], eqn.where);
    }
  }

  void add(ValueId value, ValueId cotangent, SourceLocation where) {
    MaybeValue& sum = sums_[slot(value)];
    sum = sum ? Builder(made_, where).add(*sum, cotangent) : cotangent;
  }

  // The sum of all cotangents of a value, once all its uses are behind. Where devices have different ones of a value
  // that is the same on all, each has a part of it.
  MaybeValue cotangent_of(ValueId value, SourceLocation where) {
    const MaybeValue& sum = sums_[slot(value)];
    if (!sum) return {};
    const AxisNames parts =
        difference_of(difference_of(made_.type(*sum).varying, linear_.type(value).varying), unchecked_);
    return parts.empty() ? *sum : Builder(made_, where).all_reduce(*sum, parts, ReduceKind::kSum);
  }

  const Graph& linear_;
  std::size_t first_linear_;
  const AxisNames& unchecked_;
  Graph made_;
  std::vector<bool> is_linear_;
  std::vector<MaybeValue> values_;  // Of what is not linear, in the transpose.
  std::vector<MaybeValue> sums_;    // Of cotangents.
};

}  // namespace

Graph transpose(const Graph& linear, std::size_t first_linear, const AxisNames& unchecked) {
  return Transposition(linear, first_linear, unchecked).run();
}

}  // namespace shoal
