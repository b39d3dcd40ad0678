#include "spmd/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/table.h"

namespace shoal {
namespace {

Graph parsed(std::string_view text) { return parse_graph(text, find_op); }

constexpr std::string_view kLayer = R"(on mesh("x"=2, "y"=4; devices 0..7)
graph "layer"(%0: f32[2,2] varying(x, y) of [4,8] @[x, y], %1: f32[2,4] varying(y) of [8,4] @[y, _]) {
  %2: f32[2,4] varying(x, y) of [4,4] @[x, _] partial(sum: y) = dot_general(%0, %1) {lhs_batch = (), lhs_contract = (1), rhs_batch = (), rhs_contract = (0)}
  %3: f32[2,4] varying(x) of [4,4] @[x, _] = all_reduce(%2) {axes = ["y"], kind = "sum"}
  %4: f32[4,4] of [4,4] @[_, _] = all_gather(%3) {axes = ["x"], dim = 0}
  return %4
})";

TEST(Explain, SaysWhatEveryEquationDoesAndCosts) {
  EXPECT_EQ(explain(parsed(kLayer), 1000),
            "  dot_general  f32[4,8] @[x, y], f32[8,4] @[y, _] -> f32[4,4] @[x, _] partial(sum: y)\n"
            "    computes 32 operations on each device: 0.32 ns, 2% of the program's cost\n"
            "  all_reduce   f32[4,4] @[x, _] partial(sum: y) -> f32[4,4] @[x, _]\n"
            "    moves 48 B to each device, 384 B in all, over (y): 12 ns, 59% of the program's cost\n"
            "  all_gather   f32[4,4] @[x, _] -> f32[4,4] @[_, _]\n"
            "    moves 32 B to each device, 256 B in all, over (x): 8 ns, 39% of the program's cost\n"
            "layer on 8 devices: 2 of 3 equations move 80 B to each device, 640 B in all\n"
            "each device computes 32 operations: 20.3 ns are estimated, 20 ns of them for what moves\n");
}

TEST(Explain, TakesTheSpeedsOfTheMesh) {
  std::string text(kLayer);
  text.replace(text.find("\"y\"=4; devices 0..7"), 19, "\"y\"=4 at 1e+09; devices 0..7 at 1e+12");
  EXPECT_THAT(
      explain(parsed(text), 1000),
      testing::AllOf(testing::HasSubstr("computes 32 operations on each device: 0.032 ns, 0% of"),
                     testing::HasSubstr("over (y): 48 ns, 86% of"), testing::HasSubstr("over (x): 8 ns, 14% of"),
                     testing::HasSubstr("56 ns are estimated, 56 ns of them for what moves")));
}

TEST(Explain, FlagsWhatLiesWholeOnEveryDevice) {
  EXPECT_THAT(explain(parsed(kLayer), 64), testing::HasSubstr("over (x): 8 ns, 39% of the program's cost\n"
                                                              "    REPLICATED: 64 B on each of 8 devices\n"));
  EXPECT_THAT(explain(parsed(kLayer), 65), testing::Not(testing::HasSubstr("REPLICATED")));
}

// Of an equation with several bodies it is told which one is what.
TEST(Explain, NamesBodies) {
  EXPECT_EQ(explain(parsed(R"(on device 0
graph "f"(%0: i32[] of [] @[], %1: f32[4] of [4] @[_]) {
  %2: f32[4] of [4] @[_] = switch(%0, %1) {bodies = graphs(on device 0
    graph "a"(%0: f32[4] of [4] @[_]) {
      return %0
    }, on device 0
    graph "b"(%0: f32[4] of [4] @[_]) {
      %1: f32[4] of [4] @[_] = sin(%0)
      return %1
    })}
  return %2
})"),
                    1000),
            "  switch     i32[] @[], f32[4] @[_] -> f32[4] @[_]\n"
            "   branch 0\n"
            "   branch 1\n"
            "    sin      f32[4] @[_] -> f32[4] @[_]\n"
            "    computes 4 operations on each device: 0.04 ns, 100% of the program's cost\n"
            "f on 1 devices: 0 of 2 equations move 0 B to each device, 0 B in all\n"
            "each device computes 4 operations: 0.04 ns are estimated, 0 ns of them for what moves\n");
}

TEST(Explain, FlagsAttentionThatIsWrittenOut) {
  const std::string attention = R"(on device 0
graph "f"(%0: f32[8,2] of [8,2] @[_, _], %1: f32[8,2] of [8,2] @[_, _]) {
  %2: f32[8,8] of [8,8] @[_, _] = dot_general(%0, %1) {lhs_batch = (), lhs_contract = (1), rhs_batch = (), rhs_contract = (1)}
  %3: f32[8] of [8] @[_] = reduce_max(%2) {axes = (1)}
  %4: f32[8,8] of [8,8] @[_, _] = broadcast_in_dim(%3) {dims = (0), shape = (8, 8)}
  %5: f32[8,8] of [8,8] @[_, _] = subtract(%2, %4)
  %6: f32[8,8] of [8,8] @[_, _] = exp(%5)
  %7: f32[8] of [8] @[_] = reduce_sum(%6) {axes = (1)}
  %8: f32[8,8] of [8,8] @[_, _] = broadcast_in_dim(%7) {dims = (0), shape = (8, 8)}
  %9: f32[8,8] of [8,8] @[_, _] = divide(%6, %8)
  %10: f32[8,2] of [8,2] @[_, _] = dot_general(%9, %1) {lhs_batch = (), lhs_contract = (1), rhs_batch = (), rhs_contract = (0)}
  %11: f32[8,2] of [8,2] @[_, _] = dot_general(%9, %0) {lhs_batch = (), lhs_contract = (0), rhs_batch = (), rhs_contract = (0)}
  return %10, %11
})";
  const std::string text = explain(parsed(attention), 256);
  const std::size_t at =
      text.find("    WRITTEN OUT: attention by an array of weights, 256 B on each device. It stays so");
  EXPECT_NE(at, std::string::npos) << text;
  EXPECT_EQ(text.find("WRITTEN OUT", at + 20), std::string::npos) << "once is enough: " << text;
  EXPECT_THAT(explain(parsed(attention), 257), testing::Not(testing::HasSubstr("WRITTEN OUT")));
}

TEST(Explain, OneDeviceReplicatesNothing) {
  EXPECT_EQ(explain(parsed("on device 0\ngraph \"f\"(%0: f32[4] of [4] @[_]) {\n"
                           "  %1: f32[4] of [4] @[_] = sin(%0)\n  return %1\n}"),
                    0),
            "  sin  f32[4] @[_] -> f32[4] @[_]\n"
            "    computes 4 operations on each device: 0.04 ns, 100% of the program's cost\n"
            "f on 1 devices: 0 of 1 equations move 0 B to each device, 0 B in all\n"
            "each device computes 4 operations: 0.04 ns are estimated, 0 ns of them for what moves\n");
}

}  // namespace
}  // namespace shoal
