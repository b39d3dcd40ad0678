#include "spmd/cost.h"

#include <gtest/gtest.h>

#include "ops/table.h"

namespace shoal {
namespace {

// The bytes of the only equation of a body over a mesh of x = 2 and y = 4.
double bytes_of(const std::string& input, const std::string& eqn) {
  const Graph graph = parse_graph(
      "on mesh(\"x\"=2, \"y\"=4; devices 0..7)\ngraph \"f\"(%0: " + input + ") {\n  %1: " + eqn + "\n  return %1\n}",
      find_op);
  return received_bytes(graph, graph.eqns.at(0));
}

TEST(ReceivedBytes, OfEachCollective) {
  const std::string partial = "f32[8] varying(y) of [8] @[_] partial(sum: y)";
  const std::string split = "f32[2] varying(y) of [8] @[y]";
  EXPECT_EQ(bytes_of(partial, "f32[8] of [8] @[_] = all_reduce(%0) {axes = [\"y\"], kind = \"sum\"}"), 2 * 32 * 3 / 4);
  const std::string manual = "f32[8] manual(y) varying(y) of [8] @[_]";
  EXPECT_EQ(bytes_of(manual, manual + " = all_reduce(%0) {axes = [\"y\"], group_sizes = (2, 2), groups = (0, 1, 2, 3), "
                                      "kind = \"sum\"}"),
            2 * 32 / 2)
      << "two groups of two";
  EXPECT_EQ(bytes_of(partial, split + " = reduce_scatter(%0) {axes = [\"y\"], dim = 0, kind = \"sum\"}"), 32 * 3 / 4);
  EXPECT_EQ(bytes_of(split, "f32[8] of [8] @[_] = all_gather(%0) {axes = [\"y\"], dim = 0}"), 8 * 3);
  EXPECT_EQ(
      bytes_of("f32[2,4] varying(y) of [8,4] @[y, _]",
               "f32[8,1] varying(y) of [8,4] @[_, y] = all_to_all(%0) {axes = [\"y\"], concat_dim = 0, split_dim = 1}"),
      32 * 3 / 4);
  EXPECT_EQ(
      bytes_of(split, split + " = collective_permute(%0) {axes = [\"y\"], sources = (0, 1, 2, 3), targets = (0, 1, "
                              "3, 2)}"),
      8.0 / 2)
      << "two of four receive something";
  EXPECT_EQ(bytes_of(split, split + " = exclusive_scan(%0) {axes = [\"y\"], kind = \"sum\", reverse = false}"), 8 * 3);
  EXPECT_EQ(bytes_of(split, split + " = rearrange(%0) {axes = [\"y\"], dim = 0, extents = (8), fills = false, "
                                    "runs = (0, 7, 0, 1, 1, 1, 0, 1, 7, 1, 0, 1), size = 8}"),
            4)
      << "a roll by one: of two elements one comes from another device";
  EXPECT_EQ(bytes_of("f32[8] of [8] @[_]", split + " = shard_slice(%0) {axes = [\"y\"], dim = 0}"), 0);
  EXPECT_EQ(bytes_of(split, split + " = sin(%0)"), 0);
}

// An exchange along several axes takes as long as along the slowest.
TEST(Cost, IsTimeAtTheSpeedsOfTheMesh) {
  const Graph graph = parse_graph(R"(on mesh("x"=2 at 1e+09, "y"=4; devices 0..7 at 1e+12)
graph "f"(%0: f32[1] varying(x, y) of [8] @[(x, y)], %1: f32[2] varying(y) of [8] @[y]) {
  %2: f32[8] of [8] @[_] = all_gather(%0) {axes = ["x", "y"], dim = 0}
  %3: f32[8] of [8] @[_] = all_gather(%1) {axes = ["y"], dim = 0}
  %4: f32[8] of [8] @[_] = add(%2, %3)
  return %4
})",
                                  find_op);
  const Grid& grid = *graph.grid;
  const auto seconds = [&](std::size_t eqn) { return cost_of(graph, graph.eqns.at(eqn)).seconds(grid); };
  EXPECT_DOUBLE_EQ(seconds(0), 28 / 1e9);
  EXPECT_DOUBLE_EQ(seconds(1), 24 / 4e9);
  EXPECT_DOUBLE_EQ(seconds(2), 8 / 1e12);
  EXPECT_DOUBLE_EQ(cost_of_program(graph).seconds(grid), 28 / 1e9 + 24 / 4e9 + 8 / 1e12);
  EXPECT_EQ(received_bytes(graph, graph.eqns[0]), 28) << "what is received is not what it costs";
}

}  // namespace
}  // namespace shoal
