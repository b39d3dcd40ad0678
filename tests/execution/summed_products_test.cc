// Products that devices of one process sum are made and summed tile by tile: with the bits that products one after the
// other and a balanced tree of sums have, and without memory for the products.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <shoal/shoal.h>

#include <functional>
#include <string>
#include <vector>

namespace shoal {
namespace {

using testing::HasSubstr;

Array wave(const Dims& shape, double step, Dtype dtype) {
  std::int64_t size = 1;
  for (std::int64_t extent : shape) size *= extent;
  const Array angle = arange(size).astype(float64) * step;
  if (is_complex(dtype)) return lax::complex(sin(angle), cos(angle)).astype(dtype).reshape(shape);
  return sin(angle).astype(dtype).reshape(shape);
}

// The products of `parts` columns of x and rows of y each, in a balanced tree of sums.
Array tree_of_products(const Array& x, const Array& y, std::int64_t parts,
                       const std::function<Array(const Array&, const Array&)>& product) {
  if (parts == 1) return product(x, y);
  const std::int64_t half = x.shape()[1] / 2;
  const auto columns = [&](std::int64_t begin) { return lax::slice_in_dim(x, begin, begin + half, 1, 1); };
  const auto rows = [&](std::int64_t begin) { return lax::slice_in_dim(y, begin, begin + half, 1, 0); };
  return tree_of_products(columns(0), rows(0), parts / 2, product) +
         tree_of_products(columns(half), rows(half), parts / 2, product);
}

TEST(SummedProducts, HaveTheBitsOfATreeOfProducts) {
  const Mesh mesh = make_mesh({2, 4}, {"a", "b"});
  const auto product = [](const Array& x, const Array& y) { return matmul(x, y); };
  for (Dtype dtype : {float32, float64, complex64}) {
    // A block of the sum for each device; several; and one beyond a multiple of what registers hold.
    for (std::int64_t inner : {40, 700, 385}) {
      const Array x = wave({801, 8 * inner}, 0.37, dtype);
      const Array y = wave({8 * inner, 726}, 0.11, dtype);
      const auto sum = jit(shard_map(
          [&](const Array& u, const Array& v) {
            return lax::psum(product(u, v), {"a", "b"});
          },
          {.mesh = mesh, .in_specs = {P(none, {"a", "b"}), P({"a", "b"})}, .out_specs = P()}));
      const auto compiled = sum.lower(x, y).compile();
      EXPECT_THAT(compiled.as_text("fused"), HasSubstr("summed_product"));
      EXPECT_EQ(compiled.memory_analysis().temp_size, 0);
      EXPECT_TRUE(array_equal(sum(x, y), tree_of_products(x, y, 8, jit(product))).item<bool>()) << inner;
    }
  }
}

TEST(SummedProducts, OfEachGroupOfDevices) {
  const Mesh mesh = make_mesh({2, 4}, {"a", "b"});
  const Array x = wave({1540, 4 * 64}, 0.37, float32);
  const Array y = wave({4 * 64, 726}, 0.11, float32);
  const auto product = [](const Array& u, const Array& v) { return matmul(u, v); };
  const auto sum = jit(shard_map([&](const Array& u, const Array& v) { return lax::psum(product(u, v), "b"); },
                                 {.mesh = mesh, .in_specs = {P("a", "b"), P("b")}, .out_specs = P("a")}));
  EXPECT_THAT(sum.lower(x, y).compile().as_text("fused"), HasSubstr("summed_product"));
  EXPECT_TRUE(array_equal(sum(x, y), tree_of_products(x, y, 4, jit(product))).item<bool>());
}

// What a product reads is there no longer than before, wherever its sum is wanted.
TEST(SummedProducts, AreMadeWhereTheProductsAre) {
  const Mesh mesh = make_mesh({8}, {"a"});
  const auto sums = jit(shard_map(
      [](const Array& x, const Array& y) {
        std::vector<Array> products;
        Array u = x;
        for (int i = 0; i < 6; ++i) {
          products.push_back(matmul(u, y));
          u = sort(u);  // Not fused with anything, so that each u has memory of its own.
        }
        for (Array& product : products) product = lax::psum(product, "a");
        return products;
      },
      {.mesh = mesh, .in_specs = {P(none, "a"), P("a")}, .out_specs = P()}));
  const auto compiled = sums.lower(zeros({800, 3200}), zeros({3200, 800})).compile();
  EXPECT_THAT(compiled.as_text("fused"), HasSubstr("summed_product"));
  const std::int64_t of_one = 800 * 3200 * 4;
  EXPECT_LE(compiled.memory_analysis().temp_size, 2 * of_one);
}

// Small ones stay in a cache by themselves, and of sums over replicas there is one product.
TEST(SummedProducts, OthersAreTwoSteps) {
  const Mesh mesh = make_mesh({8}, {"a"});
  const auto fused = [&](const Dims& lhs, const Dims& rhs, const PartitionSpec& left, const PartitionSpec& right) {
    const auto sum = jit(shard_map([](const Array& u, const Array& v) { return lax::psum(matmul(u, v), "a"); },
                                   {.mesh = mesh, .in_specs = {left, right}, .out_specs = P()}));
    return sum.lower(zeros(lhs), zeros(rhs)).compile().as_text("fused");
  };
  EXPECT_THAT(fused({800, 320}, {320, 800}, P(none, "a"), P("a")), HasSubstr("summed_product"));
  EXPECT_THAT(fused({80, 320}, {320, 80}, P(none, "a"), P("a")), Not(HasSubstr("summed_product")));
  EXPECT_THAT(fused({800, 320}, {320, 800}, P(), P()), Not(HasSubstr("summed_product")));
}

}  // namespace
}  // namespace shoal
