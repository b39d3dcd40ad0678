// The oracle: graphs evaluated on whole arrays, by the ops' reference kernels and nothing else of the library, but
// for decompositions of matrices by their kernels. Manual regions are evaluated device by device, collectives by plain
// loops.
#pragma once

#include <span>
#include <vector>

#include "core/buffer.h"
#include "ir/graph.h"

namespace shoal::parity {

/// The values that an equation of `graph` gives.
std::vector<Buffer> evaluate(const Graph& graph, const Eqn& eqn, const std::vector<Buffer>& operands);

/// Every value of the graph, by its id.
std::vector<Buffer> evaluate(const Graph& graph, const std::vector<Buffer>& inputs);

}  // namespace shoal::parity
