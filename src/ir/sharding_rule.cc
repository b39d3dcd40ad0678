#include "ir/sharding_rule.h"

#include <fmt/format.h>

namespace shoal {
namespace {

std::string factor_name(int factor) {
  if (factor < 18) return std::string(1, static_cast<char>('i' + factor));
  return fmt::format("z{}", factor - 17);
}

std::string tensors(const std::vector<TensorFactors>& list) {
  std::vector<std::string> texts;
  for (const TensorFactors& tensor : list) {
    std::vector<std::string> dims;
    for (const DimFactors& dim : tensor) {
      std::string text;
      for (int factor : dim) text += factor_name(factor);
      dims.push_back(text.empty() ? "1" : text);
    }
    texts.push_back(fmt::format("({})", fmt::join(dims, ", ")));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string of_kind(const ShardingRule& rule, FactorKind kind, std::string_view label) {
  std::vector<std::string> names;
  for (std::size_t f = 0; f < rule.factors.size(); ++f) {
    if (rule.factors[f].kind == kind) names.push_back(factor_name(static_cast<int>(f)));
  }
  return names.empty() ? "" : fmt::format(" {}={{{}}}", label, fmt::join(names, ", "));
}

}  // namespace

std::string to_string(const ShardingRule& rule) {
  return tensors(rule.operands) + " -> " + tensors(rule.results) + of_kind(rule, FactorKind::kReduction, "reduction") +
         of_kind(rule, FactorKind::kNeedReplication, "need_replication") +
         of_kind(rule, FactorKind::kCumulative, "cumulative") + of_kind(rule, FactorKind::kCounted, "counted") +
         of_kind(rule, FactorKind::kRearranged, "rearranged") + of_kind(rule, FactorKind::kWindowed, "windowed") +
         of_kind(rule, FactorKind::kWindowedReduction, "windowed_reduction") +
         of_kind(rule, FactorKind::kJoint, "joint");
}

}  // namespace shoal
