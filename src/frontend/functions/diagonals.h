// Diagonals by comparing the numbers of rows and columns, which every shard can do alone: no data moves, however an
// array lies.
#pragma once

#include "shoal/array.h"

namespace shoal {

/// `array` with 0 wherever the position along `second` is not that along `first` plus `offset`.
Array diagonal_alone(const Array& array, std::int64_t first, std::int64_t second, std::int64_t offset);

}  // namespace shoal
