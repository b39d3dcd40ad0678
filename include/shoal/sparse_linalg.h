// Linear equations by iteration, for matrices that are known by what they do to a vector: linalg::cg, gmres, bicgstab.
//
// They go in jit, vmap and over devices: vectors stay as they are split, and what devices exchange is sums of products.
// Derivatives, by b and by all that the function of the matrix uses, solve such an equation again
// (custom_linear_solve): they are as exact as that and the solution are.
//
// @param A The function of the matrix, or the matrix.
// @param b The right side: a tree of arrays.
// @param options How exact it shall be, and where it begins.
// @param matrix The matrix.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "shoal/array.h"
#include "shoal/callable.h"
#include "shoal/implicit.h"
#include "shoal/tree.h"

namespace shoal::linalg {

/// A linear function of trees of arrays, or the matrix of one of vectors.
template <class T>
class LinearOperator {
 public:
  LinearOperator(const Array& matrix) : matrix_(matrix) {}
  template <class F>
  requires std::invocable<F&, const T&> LinearOperator(F function) : function_(std::move(function)) {}
  const std::optional<Array>& matrix() const { return matrix_; }
  const std::function<T(const T&)>& function() const { return function_; }

 private:
  std::optional<Array> matrix_;
  std::function<T(const T&)> function_;
};

template <class T>
struct IterationOptions {
  std::optional<T> x0 = {};  ///< Where to begin; default: zeros.
  /// The iteration ends where the length of b - A x is at most the greater of tol times that of b and atol.
  Operand tol = 1e-5;
  Operand atol = 0.0;
  std::optional<Operand> maxiter = {};      ///< Default: 10 times the number of unknowns.
  std::optional<LinearOperator<T>> M = {};  ///< What is near the inverse of A, and makes the iteration shorter.
};

enum class GmresMethod : std::uint8_t {
  kBatched,      ///< Builds the whole space, and then finds the best vector in it.
  kIncremental,  ///< Finds out with each dimension how far it is by rotations, and ends where that is enough.
};

/// IterationOptions, and more.
template <class T>
struct GmresOptions {
  std::optional<T> x0 = {};
  Operand tol = 1e-5;
  Operand atol = 0.0;
  std::int64_t restart = 20;  ///< The dimension of the space in which the solution is looked for before it begins anew.
  std::optional<Operand> maxiter = {};
  std::optional<LinearOperator<T>> M = {};
  GmresMethod solve_method = GmresMethod::kBatched;
};

}  // namespace shoal::linalg

namespace shoal::detail {

/// A linear function of leaves, or a matrix.
struct LeafOperator {
  std::optional<Array> matrix = {};
  LeafFunction function = {};
};
struct Iteration {
  LeafOperator A;
  CallArguments b;
  std::optional<CallArguments> x0;
  Operand tol;
  Operand atol;
  std::optional<Operand> maxiter;
  std::optional<LeafOperator> M;
};
std::vector<Array> call_cg(const Iteration& iteration, SourceLocation where);
std::vector<Array> call_bicgstab(const Iteration& iteration, SourceLocation where);
/// And whether it failed.
std::pair<std::vector<Array>, Array> call_gmres(const Iteration& iteration, std::int64_t restart,
                                                linalg::GmresMethod method, SourceLocation where);

template <class T>
LeafOperator operator_on_leaves(const linalg::LinearOperator<T>& map, const T& like) {
  LeafOperator made{.matrix = map.matrix()};
  if (map.function()) {
    made.function = [f = map.function(), like](const std::vector<Array>& leaves) {
      return tree::flatten(f(with_leaves(like, leaves)));
    };
  }
  return made;
}

template <class T, class Options>
Iteration iteration_of(const linalg::LinearOperator<T>& A, const T& b, const Options& options) {
  const T like = tree::map([](const Array&) { return Array(); }, b);
  Iteration made{.A = operator_on_leaves(A, like),
                 .b = flatten_arguments(std::tuple<T>(b)),
                 .x0 = {},
                 .tol = options.tol,
                 .atol = options.atol,
                 .maxiter = options.maxiter,
                 .M = {}};
  if (options.x0) made.x0 = flatten_arguments(std::tuple<T>(*options.x0));
  if (options.M) made.M = operator_on_leaves(*options.M, like);
  return made;
}

}  // namespace shoal::detail

namespace shoal::linalg {

/// The x with A x = b by conjugate gradients, for A that is Hermitian and positive definite: a function of trees like
/// b, or a square matrix. b and x are trees of arrays of floats or complex numbers, of any shapes. Throws
/// InvalidArgument for a matrix that is not square, or b or x0 that do not fit; TypeMismatch if A gives arrays of other
/// types than b has, or b has others than floats and complex numbers.
/// Hestenes and Stiefel, "Methods of conjugate gradients for solving linear systems", 1952.
template <class B>
detail::ArgumentOf<B> cg(const LinearOperator<detail::ArgumentOf<B>>& A, const B& b,
                         const IterationOptions<detail::ArgumentOf<B>>& options = {},
                         SourceLocation where = SourceLocation::current()) {
  const detail::ArgumentOf<B> right = detail::keep(b);
  return detail::with_leaves(right, detail::call_cg(detail::iteration_of(A, right, options), where));
}

/// The same for any A that has an inverse, by stabilized biconjugate gradients.
/// Van der Vorst, "Bi-CGSTAB: a fast and smoothly converging variant of Bi-CG", 1992.
template <class B>
detail::ArgumentOf<B> bicgstab(const LinearOperator<detail::ArgumentOf<B>>& A, const B& b,
                               const IterationOptions<detail::ArgumentOf<B>>& options = {},
                               SourceLocation where = SourceLocation::current()) {
  const detail::ArgumentOf<B> right = detail::keep(b);
  return detail::with_leaves(right, detail::call_bicgstab(detail::iteration_of(A, right, options), where));
}

/// The same by generalized minimal residuals, and an i32 scalar: 0, or -1 if the solution is not finite. `maxiter`
/// counts the spaces of `restart` dimensions. Throws InvalidArgument also if `restart` is less than 1. Saad and
/// Schultz, "GMRES: a generalized minimal residual algorithm for solving nonsymmetric linear systems", 1986.
template <class B>
std::pair<detail::ArgumentOf<B>, Array> gmres(const LinearOperator<detail::ArgumentOf<B>>& A, const B& b,
                                              const GmresOptions<detail::ArgumentOf<B>>& options = {},
                                              SourceLocation where = SourceLocation::current()) {
  const detail::ArgumentOf<B> right = detail::keep(b);
  auto [x, info] =
      detail::call_gmres(detail::iteration_of(A, right, options), options.restart, options.solve_method, where);
  return {detail::with_leaves(right, x), info};
}

}  // namespace shoal::linalg
