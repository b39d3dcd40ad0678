// Functions that are given by what their result satisfies, with the derivatives that follow from that and not from how
// the result was found: lax::custom_root, lax::custom_linear_solve.
//
// The functions that the user gives are traced, once for a call and once where they are transposed. They may use arrays
// from outside, which derivatives are taken by as if they were arguments.
//
// @param f The function whose root is wanted.
// @param initial_guess A tree of arrays, near which the root is looked for.
// @param solve The function that finds the solution.
// @param tangent_solve The function that solves a linear equation.
// @param matvec The linear function.
// @param b The right side: a tree of arrays.
// @param transpose_solve The function that solves the equation of the transpose.
#pragma once

#include <any>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "shoal/array.h"
#include "shoal/callable.h"
#include "shoal/custom_derivatives.h"
#include "shoal/tree.h"

namespace shoal {
namespace detail {

using LeafFunction = std::function<std::vector<Array>(const std::vector<Array>&)>;
/// What finds x with function(x) = leaves, or a root of it near these: x, and perhaps more leaves.
using Solve = std::function<TracedResult(const LeafFunction& function, const std::vector<Array>& leaves)>;

std::vector<Array> call_custom_root(const CallArguments& guess, const TracedFunction& function, const Solve& solve,
                                    const Solve& tangent_solve, std::any& exemplar, SourceLocation where);

struct LinearSolve {
  Solve solve;
  Solve transpose_solve = {};  ///< May be empty.
  bool symmetric = false;
};
std::vector<Array> call_custom_linear_solve(const CallArguments& b, const TracedFunction& matvec,
                                            const LinearSolve& options, std::any& exemplar, SourceLocation where);

/// A function of leaves as one of trees like `like`.
template <class T>
std::function<T(const T&)> on_trees(const LeafFunction& function, const T& like) {
  return [function, like](const T& tree) { return with_leaves(like, function(tree::flatten(tree))); };
}

/// What is given to solvers, and what they return: trees like `like`, or a pair of one and more.
template <class S, class T>
using SolutionOf = std::decay_t<std::invoke_result_t<S&, std::function<T(const T&)>, const T&>>;
template <class T, class S>
Solve solve_on_leaves(S solve, const T& tree) {
  const T like = tree::map([](const Array&) { return Array(); }, tree);
  return [solve, like](const LeafFunction& function, const std::vector<Array>& leaves) mutable {
    return flat_result<SolutionOf<S, T>>(solve(on_trees(function, like), with_leaves(like, leaves)));
  };
}
template <class R, class T>
constexpr void check_solution() {
  if constexpr (!std::is_same_v<R, T>) {
    static_assert(std::is_same_v<typename R::first_type, T>,
                  "a solver returns a tree like the one it is given, or a pair of that and more");
  }
}

template <class F, class T, class S>
auto linear_solve(F& matvec, const T& b, S solve, LinearSolve options, SourceLocation where) {
  using X = ArgumentOf<T>;
  using R = SolutionOf<S, X>;
  check_solution<R, X>();
  const std::tuple<X> right(keep(b));
  options.solve = solve_on_leaves<X>(std::move(solve), std::get<0>(right));
  std::any exemplar;
  std::vector<Array> leaves =
      call_custom_linear_solve(flatten_arguments(right), on_leaves<X>(matvec, right), options, exemplar, where);
  return unflatten<R>(exemplar, std::move(leaves));
}

}  // namespace detail

namespace lax {

/// What solve(f, initial_guess) finds as a root of f, with the derivative that the implicit function theorem gives, by
/// all that f uses: tangent_solve(g, y) solves g(x) = y, where g is f linearized at the root. Roots are trees like
/// initial_guess; f returns a tree like its argument. solve may return a pair of the root and of more, which is
/// returned, too, and has no derivative. Throws TypeMismatch if a function returns fewer arrays than that.
template <class F, class T, class S, class G>
auto custom_root(F f, const T& initial_guess, S solve, G tangent_solve,
                 SourceLocation where = SourceLocation::current()) {
  using X = detail::ArgumentOf<T>;
  using R = detail::SolutionOf<S, X>;
  detail::check_solution<R, X>();
  const std::tuple<X> guess(detail::keep(initial_guess));
  const X& like = std::get<0>(guess);
  std::any exemplar;
  std::vector<Array> leaves =
      detail::call_custom_root(detail::flatten_arguments(guess), detail::on_leaves<X>(f, guess),
                               detail::solve_on_leaves<X>(std::move(solve), like),
                               detail::solve_on_leaves<X>(std::move(tangent_solve), like), exemplar, where);
  return detail::unflatten<R>(exemplar, std::move(leaves));
}

struct LinearSolveOptions {
  bool symmetric = false;  ///< The function is its own transpose, and solve is the solver of that.
};

/// The solution x of matvec(x) = b that solve(matvec, b) finds, for a function that is linear, with derivatives by b
/// and by all that matvec uses, which solve such equations again: forward by solve, in reverse by
/// transpose_solve(vecmat, c), where vecmat is the transpose of matvec. x and b are trees of arrays of the same types.
/// Solvers may return a pair of the solution and of more, which is returned, too, and has no derivative. Throws
/// TypeMismatch if matvec returns arrays of other types than b has.
template <class F, class T, class S, class G>
auto custom_linear_solve(F matvec, const T& b, S solve, G transpose_solve,
                         SourceLocation where = SourceLocation::current()) {
  detail::check_solution<detail::SolutionOf<G, detail::ArgumentOf<T>>, detail::ArgumentOf<T>>();
  const auto transposed = detail::solve_on_leaves<detail::ArgumentOf<T>>(std::move(transpose_solve), detail::keep(b));
  return detail::linear_solve(matvec, b, std::move(solve), {.solve = {}, .transpose_solve = transposed}, where);
}
/// The same where solve does for the transpose, or without one: then there is no derivative in reverse but through the
/// operations of solve.
template <class F, class T, class S>
auto custom_linear_solve(F matvec, const T& b, S solve, const LinearSolveOptions& options = {},
                         SourceLocation where = SourceLocation::current()) {
  return detail::linear_solve(matvec, b, std::move(solve),
                              {.solve = {}, .transpose_solve = {}, .symmetric = options.symmetric}, where);
}

}  // namespace lax
}  // namespace shoal
