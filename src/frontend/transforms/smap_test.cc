// smap: shard_map over one axis at a time.
#include "shoal/smap.h"

#include "frontend/test_support.h"
#include "shoal/mesh_context.h"

namespace shoal::test {
namespace {

TEST(Smap, SplitsByTheDimensionOfEachArray) {
  const Mesh mesh = mesh_4x2();
  std::vector<Shape> seen;
  const auto f = smap(
      [&](const Array& x, const Array& w) {
        seen = {x.shape(), w.shape()};
        return lax::psum(matmul(x, w), "x");
      },
      {.axis_name = "x", .in_axes = {1, 0}, .out_axes = none, .mesh = mesh});
  const Array x = iota({3, 8});
  const Array w = iota({8, 2});
  EXPECT_TRUE(same(f(x, w), matmul(x, w)));
  EXPECT_TRUE(same(jit(f)(x, w), matmul(x, w)));
  EXPECT_EQ(seen, (std::vector<Shape>{{3, 2}, {2, 2}}));
}

TEST(Smap, PutsResultsTogetherByDimension) {
  const auto f = smap([](const Array& x) { return std::pair(x * lax::axis_index("y"), x.T()); },
                      {.axis_name = "y", .in_axes = 0, .out_axes = {0, 1}, .mesh = mesh_4x2()});
  const auto [scaled, turned] = f(ones({4, 3}));
  EXPECT_EQ(floats(scaled.sum(1)), (std::vector<float>{0, 0, 3, 3}));
  EXPECT_TRUE(same(turned, ones({3, 4})));
}

TEST(Smap, NestsAnAxisEach) {
  const use_mesh scope(mesh_4x2());
  const auto inner = smap(
      [](const Array& x) {
        EXPECT_EQ(x.shape(), (Shape{2, 3}));
        return lax::psum(x, {"x", "y"});
      },
      {.axis_name = "y", .in_axes = 1, .out_axes = none});
  const auto outer = smap([&](const Array& x) { return inner(x); }, {.axis_name = "x", .in_axes = 0, .out_axes = none});
  const Array x = iota({8, 6});
  const Array want = x.reshape(Dims{4, 2, 2, 3}).sum({.axis = {0, 2}});
  EXPECT_TRUE(same(jit(outer)(x), want));
  EXPECT_TRUE(same(outer(x), want));
}

TEST(Smap, TakesTheDimensionsFromExplicitAxes) {
  const Mesh mesh = make_mesh({4, 2}, {"x", "y"}, {.axis_types = {AxisType::kExplicit, AxisType::kExplicit}});
  std::vector<Shape> seen;
  const auto f = smap(
      [&](const Array& a, const Array& b) {
        seen = {a.shape(), b.shape()};
        return lax::psum(matmul(a, b), "x");
      },
      {.axis_name = "x", .out_axes = none, .mesh = mesh, .infer_in_axes = true});
  const Array a = iota({2, 8});
  const Array b = iota({8, 4});
  const Array split_a = device_put(a, NamedSharding(mesh, P(none, "x")));
  const Array split_b = device_put(b, NamedSharding(mesh, P("x", "y")));
  EXPECT_TRUE(same(f(split_a, split_b), matmul(a, b)));
  EXPECT_EQ(seen, (std::vector<Shape>{{2, 2}, {2, 4}}));
  EXPECT_EQ(type_of(jit(f)(split_a, split_b)), "float32[2,4@y]");
}

TEST(Smap, ArgumentsThatAreNotSplitAreWhole) {
  const auto f = smap([](const Array& x, const Array& scale) { return x * scale; },
                      {.axis_name = "x", .in_axes = {0, none}, .out_axes = 0, .mesh = mesh_4x2()});
  EXPECT_TRUE(same(f(iota({8}), 2), iota({8}) * 2));
}

TEST(Smap, LeavesOtherAxesToTheCompiler) {
  const auto f = smap([](const Array& x) { return x + lax::psum(x, "x"); },
                      {.axis_name = "x", .in_axes = 0, .out_axes = 0, .mesh = mesh_4x2()});
  const Array x = put(iota({8, 2}), mesh_4x2(), P("x", "y"));
  EXPECT_EQ(spec_of(jit(f)(x)), P("x", "y"));
}

}  // namespace
}  // namespace shoal::test
