// LAPACK as the plugin `blas` offers it: the functions for one dtype, one thread per call. Shared with the plugin.
//
// A LapackMatrix is in column-major order, a BlasMatrix in row-major order. Functions bear LAPACK's names for complex
// dtypes (ungqr and heevd) for real ones (orgqr and syevd), too.
#pragma once

#include <complex>
#include <cstdint>

#include "backend/cpu/products/blas_matrix.h"

namespace shoal::cpu {

/// A matrix in column-major order.
template <class T>
struct LapackMatrix {
  T* data;
  std::int32_t stride;  ///< Elements from a column to the next.
};

/// Which vectors belong to singular values: none, as many as there are values, or enough for square factors.
enum class SingularVectors : char { kNone = 'N', kReduced = 'S', kFull = 'A' };

/// The numbers of elements that a function needs to work.
struct LapackSizes {
  std::int32_t elements = 0;
  std::int32_t reals = 0;
  std::int32_t integers = 0;
};

/// Memory of these sizes.
template <class T>
struct LapackMemory {
  T* elements;
  decltype(std::real(T{}))* reals;
  std::int32_t* integers;
  LapackSizes sizes;
};

/// How to solve x with a matrix, or to multiply it, in row-major order, of which one triangle counts.
template <class T>
struct BlasTriangle {
  const T* data;
  std::int32_t stride;
  bool lower;
  bool unit_diagonal = false;
  bool adjoint = false;  ///< It is the adjoint of the triangle that is solved with, or multiplied by.
  bool right = false;    ///< x stands on the left of the triangle.
};

/// The functions may be called from any number of threads at once, and start none. They return LAPACK's `info`: 0 if
/// all went well, more if the matrix has no such decomposition or the iteration did not end.
template <class T>
struct LapackFunctions {
  using Real = decltype(std::real(T{}));
  using Int = std::int32_t;
  using Matrix = LapackMatrix<T>;
  using Memory = const LapackMemory<T>&;

  /// x := a^-1 x, or x a^-1.
  void (*trsm)(Int rows, Int columns, const BlasTriangle<T>& a, BlasMatrix<T> x);
  /// x := a x, or x a, times `scale`.
  void (*trmm)(Int rows, Int columns, Real scale, const BlasTriangle<T>& a, BlasMatrix<T> x);
  /// x := a^-1 x for one dense column x.
  void (*trsv)(Int n, const BlasTriangle<T>& a, T* x);
  /// out -= lhs · rhs. Of each it is the adjoint that is meant where it says transposed.
  void (*subtract_product)(BlasSize, BlasMatrix<const T> lhs, BlasMatrix<const T> rhs, BlasMatrix<T> out);
  /// The lower triangle of out -= a · a^H, where a, or its adjoint if it says transposed, has n rows and k columns.
  void (*subtract_square)(Int n, Int k, BlasMatrix<const T> a, BlasMatrix<T> out);

  /// a = l l^H. `triangle` says which triangle of a is given, and becomes l ('L') or its adjoint ('U').
  Int (*potrf)(char triangle, Int n, Matrix a);
  /// Pivots are counted from 1.
  Int (*getrf)(Int m, Int n, Matrix a, Int* pivots);

  /// The reflections whose product is q, below r, with a factor for each.
  Int (*geqrf)(Int m, Int n, Matrix a, T* factors, Memory memory);
  LapackSizes (*geqrf_sizes)(Int m, Int n);
  /// The first n columns of the product of k reflections.
  Int (*ungqr)(Int m, Int n, Int k, Matrix a, const T* factors, Memory memory);
  LapackSizes (*ungqr_sizes)(Int m, Int n, Int k);

  /// a = h t h^H for a Hermitian a, of which the lower triangle is given, and a tridiagonal t. The reflections whose
  /// product is h take the place of a, with a factor for each.
  Int (*hetrd)(Int n, Matrix a, Real* diagonal, Real* beside, T* factors, Memory memory);
  LapackSizes (*hetrd_sizes)(Int n);
  /// The eigenvalues of t, ascending, in the place of its diagonal, and its eigenvectors.
  Int (*stedc)(Int n, Real* diagonal, Real* beside, Matrix z, Memory memory);
  LapackSizes (*stedc_sizes)(Int n);
  /// The eigenvalues alone.
  Int (*sterf)(Int n, Real* diagonal, Real* beside);
  /// z := h z, of n rows. Threads may do so with the same a at once.
  Int (*unmtr)(Int n, Int columns, Matrix a, const T* factors, Matrix z, Memory memory);
  LapackSizes (*unmtr_sizes)(Int columns);
  /// a is lost.
  Int (*gesdd)(SingularVectors wanted, Int m, Int n, Matrix a, Real* values, Matrix u, Matrix vh, Memory memory);
  LapackSizes (*gesdd_sizes)(SingularVectors wanted, Int m, Int n);

  /// a = q h q^H for an h that is zero below its first subdiagonal, in the place of a, and below it the reflections
  /// whose product is q, with a factor for each.
  Int (*gehrd)(Int n, Matrix a, T* factors, Memory memory);
  LapackSizes (*gehrd_sizes)(Int n);
  /// a = z t z^H for a t that is triangular, or nearly so if it is real, in the place of a.
  Int (*gees)(Int n, Matrix a, Matrix z, Memory memory);
  LapackSizes (*gees_sizes)(Int n);
  /// Eigenvalues and, where they are wanted, left and right vectors. a is lost. Of a real one two columns are the parts
  /// of the vector of the first of two eigenvalues that are each other's conjugates.
  Int (*geev)(bool left, bool right, Int n, Matrix a, std::complex<Real>* values, Matrix u, Matrix v, Memory memory);
  LapackSizes (*geev_sizes)(bool left, bool right, Int n);
};

}  // namespace shoal::cpu
