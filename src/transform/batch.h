// Batching of graphs: what a graph computes in each place of one more dimension of its inputs.
//
// The rules stand in the records of the ops (ops/batching.h); this is the walk over equations, and what becomes of the
// graphs that equations hold.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ops/batching.h"

namespace shoal {

/// The dimension that is mapped.
struct MappedAxis {
  std::int64_t size = 1;
  std::string name = {};  ///< For collectives; empty if it has none.
  MappedSplit split = {};
  /// Inside a region over these axes, sorted, devices have places of their own.
  AxisNames varying = {};
};

struct BatchedGraph {
  Graph graph;
  std::vector<bool> mapped;  ///< For each output.
};

/// The graph for inputs of which those of `mapped` have the dimension first. Outputs that depend on these, or for which
/// `wanted` says so, have it first, too. `types`, if there are any, are those of what the graph gets, which say
/// how Explicit axes split the dimension. Throws Unsupported, at the line of the equation, for what cannot be mapped.
BatchedGraph batch(const Graph& graph, const std::vector<bool>& mapped, const MappedAxis& axis,
                   const std::vector<bool>& wanted = {}, std::span<const Type> types = {});

/// The axes without those of what is mapped.
AxisEnv without_axis(const AxisEnv& axes, const MappedAxis& axis);

/// Whether an equation, or one inside it, is a collective over this axis.
bool is_over_axis(const Eqn& eqn, std::string_view axis);

/// The same for an equation, written to the graph of `build`.
std::vector<Batched> batch_eqn(const OpDef& op, const Attrs& attrs, std::span<const Batched> operands,
                               const MappedAxis& axis, Builder& build);

}  // namespace shoal
