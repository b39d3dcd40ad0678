// Transposition of small blocks, in registers.
#pragma once

#include <cstdint>

namespace shoal::cpu {

/// to(j, i) = from(i, j) for elements of 4 or 8 bytes in lines `stride` elements apart; `rows` and `columns` are those
/// of `from`. The bits are moved, whatever they are.
void transpose_block(const std::uint32_t* from, std::int64_t from_stride, std::uint32_t* to, std::int64_t to_stride,
                     std::int64_t rows, std::int64_t columns);
void transpose_block(const std::uint64_t* from, std::int64_t from_stride, std::uint64_t* to, std::int64_t to_stride,
                     std::int64_t rows, std::int64_t columns);

}  // namespace shoal::cpu
