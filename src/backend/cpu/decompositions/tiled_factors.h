// Triangular factors of large matrices in row-major order, by tiles that all threads compute. Tiles depend on the shape
// alone, so that bits do not depend on the number of threads.
#pragma once

#include <cstdint>

#include "backend/cpu/products/lapack.h"

namespace shoal::cpu {

/// copy_finite() of all rows.
template <class T>
bool copy_finite_by_tiles(const T* from, T* to, std::int64_t rows, std::int64_t columns, bool is_lower);

/// The lower triangle of a dense matrix of n rows becomes its factor; what lies above the diagonal, too, is overwritten
/// in places. false if the matrix is not positive definite.
template <class T>
bool factor_cholesky_by_tiles(const LapackFunctions<T>& lapack, std::int64_t n, T* a);

/// The factors in place of a dense matrix. Row i was exchanged with row pivots[i].
template <class T>
void factor_lu_by_tiles(const LapackFunctions<T>& lapack, std::int64_t m, std::int64_t n, T* a, std::int32_t* pivots);

/// x := a^-1 x for a triangle of n rows, x dense with this number of columns.
template <class T>
void solve_by_tiles(const LapackFunctions<T>& lapack, std::int64_t n, std::int64_t columns,
                    const BlasTriangle<T>& triangle, T* x);

}  // namespace shoal::cpu
