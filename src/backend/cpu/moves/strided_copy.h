// Copies between arrays of any strides.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shoal/shape.h"

namespace shoal::cpu {

/// Elements at `from` + Σ i[d] from_strides[d] go to `to` + Σ i[d] to_strides[d], for all i below `extents`. Strides
/// and offsets are in bytes; a stride of 0 in `from` repeats elements.
struct StridedCopy {
  Shape extents;
  Dims from_strides;
  Dims to_strides;
  std::int64_t from_offset = 0;
  std::int64_t to_offset = 0;

  /// The same without dimensions of extent 1, and with those that both sides step through as one put together. The last
  /// dimension of the result exists.
  StridedCopy simplified(std::size_t element_size) const;

  /// The number of indices of the first dimension, over which the copy may be divided.
  std::int64_t rows() const { return extents[0]; }
};

/// Copies rows [first, last) of a simplified copy of elements of 1, 2, 4, 8 or 16 bytes. Arrays do not overlap.
void copy_rows(const StridedCopy& copy, std::size_t element_size, const std::byte* from, std::byte* to,
               std::int64_t first, std::int64_t last);

}  // namespace shoal::cpu
