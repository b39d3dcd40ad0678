// What large matrices are factored and solved by: operations on tiles, each by the thread that calls it. By LAPACK
// where it can be loaded, and else by plain loops.
#pragma once

#include <complex>
#include <cstdint>

#include "backend/cpu/decompositions/matrix_elements.h"
#include "backend/cpu/products/lapack.h"

namespace shoal::cpu {

/// Tiles are in row-major order; of triangles the other half is not looked at.
template <class T>
class TileKernels {
 public:
  /// Those of the process.
  static const TileKernels& shared();
  /// nullptr for plain loops.
  explicit TileKernels(const LapackFunctions<T>* lapack) : lapack_(lapack) {}

  /// a = l l^H for a Hermitian a of n rows, given by its lower triangle, which becomes l. Returns 0, or how many rows
  /// the smallest leading block has that is not positive definite: then only the rows before its last have become those
  /// of l.
  std::int32_t potrf(std::int32_t n, BlasMatrix<T> a) const;
  /// x := x l^-H for a lower triangle l of `columns` rows, whose diagonal is real.
  void solve_right(std::int32_t rows, std::int32_t columns, BlasMatrix<const T> l, BlasMatrix<T> x) const;
  /// x := a^-1 x for a triangle a, as that says.
  void trsm(std::int32_t rows, std::int32_t columns, const BlasTriangle<T>& a, BlasMatrix<T> x) const;
  /// x := a x for a triangle a, or for its adjoint; or x a, if that says so; times `scale`.
  void trmm(std::int32_t rows, std::int32_t columns, RealOf<T> scale, const BlasTriangle<T>& a, BlasMatrix<T> x) const;
  /// a[p] = l u, in the place of a, where row i was exchanged with row pivots[i], for no fewer rows than columns.
  void getrf(std::int32_t rows, std::int32_t columns, BlasMatrix<T> a, std::int32_t* pivots) const;
  /// a = q r for no fewer rows than columns: r in the upper triangle of a, and below it, with ones on the diagonal that
  /// are not stored, columns v with q = I - v t v^H. `t` is upper triangular, with zeros below. The diagonal of r is
  /// real, with the signs of LAPACK.
  void geqrf(std::int32_t rows, std::int32_t columns, BlasMatrix<T> a, BlasMatrix<T> t) const;
  /// out -= lhs · rhs; where one says that it is transposed, its adjoint is meant.
  void subtract_product(BlasSize size, BlasMatrix<const T> lhs, BlasMatrix<const T> rhs, BlasMatrix<T> out) const;
  /// The lower triangle of out -= a · a^H, where a, or its adjoint if it says transposed, has n rows and k columns.
  void subtract_square(std::int32_t n, std::int32_t k, BlasMatrix<const T> a, BlasMatrix<T> out) const;

 private:
  const LapackFunctions<T>* lapack_;
};

extern template class TileKernels<float>;
extern template class TileKernels<double>;
extern template class TileKernels<std::complex<float>>;
extern template class TileKernels<std::complex<double>>;

}  // namespace shoal::cpu
