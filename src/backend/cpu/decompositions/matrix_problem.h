// What is to be computed of each matrix of a batch.
#pragma once

#include <algorithm>
#include <cstdint>

namespace shoal::cpu {

/// The extents of a matrix, and what the attributes of the op say.
struct MatrixProblem {
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t sides = 0;  ///< Columns of the right side, of triangular_solve; reflections, of householder_product.
  bool full = false;
  bool lower = true;
  bool unit_diagonal = false;
  bool adjoint = false;  ///< Of triangular_solve: the matrix that is meant is the adjoint of the triangle.
  bool leading = false;  ///< Of cholesky: the diagonal of the factors of leading blocks that have some stays.

  std::int64_t least() const { return std::min(rows, columns); }
  /// Columns of the left factor of qr and svd.
  std::int64_t left() const { return full ? rows : least(); }
  /// Rows of the right factor of svd.
  std::int64_t right() const { return full ? columns : least(); }
};

}  // namespace shoal::cpu
