#include "spmd/partition.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"
#include "ops/table.h"
#include "spmd/cost.h"
#include "spmd/factors.h"
#include "spmd/reshard.h"

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
    const ShardingRule rule = rule_of(eqn);
    if (!rule_keeps(rule, partial)) return false;
    std::vector<ValueId> operands;
    for (ValueId id : eqn.inputs) operands.push_back(forms_.at(id).front());
    const FactorAxes axes = project(grid_, rule, rule.operands[0], partial.dims);
    Placement result{.dims = dims_of(rule.results[0], axes), .partial = partial.partial, .kind = partial.kind};
    result.partial = (AtomSet(result.partial) | AtomSet(reduced_atoms(rule, axes))).sorted();
    emit_compute(eqn, rule, axes, operands, {result});
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

  ShardingRule rule_of(const Eqn& eqn) const {
    const std::vector<Type> inputs = old_.types(eqn.inputs);
    const std::vector<Type> outputs = old_.types(eqn.outputs);
    return eqn.op->rule({.op = *eqn.op, .inputs = inputs, .outputs = outputs, .attrs = eqn.attrs});
  }

  // What the type of an operand leaves unreduced stays so.
  Placement operand_placement(const Eqn& eqn, const ShardingRule& rule, std::size_t i, const FactorAxes& axes) const {
    return {.dims = dims_of(rule.operands[i], axes), .partial = placement_of(eqn.inputs[i]).partial};
  }

  Placement result_placement(const Eqn& eqn, const ShardingRule& rule, std::size_t i, const FactorAxes& axes) const {
    AtomSet partial(reduced_atoms(rule, axes));
    if (!eqn.inputs.empty()) partial = partial | AtomSet(placement_of(eqn.inputs[0]).partial);
    return {.dims = dims_of(rule.results[i], axes), .partial = partial.sorted(), .kind = rule.reduction};
  }

  double cost_of(const Eqn& eqn, const ShardingRule& rule, const FactorAxes& axes) const {
    double bytes = rearranged_bytes(eqn, rule, axes) + cumulative_bytes(eqn, rule, axes);
    for (std::size_t i = 0; i < eqn.inputs.size(); ++i) {
      const Placement want = operand_placement(eqn, rule, i, axes);
      bytes += cost_of(nearest(eqn.inputs[i], want), want);
    }
    for (std::size_t i = 0; i < eqn.outputs.size(); ++i) {
      const Type& type = old_.type(eqn.outputs[i]);
      bytes += plan_reshard(grid_, type.shape, size_of(type.dtype), result_placement(eqn, rule, i, axes),
                            placement_of(eqn.outputs[i]))
                   .bytes;
    }
    return bytes;
  }

  // Every operand and result in turn has its way first and the others fill in. The cheapest wins; then the one that
  // splits the work most.
  FactorAxes choose_axes(const Eqn& eqn, const ShardingRule& rule) const {
    std::vector<FactorAxes> wishes;
    for (std::size_t i = 0; i < eqn.outputs.size(); ++i) {
      wishes.push_back(project(grid_, rule, rule.results[i], placement_of(eqn.outputs[i]).dims));
    }
    for (std::size_t i = 0; i < eqn.inputs.size(); ++i) {
      const Placement& lies = global_of(forms_.at(eqn.inputs[i]).back()).placement;
      wishes.push_back(project(grid_, rule, rule.operands[i], lies.dims));
    }
    FactorAxes best(rule.factors.size());
    double best_bytes = cost_of(eqn, rule, best);
    std::int64_t best_split = 1;
    for (std::size_t first = 0; first < wishes.size(); ++first) {
      FactorAxes axes(rule.factors.size());
      for (std::size_t k = 0; k < wishes.size(); ++k) {
        if (!extend(grid_, rule, axes, wishes[(first + k) % wishes.size()])) continue;
        const double bytes = cost_of(eqn, rule, axes);
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
    const ShardingRule rule = rule_of(eqn);
    const FactorAxes axes = choose_axes(eqn, rule);
    std::vector<ValueId> operands;
    for (std::size_t i = 0; i < eqn.inputs.size(); ++i) {
      operands.push_back(form(eqn.inputs[i], operand_placement(eqn, rule, i, axes)));
    }
    std::vector<Placement> results;
    for (std::size_t i = 0; i < eqn.outputs.size(); ++i) results.push_back(result_placement(eqn, rule, i, axes));
    emit_compute(eqn, rule, axes, std::move(operands), results);
  }

  // ---- Rearranged dimensions: shards exchange elements first, so that the op need not touch the dimension any more.

  // The dimensions along which elements change places and that are split, with the atoms that split them.
  static std::vector<std::pair<std::size_t, Atoms>> rearranged_dims(const ShardingRule& rule, const FactorAxes& axes) {
    return dims_of_kind(FactorKind::kRearranged, rule, axes);
  }

  static std::vector<std::pair<std::size_t, Atoms>> dims_of_kind(FactorKind kind, const ShardingRule& rule,
                                                                 const FactorAxes& axes) {
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

  // What an exchange along a dimension would have each device receive, on average.
  double rearranged_bytes(const Eqn& eqn, const ShardingRule& rule, const FactorAxes& axes) const {
    double bytes = 0;
    for (const auto& [dim, atoms] : rearranged_dims(rule, axes)) {
      const std::vector<Type> inputs = old_.types(eqn.inputs);
      const std::vector<Type> outputs = old_.types(eqn.outputs);
      const Rearrangement moved =
          eqn.op->rearrange({.op = *eqn.op, .inputs = inputs, .outputs = outputs, .attrs = eqn.attrs}, dim);
      Dims extents;
      for (std::size_t i : moved.operands) extents.push_back(inputs[i].shape[dim]);
      const double share = received_share(grid_, atoms, moved.runs, extents, outputs[0].shape[dim]);
      bytes += share * elements_of(local_shape(grid_, outputs[0].shape, result_placement(eqn, rule, 0, axes))) *
               static_cast<double>(size_of(outputs[0].dtype));
    }
    return bytes;
  }

  // ---- Cumulative dimensions: what the shards before have comes in after each has computed its own part.

  static std::vector<std::pair<std::size_t, Atoms>> cumulative_dims(const ShardingRule& rule, const FactorAxes& axes) {
    return dims_of_kind(FactorKind::kCumulative, rule, axes);
  }

  // The totals that are sent around.
  double cumulative_bytes(const Eqn& eqn, const ShardingRule& rule, const FactorAxes& axes) const {
    double bytes = 0;
    for (const auto& [dim, atoms] : cumulative_dims(rule, axes)) {
      const Type& type = old_.type(eqn.outputs[0]);
      Shape line = type.shape;
      line[dim] = 1;
      bytes +=
          elements_of(line) * static_cast<double>(size_of(type.dtype)) * static_cast<double>(grid_.size_of(atoms) - 1);
    }
    return bytes;
  }

  // `own` combined with the totals of the shards of `operand` before it along `dim`.
  ValueId complete_cumulative(const Eqn& eqn, const ShardingRule& rule, std::size_t dim, const Atoms& atoms,
                              ValueId operand, ValueId own) {
    const std::string kind(name_of(rule.reduction));
    const GlobalShape whole = global_of(own);
    const Type local = new_.type(own);
    // The total of each shard: partial over the atoms, and then, as one element of a dimension, split by them.
    GlobalShape total = whole;
    total.shape.erase(total.shape.begin() + static_cast<std::ptrdiff_t>(dim));
    total.placement.dims.erase(total.placement.dims.begin() + static_cast<std::ptrdiff_t>(dim));
    total.placement.partial = AtomSet(atoms).sorted();
    total.placement.kind = rule.reduction;
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
    const ValueId before =
        add(lines, whole.placement, "exclusive_scan",
            {{"axes", grid_.axis_refs(atoms)}, {"kind", kind}, {"reverse", eqn.attrs.get<bool>("reverse")}}, {line});
    const ValueId spread = add(whole.shape, whole.placement, "broadcast_in_dim",
                               {{"shape", local.shape}, {"dims", std::move(all_dims)}}, {before});
    return add(whole.shape, whole.placement, elementwise_of(rule.reduction), {}, {spread, own});
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

  Remainder rearranged(const Eqn& eqn, const ShardingRule& rule, const FactorAxes& axes,
                       std::vector<ValueId> operands) {
    Remainder left{.attrs = eqn.attrs, .inputs = old_.types(eqn.inputs), .operands = std::move(operands)};
    for (const auto& [dim, atoms] : rearranged_dims(rule, axes)) {
      rearrange(*eqn.op, old_.types(eqn.outputs), dim, atoms, left);
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

  void emit_compute(const Eqn& eqn, const ShardingRule& rule, const FactorAxes& axes, std::vector<ValueId> given,
                    const std::vector<Placement>& results) {
    const Remainder left = rearranged(eqn, rule, axes, std::move(given));
    const std::vector<ValueId>& operands = left.operands;
    if (left.is_done) {
      forms_[eqn.outputs[0]] = {operands[0]};
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
    for (const auto& [dim, atoms] : cumulative_dims(rule, axes)) {
      outputs[0] = complete_cumulative(eqn, rule, dim, atoms, operands[0], outputs[0]);
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) forms_[eqn.outputs[i]] = {outputs[i]};
    if (widened) narrow(out, type);
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
    const ShardingRule rule = rule_of(eqn);
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
    const ValueId from = form(eqn.inputs[0], operand_placement(eqn, rule, 0, axes));
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
