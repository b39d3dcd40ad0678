// The slices that a loop gives to its body, for one who goes through its trips himself.
#pragma once

#include "ir/graph.h"
#include "ir/op.h"

namespace shoal {

/// The type of a position: weak, as numbers may go wherever they are needed.
Type position_of_slices();

/// A graph of the stacks that a loop takes slices of, and of a position, that gives the slices there as `body` takes
/// them.
Graph slices_at(const Graph& body, const Control& control);

}  // namespace shoal
