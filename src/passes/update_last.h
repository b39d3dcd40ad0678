// Puts what still reads a value before what updates it.
//
// An op that gives its operand with some elements replaced does so where the operand lies, if nobody needs that later:
// a loop that writes one row of a carry per trip then takes no time for the others. What reads the operand afterwards
// can as well be computed before, unless it needs the update.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ir/graph.h"

namespace shoal {

/// The operand that a result of an equation is an update of, step by step if it is a loop or branch; -1 if none.
std::int32_t updated_operand(const Eqn& eqn, std::size_t result);

/// The argument that an output of a graph is, or that is updated to it step by step; -1 if there is none.
std::int32_t updated_argument(const Graph& graph, ValueId output);

/// The graph, and the bodies of loops and branches in it, in such an order. Only ops that compute are moved: effects
/// and collectives keep their order. What is moved makes no more bytes than the copy that it saves.
Graph update_last(Graph graph);

}  // namespace shoal
