// Puts equations between what processes send each other and what needs it.
//
// A collective, and what needs its result, is moved behind what follows and does not: what it exchanges is under way
// meanwhile, as an executable sends it when the operands are made. Collectives and effects keep their order, which all
// processes must share. One that comes in rounds ends before the next begins, or the two would mix.
#pragma once

#include "ir/graph.h"

namespace shoal {

/// The graph as it is if all its devices are of one process.
Graph overlap(Graph graph);

}  // namespace shoal
