// Functions of which the user says what they are in all places at once: custom_vmap, sequential_vmap.
#pragma once

#include <any>
#include <cstdint>
#include <functional>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "shoal/array.h"
#include "shoal/callable.h"
#include "shoal/control_flow.h"
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

/// As lax::map of those of the leaves that are mapped.
BatchedResult one_by_one(const TracedFunction& function, const std::vector<bool>& mapped,
                         const std::vector<Array>& leaves);

}  // namespace detail

/// f, which under vmap is what `rule` says: rule(size, mapped, arguments) gets the number of places, for each leaf of
/// the arguments whether it has the dimension, which is its first, and the tuple of the arguments. It returns a pair of
/// what f returns, in all places, and for each leaf of that whether it has the dimension, first. Derivatives are those
/// of f. Throws ShapeMismatch or TypeMismatch if a result is not of the type that f gives in each place.
template <class F, class Rule>
auto custom_vmap(F f, Rule rule, SourceLocation where = SourceLocation::current()) {
  const auto kept_f = std::make_shared<F>(std::move(f));
  const auto kept_rule = std::make_shared<Rule>(std::move(rule));
  return [kept_f, kept_rule, where](const auto&... args) {
    using Kept = std::tuple<detail::ArgumentOf<std::decay_t<decltype(args)>>...>;
    const Kept kept(detail::keep(args)...);
    using R = detail::ResultOf<F, Kept>;
    const auto in_places = [kept, kept_rule](std::int64_t size, const std::vector<bool>& mapped,
                                             const std::vector<Array>& leaves) {
      auto [value, flags] = (*kept_rule)(size, mapped, detail::with_leaves(kept, leaves));
      detail::BatchedResult made{.result = {}, .mapped = std::move(flags)};
      R result = std::move(value);
      made.result.leaves = tree::flatten(result, &made.result.tree);
      made.result.exemplar = tree::map([](const Array&) { return Array(); }, std::move(result));
      return made;
    };
    std::any exemplar;
    std::vector<Array> leaves = detail::call_custom_vmap(
        detail::flatten_arguments(kept), detail::kept_on_leaves<R>(kept_f, kept), in_places, exemplar, where);
    return detail::unflatten<R>(exemplar, std::move(leaves));
  };
}

/// f, which under vmap is done place by place, in a loop.
template <class F>
auto sequential_vmap(F f, SourceLocation where = SourceLocation::current()) {
  const auto kept_f = std::make_shared<F>(std::move(f));
  return [kept_f, where](const auto&... args) {
    using Kept = std::tuple<detail::ArgumentOf<std::decay_t<decltype(args)>>...>;
    const Kept kept(detail::keep(args)...);
    using R = detail::ResultOf<F, Kept>;
    const detail::TracedFunction function = detail::kept_on_leaves<R>(kept_f, kept);
    const auto in_places = [function](std::int64_t, const std::vector<bool>& mapped, const std::vector<Array>& leaves) {
      return detail::one_by_one(function, mapped, leaves);
    };
    std::any exemplar;
    std::vector<Array> leaves =
        detail::call_custom_vmap(detail::flatten_arguments(kept), function, in_places, exemplar, where);
    return detail::unflatten<R>(exemplar, std::move(leaves));
  };
}

}  // namespace shoal
