// Boxes: parts of an array that are a range of positions along each dimension.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sharding/placement.h"
#include "shoal/shape.h"

namespace shoal {

struct Box {
  Dims start;
  Shape extents;
  friend bool operator==(const Box&, const Box&) = default;

  /// What the device at `position` holds of an array that lies as `placement` says.
  static Box of(const Grid& grid, const Shape& global, const Placement& placement, std::int64_t position);
};

/// What two boxes have in common, if there is anything.
std::optional<Box> overlap(const Box& a, const Box& b);
/// Where `part` begins in a box that it is part of.
Dims start_in(const Box& box, const Box& part);
/// Boxes of at most `elements` elements, one after the other in row-major order, that make up an array.
std::vector<Box> chunks_of(const Shape& shape, std::int64_t elements);

}  // namespace shoal
