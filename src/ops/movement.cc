// Ops that move elements without computing: broadcast_in_dim, reshape, transpose, slice.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "ir/graph.h"
#include "ir/makers.h"
#include "ops/derivatives.h"
#include "ops/rules.h"
#include "ops/table.h"

namespace shoal {
namespace {

// ---- broadcast_in_dim

std::vector<Type> infer_broadcast(const InferContext& context) {
  const Type& in = context.inputs[0];
  const Shape& shape = context.attrs.get<Dims>("shape");
  const Dims& dims = context.attrs.get<Dims>("dims");
  if (dims.size() != in.rank()) {
    infer_error(context, fmt::format("dims {} must name one result dimension for each of the {} of operand {}",
                                     to_string(dims), in.rank(), to_string(in)));
  }
  if (std::any_of(shape.begin(), shape.end(), [](std::int64_t extent) { return extent < 0; })) {
    infer_error(context, fmt::format("shape {} has a negative extent", to_string(shape)));
  }
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const bool ordered = i == 0 || dims[i] > dims[i - 1];
    if (dims[i] < 0 || static_cast<std::size_t>(dims[i]) >= shape.size() || !ordered) {
      infer_error(context,
                  fmt::format("dims {} must be ascending dimensions of shape {}", to_string(dims), to_string(shape)));
    }
    if (in.shape[i] != 1 && in.shape[i] != shape[static_cast<std::size_t>(dims[i])]) {
      infer_error(
          context,
          fmt::format("operand {} cannot be broadcast to shape {}: dimension {} has extent {}, not 1 or {}",
                      to_string(in), to_string(shape), i, in.shape[i], shape[static_cast<std::size_t>(dims[i])]));
    }
  }
  return {like_operands(context, shape)};
}

void broadcast(const KernelContext& context) {
  const TensorView& in = context.inputs[0];
  const Dims& dims = context.attrs.get<Dims>("dims");
  const Dims strides = row_major_strides(in.shape);
  gather_elements(in, context.outputs[0], [&](const Dims& at) {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < dims.size(); ++i) {
      if (in.shape[i] != 1) offset += strides[i] * at[static_cast<std::size_t>(dims[i])];
    }
    return offset;
  });
}

ShardingRule broadcast_rule(const RuleContext& context) {
  ShardingRule rule;
  rule.results.push_back(own_factors(rule, context.outputs[0].shape));
  const Shape& in = context.inputs[0].shape;
  const Dims& dims = context.attrs.get<Dims>("dims");
  TensorFactors operand;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const auto d = static_cast<std::size_t>(dims[i]);
    const bool expands = in[i] == 1 && context.outputs[0].shape[d] != 1;
    operand.push_back(expands ? DimFactors{} : rule.results[0][d]);
  }
  rule.operands.push_back(std::move(operand));
  return rule;
}

// ---- reshape

std::vector<Type> infer_reshape(const InferContext& context) {
  const Type& in = context.inputs[0];
  const Shape& shape = context.attrs.get<Dims>("shape");
  const bool negative = std::any_of(shape.begin(), shape.end(), [](std::int64_t extent) { return extent < 0; });
  if (negative || num_elements(shape) != num_elements(in.shape)) {
    infer_error(context, fmt::format("operand {} has {} elements, which shape {} does not hold", to_string(in),
                                     num_elements(in.shape), to_string(shape)));
  }
  return {like_operands(context, shape)};
}

void reshape(const KernelContext& context) {
  const TensorView& out = context.outputs[0];
  std::memcpy(out.data, context.inputs[0].data, static_cast<std::size_t>(num_elements(out.shape)) * size_of(out.dtype));
}

// Divides both shapes into common factors, walking from the most major dimension. Where what is left of two extents
// has no common divisor, the rest is entangled and must be replicated.
ShardingRule reshape_rule(const RuleContext& context) {
  const Shape& in = context.inputs[0].shape;
  const Shape& out = context.outputs[0].shape;
  ShardingRule rule;
  TensorFactors operand(in.size());
  TensorFactors result(out.size());
  std::size_t i = 0;
  std::size_t j = 0;
  std::int64_t in_left = in.empty() ? 1 : in[0];
  std::int64_t out_left = out.empty() ? 1 : out[0];
  bool entangled = num_elements(in) == 0;
  while (!entangled) {
    while (in_left == 1 && i + 1 < in.size()) in_left = in[++i];
    while (out_left == 1 && j + 1 < out.size()) out_left = out[++j];
    if (in_left == 1 || out_left == 1) break;
    const std::int64_t common = std::gcd(in_left, out_left);
    if (common == 1) {
      entangled = true;
      break;
    }
    const int factor = rule.add_factor(common);
    operand[i].push_back(factor);
    result[j].push_back(factor);
    in_left /= common;
    out_left /= common;
  }
  if (entangled) {
    const auto rest = [&rule](TensorFactors& dims, const Shape& shape, std::size_t from, std::int64_t left) {
      for (std::size_t d = from; d < shape.size(); ++d) {
        dims[d].push_back(rule.add_factor(d == from ? left : shape[d], FactorKind::kNeedReplication));
      }
    };
    rest(operand, in, i, in_left);
    rest(result, out, j, out_left);
  }
  rule.operands.push_back(std::move(operand));
  rule.results.push_back(std::move(result));
  return rule;
}

// ---- transpose

std::vector<Type> infer_transpose(const InferContext& context) {
  const Type& in = context.inputs[0];
  const Dims& perm = checked_dims(context, "perm");
  if (perm.size() != in.rank()) {
    infer_error(context, fmt::format("perm {} must name each of the {} dimensions of operand {}", to_string(perm),
                                     in.rank(), to_string(in)));
  }
  Shape shape;
  for (std::int64_t d : perm) shape.push_back(in.shape[static_cast<std::size_t>(d)]);
  return {like_operands(context, std::move(shape))};
}

void transpose(const KernelContext& context) {
  const TensorView& in = context.inputs[0];
  const Dims& perm = context.attrs.get<Dims>("perm");
  const Dims strides = row_major_strides(in.shape);
  gather_elements(in, context.outputs[0], [&](const Dims& at) {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < perm.size(); ++i) offset += strides[static_cast<std::size_t>(perm[i])] * at[i];
    return offset;
  });
}

ShardingRule transpose_rule(const RuleContext& context) {
  ShardingRule rule;
  rule.operands.push_back(own_factors(rule, context.inputs[0].shape));
  TensorFactors result;
  for (std::int64_t d : context.attrs.get<Dims>("perm")) {
    result.push_back(rule.operands[0][static_cast<std::size_t>(d)]);
  }
  rule.results.push_back(std::move(result));
  return rule;
}

// ---- slice

std::vector<Type> infer_slice(const InferContext& context) {
  const Type& in = context.inputs[0];
  const Dims& starts = context.attrs.get<Dims>("starts");
  const Dims& limits = context.attrs.get<Dims>("limits");
  const Dims& strides = context.attrs.get<Dims>("strides");
  if (starts.size() != in.rank() || limits.size() != in.rank() || strides.size() != in.rank()) {
    infer_error(context, fmt::format("starts, limits and strides must have one entry for each dimension of operand {}",
                                     to_string(in)));
  }
  Shape shape;
  for (std::size_t d = 0; d < in.rank(); ++d) {
    if (starts[d] < 0 || limits[d] < starts[d] || limits[d] > in.shape[d] || strides[d] < 1) {
      infer_error(context, fmt::format("the range {}:{}:{} does not lie in dimension {} of operand {}", starts[d],
                                       limits[d], strides[d], d, to_string(in)));
    }
    const std::int64_t length = limits[d] - starts[d];
    shape.push_back(length == 0 ? 0 : (length - 1) / strides[d] + 1);
  }
  return {like_operands(context, std::move(shape))};
}

// Whether the slice takes the whole of dimension d.
bool takes_all(const Attrs& attrs, const Shape& in, std::size_t d) {
  return attrs.get<Dims>("starts")[d] == 0 && attrs.get<Dims>("limits")[d] == in[d] &&
         attrs.get<Dims>("strides")[d] == 1;
}

void slice(const KernelContext& context) {
  const TensorView& in = context.inputs[0];
  const Dims& starts = context.attrs.get<Dims>("starts");
  const Dims& steps = context.attrs.get<Dims>("strides");
  const Dims strides = row_major_strides(in.shape);
  gather_elements(in, context.outputs[0], [&](const Dims& at) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < at.size(); ++d) offset += strides[d] * (starts[d] + at[d] * steps[d]);
    return offset;
  });
}

Attrs localize_slice(const LocalizeContext& context) {
  Dims limits = context.attrs.get<Dims>("limits");
  for (std::size_t d = 0; d < limits.size(); ++d) {
    if (takes_all(context.attrs, context.inputs[0].shape, d)) limits[d] = context.local_inputs[0].shape[d];
  }
  Attrs attrs = context.attrs;
  attrs.set("limits", std::move(limits));
  return attrs;
}

ShardingRule slice_rule(const RuleContext& context) {
  const Shape& in = context.inputs[0].shape;
  ShardingRule rule;
  TensorFactors operand;
  TensorFactors result;
  for (std::size_t d = 0; d < in.size(); ++d) {
    const bool whole = takes_all(context.attrs, in, d);
    const int factor = rule.add_factor(in[d], whole ? FactorKind::kPassThrough : FactorKind::kRearranged);
    operand.push_back({factor});
    result.push_back({factor});
  }
  rule.operands.push_back(std::move(operand));
  rule.results.push_back(std::move(result));
  return rule;
}

Rearrangement rearrange_slice(const RuleContext& context, std::size_t dim) {
  Dims starts = context.attrs.get<Dims>("starts");
  Dims limits = context.attrs.get<Dims>("limits");
  Dims strides = context.attrs.get<Dims>("strides");
  const std::int64_t extent = context.outputs[0].shape[dim];
  const Run run{.count = extent, .in_start = starts[dim], .in_step = strides[dim]};
  starts[dim] = 0;
  limits[dim] = extent;
  strides[dim] = 1;
  Attrs rest = context.attrs;
  rest.set("starts", std::move(starts));
  rest.set("limits", std::move(limits));
  rest.set("strides", std::move(strides));
  Rearrangement sliced{.runs = {run}};
  for (std::size_t d = 0; d < rest.get<Dims>("starts").size(); ++d) {
    if (d != dim && !takes_all(rest, context.inputs[0].shape, d)) sliced.rest = rest;
  }
  return sliced;
}

// ---- Simplifications.

// The equation of the same op that makes the operand, or nullptr.
const Eqn* inner_of(const Eqn& eqn, const Makers& makers) {
  const Eqn* inner = makers.of(eqn.inputs[0]);
  return inner != nullptr && inner->op == eqn.op ? inner : nullptr;
}

std::optional<ValueId> simplify_transpose(Eqn& eqn, const Makers& makers) {
  Dims perm = eqn.attrs.get<Dims>("perm");
  if (const Eqn* inner = inner_of(eqn, makers)) {
    const Dims& first = inner->attrs.get<Dims>("perm");
    for (std::int64_t& d : perm) d = first[static_cast<std::size_t>(d)];
    eqn.inputs = inner->inputs;
    eqn.attrs.set("perm", perm);
  }
  for (std::size_t i = 0; i < perm.size(); ++i) {
    if (perm[i] != static_cast<std::int64_t>(i)) return std::nullopt;
  }
  return eqn.inputs[0];
}

std::optional<ValueId> simplify_reshape(Eqn& eqn, const Makers& makers) {
  if (const Eqn* inner = inner_of(eqn, makers)) eqn.inputs = inner->inputs;
  return eqn.inputs[0];
}

std::optional<ValueId> simplify_broadcast(Eqn& eqn, const Makers& makers) {
  if (const Eqn* inner = inner_of(eqn, makers)) {
    Dims dims = inner->attrs.get<Dims>("dims");
    const Dims& outer = eqn.attrs.get<Dims>("dims");
    for (std::int64_t& d : dims) d = outer[static_cast<std::size_t>(d)];
    eqn.inputs = inner->inputs;
    eqn.attrs.set("dims", std::move(dims));
  }
  // Of equal shapes it is the identity: dimensions are in ascending order.
  return eqn.inputs[0];
}

// The operand of a concatenation that a slice lies in; the slice then begins there.
std::optional<ValueId> operand_of_slice(const Eqn& whole, const Makers& makers, Dims& starts, Dims& limits) {
  const auto dim = static_cast<std::size_t>(whole.attrs.get<std::int64_t>("dim"));
  for (const ValueId operand : whole.inputs) {
    const std::int64_t extent = makers.type(operand).shape[dim];
    if (starts[dim] >= 0 && limits[dim] <= extent) return operand;
    starts[dim] -= extent;
    limits[dim] -= extent;
  }
  return std::nullopt;
}

// A part of what was put together is one of what it was made of.
std::optional<ValueId> simplify_slice(Eqn& eqn, const Makers& makers) {
  for (;;) {
    const Eqn* whole = makers.of(eqn.inputs[0]);
    const bool is_together = whole != nullptr && whole->op->name == "concatenate";
    if (!is_together || makers.type(eqn.inputs[0]).explicit_axes) break;
    Dims starts = eqn.attrs.get<Dims>("starts");
    Dims limits = eqn.attrs.get<Dims>("limits");
    const std::optional<ValueId> operand = operand_of_slice(*whole, makers, starts, limits);
    if (!operand) break;
    eqn.inputs[0] = *operand;
    eqn.attrs.set("starts", std::move(starts));
    eqn.attrs.set("limits", std::move(limits));
  }
  return eqn.inputs[0];  // Of everything, if shapes are equal.
}

// ---- Derivatives.

std::vector<MaybeValue> transpose_broadcast(const TransposeContext& context) {
  const Shape& in = context.operands[0].shape;
  const Dims& dims = context.attrs.get<Dims>("dims");
  const Shape& out = context.results[0].shape;
  Dims repeated;
  for (std::size_t d = 0; d < out.size(); ++d) {
    const auto from = std::ranges::find(dims, static_cast<std::int64_t>(d));
    const bool expands = from == dims.end() || (in[static_cast<std::size_t>(from - dims.begin())] == 1 && out[d] != 1);
    if (expands) repeated.push_back(static_cast<std::int64_t>(d));
  }
  ValueId cotangent = context.cotangent();
  if (!repeated.empty()) cotangent = context.build.reduce(ReduceKind::kSum, cotangent, repeated);
  if (context.build.type(cotangent).shape != in) cotangent = context.build.reshape(cotangent, in);
  return {cotangent};
}

std::vector<MaybeValue> transpose_reshape(const TransposeContext& context) {
  return {context.build.reshape(context.cotangent(), context.operands[0].shape)};
}

std::vector<MaybeValue> transpose_transpose(const TransposeContext& context) {
  const Dims& perm = context.attrs.get<Dims>("perm");
  Dims inverse(perm.size());
  for (std::size_t i = 0; i < perm.size(); ++i)
    inverse[static_cast<std::size_t>(perm[i])] = static_cast<std::int64_t>(i);
  return {context.build.transpose(context.cotangent(), std::move(inverse))};
}

std::vector<MaybeValue> transpose_slice(const TransposeContext& context) {
  const Shape& in = context.operands[0].shape;
  const Shape& out = context.results[0].shape;
  const Dims& strides = context.attrs.get<Dims>("strides");
  Dims low = context.attrs.get<Dims>("starts");
  Dims high;
  Dims interior;
  for (std::size_t d = 0; d < in.size(); ++d) {
    const std::int64_t covered = out[d] == 0 ? 0 : (out[d] - 1) * strides[d] + 1;
    high.push_back(in[d] - low[d] - covered);
    interior.push_back(strides[d] - 1);
  }
  const ValueId zero = context.build.constant(0, context.operands[0].dtype);
  return {context.build.pad(context.cotangent(), zero, std::move(low), std::move(high), std::move(interior))};
}

// Of what says something of its operand to derivatives or checks.
std::vector<Type> infer_same(const InferContext& context) { return {context.inputs[0]}; }

// Says something of keys to debug::check_key_reuse, and nothing afterwards.
constexpr OpDef key_mark(std::string_view name, std::string_view doc, bool uses_keys) {
  return {.name = name,
          .doc = doc,
          .op_class = OpClass::kTyping,
          .infer = infer_same,
          .rule = pointwise_rule,
          .reference = reshape,
          .simplify = simplify_identity,
          .is_flat = true,
          .attributes = {{.name = "function", .role = AttrRole::kLabel}},
          .takes_keys = true,
          .uses_keys = uses_keys};
}

const std::array kMovementOps = {
    key_mark("use_key", "The operand, keys that are used here.", true),
    key_mark("clone_key", "The operand, as keys of their own.", false),
    OpDef{.name = "broadcast_in_dim",
          .doc = "The operand repeated to `shape`; its dimension i becomes dimension dims[i] of the result.",
          .infer = infer_broadcast,
          .rule = broadcast_rule,
          .localize = localize_shape,
          .reference = broadcast,
          .simplify = simplify_broadcast,
          .linear = Linear::kMoved,
          .transpose = transpose_broadcast,
          .attributes = {{.name = "shape", .role = AttrRole::kExtents, .of = AttrFact::kResult},
                         {.name = "dims", .role = AttrRole::kDimOfEach, .of = AttrFact::kResult, .from = 0}}},
    OpDef{.name = "reshape",
          .doc = "The operand's elements, in row-major order, under another shape.",
          .infer = infer_reshape,
          .rule = reshape_rule,
          .localize = localize_shape,
          .reference = reshape,
          .simplify = simplify_reshape,
          .linear = Linear::kMoved,
          .transpose = transpose_reshape,
          .keeps_order = true,
          .attributes = {{.name = "shape", .role = AttrRole::kExtents, .of = AttrFact::kResult}}},
    OpDef{.name = "transpose",
          .doc = "The operand with its dimensions in the order of `perm`.",
          .infer = infer_transpose,
          .rule = transpose_rule,
          .reference = transpose,
          .simplify = simplify_transpose,
          .linear = Linear::kMoved,
          .transpose = transpose_transpose,
          .attributes = {{.name = "perm", .role = AttrRole::kDimOfEach, .of = 0, .from = AttrFact::kResult}}},
    OpDef{.name = "stop_gradient",
          .doc = "The operand, as a constant to derivatives.",
          .op_class = OpClass::kTyping,
          .infer = infer_same,
          .rule = pointwise_rule,
          .reference = reshape,
          .simplify = simplify_identity,
          .is_flat = true,
          .keeps_order = true},
    OpDef{.name = "checkpoint_name",
          .doc = "The operand, which has `name` for what derivatives keep.",
          .op_class = OpClass::kTyping,
          .infer = infer_same,
          .rule = pointwise_rule,
          .reference = reshape,
          .simplify = simplify_identity,
          // Tangents have no name.
          .jvp = [](const JvpContext& context) { return std::vector<MaybeValue>{context.tangents[0]}; },
          .keeps_order = true,
          // `of_policy`: nobody but a policy knows of it.
          .attributes = {{.name = "name"}, {.name = "of_policy"}},
          .takes_keys = true},
    OpDef{.name = "slice",
          .doc = "Every strides[d]-th element from starts[d] up to limits[d] of each dimension.",
          .infer = infer_slice,
          .rule = slice_rule,
          .localize = localize_slice,
          .rearrange = rearrange_slice,
          .reference = slice,
          .simplify = simplify_slice,
          .linear = Linear::kMoved,
          .transpose = transpose_slice,
          .attributes = {{.name = "starts", .role = AttrRole::kPerDim},
                         {.name = "limits", .role = AttrRole::kExtents},
                         {.name = "strides", .role = AttrRole::kPerDim, .neutral = 1}}},
};

}  // namespace

std::span<const OpDef> movement_ops() { return kMovementOps; }

}  // namespace shoal
