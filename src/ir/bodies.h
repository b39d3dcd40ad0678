// The graphs that equations hold: all who look into them, or rewrite them, do so by these functions.
#pragma once

#include "base/function_ref.h"
#include "ir/graph.h"

namespace shoal {

/// The graph that an equation holds, or nullptr.
const Graph* body_of(const Eqn& eqn);

/// Calls `visit` for every equation of `graph`, each before those of the graph that it holds.
void for_each_eqn(const Graph& graph, FunctionRef<void(const Eqn&)> visit);

/// Whether `holds` of any of these equations.
bool any_eqn(const Graph& graph, FunctionRef<bool(const Eqn&)> holds);

/// Replaces the graph that an equation holds, if it does, by what `rewrite` makes of it.
void map_body(Eqn& eqn, FunctionRef<Graph(const Graph&)> rewrite);

}  // namespace shoal
