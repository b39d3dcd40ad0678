#include "spmd/dealing.h"

#include <gtest/gtest.h>

#include <numeric>

#include "sharding/test_support.h"

namespace shoal {
namespace {

// The rule of a dimension that consists of such factors.
ShardingRule rule_of(const std::vector<std::int64_t>& sizes) {
  ShardingRule rule;
  DimFactors dim;
  for (std::int64_t size : sizes) {
    dim.push_back(static_cast<int>(rule.factors.size()));
    rule.factors.push_back({.size = size});
  }
  rule.operands = {{dim}};
  return rule;
}

std::vector<std::int64_t> moved(const std::vector<std::int64_t>& from, const std::vector<Run>& runs) {
  std::vector<std::int64_t> to(from.size(), -1);
  for (const Run& run : runs) {
    for (std::int64_t i = 0; i < run.count; ++i) {
      to[static_cast<std::size_t>(run.out_start + i * run.out_step)] =
          from[static_cast<std::size_t>(run.in_start + i * run.in_step)];
    }
  }
  return to;
}

TEST(Dealing, GivesShardsTheirPartOfEveryMajorIndex) {
  const Grid grid(test_support::grid({2}));
  for (const auto& [outer, middle, inner] :
       {std::tuple{3, 4, 1}, std::tuple{2, 4, 5}, std::tuple{9, 2, 2}, std::tuple{1, 6, 7}}) {
    const ShardingRule rule = rule_of({outer, middle, inner});
    const auto dealings = dealings_of(grid, rule, rule.operands[0], {{}, {0}, {}});
    ASSERT_TRUE(dealings);
    if (outer == 1) {
      EXPECT_TRUE(dealings->empty()) << "the placement says it";
      continue;
    }
    ASSERT_EQ(dealings->size(), 1U);
    const Dealing& dealing = dealings->front();
    std::vector<std::int64_t> whole(static_cast<std::size_t>(outer * middle * inner));
    std::iota(whole.begin(), whole.end(), 0);
    std::vector<std::int64_t> expected;
    for (std::int64_t part = 0; part < 2; ++part) {
      for (std::int64_t o = 0; o < outer; ++o) {
        for (std::int64_t m = part * middle / 2; m < (part + 1) * middle / 2; ++m) {
          for (std::int64_t i = 0; i < inner; ++i) expected.push_back((o * middle + m) * inner + i);
        }
      }
    }
    EXPECT_EQ(moved(whole, dealing.runs), expected);
    EXPECT_EQ(moved(expected, dealing.inverse().runs), whole);
    EXPECT_LE(dealing.runs.size(), 8U);
  }
}

TEST(Dealing, IsOfOneSplitFactorThatIsDividedEvenly) {
  const Grid grid(test_support::grid({2, 2}));
  const ShardingRule rule = rule_of({2, 6, 4});
  const auto dealings = [&](const FactorAxes& axes) { return dealings_of(grid, rule, rule.operands[0], axes); };
  EXPECT_TRUE(dealings({{0}, {1}, {}})->empty()) << "the placement says it";
  EXPECT_FALSE(dealings({{}, {0}, {1}})) << "two factors";
  EXPECT_FALSE(dealings({{}, {0, 1}, {}})) << "four parts of six";
  EXPECT_EQ(dealings({{}, {}, {0, 1}})->size(), 1U);
}

}  // namespace
}  // namespace shoal
