#include "linalg/tiling.h"

#include <gtest/gtest.h>

#include <numeric>

namespace shoal::linalg {
namespace {

TEST(Tiling, CutsADimension) {
  const Tiling tiling{10, 4};
  EXPECT_EQ(tiling.count(), 3);
  EXPECT_EQ(tiling.tile(0), (Extent{0, 4}));
  EXPECT_EQ(tiling.tile(2), (Extent{8, 2}));
  EXPECT_EQ((Tiling{0, 4}).count(), 0);
}

TEST(Box, WhatTwoHaveInCommon) {
  const Box box{{2, 4}, {0, 3}};
  EXPECT_EQ(common(box, {{4, 8}, {1, 1}}), (Box{{4, 2}, {1, 1}}));
  EXPECT_TRUE(common(box, {{6, 2}, {0, 3}}).empty());
  EXPECT_TRUE(box.contains({{3, 2}, {0, 3}}));
  EXPECT_FALSE(box.contains({{1, 2}, {0, 3}}));
}

TEST(TileSize, FollowsTheBordersOfShards) {
  const auto shards = [](std::int64_t n, std::int64_t parts) {
    std::vector<Extent> extents;
    for (std::int64_t i = 0; i < parts; ++i) extents.push_back({i * n / parts, n / parts});
    return extents;
  };
  EXPECT_EQ(tile_size(4096, 0, shards(4096, 8)), 256);
  EXPECT_EQ(tile_size(4096, 0, shards(4096, 1)), 256);
  EXPECT_EQ(tile_size(1000, 0, shards(1000, 8)), 125);
  EXPECT_EQ(tile_size(2400, 0, shards(2400, 8)), 150);
  EXPECT_EQ(tile_size(1016, 0, shards(1016, 8)), 127);
  EXPECT_EQ(tile_size(16, 0, shards(16, 8)), 128);  // Shards of so few rows are not worth tiles of their own.
  EXPECT_EQ(tile_size(4096, 100, shards(4096, 8)), 100);
}

TEST(ProcessGrid, IsAsSquareAsItCanBe) {
  const auto shape = [](int count) {
    std::vector<int> processes(static_cast<std::size_t>(count));
    std::iota(processes.begin(), processes.end(), 0);
    const ProcessGrid grid(processes);
    return std::pair(grid.rows(), grid.columns());
  };
  EXPECT_EQ(shape(1), std::pair(std::int64_t{1}, std::int64_t{1}));
  EXPECT_EQ(shape(2), std::pair(std::int64_t{1}, std::int64_t{2}));
  EXPECT_EQ(shape(6), std::pair(std::int64_t{2}, std::int64_t{3}));
  EXPECT_EQ(shape(7), std::pair(std::int64_t{1}, std::int64_t{7}));
  EXPECT_EQ(shape(16), std::pair(std::int64_t{4}, std::int64_t{4}));
}

// What is said of rows and columns is what the owners of their tiles say.
TEST(ProcessGrid, KnowsWhoHasTilesWhere) {
  for (const std::vector<int>& processes : {std::vector<int>{3}, {0, 2}, {1, 2, 5, 8}, {0, 1, 2, 3, 4, 9}}) {
    const ProcessGrid grid(processes);
    for (const int process : processes) {
      for (std::int64_t line = 0; line < 5; ++line) {
        for (std::int64_t begin = 0; begin < 6; ++begin) {
          for (std::int64_t end = begin; end < 8; ++end) {
            bool in_row = false;
            bool in_column = false;
            for (std::int64_t other = begin; other < end; ++other) {
              in_row = in_row || grid.owner(line, other) == process;
              in_column = in_column || grid.owner(other, line) == process;
            }
            EXPECT_EQ(grid.has_in_row(process, line, begin, end), in_row);
            EXPECT_EQ(grid.has_in_column(process, line, begin, end), in_column);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace shoal::linalg
