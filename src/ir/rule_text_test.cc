#include "ir/rule_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shoal {
namespace {

std::string rule(std::string_view text, const std::vector<Shape>& operands, const std::vector<Shape>& results) {
  return to_string(RuleText(text, "op", {}).for_shapes(operands, results, "op", {}));
}

std::vector<std::int64_t> sizes(std::string_view text, const std::vector<Shape>& operands,
                                const std::vector<Shape>& results) {
  std::vector<std::int64_t> found;
  for (const Factor& factor : RuleText(text, "op", {}).for_shapes(operands, results, "op", {}).factors) {
    found.push_back(factor.size);
  }
  return found;
}

TEST(RuleText, DimensionsOfOneNameBelongTogether) {
  EXPECT_EQ(rule("a b, a b -> a b", {{2, 3}, {2, 3}}, {{2, 3}}), "(i, j), (i, j) -> (i, j)");
  EXPECT_EQ(rule("m_1 k,k n2->m_1 n2 reduction={k}", {{2, 3}, {3, 4}}, {{2, 4}}),
            "(i, j), (j, k) -> (i, k) reduction={j}");
  EXPECT_EQ(rule(" i   j->j i ", {{2, 3}}, {{3, 2}}), "(i, j) -> (j, i)");
  EXPECT_EQ(sizes("i j -> j i", {{2, 3}}, {{3, 2}}), (std::vector<std::int64_t>{2, 3}));
}

TEST(RuleText, ScalarsHaveNoFactors) {
  EXPECT_EQ(rule("i, -> i", {{4}, {}}, {{4}}), "(i), () -> (i)");
  EXPECT_EQ(rule("i -> reduction={i}", {{4}}, {{}}), "(i) -> () reduction={i}");
  EXPECT_EQ(rule("->", {{}}, {{}}), "() -> ()");
}

TEST(RuleText, SeveralResults) {
  EXPECT_EQ(rule("i j -> i j, j i, i need_replication={j}", {{2, 3}}, {{2, 3}, {3, 2}, {2}}),
            "(i, j) -> (i, j), (j, i), (i) need_replication={j}");
}

TEST(RuleText, AnEllipsisStandsForAnyNumberOfLeadingDimensions) {
  EXPECT_EQ(rule("... d -> ... d", {{4}}, {{4}}), "(i) -> (i)");
  EXPECT_EQ(rule("... d, d -> ... d", {{2, 3, 4}, {4}}, {{2, 3, 4}}), "(i, j, k), (k) -> (i, j, k)");
  EXPECT_EQ(rule("...1 i, ...1 -> ...1 i", {{5, 2}, {5}}, {{5, 2}}), "(i, j), (i) -> (i, j)");
  EXPECT_EQ(rule("... -> ...", {{}}, {{}}), "() -> ()");
}

TEST(RuleText, AnEllipsisThatAResultHasNotIsWhole) {
  EXPECT_EQ(rule("... i, ...1 i -> ... i", {{5, 2}, {3, 4, 2}}, {{5, 2}}),
            "(i, j), (k, l, j) -> (i, j) need_replication={k, l}");
}

TEST(RuleText, CompoundDimensions) {
  EXPECT_EQ(rule("(i j) k -> i j k", {{6, 5}}, {{2, 3, 5}}), "(ij, k) -> (i, j, k)");
  EXPECT_EQ(rule("(a b c) -> (a b c) {a=2, b=3, c=4}", {{24}}, {{24}}), "(ijk) -> (ijk)");
  EXPECT_EQ(sizes("(i j) -> j (i k), j {i=2, k=1} need_replication={i,k}", {{6}}, {{3, 2}, {3}}),
            (std::vector<std::int64_t>{2, 3, 1}));
}

TEST(RuleText, KindsOfFactors) {
  EXPECT_EQ(rule("i j k l -> i k l reduction={j} need_replication={k} permutation={l}", {{2, 3, 4, 5}}, {{2, 4, 5}}),
            "(i, j, k, l) -> (i, k, l) reduction={j} need_replication={k} rearranged={l}");
  EXPECT_EQ(rule("i->i k need_replication={i , k}", {{2}}, {{2, 3}}), "(i) -> (i, j) need_replication={i, j}");
}

TEST(RuleText, KnowsWhetherShardsGivePartialSums) {
  EXPECT_TRUE(RuleText("i ->  reduction={i}", "op", {}).has_reduction());
  EXPECT_FALSE(RuleText("i -> i need_replication={i}", "op", {}).has_reduction());
}

}  // namespace
}  // namespace shoal
