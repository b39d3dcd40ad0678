// Functions whose derivatives the user gives: custom_jvp, custom_vjp, custom_gradient; linear_call; and
// closure_convert, for functions that get others as arguments.
//
// Derivatives call the rules, and never differentiate the function. A rule is called when a derivative reaches the
// function: once for each call of it, with values where these are known, or with tracers inside jit, loops and regions.
// What a rule computes can be differentiated again; it may call its own function.
//
// @param f The function, of trees of arrays.
// @param args Arguments of f.
// @param closure What the library holds.
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

/// A PullbackRule that is asked where the derivative is taken, and no earlier, so that it is told in traces, too, which
/// cotangents are zero. What it needs of the forward pass is `kept`, and is passed to it again.
struct PullbackOfKept {
  std::vector<Array> kept;
  std::function<std::vector<Array>(const std::vector<Array>& cotangents, const std::vector<Array>& kept)> pull_back;
};
using ForwardRuleWithZeros = std::function<std::pair<TracedResult, PullbackOfKept>(const std::vector<Array>& leaves,
                                                                                   const std::vector<bool>& changes)>;

std::vector<Array> call_custom_jvp(const CallArguments& arguments, const TracedFunction& function,
                                   const TangentRule& rule, std::any& exemplar, SourceLocation where);
std::vector<Array> call_custom_vjp(const CallArguments& arguments, const TracedFunction& function,
                                   const ForwardRule& rule, std::any& exemplar, SourceLocation where);
std::vector<Array> call_custom_vjp_with_zeros(const CallArguments& arguments, const TracedFunction& function,
                                              const ForwardRuleWithZeros& rule, std::any& exemplar,
                                              SourceLocation where);

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

template <class T>
T with_leaves(T tree, const std::vector<Array>& leaves) {
  tree::assign(tree, leaves);
  return tree;
}

/// The types of a call: its arguments, and what the function returns.
template <class R, class Kept>
struct CallTypes {
  using Result = R;
  using Arguments = Kept;
};

/// f as `call` calls it by a rule on leaves: rule_for(types, arguments, f on leaves). Rules may be asked after the
/// call, so that all is kept as long as they are.
template <class F, class RuleFor, class Call>
auto with_rule(F f, RuleFor rule_for, Call call, SourceLocation where) {
  return
      [kept_f = std::make_shared<F>(std::move(f)), rule_for = std::move(rule_for), call, where](const auto&... args) {
        using Kept = std::tuple<ArgumentOf<std::decay_t<decltype(args)>>...>;
        const Kept kept(keep(args)...);
        using R = ResultOf<F, Kept>;
        const TracedFunction function = [kept_f, kept](const std::vector<Array>& leaves) {
          return on_leaves<R>(*kept_f, kept)(leaves);
        };
        std::any exemplar;
        std::vector<Array> leaves =
            call(flatten_arguments(kept), function, rule_for(CallTypes<R, Kept>(), kept, function), exemplar, where);
        return unflatten<R>(exemplar, std::move(leaves));
      };
}

}  // namespace detail

/// f, whose derivative is what `rule` says: rule(primals, tangents) gets two tuples like the arguments, and returns a
/// pair of what f returns and its tangent, which must be linear in the tangents. Throws TypeMismatch or ShapeMismatch
/// if the tangent is not of the type of the result.
/// @param rule The derivative.
template <class F, class Rule>
auto custom_jvp(F f, Rule rule, SourceLocation where = SourceLocation::current()) {
  const auto rule_for = [rule = std::make_shared<Rule>(std::move(rule))](auto types, const auto& kept,
                                                                         const detail::TracedFunction&) {
    return [rule, kept](const std::vector<Array>& leaves, const std::vector<Array>& tangents) {
      using R = typename decltype(types)::Result;
      auto [value, tangent] =
          (*rule)(detail::with_leaves(kept, leaves), detail::with_leaves(kept, detail::with_zeros(tangents, leaves)));
      return detail::RuleResult{.result = detail::flat_result<R>(std::move(value)),
                                .tangents = tree::flatten(R(std::move(tangent)))};
    };
  };
  return detail::with_rule(std::move(f), rule_for, &detail::call_custom_jvp, where);
}

/// f, whose derivative in reverse the others give: forward(arguments…) returns a pair of what f returns and of anything
/// that backward needs; backward(these, cotangent) the tuple of the cotangents of the arguments, or the one
/// of the only argument. Such a function has no derivative forward: jvp and linearized maps throw TypeMismatch.
/// @param forward The function that is called where a derivative is wanted.
/// @param backward The derivative in reverse.
template <class F, class Forward, class Backward>
auto custom_vjp(F f, Forward forward, Backward backward, SourceLocation where = SourceLocation::current()) {
  const auto rule_for = [forward = std::make_shared<Forward>(std::move(forward)),
                         backward = std::make_shared<Backward>(std::move(backward))](auto types, const auto& kept,
                                                                                     const detail::TracedFunction&) {
    return [forward, backward, kept](const std::vector<Array>& leaves, const std::vector<bool>&) {
      using R = typename decltype(types)::Result;
      using Kept = typename decltype(types)::Arguments;
      auto [value, residuals] = std::apply(*forward, detail::with_leaves(kept, leaves));
      const R result = std::move(value);
      const detail::PullbackRule pull_back = [backward, result,
                                              residuals = std::move(residuals)](const std::vector<Array>& cotangents) {
        const std::vector<Array> whole = detail::with_zeros(cotangents, tree::flatten(result));
        const auto made = (*backward)(residuals, detail::with_leaves(result, whole));
        if constexpr (std::tuple_size_v<Kept> == 1) {
          return tree::flatten(std::tuple_element_t<0, Kept>(made));
        } else {
          return tree::flatten(Kept(made));
        }
      };
      return std::pair(detail::flat_result<R>(result), pull_back);
    };
  };
  return detail::with_rule(std::move(f), rule_for, &detail::call_custom_vjp, where);
}

/// f, which returns a pair of its value and of its derivative in reverse: the function from a cotangent of the value to
/// the tuple of those of the arguments, or the one of the only argument. It is called with values where the function
/// is, and f again where it is not differentiated. As custom_vjp, it has no derivative forward.
template <class F>
auto custom_gradient(F f, SourceLocation where = SourceLocation::current()) {
  const auto value = [f](const auto&... args) { return f(args...).first; };
  const auto backward = [](const auto& pull_back, const auto& cotangent) { return pull_back(cotangent); };
  return custom_vjp(value, std::move(f), backward, where);
}

/// A function that was traced, of arguments of these types and of the arrays that it had from outside.
template <class R, class... Kept>
class ConvertedClosure {
 public:
  explicit ConvertedClosure(detail::Closure closure) : closure_(std::move(closure)) {}
  R operator()(const Kept&... arguments, const std::vector<Array>& consts,
               SourceLocation where = SourceLocation::current()) const {
    return detail::unflatten<R>(closure_.exemplar(),
                                closure_(tree::flatten(std::tuple<Kept...>(arguments...)), consts, where));
  }

 private:
  detail::Closure closure_;
};

/// A pair of f as a function of the arguments and of the arrays from outside that it uses and that a derivative may be
/// taken by, and of these: `auto [converted, consts] = closure_convert(f, x); converted(x, consts)`. f is traced once,
/// for arguments of these types. A rule of the user's for a function of functions takes both as arguments, as what f
/// captures has no derivative there.
template <class F, class... Args>
auto closure_convert(F f, const Args&... args) {
  const std::tuple<detail::ArgumentOf<Args>...> kept(detail::keep(args)...);
  using R = detail::ResultOf<F, std::decay_t<decltype(kept)>>;
  detail::Closure closure("closure_convert", detail::flatten_arguments(kept), detail::on_leaves<R>(f, kept),
                          SourceLocation());
  std::vector<Array> consts = closure.consts();
  return std::pair(ConvertedClosure<R, detail::ArgumentOf<Args>...>(std::move(closure)), std::move(consts));
}

/// function(others, linear), which is linear in its second argument, with a transpose of the user's: transposed(others,
/// cotangent) gives the cotangent of `linear`. Arguments are trees of arrays. Throws TypeMismatch or ShapeMismatch if
/// that is not of the type of `linear`.
/// @param function The function.
/// @param transposed Its transpose.
/// @param others What it need not be linear in.
/// @param linear What it is linear in.
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
