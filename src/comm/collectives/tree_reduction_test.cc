// Trees of which some nodes were reduced before give the bits of the whole.
#include "comm/collectives/tree_reduction.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace shoal {
namespace {

constexpr std::int64_t kElements = 3000;  // More than a block.
using Line = std::vector<float>;

Line reduced(const std::vector<Line>& arrays, const std::vector<std::int64_t>& positions) {
  Line out(kElements);
  std::vector<const std::byte*> data;
  for (const Line& array : arrays) data.push_back(reinterpret_cast<const std::byte*>(array.data()));
  const std::vector<std::int32_t> splits = tree_splits(positions);
  tree_reduction(ReduceKind::kSum, Dtype::kF32)(data.data(), splits.data(), data.size(), 0,
                                                reinterpret_cast<std::byte*>(out.data()), kElements, false);
  return out;
}

// Plain recursion over positions [begin, end).
float sum(const std::vector<Line>& leaves, std::size_t begin, std::size_t end, std::size_t element) {
  if (end - begin == 1) return leaves[begin][element];
  const std::size_t half = begin + std::bit_ceil(end - begin) / 2;
  return sum(leaves, begin, half, element) + sum(leaves, half, end, element);
}

class Cut {
 public:
  Cut(const std::vector<Line>& leaves, std::mt19937& random) : leaves_(leaves), random_(random) {
    add(0, leaves.size());
  }

  std::vector<Line> arrays;
  std::vector<std::int64_t> positions;

 private:
  // Either reduces a node now, or leaves that to its two sides.
  void add(std::size_t begin, std::size_t end) {
    if (end - begin == 1 || random_() % 3 == 0) {
      const std::vector<Line> some(leaves_.begin() + static_cast<std::ptrdiff_t>(begin),
                                   leaves_.begin() + static_cast<std::ptrdiff_t>(end));
      arrays.push_back(reduced(some, std::vector<std::int64_t>(some.size(), 1)));
      positions.push_back(static_cast<std::int64_t>(some.size()));
      return;
    }
    const std::size_t half = begin + std::bit_ceil(end - begin) / 2;
    add(begin, half);
    add(half, end);
  }

  const std::vector<Line>& leaves_;
  std::mt19937& random_;
};

TEST(TreeReduction, NodesReducedBeforeGiveTheSameBits) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> numbers(-1, 1);
  for (std::size_t count = 1; count <= 17; ++count) {
    std::vector<Line> leaves(count, Line(kElements));
    for (Line& leaf : leaves) {
      for (float& x : leaf) x = std::exp(10 * numbers(random)) * numbers(random);
    }
    Line want(kElements);
    for (std::size_t i = 0; i < want.size(); ++i) want[i] = sum(leaves, 0, count, i);
    for (int attempt = 0; attempt < 8; ++attempt) {
      const Cut cut(leaves, random);
      EXPECT_EQ(reduced(cut.arrays, cut.positions), want) << count << " arrays, " << cut.arrays.size() << " parts";
    }
  }
}

TEST(TreeReduction, SplitsFollowPositions) {
  EXPECT_EQ(tree_splits(std::vector<std::int64_t>(5, 1)), (std::vector<std::int32_t>{4, 2, 1, 1}));
  EXPECT_EQ(tree_splits(std::vector<std::int64_t>{2, 1, 1, 2, 2}), (std::vector<std::int32_t>{3, 1, 1, 1}));
  EXPECT_TRUE(tree_splits(std::vector<std::int64_t>{8}).empty());
}

}  // namespace
}  // namespace shoal
