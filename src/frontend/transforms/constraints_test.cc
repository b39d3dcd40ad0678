// shard_alike, and constraints of whole trees.
#include "shoal/constraints.h"

#include "frontend/test_support.h"
#include "shoal/mesh_context.h"
#include "spmd/test_collectives.h"

namespace shoal::test {
namespace {

using test_support::Collectives;
using test_support::collectives_in;

struct ConstraintsParams {
  Array w;
  std::vector<Array> biases;
};

TEST(ShardAlike, AnIntermediateLiesAsAnArgument) {
  const auto f = jit([](const Array& x) {
    const auto [_, y] = shard_alike(x, arange(16.0F).reshape(8, 2) * 2);
    return y;
  });
  const Array x = put(iota({8, 2}), mesh_4x2(), P("x", "y"));
  const Array y = f(x);
  EXPECT_EQ(spec_of(y), P("x", "y"));
  EXPECT_TRUE(same(y, iota({8, 2}) * 2));
}

TEST(ShardAlike, AnArgumentLiesAsAnother) {
  const auto f = jit([](const Array& x, const Array& y) { return shard_alike(x, y); });
  const auto lowered = f.lower(put(iota({8, 2}), mesh_4x2(), P("x")), ones({8, 2}));
  const std::vector<Sharding> inputs = lowered.compile().input_shardings();
  EXPECT_EQ(inputs[1].named()->spec(), P("x"));
}

TEST(ShardAlike, BothWays) {
  const NamedSharding rows(mesh_4x2(), P("x"));
  // What is known is the second; and it is known only later in the program.
  const auto f = jit([&](const Array& x) {
    const auto [a, b] = shard_alike(x * 2, x + 1);
    return std::pair(a, with_sharding_constraint(b, rows));
  });
  const auto [a, b] = f(iota({8, 2}));
  EXPECT_EQ(spec_of(a), P("x"));
  EXPECT_EQ(spec_of(b), P("x"));
  EXPECT_TRUE(same(a, iota({8, 2}) * 2));
  EXPECT_TRUE(same(b, iota({8, 2}) + 1));
}

TEST(ShardAlike, AnOutputLiesAsAnInput) {
  // matmul alone would leave the columns whole.
  const auto f = jit([](const Array& x, const Array& w) { return shard_alike(x, matmul(x, w)).second; });
  const Array x = put(iota({8, 4}), mesh_4x2(), P("x", "y"));
  const Array w = put(ones({4, 4}), mesh_4x2(), P());
  EXPECT_EQ(spec_of(f(x, w)), P("x", "y"));
  EXPECT_TRUE(same(f(x, w), matmul(iota({8, 4}), ones({4, 4}))));
}

TEST(ShardAlike, TwoPairsMakeAChain) {
  const auto f = jit([](const Array& x) {
    const Array y = shard_alike(x, ones({8, 4})).second;
    return shard_alike(y, full({8, 4}, 3)).second;
  });
  EXPECT_EQ(spec_of(f(put(iota({8, 4}), mesh_4x2(), P("y", "x")))), P("y", "x"));
}

TEST(ShardAlike, WhatAlreadyLiesAlikeIsNotMoved) {
  const Array x = put(iota({8, 2}), mesh_4x2(), P("x", "y"));
  const auto f = jit([](const Array& a, const Array& b) { return shard_alike(a, b); });
  EXPECT_EQ(collectives_in(f.lower(x, x + 1).compile().as_text()), Collectives());
  const Array other = put(iota({8, 2}), mesh_4x2(), P());
  EXPECT_EQ(collectives_in(f.lower(x, other).compile().as_text()), Collectives());
}

TEST(ShardAlike, Trees) {
  const Mesh mesh = mesh_4x2();
  const ConstraintsParams given{put(ones({8, 2}), mesh, P("x")),
                                {put(ones({2}), mesh, P("y")), put(ones({4}), mesh, P("x"))}};
  const auto f = jit([](const ConstraintsParams& p) {
    const ConstraintsParams moments{zeros({8, 2}), {zeros({2}), zeros({4}, {.dtype = int32})}};
    return shard_alike(p, moments).second;
  });
  const ConstraintsParams moments = f(given);
  EXPECT_EQ(spec_of(moments.w), P("x"));
  EXPECT_EQ(spec_of(moments.biases[0]), P("y"));
  EXPECT_EQ(spec_of(moments.biases[1]), P("x"));
  EXPECT_EQ(moments.biases[1].dtype(), int32);
}

TEST(ShardAlike, AllArraysOfATree) {
  const auto f = jit([](const Array& x) { return shard_alike(std::vector<Array>{ones({8}), x, zeros({8})}); });
  for (const Array& y : f(put(iota({8}), mesh_8(), P("i")))) EXPECT_EQ(spec_of(y), P("i"));
}

TEST(ShardAlike, OutsideJit) {
  const Array x = put(iota({8}), mesh_8(), P("i"));
  const auto [a, b] = shard_alike(x, ones({8}));
  EXPECT_EQ(spec_of(b), P("i"));
  EXPECT_TRUE(same(a, x));
  EXPECT_TRUE(same(b, ones({8})));
}

TEST(ShardAlike, InsideShardMap) {
  // Along the axis that is left to the compiler the shards lie alike.
  const Mesh mesh = mesh_4x2();
  const ShardMapOptions options{.mesh = mesh, .in_specs = P("x"), .out_specs = P("x"), .axis_names = {"x"}};
  const auto f = jit(shard_map(
      [](const Array& x) {
        return shard_alike(x, x.sum(1, SourceLocation::current()).reshape(2, 1) * ones({2, 4})).second;
      },
      options));
  const Array x = put(iota({8, 4}), mesh, P("x", "y"));
  const Array y = f(x);
  EXPECT_TRUE(same(y, x.sum(1).reshape(8, 1) * ones({8, 4})));
  EXPECT_EQ(spec_of(y), P("x", "y"));
  const auto all = shard_map([](const Array& a, const Array& b) { return shard_alike(a, b); },
                             {.mesh = mesh, .in_specs = {P("x"), P("x")}, .out_specs = {P("x"), P("x")}});
  const auto [a, b] = all(x, x * 2);
  EXPECT_TRUE(same(a, x));
  EXPECT_TRUE(same(b, x * 2));
}

TEST(ShardAlike, ExplicitAxesAreShared) {
  const Mesh mesh = make_mesh({4, 2}, {"x", "y"}, {.axis_types = {AxisType::kExplicit, AxisType::kExplicit}});
  const Array x = device_put(iota({8, 2}), NamedSharding(mesh, P("x", "y")));
  const auto f = jit([](const Array& a) { return shard_alike(a, ones({8, 2})).second; });
  EXPECT_EQ(spec_of(f(x)), P("x", "y"));
}

TEST(Constraints, OfTrees) {
  const Mesh mesh = mesh_4x2();
  const NamedSharding rows(mesh, P("x"));
  const NamedSharding split(mesh, P("y"));
  const ConstraintsParams given{ones({8, 2}), {ones({4}), iota({8})}};
  const auto one_for_all = jit([&](const ConstraintsParams& p) { return with_sharding_constraint(p, rows); });
  for (const Array& leaf : tree::flatten(one_for_all(given))) EXPECT_EQ(spec_of(leaf), P("x"));
  const auto prefix = jit([&](const ConstraintsParams& p) { return with_sharding_constraint(p, {rows, split}); });
  EXPECT_EQ(spec_of(prefix(given).w), P("x"));
  EXPECT_EQ(spec_of(prefix(given).biases[0]), P("y"));
  EXPECT_TRUE(same(prefix(given).biases[1], iota({8})));
  const Array w = put(ones({8, 2}), mesh, P("x", "y"));
  const auto some = jit([&](const ConstraintsParams& p) { return with_sharding_constraint(p, {none, {none, split}}); });
  const ConstraintsParams result = some(ConstraintsParams{w, given.biases});
  EXPECT_EQ(spec_of(result.w), P("x", "y"));
  EXPECT_EQ(spec_of(result.biases[1]), P("y"));
  EXPECT_EQ(spec_of(with_sharding_constraint(given, rows).biases[0]), P("x"));
  const use_mesh scope(mesh);
  EXPECT_EQ(spec_of(with_sharding_constraint(given, {P("x", "y"), P("x")}).w), P("x", "y"));
}

}  // namespace
}  // namespace shoal::test
