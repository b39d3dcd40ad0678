#include "spmd/partition.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/check.h"
#include "ops/table.h"
#include "spmd/cost.h"
#include "spmd/factors.h"
#include "spmd/open_regions.h"
#include "spmd/propagate.h"
#include "spmd/reshard.h"
#include "spmd/ruled_eqn.h"

namespace shoal {
namespace {

bool is_small_float(Dtype dtype) { return dtype == float16 || dtype == bfloat16; }

double elements_of(const Shape& shape) { return static_cast<double>(num_elements(shape)); }

class Partitioner {
 public:
  explicit Partitioner(const Graph& graph) : old_(graph), grid_(*graph.grid), uses_(count_uses(graph)) {
    new_.name = graph.name;
    new_.grid = graph.grid;
  }

  Graph run() {
    for (ValueId id : old_.inputs) {
      const Value& value = old_.value(id);
      const ValueId fresh = add_global(value.type, value.type.shape, *value.placement, {});
      new_.value(fresh).varying = value.placement->varying() | value.varying;
      new_.value(fresh).manual = value.manual;
      new_.inputs.push_back(fresh);
      forms_[id] = {fresh};
    }
    for (const Eqn& eqn : old_.eqns) {
      where_ = eqn.where;
      if (eqn.op->op_class == OpClass::kConstraint) {
        forms_[eqn.outputs[0]] = {form(eqn.inputs[0], placement_of(eqn.outputs[0]))};
      } else if (eqn.op->name == "relax_axes") {
        forms_[eqn.outputs[0]] = forms_.at(eqn.inputs[0]);  // Types say nothing any more here.
      } else if (eqn.op->op_class == OpClass::kBoundary) {
        cross_boundary(eqn);
      } else if (eqn.op->op_class == OpClass::kEffect) {
        keep_effect(eqn);
      } else if (!pass_partial(eqn)) {
        partition_compute(eqn);
      }
    }
    for (ValueId id : old_.outputs) new_.outputs.push_back(form(id, placement_of(id)));
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

  ValueId add_global(Type type, const Shape& global, const Placement& placement, AtomSet varying) {
    type.shape = local_shape(grid_, global, placement);
    type.varying = {};
    type.explicit_axes = {};
    const ValueId id = new_.add_value(std::move(type));
    new_.value(id).global = GlobalShape{global, placement};
    new_.value(id).varying = varying | uneven_atoms(global, placement);
    return id;
  }

  AtomSet joint_varying(const std::vector<ValueId>& ids) const {
    AtomSet atoms;
    for (ValueId id : ids) atoms = atoms | new_.value(id).varying;
    return atoms;
  }

  const GlobalShape& global_of(ValueId id) const { return *new_.value(id).global; }

  void add_eqn(const OpDef& op, Attrs attrs, std::vector<ValueId> inputs, std::vector<ValueId> outputs) {
    new_.eqns.push_back({.op = &op,
                         .attrs = std::move(attrs),
                         .inputs = std::move(inputs),
                         .outputs = std::move(outputs),
                         .where = where_});
  }

  // ---- Forms: the same value under several placements. Each is made when first needed.

  double cost_of(ValueId have, const Placement& want) const {
    const GlobalShape& global = global_of(have);
    if (global.placement == want) return 0;
    return plan_reshard(grid_, global.shape, size_of(new_.type(have).dtype), global.placement, want).bytes;
  }

  // The form of an old value that `want` is cheapest to make from.
  ValueId nearest(ValueId old_id, const Placement& want) const {
    const std::vector<ValueId>& forms = forms_.at(old_id);
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

  ValueId form(ValueId old_id, const Placement& want) {
    const ValueId from = nearest(old_id, want);
    if (global_of(from).placement == want) return from;
    const ValueId made = reshard(from, want);
    forms_[old_id].push_back(made);
    return made;
  }

  ValueId reshard(ValueId from, const Placement& want) {
    const GlobalShape global = global_of(from);
    const ReshardPlan plan = plan_reshard(grid_, global.shape, size_of(new_.type(from).dtype), global.placement, want);
    for (const ReshardStep& step : plan.steps) from = emit(step, from);
    return from;
  }

  // The first device along the atoms keeps its shard as a summand; those of the others are zeros.
  ValueId make_partial(const ReshardStep& step, ValueId from) {
    const AtomSet atoms(step.atoms);
    const Type local = new_.type(from);
    const GlobalShape global = global_of(from);
    const auto scalar = [&](Dtype dtype, AtomSet varying, std::string_view op, Attrs attrs,
                            std::vector<ValueId> inputs) {
      const ValueId made = add_global({.dtype = dtype, .shape = {}, .weak = false, .memory = {}, .varying = {}}, {},
                                      Placement::replicated(0), varying);
      new_.value(made).manual = varying;  // No sharding says how it differs.
      add_eqn(op_named(op), std::move(attrs), std::move(inputs), {made});
      return made;
    };
    const auto zero = [&](Dtype dtype) {
      return scalar(dtype, {}, "full", {{"shape", Dims{}}, {"value", Scalar::of(0).converted_to(dtype)}}, {});
    };
    const ValueId place = scalar(int32, atoms, "axis_index", {{"axes", grid_.axis_refs(step.atoms)}}, {});
    const ValueId is_first = scalar(bool_, atoms, "equal", {}, {place, zero(int32)});
    const ValueId made = add_global(local, global.shape, step.result, new_.value(from).varying | atoms);
    new_.value(made).manual = new_.value(from).manual;
    add_eqn(op_named("select"), {}, {is_first, from, zero(local.dtype)}, {made});
    return made;
  }

  ValueId emit(const ReshardStep& step, ValueId from) {
    using Kind = ReshardStep::Kind;
    if (step.kind == Kind::kMakePartial) return make_partial(step, from);
    const GlobalShape global = global_of(from);
    const AtomSet varying = new_.value(from).varying;
    const AtomSet atoms(step.atoms);
    const auto dim = static_cast<std::int64_t>(step.dim);
    Attrs attrs{{"axes", grid_.axis_refs(step.atoms)}};
    std::string_view op;
    AtomSet result;
    switch (step.kind) {
      case Kind::kAllReduce:
        op = "all_reduce";
        attrs.set("kind", std::string(name_of(global.placement.kind)));
        result = varying - atoms;
        break;
      case Kind::kReduceScatter:
        op = "reduce_scatter";
        attrs.set("kind", std::string(name_of(global.placement.kind)));
        attrs.set("dim", dim);
        result = varying | atoms;
        break;
      case Kind::kAllGather:
        op = "all_gather";
        attrs.set("dim", dim);
        result = varying - atoms;
        break;
      case Kind::kSlice:
        op = "shard_slice";
        attrs.set("dim", dim);
        result = varying | atoms;
        break;
      case Kind::kAllToAll:
        op = "all_to_all";
        attrs.set("split_dim", dim);
        attrs.set("concat_dim", static_cast<std::int64_t>(step.from_dim));
        result = varying | atoms;
        break;
      case Kind::kPermute: {
        op = "collective_permute";
        const std::vector<std::int64_t> sources = permutation_sources(grid_, global.placement, step.result, step.atoms);
        Dims targets;
        for (std::size_t i = 0; i < sources.size(); ++i) targets.push_back(static_cast<std::int64_t>(i));
        attrs.set("sources", Dims(sources.begin(), sources.end()));
        attrs.set("targets", std::move(targets));
        result = (varying - global.placement.varying()) | step.result.varying();
        break;
      }
      case Kind::kMakePartial:
        break;
    }
    const ValueId made = add_global(new_.type(from), global.shape, step.result, result);
    new_.value(made).manual = new_.value(from).manual;
    note_uneven_size(attrs, step, from, made);
    add_eqn(op_named(op), std::move(attrs), {from}, {made});
    return made;
  }

  // Where shards differ in extent, the extent of the joined dimension does not follow from that of one shard.
  void note_uneven_size(Attrs& attrs, const ReshardStep& step, ValueId from, ValueId made) const {
    std::size_t joined = 0;
    if (step.kind == ReshardStep::Kind::kAllGather) {
      joined = step.dim;
    } else if (step.kind == ReshardStep::Kind::kAllToAll) {
      joined = step.from_dim;
    } else {
      return;
    }
    const std::int64_t size = new_.type(made).shape[joined];
    if (new_.type(from).shape[joined] * grid_.size_of(step.atoms) != size) attrs.set("size", size);
  }

  // ---- Compute ops.

  // Leaves a linear op's result partial where its operands are, if that neither enlarges what is reduced later nor has
  // it reduced twice.
  bool pass_partial(const Eqn& eqn) {
    const PartialRule rule_kind = eqn.op->partial;
    if (rule_kind == PartialRule::kNever || eqn.inputs.empty()) return false;
    const ValueId first = forms_.at(eqn.inputs[0]).front();
    const Placement& partial = global_of(first).placement;
    if (partial.partial.empty()) return false;
    if (rule_kind != PartialRule::kAnyKind && partial.kind != ReduceKind::kSum) return false;
    if (rule_kind == PartialRule::kSumJoint) {
      for (ValueId id : eqn.inputs) {
        if (!(global_of(forms_.at(id).front()).placement == partial)) return false;
      }
    } else if (eqn.inputs.size() != 1) {
      return false;
    }
    for (ValueId id : eqn.inputs) {
      if (uses_[static_cast<std::size_t>(id)] > 1) return false;
    }
    const ValueId out = eqn.outputs[0];
    if (elements_of(old_.type(out).shape) > elements_of(old_.type(eqn.inputs[0]).shape)) return false;
    const RuledEqn ruled = to_run(eqn);
    const ShardingRule& rule = ruled.rule;
    if (!rule_keeps(rule, partial)) return false;
    std::vector<ValueId> operands;
    for (ValueId id : eqn.inputs) operands.push_back(forms_.at(id).front());
    const FactorAxes axes = project(grid_, rule, rule.operands[0], partial.dims);
    Placement result{.dims = dims_of(rule.results[0], axes), .partial = partial.partial, .kind = partial.kind};
    result.partial = (AtomSet(result.partial) | AtomSet(reduced_atoms(rule, axes))).sorted();
    emit_compute(ruled, axes, operands, {result});
    return true;
  }

  // Whether the op can run on operands placed like this without moving them.
  bool rule_keeps(const ShardingRule& rule, const Placement& placement) const {
    const FactorAxes wanted = project(grid_, rule, rule.operands[0], placement.dims);
    FactorAxes axes(rule.factors.size());
    extend(grid_, rule, axes, wanted);
    if (dims_of(rule.operands[0], axes) != placement.dims) return false;
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

  double cost_of(const RuledEqn& ruled, const FactorAxes& axes) const {
    const Eqn& eqn = ruled.eqn;
    double bytes = exchanged_bytes(grid_, ruled, axes);
    for (std::size_t i = 0; i < eqn.inputs.size(); ++i) {
      const Placement want = ruled.operand_placement(i, axes);
      bytes += cost_of(nearest(eqn.inputs[i], want), want);
    }
    for (std::size_t i = 0; i < eqn.outputs.size(); ++i) {
      const Type& type = ruled.outputs[i];
      bytes += plan_reshard(grid_, type.shape, size_of(type.dtype), ruled.result_placement(i, axes),
                            placement_of(eqn.outputs[i]))
                   .bytes;
    }
    return bytes;
  }

  // What a wish becomes when axes of dimensions that must be whole go to ones that shards compute alone, the longest
  // first: exchanging parts and working on them costs less than gathering everything everywhere.
  FactorAxes diverted(const ShardingRule& rule, const FactorAxes& wish) const {
    FactorAxes axes = wish;
    const auto left = [&](std::size_t f) { return rule.factors[f].size / grid_.size_of(axes[f]); };
    for (std::size_t whole = 0; whole < wish.size(); ++whole) {
      if (rule.factors[whole].kind != FactorKind::kNeedReplication) continue;
      axes[whole].clear();
      for (Atom atom : wish[whole]) {
        std::optional<std::size_t> best;
        for (std::size_t f = 0; f < wish.size(); ++f) {
          if (rule.factors[f].kind != FactorKind::kPassThrough) continue;
          if (left(f) == 0 || rule.factors[f].size % (grid_.size_of(axes[f]) * grid_.atom_size(atom)) != 0) continue;
          if (!best || left(f) > left(*best)) best = f;
        }
        if (best) axes[*best].push_back(atom);
      }
    }
    return axes;
  }

  // Every operand and result in turn has its way first and the others fill in. The cheapest wins; then the one that
  // splits the work most.
  FactorAxes choose_axes(const RuledEqn& ruled) const {
    const Eqn& eqn = ruled.eqn;
    const ShardingRule& rule = ruled.rule;
    std::vector<FactorAxes> wishes;
    for (std::size_t i = 0; i < eqn.outputs.size(); ++i) {
      add_wish(wishes, project(grid_, rule, rule.results[i], placement_of(eqn.outputs[i]).dims));
    }
    for (std::size_t i = 0; i < eqn.inputs.size(); ++i) {
      const Placement& lies = global_of(forms_.at(eqn.inputs[i]).back()).placement;
      add_wish(wishes, project(grid_, rule, rule.operands[i], lies.dims));
    }
    for (std::size_t i = 0, count = wishes.size(); i < count; ++i) {
      add_wish(wishes, diverted(rule, wishes[i]));
    }
    FactorAxes best(rule.factors.size());
    double best_bytes = cost_of(ruled, best);
    std::int64_t best_split = 1;
    for (std::size_t first = 0; first < wishes.size(); ++first) {
      FactorAxes axes(rule.factors.size());
      for (std::size_t k = 0; k < wishes.size(); ++k) {
        if (!extend(grid_, rule, axes, wishes[(first + k) % wishes.size()])) continue;
        const double bytes = cost_of(ruled, axes);
        std::int64_t split = 1;
        for (const Atoms& atoms : axes) split *= grid_.size_of(atoms);
        if (bytes > best_bytes || (bytes == best_bytes && split <= best_split)) continue;
        best = axes;
        best_bytes = bytes;
        best_split = split;
      }
    }
    return best;
  }

  void partition_compute(const Eqn& eqn) {
    const RuledEqn ruled = to_run(eqn);
    const FactorAxes axes = choose_axes(ruled);
    std::vector<ValueId> operands;
    for (std::size_t i = 0; i < eqn.inputs.size(); ++i) {
      operands.push_back(form(eqn.inputs[i], ruled.operand_placement(i, axes)));
    }
    std::vector<Placement> results;
    for (std::size_t i = 0; i < eqn.outputs.size(); ++i) results.push_back(ruled.result_placement(i, axes));
    emit_compute(ruled, axes, std::move(operands), results);
  }

  // ---- Rearranged dimensions: shards exchange elements first, so that the op need not touch the dimension any more.

  // ---- Cumulative dimensions: what the shards before have comes in after each has computed its own part.

  // `own` combined with the totals of the shards of `operand` before it along `dim`.
  ValueId complete_cumulative(const RuledEqn& ruled, std::size_t dim, const Atoms& atoms, ValueId operand,
                              ValueId own) {
    const ReduceKind reduction = ruled.rule.reduction;
    const std::string kind(name_of(reduction));
    const GlobalShape whole = global_of(own);
    const Type local = new_.type(own);
    // The total of each shard: partial over the atoms, and then, as one element of a dimension, split by them.
    GlobalShape total = whole;
    total.shape.erase(total.shape.begin() + static_cast<std::ptrdiff_t>(dim));
    total.placement.dims.erase(total.placement.dims.begin() + static_cast<std::ptrdiff_t>(dim));
    total.placement.partial = AtomSet(atoms).sorted();
    total.placement.kind = reduction;
    const AtomSet varying = new_.value(operand).varying | AtomSet(atoms);
    const auto add = [&](const Shape& shape, const Placement& placement, std::string_view op, Attrs attrs,
                         std::vector<ValueId> inputs) {
      const ValueId made = add_global(local, shape, placement, varying);
      new_.value(made).manual = new_.value(own).manual;
      add_eqn(op_named(op), std::move(attrs), std::move(inputs), {made});
      return made;
    };
    Dims all_dims;
    for (std::size_t d = 0; d < local.rank(); ++d) all_dims.push_back(static_cast<std::int64_t>(d));
    const auto as_dim = static_cast<std::int64_t>(dim);
    const ValueId reduced = add(total.shape, total.placement, "reduce_" + kind, {{"axes", Dims{as_dim}}}, {operand});
    Shape lines = whole.shape;
    lines[dim] = grid_.size_of(atoms);
    const Shape one_line = local_shape(grid_, lines, whole.placement);
    const ValueId line = add(lines, whole.placement, "reshape", {{"shape", one_line}}, {reduced});
    const ValueId before = add(
        lines, whole.placement, "exclusive_scan",
        {{"axes", grid_.axis_refs(atoms)}, {"kind", kind}, {"reverse", ruled.eqn.attrs.get<bool>("reverse")}}, {line});
    const ValueId spread = add(whole.shape, whole.placement, "broadcast_in_dim",
                               {{"shape", local.shape}, {"dims", std::move(all_dims)}}, {before});
    return add(whole.shape, whole.placement, elementwise_of(reduction), {}, {spread, own});
  }

  static std::string_view elementwise_of(ReduceKind kind) {
    switch (kind) {
      case ReduceKind::kSum:
        return "add";
      case ReduceKind::kProd:
        return "multiply";
      case ReduceKind::kMax:
        return "maximum";
      case ReduceKind::kMin:
        return "minimum";
      case ReduceKind::kAnd:
        return "bitwise_and";
      case ReduceKind::kOr:
        return "bitwise_or";
    }
    return {};
  }

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
    return left;
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
    add_eqn(op_named("rearrange"),
            {{"axes", grid_.axis_refs(atoms)},
             {"dim", static_cast<std::int64_t>(dim)},
             {"extents", std::move(extents)},
             {"size", shape[dim]},
             {"runs", to_dims(moved.runs)},
             {"fills", moved.fill.has_value()}},
            std::move(moving), {made});
    left.is_done = !moved.rest;
    if (moved.rest) left.attrs = std::move(*moved.rest);
    // The operands that moved are one now; it takes the place of the first.
    left.inputs[moved.operands[0]].shape = shape;
    left.operands[moved.operands[0]] = made;
    if (left.is_done) left.operands = {made};
  }

  // ----

  void emit_compute(const RuledEqn& ruled, const FactorAxes& axes, std::vector<ValueId> given,
                    const std::vector<Placement>& results) {
    const Eqn& eqn = ruled.eqn;
    const Remainder left = rearranged(ruled, axes, std::move(given));
    const std::vector<ValueId>& operands = left.operands;
    if (left.is_done) {
      forms_[eqn.outputs[0]] = {operands[0]};
      return;
    }
    if (eqn.op->expand != nullptr) {
      expand(eqn, operands, results);
      return;
    }
    std::vector<ValueId> outputs;
    AtomSet varying = joint_varying(operands);
    if (eqn.op->op_class == OpClass::kCollective) {
      varying = varying_after(eqn, varying, AtomSet(grid_.atoms_of(eqn.attrs.get<std::vector<std::string>>("axes"))));
    }
    if (eqn.op->sees_start) {
      for (ValueId id : operands) varying = varying | global_of(id).placement.sharded();
      for (const Placement& result : results) varying = varying | result.sharded();
    }
    Attrs attrs = left.attrs;
    const ValueId out = eqn.outputs[0];
    const Type& type = old_.type(out);
    const bool widened = !results[0].partial.empty() && is_small_float(type.dtype) && eqn.op->elementwise == nullptr &&
                         eqn.op->partial != PartialRule::kAnyKind;
    for (std::size_t i = 0; i < eqn.outputs.size(); ++i) {
      Type result_type = old_.type(eqn.outputs[i]);
      if (widened) result_type.dtype = float32;
      outputs.push_back(add_global(std::move(result_type), old_.type(eqn.outputs[i]).shape, results[i], varying));
      new_.value(outputs.back()).manual = old_.value(eqn.outputs[i]).manual;
    }
    if (eqn.op->localize != nullptr) {
      const std::vector<Type> local_inputs = new_.types(operands);
      const std::vector<Type> local_outputs = new_.types(outputs);
      attrs = eqn.op->localize(
          {.attrs = left.attrs, .inputs = left.inputs, .local_inputs = local_inputs, .local_outputs = local_outputs});
    }
    if (widened) attrs.set("dtype", float32);
    add_eqn(*eqn.op, std::move(attrs), operands, outputs);
    for (const auto& [dim, atoms] : ruled.split_dims(FactorKind::kCumulative, axes)) {
      outputs[0] = complete_cumulative(ruled, dim, atoms, operands[0], outputs[0]);
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) forms_[eqn.outputs[i]] = {outputs[i]};
    if (widened) narrow(out, type);
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
    Graph region;
    region.grid = new_.grid;
    for (ValueId id : operands) {
      Value& input = region.value(region.add_input(new_.type(id)));
      input.manual = all;
      input.varying = new_.value(id).varying;
    }
    region.outputs = append_body(region, *body, grid_.mesh(), all, region.inputs);
    const Graph steps = partition(propagate(std::move(region), std::vector<std::optional<Placement>>(operands.size())));
    // At its boundary nothing moves: the same shards are seen as those of other values.
    const auto cross = [&](ValueId from, Value to) {
      new_.values.push_back(std::move(to));
      const auto crossed = static_cast<ValueId>(new_.values.size() - 1);
      add_eqn(op_named("pvary"), {{"axes", std::vector<std::string>{}}}, {from}, {crossed});
      return crossed;
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
      result.global = GlobalShape{old_.type(eqn.outputs[i]).shape, results[i]};
      result.placement.reset();
      forms_[eqn.outputs[i]] = {cross(made, std::move(result))};
    }
  }

  // Completes a partial result that was kept in f32, and rounds it.
  void narrow(ValueId old_id, const Type& type) {
    const ValueId whole = reshard(forms_.at(old_id).front(), placement_of(old_id));
    const ValueId rounded = add_global(type, type.shape, placement_of(old_id), new_.value(whole).varying);
    new_.value(rounded).manual = new_.value(whole).manual;
    add_eqn(op_named("convert"), {{"dtype", type.dtype}}, {whole}, {rounded});
    forms_[old_id] = {rounded};
  }

  // What the user looks at lies as propagation chose; looking moves nothing. Placements are known by now.
  void keep_effect(const Eqn& eqn) {
    if (eqn.op->name == "inspect_sharding") return;
    std::vector<ValueId> operands;
    for (ValueId id : eqn.inputs) operands.push_back(form(id, placement_of(id)));
    add_eqn(*eqn.op, eqn.attrs, std::move(operands), {});
  }

  // ---- Manual regions.

  // At a boundary nothing moves: the same shards are seen as those of another value. Where the spec of a result says
  // that devices hold the same, the first one's data stands for all.
  void cross_boundary(const Eqn& eqn) {
    const RuledEqn ruled = to_run(eqn);
    const ShardingRule& rule = ruled.rule;
    const bool enters = eqn.op->name == "enter_manual";
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
    add_eqn(op_named("pvary"), {{"axes", std::vector<std::string>{}}}, {from}, {crossed});
    forms_[out] = {crossed};
  }

  // Over which atoms devices hold different data after a collective of a manual region. It may be fewer than its type
  // says: what all_gather gives is the same on every device.
  static AtomSet varying_after(const Eqn& eqn, AtomSet before, AtomSet atoms) {
    const std::string_view name = eqn.op->name;
    if (name == "pvary") return before;
    const bool same_in_group = name == "all_reduce" || name == "all_gather" || name == "pbroadcast";
    return same_in_group && !eqn.attrs.contains("groups") ? before - atoms : before | atoms;
  }

  const Graph& old_;
  const Grid& grid_;
  std::vector<int> uses_;
  Graph new_;
  std::map<ValueId, std::vector<ValueId>> forms_;
  SourceLocation where_;
};

}  // namespace

Graph partition(const Graph& graph) { return Partitioner(graph).run(); }

}  // namespace shoal
