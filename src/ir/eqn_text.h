// Pieces of the text form of graphs that other folders print too.
#pragma once

#include <string>

#include "ir/graph.h"

namespace shoal {

/// One equation with its results' types, as it stands in the text of its graph.
std::string eqn_text(const Graph& graph, const Eqn& eqn);

}  // namespace shoal
