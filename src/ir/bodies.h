// The graphs that equations hold: all who look into them, or rewrite them, do so by these functions.
#pragma once

#include <boost/container/small_vector.hpp>

#include "base/function_ref.h"
#include "ir/graph.h"

namespace shoal {

/// The graphs that an equation holds, in the order of its attributes.
boost::container::small_vector<const Graph*, 2> bodies_of(const Attrs& attrs);
inline boost::container::small_vector<const Graph*, 2> bodies_of(const Eqn& eqn) { return bodies_of(eqn.attrs); }

/// Calls `visit` for every equation of `graph`, each before those of the graphs that it holds.
void for_each_eqn(const Graph& graph, FunctionRef<void(const Eqn&)> visit);

/// Whether `holds` of any of these equations.
bool any_eqn(const Graph& graph, FunctionRef<bool(const Eqn&)> holds);

/// Replaces each graph that an equation holds by what `rewrite` makes of it.
void map_bodies(Attrs& attrs, FunctionRef<Graph(const Graph&)> rewrite);
inline void map_bodies(Eqn& eqn, FunctionRef<Graph(const Graph&)> rewrite) { map_bodies(eqn.attrs, rewrite); }

}  // namespace shoal
