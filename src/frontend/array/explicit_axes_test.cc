#include "shoal/explicit_axes.h"

#include "frontend/test_support.h"
#include "shoal/checkpoint.h"
#include "shoal/control_flow.h"
#include "shoal/derivatives.h"
#include "shoal/make_array.h"
#include "shoal/ops.h"

namespace shoal::test {
namespace {

Mesh explicit_mesh() {
  return make_mesh({2, 4}, {"x", "y"}, {.axis_types = {AxisType::kExplicit, AxisType::kExplicit}});
}

class Explicit : public testing::Test {
 protected:
  Array on(const PartitionSpec& spec, const Shape& shape = {4, 8}) const { return put(iota(shape), mesh, spec); }

  // What a function gives outside jit and inside, in type and value; the result lies as its type says.
  template <class F>
  std::string type_of_result(F f, const Array& x) const {
    const Array eager = f(x);
    std::string traced_type;
    const Array jitted = jit([&](Array a) {
      Array result = f(a);
      traced_type = type_of(result);
      return result;
    })(x);
    EXPECT_EQ(type_of(eager), traced_type);
    EXPECT_EQ(type_of(jitted), traced_type);
    EXPECT_TRUE(same(eager, jitted));
    EXPECT_TRUE(same(jitted, f(plain(x))));
    return traced_type;
  }

  // The same elements where no axis is Explicit.
  static Array plain(const Array& x) { return device_put(x, devices().front()); }

  const Mesh mesh = explicit_mesh();
};

TEST_F(Explicit, TypesNameTheAxes) {
  EXPECT_EQ(type_of(on(P("x", "y"))), "float32[4@x,8@y]");
  EXPECT_EQ(type_of(on(P(none, {"x", "y"}))), "float32[4,8@(x,y)]");
  EXPECT_EQ(type_of(on(P())), "float32[4,8]");
  EXPECT_EQ(type_of(put(iota({4, 8}), make_mesh({2, 4}, {"x", "y"}), P("x"))), "float32[4,8]");
}

TEST_F(Explicit, OnlyExplicitAxesAreNamed) {
  const Mesh mixed = make_mesh({2, 4}, {"x", "y"}, {.axis_types = {AxisType::kExplicit, AxisType::kAuto}});
  const Array x = put(iota({4, 8}), mixed, P("x", "y"));
  EXPECT_EQ(type_of(x), "float32[4@x,8]");
  const Array y = jit([](Array a) { return 2 * a + 1; })(x);
  EXPECT_EQ(type_of(y), "float32[4@x,8]");
}

TEST_F(Explicit, ElementwiseOpsJoinTheAxesOfTheirOperands) {
  const Array x = on(P("x", "y"));
  const Array rows = on(P("x"));
  const Array columns = on(P(none, "y"));
  const Array vector = on(P("y"), {8});
  EXPECT_EQ(type_of(x + columns), "float32[4@x,8@y]");
  EXPECT_EQ(type_of(rows * columns), "float32[4@x,8@y]");
  EXPECT_EQ(type_of(2 * x), "float32[4@x,8@y]");
  EXPECT_EQ(type_of(rows + vector), "float32[4@x,8@y]");
  EXPECT_EQ(type_of(where(x > 3, x, 0)), "float32[4@x,8@y]");
  EXPECT_EQ(spec_of(rows * columns), P("x", "y"));
}

TEST_F(Explicit, EveryKindOfOpHasItsResult) {
  const Array x = on(P("x", "y"));
  EXPECT_EQ(type_of_result([](Array a) { return a.sum(0); }, x), "float32[8@y]");
  EXPECT_EQ(type_of_result([](Array a) { return a.sum(); }, x), "float32[]");
  EXPECT_EQ(type_of_result([](Array a) { return a.max({.axis = 1}); }, x), "float32[4@x]");
  EXPECT_EQ(type_of_result([](Array a) { return a.T(); }, x), "float32[8@y,4@x]");
  EXPECT_EQ(type_of_result([](Array a) { return a.reshape(4, 4, 2); }, x), "float32[4@x,4@y,2]");
  EXPECT_EQ(type_of_result([](Array a) { return a.reshape(32); }, x), "float32[32@(x,y)]");
  EXPECT_EQ(type_of_result([](Array a) { return a.reshape(2, 2, 8); }, on(P("x"))), "float32[2@x,2,8]");
  EXPECT_EQ(type_of_result([](Array a) { return a[{ellipsis, range(0, 4)}]; }, x), "float32[4@x,4@y]");
  EXPECT_EQ(type_of_result([](Array a) { return broadcast_to(a, {3, 4, 8}); }, x), "float32[3,4@x,8@y]");
  EXPECT_EQ(type_of_result([](Array a) { return matmul(a, ones({8, 4})); }, on(P("x"))), "float32[4@x,4]");
}

TEST_F(Explicit, MovedElementsStaySplit) {
  const Array x = on(P("x", "y"));
  EXPECT_EQ(type_of_result([](Array a) { return concatenate({a, a}, 1); }, x), "float32[4@x,16@y]");
  EXPECT_EQ(type_of_result([](Array a) { return stack({a, a}); }, x), "float32[2,4@x,8@y]");
  EXPECT_EQ(type_of_result([](Array a) { return flip(a, 1); }, x), "float32[4@x,8@y]");
  EXPECT_EQ(type_of_result([](Array a) { return roll(a, 3, 1); }, x), "float32[4@x,8@y]");
  EXPECT_EQ(type_of_result([](Array a) { return lax::pad(a, 0.0F, {{0, 0, 0}, {3, 5, 0}}); }, x), "float32[4@x,16@y]");
  EXPECT_EQ(type_of_result([](Array a) { return cumsum(a, {.axis = 1}); }, x), "float32[4@x,8@y]");
  EXPECT_EQ(type_of_result([](Array a) { return sort(a, {.axis = 1}); }, on(P("x"))), "float32[4@x,8]");
  EXPECT_EQ(type_of_result([](Array a) { return lax::bitcast_convert_type(a, int32); }, x), "int32[4@x,8@y]");
}

TEST_F(Explicit, OutShardingSaysHowAProductIsSplit) {
  const Array columns = on(P("y"), {8, 4});
  const auto product = [&](const PartitionSpec& spec) {
    return [this, spec, columns](Array a) { return matmul(a, columns, NamedSharding(mesh, spec)); };
  };
  const Array x = on(P("x", "y"));
  EXPECT_EQ(type_of(product(P("x"))(x)), "float32[4@x,4]");
  EXPECT_EQ(type_of(jit(product(P("x", "y")))(x)), "float32[4@x,4@y]");
  EXPECT_TRUE(same(product(P("x", "y"))(x), matmul(plain(x), plain(columns))));
  const std::string text = jit(product(P("x", "y"))).lower(x).compile().as_text();
  EXPECT_THAT(text, testing::HasSubstr("reduce_scatter"));
}

TEST_F(Explicit, OutShardingOfProducts) {
  const NamedSharding rows(mesh, P("x"));
  const Array x = on(P("x", "y"));
  const Array y = on(P("y"), {8, 4});
  using Out = OutSharding;
  const auto type = [&](auto f) {
    const Array eager = f(x, y, Out(rows));
    const Array jitted = jit([&](Array a, Array b) { return f(a, b, Out(rows)); })(x, y);
    EXPECT_EQ(type_of(eager), type_of(jitted));
    EXPECT_TRUE(same(eager, jitted));
    EXPECT_TRUE(same(jitted, f(plain(x), plain(y), Out())));
    EXPECT_EQ(spec_of(jitted), type_sharding(jitted).spec());
    EXPECT_EQ(spec_of(jitted)[0], PartitionEntry("x"));
    return type_of(jitted);
  };
  EXPECT_EQ(type([](Array a, Array b, Out out) { return dot(a, b, out); }), "float32[4@x,4]");
  EXPECT_EQ(type([](Array a, Array b, Out out) { return tensordot(a, b, 1, out); }), "float32[4@x,4]");
  EXPECT_EQ(type([](Array a, Array b, Out out) { return tensordot(a, b, {0}, {1}, out); }), "float32[8@x,8]");
  EXPECT_EQ(type([](Array a, Array b, Out out) { return inner(a, b.T(), out); }), "float32[4@x,4]");
  EXPECT_EQ(type([](Array a, Array b, Out out) { return vecdot(a, b.T(), -1, out); }), "float32[4@x]");
  EXPECT_EQ(type([](Array a, Array b, Out out) { return dot(a, b.max(), out); }), "float32[4@x,8]");
}

TEST_F(Explicit, OutShardingOfEinsum) {
  const Array x = on(P("x", "y"));
  const Array y = on(P("y"), {8, 4});
  const auto type = [&](std::string_view subscripts, const std::vector<Array>& arrays, const PartitionSpec& spec) {
    const auto f = [&](const std::vector<Array>& operands, OutSharding out) {
      return einsum(subscripts, std::vector<Operand>(operands.begin(), operands.end()),
                    {.preferred_element_type = {}, .out_sharding = std::move(out)});
    };
    const NamedSharding out(mesh, spec);
    const Array eager = f(arrays, out);
    const Array jitted = jit([&](const std::vector<Array>& operands) { return f(operands, out); })(arrays);
    EXPECT_EQ(type_of(eager), type_of(jitted));
    EXPECT_TRUE(same(eager, jitted));
    std::vector<Array> whole;
    for (const Array& array : arrays) whole.push_back(plain(array));
    EXPECT_TRUE(same(jitted, f(whole, OutSharding())));
    return type_of(jitted);
  };
  EXPECT_EQ(type("ij,jk->ik", {x, y}, P("x")), "float32[4@x,4]");
  EXPECT_EQ(type("ij,jk->ki", {x, y}, P("x")), "float32[4@x,4]");  // The product itself has k last.
  EXPECT_EQ(type("ij,jk->ki", {x, y}, P(none, "y")), "float32[4,4@y]");
  EXPECT_EQ(type("ij,jk,kl->il", {x, y, x}, P("x", "y")), "float32[4@x,8@y]");
  EXPECT_EQ(type("ij->j", {x}, P("x")), "float32[8@x]");
  EXPECT_EQ(type("ij,kj->ij", {x, on(P(none, "x"), {1, 8})}, P("y")), "float32[4@y,8]");
  EXPECT_EQ(type("ii,ij->j", {on(P("x"), {4, 4}), x}, P("y")), "float32[8@y]");
}

TEST_F(Explicit, OutShardingOfShapes) {
  const Array x = on(P("x", "y"));
  const auto out = [&](const PartitionSpec& spec) { return NamedSharding(mesh, spec); };
  EXPECT_EQ(type_of_result(
                [&](Array a) {
                  return reshape(a, {4, 2, 4}, out(P("x", none, "y")));
                },
                x),
            "float32[4@x,2,4@y]");
  EXPECT_EQ(type_of_result([&](Array a) { return reshape(a, {4, 8}, out(P("y"))); }, x), "float32[4@y,8]");
  EXPECT_EQ(type_of_result(
                [&](Array a) {
                  return lax::reshape(a, {2, 16}, out(P("x", "y")));
                },
                x),
            "float32[2@x,16@y]");
  EXPECT_EQ(type_of_result([&](Array a) { return ravel(a, out(P("x"))); }, x), "float32[32@x]");
  EXPECT_EQ(type_of_result(
                [&](Array a) {
                  return broadcast_to(a, {4, 4, 8}, out(P("y", "x")));
                },
                x),
            "float32[4@y,4@x,8]");
  EXPECT_EQ(type_of_result(
                [&](Array a) {
                  return lax::broadcast_in_dim(a, {4, 8, 2}, {0, 1}, out(P("x")));
                },
                x),
            "float32[4@x,8,2]");
  EXPECT_EQ(type_of_result([&](Array a) { return repeat(a, 2, 1, out(P("x", "y"))); }, x), "float32[4@x,16@y]");
  EXPECT_EQ(type_of_result([&](Array a) { return repeat(a, 3, {}, out(P("x"))); }, x), "float32[96@x]");
}

TEST_F(Explicit, ArraysAreMadeAsTheyLie) {
  const NamedSharding columns(mesh, P(none, "y"));
  EXPECT_EQ(type_of(zeros({4, 8}, {.dtype = {}, .sharding = columns})), "float32[4,8@y]");
  const auto made = jit([&](Array a) {
    return std::vector<Array>{ones({4, 8}, {.dtype = {}, .sharding = columns}) + a,
                              full({4, 8}, 3, {.dtype = {}, .sharding = columns}),
                              arange(8, {.dtype = {}, .sharding = NamedSharding(mesh, P("y"))}),
                              eye(4, {.m = 8, .k = 0, .dtype = {}, .sharding = columns})};
  })(on(P("x")));
  EXPECT_EQ(type_of(made[0]), "float32[4@x,8@y]");
  EXPECT_EQ(type_of(made[1]), "int32[4,8@y]");
  EXPECT_EQ(type_of(made[2]), "int32[8@y]");
  EXPECT_EQ(type_of(made[3]), "float32[4,8@y]");
  EXPECT_EQ(type_of(zeros_like(on(P("x", "y")))), "float32[4@x,8@y]");
  const auto alike = [](Array a) { return full_like(a, 3); };
  EXPECT_EQ(type_of_result(alike, on(P("x", "y"))), "float32[4@x,8@y]");
  EXPECT_EQ(type_of_result(alike, on(P())), "float32[4,8]");
}

TEST_F(Explicit, ItemsFollowWhatIsTakenWhole) {
  const Array columns = on(P(none, "y"));
  const Array rows = array({2, 0, 2, -1});
  EXPECT_EQ(type_of_result([&](Array a) { return a[rows]; }, columns), "float32[4,8@y]");
  EXPECT_EQ(type_of_result([&](Array a) { return a[2]; }, columns), "float32[8@y]");
  EXPECT_EQ(type_of_result([&](Array a) { return take(a, rows, {.axis = 0}); }, columns), "float32[4,8@y]");
  EXPECT_EQ(type_of_result(
                [&](Array a) {
                  return take_along_axis(a, zeros({4, 2}).astype(int32), 1);
                },
                on(P("x"))),
            "float32[4@x,2]");
  EXPECT_EQ(type_of_result([&](Array a) { return a.at(rows).set(1); }, columns), "float32[4,8@y]");
  EXPECT_EQ(type_of_result([&](Array a) { return a.at(rows).add(a); }, columns), "float32[4,8@y]");
  // Positions that are split give items that are split alike, and an array takes its own updates where it lies.
  EXPECT_EQ(type_of(columns[put(rows, mesh, P("x"))]), "float32[4@x,8@y]");
  EXPECT_EQ(type_of_result([&](Array a) { return a.at(rows).set(1); }, on(P("x"))), "float32[4@x,8]");
  EXPECT_EQ(type_of_result([&](Array a) { return a.at(rows, 3).multiply(2); }, on(P("x", "y"))), "float32[4@x,8@y]");
  EXPECT_EQ(type_of_result([](Array a) { return where(a > 3, a, 0); }, on(P("x", "y"))), "float32[4@x,8@y]");
}

TEST_F(Explicit, OutShardingOfItems) {
  const Array x = on(P("x", "y"));
  const Array rows = array({2, 0, 2, -1});
  const NamedSharding out(mesh, P("x"));
  EXPECT_EQ(type_of_result([&](Array a) { return a.at(rows).get({.out_sharding = out}); }, x), "float32[4@x,8]");
  EXPECT_EQ(type_of_result([&](Array a) { return a.at(rows, 1).get({.out_sharding = out}); }, x), "float32[4@x]");
  EXPECT_EQ(type_of_result([&](Array a) { return a.at(1).get({.out_sharding = NamedSharding(mesh, P("y"))}); }, x),
            "float32[8@y]");
  EXPECT_EQ(type_of_result([&](Array a) { return a.at(rows).set(a, {.out_sharding = out}); }, x), "float32[4@x,8]");
  EXPECT_EQ(type_of_result([&](Array a) { return a.at(rows).add(a, {.out_sharding = out}); }, x), "float32[4@x,8]");
  EXPECT_EQ(type_of_result([&](Array a) { return a.at(rows).min(a - 9, {.out_sharding = out}); }, x), "float32[4@x,8]");
  EXPECT_EQ(
      type_of_result(
          [&](Array a) { return a.at(rows).apply([](const Array& part) { return 2 * part; }, {.out_sharding = out}); },
          x),
      "float32[4@x,8]");
  EXPECT_EQ(type_of_result([&](Array a) { return a.at(a > 3).set(0, {.out_sharding = out}); }, x), "float32[4@x,8]");
}

TEST_F(Explicit, CountsAndSegments) {
  const Array ids = put(array({3, 1, 1, 0}), mesh, P("x"));
  const Array data = on(P("x", "y"));
  const NamedSharding out(mesh, P());
  EXPECT_EQ(type_of_result([&](Array a) { return bincount(a, {.length = 4, .out_sharding = out}); }, ids), "int32[4]");
  EXPECT_EQ(type_of_result([](Array a) { return nn::one_hot(a, 8); }, ids), "float32[4@x,8]");
  const Array sums = ops::segment_sum(data, ids, 4, NamedSharding(mesh, P(none, "y")));
  EXPECT_EQ(type_of(sums), "float32[4,8@y]");
  EXPECT_TRUE(same(sums, ops::segment_sum(plain(data), plain(ids), 4)));
  const Array greatest =
      jit([&](Array a, Array b) { return ops::segment_max(a, b, 4, NamedSharding(mesh, P("y"))); })(data, ids);
  EXPECT_EQ(type_of(greatest), "float32[4@y,8]");
  EXPECT_TRUE(same(greatest, ops::segment_max(plain(data), plain(ids), 4)));
  // Where the items are whole, nothing has to be said.
  EXPECT_EQ(type_of_result(
                [](Array a) {
                  return ops::segment_prod(a, array({3, 1, 1, 0}), 4);
                },
                on(P(none, "y"))),
            "float32[4,8@y]");
}

TEST_F(Explicit, TrianglesAndBitPatterns) {
  const Array x = on(P("x", "y"));
  EXPECT_EQ(type_of_result([](Array a) { return tril(a); }, x), "float32[4@x,8@y]");
  EXPECT_EQ(type_of_result([](Array a) { return triu(a, 1); }, x), "float32[4@x,8@y]");
  EXPECT_EQ(type_of_result([](Array a) { return lax::bitcast_convert_type(a, int16); }, x), "int16[4@x,8@y,2]");
  EXPECT_EQ(type_of_result([](Array a) { return lax::bitcast_convert_type(a.astype(int16).reshape(4, 4, 2), int32); },
                           on(P("x", "y"))),
            "int32[4@x,4@y]");
  EXPECT_EQ(type_of_result([](Array a) { return a.astype(bfloat16); }, x), "bfloat16[4@x,8@y]");
}

TEST_F(Explicit, ExplicitAxesOfADimensionComeBeforeOthers) {
  const Mesh mixed = make_mesh({2, 4}, {"x", "y"}, {.axis_types = {AxisType::kExplicit, AxisType::kAuto}});
  const Array x = put(iota({16}), mixed, P({"x", "y"}));
  EXPECT_EQ(type_of(x), "float32[16@x]");
  const Array y = jit([](Array a) { return 2 * a; })(x);
  EXPECT_EQ(type_of(y), "float32[16@x]");
  EXPECT_EQ(spec_of(y), P({"x", "y"}));
}

TEST_F(Explicit, CapturedArraysAreWholeAlongManualAxes) {
  const Array columns = on(P(none, "y"));
  std::string inside;
  const auto f = shard_map(
      [&](Array a) {
        const Array sum = a + columns;
        inside = type_of(sum);
        return sum;
      },
      {.mesh = mesh, .in_specs = P(), .out_specs = P(), .axis_names = {"x"}});
  const Array x = on(P());
  EXPECT_EQ(type_of(jit([&](Array a) { return f(a); })(x)), "float32[4,8@y]");
  EXPECT_EQ(inside, "float32[4,8@y]");
  const Array whole = on(P());
  const auto g = shard_map(
      [&](Array a) {
        return a + whole[{range(0, 2), range(0, 2)}];
      },
      {.mesh = mesh, .in_specs = P("x", "y"), .out_specs = P("x", "y")});
  EXPECT_EQ(type_of(g(on(P("x", "y")))), "float32[4@x,8@y]");
  EXPECT_TRUE(same(jit([&](Array a) { return g(a); })(x), g(x)));
}

TEST_F(Explicit, AutoAxesOutsideAndInsideGiveTheSame) {
  const Array x = on(P("x", "y"));
  const auto sorted = auto_axes([](Array a) { return sort(-a); }, {.out_sharding = P("x")});
  const Array eager = sorted(x);
  const Array jitted = jit([&](Array a) { return sorted(a); })(x);
  EXPECT_EQ(type_of(eager), "float32[4@x,8]");
  EXPECT_EQ(type_of(jitted), "float32[4@x,8]");
  EXPECT_TRUE(same(eager, jitted));
  EXPECT_TRUE(same(eager, sort(-plain(x))));
}

TEST_F(Explicit, ConstantsFollow) {
  EXPECT_EQ(type_of_result([](Array a) { return a + ones({4, 8}); }, on(P("x"))), "float32[4@x,8]");
}

TEST_F(Explicit, ReshardMoves) {
  EXPECT_EQ(type_of_result([&](Array a) { return reshard(a, NamedSharding(mesh, P("y"))); }, on(P("x", "y"))),
            "float32[4@y,8]");
  EXPECT_EQ(type_of_result([&](Array a) { return reshard(a, NamedSharding(mesh, P())); }, on(P("x"))), "float32[4,8]");
}

TEST_F(Explicit, ValuesLieAsTheirTypesSay) {
  // The sum of the products would be cheaper on other splits; the type decides.
  const auto f = jit([&](Array a) { return reshard(a, NamedSharding(mesh, P("y"))) * 2; });
  EXPECT_EQ(spec_of(f(on(P("x")))), P("y", none));
}

TEST_F(Explicit, BareSpecsMeanTheMeshThatIsSet) {
  const Array uncommitted = iota({4, 8});
  const use_mesh scope(mesh);
  EXPECT_EQ(get_mesh(), mesh);
  EXPECT_EQ(type_of(device_put(iota({4, 8}), P("x"))), "float32[4@x,8]");
  EXPECT_EQ(type_of(zeros({4, 8}, {.sharding = P(none, "y")})), "float32[4,8@y]");
  EXPECT_EQ(type_of(reshard(on(P("x")), P("y"))), "float32[4@y,8]");
  const auto f = jit([](Array a) { return 2 * a; }, {.in_shardings = P("x"), .out_shardings = P("y")});
  EXPECT_EQ(type_of(f(uncommitted)), "float32[4@y,8]");
  const auto g = shard_map([](Array a) { return lax::psum(a, "x"); }, {.in_specs = P("x"), .out_specs = P()});
  EXPECT_EQ(type_of(g(on(P("x")))), "float32[2,8]");
}

TEST_F(Explicit, ScopesOfMeshesNest) {
  const Mesh other = mesh_8();
  {
    const use_mesh outer(mesh);
    {
      const use_mesh inner(other);
      EXPECT_EQ(get_mesh(), other);
    }
    EXPECT_EQ(get_mesh(), mesh);
    set_mesh(other);
    EXPECT_EQ(get_mesh(), other);
  }
  EXPECT_TRUE(get_mesh().empty());
}

TEST_F(Explicit, WhatNobodyPlacedLiesOnTheMeshThatIsSet) {
  const Array before = ones({4});
  const Array elsewhere = device_put(before, devices()[3]);
  const auto make = jit([] { return arange(4); });
  const auto lies_on = [](const Array& array, const Mesh& wanted) {
    const Sharding sharding = array.sharding();
    const NamedSharding* named = sharding.named();
    return named != nullptr && named->mesh() == wanted && named->is_fully_replicated() && array.committed();
  };
  const Mesh other({devices()[4], devices()[5]}, {2}, {"z"});
  for (const Mesh& one : {mesh, other, mesh_8()}) {
    const use_mesh scope(one);
    EXPECT_TRUE(lies_on(ones({4}), one));
    EXPECT_TRUE(lies_on(arange(3), one));
    EXPECT_TRUE(lies_on(array({1, 2}), one));
    EXPECT_TRUE(lies_on(before + 1, one));
    EXPECT_TRUE(lies_on(make(), one));
    EXPECT_EQ((elsewhere + before).sharding(), elsewhere.sharding());
    EXPECT_FALSE(device_put(before).committed());
  }
  EXPECT_FALSE(ones({4}).committed());
  EXPECT_FALSE(make().committed());
  // What comes and goes inside leaves it as it was.
  const use_mesh scope(mesh);
  {
    const use_abstract_mesh abstract(other.abstract_mesh());
    const use_mesh inner(other);
  }
  EXPECT_TRUE(lies_on(ones({4}), mesh));
}

TEST_F(Explicit, ConstraintsStateWhatTheTypeSays) {
  const auto f = jit([&](Array a) { return with_sharding_constraint(a, NamedSharding(mesh, P("x", unconstrained))); });
  EXPECT_EQ(type_of(f(on(P("x", "y")))), "float32[4@x,8@y]");
}

TEST_F(Explicit, AutoAxesLeaveTheSplitToTheCompiler) {
  std::string inside;
  const auto f = auto_axes(
      [&](Array a) {
        inside = type_of(a);
        return a.reshape(4, 2, 4) * 2;
      },
      {.out_sharding = P("x")});
  const Array x = on(P("x", "y"));
  const Array y = f(x);
  EXPECT_EQ(inside, "float32[4,8]");
  EXPECT_EQ(type_of(y), "float32[4@x,2,4]");
  EXPECT_TRUE(same(y, plain(x).reshape(4, 2, 4) * 2));
}

TEST_F(Explicit, AutoAxesMayBeSome) {
  std::string inside;
  const auto f = jit([&](Array a) {
    return auto_axes(
        [&](Array b) {
          inside = type_of(b);
          return b + 1;
        },
        {.out_sharding = P("x", "y"), .axes = {"y"}})(a);
  });
  EXPECT_EQ(type_of(f(on(P("x", "y")))), "float32[4@x,8@y]");
  EXPECT_EQ(inside, "float32[4@x,8]");
}

TEST_F(Explicit, ExplicitAxesOnAnAutoMesh) {
  const Mesh automatic = make_mesh({2, 4}, {"x", "y"});
  const use_mesh scope(automatic);
  std::string inside;
  const auto f = explicit_axes(
      [&](Array a, Array b) {
        inside = type_of(a * b);
        return a * b;
      },
      {.in_sharding = {P("x"), P(none, "y")}});
  const Array x = put(iota({4, 8}), automatic, P("x"));
  const Array y = f(x, x);
  EXPECT_EQ(inside, "float32[4@x,8@y]");
  EXPECT_EQ(type_of(y), "float32[4,8]");
  EXPECT_TRUE(same(y, x * x));
}

TEST_F(Explicit, TypesGoThroughNestedJitAndShardMap) {
  const auto inner = jit([](Array a) { return a + 1; });
  EXPECT_EQ(type_of_result([&](Array a) { return inner(a); }, on(P("x", "y"))), "float32[4@x,8@y]");
  std::string inside;
  const auto mapped = shard_map(
      [&](Array a) {
        inside = type_of(a);
        return a * 2;
      },
      {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x"), .axis_names = {"x"}});
  const auto f = jit([&](Array a) {
    const Array b = mapped(a);
    return b + a;
  });
  const Array x = on(P("x", "y"));
  EXPECT_EQ(type_of(f(x)), "float32[4@x,8@y]");
  EXPECT_EQ(inside, "float32[2,8@y]{V:x}");
  EXPECT_TRUE(same(f(x), 3 * plain(x)));
  // What is split over y outside stays so inside.
  EXPECT_THAT(f.lower(x).compile().as_text(), testing::Not(testing::HasSubstr("all_gather")));
}

// ---- Sums that are not finished.

class UnreducedSums : public Explicit {
 protected:
  // A product of rows and columns that is still to be summed over y.
  Array product() const { return matmul(x, w, NamedSharding(mesh, P("x", unreduced("y")))); }
  Array finished() const { return matmul(plain(x), plain(w)); }
  NamedSharding over(const PartitionSpec& spec) const { return {mesh, spec}; }

  // The elements where all sums are finished, when f is called outside jit and inside.
  template <class F>
  void expect_sum(F f, const Array& operand, const std::string& type, const Array& expected) const {
    SCOPED_TRACE(type);
    const Array eager = f(operand);
    const Array jitted = jit([&](Array a) { return f(a); })(operand);
    EXPECT_EQ(type_of(eager), type);
    EXPECT_EQ(type_of(jitted), type);
    EXPECT_TRUE(same(reshard(eager, over(P())), expected));
    EXPECT_TRUE(same(reshard(jitted, over(P())), expected));
  }

  const Array x = on(P("x", "y"));
  const Array w = put(iota({8, 4}), mesh, P("y"));
};

TEST_F(UnreducedSums, AreInTypesAndShardings) {
  const Array sum = product();
  EXPECT_EQ(type_of(sum), "float32[4@x,4]{U:y}");
  EXPECT_EQ(spec_of(sum), P("x", none, unreduced("y")));
  EXPECT_FALSE(sum.is_fully_replicated());
  const Array both = reshard(sum, over(P(unreduced("x", "y"))));
  EXPECT_EQ(type_of(both), "float32[4,4]{U:(x,y)}");
  EXPECT_THAT(jit([](Array a) { return a + a; }).lower(sum).as_text(), testing::HasSubstr("f32[4@x,4]{U:y} = add"));
}

TEST_F(UnreducedSums, DevicesHoldSummands) {
  const Array sum = product();
  const std::vector<Shard> shards = sum.addressable_shards();
  ASSERT_EQ(shards.size(), 8U);
  for (std::size_t i = 0; i < 8; ++i) {
    const auto row = static_cast<std::int64_t>(i / 4 * 2);
    const auto k = static_cast<std::int64_t>(i % 4 * 2);
    const Array part = matmul(plain(x)[{range(row, row + 2), range(k, k + 2)}], plain(w)[range(k, k + 2)]);
    EXPECT_TRUE(same(device_put(shards[i].data, devices().front()), part)) << i;
    EXPECT_EQ(shards[i].replica_id, 0);
  }
  EXPECT_THAT(str(sum), testing::HasSubstr("Array(shape=(4, 4), dtype=float32, sharding=NamedSharding("));
  EXPECT_THAT(repr(sum), testing::HasSubstr("spec=P('x', None, unreduced={'y'})"));
  EXPECT_TRUE(same(sum.copy().addressable_data(3), sum.addressable_data(3)));
}

TEST_F(UnreducedSums, ProductsGiveThem) {
  const auto f = [&](Array a) { return matmul(a, w, over(P("x", unreduced("y")))); };
  expect_sum(f, x, "float32[4@x,4]{U:y}", finished());
  const std::string text = jit(f).lower(x).compile().as_text();
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("all_reduce")));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("select")));
  const auto transposed = [&](Array a) {
    return einsum("ij,jk->ki", a, w,
                  {.preferred_element_type = {}, .out_sharding = over(P(none, "x", unreduced("y")))});
  };
  expect_sum(transposed, x, "float32[4,4@x]{U:y}", finished().T());
  const auto three = [&](Array a) {
    return einsum("ij,jk,kl->il", {a, w, ones({4, 4})},
                  {.preferred_element_type = {}, .out_sharding = over(P("x", unreduced("y")))});
  };
  expect_sum(three, x, "float32[4@x,4]{U:y}", matmul(finished(), ones({4, 4})));
}

TEST_F(UnreducedSums, LinearOpsKeepThem) {
  const Array sum = product();
  const Array whole = finished();
  expect_sum([](Array a) { return a + a; }, sum, "float32[4@x,4]{U:y}", whole + whole);
  expect_sum([](Array a) { return -a - a; }, sum, "float32[4@x,4]{U:y}", -whole - whole);
  expect_sum([](Array a) { return a.sum(1); }, sum, "float32[4@x]{U:y}", whole.sum(1));
  expect_sum([](Array a) { return a.sum(); }, sum, "float32[]{U:y}", whole.sum());
  expect_sum([](Array a) { return a.T(); }, sum, "float32[4,4@x]{U:y}", whole.T());
  expect_sum([](Array a) { return a.reshape(2, 2, 4); }, sum, "float32[2@x,2,4]{U:y}", whole.reshape(2, 2, 4));
  expect_sum(
      [](Array a) {
        return a[{ellipsis, range(0, 2)}];
      },
      sum, "float32[4@x,2]{U:y}", whole[{ellipsis, range(0, 2)}]);
  expect_sum(
      [](Array a) {
        return concatenate({a, a}, 1);
      },
      sum, "float32[4@x,8]{U:y}", concatenate({whole, whole}, 1));
  expect_sum(
      [](Array a) {
        return broadcast_to(a, {3, 4, 4});
      },
      sum, "float32[3,4@x,4]{U:y}", broadcast_to(whole, {3, 4, 4}));
  expect_sum([](Array a) { return flip(a, 0); }, sum, "float32[4@x,4]{U:y}", flip(whole, 0));
  // Nothing is added up on the way, though the operand is used twice.
  const std::string text = jit([](Array a) { return std::vector<Array>{a + a, a.T()}; }).lower(sum).compile().as_text();
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("reduce")));
}

TEST_F(UnreducedSums, ReshardFinishesThem) {
  const Array sum = product();
  const auto to = [&](const PartitionSpec& spec) { return [this, spec](Array a) { return reshard(a, over(spec)); }; };
  expect_sum(to(P()), sum, "float32[4,4]", finished());
  expect_sum(to(P("x")), sum, "float32[4@x,4]", finished());
  expect_sum(to(P("x", "y")), sum, "float32[4@x,4@y]", finished());
  expect_sum(to(P("y", "x")), sum, "float32[4@y,4@x]", finished());
  const auto text = [&](const PartitionSpec& spec) { return jit(to(spec)).lower(sum).compile().as_text(); };
  EXPECT_THAT(text(P("x")), testing::HasSubstr("all_reduce"));
  EXPECT_THAT(text(P("x", "y")), testing::HasSubstr("reduce_scatter"));
  EXPECT_THAT(text(P("x", "y")), testing::Not(testing::HasSubstr("all_reduce")));
}

TEST_F(UnreducedSums, ReshardMovesAndMakesThem) {
  const Array sum = product();
  const auto to = [&](const PartitionSpec& spec) { return [this, spec](Array a) { return reshard(a, over(spec)); }; };
  expect_sum(to(P("x", unreduced("y"))), sum, "float32[4@x,4]{U:y}", finished());
  expect_sum(to(P(none, "x", unreduced("y"))), sum, "float32[4,4@x]{U:y}", finished());
  expect_sum(to(P(unreduced("x", "y"))), sum, "float32[4,4]{U:(x,y)}", finished());
  expect_sum(to(P(unreduced("x"))), sum, "float32[4,4]{U:x}", finished());
  const Array whole = on(P());
  expect_sum(to(P(unreduced("y"))), whole, "float32[4,8]{U:y}", plain(whole));
  expect_sum(to(P(none, "x", unreduced("y"))), x, "float32[4,8@x]{U:y}", plain(x));
  // The first device along y keeps the elements; the others have what a sum leaves as it is, -0 too.
  const Array made = reshard(whole, over(P(unreduced("y"))));
  for (std::int64_t i = 0; i < 8; ++i) {
    const Array expected = i % 4 == 0 ? plain(whole) : full({4, 8}, -0.0F);
    EXPECT_TRUE(same(device_put(made.addressable_data(i), devices().front()), expected)) << i;
  }
}

TEST_F(UnreducedSums, OfOtherDtypes) {
  for (const Dtype dtype : {int32, bfloat16, float16, complex64}) {
    const Array a = x.astype(dtype);
    const Array b = put(ones({8, 4}), mesh, P("y")).astype(dtype);
    const Array sum = matmul(a, b, over(P("x", unreduced("y"))));
    EXPECT_EQ(sum.dtype(), dtype);
    EXPECT_TRUE(same(reshard(sum, over(P())), matmul(plain(a), plain(b))));
    EXPECT_TRUE(same(reshard(reshard(plain(a), over(P(unreduced("x")))), over(P())), plain(a)));
  }
}

TEST_F(UnreducedSums, AreArgumentsAndResultsOfFunctions) {
  const Array sum = product();
  const auto made = jit([](Array a) { return a; }, {.out_shardings = over(P("x", unreduced("y")))})(on(P()));
  EXPECT_EQ(type_of(made), "float32[4@x,8]{U:y}");
  const auto inner = jit([](Array a) { return a + a; });
  EXPECT_EQ(type_of(jit([&](Array a) { return inner(a); })(sum)), "float32[4@x,4]{U:y}");
  const auto compiled = jit([](Array a) { return a.T(); }).lower(sum).compile();
  EXPECT_EQ(type_of(compiled(sum)), "float32[4,4@x]{U:y}");
}

TEST_F(UnreducedSums, GoInAndOutOfShardMap) {
  const Array sum = product();
  const PartitionSpec spec = P("x", unreduced("y"));
  std::string inside;
  const auto finish = shard_map(
      [&](Array a) {
        inside = type_of(a);
        return lax::psum(a, "y");
      },
      {.mesh = mesh, .in_specs = spec, .out_specs = P("x")});
  expect_sum(finish, sum, "float32[4@x,4]", finished());
  EXPECT_EQ(inside, "float32[2,4]{V:x, U:y}");
  const auto twice = shard_map([](Array a) { return 2 * a; }, {.mesh = mesh, .in_specs = spec, .out_specs = spec});
  expect_sum(twice, sum, "float32[4@x,4]{U:y}", 2 * finished());
  const auto parts = shard_map([](Array a) { return lax::pcast(a.sum(1), "y", "unreduced"); },
                               {.mesh = mesh, .in_specs = P("x", "y"), .out_specs = P("x", unreduced("y"))});
  expect_sum(parts, x, "float32[4@x]{U:y}", plain(x).sum(1));
  // Copies count once for each device where that is asked for.
  const auto copies = shard_map([](Array a) { return lax::pcast(lax::pvary(a, "y"), "y", "unreduced"); },
                                {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x", unreduced("y"))});
  expect_sum(copies, on(P("x")), "float32[4@x,8]{U:y}", 4 * plain(on(P())));
}

TEST_F(UnreducedSums, AreMadeOfParts) {
  std::vector<Array> parts;
  for (const Device& device : mesh.devices()) parts.push_back(device_put(full({2}, device.id), device));
  const Array sum = make_array_from_single_device_arrays({4}, over(P("x", unreduced("y"))), parts);
  EXPECT_EQ(type_of(sum), "int32[4@x]{U:y}");
  EXPECT_EQ(ints(reshard(sum, over(P()))), (std::vector{6, 6, 22, 22}));
}

class Reduced : public UnreducedSums {
 protected:
  // The type of a gradient, which is that of a function of an array that is not on the mesh.
  template <class F>
  std::string type_of_gradient(F f, const Array& a) const {
    const auto loss = [&](const Array& b) { return reshard(f(b), over(P())).sum(); };
    const Array expected = grad([&](const Array& b) { return f(b).sum(); })(plain(a));
    const Array eager = grad(loss)(a);
    const Array jitted = jit(grad(loss))(a);
    EXPECT_EQ(type_of(eager), type_of(jitted));
    EXPECT_TRUE(same(reshard(eager, over(P())), expected));
    EXPECT_TRUE(same(reshard(jitted, over(P())), expected));
    return type_of(jitted);
  }

  const Array r = on(P(reduced("x")));
};

TEST_F(Reduced, AreInTypesAndShardings) {
  EXPECT_EQ(type_of(r), "float32[4,8]{R:x}");
  EXPECT_EQ(spec_of(r), P(reduced("x")));
  EXPECT_TRUE(r.is_fully_replicated());
  EXPECT_EQ(type_of(on(P("x", reduced("y")))), "float32[4@x,8]{R:y}");
  EXPECT_EQ(type_of(reshard(on(P("x", "y")), over(P(none, reduced("x", "y"))))), "float32[4,8]{R:(x,y)}");
  EXPECT_EQ(spec_of(jit([](Array a) { return a + a; })(r)), P(none, none, reduced("x")));
  EXPECT_THAT(jit([](Array a) { return a + a; }).lower(r).as_text(), testing::HasSubstr("f32[4,8]{R:x} = add"));
}

TEST_F(Reduced, OpsKeepThem) {
  const auto keeps = [&](auto f, const std::string& type) { EXPECT_EQ(type_of_result(f, r), type); };
  keeps([](Array a) { return 2 * sin(a) + 1; }, "float32[4,8]{R:x}");
  keeps([](Array a) { return where(a > 3, a, -a); }, "float32[4,8]{R:x}");
  keeps([](Array a) { return a.T().reshape(2, 16); }, "float32[2,16]{R:x}");
  keeps([](Array a) { return a.sum(0) / a.max(0); }, "float32[8]{R:x}");
  keeps([](Array a) { return sort(a); }, "float32[4,8]{R:x}");
  keeps([](Array a) { return concatenate({a, a}, 1); }, "float32[4,16]{R:x}");
  keeps([](Array a) { return a[{ellipsis, range(0, 2)}]; }, "float32[4,2]{R:x}");
  keeps([](Array a) { return take(a, array({1, 0}), {.axis = 0}); }, "float32[2,8]{R:x}");
  // A product is reduced over nothing.
  keeps([](Array a) { return matmul(a, a.T()); }, "float32[4,4]");
}

TEST_F(Reduced, HaveUnreducedGradients) {
  const auto gradient = [&](auto f) { EXPECT_EQ(type_of_gradient(f, r), "float32[4,8]{U:x}"); };
  gradient([](Array a) { return sin(a) * a; });
  gradient([](Array a) { return 2 * a / (a + 3); });
  gradient([](Array a) { return where(a > 3, a, -a); });
  gradient([](Array a) { return a.T().reshape(2, 16)[1]; });
  gradient([](Array a) { return a.sum(0) * a.max(0); });
  gradient([](Array a) { return concatenate({a, a * a}, 1); });
  gradient([](Array a) { return take(a, array({1, 0, 1}), {.axis = 0}); });
  gradient([](Array a) { return cumsum(a, {.axis = 1}); });
  gradient([](Array a) { return sort(a); });
  gradient([](Array a) { return matmul(a, a.T()); });
  gradient([](Array a) { return checkpoint([](Array b) { return sin(b) * b; })(a); });
  gradient([](Array a) {
    return lax::scan([&](const Array& carry, const Array& step) { return std::pair(carry * a, step); }, a, iota({3}))
        .first;
  });
  gradient([](Array a) {
    return lax::cond(
        a.sum() > 0, [](Array b) { return b * b; }, [](Array b) { return b; }, a);
  });
}

TEST_F(Reduced, AreTheGradientsOfUnreducedOnes) {
  const Array sum = product();
  const auto gradient = [&](auto f) {
    const Array made = jit(grad([&](const Array& b) { return reshard(f(b), over(P())).sum(); }))(sum);
    EXPECT_EQ(type_of(made), "float32[4@x,4]{R:y}");
    EXPECT_TRUE(same(device_put(made, over(P())), grad([&](const Array& b) { return f(b).sum(); })(finished())));
  };
  gradient([](Array a) { return a + a; });
  gradient([](Array a) { return a.T(); });
  gradient([](Array a) { return a.sum(1); });
  gradient([](Array a) { return a[{ellipsis, range(0, 2)}]; });
}

// The gradients of weights that are reduced over the axis of the batch are sums that are not finished, and nothing is
// sent for them.
TEST_F(Reduced, WeightsHaveGradientsThatAreNotSummed) {
  const Array batch = on(P("x"), {4, 8});
  const Array weights = put(iota({8, 2}), mesh, P(reduced("x")));
  const auto loss = [&](const Array& weight) { return sin(matmul(batch, weight)).sum(); };
  const Array gradient = jit(grad(loss))(weights);
  EXPECT_EQ(type_of(gradient), "float32[8,2]{U:x}");
  const Array expected =
      grad([&](const Array& weight) { return sin(matmul(plain(batch), weight)).sum(); })(plain(weights));
  EXPECT_TRUE(allclose(plain(reshard(gradient, over(P()))), expected).item<bool>());
  const std::string text = jit(grad(loss)).lower(weights).compile().as_text();
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("all_reduce")));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("reduce_scatter")));
}

TEST_F(Reduced, ProductsWithSummandsAreSummands) {
  const Array sum = product();
  // Powers of two, as quotients are to be the same bits.
  const Array factor = put(where(iota({4, 4}) > 7, full({4, 4}, 2.0F), full({4, 4}, 4.0F)), mesh, P("x", reduced("y")));
  expect_sum([&](Array a) { return a * factor; }, sum, "float32[4@x,4]{U:y}", finished() * plain(factor));
  expect_sum([&](Array a) { return a / factor; }, sum, "float32[4@x,4]{U:y}", finished() / plain(factor));
  expect_sum([&](Array a) { return where(factor > 3, a, -a); }, sum, "float32[4@x,4]{U:y}",
             where(plain(factor) > 3, finished(), -finished()));
}

TEST_F(Reduced, CotangentsAreTakenAsTheyShouldBe) {
  const auto [result, pull_back] = vjp([](Array a) { return 2 * a; }, r);
  EXPECT_EQ(type_of(result), "float32[4,8]{R:x}");
  const Array ones_of = ones({4, 8});
  for (const Array& given : {reshard(ones_of, over(P(unreduced("x")))), reshard(ones_of, over(P()))}) {
    const Array made = pull_back(given);
    EXPECT_EQ(type_of(made), "float32[4,8]{U:x}");
    EXPECT_TRUE(same(reshard(made, over(P())), full({4, 8}, 2.0F)));
  }
  const Array zero = vjp([](Array) { return ones({2}); }, r).second(ones({2}));
  EXPECT_EQ(type_of(zero), "float32[4,8]{U:x}");
}

TEST_F(Reduced, GoInAndOutOfShardMap) {
  std::string inside;
  const auto scaled = shard_map(
      [&](Array a, Array weight) {
        inside = type_of(weight);
        return a * weight;
      },
      {.mesh = mesh, .in_specs = {P("x"), P(reduced("x"))}, .out_specs = P("x")});
  const Array batch = on(P("x"), {8, 8});
  const auto loss = [&](const Array& weight) { return sin(scaled(batch, weight)).sum(); };
  EXPECT_EQ(type_of(scaled(batch, r)), "float32[8@x,8]");
  EXPECT_EQ(inside, "float32[4,8]{R:x}");
  for (const Array& gradient : {grad(loss)(r), jit(grad(loss))(r)}) {
    EXPECT_EQ(type_of(gradient), "float32[4,8]{U:x}");
    const Array expected = grad([&](const Array& weight) {
      return sin(plain(batch) * concatenate({weight, weight}, 0)).sum();
    })(plain(r));
    EXPECT_TRUE(same(reshard(gradient, over(P())), expected));
  }
  const std::string text = jit(grad(loss)).lower(r).compile().as_text();
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("all_reduce")));
  // And the gradients of summands are reduced.
  const auto summed = shard_map([](Array a) { return lax::psum(-a, "y"); },
                                {.mesh = mesh, .in_specs = P("x", unreduced("y")), .out_specs = P("x")});
  const Array gradient = jit(grad([&](const Array& a) { return sin(summed(a)).sum(); }))(product());
  EXPECT_EQ(type_of(gradient), "float32[4@x,4]{R:y}");
  EXPECT_TRUE(allclose(plain(gradient), -cos(-finished())).item<bool>());
}

TEST_F(Reduced, CollectivesGiveThemAndTakeSummands) {
  const Mesh line = make_mesh({8}, {"i"}, {.axis_types = {AxisType::kExplicit}});
  const Array a = put(iota({16}), line, P("i"));
  const auto gathered = shard_map([](Array b) { return lax::all_gather_reduced(b, "i", {.tiled = true}); },
                                  {.mesh = line, .in_specs = P("i"), .out_specs = P(reduced("i"))});
  EXPECT_EQ(type_of(jit(gathered)(a)), "float32[16]{R:i}");
  const auto loss = [&](const Array& b) { return sin(gathered(b)).sum(); };
  EXPECT_EQ(type_of(jit(grad(loss))(a)), "float32[16@i]");
  EXPECT_TRUE(allclose(plain(jit(grad(loss))(a)), cos(iota({16}))).item<bool>());
  EXPECT_TRUE(allclose(plain(grad(loss)(a)), cos(iota({16}))).item<bool>());
  const std::string text = jit(grad(loss)).lower(a).compile().as_text();
  EXPECT_THAT(text, testing::HasSubstr("reduce_scatter"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("all_reduce")));
  const auto scattered =
      shard_map([](Array b) { return lax::psum_scatter(lax::pcast(b, "i", "unreduced"), "i", {.tiled = true}); },
                {.mesh = line, .in_specs = P(none, "i"), .out_specs = P("i")});
  const Array rows = put(iota({8, 8}), line, P(none, "i"));
  EXPECT_TRUE(same(jit(scattered)(rows), iota({8, 8}).sum(1).reshape(8, 1)));
  EXPECT_EQ(type_of(jit(grad([&](const Array& b) { return sin(scattered(b)).sum(); }))(rows)), "float32[8,8@i]");
}

// A value that is the same on all devices may be used by itself and by what differs between them.
TEST(CotangentSums, PartsAndWholesOfOneCotangent) {
  const Mesh mesh = make_mesh({8}, {"x"});
  const auto f = shard_map([](Array a, Array b) { return std::pair(2 * a, a * b); },
                           {.mesh = mesh, .in_specs = {P(), P("x")}, .out_specs = {P(), P("x")}});
  const auto loss = [&](const Array& a) {
    const auto [whole, parts] = f(a, iota({16}));
    return whole.sum() + parts.sum();
  };
  const std::vector<float> expected = {58, 66};
  EXPECT_EQ(grad(loss)(ones({2})).to_vector<float>(), expected);
  EXPECT_EQ(jit(grad(loss))(ones({2})).to_vector<float>(), expected);
}

TEST_F(Explicit, GraphsShowTheTypes) {
  const std::string text = jit([](Array a) { return a.sum(0); }, {.name = "f"}).lower(on(P("x", "y"))).as_text();
  EXPECT_THAT(
      text, testing::HasSubstr(R"(graph "f" in mesh("x"=2 explicit, "y"=4 explicit; devices 0..7)(%0: f32[4@x,8@y]))"));
  EXPECT_THAT(text, testing::HasSubstr("f32[8@y] = reduce_sum"));
}

TEST(ExplicitAxes, TypesAndTheMeshThatHolds) {
  const Mesh mesh = explicit_mesh();
  const Array x = device_put(ones({8, 8}), NamedSharding(mesh, P("x")));
  EXPECT_EQ(type_sharding(x), NamedSharding(mesh.abstract_mesh(), P("x", none)));
  EXPECT_EQ((x + 1).sharding(), Sharding(NamedSharding(mesh, P("x", none))));
  std::vector<AxisType> inside;
  const auto f = auto_axes(
      [&](const Array& a) {
        inside = get_abstract_mesh().axis_types();
        EXPECT_EQ(type_sharding(a).spec(), P(none, none));
        return a * 2;
      },
      {.out_sharding = P("y")});
  EXPECT_EQ(type_of(f(x)), type_of(device_put(x, NamedSharding(mesh, P("y")))));
  EXPECT_EQ(inside, std::vector(mesh.axis_names().size(), AxisType::kAuto));
  shard_map(
      [&](const Array& a) {
        inside = get_abstract_mesh().axis_types();
        return a;
      },
      {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x")})(x);
  EXPECT_EQ(inside, std::vector(mesh.axis_names().size(), AxisType::kManual));
  EXPECT_TRUE(get_abstract_mesh().axis_names().empty());
}

TEST(ExplicitAxes, AxesOfSizeOneStay) {
  const Mesh mesh = make_mesh({4, 1}, {"x", "y"}, {.axis_types = {AxisType::kExplicit, AxisType::kExplicit}});
  const Array x = device_put(ones({8, 8}), NamedSharding(mesh, P("x", "y")));
  EXPECT_EQ((x + 1).sharding(), Sharding(NamedSharding(mesh, P("x", "y"))));
}

TEST(ExplicitAxes, AbstractMeshesStandForTheDevicesThatAreSet) {
  const Mesh mesh = explicit_mesh();
  const use_mesh set(mesh);
  const AbstractMesh line({mesh.size()}, {"a"}, {AxisType::kExplicit});
  const Array x = device_put(arange(8.0F), NamedSharding(mesh, P("x")));
  const auto f = jit([&](const Array& a) {
    const use_abstract_mesh here(line);
    return reshard(a, P("a")) * 2;
  });
  EXPECT_EQ(type_of(f(x)), "float32[8@a]");
  EXPECT_EQ(f(x).to_vector<float>(), (x * 2).to_vector<float>());
  const auto sum = [](const Array& a) { return a.sum(); };
  const auto g =
      shard_map([&](const Array& a) { return lax::psum(sum(a), "x"); },
                {.mesh = mesh.abstract_mesh(), .out_specs = P(), .axis_names = {"x"}, .infer_in_specs = true});
  EXPECT_EQ(g(x).item<float>(), 28.0F);
}

}  // namespace
}  // namespace shoal::test
