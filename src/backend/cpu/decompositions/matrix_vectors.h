// Products of tiles and vectors, in vectors of the processor. What a tile gives to the vectors of its rows and of its
// columns is computed while it is read once, as reading takes longer than all else.
#pragma once

#include <complex>
#include <cstdint>

namespace shoal::cpu {

/// Tiles are in row-major order. The order of sums depends on extents alone.
template <class T>
struct MatrixVectors {
  /// y += a x.
  static void multiply(const T* a, std::int64_t stride, std::int64_t rows, std::int64_t columns, const T* x, T* y);
  /// y += a^H x.
  static void multiply_adjoint(const T* a, std::int64_t stride, std::int64_t rows, std::int64_t columns, const T* x,
                               T* y);
  /// Both: by_rows += a of_columns, by_columns += a^H of_rows.
  static void multiply_both(const T* a, std::int64_t stride, std::int64_t rows, std::int64_t columns,
                            const T* of_columns, const T* of_rows, T* by_rows, T* by_columns);
  /// y += a x for a Hermitian a, given by its lower triangle.
  static void multiply_hermitian(const T* a, std::int64_t stride, std::int64_t n, const T* x, T* y);
};

extern template struct MatrixVectors<float>;
extern template struct MatrixVectors<double>;
extern template struct MatrixVectors<std::complex<float>>;
extern template struct MatrixVectors<std::complex<double>>;

}  // namespace shoal::cpu
