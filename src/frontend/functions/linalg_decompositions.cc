// Decompositions of matrices: from the ops to the functions of jax.lax.linalg and jax.numpy.linalg.
#include <fmt/format.h>

#include <algorithm>

#include "frontend/array/trace.h"
#include "frontend/functions/linalg_operands.h"
#include "ops/table.h"
#include "shoal/linalg.h"

namespace shoal {
namespace {

std::vector<Array> decomposed(const char* op, Attrs attrs, const Term& x) {
  return shoal::bind(op_named(op), std::move(attrs), {&x.array(), 1}, x.where());
}

// The Hermitian matrices that are meant, in their lower triangle.
Term lower_triangle(const Term& x, bool lower, bool symmetrize) {
  if (symmetrize) return hermitian_part(x);
  return lower ? x : adjoint(x);
}

bool is_lower(std::string_view function, const linalg::UploOptions& options, SourceLocation where) {
  if (options.UPLO == "L" || options.UPLO == "U") return options.UPLO == "L";
  throw InvalidArgument(fmt::format("{}: UPLO is \"{}\"; it must be \"L\" or \"U\"", function, options.UPLO), where);
}

std::vector<Array> eigen(const Term& x, bool lower, bool symmetrize) {
  return decomposed("eigh", {}, lower_triangle(x, lower, symmetrize));
}

}  // namespace

namespace lax::linalg {

Array cholesky(const Operand& x, bool symmetrize_input) {
  return decomposed("cholesky", {}, lower_triangle(square_matrices("cholesky", x), true, symmetrize_input))[0];
}

Array triangular_solve(const Operand& a, const Operand& b, const TriangularSolveOptions& options) {
  const Term given = square_matrices("triangular_solve", a);
  Term sides(to_array(b), a.where());
  // x op(a) = b is op(a)^T x^T = b^T. Vectors are matrices of one column then.
  const bool is_vector = sides.array().ndim() + 1 == given.array().ndim();
  const bool is_transposed = options.left_side == options.transpose_a;
  if (is_vector) {
    sides = {expand_dims(sides, -1), a.where()};
  } else if (!options.left_side) {
    sides = sides.array().ndim() < 2 ? sides : transposed(sides);
  }
  const Shape& extents = sides.array().shape();
  const bool fits = extents.size() >= 2 && batches_of(sides) == batches_of(given) && rows_of(sides) == rows_of(given);
  if (!fits || sides.array().dtype() != given.array().dtype()) {
    throw InvalidArgument(
        fmt::format("triangular_solve: the right sides {} must have the dtype and the batches of the "
                    "matrices {}, and as many {}",
                    type_of(to_array(b)), type_of(given.array()), options.left_side ? "rows" : "columns"),
        a.where());
  }
  const Term matrix = options.conjugate_a && is_complex(given.array().dtype()) ? given.then(conj) : given;
  const Term solution(bind_one("triangular_solve",
                               {{"lower", options.lower != is_transposed}, {"unit_diagonal", options.unit_diagonal}},
                               {is_transposed ? transposed(matrix).array() : matrix.array(), sides.array()}, a.where()),
                      a.where());
  if (is_vector) return squeeze(solution, -1);
  return options.left_side ? solution.array() : transposed(solution).array();
}

LuResult lu(const Operand& x) {
  const std::vector<Array> results = decomposed("lu", {}, matrices("lu", x));
  return {results[0], results[1], results[2]};
}

std::pair<Array, Array> qr(const Operand& x, bool full_matrices) {
  const std::vector<Array> results = decomposed("qr", {{"full", full_matrices}}, matrices("qr", x));
  return {results[0], results[1]};
}

std::pair<Array, Array> eigh(const Operand& x, const EighOptions& options) {
  const std::vector<Array> results = eigen(square_matrices("eigh", x), options.lower, options.symmetrize_input);
  return {results[1], results[0]};
}

}  // namespace lax::linalg

namespace linalg {

Array cholesky(const Operand& a, const CholeskyOptions& options) {
  const Term factor(lax::linalg::cholesky(a, options.symmetrize_input), a.where());
  return options.upper ? adjoint(factor).array() : factor.array();
}

QRResult qr(const Operand& a, const std::string& mode) {
  if (mode != "reduced" && mode != "complete") {
    throw InvalidArgument(fmt::format("qr: mode is \"{}\"; it must be \"reduced\" or \"complete\"", mode), a.where());
  }
  auto [q, r] = lax::linalg::qr(a, mode == "complete");
  return {std::move(q), std::move(r)};
}

EighResult eigh(const Operand& a, const UploOptions& options) {
  const bool lower = is_lower("eigh", options, a.where());
  const std::vector<Array> results = eigen(square_matrices("eigh", a), lower, options.symmetrize_input);
  return {results[0], results[1]};
}

Array eigvalsh(const Operand& a, const UploOptions& options) {
  const bool lower = is_lower("eigvalsh", options, a.where());
  return eigen(square_matrices("eigvalsh", a), lower, options.symmetrize_input)[0];
}

SVDResult svd(const Operand& a, bool full_matrices) {
  const std::vector<Array> results = decomposed("svd", {{"full", full_matrices}}, matrices("svd", a));
  return {results[0], results[1], results[2]};
}

Array svdvals(const Operand& a) { return decomposed("svd", {{"full", false}}, matrices("svdvals", a))[1]; }

}  // namespace linalg
}  // namespace shoal
