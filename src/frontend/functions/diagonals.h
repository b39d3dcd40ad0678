// Items of the diagonals of two dimensions.
#pragma once

#include "shoal/array.h"

namespace shoal {

/// The items of `array` whose position along `second` is that along `first` plus `offset`: a dimension for these, then
/// the other ones of `array`.
Array items_of_diagonal(const Array& array, std::int64_t first, std::int64_t second, std::int64_t offset);

}  // namespace shoal
