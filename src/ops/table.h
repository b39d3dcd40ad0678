// All ops, and the ways to reach their records.
#pragma once

#include <span>
#include <string_view>

#include "ir/op.h"

namespace shoal {

// The families, one file each.
std::span<const OpDef> elementwise_ops();
std::span<const OpDef> reduce_ops();
std::span<const OpDef> contract_ops();
std::span<const OpDef> linalg_ops();
std::span<const OpDef> general_linalg_ops();
std::span<const OpDef> convolution_ops();
std::span<const OpDef> fft_ops();
std::span<const OpDef> attention_ops();
std::span<const OpDef> movement_ops();
std::span<const OpDef> window_ops();
std::span<const OpDef> gather_ops();
std::span<const OpDef> sort_ops();
std::span<const OpDef> cumulative_ops();
std::span<const OpDef> creation_ops();
std::span<const OpDef> placement_ops();
std::span<const OpDef> collective_ops();
std::span<const OpDef> solver_ops();
std::span<const OpDef> call_ops();
std::span<const OpDef> control_ops();
std::span<const OpDef> effect_ops();
std::span<const OpDef> custom_ops();

/// Every op, in the order of the families.
std::span<const OpDef* const> all_ops();

/// The op of that name, or nullptr.
const OpDef* find_op(std::string_view name);

/// The op of that name, which exists.
const OpDef& op_named(std::string_view name);

}  // namespace shoal
