#include "spmd/propagate.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <utility>

#include "base/check.h"
#include "ir/explicit_axes.h"
#include "spmd/cost.h"
#include "spmd/open_regions.h"
#include "spmd/reshard.h"
#include "spmd/ruled_eqn.h"

namespace shoal {
namespace {

// What propagation knows of one value.
struct State {
  std::vector<Atoms> dims;
  std::vector<bool> closed;  // Per dimension: given, not to be refined.
  AtomSet forbidden;         // Manual there, or in a region that the value enters or leaves.
  Atoms partial = {};        // Over which its type leaves it unreduced.
};

// One equation, as its operands and results see it.
struct Step {
  struct Tensor {
    ValueId id;
    const TensorFactors* factors;
    bool is_result;
    double bytes;
  };

  Step(const Graph& graph, const Eqn& eqn, const std::vector<int>& uses) : ruled(graph, eqn) {
    const auto add = [&](ValueId id, const TensorFactors& factors, bool is_result) {
      tensors.push_back({id, &factors, is_result, bytes_of(graph.type(id).shape, graph.type(id).dtype)});
    };
    for (std::size_t i = 0; i < eqn.inputs.size(); ++i) add(eqn.inputs[i], ruled.rule.operands[i], false);
    for (std::size_t i = 0; i < eqn.outputs.size(); ++i) add(eqn.outputs[i], ruled.rule.results[i], true);
    std::vector<int> carriers(ruled.rule.factors.size(), 0);
    std::vector<bool> in_operands(carriers.size(), false);
    int arrays = 0;
    bool takes_arrays = false;
    for (const Tensor& tensor : tensors) {
      if (tensor.factors->empty()) continue;
      ++arrays;
      if (!tensor.is_result) {
        takes_arrays = true;
        shares_operands = shares_operands || uses[static_cast<std::size_t>(tensor.id)] > 1;
      }
      for (const DimFactors& dim : *tensor.factors) {
        for (int factor : dim) {
          ++carriers[static_cast<std::size_t>(factor)];
          if (!tensor.is_result) in_operands[static_cast<std::size_t>(factor)] = true;
        }
      }
    }
    for (std::size_t f = 0; f < carriers.size(); ++f) {
      if (ruled.rule.factors[f].size == 1) continue;
      passes_on = passes_on && ruled.rule.factors[f].kind == FactorKind::kPassThrough && carriers[f] == arrays;
      spreads = spreads || (takes_arrays && !in_operands[f]);
    }
    std::stable_sort(tensors.begin(), tensors.end(),
                     [](const Tensor& a, const Tensor& b) { return a.bytes > b.bytes; });
  }

  RuledEqn ruled;
  std::vector<Tensor> tensors;   // The larger first.
  bool passes_on = true;         // All dimensions belong together: elementwise ops, reshapes, transposes.
  bool spreads = false;          // The result repeats its operands along a dimension.
  bool shares_operands = false;  // With other equations.
};

// What is carried in one round of propagation. Each goes on where the one before it came to rest.
struct Round {
  bool (*selects)(const Step&);
  bool only_pass_through = false;    // Only factors along which shards compute alone.
  bool only_back_to_spread = false;  // Where the result repeats its operands, it says how they are split.
};

// Shardy's order. Ops that all dimensions pass cost nothing to agree with; a value with several users might have to
// disagree with one of them; and what a small operand would have of a large result comes last.
constexpr Round kRounds[] = {
    {.selects = [](const Step& step) { return step.passes_on && !step.shares_operands; }},
    {.selects = [](const Step& step) { return step.passes_on; }},
    {.selects = [](const Step&) { return true; }, .only_pass_through = true, .only_back_to_spread = true},
    {.selects = [](const Step&) { return true; }, .only_back_to_spread = true},
    {.selects = [](const Step&) { return true; }},
};

class Propagation {
 public:
  explicit Propagation(Graph& graph)
      : graph_(graph), grid_(*graph.grid), states_(graph.values.size()), touching_(graph.values.size()) {
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
    const std::vector<int> uses = count_uses(graph_);
    steps_.reserve(graph_.eqns.size());  // Steps point into themselves.
    for (const Eqn& eqn : graph_.eqns) {
      fix_results(eqn);
      if (eqn.op->rule != nullptr) steps_.emplace_back(graph_, eqn, uses);
    }
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      for (const Step::Tensor& tensor : steps_[i].tensors) touching_[static_cast<std::size_t>(tensor.id)].push_back(i);
    }
    // First what nobody disagrees with spreads; that may decide what is left to settle.
    for (const Round& round : kRounds) {
      sweep(round, Conflicts::kLeave);
      sweep(round, Conflicts::kSettle);
    }
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
    } else if (is_boundary(*eqn.op)) {
      // Outside, the spec's axes come first in each dimension, then those of the type, and the compiler may add others
      // that are not manual.
      const NamedSharding& sharding = eqn.attrs.get<NamedSharding>("sharding");
      const ValueId outside = eqn.op->op_class == OpClass::kEnter ? eqn.inputs[0] : eqn.outputs[0];
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

  enum class Conflicts : std::uint8_t { kLeave, kSettle };

  // Visits steps, forwards and backwards in turn, until none of their values changes any more.
  void sweep(const Round& round, Conflicts conflicts) {
    stale_.assign(steps_.size(), false);
    for (std::size_t i = 0; i < steps_.size(); ++i) stale_[i] = round.selects(steps_[i]);
    bool changed = true;
    const auto look_at = [&](std::size_t i) {
      if (!stale_[i]) return;
      stale_[i] = false;
      changed = visit(i, round, conflicts) || changed;
    };
    while (changed) {
      changed = false;
      for (std::size_t i = 0; i < steps_.size(); ++i) look_at(i);
      for (std::size_t i = steps_.size(); i-- > 0;) look_at(i);
    }
  }

  // Lets the operands and results of one equation agree. Returns whether a placement was refined.
  bool visit(std::size_t index, const Round& round, Conflicts conflicts) {
    const Step& step = steps_[index];
    const ShardingRule& rule = step.ruled.rule;
    const bool only_back = round.only_back_to_spread && step.spreads;
    std::vector<FactorAxes> wishes;
    for (const Step::Tensor& tensor : step.tensors) {
      if (only_back && !tensor.is_result) continue;
      FactorAxes wish = project(grid_, rule, *tensor.factors, state_of(tensor.id).dims);
      for (std::size_t f = 0; f < rule.factors.size(); ++f) {
        if (round.only_pass_through && rule.factors[f].kind != FactorKind::kPassThrough) wish[f].clear();
      }
      add_wish(wishes, std::move(wish));
    }
    const Agreement agreement = agree(rule, wishes);
    const bool settles = agreement.is_contested && conflicts == Conflicts::kSettle;
    const FactorAxes axes = settles ? cheapest(step, wishes) : agreement.axes;
    bool changed = false;
    for (const Step::Tensor& tensor : step.tensors) {
      if (only_back && tensor.is_result) continue;
      std::vector<Atoms> dims = refined(tensor.id, dims_of(*tensor.factors, axes));
      if (dims == state_of(tensor.id).dims) continue;
      state_of(tensor.id).dims = std::move(dims);
      changed = true;
      for (std::size_t other : touching_[static_cast<std::size_t>(tensor.id)]) {
        if (round.selects(steps_[other])) stale_[other] = true;
      }
    }
    return changed;
  }

  struct Agreement {
    FactorAxes axes;
    bool is_contested = false;
  };

  // Per factor as many atoms as no wish contradicts: where wishes for it go apart, or an atom is wished for two
  // factors, they end.
  Agreement agree(const ShardingRule& rule, const std::vector<FactorAxes>& wishes) const {
    FactorAxes common(rule.factors.size());
    bool is_contested = false;
    AtomSet seen;
    AtomSet twice;
    for (std::size_t f = 0; f < common.size(); ++f) {
      for (const FactorAxes& wish : wishes) {
        if (wish[f].size() > common[f].size()) common[f] = wish[f];
      }
      AtomSet wished;
      std::size_t length = common[f].size();
      for (const FactorAxes& wish : wishes) {
        wished = wished | AtomSet(wish[f]);
        const auto apart = std::mismatch(wish[f].begin(), wish[f].end(), common[f].begin());
        if (apart.first == wish[f].end()) continue;
        length = std::min(length, static_cast<std::size_t>(apart.first - wish[f].begin()));
        is_contested = true;
      }
      common[f].resize(length);
      twice = twice | (seen & wished);
      seen = seen | wished;
    }
    for (Atoms& atoms : common) {
      const auto contested = std::find_if(atoms.begin(), atoms.end(), [&](Atom atom) { return twice.contains(atom); });
      atoms.erase(contested, atoms.end());
    }
    Agreement agreement{.axes = FactorAxes(common.size()), .is_contested = is_contested || !twice.empty()};
    extend(grid_, rule, agreement.axes, common);
    return agreement;
  }

  // Every wish in turn comes first and the others fill in. Of those that make devices receive the fewest bytes, the
  // wish of the largest tensor wins.
  FactorAxes cheapest(const Step& step, const std::vector<FactorAxes>& wishes) const {
    FactorAxes best;
    double best_bytes = std::numeric_limits<double>::infinity();
    for (const FactorAxes& first : wishes) {
      FactorAxes axes(step.ruled.rule.factors.size());
      extend(grid_, step.ruled.rule, axes, first);
      for (const FactorAxes& wish : wishes) extend(grid_, step.ruled.rule, axes, wish);
      if (axes == best) continue;
      const double bytes = received_bytes(step, axes);
      if (bytes >= best_bytes) continue;
      best = std::move(axes);
      best_bytes = bytes;
    }
    return best;
  }

  // What devices would receive for this equation if its factors were split like this and open dimensions followed.
  double received_bytes(const Step& step, const FactorAxes& axes) const {
    double bytes = exchanged_bytes(grid_, step.ruled, axes);
    for (const Step::Tensor& tensor : step.tensors) {
      const Type& type = graph_.type(tensor.id);
      Placement here{.dims = dims_of(*tensor.factors, axes), .partial = {}};
      Placement there{.dims = refined(tensor.id, here.dims), .partial = {}};
      if (tensor.is_result) {
        here.partial = reduced_atoms(step.ruled.rule, axes);
        there.partial =
            (AtomSet(here.partial) & AtomSet(states_[static_cast<std::size_t>(tensor.id)].partial)).sorted();
        here.kind = step.ruled.rule.reduction;
      } else {
        std::swap(here, there);
      }
      if (here == there) continue;
      bytes += plan_reshard(grid_, type.shape, size_of(type.dtype), here, there).bytes;
    }
    return bytes;
  }

  // The dimensions of a value, the open ones lengthened towards `dims` where these go on from what it has.
  std::vector<Atoms> refined(ValueId id, const std::vector<Atoms>& dims) const {
    const State& state = states_[static_cast<std::size_t>(id)];
    std::vector<Atoms> result = state.dims;
    AtomSet used = state.forbidden;
    for (const Atoms& atoms : state.dims) used = used | AtomSet(atoms);
    for (std::size_t d = 0; d < dims.size(); ++d) {
      Atoms& have = result[d];
      const bool goes_on = have.size() < dims[d].size() && std::equal(have.begin(), have.end(), dims[d].begin());
      if (state.closed[d] || !goes_on) continue;
      for (std::size_t i = have.size(); i < dims[d].size() && !used.contains(dims[d][i]); ++i) {
        have.push_back(dims[d][i]);
        used.insert(dims[d][i]);
      }
    }
    return result;
  }

  void finish() {
    for (std::size_t i = 0; i < states_.size(); ++i) {
      graph_.values[i].placement =
          Placement{.dims = std::move(states_[i].dims), .partial = std::move(states_[i].partial)};
    }
  }

  Graph& graph_;
  const Grid& grid_;
  std::vector<State> states_;                       // Per value.
  std::vector<Step> steps_;                         // Per equation that has a rule.
  std::vector<std::vector<std::size_t>> touching_;  // Per value: the steps that it is an operand or result of.
  std::vector<bool> stale_;                         // Per step: to be visited again.
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
