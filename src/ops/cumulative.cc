// Cumulative reductions: each element becomes the reduction of those up to it, along one dimension.
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "core/dispatch.h"
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

template <ReduceKind kKind>
OpDef cumulative_op(std::string_view name, std::string_view doc) {
  return {.name = name,
          .doc = doc,
          .infer = infer_cumulative<kKind>,
          .rule = cumulative_rule<kKind>,
          .reference = cumulative<kKind>,
          .linear = kKind == ReduceKind::kSum ? Linear::kTogether : Linear::kNo,
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
          .attributes = {{.name = "dim", .role = AttrRole::kDim}, {.name = "reverse"}}},
};

}  // namespace

std::span<const OpDef> cumulative_ops() { return kCumulativeOps; }

}  // namespace shoal
