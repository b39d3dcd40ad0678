#include "backend/cpu/products/tiling.h"

#include <algorithm>

namespace shoal::cpu {
namespace {

// The cost of work is counted in multiplications in f32. Moving an element costs as much as this many.
constexpr double kCostOfElement = 16;
// A tile of less is not worth another thread.
constexpr double kLeastTile = 1 << 21;
// Each tile packs its operands anew, so that their number grows more slowly than the work: from these costs on there
// are 2, 4, 8 and 16.
constexpr double kCostsOfTiles[] = {1 << 21, 1 << 25, 1 << 28, 1LL << 32};
constexpr std::int64_t kMostTiles = 64;
// Elements of a tile that is cut further, as its halves are as good.
constexpr std::int64_t kLargeTile = 1 << 20;
// Tiles of fewer rows or columns are not cut, or of this many where the contraction can be cut instead.
constexpr std::int64_t kSmallTile = 64;
constexpr std::int64_t kSmallTileOfLong = 256;
// The shortest part of a contraction that is cut, and the most elements of its result.
constexpr std::int64_t kShortestPart = 1024;
constexpr std::int64_t kMostSplitElements = 1 << 18;

}  // namespace

Tile Tiling::tile(std::int64_t number, const ProductExtents& extents) const {
  const auto next = [&number](std::int64_t count) {
    const std::int64_t index = number % count;
    number /= count;
    return index;
  };
  const auto range = [](std::int64_t index, std::int64_t size, std::int64_t extent) {
    return Range{index * size, std::min((index + 1) * size, extent)};
  };
  const std::int64_t part = next(parts);
  const Range columns = range(next(column_tiles), column_size, extents.columns);
  const Range rows = range(next(row_tiles), row_size, extents.rows);
  return {.product = number, .part = part, .covers = {rows, columns, range(part, part_size, extents.inner)}};
}

Tiling tiling_of(const ProductExtents& extents) {
  const auto [products, rows, columns, inner] = extents;
  Tiling tiling{.row_size = rows, .column_size = columns, .part_size = inner};
  const auto m = static_cast<double>(rows);
  const auto n = static_cast<double>(columns);
  const auto k = static_cast<double>(inner);
  const double cost = m * n * k + kCostOfElement * (m * k + k * n + m * n);
  const double total = cost * static_cast<double>(products);

  std::int64_t wanted = 1;
  for (double least : kCostsOfTiles) wanted *= total >= least ? 2 : 1;
  const double fit = std::min(kLeastTile / cost, static_cast<double>(divide_up(products, wanted)));
  tiling.products_per_tile = std::max(std::int64_t{1}, static_cast<std::int64_t>(fit));
  tiling.tiles = divide_up(products, tiling.products_per_tile);
  if (tiling.products_per_tile > 1) return tiling;
  // Rows are cut first, so that tiles are wide; tiles that are large still are cut further.
  const bool is_long = inner >= 2 * kShortestPart && extents.elements() <= kMostSplitElements;
  const std::int64_t least = is_long ? kSmallTileOfLong : kSmallTile;
  const auto halve = [](std::int64_t size) { return divide_up(divide_up(size, 2), kTileUnit) * kTileUnit; };
  for (;;) {
    const std::int64_t tiles = products * tiling.row_tiles * tiling.column_tiles;
    const bool by_rows = 2 * tiling.row_size > tiling.column_size;
    std::int64_t& size = by_rows ? tiling.row_size : tiling.column_size;
    const bool cut = tiles < wanted || tiling.row_size * tiling.column_size >= kLargeTile;
    if (!cut || tiles >= kMostTiles || size < least) break;
    size = halve(size);
    tiling.row_tiles = divide_up(rows, tiling.row_size);
    tiling.column_tiles = divide_up(columns, tiling.column_size);
  }
  const std::int64_t tiles = products * tiling.row_tiles * tiling.column_tiles;
  if (tiles < wanted && is_long) {
    const std::int64_t parts = std::min(divide_up(wanted, tiles), inner / kShortestPart);
    tiling.part_size = divide_up(divide_up(inner, parts), kTileUnit) * kTileUnit;
    tiling.parts = divide_up(inner, tiling.part_size);
  }
  tiling.tiles = tiles * tiling.parts;
  return tiling;
}

}  // namespace shoal::cpu
