// Ops that put elements in order: sort, top_k.
//
// The order is that of NumPy: NaNs are equal and greater than all numbers, both zeros are equal, and complex numbers
// are compared by their real parts, then by their imaginary ones.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>

#include "core/dispatch.h"
#include "ops/derivatives.h"
#include "ops/rules.h"
#include "ops/table.h"

namespace shoal {
namespace {

// Negative, zero or positive as a comes before, with or after b.
template <class T>
int compared(T a, T b) {
  if constexpr (kIsComplexElement<T>) {
    const int real = compared(a.real(), b.real());
    return real != 0 ? real : compared(a.imag(), b.imag());
  } else if constexpr (kIsSmallFloat<T>) {
    return compared(static_cast<float>(a), static_cast<float>(b));
  } else {
    if (a < b) return -1;
    if (b < a) return 1;
    return static_cast<int>(a != a) - static_cast<int>(b != b);
  }
}

// Compares two elements of an array by their offsets.
using Comparison = std::function<int(std::int64_t, std::int64_t)>;

Comparison comparison_of(const TensorView& view) {
  return with_element_type(view.dtype, [&](auto tag) -> Comparison {
    using T = decltype(tag);
    return [data = view.as<T>()](std::int64_t a, std::int64_t b) { return compared(data[a], data[b]); };
  });
}

std::size_t checked_dim(const InferContext& context) {
  const Type& type = context.inputs[0];
  const std::int64_t dim = context.attrs.get<std::int64_t>("dim");
  if (dim < 0 || static_cast<std::size_t>(dim) >= type.rank()) {
    infer_error(context, fmt::format("dim is {}, but the operand {} has dimensions 0 to {}", dim, to_string(type),
                                     static_cast<int>(type.rank()) - 1));
  }
  return static_cast<std::size_t>(dim);
}

// The lines of an array along one dimension: calls f(offset, other_offset, stride), with the offset of the line's first
// element, that of the line with the same place in an array whose extent along the dimension is `other`, and the
// distance of its elements.
template <class F>
void for_each_line(const Shape& shape, std::size_t dim, std::int64_t other, F&& f) {
  std::int64_t inner = 1;
  for (std::size_t d = dim + 1; d < shape.size(); ++d) inner *= shape[d];
  std::int64_t outer = 1;
  for (std::size_t d = 0; d < dim; ++d) outer *= shape[d];
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t i = 0; i < inner; ++i) f(o * shape[dim] * inner + i, o * other * inner + i, inner);
  }
}

// ---- sort

std::vector<Type> infer_sort(const InferContext& context) {
  if (context.inputs.empty()) infer_error(context, "needs an operand");
  checked_dim(context);
  const std::int64_t keys = context.attrs.get<std::int64_t>("num_keys");
  if (keys < 1 || static_cast<std::size_t>(keys) > context.inputs.size()) {
    infer_error(context,
                fmt::format("num_keys is {}; it must be 1 to {}, the number of operands", keys, context.inputs.size()));
  }
  std::vector<Type> results;
  for (const Type& type : context.inputs) {
    if (type.shape != context.inputs[0].shape) {
      infer_error(context, fmt::format("all operands must have one shape, but are {} and {}",
                                       to_string(context.inputs[0]), to_string(type)));
    }
    results.push_back(like_operands(context, type.shape));
    results.back().dtype = type.dtype;
    results.back().weak = type.weak;
  }
  return results;
}

void sort(const KernelContext& context) {
  const auto dim = static_cast<std::size_t>(context.attrs.get<std::int64_t>("dim"));
  const bool descending = context.attrs.get<bool>("descending");
  std::vector<Comparison> keys;
  for (std::int64_t k = 0; k < context.attrs.get<std::int64_t>("num_keys"); ++k) {
    keys.push_back(comparison_of(context.inputs[static_cast<std::size_t>(k)]));
  }
  const auto before = [&](std::int64_t a, std::int64_t b) {
    for (const Comparison& key : keys) {
      const int order = key(a, b);
      if (order != 0) return descending ? order > 0 : order < 0;
    }
    return false;
  };
  const Shape& shape = context.inputs[0].shape;
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(shape[dim]));
  for_each_line(shape, dim, shape[dim], [&](std::int64_t first, std::int64_t, std::int64_t stride) {
    for (std::size_t i = 0; i < offsets.size(); ++i) offsets[i] = first + static_cast<std::int64_t>(i) * stride;
    std::stable_sort(offsets.begin(), offsets.end(), before);
    for (std::size_t k = 0; k < context.inputs.size(); ++k) {
      const std::size_t size = size_of(context.inputs[k].dtype);
      const auto* from = static_cast<const std::byte*>(context.inputs[k].data);
      auto* to = static_cast<std::byte*>(context.outputs[k].data);
      for (std::size_t i = 0; i < offsets.size(); ++i) {
        const auto target = static_cast<std::size_t>(first + static_cast<std::int64_t>(i) * stride);
        std::memcpy(to + target * size, from + static_cast<std::size_t>(offsets[i]) * size, size);
      }
    }
  });
}

ShardingRule sort_rule(const RuleContext& context) {
  ShardingRule rule;
  const TensorFactors factors = own_factors(rule, context.inputs[0].shape);
  rule.factors[static_cast<std::size_t>(context.attrs.get<std::int64_t>("dim"))].kind = FactorKind::kNeedReplication;
  rule.operands.assign(context.inputs.size(), factors);
  rule.results.assign(context.outputs.size(), factors);
  return rule;
}

// ---- top_k

std::vector<Type> infer_top_k(const InferContext& context) {
  const Type& in = context.inputs[0];
  const std::size_t dim = checked_dim(context);
  const std::int64_t k = context.attrs.get<std::int64_t>("k");
  check_ordered(context, in);
  if (k < 0 || k > in.shape[dim]) {
    infer_error(context, fmt::format("k is {}; it must be 0 to {}, the extent of dimension {} of operand {}", k,
                                     in.shape[dim], dim, to_string(in)));
  }
  Shape shape = in.shape;
  shape[dim] = k;
  Type values = like_operands(context, std::move(shape));
  Type positions = values;
  positions.dtype = int32;
  positions.weak = false;
  return {std::move(values), std::move(positions)};
}

void top_k(const KernelContext& context) {
  const TensorView& in = context.inputs[0];
  const auto dim = static_cast<std::size_t>(context.attrs.get<std::int64_t>("dim"));
  const std::int64_t k = context.attrs.get<std::int64_t>("k");
  const Comparison compare = comparison_of(in);
  const std::size_t size = size_of(in.dtype);
  std::vector<std::int64_t> positions(static_cast<std::size_t>(in.shape[dim]));
  for_each_line(in.shape, dim, k, [&](std::int64_t first, std::int64_t first_out, std::int64_t stride) {
    std::iota(positions.begin(), positions.end(), 0);
    std::partial_sort(positions.begin(), positions.begin() + k, positions.end(), [&](std::int64_t a, std::int64_t b) {
      const int order = compare(first + a * stride, first + b * stride);
      return order != 0 ? order > 0 : a < b;
    });
    for (std::int64_t i = 0; i < k; ++i) {
      const std::int64_t position = positions[static_cast<std::size_t>(i)];
      const auto target = static_cast<std::size_t>(first_out + i * stride);
      const auto source = static_cast<std::size_t>(first + position * stride);
      std::memcpy(static_cast<std::byte*>(context.outputs[0].data) + target * size,
                  static_cast<const std::byte*>(in.data) + source * size, size);
      context.outputs[1].as<std::int32_t>()[target] = static_cast<std::int32_t>(position);
    }
  });
}

ShardingRule top_k_rule(const RuleContext& context) {
  ShardingRule rule;
  const auto dim = static_cast<std::size_t>(context.attrs.get<std::int64_t>("dim"));
  TensorFactors factors = own_factors(rule, context.inputs[0].shape);
  rule.factors[dim].kind = FactorKind::kNeedReplication;
  rule.operands.push_back(factors);
  factors[dim] = {rule.add_factor(context.attrs.get<std::int64_t>("k"), FactorKind::kNeedReplication)};
  rule.results.assign(2, factors);
  return rule;
}

// ---- Derivatives: tangents go where their elements go.

// The elements of x at positions along a dimension.
ValueId taken_along(Builder& build, ValueId x, ValueId positions, std::int64_t dim) {
  Dims others;
  for (std::size_t d = 0; d < build.type(x).rank(); ++d) {
    if (static_cast<std::int64_t>(d) != dim) others.push_back(static_cast<std::int64_t>(d));
  }
  return build.apply("gather", {{"dims", Dims{dim}}, {"array_batch", others}, {"index_batch", others}}, {x, positions});
}

std::vector<MaybeValue> jvp_of_sort(const JvpContext& context) {
  Builder& build = context.build;
  const std::int64_t dim = context.attrs.get<std::int64_t>("dim");
  std::vector<ValueId> operands;
  for (std::size_t i = 0; i < context.operands.size(); ++i) operands.push_back(context.primals.operand(i));
  operands.push_back(build.iota(int32, context.operands[0].shape, static_cast<std::size_t>(dim)));
  const ValueId order = build.equation(context.op, context.attrs, std::move(operands)).back();
  std::vector<MaybeValue> tangents(context.results.size());
  for (std::size_t i = 0; i < tangents.size(); ++i) {
    if (context.tangents[i]) tangents[i] = taken_along(build, *context.tangents[i], order, dim);
  }
  return tangents;
}

std::vector<MaybeValue> jvp_of_top_k(const JvpContext& context) {
  const std::int64_t dim = context.attrs.get<std::int64_t>("dim");
  return {taken_along(context.build, *context.tangents[0], context.primals.result(1), dim), std::nullopt};
}

const std::array kSortOps = {
    OpDef{
        .name = "sort",
        .doc = "All operands in the order of the first `num_keys` of them along dimension `dim`; equal ones stay put.",
        .arity = -1,
        .infer = infer_sort,
        .rule = sort_rule,
        .reference = sort,
        .jvp = jvp_of_sort,
        .attributes = {{.name = "dim", .role = AttrRole::kDim}, {.name = "num_keys"}, {.name = "descending"}}},
    OpDef{.name = "top_k",
          .doc = "The `k` greatest elements along dimension `dim`, in descending order, and where they are.",
          .infer = infer_top_k,
          .rule = top_k_rule,
          .reference = top_k,
          .jvp = jvp_of_top_k,
          .attributes = {{.name = "dim", .role = AttrRole::kDim}, {.name = "k"}}},
};

}  // namespace

std::span<const OpDef> sort_ops() { return kSortOps; }

}  // namespace shoal
