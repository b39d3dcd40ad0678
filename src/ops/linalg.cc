// Decompositions of matrices and the solution of triangular systems: cholesky, triangular_solve, lu, qr, eigh, svd.
//
// The last two dimensions are those of a matrix, the ones before are batches, and what is split by batches stays where
// it is. Everything is computed in f64, and rounded to the dtype of the operand at the end. The algorithms are those of
// Golub and Van Loan, "Matrix Computations", 4th edition: sections are given below.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "core/dispatch.h"
#include "ops/dense.h"
#include "ops/linalg_derivatives.h"
#include "ops/rules.h"
#include "ops/table.h"

namespace shoal {
namespace {

using namespace dense;

// Jacobi's methods converge within about ten sweeps; the bound is for what is not a number in disguise.
constexpr int kMaxSweeps = 60;

// ---- cholesky (4.2.4)

std::vector<Type> infer_cholesky(const InferContext& context) {
  check_square(context, context.inputs[0]);
  return {like_operands(context, context.inputs[0].shape)};
}

// From what extent on devices that hold parts of a matrix compute with it together: less is sooner gathered and
// computed by each of them.
constexpr std::int64_t kJointFrom = 512;

// Whether devices do so, if they hold parts: the user has said how, or the matrix is large. Explicit axes do not split
// a matrix here: what its derivative adds to its adjoint would be split otherwise.
bool is_joint(const RuleContext& context) {
  const Type& matrix = context.inputs[0];
  if (std::ranges::any_of(context.inputs, [](const Type& type) { return type.explicit_axes.has_value(); }))
    return false;
  return matrix.rank() == 2 && matrix.shape[0] > 0 && (context.attrs.contains("tile") || matrix.shape[0] >= kJointFrom);
}

ShardingRule cholesky_rule(const RuleContext& context) {
  if (!is_joint(context)) return batch_rule(context);
  ShardingRule rule;
  rule.operands.push_back(own_factors(rule, context.inputs[0].shape, FactorKind::kJoint));
  rule.results = rule.operands;
  return rule;
}

// Where devices do not compute it together, they have batches of one shape: it is expanded for that.
ShardingRule cholesky_inverse_rule(const RuleContext& context) {
  ShardingRule rule = cholesky_rule(context);
  rule.even = !is_joint(context);
  return rule;
}

// The lower factor in place of the matrix, whose upper triangle is not looked at. Returns how many of its leading
// blocks are positive definite, or 0 if the matrix is not finite.
template <class W>
std::int64_t factor_cholesky(Matrix<W>& a) {
  const std::int64_t n = a.rows();
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j <= i; ++j) {
      if (!is_finite_element(a(i, j))) return 0;
    }
  }
  for (std::int64_t j = 0; j < n; ++j) {
    double pivot = real(a(j, j));
    for (std::int64_t k = 0; k < j; ++k) pivot -= squared(a(j, k));
    if (!(pivot > 0)) return j;
    const double root = std::sqrt(pivot);
    a(j, j) = root;
    for (std::int64_t i = j + 1; i < n; ++i) {
      W sum = a(i, j);
      for (std::int64_t k = 0; k < j; ++k) sum -= a(i, k) * conj(a(j, k));
      a(i, j) = sum / root;
    }
  }
  return n;
}

void cholesky(const KernelContext& context) {
  const bool leading = context.attrs.contains("leading");
  for_each_matrix(context, [&](auto tag, std::int64_t number) {
    using W = decltype(tag);
    Matrix<W> a = matrix_at<W>(context.inputs[0], number);
    const std::int64_t definite = factor_cholesky(a);
    const std::int64_t kept = leading || definite == a.rows() ? definite : 0;
    for (std::int64_t i = 0; i < a.rows(); ++i) {
      for (std::int64_t j = 0; j < a.columns(); ++j) {
        if (j > i) a(i, j) = 0;
        if (j <= i && i >= kept) a(i, j) = not_a_number<W>();
      }
    }
    store(a, context.outputs[0], number);
  });
}

// ---- triangular_solve (3.1)

std::vector<Type> infer_triangular_solve(const InferContext& context) {
  const Type& a = context.inputs[0];
  const Type& b = context.inputs[1];
  check_square(context, a);
  if (a.dtype != b.dtype) {
    infer_error(context, fmt::format("operands {} and {} have different dtypes; they must be equal", to_string(a),
                                     to_string(b)));
  }
  if (b.rank() != a.rank() || !std::equal(a.shape.begin(), a.shape.end() - 1, b.shape.begin())) {
    infer_error(context, fmt::format("the right sides {} must have the extents of the matrices {}, except for the last "
                                     "dimension, the number of right sides",
                                     to_string(b), to_string(a)));
  }
  Type result = like_operands(context, b.shape);
  result.weak = a.weak && b.weak;
  return {std::move(result)};
}

// x := a^-1 x.
template <class W>
void substitute(const Matrix<W>& a, bool lower, bool unit_diagonal, Matrix<W>& x) {
  const std::int64_t n = a.rows();
  for (std::int64_t step = 0; step < n; ++step) {
    const std::int64_t i = lower ? step : n - 1 - step;
    for (std::int64_t j = 0; j < x.columns(); ++j) {
      W sum = x(i, j);
      for (std::int64_t k = lower ? 0 : i + 1; k < (lower ? i : n); ++k) sum -= a(i, k) * x(k, j);
      x(i, j) = unit_diagonal ? sum : sum / a(i, i);
    }
  }
}

void triangular_solve(const KernelContext& context) {
  const bool is_adjoint = context.attrs.contains("adjoint");
  const bool lower = context.attrs.get<bool>("lower") != is_adjoint;
  const bool unit_diagonal = context.attrs.get<bool>("unit_diagonal");
  for_each_matrix(context, [&](auto tag, std::int64_t number) {
    using W = decltype(tag);
    const Matrix<W> given = matrix_at<W>(context.inputs[0], number);
    Matrix<W> x = matrix_at<W>(context.inputs[1], number);
    substitute(is_adjoint ? adjoint(given) : given, lower, unit_diagonal, x);
    store(x, context.outputs[0], number);
  });
}

// ---- cholesky_inverse

// Two triangular systems, as it is expanded to: what lies between them is rounded.
void cholesky_inverse(const KernelContext& context) {
  for_each_matrix(context, [&](auto tag, std::int64_t number) {
    using W = decltype(tag);
    const Matrix<W> l = matrix_at<W>(context.inputs[0], number);
    Matrix<W> x = Matrix<W>::identity(l.rows(), l.rows());
    substitute(l, true, false, x);
    store(x, context.outputs[0], number);
    x = matrix_at<W>(context.outputs[0], number);
    substitute(adjoint(l), false, false, x);
    store(x, context.outputs[0], number);
  });
}

// Every right side is solved for alone, so that they pass, too.
ShardingRule triangular_solve_rule(const RuleContext& context) {
  ShardingRule rule;
  if (is_joint(context)) {
    const Shape& shape = context.inputs[1].shape;
    const int rows = rule.add_factor(shape[0], FactorKind::kJoint);
    const int inner = rule.add_factor(shape[0], FactorKind::kJoint);
    const int sides = rule.add_factor(shape[1]);
    // The rows of the solution belong to those of the matrix that is meant.
    const bool is_adjoint = context.attrs.contains("adjoint");
    rule.operands.push_back({{is_adjoint ? inner : rows}, {is_adjoint ? rows : inner}});
    rule.operands.push_back({{rows}, {sides}});
    rule.results.push_back(rule.operands[1]);
    return rule;
  }
  const TensorFactors batches = batches_of(rule, context);
  rule.operands.push_back(batch_factors(rule, batches, context.inputs[0]));
  rule.operands.push_back(batch_factors(rule, batches, context.inputs[1]));
  const TensorFactors& sides = rule.operands[1];
  rule.factors[static_cast<std::size_t>(sides.back()[0])].kind = FactorKind::kPassThrough;
  rule.results.push_back(sides);
  return rule;
}

// ---- triangular_inverse

void triangular_inverse(const KernelContext& context) {
  for_each_matrix(context, [&](auto tag, std::int64_t number) {
    using W = decltype(tag);
    const Matrix<W> l = matrix_at<W>(context.inputs[0], number);
    Matrix<W> x = Matrix<W>::identity(l.rows(), l.rows());
    substitute(l, true, false, x);
    store(x, context.outputs[0], number);
  });
}

// ---- lu (3.4.1)

std::vector<Type> infer_lu(const InferContext& context) {
  check_matrices(context, context.inputs[0]);
  const Shape& shape = context.inputs[0].shape;
  const std::int64_t m = shape[shape.size() - 2];
  const std::int64_t n = shape[shape.size() - 1];
  return {batch_of(context, {m, n}), with_dtype(batch_of(context, {std::min(m, n)}), int32),
          with_dtype(batch_of(context, {m}), int32)};
}

ShardingRule lu_rule(const RuleContext& context) {
  const Shape& shape = context.inputs[0].shape;
  if (!is_joint(context) || shape[0] != shape[1]) return batch_rule(context);
  ShardingRule rule;
  rule.operands.push_back(own_factors(rule, shape, FactorKind::kJoint));
  rule.results.push_back(rule.operands[0]);
  for (std::size_t i = 1; i < context.outputs.size(); ++i) {
    rule.results.push_back(own_factors(rule, context.outputs[i].shape, FactorKind::kNeedReplication));
  }
  return rule;
}

// The factors in place of the matrix.
template <class W>
void factor_lu(Matrix<W>& a, std::vector<std::int64_t>& pivots, std::vector<std::int64_t>& permutation) {
  // The measure by which LAPACK chooses the pivots of complex matrices.
  const auto size = [](const W& x) { return std::abs(real(x)) + std::abs(imag(x)); };
  for (std::int64_t k = 0; k < static_cast<std::int64_t>(pivots.size()); ++k) {
    std::int64_t pivot = k;
    for (std::int64_t i = k + 1; i < a.rows(); ++i) {
      if (size(a(i, k)) > size(a(pivot, k))) pivot = i;
    }
    pivots[static_cast<std::size_t>(k)] = pivot;
    std::swap(permutation[static_cast<std::size_t>(k)], permutation[static_cast<std::size_t>(pivot)]);
    a.swap_rows(k, pivot);
    if (a(k, k) == W{}) continue;  // Nothing below is left to be eliminated.
    for (std::int64_t i = k + 1; i < a.rows(); ++i) {
      a(i, k) /= a(k, k);
      for (std::int64_t j = k + 1; j < a.columns(); ++j) a(i, j) -= a(i, k) * a(k, j);
    }
  }
}

void lu(const KernelContext& context) {
  for_each_matrix(context, [&](auto tag, std::int64_t number) {
    using W = decltype(tag);
    Matrix<W> a = matrix_at<W>(context.inputs[0], number);
    std::vector<std::int64_t> pivots(static_cast<std::size_t>(std::min(a.rows(), a.columns())));
    std::vector<std::int64_t> permutation(static_cast<std::size_t>(a.rows()));
    std::iota(pivots.begin(), pivots.end(), 0);
    std::iota(permutation.begin(), permutation.end(), 0);
    if (all_finite(a.elements())) {
      factor_lu(a, pivots, permutation);
    } else {
      std::fill(a.elements().begin(), a.elements().end(), not_a_number<W>());
    }
    store(a, context.outputs[0], number);
    store(pivots, context.outputs[1], number);
    store(permutation, context.outputs[2], number);
  });
}

// ---- qr (5.2.2), by Householder's reflections, with the signs of LAPACK: the diagonal of r is real.

std::vector<Type> infer_qr(const InferContext& context) {
  check_matrices(context, context.inputs[0]);
  const Shape& shape = context.inputs[0].shape;
  const std::int64_t m = shape[shape.size() - 2];
  const std::int64_t n = shape[shape.size() - 1];
  const std::int64_t inner = context.attrs.get<bool>("full") ? m : std::min(m, n);
  return {batch_of(context, {m, inner}), batch_of(context, {inner, n})};
}

// The triangle has as many columns as the matrix, and they are split alike. Where the matrix is square, so are rows.
ShardingRule qr_rule(const RuleContext& context) {
  const Shape& shape = context.inputs[0].shape;
  const bool is_joint_here = is_joint(context) && shape[0] >= shape[1] && shape[1] > 0 &&
                             (shape[0] == shape[1] || !context.attrs.get<bool>("full"));
  if (!is_joint_here) return batch_rule(context);
  ShardingRule rule;
  rule.operands.push_back(own_factors(rule, shape, FactorKind::kJoint));
  rule.results.push_back(rule.operands[0]);
  const int rows =
      shape[0] == shape[1] ? rule.operands[0][0][0] : rule.add_factor(shape[1], FactorKind::kNeedReplication);
  rule.results.push_back({{rows}, rule.operands[0][1]});
  return rule;
}

// Turns a into the upper triangular factor; the orthonormal one has `columns` columns.
template <class W>
Matrix<W> factor_qr(Matrix<W>& a, std::int64_t columns) {
  std::vector<Reflection<W>> reflections;
  for (std::int64_t k = 0; k < std::min(a.rows(), a.columns()); ++k) {
    std::vector<W> x;
    for (std::int64_t i = k; i < a.rows(); ++i) x.push_back(a(i, k));
    reflections.push_back(reflection_of(std::move(x)));
    reflect(a, k, k, reflections.back().v, conj(reflections.back().tau));
    for (std::int64_t i = k + 1; i < a.rows(); ++i) a(i, k) = 0;
    a(k, k) = real(a(k, k));
  }
  Matrix<W> q = Matrix<W>::identity(a.rows(), columns);
  for (std::size_t k = reflections.size(); k-- > 0;) {
    const auto row = static_cast<std::int64_t>(k);
    reflect(q, row, row, reflections[k].v, reflections[k].tau);
  }
  return q;
}

void qr(const KernelContext& context) {
  for_each_matrix(context, [&](auto tag, std::int64_t number) {
    using W = decltype(tag);
    Matrix<W> a = matrix_at<W>(context.inputs[0], number);
    const std::int64_t inner = context.attrs.get<bool>("full") ? a.rows() : std::min(a.rows(), a.columns());
    const bool is_finite = all_finite(a.elements());
    Matrix<W> q = factor_qr(a, inner);
    Matrix<W> r(inner, a.columns());
    std::copy_n(a.elements().begin(), r.elements().size(), r.elements().begin());
    if (!is_finite) {
      std::fill(q.elements().begin(), q.elements().end(), not_a_number<W>());
      for (std::int64_t i = 0; i < inner; ++i) {
        for (std::int64_t j = i; j < r.columns(); ++j) r(i, j) = not_a_number<W>();
      }
    }
    store(q, context.outputs[0], number);
    store(r, context.outputs[1], number);
  });
}

// ---- eigh (8.5), by Jacobi's rotations, one pair of rows and columns after the other.

// The rotation of columns p and q that diagonalises a Hermitian matrix of two rows.
template <class W>
struct Rotation {
  double c;
  double s;
  W phase;
};

template <class W>
Rotation<W> rotation_of(double app, double aqq, W apq) {
  const double size = std::sqrt(squared(apq));
  const double tau = (aqq - app) / (2 * size);
  const double t = (tau < 0 ? -1 : 1) / (std::abs(tau) + std::sqrt(1 + tau * tau));
  const double c = 1 / std::sqrt(1 + t * t);
  return {.c = c, .s = t * c, .phase = conj(apq) / size};
}

template <class W>
void rotate_columns(Matrix<W>& a, std::int64_t p, std::int64_t q, const Rotation<W>& rotation) {
  for (std::int64_t i = 0; i < a.rows(); ++i) {
    const W x = a(i, p);
    const W y = rotation.phase * a(i, q);
    a(i, p) = rotation.c * x - rotation.s * y;
    a(i, q) = rotation.s * x + rotation.c * y;
  }
}

template <class W>
void rotate_rows(Matrix<W>& a, std::int64_t p, std::int64_t q, const Rotation<W>& rotation) {
  for (std::int64_t j = 0; j < a.columns(); ++j) {
    const W x = a(p, j);
    const W y = conj(rotation.phase) * a(q, j);
    a(p, j) = rotation.c * x - rotation.s * y;
    a(q, j) = rotation.s * x + rotation.c * y;
  }
}

// Calls f(p, q) for all pairs below n, again and again until it returns false for all of them.
template <class F>
void sweep_pairs(std::int64_t n, F&& f) {
  bool changed = true;
  for (int sweep = 0; changed && sweep < kMaxSweeps; ++sweep) {
    changed = false;
    for (std::int64_t p = 0; p < n; ++p) {
      for (std::int64_t q = p + 1; q < n; ++q) changed = f(p, q) || changed;
    }
  }
}

// The numbers of the values in the order that `before` gives.
template <class F>
std::vector<std::int64_t> order_of(std::size_t count, F&& before) {
  std::vector<std::int64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return before(static_cast<std::size_t>(a), static_cast<std::size_t>(b));
  });
  return order;
}

std::vector<Type> infer_eigh(const InferContext& context) {
  check_square(context, context.inputs[0]);
  const Shape& shape = context.inputs[0].shape;
  const Type vectors = like_operands(context, shape);
  const Type values = with_dtype(batch_of(context, {shape.back()}), real_dtype(vectors.dtype));
  if (context.attrs.contains("values_only")) return {values};
  return {values, vectors};
}

ShardingRule eigh_rule(const RuleContext& context) {
  if (!is_joint(context)) return batch_rule(context);
  ShardingRule rule;
  rule.operands.push_back(own_factors(rule, context.inputs[0].shape, FactorKind::kJoint));
  rule.results.push_back(own_factors(rule, context.outputs[0].shape, FactorKind::kNeedReplication));
  if (context.outputs.size() > 1) rule.results.push_back(rule.operands[0]);
  return rule;
}

// The eigenvalues, ascending, and in place of the matrix its eigenvectors, as columns.
template <class W>
std::vector<double> factor_eigh(Matrix<W>& a) {
  const std::int64_t n = a.rows();
  std::vector<double> values(static_cast<std::size_t>(n), kNaN);
  for (std::int64_t i = 0; i < n; ++i) {  // Only the lower triangle counts.
    a(i, i) = real(a(i, i));
    for (std::int64_t j = i + 1; j < n; ++j) a(i, j) = conj(a(j, i));
  }
  const std::optional<int> exponent = exponent_of(a.elements());
  if (!exponent) {
    std::fill(a.elements().begin(), a.elements().end(), not_a_number<W>());
    return values;
  }
  for (W& element : a.elements()) element = scaled(element, -*exponent);
  Matrix<W> vectors = Matrix<W>::identity(n, n);
  sweep_pairs(n, [&](std::int64_t p, std::int64_t q) {
    // As small beside both diagonal elements as their own rounding errors: what remains are relative errors.
    const double allowed = kEpsilon * std::sqrt(std::abs(real(a(p, p))) * std::abs(real(a(q, q))));
    const double size = std::sqrt(squared(a(p, q)));
    if (size <= allowed || size < std::numeric_limits<double>::min()) return false;
    const Rotation<W> rotation = rotation_of(real(a(p, p)), real(a(q, q)), a(p, q));
    rotate_columns(a, p, q, rotation);
    rotate_rows(a, p, q, rotation);
    a(p, q) = a(q, p) = 0;
    a(p, p) = real(a(p, p));
    a(q, q) = real(a(q, q));
    rotate_columns(vectors, p, q, rotation);
    return true;
  });
  const auto value = [&](std::int64_t i) { return real(a(i, i)); };
  const std::vector<std::int64_t> order = order_of(values.size(), [&](std::size_t i, std::size_t j) {
    return value(static_cast<std::int64_t>(i)) < value(static_cast<std::int64_t>(j));
  });
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::ldexp(value(order[i]), *exponent);
  a = vectors.columns_at(order);
  return values;
}

void eigh(const KernelContext& context) {
  for_each_matrix(context, [&](auto tag, std::int64_t number) {
    using W = decltype(tag);
    Matrix<W> a = matrix_at<W>(context.inputs[0], number);
    store(factor_eigh(a), context.outputs[0], number);
    if (context.outputs.size() > 1) store(a, context.outputs[1], number);
  });
}

// ---- svd (8.6.3), by Hestenes' rotations of columns, which Drmač and Veselić (2008) show to be accurate.

std::vector<Type> infer_svd(const InferContext& context) {
  check_matrices(context, context.inputs[0]);
  const Shape& shape = context.inputs[0].shape;
  const std::int64_t m = shape[shape.size() - 2];
  const std::int64_t n = shape[shape.size() - 1];
  const bool full = context.attrs.get<bool>("full");
  const std::int64_t k = std::min(m, n);
  const Type u = batch_of(context, {m, full ? m : k});
  if (context.attrs.contains("values_only")) return {with_dtype(batch_of(context, {k}), real_dtype(u.dtype))};
  return {u, with_dtype(batch_of(context, {k}), real_dtype(u.dtype)), batch_of(context, {full ? n : k, n})};
}

template <class W>
struct Svd {
  Matrix<W> u;
  std::vector<double> s;
  Matrix<W> vh;
};

// Of a matrix with no fewer rows than columns.
template <class W>
Svd<W> svd_of_tall(Matrix<W> a, bool full) {
  const std::int64_t m = a.rows();
  const std::int64_t n = a.columns();
  const std::optional<int> exponent = exponent_of(a.elements());
  if (!exponent) {
    Svd<W> nothing{Matrix<W>(m, full ? m : n), std::vector<double>(static_cast<std::size_t>(n), kNaN), Matrix<W>(n, n)};
    std::fill(nothing.u.elements().begin(), nothing.u.elements().end(), not_a_number<W>());
    std::fill(nothing.vh.elements().begin(), nothing.vh.elements().end(), not_a_number<W>());
    return nothing;
  }
  for (W& element : a.elements()) element = scaled(element, -*exponent);
  const auto product = [&](std::int64_t p, std::int64_t q) {
    W sum{};
    for (std::int64_t i = 0; i < m; ++i) sum += conj(a(i, p)) * a(i, q);
    return sum;
  };
  // Rotations make the columns orthogonal.
  Matrix<W> v = Matrix<W>::identity(n, n);
  const double tolerance = kEpsilon * static_cast<double>(m);
  sweep_pairs(n, [&](std::int64_t p, std::int64_t q) {
    const double pp = real(product(p, p));
    const double qq = real(product(q, q));
    const W pq = product(p, q);
    if (pp == 0 || qq == 0 || std::sqrt(squared(pq)) <= tolerance * std::sqrt(pp) * std::sqrt(qq)) return false;
    const Rotation<W> rotation = rotation_of(pp, qq, pq);
    rotate_columns(a, p, q, rotation);
    rotate_columns(v, p, q, rotation);
    return true;
  });
  std::vector<double> lengths;
  for (std::int64_t j = 0; j < n; ++j) lengths.push_back(real(product(j, j)));
  const std::vector<std::int64_t> order =
      order_of(lengths.size(), [&](std::size_t i, std::size_t j) { return lengths[i] > lengths[j]; });
  // Orthogonal columns have a diagonal factor r. Columns of length 0 get a direction, too, and so do further ones.
  a = a.columns_at(order);
  Matrix<W> u = factor_qr(a, full ? m : n);
  std::vector<double> s;
  for (std::int64_t j = 0; j < n; ++j) {
    const double length = real(a(j, j));
    s.push_back(std::ldexp(std::abs(length), *exponent));
    for (std::int64_t i = 0; length < 0 && i < m; ++i) u(i, j) = -u(i, j);
  }
  return {std::move(u), std::move(s), adjoint(v.columns_at(order))};
}

void svd(const KernelContext& context) {
  const bool full = context.attrs.get<bool>("full");
  for_each_matrix(context, [&](auto tag, std::int64_t number) {
    using W = decltype(tag);
    const Matrix<W> a = matrix_at<W>(context.inputs[0], number);
    const bool is_tall = a.rows() >= a.columns();
    const Svd<W> result = svd_of_tall(is_tall ? a : adjoint(a), full);
    if (context.outputs.size() == 1) return store(result.s, context.outputs[0], number);
    store(is_tall ? result.u : adjoint(result.vh), context.outputs[0], number);
    store(result.s, context.outputs[1], number);
    store(is_tall ? result.vh : adjoint(result.u), context.outputs[2], number);
  });
}

// ---- What they cost

double flops_of_cholesky(double n, double) { return n * n * n / 3; }

// The right sides have as many columns as the second operand.
double flops_of_triangular_solve(const RuleContext& context) {
  return flops_of_matrices(
      context, [&](double n, double) { return n * n * static_cast<double>(context.inputs[1].shape.back()); });
}

double flops_of_lu(double m, double n) {
  const double k = std::min(m, n);
  return 2 * m * n * k - (m + n) * k * k + 2 * k * k * k / 3;
}

double flops_of_qr(const RuleContext& context) {
  return flops_of_matrices(context, [&](double m, double n) {
    const double k = std::min(m, n);
    const double triangle = 2 * std::max(m, n) * k * k - 2 * k * k * k / 3;
    return triangle + flops_of_reflections(m, static_cast<double>(context.outputs[0].shape.back()), k);
  });
}

double flops_of_eigh(double n, double) { return 9 * n * n * n; }

double flops_of_svd(const RuleContext& context) {
  const bool full = context.attrs.get<bool>("full");
  const bool has_vectors = !context.attrs.contains("values_only");
  return flops_of_matrices(context, [&](double m, double n) {
    const double k = std::min(m, n);
    const double l = std::max(m, n);
    if (!has_vectors) return 4 * l * k * k - 4 * k * k * k / 3;
    return full ? 4 * l * l * k + 22 * k * k * k : 6 * l * k * k + 20 * k * k * k;
  });
}

const std::array kLinalgOps = {
    OpDef{.name = "cholesky",
          .doc =
              "The lower triangular l with l l^H = a, for Hermitian matrices a given by their lower triangle. NaN "
              "where a is not positive definite, or not finite; with `leading` the diagonal is that as far as leading "
              "blocks are. `tile` rows are worked on at once where devices share a matrix.",
          .infer = infer_cholesky,
          .rule = cholesky_rule,
          .joint = "potrf",
          .reference = cholesky,
          .flops = [](const RuleContext& c) { return flops_of_matrices(c, flops_of_cholesky); },
          .jvp = jvp_of_cholesky,
          .attributes = {{.name = "leading"}, {.name = "tile"}}},
    OpDef{.name = "cholesky_inverse",
          .doc = "The inverses of l l^H, for lower triangular matrices l: what is above their diagonals is not looked "
                 "at. `tile` as for cholesky.",
          .infer = infer_cholesky,
          .rule = cholesky_inverse_rule,
          .expand = expand_cholesky_inverse,
          .joint = "potri",
          .reference = cholesky_inverse,
          .flops = [](const RuleContext& c) { return 2 * flops_of_matrices(c, flops_of_cholesky); },
          .jvp = jvp_of_cholesky_inverse,
          .attributes = {{.name = "tile"}}},
    OpDef{.name = "triangular_solve",
          .doc =
              "The x with a x = b, for triangular matrices a: `lower` or upper, with a diagonal of ones if "
              "`unit_diagonal`; or, if `adjoint`, with a^H x = b. The other triangle is not looked at. `tile` as for "
              "cholesky.",
          .arity = 2,
          .infer = infer_triangular_solve,
          .rule = triangular_solve_rule,
          .joint = "trsm",
          .reference = triangular_solve,
          .flops = flops_of_triangular_solve,
          .linear = {Linear::kNo, Linear::kTogether},
          .jvp = jvp_of_triangular_solve,
          .transpose = transpose_triangular_solve,
          .attributes = {{.name = "lower"}, {.name = "unit_diagonal"}, {.name = "adjoint"}, {.name = "tile"}}},
    OpDef{.name = "triangular_inverse",
          .doc = "The inverses of lower triangular matrices, which are that, too: what is above their diagonals is not "
                 "looked at. `tile` as for cholesky.",
          .infer = infer_cholesky,
          .rule = cholesky_inverse_rule,
          .expand = expand_triangular_inverse,
          .joint = "trtri",
          .reference = triangular_inverse,
          .flops = [](const RuleContext& c) { return flops_of_matrices(c, flops_of_cholesky); },
          .jvp = jvp_of_triangular_inverse,
          .attributes = {{.name = "tile"}}},
    OpDef{.name = "lu",
          .doc =
              "The triangular factors of matrices whose rows are exchanged, in one matrix: a[permutation] = l u with "
              "ones on the diagonal of l. Row i was exchanged with row pivots[i], the results' second. "
              "`tile` as for cholesky.",
          .infer = infer_lu,
          .rule = lu_rule,
          .joint = "getrf",
          .reference = lu,
          .flops = [](const RuleContext& c) { return flops_of_matrices(c, flops_of_lu); },
          .jvp = jvp_of_lu,
          .attributes = {{.name = "tile"}}},
    OpDef{.name = "qr",
          .doc = "q and r with a = q r, q with orthonormal columns and r upper triangular; if `full`, q is square. "
                 "`tile` columns are worked on at once where devices share a matrix.",
          .infer = infer_qr,
          .rule = qr_rule,
          .joint = "geqrf",
          .reference = qr,
          .flops = flops_of_qr,
          .jvp = jvp_of_qr,
          .attributes = {{.name = "full"}, {.name = "tile"}}},
    OpDef{.name = "eigh",
          .doc = "The eigenvalues, ascending, and eigenvectors, as columns, of Hermitian matrices given by their lower "
                 "triangle; or, if `values_only`, no vectors. `tile` as for cholesky.",
          .infer = infer_eigh,
          .rule = eigh_rule,
          .joint = "syevd",
          .reference = eigh,
          .flops = [](const RuleContext& c) { return flops_of_matrices(c, flops_of_eigh); },
          .jvp = jvp_of_eigh,
          .attributes = {{.name = "tile"}, {.name = "values_only"}}},
    OpDef{.name = "svd",
          .doc = "u, s and vh with a = u s vh: columns of u and rows of vh are orthonormal, s descends and is not "
                 "negative. If `full`, u and vh are square. If `values_only`, it is s alone.",
          .infer = infer_svd,
          .rule = batch_rule,
          .reference = svd,
          .flops = flops_of_svd,
          .jvp = jvp_of_svd,
          .attributes = {{.name = "full"}, {.name = "values_only"}}},
};

}  // namespace

std::span<const OpDef> linalg_ops() { return kLinalgOps; }

}  // namespace shoal
