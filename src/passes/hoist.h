// Moves out of loops what is the same in every trip.
#pragma once

#include "ir/graph.h"

namespace shoal {

/// Moves what takes no more memory than what it is made of: what is made of less is better made again. A carry that
/// every trip hands on as it is counts as the same, and is one no more. Nothing leaves a branch or a region.
Graph hoist(Graph graph);

/// Of a partitioned graph: moves what devices exchange of such values, with what is needed for that, where it fits:
/// where the exchanges of a loop add no more to the memory of a device than all that the loop is given takes there.
/// Gathered weights are as large as the parts of all devices; but where they stay, each trip exchanges them anew.
Graph hoist_exchanges(Graph partitioned);

}  // namespace shoal
