// shard_map: shards in, shards out; eager and under jit, with jit inside, captures, and values that can be read.
#include "shoal/shard_map.h"

#include "frontend/test_support.h"
#include "shoal/convolution.h"
#include "shoal/statistics.h"

namespace shoal::test {
namespace {

const auto kSame = [](const Array& x) { return x; };

TEST(ShardMap, Identity) {
  for (const PartitionSpec& spec :
       {P(), P("x"), P("x", "y"), P(none, "x"), P({"x", "y"}), P({"y", "x"}, none), P("y", "x")}) {
    const auto f = shard_map(kSame, {.mesh = mesh_4x2(), .in_specs = spec, .out_specs = spec});
    const Array x = iota({8, 8});
    for (const Array& y : {f(x), jit(f)(x), f(put(x, mesh_4x2(), P("y"))), jit(f)(put(x, mesh_4x2(), P(none, "x")))}) {
      EXPECT_TRUE(same(y, x)) << to_string(spec);
      EXPECT_TRUE(y.sharding().is_equivalent_to(NamedSharding(mesh_4x2(), spec), 2)) << y.sharding();
      EXPECT_TRUE(y.committed());
    }
    EXPECT_EQ(spec_of(f(x)), spec) << "as it was written";
  }
}

TEST(ShardMap, SeesShards) {
  std::vector<Shape> shapes;
  const auto f = shard_map(
      [&](const Array& a, const Array& b) {
        shapes = {a.shape(), b.shape()};
        return a + b.sum();
      },
      {.mesh = mesh_4x2(), .in_specs = {P("x", "y"), P()}, .out_specs = P("x", "y")});
  const Array y = f(iota({8, 4}), iota({3}));
  EXPECT_EQ(shapes, (std::vector<Shape>{{2, 2}, {3}}));
  EXPECT_TRUE(same(y, iota({8, 4}) + 3));
}

TEST(ShardMap, OneSpecForAllArguments) {
  const auto f = shard_map([](const Array& a, const Array& b) { return a * b; },
                           {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = P("i")});
  EXPECT_TRUE(same(f(iota({8}), iota({8})), iota({8}) * iota({8})));
}

TEST(ShardMap, PiecesAreJoinedAsOutSpecsSay) {
  const auto f = shard_map([](const Array& x) { return x.reshape(1, 2).T(); },
                           {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = P(none, "i")});
  EXPECT_TRUE(same(f(iota({16})), iota({8, 2}).T()));
  EXPECT_TRUE(same(jit(f)(iota({16})), iota({8, 2}).T()));
}

TEST(ShardMap, MatrixProducts) {
  const Array a = iota({8, 8});
  const Array b = iota({8, 4}) - 5;
  const Mesh mesh = mesh_4x2();
  const auto reduced = shard_map([](const Array& x, const Array& y) { return lax::psum(matmul(x, y), "y"); },
                                 {.mesh = mesh, .in_specs = {P("x", "y"), P("y")}, .out_specs = P("x")});
  const auto scattered = shard_map(
      [](const Array& x, const Array& y) {
        return lax::psum_scatter(matmul(x, y), "y", {.scatter_dimension = 1, .tiled = true});
      },
      {.mesh = mesh, .in_specs = {P("x", "y"), P("y")}, .out_specs = P("x", "y")});
  const auto gathered = shard_map(
      [](const Array& x, const Array& y) {
        return matmul(x, lax::all_gather(y, {"x", "y"}, {.tiled = true}));
      },
      {.mesh = mesh, .in_specs = {P({"x", "y"}), P({"x", "y"})}, .out_specs = P({"x", "y"})});
  const Array want = matmul(a, b);
  for (const Array& c : {reduced(a, b), jit(reduced)(a, b), scattered(a, b), jit(scattered)(a, b), gathered(a, b),
                         jit(gathered)(a, b)}) {
    EXPECT_TRUE(same(c, want));
  }
}

TEST(ShardMap, ScalarsAndWeakTypes) {
  const auto f = shard_map([](const Array& x) { return x * 2; }, {.mesh = mesh_8(), .in_specs = P(), .out_specs = P()});
  EXPECT_EQ(f(3).item<int>(), 6);
  EXPECT_EQ(repr(f(1.5)), "Array(3., dtype=float32, weak_type=True)");
  EXPECT_TRUE(same(f(3), jit(f)(3)));
}

TEST(ShardMap, ConstantsAndNoArguments) {
  const auto f = shard_map(
      [] {
        return std::pair{ones({2}) * 3, lax::axis_index("i").reshape(1)};
      },
      {.mesh = mesh_8(), .in_specs = {}, .out_specs = {P(), P("i")}});
  for (const auto& [three, index] : {f(), jit(f)()}) {
    EXPECT_EQ(floats(three), (std::vector<float>{3, 3}));
    EXPECT_EQ(ints(index), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
  }
}

// ---- Replication.

TEST(ShardMap, CheckVmaCanBeSwitchedOff) {
  const auto f = shard_map([](const Array& x) { return lax::all_gather(x, "i", {.tiled = true}); },
                           {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = P(), .check_vma = false});
  for (const Array& y : {f(iota({8})), jit(f)(iota({8}))}) {
    EXPECT_TRUE(same(y, iota({8})));
    EXPECT_TRUE(y.is_fully_replicated());
  }
  const auto first =
      shard_map(kSame, {.mesh = mesh_4x2(), .in_specs = P("x", "y"), .out_specs = P("x"), .check_vma = false});
  EXPECT_TRUE(same(first(iota({4, 2})), iota({4, 2})[{ellipsis, range(0, 1)}]));
  EXPECT_TRUE(same(jit(first)(iota({4, 2})), iota({4, 2})[{ellipsis, range(0, 1)}]));
}

TEST(ShardMap, EqualValuesMayLeaveSplit) {
  const auto f = shard_map([](const Array& x) { return x; }, {.mesh = mesh_8(), .in_specs = P(), .out_specs = P("i")});
  EXPECT_EQ(floats(f(iota({2}))), (std::vector<float>{0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1}));
  EXPECT_TRUE(same(jit(f)(iota({2})), f(iota({2}))));
}

TEST(ShardMap, OneValueLeavesTwice) {
  const auto f = shard_map(
      [](const Array& x) {
        return std::pair{x, x};
      },
      {.mesh = mesh_4x2(), .in_specs = P("x"), .out_specs = {P("x"), P(none, "x")}});
  for (const auto& [rows, columns] : {f(iota({4, 1})), jit(f)(iota({4, 1}))}) {
    EXPECT_EQ(rows.shape(), (Shape{4, 1}));
    EXPECT_EQ(columns.shape(), (Shape{1, 4}));
    EXPECT_EQ(floats(rows), floats(columns));
  }
}

// ---- With jit and captures.

TEST(ShardMap, JitInside) {
  int traces = 0;
  const auto inner = jit([&](const Array& x) {
    ++traces;
    return lax::psum(x * 2, "i") + lax::axis_index("i");
  });
  const auto f = shard_map([&](const Array& x) { return inner(x) + inner(x); },
                           {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = P("i")});
  const std::vector<float> want{112, 114, 116, 118, 120, 122, 124, 126};
  EXPECT_EQ(floats(f(iota({8}))), want);
  EXPECT_EQ(floats(jit(f)(iota({8}))), want);
  EXPECT_EQ(traces, 1);
}

TEST(ShardMap, ConvolutionsAndHistogramsInside) {
  const Array images = sin(iota({8, 3, 6, 6}));
  const Array weights = cos(iota({4, 3, 3, 3}));
  const auto convolve = [&](const Array& x) { return lax::conv_general_dilated(x, weights, {1, 1}, "SAME"); };
  const auto convolved = shard_map(convolve, {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = P("i")});
  EXPECT_TRUE(allclose(convolved(images), convolve(images)));
  EXPECT_TRUE(allclose(jit(convolved)(images), convolve(images)));

  const HistogramOptions options{.range = std::pair{-1.0, 1.0}};
  const auto counts = shard_map([&](const Array& x) { return lax::psum(histogram(x, 5, options).counts, "i"); },
                                {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = P()});
  EXPECT_EQ(floats(counts(images)), floats(histogram(images, 5, options).counts));
  EXPECT_EQ(floats(jit(counts)(images)), floats(histogram(images, 5, options).counts));
}

TEST(ShardMap, JitInsideOverDifferentAxes) {
  // What a function inside says depends on the axes that are bound where it is called.
  const auto size = jit([](const Array& x) { return x + lax::axis_size("i"); });
  const auto on = [&](const Mesh& mesh) {
    return shard_map([&](const Array& x) { return size(x); }, {.mesh = mesh, .in_specs = P(), .out_specs = P()});
  };
  EXPECT_EQ(on(mesh_8())(1.0).item<float>(), 9.0F);
  EXPECT_EQ(on(make_mesh({2, 4}, {"i", "j"}))(1.0).item<float>(), 3.0F);
}

TEST(ShardMap, CapturesArraysAndTracers) {
  const Array weights = put(iota({8}), mesh_8(), P("i"));
  const auto f = [&](const Array& x) {
    const Array scale = x.sum();
    return shard_map([&](const Array& shard) { return shard * weights.sum() + scale + weights[7]; },
                     {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = P("i")})(x);
  };
  EXPECT_TRUE(same(f(iota({8})), iota({8}) * 28 + 28 + 7));
  EXPECT_TRUE(same(jit(f)(iota({8})), iota({8}) * 28 + 28 + 7));
}

TEST(ShardMap, ReturnsACapture) {
  const Array captured = iota({3});
  const auto f =
      shard_map([&](const Array&) { return captured; }, {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = P()});
  EXPECT_TRUE(same(f(iota({8})), captured));
  EXPECT_TRUE(same(jit(f)(iota({8})), captured));
}

TEST(ShardMap, InsideAProgram) {
  const NamedSharding rows(mesh_4x2(), P("x"));
  const auto f = jit([&](const Array& x) {
    const Array y = with_sharding_constraint(x * 2, rows);
    const auto total = shard_map([](const Array& s) { return lax::psum(s.sum(0), "x"); },
                                 {.mesh = mesh_4x2(), .in_specs = P("x"), .out_specs = P()});
    return total(y) + total(y + 1);
  });
  EXPECT_TRUE(same(f(iota({8, 2})), (iota({8, 2}) * 4 + 1).sum(0)));
}

TEST(ShardMap, SeveralMeshesOverTheSameDevices) {
  const auto a = shard_map([](const Array& x) { return lax::psum(x, "i"); },
                           {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = P()});
  const auto b = shard_map([](const Array& x) { return lax::psum(x, "y"); },
                           {.mesh = mesh_4x2(), .in_specs = P(none, {"x", "y"}), .out_specs = P(none, "x")});
  const auto f = [&](const Array& x) { return a(x) + b(x.T()).sum(); };
  const Array x = iota({8, 8});
  EXPECT_TRUE(same(jit(f)(x), f(x)));
}

TEST(ShardMap, PartOfTheAxes) {
  const auto f = shard_map(
      [](const Array& x) {
        EXPECT_EQ(x.shape(), (Shape{2, 4}));
        return lax::psum(x, "x") * 2;
      },
      {.mesh = mesh_4x2(), .in_specs = P("x"), .out_specs = P(), .axis_names = {"x"}});
  const Array want = iota({8, 4}).reshape(4, 2, 4).sum(0) * 2;
  EXPECT_TRUE(same(f(iota({8, 4})), want));
  EXPECT_TRUE(same(jit(f)(put(iota({8, 4}), mesh_4x2(), P("x", "y"))), want));
}

TEST(ShardMap, ConstraintsOnTheOtherAxes) {
  const NamedSharding columns(mesh_4x2(), P(none, "y"));
  const auto f =
      jit(shard_map([&](const Array& x) { return with_sharding_constraint(x * 2, columns) + lax::axis_index("x"); },
                    {.mesh = mesh_4x2(), .in_specs = P("x"), .out_specs = P("x"), .axis_names = {"x"}}));
  const Array y = f(iota({4, 4}));
  EXPECT_EQ(floats(y), floats(iota({4, 4}) * 2 + arange(4).reshape(4, 1)));
  EXPECT_EQ(spec_of(y), P("x", "y"));
}

TEST(ShardMap, Nested) {
  const auto f = shard_map(
      [](const Array& x) {
        const auto inner = shard_map(
            [](const Array& y) {
              return lax::psum(y, {"x", "y"}) + lax::axis_index("y");
            },
            {.mesh = mesh_4x2(), .in_specs = P("y"), .out_specs = P("y"), .axis_names = {"y"}});
        return inner(x);
      },
      {.mesh = mesh_4x2(), .in_specs = P("x"), .out_specs = P(), .axis_names = {"x"}});
  const Array want = array({28.0F, 29.0F});
  EXPECT_TRUE(same(f(iota({8})), want)) << f(iota({8}));
  EXPECT_TRUE(same(jit(f)(iota({8})), want));
}

// ---- Eager values.

TEST(ShardMap, ValuesCanBeRead) {
  const auto f = shard_map(
      [](const Array& x) {
        Array y = x;
        while (static_cast<bool>(lax::psum(y.sum(), "i") < 100)) y = y * 2;
        return y;
      },
      {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = P("i")});
  EXPECT_TRUE(same(f(iota({8})), iota({8}) * 4));
}

TEST(ShardMap, ValuesCanBePrinted) {
  std::ostringstream out;
  shard_map(
      [&](const Array& x) {
        out << x;
        return x;
      },
      {.mesh = make_mesh({2}, {"i"}), .in_specs = P("i"), .out_specs = P("i")})(iota({4}));
  EXPECT_EQ(
      out.str(),
      "On cpu:0 at mesh coordinates (i,) = (0,):\n[0. 1.]\n\nOn cpu:1 at mesh coordinates (i,) = (1,):\n[2. 3.]\n");
}

TEST(ShardMap, EqualValuesPrintForEachDevice) {
  std::ostringstream out;
  shard_map(
      [&](const Array& x) {
        out << lax::psum(x, "i");
        return x;
      },
      {.mesh = make_mesh({2}, {"i"}), .in_specs = P("i"), .out_specs = P("i")})(iota({2}));
  EXPECT_EQ(out.str(),
            "On cpu:0 at mesh coordinates (i,) = (0,):\n[1.]\n\nOn cpu:1 at mesh coordinates (i,) = (1,):\n[1.]\n");
}

TEST(ShardMap, ManyVirtualDevices) {
  // Far fewer cores than places, and no thread waits for another.
  const auto f = shard_map(
      [](const Array& x) {
        Array y = x;
        for (int i = 0; i < 4; ++i) y = lax::psum(y, "i") / 8 + x;
        return y;
      },
      {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = P("i")});
  EXPECT_TRUE(same(f(ones({8})), jit(f)(ones({8}))));
}

TEST(ShardMap, Memories) {
  const NamedSharding pinned(mesh_8(), P("i"), {.memory_kind = "pinned_host"});
  const auto f =
      shard_map([](const Array& x) { return x * 2; }, {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = P("i")});
  const Array x = device_put(iota({8}), pinned);
  EXPECT_EQ(f(x).sharding().memory_kind(), kPinnedHostMemory);
  EXPECT_EQ(jit(f)(x).sharding().memory_kind(), kPinnedHostMemory);
  EXPECT_TRUE(same(jit(f)(x), iota({8}) * 2));
}

}  // namespace
}  // namespace shoal::test
