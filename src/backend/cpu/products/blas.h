// What the plugin `blas` offers: OpenBLAS, one thread per call. Shared with the plugin.
//
// The solvers' LAPACK functions (potrf, syevd) are in the same archive: a member here and a line in the plugin's table
// add one.
#pragma once

#include <complex>
#include <cstdint>

namespace shoal::cpu {

/// A matrix in row-major order.
template <class T>
struct BlasMatrix {
  T* data;
  std::int32_t stride;      ///< Elements from a row to the next.
  bool transposed = false;  ///< Whether the product takes its transpose.
};

struct BlasSize {
  std::int32_t rows;
  std::int32_t columns;
  std::int32_t inner;
};

template <class T>
struct BlasVector {
  T* data;
  std::int32_t stride;
};

/// The functions may be called from any number of threads at once, and start none.
struct BlasApi {
  static constexpr std::uint64_t kVersion = 1;

  /// out = lhs · rhs. out is not transposed.
  template <class T>
  using Gemm = void (*)(BlasSize, BlasMatrix<const T> lhs, BlasMatrix<const T> rhs, BlasMatrix<T> out);
  Gemm<float> sgemm;
  Gemm<double> dgemm;
  Gemm<std::complex<float>> cgemm;
  Gemm<std::complex<double>> zgemm;

  /// out += matrix · vector; size.columns is 1.
  template <class T>
  using Gemv = void (*)(BlasSize, BlasMatrix<const T> matrix, BlasVector<const T> vector, BlasVector<T> out);
  Gemv<float> sgemv;
  Gemv<double> dgemv;
};

}  // namespace shoal::cpu
