// Values seen through ops that only say where elements lie, or what their bits mean: broadcast_in_dim, slice,
// transpose, reshapes that add or drop dimensions of extent 1, and bitcasts to a dtype of the same size. A fused loop
// reads through them without a copy.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"

namespace shoal::cpu {

/// The element of a view at index i is that of `source` at starts[d] + steps[d] * i[v] in each dimension d that a
/// dimension v of the view has in `dims`, and at starts[d] in the others. Its dtype may be another one of the same
/// size.
struct View {
  ValueId source = -1;
  std::vector<int> dims;  ///< For each dimension of the view, that of the source, or -1: repeated.
  Dims starts;
  Dims steps;
  friend bool operator==(const View&, const View&) = default;

  /// A value seen as it is.
  static View of(ValueId value, std::size_t rank);
  bool is_whole() const { return *this == of(source, starts.size()); }
};

/// Whether an equation is such an op.
bool is_view(const Graph& graph, const Eqn& eqn);

/// The result of such an equation, whose operand is `operand`.
View view_through(const Graph& graph, const Eqn& eqn, const View& operand);

/// Pairs the dimensions of two shapes that are equal but for extents of 1: for each dimension of `shape` the one of
/// `other`, or -1 for an extent of 1. Nothing if they differ.
std::optional<std::vector<int>> pair_dims(const Shape& shape, const Shape& other);

}  // namespace shoal::cpu
