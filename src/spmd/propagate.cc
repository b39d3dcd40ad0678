#include "spmd/propagate.h"

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <boost/container_hash/hash.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "ir/bodies.h"
#include "ir/eqn_classes.h"
#include "ir/explicit_axes.h"
#include "passes/hoist.h"
#include "spmd/cost.h"
#include "spmd/open_regions.h"
#include "spmd/partition.h"
#include "spmd/reshard.h"
#include "spmd/ruled_eqn.h"

namespace shoal {
namespace {

// What propagation knows of one value.
struct State {
  std::vector<Atoms> dims;
  std::vector<bool> closed;  // Per dimension: given, not to be refined.
  AtomSet forbidden;         // Manual there, or in a region that the value enters or
                             // leaves.
  Atoms partial = {};        // Over which its type leaves it unreduced.
  // Some order.
  friend bool operator<(const State& a, const State& b) {
    if (a.forbidden != b.forbidden) return a.forbidden.bits() < b.forbidden.bits();
    return std::tie(a.dims, a.closed, a.partial) < std::tie(b.dims, b.closed, b.partial);
  }
};

// What dimensions of operands and results have to do with each other.
struct ShapeFacts {
  bool passes_on = true;  // All dimensions belong together: elementwise ops, reshapes, transposes.
  bool spreads = false;   // The result repeats its operands along a dimension.
};

ShapeFacts facts_of(const ShardingRule& rule) {
  ShapeFacts facts;
  std::vector<int> carriers(rule.factors.size(), 0);
  std::vector<bool> in_operands(carriers.size(), false);
  int arrays = 0;
  bool takes_arrays = false;
  const auto look_at = [&](const TensorFactors& tensor, bool is_result) {
    if (tensor.empty()) return;
    ++arrays;
    takes_arrays = takes_arrays || !is_result;
    for (const DimFactors& dim : tensor) {
      for (int factor : dim) {
        ++carriers[static_cast<std::size_t>(factor)];
        if (!is_result) in_operands[static_cast<std::size_t>(factor)] = true;
      }
    }
  };
  for (const TensorFactors& tensor : rule.operands) look_at(tensor, false);
  for (const TensorFactors& tensor : rule.results) look_at(tensor, true);
  for (std::size_t f = 0; f < carriers.size(); ++f) {
    if (rule.factors[f].size == 1) continue;
    facts.passes_on = facts.passes_on && rule.factors[f].kind == FactorKind::kPassThrough && carriers[f] == arrays;
    facts.spreads = facts.spreads || (takes_arrays && !in_operands[f]);
  }
  return facts;
}

// What equations that are alike have in common.
struct Likes {
  Likes(const Graph& graph, const Eqn& first) : ruled(graph, first), facts(facts_of(ruled.rule)) {
    for (const std::vector<Type>* types : {&ruled.inputs, &ruled.outputs}) {
      for (const Type& type : *types) bytes.push_back(bytes_of(type));
    }
    order.resize(bytes.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return bytes[i]; });
  }

  RuledEqn ruled;  // The first of them.
  ShapeFacts facts;
  std::vector<double> bytes;       // Of operands, then results.
  std::vector<std::size_t> order;  // Of these, the larger first.
  std::uint32_t kind = 0;          // That of those that read no value twice; 0 if it was not asked for.
};

// A graph, the whole program or a body that an equation of another one holds.
// Its values have numbers of their own among those of all scopes.
struct Scope {
  Graph* graph;
  std::size_t first = 0;       // The number of its first value.
  std::vector<int> uses = {};  // Of each value.
  std::shared_ptr<EqnClasses> classes = std::make_shared<EqnClasses>(*graph);
  std::unordered_map<std::uint32_t, Likes> likes = {};  // Of each class.

  Likes& likes_of(const Eqn& eqn) { return likes.try_emplace(classes->of(eqn), *graph, eqn).first->second; }

  std::size_t number(ValueId id) const { return first + slot(id); }
};

// What has to agree: the operands and results of an equation by its rule, or
// the values that a control equation ties to those of its bodies.
struct Step {
  struct Tensor {
    std::size_t value;  // Among those of all scopes.
    const Type* type;
    const TensorFactors* factors;
    bool is_result;
    double bytes;
    double weight = 1;  // How often it would be moved.
  };

  // Of an equation, whose rule is that of another one like it.
  Step(const Scope& scope, const Eqn& eqn, const Likes& likes)
      : ruled(&likes.ruled), rule(ruled->rule), facts(likes.facts) {
    for (std::size_t i = 0; i < eqn.inputs.size(); ++i) {
      shares_operands = shares_operands || (!rule.operands[i].empty() && scope.uses[slot(eqn.inputs[i])] > 1);
    }
    tensors.reserve(likes.order.size());
    for (const std::size_t i : likes.order) {
      const bool is_result = i >= eqn.inputs.size();
      const std::size_t place = is_result ? i - eqn.inputs.size() : i;
      const ValueId id = is_result ? eqn.outputs[place] : eqn.inputs[place];
      tensors.push_back({.value = scope.number(id),
                         .type = &scope.graph->type(id),
                         .factors = is_result ? &rule.results[place] : &rule.operands[place],
                         .is_result = is_result,
                         .bytes = likes.bytes[i]});
    }
  }

  // Ties, which the function adds by add().
  explicit Step(ShardingRule together) : ties(std::move(together)), rule(*ties) {}
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  void add(const Scope& scope, ValueId id, const TensorFactors& factors, bool is_result, double weight = 1) {
    const Type& type = scope.graph->type(id);
    tensors.push_back({scope.number(id), &type, &factors, is_result, bytes_of(type), weight});
  }

  // Of ties.
  void sort() {
    std::stable_sort(tensors.begin(), tensors.end(),
                     [](const Tensor& a, const Tensor& b) { return a.bytes > b.bytes; });
  }

  std::optional<ShardingRule> ties;
  const RuledEqn* ruled = nullptr;  // Of an equation.
  const ShardingRule& rule;
  ShapeFacts facts = {};
  std::vector<Tensor> tensors;   // The larger first.
  bool shares_operands = false;  // With other equations.
  std::uint32_t kind = 0;        // The same for equations that are alike; none for ties.
};

// What is carried in one round of propagation. Each goes on where the one
// before it came to rest.
struct Round {
  bool (*selects)(const Step&);
  bool only_pass_through = false;    // Only factors along which shards compute alone.
  bool only_back_to_spread = false;  // Where the result repeats its operands, it
                                     // says how they are split.
};

// Shardy's order. Ops that all dimensions pass cost nothing to agree with; a
// value with several users might have to disagree with one of them; and what a
// small operand would have of a large result comes last.
constexpr Round kRounds[] = {
    {.selects = [](const Step& step) { return step.facts.passes_on && !step.shares_operands; }},
    {.selects = [](const Step& step) { return step.facts.passes_on; }},
    {.selects = [](const Step&) { return true; }, .only_pass_through = true, .only_back_to_spread = true},
    {.selects = [](const Step&) { return true; }, .only_back_to_spread = true},
    {.selects = [](const Step&) { return true; }},
};

// Values that are to begin with these dimensions, by their numbers among those of all scopes.
using Pins = std::map<std::size_t, std::vector<Atoms>>;

// Where axes come to a wall: a dimension that they split is one that an equation, or a loop, takes whole, so that what
// comes after it would not be split by them. Each of the detours splits other dimensions instead; they begin with one
// exchange.
struct Wall {
  std::vector<std::size_t> values;          // That a detour begins with; all are of one shape.
  std::vector<std::vector<Atoms>> detours;  // Their dimensions.
};

// Placements of values that nothing splits.
class WholePlacements {
 public:
  const Shared<Placement>& of_rank(std::size_t rank) {
    while (by_rank_.size() <= rank) by_rank_.emplace_back(Placement::replicated(by_rank_.size()));
    return by_rank_[rank];
  }

 private:
  std::vector<Shared<Placement>> by_rank_;
};

// On one device nothing is split.
Graph on_one_device(Graph graph, WholePlacements& whole) {
  for (Value& value : graph.values) value.placement = whole.of_rank(value.type.rank());
  for (Eqn& eqn : graph.eqns) {
    if (eqn.op->op_class != OpClass::kControl) continue;
    map_bodies(eqn, [&](const Graph& body) { return on_one_device(body, whole); });
  }
  return graph;
}

class Propagation {
 public:
  explicit Propagation(Graph& graph) : grid_(*graph.grid) { add_scope(graph); }

  // An input of the program.
  void fix_input(std::size_t i, const std::vector<Atoms>& dims) { fix(scopes_[0], scopes_[0].graph->inputs[i], dims); }

  void run(const Pins& pins) {
    is_capture_.resize(states_.size(), false);
    for (std::size_t s = 0, bodies = 1; s < scopes_.size(); ++s) {
      Scope& scope = scopes_[s];
      for (Eqn& eqn : scope.graph->eqns) {
        fix_results(scope, eqn);
        if (eqn.op->rule != nullptr) {
          Likes& likes = scope.likes_of(eqn);
          steps_.emplace_back(scope, eqn, likes).kind = kind_of(s, eqn, likes);
        }
        if (eqn.op->op_class != OpClass::kControl) continue;
        const std::size_t count = eqn.op->control(eqn.attrs).num_bodies;
        tie(scope, eqn, std::span(scopes_).subspan(bodies, count));
        bodies += count;
      }
    }
    for (const auto& [value, dims] : pins) {
      change(value, [&](State& state) { state.dims = dims; });
    }
    find_touching();
    // First what nobody disagrees with spreads; that may decide what is left to
    // settle.
    for (const Round& round : kRounds) {
      sweep(round, Conflicts::kLeave);
      sweep(round, Conflicts::kSettle);
    }
  }

  // Writes the placements into the graph.
  void finish() {
    for (const Scope& scope : scopes_) {
      for (std::size_t i = 0; i < scope.graph->values.size(); ++i) {
        scope.graph->values[i].placement = placement_of(scope.first + i);
      }
    }
    // The bodies of the last scopes first, so that they are complete where
    // those before take them.
    std::size_t next = copies_.size();
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      for (auto eqn = scope->graph->eqns.rbegin(); eqn != scope->graph->eqns.rend(); ++eqn) {
        if (eqn->op->op_class != OpClass::kControl) continue;
        std::size_t body = next -= eqn->op->control(eqn->attrs).num_bodies;
        map_bodies(*eqn, [&](const Graph&) { return std::move(copies_[body++]); });
      }
    }
  }

  // Where the axes have come to, equal walls as one.
  std::vector<Wall> walls() const {
    std::vector<Wall> found;
    std::map<std::tuple<std::uint32_t, Shape, std::vector<std::vector<Atoms>>>, std::size_t> known;
    const auto add = [&](const Step& step, const Shape& shape, std::vector<std::size_t> values,
                         std::vector<std::vector<Atoms>> detours) {
      if (detours.empty()) return;
      const auto [place, is_new] = known.try_emplace({step.kind, shape, detours}, found.size());
      if (is_new) found.push_back({.values = {}, .detours = std::move(detours)});
      std::vector<std::size_t>& all = found[place->second].values;
      all.insert(all.end(), values.begin(), values.end());
    };
    for (const Step& step : steps_) {
      for (const Step::Tensor& tensor : step.tensors) {
        const std::vector<Atoms>& dims = state(tensor.value).dims;
        if (std::ranges::all_of(dims, &Atoms::empty)) continue;
        const std::vector<std::size_t> walled = walled_dims(grid_, step.rule, *tensor.factors, dims);
        for (std::size_t d = 0; d < tensor.factors->size(); ++d) {
          if (dims[d].empty() || (*tensor.factors)[d].empty()) continue;
          const FactorKind kind = step.rule.factors[static_cast<std::size_t>((*tensor.factors)[d][0])].kind;
          if (std::ranges::find(walled, d) != walled.end()) {
            for (const Step::Tensor& other : step.tensors) {
              if (step.ruled != nullptr && other.is_result == tensor.is_result) continue;
              add(step, other.type->shape, {other.value}, detours(step, tensor, d, other));
            }
          } else if (kind != FactorKind::kPassThrough && is_capture_[tensor.value] && step.ruled != nullptr &&
                     step.ruled->eqn.op->sees_start) {
            // Elements are taken from where an index says, and so exchanged, in each trip.
            add(step, tensor.type->shape, {tensor.value}, detours(step, tensor, d, tensor));
          }
        }
      }
    }
    return found;
  }

 private:
  // A state that values have, and what is known of it.
  struct KnownState {
    const State* state;
    bool is_split;  // Whether a dimension is.
    Shared<Placement> placement = {};
  };

  const State& state(std::size_t value) const { return *known_[states_[value]].state; }

  // The number of a state, which is that of all that are equal.
  std::uint32_t number_of(State state) {
    const auto [found, is_new] =
        number_of_state_.try_emplace(std::move(state), static_cast<std::uint32_t>(known_.size()));
    if (is_new) {
      known_.push_back({.state = &found->first, .is_split = !std::ranges::all_of(found->first.dims, &Atoms::empty)});
    }
    return found->second;
  }

  template <class F>
  void change(std::size_t value, F&& how) {
    State changed = state(value);
    how(changed);
    states_[value] = number_of(std::move(changed));
  }

  void find_touching() {
    first_touching_.assign(states_.size() + 1, 0);
    for (const Step& step : steps_) {
      for (const Step::Tensor& tensor : step.tensors) ++first_touching_[tensor.value + 1];
    }
    std::partial_sum(first_touching_.begin(), first_touching_.end(), first_touching_.begin());
    touching_.resize(first_touching_.back());
    std::vector<std::size_t> next(first_touching_.begin(), first_touching_.end() - 1);
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      for (const Step::Tensor& tensor : steps_[i].tensors) touching_[next[tensor.value]++] = i;
    }
  }

  // The steps that a value is an operand or result of.
  std::span<const std::size_t> touching(std::size_t value) const {
    return std::span(touching_).subspan(first_touching_[value], first_touching_[value + 1] - first_touching_[value]);
  }

  // How `other` could be split by what splits dimension d of `tensor`, along one of the dimensions that shards take
  // each alone: those that d becomes come first, the longest before others.
  std::vector<std::vector<Atoms>> detours(const Step& step, const Step::Tensor& tensor, std::size_t d,
                                          const Step::Tensor& other) const {
    const DimFactors& from = (*tensor.factors)[d];
    const Atoms& atoms = state(tensor.value).dims[d];
    const State& lies = state(other.value);
    const Shape& shape = other.type->shape;
    if (std::ranges::find(lies.closed, true) != lies.closed.end()) return {};
    if (!(lies.forbidden & AtomSet(atoms)).empty()) return {};
    std::vector<std::size_t> candidates;
    std::vector<bool> is_part(shape.size());
    std::vector<Atoms> base = lies.dims;
    for (std::size_t e = 0; e < other.factors->size(); ++e) {
      const DimFactors& factors = (*other.factors)[e];
      is_part[e] = std::ranges::find_first_of(factors, from) != factors.end();
      if (is_part[e]) base[e].clear();
      const bool alone = std::ranges::all_of(factors, [&](int factor) {
        return step.rule.factors[static_cast<std::size_t>(factor)].kind == FactorKind::kPassThrough;
      });
      const bool fits = !factors.empty() && shape[e] % (grid_.size_of(base[e]) * grid_.size_of(atoms)) == 0;
      if (alone && fits && shape[e] > 0) candidates.push_back(e);
    }
    for (const Atoms& there : base) {
      if (!(AtomSet(there) & AtomSet(atoms)).empty()) return {};
    }
    std::ranges::stable_sort(candidates, [&](std::size_t a, std::size_t b) {
      if (is_part[a] != is_part[b]) return static_cast<bool>(is_part[a]);
      return is_part[a] && shape[a] > shape[b];
    });
    std::vector<std::vector<Atoms>> found;
    for (std::size_t e : candidates) {
      std::vector<Atoms>& dims = found.emplace_back(base);
      dims[e].insert(dims[e].end(), atoms.begin(), atoms.end());
    }
    return found;
  }

  // The program's scope, and those of the bodies in it: first all that it holds
  // itself, in order, then those that they hold.
  void add_scope(Graph& graph) {
    std::size_t next = 0;
    const auto add = [&](Graph& one) {
      scopes_.push_back({.graph = &one, .first = states_.size(), .uses = count_uses(one)});
      for (const Value& value : one.values) add_state(value);
    };
    for (add(graph); next < scopes_.size(); ++next) {
      for (Eqn& eqn : scopes_[next].graph->eqns) {
        if (eqn.op->op_class != OpClass::kControl) continue;
        for (const Graph* body : bodies_of(eqn)) add(copies_.emplace_back(*body));
      }
    }
  }

  void add_state(const Value& value) {
    const std::size_t rank = value.type.rank();
    const auto& given = value.type.explicit_axes;
    std::uint32_t* plain = nullptr;  // That of the values of this rank of which nothing is given, plus 1.
    if (!given && value.manual.empty()) {
      if (plain_states_.size() <= rank) plain_states_.resize(rank + 1, 0);
      plain = &plain_states_[rank];
    }
    if (plain != nullptr && *plain != 0) {
      states_.push_back(*plain - 1);
      return;
    }
    State made{.dims = std::vector<Atoms>(rank), .closed = std::vector<bool>(rank, false), .forbidden = value.manual};
    if (given) take_explicit(*given, made);
    states_.push_back(number_of(std::move(made)));
    if (plain != nullptr) *plain = states_.back() + 1;
  }

  static void fix(State& state, std::vector<Atoms> dims) {
    state.closed.assign(dims.size(), true);
    state.dims = std::move(dims);
  }

  void fix(const Scope& scope, ValueId id, const std::vector<Atoms>& dims) {
    change(scope.number(id), [&](State& state) { fix(state, dims); });
  }

  // ---- Ties. Values of control equations and of their bodies lie alike,
  // dimension by dimension; a dimension along which slices are taken is whole.

  struct Tied {
    const Scope& scope;
    ValueId id;
    bool is_result;
    bool is_sliced = false;
    double weight = 1;
  };

  void tie(const std::vector<Tied>& values) {
    ShardingRule rule;
    const Tied& plain = *std::ranges::find(values, false, &Tied::is_sliced);
    TensorFactors dims;
    for (const std::int64_t extent : plain.scope.graph->type(plain.id).shape) {
      dims.push_back({static_cast<int>(rule.factors.size())});
      rule.factors.push_back({.size = extent, .kind = FactorKind::kPassThrough});
    }
    for (const Tied& value : values) {
      TensorFactors& factors = rule.operands.emplace_back(dims);
      if (!value.is_sliced) continue;
      factors.insert(factors.begin(), DimFactors{static_cast<int>(rule.factors.size())});
      rule.factors.push_back(
          {.size = value.scope.graph->type(value.id).shape[0], .kind = FactorKind::kNeedReplication});
    }
    Step& step = steps_.emplace_back(std::move(rule));
    for (std::size_t i = 0; i < values.size(); ++i) {
      step.add(values[i].scope, values[i].id, step.rule.operands[i], values[i].is_result, values[i].weight);
    }
    step.sort();
  }

  void tie(const Scope& scope, const Eqn& eqn, std::span<const Scope> bodies) {
    const Control control = eqn.op->control(eqn.attrs);
    const Scope& last = bodies.back();
    const auto yields = [&](std::size_t i, std::vector<Tied>& tied) {
      for (const Scope& body : bodies.subspan(control.asks ? 1 : 0)) {
        tied.push_back({.scope = body, .id = body.graph->outputs[i], .is_result = false, .weight = control.weight()});
      }
      tied.push_back({.scope = scope, .id = eqn.outputs[i], .is_result = true, .is_sliced = control.is_stack(i)});
    };
    for (std::size_t i = 0; i < last.graph->inputs.size(); ++i) {
      std::vector<Tied> tied{{.scope = scope,
                              .id = eqn.inputs[control.first_argument + i],
                              .is_result = false,
                              .is_sliced = control.is_slice(i)}};
      for (const Scope& body : bodies) {
        tied.push_back({.scope = body, .id = body.graph->inputs[i], .is_result = true, .weight = control.weight()});
        is_capture_[body.number(body.graph->inputs[i])] = control.loops && i >= control.carries + control.slices;
      }
      if (control.loops && i < control.carries) yields(i, tied);
      tie(tied);
    }
    for (std::size_t i = control.carries; i < last.graph->outputs.size(); ++i) {
      std::vector<Tied> tied;
      yields(i, tied);
      tie(tied);
    }
  }

  // Explicit axes split a value as its type says and in no other way; the
  // compiler may go on with others.
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

  void fix_results(const Scope& scope, const Eqn& eqn) {
    if (eqn.op->op_class == OpClass::kConstraint) {
      const NamedSharding& sharding = eqn.attrs.get<NamedSharding>("sharding");
      const ValueId out = eqn.outputs[0];
      change(scope.number(out), [&](State& state) {
        const std::vector<Atoms> typed = state.dims;
        fix(state, grid_.dims_of(sharding.mesh(), sharding.spec(), scope.graph->type(out).rank()));
        for (std::size_t d = 0; d < sharding.spec().size(); ++d) {
          if (!sharding.spec()[d].is_unconstrained()) continue;
          state.closed[d] = false;
          state.dims[d] = typed[d];
        }
      });
    } else if (is_boundary(*eqn.op)) {
      const ValueId outside = eqn.op->op_class == OpClass::kEnter ? eqn.inputs[0] : eqn.outputs[0];
      change(scope.number(outside), [&](State& state) { fix_boundary(eqn, state); });
    }
  }

  // Outside, the spec's axes come first in each dimension, then those of the type, and the compiler may add others that
  // are not manual.
  void fix_boundary(const Eqn& eqn, State& state) const {
    const NamedSharding& sharding = eqn.attrs.get<NamedSharding>("sharding");
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

  enum class Conflicts : std::uint8_t { kLeave, kSettle };

  // Visits steps, forwards and backwards in turn, until none of their values
  // changes any more.
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

  // What a visit made of its tensors: those that were refined, by their places,
  // and the numbers of their states then.
  using Outcome = boost::container::small_vector<std::pair<std::uint32_t, std::uint32_t>, 2>;
  // The kind of step, the round, and the numbers of the tensors' states: all
  // that the outcome depends on.
  using OutcomeKey = boost::container::small_vector<std::uint32_t, 8>;
  struct HashOutcomeKey {
    std::size_t operator()(const OutcomeKey& key) const { return boost::hash_range(key.begin(), key.end()); }
  };

  // A number for all equations of a scope that are alike and read the same
  // value at the same places.
  std::uint32_t kind_of(std::size_t scope, const Eqn& eqn, Likes& likes) {
    OutcomeKey key = {static_cast<std::uint32_t>(scope), scopes_[scope].classes->of(eqn)};
    bool reads_twice = false;
    for (std::size_t i = 0; i < eqn.inputs.size(); ++i) {
      const auto first = static_cast<std::size_t>(std::ranges::find(eqn.inputs, eqn.inputs[i]) - eqn.inputs.begin());
      reads_twice = reads_twice || first != i;
      key.push_back(static_cast<std::uint32_t>(first));
    }
    if (!reads_twice && likes.kind != 0) return likes.kind;
    const auto next = static_cast<std::uint32_t>(kinds_.size() + 1);
    const std::uint32_t kind = kinds_.try_emplace(std::move(key), next).first->second;
    if (!reads_twice) likes.kind = kind;
    return kind;
  }

  // Lets the operands and results of one equation agree. Returns whether a
  // placement was refined.
  bool visit(std::size_t index, const Round& round, Conflicts conflicts) {
    const Step& step = steps_[index];
    const auto is_split = [&](const Step::Tensor& tensor) { return known_[states_[tensor.value]].is_split; };
    if (std::ranges::none_of(step.tensors, is_split)) return false;
    Outcome own;
    const Outcome* outcome = &own;
    if (step.kind == 0) {
      own = agreed(step, round, conflicts);
    } else {
      const auto which = static_cast<std::uint32_t>(2 * (&round - kRounds) + (conflicts == Conflicts::kSettle ? 1 : 0));
      OutcomeKey key = {step.kind, which};
      for (const Step::Tensor& tensor : step.tensors) key.push_back(states_[tensor.value]);
      const auto [known, is_new] = outcomes_.try_emplace(std::move(key));
      if (is_new) known->second = agreed(step, round, conflicts);
      outcome = &known->second;
    }
    for (const auto& [place, state] : *outcome) {
      const std::size_t value = step.tensors[place].value;
      states_[value] = state;
      for (std::size_t other : touching(value)) {
        if (round.selects(steps_[other])) stale_[other] = true;
      }
    }
    return !outcome->empty();
  }

  Outcome agreed(const Step& step, const Round& round, Conflicts conflicts) {
    const ShardingRule& rule = step.rule;
    const bool only_back = round.only_back_to_spread && step.facts.spreads;
    std::vector<FactorAxes> wishes;
    for (const Step::Tensor& tensor : step.tensors) {
      if (only_back && !tensor.is_result) continue;
      FactorAxes wish = project(grid_, rule, *tensor.factors, state(tensor.value).dims);
      for (std::size_t f = 0; f < rule.factors.size(); ++f) {
        if (round.only_pass_through && rule.factors[f].kind != FactorKind::kPassThrough) wish[f].clear();
      }
      add_wish(wishes, std::move(wish));
    }
    const Agreement agreement = agree(rule, wishes);
    const bool settles = agreement.is_contested && conflicts == Conflicts::kSettle;
    const FactorAxes axes = settles ? cheapest(step, wishes) : agreement.axes;
    Outcome outcome;
    for (std::size_t i = 0; i < step.tensors.size(); ++i) {
      const Step::Tensor& tensor = step.tensors[i];
      if (only_back && tensor.is_result) continue;
      std::uint32_t number = states_[tensor.value];
      for (const auto& [place, state] : outcome) {  // One value may be several operands.
        if (step.tensors[place].value == tensor.value) number = state;
      }
      const State& before = *known_[number].state;
      std::vector<Atoms> dims = refined(before, dims_of(*tensor.factors, axes));
      if (dims == before.dims) continue;
      State after = before;
      after.dims = std::move(dims);
      outcome.emplace_back(static_cast<std::uint32_t>(i), number_of(std::move(after)));
    }
    return outcome;
  }

  struct Agreement {
    FactorAxes axes;
    bool is_contested = false;
  };

  // Per factor as many atoms as no wish contradicts: where wishes for it go
  // apart, or an atom is wished for two factors, they end.
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

  // Every wish in turn comes first and the others fill in. Of those that take
  // the least time, the wish of the largest tensor wins.
  FactorAxes cheapest(const Step& step, const std::vector<FactorAxes>& wishes) const {
    FactorAxes best;
    double best_seconds = std::numeric_limits<double>::infinity();
    for (const FactorAxes& first : wishes) {
      FactorAxes axes(step.rule.factors.size());
      extend(grid_, step.rule, axes, first);
      for (const FactorAxes& wish : wishes) extend(grid_, step.rule, axes, wish);
      if (axes == best) continue;
      Cost cost{.bytes = moved_bytes(step, axes)};
      if (step.ruled != nullptr) cost.operations = operations_of(grid_, *step.ruled, axes);
      const double seconds = cost.seconds(grid_);
      if (seconds >= best_seconds) continue;
      best = std::move(axes);
      best_seconds = seconds;
    }
    return best;
  }

  // What devices would receive for this equation, as Cost counts it, if its factors were split like this and open
  // dimensions followed.
  double moved_bytes(const Step& step, const FactorAxes& axes) const {
    double bytes = step.ruled ? exchanged_bytes(grid_, *step.ruled, axes) : 0;
    for (const Step::Tensor& tensor : step.tensors) {
      const Type& type = *tensor.type;
      Placement here{.dims = dims_of(*tensor.factors, axes), .partial = {}};
      Placement there{.dims = refined(state(tensor.value), here.dims), .partial = {}};
      if (tensor.is_result) {
        here.partial = (AtomSet(reduced_atoms(step.rule, axes)) - here.sharded()).sorted();
        there.partial = (AtomSet(here.partial) & AtomSet(state(tensor.value).partial)).sorted();
        here.kind = step.rule.reduction;
      } else {
        std::swap(here, there);
      }
      if (here == there) continue;
      bytes += tensor.weight * plan_reshard(grid_, type.shape, size_of(type.dtype), here, there).bytes;
    }
    return bytes;
  }

  // The dimensions of a value, the open ones lengthened towards `dims` where
  // these go on from what it has.
  static std::vector<Atoms> refined(const State& state, const std::vector<Atoms>& dims) {
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

  // Values that lie alike share one.
  const Shared<Placement>& placement_of(std::size_t value) {
    KnownState& known = known_[states_[value]];
    const State& state = *known.state;
    if (state.partial.empty() && !known.is_split) return whole_.of_rank(state.dims.size());
    if (!known.placement) known.placement = Placement{.dims = state.dims, .partial = state.partial};
    return known.placement;
  }

  const Grid& grid_;
  std::vector<Scope> scopes_;
  std::deque<Graph> copies_;           // The bodies, in the order of their scopes.
  std::vector<std::uint32_t> states_;  // Per value: the number of its state.
  std::map<State, std::uint32_t> number_of_state_;
  std::vector<KnownState> known_;            // By these numbers.
  std::vector<std::uint32_t> plain_states_;  // By ranks: add_state says which.
  WholePlacements whole_;
  std::deque<Step> steps_;             // They point into themselves.
  std::vector<std::size_t> touching_;  // Per value, from its `first_touching_` on: its steps.
  std::vector<std::size_t> first_touching_;
  std::vector<bool> is_capture_;  // Per value: whether each trip of a loop gets the same.
  std::vector<bool> stale_;       // Per step: to be visited again.
  std::unordered_map<OutcomeKey, std::uint32_t, HashOutcomeKey> kinds_;
  std::unordered_map<OutcomeKey, Outcome, HashOutcomeKey> outcomes_;
};

// What propagation makes of a graph.
struct Way {
  Graph graph;
  std::vector<Wall> walls;
};

Way propagated(const Graph& graph, const std::vector<std::optional<Placement>>& inputs, const Pins& pins) {
  Way way{.graph = graph, .walls = {}};
  Propagation propagation(way.graph);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i]) propagation.fix_input(i, inputs[i]->dims);
  }
  propagation.run(pins);
  way.walls = propagation.walls();
  propagation.finish();
  return way;
}

// How many programs are partitioned at most to see whether detours pay.
constexpr int kMostTrials = 16;

// Whether a detour pays depends on all that comes after it, above all on the work that each device would do for itself
// without: so the program is partitioned with and without. The first that pays is taken: axes stay with the elements
// that they split where they can. Programs whose axes meet no wall pay nothing.
void take_detours(const Graph& graph, const std::vector<std::optional<Placement>>& inputs, Way& best) {
  const auto seconds_of = [](const Graph& one) {
    return cost_of_program(hoist_exchanges(partition(one))).seconds(*one.grid);
  };
  double best_seconds = seconds_of(best.graph);
  Pins pins;
  std::set<std::vector<std::size_t>> tried;
  for (int trials = 0; trials < kMostTrials;) {
    const auto next = std::ranges::find_if(best.walls, [&](const Wall& wall) { return !tried.contains(wall.values); });
    if (next == best.walls.end()) return;
    const Wall wall = *next;
    tried.insert(wall.values);
    for (const std::vector<Atoms>& detour : wall.detours) {
      Pins more = pins;
      for (std::size_t value : wall.values) more[value] = detour;
      Way way = propagated(graph, inputs, more);
      const double seconds = seconds_of(way.graph);
      ++trials;
      if (seconds >= best_seconds) continue;
      best = std::move(way);
      best_seconds = seconds;
      pins = std::move(more);
      break;
    }
  }
}

}  // namespace

Graph propagate(Graph graph, const std::vector<std::optional<Placement>>& inputs) {
  SHOAL_CHECK(graph.grid != nullptr, "propagation needs a grid");
  if (graph.grid->num_atoms() == 0) {
    WholePlacements whole;
    return on_one_device(std::move(graph), whole);
  }
  Way way = propagated(graph, inputs, {});
  if (!way.walls.empty()) take_detours(graph, inputs, way);
  return std::move(way.graph);
}

}  // namespace shoal
