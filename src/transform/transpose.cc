#include "transform/transpose.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ops/builder.h"
#include "ops/derivatives.h"
#include "transform/control.h"
#include "transform/custom.h"
#include "transform/region.h"
#include "transform/strong_zeros.h"

namespace shoal {
namespace {

// Of a call of a graph that stands for itself: a call of its transpose.
std::vector<MaybeValue> cotangents_of_call(const TransposeContext& context) {
  Graph ordered = context.attrs.graph();
  const std::vector<ValueId> inputs = std::exchange(ordered.inputs, {});
  std::vector<std::size_t> linear;
  std::vector<ValueId> operands;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (context.wants(i)) {
      linear.push_back(i);
    } else {
      ordered.inputs.push_back(inputs[i]);
      operands.push_back(*context.values[i]);
    }
  }
  const std::size_t first_linear = operands.size();
  for (const std::size_t i : linear) ordered.inputs.push_back(inputs[i]);
  TransposeOptions options{
      .unchecked = context.unchecked, .given = {}, .num_whole = 0, .strong_zeros = context.strong_zeros};
  for (const MaybeValue& cotangent : context.cotangents) {
    options.given.push_back(cotangent.has_value());
    if (cotangent) operands.push_back(*cotangent);
  }
  Transposed made = transpose(ordered, first_linear, options);
  std::vector<MaybeValue> all(inputs.size());
  if (made.graph.outputs.empty()) return all;
  const std::string name = made.graph.name;
  const GraphAttr body{std::make_shared<const Graph>(std::move(made.graph))};
  const std::vector<ValueId> results =
      context.build.equation(context.op, {{"body", body}, {"name", name}}, std::move(operands));
  auto next = results.begin();
  for (std::size_t k = 0; k < linear.size(); ++k) {
    if (made.has_cotangent[k]) all[linear[k]] = *next++;
  }
  return all;
}

std::vector<MaybeValue> cotangents_by_class(const TransposeContext& context) {
  switch (context.op.op_class) {
    case OpClass::kCall:
      if (!context.attrs.contains("transposed")) return cotangents_of_call(context);
      return context.attrs.contains("rules") ? cotangents_by_rules(context) : cotangents_of(context);
    case OpClass::kControl:
      return cotangents_of_control(context);
    case OpClass::kRegion:
      return cotangents_of_region(context);
    default:
      return cotangents_of(context);
  }
}

class Transposition {
 public:
  Transposition(const Graph& linear, std::size_t first_linear, const TransposeOptions& options)
      : linear_(linear),
        first_linear_(first_linear),
        options_(options),
        is_linear_(linear.values.size()),
        values_(linear.values.size()),
        sums_(linear.values.size()) {
    made_.name = linear.name;
    made_.axes = linear.axes;
  }

  Transposed run() {
    copy_the_rest();
    for (std::size_t i = 0; i < linear_.outputs.size(); ++i) {
      if (!options_.given.empty() && !options_.given[i]) continue;
      const ValueId output = linear_.outputs[i];
      const ValueId cotangent = made_.add_input(cotangent_type(linear_.type(output)));
      if (is_linear_[slot(output)]) add(output, cotangent, {});
    }
    for (auto eqn = linear_.eqns.rbegin(); eqn != linear_.eqns.rend(); ++eqn) {
      if (is_linear(*eqn)) transpose(*eqn);
    }
    std::vector<bool> has_cotangent;
    for (std::size_t i = first_linear_; i < linear_.inputs.size(); ++i) {
      const ValueId input = linear_.inputs[i];
      const bool is_whole = i - first_linear_ < options_.num_whole;
      const MaybeValue sum = is_whole ? cotangent_of(input, {}) : split_sum(input, {});
      has_cotangent.push_back(sum.has_value());
      if (sum) made_.outputs.push_back(Builder(made_, {}).with_weakness(*sum, linear_.type(input).weak));
    }
    return {.graph = std::move(made_), .has_cotangent = std::move(has_cotangent)};
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
      const bool linear = is_linear(eqn);
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

  bool is_linear(const Eqn& eqn) const {
    return std::ranges::any_of(eqn.inputs, [&](ValueId id) { return is_linear_[slot(id)]; });
  }

  void transpose(const Eqn& eqn) {
    std::vector<MaybeValue> cotangents;
    for (const ValueId id : eqn.outputs) cotangents.push_back(cotangent_of(id, eqn.where));
    if (std::ranges::none_of(cotangents, [](const MaybeValue& one) { return one.has_value(); })) return;
    const std::vector<Type> operands = linear_.types(eqn.inputs);
    const std::vector<Type> results = linear_.types(eqn.outputs);
    std::vector<MaybeValue> values;
    for (const ValueId id : eqn.inputs) values.push_back(is_linear_[slot(id)] ? MaybeValue() : values_[slot(id)]);
    Builder build(made_, derivative_of(eqn.where));
    if (chooses_axes(*eqn.op)) relax(values, cotangents, build);
    if (options_.strong_zeros && eqn.op->elementwise != nullptr) shield(values, *cotangents[0], build);
    const TransposeContext context = {.op = *eqn.op,
                                      .attrs = eqn.attrs,
                                      .operands = operands,
                                      .results = results,
                                      .values = values,
                                      .cotangents = cotangents,
                                      .unchecked = options_.unchecked,
                                      .strong_zeros = options_.strong_zeros,
                                      .build = build};
    const std::vector<MaybeValue> given = cotangents_by_class(context);
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (given[i] && is_linear_[slot(eqn.inputs[i])]) add(eqn.inputs[i], *given[i], eqn.where);
    }
  }

  // Whether rules of the op leave it to the compiler how Explicit axes split what they compute on the way: a cotangent
  // is split as its primal, which says it once all of it is there. Elementwise ops have but one way; ops that hold
  // graphs have types of their own inside, and those that say how a value lies take it as it comes.
  static bool chooses_axes(const OpDef& op) {
    const bool computes = op.op_class == OpClass::kCompute || op.op_class == OpClass::kCollective;
    return computes && op.elementwise == nullptr;
  }

  static void relax(std::vector<MaybeValue>& values, std::vector<MaybeValue>& cotangents, Builder& build) {
    // What devices hold summands of stays so.
    AxisNames unreduced;
    for (const MaybeValue& one : cotangents) {
      const ExplicitAxes* axes = one && build.type(*one).explicit_axes ? &*build.type(*one).explicit_axes : nullptr;
      if (axes != nullptr) unreduced = union_of(unreduced, axes->unreduced);
    }
    for (std::vector<MaybeValue>* all : {&values, &cotangents}) {
      for (MaybeValue& one : *all) {
        if (one) one = build.relaxed(*one, unreduced);
      }
    }
  }

  void add(ValueId value, ValueId cotangent, SourceLocation where) {
    MaybeValue& sum = sums_[slot(value)];
    if (!sum) {
      sum = cotangent;
      return;
    }
    Builder build(made_, derivative_of(where));
    const Type wanted = cotangent_type(linear_.type(value));
    if (made_.type(*sum).explicit_axes != made_.type(cotangent).explicit_axes) {
      sum = build.split_as(*sum, wanted);
      cotangent = build.split_as(cotangent, wanted);
    }
    const Said first = said_of(*sum, value);
    const Said second = said_of(cotangent, value);
    if (first != second) {
      // Where one is the same on all devices, it is there once.
      const AxisNames parts = union_of(first.parts, second.parts);
      sum = summed_as(*sum, wanted, parts, build);
      cotangent = summed_as(cotangent, wanted, parts, build);
    }
    sum = build.add(*sum, cotangent);
  }

  // What the type of a cotangent says of manual axes.
  struct Said {
    AxisNames parts;  // Over which devices have different ones, though the value is the same on all.
    AxisNames summands;
    AxisNames reduced;
    friend bool operator==(const Said&, const Said&) = default;
  };
  Said said_of(ValueId cotangent, ValueId value) const {
    const Type& type = made_.type(cotangent);
    const AxisNames differ = difference_of(type.varying, linear_.type(value).varying);
    return {.parts = difference_of(differ, options_.unchecked), .summands = type.summands, .reduced = type.reduced};
  }

  // x, unreduced and reduced as its type should be, and unreduced over `parts`, too.
  static ValueId summed_as(ValueId x, Type wanted, const AxisNames& parts, Builder& build) {
    wanted.summands = union_of(union_of(wanted.summands, parts), build.type(x).summands);
    return build.summed_as(x, wanted);
  }

  // The sum of the cotangents so far, split over Explicit axes, unreduced and reduced as that of the value should be.
  MaybeValue split_sum(ValueId value, SourceLocation where) {
    const MaybeValue& sum = sums_[slot(value)];
    if (!sum) return {};
    const Type wanted = cotangent_type(linear_.type(value));
    Builder build(made_, derivative_of(where));
    return summed_as(build.split_as(*sum, wanted), wanted, {}, build);
  }

  // The sum of all cotangents of a value, once all its uses are behind. Where devices have different ones of a value
  // that is the same on all, each has a part of it.
  MaybeValue cotangent_of(ValueId value, SourceLocation where) {
    const MaybeValue sum = split_sum(value, where);
    if (!sum) return {};
    const Type& type = linear_.type(value);
    const AxisNames kept = union_of(union_of(type.varying, type.reduced), options_.unchecked);
    const AxisNames parts = difference_of(made_.type(*sum).varying, kept);
    return parts.empty() ? *sum : Builder(made_, derivative_of(where)).all_reduce(*sum, parts, ReduceKind::kSum);
  }

  const Graph& linear_;
  std::size_t first_linear_;
  const TransposeOptions& options_;
  Graph made_;
  std::vector<bool> is_linear_;
  std::vector<MaybeValue> values_;  // Of what is not linear, in the transpose.
  std::vector<MaybeValue> sums_;    // Of cotangents.
};

}  // namespace

Transposed transpose(const Graph& linear, std::size_t first_linear, const TransposeOptions& options) {
  return Transposition(linear, first_linear, options).run();
}

Graph transpose(const Graph& linear, std::size_t first_linear, const AxisNames& unchecked, bool strong_zeros) {
  Transposed made =
      transpose(linear, first_linear, TransposeOptions{.unchecked = unchecked, .strong_zeros = strong_zeros});
  std::vector<ValueId> outputs;
  auto next = made.graph.outputs.begin();
  for (std::size_t i = 0; i < made.has_cotangent.size(); ++i) {
    const Type type = cotangent_type(linear.type(linear.inputs[first_linear + i]));
    Builder build(made.graph, {});
    outputs.push_back(made.has_cotangent[i] ? *next++ : build.with_weakness(build.zeros(type), type.weak));
  }
  made.graph.outputs = std::move(outputs);
  return std::move(made.graph);
}

}  // namespace shoal
