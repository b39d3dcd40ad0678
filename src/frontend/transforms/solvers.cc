// Solvers of matrices that devices share, made of products and of what src/linalg does.
#include "shoal/solvers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/promotion.h"
#include "frontend/array/trace.h"
#include "frontend/functions/contractions.h"
#include "frontend/functions/linalg_operands.h"
#include "frontend/functions/solver_operands.h"
#include "ops/table.h"
#include "shoal/control_flow.h"
#include "shoal/derivatives.h"
#include "shoal/implicit.h"
#include "shoal/lax.h"
#include "shoal/matrix_functions.h"
#include "shoal/numpy.h"

namespace shoal::linalg {
namespace {

using lax::linalg::LuResult;

// Refinements that are tried; with factors that do at all there are two or three.
constexpr int kMostRefinements = 30;
// What the estimate of a norm is worth does not grow with more steps (LAPACK's lacn2).
constexpr int kMostEstimates = 5;

std::vector<Array> factored(std::string_view op, Attrs attrs, const Array& a) {
  return shoal::bind(op_named(op), std::move(attrs), {&a, 1});
}

QRResult orthogonal_factors(const Array& a, const SolverOptions& options) {
  if (rows_of(a) < columns_of(a)) {
    throw misuse<InvalidArgument>("the matrix {} has more columns than rows; give its adjoint", type_of(a));
  }
  const std::vector<Array> found = factored("qr", {{"full", false}, {"tile", tile_of(columns_of(a), options)}}, a);
  return {found[0], found[1]};
}

// A number that is known here, or nothing.
template <class T>
std::optional<T> known(const Array& x) {
  if (x.is_tracer()) return {};
  return x.item<T>();
}

// The first place, counted from 1, where it is true; i32, 0 if nowhere.
Array first_of(const Array& is_bad) {
  if (is_bad.shape()[0] == 0) return zeros({}, {.dtype = int32});
  return where(any(is_bad), astype(argmax(is_bad), int32) + 1, 0);
}

// Of a diagonal of factors: where it is 0 or no number.
Array is_singular_at(const Array& diagonal) { return logical_not(greater(abs(diagonal), 0)); }

// What counts is the lower triangle.
Array hermitian_of(const Array& a) {
  const Array below = tril(a, -1);
  const Array diagonal = tril(a) - below;
  return below + adjoint(below) + (is_complex(a.dtype()) ? real(diagonal).astype(a.dtype()) : diagonal);
}

// ---- Condition numbers.

Array norm_1(const Array& a) { return max(sum(abs(a), {.axis = 0}), {.initial = 0.0}); }

// An estimate of the norm of the matrix that solve(x) multiplies by, and solve_adjoint(x) its adjoint: for vectors of n
// elements, of the dtype.
template <class F, class G>
Array estimated_norm(std::int64_t n, Dtype dtype, F solve, G solve_adjoint) {
  const Array places = arange(static_cast<int>(n)).astype(real_dtype(dtype));
  const auto size = [](const Array& x) { return sum(abs(x)); };
  // The greatest of |z| is where the norm may still grow.
  const auto condition = [](const std::tuple<Array, Array, Array, Array>& state) {
    const auto& [x, estimate, grows, step] = state;
    return logical_and(grows, step < kMostEstimates);
  };
  const auto body = [&](const std::tuple<Array, Array, Array, Array>& state) {
    const auto& [x, estimate, grows, step] = state;
    const Array y = solve(x);
    const Array found = size(y);
    const Array length = abs(y);
    const Array direction = where(length == 0, 1, y / where(length == 0, 1, length).astype(dtype));
    const Array z = solve_adjoint(direction);
    const Array next = (astype(arange(static_cast<int>(n)), int32) == astype(argmax(abs(z)), int32)).astype(dtype);
    const Array along = real(sum(conj(z) * x));
    const Array is_better = logical_and(max(abs(z)) > along, found > estimate);
    const Array goes_on = logical_or(step == 0, is_better);
    return std::tuple(next, maximum(estimate, found), goes_on, step + 1);
  };
  const Array first = full({n}, 1.0 / static_cast<double>(n), {.dtype = dtype});
  const auto found = lax::while_loop(condition, body,
                                     std::tuple(first, zeros({}, {.dtype = real_dtype(dtype)}),
                                                ones({}, {.dtype = bool_}), zeros({}, {.dtype = int32})));
  // What the steps may have missed.
  const Array sign = where(remainder(places, 2) == 0, 1, -1);
  const Array other = (sign * (1 + places / static_cast<double>(std::max<std::int64_t>(n - 1, 1)))).astype(dtype);
  const Array missed = size(solve(other)) * (2.0 / (3.0 * static_cast<double>(n)));
  return maximum(std::get<1>(found), missed.astype(real_dtype(dtype)));
}

Array inverse_norm(const LuResult& factors) {
  return estimated_norm(
      rows_of(factors.lu), factors.lu.dtype(), [&](const Array& x) { return lu_solve(factors, x); },
      [&](const Array& x) { return lu_solve(factors, x, 2); });
}

// Infinity where there is no inverse.
Array condition_of(const Array& norm, const Array& inverse) {
  return where(isnan(inverse), std::numeric_limits<double>::infinity(), norm * inverse);
}

void check_norm(const Array& norm) {
  if (norm.ndim() != 0 || !is_floating(norm.dtype())) {
    throw misuse<InvalidArgument>("norm is {}; it must be a real number, norm(a, 1)", type_of(norm));
  }
}

// ---- Systems of equations.

Dtype of_half_the_bits(Dtype dtype) { return dtype == float64 ? float32 : complex64; }

Array transposed_if(const Array& x, int trans) { return trans == 0 ? x : swapaxes(x, 0, 1); }

// The factors that a solution comes of.
struct System {
  Array a;
  LuResult factors;  // Of `a`, or if `scale` is there of what is a / scale with half of the bits.
  std::optional<Array> scale;

  Array solved(const Array& b, int trans) const {
    if (!scale) return lu_solve(factors, b, trans);
    // Neither too great nor too small for numbers of fewer bits.
    const Array size = max(abs(b), {.initial = 0.0});
    const Array unit = where(size > 0, size, 1);
    const Array x = lu_solve(factors, (b / unit.astype(b.dtype())).astype(factors.lu.dtype()), trans);
    return x.astype(b.dtype()) * (unit / *scale).astype(b.dtype());
  }
};

struct Refined {
  Array x;
  Array steps;
};

// With the residual that LAPACK's dsgesv asks for: Langou et al., "Exploiting the performance of 32 bit floating point
// arithmetic in obtaining 64 bit accuracy", 2006.
Refined refined(const System& system, const Array& b, int trans, const SolverOptions& options) {
  const std::int64_t n = rows_of(system.a);
  const Array size = max(sum(abs(system.a), {.axis = trans == 0 ? 1 : 0}), {.initial = 0.0});
  const Array allowed = size * (std::sqrt(static_cast<double>(n)) * epsilon_of(system.a));
  const auto residual = [&](const Array& x) { return b - matmul(transposed_if(system.a, trans), x); };
  // By how much the worst column misses what is asked for.
  const auto miss = [&](const Array& x, const Array& r) {
    const ReduceOptions along{.axis = 0, .initial = 0.0};
    const Array most = allowed * max(abs(x), along);
    const Array left = max(abs(r), along);
    return max(where(left == 0, 0, left / most), {.initial = 0.0});
  };
  using State =
      std::tuple<Array, Array, Array, Array, Array>;  // x, its residual, how it misses, and did before; steps.
  const auto condition = [](const State& state) {
    const auto& [x, r, now, before, step] = state;
    return logical_and(logical_and(now > 1, now < before / 2), step < kMostRefinements);
  };
  const auto body = [&](const State& state) {
    const auto& [x, r, now, before, step] = state;
    const Array next = x + system.solved(r, trans);
    const Array left = residual(next);
    return State(next, left, miss(next, left), now, step + 1);
  };
  const Array first = system.solved(b, trans);
  const Array left = residual(first);
  const Array infinity = full({}, std::numeric_limits<double>::infinity(), {.dtype = allowed.dtype()});
  const auto [x, r, now, before, steps] =
      lax::while_loop(condition, body, State(first, left, miss(first, left), infinity, zeros({}, {.dtype = int32})));
  const Array is_good = now <= 1;
  const Array solution = lax::cond(
      is_good, [](const Array& good) { return good; },
      [&](const Array&) {
        const std::vector<Array> found = factored("lu", {{"tile", tile_of(n, options)}}, system.a);
        return lu_solve(LuResult{found[0], found[1], found[2]}, b, trans);
      },
      x);
  return {solution, where(is_good, steps, -1)};
}

System system_with(const Array& a, bool refine, const SolverOptions& options) {
  const Attrs attrs{{"tile", tile_of(rows_of(a), options)}};
  if (!refine) {
    const std::vector<Array> found = factored("lu", attrs, a);
    return {.a = a, .factors = {found[0], found[1], found[2]}, .scale = {}};
  }
  const Array greatest = max(abs(a), {.initial = 0.0});
  const Array scale = where(greatest > 0, greatest, 1);
  const Array low = (a / scale.astype(a.dtype())).astype(of_half_the_bits(a.dtype()));
  const std::vector<Array> found = factored("lu", attrs, low);
  return {.a = a, .factors = {found[0], found[1], found[2]}, .scale = scale};
}

GesvResult solution_of(const Array& a, const Array& b, bool refine, const SolverOptions& options) {
  const std::int64_t n = rows_of(a);
  // How it is found has no derivative, but only what it satisfies.
  const Array still = stop_gradient(a);
  const System system = system_with(still, refine, options);
  const auto product_with = [&](const Array& x) { return matmul(a, x); };
  const auto solve_by = [&](const Array& right, int trans) -> Refined {
    if (!refine) return {system.solved(right, trans), zeros({}, {.dtype = int32})};
    return refined(system, right, trans, options);
  };
  const auto solve = [&](const auto&, const Array& right) {
    const Refined found = solve_by(right, 0);
    return std::pair(found.x, found.steps);
  };
  const auto solve_transposed = [&](const auto&, const Array& right) { return solve_by(right, 1).x; };
  const auto [x, taken] = lax::custom_linear_solve(product_with, b, solve, solve_transposed);
  GesvResult result{.x = x, .rcond = {}, .steps = taken, .status = {}};
  if (n == 0) {
    result.rcond = ones({}, {.dtype = real_dtype(a.dtype())});
    result.status = zeros({}, {.dtype = int32});
    return result;
  }
  // Where factors of half the bits did not do, their estimate is none, either.
  const auto judged = [&](const LuResult& factors) {
    const Array scaled =
        system.scale && factors.lu.dtype() != a.dtype() ? still / system.scale->astype(a.dtype()) : still;
    const Array condition = condition_of(norm_1(scaled), inverse_norm(factors).astype(real_dtype(a.dtype())));
    const Array singular = first_of(is_singular_at(diagonal_of(factors.lu)));
    const Array rcond = where(singular > 0, 0, 1 / condition).astype(real_dtype(a.dtype()));
    return std::pair(rcond, singular);
  };
  std::pair<Array, Array> found = judged(system.factors);
  if (refine) {
    found = lax::cond(
        taken >= 0, [](const Array& rcond, const Array& status) { return std::pair(rcond, status); },
        [&](const Array&, const Array&) {
          const std::vector<Array> whole = factored("lu", {{"tile", tile_of(n, options)}}, still);
          return judged(LuResult{whole[0], whole[1], whole[2]});
        },
        found.first, found.second);
  }
  result.rcond = found.first;
  const Array is_poor = logical_not(result.rcond >= epsilon_of(a) / 2);
  result.status = where(found.second > 0, found.second, where(is_poor, static_cast<int>(n + 1), 0)).astype(int32);
  return result;
}

void check_refine(const Array& a, bool refine) {
  if (refine && real_dtype(a.dtype()) != float64) {
    throw misuse<TypeMismatch>("refine takes matrices of float64 or complex128, not {}", name_of(a.dtype()));
  }
}

void check_regular(const Array& a, const GesvResult& result) {
  const std::optional<std::int32_t> status = known<std::int32_t>(result.status);
  if (status.value_or(0) == 0) return;
  if (*status <= rows_of(a)) {
    throw misuse<InvalidArgument>(
        "the matrix {} is singular, or not finite: u({}, {}) of its factors is 0, or no number. With return_status it "
        "is "
        "not an error",
        type_of(a), *status, *status);
  }
  throw misuse<InvalidArgument>(
      "the matrix {} is singular as far as its numbers tell: its condition number is estimated to be {:.2g}. With "
      "return_status it is not an error",
      type_of(a), 1 / result.rcond.astype(float64).item<double>());
}

}  // namespace

// ---- Factors.

QRResult geqrf(const Operand& a, const SolverOptions& options) {
  const Caller caller("geqrf", a.where());
  check_options(options, 1);
  return orthogonal_factors(any_matrix(a, options), options);
}

PotrsResult gels(const Operand& a, const Operand& b, const SolverOptions& options) {
  const Caller caller("gels", a.where());
  check_options(options, 2);
  const Array matrix = any_matrix(a, options);
  const auto [q, r] = orthogonal_factors(matrix, options);
  const Sides sides = sides_of(b, matrix, options);
  const Attrs attrs{{"lower", false}, {"unit_diagonal", false}, {"tile", tile_of(columns_of(matrix), options)}};
  const Array x = bind_one("triangular_solve", attrs, {r, product(adjoint(q), sides.columns)});
  // A diagonal element that is nothing but rounding errors.
  const Array diagonal = abs(diagonal_of(r));
  const double share = static_cast<double>(rows_of(matrix)) * epsilon_of(matrix);
  const Array is_dependent = logical_not(diagonal > share * max(diagonal, {.initial = 0.0}));
  PotrsResult result{.x = sides.result(x), .status = {}, .logdet = {}};
  const Array status = first_of(is_dependent);
  if (options.return_logdet) result.logdet = sum(log(diagonal));
  if (options.return_status) {
    result.status = status;
    result.x = where(status > 0, std::numeric_limits<double>::quiet_NaN(), result.x);
  } else if (const std::optional<std::int32_t> column = known<std::int32_t>(status); column.value_or(0) > 0) {
    throw misuse<InvalidArgument>(
        "column {} of the matrix {} depends on those before it, or is not finite; lstsq takes it. With return_status "
        "it "
        "is not an error",
        *column, type_of(matrix));
  }
  return result;
}

Array trtri(const Operand& a, bool lower, const SolverOptions& options) {
  const Caller caller("trtri", a.where());
  check_options(options, 1);
  const Array matrix = square_matrix(a, options);
  const Array inverse =
      bind_one("triangular_inverse", {{"tile", tile_of(rows_of(matrix), options)}}, {lower ? matrix : adjoint(matrix)});
  return lower ? inverse : adjoint(inverse);
}

// ---- Eigenvalues and singular values.

SyevdResult sygvd(const Operand& a, const Operand& b, const SolverOptions& options) {
  const Caller caller("sygvd", a.where());
  check_options(options, 2);
  const Array left = square_matrix(a, options);
  const Array right = square_matrix(b, options, 1);
  if (left.shape() != right.shape() || left.dtype() != right.dtype()) {
    throw misuse<InvalidArgument>("the matrices {} and {} must have the same extents and dtype", type_of(left),
                                  type_of(right));
  }
  const std::int64_t n = rows_of(left);
  const Array l = leading_factor(right, options);
  const Array definite = status_of_factor(l);
  if (!options.return_status) {
    if (const std::optional<std::int32_t> row = known<std::int32_t>(definite); row.value_or(0) > 0) {
      throw misuse<InvalidArgument>(
          "the matrix {} that comes second is not positive definite, or not finite: its leading block of {} rows has "
          "no "
          "Cholesky factor. With return_status it is not an error",
          type_of(right), *row);
    }
  }
  const Array half = solved_with(l, hermitian_of(left), false, options);
  const Array whole = solved_with(l, adjoint(half), false, options);
  SolverOptions inner = options;
  inner.mesh = {};
  inner.in_specs = {};
  SyevdResult result = syevd(whole, inner);
  if (options.return_eigenvectors) result.v = solved_with(l, result.v, true, options);
  if (options.return_status) result.status = where(definite > 0, static_cast<int>(n + 1), result.status).astype(int32);
  return result;
}

GesvdResult gesvd(const Operand& a, const SolverOptions& options) {
  const Caller caller("gesvd", a.where());
  check_options(options, 1);
  const Array given = any_matrix(a, options);
  const bool is_tall = rows_of(given) >= columns_of(given);
  const Array matrix = is_tall ? given : adjoint(given);
  const std::int64_t n = columns_of(matrix);
  SolverOptions inner = options;
  inner.mesh = {};
  inner.in_specs = {};
  inner.return_status = true;
  const bool is_square = rows_of(matrix) == n;
  const QRResult outer = is_square ? QRResult{} : orthogonal_factors(matrix, inner);
  const Array square = is_square ? matrix : outer.R;
  const lax::linalg::QdwhResult polar = lax::linalg::qdwh(square);
  const SyevdResult spectrum = syevd(polar.h, inner);
  GesvdResult result;
  // Descending, and none is less than 0 but for rounding.
  result.s = maximum(flip(spectrum.w, 0), 0);
  const auto finish = [&](const Array& status) {
    if (options.return_status) {
      result.status = status;
    } else if (const std::optional<std::int32_t> bad = known<std::int32_t>(status); bad.value_or(0) > 0) {
      throw misuse<InvalidArgument>(
          "the matrix {} has no singular values: it is not finite, or they were not found. With return_status it is "
          "not "
          "an error",
          type_of(given));
    }
    return result;
  };
  if (!options.return_eigenvectors) return finish(spectrum.status);
  const Array v = flip(spectrum.v, 1);
  // Where singular values are nearly 0, the unitary factor is not quite that; its product with v is made orthonormal
  // again, with columns that keep their signs.
  const auto [q, r] = orthogonal_factors(product(polar.u, v), inner);
  const Array sign = where(real(diagonal_of(r)) < 0, -1, 1).astype(q.dtype());
  Array u = q * expand_dims(sign, 0);
  if (!is_square) u = product(outer.Q, u);
  result.u = is_tall ? u : v;
  result.vh = adjoint(is_tall ? v : u);
  return finish(spectrum.status);
}

// ---- Systems of equations.

GesvResult gesv(const Operand& a, const Operand& b, const GesvOptions& options) {
  const Caller caller("gesv", a.where());
  const SolverOptions all{.T_A = options.T_A, .mesh = options.mesh, .in_specs = options.in_specs};
  check_options(all, 2);
  const Array matrix = square_matrix(a, all);
  check_refine(matrix, options.refine);
  const Sides sides = sides_of(b, matrix, all);
  GesvResult result = solution_of(matrix, sides.columns, options.refine, all);
  if (!options.return_status) check_regular(matrix, result);
  result.x = placed(sides.result(result.x), all, 1);
  return result;
}

Array solve(const Operand& a, const Operand& b, const SolveOptions& options) {
  const Caller caller("solve", a.where());
  if (!options.refine) return solve(a, b);
  const auto [left, right] = promote_dtypes(a, b);
  const Array matrix = square_matrix(left, {});
  check_refine(matrix, true);
  const Sides sides = sides_of(right, matrix, {});
  return sides.result(solution_of(matrix, sides.columns, true, {}).x);
}

Array cond_estimate(const Operand& a, const SolverOptions& options) {
  const Caller caller("cond_estimate", a.where());
  check_options(options, 1);
  const Array matrix = square_matrix(a, options);
  if (rows_of(matrix) == 0) throw misuse<InvalidArgument>("the matrix {} has no elements", type_of(matrix));
  return condition_of(norm_1(matrix), inverse_norm(system_with(matrix, false, options).factors));
}

Array cond_estimate(const LuResult& factors, const Operand& norm) {
  const Caller caller("cond_estimate", norm.where());
  const Array size = to_array(norm);
  check_norm(size);
  square_matrix(factors.lu, {});
  return condition_of(size, inverse_norm(factors));
}

Array cond_estimate(const CholeskyFactor& factor, const Operand& norm) {
  const Caller caller("cond_estimate", norm.where());
  const Array size = to_array(norm);
  check_norm(size);
  const Array l = square_matrix(factor.factor, {});
  const auto solve_with = [&](const Array& x) { return cho_solve(factor, x); };
  return condition_of(size, estimated_norm(rows_of(l), l.dtype(), solve_with, solve_with));
}

}  // namespace shoal::linalg
