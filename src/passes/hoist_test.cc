#include "passes/hoist.h"

#include <gtest/gtest.h>

#include "ops/table.h"
#include "passes/dce.h"

namespace shoal {
namespace {

std::string hoisted(std::string_view text) {
  const Graph graph = parse_graph(text, find_op);
  verify(graph, "traced");
  const Graph result = dce(hoist(graph));
  verify(result, "hoisted");
  EXPECT_TRUE(graphs_equal(dce(hoist(result)), result)) << "once is enough";
  return to_text(result);
}

// A sum and the sine of it leave, with the transposed array that they are made of; so does what only the loop inside
// had. A product that is larger than its operands stays, and so does what is made of a carry.
TEST(Hoist, MovesWhatIsTheSameInEveryTrip) {
  EXPECT_EQ(hoisted(R"(graph "main"(%0: f32[4], %1: f32[4,2]) {
  %2: f32[4] = scan(%0, %1) {bodies = graphs(graph "outer"(%0: f32[4], %1: f32[4,2]) {
      %2: f32[4] = scan(%0, %1) {bodies = graphs(graph "inner"(%0: f32[4], %1: f32[4,2]) {
              %2: f32[2,4] = transpose(%1) {perm = (1, 0)}
              %3: f32[4] = reduce_sum(%2) {axes = (0)}
              %4: f32[4] = sin(%3)
              %5: f32[4] = multiply(%0, %4)
              %6: f32[4,4] = dot_general(%1, %2) {lhs_batch = (), lhs_contract = (1), rhs_batch = (), rhs_contract = (0)}
              %7: f32[4] = reduce_max(%6) {axes = (0)}
              %8: f32[4] = add(%5, %7)
              return %8
            }), carries = 1, length = 5, reverse = false, slices = 0}
      return %2
    }), carries = 1, length = 3, reverse = false, slices = 0}
  return %2
})"),
            R"(graph "main"(%0: f32[4], %1: f32[4,2]) {
  %2: f32[2,4] = transpose(%1) {perm = (1, 0)}
  %3: f32[4] = reduce_sum(%2) {axes = (0)}
  %4: f32[4] = sin(%3)
  %5: f32[4,4] = dot_general(%1, %2) {lhs_batch = (), lhs_contract = (1), rhs_batch = (), rhs_contract = (0)}
  %6: f32[4] = reduce_max(%5) {axes = (0)}
  %7: f32[4] = scan(%0, %4, %6) {bodies = graphs(graph "outer"(%0: f32[4], %1: f32[4], %2: f32[4]) {
      %3: f32[4] = scan(%0, %1, %2) {bodies = graphs(graph "inner"(%0: f32[4], %1: f32[4], %2: f32[4]) {
          %3: f32[4] = multiply(%0, %1)
          %4: f32[4] = add(%3, %2)
          return %4
        }), carries = 1, length = 5, reverse = false, slices = 0}
      return %3
    }), carries = 1, length = 3, reverse = false, slices = 0}
  return %7
})");
}

// A carry that is handed on as it is is no carry, and what is made of it leaves.
TEST(Hoist, CarriesThatAreHandedOnAreCaptures) {
  EXPECT_EQ(hoisted(R"(graph "main"(%0: f32[4], %1: f32[4]) {
  %2: f32[4], %3: f32[4] = scan(%0, %1) {bodies = graphs(graph "body"(%0: f32[4], %1: f32[4]) {
      %2: f32[4] = sin(%1)
      %3: f32[4] = multiply(%0, %2)
      return %3, %1
    }), carries = 2, length = 5, reverse = false, slices = 0}
  %4: f32[4] = add(%2, %3)
  return %4
})"),
            R"(graph "main"(%0: f32[4], %1: f32[4]) {
  %2: f32[4] = sin(%1)
  %3: f32[4] = scan(%0, %2) {bodies = graphs(graph "body"(%0: f32[4], %1: f32[4]) {
      %2: f32[4] = multiply(%0, %1)
      return %2
    }), carries = 1, length = 5, reverse = false, slices = 0}
  %4: f32[4] = add(%3, %1)
  return %4
})");
}

// Sharded weights are gathered in each trip, so that one layer's are there at a time.
TEST(Hoist, LeavesWhatIsLargerThanItsOperands) {
  const std::string text = R"(graph "main"(%0: f32[4,4], %1: f32[4]) {
  %2: f32[4,4] = scan(%0, %1) {bodies = graphs(graph "body"(%0: f32[4,4], %1: f32[4]) {
      %2: f32[4,4] = broadcast_in_dim(%1) {dims = (0), shape = (4, 4)}
      %3: f32[4,4] = add(%0, %2)
      return %3
    }), carries = 1, length = 3, reverse = false, slices = 0}
  return %2
})";
  EXPECT_EQ(hoisted(text), text);
}

TEST(Hoist, LeavesBranchesAndRegionsAsTheyAre) {
  const std::string text = R"(graph "main"(%0: f32[4], %1: i32[]) {
  %2: f32[4] = switch(%1, %0) {bodies = graphs(graph "a"(%0: f32[4]) {
      %1: f32[4] = sin(%0)
      return %1
    }, graph "b"(%0: f32[4]) {
      %1: f32[4] = cos(%0)
      return %1
    })}
  %3: f32[4] = region(%2) {bodies = graphs(graph "r"(%0: f32[4]) {
      %1: f32[4] = exp(%0)
      return %1
    })}
  return %3
})";
  EXPECT_EQ(hoisted(text), text);
}

// The question and the body each give something up.
TEST(Hoist, MovesFromAllBodiesOfALoop) {
  EXPECT_EQ(hoisted(R"(graph "main"(%0: f32[], %1: f32[]) {
  %2: f32[] = while(%0, %1) {bodies = graphs(graph "condition"(%0: f32[], %1: f32[]) {
      %2: f32[] = sin(%1)
      %3: bool[] = less(%0, %2)
      return %3
    }, graph "body"(%0: f32[], %1: f32[]) {
      %2: f32[] = cos(%1)
      %3: f32[] = add(%0, %2)
      return %3
    }), carries = 1}
  return %2
})"),
            R"(graph "main"(%0: f32[], %1: f32[]) {
  %2: f32[] = sin(%1)
  %3: f32[] = cos(%1)
  %4: f32[] = while(%0, %2, %3) {bodies = graphs(graph "condition"(%0: f32[], %1: f32[], %2: f32[]) {
      %3: bool[] = less(%0, %1)
      return %3
    }, graph "body"(%0: f32[], %1: f32[], %2: f32[]) {
      %3: f32[] = add(%0, %2)
      return %3
    }), carries = 1}
  return %4
})");
}

}  // namespace
}  // namespace shoal
