#include "backend/cpu/merged_nodes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace shoal::cpu {
namespace {

MergedNodes::Needs random_needs(std::mt19937& random, std::size_t equations) {
  MergedNodes::Needs needs(equations);
  for (std::size_t i = 1; i < equations; ++i) {
    for (std::size_t count = random() % 3; count > 0; --count) {
      // Mostly what is near.
      const std::size_t back = 1 + random() % (random() % 4 == 0 ? i : std::min<std::size_t>(i, 6));
      if (std::ranges::count(needs[i], i - back) == 0) needs[i].push_back(i - back);
    }
  }
  return needs;
}

std::vector<std::size_t> members_of(const MergedNodes& nodes, std::size_t node) {
  return {nodes.members(node).begin(), nodes.members(node).end()};
}

// Whether a third node needs one and is needed by the other, by looking at all.
bool has_way_round(const MergedNodes& nodes, std::size_t a, std::size_t b, std::size_t equations) {
  const auto leads_back = [&](std::size_t from, std::size_t to) {
    std::vector<bool> visited(equations, false);
    std::vector<std::size_t> open;
    const auto look = [&](std::size_t node) {
      for (const std::size_t member : nodes.members(node)) {
        for (const std::size_t source : nodes.needs()[member]) {
          const std::size_t other = nodes.node_of(source);
          if (visited[other] || other == from || (node == from && other == to)) continue;
          visited[other] = true;
          open.push_back(other);
        }
      }
    };
    look(from);
    while (!open.empty()) {
      const std::size_t node = open.back();
      open.pop_back();
      if (node == to) return true;
      look(node);
    }
    return false;
  };
  return leads_back(a, b) || leads_back(b, a);
}

TEST(MergedNodes, AreMergedUnlessOthersAreBetweenThem) {
  MergedNodes nodes({{}, {0}, {1}, {0}, {2, 3}});
  EXPECT_FALSE(nodes.merge(0, 2)) << "1 is between them";
  EXPECT_TRUE(nodes.merge(0, 3));
  EXPECT_EQ(members_of(nodes, 0), (std::vector<std::size_t>{0, 3}));
  EXPECT_TRUE(nodes.members(3).empty());
  EXPECT_FALSE(nodes.merge(0, 4)) << "1 and 2 are between them";
  EXPECT_TRUE(nodes.merge(1, 0));
  EXPECT_FALSE(nodes.merge(0, 4));
  EXPECT_TRUE(nodes.merge(0, 2));
  EXPECT_TRUE(nodes.merge(4, 0));
  EXPECT_EQ(members_of(nodes, 0), (std::vector<std::size_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(nodes.node_of(4), 0U);
}

TEST(MergedNodes, AgreeWithASearchOfAll) {
  std::mt19937 random(1);
  int merged = 0;
  int refused = 0;
  for (int round = 0; round < 60; ++round) {
    const std::size_t equations = 20 + random() % 300;
    MergedNodes nodes(random_needs(random, equations));
    for (int tries = 0; tries < 400; ++tries) {
      const std::size_t a = nodes.node_of(random() % equations);
      const std::size_t b =
          nodes.node_of(std::min<std::size_t>(equations - 1, a + random() % (tries % 3 == 0 ? 200 : 8)));
      if (a == b) continue;
      const bool is_free = !has_way_round(nodes, a, b, equations);
      ASSERT_EQ(nodes.merge(a, b), is_free) << a << " and " << b << " in round " << round;
      ++(is_free ? merged : refused);
    }
  }
  EXPECT_GT(merged, 1000);
  EXPECT_GT(refused, 1000);
}

TEST(ChangingOrder, GivesLabelsAnewWhereThereIsNoRoom) {
  ChangingOrder order(4);
  for (int i = 0; i < 200; ++i) order.move_after(i % 2 == 0 ? 2 : 3, 0);
  EXPECT_TRUE(order.is_before(0, 3));
  EXPECT_TRUE(order.is_before(3, 2));
  EXPECT_TRUE(order.is_before(2, 1));
  order.remove(0);
  order.move_before(1, 3);
  EXPECT_TRUE(order.is_before(1, 3));
}

}  // namespace
}  // namespace shoal::cpu
