// Derivatives of functions of arrays: grad, value_and_grad, jvp, vjp, linearize; and stop_gradient.
//
// Functions take and give trees of arrays. They are called once, where they stand: in a traced function they are traced
// as a part of it, and elsewhere what they compute is computed at once, so that values may be read, and decide what the
// function does. Derivatives are functions of their arguments like any other, and can be differentiated again.
//
// Of complex numbers grad gives the conjugate of the direction of steepest ascent, as JAX does.
#pragma once

#include <any>
#include <array>
#include <cstddef>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "shoal/array.h"
#include "shoal/callable.h"
#include "shoal/tree.h"

namespace shoal {

struct GradOptions {
  bool holomorphic = false;  ///< Of a function of complex numbers that has a complex derivative.
  bool allow_int = false;    ///< Arrays of integers and bool may be differentiated by: their gradients are zeros.
};

namespace detail {

/// A function that was differentiated: its results, and how they change.
struct Differentiated {
  std::vector<Array> results;
  std::any exemplar;
  TreeDef result_tree;
  std::vector<Array> gradients;  ///< Of the leaves that are wanted, in their order.
};

/// `wanted` says for each leaf whether the gradient is asked for. The value is the first leaf of the result.
Differentiated call_value_and_grad(std::string_view name, const GradOptions& options, const CallArguments& arguments,
                                   const std::vector<bool>& wanted, const TracedFunction& function,
                                   SourceLocation where);

/// The gradients are the tangents of the results.
Differentiated call_jvp(const CallArguments& primals, const CallArguments& tangents, const TracedFunction& function,
                        SourceLocation where);

/// A linear function that a function was differentiated to: forward from tangents of the arguments to those of the
/// results, in reverse from cotangents of results to those of arguments.
class LinearMap {
 public:
  struct Impl;
  explicit LinearMap(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::vector<Array> push_forward(const std::vector<Array>& tangents, SourceLocation where) const;
  std::vector<Array> pull_back(const std::vector<Array>& cotangents, SourceLocation where) const;
  /// What it is made of.
  const std::vector<Array>& residuals() const;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// The results, and the map to those; `name` appears in messages.
std::pair<Differentiated, LinearMap> call_linearize(std::string_view name, const CallArguments& arguments,
                                                    const TracedFunction& function, SourceLocation where);

/// The transpose of a linear function, whose arguments may be types alone.
std::pair<Differentiated, LinearMap> call_linear_transpose(const CallArguments& arguments,
                                                           const TracedFunction& function, SourceLocation where);

/// The array without what it was differentiated by in functions that have returned: for what they gave in other ways
/// than as a result.
Array without_ended_tangents(const Array& array);

template <class Kept>
std::vector<bool> leaves_of_arguments(const Kept& arguments, std::initializer_list<std::size_t> wanted) {
  std::vector<bool> flags;
  const auto add = [&](const auto& argument, std::size_t position) {
    if constexpr (!kIsStaticArg<std::decay_t<decltype(argument)>>) {
      const bool is_wanted = std::find(wanted.begin(), wanted.end(), position) != wanted.end();
      flags.resize(flags.size() + tree::flatten(argument).size(), is_wanted);
    }
  };
  [&]<std::size_t... I>(std::index_sequence<I...>) { (add(std::get<I>(arguments), I), ...); }
  (std::make_index_sequence<std::tuple_size_v<Kept>>{});
  return flags;
}

template <class T>
inline constexpr bool kHasAux = false;
template <class Aux>
inline constexpr bool kHasAux<std::pair<Array, Aux>> = true;

/// What grad and value_and_grad return.
template <class F, bool kWithValue, std::size_t... kArgnums>
class Gradient : public Callable<Gradient<F, kWithValue, kArgnums...>, ParametersOf<F>> {
 public:
  using CallParameters = ParametersOf<F>;

  Gradient(F f, GradOptions options, SourceLocation where) : f_(std::move(f)), options_(options), where_(where) {}

  template <class Kept>
  auto call(std::optional<SourceLocation> where, const Kept& arguments) const {
    using R = ResultOf<const F, Kept>;
    static_assert(std::is_same_v<R, Array> || kHasAux<R>,
                  "a function to be differentiated returns an Array, or a pair of that and more");
    static_assert(((kArgnums < std::tuple_size_v<Kept>)&&...), "there are not as many arguments");
    static_assert((!kIsStaticArg<std::tuple_element_t<kArgnums, Kept>> && ...),
                  "a static argument cannot be differentiated by");
    Differentiated made = call_value_and_grad(
        kWithValue ? "value_and_grad" : "grad", options_, flatten_arguments(arguments),
        leaves_of_arguments(arguments, {kArgnums...}), on_leaves<R>(f_, arguments), where.value_or(where_));
    std::tuple<std::tuple_element_t<kArgnums, Kept>...> gradients(std::get<kArgnums>(arguments)...);
    tree::assign(gradients, made.gradients);
    auto gradient = [&] {
      if constexpr (sizeof...(kArgnums) == 1) {
        return std::get<0>(std::move(gradients));
      } else {
        return std::move(gradients);
      }
    }();
    if constexpr (kWithValue) {
      return std::pair(unflatten<R>(made.exemplar, made.results), std::move(gradient));
    } else if constexpr (kHasAux<R>) {
      return std::pair(std::move(gradient), unflatten<R>(made.exemplar, made.results).second);
    } else {
      return gradient;
    }
  }

 private:
  F f_;
  GradOptions options_;
  SourceLocation where_;
};

}  // namespace detail

/// The function that gives the gradient of f by the arguments at these positions: a tree like the argument, or a tuple
/// of these. f returns a real scalar, or a pair of one and of a tree that is passed on; then the result is a pair of
/// the gradient and this. Throws TypeMismatch if the value is no scalar of floats, or an argument has arrays of other
/// dtypes.
template <std::size_t kFirst = 0, std::size_t... kMore, class F>
auto grad(F f, const GradOptions& options = {}, SourceLocation where = SourceLocation::current()) {
  return detail::Gradient<F, false, kFirst, kMore...>(std::move(f), options, where);
}

/// The same for a pair of what f returns and the gradient.
template <std::size_t kFirst = 0, std::size_t... kMore, class F>
auto value_and_grad(F f, const GradOptions& options = {}, SourceLocation where = SourceLocation::current()) {
  return detail::Gradient<F, true, kFirst, kMore...>(std::move(f), options, where);
}

/// f at the arguments `primals`, a tuple, and how that changes when these change by `tangents`, of the same types.
template <class F, class... P, class... T>
auto jvp(F f, const std::tuple<P...>& primals, const std::tuple<T...>& tangents,
         SourceLocation where = SourceLocation::current()) {
  const std::tuple<detail::ArgumentOf<P>...> kept =
      std::apply([](const P&... one) { return std::tuple<detail::ArgumentOf<P>...>(detail::keep(one)...); }, primals);
  const std::tuple<detail::ArgumentOf<T>...> changes =
      std::apply([](const T&... one) { return std::tuple<detail::ArgumentOf<T>...>(detail::keep(one)...); }, tangents);
  using R = detail::ResultOf<F, std::decay_t<decltype(kept)>>;
  const detail::Differentiated made = detail::call_jvp(
      detail::flatten_arguments(kept), detail::flatten_arguments(changes), detail::on_leaves<R>(f, kept), where);
  return std::pair(detail::unflatten<R>(made.exemplar, made.results),
                   detail::unflatten<R>(made.exemplar, made.gradients));
}

/// What vjp returns beside the value: from a cotangent of the result, a tree like it, to the tuple of those of the
/// arguments, or the one of the only argument.
template <class R, class Kept>
class Pullback {
 public:
  Pullback(detail::LinearMap map, Kept arguments) : map_(std::move(map)), arguments_(std::move(arguments)) {}
  auto operator()(const R& cotangent, SourceLocation where = SourceLocation::current()) const {
    Kept made = arguments_;
    tree::assign(made, map_.pull_back(tree::flatten(cotangent), where));
    if constexpr (std::tuple_size_v<Kept> == 1) {
      return std::get<0>(std::move(made));
    } else {
      return made;
    }
  }

 private:
  detail::LinearMap map_;
  Kept arguments_;
};

/// f at these arguments, and its derivative in reverse. f runs once, however often that is called.
template <class F, class... Args>
auto vjp(F f, const Args&... args) {
  const std::tuple<detail::ArgumentOf<Args>...> kept(detail::keep(args)...);
  using Kept = std::decay_t<decltype(kept)>;
  using R = detail::ResultOf<F, Kept>;
  auto [made, map] =
      detail::call_linearize("vjp", detail::flatten_arguments(kept), detail::on_leaves<R>(f, kept), SourceLocation());
  return std::pair(detail::unflatten<R>(made.exemplar, made.results), Pullback<R, Kept>(std::move(map), kept));
}

/// What linearize returns beside the value: from tangents of the arguments to that of the result.
template <class R, class... Kept>
class Pushforward {
 public:
  Pushforward(detail::LinearMap map, R result) : map_(std::move(map)), result_(std::move(result)) {}
  R operator()(const Kept&... tangents) const {
    R made = result_;
    tree::assign(made, map_.push_forward(tree::flatten(std::tuple<Kept...>(tangents...)), SourceLocation()));
    return made;
  }

 private:
  detail::LinearMap map_;
  R result_;
};

/// f at these arguments, and its derivative there, forward.
template <class F, class... Args>
auto linearize(F f, const Args&... args) {
  const std::tuple<detail::ArgumentOf<Args>...> kept(detail::keep(args)...);
  using R = detail::ResultOf<F, std::decay_t<decltype(kept)>>;
  auto [made, map] = detail::call_linearize("linearize", detail::flatten_arguments(kept), detail::on_leaves<R>(f, kept),
                                            SourceLocation());
  R result = detail::unflatten<R>(made.exemplar, made.results);
  return std::pair(result, Pushforward<R, detail::ArgumentOf<Args>...>(std::move(map), result));
}

/// The array as a constant to derivatives: its tangent is zero.
Array stop_gradient(const Operand& x);

}  // namespace shoal
