// Functions of which the user says what they are in all places at once: custom_vmap, sequential_vmap.
//
// @param f The function, of trees of arrays.
// @param rule The function that maps it.
#pragma once

#include <any>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "shoal/array.h"
#include "shoal/callable.h"
#include "shoal/custom_derivatives.h"
#include "shoal/tree.h"

namespace shoal {
namespace detail {

/// What a rule gives: the results, and which of their leaves have the mapped dimension, first.
struct BatchedResult {
  TracedResult result;
  std::vector<bool> mapped;
};
/// The leaves of `mapped` have the dimension first.
using BatchRule =
    std::function<BatchedResult(std::int64_t size, const std::vector<bool>& mapped, const std::vector<Array>& leaves)>;

std::vector<Array> call_custom_vmap(const CallArguments& arguments, const TracedFunction& function,
                                    const BatchRule& rule, std::any& exemplar, SourceLocation where);

/// The rule of lax::map over those of the leaves that are mapped.
BatchRule one_by_one(TracedFunction function);

}  // namespace detail

/// f, which under vmap is what `rule` says: rule(size, mapped, arguments) gets the number of places, for each leaf of
/// the arguments whether it has the dimension, which is its first, and the tuple of the arguments. It returns a pair of
/// what f returns, in all places, and for each leaf of that whether it has the dimension, first. Derivatives are those
/// of f. Throws ShapeMismatch or TypeMismatch if a result is not of the type that f gives in each place.
template <class F, class Rule>
auto custom_vmap(F f, Rule rule, SourceLocation where = SourceLocation::current()) {
  const auto rule_for = [rule = std::make_shared<Rule>(std::move(rule))](auto types, const auto& kept,
                                                                         const detail::TracedFunction&) {
    return [rule, kept](std::int64_t size, const std::vector<bool>& mapped, const std::vector<Array>& leaves) {
      using R = typename decltype(types)::Result;
      auto [value, flags] = (*rule)(size, mapped, detail::with_leaves(kept, leaves));
      return detail::BatchedResult{.result = detail::flat_result<R>(std::move(value)), .mapped = std::move(flags)};
    };
  };
  return detail::with_rule(std::move(f), rule_for, &detail::call_custom_vmap, where);
}

/// f, which under vmap is done place by place, in a loop.
template <class F>
auto sequential_vmap(F f, SourceLocation where = SourceLocation::current()) {
  const auto rule_for = [](auto, const auto&, const detail::TracedFunction& function) {
    return detail::one_by_one(function);
  };
  return detail::with_rule(std::move(f), rule_for, &detail::call_custom_vmap, where);
}

}  // namespace shoal
