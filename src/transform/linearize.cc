#include "transform/linearize.h"

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <utility>

#include "transform/checkpoint.h"
#include "transform/control.h"
#include "transform/custom.h"
#include "transform/region.h"

namespace shoal {
namespace {

// Values of the graph that is cut, in the linear one: an input for each that is asked for.
class Residuals {
 public:
  Residuals(const Graph& primal, Graph& tangent) : primal_(primal), tangent_(tangent) {}

  ValueId of(ValueId value) {
    const auto [known, is_new] = known_.try_emplace(value);
    if (is_new) {
      known->second = tangent_.add_value(primal_.type(value));
      values_.push_back(value);
    }
    return known->second;
  }
  /// Those that were asked for.
  const std::vector<ValueId>& values() const { return values_; }
  /// What stands for them in the linear graph.
  std::vector<ValueId> inputs() const {
    std::vector<ValueId> inputs;
    for (const ValueId value : values_) inputs.push_back(known_.at(value));
    return inputs;
  }

 private:
  const Graph& primal_;
  Graph& tangent_;
  std::unordered_map<ValueId, ValueId> known_;
  std::vector<ValueId> values_;
};

class EqnPrimals final : public Primals {
 public:
  EqnPrimals(const Eqn& eqn, Residuals& residuals) : eqn_(eqn), residuals_(residuals) {}
  ValueId operand(std::size_t i) override { return residuals_.of(eqn_.inputs[i]); }
  ValueId result(std::size_t i) override { return residuals_.of(eqn_.outputs[i]); }

 private:
  const Eqn& eqn_;
  Residuals& residuals_;
};

LinearizedEqn linearize_call(const OpDef& op, const Attrs& attrs, std::span<const Type> operands,
                             const std::vector<bool>& with_tangent) {
  if (attrs.contains("saves")) return linearize_checkpoint(attrs, with_tangent);
  if (attrs.contains("transposed")) return linearize_linear_call(op, attrs, operands, with_tangent);
  if (has_rule_for_vmap_alone(attrs)) return linearize_with_rule_for_vmap(op, attrs, with_tangent);
  return linearized_call(attrs, linearize_by_rules(attrs, operands, with_tangent));
}

}  // namespace

LinearizedEqn linearized_call(const Attrs& attrs, Linearized parts) {
  auto cut = std::make_shared<Linearized>(std::move(parts));
  const std::size_t count = cut->has_tangent.size();
  LinearizedEqn made{.attrs = attrs, .residuals = {}, .tangents = {}};
  made.attrs.erase("rules");
  for (std::size_t i = count; i < cut->primal.outputs.size(); ++i) {
    made.residuals.push_back(cut->primal.type(cut->primal.outputs[i]));
  }
  made.attrs.set("body", GraphAttr{std::make_shared<const Graph>(std::move(cut->primal))});
  made.tangents = [cut, count](std::span<const MaybeValue> tangents, std::span<const Type>, Primals& primals,
                               Builder& build) {
    std::vector<ValueId> operands;
    for (std::size_t i = 0; i < cut->num_residuals; ++i) operands.push_back(primals.result(count + i));
    for (const MaybeValue& tangent : tangents) {
      if (!tangent) continue;
      const Type& expected = cut->tangent.type(cut->tangent.inputs[operands.size()]);
      operands.push_back(build.with_weakness(*tangent, expected.weak));
    }
    const std::vector<ValueId> values = build.inlined(cut->tangent, operands);
    std::vector<MaybeValue> made_tangents(count);
    std::size_t next = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (cut->has_tangent[i]) made_tangents[i] = values[next++];
    }
    return made_tangents;
  };
  return made;
}

LinearizedEqn linearize_eqn(const OpDef& op, const Attrs& attrs, std::vector<Type> operands,
                            const std::vector<bool>& with_tangent) {
  if (op.op_class == OpClass::kCall) return linearize_call(op, attrs, operands, with_tangent);
  if (op.op_class == OpClass::kControl) return linearize_control(op, attrs, operands, with_tangent);
  if (op.op_class == OpClass::kRegion) return linearize_region(op, attrs, operands, with_tangent);
  return {.attrs = attrs,
          .residuals = {},
          .tangents = [&op, attrs, operands = std::move(operands)](std::span<const MaybeValue> tangents,
                                                                   std::span<const Type> results, Primals& primals,
                                                                   Builder& build) {
            return tangents_of({.op = op,
                                .attrs = attrs,
                                .operands = operands,
                                .results = results,
                                .primals = primals,
                                .tangents = tangents,
                                .build = build});
          }};
}

Linearized linearize(const Graph& graph, const std::vector<bool>& with_tangent, const std::vector<bool>& wanted) {
  Linearized made{.primal = graph, .tangent = {}, .num_residuals = 0, .has_tangent = {}};
  Graph& primal = made.primal;
  Graph& linear = made.tangent;
  linear.name = graph.name;
  linear.axes = graph.axes;
  Residuals residuals(primal, linear);
  std::vector<MaybeValue> tangents(primal.values.size());
  std::vector<ValueId> tangent_inputs;
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    if (!with_tangent[i]) continue;
    tangent_inputs.push_back(linear.add_value(graph.type(graph.inputs[i])));
    tangents[slot(graph.inputs[i])] = tangent_inputs.back();
  }
  for (Eqn& eqn : primal.eqns) {
    std::vector<MaybeValue> of_operands;
    std::vector<bool> flags;
    for (const ValueId id : eqn.inputs) {
      of_operands.push_back(tangents[slot(id)]);
      flags.push_back(of_operands.back().has_value());
    }
    if (std::ranges::find(flags, true) == flags.end()) continue;
    const std::vector<Type> results = primal.types(eqn.outputs);
    const LinearizedEqn cut = linearize_eqn(*eqn.op, eqn.attrs, primal.types(eqn.inputs), flags);
    eqn.attrs = cut.attrs;
    for (const Type& type : cut.residuals) eqn.outputs.push_back(primal.add_value(type));
    tangents.resize(primal.values.size());
    EqnPrimals primals(eqn, residuals);
    Builder build(linear, derivative_of(eqn.where));
    const std::vector<MaybeValue> of_results = cut.tangents(of_operands, results, primals, build);
    for (std::size_t i = 0; i < of_results.size(); ++i) tangents[slot(eqn.outputs[i])] = of_results[i];
  }
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    const Type& type = graph.type(graph.outputs[i]);
    Builder build(linear, {});
    MaybeValue tangent = tangents[slot(graph.outputs[i])];
    if (!tangent && !wanted.empty() && wanted[i]) tangent = build.zeros(type);
    made.has_tangent.push_back(tangent.has_value());
    if (tangent) linear.outputs.push_back(build.with_weakness(*tangent, type.weak));
  }
  linear.inputs = residuals.inputs();
  linear.inputs.insert(linear.inputs.end(), tangent_inputs.begin(), tangent_inputs.end());
  made.num_residuals = residuals.values().size();
  primal.outputs.insert(primal.outputs.end(), residuals.values().begin(), residuals.values().end());
  return made;
}

}  // namespace shoal
