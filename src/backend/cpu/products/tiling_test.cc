#include "backend/cpu/products/tiling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace shoal::cpu {
namespace {

constexpr std::int64_t kSizes[] = {1, 15, 64, 250, 1000, 5000};

// How often each number of [0, extent) lies in one of the ranges.
std::vector<int> covered(std::int64_t extent, const std::vector<Range>& ranges) {
  std::vector<int> times(static_cast<std::size_t>(extent), 0);
  for (const Range& range : ranges) {
    for (std::int64_t i = range.begin; i < range.end; ++i) ++times[static_cast<std::size_t>(i)];
  }
  return times;
}

// The tiles are all combinations of ranges that cut each extent once, and each combination comes once.
TEST(Tiling, TilesCoverEachProductOnce) {
  for (const std::int64_t products : {1, 3}) {
    for (const std::int64_t rows : kSizes) {
      for (const std::int64_t columns : kSizes) {
        for (const std::int64_t inner : kSizes) {
          const ProductExtents extents{products, rows, columns, inner};
          const Tiling tiling = tiling_of(extents);
          if (tiling.products_per_tile > 1) {
            EXPECT_EQ(tiling.tiles, divide_up(products, tiling.products_per_tile));
            continue;
          }
          ASSERT_EQ(tiling.tiles, products * tiling.row_tiles * tiling.column_tiles * tiling.parts);
          std::vector<Range> row_ranges, column_ranges, parts;
          for (std::int64_t i = 0; i < tiling.tiles; ++i) {
            const Tile tile = tiling.tile(i, extents);
            EXPECT_EQ(tile.product, i / (tiling.tiles / products));
            if (tile.product > 0) continue;
            const bool first_row = tile.covers.rows.begin == 0;
            const bool first_column = tile.covers.columns.begin == 0;
            const bool first_part = tile.part == 0;
            EXPECT_EQ(first_part, tile.covers.inner.begin == 0);
            if (first_column && first_part) row_ranges.push_back(tile.covers.rows);
            if (first_row && first_part) column_ranges.push_back(tile.covers.columns);
            if (first_row && first_column) parts.push_back(tile.covers.inner);
          }
          const auto once = [](const std::vector<int>& times) {
            return std::ranges::all_of(times, [](int n) { return n == 1; });
          };
          EXPECT_TRUE(once(covered(rows, row_ranges))) << rows << " × " << inner << " × " << columns;
          EXPECT_TRUE(once(covered(columns, column_ranges))) << rows << " × " << inner << " × " << columns;
          EXPECT_TRUE(once(covered(inner, parts))) << rows << " × " << inner << " × " << columns;
        }
      }
    }
  }
}

TEST(Tiling, LongContractionsOfSmallResultsAreCut) {
  EXPECT_GT(tiling_of({1, 64, 64, 1 << 16}).parts, 1);
  EXPECT_EQ(tiling_of({1, 2048, 2048, 1 << 16}).parts, 1);
}

TEST(Tiling, ManySmallProductsMakeATile) {
  const Tiling tiling = tiling_of({1000, 8, 8, 8});
  EXPECT_GT(tiling.products_per_tile, 1);
  EXPECT_LT(tiling.tiles, 1000);
}

}  // namespace
}  // namespace shoal::cpu
