#include <gtest/gtest.h>

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

using Floats = std::vector<float>;

Attrs dims(const Dims& lhs_contract, const Dims& rhs_contract, const Dims& lhs_batch = {}, const Dims& rhs_batch = {}) {
  return {{"lhs_contract", lhs_contract},
          {"rhs_contract", rhs_contract},
          {"lhs_batch", lhs_batch},
          {"rhs_batch", rhs_batch}};
}

const Attrs kMatmul = dims({1}, {0});

TEST(DotGeneral, MultipliesMatrices) {
  const Buffer a = array<std::int32_t>({2, 3}, {1, 2, 3, 4, 5, 6});
  const Buffer b = array<std::int32_t>({3, 2}, {7, 8, 9, 10, 11, 12});
  EXPECT_EQ(values<std::int32_t>(run("dot_general", kMatmul, {a, b})), (Ints{58, 64, 139, 154}));
  EXPECT_EQ(values<std::int32_t>(run("dot_general", dims({1}, {1}), {a, a})), (Ints{14, 32, 32, 77}));
  EXPECT_EQ(values<std::int32_t>(run("dot_general", dims({0}, {1}), {a, b})),
            (Ints{39, 49, 59, 54, 68, 82, 69, 87, 105}));
}

TEST(DotGeneral, MultipliesVectors) {
  const Buffer a = array<std::int32_t>({3}, {1, 2, 3});
  const Buffer b = array<std::int32_t>({2}, {4, 5});
  const Buffer inner = run("dot_general", dims({0}, {0}), {a, a});
  EXPECT_EQ(inner.shape(), Shape{});
  EXPECT_EQ(values<std::int32_t>(inner), Ints{14});
  EXPECT_EQ(values<std::int32_t>(run("dot_general", dims({}, {}), {a, b})), (Ints{4, 5, 8, 10, 12, 15})) << "outer";
}

TEST(DotGeneral, PutsBatchDimensionsFirst) {
  // numpy: einsum('ibk,bkj->bij', arange(12).reshape(2, 3, 2), arange(24).reshape(3, 2, 4))
  const Buffer a = counting<std::int32_t>({2, 3, 2});
  const Buffer b = counting<std::int32_t>({3, 2, 4});
  const Buffer out = run("dot_general", dims({2}, {1}, {1}, {0}), {a, b});
  EXPECT_EQ(out.shape(), (Shape{3, 2, 4}));
  EXPECT_EQ(values<std::int32_t>(out), (Ints{4,   5,   6,   7,   28,  41,  54,  67,  52,  57,  62,  67,
                                             172, 189, 206, 223, 164, 173, 182, 191, 380, 401, 422, 443}));
}

TEST(DotGeneral, ContractsSeveralDimensions) {
  // numpy: tensordot(arange(12).reshape(2, 3, 2), arange(12).reshape(2, 3, 2), ((0, 1), (0, 1)))
  const Buffer a = counting<std::int32_t>({2, 3, 2});
  EXPECT_EQ(values<std::int32_t>(run("dot_general", dims({0, 1}, {0, 1}), {a, a})), (Ints{220, 250, 250, 286}));
  // The order pairs the dimensions: a[i, j, k] with b[j, i, l].
  const Buffer b = run("transpose", {{"perm", Dims{1, 0, 2}}}, {a});
  EXPECT_EQ(values<std::int32_t>(run("dot_general", dims({0, 1}, {1, 0}), {a, b})), (Ints{220, 250, 250, 286}));
}

TEST(DotGeneral, EveryDtype) {
  for_each_dtype([](auto tag) {
    using T = decltype(tag);
    const Buffer a = array<T>({1, 2}, {T(1), T(0)});
    const Buffer b = array<T>({2, 2}, {T(1), T(0), T(1), T(1)});
    EXPECT_EQ(values<T>(run("dot_general", kMatmul, {a, b})), (std::vector<T>{T(1), T(0)}));
  });
  const Buffer bools = array<bool>({2, 2}, {true, true, false, true});
  EXPECT_EQ(values<bool>(run("dot_general", kMatmul, {bools, bools})), (std::vector<bool>{true, true, false, true}));
  using C = std::complex<double>;
  const Buffer c = array<C>({2}, {C(1, 2), C(0, 1)});
  EXPECT_EQ(values<C>(run("dot_general", dims({0}, {0}), {c, c})), (std::vector<C>{C(-4, 4)})) << "no conjugation";
}

TEST(DotGeneral, IntegersWrapAndFloatsAddInDoubles) {
  const Buffer bytes = array<std::int8_t>({2}, {100, 100});
  EXPECT_EQ(values<std::int8_t>(run("dot_general", dims({0}, {0}), {bytes, bytes})), (std::vector<std::int8_t>{32}));
  const Buffer a = array<float>({3}, {1e8F, 1, -1e8F});
  const Buffer b = array<float>({3}, {1, 1, 1});
  EXPECT_EQ(values<float>(run("dot_general", dims({0}, {0}), {a, b})), Floats{1});
}

TEST(DotGeneral, NothingToContractGivesZeros) {
  EXPECT_EQ(values<float>(run("dot_general", kMatmul, {counting<float>({2, 0}), counting<float>({0, 2})})),
            (Floats{0, 0, 0, 0}));
  EXPECT_EQ(run("dot_general", kMatmul, {counting<float>({0, 3}), counting<float>({3, 2})}).shape(), (Shape{0, 2}));
}

TEST(DotGeneral, MayGiveAnotherDtype) {
  Attrs attrs = kMatmul;
  attrs.set("dtype", float32);
  const Buffer a = array<bfloat16_t>({1, 2}, {256.0F, 1.0F});
  const Buffer b = array<bfloat16_t>({2, 1}, {1.0F, 1.0F});
  EXPECT_EQ(values<float>(run("dot_general", attrs, {a, b})), Floats{257});
}

TEST(DotGeneral, ResultIsWeakIfBothAre) {
  Type weak = type_of(float32, {3});
  weak.weak = true;
  const Type strong = type_of(float32, {3});
  EXPECT_FALSE(infer("dot_general", dims({0}, {0}), {weak, strong})[0].weak);
  EXPECT_FALSE(infer("dot_general", dims({0}, {0}), {strong, weak})[0].weak);
  EXPECT_TRUE(infer("dot_general", dims({0}, {0}), {weak, weak})[0].weak);
}

TEST(DotGeneral, VariesWhereEitherDoes) {
  Type a = type_of(float32, {3});
  a.varying = {"x"};
  Type b = type_of(float32, {3});
  b.varying = {"y"};
  EXPECT_EQ(infer("dot_general", dims({0}, {0}), {a, b})[0].varying, (AxisNames{"x", "y"}));
}

TEST(DotGeneral, Complains) {
  const Type a = type_of(float32, {2, 3});
  const Type b = type_of(float32, {4, 3});
  EXPECT_EQ(
      complaint("dot_general", kMatmul, {a, b}),
      "dot_general: contracted dimension 1 of the left operand f32[2,3] has extent 3, but dimension 0 of the right "
      "operand f32[4,3] has extent 4");
  EXPECT_EQ(complaint("dot_general", dims({1}, {1}, {0}, {0}), {a, b}),
            "dot_general: batch dimension 0 of the left operand f32[2,3] has extent 2, but dimension 0 of the right "
            "operand f32[4,3] has extent 4");
  EXPECT_EQ(complaint("dot_general", dims({2}, {1}), {a, b}),
            "dot_general: contracted dimensions (2,) and (1,) must be dimensions of operands f32[2,3] and f32[4,3]");
  EXPECT_EQ(complaint("dot_general", dims({1}, {-1}), {a, b}),
            "dot_general: contracted dimensions (1,) and (-1,) must be dimensions of operands f32[2,3] and f32[4,3]");
  EXPECT_EQ(complaint("dot_general", dims({1}, {}), {a, b}),
            "dot_general: contracted dimensions (1,) of the left and () of the right operand differ in number");
  EXPECT_EQ(complaint("dot_general", kMatmul, {a, type_of(float64, {3, 2})}),
            "dot_general: operands must be of one dtype, not f32[2,3] and f64[3,2]");
  const Type square = type_of(float32, {3, 3});
  EXPECT_EQ(complaint("dot_general", dims({1, 1}, {0, 1}), {square, square}),
            "dot_general: dimension 1 of the left operand is named twice: contracted (1, 1), batch ()");
  EXPECT_EQ(complaint("dot_general", dims({1}, {0}, {0}, {0}), {square, square}),
            "dot_general: dimension 0 of the right operand is named twice: contracted (0,), batch (0,)");
}

TEST(DotGeneral, Rule) {
  EXPECT_EQ(to_string(rule_of("dot_general", kMatmul, {type_of(float32, {2, 3}), type_of(float32, {3, 4})})),
            "(i, k), (k, j) -> (i, j) reduction={k}");
  const ShardingRule batched =
      rule_of("dot_general", dims({2}, {1}, {1}, {0}), {type_of(float32, {2, 3, 5}), type_of(float32, {3, 5, 4})});
  EXPECT_EQ(to_string(batched), "(j, i, l), (i, l, k) -> (i, j, k) reduction={l}");
  EXPECT_EQ(batched.reduction, ReduceKind::kSum);
  EXPECT_EQ(batched.factors[0].size, 3);
}

}  // namespace
}  // namespace shoal
