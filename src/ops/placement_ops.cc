// Ops that say where a value lies: sharding_constraint, shard_alike, to_memory, and the boundaries of manual regions.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "ir/explicit_axes.h"
#include "ops/batching.h"
#include "ops/derivatives.h"
#include "ops/rules.h"
#include "ops/table.h"

namespace shoal {
namespace {

std::vector<Type> infer_constraint(const InferContext& context) {
  const NamedSharding& sharding = context.attrs.get<NamedSharding>("sharding");
  const Type& in = context.inputs[0];
  if (sharding.spec().size() > in.rank()) {
    infer_error(context, fmt::format("{} has {} entries, but operand {} has only {} dimensions",
                                     to_string(sharding.spec()), sharding.spec().size(), to_string(in), in.rank()));
  }
  Type out = in;
  if (auto axes = explicit_axes_of(sharding, in.rank())) {
    for (std::size_t d = 0; d < sharding.spec().size(); ++d) {
      if (sharding.spec()[d].is_unconstrained() && in.explicit_axes) axes->dims[d] = in.explicit_axes->dims[d];
    }
    out.explicit_axes = std::move(axes);
  }
  return {std::move(out)};
}

std::vector<Type> infer_relax(const InferContext& context) {
  const auto& names = context.attrs.get<std::vector<std::string>>("axes");
  Type type = context.inputs[0];
  if (!type.explicit_axes) return {std::move(type)};
  const auto is_relaxed = [&](const std::string& axis) { return std::ranges::find(names, axis) != names.end(); };
  ExplicitAxes axes = *type.explicit_axes;
  std::erase_if(axes.unreduced, is_relaxed);
  std::erase_if(axes.reduced, is_relaxed);
  const NamedSharding relaxed(with_auto_axes(axes.mesh, names), spec_of(axes), {}, context.where);
  type.explicit_axes = explicit_axes_of(relaxed, type.rank());
  return {std::move(type)};
}

std::vector<Type> infer_pcast(const InferContext& context) {
  AxisNames axes = context.attrs.get<std::vector<std::string>>("axes");
  std::ranges::sort(axes);
  const bool is_summand = context.attrs.get<std::string>("to") == "unreduced";
  Type type = context.inputs[0];
  const AxisNames same = difference_of(axes, type.varying);
  if (is_summand ? !same.empty() : same != axes) {
    infer_error(context, fmt::format("{} must {} over ({})", to_string(type), is_summand ? "vary" : "be the same",
                                     fmt::join(axes, ", ")));
  }
  (is_summand ? type.summands : type.reduced) = union_of(is_summand ? type.summands : type.reduced, axes);
  return {std::move(type)};
}

std::vector<Type> infer_to_memory(const InferContext& context) {
  Type type = context.inputs[0];
  type.memory = context.attrs.get<MemoryKind>("memory");
  return {std::move(type)};
}

void copy(const KernelContext& context) {
  for (std::size_t i = 0; i < context.outputs.size(); ++i) {
    const TensorView& out = context.outputs[i];
    std::memcpy(out.data, context.inputs[i].data,
                static_cast<std::size_t>(num_elements(out.shape)) * size_of(out.dtype));
  }
}

std::vector<Type> infer_alike(const InferContext& context) {
  for (const Type& type : context.inputs) {
    if (type.shape == context.inputs[0].shape) continue;
    infer_error(context, fmt::format("values that lie alike must have one shape, but one is {} and another is {}",
                                     to_string(context.inputs[0]), to_string(type)));
  }
  return {context.inputs.begin(), context.inputs.end()};
}

ShardingRule alike_rule(const RuleContext& context) {
  ShardingRule rule;
  const TensorFactors shared = own_factors(rule, context.outputs[0].shape);
  rule.operands.assign(context.inputs.size(), shared);
  rule.results.assign(context.outputs.size(), shared);
  return rule;
}

// ---- Derivatives: cotangents lie as their values, and are unreduced where these are reduced.

std::vector<MaybeValue> transpose_constraint(const TransposeContext& context) {
  const NamedSharding& sharding = context.attrs.get<NamedSharding>("sharding");
  const PartitionSpec& spec = sharding.spec();
  return {context.build.sharding_constraint(
      context.cotangent(), sharding.with_spec(PartitionSpec(spec.entries(), spec.reduced(), spec.unreduced())))};
}

std::vector<MaybeValue> transpose_alike(const TransposeContext& context) {
  return {context.cotangents.begin(), context.cotangents.end()};
}

std::vector<MaybeValue> transpose_to_memory(const TransposeContext& context) {
  return {context.build.to_memory(context.cotangent(), context.operands[0].memory)};
}

// ---- Boundaries. The spec's axes split dimension d into as many pieces as their sizes multiply to; inside the region
// a value has the shape of one piece.

const PartitionSpec& spec_of(const Attrs& attrs) { return attrs.get<NamedSharding>("sharding").spec(); }

std::int64_t pieces_of(const Attrs& attrs, std::size_t d) {
  const NamedSharding& sharding = attrs.get<NamedSharding>("sharding");
  if (d >= sharding.spec().size()) return 1;
  std::int64_t pieces = 1;
  for (const std::string& axis : sharding.spec()[d].axes()) pieces *= sharding.mesh().axis_size(axis);
  return pieces;
}

std::vector<Type> infer_boundary(const InferContext& context) {
  Type type = context.inputs[0];
  if (spec_of(context.attrs).size() > type.rank()) infer_error(context, "the spec is longer than the operand's rank");
  const bool enters = context.op.op_class == OpClass::kEnter;
  for (std::size_t d = 0; d < type.rank(); ++d) {
    const std::int64_t pieces = pieces_of(context.attrs, d);
    if (enters && type.shape[d] % pieces != 0) infer_error(context, "the spec does not divide the operand");
    type.shape[d] = enters ? type.shape[d] / pieces : type.shape[d] * pieces;
  }
  type.varying = {};
  type.explicit_axes = {};
  type.summands = type.reduced = {};
  return {std::move(type)};
}

// A dimension outside is the pieces, most major, and what each piece holds; the axes left to the compiler split the
// latter.
ShardingRule boundary_rule(const RuleContext& context) {
  const bool enters = context.op.op_class == OpClass::kEnter;
  const Shape& inside = enters ? context.outputs[0].shape : context.inputs[0].shape;
  ShardingRule rule;
  TensorFactors outer;
  TensorFactors inner;
  for (std::size_t d = 0; d < inside.size(); ++d) {
    const std::int64_t pieces = pieces_of(context.attrs, d);
    DimFactors dim;
    if (pieces > 1) dim.push_back(rule.add_factor(pieces));
    dim.push_back(rule.add_factor(inside[d]));
    inner.push_back({dim.back()});
    outer.push_back(std::move(dim));
  }
  rule.operands.push_back(enters ? outer : inner);
  rule.results.push_back(enters ? inner : outer);
  return rule;
}

OpDef boundary(std::string_view name, OpClass op_class, std::string_view doc) {
  return {.name = name,
          .doc = doc,
          .op_class = op_class,
          .infer = infer_boundary,
          .rule = boundary_rule,
          .linear = Linear::kMoved,
          .attributes = {{.name = "axes"}, {.name = "sharding", .role = AttrRole::kSpec}}};
}

std::vector<Batched> batch_of_relax_axes(const BatchContext& context) {
  std::vector<std::string> axes = context.attrs.get<std::vector<std::string>>("axes");
  std::erase(axes, std::string(context.axis));
  if (axes.empty()) return {context.operands[0]};
  const ValueId value = context.operands[0].value;
  return {{context.build.equation(context.op, over_axes(context.attrs, std::move(axes)), {value})[0],
           context.operands[0].dim}};
}

// How the mapped dimension is split is left to others, unless vmap was told.
std::vector<Batched> batch_of_constraint(const BatchContext& context) {
  const NamedSharding& sharding = context.attrs.get<NamedSharding>("sharding");
  std::vector<PartitionEntry> entries = sharding.spec().entries();
  const std::size_t dim = *context.operands[0].dim;
  while (entries.size() < dim) entries.emplace_back();
  entries.insert(entries.begin() + static_cast<std::ptrdiff_t>(dim),
                 context.split.axes.empty() ? PartitionEntry(unconstrained) : PartitionEntry(context.split.axes));
  const NamedSharding wider(sharding.mesh(),
                            PartitionSpec(std::move(entries), sharding.spec().unreduced(), sharding.spec().reduced()),
                            {.memory_kind = sharding.memory_kind()});
  return {{context.build.sharding_constraint(context.operands[0].value, wider), dim}};
}

const std::array kPlacementOps = {
    boundary("enter_manual", OpClass::kEnter,
             "The operand's shard along the axes that the spec of `sharding` names; `axes` become manual."),
    boundary("leave_manual", OpClass::kLeave,
             "The operand's shards along the axes of `sharding` put together; `axes` were manual."),
    OpDef{.name = "sharding_constraint",
          .doc = "The operand, which shall lie as `sharding` says.",
          .op_class = OpClass::kConstraint,
          .infer = infer_constraint,
          .rule = pointwise_rule,
          .reference = copy,
          .linear = Linear::kMoved,
          .transpose = transpose_constraint,
          .batch = batch_of_constraint,
          .attributes = {{.name = "sharding", .role = AttrRole::kSpec}}},
    OpDef{.name = "shard_alike",
          .doc = "The operands, which shall lie as one another.",
          .arity = -1,
          .infer = infer_alike,
          .rule = alike_rule,
          .reference = copy,
          .linear = Linear::kMoved,
          .transpose = transpose_alike,
          .takes_whole_sums = true,  // They must lie alike, sums too.
          .gives_operands = true},
    OpDef{.name = "relax_axes",
          .doc = "The operand; from here on the compiler chooses how `axes` split it.",
          .op_class = OpClass::kTyping,
          .infer = infer_relax,
          .rule = pointwise_rule,
          .reference = copy,
          .linear = Linear::kMoved,
          .transpose = transpose_alike,  // Transposition sees to it that it is split as the operand.
          .batch = batch_of_relax_axes,
          .relaxes_axes = true,
          .attributes = {{.name = "axes"}}},
    OpDef{.name = "pcast",
          .doc = "The operand, of which the type says that it is `to` over the manual `axes`: unreduced or reduced.",
          .op_class = OpClass::kTyping,
          .infer = infer_pcast,
          .rule = pointwise_rule,
          .reference = copy,
          .linear = Linear::kMoved,
          .transpose = transpose_alike,  // Transposition sees to it that it is summed as the operand.
          .batch = batch_of_relax_axes,
          .attributes = {{.name = "axes"}, {.name = "to"}}},
    OpDef{.name = "to_memory",
          .doc = "The operand in another memory of the same devices.",
          .infer = infer_to_memory,
          .rule = pointwise_rule,
          .reference = copy,
          .simplify = simplify_identity,
          .linear = Linear::kMoved,
          .transpose = transpose_to_memory,
          .takes_whole_sums = true,  // They are finished where they are computed.
          .attributes = {{.name = "memory"}}},
};

}  // namespace

std::span<const OpDef> placement_ops() { return kPlacementOps; }

}  // namespace shoal
