// Collectives: data movement between the shards of a group of devices.
//
// In a traced manual region `axes` names mesh axes and the types are those of jax.lax; in a partitioned graph it may
// name sub-axes, and `size` gives the whole extent of a dimension whose shards are not all equal. `groups` of a traced
// one cut the devices along the axes into groups that keep to themselves. The executor moves the data
// (comm/collectives), so these records have no kernels.
#include "ops/collective.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/misuse.h"
#include "ir/rearrangement.h"
#include "ops/batching.h"
#include "ops/builder.h"
#include "ops/derivatives.h"
#include "ops/index_groups.h"
#include "ops/rules.h"
#include "ops/table.h"

namespace shoal {
namespace {

const std::vector<std::string>& axes_of(const InferContext& context) {
  return context.attrs.get<std::vector<std::string>>("axes");
}

// The number of devices along the axes.
std::int64_t group_size(const InferContext& context) {
  const Caller caller(context.op.name, context.where);
  return devices_along(context.axes, axes_of(context));
}

// The number of devices that communicate with each other: those along the axes, or one of `groups`.
std::int64_t team_size(const InferContext& context) {
  const std::int64_t size = group_size(context);
  const std::vector<Dims> groups = index_groups(context.attrs);
  if (groups.empty()) return size;
  const Caller caller(context.op.name, context.where);
  check_index_groups(groups, axes_of(context), size, context.op.name != "all_reduce");
  return static_cast<std::int64_t>(groups[0].size());
}

AxisNames sorted_axes(const InferContext& context) {
  AxisNames axes = axes_of(context);
  std::sort(axes.begin(), axes.end());
  return axes;
}

std::size_t dim_of(const InferContext& context, std::string_view name) {
  const std::int64_t dim = context.attrs.get<std::int64_t>(name);
  const Type& in = context.inputs[0];
  if (dim < 0 || static_cast<std::size_t>(dim) >= in.rank()) {
    infer_error(context,
                fmt::format("{} is {}, but operand {} has {} dimensions", name, dim, to_string(in), in.rank()));
  }
  return static_cast<std::size_t>(dim);
}

std::int64_t split(std::int64_t extent, std::int64_t group) { return (extent + group - 1) / group; }

std::int64_t joined(const InferContext& context, std::int64_t extent, std::int64_t group) {
  const auto* size = context.attrs.find_as<std::int64_t>("size");
  return size != nullptr ? *size : extent_product(context, extent, group);
}

std::vector<Type> infer_axis_index(const InferContext& context) {
  group_size(context);
  return {{.dtype = int32, .shape = {}, .weak = false, .memory = {}, .varying = sorted_axes(context)}};
}

std::vector<Type> infer_all_reduce(const InferContext& context) {
  team_size(context);
  const ReduceKind kind = parse_reduce_kind(context.attrs.get<std::string>("kind"));
  Type type = context.inputs[0];
  if (kind != ReduceKind::kSum && kind != ReduceKind::kProd) check_ordered(context, type);
  type.varying = context.attrs.contains("groups") ? union_of(type.varying, sorted_axes(context))
                                                  : difference_of(type.varying, sorted_axes(context));
  return {std::move(type)};
}

std::vector<Type> infer_all_gather(const InferContext& context) {
  Type type = context.inputs[0];
  const std::size_t dim = dim_of(context, "dim");
  type.shape[dim] = joined(context, type.shape[dim], team_size(context));
  const bool invariant = context.attrs.contains("invariant");
  if (invariant && context.attrs.contains("groups")) infer_error(context, "what groups gather differs between them");
  type.varying =
      invariant ? difference_of(type.varying, sorted_axes(context)) : union_of(type.varying, sorted_axes(context));
  return {std::move(type)};
}

std::vector<Type> infer_piece(const InferContext& context) {
  Type type = context.inputs[0];
  const std::size_t dim = dim_of(context, "dim");
  type.shape[dim] = split(type.shape[dim], team_size(context));
  type.varying = union_of(type.varying, sorted_axes(context));
  return {std::move(type)};
}

std::vector<Type> infer_all_to_all(const InferContext& context) {
  Type type = context.inputs[0];
  const std::size_t split_dim = dim_of(context, "split_dim");
  const std::size_t concat_dim = dim_of(context, "concat_dim");
  const std::int64_t group = team_size(context);
  type.shape[split_dim] = split(type.shape[split_dim], group);
  type.shape[concat_dim] = joined(context, type.shape[concat_dim], group);
  type.varying = union_of(type.varying, sorted_axes(context));
  return {std::move(type)};
}

std::vector<Type> infer_permute(const InferContext& context) {
  const std::int64_t group = group_size(context);
  const Dims& sources = context.attrs.get<Dims>("sources");
  const Dims& targets = context.attrs.get<Dims>("targets");
  if (sources.size() != targets.size()) infer_error(context, "there must be one target for each source");
  for (const Dims* list : {&sources, &targets}) {
    Dims seen = *list;
    std::sort(seen.begin(), seen.end());
    if (std::adjacent_find(seen.begin(), seen.end()) != seen.end()) {
      infer_error(context, fmt::format("sources {} and targets {} must each be distinct", to_string(sources),
                                       to_string(targets)));
    }
    if (!seen.empty() && (seen.front() < 0 || seen.back() >= group)) {
      infer_error(context,
                  fmt::format("sources {} and targets {} must lie in 0..{}, the positions along ({})",
                              to_string(sources), to_string(targets), group - 1, fmt::join(axes_of(context), ", ")));
    }
  }
  Type type = context.inputs[0];
  type.varying = union_of(type.varying, sorted_axes(context));
  return {std::move(type)};
}

std::vector<Type> infer_exclusive_scan(const InferContext& context) {
  std::vector<Type> results = infer_all_reduce(context);
  results[0].varying = union_of(context.inputs[0].varying, sorted_axes(context));
  return results;
}

std::vector<Type> infer_rearrange(const InferContext& context) {
  const std::size_t dim = dim_of(context, "dim");
  Type type = like_operands(context, context.inputs[0].shape);
  type.shape[dim] = split(context.attrs.get<std::int64_t>("size"), group_size(context));
  type.varying = union_of(type.varying, sorted_axes(context));
  return {std::move(type)};
}

std::vector<Type> infer_pvary(const InferContext& context) {
  group_size(context);
  Type type = context.inputs[0];
  type.varying = union_of(type.varying, sorted_axes(context));
  return {std::move(type)};
}

std::vector<Type> infer_broadcast(const InferContext& context) {
  const std::int64_t group = group_size(context);
  const std::int64_t source = context.attrs.get<std::int64_t>("source");
  if (source < 0 || source >= group) {
    infer_error(context, fmt::format("source is {}, but must lie in 0..{}", source, group - 1));
  }
  Type type = context.inputs[0];
  type.varying = difference_of(type.varying, sorted_axes(context));
  return {std::move(type)};
}

std::vector<Type> infer_ragged(const InferContext& context) {
  const std::int64_t group = team_size(context);
  const Type& operand = context.inputs[0];
  const Type& output = context.inputs[1];
  const bool fits = operand.rank() > 0 && output.rank() == operand.rank() && output.dtype == operand.dtype &&
                    std::equal(operand.shape.begin() + 1, operand.shape.end(), output.shape.begin() + 1);
  if (!fits) {
    infer_error(context,
                fmt::format("the operand {} and the output {} must have one dtype, and equal dimensions but for "
                            "the first",
                            to_string(operand), to_string(output)));
  }
  for (std::size_t i = 2; i < context.inputs.size(); ++i) {
    const Type& type = context.inputs[i];
    if (type.dtype == int32 && type.rank() == 1 && type.shape == context.inputs[2].shape) continue;
    infer_error(context, fmt::format("offsets and sizes must be vectors of int32 of one length, but operand {} is {}",
                                     i, to_string(type)));
  }
  if (context.inputs[2].shape[0] == 0 || context.inputs[2].shape[0] % group != 0) {
    infer_error(context,
                fmt::format("there are {} slices, which {} devices cannot share", context.inputs[2].shape[0], group));
  }
  Type type = output;
  type.memory = common_memory(context);
  type.varying = union_of(joint_varying(context), sorted_axes(context));
  return {std::move(type)};
}

// Rows go where the sizes say, so only other dimensions may be split.
ShardingRule ragged_rule(const RuleContext& context) {
  ShardingRule rule;
  TensorFactors result = own_factors(rule, context.outputs[0].shape);
  rule.factors[static_cast<std::size_t>(result[0][0])].kind = FactorKind::kNeedReplication;
  TensorFactors operand = result;
  operand[0] = {rule.add_factor(context.inputs[0].shape[0], FactorKind::kNeedReplication)};
  rule.operands = {operand, result};
  for (std::size_t i = 2; i < context.inputs.size(); ++i) {
    rule.operands.push_back(own_factors(rule, context.inputs[i].shape, FactorKind::kNeedReplication));
  }
  rule.results = {std::move(result)};
  return rule;
}

// What the other axes of the mesh may do to an operand inside a manual region: split the dimensions that the collective
// does not touch.
ShardingRule collective_rule(const RuleContext& context) {
  ShardingRule rule;
  rule.results.push_back(own_factors(rule, context.outputs[0].shape));
  if (context.inputs.empty()) return rule;
  rule.operands.push_back(rule.results[0]);
  for (const AttrFact& fact : context.op.attributes) {
    if (fact.role != AttrRole::kDim) continue;
    const auto d = static_cast<std::size_t>(context.attrs.get<std::int64_t>(fact.name));
    rule.factors[static_cast<std::size_t>(rule.results[0][d][0])].kind = FactorKind::kNeedReplication;
    rule.operands[0][d] = {rule.add_factor(context.inputs[0].shape[d], FactorKind::kNeedReplication)};
  }
  return rule;
}

// ---- What each one tells of itself.

// Everyone keeps its own part of what it has.
double other_parts(const TrafficContext& context) {
  return (context.operand_bytes / context.group) * (context.group - 1);
}

double other_shards(const TrafficContext& context) { return context.operand_bytes * (context.group - 1); }

// Of those who receive something from another device.
double permuted(const TrafficContext& context) {
  const Dims& sources = context.attrs.get<Dims>("sources");
  const Dims& targets = context.attrs.get<Dims>("targets");
  double receivers = 0;
  for (std::size_t i = 0; i < sources.size(); ++i) receivers += sources[i] != targets[i] ? 1 : 0;
  return context.operand_bytes * (receivers / context.group);
}

double rearranged(const TrafficContext& context) {
  const auto size = context.attrs.get<std::int64_t>("size");
  if (const Dims* windows = context.attrs.find_as<Dims>("windows")) {
    if (size == 0) return 0;
    const double elements =
        received_elements(context.grid, context.atoms, windows_of(*windows), context.attrs.get<Dims>("extents")[0]);
    return context.result_bytes * elements * context.group / static_cast<double>(size);
  }
  return context.result_bytes * received_share(context.grid, context.atoms, runs_of(context.attrs.get<Dims>("runs")),
                                               context.attrs.get<Dims>("extents"), size);
}

// ---- Derivatives in reverse. The cotangent of what is the same on all devices is that of all of them together; over
// unchecked axes each device has one of its own.

Attrs with(Attrs attrs, std::string name, Attr value) {
  attrs.set(std::move(name), std::move(value));
  return attrs;
}

std::vector<MaybeValue> one_cotangent(const TransposeContext& context, std::string_view op, Attrs attrs) {
  return {context.build.apply(op, std::move(attrs), {context.cotangent()})};
}

std::vector<MaybeValue> transpose_of_all_reduce(const TransposeContext& context) {
  if (context.attrs.contains("groups")) return one_cotangent(context, "all_reduce", context.attrs);
  std::vector<std::string> sums;
  std::vector<std::string> copies;
  const AxisNames& summands = context.operands[0].summands;  // Whose cotangent is the same for all.
  for (const std::string& axis : context.attrs.get<std::vector<std::string>>("axes")) {
    if (std::ranges::binary_search(summands, axis)) continue;
    (std::ranges::binary_search(context.unchecked, axis) ? sums : copies).push_back(axis);
  }
  ValueId cotangent = context.cotangent();
  if (!sums.empty()) cotangent = context.build.all_reduce(cotangent, sums, ReduceKind::kSum);
  return {copies.empty() ? cotangent : context.build.pvary(cotangent, copies)};
}

std::vector<MaybeValue> transpose_of_all_gather(const TransposeContext& context) {
  if (context.attrs.contains("invariant") && !context.attrs.contains("reduced")) {
    return {context.build.shard_slice(context.cotangent(), context.attrs.get<std::vector<std::string>>("axes"),
                                      static_cast<std::size_t>(context.attrs.get<std::int64_t>("dim")))};
  }
  Attrs attrs = with(context.attrs, "kind", std::string("sum"));
  attrs.erase("invariant");
  attrs.erase("reduced");
  return one_cotangent(context, "reduce_scatter", std::move(attrs));
}

std::vector<MaybeValue> transpose_of_reduce_scatter(const TransposeContext& context) {
  Attrs attrs{{"axes", context.attrs.get<std::vector<std::string>>("axes")},
              {"dim", context.attrs.get<std::int64_t>("dim")}};
  set_index_groups(attrs, index_groups(context.attrs));
  if (!context.operands[0].summands.empty()) {
    const AxisNames& summands = context.operands[0].summands;
    const auto is_summed = [&](const std::string& axis) { return std::ranges::binary_search(summands, axis); };
    if (std::ranges::all_of(context.attrs.get<std::vector<std::string>>("axes"), is_summed)) {
      attrs.set("invariant", true);
      attrs.set("reduced", true);
    }
  }
  return one_cotangent(context, "all_gather", std::move(attrs));
}

std::vector<MaybeValue> transpose_of_all_to_all(const TransposeContext& context) {
  const auto split = context.attrs.get<std::int64_t>("split_dim");
  const auto concat = context.attrs.get<std::int64_t>("concat_dim");
  return one_cotangent(context, "all_to_all", with(with(context.attrs, "split_dim", concat), "concat_dim", split));
}

std::vector<MaybeValue> transpose_of_permute(const TransposeContext& context) {
  const Dims sources = context.attrs.get<Dims>("sources");
  const Dims targets = context.attrs.get<Dims>("targets");
  return one_cotangent(context, context.op.name, with(with(context.attrs, "sources", targets), "targets", sources));
}

// The piece where it is of the whole, among zeros.
std::vector<MaybeValue> transpose_of_shard_slice(const TransposeContext& context) {
  Builder& build = context.build;
  const auto& axes = context.attrs.get<std::vector<std::string>>("axes");
  const auto dim = static_cast<std::size_t>(context.attrs.get<std::int64_t>("dim"));
  const Type& whole = context.operands[0];
  std::vector<ValueId> operands = {build.constant(0, whole.dtype, whole.shape), context.cotangent()};
  const ValueId extent = build.constant(static_cast<int>(context.results[0].shape[dim]), int32);
  for (std::size_t d = 0; d < whole.rank(); ++d) {
    operands.push_back(d == dim ? build.multiply(build.axis_index(axes), extent) : build.constant(0, int32));
  }
  return {build.apply("dynamic_update_slice", {}, std::move(operands))};
}

std::vector<MaybeValue> transpose_of_exclusive_scan(const TransposeContext& context) {
  return one_cotangent(context, context.op.name, with(context.attrs, "reverse", !context.attrs.get<bool>("reverse")));
}

std::vector<MaybeValue> transpose_of_pvary(const TransposeContext& context) { return {context.cotangent()}; }

// The sum of all cotangents for the device that gave its operand, and zeros for the others.
std::vector<MaybeValue> transpose_of_pbroadcast(const TransposeContext& context) {
  Builder& build = context.build;
  const auto& axes = context.attrs.get<std::vector<std::string>>("axes");
  const std::vector<MaybeValue> sum = transpose_of_all_reduce(context);
  const ValueId source = build.constant(static_cast<int>(context.attrs.get<std::int64_t>("source")), int32);
  const ValueId is_source = build.equal(build.axis_index(axes), source);
  const Shape& shape = context.operands[0].shape;
  return {build.select(build.broadcast_in_dim(is_source, shape, {}), *sum[0],
                       build.constant(0, context.operands[0].dtype, shape))};
}

// Slices go back the way they came, by what their receivers know of them, and are added up where the operand was sent
// to several. The output's own part is what no slice covers; where slices are added to it, that is all of it. Slices
// that lie over each other in the output count as if each had been kept.
std::vector<MaybeValue> transpose_of_ragged(const TransposeContext& context) {
  Builder& build = context.build;
  const auto& axes = context.attrs.get<std::vector<std::string>>("axes");
  const auto exchanged = [&](std::size_t offsets) {
    Attrs attrs{{"axes", axes}, {"split_dim", std::int64_t{0}}, {"concat_dim", std::int64_t{0}}};
    set_index_groups(attrs, index_groups(context.attrs));
    return build.apply("all_to_all", std::move(attrs), {*context.values[offsets]});
  };
  const auto zeros = [&] { return build.constant(0, context.operands[0].dtype, context.operands[0].shape); };
  std::vector<MaybeValue> cotangents(context.operands.size());
  if (context.wants(0)) {
    cotangents[0] =
        build.apply(context.op.name, with(context.attrs, "adds", true),
                    {context.cotangent(), zeros(), exchanged(4), *context.values[5], exchanged(2), *context.values[3]});
  }
  if (context.wants(1)) {
    cotangents[1] = context.attrs.contains("adds")
                        ? context.cotangent()
                        : build.apply(context.op.name, context.attrs,
                                      {zeros(), context.cotangent(), *context.values[2], *context.values[3],
                                       *context.values[4], *context.values[5]});
  }
  return cotangents;
}

// ---- Batches. Along mesh axes the mapped dimension is one more; along the mapped axis itself there are no devices,
// but places of that dimension.

// Dimension `dim` of x is cut into as many parts as there are places; the part's number becomes dimension `to`.
ValueId parts_first(const BatchContext& context, ValueId x, std::size_t dim, std::size_t to) {
  return mapped_at(context.build, {dim_in_two(context.build, x, dim, context.size), dim}, context.size, to);
}

std::size_t dim_in(const Attrs& attrs, std::string_view name) {
  return static_cast<std::size_t>(attrs.get<std::int64_t>(name));
}

// How often each place is to be counted where the operand is the same in all.
ValueId reduced_places(const BatchContext& context, ReduceKind kind) {
  return context.build.reduce(kind, context.mapped_at(0), {0});
}

std::vector<Batched> reduced_over_places(const BatchContext& context) {
  return {{reduced_places(context, parse_reduce_kind(context.attrs.get<std::string>("kind"))), {}}};
}

// The whole of a dimension is the parts of all places, one after the other.
std::vector<Batched> gathered_places(const BatchContext& context) {
  const std::size_t dim = dim_in(context.attrs, "dim");
  return {{joined_with_next(context.build, context.mapped_at(0, dim), dim), {}}};
}

std::vector<Batched> scattered_sums(const BatchContext& context) {
  const ValueId sum = reduced_places(context, parse_reduce_kind(context.attrs.get<std::string>("kind")));
  return {{parts_first(context, sum, dim_in(context.attrs, "dim"), 0), 0}};
}

std::vector<Batched> own_parts(const BatchContext& context) {
  // The part of the place itself: that of the same number, along both.
  const std::size_t dim = dim_in(context.attrs, "dim");
  if (!context.operands[0].dim) return {{parts_first(context, context.operands[0].value, dim, 0), 0}};
  Builder& build = context.build;
  const ValueId parts = parts_first(context, context.mapped_at(0), dim + 1, 1);
  const ValueId place = build.iota(int32, {context.size}, 0);
  const Attrs form{{"dims", Dims{1}}, {"array_batch", Dims{0}}, {"index_batch", Dims{0}}};
  return {{build.apply("gather", form, {parts, place}), 0}};
}

std::vector<Batched> exchanged_parts(const BatchContext& context) {
  const std::size_t split = dim_in(context.attrs, "split_dim");
  const std::size_t concat = dim_in(context.attrs, "concat_dim");
  // (place, …) → (part, place, …): the part's number is the receiver, the place the sender, joined with `concat`.
  const ValueId parts = parts_first(context, context.mapped_at(0), split + 1, 0);
  const ValueId moved = mapped_at(context.build, {parts, 1}, context.size, concat + 1);
  return {{joined_with_next(context.build, moved, concat + 1), 0}};
}

std::vector<Batched> permuted_places(const BatchContext& context) {
  Builder& build = context.build;
  const Dims& sources = context.attrs.get<Dims>("sources");
  const Dims& targets = context.attrs.get<Dims>("targets");
  const ValueId all = context.mapped_at(0);
  Shape shape = build.type(all).shape;
  shape[0] = 1;
  const Dtype dtype = build.type(all).dtype;
  std::vector<ValueId> places(static_cast<std::size_t>(context.size), build.constant(0, dtype, shape));
  for (std::size_t k = 0; k < sources.size(); ++k) {
    Dims starts(shape.size(), 0);
    Dims limits = build.type(all).shape;
    starts[0] = sources[k];
    limits[0] = sources[k] + 1;
    places[static_cast<std::size_t>(targets[k])] =
        build.slice(all, std::move(starts), std::move(limits), Dims(shape.size(), 1));
  }
  return {{build.concatenate(std::move(places), 0), 0}};
}

std::vector<Batched> numbers_of_places(const BatchContext& context) {
  return {{context.build.iota(int32, {context.size}, 0), 0}};
}

std::vector<Batched> same_places(const BatchContext& context) { return {context.operands[0]}; }

std::vector<Batched> place_of_source(const BatchContext& context) {
  if (!context.operands[0].dim) return {context.operands[0]};
  Builder& build = context.build;
  const ValueId all = context.mapped_at(0);
  Shape shape = build.type(all).shape;
  Dims starts(shape.size(), 0);
  Dims limits = shape;
  starts[0] = context.attrs.get<std::int64_t>("source");
  limits[0] = starts[0] + 1;
  const ValueId one = build.slice(all, std::move(starts), std::move(limits), Dims(shape.size(), 1));
  shape.erase(shape.begin());
  return {{build.reshape(one, std::move(shape)), {}}};
}

// Rows of all places go the same ways, if these are the same in all.
std::vector<Batched> batch_of_ragged(const BatchContext& context) {
  const auto& axes = context.attrs.get<std::vector<std::string>>("axes");
  if (std::ranges::find(axes, context.axis) != axes.end()) {
    throw misuse<Unsupported>("{} cannot be over the axis '{}' of vmap", context.op.name, context.axis);
  }
  if (context.is_mapped(2)) return batched_one_by_one(context);
  std::vector<ValueId> operands = {context.mapped_at(0, 1), context.mapped_at(1, 1)};
  for (std::size_t i = 2; i < context.operands.size(); ++i) operands.push_back(context.operands[i].value);
  return batched_alike(context, std::move(operands), {1, 1, {}, {}, {}, {}});
}

using Batch = std::vector<Batched> (*)(const BatchContext&);

// By what the collective is along the mapped axis.
template <Batch kAlong>
std::vector<Batched> batch_of(const BatchContext& context) {
  std::vector<std::string> axes = context.attrs.get<std::vector<std::string>>("axes");
  const auto own = std::ranges::find(axes, context.axis);
  if (context.axis.empty() || own == axes.end()) {
    std::vector<ValueId> operands;
    std::vector<std::optional<std::size_t>> dims;
    for (std::size_t i = 0; i < context.operands.size(); ++i) {
      operands.push_back(context.mapped_at(i));
      dims.emplace_back(0);
    }
    return batched_alike(context, std::move(operands), std::move(dims));
  }
  if (context.attrs.contains("groups")) {
    throw misuse<Unsupported>("{} cannot have axis_index_groups over the axis '{}' of vmap", context.op.name,
                              context.axis);
  }
  const bool is_reduction = kAlong == Batch(reduced_over_places);
  if (axes.size() > 1 && !is_reduction && kAlong != Batch(same_places)) {
    throw misuse<Unsupported>("{} cannot be over the axis '{}' of vmap and others, ({}), at once", context.op.name,
                              context.axis, fmt::join(axes, ", "));
  }
  std::vector<Batched> made = kAlong(context);
  axes.erase(own);
  if (axes.empty()) return made;
  // The rest of the axes are those of devices.
  const ValueId rest =
      context.build.equation(context.op, over_axes(context.attrs, std::move(axes)), {made[0].value})[0];
  return {{rest, made[0].dim}};
}

OpDef collective(std::string_view name, std::string_view doc, std::vector<Type> (*infer)(const InferContext&),
                 Linearity linear, std::vector<MaybeValue> (*transpose)(const TransposeContext&), Batch batch,
                 CollectiveFacts facts, AttrFacts attributes) {
  attributes.add({.name = "axes"});
  return {.name = name,
          .doc = doc,
          .op_class = OpClass::kCollective,
          .infer = infer,
          .rule = collective_rule,
          .linear = linear,
          .transpose = transpose,
          .batch = batch,
          .collective = facts,
          .attributes = attributes};
}

OpDef with_arity(OpDef op, int arity) {
  op.arity = arity;
  return op;
}

OpDef with_rule(OpDef op, ShardingRule (*rule)(const RuleContext&)) {
  op.rule = rule;
  return op;
}

using Gives = CollectiveFacts::Gives;
constexpr AttrFact kDim{.name = "dim", .role = AttrRole::kDim};
constexpr AttrFact kKind{.name = "kind"};
constexpr AttrFact kSize{.name = "size"};
constexpr AttrFact kGroups{.name = "groups"};
constexpr AttrFact kGroupSizes{.name = "group_sizes"};

const std::array kCollectiveOps = {
    with_arity(collective("axis_index", "The position of the device along `axes`, the first being the most major.",
                          infer_axis_index, Linear::kNo, nullptr, batch_of<numbers_of_places>, {.stays = true}, {}),
               0),
    collective(
        "all_reduce", "The reduction of `kind` over the devices along `axes`, in a fixed balanced tree.",
        infer_all_reduce, Linear::kTogether, transpose_of_all_reduce, batch_of<reduced_over_places>,
        {.gives = Gives::kSame, .in_rounds = true, .finishes_sums = true, .received_bytes = received_of_all_reduce},
        {kKind, kGroups, kGroupSizes}),
    collective("all_gather", "The operands of the devices along `axes`, concatenated along `dim`.", infer_all_gather,
               Linear::kMoved, transpose_of_all_gather, batch_of<gathered_places>,
               {.gives = Gives::kSame, .received_bytes = other_shards},
               {kDim, kSize, {.name = "invariant"}, {.name = "reduced"}, kGroups, kGroupSizes}),
    collective("reduce_scatter", "The device's piece along `dim` of the reduction of `kind` over `axes`.", infer_piece,
               Linear::kTogether, transpose_of_reduce_scatter, batch_of<scattered_sums>,
               {.in_rounds = true, .finishes_sums = true, .received_bytes = other_parts},
               {kDim, kKind, kGroups, kGroupSizes}),
    collective(
        "all_to_all",
        "Each device's operand is split along `split_dim` among the devices along `axes`; what a device receives "
        "is concatenated along `concat_dim`.",
        infer_all_to_all, Linear::kMoved, transpose_of_all_to_all, batch_of<exchanged_parts>,
        {.received_bytes = other_parts},
        {{.name = "split_dim", .role = AttrRole::kDim},
         {.name = "concat_dim", .role = AttrRole::kDim},
         kSize,
         kGroups,
         kGroupSizes}),
    collective("collective_permute",
               "The operand of device sources[i] along `axes` goes to targets[i]; who receives nothing gets zeros.",
               infer_permute, Linear::kTogether, transpose_of_permute, batch_of<permuted_places>,
               {.received_bytes = permuted}, {{.name = "sources"}, {.name = "targets"}}),
    collective("shard_slice", "The device's piece along `dim` when `axes` split it. Moves nothing.", infer_piece,
               Linear::kMoved, transpose_of_shard_slice, batch_of<own_parts>, {.stays = true},
               {kDim, kGroups, kGroupSizes}),
    collective("exclusive_scan",
               "The reduction of `kind` over the devices before this one along `axes`, or after it if `reverse`; the "
               "neutral element on the first.",
               infer_exclusive_scan, Linear::kTogether, transpose_of_exclusive_scan, nullptr,
               {.received_bytes = other_shards}, {kKind, {.name = "reverse"}}),
    with_arity(
        collective("rearrange",
                   "The device's part, along `dim`, of what `runs` make of the operands, whose whole extents are "
                   "`extents` and that of the result `size`. If it `fills`, the last operand is the scalar that fills "
                   "the rest. With `windows` in the place of runs, each device has what its share of them meets of the "
                   "operand, so that parts overlap.",
                   infer_rearrange, Linear::kMoved, nullptr, nullptr, {.received_bytes = rearranged},
                   {kDim, {.name = "extents"}, kSize, {.name = "runs"}, {.name = "fills"}, {.name = "windows"}}),
        -1),
    collective("pvary", "The operand, taken to vary over `axes`.", infer_pvary, Linear::kMoved, transpose_of_pvary,
               batch_of<same_places>, {.gives = Gives::kAsBefore, .stays = true}, {}),
    collective("pbroadcast", "The operand of the device at `source` along `axes`.", infer_broadcast, Linear::kMoved,
               transpose_of_pbroadcast, batch_of<place_of_source>,
               {.gives = Gives::kSame, .received_bytes = other_parts}, {{.name = "source"}}),
    with_rule(
        with_arity(
            collective("ragged_all_to_all",
                       "Operands: operand, output, input_offsets, send_sizes, output_offsets, recv_sizes. "
                       "Each device sends slices of rows of its operand, as many to each device, to the "
                       "given rows of the receiver's output. If it `adds`, they are added to these, in the "
                       "order of the senders.",
                       infer_ragged, {Linear::kTogether, Linear::kTogether, Linear::kNo}, transpose_of_ragged,
                       batch_of_ragged, {.received_bytes = other_parts}, {{.name = "adds"}, kGroups, kGroupSizes}),
            6),
        ragged_rule),
};

}  // namespace

std::int64_t devices_along(const AxisEnv& bound, const std::vector<std::string>& axes) {
  std::int64_t devices = 1;
  for (const std::string& axis : axes) {
    const auto size = bound.size_of(axis);
    if (!size) {
      std::vector<std::string> names;
      for (const auto& [name, bound_size] : bound.axes()) names.push_back(name);
      throw misuse<UnboundAxisError>("axis '{}' is not bound here: {}", axis,
                                     names.empty()
                                         ? "call it inside shard_map over a mesh with that axis, or inside pmap"
                                         : fmt::format("the axes bound here are ({})", fmt::join(names, ", ")));
    }
    if (std::count(axes.begin(), axes.end(), axis) > 1) {
      throw misuse<InvalidArgument>("axis '{}' is named twice", axis);
    }
    devices *= *size;
  }
  return devices;
}

void check_index_groups(const std::vector<Dims>& groups, const std::vector<std::string>& axes, std::int64_t devices,
                        bool even) {
  const auto refuse = [&](const std::string& what) {
    std::vector<std::string> lists;
    for (const Dims& group : groups) lists.push_back(fmt::format("[{}]", fmt::join(group, ", ")));
    throw misuse<InvalidArgument>("axis_index_groups [{}] along ({}) {}", fmt::join(lists, ", "), fmt::join(axes, ", "),
                                  what);
  };
  Dims all;
  for (const Dims& group : groups) all.insert(all.end(), group.begin(), group.end());
  std::sort(all.begin(), all.end());
  bool covers = static_cast<std::int64_t>(all.size()) == devices;
  for (std::size_t i = 0; covers && i < all.size(); ++i) covers = all[i] == static_cast<std::int64_t>(i);
  if (!covers) refuse(fmt::format("must have each of the positions 0..{} exactly once", devices - 1));
  const auto is_first_size = [&](const Dims& group) { return group.size() == groups[0].size(); };
  if (even && !std::all_of(groups.begin(), groups.end(), is_first_size)) refuse("must all be of one size");
}

void set_index_groups(Attrs& attrs, const std::vector<Dims>& groups) {
  if (groups.empty()) return;
  Dims positions;
  Dims sizes;
  for (const Dims& group : groups) {
    positions.insert(positions.end(), group.begin(), group.end());
    sizes.push_back(static_cast<std::int64_t>(group.size()));
  }
  attrs.set("groups", std::move(positions));
  attrs.set("group_sizes", std::move(sizes));
}

std::vector<Dims> index_groups(const Attrs& attrs) {
  std::vector<Dims> groups;
  if (!attrs.contains("groups")) return groups;
  auto next = attrs.get<Dims>("groups").begin();
  for (std::int64_t size : attrs.get<Dims>("group_sizes")) {
    groups.emplace_back(next, next + size);
    next += size;
  }
  return groups;
}

double received_of_all_reduce(const TrafficContext& context) {
  return 2 * context.result_bytes * (context.group - 1) / context.group;
}

std::span<const OpDef> collective_ops() { return kCollectiveOps; }

std::string_view user_name(const Eqn& eqn) {
  const std::string_view op = eqn.op->name;
  if (op == "collective_permute") return "ppermute";
  if (op == "reduce_scatter") return "psum_scatter";
  if (op != "all_reduce") return op;
  switch (parse_reduce_kind(eqn.attrs.get<std::string>("kind"))) {
    case ReduceKind::kSum:
      return "psum";
    case ReduceKind::kMax:
      return "pmax";
    case ReduceKind::kMin:
      return "pmin";
    default:
      return op;
  }
}

bool exchanges_nothing(const Graph& graph, const Eqn& eqn) {
  if (!eqn.op->collective->stays) return false;
  // A value that varies less than before is that of some of the devices.
  return std::ranges::all_of(
      eqn.inputs, [&](ValueId id) { return (graph.value(id).varying - graph.value(eqn.outputs[0]).varying).empty(); });
}

}  // namespace shoal
