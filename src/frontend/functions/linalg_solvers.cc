// Solvers of matrices that devices share: what src/linalg does of an op, put together.
#include <cmath>

#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/promotion.h"
#include "frontend/array/trace.h"
#include "frontend/functions/linalg_operands.h"
#include "ops/table.h"
#include "shoal/lax.h"
#include "shoal/linalg.h"
#include "shoal/numpy.h"

namespace shoal::linalg {
namespace {

// An operand where the options want it.
Array placed(const Array& x, const SolverOptions& options, std::size_t number) {
  if (!options.mesh) {
    if (!options.in_specs.empty()) throw misuse<InvalidArgument>("in_specs are given without a mesh");
    return x;
  }
  if (number >= options.in_specs.size()) return x;
  return lax::with_sharding_constraint(x, NamedSharding(*options.mesh, options.in_specs[number]));
}

void check(const SolverOptions& options, std::size_t operands) {
  if (options.T_A < 0) throw misuse<InvalidArgument>("T_A is {}; it must be a number of rows, or 0", options.T_A);
  if (options.in_specs.size() > operands) {
    throw misuse<InvalidArgument>("in_specs has {} entries for {} operands", options.in_specs.size(), operands);
  }
}

Array matrix_of(const Operand& a, const SolverOptions& options) {
  const Array given = square_matrices(a);
  if (given.ndim() != 2) throw misuse<InvalidArgument>("the matrix {} must have two dimensions", type_of(given));
  return placed(given, options, 0);
}

std::int64_t tile_of(const Array& a, const SolverOptions& options) {
  return std::min(options.T_A, std::max<std::int64_t>(1, rows_of(a)));
}

// The factor; its diagonal is NaN from the first row on with which leading blocks are not positive definite.
Array factor(const Array& a, const SolverOptions& options) {
  return bind_one("cholesky", {{"leading", true}, {"tile", tile_of(a, options)}}, {a});
}

// The x with l x = b, or l^H x = b.
Array substituted(const Array& l, const Array& b, bool is_adjoint, const SolverOptions& options) {
  Attrs attrs{{"lower", true}, {"unit_diagonal", false}, {"tile", tile_of(l, options)}};
  if (is_adjoint) attrs.set("adjoint", true);
  return bind_one("triangular_solve", std::move(attrs), {l, b});
}

Array diagonal_of(const Array& l) {
  const Array rows = lax::broadcasted_iota(int32, l.shape(), 0);
  const Array columns = lax::broadcasted_iota(int32, l.shape(), 1);
  return sum(where(rows == columns, real(l), 0), ReduceOptions{.axis = 1});
}

Array status_of(const Array& l) {
  if (rows_of(l) == 0) return zeros({}, {.dtype = int32});
  const Array is_bad = isnan(diagonal_of(l));
  return where(any(is_bad), astype(argmax(is_bad), int32) + 1, 0);
}

// Throws if it is known here that there is no factor.
void check_definite(const Array& a, const Array& l) {
  const std::int64_t n = rows_of(l);
  if (n == 0 || l.is_tracer()) return;
  const Array last = reshape(lax::slice(l, {n - 1, n - 1}, {n, n}), {});
  if (!isnan(real(last)).item<bool>()) return;
  const std::int32_t status = status_of(l).item<std::int32_t>();
  throw misuse<InvalidArgument>(
      "the matrix {} is not positive definite, or not finite: its leading block of {} rows has no Cholesky factor. "
      "With "
      "return_status it is not an error",
      type_of(a), status);
}

PotrsResult result_of(Array x, const Array& l, const SolverOptions& options) {
  PotrsResult result{.x = std::move(x), .status = {}, .logdet = {}};
  if (options.return_status) result.status = status_of(l);
  if (options.return_logdet) result.logdet = 2 * sum(log(diagonal_of(l)));
  return result;
}

// NaN where there are no eigenvalues.
Array spectrum_is_bad(const Array& w) { return any(isnan(w)); }

}  // namespace

Array potrf(const Operand& a, const SolverOptions& options) {
  const Caller caller("potrf", a.where());
  check(options, 1);
  const Array matrix = matrix_of(a, options);
  const Array l = factor(matrix, options);
  check_definite(matrix, l);
  return l;
}

PotrsResult potrs(const Operand& a, const Operand& b, const SolverOptions& options) {
  const Caller caller("potrs", a.where());
  check(options, 2);
  const Array matrix = matrix_of(a, options);
  const Array right = to_array(b);
  const bool is_vector = right.ndim() == 1;
  if (right.ndim() < 1 || right.ndim() > 2 || right.shape()[0] != rows_of(matrix) || right.dtype() != matrix.dtype()) {
    throw misuse<InvalidArgument>("the right sides {} must have the dtype of the matrix {}, and as many rows",
                                  type_of(right), type_of(matrix));
  }
  const Array given = placed(right, options, 1);
  const Array sides = is_vector ? expand_dims(given, -1) : given;
  const Array l = factor(matrix, options);
  if (!options.return_status) check_definite(matrix, l);
  const Array solution = substituted(l, substituted(l, sides, false, options), true, options);
  const Array x = is_vector ? squeeze(solution, -1) : solution;
  return result_of(placed(x, options, 1), l, options);
}

PotrsResult potri(const Operand& a, const SolverOptions& options) {
  const Caller caller("potri", a.where());
  check(options, 1);
  const Array matrix = matrix_of(a, options);
  const Array l = factor(matrix, options);
  if (!options.return_status) check_definite(matrix, l);
  return result_of(bind_one("cholesky_inverse", {{"tile", tile_of(l, options)}}, {l}), l, options);
}

SyevdResult syevd(const Operand& a, const SolverOptions& options) {
  const Caller caller("syevd", a.where());
  check(options, 1);
  const Array matrix = matrix_of(a, options);
  Attrs attrs{{"tile", tile_of(matrix, options)}};
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
