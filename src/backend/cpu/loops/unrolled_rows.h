// Short rows that are reduced, each to a value or all of them to one row: a loop that computes many rows at once, each
// in a lane of the vectors.
#pragma once

#include <optional>

#include "backend/cpu/loops/lower.h"
#include "ir/graph.h"

namespace shoal::cpu {

/// The loop of `plan`, the one of `body`, with its rows as columns: what it does for each column of a row it does one
/// after the other, in one phase, and rows are reduced in the same order. Nothing if the plan reduces no rows, if they
/// are long or few, or if shards of the body have other extents than its types say and that is known. Where it is
/// not, the plan is for shards that have the extents of the types.
std::optional<LoopPlan> unroll_rows(const LoopPlan& plan, const Graph& body);

}  // namespace shoal::cpu
