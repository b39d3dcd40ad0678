// Ops that hold a graph: jit, linear_call and shard_map.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "base/misuse.h"
#include "ir/explicit_axes.h"
#include "ir/graph.h"
#include "ops/collective.h"
#include "ops/derivatives.h"
#include "ops/eqn_cost.h"
#include "ops/rules.h"
#include "ops/table.h"

namespace shoal {
namespace {

std::vector<Type> infer_jit(const InferContext& context) {
  const Graph& body = context.attrs.graph();
  if (body.inputs.size() != context.inputs.size()) {
    infer_error(context, fmt::format("graph '{}' takes {} operands, not {}", body.name, body.inputs.size(),
                                     context.inputs.size()));
  }
  for (std::size_t i = 0; i < context.inputs.size(); ++i) {
    if (equal_if_unsplit(body.type(body.inputs[i]), context.inputs[i])) continue;
    infer_error(context, fmt::format("operand {} of graph '{}' is {}, not {}", i, body.name,
                                     to_string(body.type(body.inputs[i])), to_string(context.inputs[i])));
  }
  return body.types(body.outputs);
}

std::vector<Type> infer_summed_product(const InferContext& context) {
  std::vector<Type> results = infer_jit(context);
  std::vector<std::string> axes = context.attrs.get<std::vector<std::string>>("axes");
  std::ranges::sort(axes);
  for (Type& type : results) type.varying = difference_of(type.varying, axes);
  return results;
}

// ---- linear_call

std::vector<Type> infer_linear_call(const InferContext& context) {
  if (!context.attrs.contains("transposed")) return infer_jit(context);
  const Graph& transposed = context.attrs.graph("transposed");
  std::vector<Type> results = transposed.types(transposed.inputs);
  const std::size_t num_others = context.inputs.size() - transposed.outputs.size();
  results.resize(results.size() - num_others);
  return cotangent_types(std::move(results));
}

std::vector<MaybeValue> transpose_linear_call(const TransposeContext& context) {
  const Graph& transposed = context.attrs.graph("transposed");
  const std::size_t count = transposed.outputs.size();
  std::vector<ValueId> operands;
  for (std::size_t i = 0; i < context.results.size(); ++i) {
    operands.push_back(context.build.with_weakness(context.cotangent(i), context.results[i].weak));
  }
  for (std::size_t i = count; i < context.operands.size(); ++i) {
    if (context.wants(i)) throw misuse<Unsupported>("operand {} of a linear_call is one that it is not linear in", i);
    operands.push_back(*context.values[i]);
  }
  // What has a body is the transpose of its transpose.
  std::vector<ValueId> made;
  if (context.attrs.contains("body")) {
    Attrs attrs{{"body", context.attrs.get<GraphAttr>("transposed")},
                {"transposed", context.attrs.get<GraphAttr>("body")}};
    made = context.build.equation(context.op, std::move(attrs), std::move(operands));
  } else {
    made = context.build.inlined(transposed, operands);
  }
  std::vector<MaybeValue> cotangents(made.begin(), made.end());
  cotangents.resize(context.operands.size());
  return cotangents;
}

// ---- shard_map

// The global extent of each dimension for the local ones, or the other way round.
Shape scaled(const Shape& shape, const Mesh& mesh, const PartitionSpec& spec, bool to_global) {
  Shape result = shape;
  for (std::size_t d = 0; d < spec.size(); ++d) {
    for (const std::string& axis : spec[d].axes()) {
      const std::int64_t size = mesh.axis_size(axis);
      if (!to_global) {
        result[d] /= size;
      } else if (__builtin_mul_overflow(result[d], size, &result[d])) {
        result[d] = std::numeric_limits<std::int64_t>::max();  // Too large for any array.
      }
    }
  }
  return result;
}

// The Explicit axes that split a result outside: first those of the spec, then those that went on inside.
std::optional<ExplicitAxes> joined_axes(const Type& inside, const Mesh& mesh, const PartitionSpec& spec,
                                        const SourceLocation& where) {
  std::optional<ExplicitAxes> axes = explicit_axes_of(NamedSharding(mesh, spec, {}, where), inside.rank());
  if (!axes || !inside.explicit_axes) return axes;
  for (std::size_t d = 0; d < axes->dims.size(); ++d) {
    const std::vector<std::string>& more = inside.explicit_axes->dims[d];
    axes->dims[d].insert(axes->dims[d].end(), more.begin(), more.end());
  }
  axes->unreduced = union_of(axes->unreduced, inside.explicit_axes->unreduced);
  axes->reduced = union_of(axes->reduced, inside.explicit_axes->reduced);
  return axes;
}

std::vector<Type> infer_shard_map(const InferContext& context) {
  const Graph& body = context.attrs.graph();
  const Mesh& mesh = context.attrs.get<Mesh>("mesh");
  const auto& in_specs = context.attrs.get<std::vector<PartitionSpec>>("in_specs");
  const auto& out_specs = context.attrs.get<std::vector<PartitionSpec>>("out_specs");
  if (in_specs.size() != context.inputs.size() || body.inputs.size() != context.inputs.size() ||
      out_specs.size() != body.outputs.size()) {
    infer_error(context, "needs one spec for each operand and result of its graph");
  }
  // Programs that were stored may say anything.
  const auto check_rank = [&](const PartitionSpec& spec, const Type& type) {
    if (spec.size() <= type.rank()) return;
    infer_error(context,
                fmt::format("the spec {} has more entries than {} has dimensions", to_string(spec), to_string(type)));
  };
  for (std::size_t i = 0; i < in_specs.size(); ++i) {
    check_rank(in_specs[i], context.inputs[i]);
    const Shape local = scaled(context.inputs[i].shape, mesh, in_specs[i], false);
    if (local != body.type(body.inputs[i]).shape) {
      infer_error(context, fmt::format("operand {} {} under {} does not give the graph's input {}", i,
                                       to_string(context.inputs[i]), to_string(in_specs[i]),
                                       to_string(body.type(body.inputs[i]))));
    }
  }
  AxisNames manual = context.attrs.get<std::vector<std::string>>("axes");
  std::sort(manual.begin(), manual.end());
  std::vector<Type> results = body.types(body.outputs);
  for (std::size_t i = 0; i < results.size(); ++i) {
    check_rank(out_specs[i], results[i]);
    results[i].shape = scaled(results[i].shape, mesh, out_specs[i], true);
    results[i].varying = difference_of(results[i].varying, manual);
    results[i].summands = difference_of(results[i].summands, manual);
    results[i].reduced = difference_of(results[i].reduced, manual);
    results[i].explicit_axes = joined_axes(results[i], mesh, out_specs[i], context.where);
  }
  return results;
}

double flops_inside(const RuleContext& context) {
  double count = 0;
  const Graph& body = context.attrs.graph();
  for (const Eqn& eqn : body.eqns) count += flops(body, eqn);
  return count;
}

const std::array kCallOps = {
    OpDef{.name = "jit",
          .doc = "Calls the graph `body`.",
          .arity = -1,
          .op_class = OpClass::kCall,
          .infer = infer_jit,
          // Where there are `saves`, a derivative keeps of the values inside those that these ops give, and computes
          // others again. Where there are `rules`, it asks these, whatever the body is.
          .attributes = {{.name = "body"},
                         {.name = "name", .role = AttrRole::kLabel},
                         {.name = "rules", .role = AttrRole::kLabel},
                         {.name = "saves"}}},
    OpDef{.name = "linear_call",
          .doc = "Calls the graph `body`, which is linear in the first operands, and whose transpose is `transposed`: "
                 "a graph of the cotangents of its results, then of the other operands, that gives those of the first "
                 "ones. Without a `body` it can only be transposed.",
          .arity = -1,
          .op_class = OpClass::kCall,
          .infer = infer_linear_call,
          .transpose = transpose_linear_call,
          // Where there are `rules`, the transpose is what these give (`on_tangents`) for the cotangents that there
          // are, of which they are told, and for the other operands; `transposed` has the types of all of them.
          .attributes = {{.name = "body"}, {.name = "transposed"}, {.name = "rules", .role = AttrRole::kLabel}}},
    OpDef{.name = "fusion",
          .doc = "Computes the graph `body` in one loop. Back ends make it of partitioned graphs.",
          .arity = -1,
          .infer = infer_jit,
          .flops = flops_inside,
          .attributes = {{.name = "body"}}},
    OpDef{.name = "summed_product",
          .doc =
              "The sum over the devices along `axes` of the products that the graph `body` computes. Back ends make it "
              "of partitioned graphs.",
          .arity = -1,
          .op_class = OpClass::kCollective,
          .infer = infer_summed_product,
          .flops = flops_inside,
          .collective =
              CollectiveFacts{
                  .gives = CollectiveFacts::Gives::kSame, .computes = true, .received_bytes = received_of_all_reduce},
          .attributes = {{.name = "body"}, {.name = "axes"}}},
    OpDef{.name = "shard_map",
          .doc = "Runs the graph `body` on every device along `axes` of `mesh`, on the shards that `in_specs` give.",
          .arity = -1,
          .op_class = OpClass::kRegion,
          .infer = infer_shard_map,
          .attributes = {{.name = "body"},
                         {.name = "mesh"},
                         {.name = "axes"},
                         {.name = "in_specs"},
                         {.name = "out_specs"},
                         {.name = "unchecked"}}},
};

}  // namespace

std::span<const OpDef> call_ops() { return kCallOps; }

}  // namespace shoal
