// Loops and branches whose trips and predicates are known when a program runs: lax::scan, while_loop, fori_loop, cond,
// switch_, map and associative_scan; and a wall for the compiler, optimization_barrier.
//
// Functions take and give trees of arrays. They are traced once, inside jit and outside; arrays that they capture are
// operands like any other. Each becomes one equation that holds their graphs, and is placed, compiled and run as such.
#pragma once

#include <any>
#include <cstdint>
#include <functional>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "shoal/array.h"
#include "shoal/callable.h"
#include "shoal/tree.h"

namespace shoal::lax {

struct ScanOptions {
  std::optional<std::int64_t> length = {};  ///< The number of trips; needed if there are no xs.
  bool reverse = false;                     ///< From the last slice to the first.
  std::int64_t unroll = 1;                  ///< How many trips the body is repeated for. Results do not depend on it.
};

struct WhileOptions {
  /// The loop has a derivative in reverse, for which it keeps this number of its states, at least 1, and one more that
  /// is being written: all others are computed again. Without it there is none. Results do not depend on it, and
  /// neither do gradients.
  std::optional<std::int64_t> max_checkpoints = {};
};

struct ForiOptions {
  std::int64_t unroll = 1;  ///< How many trips the body is repeated for, if the bounds are numbers.
  /// As of WhileOptions. If the bounds are numbers there is a derivative without it, too, which keeps all states.
  std::optional<std::int64_t> max_checkpoints = {};
};

struct MapOptions {
  /// How many slices go as one, as vmap does it; without it they go one by one. Results do not depend on it.
  std::optional<std::int64_t> batch_size = {};
};

struct AssociativeScanOptions {
  bool reverse = false;   ///< Whether to begin at the end of the dimension.
  std::int64_t axis = 0;  ///< The dimension, from the end if negative.
};

}  // namespace shoal::lax

namespace shoal::detail {

std::vector<Array> call_scan(const lax::ScanOptions& options, const CallArguments& arguments,
                             const TracedFunction& body, std::any& exemplar, SourceLocation where);
std::vector<Array> call_while(const lax::WhileOptions& options, const CallArguments& arguments,
                              const TracedFunction& condition, const TracedFunction& body, std::any& exemplar,
                              SourceLocation where);
/// The body gets the number of the trip before the leaves.
std::vector<Array> call_fori(const lax::ForiOptions& options, const Operand& lower, const Operand& upper,
                             const CallArguments& init, const TracedFunction& body, std::any& exemplar,
                             SourceLocation where);
std::vector<Array> call_cond(const Operand& predicate, const CallArguments& arguments, const TracedFunction& on_true,
                             const TracedFunction& on_false, std::any& exemplar);
std::vector<Array> call_switch(const Operand& index, const CallArguments& arguments,
                               const std::vector<TracedFunction>& branches, std::any& exemplar);
std::vector<Array> call_map(std::optional<std::int64_t> batch_size, const CallArguments& arguments,
                            const TracedFunction& function, std::any& exemplar, SourceLocation where);
using Combine = std::function<std::vector<Array>(const std::vector<Array>&, const std::vector<Array>&)>;
std::vector<Array> call_barrier(const std::vector<Array>& operands, SourceLocation where);
std::vector<Array> call_associative_scan(const lax::AssociativeScanOptions& options, const CallArguments& elements,
                                         const Combine& combine, SourceLocation where);

template <class Kept, class F>
auto with_exemplar(F&& call) {
  std::any exemplar;
  const std::vector<Array> leaves = call(exemplar);
  return unflatten<Kept>(exemplar, leaves);
}

}  // namespace shoal::detail

namespace shoal::lax {

/// body(carry, x) for the slices x of xs along their first dimension, where each call gets the carry that the one
/// before returned, and the first one init. body returns a pair of carry and y; the result is the last carry and the
/// stack of the ys. xs is a tree of arrays with equal first extents; std::tuple<>() for none. Throws TypeMismatch if
/// the carry changes its structure or the type of an array, and InvalidArgument if extents differ or
/// the number of trips is not known. An array of init that is weakly typed takes the type that body gives it.
/// @param body The function (carry, x) of which each trip is a call.
/// @param init The first carry: a tree of arrays.
/// @param xs A tree of arrays, one slice for each trip.
/// @return A pair of the last carry and the ys, stacked along a new first dimension.
/// @example lax::scan([](Array c, Array x) { return std::pair(c + x, c * x); }, Array(0), arange(4)).second
/// @python lax.scan(lambda c, x: (c + x, c * x), 0, jnp.arange(4))[1]
///   [0 0 2 9]
template <class F, class Carry, class Xs>
auto scan(F body, const Carry& init, const Xs& xs, const ScanOptions& options = {},
          SourceLocation where = SourceLocation::current()) {
  const std::tuple<detail::ArgumentOf<Carry>, detail::ArgumentOf<Xs>> arguments(detail::keep(init), detail::keep(xs));
  using R = detail::ResultOf<F, std::decay_t<decltype(arguments)>>;
  static_assert(std::tuple_size_v<R> == 2, "the body of a scan returns a pair of carry and y");
  return detail::with_exemplar<R>([&](std::any& exemplar) {
    return detail::call_scan(options, detail::flatten_arguments(arguments), detail::on_leaves<R>(body, arguments),
                             exemplar, where);
  });
}

/// body applied to init and then to its own result, as long as condition of it is true. condition returns a bool
/// scalar. Throws TypeMismatch if body changes the structure or the type of an array, or condition gives something
/// else. With options.max_checkpoints = c the derivative in reverse of n trips calls body some r n times more, where
/// r is the least number with (c + r)! / (c! r!) >= n, or a little more: states are kept where they divide the trips as
/// Griewank and Walther, "Algorithm 799: revolve", 2000, do, but those of the first pass, which does not know n, at
/// equal distances.
/// @param condition The function of the value that says whether to go on.
/// @param body The function from value to value.
/// @param init The first value: a tree of arrays.
/// @return The first value for which the condition is false.
/// @example lax::while_loop([](Array x) { return x < 100; }, [](Array x) { return x * 2; }, Array(1))
/// @python lax.while_loop(lambda x: x < 100, lambda x: x * 2, 1)
///   128
template <class C, class F, class T>
auto while_loop(C condition, F body, const T& init, const WhileOptions& options = {},
                SourceLocation where = SourceLocation::current()) {
  const std::tuple<detail::ArgumentOf<T>> arguments(detail::keep(init));
  using Kept = std::decay_t<decltype(arguments)>;
  using R = detail::ResultOf<F, Kept>;
  return detail::with_exemplar<R>([&](std::any& exemplar) {
    return detail::call_while(options, detail::flatten_arguments(arguments),
                              detail::on_leaves<detail::ResultOf<C, Kept>>(condition, arguments),
                              detail::on_leaves<R>(body, arguments), exemplar, where);
  });
}

/// body(i, value) for i from lower to upper - 1, each on the value that the one before returned. Bounds are integer
/// scalars; where both are numbers the loop is a scan.
/// @param lower The first number of a trip.
/// @param upper The number before which trips end.
/// @param body The function (i, value) of which each trip is a call.
/// @param init The first value: a tree of arrays.
/// @return The value after the last trip; init if there is none.
/// @example lax::fori_loop(0, 5, [](Array i, Array x) { return x + i; }, Array(0))
/// @python lax.fori_loop(0, 5, lambda i, x: x + i, 0)
///   10
template <class F, class T>
auto fori_loop(const Operand& lower, const Operand& upper, F body, const T& init, const ForiOptions& options = {},
               SourceLocation where = SourceLocation::current()) {
  const std::tuple<Array, detail::ArgumentOf<T>> arguments(Array(), detail::keep(init));  // A number is put in.
  using R = detail::ResultOf<F, std::decay_t<decltype(arguments)>>;
  const std::tuple<detail::ArgumentOf<T>> value(std::get<1>(arguments));
  return detail::with_exemplar<R>([&](std::any& exemplar) {
    return detail::call_fori(options, lower, upper, detail::flatten_arguments(value),
                             detail::on_leaves<R>(body, arguments), exemplar, where);
  });
}

/// on_true(operands…) if the scalar `predicate` is true (a number: not zero), else on_false(operands…). Only that one
/// runs. Both return the same structure and types; throws TypeMismatch otherwise.
/// @param predicate A bool scalar, or a number.
/// @param on_true The function that is called where it is true.
/// @param on_false The function that is called otherwise.
/// @param operands What either is called with: trees of arrays.
/// @return What the function returned.
/// @example lax::cond(true, [](Array x) { return x + 1; }, [](Array x) { return x - 1; }, Array(5))
/// @python lax.cond(True, lambda x: x + 1, lambda x: x - 1, 5)
///   6
template <class F, class G, class... Args>
auto cond(const Operand& predicate, F on_true, G on_false, const Args&... operands) {
  const std::tuple<detail::ArgumentOf<Args>...> arguments(detail::keep(operands)...);
  using Kept = std::decay_t<decltype(arguments)>;
  using R = detail::ResultOf<F, Kept>;
  static_assert(std::is_same_v<R, detail::ResultOf<G, Kept>>, "both functions of a cond return the same type");
  return detail::with_exemplar<R>([&](std::any& exemplar) {
    return detail::call_cond(predicate, detail::flatten_arguments(arguments), detail::on_leaves<R>(on_true, arguments),
                             detail::on_leaves<R>(on_false, arguments), exemplar);
  });
}

/// branches[index](operands…); an index out of bounds takes the nearest. As cond.
/// @param index An integer scalar.
/// @param branches The functions.
/// @param operands What the one that is chosen is called with: trees of arrays.
/// @return What the function returned.
template <class R, class... P, class... Args>
R switch_(const Operand& index, const std::vector<std::function<R(P...)>>& branches, const Args&... operands) {
  const std::tuple<detail::ArgumentOf<Args>...> arguments(detail::keep(operands)...);
  return detail::with_exemplar<R>([&](std::any& exemplar) {
    std::vector<detail::TracedFunction> traced;
    for (const std::function<R(P...)>& branch : branches) traced.push_back(detail::on_leaves<R>(branch, arguments));
    return detail::call_switch(index, detail::flatten_arguments(arguments), traced, exemplar);
  });
}

/// The stack of function(x) for the slices x of xs along their first dimension, one after the other.
/// @param function A function of a slice.
/// @param xs A tree of arrays with equal first extents.
/// @return The results, stacked along a new first dimension.
/// @example lax::map([](Array x) { return x * x; }, arange(4))
/// @python lax.map(lambda x: x * x, jnp.arange(4))
///   [0 1 4 9]
template <class F, class Xs>
auto map(F function, const Xs& xs, const MapOptions& options = {}, SourceLocation where = SourceLocation::current()) {
  const std::tuple<detail::ArgumentOf<Xs>> arguments(detail::keep(xs));
  using R = detail::ResultOf<F, std::decay_t<decltype(arguments)>>;
  return detail::with_exemplar<R>([&](std::any& exemplar) {
    return detail::call_map(options.batch_size, detail::flatten_arguments(arguments),
                            detail::on_leaves<R>(function, arguments), exemplar, where);
  });
}

/// The arrays of a tree as they are, where nothing that is computed of the results is merged with, or moved to, what is
/// computed before.
/// @param operands A tree of arrays.
template <class T>
T optimization_barrier(T operands, SourceLocation where = SourceLocation::current()) {
  tree::assign(operands, detail::call_barrier(tree::flatten(operands), where));
  return operands;
}

/// For each position along a dimension the elements up to it combined by an associative function of two trees, which
/// gets slices of many positions at once and computes each by itself.
/// The odd-even scheme of Blelloch, "Prefix sums and their applications", 1990.
/// @param combine The function of two trees like `elements`.
/// @param elements A tree of arrays with equal extents along the dimension.
/// @return A tree like `elements`.
/// @example lax::associative_scan([](Array a, Array b) { return a + b; }, arange(4))
/// @python lax.associative_scan(lambda a, b: a + b, jnp.arange(4))
///   [0 1 3 6]
template <class F, class T>
T associative_scan(F combine, const T& elements, const AssociativeScanOptions& options = {},
                   SourceLocation where = SourceLocation::current()) {
  const auto on_leaves = [&](const std::vector<Array>& a, const std::vector<Array>& b) {
    T left = elements;
    T right = elements;
    tree::assign(left, a);
    tree::assign(right, b);
    return tree::flatten(T(combine(std::move(left), std::move(right))));
  };
  T result = elements;
  tree::assign(result, detail::call_associative_scan(options, detail::flatten_arguments(std::tuple<T>(elements)),
                                                     on_leaves, where));
  return result;
}

}  // namespace shoal::lax
