// Which equation makes a value: what the simplifications of records ask.
#pragma once

#include <cstddef>
#include <vector>

#include "ir/graph.h"

namespace shoal {

/// The makers of the values of a graph that a pass writes, equation by equation.
class Makers {
 public:
  /// Of `graph`, which lives longer, and whose values are all there.
  explicit Makers(const Graph& graph) : graph_(graph), makers_(graph.values.size(), -1) {}

  /// The graph has got one more equation.
  void note_last() {
    for (const ValueId id : graph_.eqns.back().outputs) {
      makers_[slot(id)] = static_cast<std::ptrdiff_t>(graph_.eqns.size()) - 1;
    }
  }

  /// The equation that makes a value; nullptr for an input.
  const Eqn* of(ValueId id) const {
    const std::ptrdiff_t maker = makers_[slot(id)];
    return maker < 0 ? nullptr : &graph_.eqns[static_cast<std::size_t>(maker)];
  }
  const Type& type(ValueId id) const { return graph_.type(id); }

 private:
  const Graph& graph_;
  std::vector<std::ptrdiff_t> makers_;
};

}  // namespace shoal
