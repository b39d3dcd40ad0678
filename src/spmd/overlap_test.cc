#include "spmd/overlap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "ops/table.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;

// The results of a program over two processes, in the order in which they are made afterwards. Its inputs are %0 and
// %1.
std::vector<ValueId> order_of(const std::vector<std::string>& equations, std::string_view devices = "0, 131072") {
  std::string text = "on mesh(\"x\"=2; devices " + std::string(devices) +
                     ")\ngraph \"f\"(%0: f32[8] varying(x) of [16] @[x], %1: f32[8] varying(x) of [16] @[x]) {\n";
  for (const std::string& equation : equations) text += "  " + equation + "\n";
  const Graph graph = overlap(parse_graph(text + "  return %2\n}", find_op));
  verify(graph, "fused");
  std::vector<ValueId> order;
  for (const Eqn& eqn : graph.eqns) order.push_back(eqn.outputs[0]);
  return order;
}

std::string sum(int result, int operand = 0) {
  return "%" + std::to_string(result) + ": f32[8] of [8] @[_] = all_reduce(%" + std::to_string(operand) +
         ") {axes = [\"x\"], kind = \"sum\"}";
}
std::string gather(int result, int operand = 0) {
  return "%" + std::to_string(result) + ": f32[16] of [16] @[_] = all_gather(%" + std::to_string(operand) +
         ") {axes = [\"x\"], dim = 0}";
}
std::string sine(int result, int operand, bool is_whole = false) {
  return "%" + std::to_string(result) + (is_whole ? ": f32[8] of [8] @[_]" : ": f32[8] varying(x) of [16] @[x]") +
         " = sin(%" + std::to_string(operand) + ")";
}

TEST(Overlap, WhatNeedsACollectiveWaitsWithIt) {
  EXPECT_THAT(order_of({sum(2), sine(3, 1), sine(4, 2, true), sine(5, 1), sine(6, 4, true), sine(7, 5)}),
              ElementsAre(3, 5, 7, 2, 4, 6));
}

TEST(Overlap, NothingMovesWithinOneProcess) {
  EXPECT_THAT(order_of({sum(2), sine(3, 1), sine(4, 1)}, "0, 1"), ElementsAre(2, 3, 4));
}

TEST(Overlap, CollectivesKeepTheirOrder) {
  const std::string uses_second = "%7: f32[16] of [16] @[_] = sin(%3)";
  EXPECT_THAT(order_of({gather(2), gather(3, 1), sine(4, 0), gather(5), sine(6, 0), uses_second, sine(8, 0)}),
              ElementsAre(4, 6, 8, 2, 3, 5, 7));
  // One needs what the other makes.
  EXPECT_THAT(
      order_of({gather(2), sine(3, 0), "%4: f32[8] varying(x) of [16] @[x] = shard_slice(%2) {axes = [\"x\"], dim = 0}",
                gather(5, 4), sine(6, 0)}),
      ElementsAre(3, 2, 4, 6, 5));
}

TEST(Overlap, OneThatComesInRoundsEndsBeforeTheNextBegins) {
  EXPECT_THAT(order_of({sum(2), sine(3, 1), gather(4), sine(5, 1), sum(6, 3), sine(7, 1)}),
              ElementsAre(3, 2, 5, 7, 4, 6));
}

}  // namespace
}  // namespace shoal
