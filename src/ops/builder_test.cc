#include "ops/builder.h"

#include <gtest/gtest.h>

#include "ops/table.h"
#include "ops/test_support.h"
#include "shoal/error.h"

namespace shoal {
namespace {

using test_support::type_of;

TEST(Builder, WritesEquationsThatVerify) {
  Graph graph;
  graph.name = "f";
  const ValueId x = graph.add_input(type_of(float32, {4, 2}));
  const ValueId y = graph.add_input(type_of(float32, {2, 4}));
  Builder b(graph, {});
  const ValueId sum = b.reduce(ReduceKind::kSum, b.transpose(x, {1, 0}), {1});
  const ValueId wide = b.broadcast_in_dim(sum, {2, 4}, {0});
  const ValueId top = b.combine(ReduceKind::kMax, wide, y);
  const ValueId is_top = b.equal(top, y);
  const ValueId three = b.constant(3, float32);
  const ValueId chosen = b.select(is_top, b.negative(top), three);
  const ValueId product = b.dot_general(x, chosen, {.lhs_contract = {1}, .rhs_contract = {0}});
  const ValueId padded = b.pad(product, b.constant(0, float32), {1, 0}, {0, 0}, {0, 0});
  const ValueId two = b.broadcast_to(b.constant(2, float32), {4, 2});
  const ValueId half = b.divide(b.slice(padded, {1, 0}, {5, 4}, {1, 2}), two);
  const ValueId joined = b.concatenate({half, b.subtract(x, half)}, 0);
  const ValueId twice = b.add(joined, b.reverse(joined, {0}));
  const ValueId counted = b.multiply(b.convert(b.iota(int32, {8, 2}, 0), float32), twice);
  graph.outputs = {b.to_memory(b.reshape(counted, {16}), kPinnedHostMemory)};
  verify(graph, "built");
  EXPECT_EQ(to_text(graph), R"(graph "f"(%0: f32[4,2], %1: f32[2,4]) {
  %2: f32[2,4] = transpose(%0) {perm = (1, 0)}
  %3: f32[2] = reduce_sum(%2) {axes = (1)}
  %4: f32[2,4] = broadcast_in_dim(%3) {dims = (0), shape = (2, 4)}
  %5: f32[2,4] = maximum(%4, %1)
  %6: bool[2,4] = equal(%5, %1)
  %7: f32[] = full() {shape = (), value = f32(3)}
  %8: f32[2,4] = negative(%5)
  %9: f32[2,4] = select(%6, %8, %7)
  %10: f32[4,4] = dot_general(%0, %9) {lhs_batch = (), lhs_contract = (1), rhs_batch = (), rhs_contract = (0)}
  %11: f32[] = full() {shape = (), value = f32(0)}
  %12: f32[5,4] = pad(%10, %11) {high = (0, 0), interior = (0, 0), low = (1, 0)}
  %13: f32[] = full() {shape = (), value = f32(2)}
  %14: f32[4,2] = broadcast_in_dim(%13) {dims = (), shape = (4, 2)}
  %15: f32[4,2] = slice(%12) {limits = (5, 4), starts = (1, 0), strides = (1, 2)}
  %16: f32[4,2] = divide(%15, %14)
  %17: f32[4,2] = subtract(%0, %16)
  %18: f32[8,2] = concatenate(%16, %17) {dim = 0}
  %19: f32[8,2] = reverse(%18) {dims = (0)}
  %20: f32[8,2] = add(%18, %19)
  %21: i32[8,2] = iota() {dim = 0, dtype = i32, shape = (8, 2)}
  %22: f32[8,2] = convert(%21) {dtype = f32}
  %23: f32[8,2] = multiply(%22, %20)
  %24: f32[16] = reshape(%23) {shape = (16)}
  %25: f32<pinned_host>[16] = to_memory(%24) {memory = memory(pinned_host)}
  return %25
})");
}

TEST(Builder, WritesCollectives) {
  Graph graph;
  graph.name = "f";
  graph.axes.bind("x", 2);
  const ValueId x = graph.add_input(type_of(float32, {4, 2}));
  Builder b(graph, {});
  ValueId y = b.pvary(x, {"x"});
  y = b.all_gather(y, {"x"}, 0);
  y = b.reduce_scatter(y, {"x"}, ReduceKind::kSum, 1);
  y = b.all_to_all(y, {"x"}, 0, 1, 3);
  y = b.collective_permute(y, {"x"}, {0}, {1});
  y = b.shard_slice(y, {"x"}, 0);
  y = b.exclusive_scan(y, {"x"}, ReduceKind::kMax, true);
  y = b.rearrange({y}, {"x"}, 1, {6}, 6, {shoal::Run{.count = 6}}, false);
  y = b.all_reduce(y, {"x"}, ReduceKind::kSum);
  graph.outputs = {y, b.axis_index({"x"})};
  verify(graph, "built");
  EXPECT_EQ(to_text(graph), R"(graph "f" over("x"=2)(%0: f32[4,2]) {
  %1: f32[4,2]{V:x} = pvary(%0) {axes = ["x"]}
  %2: f32[8,2]{V:x} = all_gather(%1) {axes = ["x"], dim = 0}
  %3: f32[8,1]{V:x} = reduce_scatter(%2) {axes = ["x"], dim = 1, kind = "sum"}
  %4: f32[4,3]{V:x} = all_to_all(%3) {axes = ["x"], concat_dim = 1, size = 3, split_dim = 0}
  %5: f32[4,3]{V:x} = collective_permute(%4) {axes = ["x"], sources = (0), targets = (1)}
  %6: f32[2,3]{V:x} = shard_slice(%5) {axes = ["x"], dim = 0}
  %7: f32[2,3]{V:x} = exclusive_scan(%6) {axes = ["x"], kind = "max", reverse = true}
  %8: f32[2,3]{V:x} = rearrange(%7) {axes = ["x"], dim = 1, extents = (6), fills = false, runs = (0, 6, 0, 1, 0, 1), size = 6}
  %9: f32[2,3] = all_reduce(%8) {axes = ["x"], kind = "sum"}
  %10: i32[]{V:x} = axis_index() {axes = ["x"]}
  return %9, %10
})");
}

TEST(Builder, CombinesAndReducesByEveryKind) {
  for (const ReduceKind kind :
       {ReduceKind::kSum, ReduceKind::kProd, ReduceKind::kMax, ReduceKind::kMin, ReduceKind::kAnd, ReduceKind::kOr}) {
    Graph graph;
    const ValueId x = graph.add_input(type_of(int32, {2}));
    Builder b(graph, {});
    b.combine(kind, x, x);
    b.reduce(kind, x, {0});
    EXPECT_EQ(graph.eqns[1].op->reduces, kind);
    EXPECT_NE(graph.eqns[0].op->elementwise, nullptr);
  }
}

TEST(Builder, GivesValuesThatAreThere) {
  Graph graph;
  const ValueId x = graph.add_input(type_of(float32, {2}));
  const ValueId made = graph.add_value(type_of(float16, {2}));
  EXPECT_EQ(Builder(graph, {}).into(made).convert(x, float16), made);
  EXPECT_EQ(graph.values.size(), 2U);
  EXPECT_EQ(graph.eqns[0].outputs, (std::vector<ValueId>{made}));
}

TEST(Builder, ThrowsWhatInferThrows) {
  Graph graph;
  const ValueId x = graph.add_input(type_of(float32, {2}));
  EXPECT_THROW(Builder(graph, {}).reshape(x, {3}), InvalidArgument);
}

}  // namespace
}  // namespace shoal
