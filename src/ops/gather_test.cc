#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/test_support.h"

namespace shoal {
namespace {

using test_support::array;
using test_support::complaint;
using test_support::counting;
using test_support::Ints;
using test_support::rule_of;
using test_support::type_of;
using test_support::values;

Attrs form(Dims dims, Dims array_batch = {}, Dims index_batch = {}) {
  return {{"dims", std::move(dims)}, {"array_batch", std::move(array_batch)}, {"index_batch", std::move(index_batch)}};
}

Attrs reduction_form(Dims dims, Shape shape, std::string kind) {
  Attrs attrs = form(std::move(dims));
  attrs.set("shape", std::move(shape));
  attrs.set("kind", std::move(kind));
  return attrs;
}

// ---- Shards: what lies outside of one is another's.

TensorView view_from(const Buffer& buffer, Dims start) {
  TensorView view = buffer.view();
  view.start = std::move(start);
  return view;
}

TEST(Gather, AShardGivesItsOwnItems) {
  const Buffer x = array<float>({2, 2}, {10, 11, 20, 21});  // Rows 4 and 5.
  const Buffer at = array<std::int32_t>({4}, {5, 3, 4, 6});
  Buffer out(host_space({}), float32, {4, 2});
  const std::vector<TensorView> operands = {view_from(x, {4, 0}), at.view()};
  const std::vector<TensorView> results = {out.view()};
  op_named("gather").reference({.op = op_named("gather"), .attrs = form({0}), .inputs = operands, .outputs = results});
  EXPECT_EQ(values<float>(out), (std::vector<float>{20, 21, 0, 0, 10, 11, 0, 0}));
  EXPECT_TRUE(std::signbit(values<float>(out)[2]));
}

TEST(Scatter, AShardTakesItsOwnItems) {
  const Buffer x = array<float>({2}, {10, 20});  // Positions 4 and 5.
  const Buffer updates = array<float>({3}, {1, 2, 3});
  const Buffer at = array<std::int32_t>({3}, {5, 0, -1});
  Buffer out(host_space({}), float32, {2});
  const std::vector<TensorView> operands = {view_from(x, {4}), updates.view(), at.view()};
  const std::vector<TensorView> results = {view_from(out, {4})};
  op_named("scatter").reference(
      {.op = op_named("scatter"), .attrs = form({0}), .inputs = operands, .outputs = results});
  EXPECT_EQ(values<float>(out), (std::vector<float>{10, 1}));
}

TEST(Scatter, TheLastUpdateStays) {
  const Buffer out = test_support::run(
      "scatter", form({0}),
      {counting<std::int32_t>({3}), array<std::int32_t>({3}, {7, 8, 9}), array<std::int32_t>({3}, {1, 1, 2})});
  EXPECT_EQ(values<std::int32_t>(out), (Ints{0, 8, 9}));
}

TEST(ScatterReduce, OfNothingChangesNothing) {
  const auto of_nothing = [](const char* kind) {
    const Buffer out = test_support::run("scatter_reduce", reduction_form({0}, {1}, kind),
                                         {array<float>({0}, {}), array<std::int32_t>({0}, {})});
    return values<float>(out)[0];
  };
  EXPECT_EQ(of_nothing("sum"), 0.0F);
  EXPECT_TRUE(std::signbit(of_nothing("sum")));
  EXPECT_EQ(of_nothing("prod"), 1.0F);
  EXPECT_EQ(of_nothing("max"), -std::numeric_limits<float>::infinity());
  EXPECT_EQ(of_nothing("min"), std::numeric_limits<float>::infinity());
}

// ---- Rules.

TEST(GatherRules, AddressedDimensionsAreSummedOver) {
  const std::vector<Type> types = {type_of(float32, {4, 8, 6}), type_of(int32, {4, 3})};
  EXPECT_EQ(to_string(rule_of("gather", form({1}, {0}, {0}), types)), "(i, j, k), (i, l) -> (i, l, k) reduction={j}");
  const std::vector<Type> two = {types[0], type_of(int32, {3}), type_of(int32, {3})};
  EXPECT_EQ(to_string(rule_of("gather", form({0, 2}), two)), "(i, j, k), (l), (l) -> (l, j) reduction={i, k}");
}

TEST(GatherRules, ScatterNeedsAllUpdates) {
  const std::vector<Type> types = {type_of(float32, {8, 6}), type_of(float32, {3, 6}), type_of(int32, {3})};
  EXPECT_EQ(to_string(rule_of("scatter", form({0}), types)), "(i, j), (k, j), (k) -> (i, j) need_replication={k}");
}

TEST(GatherRules, ScatterReduceSumsOverUpdates) {
  const std::vector<Type> types = {type_of(float32, {3, 6}), type_of(int32, {3})};
  const ShardingRule rule = rule_of("scatter_reduce", reduction_form({0}, {8, 6}, "max"), types);
  EXPECT_EQ(to_string(rule), "(k, j), (k) -> (i, j) reduction={k}");
  EXPECT_EQ(rule.reduction, ReduceKind::kMax);
}

// ---- Complaints.

TEST(GatherErrors, Operands) {
  const Type x = type_of(float32, {4, 3});
  const Type at = type_of(int32, {2});
  EXPECT_EQ(complaint("gather", form({0, 1}), {x, at}),
            "gather: has 1 operands of indices for the 2 dimensions (0, 1)");
  EXPECT_EQ(complaint("gather", form({2}), {x, at}),
            "gather: dims and array_batch (2,) must be distinct dimensions below 2");
  EXPECT_EQ(complaint("gather", form({0}, {0}, {0}), {x, at}),
            "gather: dims and array_batch (0, 0) must be distinct dimensions below 2");
  EXPECT_EQ(complaint("gather", form({0}), {x, type_of(float32, {2})}), "gather: indices must be integers, not f32[2]");
  EXPECT_EQ(complaint("gather", form({0, 1}), {x, at, type_of(int32, {3})}),
            "gather: indices must have one shape, but have (2,) and (3,)");
  EXPECT_EQ(complaint("gather", form({0}, {1}, {0}), {x, at}),
            "gather: batch dimension 1 of the array (4, 3) has extent 3, but dimension 0 of the indices (2,) has "
            "extent 2");
  EXPECT_EQ(complaint("gather", form({0}, {1}, {}), {x, at}),
            "gather: array_batch (1,) and index_batch () must go together");
  EXPECT_EQ(complaint("gather", form({0}, {1}, {1}), {x, at}),
            "gather: index_batch (1,) must be distinct dimensions below 1");
}

TEST(GatherErrors, Updates) {
  const Type x = type_of(float32, {4, 3});
  const Type at = type_of(int32, {2});
  EXPECT_EQ(complaint("scatter", form({0}), {x, type_of(float32, {3, 2}), at}),
            "scatter: updates f32[3,2] must have shape (2, 3), that of the items they replace");
  EXPECT_EQ(complaint("scatter", form({0}), {x, type_of(float16, {2, 3}), at}),
            "scatter: updates f16[2,3] must have the dtype of the array f32[4,3]");
  EXPECT_EQ(complaint("scatter_reduce", reduction_form({0}, {-1}, "sum"), {type_of(float32, {2}), at}),
            "scatter_reduce: shape (-1,) has a negative extent");
  EXPECT_EQ(complaint("scatter_reduce", reduction_form({0}, {4}, "and"), {type_of(int32, {2}), at}),
            "scatter_reduce: kind must be sum, prod, max or min, not and");
  EXPECT_EQ(complaint<TypeMismatch>("scatter_reduce", reduction_form({0}, {4}, "max"), {type_of(complex64, {2}), at}),
            "scatter_reduce: complex numbers have no order; got complex64[2]");
}

}  // namespace
}  // namespace shoal
