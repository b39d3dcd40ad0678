// Whether what is computed from tangents is linear in them.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/misuse.h"
#include "ir/op.h"

namespace shoal {

/// The error for an op that is not.
Unsupported not_linear(std::string_view op);

/// Checks that an equation is linear in its operands of `is_tangent`, the bodies that it runs included; calls with
/// rules of their own are believed. Says which results depend on them. Throws not_linear.
std::vector<bool> check_linear(const OpDef& op, const Attrs& attrs, std::span<const Type> operands,
                               std::span<const Type> results, const AxisEnv& axes, const std::vector<bool>& is_tangent);

}  // namespace shoal
