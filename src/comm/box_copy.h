// Copies boxes between dense arrays.
#pragma once

#include <span>

#include "core/buffer.h"
#include "shoal/shape.h"

namespace shoal {

/// Copies the box of `extents` elements at `from_start` of one array to `to_start` of another of the same dtype and
/// rank.
void copy_box(const TensorView& from, const Dims& from_start, const TensorView& to, const Dims& to_start,
              const Shape& extents);

}  // namespace shoal
