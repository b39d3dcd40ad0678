#include "shoal/matrix_functions.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <tuple>
#include <vector>

#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/promotion.h"
#include "frontend/functions/linalg_operands.h"
#include "ops/halley.h"
#include "shoal/control_flow.h"
#include "shoal/derivatives.h"
#include "shoal/lax.h"
#include "shoal/linalg.h"
#include "shoal/numpy.h"

namespace shoal {
namespace {

// One square matrix.
Array square_matrix(const Operand& x) {
  Array term = square_matrices(x);
  if (term.ndim() == 2) return term;
  throw misuse<InvalidArgument>("takes one matrix, not the batches of {}", type_of(term));
}

bool is_wide(const Array& x) { return real_dtype(x.dtype()) == float64; }
// The least normal number of the dtype of x.
double least_normal_of(const Array& x) {
  return is_wide(x) ? std::numeric_limits<double>::min() : double{std::numeric_limits<float>::min()};
}
Dtype complex_of(const Array& x) { return is_wide(x) ? complex128 : complex64; }
Array as_complex(const Array& x) { return x.astype(complex_of(x)); }

// Numbers as matrices of one element, for batches of them.
Array for_elements(const Array& x) { return expand_dims(x, Dims{-2, -1}); }

Array positions(std::int64_t n) { return arange(n, {.dtype = int32}); }
Array row_numbers(std::int64_t n) { return expand_dims(positions(n), 1); }
Array diagonal_of(const Array& x) { return sum(x * identity_like(x), {.axis = -1}); }

// ---- Upper triangles, column by column: what commutes with a triangle, or solves an equation with it, is found in
// each column by a triangular system of the rows above.

// The x with (t + shift) x = b in the rows above row j, and 0 below. Where an element of the diagonal vanishes, a
// number as small as rounding errors of `size` stands for it.
Array solved_above(const Array& t, const Array& shift, const Array& b, const Array& j, const Array& least) {
  const std::int64_t n = rows_of(t);
  const Array rows = row_numbers(n);
  const Array is_above = less(rows, j);
  const Array both = logical_and(is_above, less(positions(n), j));
  const Array diagonal = diagonal_of(t) + shift;
  const Array safe = shoal::where(less(abs(diagonal), least), least.astype(t.dtype()), diagonal);
  const Array one = identity_like(t);
  const Array matrix = shoal::where(both, t * (1 - one) + expand_dims(safe, 1) * one, one);
  const Array right = shoal::where(is_above, expand_dims(b, 1), 0);
  return squeeze(lax::linalg::triangular_solve(matrix, right, {.left_side = true}), -1);
}

Array column(const Array& x, const Array& j) { return lax::dynamic_index_in_dim(x, j, 1, false); }
Array with_column(const Array& x, const Array& j, const Array& values) {
  return lax::dynamic_update_index_in_dim(x, values, j, 1);
}
// Element j of a vector.
Array element(const Array& x, const Array& j) { return lax::dynamic_index_in_dim(x, j, 0, false); }

// What is as small as rounding errors beside a matrix.
Array least_beside(const Array& t) {
  const Array size = max(abs(t)) * epsilon_of(t);
  return maximum(size, least_normal_of(t));
}

// z f z^H
Array turned_back(const Array& z, const Array& f) { return product(product(z, f), adjoint(z)); }

// ---- The exponential.

// The odd and the even part of the Padé approximant of this degree.
std::pair<Array, Array> pade(const Array& a, const std::vector<double>& b) {
  const Array one = identity_like(a);
  const Array a2 = product(a, a);
  const Array a4 = product(a2, a2);
  const Array a6 = product(a4, a2);
  const Array odd = b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * one;
  const Array even = b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * one;
  if (b.size() == 8) return {product(a, odd), even};
  return {product(a, product(a6, b[13] * a6 + b[11] * a4 + b[9] * a2) + odd),
          product(a6, b[12] * a6 + b[10] * a4 + b[8] * a2) + even};
}

// The coefficients (2m - k)! m! / ((2m)! (m - k)! k!) of degree m, all times (2m)! / m!.
std::vector<double> pade_coefficients(int m) {
  std::vector<double> b(static_cast<std::size_t>(m) + 1, 1.0);
  for (int k = m; k-- > 0;) {
    b[static_cast<std::size_t>(k)] = b[static_cast<std::size_t>(k) + 1] * (k + 1) * (2 * m - k) / (m - k);
  }
  return b;
}

}  // namespace

namespace lax::linalg {

Array cholesky_update(const Operand& r_matrix, const Operand& w_vector) {
  const Caller caller("cholesky_update", r_matrix.where());
  const Array r = square_matrix(r_matrix);
  const Array w = to_array(w_vector);
  const std::string wanted = "takes a real matrix and a vector of its dtype with as many elements as it has rows";
  if (w.dtype() != r.dtype() || is_complex(r.dtype())) {
    throw misuse<TypeMismatch>("{}, not {} and {}", wanted, type_of(r), type_of(w));
  }
  if (w.shape() != Shape{rows_of(r)}) {
    throw misuse<InvalidArgument>("{}, not {} and {}", wanted, type_of(r), type_of(w));
  }
  if (rows_of(r) == 0) return r;
  const auto rotate = [](const Array& k, const std::pair<Array, Array>& both) {
    const auto& [rows, z] = both;
    const Array row = dynamic_index_in_dim(rows, k, 0, false);
    const Array x = element(row, k);
    const Array y = element(z, k);
    const Array length = hypot(x, y);
    const Array none = equal(y, 0);
    const Array c = shoal::where(none, 1, x / length);
    const Array s = shoal::where(none, 0, y / length);
    return std::pair(dynamic_update_index_in_dim(rows, c * row + s * z, k, 0), c * z - s * row);
  };
  return fori_loop(0, rows_of(r), rotate, std::pair(r, w)).first;
}

Array lu_pivots_to_permutation(const Operand& pivots, std::int64_t permutation_size) {
  const Caller caller("lu_pivots_to_permutation", pivots.where());
  const Array given = to_array(pivots);
  if (given.ndim() < 1 || !is_integer(given.dtype()) || given.shape().back() > permutation_size) {
    throw misuse<InvalidArgument>("takes integers, no more than the permutation has ({}), not {}", permutation_size,
                                  type_of(given));
  }
  Shape shape = given.shape();
  const std::int64_t steps = shape.back();
  if (shape.size() == 1 && steps > 0) {
    const auto exchange = [&](const Array& step, const Array& order) {
      const Array pivot = element(given, step);
      const Array exchanged = dynamic_update_index_in_dim(order, element(order, pivot), step, 0);
      return dynamic_update_index_in_dim(exchanged, element(order, step), pivot, 0);
    };
    return fori_loop(0, steps, exchange, positions(permutation_size));
  }
  const auto last = static_cast<std::int64_t>(shape.size()) - 1;
  const Array step_numbers = broadcasted_iota(int32, shape, last);
  shape.back() = permutation_size;
  const Array numbers = broadcasted_iota(int32, shape, last);
  // Elements are chosen by sums, so that a trip is one kernel.
  const auto element_at = [](const Array& is_wanted, const Array& x) {
    return sum(shoal::where(is_wanted, x, 0), {.axis = -1, .keepdims = true});
  };
  const auto exchange = [&](const Array& step, const Array& order) {
    const Array pivot = element_at(equal(step_numbers, step), given);
    const Array is_here = equal(numbers, step);
    const Array is_there = equal(numbers, pivot);
    const Array first = element_at(is_here, order);
    const Array second = element_at(is_there, order);
    return shoal::where(is_here, second, shoal::where(is_there, first, order));
  };
  return fori_loop(0, steps, exchange, numbers);
}

TridiagonalResult tridiagonal(const Operand& a, bool lower) {
  const Caller caller("tridiagonal", a.where());
  const Array given = square_matrices(a);
  const Array below = lower ? given : adjoint(given);
  const Array strictly = tril(below, -1);
  const Array one = identity_like(below);
  const auto [h, taus] = hessenberg(strictly + adjoint(strictly) + one * expand_dims(real(diagonal_of(below)), -1));
  const std::int64_t n = rows_of(h);
  const Array first = n == 0 ? h : lax::slice_in_dim(h, 1, n, 1, -2);
  const Array beside = n == 0 ? h : lax::slice_in_dim(first, 0, n - 1, 1, -1);
  const auto as_real = [](const Array& x) { return is_complex(x.dtype()) ? real(x) : x; };
  const Array all = tril(h) + triu(below, 1);
  return {.a = lower ? all : transposed(all),
          .d = as_real(diagonal_of(h)),
          .e = n == 0 ? as_real(diagonal_of(h)) : as_real(diagonal_of(beside)),
          .taus = taus};
}

Array tridiagonal_solve(const Operand& dl, const Operand& d, const Operand& du, const Operand& b,
                        bool perturb_singular) {
  const Caller caller("tridiagonal_solve", d.where());
  const Array diagonal = to_array(d);
  const Array sides = to_array(b);
  const Array below = to_array(dl);
  const Array above = to_array(du);
  const Dtype dtype = diagonal.dtype();
  const bool is_fraction = is_floating(dtype) || is_complex(dtype);
  const bool fits = is_fraction && diagonal.ndim() >= 1 && below.shape() == diagonal.shape() &&
                    above.shape() == diagonal.shape() && sides.ndim() == diagonal.ndim() + 1 &&
                    std::equal(diagonal.shape().begin(), diagonal.shape().end(), sides.shape().begin()) &&
                    below.dtype() == dtype && above.dtype() == dtype && sides.dtype() == dtype;
  if (!fits) {
    throw misuse<InvalidArgument>(
        "takes three diagonals of one type and right sides with one dimension more, all of one dtype of floats or "
        "complex "
        "numbers, not {}, {}, {} and {}",
        type_of(below), type_of(diagonal), type_of(above), type_of(sides));
  }
  const std::int64_t n = diagonal.shape().back();
  if (n == 0) return sides;
  // Rows come first. Each has three elements from the diagonal on, and its right sides.
  const auto rows_first = [](const Array& x, std::int64_t axis) { return expand_dims(moveaxis(x, axis, 0), -1); };
  const Array l = rows_first(below, -1);
  const Array m = rows_first(diagonal, -1);
  const Array u = rows_first(above, -1);
  const Array r = moveaxis(sides, -2, 0);
  const Array zero = zeros_like(m[0]);
  using Row = std::tuple<Array, Array, Array, Array>;
  const auto eliminate = [&](const Row& row, const Row& next) {
    const auto& [x, x1, x2, right] = row;
    const auto& [y, y1, y2, other] = next;
    // The row with the greater first element stays; the other one takes its place in the next step.
    const Array stays = greater_equal(abs(x), abs(y));
    const auto chosen = [&](const Array& a, const Array& c) { return shoal::where(stays, a, c); };
    const Row pivot(chosen(x, y), chosen(x1, y1), chosen(x2, y2), chosen(right, other));
    const Array divisor = std::get<0>(pivot);
    const Array factor = shoal::where(equal(divisor, 0), 0, chosen(y, x) / shoal::where(equal(divisor, 0), 1, divisor));
    const Row left(chosen(y1, x1) - factor * std::get<1>(pivot), chosen(y2, x2) - factor * std::get<2>(pivot), zero,
                   chosen(other, right) - factor * std::get<3>(pivot));
    return std::pair(left, pivot);
  };
  const auto after = [n](const Array& x) { return lax::slice_in_dim(x, 1, n, 1, 0); };
  const Row first(m[0], u[0], zero, r[0]);
  const Row others(after(l), after(m), after(u), after(r));
  const auto [last, pivots] = scan(eliminate, first, others);
  // The triangle has three diagonals; from the last row back.
  const auto all = [](const Array& x, const Array& end) { return concatenate({x, expand_dims(end, 0)}, 0); };
  Array divisors = all(std::get<0>(pivots), std::get<0>(last));
  if (perturb_singular) {
    const Array greatest = max(abs(divisors), {.axis = 0, .keepdims = true});
    const Array least = maximum(greatest * epsilon_of(diagonal), least_normal_of(diagonal));
    divisors = shoal::where(less(abs(divisors), least), least.astype(dtype), divisors);
  }
  const auto substitute = [](const std::pair<Array, Array>& solved, const Row& row) {
    const auto& [next, second] = solved;
    const auto& [divisor, x1, x2, right] = row;
    const Array x = (right - x2 * second - x1 * next) / divisor;  // The next one, which is known last, comes last.
    return std::pair(std::pair(x, next), x);
  };
  const Row rows(divisors, all(std::get<1>(pivots), std::get<1>(last)), all(std::get<2>(pivots), std::get<2>(last)),
                 all(std::get<3>(pivots), std::get<3>(last)));
  const Array nothing = zeros_like(r[0]);
  const Array solution = scan(substitute, std::pair(nothing, nothing), rows, {.reverse = true}).second;
  return moveaxis(solution, 0, -2);
}

QdwhResult qdwh(const Operand& x, const QdwhOptions& options) {
  const Caller caller("qdwh", x.where());
  const Array a = matrices(x);
  if (rows_of(a) < columns_of(a)) {
    throw misuse<InvalidArgument>("{} has fewer rows than columns; give its adjoint", type_of(a));
  }
  // Singular values are from `least` to 1 now. Each step brings the least of them nearer to 1.
  const Array sizes = abs(a);
  const Array by_columns = max(sum(sizes, {.axis = -2}), {.axis = -1, .initial = 0.0});
  const Array by_rows = max(sum(sizes, {.axis = -1}), {.axis = -1, .initial = 0.0});
  const Array bound = sqrt(by_columns) * sqrt(by_rows);
  Array u = a / for_elements(shoal::where(equal(bound, 0), 1, bound)).astype(a.dtype());
  const Array one = identity_like(lax::slice_in_dim(a, 0, columns_of(a), 1, -2));
  const HalleySteps iteration =
      halley_steps(epsilon_of(a), options.eps.value_or(epsilon_of(a)), options.max_iterations);
  for (const HalleyStep& step : iteration.steps) {
    Array turned;
    if (step.needs_orthogonal_factor()) {
      // By a factor with orthonormal columns, which loses nothing where singular values differ much.
      const double scale = std::sqrt(step.c);
      const Array q = qr(shoal::concatenate({scale * u, one}, -2), false).first;
      const Array top = lax::slice_in_dim(q, 0, rows_of(a), 1, -2);
      const Array bottom = lax::slice_in_dim(q, rows_of(a), rows_of(q), 1, -2);
      turned = ((step.a - step.kept) / scale) * product(top, adjoint(bottom));
    } else {
      const Array z = one + step.c * product(adjoint(u), u);
      const Array factor = cholesky(z, true);
      const Array half = triangular_solve(factor, adjoint(u), {.left_side = true, .lower = true});
      const Array whole =
          triangular_solve(factor, half, {.left_side = true, .lower = true, .transpose_a = true, .conjugate_a = true});
      turned = (step.a - step.kept) * adjoint(whole);
    }
    u = step.kept * u + turned;
  }
  // Once more by Newton and Schulz, which mends what has been rounded.
  u = 1.5 * u - 0.5 * product(u, product(adjoint(u), u));
  return {.u = u,
          .h = hermitian_part(product(adjoint(u), a)),
          .num_iters = std::ssize(iteration.steps),
          .is_converged = iteration.is_converged};
}

}  // namespace lax::linalg

namespace linalg {

Array expm(const Operand& a, const ExpmOptions& options) {
  const Caller caller("expm", a.where());
  const Array given = square_matrices(a);
  // Of such norms and degrees Padé approximants are as exact as numbers are.
  const double most = is_wide(given) ? 5.371920351148152 : 3.925724783138660;
  const Array norms = max(sum(abs(given), {.axis = -2}), {.axis = -1, .initial = 0.0});
  const Array doublings = log2(stop_gradient(norms) / most);
  const Array squarings = maximum(ceil(doublings), 0);
  const auto [odd, even] =
      pade(given * for_elements(exp2(-squarings)).astype(given.dtype()), pade_coefficients(is_wide(given) ? 13 : 7));
  const Array above = even + odd;
  const Array below = even - odd;
  const Array quotient = options.upper_triangular ? solve_triangular(below, above) : solve(below, above);
  const auto step = [&](const Array& i, const Array& x) {
    const Array goes_on = less(i.astype(squarings.dtype()), squarings);
    return lax::cond(
        any(goes_on), [](const Array& y, const Array& on) { return shoal::where(on, product(y, y), y); },
        [](const Array& y, const Array&) { return y; }, x, for_elements(goes_on));
  };
  const Array result = lax::fori_loop(0, options.max_squarings + 1, step, quotient);
  const Array fits = less_equal(floor(doublings), static_cast<double>(options.max_squarings));
  return shoal::where(for_elements(fits), result, std::numeric_limits<double>::quiet_NaN());
}

std::pair<Array, Array> expm_frechet(const Operand& a, const Operand& e) {
  const Caller caller("expm_frechet", a.where());
  const Array at = square_matrices(a);
  const Array direction = square_matrices(e);
  if (at.shape() != direction.shape()) {
    throw misuse<InvalidArgument>("takes matrices and directions of one shape, not {} and {}", type_of(at),
                                  type_of(direction));
  }
  const auto exponential = [](const Array& x) { return expm(x); };
  return jvp(exponential, std::tuple(at), std::tuple(direction.astype(at.dtype())));
}

Array sqrtm(const Operand& a) {
  const Caller caller("sqrtm", a.where());
  const auto [t, z] = lax::linalg::schur(as_complex(square_matrix(a)));
  const Array triangle = t;
  const Array roots_of_diagonal = sqrt(diagonal_of(t));
  const Array least = broadcast_to(least_normal_of(t), {});
  const auto step = [&](const Array& j, const Array& u) {
    const Array root = element(roots_of_diagonal, j);
    const Array above = solved_above(u, root, column(triangle, j), j, least.astype(real_dtype(t.dtype())));
    return with_column(u, j, shoal::where(equal(positions(rows_of(u)), j), root, above));
  };
  return turned_back(z, lax::fori_loop(0, rows_of(t), step, zeros_like(t)));
}

Array funm(const Operand& a, const std::function<Array(const Array&)>& function) {
  const Caller caller("funm", a.where());
  const auto [t, z] = lax::linalg::schur(as_complex(square_matrix(a)));
  const Array triangle = t;
  const Array values = function(diagonal_of(t)).astype(t.dtype());
  const Array least = least_beside(t);
  const auto step = [&](const Array& j, const Array& f) {
    const Array of_t = column(triangle, j);
    const Array value = element(values, j);
    const Array is_above = less(positions(rows_of(f)), j);
    const Array right = matmul(f, shoal::where(is_above, of_t, 0)) - of_t * value;
    const Array above = solved_above(triangle, -element(of_t, j), right, j, least);
    return with_column(f, j, shoal::where(equal(positions(rows_of(f)), j), value, above));
  };
  return turned_back(z, lax::fori_loop(0, rows_of(t), step, zeros_like(t)));
}

std::pair<Array, Array> schur(const Operand& a, const std::string& output) {
  const Caller caller("schur", a.where());
  if (output != "real" && output != "complex") {
    throw misuse<InvalidArgument>("output is \"{}\"; it must be \"real\" or \"complex\"", output);
  }
  const Array given = square_matrices(a);
  return lax::linalg::schur(output == "complex" ? as_complex(given) : given);
}

std::pair<Array, Array> rsf2csf(const Operand& t, const Operand& q) {
  const Caller caller("rsf2csf", t.where());
  const Array triangle = as_complex(square_matrix(t));
  const Array vectors = as_complex(square_matrix(q));
  const std::int64_t n = rows_of(triangle);
  if (rows_of(vectors) != n) {
    throw misuse<InvalidArgument>("takes two matrices of one shape, not {} and {}", type_of(triangle),
                                  type_of(vectors));
  }
  const double least = epsilon_of(triangle);
  // A rotation of rows m - 1 and m makes the element below the diagonal 0.
  const auto step = [&](const Array& i, const std::pair<Array, Array>& both) {
    const Array m = n - i;
    const auto at = [&](const Array& x, const Array& row, const Array& col) {
      return element(lax::dynamic_index_in_dim(x, row, 0, false), col);
    };
    const auto rotate = [&](const std::pair<Array, Array>& given) {
      const auto& [x, z] = given;
      const Array a = at(x, m - 1, m - 1);
      const Array b = at(x, m - 1, m);
      const Array c = at(x, m, m - 1);
      const Array d = at(x, m, m);
      const Array half = (a - d) / 2;
      const Array mu = half + sqrt(half * half + b * c);
      const Array length = hypot(abs(mu), abs(c)).astype(x.dtype());
      const Array cosine = mu / length;
      const Array sine = c / length;
      const Array numbers = positions(n);
      const auto row = [&](const Array& y, const Array& k) { return lax::dynamic_index_in_dim(y, k, 0, false); };
      const auto rotated_columns = [&](const Array& y) {
        const Array first = column(y, m - 1);
        const Array second = column(y, m);
        const Array left = with_column(y, m - 1, cosine * first + conj(sine) * second);
        return with_column(left, m, conj(cosine) * second - sine * first);
      };
      const Array first = row(x, m - 1);
      const Array second = row(x, m);
      const Array right = greater_equal(numbers, m - 1);
      Array turned = lax::dynamic_update_index_in_dim(
          x, shoal::where(right, conj(cosine) * first + conj(sine) * second, first), m - 1, 0);
      turned =
          lax::dynamic_update_index_in_dim(turned, shoal::where(right, cosine * second - sine * first, second), m, 0);
      const Array above = less(expand_dims(numbers, 1), m + 1);
      return std::pair(shoal::where(above, rotated_columns(turned), turned), rotated_columns(z));
    };
    const auto leave = [](const std::pair<Array, Array>& given) { return given; };
    const Array& x = both.first;
    const Array beside = abs(at(x, m - 1, m - 1)) + abs(at(x, m, m));
    const auto [turned, z] = lax::cond(greater(abs(at(x, m, m - 1)), least * beside), rotate, leave, both);
    const Array numbers = positions(n);
    const Array is_there = logical_and(equal(expand_dims(numbers, 1), m), equal(numbers, m - 1));
    return std::pair(Array(shoal::where(is_there, 0, turned)), Array(z));
  };
  return lax::fori_loop(1, n, step, std::pair(triangle, vectors));
}

HessenbergResult hessenberg(const Operand& a) {
  const Caller caller("hessenberg", a.where());
  const Array given = square_matrices(a);
  const std::int64_t n = rows_of(given);
  const auto [both, taus] = lax::linalg::hessenberg(given);
  const Array one = identity_like(given);
  if (n < 2) return {.h = both, .q = one};
  const Array inner = lax::slice_in_dim(lax::slice_in_dim(both, 1, n, 1, -2), 0, n - 1, 1, -1);
  const Array q = lax::linalg::householder_product(inner, taus);
  // The first row and column are those of the identity.
  const Array row = lax::slice_in_dim(lax::slice_in_dim(one, 0, 1, 1, -2), 1, n, 1, -1);
  const Array first = lax::slice_in_dim(one, 0, 1, 1, -1);
  return {.h = triu(both, -1), .q = concatenate({first, concatenate({row, q}, -2)}, -1)};
}

std::pair<Array, Array> polar(const Operand& a, const PolarOptions& options) {
  const Caller caller("polar", a.where());
  const Array given = matrices(a);
  const bool right = options.side == "right";
  if (!right && options.side != "left") {
    throw misuse<InvalidArgument>("The argument `side` must be either 'right' or 'left', not \"{}\".", options.side);
  }
  if (options.method != "qdwh" && options.method != "svd") {
    throw misuse<InvalidArgument>("method is \"{}\"; it must be \"qdwh\" or \"svd\"", options.method);
  }
  const bool is_tall = rows_of(given) >= columns_of(given);
  if (options.method == "qdwh" && right == is_tall) {
    const lax::linalg::QdwhResult result = lax::linalg::qdwh(right ? given : adjoint(given), options.qdwh);
    return right ? std::pair(result.u, result.h) : std::pair(adjoint(result.u), result.h);
  }
  const SVDResult parts = svd(given, false);
  const Array unitary = product(parts.U, parts.Vh);
  const Array values = parts.S.astype(given.dtype());
  if (right) return {unitary, product(adjoint(parts.Vh) * expand_dims(values, -2), parts.Vh)};
  return {unitary, product(parts.U * expand_dims(values, -2), adjoint(parts.U))};
}

std::pair<Array, Array> qr_multiply(const Operand& a, const Operand& c, const QrMultiplyOptions& options) {
  const Caller caller("qr_multiply", a.where());
  if (options.mode != "right" && options.mode != "left") {
    throw misuse<InvalidArgument>("mode must be 'right' or 'left', got '{}'", options.mode);
  }
  const bool left = options.mode == "left";
  const Array of_a = matrices(a);
  Array by = to_array(c);
  const Dtype dtype = promote_types({of_a.dtype(), false}, {inexact_dtype(by.dtype()), false}).dtype;
  const Array given = of_a.astype(dtype);
  by = by.astype(dtype);
  const bool is_vector = by.ndim() == 1;
  if (is_vector) by = expand_dims(by, left ? 1 : 0);
  const auto [q, r] = lax::linalg::qr(given, false);
  const Array factor = options.conjugate && is_complex(q.dtype()) ? conj(q) : q;
  const std::int64_t inner = left ? columns_of(factor) : rows_of(factor);
  if (by.ndim() < 2 || (left ? rows_of(by) : columns_of(by)) != inner) {
    throw misuse<InvalidArgument>("{} cannot be multiplied with the factor {} of {}: it must have {} {}", type_of(by),
                                  type_of(factor), type_of(given), inner, left ? "rows" : "columns");
  }
  const Array result = left ? product(factor, by) : product(by, factor);
  return {is_vector ? ravel(result) : result, r};
}

Array solve_sylvester(const Operand& a, const Operand& b, const Operand& c, const SylvesterOptions& options) {
  const Caller caller("solve_sylvester", a.where());
  const Array left = square_matrix(a);
  const Array right = square_matrix(b);
  const Array sides = matrices(c);
  if (sides.shape() != Shape{rows_of(left), rows_of(right)}) {
    throw misuse<InvalidArgument>("the right side {} must have the rows of {} and the columns of {}", type_of(sides),
                                  type_of(left), type_of(right));
  }
  if (options.method != "schur" && options.method != "eigen") {
    throw misuse<InvalidArgument>("Unrecognized method {}. The two valid methods are either \"schur\" or \"eigen\".",
                                  options.method);
  }
  const bool is_real = !is_complex(sides.dtype()) && !is_complex(left.dtype()) && !is_complex(right.dtype());
  Array values_of_left, values_of_right, x;
  if (options.method == "eigen") {
    const EighResult of_left = eig(left);
    const EighResult of_right = eig(right);
    values_of_left = of_left.eigenvalues;
    values_of_right = of_right.eigenvalues;
    const Array f = solve(of_left.eigenvectors, product(as_complex(sides), of_right.eigenvectors));
    const Array y = f / (expand_dims(values_of_left, 1) + values_of_right);
    x = product(product(of_left.eigenvectors, y), inv(of_right.eigenvectors));
  } else {
    const auto [r, u] = lax::linalg::schur(as_complex(left));
    const auto [s, v] = lax::linalg::schur(as_complex(right));
    const Array triangle = r;
    const Array other = s;
    values_of_left = diagonal_of(r);
    values_of_right = diagonal_of(s);
    const Array f = product(product(adjoint(u), as_complex(sides)), v);
    const auto step = [&](const Array& j, const Array& y) {
      const Array of_s = column(other, j);
      const Array before = shoal::where(less(positions(rows_of(right)), j), of_s, 0);
      const Array rest = column(f, j) - matmul(y, before);
      const Array matrix = triangle + element(of_s, j) * identity_like(triangle);
      const Array solved = lax::linalg::triangular_solve(matrix, expand_dims(rest, 1), {.left_side = true});
      return with_column(y, j, squeeze(solved, -1));
    };
    x = product(product(u, lax::fori_loop(0, rows_of(right), step, zeros_like(f))), adjoint(v));
  }
  if (is_real) x = real(x);
  const Array sums = abs(expand_dims(values_of_left, 1) + values_of_right);
  return shoal::where(any(less(sums, options.tol)), std::numeric_limits<double>::quiet_NaN(), x);
}

namespace {

// The diagonal, and the elements beside it, of a tridiagonal matrix.
struct Tridiagonal {
  Array d;
  Array e;
};

Tridiagonal tridiagonal_of(const Operand& d, const Operand& e) {
  const Array diagonal = to_array(d);
  const Array beside = to_array(e);
  const bool fits = diagonal.ndim() == 1 && beside.ndim() == 1 &&
                    beside.shape()[0] == std::max<std::int64_t>(diagonal.shape()[0] - 1, 0) &&
                    diagonal.dtype() == beside.dtype();
  if (!fits) {
    throw misuse<InvalidArgument>(
        "takes the diagonal of a matrix and, of the same dtype, the elements beside it, of which there is one fewer; "
        "not "
        "{} and {}",
        type_of(diagonal), type_of(beside));
  }
  const Dtype real_numbers = real_dtype(diagonal.dtype());
  if (real_numbers != float32 && real_numbers != float64) {
    throw misuse<TypeMismatch>("takes float32, float64, complex64 and complex128, not {}", name_of(diagonal.dtype()));
  }
  return {diagonal, beside};
}

std::pair<std::int64_t, std::int64_t> range_of(const EighTridiagonalOptions& options, std::int64_t n) {
  const auto [first, last] = options.select_range.value_or(std::pair(std::int64_t{0}, n - 1));
  if (options.select_range && (first < 0 || last >= n || first > last)) {
    throw misuse<InvalidArgument>("select_range ({}, {}) names no eigenvalues of {}", first, last, n);
  }
  return {first, last + 1};
}

}  // namespace

Array eigvalsh_tridiagonal(const Operand& d, const Operand& e, const EighTridiagonalOptions& options) {
  const Caller caller("eigh_tridiagonal", d.where());
  const Tridiagonal given = tridiagonal_of(d, e);
  const std::int64_t n = given.d.shape()[0];
  const auto [begin, end] = range_of(options, n);
  const Array diagonal = is_complex(given.d.dtype()) ? real(given.d) : given.d;
  if (n <= 1) return diagonal;
  const double epsilon = epsilon_of(diagonal);
  const double tiny = least_normal_of(diagonal);
  const Array sizes = abs(given.e);
  const Array squares = concatenate({zeros({1}, {.dtype = diagonal.dtype()}), sizes * sizes});
  const Array none = zeros({1}, {.dtype = diagonal.dtype()});
  // Gershgorin's circles, a little wider.
  const Array radii = concatenate({none, sizes}) + concatenate({sizes, none});
  const Array lowest = min(diagonal - radii);
  const Array highest = max(diagonal + radii);
  const Array size = maximum(abs(lowest), abs(highest));
  const Array pivot = tiny * maximum(max(squares), 1) / epsilon;
  const Array slack = 4 * epsilon * static_cast<double>(n) * size + 2 * pivot;
  const Array least = maximum(epsilon * size, options.tol.value_or(0.0));
  const Array wanted = arange(begin, end, 1, {.dtype = int32});
  // How many eigenvalues are less than each x: the signs of the pivots of T - x.
  const auto count = [&](const Array& x) {
    const auto step = [&](const std::pair<Array, Array>& at, const std::pair<Array, Array>& row) {
      const auto& [before, number] = at;
      const auto& [element_of_row, square] = row;
      const Array q = element_of_row - x - square / before;
      const Array safe = shoal::where(less(abs(q), pivot), -pivot, q);
      return std::pair(std::pair(safe, number + less(safe, 0).astype(int32)), std::tuple<>());
    };
    const auto start = std::pair(ones_like(x), zeros_like(x, {.dtype = int32}));
    return lax::scan(step, start, std::pair(diagonal, squares)).first.second;
  };
  using State = std::tuple<Array, Array, Array>;
  const auto goes_on = [&](const State& state) {
    const auto& [low, high, steps] = state;
    return logical_and(less(steps, is_wide(diagonal) ? 60 : 30), greater(max(high - low), least));
  };
  const auto halve = [&](const State& state) {
    const auto& [low, high, steps] = state;
    const Array middle = (low + high) / 2;
    const Array is_above = greater(count(middle), wanted);
    return State(shoal::where(is_above, low, middle), shoal::where(is_above, middle, high), steps + 1);
  };
  const Array nobody = zeros_like(wanted, {.dtype = diagonal.dtype()});
  const auto [low, high, steps] = lax::while_loop(
      goes_on, halve, State(nobody + (lowest - slack), nobody + (highest + slack), zeros({}, {.dtype = int32})));
  return (low + high) / 2;
}

std::pair<Array, Array> eigh_tridiagonal(const Operand& d, const Operand& e, const EighTridiagonalOptions& options) {
  const Caller caller("eigh_tridiagonal", d.where());
  const Tridiagonal given = tridiagonal_of(d, e);
  const auto [begin, end] = range_of(options, given.d.shape()[0]);
  const Array matrix = diag(given.d) + diag(given.e, -1);
  const EighResult result = eigh(matrix, {.symmetrize_input = false});
  return {lax::slice_in_dim(result.eigenvalues, begin, end), lax::slice_in_dim(result.eigenvectors, begin, end, 1, 1)};
}

}  // namespace linalg

Array roots(const Operand& p) {
  const Caller caller("roots", p.where());
  const Array given = to_array(p);
  if (given.ndim() != 1) throw misuse<InvalidArgument>("takes a vector of coefficients, not {}", type_of(given));
  const Array coefficients = given.astype(inexact_dtype(given.dtype()));
  const std::int64_t n = coefficients.shape()[0];
  if (n < 2) return zeros({0}, {.dtype = complex_of(coefficients)});
  // Leading zeros go to the end, where they are roots that are 0.
  const Array is_zero = equal(coefficients, 0);
  const Array zeros_before = sum(cumprod(is_zero.astype(int32)));
  const Array moved = take(coefficients, (positions(n) + zeros_before) % n);
  const Array first = -lax::slice_in_dim(moved, 1, n) / moved[0];
  const Array companion = concatenate({expand_dims(first, 0), eye(n - 2, {.m = n - 1, .dtype = first.dtype()})}, 0);
  const Array values = linalg::eigvals(companion);
  const Array are_moved = logical_and(equal(values, 0), greater(zeros_before, 0));
  const Array order = argsort(are_moved.astype(int32));
  const Array is_root = less(positions(n - 1), n - 1 - zeros_before);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  return shoal::where(is_root, take(values, order), lax::complex(Array(nan), Array(nan)).astype(values.dtype()));
}

}  // namespace shoal
