// Offsets of the elements that indices address, in vectors.
#pragma once

#include <cstdint>

namespace shoal::cpu {

/// Adds stride * (index - start) to the offset of each of n indices, if all of them are in [start, start + extent);
/// else leaves the offsets as they are and returns false. 0 <= extent, stride < 2^32.
bool add_positions(const std::int32_t* indices, std::int64_t n, std::int64_t start, std::int64_t extent,
                   std::int64_t stride, std::int64_t* offsets);
bool add_positions(const std::int64_t* indices, std::int64_t n, std::int64_t start, std::int64_t extent,
                   std::int64_t stride, std::int64_t* offsets);

}  // namespace shoal::cpu
