// What equations compute, and what that takes.
#pragma once

#include "ir/graph.h"

namespace shoal {

/// The bytes of an array of this shape.
double bytes_of(const Shape& shape, Dtype dtype);
double bytes_of(const Type& type);

/// The operations on elements that an equation does, with the shapes of its graph: an elementwise op does one for each
/// element of its result, a reduction one for each that it goes through, and a product two. What only moves elements
/// does none, and a fusion what is in it.
double flops(const Graph& graph, const Eqn& eqn);

/// The bytes that could be moved in the time that an equation takes, without the graphs that it holds: a measure for
/// what it costs to compute its results again.
double work_of(const Graph& graph, const Eqn& eqn);

/// The same with what the graphs that it holds under control do, as often as they run.
double work_with_bodies(const Graph& graph, const Eqn& eqn);

}  // namespace shoal
