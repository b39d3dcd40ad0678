#include "backend/cpu/decompositions/tiled_factors.h"

#include <algorithm>
#include <atomic>
#include <complex>
#include <utility>

#include "backend/cpu/decompositions/matrix_tiles.h"
#include "backend/cpu/decompositions/tile_kernels.h"
#include "backend/cpu/decompositions/workspace.h"
#include "base/thread_pool.h"

namespace shoal::cpu {
namespace {

// Rows and columns of the blocks on the diagonal.
constexpr std::int64_t kCholeskyBlock = 128;
constexpr std::int64_t kLuBlock = 64;
// Rows or columns of a task, unless matrices are so large that there are enough of more.
constexpr std::int64_t kLeastOfTask = 128;
constexpr std::int64_t kTasks = 8;
// Right sides of a task.
constexpr std::int64_t kFewSides = 256;
constexpr std::int64_t kManySides = 512;
// Of a task that copies.
constexpr std::int64_t kBytesOfCopy = 1 << 18;

std::int32_t whole_of(std::int64_t n) { return static_cast<std::int32_t>(n); }

// Rows or columns of a task for a matrix of so many.
std::int64_t size_of_task(std::int64_t n) { return std::max(kLeastOfTask, n / kTasks / 64 * 64); }

// A matrix in row-major order.
template <class T>
struct Rows {
  T* data;
  std::int64_t stride;

  T* at(std::int64_t i, std::int64_t j) const { return data + i * stride + j; }
  BlasMatrix<T> from(std::int64_t i, std::int64_t j) const { return {at(i, j), whole_of(stride)}; }
  BlasMatrix<const T> read(std::int64_t i, std::int64_t j, bool adjoint = false) const {
    return {at(i, j), whole_of(stride), adjoint};
  }
};

BlasSize size_of_product(std::int64_t rows, std::int64_t columns, std::int64_t inner) {
  return {whole_of(rows), whole_of(columns), whole_of(inner)};
}

// A block in column-major order, in memory of its own.
template <class T>
class ColumnBlock {
 public:
  ColumnBlock(std::int64_t rows, std::int64_t columns)
      : stride_(padded_stride<T>(rows)), elements_(stride_ * columns + room_to_read<T>(rows)) {}
  LapackMatrix<T> get() { return {elements_.data(), whole_of(stride_)}; }
  void load(const Rows<T>& from, std::int64_t i, std::int64_t j, std::int64_t rows, std::int64_t columns) {
    MatrixTiles<T>::copy_transposed(from.at(i, j), from.stride, elements_.data(), stride_, rows, columns);
  }
  void store(const Rows<T>& to, std::int64_t i, std::int64_t j, std::int64_t rows, std::int64_t columns) {
    MatrixTiles<T>::copy_transposed(elements_.data(), stride_, to.at(i, j), to.stride, columns, rows);
  }

 private:
  std::int64_t stride_;
  Workspace<T> elements_;
};

template <class T>
void exchange_rows(const Rows<T>& a, const std::int32_t* pivots, std::int64_t first, std::int64_t end,
                   std::int64_t from, std::int64_t to) {
  for (std::int64_t i = first; i < end; ++i) {
    if (pivots[i] != i) std::swap_ranges(a.at(i, from), a.at(i, to), a.at(pivots[i], from));
  }
}

}  // namespace

template <class T>
bool TiledFactors<T>::copy_finite(const T* from, T* to, std::int64_t rows, std::int64_t columns, bool is_lower) {
  std::atomic<bool> is_finite{true};
  in_ranges(0, rows, std::max<std::int64_t>(1, kBytesOfCopy / static_cast<std::int64_t>(sizeof(T)) / columns),
            [&](std::int64_t begin, std::int64_t end) {
              if (!MatrixTiles<T>::copy_finite(from, to, begin, end, columns, is_lower)) {
                is_finite.store(false, std::memory_order_relaxed);
              }
            });
  return is_finite.load(std::memory_order_relaxed);
}

template <class T>
std::int32_t TiledFactors<T>::cholesky(std::int64_t n, T* data) const {
  const Rows<T> a{data, n};
  const TileKernels<T> tiles(&lapack_);
  const std::int64_t task = size_of_task(n);
  for (std::int64_t k = 0; k < n; k += kCholeskyBlock) {
    const std::int64_t size = std::min(kCholeskyBlock, n - k);
    const std::int64_t rest = k + size;
    if (const std::int32_t info = tiles.potrf(whole_of(size), a.from(k, k)); info != 0) return whole_of(k) + info;
    // The rows below, and then what they take from the triangle that is left. Long tasks begin first.
    in_ranges(rest, n, task, [&](std::int64_t begin, std::int64_t end) {
      tiles.solve_right(whole_of(end - begin), whole_of(size), a.read(k, k), a.from(begin, k));
    });
    const std::int64_t tasks = (n - rest + task - 1) / task;
    ThreadPool::shared().parallel_for(tasks, [&](std::int64_t i) {
      const std::int64_t begin = rest + (tasks - 1 - i) * task;
      const std::int64_t end = std::min(n, begin + task);
      if (begin > rest) {
        lapack_.subtract_product(size_of_product(end - begin, begin - rest, size), a.read(begin, k),
                                 a.read(rest, k, true), a.from(begin, rest));
      }
      lapack_.subtract_square(whole_of(end - begin), whole_of(size), a.read(begin, k), a.from(begin, begin));
    });
  }
  return 0;
}

template <class T>
void TiledFactors<T>::lu(std::int64_t m, std::int64_t n, T* data, std::int32_t* pivots) const {
  const Rows<T> a{data, n};
  const std::int64_t least = std::min(m, n);
  ColumnBlock<T> panel(m, std::min(least, kLuBlock));
  const std::int64_t task = size_of_task(n);
  for (std::int64_t k = 0; k < least; k += kLuBlock) {
    const std::int64_t size = std::min(kLuBlock, least - k);
    const std::int64_t rest = k + size;
    panel.load(a, k, k, m - k, size);
    lapack_.getrf(whole_of(m - k), whole_of(size), panel.get(), pivots + k);  // Singular matrices have factors, too.
    panel.store(a, k, k, m - k, size);
    for (std::int64_t i = k; i < rest; ++i) pivots[i] += whole_of(k) - 1;
    // The columns on the right and, of which rows are exchanged alone, those on the left.
    const std::int64_t right = (n - rest + task - 1) / task;
    const std::int64_t left = (k + task - 1) / task;
    ThreadPool::shared().parallel_for(right + left, [&](std::int64_t i) {
      if (i >= right) {
        const std::int64_t begin = (i - right) * task;
        return exchange_rows(a, pivots, k, rest, begin, std::min(k, begin + task));
      }
      const std::int64_t begin = rest + i * task;
      const std::int64_t end = std::min(n, begin + task);
      exchange_rows(a, pivots, k, rest, begin, end);
      lapack_.trsm(whole_of(size), whole_of(end - begin),
                   {.data = a.at(k, k), .stride = whole_of(n), .lower = true, .unit_diagonal = true}, a.from(k, begin));
      if (rest < m) {
        lapack_.subtract_product(size_of_product(m - rest, end - begin, size), a.read(rest, k), a.read(k, begin),
                                 a.from(rest, begin));
      }
    });
  }
}

template <class T>
void TiledFactors<T>::solve(std::int64_t n, std::int64_t columns, const BlasTriangle<T>& triangle, const T* b,
                            T* x) const {
  if (columns == 1) {
    std::copy_n(b, n, x);
    return lapack_.trsv(whole_of(n), triangle, x);
  }
  // Each task packs the triangle.
  const std::int64_t task = columns <= 2 * kFewSides ? kFewSides : kManySides;
  in_ranges(0, columns, task, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = 0; i < n; ++i) {
      std::copy(b + i * columns + begin, b + i * columns + end, x + i * columns + begin);
    }
    lapack_.trsm(whole_of(n), whole_of(end - begin), triangle, {x + begin, whole_of(columns)});
  });
}

template class TiledFactors<float>;
template class TiledFactors<double>;
template class TiledFactors<std::complex<float>>;
template class TiledFactors<std::complex<double>>;

}  // namespace shoal::cpu
