// Cumulative reductions: each element becomes the reduction of those up to it, along one dimension.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>

#include "core/dispatch.h"
#include "ops/derivatives.h"
#include "ops/reduction.h"
#include "ops/rules.h"
#include "ops/table.h"

namespace shoal {
namespace {

Type checked_operand(const InferContext& context) {
  const Type& in = context.inputs[0];
  const std::int64_t dim = context.attrs.get<std::int64_t>("dim");
  if (dim < 0 || static_cast<std::size_t>(dim) >= in.rank()) {
    infer_error(context, fmt::format("dim is {}, but the operand {} has dimensions 0 to {}", dim, to_string(in),
                                     static_cast<int>(in.rank()) - 1));
  }
  return like_operands(context, in.shape);
}

template <ReduceKind kKind>
std::vector<Type> infer_cumulative(const InferContext& context) {
  const Type& in = context.inputs[0];
  if (kKind == ReduceKind::kMax || kKind == ReduceKind::kMin) check_ordered(context, in);
  return {checked_operand(context)};
}

std::vector<Type> infer_cumlogsumexp(const InferContext& context) {
  const Type& in = context.inputs[0];
  if (!is_floating(in.dtype)) infer_error(context, fmt::format("takes floats, not {}", to_string(in)));
  return {checked_operand(context)};
}

// Replaces what is carried along each line by step(carried, element), and writes it down.
template <class Carried, class T, class Step>
void accumulate(const KernelContext& context, Step&& step) {
  const TensorView& in = context.inputs[0];
  const auto dim = static_cast<std::size_t>(context.attrs.get<std::int64_t>("dim"));
  const bool reverse = context.attrs.get<bool>("reverse");
  const std::int64_t extent = in.shape[dim];
  if (extent == 0) return;
  const Dims strides = row_major_strides(in.shape);
  Shape lines = in.shape;
  lines[dim] = 1;
  for_each_index(lines, [&](std::int64_t, const Dims& at) {
    std::int64_t start = 0;
    for (std::size_t d = 0; d < at.size(); ++d) start += at[d] * strides[d];
    Carried carried{};
    for (std::int64_t i = 0; i < extent; ++i) {
      const std::int64_t offset = start + (reverse ? extent - 1 - i : i) * strides[dim];
      const auto element = static_cast<Carried>(in.as<T>()[offset]);
      carried = i == 0 ? element : step(carried, element);
      context.outputs[0].as<T>()[offset] = from_accumulator<T>(carried);
    }
  });
}

template <ReduceKind kKind>
void cumulative(const KernelContext& context) {
  with_element_type(context.inputs[0].dtype, [&](auto tag) {
    using T = decltype(tag);
    using Sum = Accumulator<T>;
    accumulate<Sum, T>(context, [](Sum a, Sum b) { return reduce_two(kKind, a, b); });
  });
}

// log(exp(a) + exp(b)), which neither overflows nor loses the smaller one early.
double log_add(double a, double b) {
  const double greater = reduce_two(ReduceKind::kMax, a, b);
  if (std::isinf(greater) || std::isnan(greater)) return greater;
  return greater + std::log1p(std::exp(-std::abs(a - b)));
}

void cumlogsumexp(const KernelContext& context) {
  with_element_type(context.inputs[0].dtype, [&](auto tag) {
    using T = decltype(tag);
    if constexpr (std::is_same_v<Accumulator<T>, double>) {
      accumulate<double, T>(context, log_add);
    }
  });
}

ShardingRule rule_with(const RuleContext& context, FactorKind kind) {
  ShardingRule rule = pointwise_rule(context);
  rule.factors[static_cast<std::size_t>(context.attrs.get<std::int64_t>("dim"))].kind = kind;
  return rule;
}

template <ReduceKind kKind>
ShardingRule cumulative_rule(const RuleContext& context) {
  ShardingRule rule = rule_with(context, FactorKind::kCumulative);
  rule.reduction = kKind;
  return rule;
}

// No reduction of the compiler's combines what shards have.
ShardingRule cumlogsumexp_rule(const RuleContext& context) { return rule_with(context, FactorKind::kNeedReplication); }

// ---- Derivatives.

std::vector<MaybeValue> transpose_cumsum(const TransposeContext& context) {
  Attrs attrs = context.attrs;
  attrs.set("reverse", !attrs.get<bool>("reverse"));
  return {context.build.apply(context.op.name, std::move(attrs), {context.cotangent()})};
}

struct ValueAndTangent {
  ValueId value;
  ValueId tangent;
};

// A scan by doubling (Hillis & Steele, 1986) of an associative function of values and their tangents, which is linear
// in the latter; of (neutral, 0) and x it is x.
template <class F>
ValueId scanned_tangent(const JvpContext& context, double neutral, F&& combine) {
  Builder& build = context.build;
  const auto dim = static_cast<std::size_t>(context.attrs.get<std::int64_t>("dim"));
  const bool reverse = context.attrs.get<bool>("reverse");
  const Type type = context.operands[0];
  const ValueId first = build.full(Scalar::of(neutral).converted_to(type.dtype));
  const ValueId zero = build.constant(0, type.dtype);
  ValueAndTangent all{context.primals.operand(0), *context.tangents[0]};
  for (std::int64_t step = 1; step < type.shape[dim]; step *= 2) {
    Dims low(type.rank(), 0);
    Dims high(type.rank(), 0);
    low[dim] = reverse ? -step : step;
    high[dim] = -low[dim];
    const Dims interior(type.rank(), 0);
    const ValueAndTangent before{build.pad(all.value, first, low, high, interior),
                                 build.pad(all.tangent, zero, low, high, interior)};
    all = combine(build, before, all);
  }
  return all.tangent;
}

std::vector<MaybeValue> jvp_of_cumprod(const JvpContext& context) {
  return {scanned_tangent(context, 1, [](Builder& build, ValueAndTangent a, ValueAndTangent b) {
    return ValueAndTangent{build.multiply(a.value, b.value),
                           build.add(build.multiply(a.tangent, b.value), build.multiply(b.tangent, a.value))};
  })};
}

// Of equal elements the first one counts.
template <ReduceKind kKind>
std::vector<MaybeValue> jvp_of_extremes(const JvpContext& context) {
  const double infinity = std::numeric_limits<double>::infinity();
  return {scanned_tangent(context, kKind == ReduceKind::kMax ? -infinity : infinity,
                          [](Builder& build, ValueAndTangent a, ValueAndTangent b) {
                            const ValueId value = build.combine(kKind, a.value, b.value);
                            const ValueId is_first = build.equal(a.value, value);
                            return ValueAndTangent{value, build.select(is_first, a.tangent, b.tangent)};
                          })};
}

std::vector<MaybeValue> jvp_of_cumlogsumexp(const JvpContext& context) {
  const double nothing = -std::numeric_limits<double>::infinity();
  return {scanned_tangent(context, nothing, [](Builder& build, ValueAndTangent a, ValueAndTangent b) {
    const ValueId value = build.elementwise("logaddexp", {a.value, b.value});
    const auto part = [&](ValueAndTangent one) {
      const ValueId difference = build.subtract(one.value, value);
      const ValueId zero = build.constant(0, build.type(value).dtype);
      const ValueId weight = build.elementwise("exp", {build.select(build.equal(one.value, value), zero, difference)});
      return build.multiply(one.tangent, weight);
    };
    return ValueAndTangent{value, build.add(part(a), part(b))};
  })};
}

template <ReduceKind kKind>
constexpr auto jvp_of_cumulative() {
  if constexpr (kKind == ReduceKind::kProd) return jvp_of_cumprod;
  if constexpr (kKind == ReduceKind::kMax || kKind == ReduceKind::kMin) return jvp_of_extremes<kKind>;
  if constexpr (kKind == ReduceKind::kSum) return nullptr;
}

template <ReduceKind kKind>
OpDef cumulative_op(std::string_view name, std::string_view doc) {
  return {.name = name,
          .doc = doc,
          .infer = infer_cumulative<kKind>,
          .rule = cumulative_rule<kKind>,
          .reference = cumulative<kKind>,
          .linear = kKind == ReduceKind::kSum ? Linear::kTogether : Linear::kNo,
          .jvp = jvp_of_cumulative<kKind>(),
          .transpose = kKind == ReduceKind::kSum ? transpose_cumsum : nullptr,
          .takes_whole_sums = true,  // What shards give each other must be complete.
          .attributes = {{.name = "dim", .role = AttrRole::kDim}, {.name = "reverse"}}};
}

const std::array kCumulativeOps = {
    cumulative_op<ReduceKind::kSum>("cumsum", "The sum of the elements up to each along `dim`, or from it on."),
    cumulative_op<ReduceKind::kProd>("cumprod", "The product of the elements up to each along `dim`, or from it on."),
    cumulative_op<ReduceKind::kMax>("cummax", "The greatest element up to each along `dim`, or from it on."),
    cumulative_op<ReduceKind::kMin>("cummin", "The least element up to each along `dim`, or from it on."),
    OpDef{.name = "cumlogsumexp",
          .doc = "The logarithm of the sum of exp of the elements up to each along `dim`, or from it on.",
          .infer = infer_cumlogsumexp,
          .rule = cumlogsumexp_rule,
          .reference = cumlogsumexp,
          .jvp = jvp_of_cumlogsumexp,
          .attributes = {{.name = "dim", .role = AttrRole::kDim}, {.name = "reverse"}}},
};

}  // namespace

std::span<const OpDef> cumulative_ops() { return kCumulativeOps; }

}  // namespace shoal
