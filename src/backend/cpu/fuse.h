// Fusion: equations of a partitioned graph that one loop can compute become one equation.
#pragma once

#include "backend/backend.h"
#include "ir/graph.h"

namespace shoal::cpu {

/// Replaces groups of equations by equations of the op `fusion`, whose attribute `body` holds them. Which belong to one
/// loop is said in loop_shape.h. A product that only one group reads begins it, if the loop can follow it tile by tile.
/// Values that are used outside the group are results of it; all others never reach memory. An equation joins the group
/// from which it reads most bytes.
///
/// For memory's sake nothing is joined that makes more bytes wait than it saves: a sum of many values takes in each
/// when it is there, and a product is not followed by a loop whose results could else be written over what that reads.
Graph fuse_loops(Graph graph, Backend::FusionGoal goal = Backend::FusionGoal::kTime);

}  // namespace shoal::cpu
