// Opens the manual regions of a graph: the bodies of shard_map become part of it.
#pragma once

#include <span>
#include <vector>

#include "ir/graph.h"

namespace shoal {

/// Replaces every shard_map equation of `graph`, which has a grid, by boundary ops and the equations of its body.
/// Inside a region values are local to its manual axes (`Value::manual`) and global to the others, which the compiler
/// goes on to split. Axes of collectives become axes of the grid.
Graph open_regions(Graph graph);

/// Appends the equations of a shard_map body to `target`, with its inputs replaced by `arguments`; returns the values
/// that stand for its outputs. `mesh` names the axes of the body; `manual` are the atoms of the region.
std::vector<ValueId> append_body(Graph& target, const Graph& body, const Mesh& mesh, AtomSet manual,
                                 std::span<const ValueId> arguments);

/// The atoms on `grid` of axes of `mesh`, which it covers.
Atoms atoms_on(const Grid& grid, const Mesh& mesh, const std::vector<std::string>& axes);

}  // namespace shoal
