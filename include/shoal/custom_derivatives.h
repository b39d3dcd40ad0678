// Functions whose derivatives the user gives: custom_jvp, custom_vjp; and linear_call.
//
// Derivatives call the rules, and never differentiate the function. A rule is called when a derivative reaches the
// function: once for each call of it, with values where these are known, or with tracers inside jit, loops and regions.
// What a rule computes can be differentiated again; it may call its own function.
#pragma once

#include <any>
#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "shoal/array.h"
#include "shoal/callable.h"
#include "shoal/tree.h"

namespace shoal {
namespace detail {

/// What a rule gives: the results, and the tangents of their leaves, which are empty where they are zero.
struct RuleResult {
  TracedResult result;
  std::vector<Array> tangents;
};
/// The tangents are those of the leaves, and empty for those that do not change.
using TangentRule = std::function<RuleResult(const std::vector<Array>& leaves, const std::vector<Array>& tangents)>;

/// From the cotangents of the leaves of a result, empty for those that have none, to those of the arguments' leaves,
/// empty where they are zero.
using PullbackRule = std::function<std::vector<Array>(const std::vector<Array>& cotangents)>;
/// `changes` says which of the leaves are differentiated by.
using ForwardRule = std::function<std::pair<TracedResult, PullbackRule>(const std::vector<Array>& leaves,
                                                                        const std::vector<bool>& changes)>;

std::vector<Array> call_custom_jvp(const CallArguments& arguments, const TracedFunction& function,
                                   const TangentRule& rule, std::any& exemplar, SourceLocation where);
std::vector<Array> call_custom_vjp(const CallArguments& arguments, const TracedFunction& function,
                                   const ForwardRule& rule, std::any& exemplar, SourceLocation where);

/// Both functions get the leaves of `others` after their own: tangents, or cotangents.
std::vector<Array> call_linear(const CallArguments& linear, const CallArguments& others, const TracedFunction& function,
                               const TracedFunction& transposed, std::any& exemplar, SourceLocation where);

/// A function that was traced, and the arrays from outside that it uses.
class Closure {
 public:
  struct Impl;
  Closure(std::string_view name, const CallArguments& arguments, const TracedFunction& function, SourceLocation where);
  /// Those that a derivative may be taken by.
  std::vector<Array> consts() const;
  const std::any& exemplar() const;
  /// The function of the arguments' leaves, with others in the place of consts().
  std::vector<Array> operator()(const std::vector<Array>& leaves, const std::vector<Array>& consts,
                                SourceLocation where) const;

 private:
  std::shared_ptr<const Impl> impl_;
};

bool is_empty(const Array& array);
/// Zeros for the empty ones.
std::vector<Array> with_zeros(std::vector<Array> tangents, const std::vector<Array>& values);

/// A function on leaves that lives as long as it is needed.
template <class R, class F, class Tuple>
TracedFunction kept_on_leaves(std::shared_ptr<F> f, const Tuple& arguments) {
  return [f, arguments](const std::vector<Array>& leaves) { return on_leaves<R>(*f, arguments)(leaves); };
}

template <class T>
T with_leaves(T tree, const std::vector<Array>& leaves) {
  tree::assign(tree, leaves);
  return tree;
}

}  // namespace detail

/// f, whose derivative is what `rule` says: rule(primals, tangents) gets two tuples like the arguments, and returns a
/// pair of what f returns and its tangent, which must be linear in the tangents. Throws TypeMismatch or ShapeMismatch
/// if the tangent is not of the type of the result.
template <class F, class Rule>
auto custom_jvp(F f, Rule rule, SourceLocation where = SourceLocation::current()) {
  const auto kept_f = std::make_shared<F>(std::move(f));
  const auto kept_rule = std::make_shared<Rule>(std::move(rule));
  return [kept_f, kept_rule, where](const auto&... args) {
    using Kept = std::tuple<detail::ArgumentOf<std::decay_t<decltype(args)>>...>;
    const Kept kept(detail::keep(args)...);
    using R = detail::ResultOf<F, Kept>;
    const auto on_tangents = [kept, kept_rule](const std::vector<Array>& leaves, const std::vector<Array>& tangents) {
      auto [value, tangent] = (*kept_rule)(detail::with_leaves(kept, leaves),
                                           detail::with_leaves(kept, detail::with_zeros(tangents, leaves)));
      detail::RuleResult made{.result = {}, .tangents = tree::flatten(R(tangent))};
      R result = std::move(value);
      made.result.leaves = tree::flatten(result, &made.result.tree);
      made.result.exemplar = tree::map([](const Array&) { return Array(); }, std::move(result));
      return made;
    };
    std::any exemplar;
    std::vector<Array> leaves = detail::call_custom_jvp(
        detail::flatten_arguments(kept), detail::kept_on_leaves<R>(kept_f, kept), on_tangents, exemplar, where);
    return detail::unflatten<R>(exemplar, std::move(leaves));
  };
}

/// f, whose derivative in reverse the others give: forward(arguments…) returns a pair of what f returns and of a tree
/// of arrays that backward needs; backward(these, cotangent) the tuple of the cotangents of the arguments, or the one
/// of the only argument. Such a function has no derivative forward: jvp and linearized maps throw TypeMismatch.
template <class F, class Forward, class Backward>
auto custom_vjp(F f, Forward forward, Backward backward, SourceLocation where = SourceLocation::current()) {
  const auto kept_f = std::make_shared<F>(std::move(f));
  const auto kept_forward = std::make_shared<Forward>(std::move(forward));
  const auto kept_backward = std::make_shared<Backward>(std::move(backward));
  return [kept_f, kept_forward, kept_backward, where](const auto&... args) {
    using Kept = std::tuple<detail::ArgumentOf<std::decay_t<decltype(args)>>...>;
    const Kept kept(detail::keep(args)...);
    using R = detail::ResultOf<F, Kept>;
    const auto rule = [kept, kept_forward, kept_backward](const std::vector<Array>& leaves, const std::vector<bool>&) {
      auto [value, residuals] = std::apply(*kept_forward, detail::with_leaves(kept, leaves));
      detail::TracedResult flat;
      const R result = std::move(value);
      flat.leaves = tree::flatten(result, &flat.tree);
      flat.exemplar = tree::map([](const Array&) { return Array(); }, R(result));
      const detail::PullbackRule pull_back = [result, kept_backward,
                                              residuals = std::move(residuals)](const std::vector<Array>& cotangents) {
        const std::vector<Array> whole = detail::with_zeros(cotangents, tree::flatten(result));
        const auto made = (*kept_backward)(residuals, detail::with_leaves(result, whole));
        if constexpr (std::tuple_size_v<Kept> == 1) {
          return tree::flatten(std::tuple_element_t<0, Kept>(made));
        } else {
          return tree::flatten(Kept(made));
        }
      };
      return std::pair(std::move(flat), pull_back);
    };
    std::any exemplar;
    std::vector<Array> leaves = detail::call_custom_vjp(detail::flatten_arguments(kept),
                                                        detail::kept_on_leaves<R>(kept_f, kept), rule, exemplar, where);
    return detail::unflatten<R>(exemplar, std::move(leaves));
  };
}

/// function(others, linear), which is linear in its second argument, with a transpose of the user's: transposed(others,
/// cotangent) gives the cotangent of `linear`. Arguments are trees of arrays. Throws TypeMismatch or ShapeMismatch if
/// that is not of the type of `linear`.
template <class F, class T, class Others, class Linear>
auto linear_call(F function, T transposed, const Others& others, const Linear& linear,
                 SourceLocation where = SourceLocation::current()) {
  const std::tuple<detail::ArgumentOf<Linear>> argument(detail::keep(linear));
  const std::tuple<detail::ArgumentOf<Others>> rest(detail::keep(others));
  using R = std::decay_t<std::invoke_result_t<F&, std::tuple_element_t<0, std::decay_t<decltype(rest)>>,
                                              std::tuple_element_t<0, std::decay_t<decltype(argument)>>>>;
  // Leaves come in the order of equations.
  auto swapped = [&](const auto& tangent, const auto& more) -> R { return function(more, tangent); };
  std::any exemplar;
  R like;
  const auto forward = detail::on_leaves<R>(swapped, std::tuple_cat(argument, rest));
  const auto on_results = [&](const std::vector<Array>& leaves) {
    detail::TracedResult flat = forward(leaves);
    like = detail::unflatten<R>(flat.exemplar, flat.leaves);
    return flat;
  };
  const auto backward = [&](const std::vector<Array>& leaves) {
    const auto swapped_back = [&](const R& cotangent, const auto& more) -> Linear {
      return transposed(more, cotangent);
    };
    return detail::on_leaves<Linear>(swapped_back, std::tuple_cat(std::tuple<R>(like), rest))(leaves);
  };
  std::vector<Array> leaves = detail::call_linear(detail::flatten_arguments(argument), detail::flatten_arguments(rest),
                                                  on_results, backward, exemplar, where);
  return detail::unflatten<R>(exemplar, std::move(leaves));
}

}  // namespace shoal
