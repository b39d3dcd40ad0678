// Derivatives of functions of arrays: grad, value_and_grad, jvp, vjp, linearize, linear_transpose, jacfwd, jacrev,
// hessian; and stop_gradient.
//
// Functions take and give trees of arrays. They are called once, where they stand: in a traced function they are traced
// as a part of it, and elsewhere what they compute is computed at once, so that values may be read, and decide what the
// function does. Derivatives are functions of their arguments like any other, and can be differentiated again.
//
// Of complex numbers grad gives the conjugate of the direction of steepest ascent, as JAX does.
//
// @param f The function, of trees of arrays.
// @param args Where: the arguments of f.
// @param map What the library holds.
// @param arguments The arguments of the function.
// @param result What the function returned.
#pragma once

#include <algorithm>
#include <any>
#include <array>
#include <boost/pfr.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
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
  /// A tangent or cotangent of zero stays zero where it is multiplied with what is infinite or NaN: the gradient of
  /// where(x > 0, sqrt(x), 0) is 0 at 0 and below, and not NaN. For elementwise operations. What vjp and linearize
  /// return has `with_strong_zeros()` for it.
  bool strong_zeros = false;
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
                        SourceLocation where, bool strong_zeros = false);

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
  /// All arrays that it holds, and the same function of others of their types. A jitted function that returns one
  /// returns its arrays. Throws Unsupported if it calls functions of the user's, which hold arrays of their own.
  std::vector<Array> arrays() const;
  LinearMap with_arrays(const std::vector<Array>& arrays) const;
  /// The same with zeros that stay zeros, as of GradOptions.
  LinearMap with_strong_zeros() const;
  /// Whether both are the same function of the arrays that they hold.
  bool is_same_function(const LinearMap& other) const;
  std::size_t hash() const;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// The results, and the map to those; `name` appears in messages.
std::pair<Differentiated, LinearMap> call_linearize(std::string_view name, const CallArguments& arguments,
                                                    const TracedFunction& function, SourceLocation where);

/// A function that was differentiated by unit vectors.
struct Jacobian {
  Differentiated made;
  std::vector<Array> blocks;  ///< For each leaf of the result one for each of the leaves that are wanted.
};
enum class Direction : std::uint8_t { kForward, kReverse };

Jacobian call_jacobian(std::string_view name, Direction direction, const GradOptions& options,
                       const CallArguments& arguments, const std::vector<bool>& wanted, const TracedFunction& function,
                       SourceLocation where);

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

/// The arguments at these positions: a tuple, or the only one.
template <std::size_t... kArgnums, class Kept>
auto chosen_arguments(const Kept& arguments) {
  if constexpr (sizeof...(kArgnums) == 1) {
    return std::tuple_element_t<0, std::tuple<std::tuple_element_t<kArgnums, Kept>...>>(
        std::get<kArgnums>(arguments)...);
  } else {
    return std::tuple<std::tuple_element_t<kArgnums, Kept>...>(std::get<kArgnums>(arguments)...);
  }
}
template <class Kept, std::size_t... kArgnums>
constexpr void check_argnums() {
  static_assert(((kArgnums < std::tuple_size_v<Kept>)&&...), "there are not as many arguments");
  static_assert((!kIsStaticArg<std::tuple_element_t<kArgnums, Kept>> && ...),
                "a static argument cannot be differentiated by");
}

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
    check_argnums<Kept, kArgnums...>();
    Differentiated made = call_value_and_grad(
        kWithValue ? "value_and_grad" : "grad", options_, flatten_arguments(arguments),
        leaves_of_arguments(arguments, {kArgnums...}), on_leaves<R>(f_, arguments), where.value_or(where_));
    auto gradient = chosen_arguments<kArgnums...>(arguments);
    tree::assign(gradient, made.gradients);
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

/// The tree with what next() gives in the place of each array, in order.
template <class Next, class T>
auto with_leaves_replaced(const T& tree, Next& next);

template <class Next, class Tuple, std::size_t... I>
auto with_leaves_of_members(const Tuple& members, Next& next, std::index_sequence<I...>) {
  // In braces, which are evaluated in order.
  return std::tuple<decltype(with_leaves_replaced(std::get<I>(members), next))...>{
      with_leaves_replaced(std::get<I>(members), next)...};
}

template <class Next, class T>
auto with_leaves_replaced(const T& tree, Next& next) {
  using Leaf = std::decay_t<decltype(next())>;
  if constexpr (std::is_same_v<T, Array>) {
    return next();
  } else if constexpr (std::is_same_v<Leaf, Array>) {
    return tree::map([&](const Array&) { return next(); }, tree);
  } else if constexpr (kIsVector<T>) {
    std::vector<decltype(with_leaves_replaced(tree[0], next))> made;
    for (const auto& one : tree) made.push_back(with_leaves_replaced(one, next));
    return made;
  } else if constexpr (kIsMap<T>) {
    std::map<typename T::key_type, decltype(with_leaves_replaced(tree.begin()->second, next))> made;
    for (const auto& [key, one] : tree) made.emplace(key, with_leaves_replaced(one, next));
    return made;
  } else if constexpr (kIsOptional<T>) {
    std::optional<decltype(with_leaves_replaced(*tree, next))> made;
    if (tree) made = with_leaves_replaced(*tree, next);
    return made;
  } else if constexpr (kIsTuple<T>) {
    return with_leaves_of_members(tree, next, std::make_index_sequence<std::tuple_size_v<T>>{});
  } else if constexpr (kIsStdArray<T>) {
    std::vector<decltype(with_leaves_replaced(tree[0], next))> made;
    for (const auto& one : tree) made.push_back(with_leaves_replaced(one, next));
    return made;
  } else if constexpr (HasTreeHook<T>) {
    T copy = tree;
    return std::apply(
        [&](auto... member) {
          return with_leaves_of_members(std::tie(member.value...), next,
                                        std::index_sequence_for<decltype(member)...>{});
        },
        shoal_tree(copy));
  } else {
    return with_leaves_of_members(boost::pfr::structure_tie(tree), next,
                                  std::make_index_sequence<boost::pfr::tuple_size_v<T>>{});
  }
}

/// What jacfwd and jacrev return.
template <class F, Direction kDirection, std::size_t... kArgnums>
class JacobianFunction : public Callable<JacobianFunction<F, kDirection, kArgnums...>, ParametersOf<F>> {
 public:
  using CallParameters = ParametersOf<F>;

  JacobianFunction(F f, GradOptions options, SourceLocation where)
      : f_(std::move(f)), options_(options), where_(where) {}

  template <class Kept>
  auto call(std::optional<SourceLocation> where, const Kept& arguments) const {
    using R = ResultOf<const F, Kept>;
    check_argnums<Kept, kArgnums...>();
    const Jacobian jacobian = call_jacobian(
        kDirection == Direction::kForward ? "jacfwd" : "jacrev", kDirection, options_, flatten_arguments(arguments),
        leaves_of_arguments(arguments, {kArgnums...}), on_leaves<R>(f_, arguments), where.value_or(where_));
    auto like = chosen_arguments<kArgnums...>(arguments);
    const std::size_t count = tree::flatten(like).size();
    std::span<const Array> blocks = jacobian.blocks;
    const auto next = [&] {
      tree::assign(like, blocks.first(count));
      blocks = blocks.subspan(count);
      return like;
    };
    return with_leaves_replaced(unflatten<R>(jacobian.made.exemplar, jacobian.made.results), next);
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
/// @return A function of the same arguments.
/// @example grad([](const Array& x) { return power(x, 3); })(Array(2.0f))
/// @python jax.grad(lambda x: x ** 3)(2.0)
///   12.0
template <std::size_t kFirst = 0, std::size_t... kMore, class F>
auto grad(F f, const GradOptions& options = {}, SourceLocation where = SourceLocation::current()) {
  return detail::Gradient<F, false, kFirst, kMore...>(std::move(f), options, where);
}

/// The same for a pair of what f returns and the gradient.
/// @return A function of the same arguments.
/// @example value_and_grad([](const Array& x) { return x * x; })(Array(3.0f)).second
/// @python jax.value_and_grad(lambda x: x * x)(3.0)[1]
///   6.0
template <std::size_t kFirst = 0, std::size_t... kMore, class F>
auto value_and_grad(F f, const GradOptions& options = {}, SourceLocation where = SourceLocation::current()) {
  return detail::Gradient<F, true, kFirst, kMore...>(std::move(f), options, where);
}

/// The function that gives the Jacobian of f by the arguments at these positions: the tree that f returns, with a tree
/// like the argument (a tuple of these, if there are several) in the place of each array, of arrays that have the
/// dimensions of the result's and then those of the argument's. Where both are arrays, so is the Jacobian. C++ cannot
/// put trees into the fields of a struct: it becomes the tuple of what its fields become (and a std::array a vector),
/// unless the argument is an array. A pair that f returns is a tree like any other.
///
/// jacfwd goes forward, column by column, for functions of few numbers; jacrev in reverse, row by row, for those that
/// give few. Each calls f once, and does all columns or rows at once, by vmap. Throws TypeMismatch for arguments of
/// other dtypes than floats (jacrev: floats and complex numbers; with `holomorphic` complex numbers alone), and where
/// the result is complex without `holomorphic`, or not with it. `allow_int` is for jacrev.
/// @return A function of the same arguments.
/// @example jacfwd([](const Array& x) { return x * x; })(array({1.0f, 2.0f}))
/// @python jax.jacfwd(lambda x: x * x)(jnp.array([1.0, 2.0]))
///   [[2. 0.]
///    [0. 4.]]
template <std::size_t kFirst = 0, std::size_t... kMore, class F>
auto jacfwd(F f, const GradOptions& options = {}, SourceLocation where = SourceLocation::current()) {
  return detail::JacobianFunction<F, detail::Direction::kForward, kFirst, kMore...>(std::move(f), options, where);
}
template <std::size_t kFirst = 0, std::size_t... kMore, class F>
auto jacrev(F f, const GradOptions& options = {}, SourceLocation where = SourceLocation::current()) {
  return detail::JacobianFunction<F, detail::Direction::kReverse, kFirst, kMore...>(std::move(f), options, where);
}

/// The second derivatives of f, forward of reverse: jacfwd(jacrev(f)). Of a function that returns a scalar it is a tree
/// like the argument of trees like the argument.
/// @return A function of the same arguments.
/// @example hessian([](const Array& x) { return power(x, 3); })(Array(2.0f))
/// @python jax.hessian(lambda x: x ** 3)(2.0)
///   12.0
template <std::size_t kFirst = 0, std::size_t... kMore, class F>
auto hessian(F f, const GradOptions& options = {}, SourceLocation where = SourceLocation::current()) {
  return jacfwd<kFirst, kMore...>(jacrev<kFirst, kMore...>(std::move(f), options, where), options, where);
}

/// f at the arguments `primals`, a tuple, and how that changes when these change by `tangents`, of the same types.
/// @param primals Where: a tuple of the arguments.
/// @param tangents How they change: a tuple of trees of the same types.
/// @return A pair of what f returns, and how it changes.
/// @example jvp([](const Array& x) { return x * x; }, std::tuple(3.0f), std::tuple(1.0f)).second
/// @python jax.jvp(lambda x: x * x, (3.0,), (1.0,))[1]
///   6.0
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
  /// The same with zeros that stay zeros, as of GradOptions.
  Pullback with_strong_zeros() const { return {map_.with_strong_zeros(), arguments_}; }

 private:
  detail::LinearMap map_;
  Kept arguments_;
};

/// What linearize returns beside the value: from tangents of the arguments to that of the result.
template <class R, class... Kept>
class Pushforward {
 public:
  Pushforward(detail::LinearMap map, R result) : map_(std::move(map)), result_(std::move(result)) {}
  R operator()(const Kept&... tangents, SourceLocation where = SourceLocation::current()) const {
    R made = result_;
    tree::assign(made, map_.push_forward(tree::flatten(std::tuple<Kept...>(tangents...)), where));
    return made;
  }
  /// The same with zeros that stay zeros, as of GradOptions.
  Pushforward with_strong_zeros() const { return {map_.with_strong_zeros(), result_}; }

 private:
  detail::LinearMap map_;
  R result_;
};

namespace detail {

template <class F, class... Args>
auto vjp(SourceLocation where, F f, const Args&... args) {
  const std::tuple<ArgumentOf<Args>...> kept(keep(args)...);
  using Kept = std::decay_t<decltype(kept)>;
  using R = ResultOf<F, Kept>;
  auto [made, map] = call_linearize("vjp", flatten_arguments(kept), on_leaves<R>(f, kept), where);
  return std::pair(unflatten<R>(made.exemplar, made.results), Pullback<R, Kept>(std::move(map), kept));
}

template <class F, class... Args>
auto linear_transpose(SourceLocation where, F f, const Args&... args) {
  const std::tuple<ArgumentOf<Args>...> kept(keep(args)...);
  using Kept = std::decay_t<decltype(kept)>;
  using R = ResultOf<F, Kept>;
  auto [made, map] = call_linear_transpose(flatten_arguments(kept), on_leaves<R>(f, kept), where);
  return Pullback<R, Kept>(std::move(map), kept);
}

template <class F, class... Args>
auto linearize(SourceLocation where, F f, const Args&... args) {
  const std::tuple<ArgumentOf<Args>...> kept(keep(args)...);
  using R = ResultOf<F, std::decay_t<decltype(kept)>>;
  auto [made, map] = call_linearize("linearize", flatten_arguments(kept), on_leaves<R>(f, kept), where);
  R result = unflatten<R>(made.exemplar, made.results);
  return std::pair(result, Pushforward<R, ArgumentOf<Args>...>(std::move(map), result));
}

}  // namespace detail

// function(f, arguments…) with the user's line, which can only come after a known number of arguments: of five or more
// errors have none.
#define SHOAL_OF_ARGUMENTS(function)                                                                         \
  template <class F, class A>                                                                                \
  auto function(F f, const A& a, SourceLocation where = SourceLocation::current()) {                         \
    return detail::function(where, std::move(f), a);                                                         \
  }                                                                                                          \
  template <class F, class A, class B>                                                                       \
  auto function(F f, const A& a, const B& b, SourceLocation where = SourceLocation::current()) {             \
    return detail::function(where, std::move(f), a, b);                                                      \
  }                                                                                                          \
  template <class F, class A, class B, class C>                                                              \
  auto function(F f, const A& a, const B& b, const C& c, SourceLocation where = SourceLocation::current()) { \
    return detail::function(where, std::move(f), a, b, c);                                                   \
  }                                                                                                          \
  template <class F, class A, class B, class C, class D>                                                     \
  auto function(F f, const A& a, const B& b, const C& c, const D& d,                                         \
                SourceLocation where = SourceLocation::current()) {                                          \
    return detail::function(where, std::move(f), a, b, c, d);                                                \
  }                                                                                                          \
  template <class F, class A, class B, class C, class D, class E, class... More>                             \
  auto function(F f, const A& a, const B& b, const C& c, const D& d, const E& e, const More&... more) {      \
    return detail::function(SourceLocation(), std::move(f), a, b, c, d, e, more...);                         \
  }

/// f at these arguments, and its derivative in reverse. f runs once, however often that is called.
/// @return A pair of what f returns, and the function from its cotangent.
/// @example vjp([](const Array& x) { return x * x; }, Array(3.0f)).second(Array(1.0f))
/// @python jax.vjp(lambda x: x * x, 3.0)[1](1.0)[0]
///   6.0
SHOAL_OF_ARGUMENTS(vjp)
/// f at these arguments, and its derivative there, forward.
/// @return A pair of what f returns, and the function from tangents of the arguments.
/// @example linearize([](const Array& x) { return x * x; }, Array(3.0f)).second(Array(10.0f))
/// @python jax.linearize(lambda x: x * x, 3.0)[1](10.0)
///   60.0
SHOAL_OF_ARGUMENTS(linearize)
/// The transpose of a linear function of arguments like these, which may be types alone (ShapeDtypeStruct): from a
/// cotangent of the result to the tuple of those of the arguments, or the one of the only argument. Throws TypeMismatch
/// if an argument or result is none of floats or complex numbers, or for an operation that is not linear.
SHOAL_OF_ARGUMENTS(linear_transpose)
#undef SHOAL_OF_ARGUMENTS

/// The array as a constant to derivatives: its tangent is zero.
/// @param x An array or a number.
/// @return An array with the elements of x.
Array stop_gradient(const Operand& x);

}  // namespace shoal
