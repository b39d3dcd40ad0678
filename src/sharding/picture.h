// Pictures of shardings: a box for each shard, naming the devices that hold it.
#pragma once

#include <source_location>
#include <string>

#include "shoal/shape.h"
#include "shoal/sharding.h"

namespace shoal {

struct PictureOptions {
  bool use_color = false;  ///< Coloured tiles (ANSI escapes, 24-bit) instead of boxes of lines.
  double scale = 1.0;      ///< Height of the picture of a 2-d array, in units of 10 lines; above 0, at most 100.
  int min_width = 9;       ///< Least width of a tile in columns, where `max_width` permits; at least 0.
  int max_width = 80;      ///< Width of the terminal in columns, which nothing exceeds; at least 1.
};

/// The shards of an array of rank 1 or 2, drawn where they lie in the array: lines that each end in "\n". The boxes
/// have the proportions of the shards as far as the width permits; a 1-d array is one line of text high. Where the
/// width does not suffice, labels break after the platform and end in "…". Throws InvalidArgument for other ranks,
/// options outside their range, and where `sharding` cannot hold `shape`.
std::string sharding_picture(const Shape& shape, const Sharding& sharding, const PictureOptions& options = {},
                             std::source_location where = std::source_location::current());

/// The same picture as an SVG document: a rectangle for each shard, in the proportions of the array. Throws for what
/// sharding_picture throws for.
std::string svg_picture(const Shape& shape, const Sharding& sharding,
                        std::source_location where = std::source_location::current());

/// The same picture as an HTML table: a cell for each shard, in the proportions of the array.
std::string html_picture(const Shape& shape, const Sharding& sharding,
                         std::source_location where = std::source_location::current());

}  // namespace shoal
