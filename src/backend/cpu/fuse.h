// Fusion: equations of a partitioned graph that one loop can compute become one equation.
#pragma once

#include "ir/graph.h"

namespace shoal::cpu {

/// Replaces groups of equations by equations of the op `fusion`, whose attribute `body` holds them. Which belong to one
/// loop is said in loop_shape.h. A product that only one group reads begins it, if the loop can follow it tile by tile.
/// Values that are used outside the group are results of it; all others never reach memory. An equation joins the group
/// from which it reads most bytes.
Graph fuse_loops(const Graph& graph);

}  // namespace shoal::cpu
