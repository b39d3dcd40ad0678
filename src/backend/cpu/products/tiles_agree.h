// Whether OpenBLAS computes the same bits for an element whatever the tile it lies in.
#pragma once

#include "backend/cpu/products/blas.h"
#include "shoal/dtype.h"

namespace shoal::cpu {

/// Kinds of products that its kernels may differ in.
struct BlasProductKind {
  bool lhs_transposed;
  bool rhs_transposed;
  bool even;  ///< Rows and columns are multiples of kTileUnit, so that they fill registers.
};

/// Tiles with fewer multiplications, rows or columns than these are never computed as one: OpenBLAS has other code for
/// small products (its kernels with AVX-512 for those of less than 7.4 million multiplications).
inline constexpr double kLeastMultiplicationsToMerge = 1 << 24;
inline constexpr int kLeastExtentToMerge = 16;

/// For larger tiles, and `dtype` f32, f64 or complex. Tried on this machine once for each kind of product, within a
/// millisecond.
bool blas_tiles_agree(const BlasApi& api, Dtype dtype, const BlasProductKind& kind);

}  // namespace shoal::cpu
