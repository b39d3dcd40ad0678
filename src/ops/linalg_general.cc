// Decompositions of matrices of no special kind, and the product of reflections: hessenberg, householder_product,
// schur, eig. As in linalg.cc, of which they take the conventions and the book; results are those of LAPACK's gehrd,
// ungqr, gees and geev.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <utility>
#include <vector>

#include "ops/dense.h"
#include "ops/linalg_derivatives.h"
#include "ops/table.h"

namespace shoal {
namespace {

using namespace dense;

using Wide = std::complex<double>;

// ---- hessenberg (7.4.2)

std::vector<Type> infer_hessenberg(const InferContext& context) {
  check_square(context, context.inputs[0]);
  const Shape& shape = context.inputs[0].shape;
  return {like_operands(context, shape), batch_of(context, {std::max<std::int64_t>(shape.back() - 1, 0)})};
}

// a := a (I - tau v v^H), of the columns from `column` on.
template <class W>
void reflect_from_right(Matrix<W>& a, std::int64_t column, const std::vector<W>& v, W tau) {
  for (std::int64_t i = 0; i < a.rows(); ++i) {
    W sum{};
    for (std::size_t j = 0; j < v.size(); ++j) sum += a(i, column + static_cast<std::int64_t>(j)) * v[j];
    for (std::size_t j = 0; j < v.size(); ++j) a(i, column + static_cast<std::int64_t>(j)) -= sum * tau * conj(v[j]);
  }
}

// The reflections h with a = h t h^H for a t that is zero below its first subdiagonal, which takes the place of a.
template <class W>
std::vector<Reflection<W>> reduce_to_hessenberg(Matrix<W>& a) {
  std::vector<Reflection<W>> reflections;
  for (std::int64_t k = 0; k + 1 < a.rows(); ++k) {
    std::vector<W> x;
    for (std::int64_t i = k + 1; i < a.rows(); ++i) x.push_back(a(i, k));
    reflections.push_back(reflection_of(std::move(x)));
    const auto& [v, tau] = reflections.back();
    reflect(a, k + 1, k, v, conj(tau));
    reflect_from_right(a, k + 1, v, tau);
    for (std::int64_t i = k + 2; i < a.rows(); ++i) a(i, k) = 0;
  }
  return reflections;
}

void hessenberg(const KernelContext& context) {
  for_each_matrix(context, [&](auto tag, std::int64_t number) {
    using W = decltype(tag);
    Matrix<W> a = matrix_at<W>(context.inputs[0], number);
    std::vector<W> factors(static_cast<std::size_t>(std::max<std::int64_t>(a.rows() - 1, 0)), not_a_number<W>());
    if (all_finite(a.elements())) {
      const std::vector<Reflection<W>> reflections = reduce_to_hessenberg(a);
      for (std::size_t k = 0; k < reflections.size(); ++k) {
        factors[k] = reflections[k].tau;
        const auto column = static_cast<std::int64_t>(k);
        for (std::int64_t i = column + 2; i < a.rows(); ++i) {
          a(i, column) = reflections[k].v[static_cast<std::size_t>(i - column - 1)];
        }
      }
    } else {
      std::fill(a.elements().begin(), a.elements().end(), not_a_number<W>());
    }
    store(a, context.outputs[0], number);
    store(factors, context.outputs[1], number);
  });
}

// ---- householder_product (5.1.6)

std::vector<Type> infer_householder_product(const InferContext& context) {
  const Type& a = context.inputs[0];
  const Type& factors = context.inputs[1];
  check_matrices(context, a);
  const std::int64_t m = a.shape[a.rank() - 2];
  const std::int64_t n = a.shape[a.rank() - 1];
  if (m < n) {
    infer_error(context, fmt::format("operand {} must have no fewer rows than columns", to_string(a)));
  }
  const bool fits = factors.rank() + 1 == a.rank() &&
                    std::equal(a.shape.begin(), a.shape.end() - 2, factors.shape.begin()) && factors.shape.back() <= n;
  if (!fits || factors.dtype != a.dtype) {
    infer_error(context, fmt::format("the factors {} of reflections must have the dtype and the batches of the "
                                     "matrices {}, and be no more than these have columns",
                                     to_string(factors), to_string(a)));
  }
  Type result = like_operands(context, a.shape);
  result.weak = a.weak && factors.weak;
  return {std::move(result)};
}

void householder_product(const KernelContext& context) {
  const std::int64_t count = context.inputs[1].shape.back();
  for_each_matrix(context, [&](auto tag, std::int64_t number) {
    using W = decltype(tag);
    const Matrix<W> a = matrix_at<W>(context.inputs[0], number);
    std::vector<W> factors(static_cast<std::size_t>(count));
    load(context.inputs[1], number * count, factors);
    Matrix<W> q = Matrix<W>::identity(a.rows(), a.columns());
    for (std::int64_t k = count; k-- > 0;) {
      std::vector<W> v = {W{1}};
      for (std::int64_t i = k + 1; i < a.rows(); ++i) v.push_back(a(i, k));
      reflect(q, k, k, v, factors[static_cast<std::size_t>(k)]);
    }
    store(q, context.outputs[0], number);
  });
}

// ---- schur (7.5, 7.5.6): the QR algorithm, with single shifts of complex matrices and double ones of real ones.

std::vector<Type> infer_schur(const InferContext& context) {
  check_square(context, context.inputs[0]);
  const Type matrix = like_operands(context, context.inputs[0].shape);
  return {matrix, matrix};
}

// What is found as no eigenvalue after so many steps is not found any more.
constexpr int kMostStepsOfEach = 60;
// After so many steps without one the shift is another.
constexpr int kStepsOfShift = 10;

template <class W>
struct Schur {
  Matrix<W> t;
  Matrix<W> q;
  bool succeeds = true;
};

// [c s; -conj(s) c] takes x and y to their length and 0.
template <class W>
struct Givens {
  double c;
  W s;

  static Givens of(const W& x, const W& y) {
    const double of_x = std::sqrt(squared(x));
    const double length = std::hypot(of_x, std::sqrt(squared(y)));
    if (length == 0) return {1, W{}};
    if (of_x == 0) return {0, conj(y) / length};
    return {of_x / length, (x / of_x) * conj(y) / length};
  }
};

// The rotation of rows i and i + 1, and of these columns by its adjoint.
template <class W>
void rotate(Matrix<W>& t, std::int64_t i, const Givens<W>& g, std::int64_t first_column, std::int64_t end_row) {
  for (std::int64_t j = first_column; j < t.columns(); ++j) {
    const W x = t(i, j);
    const W y = t(i + 1, j);
    t(i, j) = g.c * x + g.s * y;
    t(i + 1, j) = -conj(g.s) * x + g.c * y;
  }
  for (std::int64_t k = 0; k < end_row; ++k) {
    const W x = t(k, i);
    const W y = t(k, i + 1);
    t(k, i) = g.c * x + conj(g.s) * y;
    t(k, i + 1) = -g.s * x + g.c * y;
  }
}

template <class W>
void rotate_columns_of(Matrix<W>& q, std::int64_t i, const Givens<W>& g) {
  for (std::int64_t k = 0; k < q.rows(); ++k) {
    const W x = q(k, i);
    const W y = q(k, i + 1);
    q(k, i) = g.c * x + conj(g.s) * y;
    q(k, i + 1) = -g.s * x + g.c * y;
  }
}

// The first row of the block that ends with row `end`: what lies beside its first diagonal element is as good as 0.
template <class W>
std::int64_t block_before(Matrix<W>& t, std::int64_t end, double size) {
  for (std::int64_t k = end; k > 0; --k) {
    double near = std::sqrt(squared(t(k - 1, k - 1))) + std::sqrt(squared(t(k, k)));
    if (near == 0) near = size;
    if (std::sqrt(squared(t(k, k - 1))) > kEpsilon * near) continue;
    t(k, k - 1) = 0;
    return k;
  }
  return 0;
}

// A step with one shift on the rows from `first` to `last`.
void single_shift(Matrix<Wide>& t, Matrix<Wide>& q, std::int64_t first, std::int64_t last, bool is_other) {
  const Wide a = t(last - 1, last - 1);
  const Wide d = t(last, last);
  const Wide bc = t(last - 1, last) * t(last, last - 1);
  // The eigenvalue of the last two rows that is nearer to the last element.
  const Wide half = (a - d) / 2.0;
  const Wide root = std::sqrt(half * half + bc);
  const Wide far = half + (std::real(half * std::conj(root)) < 0 ? -root : root);
  Wide shift = far == Wide{} ? d : d - bc / far;
  if (is_other) shift = d + std::abs(t(last, last - 1));
  for (std::int64_t i = first; i <= last; ++i) t(i, i) -= shift;
  // t = q r, and then r q.
  std::vector<Givens<Wide>> rotations;
  for (std::int64_t i = first; i < last; ++i) {
    rotations.push_back(Givens<Wide>::of(t(i, i), t(i + 1, i)));
    rotate(t, i, rotations.back(), i, 0);
  }
  // Rows above are those of the triangle: their columns are rotated, too, but their diagonals are shifted no more.
  for (std::int64_t i = first; i < last; ++i) {
    const Givens<Wide>& g = rotations[static_cast<std::size_t>(i - first)];
    for (std::int64_t k = 0; k <= i + 1; ++k) {
      const Wide x = t(k, i);
      const Wide y = t(k, i + 1);
      t(k, i) = g.c * x + std::conj(g.s) * y;
      t(k, i + 1) = -g.s * x + g.c * y;
    }
    rotate_columns_of(q, i, g);
  }
  for (std::int64_t i = first; i <= last; ++i) t(i, i) += shift;
}

// Francis' step with the two eigenvalues of the last two rows as shifts.
void double_shift(Matrix<double>& t, Matrix<double>& q, std::int64_t first, std::int64_t last, bool is_other) {
  double sum = t(last - 1, last - 1) + t(last, last);
  double product = t(last - 1, last - 1) * t(last, last) - t(last - 1, last) * t(last, last - 1);
  if (is_other) {
    const double size = std::abs(t(last, last - 1)) + std::abs(t(last - 1, last - 2));
    sum = 1.5 * size;
    product = size * size;
  }
  std::vector<double> x = {
      t(first, first) * t(first, first) + t(first, first + 1) * t(first + 1, first) - sum * t(first, first) + product,
      t(first + 1, first) * (t(first, first) + t(first + 1, first + 1) - sum),
      t(first + 1, first) * t(first + 2, first + 1)};
  for (std::int64_t k = first; k < last; ++k) {
    const Reflection<double> reflection = reflection_of(x);
    reflect(t, k, std::max(first, k - 1), reflection.v, reflection.tau);
    reflect_from_right(t, k, reflection.v, reflection.tau);
    reflect_from_right(q, k, reflection.v, reflection.tau);
    if (k > first) {
      for (std::size_t i = 1; i < x.size(); ++i) t(k + static_cast<std::int64_t>(i), k - 1) = 0;
    }
    x = {t(k + 1, k)};
    for (std::int64_t i = k + 2; i <= std::min(k + 3, last); ++i) x.push_back(t(i, k));
  }
}

// Brings two rows of a real matrix to the form that LAPACK gives them: a triangle if their eigenvalues are real, and
// else equal numbers on the diagonal.
void standardize(Matrix<double>& t, Matrix<double>& q, std::int64_t i) {
  const double a = t(i, i);
  const double b = t(i, i + 1);
  const double c = t(i + 1, i);
  const double d = t(i + 1, i + 1);
  if (c == 0) return;
  const double half = (a - d) / 2;
  const double discriminant = half * half + b * c;
  Givens<double> g{};
  if (discriminant >= 0) {
    const double z = half + std::copysign(std::sqrt(discriminant), half);
    g = Givens<double>::of(z, c);
  } else {
    // The angle by which the diagonal becomes equal.
    const double angle = 0.5 * std::atan2(a - d, -(b + c));
    g = {std::cos(angle), std::sin(angle)};
  }
  rotate(t, i, g, 0, t.rows());
  rotate_columns_of(q, i, g);
  if (discriminant >= 0) {
    t(i + 1, i) = 0;
  } else {
    t(i, i) = t(i + 1, i + 1) = (t(i, i) + t(i + 1, i + 1)) / 2;
  }
}

template <class W>
Schur<W> schur_of(Matrix<W> a) {
  const std::int64_t n = a.rows();
  Schur<W> result{a, Matrix<W>::identity(n, n)};
  if (!exponent_of(a.elements())) {
    std::fill(result.t.elements().begin(), result.t.elements().end(), not_a_number<W>());
    result.q = result.t;
    result.succeeds = false;
    return result;
  }
  Matrix<W>& t = result.t;
  Matrix<W>& q = result.q;
  const std::vector<Reflection<W>> reflections = reduce_to_hessenberg(t);
  for (std::size_t k = 0; k < reflections.size(); ++k) {
    reflect_from_right(q, static_cast<std::int64_t>(k) + 1, reflections[k].v, reflections[k].tau);
  }
  const double size = norm_of(t.elements());
  int steps = 0;
  for (std::int64_t last = n - 1; last > 0;) {
    const std::int64_t first = block_before(t, last, size);
    constexpr bool kIsReal = std::is_same_v<W, double>;
    if (first == last || (kIsReal && first == last - 1)) {
      if constexpr (kIsReal) {
        if (first != last) standardize(t, q, first);
      }
      last = first - 1;
      steps = 0;
      continue;
    }
    if (++steps > kMostStepsOfEach) {
      result.succeeds = false;
      break;
    }
    if constexpr (kIsReal) {
      double_shift(t, q, first, last, steps % kStepsOfShift == 0);
    } else {
      single_shift(t, q, first, last, steps % kStepsOfShift == 0);
    }
  }
  return result;
}

void schur(const KernelContext& context) {
  for_each_matrix(context, [&](auto tag, std::int64_t number) {
    using W = decltype(tag);
    const Schur<W> result = schur_of(matrix_at<W>(context.inputs[0], number));
    store(result.t, context.outputs[0], number);
    store(result.q, context.outputs[1], number);
  });
}

// ---- eig (7.6.4): from the complex triangle, by substitution.

std::vector<Type> infer_eig(const InferContext& context) {
  check_square(context, context.inputs[0]);
  const Shape& shape = context.inputs[0].shape;
  const Dtype dtype = real_dtype(context.inputs[0].dtype) == float64 ? complex128 : complex64;
  std::vector<Type> types = {with_dtype(batch_of(context, {shape.back()}), dtype)};
  for (const char* side : {"left", "right"}) {
    if (context.attrs.get<bool>(side)) types.push_back(with_dtype(like_operands(context, shape), dtype));
  }
  return types;
}

// Columns of length 1 whose greatest element is real.
void normalize(Matrix<Wide>& vectors) {
  for (std::int64_t j = 0; j < vectors.columns(); ++j) {
    std::vector<Wide> column;
    for (std::int64_t i = 0; i < vectors.rows(); ++i) column.push_back(vectors(i, j));
    const auto greatest = std::max_element(column.begin(), column.end(),
                                           [](const Wide& x, const Wide& y) { return squared(x) < squared(y); });
    const Wide factor = std::conj(*greatest) / (std::abs(*greatest) * norm_of(column));
    for (std::int64_t i = 0; i < vectors.rows(); ++i) vectors(i, j) *= factor;
  }
}

Matrix<Wide> product_of(const Matrix<Wide>& a, const Matrix<Wide>& b) {
  Matrix<Wide> result(a.rows(), b.columns());
  for (std::int64_t i = 0; i < a.rows(); ++i) {
    for (std::int64_t k = 0; k < a.columns(); ++k) {
      for (std::int64_t j = 0; j < b.columns(); ++j) result(i, j) += a(i, k) * b(k, j);
    }
  }
  return result;
}

// Where two eigenvalues are equal a small number stands for their difference.
Wide separation_of(const Matrix<Wide>& t, std::int64_t i, std::int64_t k, double size) {
  const Wide difference = t(i, i) - t(k, k);
  const double least = std::max(kEpsilon * size, std::numeric_limits<double>::min());
  return std::abs(difference) < least ? Wide(least) : difference;
}

Matrix<Wide> right_vectors_of(const Schur<Wide>& schur) {
  const Matrix<Wide>& t = schur.t;
  const double size = norm_of(t.elements());
  Matrix<Wide> x = Matrix<Wide>::identity(t.rows(), t.rows());
  for (std::int64_t k = 0; k < t.rows(); ++k) {
    for (std::int64_t i = k; i-- > 0;) {
      Wide sum{};
      for (std::int64_t j = i + 1; j <= k; ++j) sum += t(i, j) * x(j, k);
      x(i, k) = -sum / separation_of(t, i, k, size);
    }
  }
  Matrix<Wide> vectors = product_of(schur.q, x);
  normalize(vectors);
  return vectors;
}

Matrix<Wide> left_vectors_of(const Schur<Wide>& schur) {
  const Matrix<Wide>& t = schur.t;
  const double size = norm_of(t.elements());
  Matrix<Wide> x = Matrix<Wide>::identity(t.rows(), t.rows());
  for (std::int64_t k = 0; k < t.rows(); ++k) {
    for (std::int64_t i = k + 1; i < t.rows(); ++i) {
      Wide sum{};
      for (std::int64_t j = k; j < i; ++j) sum += std::conj(t(j, i)) * x(j, k);
      x(i, k) = -sum / std::conj(separation_of(t, i, k, size));
    }
  }
  Matrix<Wide> vectors = product_of(schur.q, x);
  normalize(vectors);
  return vectors;
}

void eig(const KernelContext& context) {
  const bool left = context.attrs.get<bool>("left");
  const bool right = context.attrs.get<bool>("right");
  for_each_matrix(context, [&](auto tag, std::int64_t number) {
    const Matrix<decltype(tag)> a = matrix_at<decltype(tag)>(context.inputs[0], number);
    Matrix<Wide> wide(a.rows(), a.columns());
    std::copy(a.elements().begin(), a.elements().end(), wide.elements().begin());
    const Schur<Wide> schur = schur_of(wide);
    std::vector<Wide> values(static_cast<std::size_t>(a.rows()), not_a_number<Wide>());
    for (std::int64_t i = 0; schur.succeeds && i < a.rows(); ++i) values[static_cast<std::size_t>(i)] = schur.t(i, i);
    Matrix<Wide> nothing = wide;
    std::fill(nothing.elements().begin(), nothing.elements().end(), not_a_number<Wide>());
    store(values, context.outputs[0], number);
    if (left) store(schur.succeeds ? left_vectors_of(schur) : nothing, context.outputs[1], number);
    if (right) store(schur.succeeds ? right_vectors_of(schur) : nothing, context.outputs[left ? 2 : 1], number);
  });
}

// ---- What they cost. Vectors of a triangle are found in less time than that.

double flops_of_hessenberg(double n, double) { return 10 * n * n * n / 3; }

double flops_of_householder_product(const RuleContext& context) {
  return flops_of_matrices(context, [&](double m, double n) {
    return flops_of_reflections(m, n, static_cast<double>(context.inputs[1].shape.back()));
  });
}

double flops_of_schur(double n, double) { return 25 * n * n * n; }

const std::array kGeneralLinalgOps = {
    OpDef{.name = "hessenberg",
          .doc = "a = q h q^H with h zero below its first subdiagonal: h in the place of a, with the reflections whose "
                 "product is q below it, and their factors as the second result (householder_product).",
          .infer = infer_hessenberg,
          .rule = batch_rule,
          .reference = hessenberg,
          .flops = [](const RuleContext& c) { return flops_of_matrices(c, flops_of_hessenberg); }},
    OpDef{.name = "householder_product",
          .doc = "The first columns of the product of the reflections I - t v v^H, one after the other: v has a 1 on "
                 "the diagonal and what lies below it in a column of the first operand, t is an element of the second.",
          .arity = 2,
          .infer = infer_householder_product,
          .rule = batch_rule,
          .reference = householder_product,
          .flops = flops_of_householder_product},
    OpDef{.name = "schur",
          .doc =
              "t and q with a = q t q^H, q unitary. Of complex matrices t is upper triangular; of real ones pairs of "
              "complex eigenvalues have two rows of it, with equal numbers on the diagonal.",
          .infer = infer_schur,
          .rule = batch_rule,
          .reference = schur,
          .flops = [](const RuleContext& c) { return flops_of_matrices(c, flops_of_schur); }},
    OpDef{.name = "eig",
          .doc =
              "The eigenvalues w, complex, and if `left` the u with u_j^H a = w_j u_j^H, and if `right` the v with a "
              "v_j = w_j v_j: columns of length 1 whose greatest element is real. `differentiable` says that the "
              "derivative of vectors may be taken, which is right if eigenvalues differ and no column has two "
              "greatest elements.",
          .infer = infer_eig,
          .rule = batch_rule,
          .reference = eig,
          .flops = [](const RuleContext& c) { return flops_of_matrices(c, flops_of_schur); },
          .jvp = jvp_of_eig,
          .attributes = {{.name = "left"}, {.name = "right"}, {.name = "differentiable"}}},
};

}  // namespace

std::span<const OpDef> general_linalg_ops() { return kGeneralLinalgOps; }

}  // namespace shoal
