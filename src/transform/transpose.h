// Transposition of linear graphs: from the cotangents of results to those of inputs.
#pragma once

#include <vector>

#include "ir/graph.h"

namespace shoal {

/// What is known of the cotangents around a graph.
struct TransposeOptions {
  /// Over these axes, sorted, cotangents are not summed, as there types do not say for sure over which axes values
  /// differ, or as devices may not meet here.
  AxisNames unchecked = {};
  /// The outputs that have a cotangent; empty if all do.
  std::vector<bool> given = {};
  /// How many of the linear inputs get a cotangent of their own type. What devices have of those of the others may be
  /// parts, which the caller sums.
  std::size_t num_whole = static_cast<std::size_t>(-1);
  /// Whether a cotangent of zero stays zero where it meets infinities and NaN in elementwise operations.
  bool strong_zeros = false;
};

struct Transposed {
  /// Its inputs are those that are not linear, then the cotangents of the outputs that have one; its outputs are the
  /// cotangents of the linear inputs that have one.
  Graph graph;
  std::vector<bool> has_cotangent;  ///< For each linear input.
};

/// The transpose of a graph that is linear in its inputs from `first_linear` on. It walks the equations once, from the
/// last to the first. Throws Unsupported, at the line of the equation, for an op without a transpose.
Transposed transpose(const Graph& linear, std::size_t first_linear, const TransposeOptions& options);

/// The same, with cotangents of all outputs, and of all linear inputs.
Graph transpose(const Graph& linear, std::size_t first_linear, const AxisNames& unchecked = {},
                bool strong_zeros = false);

}  // namespace shoal
