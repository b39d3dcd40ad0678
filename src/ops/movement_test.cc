#include <gtest/gtest.h>

#include <cstring>

#include "ops/test_support.h"

namespace shoal {
namespace {

using test_support::array;
using test_support::complaint;
using test_support::counting;
using test_support::for_each_dtype;
using test_support::infer;
using test_support::Ints;
using test_support::rule_of;
using test_support::run;
using test_support::type_of;
using test_support::values;

std::string rule(std::string_view op, const Attrs& attrs, const Shape& shape) {
  return to_string(rule_of(op, attrs, {type_of(float32, shape)}));
}

// ---- broadcast_in_dim

TEST(BroadcastInDim, RepeatsElements) {
  const Buffer x = array<std::int32_t>({3}, {1, 2, 3});
  EXPECT_EQ(values<std::int32_t>(run("broadcast_in_dim", {{"shape", Shape{2, 3}}, {"dims", Dims{1}}}, {x})),
            (Ints{1, 2, 3, 1, 2, 3}));
  EXPECT_EQ(values<std::int32_t>(run("broadcast_in_dim", {{"shape", Shape{3, 2}}, {"dims", Dims{0}}}, {x})),
            (Ints{1, 1, 2, 2, 3, 3}));
  const Buffer column = array<std::int32_t>({2, 1}, {5, 7});
  EXPECT_EQ(values<std::int32_t>(run("broadcast_in_dim", {{"shape", Shape{2, 3}}, {"dims", Dims{0, 1}}}, {column})),
            (Ints{5, 5, 5, 7, 7, 7}));
  const Buffer scalar = array<std::int32_t>({}, {4});
  EXPECT_EQ(values<std::int32_t>(run("broadcast_in_dim", {{"shape", Shape{2, 2}}, {"dims", Dims{}}}, {scalar})),
            (Ints{4, 4, 4, 4}));
  EXPECT_EQ(run("broadcast_in_dim", {{"shape", Shape{0, 3}}, {"dims", Dims{1}}}, {x}).shape(), (Shape{0, 3}));
}

TEST(BroadcastInDim, MovesEveryDtype) {
  for_each_dtype([](auto tag) {
    using T = decltype(tag);
    const Buffer x = array<T>({2}, {T(0), T(1)});
    EXPECT_EQ(values<T>(run("broadcast_in_dim", {{"shape", Shape{2, 2}}, {"dims", Dims{0}}}, {x})),
              (std::vector<T>{T(0), T(0), T(1), T(1)}));
  });
}

TEST(BroadcastInDim, KeepsTheRestOfTheType) {
  Type type = type_of(int8, {3});
  type.weak = true;
  type.memory = kPinnedHostMemory;
  type.varying = {"x"};
  Type expected = type;
  expected.shape = {2, 3};
  EXPECT_EQ(infer("broadcast_in_dim", {{"shape", Shape{2, 3}}, {"dims", Dims{1}}}, {type})[0], expected);
}

TEST(BroadcastInDim, Complains) {
  const auto of = [](const Shape& in, const Shape& shape, const Dims& dims) {
    return complaint("broadcast_in_dim", {{"shape", shape}, {"dims", dims}}, {type_of(float32, in)});
  };
  EXPECT_EQ(of({3}, {2, 3}, {}),
            "broadcast_in_dim: dims () must name one result dimension for each of the 1 of operand f32[3]");
  EXPECT_EQ(of({3}, {2, 3}, {2}), "broadcast_in_dim: dims (2,) must be ascending dimensions of shape (2, 3)");
  EXPECT_EQ(of({3}, {2, 3}, {-1}), "broadcast_in_dim: dims (-1,) must be ascending dimensions of shape (2, 3)");
  EXPECT_EQ(of({2, 3}, {3, 2}, {1, 0}), "broadcast_in_dim: dims (1, 0) must be ascending dimensions of shape (3, 2)");
  EXPECT_EQ(of({2, 2}, {2, 2}, {1, 1}), "broadcast_in_dim: dims (1, 1) must be ascending dimensions of shape (2, 2)");
  EXPECT_EQ(
      of({3}, {2, 4}, {1}),
      "broadcast_in_dim: operand f32[3] cannot be broadcast to shape (2, 4): dimension 0 has extent 3, not 1 or 4");
  EXPECT_EQ(of({1}, {-2}, {0}), "broadcast_in_dim: shape (-2,) has a negative extent");
}

TEST(BroadcastInDim, Rule) {
  EXPECT_EQ(rule("broadcast_in_dim", {{"shape", Shape{2, 3, 4}}, {"dims", Dims{0, 2}}}, {2, 4}), "(i, k) -> (i, j, k)");
  EXPECT_EQ(rule("broadcast_in_dim", {{"shape", Shape{2, 3}}, {"dims", Dims{0, 1}}}, {2, 1}), "(i, 1) -> (i, j)");
  EXPECT_EQ(rule("broadcast_in_dim", {{"shape", Shape{1, 3}}, {"dims", Dims{0}}}, {1}), "(i) -> (i, j)");
  EXPECT_EQ(rule("broadcast_in_dim", {{"shape", Shape{2}}, {"dims", Dims{}}}, {}), "() -> (i)");
}

// ---- reshape

TEST(Reshape, KeepsTheOrderOfElements) {
  for_each_dtype([](auto tag) {
    using T = decltype(tag);
    const Buffer x = counting<T>({2, 3});
    const Buffer y = run("reshape", {{"shape", Shape{3, 1, 2}}}, {x});
    EXPECT_EQ(y.shape(), (Shape{3, 1, 2}));
    EXPECT_EQ(values<T>(y), values<T>(x));
  });
  EXPECT_EQ(values<float>(run("reshape", {{"shape", Shape{}}}, {array<float>({1, 1}, {5})})), (std::vector<float>{5}));
  EXPECT_EQ(run("reshape", {{"shape", Shape{3, 0}}}, {counting<float>({0})}).shape(), (Shape{3, 0}));
}

TEST(Reshape, Complains) {
  const auto of = [](const Shape& in, const Shape& shape) {
    return complaint("reshape", {{"shape", shape}}, {type_of(float32, in)});
  };
  EXPECT_EQ(of({2, 3}, {4}), "reshape: operand f32[2,3] has 6 elements, which shape (4,) does not hold");
  EXPECT_EQ(of({2, 3}, {-2, -3}), "reshape: operand f32[2,3] has 6 elements, which shape (-2, -3) does not hold");
  EXPECT_EQ(of({0}, {}), "reshape: operand f32[0] has 0 elements, which shape () does not hold");
}

TEST(Reshape, Rule) {
  const auto of = [](const Shape& in, const Shape& out) { return rule("reshape", {{"shape", out}}, in); };
  EXPECT_EQ(of({2, 3}, {2, 3}), "(i, j) -> (i, j)");
  EXPECT_EQ(of({2, 3}, {6}), "(i, j) -> (ij)") << "merge";
  EXPECT_EQ(of({6}, {2, 3}), "(ij) -> (i, j)") << "split";
  EXPECT_EQ(of({24}, {2, 3, 4}), "(ijk) -> (i, j, k)");
  EXPECT_EQ(of({2, 3, 4}, {24}), "(i, j, k) -> (ijk)");
  EXPECT_EQ(of({4, 6}, {8, 3}), "(i, jk) -> (ij, k)") << "a part moves to the neighbour";
  EXPECT_EQ(of({2, 12, 5}, {8, 3, 5}), "(i, jk, l) -> (ij, k, l)");
}

TEST(Reshape, RuleOfExtentsWithoutCommonDivisor) {
  const auto of = [](const Shape& in, const Shape& out) { return rule("reshape", {{"shape", out}}, in); };
  EXPECT_EQ(of({2, 3}, {3, 2}), "(i, j) -> (k, l) need_replication={i, j, k, l}");
  EXPECT_EQ(of({4, 6}, {6, 4}), "(ij, k) -> (il, m) need_replication={j, k, l, m}") << "halves go along";
  EXPECT_EQ(of({5, 2, 3}, {5, 3, 2}), "(i, j, k) -> (i, l, m) need_replication={j, k, l, m}");
}

TEST(Reshape, RuleOfExtentsOfOneAndZero) {
  const auto of = [](const Shape& in, const Shape& out) { return rule("reshape", {{"shape", out}}, in); };
  EXPECT_EQ(of({4}, {1, 4, 1}), "(i) -> (1, i, 1)");
  EXPECT_EQ(of({1, 4, 1}, {4}), "(1, i, 1) -> (i)");
  EXPECT_EQ(of({1, 6, 1}, {2, 1, 3}), "(1, ij, 1) -> (i, 1, j)");
  EXPECT_EQ(of({1}, {}), "(1) -> ()");
  EXPECT_EQ(of({}, {1, 1}), "() -> (1, 1)");
  EXPECT_EQ(of({0}, {0, 3}), "(i) -> (j, k) need_replication={i, j, k}");
  EXPECT_EQ(of({2, 0}, {0}), "(i, j) -> (k) need_replication={i, j, k}");
}

// The product of a dimension's factors is its extent, whatever the shapes.
TEST(Reshape, RuleCoversEveryDimension) {
  const std::vector<Shape> shapes = {{48},    {6, 8},       {8, 6},     {4, 12}, {12, 4}, {2, 3, 8}, {3, 16},
                                     {16, 3}, {2, 2, 2, 6}, {1, 48, 1}, {5, 1},  {1, 5},  {5}};
  for (const Shape& in : shapes) {
    for (const Shape& out : shapes) {
      if (num_elements(in) != num_elements(out)) continue;
      const ShardingRule made = rule_of("reshape", {{"shape", out}}, {type_of(float32, in)});
      const auto check = [&](const TensorFactors& tensor, const Shape& shape) {
        ASSERT_EQ(tensor.size(), shape.size());
        for (std::size_t d = 0; d < shape.size(); ++d) {
          std::int64_t product = 1;
          for (int factor : tensor[d]) product *= made.factors[static_cast<std::size_t>(factor)].size;
          EXPECT_EQ(product, shape[d]) << to_string(in) << " to " << to_string(out);
        }
      };
      check(made.operands[0], in);
      check(made.results[0], out);
    }
  }
}

// ---- transpose

TEST(Transpose, PermutesDimensions) {
  const Buffer x = counting<std::int32_t>({2, 3});
  EXPECT_EQ(values<std::int32_t>(run("transpose", {{"perm", Dims{1, 0}}}, {x})), (Ints{0, 3, 1, 4, 2, 5}));
  const Buffer cube = counting<std::int32_t>({2, 2, 3});
  // numpy: arange(12).reshape(2, 2, 3).transpose(2, 0, 1)
  EXPECT_EQ(values<std::int32_t>(run("transpose", {{"perm", Dims{2, 0, 1}}}, {cube})),
            (Ints{0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11}));
  EXPECT_EQ(values<std::int32_t>(run("transpose", {{"perm", Dims{}}}, {array<std::int32_t>({}, {7})})), Ints{7});
  EXPECT_EQ(run("transpose", {{"perm", Dims{1, 0}}}, {counting<float>({0, 3})}).shape(), (Shape{3, 0}));
}

TEST(Transpose, MovesEveryDtype) {
  for_each_dtype([](auto tag) {
    using T = decltype(tag);
    const Buffer x = array<T>({2, 2}, {T(0), T(1), T(1), T(0)});
    const Buffer y = array<T>({1, 2}, {T(0), T(1)});
    EXPECT_EQ(values<T>(run("transpose", {{"perm", Dims{1, 0}}}, {x})), (std::vector<T>{T(0), T(1), T(1), T(0)}));
    EXPECT_EQ(run("transpose", {{"perm", Dims{1, 0}}}, {y}).shape(), (Shape{2, 1}));
  });
}

TEST(Transpose, Complains) {
  const auto of = [](const Shape& in, const Dims& perm) {
    return complaint("transpose", {{"perm", perm}}, {type_of(float32, in)});
  };
  EXPECT_EQ(of({2, 3}, {0}), "transpose: perm (0,) must name each of the 2 dimensions of operand f32[2,3]");
  EXPECT_EQ(of({2, 3}, {0, 0}), "transpose: perm (0, 0) names dimension 0 twice");
  EXPECT_EQ(of({2, 3}, {0, 2}),
            "transpose: perm (0, 2) names dimension 2, but the operand f32[2,3] has dimensions 0 to 1");
  EXPECT_EQ(of({2, 3}, {-1, 0}),
            "transpose: perm (-1, 0) names dimension -1, but the operand f32[2,3] has dimensions 0 to 1");
}

TEST(Transpose, Rule) { EXPECT_EQ(rule("transpose", {{"perm", Dims{2, 0, 1}}}, {2, 3, 4}), "(i, j, k) -> (k, i, j)"); }

// ---- slice

Attrs bounds(const Dims& starts, const Dims& limits, const Dims& strides) {
  return {{"starts", starts}, {"limits", limits}, {"strides", strides}};
}

TEST(Slice, TakesRanges) {
  const Buffer x = counting<std::int32_t>({3, 5});
  EXPECT_EQ(values<std::int32_t>(run("slice", bounds({1, 0}, {3, 5}, {1, 2}), {x})), (Ints{5, 7, 9, 10, 12, 14}));
  EXPECT_EQ(values<std::int32_t>(run("slice", bounds({0, 1}, {3, 4}, {2, 3}), {x})), (Ints{1, 11}));
  EXPECT_EQ(run("slice", bounds({2, 0}, {2, 5}, {1, 1}), {x}).shape(), (Shape{0, 5}));
  EXPECT_EQ(values<std::int32_t>(run("slice", bounds({}, {}, {}), {array<std::int32_t>({}, {7})})), Ints{7});
}

TEST(Slice, MovesEveryDtype) {
  for_each_dtype([](auto tag) {
    using T = decltype(tag);
    const Buffer x = array<T>({3}, {T(1), T(0), T(1)});
    EXPECT_EQ(values<T>(run("slice", bounds({1}, {3}, {1}), {x})), (std::vector<T>{T(0), T(1)}));
  });
}

TEST(Slice, Complains) {
  const auto of = [](const Attrs& attrs) { return complaint("slice", attrs, {type_of(float32, {3, 5})}); };
  EXPECT_EQ(of(bounds({0}, {3, 5}, {1, 1})),
            "slice: starts, limits and strides must have one entry for each dimension of operand f32[3,5]");
  EXPECT_EQ(of(bounds({0, 0}, {3, 6}, {1, 1})),
            "slice: the range 0:6:1 does not lie in dimension 1 of operand f32[3,5]");
  EXPECT_EQ(of(bounds({-1, 0}, {3, 5}, {1, 1})),
            "slice: the range -1:3:1 does not lie in dimension 0 of operand f32[3,5]");
  EXPECT_EQ(of(bounds({2, 0}, {1, 5}, {1, 1})),
            "slice: the range 2:1:1 does not lie in dimension 0 of operand f32[3,5]");
  EXPECT_EQ(of(bounds({0, 0}, {3, 5}, {1, 0})),
            "slice: the range 0:5:0 does not lie in dimension 1 of operand f32[3,5]");
}

TEST(Slice, Rule) {
  EXPECT_EQ(rule("slice", bounds({0, 1}, {3, 5}, {1, 1}), {3, 5}), "(i, j) -> (i, j) rearranged={j}");
  EXPECT_EQ(rule("slice", bounds({0, 0}, {3, 5}, {1, 1}), {3, 5}), "(i, j) -> (i, j)");
  EXPECT_EQ(rule("slice", bounds({0}, {3}, {2}), {3}), "(i) -> (i) rearranged={i}");
}

}  // namespace
}  // namespace shoal
