// Decompositions of matrices: from the ops to the functions of jax.lax.linalg and jax.numpy.linalg.
#include <fmt/format.h>

#include <algorithm>

#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/promotion.h"
#include "frontend/array/trace.h"
#include "frontend/functions/linalg_operands.h"
#include "ops/table.h"
#include "shoal/lax.h"
#include "shoal/linalg.h"
#include "shoal/numpy.h"

namespace shoal {
namespace {

std::vector<Array> decomposed(std::string_view op, Attrs attrs, const Array& x) {
  return shoal::bind(op_named(op), std::move(attrs), {&x, 1});
}

// The Hermitian matrices that are meant, in their lower triangle.
Array lower_triangle(const Array& x, bool lower, bool symmetrize) {
  if (symmetrize) return hermitian_part(x);
  return lower ? x : adjoint(x);
}

bool is_lower(const linalg::UploOptions& options) {
  if (options.UPLO == "L" || options.UPLO == "U") return options.UPLO == "L";
  throw misuse<InvalidArgument>("UPLO is \"{}\"; it must be \"L\" or \"U\"", options.UPLO);
}

std::vector<Array> eigen(const Array& x, bool lower, bool symmetrize, Attrs attrs = {}) {
  return decomposed("eigh", std::move(attrs), lower_triangle(x, lower, symmetrize));
}

}  // namespace

namespace lax::linalg {

Array cholesky(const Operand& x, bool symmetrize_input) {
  const Caller caller("cholesky", x.where());
  return decomposed("cholesky", {}, lower_triangle(square_matrices(x), true, symmetrize_input))[0];
}

Array triangular_solve(const Operand& a, const Operand& b, const TriangularSolveOptions& options) {
  const Caller caller("triangular_solve", a.where());
  const Array given = square_matrices(a);
  Array sides = to_array(b);
  // x op(a) = b is op(a)^T x^T = b^T. Vectors are matrices of one column then.
  const bool is_vector = sides.ndim() + 1 == given.ndim();
  const bool is_transposed = options.left_side == options.transpose_a;
  if (is_vector) {
    sides = expand_dims(sides, -1);
  } else if (!options.left_side) {
    sides = sides.ndim() < 2 ? sides : transposed(sides);
  }
  const Shape& extents = sides.shape();
  const bool fits = extents.size() >= 2 && batches_of(sides) == batches_of(given) && rows_of(sides) == rows_of(given);
  if (!fits || sides.dtype() != given.dtype()) {
    throw misuse<InvalidArgument>(
        "the right sides {} must have the dtype and the batches of the matrices {}, and as many {}",
        type_of(to_array(b)), type_of(given), options.left_side ? "rows" : "columns");
  }
  const bool is_conjugate = options.conjugate_a && is_complex(given.dtype());
  // Large matrices are not turned, which would move those that devices share.
  if (options.left_side && is_transposed && is_conjugate == is_complex(given.dtype()) && is_large(given)) {
    const Array solution = bind_one(
        "triangular_solve", {{"lower", options.lower}, {"unit_diagonal", options.unit_diagonal}, {"adjoint", true}},
        {given, sides});
    return is_vector ? squeeze(solution, -1) : solution;
  }
  const Array matrix = is_conjugate ? conj(given) : given;
  const Array solution = bind_one("triangular_solve",
                                  {{"lower", options.lower != is_transposed}, {"unit_diagonal", options.unit_diagonal}},
                                  {is_transposed ? transposed(matrix) : matrix, sides});
  if (is_vector) return squeeze(solution, -1);
  return options.left_side ? solution : transposed(solution);
}

LuResult lu(const Operand& x) {
  const Caller caller("lu", x.where());
  const std::vector<Array> results = decomposed("lu", {}, matrices(x));
  return {results[0], results[1], results[2]};
}

std::pair<Array, Array> qr(const Operand& x, bool full_matrices) {
  const Caller caller("qr", x.where());
  const std::vector<Array> results = decomposed("qr", {{"full", full_matrices}}, matrices(x));
  return {results[0], results[1]};
}

std::pair<Array, Array> eigh(const Operand& x, const EighOptions& options) {
  const Caller caller("eigh", x.where());
  const std::vector<Array> results = eigen(square_matrices(x), options.lower, options.symmetrize_input);
  return {results[1], results[0]};
}

std::pair<Array, Array> hessenberg(const Operand& x) {
  const Caller caller("hessenberg", x.where());
  const std::vector<Array> results = decomposed("hessenberg", {}, square_matrices(x));
  return {results[0], results[1]};
}

Array householder_product(const Operand& a, const Operand& taus) {
  const Caller caller("householder_product", a.where());
  const Array given = matrices(a);
  const Array factors = to_array(taus);
  const Shape& extents = factors.shape();
  const bool fits = rows_of(given) >= columns_of(given) && extents.size() + 1 == given.ndim() &&
                    std::equal(extents.begin(), extents.end() - 1, given.shape().begin()) &&
                    extents.back() <= columns_of(given) && factors.dtype() == given.dtype();
  if (!fits) {
    throw misuse<InvalidArgument>(
        "the factors {} must have the dtype and the batches of the matrices {}, and be no more than their columns, of "
        "which there are no more than rows",
        type_of(factors), type_of(given));
  }
  return bind_one("householder_product", {}, {given, factors});
}

Array ormqr(const Operand& a, const Operand& taus, const Operand& c, const OrmqrOptions& options) {
  const Caller caller("ormqr", a.where());
  const Array given = matrices(a);
  const Array by = matrices(c);
  const std::int64_t m = rows_of(given);
  if ((options.left ? rows_of(by) : columns_of(by)) != m || batches_of(by) != batches_of(given) ||
      by.dtype() != given.dtype()) {
    throw misuse<InvalidArgument>("{} must have the dtype and the batches of the reflections {}, and {} {}",
                                  type_of(by), type_of(given), m, options.left ? "rows" : "columns");
  }
  // All columns of Q: those that have no reflection are of the identity.
  Array square = given;
  if (columns_of(given) > m) {
    square = lax::slice_in_dim(given, 0, m, 1, -1);
  } else if (columns_of(given) < m) {
    Shape rest = given.shape();
    rest.back() = m - columns_of(given);
    square = shoal::concatenate({given, zeros(rest, {.dtype = given.dtype()})}, -1);
  }
  const Array q = householder_product(square, taus);
  const Array factor = options.transpose ? adjoint(q) : q;
  return options.left ? product(factor, by) : product(by, factor);
}

std::pair<Array, Array> schur(const Operand& x) {
  const Caller caller("schur", x.where());
  const std::vector<Array> results = decomposed("schur", {}, square_matrices(x));
  return {results[0], results[1]};
}

EigResult eig(const Operand& x, const EigOptions& options) {
  const Caller caller("eig", x.where());
  const bool left = options.compute_left_eigenvectors;
  const bool right = options.compute_right_eigenvectors;
  const std::vector<Array> results = decomposed(
      "eig", {{"left", left}, {"right", right}, {"differentiable", options.enable_eigvec_derivs}}, square_matrices(x));
  EigResult result{.w = results[0], .vl = {}, .vr = {}};
  if (left) result.vl = results[1];
  if (right) result.vr = results.back();
  return result;
}

}  // namespace lax::linalg

namespace linalg {

Array cholesky(const Operand& a, const CholeskyOptions& options) {
  const Caller caller("cholesky", a.where());
  const Array factor = lax::linalg::cholesky(a, options.symmetrize_input);
  return options.upper ? adjoint(factor) : factor;
}

QRResult qr(const Operand& a, const std::string& mode) {
  const Caller caller("qr", a.where());
  if (mode != "reduced" && mode != "complete") {
    throw misuse<InvalidArgument>("mode is \"{}\"; it must be \"reduced\" or \"complete\"", mode);
  }
  auto [q, r] = lax::linalg::qr(a, mode == "complete");
  return {std::move(q), std::move(r)};
}

EighResult eigh(const Operand& a, const UploOptions& options) {
  const Caller caller("eigh", a.where());
  const bool lower = is_lower(options);
  const std::vector<Array> results = eigen(square_matrices(a), lower, options.symmetrize_input);
  return {results[0], results[1]};
}

Array eigvalsh(const Operand& a, const UploOptions& options) {
  const Caller caller("eigvalsh", a.where());
  const bool lower = is_lower(options);
  return eigen(square_matrices(a), lower, options.symmetrize_input, {{"values_only", true}})[0];
}

EighResult eig(const Operand& a) {
  const Caller caller("eig", a.where());
  const lax::linalg::EigResult result = lax::linalg::eig(a, {.compute_left_eigenvectors = false});
  return {result.w, *result.vr};
}

Array eigvals(const Operand& a) {
  const Caller caller("eigvals", a.where());
  return lax::linalg::eig(a, {.compute_left_eigenvectors = false, .compute_right_eigenvectors = false}).w;
}

SVDResult svd(const Operand& a, bool full_matrices) {
  const Caller caller("svd", a.where());
  const std::vector<Array> results = decomposed("svd", {{"full", full_matrices}}, matrices(a));
  return {results[0], results[1], results[2]};
}

Array svdvals(const Operand& a) {
  const Caller caller("svdvals", a.where());
  return decomposed("svd", {{"full", false}, {"values_only", true}}, matrices(a))[0];
}

}  // namespace linalg
}  // namespace shoal
