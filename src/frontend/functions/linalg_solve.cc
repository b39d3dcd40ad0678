// Systems of linear equations, and numbers that belong to matrices, by their decompositions.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "frontend/functions/diagonals.h"
#include "frontend/functions/indexing.h"
#include "frontend/functions/linalg_operands.h"
#include "frontend/functions/products.h"
#include "shoal/lax.h"
#include "shoal/linalg.h"

namespace shoal::linalg {
namespace {

using lax::linalg::LuResult;

// A system of equations, in one dtype. The right side is a matrix, perhaps made of a vector.
struct System {
  Term a;
  Term b;
  bool is_vector;

  Shape batches() const { return broadcast_shapes("solve", batches_of(a), batches_of(b), a.where()); }
  // The solution in the form of the right side that was given.
  Array result(const Term& x) const { return is_vector ? squeeze(x, -1) : x.array(); }
};

System system_of(std::string_view function, const Operand& a, const Operand& b) {
  const SourceLocation where = a.where();
  const auto [left, right] = promote_dtypes(function, a, b);
  const Term matrix = matrices(function, {left, where});
  const bool is_vector = right.ndim() == 1;
  if (right.ndim() == 0 || right.shape()[is_vector ? 0 : right.ndim() - 2] != rows_of(matrix)) {
    throw InvalidArgument(
        fmt::format("{}: the right side {} must have as many rows as the matrices {}; it is a vector, or the last of "
                    "its dimensions counts right sides",
                    function, type_of(right), type_of(left)),
        where);
  }
  const Array columns = is_vector ? expand_dims({right, where}, std::int64_t{-1}) : right;
  const Term sides = matrices(function, {columns, where});
  broadcast_shapes(function, batches_of(matrix), batches_of(sides), where);
  return {matrix, sides, is_vector};
}

void check_square(std::string_view function, const Term& a) { square_matrices(function, a); }

enum class Form { kAsIs, kTransposed, kAdjoint };

Form form_of(std::string_view function, int trans, SourceLocation where) {
  if (trans >= 0 && trans <= 2) return static_cast<Form>(trans);
  throw InvalidArgument(
      fmt::format("{}: trans is {}; it must be 0, or 1 for the transpose, or 2 for the adjoint", function, trans),
      where);
}

// The x with form(a) x = b, for a triangular a.
Term substituted(const Term& a, const Term& b, bool lower, Form form, bool unit_diagonal) {
  return {lax::linalg::triangular_solve(a, b,
                                        {.left_side = true,
                                         .lower = lower,
                                         .transpose_a = form != Form::kAsIs,
                                         .conjugate_a = form == Form::kAdjoint,
                                         .unit_diagonal = unit_diagonal}),
          a.where()};
}

// The rows of x at positions that are the same for all columns.
Term rows_at(const Term& x, const Array& positions) {
  Shape shape = batches_of(x);
  shape.push_back(rows_of(x));
  const Operand whole(broadcast(positions, shape, x.where()), x.where());
  return {take_along_axis(x, {expand_dims(whole, std::int64_t{-1}), x.where()}, -2), x.where()};
}

// Of a system whose matrices are factored.
Array solved(const System& system, const LuResult& factors, Form form) {
  const Shape batches = system.batches();
  const Term b = with_batches(system.b, batches);
  const Term lu = with_batches(Term(factors.lu, b.where()), batches);
  const auto lower = [&](const Term& x) { return substituted(lu, x, true, form, true); };
  const auto upper = [&](const Term& x) { return substituted(lu, x, false, form, false); };
  if (form == Form::kAsIs) return system.result(upper(lower(rows_at(b, factors.permutation))));
  return system.result(rows_at(lower(upper(b)), argsort({factors.permutation, b.where()})));
}

// The diagonals of square matrices, as vectors.
Term diagonals(const Term& x) {
  const auto rank = static_cast<std::int64_t>(x.array().ndim());
  const Term alone(diagonal_alone(x.array(), rank - 2, rank - 1, 0, x.where()), x.where());
  return alone.then(sum, ReduceOptions{.axis = -1});
}

// What determinants are made of: the diagonals of the upper factors, and 1 or -1 for the exchanges of rows.
std::pair<Term, Term> diagonals_and_signs(const Term& a) {
  const LuResult factors = lax::linalg::lu(a);
  const Shape& shape = factors.pivots.shape();
  const auto last = static_cast<std::int64_t>(shape.size()) - 1;
  const Array own = spread(counted("det", shape.back(), factors.pivots, a.where()), shape, {last}, a.where());
  const Term exchanged(not_equal({factors.pivots, a.where()}, {own, a.where()}), a.where());
  const Term exchanges = exchanged.then(count_nonzero, ReduceOptions{.axis = -1});
  const Term is_odd(equal(exchanges.then(remainder, Operand(2, a.where())), {1, a.where()}), a.where());
  const Term diagonal = diagonals(Term(factors.lu, a.where()));
  const Term signs(where(is_odd, Operand(-1, a.where()), Operand(1, a.where())), a.where());
  return {diagonal, Term(convert(signs.array(), a.array().dtype(), false, a.where()), a.where())};
}

ReduceOptions along_last(bool keepdims = false) { return {.axis = -1, .keepdims = keepdims}; }

// The last dimension of the one operand, as that of columns.
Term as_column(const Term& x) { return {expand_dims(x, std::int64_t{-1}), x.where()}; }

// 1 / s where the singular values count, 0 elsewhere, in the dtype of x.
Term inverses(const Term& s, const Term& counts, const Term& x) {
  const Term safe(where(counts, s, s.number(1)), s.where());
  const Term inverse(where(counts, 1.0 / safe, s.number(0)), s.where());
  return {convert(inverse.array(), x.array().dtype(), false, s.where()), s.where()};
}

std::int64_t greater_extent(const Term& x) { return std::max(rows_of(x), columns_of(x)); }

}  // namespace

// ---- Systems of equations.

Array solve(const Operand& a, const Operand& b) {
  const System system = system_of("solve", a, b);
  check_square("solve", system.a);
  return solved(system, lax::linalg::lu(system.a), Form::kAsIs);
}

Array inv(const Operand& a) {
  const Term matrix = square_matrices("inv", a);
  return solved({matrix, identity_like(matrix), false}, lax::linalg::lu(matrix), Form::kAsIs);
}

Array pinv(const Operand& a, std::optional<double> rtol) {
  const Term matrix = matrices("pinv", a);
  const SVDResult parts = svd(matrix, false);
  const Term s(parts.S, a.where());
  const double fraction = rtol.value_or(10 * static_cast<double>(greater_extent(matrix)) * epsilon_of(matrix));
  const Term counts(greater(s, s.then(max, along_last(true)) * fraction), a.where());
  const Term uh = adjoint(Term(parts.U, a.where()));
  return product(adjoint(Term(parts.Vh, a.where())), as_column(inverses(s, counts, matrix)) * uh).array();
}

LstsqResult lstsq(const Operand& a, const Operand& b, std::optional<double> rcond) {
  const System system = system_of("lstsq", a, b);
  if (system.a.array().ndim() != 2 || system.b.array().ndim() != 2) {
    throw InvalidArgument(fmt::format("lstsq: takes a matrix and a vector or matrix, not {} and {}",
                                      type_of(system.a.array()), type_of(to_array(b))),
                          a.where());
  }
  const SVDResult parts = svd(system.a, false);
  const Term s(parts.S, a.where());
  const double fraction = rcond.value_or(static_cast<double>(greater_extent(system.a)) * epsilon_of(system.a));
  const Term is_greater(greater_equal(s, s.then(max, along_last(true)) * fraction), a.where());
  const Term counts(bitwise_and(is_greater, s > 0), a.where());
  const Term projected = product(adjoint(Term(parts.U, a.where())), system.b);
  const Term x = product(adjoint(Term(parts.Vh, a.where())), as_column(inverses(s, counts, system.a)) * projected);
  const Term distance = (system.b - product(system.a, x)).then(abs);
  const Term residuals = (distance * distance).then(sum, ReduceOptions{.axis = 0});
  return {system.result(x), residuals.array(), counts.then(count_nonzero, ReduceOptions{}).array(), parts.S};
}

CholeskyFactor cho_factor(const Operand& a, bool lower) { return {cholesky(a, {.upper = !lower}), lower}; }

Array cho_solve(const CholeskyFactor& factored, const Operand& b) {
  const Operand factor(factored.factor, b.where());
  const System system = system_of("cho_solve", factor, b);
  check_square("cho_solve", system.a);
  const Shape batches = system.batches();
  const Term c = with_batches(system.a, batches);
  const Term l = factored.lower ? c : adjoint(c);
  const Term y = substituted(l, with_batches(system.b, batches), true, Form::kAsIs, false);
  return system.result(substituted(l, y, true, Form::kAdjoint, false));
}

LuResult lu_factor(const Operand& a) { return lax::linalg::lu(square_matrices("lu_factor", a)); }

Array lu_solve(const LuResult& factored, const Operand& b, int trans) {
  const System system = system_of("lu_solve", {factored.lu, b.where()}, b);
  check_square("lu_solve", system.a);
  LuResult factors = factored;
  factors.lu = system.a.array();
  return solved(system, factors, form_of("lu_solve", trans, b.where()));
}

Array solve_triangular(const Operand& a, const Operand& b, const SolveTriangularOptions& options) {
  const System system = system_of("solve_triangular", a, b);
  check_square("solve_triangular", system.a);
  const Form form = form_of("solve_triangular", options.trans, a.where());
  const Shape batches = system.batches();
  return system.result(substituted(with_batches(system.a, batches), with_batches(system.b, batches), options.lower,
                                   form, options.unit_diagonal));
}

// ---- Numbers that belong to matrices.

Array det(const Operand& a) {
  const auto [diagonal, sign] = diagonals_and_signs(square_matrices("det", a));
  return (sign * diagonal.then(prod, along_last())).array();
}

SlogdetResult slogdet(const Operand& a) {
  const auto [diagonal, sign] = diagonals_and_signs(square_matrices("slogdet", a));
  const Term size = diagonal.then(abs);
  // Where the determinant is 0, whatever else there is, as an infinity.
  const Term is_zero(any({equal(size, size.number(0)), a.where()}, along_last()), a.where());
  const Term direction = sign * diagonal.then(shoal::sign).then(prod, along_last());
  const Term logarithm = size.then(log).then(sum, along_last());
  const double infinity = std::numeric_limits<double>::infinity();
  return {where(is_zero, direction.number(0), direction), where(is_zero, logarithm.number(-infinity), logarithm)};
}

Array matrix_rank(const Operand& a, std::optional<double> rtol) {
  const Array given = to_array(a);
  if (given.ndim() < 2) return any(truth({given, a.where()})).astype(int32, a.where());
  const Term matrix = matrices("matrix_rank", a);
  const Term s(svdvals(matrix), a.where());
  const Term least =
      rtol ? Term(full({}, {*rtol, a.where()}, {.dtype = s.array().dtype()}), a.where())
           : s.then(max, along_last(true)) * (static_cast<double>(greater_extent(matrix)) * epsilon_of(s));
  return count_nonzero({greater(s, least), a.where()}, along_last());
}

namespace {

Term condition(const Term& matrix, const NormOrder& p) {
  const auto* number = std::get_if<double>(&p.get());
  const bool is_default = std::holds_alternative<std::monostate>(p.get());
  if (is_default || (number != nullptr && std::abs(*number) == 2)) {
    const Term s(svdvals(matrix), matrix.where());
    const Term greatest = s.then(max, along_last());
    const Term least = s.then(min, along_last());
    return is_default || *number > 0 ? greatest / least : least / greatest;
  }
  const NormOptions options{.ord = p, .axis = {-2, -1}};
  const Term inverse(inv(square_matrices("cond", matrix)), matrix.where());
  return matrix.then(norm, options) * inverse.then(norm, options);
}

}  // namespace

Array cond(const Operand& x, const NormOrder& p) {
  const Term matrix = matrices("cond", x);
  if (rows_of(matrix) == 0 || columns_of(matrix) == 0) {
    throw InvalidArgument(fmt::format("cond: the matrices of {} have no elements", type_of(matrix.array())), x.where());
  }
  const Term result = condition(matrix, p);
  const Term has_nan(any({isnan(matrix), x.where()}, {.axis = {-2, -1}}), x.where());
  const Term undefined(bitwise_and(result.then(isnan), has_nan.then(logical_not)), x.where());
  return where(undefined, result.number(std::numeric_limits<double>::infinity()), result);
}

// ---- Products.

Array matrix_power(const Operand& a, std::int64_t n) {
  const Array given = to_array(a);
  if (given.ndim() < 2 || given.shape()[given.ndim() - 1] != given.shape()[given.ndim() - 2]) {
    throw InvalidArgument(fmt::format("matrix_power: {} must be square matrices", type_of(given)), a.where());
  }
  if (n == 0) return identity_like(Term(given, a.where())).array();
  std::optional<Term> result;
  Term power(n < 0 ? inv(a) : given, a.where());
  // By the binary digits of the exponent; the magnitude of the least number is one more than the greatest.
  for (std::uint64_t left = n < 0 ? 0 - static_cast<std::uint64_t>(n) : static_cast<std::uint64_t>(n); left > 0;
       left /= 2) {
    if (left % 2 == 1) result = result ? product(*result, power) : power;
    if (left > 1) power = product(power, power);
  }
  return result->array();
}

Array multi_dot(const Operands& arrays) {
  const std::vector<Operand>& list = arrays.list();
  if (list.size() < 2 || list.size() > 50) {
    throw InvalidArgument(fmt::format("multi_dot: takes 2 to 50 arrays, not {}", list.size()), arrays.where());
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
      throw InvalidArgument(
          fmt::format("multi_dot: array {} is {}; all must be matrices, and the first and the last may "
                      "be vectors",
                      i, type_of(array)),
          arrays.where());
    }
    if (i > 0 && inner != array.shape()[0]) {
      throw InvalidArgument(
          fmt::format("multi_dot: the last dimension of array {} has extent {}, but the first of array "
                      "{}, {}, has extent {}",
                      i - 1, inner, i, type_of(array), array.shape()[0]),
          arrays.where());
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
  const Array array = to_array(x);
  if (array.ndim() < 2) {
    throw InvalidArgument(fmt::format("matrix_transpose: {} has fewer than 2 dimensions", type_of(array)), x.where());
  }
  return swapaxes(x, -1, -2);
}

}  // namespace shoal::linalg
