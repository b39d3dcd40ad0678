// An equation together with what its sharding rule says of it.
#pragma once

#include <utility>
#include <vector>

#include "ir/graph.h"
#include "spmd/factors.h"

namespace shoal {

/// Made once for all the questions that propagation and the partitioner ask of an equation. Types are those of whole
/// values. The equation must outlive it.
struct RuledEqn {
  RuledEqn(const Graph& graph, const Eqn& equation);

  const Eqn& eqn;
  std::vector<Type> inputs;
  std::vector<Type> outputs;
  std::vector<Atoms> unreduced;  ///< Of each operand: over which its placement, if it has one, is partial.
  ShardingRule rule;

  RuleContext context() const { return {.op = *eqn.op, .inputs = inputs, .outputs = outputs, .attrs = eqn.attrs}; }
  /// Where operand `i` must lie, and where result `i` then lies, when factors are split like this. What the type of an
  /// operand leaves unreduced stays so.
  Placement operand_placement(std::size_t i, const FactorAxes& axes) const;
  Placement result_placement(std::size_t i, const FactorAxes& axes) const;
  /// The dimensions of the first result whose factors of `kind` are split, with the atoms that split them.
  std::vector<std::pair<std::size_t, Atoms>> split_dims(FactorKind kind, const FactorAxes& axes) const;
  /// The dimensions of the first operand along which shards take in halos, with the atoms that split them.
  std::vector<std::pair<std::size_t, Atoms>> halo_dims(const FactorAxes& axes) const;
};

}  // namespace shoal
