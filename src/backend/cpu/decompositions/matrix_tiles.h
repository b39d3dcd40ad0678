// What tiles of large matrices need besides BLAS, in vectors: transposition, copies that look at what they
// copy, and rows solved with a triangle.
#pragma once

#include <complex>
#include <cstdint>

namespace shoal::cpu {

template <class T>
struct MatrixTiles {
  /// to(j, i) = from(i, j), both in row-major order; `rows` and `columns` are those of `from`.
  static void copy_transposed(const T* from, std::int64_t from_stride, T* to, std::int64_t to_stride, std::int64_t rows,
                              std::int64_t columns);

  /// Copies the rows from `begin` to `end` of dense matrices; of a lower triangle no more than that counts, and the
  /// rest becomes zero. false if what counts is not finite.
  static bool copy_finite(const T* from, T* to, std::int64_t begin, std::int64_t end, std::int64_t columns,
                          bool is_lower);

  /// x := x l^-H for a lower triangle l of `columns` rows, whose diagonal is real; x has as many columns. Both are in
  /// row-major order. OpenBLAS has no vectors for it.
  static void solve_rows(const T* l, std::int64_t l_stride, T* x, std::int64_t x_stride, std::int64_t rows,
                         std::int64_t columns);
};

extern template struct MatrixTiles<float>;
extern template struct MatrixTiles<double>;
extern template struct MatrixTiles<std::complex<float>>;
extern template struct MatrixTiles<std::complex<double>>;

}  // namespace shoal::cpu
