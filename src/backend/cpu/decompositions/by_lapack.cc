#include "backend/cpu/decompositions/by_lapack.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "backend/cpu/decompositions/matrix_tiles.h"
#include "backend/cpu/decompositions/tiled_factors.h"
#include "backend/cpu/decompositions/workspace.h"

namespace shoal::cpu {
namespace {

// Columns of a task, of matrices by which others are multiplied.
constexpr std::int64_t kColumnsOfTask = 256;

std::int32_t int_of(std::int64_t n) { return static_cast<std::int32_t>(n); }

// The memory that a function of LAPACK has asked for, of matrices with no more than `longest` rows and columns.
template <class T>
class Memory {
 public:
  Memory(const LapackSizes& sizes, std::int64_t longest)
      : elements_(sizes.elements + room_to_read<T>(longest)),
        reals_(sizes.reals),
        integers_(sizes.integers),
        sizes_(sizes) {}
  LapackMemory<T> get() { return {elements_.data(), reals_.data(), integers_.data(), sizes_}; }

 private:
  Workspace<T> elements_;
  Workspace<RealOf<T>> reals_;
  Workspace<std::int32_t> integers_;
  LapackSizes sizes_;
};

// A matrix in column-major order, in memory of its own.
template <class T>
class ColumnMajor {
 public:
  ColumnMajor(std::int64_t rows, std::int64_t columns)
      : rows_(rows),
        columns_(columns),
        stride_(padded_stride<T>(rows)),
        elements_(stride_ * columns + room_to_read<T>(rows)) {}

  LapackMatrix<T> get() { return {elements_.data(), int_of(stride_)}; }
  T* data() { return elements_.data(); }
  std::int64_t stride() const { return stride_; }

  // From a dense matrix in row-major order.
  void load(const T* from) {
    MatrixTiles<T>::copy_transposed(from, columns_, elements_.data(), stride_, rows_, columns_);
  }
  // To one, as many rows and columns as it has.
  void store(T* to, std::int64_t rows, std::int64_t columns) {
    MatrixTiles<T>::copy_transposed(elements_.data(), stride_, to, columns, columns, rows);
  }

 private:
  std::int64_t rows_;
  std::int64_t columns_;
  std::int64_t stride_;
  Workspace<T> elements_;
};

// Where a dense matrix is computed in place: where it belongs, or in memory of its own if that is not aligned.
template <class T>
class AlignedPlace {
 public:
  AlignedPlace(T* home, std::int64_t count) : home_(home), count_(count), own_(is_aligned(home) ? 0 : count) {}
  T* data() { return is_aligned(home_) ? home_ : own_.data(); }
  void bring_home() {
    if (!is_aligned(home_)) std::copy_n(own_.data(), count_, home_);
  }

 private:
  T* home_;
  std::int64_t count_;
  Workspace<T> own_;
};

// A matrix that is only read.
template <class T>
class AlignedOperand {
 public:
  AlignedOperand(const T* home, std::int64_t count) : home_(home), own_(is_aligned(home) ? 0 : count) {
    if (!is_aligned(home)) std::copy_n(home, count, own_.data());
  }
  const T* data() { return is_aligned(home_) ? home_ : own_.data(); }

 private:
  const T* home_;
  Workspace<T> own_;
};

// Scales a matrix by a power of two if squares of its elements, or of the greatest, would overflow or vanish, and
// returns the reciprocal.
template <class T>
RealOf<T> scaled_to_range(RealOf<T> greatest, std::int64_t n, ColumnMajor<T>& matrix) {
  using Real = RealOf<T>;
  const int exponent = greatest == 0 ? 0 : std::ilogb(greatest);
  if (std::abs(exponent) < std::numeric_limits<Real>::max_exponent / 4) return 1;
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = j; i < n; ++i) {
      T& element = matrix.data()[j * matrix.stride() + i];
      if constexpr (kIsComplexElement<T>) {
        element = {std::ldexp(element.real(), -exponent), std::ldexp(element.imag(), -exponent)};
      } else {
        element = std::ldexp(element, -exponent);
      }
    }
  }
  return std::ldexp(Real{1}, exponent);
}

}  // namespace

template <class T>
bool ByLapack<T>::can_eigh(const MatrixProblem& problem) {
  return 1 + 6 * problem.rows + 3 * problem.rows * problem.rows <= std::numeric_limits<std::int32_t>::max();
}

template <class T>
bool ByLapack<T>::can_svd(const MatrixProblem& problem) {
  const std::int64_t least = problem.least();
  const std::int64_t most = std::max(problem.rows, problem.columns);
  return 5 * least * least + 2 * most * least + 200 * most <= std::numeric_limits<std::int32_t>::max();
}

template <class T>
void ByLapack<T>::cholesky(const MatrixProblem& problem, const T* a, T* l) const {
  const std::int64_t n = problem.rows;
  AlignedPlace<T> place(l, n * n);
  T* const factor = place.data();
  const bool is_finite = TiledFactors<T>::copy_finite(a, factor, n, n, true);
  const std::int32_t info = is_finite ? tiled_.cholesky(n, factor) : 1;
  for (std::int64_t i = problem.leading ? info - 1 : 0; i < n && info != 0; ++i) {
    fill_nan(factor + i * n, i + 1);
    std::fill_n(factor + i * n + i + 1, n - i - 1, T{});
  }
  place.bring_home();
}

template <class T>
void ByLapack<T>::triangular_solve(const MatrixProblem& problem, const T* a, const T* b, T* x) const {
  const std::int64_t n = problem.rows;
  AlignedOperand<T> triangle(a, n * n);
  AlignedPlace<T> place(x, n * problem.sides);
  tiled_.solve(n, problem.sides,
               {.data = triangle.data(),
                .stride = int_of(n),
                .lower = problem.lower,
                .unit_diagonal = problem.unit_diagonal,
                .adjoint = problem.adjoint},
               b, place.data());
  place.bring_home();
}

template <class T>
void ByLapack<T>::lu(const MatrixProblem& problem, const T* a, T* lu, std::int32_t* pivots,
                     std::int32_t* permutation) const {
  const std::int64_t m = problem.rows;
  const std::int64_t n = problem.columns;
  std::iota(permutation, permutation + m, 0);
  AlignedPlace<T> place(lu, m * n);
  if (!TiledFactors<T>::copy_finite(a, place.data(), m, n, false)) {
    fill_nan(lu, m * n);
    std::iota(pivots, pivots + problem.least(), 0);
    return;
  }
  tiled_.lu(m, n, place.data(), pivots);
  place.bring_home();
  for (std::int64_t i = 0; i < problem.least(); ++i) {
    std::swap(permutation[i], permutation[pivots[i]]);
  }
}

template <class T>
void ByLapack<T>::qr(const MatrixProblem& problem, const T* a, T* q, T* r) const {
  const std::int64_t m = problem.rows;
  const std::int64_t n = problem.columns;
  const std::int64_t k = problem.least();
  const std::int64_t left = problem.left();
  const auto clear_below_diagonal = [&] {
    for (std::int64_t i = 1; i < left; ++i) std::fill_n(r + i * n, std::min(i, n), T{});
  };
  if (!all_finite(a, m * n)) {
    fill_nan(q, m * left);
    fill_nan(r, left * n);
    return clear_below_diagonal();
  }
  // The columns of the one hold reflections first, and then the factor q.
  ColumnMajor<T> factors(m, std::max(n, left));
  MatrixTiles<T>::copy_transposed(a, n, factors.data(), factors.stride(), m, n);
  Workspace<T> scales(k);
  Memory<T> memory(lapack_.geqrf_sizes(int_of(m), int_of(n)), std::max(m, n));
  lapack_.geqrf(int_of(m), int_of(n), factors.get(), scales.data(), memory.get());
  factors.store(r, left, n);
  clear_below_diagonal();
  Memory<T> more(lapack_.ungqr_sizes(int_of(m), int_of(left), int_of(k)), std::max(m, n));
  lapack_.ungqr(int_of(m), int_of(left), int_of(k), factors.get(), scales.data(), more.get());
  factors.store(q, m, left);
}

template <class T>
void ByLapack<T>::eigh(const MatrixProblem& problem, const T* a, RealOf<T>* values, T* vectors) const {
  using Real = RealOf<T>;
  const std::int64_t n = problem.rows;
  const std::int32_t size = int_of(n);
  ColumnMajor<T> matrix(n, n);
  ColumnMajor<T> rotated(vectors == nullptr ? 1 : n, vectors == nullptr ? 1 : n);
  Workspace<T> factors(n);
  const FiniteCheck<T> check = check_of_lower(a, n);
  bool succeeds = check.all_finite();
  if (succeeds) {
    matrix.load(a);
    const Real scale = scaled_to_range(check.greatest(), n, matrix);
    Workspace<Real> beside(n);
    {
      Memory<T> memory(lapack_.hetrd_sizes(size), n);
      lapack_.hetrd(size, matrix.get(), values, beside.data(), factors.data(), memory.get());
    }
    if (vectors == nullptr) {
      succeeds = lapack_.sterf(size, values, beside.data()) == 0;
    } else {
      Memory<T> memory(lapack_.stedc_sizes(size), n);
      succeeds = lapack_.stedc(size, values, beside.data(), rotated.get(), memory.get()) == 0;
    }
    for (std::int64_t i = 0; i < n; ++i) values[i] *= scale;
  }
  if (!succeeds) {
    fill_nan(values, n);
    if (vectors != nullptr) fill_nan(vectors, n * n);
  }
  if (!succeeds || vectors == nullptr) return;
  in_ranges(0, n, kColumnsOfTask, [&](std::int64_t begin, std::int64_t end) {
    const std::int32_t columns = int_of(end - begin);
    T* const first = rotated.data() + begin * rotated.stride();
    Memory<T> memory(lapack_.unmtr_sizes(columns), n);
    lapack_.unmtr(size, columns, matrix.get(), factors.data(), {first, int_of(rotated.stride())}, memory.get());
    MatrixTiles<T>::copy_transposed(first, rotated.stride(), vectors + begin, n, end - begin, n);
  });
}

template <class T>
void ByLapack<T>::svd(const MatrixProblem& problem, const T* a, T* u, RealOf<T>* values, T* vh) const {
  const std::int64_t m = problem.rows;
  const std::int64_t n = problem.columns;
  const std::int64_t left = problem.left();
  const std::int64_t right = problem.right();
  const bool has_vectors = u != nullptr;
  const SingularVectors wanted = !has_vectors   ? SingularVectors::kNone
                                 : problem.full ? SingularVectors::kFull
                                                : SingularVectors::kReduced;
  ColumnMajor<T> left_vectors(has_vectors ? m : 1, has_vectors ? left : 1);
  ColumnMajor<T> right_vectors(has_vectors ? right : 1, has_vectors ? n : 1);
  bool succeeds = all_finite(a, m * n);
  if (succeeds) {
    ColumnMajor<T> matrix(m, n);
    matrix.load(a);
    Memory<T> memory(lapack_.gesdd_sizes(wanted, int_of(m), int_of(n)), std::max(m, n));
    succeeds = lapack_.gesdd(wanted, int_of(m), int_of(n), matrix.get(), values, left_vectors.get(),
                             right_vectors.get(), memory.get()) == 0;
  }
  if (!succeeds) fill_nan(values, problem.least());
  if (!has_vectors) return;
  if (succeeds) {
    left_vectors.store(u, m, left);
    right_vectors.store(vh, right, n);
    return;
  }
  fill_nan(u, m * left);
  fill_nan(vh, right * n);
}

template <class T>
void ByLapack<T>::hessenberg(const MatrixProblem& problem, const T* a, T* h, T* factors) const {
  const std::int64_t n = problem.rows;
  if (!all_finite(a, n * n)) {
    fill_nan(h, n * n);
    return fill_nan(factors, n - 1);
  }
  ColumnMajor<T> matrix(n, n);
  matrix.load(a);
  Memory<T> memory(lapack_.gehrd_sizes(int_of(n)), n);
  lapack_.gehrd(int_of(n), matrix.get(), factors, memory.get());
  matrix.store(h, n, n);
}

template <class T>
void ByLapack<T>::householder_product(const MatrixProblem& problem, const T* a, const T* factors, T* q) const {
  const std::int64_t m = problem.rows;
  const std::int64_t n = problem.columns;
  const std::int64_t k = problem.sides;
  ColumnMajor<T> matrix(m, n);
  matrix.load(a);
  Memory<T> memory(lapack_.ungqr_sizes(int_of(m), int_of(n), int_of(k)), m);
  lapack_.ungqr(int_of(m), int_of(n), int_of(k), matrix.get(), factors, memory.get());
  matrix.store(q, m, n);
}

template <class T>
void ByLapack<T>::schur(const MatrixProblem& problem, const T* a, T* t, T* q) const {
  const std::int64_t n = problem.rows;
  bool succeeds = all_finite(a, n * n);
  ColumnMajor<T> matrix(n, n);
  ColumnMajor<T> vectors(n, n);
  if (succeeds) {
    matrix.load(a);
    Memory<T> memory(lapack_.gees_sizes(int_of(n)), n);
    succeeds = lapack_.gees(int_of(n), matrix.get(), vectors.get(), memory.get()) == 0;
  }
  if (!succeeds) {
    fill_nan(t, n * n);
    return fill_nan(q, n * n);
  }
  matrix.store(t, n, n);
  vectors.store(q, n, n);
}

template <class T>
void ByLapack<T>::eig(const MatrixProblem& problem, const T* a, std::complex<RealOf<T>>* values,
                      std::complex<RealOf<T>>* left, std::complex<RealOf<T>>* right) const {
  const std::int64_t n = problem.rows;
  const auto room = [n](const auto* wanted) {
    return ColumnMajor<T>(wanted == nullptr ? 1 : n, wanted == nullptr ? 1 : n);
  };
  ColumnMajor<T> of_left = room(left);
  ColumnMajor<T> of_right = room(right);
  bool succeeds = all_finite(a, n * n);
  if (succeeds) {
    ColumnMajor<T> matrix(n, n);
    matrix.load(a);
    Memory<T> memory(lapack_.geev_sizes(left != nullptr, right != nullptr, int_of(n)), n);
    succeeds = lapack_.geev(left != nullptr, right != nullptr, int_of(n), matrix.get(), values, of_left.get(),
                            of_right.get(), memory.get()) == 0;
  }
  if (!succeeds) fill_nan(values, n);
  // Of a real matrix two columns are the parts of the vector of an eigenvalue, and the next one's is its conjugate.
  const auto bring = [&](ColumnMajor<T>& from, std::complex<RealOf<T>>* to) {
    if (to == nullptr) return;
    if (!succeeds) return fill_nan(to, n * n);
    for (std::int64_t j = 0; j < n; ++j) {
      const T* const column = from.data() + j * from.stride();
      for (std::int64_t i = 0; i < n; ++i) {
        if constexpr (kIsComplexElement<T>) {
          to[i * n + j] = column[i];
        } else if (values[j].imag() == 0) {
          to[i * n + j] = column[i];
        } else if (values[j].imag() > 0) {
          to[i * n + j] = {column[i], column[from.stride() + i]};
        } else {
          to[i * n + j] = std::conj(to[i * n + j - 1]);
        }
      }
    }
  };
  bring(of_left, left);
  bring(of_right, right);
}

template class ByLapack<float>;
template class ByLapack<double>;
template class ByLapack<std::complex<float>>;
template class ByLapack<std::complex<double>>;

}  // namespace shoal::cpu
