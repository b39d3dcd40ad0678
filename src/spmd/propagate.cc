#include "spmd/propagate.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "ir/explicit_axes.h"
#include "spmd/factors.h"
#include "spmd/open_regions.h"

namespace shoal {
namespace {

// What propagation knows of one value.
struct State {
  std::vector<Atoms> dims;
  std::vector<bool> closed;  // Per dimension: given, not to be refined.
  AtomSet forbidden;         // Manual there, or in a region that the value enters or leaves.
  Atoms partial = {};        // Over which its type leaves it unreduced.
};

double bytes_of(const Type& type) {
  return static_cast<double>(num_elements(type.shape)) * static_cast<double>(size_of(type.dtype));
}

class Propagation {
 public:
  explicit Propagation(Graph& graph) : graph_(graph), grid_(*graph.grid), states_(graph.values.size()) {
    for (std::size_t i = 0; i < states_.size(); ++i) {
      const std::size_t rank = graph.values[i].type.rank();
      states_[i] = {.dims = std::vector<Atoms>(rank),
                    .closed = std::vector<bool>(rank, false),
                    .forbidden = graph.values[i].manual};
      if (const auto& given = graph.values[i].type.explicit_axes) take_explicit(*given, states_[i]);
    }
  }

  void fix(ValueId id, std::vector<Atoms> dims) {
    State& state = state_of(id);
    state.closed.assign(dims.size(), true);
    state.dims = std::move(dims);
  }

  void run() {
    for (const Eqn& eqn : graph_.eqns) fix_results(eqn);
    // Elementwise ops first: they cost nothing to agree with.
    sweep([](const Eqn& eqn) { return eqn.op->elementwise != nullptr || eqn.op->op_class == OpClass::kConstraint; });
    sweep([](const Eqn&) { return true; });
    finish();
  }

 private:
  // Explicit axes split a value as its type says and in no other way; the compiler may go on with others.
  void take_explicit(const ExplicitAxes& given, State& state) const {
    Placement typed = grid_.placement_of(given.mesh, spec_of(given), state.dims.size());
    state.dims = std::move(typed.dims);
    state.partial = std::move(typed.partial);
    std::vector<std::string> names;
    for (std::size_t a = 0; a < given.mesh.axis_names().size(); ++a) {
      if (given.mesh.axis_types()[a] == AxisType::kExplicit) names.push_back(given.mesh.axis_names()[a]);
    }
    state.forbidden = state.forbidden | AtomSet(atoms_on(grid_, given.mesh, names));
  }

  State& state_of(ValueId id) { return states_[static_cast<std::size_t>(id)]; }

  void fix_results(const Eqn& eqn) {
    if (eqn.op->op_class == OpClass::kConstraint) {
      const NamedSharding& sharding = eqn.attrs.get<NamedSharding>("sharding");
      const ValueId out = eqn.outputs[0];
      const std::vector<Atoms> typed = state_of(out).dims;
      fix(out, grid_.dims_of(sharding.mesh(), sharding.spec(), graph_.type(out).rank()));
      for (std::size_t d = 0; d < sharding.spec().size(); ++d) {
        if (!sharding.spec()[d].is_unconstrained()) continue;
        state_of(out).closed[d] = false;
        state_of(out).dims[d] = typed[d];
      }
    } else if (eqn.op->op_class == OpClass::kBoundary) {
      // Outside, the spec's axes come first in each dimension, then those of the type, and the compiler may add others
      // that are not manual.
      const NamedSharding& sharding = eqn.attrs.get<NamedSharding>("sharding");
      const ValueId outside = eqn.op->name == "enter_manual" ? eqn.inputs[0] : eqn.outputs[0];
      State& state = state_of(outside);
      Placement outer = grid_.placement_of(sharding.mesh(), sharding.spec(), state.dims.size());
      for (std::size_t d = 0; d < outer.dims.size(); ++d) {
        const AtomSet named(outer.dims[d]);
        std::copy_if(state.dims[d].begin(), state.dims[d].end(), std::back_inserter(outer.dims[d]),
                     [&](Atom atom) { return !named.contains(atom); });
      }
      state.dims = std::move(outer.dims);
      state.partial = std::move(outer.partial);
      state.closed.assign(state.dims.size(), false);
      state.forbidden =
          state.forbidden | AtomSet(atoms_on(grid_, sharding.mesh(), eqn.attrs.get<std::vector<std::string>>("axes")));
    }
  }

  template <class F>
  void sweep(F&& selects) {
    bool changed = true;
    while (changed) {
      changed = false;
      for (const Eqn& eqn : graph_.eqns) {
        if (eqn.op->rule != nullptr && selects(eqn)) changed = visit(eqn) || changed;
      }
      for (std::size_t i = graph_.eqns.size(); i-- > 0;) {
        const Eqn& eqn = graph_.eqns[i];
        if (eqn.op->rule != nullptr && selects(eqn)) changed = visit(eqn) || changed;
      }
    }
  }

  // Lets the operands and results of one equation agree. Returns whether a placement was refined.
  bool visit(const Eqn& eqn) {
    const std::vector<Type> inputs = graph_.types(eqn.inputs);
    const std::vector<Type> outputs = graph_.types(eqn.outputs);
    const ShardingRule rule = eqn.op->rule({.op = *eqn.op, .inputs = inputs, .outputs = outputs, .attrs = eqn.attrs});
    struct Tensor {
      ValueId id;
      const TensorFactors* factors;
      double bytes;
    };
    std::vector<Tensor> tensors;
    for (std::size_t i = 0; i < eqn.inputs.size(); ++i) {
      tensors.push_back({eqn.inputs[i], &rule.operands[i], bytes_of(inputs[i])});
    }
    for (std::size_t i = 0; i < eqn.outputs.size(); ++i) {
      tensors.push_back({eqn.outputs[i], &rule.results[i], bytes_of(outputs[i])});
    }
    std::stable_sort(tensors.begin(), tensors.end(),
                     [](const Tensor& a, const Tensor& b) { return a.bytes > b.bytes; });
    FactorAxes axes(rule.factors.size());
    for (const Tensor& tensor : tensors) {
      extend(grid_, rule, axes, project(grid_, rule, *tensor.factors, state_of(tensor.id).dims));
    }
    bool changed = false;
    for (const Tensor& tensor : tensors) changed = refine(tensor.id, dims_of(*tensor.factors, axes)) || changed;
    return changed;
  }

  // Lengthens the open dimensions of a value towards `dims` where these go on from what it has.
  bool refine(ValueId id, const std::vector<Atoms>& dims) {
    State& state = state_of(id);
    AtomSet used = state.forbidden;
    for (const Atoms& atoms : state.dims) used = used | AtomSet(atoms);
    bool changed = false;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      Atoms& have = state.dims[d];
      const bool goes_on = have.size() < dims[d].size() && std::equal(have.begin(), have.end(), dims[d].begin());
      if (state.closed[d] || !goes_on) continue;
      for (std::size_t i = have.size(); i < dims[d].size() && !used.contains(dims[d][i]); ++i) {
        have.push_back(dims[d][i]);
        used.insert(dims[d][i]);
        changed = true;
      }
    }
    return changed;
  }

  void finish() {
    for (std::size_t i = 0; i < states_.size(); ++i) {
      graph_.values[i].placement =
          Placement{.dims = std::move(states_[i].dims), .partial = std::move(states_[i].partial)};
    }
  }

  Graph& graph_;
  const Grid& grid_;
  std::vector<State> states_;
};

}  // namespace

Graph propagate(Graph graph, const std::vector<std::optional<Placement>>& inputs) {
  SHOAL_CHECK(graph.grid != nullptr, "propagation needs a grid");
  Propagation propagation(graph);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i]) propagation.fix(graph.inputs[i], inputs[i]->dims);
  }
  propagation.run();
  return graph;
}

}  // namespace shoal
