#include "spmd/partition.h"

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <boost/container_hash/hash.hpp>
#include <complex>
#include <map>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "ir/bodies.h"
#include "ir/eqn_classes.h"
#include "ops/builder.h"
#include "ops/collective.h"
#include "ops/rules.h"
#include "spmd/cost.h"
#include "spmd/dealing.h"
#include "spmd/factors.h"
#include "spmd/open_regions.h"
#include "spmd/reshard.h"
#include "spmd/ruled_eqn.h"
#include "spmd/stages.h"

namespace shoal {
namespace {

bool is_small_float(Dtype dtype) { return dtype == float16 || dtype == bfloat16; }

double elements_of(const Shape& shape) { return static_cast<double>(num_elements(shape)); }

// How the graph around it sees a body. Where `open` says so, values are sums over `over` that are not finished.
struct BodyBorder {
  // Of a yield: kIfSo leaves it to the body.
  enum class Open : std::uint8_t { kNo, kIfSo, kYes };

  std::vector<Placement> arguments;  // Where each argument lies.
  std::vector<AtomSet> varying;      // Over which devices they differ.
  std::vector<Placement> outputs;    // Where each yield is wanted.
  Atoms over = {};
  std::vector<bool> open_arguments = {};
  std::vector<Open> open_outputs = {};
};

// The same, with shards as summands.
Placement opened(Placement placement, const Atoms& over) {
  placement.partial = over;
  placement.kind = ReduceKind::kSum;
  return placement;
}

// What stands in the new graph for the values of the old one: each under several placements.
class Forms {
 public:
  explicit Forms(std::size_t values) : forms_(values) {}

  ValueIds& operator[](ValueId id) { return forms_[slot(id)]; }
  const ValueIds& at(ValueId id) const { return forms_[slot(id)]; }

 private:
  std::vector<ValueIds> forms_;
};

class Partitioner {
 public:
  // The body of an equation has a border.
  Partitioner(const Graph& graph, ReshardPlans& plans, const BodyBorder* border = nullptr)
      : old_(graph),
        border_(border),
        grid_(*graph.grid),
        plans_(plans),
        uses_(count_uses(graph)),
        classes_(graph),
        forms_(graph.values.size()) {
    new_.name = graph.name;
    new_.grid = graph.grid;
    new_.values.reserve(graph.values.size());
    new_.eqns.reserve(graph.eqns.size());
    find_added();
    find_leaving();
  }

  // Over what `run` could have left yields as sums that are not finished, whether it did or not.
  std::vector<Atoms> take_sums() { return std::move(sums_); }

  Graph run() {
    for (std::size_t i = 0; i < old_.inputs.size(); ++i) {
      const ValueId id = old_.inputs[i];
      const Value& value = old_.value(id);
      const Placement& lies = border_ == nullptr ? *value.placement : border_->arguments[i];
      const bool open = border_ != nullptr && border_->open_arguments[i];
      const ValueId fresh = add_global(open ? of_summands(value.type) : value.type, value.type.shape, lies, {});
      new_.value(fresh).varying = border_ == nullptr ? lies.varying() | value.varying : border_->varying[i];
      new_.value(fresh).manual = value.manual;
      new_.inputs.push_back(fresh);
      forms_[id] = {fresh};
    }
    for (const Eqn& eqn : old_.eqns) {
      where_ = eqn.where;
      if (eqn.op->op_class == OpClass::kConstraint) {
        forms_[eqn.outputs[0]] = {form(eqn.inputs[0], placement_of(eqn.outputs[0]))};
      } else if (eqn.op->op_class == OpClass::kTyping) {
        forms_[eqn.outputs[0]] = forms_.at(eqn.inputs[0]);  // Types say nothing any more here.
      } else if (is_boundary(*eqn.op)) {
        cross_boundary(eqn);
      } else if (eqn.op->op_class == OpClass::kEffect) {
        keep_effect(eqn);
      } else if (eqn.op->op_class == OpClass::kControl) {
        partition_control(eqn);
      } else if (!give_open(eqn) && !pass_partial(eqn)) {
        partition_compute(eqn);
      }
    }
    for (std::size_t i = 0; i < old_.outputs.size(); ++i) {
      const ValueId id = old_.outputs[i];
      const Placement& want = border_ == nullptr ? placement_of(id) : border_->outputs[i];
      new_.outputs.push_back(border_ != nullptr && yields_open(i) ? summands(id, opened(want, border_->over))
                                                                  : form(id, want));
    }
    return std::move(new_);
  }

 private:
  const Placement& placement_of(ValueId id) const { return *old_.value(id).placement; }

  // ---- Values of the new graph.

  // Atoms over which shards have different shapes, and so cannot be one buffer whatever they hold.
  AtomSet uneven_atoms(const Shape& global, const Placement& placement) const {
    AtomSet atoms;
    for (std::size_t d = 0; d < global.size(); ++d) {
      if (global[d] % grid_.size_of(placement.dims[d]) != 0) atoms = atoms | AtomSet(placement.dims[d]);
    }
    return atoms;
  }

  // One object for all values of a shape that lie alike.
  const Shared<GlobalShape>& lying(const Shape& global, const Placement& placement) {
    const std::size_t hash = boost::hash_range(global.begin(), global.end());
    const auto [begin, end] = lying_.equal_range(hash);
    for (auto known = begin; known != end; ++known) {
      if (known->second->shape == global && known->second->placement == placement) return known->second;
    }
    return lying_.emplace(hash, GlobalShape{global, placement})->second;
  }

  ValueId add_global(Type type, const Shape& global, const Placement& placement, AtomSet varying) {
    type.shape = local_shape(grid_, global, placement);
    type.varying = {};
    type.explicit_axes = {};
    const ValueId id = new_.add_value(std::move(type));
    new_.value(id).global = lying(global, placement);
    new_.value(id).varying = varying | uneven_atoms(global, placement);
    return id;
  }

  AtomSet joint_varying(std::span<const ValueId> ids) const {
    AtomSet atoms;
    for (ValueId id : ids) atoms = atoms | new_.value(id).varying;
    return atoms;
  }

  const GlobalShape& global_of(ValueId id) const { return *new_.value(id).global; }
  // Whether a yield leaves as summands.
  bool yields_open(std::size_t i) const {
    const Placement& front = global_of(forms_.at(old_.outputs[i]).front()).placement;
    const BodyBorder::Open open = border_->open_outputs[i];
    return open == BodyBorder::Open::kYes ||
           (open == BodyBorder::Open::kIfSo && front.partial == border_->over && front.kind == ReduceKind::kSum);
  }
  bool is_open(ValueId id) const { return !global_of(id).placement.partial.empty(); }

  // Summands of few bits are kept with more, until they are added up.
  static Type of_summands(Type type) {
    if (is_small_float(type.dtype)) type.dtype = float32;
    return type;
  }

  // Writes the equation that gives a value of the new graph.
  Builder give(ValueId made) { return Builder(new_, where_).into(made); }

  void add_eqn(const OpDef& op, Attrs attrs, std::vector<ValueId> inputs, std::vector<ValueId> outputs) {
    new_.eqns.push_back({.op = &op,
                         .attrs = std::move(attrs),
                         .inputs = std::move(inputs),
                         .outputs = std::move(outputs),
                         .where = where_});
  }

  // ---- Forms: the same value under several placements. Each is made when first needed.

  const ReshardPlan& plan(ValueId have, const Placement& want) const {
    const GlobalShape& global = global_of(have);
    return plans_.plan(global.shape, size_of(new_.type(have).dtype), global.placement, want);
  }

  double cost_of(ValueId have, const Placement& want) const {
    if (global_of(have).placement == want) return 0;
    return plan(have, want).bytes;
  }

  // The form of an old value that `want` is cheapest to make from.
  ValueId nearest(ValueId old_id, const Placement& want) const {
    const ValueIds& forms = forms_.at(old_id);
    ValueId best = forms.front();
    double best_cost = cost_of(best, want);
    for (ValueId id : forms) {
      const double cost = cost_of(id, want);
      if (cost < best_cost) {
        best = id;
        best_cost = cost;
      }
    }
    return best;
  }

  ValueId form(ValueId old_id, const Placement& want) { return form(old_id, want, old_.type(old_id).dtype); }

  // The same as a sum that is not finished.
  ValueId summands(ValueId old_id, const Placement& want) {
    return form(old_id, want, of_summands(old_.type(old_id)).dtype);
  }

  ValueId form(ValueId old_id, const Placement& want, Dtype dtype) {
    const ValueId from = nearest(old_id, want);
    if (global_of(from).placement == want && new_.type(from).dtype == dtype) return from;
    // Sums are added up with all bits.
    const bool first = is_open(from) && size_of(dtype) > size_of(new_.type(from).dtype);
    const ValueId made = first ? reshard(converted(from, dtype), want) : converted(reshard(from, want), dtype);
    forms_[old_id].push_back(made);
    return made;
  }

  ValueId converted(ValueId from, Dtype dtype) {
    if (new_.type(from).dtype == dtype) return from;
    Type type = new_.type(from);
    type.dtype = dtype;
    const GlobalShape global = global_of(from);
    const ValueId made = add_global(std::move(type), global.shape, global.placement, new_.value(from).varying);
    new_.value(made).manual = new_.value(from).manual;
    return give(made).convert(from, dtype);
  }

  // Over which devices the form would differ.
  AtomSet varying_of_form(ValueId old_id, const Placement& want) const {
    const ValueId from = nearest(old_id, want);
    const GlobalShape& global = global_of(from);
    AtomSet varying = new_.value(from).varying;
    const Placement* lies = &global.placement;
    for (const ReshardStep& step : plan(from, want).steps) {
      varying = varying_after(step, *lies, varying) | uneven_atoms(global.shape, step.result);
      lies = &step.result;
    }
    return varying;
  }

  ValueId reshard(ValueId from, const Placement& want) {
    for (const ReshardStep& step : plan(from, want).steps) from = emit(step, from);
    return from;
  }

  // The first device along the atoms keeps its shard as a summand; those of the others are zeros.
  ValueId make_partial(const ReshardStep& step, ValueId from) {
    const AtomSet atoms(step.atoms);
    const Type local = new_.type(from);
    const GlobalShape global = global_of(from);
    if (are_zeros(from)) {
      const ValueId made = add_global(local, global.shape, step.result, new_.value(from).varying);
      new_.value(made).manual = new_.value(from).manual;
      return give(made).pvary(from, {});
    }
    const auto scalar = [&](Dtype dtype, AtomSet varying) {
      const ValueId made = add_global({.dtype = dtype, .shape = {}, .weak = false, .memory = {}, .varying = {}}, {},
                                      Placement::replicated(0), varying);
      new_.value(made).manual = varying;  // No sharding says how it differs.
      return made;
    };
    const auto zero = [&](Dtype dtype) { return give(scalar(dtype, {})).constant(0, dtype); };
    const ValueId place = give(scalar(int32, atoms)).axis_index(grid_.axis_refs(step.atoms));
    const ValueId first = zero(int32);
    const ValueId is_first = give(scalar(bool_, atoms)).equal(place, first);
    const ValueId made = add_global(local, global.shape, step.result, new_.value(from).varying | atoms);
    new_.value(made).manual = new_.value(from).manual;
    // Zeros that leave a zero its sign.
    const Scalar nothing = is_complex(local.dtype) ? Scalar::of(std::complex<double>(-0.0, -0.0)) : Scalar::of(-0.0);
    const ValueId none = give(scalar(local.dtype, {})).full(nothing.converted_to(local.dtype));
    return give(made).select(is_first, from, none);
  }

  // Null for inputs.
  const Eqn* maker_of(ValueId id) const {
    makers_.resize(new_.values.size(), -1);
    for (; noted_ < new_.eqns.size(); ++noted_) {
      for (ValueId made : new_.eqns[noted_].outputs) makers_[slot(made)] = static_cast<std::int32_t>(noted_);
    }
    return makers_[slot(id)] < 0 ? nullptr : &new_.eqns[static_cast<std::size_t>(makers_[slot(id)])];
  }

  bool are_zeros(ValueId id) const {
    const Eqn* maker = maker_of(id);
    if (maker == nullptr) return false;
    const auto is_zero = [&](ValueId operand) { return are_zeros(operand); };
    return is_full_of(*maker, 0) || (!maker->inputs.empty() && maker->op->op_class == OpClass::kCompute &&
                                     moves_elements(*maker->op) && std::ranges::all_of(maker->inputs, is_zero));
  }

  ValueId emit(const ReshardStep& step, ValueId from) {
    using Kind = ReshardStep::Kind;
    if (step.kind == Kind::kMakePartial) return make_partial(step, from);
    const GlobalShape global = global_of(from);
    const ValueId made = add_global(new_.type(from), global.shape, step.result,
                                    varying_after(step, global.placement, new_.value(from).varying));
    new_.value(made).manual = new_.value(from).manual;
    Builder result = give(made);
    std::vector<std::string> axes = grid_.axis_refs(step.atoms);
    switch (step.kind) {
      case Kind::kAllReduce:
        return result.all_reduce(from, std::move(axes), global.placement.kind);
      case Kind::kReduceScatter:
        return result.reduce_scatter(from, std::move(axes), global.placement.kind, step.dim);
      case Kind::kAllGather:
        return result.all_gather(from, std::move(axes), step.dim, uneven_size(step, step.dim, from, made));
      case Kind::kSlice:
        return result.shard_slice(from, std::move(axes), step.dim);
      case Kind::kAllToAll:
        return result.all_to_all(from, std::move(axes), step.dim, step.from_dim,
                                 uneven_size(step, step.from_dim, from, made));
      case Kind::kPermute: {
        const std::vector<std::int64_t> sources = permutation_sources(grid_, global.placement, step.result, step.atoms);
        Dims targets(sources.size());
        std::iota(targets.begin(), targets.end(), 0);
        return result.collective_permute(from, std::move(axes), Dims(sources.begin(), sources.end()),
                                         std::move(targets));
      }
      case Kind::kMakePartial:
        break;
    }
    return made;
  }

  // Over which atoms devices hold different data after a step.
  static AtomSet varying_after(const ReshardStep& step, const Placement& from, AtomSet before) {
    switch (step.kind) {
      case ReshardStep::Kind::kAllReduce:
      case ReshardStep::Kind::kAllGather:
        return before - AtomSet(step.atoms);
      case ReshardStep::Kind::kPermute:
        return (before - from.varying()) | step.result.varying();
      default:
        return before | AtomSet(step.atoms);
    }
  }

  // Where shards differ in extent, that of the joined dimension does not follow from that of one shard.
  std::optional<std::int64_t> uneven_size(const ReshardStep& step, std::size_t joined, ValueId from,
                                          ValueId made) const {
    const std::int64_t size = new_.type(made).shape[joined];
    const bool is_even = new_.type(from).shape[joined] * grid_.size_of(step.atoms) == size;
    return is_even ? std::nullopt : std::optional(size);
  }

  // ---- Compute ops.

  // The values that are added to others, or leave open. What they are multiplied by is taken to each summand: others
  // are fewer elements when they are added up.
  void find_added() {
    added_.resize(old_.values.size(), false);
    for (std::size_t i = 0; border_ != nullptr && i < old_.outputs.size(); ++i) {
      if (border_->open_outputs[i] != BodyBorder::Open::kNo) added_[slot(old_.outputs[i])] = true;
    }
    for (auto eqn = old_.eqns.rbegin(); eqn != old_.eqns.rend(); ++eqn) {
      for (std::size_t i = 0; eqn->op->gives_operands && i < eqn->inputs.size(); ++i) {
        if (added_[slot(eqn->outputs[i])]) added_[slot(eqn->inputs[i])] = true;
      }
      if (eqn->op->op_class != OpClass::kCompute || eqn->outputs.size() != 1) continue;
      std::size_t summands = 0;
      for (std::size_t i = 0; i < eqn->inputs.size(); ++i)
        summands += eqn->op->linear[i] == Linear::kTogether ? 1U : 0U;
      const bool goes_on = added_[slot(eqn->outputs[0])];
      for (std::size_t i = 0; i < eqn->inputs.size(); ++i) {
        const bool is_summand = summands > 1 && eqn->op->linear[i] == Linear::kTogether;
        if (is_summand || (goes_on && eqn->op->linear[i] != Linear::kNo)) added_[slot(eqn->inputs[i])] = true;
      }
    }
  }

  // The values that do nothing but become part of a yield, by ops that can take them as summands: of one that may leave
  // open, or, where none is said to, of any.
  void find_leaving() {
    leaving_.resize(old_.values.size(), false);
    for (std::size_t i = 0; border_ != nullptr && i < old_.outputs.size(); ++i) {
      const bool may_leave = border_->over.empty() || border_->open_outputs[i] != BodyBorder::Open::kNo;
      if (may_leave && uses_[slot(old_.outputs[i])] == 1) leaving_[slot(old_.outputs[i])] = true;
    }
    for (auto eqn = old_.eqns.rbegin(); eqn != old_.eqns.rend(); ++eqn) {
      const bool computes = eqn->op->op_class == OpClass::kCompute && eqn->outputs.size() == 1;
      for (std::size_t i = 0; (computes || eqn->op->gives_operands) && i < eqn->inputs.size(); ++i) {
        const bool is_linear = eqn->op->gives_operands || eqn->op->linear[i] != Linear::kNo;
        const ValueId out = eqn->outputs[eqn->op->gives_operands ? i : 0];
        if (is_linear && leaving_[slot(out)] && uses_[slot(eqn->inputs[i])] == 1) leaving_[slot(eqn->inputs[i])] = true;
      }
    }
  }

  // Whether a value that lies like this leaves as the summands that it is: who adds them up pays.
  bool stays_open(ValueId id, const Placement& lies) const {
    return leaving_[slot(id)] && !border_->over.empty() && lies.partial == border_->over &&
           lies.kind == ReduceKind::kSum && (placement_of(id).varying() & AtomSet(border_->over)).empty();
  }

  // Where a value that lies like this has to go.
  Placement wanted(ValueId id, const Placement& lies) const {
    return stays_open(id, lies) ? opened(placement_of(id), border_->over) : placement_of(id);
  }

  static void add_once(std::vector<Atoms>& list, const Atoms& atoms) {
    if (std::ranges::find(list, atoms) == list.end()) list.push_back(atoms);
  }

  // What only says how values lie leaves those that are summands to the one who uses them next: a gradient lies as its
  // argument when it is added up, and is added up once if it is added to others first.
  bool give_open(const Eqn& eqn) {
    const auto may_stay_open = [&](std::size_t i) {
      return is_open(forms_.at(eqn.inputs[i]).front()) && uses_[slot(eqn.inputs[i])] == 1 &&
             uses_[slot(eqn.outputs[i])] == 1;
    };
    if (!eqn.op->gives_operands) return false;
    bool any = false;
    for (std::size_t i = 0; i < eqn.inputs.size(); ++i) any = any || may_stay_open(i);
    for (std::size_t i = 0; any && i < eqn.inputs.size(); ++i) {
      const ValueId in = eqn.inputs[i];
      const ValueId out = eqn.outputs[i];
      if (may_stay_open(i) || uses_[slot(out)] == 0) {
        forms_[out] = forms_.at(in);
      } else {
        forms_[out] = {form(in, placement_of(out))};
      }
    }
    return any;
  }

  // Leaves a linear op's result partial where its operands are, if that neither enlarges what is reduced later nor has
  // it reduced twice.
  bool pass_partial(const Eqn& eqn) {
    if (eqn.op->op_class != OpClass::kCompute || eqn.op->takes_whole_sums) return false;
    const auto is_summand = [&](ValueId id) { return is_open(forms_.at(id).front()); };
    const auto found = std::ranges::find_if(eqn.inputs, is_summand);
    if (found == eqn.inputs.end()) return false;
    const auto summand = static_cast<std::size_t>(found - eqn.inputs.begin());
    const ValueId first = forms_.at(*found).front();
    const Placement partial = global_of(first).placement;
    const Dtype dtype = new_.type(first).dtype;
    const ValueId out = eqn.outputs[0];
    const bool leaves = stays_open(out, partial);  // Nothing is reduced here, then.
    if (!leaves && elements_of(old_.type(out).shape) > elements_of(old_.type(*found).shape)) return false;
    const RuledEqn ruled = to_run(eqn);
    const ShardingRule& rule = ruled.rule;
    if (!rule_keeps(rule, summand, partial)) return false;
    const FactorAxes axes = project(grid_, rule, rule.operands[summand], partial.dims);
    std::vector<ValueId> operands;
    for (std::size_t i = 0; i < eqn.inputs.size(); ++i) {
      const ValueId id = eqn.inputs[i];
      const ValueId front = forms_.at(id).front();
      const Linear linear = linear_in(ruled.context(), i);
      const bool together = is_together(linear);
      if (!is_summand(id) && together && partial.kind == ReduceKind::kSum && (leaves || are_zeros(front))) {
        const Placement want = summand_placement(ruled, i, axes, partial);
        if (cost_of(nearest(id, want), want) > 0) return false;
        continue;
      }
      if (!is_summand(id)) {
        // A factor, which all devices that add up have.
        if (!added_[slot(out)] || together || !has_factors(rule, rule.operands[i], rule.operands[summand]))
          return false;
        const Placement want = ruled.operand_placement(i, axes);
        if (cost_of(nearest(id, want), want) > 0) return false;
        continue;
      }
      const bool alone = linear == Linear::kAlone && std::ranges::count_if(eqn.inputs, is_summand) == 1;
      if (!together && !alone) return false;
      if (linear != Linear::kMoved && partial.kind != ReduceKind::kSum) return false;
      if (!(global_of(front).placement == partial) || new_.type(front).dtype != dtype) return false;
      if (uses_[slot(id)] > 1) return false;
    }
    const bool widened = dtype != old_.type(*found).dtype;
    for (std::size_t i = 0; i < eqn.inputs.size(); ++i) {
      const ValueId id = eqn.inputs[i];
      if (is_summand(id)) {
        operands.push_back(forms_.at(id).front());
        continue;
      }
      const Dtype own = old_.type(id).dtype;
      const Placement want = is_together(linear_in(ruled.context(), i)) ? summand_placement(ruled, i, axes, partial)
                                                                        : ruled.operand_placement(i, axes);
      operands.push_back(form(id, want, widened && is_small_float(own) ? dtype : own));
    }
    Placement result{.dims = dims_of(rule.results[0], axes), .partial = partial.partial, .kind = partial.kind};
    result.partial = (AtomSet(result.partial) | AtomSet(reduced_atoms(rule, axes))).sorted();
    emit_compute(ruled, axes, operands, {result});
    return true;
  }

  static bool is_together(Linear linear) { return linear == Linear::kTogether || linear == Linear::kMoved; }

  // Where an operand lies that is finished, but is added to summands: as a summand of itself and zeros.
  Placement summand_placement(const RuledEqn& ruled, std::size_t i, const FactorAxes& axes,
                              const Placement& partial) const {
    Placement placement = opened(ruled.operand_placement(i, axes), partial.partial);
    placement.kind = partial.kind;
    return placement;
  }

  // Whether a tensor has no other factors than this one.
  static bool has_factors(const ShardingRule& rule, const TensorFactors& tensor, const TensorFactors& than) {
    std::vector<bool> there(rule.factors.size(), false);
    for (const auto& factors : than) {
      for (const auto factor : factors) there[static_cast<std::size_t>(factor)] = true;
    }
    return std::ranges::all_of(tensor, [&](const auto& factors) {
      return std::ranges::all_of(
          factors, [&](auto factor) { return static_cast<bool>(there[static_cast<std::size_t>(factor)]); });
    });
  }

  // Whether the op can run on an operand placed like this without moving it.
  bool rule_keeps(const ShardingRule& rule, std::size_t operand, const Placement& placement) const {
    const FactorAxes wanted = project(grid_, rule, rule.operands[operand], placement.dims);
    FactorAxes axes(rule.factors.size());
    extend(grid_, rule, axes, wanted);
    if (dims_of(rule.operands[operand], axes) != placement.dims) return false;
    return rule.reduction == ReduceKind::kSum || reduced_atoms(rule, axes).empty();
  }

  // An op that cannot move elements along a dimension has it whole while it runs.
  RuledEqn to_run(const Eqn& eqn) const {
    RuledEqn ruled(old_, eqn);
    for (Factor& factor : ruled.rule.factors) {
      const bool cannot_move = factor.kind == FactorKind::kRearranged && eqn.op->rearrange == nullptr;
      if (cannot_move) factor.kind = FactorKind::kNeedReplication;
    }
    return ruled;
  }

  double seconds_of(const RuledEqn& ruled, const FactorAxes& axes) const {
    const Eqn& eqn = ruled.eqn;
    double bytes = exchanged_bytes(grid_, ruled, axes);
    for (std::size_t i = 0; i < eqn.inputs.size(); ++i) {
      const Placement want = ruled.operand_placement(i, axes);
      bytes += cost_of(nearest(eqn.inputs[i], want), want);
    }
    for (std::size_t i = 0; i < eqn.outputs.size(); ++i) {
      const Type& type = ruled.outputs[i];
      const Placement lies = ruled.result_placement(i, axes);
      bytes += plan_reshard(grid_, type.shape, size_of(type.dtype), lies, wanted(eqn.outputs[i], lies)).bytes;
    }
    return Cost{.bytes = bytes, .operations = operations_of(grid_, ruled, axes)}.seconds(grid_);
  }

  // What the wish of a tensor that lies like this becomes when axes of dimensions that the rule does not carry on, or
  // that need halos, go to ones that shards compute alone, the longest first: exchanging parts and working on them
  // costs less than gathering everything everywhere.
  FactorAxes diverted(const ShardingRule& rule, const TensorFactors& tensor, const std::vector<Atoms>& dims) const {
    FactorAxes axes = project(grid_, rule, tensor, dims);
    std::vector<bool> takes(axes.size());
    std::vector<Atoms> diverting;
    for (std::size_t f = 0; f < axes.size(); ++f) {
      const FactorKind kind = rule.factors[f].kind;
      takes[f] = kind == FactorKind::kPassThrough;
      if (takes_halos(kind)) diverting.push_back(std::exchange(axes[f], {}));
    }
    for (std::size_t d : walled_dims(grid_, rule, tensor, dims)) {
      diverting.push_back(dims[d]);
      for (int factor : tensor[d]) {
        axes[static_cast<std::size_t>(factor)].clear();
        takes[static_cast<std::size_t>(factor)] = false;
      }
    }
    divert(rule, diverting, takes, axes);
    return axes;
  }

  // Gives atoms to the longest of the factors that take some, if they divide it: those that are together to one, so
  // that one exchange does, else each for itself.
  void divert(const ShardingRule& rule, const std::vector<Atoms>& diverting, const std::vector<bool>& takes,
              FactorAxes& axes) const {
    const auto longest = [&](std::int64_t parts) {
      std::optional<std::size_t> best;
      std::int64_t most = 0;
      for (std::size_t f = 0; f < axes.size(); ++f) {
        const std::int64_t split = grid_.size_of(axes[f]);
        if (!takes[f] || rule.factors[f].size < split || rule.factors[f].size % (split * parts) != 0) continue;
        if (best && rule.factors[f].size / split <= most) continue;
        best = f;
        most = rule.factors[f].size / split;
      }
      return best;
    };
    for (const Atoms& atoms : diverting) {
      if (const auto best = longest(grid_.size_of(atoms))) {
        axes[*best].insert(axes[*best].end(), atoms.begin(), atoms.end());
        continue;
      }
      for (Atom atom : atoms) {
        if (const auto best = longest(grid_.atom_size(atom))) axes[*best].push_back(atom);
      }
    }
  }

  // What a wish becomes when axes of what is summed go to dimensions of the result, the longest first: where that is
  // large, exchanging parts of the operands costs less than adding it up.
  FactorAxes unsummed(const ShardingRule& rule, const FactorAxes& wish) const {
    FactorAxes axes = wish;
    std::vector<bool> takes(axes.size(), false);
    for (const DimFactors& dim : rule.results[0]) {
      for (int factor : dim) {
        const auto f = static_cast<std::size_t>(factor);
        takes[f] = rule.factors[f].kind == FactorKind::kPassThrough;
      }
    }
    std::vector<Atoms> diverting;
    for (std::size_t f = 0; f < axes.size(); ++f) {
      if (rule.factors[f].kind == FactorKind::kReduction) diverting.push_back(std::exchange(axes[f], {}));
    }
    divert(rule, diverting, takes, axes);
    return axes;
  }

  // Every operand and result in turn has its way first and the others fill in. What takes the least time wins; then
  // what splits the work most.
  FactorAxes choose_axes(const RuledEqn& ruled) {
    const Eqn& eqn = ruled.eqn;
    const ShardingRule& rule = ruled.rule;
    std::vector<FactorAxes> wishes;
    std::vector<FactorAxes> others;
    const auto wish_for = [&](const TensorFactors& tensor, const std::vector<Atoms>& dims) {
      add_wish(wishes, project(grid_, rule, tensor, dims));
      add_wish(others, diverted(rule, tensor, dims));
    };
    for (std::size_t i = 0; i < eqn.outputs.size(); ++i) wish_for(rule.results[i], placement_of(eqn.outputs[i]).dims);
    for (std::size_t i = 0; i < eqn.inputs.size(); ++i) {
      wish_for(rule.operands[i], global_of(forms_.at(eqn.inputs[i]).back()).placement.dims);
    }
    if (rule.reduction == ReduceKind::kSum && !added_[slot(eqn.outputs[0])]) {
      for (std::size_t i = 0, count = wishes.size(); i < count; ++i) add_wish(others, unsummed(rule, wishes[i]));
    }
    for (FactorAxes& wish : others) add_wish(wishes, std::move(wish));
    const bool leaves = leaving_[slot(eqn.outputs[0])];
    FactorAxes best(rule.factors.size());
    double best_seconds = seconds_of(ruled, best);
    std::int64_t best_split = 1;
    for (std::size_t first = 0; first < wishes.size(); ++first) {
      FactorAxes axes(rule.factors.size());
      for (std::size_t k = 0; k < wishes.size(); ++k) {
        if (!extend(grid_, rule, axes, wishes[(first + k) % wishes.size()])) continue;
        if (leaves && rule.reduction == ReduceKind::kSum) {
          const Atoms over = AtomSet(reduced_atoms(rule, axes)).sorted();
          if (!over.empty()) add_once(sums_, over);
        }
        const double seconds = seconds_of(ruled, axes);
        std::int64_t split = 1;
        for (const Atoms& atoms : axes) split *= grid_.size_of(atoms);
        if (seconds > best_seconds || (seconds == best_seconds && split <= best_split)) continue;
        best = axes;
        best_seconds = seconds;
        best_split = split;
      }
    }
    return best;
  }

  // ---- Dealt dimensions.

  // An op that makes several dimensions of one, or one of several, and what has to be dealt for it.
  struct Deal {
    FactorAxes axes;
    std::vector<Dealing> before;  // Of the operand,
    std::vector<Dealing> after;   // and of the result: the way back.
  };

  std::vector<Deal> deals_for(const RuledEqn& ruled) const {
    const Eqn& eqn = ruled.eqn;
    const ShardingRule& rule = ruled.rule;
    std::vector<Deal> deals;
    const auto has_several = [](const DimFactors& dim) { return dim.size() > 1; };
    const bool only_moves =
        eqn.inputs.size() == 1 && eqn.outputs.size() == 1 && moves_elements(*eqn.op) &&
        std::ranges::all_of(rule.factors, [](const Factor& factor) { return factor.kind == FactorKind::kPassThrough; });
    if (!only_moves ||
        (std::ranges::none_of(rule.operands[0], has_several) && std::ranges::none_of(rule.results[0], has_several))) {
      return deals;
    }
    const auto add = [&](const TensorFactors& tensor, const std::vector<Atoms>& dims) {
      FactorAxes axes = project(grid_, rule, tensor, dims);
      if (dims_of(tensor, axes) != dims) return;
      auto before = dealings_of(grid_, rule, rule.operands[0], axes);
      auto after = dealings_of(grid_, rule, rule.results[0], axes);
      if (!before || !after || (before->empty() && after->empty())) return;
      for (Dealing& one : *after) one = one.inverse();
      deals.push_back({std::move(axes), std::move(*before), std::move(*after)});
    };
    add(rule.results[0], placement_of(eqn.outputs[0]).dims);
    add(rule.operands[0], global_of(forms_.at(eqn.inputs[0]).back()).placement.dims);
    return deals;
  }

  double seconds_of(const RuledEqn& ruled, const Deal& deal) const {
    double bytes = 0;
    for (const auto* dealings : {&deal.before, &deal.after}) {
      for (const Dealing& one : *dealings) {
        const std::int64_t extents[] = {one.extent};
        bytes += grid_.slowness(one.atoms) * received_share(grid_, one.atoms, one.runs, extents, one.extent) *
                 bytes_of(local_shape(grid_, ruled.outputs[0].shape, ruled.result_placement(0, deal.axes)),
                          ruled.outputs[0].dtype);
      }
    }
    return seconds_of(ruled, deal.axes) + Cost{.bytes = bytes}.seconds(grid_);
  }

  ValueId dealt(ValueId from, const Dealing& dealing) {
    const GlobalShape global = global_of(from);
    const ValueId made =
        add_global(new_.type(from), global.shape, global.placement, new_.value(from).varying | AtomSet(dealing.atoms));
    new_.value(made).manual = new_.value(from).manual;
    return give(made).rearrange({from}, grid_.axis_refs(dealing.atoms), dealing.dim, {dealing.extent}, dealing.extent,
                                dealing.runs, false);
  }

  // Emits an op whose dimension is divided where no shard ends, if one exchange that deals the elements out takes less
  // time than the split that was found.
  bool deal(const RuledEqn& ruled, const FactorAxes& found) {
    const std::vector<Deal> deals = deals_for(ruled);
    if (deals.empty()) return false;
    const Deal* best = nullptr;
    double seconds = seconds_of(ruled, found);
    for (const Deal& one : deals) {
      if (const double takes = seconds_of(ruled, one); takes < seconds) {
        best = &one;
        seconds = takes;
      }
    }
    if (best == nullptr) return false;
    ValueId operand = form(ruled.eqn.inputs[0], ruled.operand_placement(0, best->axes));
    for (const Dealing& one : best->before) operand = dealt(operand, one);
    emit_compute(ruled, best->axes, {operand}, {ruled.result_placement(0, best->axes)});
    ValueIds& forms = forms_[ruled.eqn.outputs[0]];
    for (const Dealing& one : best->after) forms.front() = dealt(forms.front(), one);
    return true;
  }

  // What was decided for an equation that became a single one, but for what depends on where it stands.
  struct Decision {
    std::vector<Placement> operands;  // Where they are to lie,
    std::vector<std::size_t> forms;   // and which of their forms do, if they are there.
    Attrs attrs;
    std::vector<Value> results = {};
    AtomSet sharded = {};              // That split any of them,
    std::vector<AtomSet> uneven = {};  // and over which each has shards of different shapes.
  };
  // All that it depends on.
  using DecisionKey = boost::container::small_vector<std::uintptr_t, 16>;
  struct HashDecisionKey {
    std::size_t operator()(const DecisionKey& key) const { return boost::hash_range(key.begin(), key.end()); }
  };

  // The equation and the forms of its operands: numbers of what is alike.
  DecisionKey key_of(const Eqn& eqn) {
    DecisionKey key = {classes_.of(eqn)};
    for (ValueId id : eqn.inputs) {
      const ValueIds& forms = forms_.at(id);
      key.push_back(forms.size());
      for (ValueId form : forms) {
        key.push_back(reinterpret_cast<std::uintptr_t>(&global_of(form)));  // One object for all that lie alike.
        key.push_back(static_cast<std::uintptr_t>(new_.type(form).dtype));
      }
    }
    return key;
  }

  void partition_compute(const Eqn& eqn) {
    // What is to leave open is noted on the way to a decision.
    const bool is_repeatable = std::ranges::none_of(eqn.outputs, [&](ValueId id) { return leaving_[slot(id)]; });
    if (!is_repeatable) return partition_compute(eqn, nullptr);
    const auto [known, is_new] = decisions_.try_emplace(key_of(eqn));
    if (!is_new && known->second) return repeat(eqn, *known->second);
    partition_compute(eqn, is_new ? &known->second : nullptr);
  }

  void partition_compute(const Eqn& eqn, std::optional<Decision>* decision) {
    const RuledEqn ruled = to_run(eqn);
    const FactorAxes axes = choose_axes(ruled);
    if (deal(ruled, axes)) return;
    std::vector<Placement> wanted;
    std::vector<std::size_t> taken;
    std::vector<ValueId> operands;
    for (std::size_t i = 0; i < eqn.inputs.size(); ++i) {
      wanted.push_back(ruled.operand_placement(i, axes));
      operands.push_back(form(eqn.inputs[i], wanted.back()));
      const ValueIds& forms = forms_.at(eqn.inputs[i]);
      taken.push_back(static_cast<std::size_t>(std::ranges::find(forms, operands.back()) - forms.begin()));
    }
    std::vector<Placement> results;
    for (std::size_t i = 0; i < eqn.outputs.size(); ++i) results.push_back(ruled.result_placement(i, axes));
    const std::size_t before = new_.eqns.size();
    emit_compute(ruled, axes, operands, results);
    // Whether it became one that computes what the old one does of the operands as they come.
    if (decision == nullptr || new_.eqns.size() != before + 1) return;
    const Eqn& made = new_.eqns.back();
    if (made.op != eqn.op || !std::ranges::equal(made.inputs, operands)) return;
    Decision& noted =
        decision->emplace(Decision{.operands = std::move(wanted), .forms = std::move(taken), .attrs = made.attrs});
    for (ValueId id : made.outputs) {
      noted.results.push_back(new_.value(id));
      const GlobalShape& global = global_of(id);
      noted.sharded = noted.sharded | global.placement.sharded();
      noted.uneven.push_back(uneven_atoms(global.shape, global.placement));
    }
  }

  void repeat(const Eqn& eqn, const Decision& decision) {
    ValueIds operands;
    for (std::size_t i = 0; i < eqn.inputs.size(); ++i) {
      const ValueIds& forms = forms_.at(eqn.inputs[i]);
      const bool is_there = decision.forms[i] < forms.size();
      operands.push_back(is_there ? forms[decision.forms[i]] : form(eqn.inputs[i], decision.operands[i]));
    }
    const AtomSet varying = varying_of_results(eqn, operands, decision.sharded);
    ValueIds outputs;
    for (std::size_t i = 0; i < eqn.outputs.size(); ++i) {
      const auto made = static_cast<ValueId>(new_.values.size());
      Value& result = new_.values.emplace_back(decision.results[i]);
      result.varying = varying | decision.uneven[i];
      forms_[eqn.outputs[i]] = {made};
      outputs.push_back(made);
    }
    new_.eqns.push_back({.op = eqn.op,
                         .attrs = decision.attrs,
                         .inputs = std::move(operands),
                         .outputs = std::move(outputs),
                         .where = where_});
  }

  // ---- Control. What a body gets lies as propagation says of its arguments, so that nothing is moved in every trip
  // that can be moved before. Sums that a body does not finish are finished after it, if that is cheaper.

  // The bodies of an equation, partitioned.
  struct Parts {
    BodyBorder border;
    std::vector<Graph> bodies;
    std::vector<AtomSet> varying;  // Of the yields.
    std::vector<Atoms> sums;       // Over what yields could be sums that are not finished.
    // What a device receives on the way in, in all trips, and on the way out.
    double bytes = 0;
    double exchanges = 0;

    bool is_cheaper_than(const Parts& other) const {
      return std::pair(bytes, exchanges) < std::pair(other.bytes, other.exchanges);
    }
  };

  void partition_control(const Eqn& eqn) {
    const Control control = eqn.op->control(eqn.attrs);
    const Graph& last = *bodies_of(eqn).back();
    std::vector<ValueId> operands;
    for (std::size_t i = 0; i < control.first_argument; ++i) {
      operands.push_back(form(eqn.inputs[i], whole(eqn.inputs[i])));
    }
    AtomSet apart;  // Where devices go different ways their results differ.
    for (ValueId id : operands) apart = apart | new_.value(id).varying;
    BodyBorder border;
    for (std::size_t i = 0; i < last.inputs.size(); ++i) {
      // Bodies may wish for different things; all get the same.
      border.arguments.push_back(*last.value(last.inputs[i]).placement);
    }
    for (std::size_t i = 0; i < last.outputs.size(); ++i) {
      const ValueId lies_as = control.loops && i < control.carries ? last.inputs[i] : last.outputs[i];
      border.outputs.push_back(*last.value(lies_as).placement);
    }
    border.open_arguments.resize(last.inputs.size(), false);
    border.open_outputs.resize(last.outputs.size(), BodyBorder::Open::kNo);
    Parts best = partition_bodies(eqn, control, border, apart);
    for (const Atoms& over : sums_of(eqn, control, best)) {
      std::optional<Parts> open = partition_open(eqn, control, border, over, apart);
      if (!open) continue;
      const bool costs_no_more = !best.is_cheaper_than(*open) && are_added_up_later(eqn, open->border);
      if (costs_no_more || open->is_cheaper_than(best)) best = std::move(*open);
    }
    border = best.border;
    for (std::size_t i = 0; i < last.inputs.size(); ++i) {
      const ValueId given = eqn.inputs[control.first_argument + i];
      const Placement lies = around(border.arguments[i], control.is_slice(i));
      operands.push_back(border.open_arguments[i] ? summands(given, lies) : form(given, lies));
    }
    Eqn made = eqn;
    std::size_t next = 0;
    map_bodies(made, [&](const Graph&) { return std::move(best.bodies[next++]); });
    std::vector<ValueId> outputs;
    for (std::size_t i = 0; i < eqn.outputs.size(); ++i) {
      const Type& type = old_.type(eqn.outputs[i]);
      const bool open = border.open_outputs[i] == BodyBorder::Open::kYes;
      const Placement lies = around(border.outputs[i], control.is_stack(i));
      outputs.push_back(add_global(open ? of_summands(type) : type, type.shape, open ? opened(lies, border.over) : lies,
                                   best.varying[i]));
      new_.value(outputs.back()).manual = old_.value(eqn.outputs[i]).manual;
      forms_[eqn.outputs[i]] = {outputs.back()};
    }
    add_eqn(*eqn.op, std::move(made.attrs), std::move(operands), std::move(outputs));
  }

  // Whether all that leaves as summands goes into sums: then one exchange may do for several of them.
  bool are_added_up_later(const Eqn& eqn, const BodyBorder& border) const {
    bool all = true;
    for (std::size_t i = 0; i < eqn.outputs.size(); ++i) {
      if (border.open_outputs[i] != BodyBorder::Open::kYes) continue;
      all = all && added_[slot(eqn.outputs[i])] && uses_[slot(eqn.outputs[i])] == 1;
    }
    return all;
  }

  // Where an operand or result lies whose slices lie like this.
  static Placement around(Placement slice, bool is_sliced) {
    if (is_sliced) slice.dims.emplace(slice.dims.begin());
    return slice;
  }

  Parts partition_bodies(const Eqn& eqn, const Control& control, BodyBorder border, AtomSet apart) const {
    const auto bodies = bodies_of(eqn);
    Parts parts{.border = std::move(border), .bodies = {}, .varying = {}, .sums = {}};
    BodyBorder& own = parts.border;
    own.varying.clear();
    for (std::size_t i = 0; i < own.arguments.size(); ++i) {
      const ValueId given = eqn.inputs[control.first_argument + i];
      own.varying.push_back(varying_of_form(given, around(own.arguments[i], control.is_slice(i))));
    }
    while (true) {
      parts.bodies.clear();
      for (const Graph* body : bodies) {
        const bool answers = control.asks && body == bodies.front();
        BodyBorder asked = own;
        if (answers) {
          asked.outputs = {Placement::replicated(0)};
          asked.open_outputs = {BodyBorder::Open::kNo};
        }
        Partitioner inside(*body, plans_, &asked);
        parts.bodies.push_back(inside.run());
        for (const Atoms& over : inside.take_sums()) add_once(parts.sums, over);
      }
      parts.varying = varying_of_yields(control, parts.bodies);
      AtomSet ways = apart;
      if (control.asks) ways = ways | parts.bodies.front().value(parts.bodies.front().outputs[0]).varying;
      for (AtomSet& atoms : parts.varying) atoms = atoms | ways;
      // What a trip makes of carries that differ may differ in more ways: the next has to expect it.
      if (!widen_carries(control, parts.varying, own)) break;
    }
    return parts;
  }

  void count(const Eqn& eqn, const Control& control, Parts& parts) const {
    parts.bytes = parts.exchanges = 0;
    const auto reshards = [&](const GlobalShape& from, Dtype dtype, const Placement& to) {
      if (from.placement == to) return;
      const ReshardPlan plan = plan_reshard(grid_, from.shape, size_of(dtype), from.placement, to);
      parts.bytes += plan.bytes;
      if (plan.bytes > 0) parts.exchanges += static_cast<double>(plan.steps.size());
    };
    for (const Graph& body : parts.bodies) {
      for_each_counted(body, [&](const CountedEqn& at) {
        const double bytes = shoal::cost_of(at.graph, at.eqn).bytes;
        if (bytes == 0) return;
        parts.bytes += control.weight() * at.times * bytes;
        parts.exchanges += control.weight() * at.times;
      });
    }
    for (std::size_t i = 0; i < parts.border.arguments.size(); ++i) {
      const Placement want = around(parts.border.arguments[i], control.is_slice(i));
      const ValueId from = nearest(eqn.inputs[control.first_argument + i], want);
      reshards(global_of(from), new_.type(from).dtype, want);
    }
    for (std::size_t i = 0; i < parts.border.outputs.size(); ++i) {
      const bool open = parts.border.open_outputs[i] == BodyBorder::Open::kYes;
      const Placement lies = around(parts.border.outputs[i], control.is_stack(i));
      const Type& type = old_.type(eqn.outputs[i]);
      const Placement leaves = open ? opened(lies, parts.border.over) : lies;
      reshards({type.shape, leaves}, (open ? of_summands(type) : type).dtype, wanted(eqn.outputs[i], leaves));
    }
  }

  // Over what the sums go that bodies, or what they are given, do not begin with as finished, or need not have
  // finished.
  std::vector<Atoms> sums_of(const Eqn& eqn, const Control& control, Parts& parts) {
    std::vector<Atoms> found = parts.sums;
    for (const Atoms& over : found) add_once(sums_, over);
    const auto look = [&](const Placement& placement) {
      if (placement.partial.empty() || placement.kind != ReduceKind::kSum) return;
      add_once(found, placement.partial);
    };
    for (const Graph& body : parts.bodies) {
      for_each_counted(body, [&](const CountedEqn& at) {
        if (received_bytes(at.graph, at.eqn) > 0) look(at.graph.value(at.eqn.inputs[0]).global->placement);
      });
    }
    for (std::size_t i = control.first_argument; i < eqn.inputs.size(); ++i) {
      look(global_of(forms_.at(eqn.inputs[i]).front()).placement);
    }
    if (!found.empty()) count(eqn, control, parts);
    return found;
  }

  // The bodies with all that may stay a sum over these atoms as one: carries that come back as such, what comes as
  // such and is not finished inside, and what is made of them. Nothing if that is nothing.
  std::optional<Parts> partition_open(const Eqn& eqn, const Control& control, const BodyBorder& closed,
                                      const Atoms& over, AtomSet apart) const {
    using Open = BodyBorder::Open;
    const Graph& last = *bodies_of(eqn).back();
    const auto fits = [&](const Type& type, const Placement& lies) {
      const bool adds = type.dtype != bool_;
      return adds && lies.partial.empty() && (lies.varying() & AtomSet(over)).empty();
    };
    BodyBorder border = closed;
    border.over = over;
    for (std::size_t i = 0; i < last.inputs.size(); ++i) {
      const bool carry = control.loops && i < control.carries;
      const Placement& front = global_of(forms_.at(eqn.inputs[control.first_argument + i]).front()).placement;
      const bool comes_open = front.partial == over && front.kind == ReduceKind::kSum;
      border.open_arguments[i] = fits(last.type(last.inputs[i]), closed.arguments[i]) && (carry || comes_open);
    }
    for (std::size_t i = 0; i < last.outputs.size(); ++i) {
      if (fits(last.type(last.outputs[i]), closed.outputs[i])) border.open_outputs[i] = Open::kIfSo;
    }
    while (true) {
      for (std::size_t i = 0; i < last.inputs.size(); ++i) {
        const bool open = border.open_arguments[i];
        border.arguments[i] = open ? opened(closed.arguments[i], over) : closed.arguments[i];
        if (control.loops && i < control.carries && !open) border.open_outputs[i] = Open::kNo;
      }
      Parts parts = partition_bodies(eqn, control, border, apart);
      bool changed = false;
      for (std::size_t i = 0; i < last.outputs.size(); ++i) {
        if (border.open_outputs[i] != Open::kIfSo) continue;
        const bool carry = control.loops && i < control.carries;
        std::size_t stay = 0;
        std::size_t all = 0;
        for (std::size_t b = control.asks ? 1 : 0; b < parts.bodies.size(); ++b, ++all) {
          const Graph& body = parts.bodies[b];
          if (!body.value(body.outputs[i]).global->placement.partial.empty()) ++stay;
        }
        if (stay == all && !carry) {
          parts.border.open_outputs[i] = Open::kYes;
        } else if (stay > 0 && !carry) {
          border.open_outputs[i] = Open::kYes;  // Of other branches it becomes a sum of zeros and themselves.
          changed = true;
        } else if (carry && stay < all) {
          border.open_arguments[i] = false;
          changed = true;
        } else if (!carry) {
          border.open_outputs[i] = Open::kNo;
        }
      }
      for (const std::size_t i : not_worth(control, parts)) {
        changed = changed || border.open_arguments[i];
        border.open_arguments[i] = false;
      }
      if (changed) continue;
      for (std::size_t i = 0; i < last.outputs.size(); ++i) {
        Open& open = parts.border.open_outputs[i];
        const bool carry = control.loops && i < control.carries;
        if (open == Open::kIfSo) open = carry ? Open::kYes : Open::kNo;
      }
      const bool any = std::ranges::count(parts.border.open_arguments, true) > 0 ||
                       std::ranges::count(parts.border.open_outputs, Open::kYes) > 0;
      if (!any) return std::nullopt;
      count(eqn, control, parts);
      return parts;
    }
  }

  // Whether something in the graph, or in one that it holds, computes summands of what is none.
  static bool makes_summands(const Graph* graph) {
    return std::ranges::any_of(graph->eqns, [graph](const Eqn& eqn) {
      if (eqn.op->op_class == OpClass::kControl) return std::ranges::any_of(bodies_of(eqn), &makes_summands);
      const auto is_summand = [&](ValueId id) { return !graph->value(id).global->placement.partial.empty(); };
      return eqn.op->op_class == OpClass::kCompute && std::ranges::any_of(eqn.outputs, is_summand) &&
             std::ranges::none_of(eqn.inputs, is_summand);
    });
  }

  // The open arguments that a body finishes in each trip, and the carries to which it adds nothing open.
  static std::vector<std::size_t> not_worth(const Control& control, const Parts& parts) {
    const BodyBorder& border = parts.border;
    std::vector<bool> fed(border.open_arguments.size(), false);
    std::vector<bool> finished(border.open_arguments.size(), false);
    for (std::size_t i = control.loops ? control.carries : 0; i < fed.size(); ++i) fed[i] = true;
    for (bool grows = true; grows;) {
      grows = false;
      for (const Graph& body : parts.bodies) {
        const auto is_summand = [&](ValueId id) { return !body.value(id).global->placement.partial.empty(); };
        std::vector<bool> filled(body.values.size(), false);
        for (std::size_t i = 0; i < fed.size(); ++i) filled[slot(body.inputs[i])] = fed[i];
        for (const Eqn& eqn : body.eqns) {
          const bool begins = std::ranges::none_of(eqn.inputs, is_summand);
          const bool goes_on =
              std::ranges::any_of(eqn.inputs, [&](ValueId id) { return is_summand(id) && filled[slot(id)]; }) ||
              (eqn.op->op_class == OpClass::kControl && std::ranges::any_of(bodies_of(eqn), &makes_summands));
          for (ValueId id : eqn.outputs) filled[slot(id)] = is_summand(id) && (begins || goes_on);
        }
        if (control.asks && &body == &parts.bodies.front()) continue;
        for (std::size_t i = 0; control.loops && i < control.carries; ++i) {
          if (fed[i] || !filled[slot(body.outputs[i])]) continue;
          fed[i] = grows = true;
        }
      }
    }
    for (const Graph& body : parts.bodies) {
      std::vector<bool> reduced(body.values.size(), false);
      for (auto eqn = body.eqns.rbegin(); eqn != body.eqns.rend(); ++eqn) {
        const bool reduces = received_bytes(body, *eqn) > 0 ||
                             std::ranges::any_of(eqn->outputs, [&](ValueId id) { return reduced[slot(id)]; });
        if (!reduces || eqn->op->op_class == OpClass::kControl) continue;
        for (ValueId id : eqn->inputs) reduced[slot(id)] = !body.value(id).global->placement.partial.empty();
      }
      for (std::size_t i = 0; i < finished.size(); ++i) {
        if (reduced[slot(body.inputs[i])]) finished[i] = true;
      }
    }
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < fed.size(); ++i) {
      if (border.open_arguments[i] && (!fed[i] || finished[i])) found.push_back(i);
    }
    return found;
  }

  Placement whole(ValueId id) const { return Placement::replicated(old_.type(id).rank()); }

  // Over which atoms the results of some body differ.
  static std::vector<AtomSet> varying_of_yields(const Control& control, const std::vector<Graph>& bodies) {
    std::vector<AtomSet> varying(bodies.back().outputs.size());
    for (std::size_t b = control.asks ? 1 : 0; b < bodies.size(); ++b) {
      for (std::size_t i = 0; i < varying.size(); ++i) {
        varying[i] = varying[i] | bodies[b].value(bodies[b].outputs[i]).varying;
      }
    }
    return varying;
  }

  // Lets carries differ as they do when they come and when they are yielded. Returns whether they came as less.
  static bool widen_carries(const Control& control, std::vector<AtomSet>& yields, BodyBorder& border) {
    bool widened = false;
    for (std::size_t i = 0; control.loops && i < control.carries; ++i) {
      yields[i] = yields[i] | border.varying[i];
      widened = widened || yields[i] != border.varying[i];
      border.varying[i] = yields[i];
    }
    return widened;
  }

  // ---- Cumulative dimensions: what the shards before have comes in after each has computed its own part.

  // `own` combined with the totals of the shards of `operand` before it along `dim`.
  ValueId complete_cumulative(const RuledEqn& ruled, std::size_t dim, const Atoms& atoms, ValueId operand,
                              ValueId own) {
    const ReduceKind reduction = ruled.rule.reduction;
    const GlobalShape whole = global_of(own);
    const Type local = new_.type(own);
    // The total of each shard: partial over the atoms, and then, as one element of a dimension, split by them.
    GlobalShape total = whole;
    total.shape.erase(total.shape.begin() + static_cast<std::ptrdiff_t>(dim));
    total.placement.dims.erase(total.placement.dims.begin() + static_cast<std::ptrdiff_t>(dim));
    total.placement.partial = AtomSet(atoms).sorted();
    total.placement.kind = reduction;
    const AtomSet varying = new_.value(operand).varying | AtomSet(atoms);
    const auto next = [&](const Shape& shape, const Placement& placement) {
      const ValueId made = add_global(local, shape, placement, varying);
      new_.value(made).manual = new_.value(own).manual;
      return give(made);
    };
    Shape lines = whole.shape;
    lines[dim] = grid_.size_of(atoms);
    const ValueId reduced =
        next(total.shape, total.placement).reduce(reduction, operand, {static_cast<std::int64_t>(dim)});
    const ValueId line = next(lines, whole.placement).reshape(reduced, local_shape(grid_, lines, whole.placement));
    const ValueId before =
        next(lines, whole.placement)
            .exclusive_scan(line, grid_.axis_refs(atoms), reduction, ruled.eqn.attrs.get<bool>("reverse"));
    const ValueId spread = next(whole.shape, whole.placement).broadcast_to(before, local.shape);
    return next(whole.shape, whole.placement).combine(reduction, spread, own);
  }

  // ---- Counted dimensions.

  // `own`, which counts from 0 in each shard, counted on from where the shard begins along `dim`.
  ValueId count_on(std::size_t dim, const Atoms& atoms, ValueId own) {
    const GlobalShape whole = global_of(own);
    const Type local = new_.type(own);
    const AtomSet varying = new_.value(own).varying | AtomSet(atoms);
    const auto next = [&](Dtype dtype, const Shape& shape, const Shape& global, const Placement& placement) {
      Type type = local;
      type.dtype = dtype;
      type.shape = shape;
      const ValueId made = add_global(type, global, placement, varying);
      new_.value(made).manual = shape.empty() ? varying : new_.value(own).manual;
      return give(made);
    };
    const auto scalar = [&](Dtype dtype) { return next(dtype, {}, {}, Placement::replicated(0)); };
    const ValueId place = converted(scalar(int32).axis_index(grid_.axis_refs(atoms)), int64);
    const ValueId extent = scalar(int64).full(Scalar::of(local.shape[dim]));
    const ValueId start = converted(scalar(int64).multiply(place, extent), local.dtype);
    const auto all = [&] { return next(local.dtype, local.shape, whole.shape, whole.placement); };
    const ValueId starts = all().broadcast_to(start, local.shape);
    return all().add(own, starts);
  }

  // ---- Rearranged dimensions: shards exchange elements first, so that the op need not touch the dimension any more.

  // An op about to be emitted: what remains of it after exchanges.
  struct Remainder {
    Attrs attrs;
    std::vector<Type> inputs;  // Global.
    std::vector<ValueId> operands;
    bool is_done = false;  // The only operand is the result.
  };

  Remainder rearranged(const RuledEqn& ruled, const FactorAxes& axes, std::vector<ValueId> operands) {
    Remainder left{.attrs = ruled.eqn.attrs, .inputs = ruled.inputs, .operands = std::move(operands)};
    for (const auto& [dim, atoms] : ruled.split_dims(FactorKind::kRearranged, axes)) {
      rearrange(*ruled.eqn.op, ruled.outputs, dim, atoms, left);
    }
    for (const auto& [dim, atoms] : ruled.halo_dims(axes))
      take_in_halos(*ruled.eqn.op, ruled.outputs, dim, atoms, left);
    return left;
  }

  // Shards of the first operand become what their windows meet along `dim`, with padding where that is beyond the
  // array, so that all are of one extent.
  void take_in_halos(const OpDef& op, const std::vector<Type>& outputs, std::size_t dim, const Atoms& atoms,
                     Remainder& left) {
    const RuleContext context{.op = op, .inputs = left.inputs, .outputs = outputs, .attrs = left.attrs};
    const Windows windows = op.windowed->windows(context, dim);
    const std::int64_t numbers = grid_.extent(windows.numbers, atoms, 0).size;
    const ValueId array = left.operands[0];
    const GlobalShape from = global_of(array);
    const Type local = new_.type(array);
    Shape shape = from.shape;
    shape[dim] = grid_.size_of(atoms) * windows.most_elements(numbers);
    Type scalar = local;
    scalar.shape = {};
    scalar.weak = false;
    const ValueId padding = give(add_global(scalar, {}, Placement::replicated(0), {}))
                                .full(op.windowed->padding(context).converted_to(local.dtype));
    const ValueId made = add_global(local, shape, from.placement, new_.value(array).varying | AtomSet(atoms));
    new_.value(made).manual = new_.value(array).manual;
    give(made).with_halos(array, padding, grid_.axis_refs(atoms), dim, from.shape[dim], shape[dim], windows);
    left.attrs = op.windowed->of_shards(context, dim, numbers);
    left.inputs[0].shape = shape;
    left.operands[0] = made;
  }

  void rearrange(const OpDef& op, const std::vector<Type>& outputs, std::size_t dim, const Atoms& atoms,
                 Remainder& left) {
    Rearrangement moved = op.rearrange({.op = op, .inputs = left.inputs, .outputs = outputs, .attrs = left.attrs}, dim);
    std::vector<ValueId> moving;
    Dims extents;
    for (std::size_t i : moved.operands) {
      moving.push_back(left.operands[i]);
      extents.push_back(left.inputs[i].shape[dim]);
    }
    if (moved.fill) moving.push_back(left.operands[*moved.fill]);
    const GlobalShape from = global_of(moving[0]);
    Shape shape = from.shape;
    shape[dim] = outputs[0].shape[dim];
    AtomSet varying = joint_varying(moving) | AtomSet(atoms);
    const ValueId made = add_global(new_.type(moving[0]), shape, from.placement, varying);
    for (ValueId id : moving) new_.value(made).manual = new_.value(made).manual | new_.value(id).manual;
    give(made).rearrange(std::move(moving), grid_.axis_refs(atoms), dim, std::move(extents), shape[dim], moved.runs,
                         moved.fill.has_value());
    left.is_done = !moved.rest;
    if (moved.rest) left.attrs = std::move(*moved.rest);
    // The operands that moved are one now; it takes the place of the first.
    left.inputs[moved.operands[0]].shape = shape;
    left.operands[moved.operands[0]] = made;
    if (left.is_done) left.operands = {made};
  }

  // ---- Matrices that all devices compute with together.

  static bool is_joint(const RuledEqn& ruled, const FactorAxes& axes) {
    for (std::size_t f = 0; f < axes.size(); ++f) {
      if (ruled.rule.factors[f].kind == FactorKind::kJoint && !axes[f].empty()) return true;
    }
    return false;
  }

  // The first operand is a matrix, and another one its right sides; or the second result is a matrix of other extents.
  // The collective is told where both lie.
  void emit_joint(const RuledEqn& ruled, const std::vector<ValueId>& operands, const std::vector<Placement>& results) {
    const Eqn& eqn = ruled.eqn;
    std::vector<Builder::SplitMatrix> split;
    AtomSet atoms;
    for (const ValueId id : operands) {
      const std::vector<Atoms>& dims = global_of(id).placement.dims;
      for (const Atoms& along : dims) atoms = atoms | AtomSet(along);
      split.push_back({.rows = grid_.axis_refs(dims[0]), .columns = grid_.axis_refs(dims[1])});
    }
    std::optional<std::int64_t> sides;
    if (operands.size() > 1) {
      sides = ruled.inputs[1].shape[1];
    } else if (results.size() > 1 && results[0].dims.size() > 1 && results[1].dims.size() > 1) {
      sides = old_.type(eqn.outputs[1]).shape[1];
      split.push_back({.rows = grid_.axis_refs(results[1].dims[0]), .columns = grid_.axis_refs(results[1].dims[1])});
    }
    // Of one matrix all devices that work together have the same results, but for how they are split.
    std::vector<ValueId> made;
    for (std::size_t i = 0; i < eqn.outputs.size(); ++i) {
      const Type& type = old_.type(eqn.outputs[i]);
      made.push_back(
          add_global(type, type.shape, results[i], (joint_varying(operands) - atoms) | results[i].sharded()));
      new_.value(made.back()).manual = old_.value(eqn.outputs[i]).manual;
      forms_[eqn.outputs[i]] = {made.back()};
    }
    Builder(new_, where_)
        .solver(eqn.op->joint, eqn.attrs, operands, grid_.axis_refs(atoms.sorted()), ruled.inputs[0].shape[0], sides,
                std::move(split), std::move(made));
  }

  // ---- Equations.

  void emit_compute(const RuledEqn& ruled, const FactorAxes& axes, std::vector<ValueId> given,
                    const std::vector<Placement>& results) {
    const Eqn& eqn = ruled.eqn;
    const Remainder left = rearranged(ruled, axes, std::move(given));
    const std::vector<ValueId>& operands = left.operands;
    if (left.is_done) {
      forms_[eqn.outputs[0]] = {operands[0]};
      return;
    }
    if (is_joint(ruled, axes)) {
      emit_joint(ruled, operands, results);
      return;
    }
    if (eqn.op->expand != nullptr) {
      expand(eqn, operands, results);
      return;
    }
    if (eqn.op->gives_operands) {
      for (std::size_t i = 0; i < operands.size(); ++i) forms_[eqn.outputs[i]] = {operands[i]};
      return;
    }
    std::vector<ValueId> outputs;
    AtomSet sharded;
    for (const Placement& result : results) sharded = sharded | result.sharded();
    const AtomSet varying = varying_of_results(eqn, operands, sharded);
    Attrs attrs = left.attrs;
    const bool widened = keeps_more_bits(eqn, operands, results);
    const auto counted = ruled.split_dims(FactorKind::kCounted, axes);
    const bool counts_wide = !counted.empty() && !is_integer(old_.type(eqn.outputs[0]).dtype);  // Floats would round.
    for (std::size_t i = 0; i < eqn.outputs.size(); ++i) {
      Type type = widened ? of_summands(old_.type(eqn.outputs[i])) : old_.type(eqn.outputs[i]);
      if (counts_wide) type.dtype = int64;
      outputs.push_back(add_global(type, type.shape, results[i], varying));
      new_.value(outputs.back()).manual = old_.value(eqn.outputs[i]).manual;
    }
    if (eqn.op->localize != nullptr) {
      const std::vector<Type> local_inputs = new_.types(operands);
      const std::vector<Type> local_outputs = new_.types(outputs);
      attrs = eqn.op->localize(
          {.attrs = left.attrs, .inputs = left.inputs, .local_inputs = local_inputs, .local_outputs = local_outputs});
    }
    if (widened && chooses_dtype(*eqn.op)) attrs = with_dtype(std::move(attrs), float32);
    if (counts_wide) attrs = with_dtype(std::move(attrs), int64);
    add_eqn(*eqn.op, std::move(attrs), operands, outputs);
    for (const auto& [dim, atoms] : ruled.split_dims(FactorKind::kCumulative, axes)) {
      outputs[0] = complete_cumulative(ruled, dim, atoms, operands[0], outputs[0]);
    }
    for (const auto& [dim, atoms] : counted) outputs[0] = count_on(dim, atoms, outputs[0]);
    if (counts_wide) outputs[0] = converted(outputs[0], old_.type(eqn.outputs[0]).dtype);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      // Of several results, those that are whole have no use for more bits.
      if (widened && results[i].partial.empty()) outputs[i] = converted(outputs[i], old_.type(eqn.outputs[i]).dtype);
      forms_[eqn.outputs[i]] = {outputs[i]};
    }
  }

  // Over which atoms devices compute different data of the operands, if results are split over some.
  AtomSet varying_of_results(const Eqn& eqn, std::span<const ValueId> operands, AtomSet sharded_results) const {
    AtomSet varying = joint_varying(operands);
    if (eqn.op->op_class == OpClass::kCollective) {
      varying = varying_after_collective(eqn, varying,
                                         AtomSet(grid_.atoms_of(eqn.attrs.get<std::vector<std::string>>("axes"))));
    }
    if (eqn.op->sees_start) {
      for (ValueId id : operands) varying = varying | global_of(id).placement.sharded();
      varying = varying | sharded_results;
    }
    return varying;
  }

  static bool chooses_dtype(const OpDef& op) { return op.attributes.find("dtype") != nullptr; }

  // Whether summands of small floats are made, or were kept, with more bits than the result will have.
  bool keeps_more_bits(const Eqn& eqn, const std::vector<ValueId>& operands,
                       const std::vector<Placement>& results) const {
    const bool adds_up = std::ranges::any_of(results, [](const Placement& one) { return !one.partial.empty(); });
    if (!adds_up || !is_small_float(old_.type(eqn.outputs[0]).dtype)) return false;
    const bool adds = eqn.op->elementwise == nullptr && chooses_dtype(*eqn.op);
    return adds || std::ranges::any_of(operands,
                                       [&](ValueId id) { return is_open(id) && !is_small_float(new_.type(id).dtype); });
  }

  // ---- Ops that are composed of others: what computes a shard stands in a manual region over all axes.

  void expand(const Eqn& eqn, const std::vector<ValueId>& operands, const std::vector<Placement>& results) {
    const AtomSet all(atoms_on(grid_, grid_.mesh(), grid_.mesh().axis_names()));
    const std::vector<Type> operand_types = new_.types(operands);
    std::vector<Type> result_types = old_.types(eqn.outputs);
    for (std::size_t i = 0; i < results.size(); ++i) {
      result_types[i].shape = local_shape(grid_, result_types[i].shape, results[i]);
    }
    const GraphPtr body =
        eqn.op->expand({.attrs = eqn.attrs, .operands = operand_types, .results = result_types, .where = eqn.where});
    ManualRegion region{.mesh = grid_.mesh(), .manual = all, .varying = {}};
    for (ValueId id : operands) region.varying.push_back(new_.value(id).varying);
    Compilation shards{.graph = body, .placing = {.grid = new_.grid}, .region = std::move(region)};
    run_stages(shards, "place", "partition");
    const Graph& steps = *shards.graph;
    // At its boundary nothing moves: the same shards are seen as those of other values.
    const auto cross = [&](ValueId from, Value to) {
      new_.values.push_back(std::move(to));
      const auto crossed = static_cast<ValueId>(new_.values.size() - 1);
      return give(crossed).pvary(from, {});
    };
    std::map<ValueId, ValueId> renamed;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      renamed[steps.inputs[i]] = cross(operands[i], steps.value(steps.inputs[i]));
    }
    for (const Eqn& step : steps.eqns) {
      Eqn copy = step;
      for (ValueId& id : copy.inputs) id = renamed.at(id);
      for (ValueId& id : copy.outputs) {
        new_.values.push_back(steps.value(id));
        id = renamed[id] = static_cast<ValueId>(new_.values.size() - 1);
      }
      new_.eqns.push_back(std::move(copy));
    }
    for (std::size_t i = 0; i < results.size(); ++i) {
      const ValueId made = renamed.at(steps.outputs[i]);
      Value result = old_.value(eqn.outputs[i]);
      result.type = new_.type(made);
      result.varying = new_.value(made).varying;
      result.global = lying(old_.type(eqn.outputs[i]).shape, results[i]);
      result.placement.reset();
      forms_[eqn.outputs[i]] = {cross(made, std::move(result))};
    }
  }

  // What the user looks at lies as propagation chose; looking moves nothing. Placements are known by now. What he gives
  // is whole on all devices that he gives it to.
  void keep_effect(const Eqn& eqn) {
    if (eqn.op->when_compiled) return;
    std::vector<ValueId> operands;
    for (ValueId id : eqn.inputs) operands.push_back(form(id, placement_of(id)));
    std::vector<ValueId> outputs;
    for (ValueId id : eqn.outputs) {
      const Type& type = old_.type(id);
      const AtomSet manual = old_.value(id).manual;
      outputs.push_back(add_global(type, type.shape, whole(id), manual));
      new_.value(outputs.back()).manual = manual;
      forms_[id] = {outputs.back()};
    }
    add_eqn(*eqn.op, eqn.attrs, std::move(operands), std::move(outputs));
  }

  // ---- Manual regions.

  // At a boundary nothing moves: the same shards are seen as those of another value. Where the spec of a result says
  // that devices hold the same, the first one's data stands for all.
  void cross_boundary(const Eqn& eqn) {
    const RuledEqn ruled = to_run(eqn);
    const ShardingRule& rule = ruled.rule;
    const bool enters = eqn.op->op_class == OpClass::kEnter;
    const NamedSharding& sharding = eqn.attrs.get<NamedSharding>("sharding");
    const ValueId out = eqn.outputs[0];
    const ValueId outside = enters ? eqn.inputs[0] : out;
    FactorAxes axes(rule.factors.size());
    const TensorFactors& outer = enters ? rule.operands[0] : rule.results[0];
    const std::vector<Atoms> spec = grid_.dims_of(sharding.mesh(), sharding.spec(), old_.type(outside).rank());
    extend(grid_, rule, axes, project(grid_, rule, outer, spec));
    const std::vector<Atoms>& wanted = placement_of(outside).dims;
    extend(grid_, rule, axes, project(grid_, rule, outer, wanted));
    // The summands of an unreduced value are what devices see inside.
    const ValueId from = form(eqn.inputs[0], ruled.operand_placement(0, axes));
    const Placement placement{.dims = dims_of(rule.results[0], axes), .partial = placement_of(out).partial};
    const AtomSet allowed = placement.varying() | old_.value(out).manual;
    const ValueId crossed =
        add_global(old_.type(out), old_.type(out).shape, placement, new_.value(from).varying & allowed);
    new_.value(crossed).manual = old_.value(out).manual;
    forms_[out] = {give(crossed).pvary(from, {})};
  }

  // Over which atoms devices hold different data after a collective of a manual region. It may be fewer than its type
  // says: what all_gather gives is the same on every device.
  static AtomSet varying_after_collective(const Eqn& eqn, AtomSet before, AtomSet atoms) {
    using Gives = CollectiveFacts::Gives;
    switch (eqn.op->collective->gives) {
      case Gives::kAsBefore:
        return before;
      case Gives::kSame:
        return index_groups(eqn.attrs).empty() ? before - atoms : before | atoms;
      case Gives::kOwn:
        break;
    }
    return before | atoms;
  }

  const Graph& old_;
  const BodyBorder* border_;
  const Grid& grid_;
  ReshardPlans& plans_;  // Also of bodies.
  std::vector<int> uses_;
  std::vector<bool> added_;
  std::vector<bool> leaving_;
  std::vector<Atoms> sums_;
  Graph new_;
  EqnClasses classes_;  // Of the old graph.
  Forms forms_;
  std::unordered_map<DecisionKey, std::optional<Decision>, HashDecisionKey> decisions_;
  std::unordered_multimap<std::size_t, Shared<GlobalShape>> lying_;
  mutable std::vector<std::int32_t> makers_;  // Of each value of the new graph, as far as they were noted.
  mutable std::size_t noted_ = 0;             // How many equations were.
  Origin where_;
};

}  // namespace

Graph partition(const Graph& graph) {
  ReshardPlans plans(*graph.grid);
  return Partitioner(graph, plans).run();
}

}  // namespace shoal
