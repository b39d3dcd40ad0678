// Which equations one loop can compute, and what each of their values is in it.
//
// The loop runs over the `domain`, a shape. Full values have it: elementwise ops over it compute full values.
// Reductions over its last dimensions (not too many elements) give row values: one element for each index of the other
// dimensions. Elementwise ops on row values give row values, and row values can be used with full ones again, so
// softmax is one loop. Reductions over other or larger dimensions give totals, which are results of the loop and not
// used in it. All is read through views (view.h).
#pragma once

#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "backend/cpu/loops/view.h"
#include "ir/graph.h"
#include "sharding/placement.h"

namespace shoal::cpu {

/// The equation that makes each value of a graph; nullptr of inputs.
std::vector<const Eqn*> producers_of(const Graph& graph);

/// Whether all shards of a value have the extents that its type says.
bool has_even_shards(const Graph& graph, ValueId id);

/// The value that `value` is a view of, through all view equations.
View seen_through(const Graph& graph, const std::vector<const Eqn*>& producers, ValueId value);

/// Whether a loop has a place for such an equation: an elementwise op or a reduction. Views and `full` have none of
/// their own: they are part of what reads them.
bool is_loop_op(const Graph& graph, const Eqn& eqn);
/// Whether an equation makes an array of what a loop knows without reading it: constants and positions.
bool is_known(const Eqn& eqn);
/// Whether an equation makes one constant, which a loop holds as a number.
bool is_constant(const Eqn& eqn);

enum class Role : std::uint8_t { kFull, kRow, kTotal };

struct LoopShape {
  Shape domain;
  int columns = -1;  ///< The number of last dimensions that reductions take to give row values; -1: there are none.
  Dims total_axes;   ///< The dimensions that totals are over; empty if there are none.
  std::unordered_map<ValueId, Role> roles;  ///< Of what the equations make.

  /// For each dimension of the domain the dimension of a row value's shape that it is, or -1.
  std::optional<std::vector<int>> row_dims(const Shape& shape) const;
};

/// The loop that computes the given equations, which are in order and loop ops; nothing if no loop does. Operands that
/// none of them makes are read from memory.
std::optional<LoopShape> shape_of_loop(const Graph& graph, const std::vector<const Eqn*>& producers,
                                       std::span<const Eqn* const> eqns);

/// How the domain's dimensions are found in a view that is read for a value of `role`: for each one that of the view's
/// source, or -1; nothing if it does not fit. `shape` is that of the value that is the view.
std::optional<std::vector<int>> read_dims(const LoopShape& loop, const View& view, const Shape& shape, Role role);

}  // namespace shoal::cpu
