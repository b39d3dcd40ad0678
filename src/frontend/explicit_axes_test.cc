#include "shoal/explicit_axes.h"

#include "frontend/test_support.h"

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
  EXPECT_EQ(spec_of(f(on(P("x")))), P("y"));
}

TEST_F(Explicit, BareSpecsMeanTheMeshThatIsSet) {
  const use_mesh scope(mesh);
  EXPECT_EQ(get_mesh(), mesh);
  EXPECT_EQ(type_of(device_put(iota({4, 8}), P("x"))), "float32[4@x,8]");
  EXPECT_EQ(type_of(zeros({4, 8}, {.sharding = P(none, "y")})), "float32[4,8@y]");
  EXPECT_EQ(type_of(reshard(on(P("x")), P("y"))), "float32[4@y,8]");
  const auto f = jit([](Array a) { return 2 * a; }, {.in_shardings = P("x"), .out_shardings = P("y")});
  EXPECT_EQ(type_of(f(iota({4, 8}))), "float32[4@y,8]");
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
}

TEST_F(Explicit, GraphsShowTheTypes) {
  const std::string text = jit([](Array a) { return a.sum(0); }, {.name = "f"}).lower(on(P("x", "y"))).as_text();
  EXPECT_THAT(
      text, testing::HasSubstr(R"(graph "f" in mesh("x"=2 explicit, "y"=4 explicit; devices 0..7)(%0: f32[4@x,8@y]))"));
  EXPECT_THAT(text, testing::HasSubstr("f32[8@y] = reduce_sum"));
}

}  // namespace
}  // namespace shoal::test
