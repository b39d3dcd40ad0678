// Derivatives of manual regions, whose graph runs on the shards of devices. What crosses the border lies as what it
// belongs to: tangents and cotangents as their values, and residuals where they were made, a part on each device.
#pragma once

#include <span>
#include <vector>

#include "transform/checkpoint.h"
#include "transform/linearize.h"

namespace shoal {

/// As of linearize_eqn.
LinearizedEqn linearize_region(const OpDef& op, const Attrs& attrs, std::span<const Type> operands,
                               const std::vector<bool>& with_tangent);

/// A region of which what is computed again, and what is kept for that, are `parts`: see CutEqn.
CutEqn recomputed_region(const Attrs& attrs, Recomputed parts, const std::vector<bool>& wanted);

/// Graphs of one region, like that of these attributes, for values inside of it one by one. What devices have of such a
/// value crosses the border as slices along a first dimension, unless it is the same on all: `operands` are types of
/// what crossed it so.
Graph graph_in_region(const OpDef& op, const Attrs& attrs, const Graph& graph, std::span<const Type> operands,
                      SourceLocation where);
/// The graph that gives the arguments of the region's own graph so, for operands of the region.
Graph arguments_in_region(const OpDef& op, const Attrs& attrs, std::span<const Type> operands, SourceLocation where);

/// The cotangents of operands that are wanted. Where types do not say over which axes values differ, those of operands
/// that are not split are summed at the border, and those of results that are not joined are divided, as in JAX.
std::vector<MaybeValue> cotangents_of_region(const TransposeContext& context);

}  // namespace shoal
