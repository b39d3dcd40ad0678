// Systems of linear equations, and numbers that belong to matrices, by their decompositions.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/promotion.h"
#include "frontend/array/trace.h"
#include "frontend/functions/contractions.h"
#include "frontend/functions/indexing.h"
#include "frontend/functions/linalg_operands.h"
#include "shoal/lax.h"
#include "shoal/linalg.h"
#include "shoal/numpy.h"

namespace shoal::linalg {
namespace {

using lax::linalg::LuResult;

// A system of equations, in one dtype. The right side is a matrix, perhaps made of a vector.
struct System {
  Array a;
  Array b;
  bool is_vector;

  Shape batches() const { return broadcast_shapes(batches_of(a), batches_of(b)); }
  // The solution in the form of the right side that was given.
  Array result(const Array& x) const { return is_vector ? squeeze(x, -1) : x; }
};

System system_of(const Operand& a, const Operand& b) {
  const auto [left, right] = promote_dtypes(a, b);
  const Array matrix = matrices(left);
  const bool is_vector = right.ndim() == 1;
  if (right.ndim() == 0 || right.shape()[is_vector ? 0 : right.ndim() - 2] != rows_of(matrix)) {
    throw misuse<InvalidArgument>(
        "the right side {} must have as many rows as the matrices {}; it is a vector, or the last of its dimensions "
        "counts right sides",
        type_of(right), type_of(left));
  }
  const Array columns = is_vector ? expand_dims(right, std::int64_t{-1}) : right;
  const Array sides = matrices(columns);
  broadcast_shapes(batches_of(matrix), batches_of(sides));
  return {matrix, sides, is_vector};
}

void check_square(const Array& a) { square_matrices(a); }

enum class Form { kAsIs, kTransposed, kAdjoint };

Form form_of(int trans) {
  if (trans >= 0 && trans <= 2) return static_cast<Form>(trans);
  throw misuse<InvalidArgument>("trans is {}; it must be 0, or 1 for the transpose, or 2 for the adjoint", trans);
}

// The x with form(a) x = b, for a triangular a.
Array substituted(const Array& a, const Array& b, bool lower, Form form, bool unit_diagonal) {
  return lax::linalg::triangular_solve(a, b,
                                       {.left_side = true,
                                        .lower = lower,
                                        .transpose_a = form != Form::kAsIs,
                                        .conjugate_a = form == Form::kAdjoint,
                                        .unit_diagonal = unit_diagonal});
}

// The rows of x at positions that are the same for all columns.
Array rows_at(const Array& x, const Array& positions) {
  Shape shape = batches_of(x);
  shape.push_back(rows_of(x));
  Dims batches(shape.size() - 1);
  std::iota(batches.begin(), batches.end(), 0);
  const Dims rows = {static_cast<std::int64_t>(batches.size())};
  return bind_one("gather", {{"dims", rows}, {"array_batch", batches}, {"index_batch", batches}},
                  {x, broadcast(positions, shape)});
}

// Of a system whose matrices are factored.
Array solved(const System& system, const LuResult& factors, Form form) {
  const Shape batches = system.batches();
  const Array b = with_batches(system.b, batches);
  const Array lu = with_batches(factors.lu, batches);
  const auto lower = [&](const Array& x) { return substituted(lu, x, true, form, true); };
  const auto upper = [&](const Array& x) { return substituted(lu, x, false, form, false); };
  if (form == Form::kAsIs) return system.result(upper(lower(rows_at(b, factors.permutation))));
  return system.result(rows_at(lower(upper(b)), argsort(factors.permutation)));
}

// The diagonals of square matrices, as vectors: every n + 1st of their elements. Large matrices may be split, and stay
// where they are.
Array diagonals(const Array& x) {
  const std::int64_t n = rows_of(x);
  if (is_large(x)) {
    const Array is_own = lax::broadcasted_iota(int32, x.shape(), 0) == lax::broadcasted_iota(int32, x.shape(), 1);
    return sum(where(is_own, x, 0), ReduceOptions{.axis = 1});
  }
  Shape shape = batches_of(x);
  shape.push_back(n * n);
  Dims starts(shape.size(), 0);
  Dims steps(shape.size(), 1);
  steps.back() = n + 1;
  return lax::slice(reshape(x, shape), starts, shape, steps);
}

// What determinants are made of: the diagonals of the upper factors, and 1 or -1 for the exchanges of rows.
std::pair<Array, Array> diagonals_and_signs(const Array& a) {
  const LuResult factors = lax::linalg::lu(a);
  const Shape& shape = factors.pivots.shape();
  const auto last = static_cast<std::int64_t>(shape.size()) - 1;
  const Array own = spread(counted(shape.back(), factors.pivots), shape, {last});
  const Array exchanged = not_equal(factors.pivots, own);
  const Array exchanges = count_nonzero(exchanged, ReduceOptions{.axis = -1});
  const Array is_odd = equal(remainder(exchanges, 2), 1);
  const Array diagonal = diagonals(factors.lu);
  const Array signs = where(is_odd, -1, 1);
  return {diagonal, convert(signs, a.dtype())};
}

ReduceOptions along_last(bool keepdims = false) { return {.axis = -1, .keepdims = keepdims}; }

// The last dimension of the one operand, as that of columns.
Array as_column(const Array& x) { return expand_dims(x, std::int64_t{-1}); }

// 1 / s where the singular values count, 0 elsewhere, in the dtype of x.
Array inverses(const Array& s, const Array& counts, const Array& x) {
  const Array safe = where(counts, s, 1);
  const Array inverse = where(counts, 1.0 / safe, 0);
  return convert(inverse, x.dtype());
}

std::int64_t greater_extent(const Array& x) { return std::max(rows_of(x), columns_of(x)); }

}  // namespace

// ---- Systems of equations.

Array solve(const Operand& a, const Operand& b) {
  const Caller caller("solve", a.where());
  const System system = system_of(a, b);
  check_square(system.a);
  return solved(system, lax::linalg::lu(system.a), Form::kAsIs);
}

Array inv(const Operand& a) {
  const Caller caller("inv", a.where());
  const Array matrix = square_matrices(a);
  const LuResult factors = lax::linalg::lu(matrix);
  if (!is_large(matrix)) return solved({matrix, identity_like(matrix), false}, factors, Form::kAsIs);
  // The rows of the identity in another order are made where they are needed.
  const Array is_one = expand_dims(factors.permutation, 1) == lax::broadcasted_iota(int32, matrix.shape(), 1);
  const Array exchanged = convert(is_one, matrix.dtype());
  return substituted(factors.lu, substituted(factors.lu, exchanged, true, Form::kAsIs, true), false, Form::kAsIs,
                     false);
}

namespace {

// Of each matrix, beside its singular values.
Operand limit_of(const Operand& rtol) {
  return rtol.array() != nullptr && rtol.array()->ndim() > 0 ? Operand(expand_dims(rtol, -1)) : rtol;
}

}  // namespace

Array pinv(const Operand& a, const std::optional<Operand>& rtol) {
  const Caller caller("pinv", a.where());
  const Array matrix = matrices(a);
  const SVDResult parts = svd(matrix, false);
  const Array& s = parts.S;
  const double least = 10 * static_cast<double>(greater_extent(matrix)) * epsilon_of(matrix);
  const Array counts = greater(s, max(s, along_last(true)) * limit_of(rtol.value_or(least)));
  const Array uh = adjoint(parts.U);
  return product(adjoint(parts.Vh), as_column(inverses(s, counts, matrix)) * uh);
}

LstsqResult lstsq(const Operand& a, const Operand& b, std::optional<double> rcond) {
  const Caller caller("lstsq", a.where());
  const System system = system_of(a, b);
  if (system.a.ndim() != 2 || system.b.ndim() != 2) {
    throw misuse<InvalidArgument>("takes a matrix and a vector or matrix, not {} and {}", type_of(system.a),
                                  type_of(to_array(b)));
  }
  // Large ones that have more rows than columns may be split: then no more than their triangle is brought together.
  const bool is_tall = is_large(system.a) && rows_of(system.a) > columns_of(system.a);
  const auto [q, r] = is_tall ? lax::linalg::qr(system.a, false) : std::pair(system.a, system.a);
  const SVDResult parts = svd(r, false);
  const Array& s = parts.S;
  const double fraction = rcond.value_or(static_cast<double>(greater_extent(system.a)) * epsilon_of(system.a));
  const Array is_greater = greater_equal(s, max(s, along_last(true)) * fraction);
  const Array counts = bitwise_and(is_greater, s > 0);
  const Array projected = product(adjoint(parts.U), is_tall ? product(adjoint(q), system.b) : system.b);
  const Array x = product(adjoint(parts.Vh), as_column(inverses(s, counts, system.a)) * projected);
  const Array distance = abs(system.b - product(system.a, x));
  const Array residuals = sum(distance * distance, ReduceOptions{.axis = 0});
  return {system.result(x), residuals, count_nonzero(counts, ReduceOptions{}), parts.S};
}

CholeskyFactor cho_factor(const Operand& a, bool lower) {
  const Caller caller("cho_factor", a.where());
  return {cholesky(a, {.upper = !lower}), lower};
}

Array cho_solve(const CholeskyFactor& factored, const Operand& b) {
  const Caller caller("cho_solve", b.where());
  const Array& factor = factored.factor;
  const System system = system_of(factor, b);
  check_square(system.a);
  const Shape batches = system.batches();
  const Array c = with_batches(system.a, batches);
  const Array l = factored.lower ? c : adjoint(c);
  const Array y = substituted(l, with_batches(system.b, batches), true, Form::kAsIs, false);
  return system.result(substituted(l, y, true, Form::kAdjoint, false));
}

LuResult lu_factor(const Operand& a) {
  const Caller caller("lu_factor", a.where());
  return lax::linalg::lu(square_matrices(a));
}

Array lu_solve(const LuResult& factored, const Operand& b, int trans) {
  const Caller caller("lu_solve", b.where());
  const System system = system_of(factored.lu, b);
  check_square(system.a);
  LuResult factors = factored;
  factors.lu = system.a;
  return solved(system, factors, form_of(trans));
}

Array solve_triangular(const Operand& a, const Operand& b, const SolveTriangularOptions& options) {
  const Caller caller("solve_triangular", a.where());
  const System system = system_of(a, b);
  check_square(system.a);
  const Form form = form_of(options.trans);
  const Shape batches = system.batches();
  return system.result(substituted(with_batches(system.a, batches), with_batches(system.b, batches), options.lower,
                                   form, options.unit_diagonal));
}

// ---- Numbers that belong to matrices.

Array det(const Operand& a) {
  const Caller caller("det", a.where());
  const auto [diagonal, sign] = diagonals_and_signs(square_matrices(a));
  return sign * prod(diagonal, along_last());
}

SlogdetResult slogdet(const Operand& a) {
  const Caller caller("slogdet", a.where());
  const auto [diagonal, sign] = diagonals_and_signs(square_matrices(a));
  const Array size = abs(diagonal);
  // Where the determinant is 0, whatever else there is, as an infinity.
  const Array is_zero = any(equal(size, 0), along_last());
  const Array direction = sign * prod(shoal::sign(diagonal), along_last());
  const Array logarithm = sum(log(size), along_last());
  const double infinity = std::numeric_limits<double>::infinity();
  return {where(is_zero, 0, direction), where(is_zero, -infinity, logarithm)};
}

Array matrix_rank(const Operand& a, const std::optional<Operand>& rtol) {
  const Caller caller("matrix_rank", a.where());
  const Array given = to_array(a);
  if (given.ndim() < 2) return any(truth(given)).astype(int32);
  const Array matrix = matrices(a);
  const Array s = svdvals(matrix);
  const Operand least =
      rtol ? limit_of(*rtol) : max(s, along_last(true)) * (static_cast<double>(greater_extent(matrix)) * epsilon_of(s));
  return count_nonzero(greater(s, least), along_last());
}

namespace {

Array condition(const Array& matrix, const NormOrder& p) {
  const auto* number = std::get_if<double>(&p.get());
  const bool is_default = std::holds_alternative<std::monostate>(p.get());
  if (is_default || (number != nullptr && std::abs(*number) == 2)) {
    const Array s = svdvals(matrix);
    const Array greatest = max(s, along_last());
    const Array least = min(s, along_last());
    return is_default || *number > 0 ? greatest / least : least / greatest;
  }
  const NormOptions options{.ord = p, .axis = {-2, -1}};
  const Array inverse = inv(square_matrices(matrix));
  return norm(matrix, options) * norm(inverse, options);
}

}  // namespace

Array cond(const Operand& x, const NormOrder& p) {
  const Caller caller("cond", x.where());
  const Array matrix = matrices(x);
  if (rows_of(matrix) == 0 || columns_of(matrix) == 0) {
    throw misuse<InvalidArgument>("the matrices of {} have no elements", type_of(matrix));
  }
  const Array result = condition(matrix, p);
  const Array has_nan = any(isnan(matrix), {.axis = {-2, -1}});
  const Array undefined = bitwise_and(isnan(result), logical_not(has_nan));
  return where(undefined, std::numeric_limits<double>::infinity(), result);
}

// ---- Products.

Array matrix_power(const Operand& a, std::int64_t n) {
  const Caller caller("matrix_power", a.where());
  const Array given = to_array(a);
  if (given.ndim() < 2 || given.shape()[given.ndim() - 1] != given.shape()[given.ndim() - 2]) {
    throw misuse<InvalidArgument>("{} must be square matrices", type_of(given));
  }
  if (n == 0) return identity_like(given);
  std::optional<Array> result;
  Array power = n < 0 ? inv(a) : given;
  // By the binary digits of the exponent; the magnitude of the least number is one more than the greatest.
  for (std::uint64_t left = n < 0 ? 0 - static_cast<std::uint64_t>(n) : static_cast<std::uint64_t>(n); left > 0;
       left /= 2) {
    if (left % 2 == 1) result = result ? product(*result, power) : power;
    if (left > 1) power = product(power, power);
  }
  return *result;
}

Array multi_dot(const Operands& arrays) {
  const Caller caller("multi_dot", arrays.where());
  const std::vector<Operand>& list = arrays.list();
  if (list.size() < 2 || list.size() > 50) {
    throw misuse<InvalidArgument>("takes 2 to 50 arrays, not {}", list.size());
  }
  // The subscripts of a chain, as "ab,bc,cd->ad".
  const std::string letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  std::string inputs;
  std::string output;
  std::int64_t inner = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Array array = to_array(list[i]);
    const bool is_end = i == 0 || i + 1 == list.size();
    if (array.ndim() != 2 && !(is_end && array.ndim() == 1)) {
      throw misuse<InvalidArgument>("array {} is {}; all must be matrices, and the first and the last may be vectors",
                                    i, type_of(array));
    }
    if (i > 0 && inner != array.shape()[0]) {
      throw misuse<InvalidArgument>(
          "the last dimension of array {} has extent {}, but the first of array {}, {}, has extent {}", i - 1, inner, i,
          type_of(array), array.shape()[0]);
    }
    inner = array.shape().back();
    if (i > 0) inputs += ',';
    if (i > 0 || array.ndim() == 2) inputs += letters[i];
    if (i == 0 && array.ndim() == 2) output += letters[i];
    if (i == 0 || array.ndim() == 2) inputs += letters[i + 1];
    if (i > 0 && is_end && array.ndim() == 2) output += letters[i + 1];
  }
  return einsum(inputs + "->" + output, list);
}

Array matrix_transpose(const Operand& x) {
  const Caller caller("matrix_transpose", x.where());
  const Array array = to_array(x);
  if (array.ndim() < 2) {
    throw misuse<InvalidArgument>("{} has fewer than 2 dimensions", type_of(array));
  }
  return swapaxes(x, -1, -2);
}

}  // namespace shoal::linalg
