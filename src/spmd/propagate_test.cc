#include "spmd/propagate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "shoal/error.h"
#include "spmd/test_support.h"

namespace shoal {
namespace {

using test_support::propagated;

void expect_propagated(std::string_view text, std::string_view expected) {
  EXPECT_EQ(to_text(propagated(text)), expected);
}

TEST(Propagate, ElementwiseOpsShareTheirPlacement) {
  expect_propagated(R"(on mesh("x"=2, "y"=2; devices 0..3)
graph "f"(%0: f32[8,4] @[x, y], %1: f32[8,4], %2: f32[]) {
  %3: f32[8,4] = sin(%0)
  %4: f32[8,4] = add(%3, %1)
  %5: f32[8,4] = multiply(%4, %2)
  return %5
})",
                    R"(on mesh("x"=2, "y"=2; devices 0..3)
graph "f"(%0: f32[8,4] @[x, y], %1: f32[8,4] @[x, y], %2: f32[] @[]) {
  %3: f32[8,4] @[x, y] = sin(%0)
  %4: f32[8,4] @[x, y] = add(%3, %1)
  %5: f32[8,4] @[x, y] = multiply(%4, %2)
  return %5
})");
}

TEST(Propagate, PlacementsGoBackwards) {
  expect_propagated(R"(on mesh("x"=2; devices 0, 1)
graph "f"(%0: f32[8,4], %1: f32[8]) {
  %2: f32[8,4] = sin(%0)
  %3: f32[8,4] = broadcast_in_dim(%1) {dims = (0), shape = (8, 4)}
  %4: f32[8,4] = add(%2, %3)
  %5: f32[8,4] = sharding_constraint(%4) {sharding = sharding(P("x"), memory(device), mesh("x"=2; devices 0, 1))}
  return %5
})",
                    R"(on mesh("x"=2; devices 0, 1)
graph "f"(%0: f32[8,4] @[x, _], %1: f32[8] @[x]) {
  %2: f32[8,4] @[x, _] = sin(%0)
  %3: f32[8,4] @[x, _] = broadcast_in_dim(%1) {dims = (0), shape = (8, 4)}
  %4: f32[8,4] @[x, _] = add(%2, %3)
  %5: f32[8,4] @[x, _] = sharding_constraint(%4) {sharding = sharding(P("x"), memory(device), mesh("x"=2; devices 0, 1))}
  return %5
})");
}

// Of two arrays that lie differently, the one is moved whose exchange goes along the faster axis.
TEST(Propagate, ArraysStaySplitAlongSlowAxes) {
  const auto sum_over = [](const std::string& axes) {
    return to_text(propagated("on mesh(" + axes + R"(; devices 0..3)
graph "f"(%0: f32[8,4] @[x, _], %1: f32[8,4] @[y, _]) {
  %2: f32[8,4] = add(%0, %1)
  return %2
})"));
  };
  EXPECT_THAT(sum_over(R"("x"=2 at 1e+09, "y"=2)"), testing::HasSubstr("%2: f32[8,4] @[x, _] = add(%0, %1)"));
  EXPECT_THAT(sum_over(R"("x"=2, "y"=2 at 1e+09)"), testing::HasSubstr("%2: f32[8,4] @[y, _] = add(%0, %1)"));
}

TEST(Propagate, FixedInputsAreNotRefined) {
  expect_propagated(R"(on mesh("x"=2, "y"=2; devices 0..3)
graph "f"(%0: f32[8,4] @[x, y], %1: f32[8,4] @[_, _]) {
  %2: f32[8,4] = add(%0, %1)
  return %2
})",
                    R"(on mesh("x"=2, "y"=2; devices 0..3)
graph "f"(%0: f32[8,4] @[x, y], %1: f32[8,4] @[_, _]) {
  %2: f32[8,4] @[x, y] = add(%0, %1)
  return %2
})");
}

TEST(Propagate, ContractionsPassFreeAndBatchDimensions) {
  expect_propagated(R"(on mesh("x"=2, "y"=2, "z"=2; devices 0..7)
graph "f"(%0: f32[2,8,4] @[z, x, _], %1: f32[2,4,8] @[_, _, y]) {
  %2: f32[2,8,8] = dot_general(%0, %1) {lhs_batch = (0), lhs_contract = (2), rhs_batch = (0), rhs_contract = (1)}
  return %2
})",
                    R"(on mesh("x"=2, "y"=2, "z"=2; devices 0..7)
graph "f"(%0: f32[2,8,4] @[z, x, _], %1: f32[2,4,8] @[_, _, y]) {
  %2: f32[2,8,8] @[z, x, y] = dot_general(%0, %1) {lhs_batch = (0), lhs_contract = (2), rhs_batch = (0), rhs_contract = (1)}
  return %2
})");
}

TEST(Propagate, ContractedDimensionsAgree) {
  expect_propagated(R"(on mesh("x"=2; devices 0, 1)
graph "f"(%0: f32[8,16] @[_, x], %1: f32[16,4]) {
  %2: f32[8,4] = dot_general(%0, %1) {lhs_batch = (), lhs_contract = (1), rhs_batch = (), rhs_contract = (0)}
  return %2
})",
                    R"(on mesh("x"=2; devices 0, 1)
graph "f"(%0: f32[8,16] @[_, x], %1: f32[16,4] @[x, _]) {
  %2: f32[8,4] @[_, _] = dot_general(%0, %1) {lhs_batch = (), lhs_contract = (1), rhs_batch = (), rhs_contract = (0)}
  return %2
})");
}

TEST(Propagate, ReductionsPassTheDimensionsTheyKeep) {
  expect_propagated(R"(on mesh("x"=2, "y"=2; devices 0..3)
graph "f"(%0: f32[8,4] @[x, y]) {
  %1: f32[4] = reduce_sum(%0) {axes = (0)}
  %2: f32[8,4] = broadcast_in_dim(%1) {dims = (1), shape = (8, 4)}
  return %2
})",
                    R"(on mesh("x"=2, "y"=2; devices 0..3)
graph "f"(%0: f32[8,4] @[x, y]) {
  %1: f32[4] @[y] = reduce_sum(%0) {axes = (0)}
  %2: f32[8,4] @[_, y] = broadcast_in_dim(%1) {dims = (1), shape = (8, 4)}
  return %2
})");
}

TEST(Propagate, TransposesCarryPlacementsAlong) {
  expect_propagated(R"(on mesh("x"=2, "y"=2; devices 0..3)
graph "f"(%0: f32[8,4,2] @[x, _, y]) {
  %1: f32[2,8,4] = transpose(%0) {perm = (2, 0, 1)}
  return %1
})",
                    R"(on mesh("x"=2, "y"=2; devices 0..3)
graph "f"(%0: f32[8,4,2] @[x, _, y]) {
  %1: f32[2,8,4] @[y, x, _] = transpose(%0) {perm = (2, 0, 1)}
  return %1
})");
}

TEST(Propagate, ReshapesDivideAxes) {
  expect_propagated(R"(on mesh("x"=4; devices 0..3)
graph "f"(%0: f32[8] @[x]) {
  %1: f32[2,4] = reshape(%0) {shape = (2, 4)}
  %2: f32[2,4] = sin(%1)
  %3: f32[8] = reshape(%2) {shape = (8)}
  return %3
})",
                    R"(on mesh("x"=4; devices 0..3)
graph "f"(%0: f32[8] @[x]) {
  %1: f32[2,4] @[x:(1)2, x:(2)2] = reshape(%0) {shape = (2, 4)}
  %2: f32[2,4] @[x:(1)2, x:(2)2] = sin(%1)
  %3: f32[8] @[x] = reshape(%2) {shape = (8)}
  return %3
})");
}

TEST(Propagate, ReshapesJoinAxes) {
  // Of 4 rows the axis of 2 leaves pairs: the columns of a pair do not stand next to each other.
  expect_propagated(R"(on mesh("x"=2, "y"=3; devices 0..5)
graph "f"(%0: f32[2,6] @[x, y], %1: f32[4,6] @[x, y]) {
  %2: f32[12] = reshape(%0) {shape = (12)}
  %3: f32[24] = reshape(%1) {shape = (24)}
  return %2, %3
})",
                    R"(on mesh("x"=2, "y"=3; devices 0..5)
graph "f"(%0: f32[2,6] @[x, y], %1: f32[4,6] @[x, y]) {
  %2: f32[12] @[(x, y)] = reshape(%0) {shape = (12)}
  %3: f32[24] @[x] = reshape(%1) {shape = (24)}
  return %2, %3
})");
}

TEST(Propagate, SlicesAreSplitAsTheirOperands) {
  expect_propagated(R"(on mesh("x"=2, "y"=2; devices 0..3)
graph "f"(%0: f32[8,4] @[x, y]) {
  %1: f32[8,2] = slice(%0) {limits = (8, 2), starts = (0, 0), strides = (1, 1)}
  return %1
})",
                    R"(on mesh("x"=2, "y"=2; devices 0..3)
graph "f"(%0: f32[8,4] @[x, y]) {
  %1: f32[8,2] @[x, y] = slice(%0) {limits = (8, 2), starts = (0, 0), strides = (1, 1)}
  return %1
})");
}

TEST(Propagate, TheLargerTensorWins) {
  // Of the sum, that is: the vector would split the columns.
  expect_propagated(R"(on mesh("x"=2; devices 0, 1)
graph "f"(%0: f32[4] @[x], %1: f32[8,4] @[x, _]) {
  %2: f32[8,4] = broadcast_in_dim(%0) {dims = (1), shape = (8, 4)}
  %3: f32[8,4] = add(%2, %1)
  return %3
})",
                    R"(on mesh("x"=2; devices 0, 1)
graph "f"(%0: f32[4] @[x], %1: f32[8,4] @[x, _]) {
  %2: f32[8,4] @[x, _] = broadcast_in_dim(%0) {dims = (1), shape = (8, 4)}
  %3: f32[8,4] @[x, _] = add(%2, %1)
  return %3
})");
}

TEST(Propagate, ElementwiseOpsComeFirst) {
  expect_propagated(R"(on mesh("x"=2; devices 0, 1)
graph "f"(%0: f32[8,8] @[x, _], %1: f32[8,8] @[_, x]) {
  %2: f32[8,8] = transpose(%0) {perm = (1, 0)}
  %3: f32[8,8] = dot_general(%2, %0) {lhs_batch = (), lhs_contract = (0), rhs_batch = (), rhs_contract = (1)}
  %4: f32[8,8] = add(%3, %1)
  return %4
})",
                    R"(on mesh("x"=2; devices 0, 1)
graph "f"(%0: f32[8,8] @[x, _], %1: f32[8,8] @[_, x]) {
  %2: f32[8,8] @[_, x] = transpose(%0) {perm = (1, 0)}
  %3: f32[8,8] @[_, x] = dot_general(%2, %0) {lhs_batch = (), lhs_contract = (0), rhs_batch = (), rhs_contract = (1)}
  %4: f32[8,8] @[_, x] = add(%3, %1)
  return %4
})");
}

TEST(Propagate, OfEqualsTheFirstWins) {
  expect_propagated(R"(on mesh("x"=2, "y"=2; devices 0..3)
graph "f"(%0: f32[8] @[x], %1: f32[8] @[y]) {
  %2: f32[8] = add(%0, %1)
  %3: f32[8] = add(%1, %0)
  return %2, %3
})",
                    R"(on mesh("x"=2, "y"=2; devices 0..3)
graph "f"(%0: f32[8] @[x], %1: f32[8] @[y]) {
  %2: f32[8] @[x] = add(%0, %1)
  %3: f32[8] @[y] = add(%1, %0)
  return %2, %3
})");
}

TEST(Propagate, TheCheapestWishWins) {
  // Of two that are equally large the first would win. But the mask agrees with the other, so that two had to move.
  expect_propagated(R"(on mesh("x"=2; devices 0, 1)
graph "f"(%0: bool[8,4] @[x, _], %1: f32[8,4] @[_, x], %2: f32[8,4] @[x, _]) {
  %3: f32[8,4] = select(%0, %1, %2)
  return %3
})",
                    R"(on mesh("x"=2; devices 0, 1)
graph "f"(%0: bool[8,4] @[x, _], %1: f32[8,4] @[_, x], %2: f32[8,4] @[x, _]) {
  %3: f32[8,4] @[x, _] = select(%0, %1, %2)
  return %3
})");
}

TEST(Propagate, DimensionsThatAreComputedAloneComeBeforeSums) {
  // x can split one of the factors only. Left to the sum, each device would have to add up the whole product.
  expect_propagated(R"(on mesh("x"=4; devices 0..3)
graph "f"(%0: f32[64,32] @[x, _], %1: f32[32,128] @[x, _]) {
  %2: f32[64,128] = dot_general(%0, %1) {lhs_batch = (), lhs_contract = (1), rhs_batch = (), rhs_contract = (0)}
  return %2
})",
                    R"(on mesh("x"=4; devices 0..3)
graph "f"(%0: f32[64,32] @[x, _], %1: f32[32,128] @[x, _]) {
  %2: f32[64,128] @[x, _] = dot_general(%0, %1) {lhs_batch = (), lhs_contract = (1), rhs_batch = (), rhs_contract = (0)}
  return %2
})");
}

TEST(Propagate, WhatNobodyDisagreesWithDecides) {
  // The operands of the sum disagree; where its result is wanted is known only after it.
  expect_propagated(R"(on mesh("x"=2; devices 0, 1)
graph "f"(%0: f32[8,4] @[x, _], %1: f32[8,4] @[_, x]) {
  %2: f32[8,4] = add(%0, %1)
  %3: f32[8,4] = sin(%2)
  %4: f32[8,4] = sharding_constraint(%3) {sharding = sharding(P(_, "x"), memory(device), mesh("x"=2; devices 0, 1))}
  return %4
})",
                    R"(on mesh("x"=2; devices 0, 1)
graph "f"(%0: f32[8,4] @[x, _], %1: f32[8,4] @[_, x]) {
  %2: f32[8,4] @[_, x] = add(%0, %1)
  %3: f32[8,4] @[_, x] = sin(%2)
  %4: f32[8,4] @[_, x] = sharding_constraint(%3) {sharding = sharding(P(_, "x"), memory(device), mesh("x"=2; devices 0, 1))}
  return %4
})");
}

TEST(Propagate, AValueWithOneUserIsFollowedFirst) {
  // %3 could follow %1 through the product or %0 through the sum. The sum, whose operands nobody else uses, is asked
  // first.
  expect_propagated(R"(on mesh("x"=2; devices 0, 1)
graph "f"(%0: f32[8,8] @[_, x], %1: f32[8,8] @[x, _]) {
  %2: f32[8,8] = cos(%1)
  %3: f32[8,8] = dot_general(%2, %1) {lhs_batch = (), lhs_contract = (1), rhs_batch = (), rhs_contract = (0)}
  %4: f32[8,8] = add(%3, %0)
  return %4
})",
                    R"(on mesh("x"=2; devices 0, 1)
graph "f"(%0: f32[8,8] @[_, x], %1: f32[8,8] @[x, _]) {
  %2: f32[8,8] @[x, _] = cos(%1)
  %3: f32[8,8] @[_, x] = dot_general(%2, %1) {lhs_batch = (), lhs_contract = (1), rhs_batch = (), rhs_contract = (0)}
  %4: f32[8,8] @[_, x] = add(%3, %0)
  return %4
})");
}

TEST(Propagate, ASmallOperandDoesNotSayHowItIsRepeated) {
  // The vector would split the columns of its matrix. The product splits its rows.
  expect_propagated(R"(on mesh("x"=2; devices 0, 1)
graph "f"(%0: f32[4] @[x], %1: f32[8,8] @[x, _], %2: f32[8,4] @[_, _]) {
  %3: f32[8,4] = broadcast_in_dim(%0) {dims = (1), shape = (8, 4)}
  %4: f32[8,4] = dot_general(%1, %2) {lhs_batch = (), lhs_contract = (1), rhs_batch = (), rhs_contract = (0)}
  %5: f32[8,4] = add(%3, %4)
  return %5
})",
                    R"(on mesh("x"=2; devices 0, 1)
graph "f"(%0: f32[4] @[x], %1: f32[8,8] @[x, _], %2: f32[8,4] @[_, _]) {
  %3: f32[8,4] @[x, _] = broadcast_in_dim(%0) {dims = (1), shape = (8, 4)}
  %4: f32[8,4] @[x, _] = dot_general(%1, %2) {lhs_batch = (), lhs_contract = (1), rhs_batch = (), rhs_contract = (0)}
  %5: f32[8,4] @[x, _] = add(%3, %4)
  return %5
})");
}

TEST(Propagate, ConstraintsCloseDimensions) {
  expect_propagated(R"(on mesh("x"=2, "y"=2; devices 0..3)
graph "f"(%0: f32[8,4] @[x, y]) {
  %1: f32[8,4] = sharding_constraint(%0) {sharding = sharding(P(_, "y"), memory(device), mesh("x"=2, "y"=2; devices 0..3))}
  %2: f32[8,4] = sin(%1)
  return %2
})",
                    R"(on mesh("x"=2, "y"=2; devices 0..3)
graph "f"(%0: f32[8,4] @[x, y]) {
  %1: f32[8,4] @[_, y] = sharding_constraint(%0) {sharding = sharding(P(_, "y"), memory(device), mesh("x"=2, "y"=2; devices 0..3))}
  %2: f32[8,4] @[_, y] = sin(%1)
  return %2
})");
}

TEST(Propagate, UnconstrainedDimensionsStayOpen) {
  expect_propagated(R"(on mesh("x"=2, "y"=2; devices 0..3)
graph "f"(%0: f32[8,4] @[x, y]) {
  %1: f32[8,4] = sharding_constraint(%0) {sharding = sharding(P(?), memory(device), mesh("x"=2, "y"=2; devices 0..3))}
  %2: f32[8,4] = sin(%1)
  return %2
})",
                    R"(on mesh("x"=2, "y"=2; devices 0..3)
graph "f"(%0: f32[8,4] @[x, y]) {
  %1: f32[8,4] @[x, _] = sharding_constraint(%0) {sharding = sharding(P(?), memory(device), mesh("x"=2, "y"=2; devices 0..3))}
  %2: f32[8,4] @[x, _] = sin(%1)
  return %2
})");
}

TEST(Propagate, CreatedValuesLieAsTheirUseDoes) {
  expect_propagated(R"(on mesh("x"=2, "y"=2; devices 0..3)
graph "f"(%0: f32[8,4] @[x, y]) {
  %1: f32[8,4] = full() {shape = (8, 4), value = f32(1)}
  %2: f32[8,4] = iota() {dim = 0, dtype = f32, shape = (8, 4)}
  %3: f32[8,4] = add(%0, %1)
  %4: f32[8,4] = add(%3, %2)
  return %4
})",
                    R"(on mesh("x"=2, "y"=2; devices 0..3)
graph "f"(%0: f32[8,4] @[x, y]) {
  %1: f32[8,4] @[x, y] = full() {shape = (8, 4), value = f32(1)}
  %2: f32[8,4] @[x, y] = iota() {dim = 0, dtype = f32, shape = (8, 4)}
  %3: f32[8,4] @[x, y] = add(%0, %1)
  %4: f32[8,4] @[x, y] = add(%3, %2)
  return %4
})");
}

TEST(Propagate, MeshesMayNameAxesDifferently) {
  expect_propagated(R"(on mesh("x"=2, "y"=2; devices 0..3)
graph "f"(%0: f32[8,4]) {
  %1: f32[8,4] = sharding_constraint(%0) {sharding = sharding(P("all"), memory(device), mesh("all"=4; devices 0..3))}
  return %1
})",
                    R"(on mesh("x"=2, "y"=2; devices 0..3)
graph "f"(%0: f32[8,4] @[(x, y), _]) {
  %1: f32[8,4] @[(x, y), _] = sharding_constraint(%0) {sharding = sharding(P("all"), memory(device), mesh("all"=4; devices 0..3))}
  return %1
})");
}

TEST(Propagate, ManualAxesStayOutside) {
  expect_propagated(R"(on mesh("x"=2, "y"=2; devices 0..3)
graph "f"(%0: f32[8,4] @[x, y]) {
  %1: f32[8,4] = shard_map(%0) {axes = ["x"], body = graph "g" over("x"=2)(%0: f32[4,4]{V:x}) {
      %1: f32[4,4]{V:x} = sin(%0)
      return %1
    }, in_specs = specs(P("x")), mesh = mesh("x"=2, "y"=2; devices 0..3), out_specs = specs(P("x"))}
  %2: f32[8,4] = cos(%1)
  return %2
})",
                    R"(on mesh("x"=2, "y"=2; devices 0..3)
graph "f"(%0: f32[8,4] @[x, y]) {
  %1: f32[8,4] @[x, y] = sharding_constraint(%0) {sharding = sharding(P("x"), memory(device), mesh("x"=2, "y"=2; devices 0..3))}
  %2: f32[4,4] @[_, y] manual(x) = enter_manual(%1) {axes = ["x"], sharding = sharding(P("x"), memory(device), mesh("x"=2, "y"=2; devices 0..3))}
  %3: f32[4,4] @[_, y] manual(x) = sin(%2)
  %4: f32[8,4] @[x, y] = leave_manual(%3) {axes = ["x"], sharding = sharding(P("x"), memory(device), mesh("x"=2, "y"=2; devices 0..3))}
  %5: f32[8,4] @[x, y] = cos(%4)
  return %5
})");
}

TEST(Propagate, NeedsAGrid) {
  EXPECT_THROW(propagate(parse_graph("graph \"f\"() { return }", find_op), {}), InternalError);
}

}  // namespace
}  // namespace shoal
