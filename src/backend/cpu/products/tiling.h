// How products are cut in tiles: on a grid that depends on their extents alone.
#pragma once

#include <cstdint>

#include "backend/cpu/products/blocked_product.h"

namespace shoal::cpu {

/// Tiles are multiples of this, but for the last ones.
inline constexpr std::int64_t kTileUnit = 16;

constexpr std::int64_t divide_up(std::int64_t n, std::int64_t by) { return (n + by - 1) / by; }

/// What is multiplied: so many products of matrices.
struct ProductExtents {
  std::int64_t products = 1;
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  std::int64_t inner = 1;

  std::int64_t elements() const { return products * rows * columns; }
};

struct Tile {
  std::int64_t product;
  std::int64_t part;  ///< The number of its part of the contraction.
  ProductPart covers;
};

/// How products are cut. Many small ones make a tile together; or else a product is cut in rows and columns of tiles,
/// and if it is long and its result small, its contraction in parts, which are added up.
struct Tiling {
  std::int64_t products_per_tile = 1;  ///< More than 1 only if nothing else is cut.
  std::int64_t row_size = 0;
  std::int64_t column_size = 0;
  std::int64_t part_size = 0;
  std::int64_t row_tiles = 1;
  std::int64_t column_tiles = 1;
  std::int64_t parts = 1;  ///< Of the contraction.
  std::int64_t tiles = 1;

  /// Where products_per_tile is 1. The parts of a contraction come first, then columns, so that neighbours in time
  /// share what they read.
  Tile tile(std::int64_t number, const ProductExtents& extents) const;
};

Tiling tiling_of(const ProductExtents& extents);

}  // namespace shoal::cpu
