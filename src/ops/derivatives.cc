#include "ops/derivatives.h"

#include <fmt/format.h>

#include <algorithm>

namespace shoal {
namespace {

std::string text_of(std::span<const Type> operands) {
  std::vector<std::string> types;
  for (const Type& type : operands) types.push_back(user_string(type));
  return fmt::format("{}", fmt::join(types, ", "));
}

bool is_summand(Linear linear) { return linear == Linear::kTogether || linear == Linear::kMoved; }

// A kind of reduction other than a sum makes an op linear in nothing.
Linear linear_operand(const JvpContext& context, std::size_t i) {
  const auto* kind = context.attrs.find_as<std::string>("kind");
  return kind != nullptr && *kind != name_of(ReduceKind::kSum) ? Linear::kNo : context.op.linear[i];
}

}  // namespace

std::vector<MaybeValue> linear_tangents(const JvpContext& context) {
  const std::size_t count = context.operands.size();
  std::vector<MaybeValue> sums(context.results.size());
  const auto add = [&](std::vector<ValueId> operands) {
    const std::vector<ValueId> results = context.build.equation(context.op, context.attrs, std::move(operands));
    for (std::size_t r = 0; r < results.size(); ++r) {
      if (has_tangents(context.results[r].dtype))
        sums[r] = sums[r] ? context.build.add(*sums[r], results[r]) : results[r];
    }
  };
  bool has_summand = false;
  for (std::size_t i = 0; i < count; ++i) {
    if (!context.tangents[i]) continue;
    const Linear linear = linear_operand(context, i);
    if (linear == Linear::kNo) {
      throw no_derivative<Unsupported>(context.build, "{} has no derivative; its operands are {}", context.op.name,
                                       text_of(context.operands));
    }
    has_summand = has_summand || is_summand(linear);
    if (linear != Linear::kAlone) continue;
    std::vector<ValueId> operands;
    for (std::size_t k = 0; k < count; ++k) {
      operands.push_back(k == i ? *context.tangents[k] : context.primals.operand(k));
    }
    add(std::move(operands));
  }
  if (has_summand) {
    std::vector<ValueId> operands;
    for (std::size_t k = 0; k < count; ++k) {
      const bool is_constant = !is_summand(linear_operand(context, k));
      operands.push_back(is_constant           ? context.primals.operand(k)
                         : context.tangents[k] ? *context.tangents[k]
                                               : context.build.zeros(context.operands[k]));
    }
    add(std::move(operands));
  }
  return sums;
}

std::vector<MaybeValue> tangents_of(const JvpContext& context) {
  const bool flows = std::ranges::any_of(context.tangents, [](const MaybeValue& one) { return one.has_value(); }) &&
                     std::ranges::any_of(context.results, [](const Type& type) { return has_tangents(type.dtype); });
  if (context.op.is_flat || !flows) return std::vector<MaybeValue>(context.results.size());
  return context.op.jvp != nullptr ? context.op.jvp(context) : linear_tangents(context);
}

std::vector<MaybeValue> cotangents_of(const TransposeContext& context) {
  if (context.op.transpose == nullptr) {
    throw no_derivative<Unsupported>(context.build, "{} has no derivative in reverse; its operands are {}",
                                     context.op.name, text_of(context.operands));
  }
  return context.op.transpose(context);
}

}  // namespace shoal
