#include <gtest/gtest.h>

#include "ops/test_support.h"

namespace shoal {
namespace {

using test_support::complaint;
using test_support::for_each_dtype;
using test_support::infer;
using test_support::Ints;
using test_support::rule_of;
using test_support::run;
using test_support::values;

Attrs iota(const Shape& shape, Dtype dtype, std::int64_t dim) {
  return {{"shape", shape}, {"dtype", dtype}, {"dim", dim}};
}

TEST(Full, RepeatsAValueOfEveryDtype) {
  for_each_dtype([](auto tag) {
    using T = decltype(tag);
    const Buffer out = run("full", {{"shape", Shape{2, 2}}, {"value", Scalar::of(T(1))}}, {});
    EXPECT_EQ(out.shape(), (Shape{2, 2}));
    EXPECT_EQ(values<T>(out), (std::vector<T>(4, T(1))));
  });
  EXPECT_EQ(values<float>(run("full", {{"shape", Shape{}}, {"value", Scalar::of(2.5F)}}, {})),
            (std::vector<float>{2.5F}));
  EXPECT_EQ(run("full", {{"shape", Shape{0, 3}}, {"value", Scalar::of(2.5F)}}, {}).shape(), (Shape{0, 3}));
}

TEST(Iota, CountsAlongADimension) {
  EXPECT_EQ(values<std::int32_t>(run("iota", iota({2, 3}, int32, 0), {})), (Ints{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(values<std::int32_t>(run("iota", iota({2, 3}, int32, 1), {})), (Ints{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(run("iota", iota({2, 0}, int32, 1), {}).shape(), (Shape{2, 0}));
}

TEST(Iota, CountsInEveryDtype) {
  for_each_dtype([](auto tag) {
    using T = decltype(tag);
    if constexpr (!std::is_same_v<T, bool>) {
      EXPECT_EQ(values<T>(run("iota", iota({3}, dtype_of<T>(), 0), {})), (std::vector<T>{T(0), T(1), T(2)}));
    }
  });
}

TEST(Iota, WrapsAndRounds) {
  EXPECT_EQ(values<std::int8_t>(run("iota", iota({300}, int8, 0), {}))[299], std::int8_t{43});
  EXPECT_EQ(values<bfloat16_t>(run("iota", iota({300}, bfloat16, 0), {}))[299], bfloat16_t(299.0F));
}

TEST(Creation, TypesAreAsAskedFor) {
  const Type type = infer(
      "full", {{"shape", Shape{2}}, {"value", Scalar::of(1.0F)}, {"weak", true}, {"memory", kPinnedHostMemory}}, {})[0];
  EXPECT_EQ(type, (Type{.dtype = float32, .shape = {2}, .weak = true, .memory = kPinnedHostMemory, .varying = {}}));
  EXPECT_EQ(infer("iota", iota({2}, uint8, 0), {})[0], test_support::type_of(uint8, {2}));
}

TEST(Creation, Complains) {
  EXPECT_EQ(complaint("full", {{"shape", Shape{2, -1}}, {"value", Scalar::of(1.0F)}}, {}),
            "full: shape (2, -1) has a negative extent");
  EXPECT_EQ(complaint("iota", iota({-2}, int32, 0), {}), "iota: shape (-2,) has a negative extent");
  EXPECT_EQ(complaint("iota", iota({2, 3}, int32, 2), {}), "iota: dim is 2, but shape (2, 3) has dimensions 0 to 1");
  EXPECT_EQ(complaint("iota", iota({2, 3}, int32, -1), {}), "iota: dim is -1, but shape (2, 3) has dimensions 0 to 1");
  EXPECT_EQ(complaint("iota", iota({2}, bool_, 0), {}), "iota: dtype bool cannot count");
}

TEST(Creation, Rules) {
  EXPECT_EQ(to_string(rule_of("full", {{"shape", Shape{2, 3}}, {"value", Scalar::of(1.0F)}}, {})), " -> (i, j)");
  EXPECT_EQ(to_string(rule_of("iota", iota({2, 3}, int32, 1), {})), " -> (i, j) counted={j}");
}

}  // namespace
}  // namespace shoal
