// Boxes of arrays.
#pragma once

#include <cstddef>

#include "shoal/shape.h"

namespace shoal {

/// A box of a dense row-major array.
struct Region {
  Shape shape;              ///< Of the array.
  Dims start;               ///< Where the box begins,
  Shape extents;            ///< and its size.
  std::size_t element = 1;  ///< Bytes of an element.

  std::size_t bytes() const { return static_cast<std::size_t>(num_elements(extents)) * element; }
  bool is_whole() const { return extents == shape; }
  friend bool operator==(const Region&, const Region&) = default;
};

/// All of so many bytes.
Region bytes_region(std::size_t bytes);

/// The smallest box that has two boxes of one array in it.
Region joined(const Region& a, const Region& b);

}  // namespace shoal
