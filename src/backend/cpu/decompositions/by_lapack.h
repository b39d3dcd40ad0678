// Decompositions of one matrix by LAPACK: what the references of the ops mean, for float, double and complex numbers of
// both. Matrices are dense and in row-major order, and none has an extent of 0. One that is not finite gives NaN
// without a call, but for triangular_solve, whose right sides have nothing to do with each other.
#pragma once

#include <complex>
#include <cstdint>

#include "backend/cpu/decompositions/matrix_elements.h"
#include "backend/cpu/decompositions/matrix_problem.h"
#include "backend/cpu/decompositions/tiled_factors.h"
#include "backend/cpu/products/lapack.h"

namespace shoal::cpu {

template <class T>
class ByLapack {
 public:
  explicit ByLapack(const LapackFunctions<T>& lapack) : lapack_(lapack), tiled_(lapack) {}

  /// Whether LAPACK can count the memory that it needs, which it does in 32 bits.
  static bool can_eigh(const MatrixProblem& problem);
  static bool can_svd(const MatrixProblem& problem);

  void cholesky(const MatrixProblem& problem, const T* a, T* l) const;
  void triangular_solve(const MatrixProblem& problem, const T* a, const T* b, T* x) const;
  void lu(const MatrixProblem& problem, const T* a, T* lu, std::int32_t* pivots, std::int32_t* permutation) const;
  void qr(const MatrixProblem& problem, const T* a, T* q, T* r) const;
  /// Vectors that are not wanted have no place.
  void eigh(const MatrixProblem& problem, const T* a, RealOf<T>* values, T* vectors) const;
  void svd(const MatrixProblem& problem, const T* a, T* u, RealOf<T>* values, T* vh) const;
  void hessenberg(const MatrixProblem& problem, const T* a, T* h, T* factors) const;
  void householder_product(const MatrixProblem& problem, const T* a, const T* factors, T* q) const;
  void schur(const MatrixProblem& problem, const T* a, T* t, T* q) const;
  /// Vectors that are not wanted have no place.
  void eig(const MatrixProblem& problem, const T* a, std::complex<RealOf<T>>* values, std::complex<RealOf<T>>* left,
           std::complex<RealOf<T>>* right) const;

 private:
  const LapackFunctions<T>& lapack_;
  TiledFactors<T> tiled_;
};

extern template class ByLapack<float>;
extern template class ByLapack<double>;
extern template class ByLapack<std::complex<float>>;
extern template class ByLapack<std::complex<double>>;

}  // namespace shoal::cpu
