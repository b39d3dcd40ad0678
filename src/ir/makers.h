// Which equation makes a value: what the simplifications of records ask.
#pragma once

#include <cstddef>
#include <vector>

#include "ir/graph.h"

namespace shoal {

/// The makers of the values of a graph that a pass writes, equation by equation.
class Makers {
 public:
  /// Of `graph`, which lives longer, and whose values are all there; its equations may follow.
  explicit Makers(const Graph& graph) : graph_(graph), makers_(graph.values.size(), -1) {
    for (std::size_t i = 0; i < graph.eqns.size(); ++i) note(i);
  }

  /// The graph has got one more equation.
  void note_last() { note(graph_.eqns.size() - 1); }

  /// The equation that makes a value; nullptr for an input.
  const Eqn* of(ValueId id) const {
    const std::ptrdiff_t maker = makers_[slot(id)];
    return maker < 0 ? nullptr : &graph_.eqns[static_cast<std::size_t>(maker)];
  }
  const Type& type(ValueId id) const { return graph_.type(id); }

 private:
  void note(std::size_t eqn) {
    for (const ValueId id : graph_.eqns[eqn].outputs) makers_[slot(id)] = static_cast<std::ptrdiff_t>(eqn);
  }

  const Graph& graph_;
  std::vector<std::ptrdiff_t> makers_;
};

}  // namespace shoal
