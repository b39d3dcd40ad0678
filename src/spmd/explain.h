// A partitioned graph told to its author: what each line of the program became, and what it makes devices exchange.
#pragma once

#include <cstdint>
#include <string>

#include "ir/graph.h"

namespace shoal {

/// One line for each equation: the user's line, the op, and the whole shapes and placements of its operands and
/// results; then the bytes that a collective moves and the operations that a device does, with the seconds that these
/// take at the speeds of the mesh. Results of `threshold` bytes or more that lie whole on every one of several devices
/// are flagged, and so are products with a softmax of a product that has as many: attention that is written out. The
/// last line adds up.
std::string explain(const Graph& partitioned, std::int64_t threshold);

}  // namespace shoal
