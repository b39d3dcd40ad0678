// Reading and writing the items of an array by arrays of positions.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "shoal/array.h"

namespace shoal {

/// Positions along a dimension of an extent, as gather and scatter take them: i32, or i64 if the extent or the dtype
/// needs that. Counts negative ones from the end if `from_end`, then follows the mode; in kFill those outside stay
/// outside. Throws TypeMismatch unless they are integers.
Array resolved_positions(const Array& positions, std::int64_t extent, IndexMode mode, bool from_end);

/// Which dimensions of an array are addressed by positions, and which go along with dimensions of these.
struct ItemDims {
  Dims dims;
  Dims array_batch = {};
  Dims index_batch = {};
};

/// The items of an array at positions of one shape: their dimensions, then those of the array that are taken whole.
/// `fill`, if given, stands where positions are outside.
Array items_at(const Array& array, const std::vector<Array>& positions, const ItemDims& dims,
               const std::optional<Operand>& fill);

/// What kFill gives for a dtype if the user says nothing.
Operand default_fill(Dtype dtype);

/// The array with its items replaced.
Array with_items(const Array& array, const Array& items, const std::vector<Array>& positions, const ItemDims& dims);

/// An array of `shape` of the items that have the same positions, reduced by `kind`: "sum", "prod", "max", "min".
Array reduced_items(std::string_view kind, const Shape& shape, const Array& items, const std::vector<Array>& positions,
                    const ItemDims& dims);

/// 0, 1, … up to an extent, in the memory of `like`. Throws OutOfRange if i32 cannot count them.
Array counted(std::int64_t extent, const Array& like);

/// The array repeated to `shape`; its dimension i becomes dimension dims[i].
Array spread(const Array& array, const Shape& shape, const Dims& dims);

/// The values as an array of the dtype of `array`, to be put into it. Throws TypeMismatch if that cannot hold them.
Array fitting(const Array& array, const Operand& values);

/// The positions in each dimension where a concrete array of bool holds, in row-major order.
std::vector<Array> positions_of_true(const Array& mask);

}  // namespace shoal
