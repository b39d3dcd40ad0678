#include <gtest/gtest.h>

#include "ops/test_support.h"

namespace shoal {
namespace {

using test_support::complaint;
using test_support::rule_of;
using test_support::type_of;

Attrs sort_attrs(std::int64_t dim, std::int64_t keys) {
  return {{"dim", dim}, {"num_keys", keys}, {"descending", false}};
}

Attrs top_attrs(std::int64_t dim, std::int64_t k) { return {{"dim", dim}, {"k", k}}; }

TEST(OrderRules, OtherDimensionsPassThrough) {
  const Type x = type_of(float32, {8, 6});
  EXPECT_EQ(to_string(rule_of("sort", sort_attrs(1, 1), {x, x})),
            "(i, j), (i, j) -> (i, j), (i, j) need_replication={j}");
  EXPECT_EQ(to_string(rule_of("top_k", top_attrs(0, 3), {x})), "(i, j) -> (k, j), (k, j) need_replication={i, k}");
  const Attrs along_rows{{"dim", std::int64_t{0}}, {"reverse", false}};
  for (const char* op : {"cumsum", "cumprod", "cummax", "cummin"}) {
    EXPECT_EQ(to_string(rule_of(op, along_rows, {x})), "(i, j) -> (i, j) cumulative={i}");
  }
  EXPECT_EQ(to_string(rule_of("cumlogsumexp", along_rows, {x})), "(i, j) -> (i, j) need_replication={i}");
}

TEST(OrderErrors, Sort) {
  const Type x = type_of(float32, {8, 6});
  EXPECT_EQ(complaint("sort", sort_attrs(0, 1), {}), "sort: needs an operand");
  EXPECT_EQ(complaint("sort", sort_attrs(2, 1), {x}), "sort: dim is 2, but the operand f32[8,6] has dimensions 0 to 1");
  EXPECT_EQ(complaint("sort", sort_attrs(0, 2), {x}), "sort: num_keys is 2; it must be 1 to 1, the number of operands");
  EXPECT_EQ(complaint("sort", sort_attrs(0, 1), {x, type_of(int32, {6})}),
            "sort: all operands must have one shape, but are f32[8,6] and i32[6]");
}

TEST(OrderErrors, TopK) {
  const Type x = type_of(float32, {8, 6});
  EXPECT_EQ(complaint("top_k", top_attrs(1, 7), {x}),
            "top_k: k is 7; it must be 0 to 6, the extent of dimension 1 of operand f32[8,6]");
  EXPECT_EQ(complaint<TypeMismatch>("top_k", top_attrs(0, 1), {type_of(complex64, {2})}),
            "top_k: complex numbers have no order; got complex64[2]");
}

TEST(OrderErrors, Cumulative) {
  const Attrs attrs{{"dim", std::int64_t{1}}, {"reverse", false}};
  EXPECT_EQ(complaint("cumsum", attrs, {type_of(float32, {2})}),
            "cumsum: dim is 1, but the operand f32[2] has dimensions 0 to 0");
  EXPECT_EQ(complaint<TypeMismatch>("cummax", attrs, {type_of(complex64, {2, 2})}),
            "cummax: complex numbers have no order; got complex64[2,2]");
  EXPECT_EQ(complaint("cumlogsumexp", attrs, {type_of(int32, {2, 2})}), "cumlogsumexp: takes floats, not i32[2,2]");
}

}  // namespace
}  // namespace shoal
