// Types, rules and complaints. Values are recorded in tests/parity/data/attention.txt.
#include "ops/attention.h"

#include "ops/test_support.h"

namespace shoal {
namespace {

using test_support::complaint;
using test_support::infer;
using test_support::rule_of;
using test_support::type_of;

Attrs attention_attrs(bool biased = false, bool masked = false) {
  return {{"scale", Scalar::of(1.0)}, {"causal", false}, {"biased", biased}, {"masked", masked}};
}

Type floats(Shape shape) { return type_of(float32, std::move(shape)); }

TEST(Attention, ResultsHaveTheShapeOfQueriesAndTheWidthOfValues) {
  const std::vector<Type> operands = {floats({3, 8, 2, 4, 5}), floats({3, 6, 2, 5}), floats({3, 6, 2, 7})};
  EXPECT_EQ(infer("attention", attention_attrs(), operands)[0].shape, (Shape{3, 8, 2, 4, 7}));
  std::vector<Type> given = operands;
  given.insert(given.begin(), floats({3, 8, 2, 4, 7}));
  const std::vector<Type> gradients = infer("attention_gradient", attention_attrs(), given);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(gradients[i], operands[i]) << i;
}

// Sums over devices are made in f32.
TEST(Attention, TypesOfSmallFloats) {
  const Type half = type_of(bfloat16, {8, 2, 4, 5});
  const Type keys = type_of(bfloat16, {6, 2, 5});
  EXPECT_EQ(infer("attention", attention_attrs(true), {half, keys, keys, floats({2, 4, 8, 6})})[0], half);
  Attrs attrs = attention_attrs();
  EXPECT_EQ(infer("attention_gradient", attrs, {half, half, keys, keys})[1], keys);
  attrs.set("dtype", float32);
  EXPECT_EQ(infer("attention_gradient", attrs, {half, half, keys, keys})[1], floats({6, 2, 5}));
}

// Whoever has some of the queries has all keys and what a bias has once; of keys' cotangents that makes sums.
TEST(Attention, Rules) {
  std::vector<Type> operands = {floats({3, 8, 2, 4, 5}), floats({3, 6, 2, 5}), floats({3, 6, 2, 7}),
                                floats({1, 2, 4, 1, 6})};
  EXPECT_EQ(
      to_string(rule_of("attention", attention_attrs(true), operands)),
      "(i, j, k, l, m), (i, n, k, m), (i, n, k, o), (p, k, l, q, n) -> (i, j, k, l, o) need_replication={m, n, p, q}");
  operands.pop_back();
  operands.insert(operands.begin(), floats({3, 8, 2, 4, 7}));
  EXPECT_EQ(to_string(rule_of("attention_gradient", attention_attrs(), operands)),
            "(i, j, k, l, o), (i, j, k, l, m), (i, n, k, m), (i, n, k, o) -> (i, j, k, l, m), (i, n, k, m), "
            "(i, n, k, o) reduction={j, l} need_replication={m, n, o}");
}

TEST(AttentionErrors, Operands) {
  const Type q = floats({8, 2, 4, 5});
  const Type k = floats({6, 2, 5});
  EXPECT_EQ(complaint("attention", attention_attrs(), {q, k, floats({7, 2, 5})}),
            "attention: queries f32[8,2,4,5] must be (batch, T, key heads, group, H), keys f32[6,2,5] (batch, S, key "
            "heads, H) and values f32[7,2,5] (batch, S, key heads, V)");
  EXPECT_EQ(complaint("attention", attention_attrs(true), {q, k, k}), "attention: takes 4 operands, not 3");
  EXPECT_EQ(complaint<TypeMismatch>("attention", attention_attrs(), {q, k, type_of(float64, {6, 2, 5})}),
            "attention: takes floats of one dtype, a bias of this or of f32 for smaller ones, and masks of bool; not "
            "f32[8,2,4,5] and f64[6,2,5]");
  EXPECT_EQ(complaint("attention", attention_attrs(true), {q, k, k, floats({2, 4, 8, 5})}),
            "attention: a mask or bias f32[2,4,8,5] must have 1 or the extent of the logits (2, 4, 8, 6) in each "
            "dimension");
  EXPECT_EQ(complaint("attention_gradient", attention_attrs(), {k, q, k, k}),
            "attention_gradient: a cotangent f32[6,2,5] must have the shape of the result for queries f32[8,2,4,5] and "
            "values f32[6,2,5]");
}

}  // namespace
}  // namespace shoal
