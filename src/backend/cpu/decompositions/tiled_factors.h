// Triangular factors of large matrices in row-major order, by tiles that all threads compute. Tiles depend on the shape
// alone, so that bits do not depend on the number of threads.
#pragma once

#include <algorithm>
#include <complex>
#include <cstdint>

#include "backend/cpu/products/lapack.h"
#include "base/thread_pool.h"

namespace shoal::cpu {

template <class T>
class TiledFactors {
 public:
  explicit TiledFactors(const LapackFunctions<T>& lapack) : lapack_(lapack) {}

  /// MatrixTiles::copy_finite() of all rows.
  static bool copy_finite(const T* from, T* to, std::int64_t rows, std::int64_t columns, bool is_lower);

  /// The lower triangle of a dense matrix of n rows becomes its factor; what lies above the diagonal, too, is
  /// overwritten in places. Returns 0, or how many rows the smallest leading block has that is not positive definite:
  /// the rows before its last have become those of the factor as far as the diagonal tells.
  std::int32_t cholesky(std::int64_t n, T* a) const;
  /// The factors in place of a dense matrix. Row i was exchanged with row pivots[i].
  void lu(std::int64_t m, std::int64_t n, T* a, std::int32_t* pivots) const;
  /// x := a^-1 b for a triangle of n rows; both are dense with this number of columns.
  void solve(std::int64_t n, std::int64_t columns, const BlasTriangle<T>& triangle, const T* b, T* x) const;

 private:
  const LapackFunctions<T>& lapack_;
};

extern template class TiledFactors<float>;
extern template class TiledFactors<double>;
extern template class TiledFactors<std::complex<float>>;
extern template class TiledFactors<std::complex<double>>;

}  // namespace shoal::cpu
