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
void gemv(BlasSize size, BlasMatrix<const T> matrix, BlasVector<const T> vector, BlasVector<T> out) {
  // BLAS speaks of the matrix before it is transposed.
  const std::int32_t rows = matrix.transposed ? size.inner : size.rows;
  const std::int32_t columns = matrix.transposed ? size.rows : size.inner;
  kFunction(CblasRowMajor, transposition(matrix.transposed), rows, columns, T{1}, matrix.data, matrix.stride,
            vector.data, vector.stride, T{1}, out.data, out.stride);
}

}  // namespace

SHOAL_PLUGIN(blas, BlasApi) {
  static const BlasApi api{
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
