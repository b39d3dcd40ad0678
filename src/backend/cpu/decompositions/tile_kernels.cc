#include "backend/cpu/decompositions/tile_kernels.h"

#include <algorithm>
#include <cmath>

#include "backend/cpu/decompositions/matrix_tiles.h"
#include "backend/cpu/decompositions/workspace.h"
#include "backend/cpu/products/libraries.h"

namespace shoal::cpu {
namespace {

// Rows of the blocks on the diagonal that LAPACK factors.
constexpr std::int32_t kSmallBlock = 32;
// Columns of a triangle that stay in the nearest cache while rows are solved with it.
constexpr std::int32_t kSolvedAtOnce = 64;

template <class T>
BlasMatrix<T> from(BlasMatrix<T> a, std::int32_t i, std::int32_t j) {
  return {a.data + std::int64_t{i} * a.stride + j, a.stride, a.transposed};
}
template <class T>
BlasMatrix<const T> read(BlasMatrix<T> a, bool adjoint = false) {
  return {a.data, a.stride, adjoint};
}

template <class T>
T conjugate(T x) {
  return x;
}
template <class T>
std::complex<T> conjugate(std::complex<T> x) {
  return std::conj(x);
}

template <class T>
T element(BlasMatrix<const T> a, std::int32_t i, std::int32_t j) {
  return a.transposed ? conjugate(a.data[std::int64_t{j} * a.stride + i]) : a.data[std::int64_t{i} * a.stride + j];
}

template <class T>
std::int32_t plain_potrf(std::int32_t n, BlasMatrix<T> a) {
  for (std::int32_t j = 0; j < n; ++j) {
    T* const row = from(a, j, 0).data;
    auto pivot = std::real(row[j]);
    for (std::int32_t k = 0; k < j; ++k) pivot -= std::norm(row[k]);
    if (!(pivot > 0)) return j + 1;
    const auto root = std::sqrt(pivot);
    row[j] = root;
    for (std::int32_t i = j + 1; i < n; ++i) {
      T* const below = from(a, i, 0).data;
      for (std::int32_t k = 0; k < j; ++k) below[j] -= below[k] * conjugate(row[k]);
      below[j] /= root;
    }
  }
  return 0;
}

template <class T>
void plain_trsm(std::int32_t rows, std::int32_t columns, const BlasTriangle<T>& a, BlasMatrix<T> x) {
  const BlasMatrix<const T> triangle{a.data, a.stride, a.adjoint};
  const bool is_lower = a.lower != a.adjoint;
  for (std::int32_t step = 0; step < rows; ++step) {
    const std::int32_t i = is_lower ? step : rows - 1 - step;
    T* const row = from(x, i, 0).data;
    for (std::int32_t k = is_lower ? 0 : i + 1; k < (is_lower ? i : rows); ++k) {
      const T factor = element(triangle, i, k);
      for (std::int32_t j = 0; j < columns; ++j) row[j] -= factor * from(x, k, 0).data[j];
    }
    if (a.unit_diagonal) continue;
    for (std::int32_t j = 0; j < columns; ++j) row[j] /= element(triangle, i, i);
  }
}

template <class T>
void plain_trmm(std::int32_t rows, std::int32_t columns, RealOf<T> scale, const BlasTriangle<T>& a, BlasMatrix<T> x) {
  const BlasMatrix<const T> triangle{a.data, a.stride, a.adjoint};
  const bool is_lower = a.lower != a.adjoint;
  const std::int32_t n = a.right ? columns : rows;
  // Each row or column of the product takes the place of what no other one needs any more.
  for (std::int32_t step = 0; step < n; ++step) {
    const std::int32_t i = is_lower != a.right ? n - 1 - step : step;
    for (std::int32_t j = 0; j < (a.right ? rows : columns); ++j) {
      const auto at = [&](std::int32_t k) -> T& { return *(a.right ? from(x, j, k) : from(x, k, j)).data; };
      T sum{};
      for (std::int32_t k = 0; k < n; ++k) {
        if (is_lower ? (a.right ? k < i : k > i) : (a.right ? k > i : k < i)) continue;
        const T factor = k == i && a.unit_diagonal ? T{1} : a.right ? element(triangle, k, i) : element(triangle, i, k);
        sum += at(k) * factor;
      }
      at(i) = sum * scale;
    }
  }
}

// By |re| + |im|, as LAPACK chooses pivots.
template <class T>
auto measure(const T& x) {
  return std::abs(std::real(x)) + std::abs(std::imag(x));
}

template <class T>
void plain_getrf(std::int32_t rows, std::int32_t columns, BlasMatrix<T> a, std::int32_t* pivots) {
  for (std::int32_t k = 0; k < columns; ++k) {
    std::int32_t pivot = k;
    for (std::int32_t i = k + 1; i < rows; ++i) {
      if (measure(*from(a, i, k).data) > measure(*from(a, pivot, k).data)) pivot = i;
    }
    pivots[k] = pivot;
    T* const row = from(a, k, 0).data;
    if (pivot != k) std::swap_ranges(row, row + columns, from(a, pivot, 0).data);
    if (row[k] == T{}) continue;  // Nothing below is left to be eliminated.
    for (std::int32_t i = k + 1; i < rows; ++i) {
      T* const below = from(a, i, 0).data;
      below[k] /= row[k];
      for (std::int32_t j = k + 1; j < columns; ++j) below[j] -= below[k] * row[j];
    }
  }
}

// Of a matrix in column-major order, with a factor for each reflection I - factor v v^H.
template <class T>
void plain_geqrf(std::int32_t rows, std::int32_t columns, LapackMatrix<T> a, T* factors) {
  using Real = RealOf<T>;
  for (std::int32_t k = 0; k < columns; ++k) {
    T* const x = a.data + std::int64_t{k} * a.stride;
    Real greatest = 0;
    for (std::int32_t i = k + 1; i < rows; ++i) greatest = std::max(greatest, measure(x[i]));
    factors[k] = T{};
    if (greatest == 0 && x[k] == T{std::real(x[k])}) continue;
    // Squares of what is divided by the greatest are neither too great nor too small.
    const Real scale = std::max(greatest, measure(x[k]));
    Real sum = 0;
    for (std::int32_t i = k; i < rows; ++i) sum += std::norm(x[i] / scale);
    const Real length = std::real(x[k]) >= 0 ? -std::sqrt(sum) : std::sqrt(sum);
    const T first = x[k] / scale;
    factors[k] = (length - first) / length;
    for (std::int32_t i = k + 1; i < rows; ++i) x[i] = x[i] / scale / (first - length);
    x[k] = length * scale;
    // The adjoint of the reflection takes the other columns to those of r.
    for (std::int32_t j = k + 1; j < columns; ++j) {
      T* const y = a.data + std::int64_t{j} * a.stride;
      T product = y[k];
      for (std::int32_t i = k + 1; i < rows; ++i) product += conjugate(x[i]) * y[i];
      product *= conjugate(factors[k]);
      y[k] -= product;
      for (std::int32_t i = k + 1; i < rows; ++i) y[i] -= x[i] * product;
    }
  }
}

}  // namespace

template <class T>
const TileKernels<T>& TileKernels<T>::shared() {
  static const TileKernels kernels(blas() == nullptr ? nullptr : &lapack_of<T>(*blas()));
  return kernels;
}

// LAPACK is faster with columns, and OpenBLAS has no vectors for what solves rows.
template <class T>
std::int32_t TileKernels<T>::potrf(std::int32_t n, BlasMatrix<T> a) const {
  if (lapack_ == nullptr) return plain_potrf(n, a);
  const std::int32_t small = std::min(n, kSmallBlock);
  const std::int64_t stride = padded_stride<T>(small);
  Workspace<T> columns(stride * small + room_to_read<T>(small));
  for (std::int32_t k = 0; k < n; k += small) {
    const std::int32_t size = std::min(small, n - k);
    const std::int32_t rest = k + size;
    const BlasMatrix<T> block = from(a, k, k);
    MatrixTiles<T>::copy_transposed(block.data, block.stride, columns.data(), stride, size, size);
    const std::int32_t info = lapack_->potrf('L', size, {columns.data(), static_cast<std::int32_t>(stride)});
    MatrixTiles<T>::copy_transposed(columns.data(), stride, block.data, block.stride, size, size);
    if (info != 0) return k + info;
    if (rest == n) break;
    MatrixTiles<T>::solve_rows(block.data, block.stride, from(a, rest, k).data, a.stride, n - rest, size);
    lapack_->subtract_square(n - rest, size, read(from(a, rest, k)), from(a, rest, rest));
  }
  return 0;
}

template <class T>
void TileKernels<T>::getrf(std::int32_t rows, std::int32_t columns, BlasMatrix<T> a, std::int32_t* pivots) const {
  if (lapack_ == nullptr) return plain_getrf(rows, columns, a, pivots);
  const std::int64_t stride = padded_stride<T>(rows);
  const Workspace<T> panel(stride * columns + room_to_read<T>(rows));
  MatrixTiles<T>::copy_transposed(a.data, a.stride, panel.data(), stride, rows, columns);
  lapack_->getrf(rows, columns, {panel.data(), static_cast<std::int32_t>(stride)}, pivots);  // Singular ones, too.
  MatrixTiles<T>::copy_transposed(panel.data(), stride, a.data, a.stride, columns, rows);
  for (std::int32_t i = 0; i < columns; ++i) --pivots[i];
}

template <class T>
void TileKernels<T>::geqrf(std::int32_t rows, std::int32_t columns, BlasMatrix<T> a, BlasMatrix<T> t) const {
  const std::int64_t stride = padded_stride<T>(rows);
  const Workspace<T> panel(stride * columns + room_to_read<T>(rows));
  const Workspace<T> factors(columns);
  MatrixTiles<T>::copy_transposed(a.data, a.stride, panel.data(), stride, rows, columns);
  const LapackMatrix<T> matrix{panel.data(), static_cast<std::int32_t>(stride)};
  if (lapack_ == nullptr) {
    plain_geqrf(rows, columns, matrix, factors.data());
  } else {
    const LapackSizes sizes = lapack_->geqrf_sizes(rows, columns);
    const Workspace<T> work(sizes.elements);
    lapack_->geqrf(rows, columns, matrix, factors.data(),
                   {.elements = work.data(), .reals = nullptr, .integers = nullptr, .sizes = sizes});
  }
  MatrixTiles<T>::copy_transposed(panel.data(), stride, a.data, a.stride, columns, rows);
  // What products of columns v with each other are is needed for t (Schreiber and Van Loan, 1989), with another sign.
  for (std::int32_t j = 0; j < columns; ++j) {
    T* const column = panel.data() + j * stride;
    std::fill_n(column, j, T{});
    column[j] = T{1};
  }
  const Workspace<T> products(std::int64_t{columns} * columns);
  std::fill_n(products.data(), std::int64_t{columns} * columns, T{});
  subtract_square(columns, rows, {panel.data(), static_cast<std::int32_t>(stride)}, {products.data(), columns});
  for (std::int32_t i = 0; i < columns; ++i) {
    const T* const product = products.data() + std::int64_t{i} * columns;
    std::fill_n(from(t, i, 0).data, i, T{});
    *from(t, i, i).data = factors.data()[i];
    for (std::int32_t r = 0; r < i; ++r) {
      const T* const row = from(t, r, 0).data;
      T sum{};
      for (std::int32_t q = r; q < i; ++q) sum += row[q] * product[q];
      *from(t, r, i).data = sum * factors.data()[i];
    }
  }
}

template <class T>
void TileKernels<T>::solve_right(std::int32_t rows, std::int32_t columns, BlasMatrix<const T> l,
                                 BlasMatrix<T> x) const {
  for (std::int32_t c = 0; c < columns; c += kSolvedAtOnce) {
    const std::int32_t some = std::min(kSolvedAtOnce, columns - c);
    if (c > 0) {
      const BlasMatrix<const T> left = from(l, c, 0);
      subtract_product({rows, some, c}, read(x), {left.data, left.stride, true}, from(x, 0, c));
    }
    MatrixTiles<T>::solve_rows(from(l, c, c).data, l.stride, from(x, 0, c).data, x.stride, rows, some);
  }
}

template <class T>
void TileKernels<T>::trsm(std::int32_t rows, std::int32_t columns, const BlasTriangle<T>& a, BlasMatrix<T> x) const {
  if (lapack_ == nullptr) return plain_trsm(rows, columns, a, x);
  if (columns == 1 && x.stride == 1) return lapack_->trsv(rows, a, x.data);
  lapack_->trsm(rows, columns, a, x);
}

template <class T>
void TileKernels<T>::trmm(std::int32_t rows, std::int32_t columns, RealOf<T> scale, const BlasTriangle<T>& a,
                          BlasMatrix<T> x) const {
  if (lapack_ == nullptr) return plain_trmm(rows, columns, scale, a, x);
  lapack_->trmm(rows, columns, scale, a, x);
}

template <class T>
void TileKernels<T>::subtract_product(BlasSize size, BlasMatrix<const T> lhs, BlasMatrix<const T> rhs,
                                      BlasMatrix<T> out) const {
  if (lapack_ != nullptr) return lapack_->subtract_product(size, lhs, rhs, out);
  for (std::int32_t i = 0; i < size.rows; ++i) {
    T* const row = from(out, i, 0).data;
    for (std::int32_t k = 0; k < size.inner; ++k) {
      const T factor = element(lhs, i, k);
      for (std::int32_t j = 0; j < size.columns; ++j) row[j] -= factor * element(rhs, k, j);
    }
  }
}

template <class T>
void TileKernels<T>::subtract_square(std::int32_t n, std::int32_t k, BlasMatrix<const T> a, BlasMatrix<T> out) const {
  if (lapack_ != nullptr) return lapack_->subtract_square(n, k, a, out);
  for (std::int32_t i = 0; i < n; ++i) {
    const BlasMatrix<const T> row = a.transposed ? from(a, 0, i) : from(a, i, 0);
    subtract_product({1, i + 1, k}, row, {a.data, a.stride, !a.transposed}, from(out, i, 0));
  }
}

template class TileKernels<float>;
template class TileKernels<double>;
template class TileKernels<std::complex<float>>;
template class TileKernels<std::complex<double>>;

}  // namespace shoal::cpu
