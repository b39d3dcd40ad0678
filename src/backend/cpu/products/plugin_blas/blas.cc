#include "backend/cpu/products/blas.h"

#include <cblas.h>

#include "backend/cpu/products/plugin_blas/lapack.h"
#include "base/plugin.h"

// OpenBLAS asks this when it is loaded, and would otherwise start a thread per core at once. The linker puts it in the
// place of OpenBLAS's own function, which reads the environment (--wrap in CMakeLists.txt).
extern "C" int __wrap_openblas_num_threads_env() { return 1; }

namespace shoal::cpu {
namespace {

CBLAS_TRANSPOSE transposition(bool transposed) { return transposed ? CblasTrans : CblasNoTrans; }

template <auto kFunction, class T>
void real_gemm(BlasSize size, BlasMatrix<const T> lhs, BlasMatrix<const T> rhs, BlasMatrix<T> out) {
  kFunction(CblasRowMajor, transposition(lhs.transposed), transposition(rhs.transposed), size.rows, size.columns,
            size.inner, T{1}, lhs.data, lhs.stride, rhs.data, rhs.stride, T{0}, out.data, out.stride);
}

template <auto kFunction, class T>
void complex_gemm(BlasSize size, BlasMatrix<const T> lhs, BlasMatrix<const T> rhs, BlasMatrix<T> out) {
  const T one{1};
  const T zero{0};
  kFunction(CblasRowMajor, transposition(lhs.transposed), transposition(rhs.transposed), size.rows, size.columns,
            size.inner, &one, lhs.data, lhs.stride, rhs.data, rhs.stride, &zero, out.data, out.stride);
}

template <auto kFunction, class T>
void gemv(BlasSize size, BlasMatrix<const T> matrix, BlasVector<const T> vector, BlasVector<T> out) {
  // BLAS speaks of the matrix before it is transposed.
  const std::int32_t rows = matrix.transposed ? size.inner : size.rows;
  const std::int32_t columns = matrix.transposed ? size.rows : size.inner;
  kFunction(CblasRowMajor, transposition(matrix.transposed), rows, columns, T{1}, matrix.data, matrix.stride,
            vector.data, vector.stride, T{1}, out.data, out.stride);
}

}  // namespace

SHOAL_PLUGIN(blas, BlasApi) {
  using C64 = std::complex<float>;
  using C128 = std::complex<double>;
  static const BlasApi api{
      .sgemm = real_gemm<cblas_sgemm, float>,
      .dgemm = real_gemm<cblas_dgemm, double>,
      .cgemm = complex_gemm<cblas_cgemm, C64>,
      .zgemm = complex_gemm<cblas_zgemm, C128>,
      .sgemv = gemv<cblas_sgemv, float>,
      .dgemv = gemv<cblas_dgemv, double>,
      .slapack = slapack(),
      .dlapack = dlapack(),
      .clapack = clapack(),
      .zlapack = zlapack(),
  };
  openblas_set_num_threads(1);
  return &api;
}

}  // namespace shoal::cpu
