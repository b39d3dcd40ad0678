// Reductions over dimensions.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <type_traits>

#include "base/check.h"
#include "core/dispatch.h"
#include "ops/derivatives.h"
#include "ops/reduction.h"
#include "ops/rules.h"
#include "ops/scalar/core_ops.h"
#include "ops/table.h"

namespace shoal {
namespace {

bool is_kept(const Dims& axes, std::size_t d) {
  return std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(d)) == axes.end();
}

template <ReduceKind kKind>
std::vector<Type> infer_reduce(const InferContext& context) {
  const Type& in = context.inputs[0];
  const Dims& axes = checked_dims(context, "axes");
  if constexpr (kKind == ReduceKind::kAnd || kKind == ReduceKind::kOr) {
    if (in.dtype != bool_ && !is_integer(in.dtype)) {
      infer_error(context, fmt::format("takes bool and integer operands, not {}", to_string(in)));
    }
  } else if constexpr (kKind == ReduceKind::kMax || kKind == ReduceKind::kMin) {
    check_ordered(context, in);
    for (std::int64_t d : axes) {
      if (in.shape[static_cast<std::size_t>(d)] == 0) {
        infer_error(context, fmt::format("axis {} of operand {} has no elements, and there is no neutral element", d,
                                         to_string(in)));
      }
    }
  }
  Shape shape;
  for (std::size_t d = 0; d < in.rank(); ++d) {
    if (is_kept(axes, d)) shape.push_back(in.shape[d]);
  }
  Type type = like_operands(context, std::move(shape));
  if (const auto* dtype = context.attrs.find_as<Dtype>("dtype")) type.dtype = *dtype;
  return {std::move(type)};
}

template <ReduceKind kKind>
void reduce(const KernelContext& context) {
  const TensorView& in = context.inputs[0];
  const TensorView& out = context.outputs[0];
  const Dims& axes = context.attrs.get<Dims>("axes");
  const Dims out_strides = row_major_strides(out.shape);
  // The offset in the result of each input dimension; reduced ones do not move.
  Dims strides(in.shape.size(), 0);
  std::size_t next = 0;
  for (std::size_t d = 0; d < in.shape.size(); ++d) {
    if (is_kept(axes, d)) strides[d] = out_strides[next++];
  }
  with_element_type(in.dtype, [&](auto tag) {
    using T = decltype(tag);
    using Sum = Accumulator<T>;
    const auto count = static_cast<std::size_t>(num_elements(out.shape));
    const auto sums = std::make_unique<Sum[]>(count);  // Not a vector: that of bool has no elements to refer to.
    std::fill_n(sums.get(), count, neutral_element<Sum>(kKind));
    for_each_index(in.shape, [&](std::int64_t i, const Dims& at) {
      std::int64_t offset = 0;
      for (std::size_t d = 0; d < at.size(); ++d) offset += strides[d] * at[d];
      Sum& sum = sums[static_cast<std::size_t>(offset)];
      sum = reduce_two(kKind, sum, static_cast<Sum>(in.as<T>()[i]));
    });
    with_element_type(out.dtype, [&](auto out_tag) {
      using Out = decltype(out_tag);
      for (std::size_t i = 0; i < count; ++i) out.as<Out>()[i] = from_accumulator<Out>(sums[i]);
    });
  });
}

template <ReduceKind kKind>
ShardingRule reduce_rule(const RuleContext& context) {
  ShardingRule rule;
  rule.reduction = kKind;
  const Shape& in = context.inputs[0].shape;
  const Dims& axes = context.attrs.get<Dims>("axes");
  rule.operands.push_back(own_factors(rule, in));
  TensorFactors result;
  for (std::size_t d = 0; d < in.size(); ++d) {
    if (is_kept(axes, d)) {
      result.push_back(rule.operands[0][d]);
    } else {
      rule.factors[d].kind = FactorKind::kReduction;
    }
  }
  rule.results.push_back(std::move(result));
  return rule;
}

// ---- Derivatives.

Dims kept_dims(std::size_t rank, const Dims& axes) {
  Dims kept;
  for (std::size_t d = 0; d < rank; ++d) {
    if (std::ranges::find(axes, static_cast<std::int64_t>(d)) == axes.end())
      kept.push_back(static_cast<std::int64_t>(d));
  }
  return kept;
}

// A result of a reduction, repeated for the elements that it was made of.
ValueId repeated(Builder& build, ValueId reduced, const Type& operand, const Dims& axes) {
  if (build.type(reduced).dtype != operand.dtype) reduced = build.convert(reduced, operand.dtype);
  return build.broadcast_in_dim(reduced, operand.shape, kept_dims(operand.rank(), axes));
}

std::vector<MaybeValue> transpose_sum(const TransposeContext& context) {
  return {repeated(context.build, context.cotangent(), context.operands[0], context.attrs.get<Dims>("axes"))};
}

// The mean of the tangents of those elements that are the greatest or least.
std::vector<MaybeValue> jvp_of_extremum(const JvpContext& context) {
  Builder& build = context.build;
  const Type& operand = context.operands[0];
  const Dims& axes = context.attrs.get<Dims>("axes");
  const ValueId chosen =
      build.equal(context.primals.operand(0), repeated(build, context.primals.result(0), operand, axes));
  const ValueId count = build.reduce(ReduceKind::kSum, build.convert(chosen, operand.dtype), axes);
  const ValueId tangents = build.select(chosen, *context.tangents[0], build.constant(0, operand.dtype));
  return {build.divide(build.reduce(ReduceKind::kSum, tangents, axes), count)};
}

// The products of the elements before each along the last dimension, or after it.
ValueId exclusive_product(Builder& build, ValueId x, bool reverse) {
  const Type type = build.type(x);
  const std::size_t rank = type.rank();
  const std::size_t last = rank - 1;
  Attrs attrs = {{"dim", static_cast<std::int64_t>(last)}, {"reverse", reverse}};
  const ValueId inclusive = build.apply("cumprod", std::move(attrs), {x});
  Dims low(rank, 0);
  Dims high(rank, 0);
  low[last] = reverse ? -1 : 1;
  high[last] = reverse ? 1 : -1;
  return build.pad(inclusive, build.constant(1, type.dtype), std::move(low), std::move(high), Dims(rank, 0));
}

// Of each element, times the product of all others, without a division, as there may be zeros.
std::vector<MaybeValue> jvp_of_product(const JvpContext& context) {
  Builder& build = context.build;
  const Dims& axes = context.attrs.get<Dims>("axes");
  const Shape& shape = context.operands[0].shape;
  Dims order = kept_dims(shape.size(), axes);
  Shape flat;
  for (const std::int64_t d : order) flat.push_back(shape[static_cast<std::size_t>(d)]);
  std::int64_t size = 1;
  for (const std::int64_t d : axes) {
    order.push_back(d);
    size *= shape[static_cast<std::size_t>(d)];
  }
  flat.push_back(size);
  const auto in_rows = [&](ValueId x) { return build.reshape(build.transpose(x, order), flat); };
  const ValueId x = in_rows(context.primals.operand(0));
  const ValueId others = build.multiply(exclusive_product(build, x, false), exclusive_product(build, x, true));
  const ValueId terms = build.multiply(in_rows(*context.tangents[0]), others);
  ValueId tangent = build.reduce(ReduceKind::kSum, terms, {static_cast<std::int64_t>(flat.size() - 1)});
  if (build.type(tangent).dtype != context.results[0].dtype) tangent = build.convert(tangent, context.results[0].dtype);
  return {tangent};
}

constexpr auto jvp_of(ReduceKind kind) {
  const bool orders = kind == ReduceKind::kMax || kind == ReduceKind::kMin;
  return orders ? jvp_of_extremum : kind == ReduceKind::kProd ? jvp_of_product : nullptr;
}

template <ReduceKind kKind>
OpDef reduction(std::string_view name, std::string_view doc) {
  return {.name = name,
          .doc = doc,
          .infer = infer_reduce<kKind>,
          .rule = reduce_rule<kKind>,
          .reference = reduce<kKind>,
          .flops = reduction_flops,
          .linear = kKind == ReduceKind::kSum ? Linear::kTogether : Linear::kNo,
          .jvp = jvp_of(kKind),
          .transpose = kKind == ReduceKind::kSum ? transpose_sum : nullptr,
          .reduces = kKind,
          .attributes = {{.name = "axes", .role = AttrRole::kDims}, {.name = "dtype"}}};
}

const std::array kReduceOps = {
    reduction<ReduceKind::kSum>("reduce_sum", "The sum over `axes`."),
    reduction<ReduceKind::kProd>("reduce_prod", "The product over `axes`."),
    reduction<ReduceKind::kMax>("reduce_max", "The greatest element over `axes`; NaN if there is one."),
    reduction<ReduceKind::kMin>("reduce_min", "The least element over `axes`; NaN if there is one."),
    reduction<ReduceKind::kAnd>("reduce_and", "The bitwise conjunction over `axes`."),
    reduction<ReduceKind::kOr>("reduce_or", "The bitwise disjunction over `axes`."),
};

}  // namespace

std::span<const OpDef> reduce_ops() { return kReduceOps; }

void combine(ReduceKind kind, Dtype dtype, const void* lhs, const void* rhs, void* out, std::int64_t n) {
  with_element_type(dtype, [&](auto tag) {
    using T = decltype(tag);
    using Sum = CombineType<T>;
    const auto* a = static_cast<const T*>(lhs);
    const auto* b = static_cast<const T*>(rhs);
    auto* result = static_cast<T*>(out);
    // The kind is a constant of the loop, or the compiler would not vectorise it.
    with_kind(kind, [&](auto constant) {
      for (std::int64_t i = 0; i < n; ++i) {
        result[i] = from_accumulator<T>(reduce_two(constant(), static_cast<Sum>(a[i]), static_cast<Sum>(b[i])));
      }
    });
  });
}

std::uint64_t neutral_bits(ReduceKind kind, Dtype dtype) {
  return with_element_type(dtype, [kind]<class T>(T) -> std::uint64_t {
    if constexpr (scalar::core_ops::Real<T>) {
      return std::bit_cast<scalar::core_ops::Bits<T>>(T(neutral_element<CombineType<T>>(kind)));
    } else {
      throw InternalError("a reduced scalar is real");
    }
  });
}

void fill_neutral(ReduceKind kind, Dtype dtype, void* out, std::int64_t n) {
  with_element_type(dtype, [&](auto tag) {
    using T = decltype(tag);
    std::fill_n(static_cast<T*>(out), n, from_accumulator<T>(neutral_element<CombineType<T>>(kind)));
  });
}

}  // namespace shoal
