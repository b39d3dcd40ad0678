// What the plugin `blas` offers: what is used of OpenBLAS, and the LAPACK that is in it, one thread per call. Shared
// with the plugin.
#pragma once

#include <complex>
#include <cstdint>

#include "backend/cpu/products/blas_matrix.h"
#include "backend/cpu/products/lapack.h"

namespace shoal::cpu {

template <class T>
struct BlasVector {
  T* data;
  std::int32_t stride;
};

/// The functions may be called from any number of threads at once, and start none.
struct BlasApi {
  static constexpr std::uint64_t kVersion = 4;

  /// out += matrix · vector; size.columns is 1.
  template <class T>
  using Gemv = void (*)(BlasSize, BlasMatrix<const T> matrix, BlasVector<const T> vector, BlasVector<T> out);
  Gemv<float> sgemv;
  Gemv<double> dgemv;

  LapackFunctions<float> slapack;
  LapackFunctions<double> dlapack;
  LapackFunctions<std::complex<float>> clapack;
  LapackFunctions<std::complex<double>> zlapack;
};

}  // namespace shoal::cpu
