// Calls of which the user says what becomes of them: the derivative of a jit with `rules`, the transpose of a
// linear_call.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "transform/batch.h"
#include "transform/linearize.h"

namespace shoal {

/// The attributes of an equation that runs, whose rules, and those of calls in its bodies, nobody asks for any more:
/// equal ones are one program, whatever their rules.
Attrs without_rules(Attrs attrs);

/// What the rules of a call give for its derivative, or its body if there are none. Throws Unsupported for rules that
/// were read from text.
Linearized linearize_by_rules(const Attrs& attrs, std::span<const Type> operands,
                              const std::vector<bool>& with_tangent);

/// Whether a call has a rule for vmap and none for its derivative.
bool has_rule_for_vmap_alone(const Attrs& attrs);

/// As of linearize_eqn, for such a call: under vmap the derivative is that of what the rule gives.
LinearizedEqn linearize_with_rule_for_vmap(const OpDef& op, const Attrs& attrs, const std::vector<bool>& with_tangent);

/// As of linearize_eqn: the linear_call itself of the tangents of what it is linear in; where others have some, its
/// body is differentiated.
LinearizedEqn linearize_linear_call(const OpDef& op, const Attrs& attrs, std::span<const Type> operands,
                                    const std::vector<bool>& with_tangent);

/// The cotangents of the operands of a linear_call whose rules are asked for its transpose.
std::vector<MaybeValue> cotangents_by_rules(const TransposeContext& context);

/// What the rules of a call give for operands of which those of `mapped` have the dimension of `axis` first; nothing if
/// there are none for that.
std::optional<BatchedGraph> batched_by_rules(const Attrs& attrs, std::span<const Type> operands,
                                             const std::vector<bool>& mapped, const MappedAxis& axis);

/// The attributes of a call with `rules` or with a graph `transposed`, apart from its body, for operands of which
/// those of `mapped` have the dimension of `axis` first, and results that all have it.
Attrs batched_rules(Attrs attrs, const std::vector<bool>& mapped, const MappedAxis& axis);

}  // namespace shoal
