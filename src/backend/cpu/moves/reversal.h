// Reversal of lines of elements, vector by vector.
#pragma once

#include <cstdint>

namespace shoal::cpu {

/// to[i] = from[count - 1 - i] for elements of 2, 4 or 8 bytes. The two do not overlap. The bits are moved, whatever
/// they are.
void copy_reversed(const std::uint16_t* from, std::uint16_t* to, std::int64_t count);
void copy_reversed(const std::uint32_t* from, std::uint32_t* to, std::int64_t count);
void copy_reversed(const std::uint64_t* from, std::uint64_t* to, std::int64_t count);

}  // namespace shoal::cpu
