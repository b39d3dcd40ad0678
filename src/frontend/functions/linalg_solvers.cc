// Solvers of matrices that devices share: what src/linalg does of an op, put together.
#include <cmath>

#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/promotion.h"
#include "frontend/array/trace.h"
#include "frontend/functions/linalg_operands.h"
#include "frontend/functions/solver_operands.h"
#include "ops/table.h"
#include "shoal/lax.h"
#include "shoal/linalg.h"
#include "shoal/numpy.h"

namespace shoal::linalg {

Array placed(const Array& x, const SolverOptions& options, std::size_t number) {
  if (!options.mesh) {
    if (!options.in_specs.empty()) throw misuse<InvalidArgument>("in_specs are given without a mesh");
    return x;
  }
  if (number >= options.in_specs.size()) return x;
  return lax::with_sharding_constraint(x, NamedSharding(*options.mesh, options.in_specs[number]));
}

void check_options(const SolverOptions& options, std::size_t operands) {
  if (options.T_A < 0) throw misuse<InvalidArgument>("T_A is {}; it must be a number of rows, or 0", options.T_A);
  if (options.in_specs.size() > operands) {
    throw misuse<InvalidArgument>("in_specs has {} entries for {} operands", options.in_specs.size(), operands);
  }
}

Array any_matrix(const Operand& a, const SolverOptions& options, std::size_t number) {
  const Array given = matrices(a);
  if (given.ndim() != 2) throw misuse<InvalidArgument>("the matrix {} must have two dimensions", type_of(given));
  return placed(given, options, number);
}

Array square_matrix(const Operand& a, const SolverOptions& options, std::size_t number) {
  return any_matrix(square_matrices(a), options, number);
}

Array Sides::result(const Array& x) const { return is_vector ? squeeze(x, -1) : x; }

Sides sides_of(const Operand& b, const Array& matrix, const SolverOptions& options) {
  const Array right = to_array(b);
  const bool is_vector = right.ndim() == 1;
  if (right.ndim() < 1 || right.ndim() > 2 || right.shape()[0] != rows_of(matrix) || right.dtype() != matrix.dtype()) {
    throw misuse<InvalidArgument>("the right sides {} must have the dtype of the matrix {}, and as many rows",
                                  type_of(right), type_of(matrix));
  }
  const Array given = placed(right, options, 1);
  return {is_vector ? expand_dims(given, -1) : given, is_vector};
}

std::int64_t tile_of(std::int64_t extent, const SolverOptions& options) {
  return std::min(options.T_A, std::max<std::int64_t>(1, extent));
}

Array leading_factor(const Array& a, const SolverOptions& options) {
  return bind_one("cholesky", {{"leading", true}, {"tile", tile_of(rows_of(a), options)}}, {a});
}

Array solved_with(const Array& l, const Array& b, bool is_adjoint, const SolverOptions& options) {
  Attrs attrs{{"lower", true}, {"unit_diagonal", false}, {"tile", tile_of(rows_of(l), options)}};
  if (is_adjoint) attrs.set("adjoint", true);
  return bind_one("triangular_solve", std::move(attrs), {l, b});
}

Array diagonal_of(const Array& x) {
  const Array rows = lax::broadcasted_iota(int32, x.shape(), 0);
  const Array columns = lax::broadcasted_iota(int32, x.shape(), 1);
  return sum(where(rows == columns, x, 0), ReduceOptions{.axis = 1});
}

namespace {

// Without its imaginary parts.
Array real_diagonal_of(const Array& l) {
  const Array rows = lax::broadcasted_iota(int32, l.shape(), 0);
  const Array columns = lax::broadcasted_iota(int32, l.shape(), 1);
  return sum(where(rows == columns, real(l), 0), ReduceOptions{.axis = 1});
}

}  // namespace

Array status_of_factor(const Array& l) {
  if (rows_of(l) == 0) return zeros({}, {.dtype = int32});
  const Array is_bad = isnan(real_diagonal_of(l));
  return where(any(is_bad), astype(argmax(is_bad), int32) + 1, 0);
}

namespace {

// Throws if it is known here that there is no factor.
void check_definite(const Array& a, const Array& l) {
  const std::int64_t n = rows_of(l);
  if (n == 0 || l.is_tracer()) return;
  const Array last = reshape(lax::slice(l, {n - 1, n - 1}, {n, n}), {});
  if (!isnan(real(last)).item<bool>()) return;
  const std::int32_t status = status_of_factor(l).item<std::int32_t>();
  throw misuse<InvalidArgument>(
      "the matrix {} is not positive definite, or not finite: its leading block of {} rows has no Cholesky factor. "
      "With "
      "return_status it is not an error",
      type_of(a), status);
}

PotrsResult result_of(Array x, const Array& l, const SolverOptions& options) {
  PotrsResult result{.x = std::move(x), .status = {}, .logdet = {}};
  if (options.return_status) result.status = status_of_factor(l);
  if (options.return_logdet) result.logdet = 2 * sum(log(real_diagonal_of(l)));
  return result;
}

// NaN where there are no eigenvalues.
Array spectrum_is_bad(const Array& w) { return any(isnan(w)); }

}  // namespace

Array potrf(const Operand& a, const SolverOptions& options) {
  const Caller caller("potrf", a.where());
  check_options(options, 1);
  const Array matrix = square_matrix(a, options);
  const Array l = leading_factor(matrix, options);
  check_definite(matrix, l);
  return l;
}

PotrsResult potrs(const Operand& a, const Operand& b, const SolverOptions& options) {
  const Caller caller("potrs", a.where());
  check_options(options, 2);
  const Array matrix = square_matrix(a, options);
  const Sides sides = sides_of(b, matrix, options);
  const Array l = leading_factor(matrix, options);
  if (!options.return_status) check_definite(matrix, l);
  const Array half = solved_with(l, sides.columns, false, options);
  const Array x = sides.result(solved_with(l, half, true, options));
  return result_of(placed(x, options, 1), l, options);
}

PotrsResult potri(const Operand& a, const SolverOptions& options) {
  const Caller caller("potri", a.where());
  check_options(options, 1);
  const Array matrix = square_matrix(a, options);
  const Array l = leading_factor(matrix, options);
  if (!options.return_status) check_definite(matrix, l);
  return result_of(bind_one("cholesky_inverse", {{"tile", tile_of(rows_of(l), options)}}, {l}), l, options);
}

SyevdResult syevd(const Operand& a, const SolverOptions& options) {
  const Caller caller("syevd", a.where());
  check_options(options, 1);
  const Array matrix = square_matrix(a, options);
  Attrs attrs{{"tile", tile_of(rows_of(matrix), options)}};
  if (!options.return_eigenvectors) attrs.set("values_only", true);
  const std::vector<Array> found = shoal::bind(op_named("eigh"), std::move(attrs), {&matrix, 1});
  SyevdResult result{.w = found[0], .v = {}, .status = {}};
  if (options.return_eigenvectors) result.v = found[1];
  if (options.return_status) {
    result.status = astype(spectrum_is_bad(result.w), int32);
  } else if (rows_of(matrix) > 0 && !result.w.is_tracer() && spectrum_is_bad(result.w).item<bool>()) {
    throw misuse<InvalidArgument>(
        "the matrix {} has no eigenvalues: it is not finite, or they were not found. With return_status it is not an "
        "error",
        type_of(matrix));
  }
  return result;
}

}  // namespace shoal::linalg
