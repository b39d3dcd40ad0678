#include <gtest/gtest.h>

#include <cmath>
#include <limits>

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

template <class T>
std::vector<T> reduced(std::string_view op, const Dims& axes, const Buffer& x) {
  return values<T>(run(op, {{"axes", axes}}, {x}));
}

using Floats = std::vector<float>;

TEST(Reduce, OverEachDimension) {
  const Buffer x = array<std::int32_t>({2, 3}, {3, -1, 4, 1, 5, -9});
  EXPECT_EQ(reduced<std::int32_t>("reduce_sum", {0}, x), (Ints{4, 4, -5}));
  EXPECT_EQ(reduced<std::int32_t>("reduce_sum", {1}, x), (Ints{6, -3}));
  EXPECT_EQ(reduced<std::int32_t>("reduce_sum", {0, 1}, x), (Ints{3}));
  EXPECT_EQ(reduced<std::int32_t>("reduce_sum", {}, x), (Ints{3, -1, 4, 1, 5, -9}));
  EXPECT_EQ(reduced<std::int32_t>("reduce_prod", {1}, x), (Ints{-12, -45}));
  EXPECT_EQ(reduced<std::int32_t>("reduce_max", {0}, x), (Ints{3, 5, 4}));
  EXPECT_EQ(reduced<std::int32_t>("reduce_min", {1}, x), (Ints{-1, -9}));
  EXPECT_EQ(reduced<std::int32_t>("reduce_and", {1}, x), (Ints{0, 1}));
  EXPECT_EQ(reduced<std::int32_t>("reduce_or", {0}, x), (Ints{3, -1, -9 | 4}));
}

TEST(Reduce, OverInnerAndOuterDimensionsAtOnce) {
  // numpy: arange(24).reshape(2, 3, 4).sum((0, 2))
  const Buffer x = counting<std::int32_t>({2, 3, 4});
  EXPECT_EQ(reduced<std::int32_t>("reduce_sum", {0, 2}, x), (Ints{60, 92, 124}));
  EXPECT_EQ(reduced<std::int32_t>("reduce_sum", {2, 0}, x), (Ints{60, 92, 124}));
  EXPECT_EQ(reduced<std::int32_t>("reduce_max", {1}, x), (Ints{8, 9, 10, 11, 20, 21, 22, 23}));
}

TEST(Reduce, EveryDtype) {
  for_each_dtype([](auto tag) {
    using T = decltype(tag);
    if constexpr (!std::is_same_v<T, bool>) {
      const Buffer x = array<T>({4}, {T(2), T(3), T(1), T(4)});
      EXPECT_EQ(reduced<T>("reduce_sum", {0}, x), (std::vector<T>{T(10)}));
      EXPECT_EQ(reduced<T>("reduce_prod", {0}, x), (std::vector<T>{T(24)}));
      if constexpr (!kIsComplexElement<T>) {
        EXPECT_EQ(reduced<T>("reduce_max", {0}, x), (std::vector<T>{T(4)}));
        EXPECT_EQ(reduced<T>("reduce_min", {0}, x), (std::vector<T>{T(1)}));
      }
      if constexpr (std::is_integral_v<T>) {
        EXPECT_EQ(reduced<T>("reduce_and", {0}, array<T>({2}, {T(6), T(3)})), (std::vector<T>{T(2)}));
        EXPECT_EQ(reduced<T>("reduce_or", {0}, array<T>({2}, {T(6), T(3)})), (std::vector<T>{T(7)}));
      }
    }
  });
  const Buffer bools = array<bool>({2, 2}, {true, false, true, true});
  EXPECT_EQ(reduced<bool>("reduce_and", {1}, bools), (std::vector<bool>{false, true}));
  EXPECT_EQ(reduced<bool>("reduce_or", {0}, bools), (std::vector<bool>{true, true}));
  EXPECT_EQ(reduced<bool>("reduce_max", {1}, bools), (std::vector<bool>{true, true}));
  EXPECT_EQ(reduced<bool>("reduce_min", {1}, bools), (std::vector<bool>{false, true}));
}

TEST(Reduce, IntegersWrap) {
  EXPECT_EQ(reduced<std::int8_t>("reduce_sum", {0}, array<std::int8_t>({3}, {100, 100, 100})),
            (std::vector<std::int8_t>{44}));
  EXPECT_EQ(reduced<std::uint16_t>("reduce_prod", {0}, array<std::uint16_t>({2}, {300, 300})),
            (std::vector<std::uint16_t>{24464}));
}

TEST(Reduce, ExtremeIntegers) {
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(reduced<std::int64_t>("reduce_max", {0}, array<std::int64_t>({2}, {kLeast, kLeast})),
            (std::vector{kLeast}));
  EXPECT_EQ(reduced<std::int64_t>("reduce_min", {0}, array<std::int64_t>({2}, {kMost, kMost})), (std::vector{kMost}));
  EXPECT_EQ(reduced<std::int64_t>("reduce_max", {0}, array<std::int64_t>({2}, {kMost, kMost - 1})),
            (std::vector{kMost}));
}

TEST(Reduce, FloatsAreSummedInDoubles) {
  EXPECT_EQ(reduced<float>("reduce_sum", {0}, array<float>({3}, {1e8F, 1.0F, -1e8F})), Floats{1});
  EXPECT_EQ(reduced<float>("reduce_prod", {0}, array<float>({3}, {1e30F, 1e30F, 1e-30F})), Floats{1e30F});
  std::vector<bfloat16_t> ones(1000, bfloat16_t(1.0F));
  EXPECT_EQ(reduced<bfloat16_t>("reduce_sum", {0}, array<bfloat16_t>({1000}, ones)),
            (std::vector<bfloat16_t>{bfloat16_t(1000.0F)}));
}

TEST(Reduce, NansAndSigns) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const char* op : {"reduce_max", "reduce_min", "reduce_sum", "reduce_prod"}) {
    EXPECT_TRUE(std::isnan(reduced<float>(op, {0}, array<float>({3}, {1, kNan, 2}))[0])) << op;
    EXPECT_TRUE(std::isnan(static_cast<float>(reduced<float16_t>(op, {0}, array<float16_t>({2}, {kNan, 2.0F}))[0])))
        << op;
  }
  EXPECT_EQ(reduced<float>("reduce_max", {0}, array<float>({2}, {-kInf, -kInf})), Floats{-kInf});
  EXPECT_EQ(reduced<float>("reduce_min", {0}, array<float>({2}, {kInf, kInf})), Floats{kInf});
  EXPECT_FALSE(std::signbit(reduced<float>("reduce_max", {0}, array<float>({2}, {0.0F, -0.0F}))[0]));
  EXPECT_TRUE(std::signbit(reduced<float>("reduce_min", {0}, array<float>({2}, {0.0F, -0.0F}))[0]));
}

TEST(Reduce, ComplexNumbers) {
  using C = std::complex<float>;
  const Buffer x = array<C>({3}, {C(1, 2), C(0, 1), C(3, 0)});
  EXPECT_EQ(reduced<C>("reduce_sum", {0}, x), (std::vector<C>{C(4, 3)}));
  EXPECT_EQ(reduced<C>("reduce_prod", {0}, x), (std::vector<C>{C(-6, 3)}));
}

TEST(Reduce, NothingGivesTheNeutralElement) {
  const Buffer none = counting<float>({2, 0});
  EXPECT_EQ(reduced<float>("reduce_sum", {1}, none), (Floats{0, 0}));
  EXPECT_EQ(reduced<float>("reduce_prod", {1}, none), (Floats{1, 1}));
  EXPECT_EQ(reduced<std::int32_t>("reduce_and", {1}, counting<std::int32_t>({2, 0})), (Ints{-1, -1}));
  EXPECT_EQ(reduced<std::int32_t>("reduce_or", {1}, counting<std::int32_t>({2, 0})), (Ints{0, 0}));
  EXPECT_EQ(reduced<float>("reduce_max", {0}, none), Floats{});
}

// A shard may be empty where the whole is not.
TEST(Reduce, EmptyShardsOfExtremaAreNeutral) {
  const OpDef& op = op_named("reduce_max");
  const Attrs attrs{{"axes", Dims{0}}};
  const Buffer in = counting<float>({0, 2});
  const Buffer out = array<float>({2}, {7, 7});
  const std::vector<TensorView> inputs = {in.view()};
  const std::vector<TensorView> outputs = {out.view()};
  op.reference({.op = op, .attrs = attrs, .inputs = inputs, .outputs = outputs});
  constexpr float kInf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(values<float>(out), (Floats{-kInf, -kInf}));
}

TEST(Reduce, MayGiveAnotherDtype) {
  const Attrs attrs{{"axes", Dims{0}}, {"dtype", float32}};
  const Buffer x = array<bfloat16_t>({2}, {256.0F, 1.0F});
  EXPECT_EQ(values<float>(run("reduce_sum", attrs, {x})), Floats{257}) << "bf16 would round to 256";
  EXPECT_EQ(values<float>(run("reduce_max", attrs, {x})), Floats{256});
}

TEST(Reduce, KeepsTheRestOfTheType) {
  Type type = type_of(int8, {2, 3});
  type.weak = true;
  type.memory = kPinnedHostMemory;
  type.varying = {"x"};
  Type expected = type;
  expected.shape = {3};
  EXPECT_EQ(infer("reduce_sum", {{"axes", Dims{0}}}, {type})[0], expected);
}

TEST(Reduce, Complains) {
  const auto of = [](std::string_view op, const Dims& axes, const Type& type) {
    return complaint(op, {{"axes", axes}}, {type});
  };
  EXPECT_EQ(of("reduce_sum", {2}, type_of(float32, {2, 3})),
            "reduce_sum: axes (2,) names dimension 2, but the operand f32[2,3] has dimensions 0 to 1");
  EXPECT_EQ(of("reduce_prod", {-1}, type_of(float32, {2, 3})),
            "reduce_prod: axes (-1,) names dimension -1, but the operand f32[2,3] has dimensions 0 to 1");
  EXPECT_EQ(of("reduce_max", {1, 1}, type_of(float32, {2, 3})), "reduce_max: axes (1, 1) names dimension 1 twice");
  EXPECT_EQ(complaint<TypeMismatch>("reduce_min", {{"axes", Dims{0}}}, {type_of(complex64, {2})}),
            "reduce_min: complex numbers have no order; got complex64[2]");
  EXPECT_EQ(of("reduce_max", {1}, type_of(float32, {2, 0})),
            "reduce_max: axis 1 of operand f32[2,0] has no elements, and there is no neutral element");
  EXPECT_EQ(of("reduce_and", {0}, type_of(float32, {2})), "reduce_and: takes bool and integer operands, not f32[2]");
  EXPECT_EQ(of("reduce_or", {0}, type_of(complex128, {2})), "reduce_or: takes bool and integer operands, not c128[2]");
}

TEST(Reduce, Rule) {
  const ShardingRule sum = rule_of("reduce_sum", {{"axes", Dims{1}}}, {type_of(float32, {2, 3, 4})});
  EXPECT_EQ(to_string(sum), "(i, j, k) -> (i, k) reduction={j}");
  EXPECT_EQ(sum.reduction, ReduceKind::kSum);
  const ShardingRule max = rule_of("reduce_max", {{"axes", Dims{0, 1}}}, {type_of(float32, {2, 3})});
  EXPECT_EQ(to_string(max), "(i, j) -> () reduction={i, j}");
  EXPECT_EQ(max.reduction, ReduceKind::kMax);
  EXPECT_EQ(to_string(rule_of("reduce_min", {{"axes", Dims{}}}, {type_of(float32, {2})})), "(i) -> (i)");
}

}  // namespace
}  // namespace shoal
