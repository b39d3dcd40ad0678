#include "transform/linearity.h"

#include <algorithm>
#include <span>

#include "ir/bodies.h"
#include "transform/linearize.h"
#include "transform/settle.h"

namespace shoal {
namespace {

using Flags = std::vector<bool>;

bool any(const Flags& flags) { return std::ranges::find(flags, true) != flags.end(); }

// The values of an equation, of which a derivative must not look at tangents, and at results that depend on them.
class OtherValues final : public Primals {
 public:
  OtherValues(const OpDef& op, Graph& scratch, std::span<const Type> operands, const Flags& is_tangent)
      : op_(op), scratch_(scratch), operands_(operands), is_tangent_(is_tangent) {}
  ValueId operand(std::size_t i) override {
    if (is_tangent_[i]) throw not_linear(op_.name);
    return scratch_.add_value(operands_[i]);
  }
  ValueId result(std::size_t) override { throw not_linear(op_.name); }

 private:
  const OpDef& op_;
  Graph& scratch_;
  std::span<const Type> operands_;
  const Flags& is_tangent_;
};

// Of an op without bodies: its derivative must be itself.
Flags check_by_derivative(const OpDef& op, const Attrs& attrs, std::span<const Type> operands,
                          std::span<const Type> results, const AxisEnv& axes, const Flags& is_tangent) {
  Graph scratch;
  scratch.axes = axes;
  std::vector<MaybeValue> tangents;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    tangents.push_back(is_tangent[i] ? MaybeValue(scratch.add_value(operands[i])) : MaybeValue());
  }
  OtherValues others(op, scratch, operands, is_tangent);
  Builder build(scratch, Caller::line());
  const LinearizedEqn cut = linearize_eqn(op, attrs, {operands.begin(), operands.end()}, is_tangent);
  const std::vector<MaybeValue> made = cut.tangents(tangents, results, others, build);
  Flags depends;
  for (std::size_t i = 0; i < results.size(); ++i) {
    // What has no tangent is zero, if it can be that.
    if (!made[i] && !has_tangents(results[i].dtype)) throw not_linear(op.name);
    depends.push_back(made[i].has_value());
  }
  return depends;
}

Flags check_graph(const Graph& graph, const Flags& is_tangent, bool without_sums) {
  Flags depends(graph.values.size());
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) depends[slot(graph.inputs[i])] = is_tangent[i];
  const auto flags_of = [&](std::span<const ValueId> ids) {
    Flags flags;
    for (const ValueId id : ids) flags.push_back(depends[slot(id)]);
    return flags;
  };
  for (const Eqn& eqn : graph.eqns) {
    const Flags flags = flags_of(eqn.inputs);
    if (!any(flags)) continue;
    for (std::size_t i = 0; without_sums && i < flags.size() && adds_elements(*eqn.op); ++i) {
      if (!flags[i] && !is_zero(graph, eqn.inputs[i])) throw not_linear_but_affine(eqn.op->name);
    }
    const Flags made = check_linear(*eqn.op, eqn.attrs, graph.types(eqn.inputs), graph.types(eqn.outputs), graph.axes,
                                    flags, without_sums);
    for (std::size_t i = 0; i < made.size(); ++i) depends[slot(eqn.outputs[i])] = made[i];
  }
  return flags_of(graph.outputs);
}

// Loops and branches, which no tangent may ask for.
Flags check_control(const OpDef& op, const Attrs& attrs, const Flags& is_tangent, std::size_t num_results,
                    bool without_sums) {
  const Control control = op.control(attrs);
  const auto first = is_tangent.begin() + static_cast<std::ptrdiff_t>(control.first_argument);
  if (std::find(is_tangent.begin(), first, true) != first) throw not_linear(op.name);
  const std::span<const GraphAttr> all = bodies_in(attrs);
  const std::span<const GraphAttr> bodies = all.subspan(control.asks ? 1 : 0);
  const BodyFlags settled = settle(control, Flags(first, is_tangent.end()), num_results, bodies.size(),
                                   [&](std::size_t b, const BodyFlags& flags) {
                                     Flags made = check_graph(*bodies[b].graph, flags.arguments, without_sums);
                                     for (std::size_t i = 0; i < made.size(); ++i)
                                       made[i] = made[i] || flags.results[i];
                                     return made;
                                   });
  if (control.asks && any(check_graph(*all[0].graph, settled.arguments, without_sums))) throw not_linear(op.name);
  return settled.results;
}

}  // namespace

Unsupported not_linear(std::string_view op) {
  return misuse<Unsupported>(
      "{} of a tangent is not linear; what a rule gives for the tangents of results must be linear in those of "
      "arguments",
      op);
}

Unsupported not_linear_but_affine(std::string_view op) {
  return misuse<Unsupported>(
      "{} of a tangent and of a value that does not depend on tangents is not linear; what a rule gives for the "
      "tangents of results must be linear in those of arguments",
      op);
}

bool is_zero(const Graph& graph, ValueId id) {
  for (const Eqn& eqn : graph.eqns) {
    if (std::ranges::find(eqn.outputs, id) == eqn.outputs.end()) continue;
    if (const auto* value = eqn.attrs.find_as<Scalar>("value"); value != nullptr && eqn.inputs.empty()) {
      return std::ranges::all_of(value->bytes, [](std::byte byte) { return byte == std::byte{0}; });
    }
    if (eqn.op->op_class != OpClass::kCompute) return false;
    // A product is zero if a factor is, a sum if all summands are.
    bool any_summand = false;
    bool all_summands = true;
    for (std::size_t i = 0; i < eqn.inputs.size(); ++i) {
      const Linear linear = eqn.op->linear[i];
      if (linear == Linear::kNo) continue;
      const bool zero = is_zero(graph, eqn.inputs[i]);
      if (linear == Linear::kAlone && zero) return true;
      any_summand = any_summand || linear != Linear::kAlone;
      all_summands = all_summands && (linear == Linear::kAlone || zero);
    }
    return any_summand && all_summands;
  }
  return false;
}

bool adds_elements(const OpDef& op) {
  return op.elementwise != nullptr && op.arity == 2 && op.linear[0] == Linear::kTogether &&
         op.linear[1] == Linear::kTogether;
}

Flags check_linear(const OpDef& op, const Attrs& attrs, std::span<const Type> operands, std::span<const Type> results,
                   const AxisEnv& axes, const Flags& is_tangent, bool without_sums) {
  if (op.op_class == OpClass::kControl) return check_control(op, attrs, is_tangent, results.size(), without_sums);
  if (attrs.contains("rules") && !attrs.contains("transposed")) return Flags(results.size(), true);
  const bool runs_body = op.op_class == OpClass::kCall || op.op_class == OpClass::kRegion;
  if (runs_body && !attrs.contains("transposed")) return check_graph(attrs.graph(), is_tangent, without_sums);
  return check_by_derivative(op, attrs, operands, results, axes, is_tangent);
}

}  // namespace shoal
