// Transposition of linear graphs: from the cotangents of results to those of inputs.
#pragma once

#include "ir/graph.h"

namespace shoal {

/// The transpose of a graph that is linear in its inputs from `first_linear` on: its inputs are those before, then
/// cotangents of all outputs; its outputs are the cotangents of the linear inputs. It walks the equations once, from the
/// last to the first. Over `unchecked` axes, sorted, cotangents are not summed, as there types do not say for sure over
/// which axes values differ. Throws Unsupported, at the line of the equation, for an op without a transpose.
Graph transpose(const Graph& linear, std::size_t first_linear, const AxisNames& unchecked = {});

}  // namespace shoal
