// concatenate, pad, reverse, dynamic_slice, dynamic_update_slice and bitcast. Values of every dtype are compared with
// recorded ones in tests/parity; here are their rules, their complaints, and shards that are shorter than types say.
#include <gtest/gtest.h>

#include <limits>

#include "ops/test_support.h"

namespace shoal {
namespace {

using test_support::array;
using test_support::complaint;
using test_support::counting;
using test_support::infer;
using test_support::Ints;
using test_support::rule_of;
using test_support::run;
using test_support::type_of;
using test_support::values;

Buffer scalar(std::int32_t value) { return array<std::int32_t>({}, {value}); }

Attrs padding(Dims low, Dims high, Dims interior) {
  return {{"low", std::move(low)}, {"high", std::move(high)}, {"interior", std::move(interior)}};
}

// ---- concatenate

TEST(Concatenate, Joins) {
  const Buffer x = array<std::int32_t>({2, 1}, {1, 2});
  const Buffer y = array<std::int32_t>({2, 2}, {3, 4, 5, 6});
  const Buffer none = array<std::int32_t>({2, 0}, {});
  EXPECT_EQ(values<std::int32_t>(run("concatenate", {{"dim", std::int64_t{1}}}, {x, y, none, x})),
            (Ints{1, 3, 4, 1, 2, 5, 6, 2}));
  EXPECT_EQ(values<std::int32_t>(run("concatenate", {{"dim", std::int64_t{0}}}, {y, y})),
            (Ints{3, 4, 5, 6, 3, 4, 5, 6}));
}

TEST(Concatenate, IsWeakIfAllAre) {
  Type weak = type_of(float32, {2});
  weak.weak = true;
  const Type strong = type_of(float32, {2});
  EXPECT_TRUE(infer("concatenate", {{"dim", std::int64_t{0}}}, {weak, weak})[0].weak);
  EXPECT_FALSE(infer("concatenate", {{"dim", std::int64_t{0}}}, {weak, strong})[0].weak);
}

TEST(Concatenate, Complains) {
  const auto of = [](std::int64_t dim, const std::vector<Type>& types) {
    return complaint("concatenate", {{"dim", dim}}, types);
  };
  const Type x = type_of(float32, {2, 3});
  EXPECT_EQ(of(0, {}), "concatenate: there are no operands; it takes at least one");
  EXPECT_EQ(of(2, {x}), "concatenate: dim is 2, but operand f32[2,3] has 2 dimensions");
  EXPECT_EQ(of(-1, {x}), "concatenate: dim is -1, but operand f32[2,3] has 2 dimensions");
  EXPECT_EQ(of(0, {x, type_of(int32, {2, 3})}),
            "concatenate: operands f32[2,3] and i32[2,3] have different dtypes; they must be equal");
  for (const Shape& shape : {Shape{2, 4}, Shape{2}, Shape{2, 3, 1}}) {
    EXPECT_EQ(of(0, {x, type_of(float32, shape)}).substr(0, 34), "concatenate: operands f32[2,3] and")
        << to_string(shape);
  }
}

TEST(Concatenate, OtherDimensionsPassThrough) {
  EXPECT_EQ(to_string(rule_of("concatenate", {{"dim", std::int64_t{1}}},
                              {type_of(float32, {4, 2, 3}), type_of(float32, {4, 5, 3})})),
            "(i, j, k), (i, j, k) -> (i, j, k) rearranged={j}");
}

// ---- pad

TEST(Pad, AddsAndCutsOff) {
  const Buffer x = array<std::int32_t>({3}, {1, 2, 3});
  const auto padded = [&](std::int64_t low, std::int64_t high, std::int64_t interior) {
    return values<std::int32_t>(run("pad", padding({low}, {high}, {interior}), {x, scalar(9)}));
  };
  EXPECT_EQ(padded(1, 2, 0), (Ints{9, 1, 2, 3, 9, 9}));
  EXPECT_EQ(padded(0, 0, 2), (Ints{1, 9, 9, 2, 9, 9, 3}));
  EXPECT_EQ(padded(-1, 1, 0), (Ints{2, 3, 9}));
  EXPECT_EQ(padded(-1, -1, 1), (Ints{9, 2, 9}));
  EXPECT_EQ(padded(-2, -1, 0), (Ints{}));
  EXPECT_EQ(padded(-5, 4, 0), (Ints{9, 9}));
}

TEST(Pad, OfNothing) {
  const Buffer nothing = array<std::int32_t>({0}, {});
  EXPECT_EQ(values<std::int32_t>(run("pad", padding({1}, {1}, {3}), {nothing, scalar(9)})), (Ints{9, 9}));
}

TEST(Pad, Complains) {
  const Type x = type_of(float32, {3});
  const Type value = type_of(float32, {});
  const auto of = [&](std::int64_t low, std::int64_t high, std::int64_t interior) {
    return complaint("pad", padding({low}, {high}, {interior}), {x, value});
  };
  EXPECT_EQ(
      of(-2, -2, 0),
      "pad: dimension 0 of operand f32[3] would have extent -1 after padding by -2 below and -2 above; it must be "
      "at least 0");
  EXPECT_EQ(of(0, 0, -1), "pad: interior (-1,) has a negative entry");
  EXPECT_EQ(complaint("pad", padding({0}, {0}, {}), {x, value}),
            "pad: low (0,), high (0,) and interior () must have one entry for each dimension of operand f32[3]");
  EXPECT_EQ(complaint("pad", padding({0}, {0}, {0}), {x, x}), "pad: the padding value is f32[3]; it must be a scalar");
  EXPECT_EQ(complaint("pad", padding({0}, {0}, {0}), {x, type_of(int32, {})}),
            "pad: operands f32[3] and i32[] have different dtypes; they must be equal");
}

TEST(Pad, OtherDimensionsPassThrough) {
  const std::vector<Type> types{type_of(float32, {4, 2, 3}), type_of(float32, {})};
  EXPECT_EQ(to_string(rule_of("pad", padding({0, 1, 0}, {0, 0, 0}, {0, 0, 0}), types)),
            "(i, j, k), () -> (i, j, k) rearranged={j}");
  EXPECT_EQ(to_string(rule_of("pad", padding({0, 0, 0}, {0, 0, -1}, {1, 0, 0}), types)),
            "(i, j, k), () -> (i, j, k) rearranged={i, k}");
}

// ---- reverse

TEST(Reverse, Reverses) {
  const Buffer x = counting<std::int32_t>({2, 3});
  EXPECT_EQ(values<std::int32_t>(run("reverse", {{"dims", Dims{1}}}, {x})), (Ints{2, 1, 0, 5, 4, 3}));
  EXPECT_EQ(values<std::int32_t>(run("reverse", {{"dims", Dims{1, 0}}}, {x})), (Ints{5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(values<std::int32_t>(run("reverse", {{"dims", Dims{}}}, {x})), (Ints{0, 1, 2, 3, 4, 5}));
}

TEST(Reverse, Complains) {
  const Type x = type_of(float32, {2, 3});
  EXPECT_EQ(complaint("reverse", {{"dims", Dims{2}}}, {x}),
            "reverse: dims (2,) names dimension 2, but the operand f32[2,3] has dimensions 0 to 1");
  EXPECT_EQ(complaint("reverse", {{"dims", Dims{0, 0}}}, {x}), "reverse: dims (0, 0) names dimension 0 twice");
}

TEST(Reverse, OtherDimensionsPassThrough) {
  EXPECT_EQ(to_string(rule_of("reverse", {{"dims", Dims{1}}}, {type_of(float32, {4, 2, 3})})),
            "(i, j, k) -> (i, j, k) rearranged={j}");
}

// ---- roll

TEST(Roll, MovesElementsRound) {
  const Buffer x = counting<std::int32_t>({2, 3});
  EXPECT_EQ(values<std::int32_t>(run("roll", {{"shifts", Dims{0, 1}}}, {x})), (Ints{2, 0, 1, 5, 3, 4}));
  EXPECT_EQ(values<std::int32_t>(run("roll", {{"shifts", Dims{1, 2}}}, {x})), (Ints{4, 5, 3, 1, 2, 0}));
  EXPECT_EQ(values<std::int32_t>(run("roll", {{"shifts", Dims{0, 0}}}, {x})), (Ints{0, 1, 2, 3, 4, 5}));
}

TEST(Roll, Rule) {
  EXPECT_EQ(to_string(rule_of("roll", {{"shifts", Dims{0, 1}}}, {type_of(float32, {4, 3})})),
            "(i, j) -> (i, j) rearranged={j}");
}

TEST(Roll, Complains) {
  for (const Dims& shifts : {Dims{1}, Dims{4, 0}, Dims{-1, 0}}) {
    EXPECT_EQ(complaint("roll", {{"shifts", shifts}}, {type_of(float32, {4, 3})}),
              "roll: shifts " + to_string(shifts) +
                  " must have one entry for each dimension of operand f32[4,3], at least 0 and below its extent");
  }
}

// ---- dynamic_slice and dynamic_update_slice

TEST(DynamicSlice, BeginsWhereTheWindowFits) {
  const Buffer x = counting<std::int32_t>({2, 4});
  const auto window = [&](std::int32_t row, std::int32_t column) {
    return values<std::int32_t>(run("dynamic_slice", {{"sizes", Dims{1, 2}}}, {x, scalar(row), scalar(column)}));
  };
  EXPECT_EQ(window(0, 0), (Ints{0, 1}));
  EXPECT_EQ(window(1, 1), (Ints{5, 6}));
  EXPECT_EQ(window(7, 3), (Ints{6, 7}));
  EXPECT_EQ(window(-7, 2), (Ints{2, 3}));
  const Buffer huge = array<std::uint64_t>({}, {std::numeric_limits<std::uint64_t>::max()});
  EXPECT_EQ(values<std::int32_t>(run("dynamic_slice", {{"sizes", Dims{1, 2}}}, {x, huge, huge})), (Ints{6, 7}));
}

TEST(DynamicSlice, Complains) {
  const Type x = type_of(float32, {2, 3});
  const Type i = type_of(int32, {});
  const auto of = [](const Dims& sizes, const std::vector<Type>& types) {
    return complaint("dynamic_slice", {{"sizes", sizes}}, types);
  };
  EXPECT_EQ(of({}, {}), "dynamic_slice: there is no operand to slice");
  EXPECT_EQ(of({1, 1}, {x, i}), "dynamic_slice: operand f32[2,3] needs 2 start indices, one for each dimension; got 1");
  EXPECT_EQ(of({1, 1}, {x, i, type_of(float32, {})}),
            "dynamic_slice: a start index is f32[]; it must be an integer scalar");
  EXPECT_EQ(of({1, 1}, {x, i, type_of(int32, {1})}),
            "dynamic_slice: a start index is i32[1]; it must be an integer scalar");
  for (const Dims& sizes : {Dims{1}, Dims{3, 1}, Dims{1, -1}}) {
    EXPECT_EQ(of(sizes, {x, i, i}), "dynamic_slice: sizes " + to_string(sizes) +
                                        " must have one entry for each dimension of operand f32[2,3], between 0 and "
                                        "its extent");
  }
}

TEST(DynamicSlice, WholeDimensionsPassThrough) {
  const Type i = type_of(int32, {});
  EXPECT_EQ(to_string(rule_of("dynamic_slice", {{"sizes", Dims{4, 1}}}, {type_of(float32, {4, 3}), i, i})),
            "(i, j), (), () -> (i, k) reduction={j}");
}

TEST(DynamicUpdateSlice, BeginsWhereTheWindowFits) {
  const Buffer x = counting<std::int32_t>({2, 3});
  const Buffer update = array<std::int32_t>({1, 2}, {8, 9});
  const auto updated = [&](std::int32_t row, std::int32_t column) {
    return values<std::int32_t>(run("dynamic_update_slice", {}, {x, update, scalar(row), scalar(column)}));
  };
  EXPECT_EQ(updated(0, 0), (Ints{8, 9, 2, 3, 4, 5}));
  EXPECT_EQ(updated(5, 5), (Ints{0, 1, 2, 3, 8, 9}));
  EXPECT_EQ(updated(-5, 1), (Ints{0, 8, 9, 3, 4, 5}));
}

TEST(DynamicUpdateSlice, Complains) {
  const Type x = type_of(float32, {2, 3});
  const Type i = type_of(int32, {});
  const auto of = [](const std::vector<Type>& types) { return complaint("dynamic_update_slice", {}, types); };
  EXPECT_EQ(of({x}), "dynamic_update_slice: it takes an operand and an update");
  EXPECT_EQ(of({x, type_of(float32, {3, 1}), i, i}),
            "dynamic_update_slice: the update f32[3,1] must have the rank of operand f32[2,3] and no greater extents");
  EXPECT_EQ(of({x, type_of(float32, {1}), i, i}),
            "dynamic_update_slice: the update f32[1] must have the rank of operand f32[2,3] and no greater extents");
  EXPECT_EQ(of({x, type_of(int32, {1, 1}), i, i}),
            "dynamic_update_slice: operands f32[2,3] and i32[1,1] have different dtypes; they must be equal");
  EXPECT_EQ(of({x, x, i}),
            "dynamic_update_slice: operand f32[2,3] needs 2 start indices, one for each dimension; got 1");
}

TEST(DynamicUpdateSlice, WholeDimensionsPassThrough) {
  const Type i = type_of(int32, {});
  EXPECT_EQ(to_string(rule_of("dynamic_update_slice", {}, {type_of(float32, {4, 3}), type_of(float32, {4, 2}), i, i})),
            "(i, j), (i, k), (), () -> (i, j) need_replication={k}");
}

// ---- bitcast

TEST(Bitcast, ReadsTheSameBytes) {
  const Buffer x = array<std::uint32_t>({2}, {0x3f800000, 0x01020304});
  EXPECT_EQ(values<float>(run("bitcast", {{"dtype", float32}}, {x}))[0], 1.0F);
  const Buffer bytes = run("bitcast", {{"dtype", uint8}}, {x});
  EXPECT_EQ(bytes.shape(), (Shape{2, 4}));
  EXPECT_EQ(values<std::uint8_t>(bytes), (std::vector<std::uint8_t>{0, 0, 0x80, 0x3f, 4, 3, 2, 1}));
  const Buffer back = run("bitcast", {{"dtype", uint32}}, {bytes});
  EXPECT_EQ(back.shape(), Shape{2});
  EXPECT_EQ(values<std::uint32_t>(back), values<std::uint32_t>(x));
}

TEST(Bitcast, Complains) {
  const auto of = [](const Type& type, Dtype dtype) { return complaint("bitcast", {{"dtype", dtype}}, {type}); };
  EXPECT_EQ(of(type_of(bool_, {2}), int8),
            "bitcast: operand bool[2] cannot be read as int8: bool and complex numbers have no other reading");
  EXPECT_EQ(of(type_of(float32, {2}), complex64),
            "bitcast: operand f32[2] cannot be read as complex64: bool and complex numbers have no other reading");
  EXPECT_EQ(of(type_of(int8, {3}), int32),
            "bitcast: operand i8[3] cannot be read as int32: its last dimension must have extent 4, the elements that "
            "make one");
  EXPECT_EQ(of(type_of(int8, {}), int16),
            "bitcast: operand i8[] cannot be read as int16: its last dimension must have extent 2, the elements that "
            "make one");
}

TEST(Bitcast, PartsOfAnElementStayTogether) {
  EXPECT_EQ(to_string(rule_of("bitcast", {{"dtype", int32}}, {type_of(float32, {4, 3})})), "(i, j) -> (i, j)");
  EXPECT_EQ(to_string(rule_of("bitcast", {{"dtype", int8}}, {type_of(float32, {4})})),
            "(i) -> (i, j) need_replication={j}");
  EXPECT_EQ(to_string(rule_of("bitcast", {{"dtype", float64}}, {type_of(float32, {4, 2})})),
            "(i, j) -> (i) need_replication={j}");
}

}  // namespace
}  // namespace shoal
