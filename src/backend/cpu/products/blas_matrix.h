// Matrices as the plugin `blas` takes them. Shared with the plugin.
#pragma once

#include <cstdint>

namespace shoal::cpu {

/// A matrix in row-major order.
template <class T>
struct BlasMatrix {
  T* data;
  std::int32_t stride;      ///< Elements from a row to the next.
  bool transposed = false;  ///< Whether the product takes its transpose.
};

struct BlasSize {
  std::int32_t rows;
  std::int32_t columns;
  std::int32_t inner;
};

}  // namespace shoal::cpu
