// One matrix of a batch in f64, for the references of the ops on matrices, and the types and rules that these have in
// common.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <optional>
#include <vector>

#include "core/dispatch.h"
#include "ops/reduction.h"
#include "ops/rules.h"

namespace shoal::dense {

inline constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
// ---- One matrix. W is double or std::complex<double>.

template <class W>
class Matrix {
 public:
  Matrix(std::int64_t rows, std::int64_t columns)
      : rows_(rows), columns_(columns), elements_(static_cast<std::size_t>(rows * columns)) {}
  static Matrix identity(std::int64_t rows, std::int64_t columns) {
    Matrix result(rows, columns);
    for (std::int64_t i = 0; i < std::min(rows, columns); ++i) result(i, i) = 1;
    return result;
  }

  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  W& operator()(std::int64_t i, std::int64_t j) { return elements_[static_cast<std::size_t>(i * columns_ + j)]; }
  const W& operator()(std::int64_t i, std::int64_t j) const {
    return elements_[static_cast<std::size_t>(i * columns_ + j)];
  }
  std::vector<W>& elements() { return elements_; }
  const std::vector<W>& elements() const { return elements_; }

  void swap_rows(std::int64_t i, std::int64_t k) {
    for (std::int64_t j = 0; j < columns_; ++j) std::swap((*this)(i, j), (*this)(k, j));
  }
  // The columns of these numbers.
  Matrix columns_at(const std::vector<std::int64_t>& numbers) const {
    Matrix result(rows_, static_cast<std::int64_t>(numbers.size()));
    for (std::int64_t i = 0; i < rows_; ++i) {
      for (std::int64_t j = 0; j < result.columns_; ++j)
        result(i, j) = (*this)(i, numbers[static_cast<std::size_t>(j)]);
    }
    return result;
  }

 private:
  std::int64_t rows_;
  std::int64_t columns_;
  std::vector<W> elements_;
};

inline double conj(double x) { return x; }
inline std::complex<double> conj(std::complex<double> x) { return std::conj(x); }
inline double real(double x) { return x; }
inline double real(std::complex<double> x) { return x.real(); }
inline double imag(double) { return 0; }
inline double imag(std::complex<double> x) { return x.imag(); }
inline double scaled(double x, int exponent) { return std::ldexp(x, exponent); }
inline std::complex<double> scaled(std::complex<double> x, int exponent) {
  return {std::ldexp(x.real(), exponent), std::ldexp(x.imag(), exponent)};
}
inline double squared(double x) { return x * x; }
inline double squared(std::complex<double> x) { return x.real() * x.real() + x.imag() * x.imag(); }

template <class W>
W not_a_number() {
  if constexpr (kIsComplexElement<W>) {
    return {kNaN, kNaN};
  } else {
    return kNaN;
  }
}

template <class W>
Matrix<W> adjoint(const Matrix<W>& a) {
  Matrix<W> result(a.columns(), a.rows());
  for (std::int64_t i = 0; i < a.rows(); ++i) {
    for (std::int64_t j = 0; j < a.columns(); ++j) result(j, i) = conj(a(i, j));
  }
  return result;
}

template <class W>
bool is_finite_element(const W& x) {
  return std::isfinite(real(x)) && std::isfinite(imag(x));
}

template <class W>
bool all_finite(const std::vector<W>& numbers) {
  return std::all_of(numbers.begin(), numbers.end(), is_finite_element<W>);
}

// The exponent of the greatest part of a number among these; 0 if all are 0. Nothing if one is infinite or NaN.
template <class W>
std::optional<int> exponent_of(const std::vector<W>& numbers) {
  double greatest = 0;
  for (const W& x : numbers) {
    if (!is_finite_element(x)) return {};
    greatest = std::max({greatest, std::abs(real(x)), std::abs(imag(x))});
  }
  return greatest == 0 ? 0 : std::ilogb(greatest);
}

// The root of the sum of squares, which neither overflows nor vanishes on the way.
template <class W>
double norm_of(const std::vector<W>& x) {
  const std::optional<int> exponent = exponent_of(x);
  if (!exponent) return kNaN;
  double sum = 0;
  for (const W& element : x) sum += squared(scaled(element, -*exponent));
  return std::ldexp(std::sqrt(sum), *exponent);
}

// ---- From arrays to matrices and back.

template <class W>
void load(const TensorView& view, std::int64_t first, std::vector<W>& numbers) {
  with_element_type(view.dtype, [&](auto tag) {
    using T = decltype(tag);
    if constexpr (std::is_same_v<Accumulator<T>, W>) {
      const T* data = view.as<T>() + first;
      for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<W>(data[i]);
    }
  });
}

template <class W>
Matrix<W> matrix_at(const TensorView& view, std::int64_t number) {
  const std::size_t rank = view.shape.size();
  Matrix<W> matrix(view.shape[rank - 2], view.shape[rank - 1]);
  load(view, number * matrix.rows() * matrix.columns(), matrix.elements());
  return matrix;
}

template <class W>
void store(const std::vector<W>& numbers, const TensorView& view, std::int64_t number) {
  with_element_type(view.dtype, [&](auto tag) {
    using T = decltype(tag);
    if constexpr (std::is_same_v<Accumulator<T>, W> || (std::is_same_v<W, std::int64_t> && std::is_integral_v<T>)) {
      T* data = view.as<T>() + number * static_cast<std::int64_t>(numbers.size());
      for (std::size_t i = 0; i < numbers.size(); ++i) data[i] = from_accumulator<T>(numbers[i]);
    }
  });
}

template <class W>
void store(const Matrix<W>& matrix, const TensorView& view, std::int64_t number) {
  store(matrix.elements(), view, number);
}

// Calls f(W{}, number) for the matrix of each number in the batches of the first operand.
template <class F>
void for_each_matrix(const KernelContext& context, F&& f) {
  const Shape& shape = context.inputs[0].shape;
  const std::int64_t count = num_elements(Shape(shape.begin(), shape.end() - 2));
  for (std::int64_t number = 0; number < count; ++number) {
    if (is_complex(context.inputs[0].dtype)) {
      f(std::complex<double>{}, number);
    } else {
      f(double{}, number);
    }
  }
}

// ---- Types, rules and costs.

// What `of_one` says of a matrix of so many rows and columns, for all matrices of the first operand, in operations on
// real numbers. The formulas are those of Golub and Van Loan, for the algorithms that LAPACK has.
template <class F>
double flops_of_matrices(const RuleContext& context, F&& of_one) {
  const Type& a = context.inputs[0];
  double count = is_complex(a.dtype) ? 4 : 1;
  for (std::size_t d = 0; d + 2 < a.rank(); ++d) count *= static_cast<double>(a.shape[d]);
  return count * of_one(static_cast<double>(a.shape[a.rank() - 2]), static_cast<double>(a.shape[a.rank() - 1]));
}

// The first `columns` columns of a product of so many reflections of columns of m elements.
inline double flops_of_reflections(double m, double columns, double count) {
  return 4 * m * columns * count - 2 * (m + columns) * count * count + 4 * count * count * count / 3;
}

inline void check_matrices(const InferContext& context, const Type& type) {
  if (real_dtype(type.dtype) != float32 && real_dtype(type.dtype) != float64) {
    infer_error(context, fmt::format("takes f32, f64, c64 and c128, not {}", to_string(type)));
  }
  if (type.rank() < 2) {
    infer_error(context, fmt::format("operand {} must have at least 2 dimensions, those of a matrix", to_string(type)));
  }
}

inline void check_square(const InferContext& context, const Type& type) {
  check_matrices(context, type);
  if (type.shape[type.rank() - 1] == type.shape[type.rank() - 2]) return;
  infer_error(context, fmt::format("operand {} must have square matrices in its last two dimensions", to_string(type)));
}

// The type of one result: the operand's batches, then these extents.
inline Type batch_of(const InferContext& context, std::initializer_list<std::int64_t> extents) {
  const Shape& in = context.inputs[0].shape;
  Shape shape(in.begin(), in.end() - 2);
  shape.insert(shape.end(), extents.begin(), extents.end());
  return like_operands(context, std::move(shape));
}

inline Type with_dtype(Type type, Dtype dtype) {
  type.dtype = dtype;
  if (is_integer(dtype)) type.weak = false;
  return type;
}

// Batches pass, matrices are whole.
inline TensorFactors batch_factors(ShardingRule& rule, const TensorFactors& batches, const Type& type) {
  TensorFactors dims = batches;
  for (std::size_t d = batches.size(); d < type.rank(); ++d) {
    dims.push_back({rule.add_factor(type.shape[d], FactorKind::kNeedReplication)});
  }
  return dims;
}

inline TensorFactors batches_of(ShardingRule& rule, const RuleContext& context) {
  const Shape& shape = context.inputs[0].shape;
  return own_factors(rule, Shape(shape.begin(), shape.end() - 2));
}

inline ShardingRule batch_rule(const RuleContext& context) {
  ShardingRule rule;
  const TensorFactors batches = batches_of(rule, context);
  for (const Type& type : context.inputs) rule.operands.push_back(batch_factors(rule, batches, type));
  for (const Type& type : context.outputs) rule.results.push_back(batch_factors(rule, batches, type));
  return rule;
}

// ---- Householder's reflections.

// I - tau v v^H.
template <class W>
struct Reflection {
  std::vector<W> v;  // v[0] is 1.
  W tau;
};

// The reflection whose adjoint takes x to a multiple of the first unit vector.
template <class W>
Reflection<W> reflection_of(std::vector<W> x) {
  const W alpha = x[0];
  const double size = norm_of(x);
  x[0] = 0;
  if (imag(alpha) == 0 && norm_of(x) == 0) {  // It is one already.
    x[0] = 1;
    return {std::move(x), W{}};
  }
  const double beta = real(alpha) > 0 || (real(alpha) == 0 && !std::signbit(real(alpha))) ? -size : size;
  for (W& element : x) element /= alpha - beta;
  x[0] = 1;
  return {std::move(x), (beta - alpha) / beta};
}

// a := (I - tau v v^H) a, of the rows from `row` and the columns from `column` on.
template <class W>
void reflect(Matrix<W>& a, std::int64_t row, std::int64_t column, const std::vector<W>& v, W tau) {
  for (std::int64_t j = column; j < a.columns(); ++j) {
    W sum{};
    for (std::size_t i = 0; i < v.size(); ++i) sum += conj(v[i]) * a(row + static_cast<std::int64_t>(i), j);
    for (std::size_t i = 0; i < v.size(); ++i) a(row + static_cast<std::int64_t>(i), j) -= tau * v[i] * sum;
  }
}

}  // namespace shoal::dense
