#include "spmd/factors.h"

#include <gtest/gtest.h>

#include "ops/test_support.h"
#include "sharding/test_support.h"

namespace shoal {
namespace {

using test_support::rule_of;
using test_support::type_of;

// Atoms 0 | 1 2 | 3 of sizes 2, 2 · 2, 3.
Grid make_grid() { return Grid(test_support::grid({2, 4, 3})); }

ShardingRule reshape_rule(const Shape& in, const Shape& out) {
  return rule_of("reshape", {{"shape", out}}, {type_of(float32, in)});
}

ShardingRule matmul_rule(std::int64_t n, std::int64_t k, std::int64_t m) {
  return rule_of("dot_general",
                 {{"lhs_contract", Dims{1}}, {"rhs_contract", Dims{0}}, {"lhs_batch", Dims{}}, {"rhs_batch", Dims{}}},
                 {type_of(float32, {n, k}), type_of(float32, {k, m})});
}

TEST(Project, GivesAFactorItsDimensionsAtoms) {
  const ShardingRule rule = matmul_rule(8, 8, 8);  // (i, k), (k, j) -> (i, j): factors i, j, k
  EXPECT_EQ(project(make_grid(), rule, rule.operands[0], {{0}, {2, 1}}), (FactorAxes{{0}, {}, {2, 1}}));
  EXPECT_EQ(project(make_grid(), rule, rule.operands[1], {{}, {3}}), (FactorAxes{{}, {3}, {}}));
  EXPECT_EQ(project(make_grid(), rule, rule.results[0], {{0}, {3}}), (FactorAxes{{0}, {3}, {}}));
}

TEST(Project, KeepsUnevenSplitsOfWholeDimensions) {
  const ShardingRule rule = matmul_rule(5, 7, 8);
  EXPECT_EQ(project(make_grid(), rule, rule.operands[0], {{0, 1}, {3}}), (FactorAxes{{0, 1}, {}, {3}}));
}

TEST(Project, FillsTheMajorFactorFirst) {
  const Grid grid = make_grid();
  const ShardingRule rule = reshape_rule({24}, {2, 12});  // (ij) -> (i, j)
  EXPECT_EQ(project(grid, rule, rule.operands[0], {{0}}), (FactorAxes{{0}, {}}));
  EXPECT_EQ(project(grid, rule, rule.operands[0], {{0, 1}}), (FactorAxes{{0}, {1}}));
  EXPECT_EQ(project(grid, rule, rule.operands[0], {{1, 2, 3}}), (FactorAxes{{1}, {2, 3}}));
  EXPECT_EQ(project(grid, rule, rule.operands[0], {{3, 0}}), (FactorAxes{{}, {}})) << "3 does not divide 2";
  EXPECT_EQ(project(grid, rule, rule.operands[0], {{0, 1, 2, 3}}), (FactorAxes{{0}, {1, 2, 3}}));
}

TEST(Project, StopsWhereAFactorIsNotDividedCompletely) {
  const Grid grid = make_grid();
  const ShardingRule rule = reshape_rule({24}, {4, 6});
  EXPECT_EQ(project(grid, rule, rule.operands[0], {{0, 3}}), (FactorAxes{{0}, {}}));
  EXPECT_EQ(project(grid, rule, rule.operands[0], {{0, 1, 3}}), (FactorAxes{{0, 1}, {3}}));
}

TEST(DimsOf, JoinsTheFactorsOfADimension) {
  const ShardingRule rule = reshape_rule({4, 6}, {24});
  const FactorAxes axes = {{0, 1}, {3}};
  EXPECT_EQ(dims_of(rule.operands[0], axes), (std::vector<Atoms>{{0, 1}, {3}}));
  EXPECT_EQ(dims_of(rule.results[0], axes), (std::vector<Atoms>{{0, 1, 3}}));
}

TEST(Extend, AddsWhatFits) {
  const Grid grid = make_grid();
  const ShardingRule rule = matmul_rule(8, 8, 8);
  FactorAxes axes(3);
  EXPECT_TRUE(extend(grid, rule, axes, {{0}, {}, {}}));
  EXPECT_TRUE(extend(grid, rule, axes, {{0, 1}, {2}, {}}));
  EXPECT_EQ(axes, (FactorAxes{{0, 1}, {2}, {}}));
  EXPECT_FALSE(extend(grid, rule, axes, {{0, 1}, {2}, {}})) << "nothing new";
  EXPECT_FALSE(extend(grid, rule, axes, {{0}, {}, {}})) << "never less";
}

TEST(Extend, NoAtomServesTwoFactors) {
  const Grid grid = make_grid();
  const ShardingRule rule = matmul_rule(8, 8, 8);
  FactorAxes axes(3);
  extend(grid, rule, axes, {{0}, {}, {}});
  EXPECT_FALSE(extend(grid, rule, axes, {{}, {0}, {0}}));
  EXPECT_EQ(axes, (FactorAxes{{0}, {}, {}}));
  EXPECT_TRUE(extend(grid, rule, axes, {{}, {1, 0, 2}, {}})) << "up to the atom that is taken";
  EXPECT_EQ(axes, (FactorAxes{{0}, {1}, {}}));
}

TEST(Extend, KeepsWhatIsThereFirst) {
  const Grid grid = make_grid();
  const ShardingRule rule = matmul_rule(8, 8, 8);
  FactorAxes axes = {{0}, {}, {}};
  EXPECT_FALSE(extend(grid, rule, axes, {{1, 0}, {}, {}})) << "another split of the same factor is not an extension";
  EXPECT_EQ(axes, (FactorAxes{{0}, {}, {}}));
}

TEST(Extend, LeavesWholeWhatNeedsReplication) {
  const Grid grid = make_grid();
  const ShardingRule rule = rule_of("bitcast", {{"dtype", uint8}}, {type_of(float32, {8})});
  FactorAxes axes(2);
  EXPECT_TRUE(extend(grid, rule, axes, {{0}, {1}}));
  EXPECT_EQ(axes, (FactorAxes{{0}, {}}));
}

TEST(Extend, SplitsMergedDimensionsMajorFactorsFirst) {
  const Grid grid = make_grid();
  const ShardingRule rule = reshape_rule({4, 6}, {24});  // (i, j) -> (ij)
  FactorAxes axes(2);
  EXPECT_FALSE(extend(grid, rule, axes, {{}, {3}})) << "the minor factor alone is no contiguous split";
  EXPECT_TRUE(extend(grid, rule, axes, {{1}, {3}}));
  EXPECT_EQ(axes, (FactorAxes{{1}, {}}));
  EXPECT_TRUE(extend(grid, rule, axes, {{1, 2}, {3}})) << "now that i is divided completely";
  EXPECT_EQ(axes, (FactorAxes{{1, 2}, {3}}));
}

TEST(Extend, SplitsMergedDimensionsEvenly) {
  const Grid grid = make_grid();
  const ShardingRule rule = reshape_rule({4, 6}, {24});
  FactorAxes axes(2);
  EXPECT_FALSE(extend(grid, rule, axes, {{3}, {}})) << "4 is not divisible by 3";
  EXPECT_EQ(axes, FactorAxes(2));
  EXPECT_TRUE(extend(grid, rule, axes, {{0, 3}, {}}));
  EXPECT_EQ(axes, (FactorAxes{{0}, {}}));
}

TEST(ReducedAtoms, AreThoseOfReductionFactors) {
  const ShardingRule rule = matmul_rule(8, 8, 8);
  EXPECT_EQ(reduced_atoms(rule, {{0}, {3}, {2, 1}}), (Atoms{1, 2})) << "sorted";
  EXPECT_EQ(reduced_atoms(rule, {{0}, {3}, {}}), Atoms{});
}

}  // namespace
}  // namespace shoal
