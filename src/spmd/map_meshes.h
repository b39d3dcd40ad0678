// Rewrites the meshes that a graph names.
#pragma once

#include "base/function_ref.h"
#include "ir/graph.h"

namespace shoal {

/// The graph with each mesh of its equations, sub-graphs included, replaced by what `f` gives for it.
Graph map_meshes(Graph graph, FunctionRef<Mesh(const Mesh&)> f);

/// The sharding over what `f` gives for its mesh, if it has one.
Sharding map_mesh(const Sharding& sharding, FunctionRef<Mesh(const Mesh&)> f);

}  // namespace shoal
