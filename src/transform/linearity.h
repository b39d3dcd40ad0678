// Whether what is computed from tangents is linear in them.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/misuse.h"
#include "ir/graph.h"

namespace shoal {

/// The error for an op that is not.
Unsupported not_linear(std::string_view op);

/// That for a sum of a tangent and something else.
Unsupported not_linear_but_affine(std::string_view op);
/// Whether an op adds its operands up, element by element, so that the derivative by one forgets the others.
bool adds_elements(const OpDef& op);

/// Whether a value is made of nothing but constants of zero.
bool is_zero(const Graph& graph, ValueId id);

/// Checks that an equation is linear in its operands of `is_tangent`, the bodies that it runs included; calls with
/// rules of their own are believed. Says which results depend on them. Throws not_linear; and for sums with something
/// else, if `without_sums`: to a derivative in reverse these make no difference.
std::vector<bool> check_linear(const OpDef& op, const Attrs& attrs, std::span<const Type> operands,
                               std::span<const Type> results, const AxisEnv& axes, const std::vector<bool>& is_tangent,
                               bool without_sums);

}  // namespace shoal
