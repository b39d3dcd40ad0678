// Looking at arrays.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>

#include "shoal/array.h"

namespace shoal::debug {

struct VisualizeOptions {
  std::optional<bool> use_color = {};  ///< Default: when `out` is a terminal.
  std::optional<int> max_width = {};   ///< Columns; default: the terminal's width, 80 otherwise.
  double scale = 1.0;                  ///< Of the height of pictures of matrices.
  std::ostream* out = nullptr;         ///< Default: std::cout.
};

/// Draws where the shards of an array of rank 1 or 2 lie: a box for each, with the devices that hold it.
void visualize_array_sharding(const Array& array, const VisualizeOptions& options = {},
                              SourceLocation where = SourceLocation::current());
/// The same for a shape.
void visualize_sharding(const Shape& shape, const Sharding& sharding, const VisualizeOptions& options = {},
                        SourceLocation where = SourceLocation::current());

}  // namespace shoal::debug
