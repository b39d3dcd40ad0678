#include "spmd/partition.h"

#include <gtest/gtest.h>

#include <string_view>

#include "spmd/cost.h"
#include "spmd/test_support.h"

namespace shoal {
namespace {

Graph partitioned(std::string_view text) {
  Graph result = partition(test_support::propagated(text));
  verify(result, "partitioned");
  return result;
}

void expect_partitioned(std::string_view text, std::string_view expected) {
  EXPECT_EQ(to_text(partitioned(text)), expected);
}

TEST(Partition, ASplitContractionIsReduced) {
  expect_partitioned(R"(on mesh("x"=2, "y"=2; devices 0..3)
graph "f"(%0: f32[8,16] @[_, x], %1: f32[16,4] @[x, _]) {
  %2: f32[8,4] = dot_general(%0, %1) {lhs_batch = (), lhs_contract = (1), rhs_batch = (), rhs_contract = (0)}
  return %2
})",
                     R"(on mesh("x"=2, "y"=2; devices 0..3)
graph "f"(%0: f32[8,8] varying(x) of [8,16] @[_, x], %1: f32[8,4] varying(x) of [16,4] @[x, _]) {
  %2: f32[8,4] varying(x) of [8,4] @[_, _] partial(sum: x) = dot_general(%0, %1) {lhs_batch = (), lhs_contract = (1), rhs_batch = (), rhs_contract = (0)}
  %3: f32[8,4] of [8,4] @[_, _] = all_reduce(%2) {axes = ["x"], kind = "sum"}
  return %3
})");
}

TEST(Partition, ASumThatIsWantedSplitIsOneReduceScatter) {
  expect_partitioned(R"(on mesh("x"=4; devices 0..3)
graph "f"(%0: f32[8,16] @[x, _]) {
  %1: f32[16] = reduce_sum(%0) {axes = (0)}
  %2: f32[16] = sharding_constraint(%1) {sharding = sharding(P("x"), memory(device), mesh("x"=4; devices 0..3))}
  return %2
})",
                     R"(on mesh("x"=4; devices 0..3)
graph "f"(%0: f32[2,16] varying(x) of [8,16] @[x, _]) {
  %1: f32[16] varying(x) of [16] @[_] partial(sum: x) = reduce_sum(%0) {axes = (0)}
  %2: f32[4] varying(x) of [16] @[x] = reduce_scatter(%1) {axes = ["x"], dim = 0, kind = "sum"}
  return %2
})");
}

TEST(Partition, AGradientUnderFsdpIsOneReduceScatter) {
  expect_partitioned(R"(on mesh("x"=4; devices 0..3)
graph "f"(%0: f32[32,8] @[x, _], %1: f32[32,16] @[x, _]) {
  %2: f32[8,16] = dot_general(%0, %1) {lhs_batch = (), lhs_contract = (0), rhs_batch = (), rhs_contract = (0)}
  %3: f32[8,16] = sharding_constraint(%2) {sharding = sharding(P("x"), memory(device), mesh("x"=4; devices 0..3))}
  return %3
})",
                     R"(on mesh("x"=4; devices 0..3)
graph "f"(%0: f32[8,8] varying(x) of [32,8] @[x, _], %1: f32[8,16] varying(x) of [32,16] @[x, _]) {
  %2: f32[8,16] varying(x) of [8,16] @[_, _] partial(sum: x) = dot_general(%0, %1) {lhs_batch = (), lhs_contract = (0), rhs_batch = (), rhs_contract = (0)}
  %3: f32[2,16] varying(x) of [8,16] @[x, _] = reduce_scatter(%2) {axes = ["x"], dim = 0, kind = "sum"}
  return %3
})");
}

TEST(Partition, OtherReductionsKeepTheirKind) {
  expect_partitioned(R"(on mesh("x"=4; devices 0..3)
graph "f"(%0: f32[8,16] @[x, _]) {
  %1: f32[16] = reduce_max(%0) {axes = (0)}
  %2: f32[] = reduce_prod(%0) {axes = (0, 1)}
  return %1, %2
})",
                     R"(on mesh("x"=4; devices 0..3)
graph "f"(%0: f32[2,16] varying(x) of [8,16] @[x, _]) {
  %1: f32[16] varying(x) of [16] @[_] partial(max: x) = reduce_max(%0) {axes = (0)}
  %2: f32[] varying(x) of [] @[] partial(prod: x) = reduce_prod(%0) {axes = (0, 1)}
  %3: f32[16] of [16] @[_] = all_reduce(%1) {axes = ["x"], kind = "max"}
  %4: f32[] of [] @[] = all_reduce(%2) {axes = ["x"], kind = "prod"}
  return %3, %4
})");
}

TEST(Partition, ABatchOfProductsNeedsNoCommunication) {
  expect_partitioned(R"(on mesh("x"=2, "y"=2; devices 0..3)
graph "f"(%0: f32[4,8,16] @[x, y, _], %1: f32[4,16,4] @[x, _, _]) {
  %2: f32[4,8,4] = dot_general(%0, %1) {lhs_batch = (0), lhs_contract = (2), rhs_batch = (0), rhs_contract = (1)}
  return %2
})",
                     R"(on mesh("x"=2, "y"=2; devices 0..3)
graph "f"(%0: f32[2,4,16] varying(x, y) of [4,8,16] @[x, y, _], %1: f32[2,16,4] varying(x) of [4,16,4] @[x, _, _]) {
  %2: f32[2,4,4] varying(x, y) of [4,8,4] @[x, y, _] = dot_general(%0, %1) {lhs_batch = (0), lhs_contract = (2), rhs_batch = (0), rhs_contract = (1)}
  return %2
})");
}

TEST(Partition, TwoLayersAreReducedOnce) {
  expect_partitioned(R"(on mesh("x"=2, "y"=4; devices 0..7)
graph "f"(%0: f32[8,16] @[x, _], %1: f32[16,64] @[_, y], %2: f32[64,16] @[y, _]) {
  %3: f32[8,64] = dot_general(%0, %1) {lhs_batch = (), lhs_contract = (1), rhs_batch = (), rhs_contract = (0)}
  %4: f32[8,64] = tanh(%3)
  %5: f32[8,16] = dot_general(%4, %2) {lhs_batch = (), lhs_contract = (1), rhs_batch = (), rhs_contract = (0)}
  %6: f32[8,16] = sharding_constraint(%5) {sharding = sharding(P("x"), memory(device), mesh("x"=2, "y"=4; devices 0..7))}
  return %6
})",
                     R"(on mesh("x"=2, "y"=4; devices 0..7)
graph "f"(%0: f32[4,16] varying(x) of [8,16] @[x, _], %1: f32[16,16] varying(y) of [16,64] @[_, y], %2: f32[16,16] varying(y) of [64,16] @[y, _]) {
  %3: f32[4,16] varying(x, y) of [8,64] @[x, y] = dot_general(%0, %1) {lhs_batch = (), lhs_contract = (1), rhs_batch = (), rhs_contract = (0)}
  %4: f32[4,16] varying(x, y) of [8,64] @[x, y] = tanh(%3)
  %5: f32[4,16] varying(x, y) of [8,16] @[x, _] partial(sum: y) = dot_general(%4, %2) {lhs_batch = (), lhs_contract = (1), rhs_batch = (), rhs_contract = (0)}
  %6: f32[4,16] varying(x) of [8,16] @[x, _] = all_reduce(%5) {axes = ["y"], kind = "sum"}
  return %6
})");
}

TEST(Partition, WeightsUnderFsdpAreGathered) {
  expect_partitioned(R"(on mesh("x"=4; devices 0..3)
graph "f"(%0: f32[32,8] @[x, _], %1: f32[8,16] @[x, _]) {
  %2: f32[32,16] = dot_general(%0, %1) {lhs_batch = (), lhs_contract = (1), rhs_batch = (), rhs_contract = (0)}
  return %2
})",
                     R"(on mesh("x"=4; devices 0..3)
graph "f"(%0: f32[8,8] varying(x) of [32,8] @[x, _], %1: f32[2,16] varying(x) of [8,16] @[x, _]) {
  %2: f32[8,16] of [8,16] @[_, _] = all_gather(%1) {axes = ["x"], dim = 0}
  %3: f32[8,16] varying(x) of [32,16] @[x, _] = dot_general(%0, %2) {lhs_batch = (), lhs_contract = (1), rhs_batch = (), rhs_contract = (0)}
  return %3
})");
}

TEST(Partition, LinearOpsPassPartialValues) {
  expect_partitioned(R"(on mesh("x"=2; devices 0, 1)
graph "f"(%0: f32[8,16] @[x, _], %1: f32[8,16] @[x, _]) {
  %2: f32[16] = reduce_sum(%0) {axes = (0)}
  %3: f32[16] = reduce_sum(%1) {axes = (0)}
  %4: f32[16] = negative(%2)
  %5: f32[16] = add(%4, %3)
  %6: f32[4,4] = reshape(%5) {shape = (4, 4)}
  %7: f32[4] = reduce_sum(%6) {axes = (1)}
  %8: f32[4] = sin(%7)
  return %8
})",
                     R"(on mesh("x"=2; devices 0, 1)
graph "f"(%0: f32[4,16] varying(x) of [8,16] @[x, _], %1: f32[4,16] varying(x) of [8,16] @[x, _]) {
  %2: f32[16] varying(x) of [16] @[_] partial(sum: x) = reduce_sum(%0) {axes = (0)}
  %3: f32[16] varying(x) of [16] @[_] partial(sum: x) = reduce_sum(%1) {axes = (0)}
  %4: f32[16] varying(x) of [16] @[_] partial(sum: x) = negative(%2)
  %5: f32[16] varying(x) of [16] @[_] partial(sum: x) = add(%4, %3)
  %6: f32[4,4] varying(x) of [4,4] @[_, _] partial(sum: x) = reshape(%5) {shape = (4, 4)}
  %7: f32[4] varying(x) of [4] @[_] partial(sum: x) = reduce_sum(%6) {axes = (1)}
  %8: f32[4] of [4] @[_] = all_reduce(%7) {axes = ["x"], kind = "sum"}
  %9: f32[4] of [4] @[_] = sin(%8)
  return %9
})");
}

TEST(Partition, OtherOpsCompletePartialValuesOnce) {
  expect_partitioned(R"(on mesh("x"=2; devices 0, 1)
graph "f"(%0: f32[8,8] @[x, _], %1: f32[8]) {
  %2: f32[8] = reduce_sum(%0) {axes = (0)}
  %3: f32[8] = sin(%2)
  %4: f32[8] = add(%2, %1)
  %5: f32[8] = multiply(%3, %4)
  return %5
})",
                     R"(on mesh("x"=2; devices 0, 1)
graph "f"(%0: f32[4,8] varying(x) of [8,8] @[x, _], %1: f32[8] of [8] @[_]) {
  %2: f32[8] varying(x) of [8] @[_] partial(sum: x) = reduce_sum(%0) {axes = (0)}
  %3: f32[8] of [8] @[_] = all_reduce(%2) {axes = ["x"], kind = "sum"}
  %4: f32[8] of [8] @[_] = sin(%3)
  %5: f32[8] of [8] @[_] = add(%3, %1)
  %6: f32[8] of [8] @[_] = multiply(%4, %5)
  return %6
})");
}

TEST(Partition, PartialResultsOfHalvesAreKeptInF32) {
  expect_partitioned(R"(on mesh("x"=2; devices 0, 1)
graph "f"(%0: bf16[8,16] @[_, x], %1: bf16[16,4] @[x, _]) {
  %2: bf16[8,4] = dot_general(%0, %1) {lhs_batch = (), lhs_contract = (1), rhs_batch = (), rhs_contract = (0)}
  %3: bf16[8,4] = negative(%2)
  %4: bf16[8] = reduce_sum(%3) {axes = (1)}
  return %4
})",
                     R"(on mesh("x"=2; devices 0, 1)
graph "f"(%0: bf16[8,8] varying(x) of [8,16] @[_, x], %1: bf16[8,4] varying(x) of [16,4] @[x, _]) {
  %2: f32[8,4] varying(x) of [8,4] @[_, _] partial(sum: x) = dot_general(%0, %1) {dtype = f32, lhs_batch = (), lhs_contract = (1), rhs_batch = (), rhs_contract = (0)}
  %3: f32[8,4] varying(x) of [8,4] @[_, _] partial(sum: x) = negative(%2)
  %4: f32[8] varying(x) of [8] @[_] partial(sum: x) = reduce_sum(%3) {axes = (1), dtype = f32}
  %5: f32[8] of [8] @[_] = all_reduce(%4) {axes = ["x"], kind = "sum"}
  %6: bf16[8] of [8] @[_] = convert(%5) {dtype = bf16}
  return %6
})");
}

TEST(Partition, ReshapesSplitAndJoinAxesInPlace) {
  expect_partitioned(R"(on mesh("x"=4; devices 0..3)
graph "f"(%0: f32[8] @[x]) {
  %1: f32[2,4] = reshape(%0) {shape = (2, 4)}
  %2: f32[4,2] = reshape(%1) {shape = (4, 2)}
  %3: f32[8] = reshape(%2) {shape = (8)}
  return %3
})",
                     R"(on mesh("x"=4; devices 0..3)
graph "f"(%0: f32[2] varying(x) of [8] @[x]) {
  %1: f32[1,2] varying(x) of [2,4] @[x:(1)2, x:(2)2] = reshape(%0) {shape = (1, 2)}
  %2: f32[1,2] varying(x) of [4,2] @[x, _] = reshape(%1) {shape = (1, 2)}
  %3: f32[2] varying(x) of [8] @[x] = reshape(%2) {shape = (2)}
  return %3
})");
}

TEST(Partition, AMinorDimensionGoesToAnotherBeforeItIsMerged) {
  expect_partitioned(R"(on mesh("x"=2; devices 0, 1)
graph "f"(%0: f32[4,6] @[_, x]) {
  %1: f32[24] = reshape(%0) {shape = (24)}
  return %1
})",
                     R"(on mesh("x"=2; devices 0, 1)
graph "f"(%0: f32[4,3] varying(x) of [4,6] @[_, x]) {
  %1: f32[2,6] varying(x) of [4,6] @[x, _] = all_to_all(%0) {axes = ["x"], concat_dim = 1, split_dim = 0}
  %2: f32[12] varying(x) of [24] @[x] = reshape(%1) {shape = (12)}
  return %2
})");
}

TEST(Partition, ConflictsAreSettledByAnExchange) {
  expect_partitioned(R"(on mesh("x"=2, "y"=2; devices 0..3)
graph "f"(%0: f32[8,8] @[x, _], %1: f32[8,8] @[_, x], %2: f32[8,8] @[y, _]) {
  %3: f32[8,8] = add(%0, %1)
  %4: f32[8,8] = add(%0, %2)
  return %3, %4
})",
                     R"(on mesh("x"=2, "y"=2; devices 0..3)
graph "f"(%0: f32[4,8] varying(x) of [8,8] @[x, _], %1: f32[8,4] varying(x) of [8,8] @[_, x], %2: f32[4,8] varying(y) of [8,8] @[y, _]) {
  %3: f32[4,8] varying(x) of [8,8] @[x, _] = all_to_all(%1) {axes = ["x"], concat_dim = 1, split_dim = 0}
  %4: f32[4,8] varying(x) of [8,8] @[x, _] = add(%0, %3)
  %5: f32[4,8] varying(x) of [8,8] @[x, _] = collective_permute(%2) {axes = ["x", "y"], sources = (0, 2, 1, 3), targets = (0, 1, 2, 3)}
  %6: f32[4,8] varying(x) of [8,8] @[x, _] = add(%0, %5)
  return %4, %6
})");
}

TEST(Partition, AValueIsMovedOnceForAllItsUses) {
  expect_partitioned(R"(on mesh("x"=2; devices 0, 1)
graph "f"(%0: f32[8,8] @[x, _], %1: f32[8,8] @[_, x], %2: f32[8,8] @[_, x]) {
  %3: f32[8,8] = add(%1, %0)
  %4: f32[8,8] = add(%2, %0)
  return %3, %4
})",
                     R"(on mesh("x"=2; devices 0, 1)
graph "f"(%0: f32[4,8] varying(x) of [8,8] @[x, _], %1: f32[8,4] varying(x) of [8,8] @[_, x], %2: f32[8,4] varying(x) of [8,8] @[_, x]) {
  %3: f32[8,4] varying(x) of [8,8] @[_, x] = all_to_all(%0) {axes = ["x"], concat_dim = 0, split_dim = 1}
  %4: f32[8,4] varying(x) of [8,8] @[_, x] = add(%1, %3)
  %5: f32[8,4] varying(x) of [8,8] @[_, x] = add(%2, %3)
  return %4, %5
})");
}

TEST(Partition, UnevenShardsAreGatheredToTheirSize) {
  expect_partitioned(R"(on mesh("x"=2; devices 0, 1)
graph "f"(%0: f32[5,4] @[x, _]) {
  %1: f32[5,4] = sharding_constraint(%0) {sharding = sharding(P(_, "x"), memory(device), mesh("x"=2; devices 0, 1))}
  %2: f32[5,4] = sharding_constraint(%0) {sharding = sharding(P(), memory(device), mesh("x"=2; devices 0, 1))}
  return %1, %2
})",
                     R"(on mesh("x"=2; devices 0, 1)
graph "f"(%0: f32[3,4] varying(x) of [5,4] @[x, _]) {
  %1: f32[5,2] varying(x) of [5,4] @[_, x] = all_to_all(%0) {axes = ["x"], concat_dim = 0, size = 5, split_dim = 1}
  %2: f32[5,4] of [5,4] @[_, _] = all_gather(%0) {axes = ["x"], dim = 0, size = 5}
  return %1, %2
})");
}

TEST(Partition, AttributesAreThoseOfAShard) {
  expect_partitioned(R"(on mesh("x"=2; devices 0, 1)
graph "f"(%0: f32[8,16] @[x, _], %1: f32[8] @[x]) {
  %2: f32[8,4] = slice(%0) {limits = (8, 8), starts = (0, 4), strides = (1, 1)}
  %3: f32[8,4] = broadcast_in_dim(%1) {dims = (0), shape = (8, 4)}
  %4: f32[8,4] = full() {shape = (8, 4), value = f32(2)}
  %5: f32[8,4] = add(%2, %3)
  %6: f32[8,4] = add(%5, %4)
  return %6
})",
                     R"(on mesh("x"=2; devices 0, 1)
graph "f"(%0: f32[4,16] varying(x) of [8,16] @[x, _], %1: f32[4] varying(x) of [8] @[x]) {
  %2: f32[4,4] varying(x) of [8,4] @[x, _] = slice(%0) {limits = (4, 8), starts = (0, 4), strides = (1, 1)}
  %3: f32[4,4] varying(x) of [8,4] @[x, _] = broadcast_in_dim(%1) {dims = (0), shape = (4, 4)}
  %4: f32[4,4] of [8,4] @[x, _] = full() {shape = (4, 4), value = f32(2)}
  %5: f32[4,4] varying(x) of [8,4] @[x, _] = add(%2, %3)
  %6: f32[4,4] varying(x) of [8,4] @[x, _] = add(%5, %4)
  return %6
})");
}

TEST(Partition, ShardsCountOnFromWhereTheyBegin) {
  // Floats would round: they are counted as integers.
  expect_partitioned(R"(on mesh("x"=2; devices 0, 1)
graph "f"(%0: f32[8,4] @[x, _]) {
  %1: f32[8,4] = iota() {dim = 0, dtype = f32, shape = (8, 4)}
  %2: f32[8,4] = iota() {dim = 1, dtype = f32, shape = (8, 4)}
  %3: f32[8,4] = add(%0, %1)
  %4: f32[8,4] = add(%3, %2)
  return %4
})",
                     R"(on mesh("x"=2; devices 0, 1)
graph "f"(%0: f32[4,4] varying(x) of [8,4] @[x, _]) {
  %1: i64[4,4] of [8,4] @[x, _] = iota() {dim = 0, dtype = i64, shape = (4, 4)}
  %2: i32[] manual(x) varying(x) of [] @[] = axis_index() {axes = ["x"]}
  %3: i64[] manual(x) varying(x) of [] @[] = convert(%2) {dtype = i64}
  %4: i64[] manual(x) varying(x) of [] @[] = full() {shape = (), value = i64(4)}
  %5: i64[] manual(x) varying(x) of [] @[] = multiply(%3, %4)
  %6: i64[4,4] varying(x) of [8,4] @[x, _] = broadcast_in_dim(%5) {dims = (), shape = (4, 4)}
  %7: i64[4,4] varying(x) of [8,4] @[x, _] = add(%1, %6)
  %8: f32[4,4] varying(x) of [8,4] @[x, _] = convert(%7) {dtype = f32}
  %9: f32[4,4] of [8,4] @[x, _] = iota() {dim = 1, dtype = f32, shape = (4, 4)}
  %10: f32[4,4] varying(x) of [8,4] @[x, _] = add(%0, %8)
  %11: f32[4,4] varying(x) of [8,4] @[x, _] = add(%10, %9)
  return %11
})");
  // Shards of several extents do not: an array is counted whole and cut.
  expect_partitioned(R"(on mesh("x"=2; devices 0, 1)
graph "f"(%0: i32[7] @[x]) {
  %1: i32[7] = iota() {dim = 0, dtype = i32, shape = (7)}
  %2: i32[7] = add(%0, %1)
  return %2
})",
                     R"(on mesh("x"=2; devices 0, 1)
graph "f"(%0: i32[4] varying(x) of [7] @[x]) {
  %1: i32[7] of [7] @[_] = iota() {dim = 0, dtype = i32, shape = (7)}
  %2: i32[4] varying(x) of [7] @[x] = shard_slice(%1) {axes = ["x"], dim = 0}
  %3: i32[4] varying(x) of [7] @[x] = add(%0, %2)
  return %3
})");
}

TEST(Partition, AProductRunsWhereItMovesLeast) {
  // With many rows the weights are gathered. With few, their parts stay where they are and the products are summed.
  expect_partitioned(R"(on mesh("x"=4; devices 0..3)
graph "f"(%0: f32[4096,64] @[x, _], %1: f32[64,128] @[x, _]) {
  %2: f32[4096,128] = dot_general(%0, %1) {lhs_batch = (), lhs_contract = (1), rhs_batch = (), rhs_contract = (0)}
  return %2
})",
                     R"(on mesh("x"=4; devices 0..3)
graph "f"(%0: f32[1024,64] varying(x) of [4096,64] @[x, _], %1: f32[16,128] varying(x) of [64,128] @[x, _]) {
  %2: f32[64,128] of [64,128] @[_, _] = all_gather(%1) {axes = ["x"], dim = 0}
  %3: f32[1024,128] varying(x) of [4096,128] @[x, _] = dot_general(%0, %2) {lhs_batch = (), lhs_contract = (1), rhs_batch = (), rhs_contract = (0)}
  return %3
})");
  expect_partitioned(R"(on mesh("x"=4; devices 0..3)
graph "f"(%0: f32[8,64] @[x, _], %1: f32[64,128] @[x, _]) {
  %2: f32[8,128] = dot_general(%0, %1) {lhs_batch = (), lhs_contract = (1), rhs_batch = (), rhs_contract = (0)}
  return %2
})",
                     R"(on mesh("x"=4; devices 0..3)
graph "f"(%0: f32[2,64] varying(x) of [8,64] @[x, _], %1: f32[16,128] varying(x) of [64,128] @[x, _]) {
  %2: f32[8,16] varying(x) of [8,64] @[_, x] = all_to_all(%0) {axes = ["x"], concat_dim = 0, split_dim = 1}
  %3: f32[8,128] varying(x) of [8,128] @[_, _] partial(sum: x) = dot_general(%2, %1) {lhs_batch = (), lhs_contract = (1), rhs_batch = (), rhs_contract = (0)}
  %4: f32[2,128] varying(x) of [8,128] @[x, _] = reduce_scatter(%3) {axes = ["x"], dim = 0, kind = "sum"}
  return %4
})");
}

TEST(Partition, AWindowOfASplitDimensionIsSummed) {
  expect_partitioned(R"(on mesh("x"=4; devices 0..3)
graph "f"(%0: f32[64,8] @[x, _], %1: i32[] @[]) {
  %2: f32[1,8] = dynamic_slice(%0, %1, %1) {sizes = (1, 8)}
  return %2
})",
                     R"(on mesh("x"=4; devices 0..3)
graph "f"(%0: f32[16,8] varying(x) of [64,8] @[x, _], %1: i32[] of [] @[]) {
  %2: f32[1,8] varying(x) of [1,8] @[_, _] partial(sum: x) = dynamic_slice(%0, %1, %1) {extents = (64, 8), sizes = (1, 8), window = (1, 8)}
  %3: f32[1,8] of [1,8] @[_, _] = all_reduce(%2) {axes = ["x"], kind = "sum"}
  return %3
})");
}

TEST(Partition, AnUpdateOfASplitDimensionMovesNothing) {
  expect_partitioned(R"(on mesh("x"=4; devices 0..3)
graph "f"(%0: f32[64,8] @[x, _], %1: f32[1,8] @[_, _], %2: i32[] @[]) {
  %3: f32[64,8] = dynamic_update_slice(%0, %1, %2, %2)
  return %3
})",
                     R"(on mesh("x"=4; devices 0..3)
graph "f"(%0: f32[16,8] varying(x) of [64,8] @[x, _], %1: f32[1,8] of [1,8] @[_, _], %2: i32[] of [] @[]) {
  %3: f32[16,8] varying(x) of [64,8] @[x, _] = dynamic_update_slice(%0, %1, %2, %2) {extents = (64, 8), window = (1, 8)}
  return %3
})");
}

TEST(Partition, AxesOfASortedDimensionGoToAnother) {
  // Two exchanges of a part each, and every device sorts a part; gathering would have all sort everything.
  expect_partitioned(R"(on mesh("x"=4; devices 0..3)
graph "f"(%0: f32[8,16] @[_, x]) {
  %1: f32[8,16] = sort(%0) {descending = false, dim = 1, num_keys = 1}
  %2: f32[8,16] = sharding_constraint(%1) {sharding = sharding(P(_, "x"), memory(device), mesh("x"=4; devices 0..3))}
  return %2
})",
                     R"(on mesh("x"=4; devices 0..3)
graph "f"(%0: f32[8,4] varying(x) of [8,16] @[_, x]) {
  %1: f32[2,16] varying(x) of [8,16] @[x, _] = all_to_all(%0) {axes = ["x"], concat_dim = 1, split_dim = 0}
  %2: f32[2,16] varying(x) of [8,16] @[x, _] = sort(%1) {descending = false, dim = 1, num_keys = 1}
  %3: f32[8,4] varying(x) of [8,16] @[_, x] = all_to_all(%2) {axes = ["x"], concat_dim = 0, split_dim = 1}
  return %3
})");
}

TEST(Partition, SwappedAxesAreOnePermutation) {
  expect_partitioned(R"(on mesh("x"=2, "y"=2; devices 0..3)
graph "f"(%0: f32[8,8] @[x, y]) {
  %1: f32[8,8] = sharding_constraint(%0) {sharding = sharding(P("y", "x"), memory(device), mesh("x"=2, "y"=2; devices 0..3))}
  return %1, %0
})",
                     R"(on mesh("x"=2, "y"=2; devices 0..3)
graph "f"(%0: f32[4,4] varying(x, y) of [8,8] @[x, y]) {
  %1: f32[4,4] varying(x, y) of [8,8] @[y, x] = collective_permute(%0) {axes = ["x", "y"], sources = (0, 2, 1, 3), targets = (0, 1, 2, 3)}
  return %1, %0
})");
}

TEST(Partition, ManualRegionsRunOnShards) {
  expect_partitioned(R"(on mesh("x"=2, "y"=2; devices 0..3)
graph "f"(%0: f32[8,8] @[x, _]) {
  %1: f32[8,8] = sin(%0)
  %2: f32[4] = shard_map(%1) {axes = ["x", "y"], body = graph "g" over("x"=2, "y"=2)(%0: f32[4,8]{V:x}) {
      %1: f32[8]{V:x} = reduce_sum(%0) {axes = (0)}
      %2: f32[8] = all_reduce(%1) {axes = ["x"], kind = "sum"}
      %3: i32[]{V:y} = axis_index() {axes = ["y"]}
      %4: f32[]{V:y} = convert(%3) {dtype = f32}
      %5: f32[8]{V:y} = broadcast_in_dim(%4) {dims = (), shape = (8)}
      %6: f32[8]{V:y} = add(%2, %5)
      %7: f32[2]{V:y} = slice(%6) {limits = (2), starts = (0), strides = (1)}
      return %7
    }, in_specs = specs(P("x")), mesh = mesh("x"=2, "y"=2; devices 0..3), out_specs = specs(P("y"))}
  return %2
})",
                     R"(on mesh("x"=2, "y"=2; devices 0..3)
graph "f"(%0: f32[4,8] varying(x) of [8,8] @[x, _]) {
  %1: f32[4,8] varying(x) of [8,8] @[x, _] = sin(%0)
  %2: f32[4,8] manual(x, y) varying(x) of [4,8] @[_, _] = pvary(%1) {axes = []}
  %3: f32[8] manual(x, y) varying(x) of [8] @[_] = reduce_sum(%2) {axes = (0)}
  %4: f32[8] manual(x, y) of [8] @[_] = all_reduce(%3) {axes = ["x"], kind = "sum"}
  %5: i32[] manual(x, y) varying(y) of [] @[] = axis_index() {axes = ["y"]}
  %6: f32[] manual(x, y) varying(y) of [] @[] = convert(%5) {dtype = f32}
  %7: f32[8] manual(x, y) varying(y) of [8] @[_] = broadcast_in_dim(%6) {dims = (), shape = (8)}
  %8: f32[8] manual(x, y) varying(y) of [8] @[_] = add(%4, %7)
  %9: f32[2] manual(x, y) varying(y) of [2] @[_] = slice(%8) {limits = (2), starts = (0), strides = (1)}
  %10: f32[2] varying(y) of [4] @[y] = pvary(%9) {axes = []}
  return %10
})");
}

TEST(Partition, ARollExchangesWhatCrossesBetweenShards) {
  expect_partitioned(R"(on mesh("x"=4; devices 0..3)
graph "f"(%0: f32[8,16] @[x, _]) {
  %1: f32[8,16] = roll(%0) {shifts = (1, 3)}
  return %1
})",
                     R"(on mesh("x"=4; devices 0..3)
graph "f"(%0: f32[2,16] varying(x) of [8,16] @[x, _]) {
  %1: f32[2,16] varying(x) of [8,16] @[x, _] = rearrange(%0) {axes = ["x"], dim = 0, extents = (8), fills = false, runs = (0, 1, 7, 1, 0, 1, 0, 7, 0, 1, 1, 1), size = 8}
  %2: f32[2,16] varying(x) of [8,16] @[x, _] = roll(%1) {shifts = (0, 3)}
  return %2
})");
}

TEST(Partition, ASliceOfASplitDimensionStaysSplit) {
  expect_partitioned(R"(on mesh("x"=4; devices 0..3)
graph "f"(%0: f32[32] @[x]) {
  %1: f32[8] = slice(%0) {limits = (17), starts = (1), strides = (2)}
  return %1
})",
                     R"(on mesh("x"=4; devices 0..3)
graph "f"(%0: f32[8] varying(x) of [32] @[x]) {
  %1: f32[2] varying(x) of [8] @[x] = rearrange(%0) {axes = ["x"], dim = 0, extents = (32), fills = false, runs = (0, 8, 1, 2, 0, 1), size = 8}
  return %1
})");
}

TEST(Partition, PartsAreJoinedWhereTheyLie) {
  expect_partitioned(R"(on mesh("x"=2; devices 0, 1)
graph "f"(%0: f32[4] @[x], %1: f32[2] @[x], %2: f32[]) {
  %3: f32[6] = concatenate(%0, %1) {dim = 0}
  %4: f32[10] = pad(%3, %2) {high = (3), interior = (0), low = (1)}
  return %4
})",
                     R"(on mesh("x"=2; devices 0, 1)
graph "f"(%0: f32[2] varying(x) of [4] @[x], %1: f32[1] varying(x) of [2] @[x], %2: f32[] of [] @[]) {
  %3: f32[3] varying(x) of [6] @[x] = rearrange(%0, %1) {axes = ["x"], dim = 0, extents = (4, 2), fills = false, runs = (0, 4, 0, 1, 0, 1, 1, 2, 0, 1, 4, 1), size = 6}
  %4: f32[5] varying(x) of [10] @[x] = rearrange(%3, %2) {axes = ["x"], dim = 0, extents = (6), fills = true, runs = (0, 6, 0, 1, 1, 1), size = 10}
  return %4
})");
}

// ---- Windows.

// The bytes that a device receives, on average.
double received_in(const Graph& graph) {
  double bytes = 0;
  for_each_counted(graph, [&](const CountedEqn& one) { bytes += one.times * received_bytes(one.graph, one.eqn); });
  return bytes;
}

TEST(Partition, AConvolutionTakesInHalos) {
  const std::string_view text = R"(on mesh("x"=4; devices 0..3)
graph "f"(%0: f32[2,3,16,8] @[_, _, x, _], %1: f32[4,3,3,3]) {
  %2: f32[2,4,16,8] = convolution(%0, %1) {base_dilation = (1, 1), high = (1, 1), low = (1, 1), strides = (1, 1), window_dilation = (1, 1)}
  return %2
})";
  expect_partitioned(text, R"(on mesh("x"=4; devices 0..3)
graph "f"(%0: f32[2,3,4,8] varying(x) of [2,3,16,8] @[_, _, x, _], %1: f32[4,3,3,3] of [4,3,3,3] @[_, _, _, _]) {
  %2: f32[] of [] @[] = full() {shape = (), value = f32(0)}
  %3: f32[2,3,6,8] varying(x) of [2,3,24,8] @[_, _, x, _] = rearrange(%0, %2) {axes = ["x"], dim = 2, extents = (16), fills = true, size = 24, windows = (16, 1, 1, 3, 1)}
  %4: f32[2,4,4,8] varying(x) of [2,4,16,8] @[_, _, x, _] = convolution(%3, %1) {base_dilation = (1, 1), high = (0, 1), low = (0, 1), strides = (1, 1), window_dilation = (1, 1)}
  return %4
})");
  // A row of each neighbour, but at the ends.
  EXPECT_EQ(received_in(partitioned(text)), 2 * 3 * 8 * 4 * (1 + 2 + 2 + 1) / 4.0);
}

TEST(Partition, WindowsOfUnevenShardsTakeInWhatTheyLack) {
  expect_partitioned(R"(on mesh("x"=4; devices 0..3)
graph "f"(%0: f32[16] @[x]) {
  %1: f32[7] = reduce_window(%0) {base_dilation = (1), high = (0), kind = "max", low = (0), strides = (2), window = (3), window_dilation = (1)}
  return %1
})",
                     R"(on mesh("x"=4; devices 0..3)
graph "f"(%0: f32[4] varying(x) of [16] @[x]) {
  %1: f32[] of [] @[] = full() {shape = (), value = f32(-inf)}
  %2: f32[5] varying(x) of [20] @[x] = rearrange(%0, %1) {axes = ["x"], dim = 0, extents = (16), fills = true, size = 20, windows = (7, 2, 0, 3, 1)}
  %3: f32[2] varying(x) of [7] @[x] = reduce_window(%2) {base_dilation = (1), high = (0), kind = "max", low = (0), origin = (0), strides = (2), window = (3), window_dilation = (1)}
  return %3
})");
}

TEST(Partition, RowsAndColumnsTakeInHalosOneAfterTheOther) {
  const Graph graph = partitioned(R"(on mesh("x"=4, "y"=2; devices 0..7)
graph "f"(%0: f32[16,8] @[x, y]) {
  %1: f32[16,8] = reduce_window(%0) {base_dilation = (1, 1), high = (1, 1), kind = "sum", low = (1, 1), strides = (1, 1), window = (3, 3), window_dilation = (1, 1)}
  return %1
})");
  // The columns of halos are of six rows.
  EXPECT_EQ(received_in(graph), 4 * 4 * (1 + 2 + 2 + 1) / 4.0 + 4 * 6 * 1);
  EXPECT_EQ(to_string(graph.type(graph.outputs[0])), "f32[4,4]");
}

TEST(Partition, AWideWindowIsGatheredWhereThatIsLess) {
  // What devices gather is what their windows could need at most.
  const Graph graph = partitioned(R"(on mesh("x"=4; devices 0..3)
graph "f"(%0: f32[16,2] @[x, _]) {
  %1: f32[14,2] = reduce_window(%0) {base_dilation = (1, 1), high = (40, 0), kind = "sum", low = (40, 0), strides = (6, 1), window = (14, 1), window_dilation = (1, 1)}
  return %1
})");
  EXPECT_LE(received_in(graph), 2 * 4 * 12);
}

TEST(Partition, TheDerivativeByAWindowAddsUpWhatShardsHave) {
  const std::string_view text = R"(on mesh("x"=4; devices 0..3)
graph "f"(%0: f32[3,2,16] @[_, _, x], %1: f32[4,2,16] @[_, _, x]) {
  %2: f32[3,4,3] = convolution(%0, %1) {base_dilation = (1), high = (1), low = (1), strides = (1), window_dilation = (1)}
  return %2
})";
  expect_partitioned(text, R"(on mesh("x"=4; devices 0..3)
graph "f"(%0: f32[3,2,4] varying(x) of [3,2,16] @[_, _, x], %1: f32[4,2,4] varying(x) of [4,2,16] @[_, _, x]) {
  %2: f32[] of [] @[] = full() {shape = (), value = f32(0)}
  %3: f32[3,2,6] varying(x) of [3,2,24] @[_, _, x] = rearrange(%0, %2) {axes = ["x"], dim = 2, extents = (16), fills = true, size = 24, windows = (16, 1, 1, 3, 1)}
  %4: f32[3,4,3] varying(x) of [3,4,3] @[_, _, _] partial(sum: x) = convolution(%3, %1) {base_dilation = (1), high = (0), low = (0), strides = (1), window_dilation = (1)}
  %5: f32[3,4,3] of [3,4,3] @[_, _, _] = all_reduce(%4) {axes = ["x"], kind = "sum"}
  return %5
})");
}

}  // namespace
}  // namespace shoal
