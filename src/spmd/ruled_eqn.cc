#include "spmd/ruled_eqn.h"

namespace shoal {

RuledEqn::RuledEqn(const Graph& graph, const Eqn& equation)
    : eqn(equation),
      inputs(graph.types(equation.inputs)),
      outputs(graph.types(equation.outputs)),
      rule(equation.op->rule(context())) {
  for (ValueId id : equation.inputs) {
    const auto& placement = graph.value(id).placement;
    unreduced.push_back(placement ? placement->partial : Atoms());
  }
}

Placement RuledEqn::operand_placement(std::size_t i, const FactorAxes& axes) const {
  return {.dims = dims_of(rule.operands[i], axes), .partial = unreduced[i]};
}

Placement RuledEqn::result_placement(std::size_t i, const FactorAxes& axes) const {
  Placement placement{.dims = dims_of(rule.results[i], axes), .partial = {}, .kind = rule.reduction};
  // What others sum over may be a dimension of this one.
  AtomSet partial = AtomSet(reduced_atoms(rule, axes)) - placement.sharded();
  for (const Atoms& atoms : unreduced) partial = partial | AtomSet(atoms);
  placement.partial = partial.sorted();
  return placement;
}

std::vector<std::pair<std::size_t, Atoms>> RuledEqn::split_dims(FactorKind kind, const FactorAxes& axes) const {
  std::vector<std::pair<std::size_t, Atoms>> dims;
  if (rule.results.empty()) return dims;
  for (std::size_t d = 0; d < rule.results[0].size(); ++d) {
    for (int factor : rule.results[0][d]) {
      const auto f = static_cast<std::size_t>(factor);
      if (rule.factors[f].kind == kind && !axes[f].empty()) dims.emplace_back(d, axes[f]);
    }
  }
  return dims;
}

std::vector<std::pair<std::size_t, Atoms>> RuledEqn::halo_dims(const FactorAxes& axes) const {
  std::vector<std::pair<std::size_t, Atoms>> dims;
  if (rule.operands.empty()) return dims;
  for (std::size_t d = 0; d < rule.operands[0].size(); ++d) {
    for (int factor : rule.operands[0][d]) {
      const auto f = static_cast<std::size_t>(factor);
      if (takes_halos(rule.factors[f].kind) && !axes[f].empty()) dims.emplace_back(d, axes[f]);
    }
  }
  return dims;
}

}  // namespace shoal
