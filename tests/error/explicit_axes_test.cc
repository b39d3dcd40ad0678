// Mistakes with Explicit axes and the mesh that is set.
#include "misuse.h"

namespace shoal::test {
namespace {

Mesh explicit_mesh() {
  return make_mesh({2, 4}, {"x", "y"}, {.axis_types = {AxisType::kExplicit, AxisType::kExplicit}});
}

Array on(const PartitionSpec& spec, const Shape& shape = {4, 8}) {
  return device_put(zeros(shape), NamedSharding(explicit_mesh(), spec));
}

TEST(ExplicitError, OperandsThatDoNotAgree) {
  const Array a = on(P("x", "y"));
  const Array b = on(P("y", "x"));
  EXPECT_MISUSE(ShardingTypeError, ("add", "f32[4@x,8@y]", "f32[4@y,8@x]", "(x) and (y)", "reshard"), a + b);
}

TEST(ExplicitError, OperandsOfTwoMeshes) {
  const Mesh other = make_mesh({4, 2}, {"x", "y"}, {.axis_types = {AxisType::kExplicit, AxisType::kExplicit}});
  const Array a = on(P("x"));
  const Array b = device_put(zeros({4, 8}), NamedSharding(other, P("x")));
  EXPECT_MISUSE(ShardingTypeError, ("add", "different meshes", "'x': 2", "'x': 4"), a + b);
}

TEST(ExplicitError, SortsOfASplitDimension) {
  const Array a = on(P("x", "y"));
  EXPECT_MISUSE(ShardingTypeError, ("sort", "whole", "f32[4@x,8@y]"), sort(a));
}

TEST(ExplicitError, AnAxisForTwoDimensions) {
  const Array a = on(P("x"));
  const Array b = on(P(none, "x"));
  EXPECT_MISUSE(ShardingTypeError, ("multiply", "'x'", "two dimensions", "f32[4@x,8]", "f32[4,8@x]"), a * b);
}

// A batch that an axis splits, of right sides that are unreduced over it.
TEST(ExplicitError, AnAxisThatSplitsWhatIsUnreducedOverIt) {
  const unsigned line = __LINE__ + 3;
  const auto solve = jit([](const Array& a, const Array& b) {
    const Array sides = reshard(b, NamedSharding(explicit_mesh(), P(none, unreduced("y"))));
    return lax::linalg::triangular_solve(a, sides, {.left_side = true, .lower = true});
  });
  EXPECT_MISUSE_AT(line, ShardingTypeError, ("triangular_solve", "'y'", "unreduced over it, too", "reshard"),
                   solve(on(P("y"), {4, 2, 2}), zeros({4, 2, 1})));
}

TEST(ExplicitError, SumsOverADimensionSplitInBothOperands) {
  const Array a = on(P("x", "y"));
  const Array b = on(P("y"), {8, 4});
  EXPECT_MISUSE(ShardingTypeError, ("matmul", "f32[4@x,8@y]", "f32[8@y,4]", "out_sharding"), matmul(a, b));
}

TEST(ExplicitError, BatchDimensionsThatDisagree) {
  const Array a = on(P("x"), {4, 2, 2});
  const Array b = on(P("y"), {4, 2, 2});
  EXPECT_MISUSE(ShardingTypeError, ("matmul", "f32[4@x,2,2]", "f32[4@y,2,2]", "(x) and (y)"), matmul(a, b));
  EXPECT_MISUSE(ShardingTypeError, ("einsum", "(x) and (y)"), einsum("bij,bjk->bik", a, b));
}

TEST(ExplicitError, OutShardingsThatNoTypeCanHave) {
  const Array a = on(P("x", "y"));
  const Array b = on(P("y"), {8, 4});
  const Mesh mesh = explicit_mesh();
  const NamedSharding automatic(mesh_4x2(), P("x"));
  EXPECT_MISUSE(InvalidArgument, ("matmul", "out_sharding P('x',)", "'x'", "not Explicit"), matmul(a, b, automatic));
  EXPECT_MISUSE(InvalidArgument, ("reshape", "out_sharding P('x',)", "not Explicit"), reshape(a, {32}, automatic));
  EXPECT_MISUSE(InvalidArgument, ("ravel", "P(UNCONSTRAINED,)"), ravel(a, NamedSharding(mesh, P(unconstrained))));
  EXPECT_MISUSE(InvalidArgument, ("tensordot: out_sharding", "length 3", "rank 2"),
                tensordot(a, b, 1, NamedSharding(mesh, P("x", none, none))));
  EXPECT_MISUSE(IndivisibleError, ("einsum: out_sharding", "dimension 0", "'y'"),
                einsum("ij,jk->i", reshape(a, {2, 16}, NamedSharding(mesh, P())), zeros({16, 4}),
                       {.preferred_element_type = {}, .out_sharding = NamedSharding(mesh, P("y"))}));
  EXPECT_MISUSE(IndivisibleError, ("repeat: out_sharding", "'x'"),
                repeat(on(P(), {3}), 3, 0, NamedSharding(mesh, P("x"))));
  EXPECT_MISUSE(InvalidArgument, ("broadcast_to: out_sharding", "rank 3"),
                broadcast_to(a, {2, 4, 8}, NamedSharding(mesh, P(none, none, none, "x"))));
  EXPECT_MISUSE(InvalidState, ("P('x',)", "set_mesh"), matmul(a, b, P("x")));
}

TEST(ExplicitError, OutShardingsOverManualAxes) {
  const Mesh mesh = explicit_mesh();
  const auto f = [&](Array x) {
    EXPECT_MISUSE(InvalidArgument, ("dot", "'x'", "manual"), dot(x, x.T(), NamedSharding(mesh, P("x"))));
    EXPECT_MISUSE(InvalidArgument, ("reshape", "'x'", "manual"), reshape(x, {2}, NamedSharding(mesh, P("x"))));
    return x;
  };
  shard_map(f, {.mesh = mesh, .in_specs = P("x", "y"), .out_specs = P("x", "y")})(on(P("x", "y"), {2, 8}));
}

TEST(ExplicitError, ItemsOfASplitDimension) {
  const Array a = on(P("x", "y"));
  const Array rows = array({0, 2});
  EXPECT_MISUSE(ShardingTypeError, ("index", "(x)", "positions address", "f32[4@x,8@y]", "out_sharding"), a[rows]);
  EXPECT_MISUSE(ShardingTypeError, ("take", "(y)", "out_sharding"), take(a, rows, {.axis = 1}));
  EXPECT_MISUSE(ShardingTypeError, ("index", "extent 1", "(x)"), a[1]);
  const Array split_rows = put(rows, explicit_mesh(), P("x"));
  EXPECT_MISUSE(ShardingTypeError, ("index", "'x'", "two dimensions"), on(P(none, "x"))[split_rows]);
  EXPECT_MISUSE(InvalidArgument, ("get", "'i'", "not Explicit"),
                a.at(rows).get({.out_sharding = NamedSharding(mesh_8(), P("i"))}));
}

TEST(ExplicitError, UpdatesAtSplitPositions) {
  const Array a = on(P());
  const Array rows = put(array({0, 2}), explicit_mesh(), P("x"));
  EXPECT_MISUSE(ShardingTypeError, ("set", "(x)", "out_sharding"), a.at(rows).set(1));
  EXPECT_MISUSE(ShardingTypeError, ("add", "(x) splits the items", "out_sharding"), a.at(rows).add(1));
  EXPECT_MISUSE(ShardingTypeError, ("bincount", "(x) splits the items", "out_sharding"), bincount(rows, {.length = 4}));
  EXPECT_MISUSE(ShardingTypeError, ("segment_sum", "(x) splits the items", "out_sharding"),
                ops::segment_sum(on(P("x")), array({0, 1, 1, 0}), 2));
}

TEST(ExplicitError, CapturedArraysThatAreSplit) {
  const Mesh mesh = explicit_mesh();
  const Array a = on(P("x", "y"));
  const auto f = [&](Array x) {
    EXPECT_MISUSE(ShardingTypeError, ("add", "f32[4@x,8@y]", "shard_map", "'x'", "argument"), x + a);
    return x;
  };
  const auto mapped = shard_map(f, {.mesh = mesh, .in_specs = P(), .out_specs = P()});
  mapped(a);
  jit([&](Array x) { return mapped(x); })(a);
}

TEST(ExplicitError, AxesOfTwoKindsInOneDimension) {
  const Mesh mixed = make_mesh({2, 4}, {"x", "y"}, {.axis_types = {AxisType::kAuto, AxisType::kExplicit}});
  EXPECT_MISUSE(InvalidArgument, ("NamedSharding", "P(('x', 'y'),)", "dimension 0", "'x'", "before 'y'"),
                NamedSharding(mixed, P({"x", "y"})));
  const auto identity = [](Array x) { return x; };
  const Array whole = zeros({8});
  EXPECT_MISUSE(InvalidArgument, ("P(('x', 'y'),)", "before 'y'"),
                shard_map(identity, {.mesh = mixed, .in_specs = P({"x", "y"}), .out_specs = P({"x", "y"})})(whole));
  // What goes on to be split over an Explicit axis inside is not split over others first.
  const Array columns = device_put(whole, NamedSharding(mixed, P("y")));
  EXPECT_MISUSE(
      InvalidArgument, ("P(('x', 'y'),)", "before 'y'"),
      shard_map(identity, {.mesh = mixed, .in_specs = P("x"), .out_specs = P("x"), .axis_names = {"x"}})(columns));
  // Nor can the first of two be left to the compiler.
  const Array a = on(P({"x", "y"}), {8});
  EXPECT_MISUSE(InvalidArgument, ("'x'", "before 'y'"),
                auto_axes([](Array x) { return x; }, {.out_sharding = P(), .axes = {"x"}})(a));
}

TEST(ExplicitError, MeshesSetInsideFunctions) {
  const Mesh mesh = explicit_mesh();
  const auto f = [&](Array x) {
    EXPECT_MISUSE(InvalidState, ("set_mesh", "traced", "around the call"), set_mesh(mesh));
    EXPECT_MISUSE(InvalidState, ("use_mesh", "traced", "around the call"), use_mesh(mesh));
    return x;
  };
  jit(f)(zeros({4}));
  shard_map(f, {.mesh = mesh, .in_specs = P(), .out_specs = P()})(zeros({4}));
  EXPECT_TRUE(get_mesh().empty());
  const Mesh manual = make_mesh({2}, {"x"}, {.axis_types = {AxisType::kManual}});
  EXPECT_MISUSE(InvalidArgument, ("set_mesh", "Manual", "shard_map"), set_mesh(manual));
}

Array unreduced_sum() {
  const Mesh mesh = explicit_mesh();
  return matmul(on(P("x", "y")), on(P("y"), {8, 4}), NamedSharding(mesh, P("x", unreduced("y"))));
}

TEST(UnreducedError, SpecsThatNoShardingCanHave) {
  const Mesh mesh = explicit_mesh();
  EXPECT_MISUSE(InvalidArgument, ("P('x', unreduced={'z'})", "'z'", "not in the mesh", "'y'"),
                NamedSharding(mesh, P("x", unreduced("z"))));
  EXPECT_MISUSE(InvalidArgument, ("unreduced={'x'}", "'x'", "splits dimension 0"),
                NamedSharding(mesh, P("x", unreduced("x"))));
  EXPECT_MISUSE(InvalidArgument, ("unreduced={'y'}", "'y'", "not Explicit"),
                NamedSharding(mesh_4x2(), P("x", unreduced("y"))));
  EXPECT_MISUSE(InvalidArgument, ("P('x', reduced={'z'}) is reduced over 'z'", "not in the mesh", "'y'"),
                NamedSharding(mesh, P("x", reduced("z"))));
  EXPECT_MISUSE(InvalidArgument, ("reduced={'x'}", "'x'", "splits dimension 0"),
                NamedSharding(mesh, P("x", reduced("x"))));
  EXPECT_MISUSE(InvalidArgument, ("reduced={'y'}", "'y'", "not Explicit"),
                NamedSharding(mesh_4x2(), P("x", reduced("y"))));
  EXPECT_MISUSE(InvalidArgument, ("P(unreduced={'y'}, reduced={'y'}) is unreduced and reduced over 'y'"),
                NamedSharding(mesh, P(unreduced("y") + reduced("y"))));
}

TEST(UnreducedError, ProductsOverOtherAxes) {
  const Mesh mesh = explicit_mesh();
  const Array a = on(P("x", "y"));
  const Array b = on(P("y"), {8, 4});
  EXPECT_MISUSE(ShardingTypeError, ("matmul", "unreduced={'x'}", "(y) and (y)"),
                matmul(a, b, NamedSharding(mesh, P(unreduced("x")))));
  EXPECT_MISUSE(ShardingTypeError, ("matmul", "unreduced={'y'}", "() and (y)"),
                matmul(on(P("x")), b, NamedSharding(mesh, P("x", unreduced("y")))));
}

TEST(UnreducedError, OpsThatAreNotLinear) {
  const Array sum = unreduced_sum();
  EXPECT_MISUSE(ShardingTypeError, ("sin", "not linear", "f32[4@x,4]{U:y}", "summands", "reshard"), sin(sum));
  EXPECT_MISUSE(ShardingTypeError, ("multiply", "f32[4@x,4]{U:y}", "reshard"), 2 * sum);
  EXPECT_MISUSE(ShardingTypeError, ("max", "not linear"), sum.max());
  EXPECT_MISUSE(ShardingTypeError, ("sort", "not linear"), sort(sum));
  EXPECT_MISUSE(ShardingTypeError, ("matmul", "not linear"), matmul(sum, ones({4, 2})));
  EXPECT_MISUSE(ShardingTypeError, ("matmul", "summands", "reshard"),
                matmul(sum, ones({4, 2}), NamedSharding(explicit_mesh(), P("x"))));
  EXPECT_MISUSE(ShardingTypeError, ("auto_axes", "summands", "reshard"),
                auto_axes([](Array x) { return x; }, {.out_sharding = P("x")})(sum));
  EXPECT_MISUSE(InvalidArgument, ("reshape", "out_sharding P('x',)", "summands"),
                reshape(sum, {16}, NamedSharding(explicit_mesh(), P("x"))));
  jit([](Array x) {
    EXPECT_MISUSE(ShardingTypeError, ("exp", "not linear", "reshard"), exp(x));
    EXPECT_MISUSE(ShardingTypeError, ("debug", "summands"), debug::print("{}", x));
    return x;
  })(sum);
}

TEST(UnreducedError, OperandsThatAreNotAlike) {
  const Array sum = unreduced_sum();
  EXPECT_MISUSE(ShardingTypeError, ("add", "all unreduced", "f32[4@x,4]{U:y} and f32[4@x,4]", "reshard"),
                sum + on(P("x"), {4, 4}));
  EXPECT_MISUSE(ShardingTypeError, ("add", "all unreduced"), sum + 1);
  EXPECT_MISUSE(ShardingTypeError, ("concatenate", "all unreduced"), concatenate({sum, on(P("x"), {4, 4})}, 1));
}

TEST(ReducedError, OperandsThatAreNotAlike) {
  const Array over_x = on(P(reduced("x")));
  const Array over_y = on(P(reduced("y")));
  EXPECT_MISUSE(ShardingTypeError, ("multiply", "different axes, (x) and (y)", "f32[4,8]{R:x} and f32[4,8]{R:y}"),
                over_x * over_y);
  EXPECT_MISUSE(ShardingTypeError, ("add", "the same along (x)", "gradient", "reshard"), over_x + on(P()));
  EXPECT_MISUSE(ShardingTypeError, ("multiply", "split over (x)", "f32[4@x,8]", "reshard"), on(P("x")) * over_x);
  EXPECT_MISUSE(ShardingTypeError, ("concatenate", "different axes, (x) and ()"), concatenate({over_x, on(P())}, 0));
}

TEST(ReducedError, FactorsOfSummands) {
  const Array sum = unreduced_sum();
  EXPECT_MISUSE(ShardingTypeError, ("multiply", "must be reduced over", "f32[4@x,4]{U:y} and f32[4@x,4]"),
                sum * on(P("x"), {4, 4}));
  EXPECT_MISUSE(ShardingTypeError, ("multiply", "not linear", "summands"), sum * sum);
  EXPECT_MISUSE(ShardingTypeError, ("divide", "not linear", "summands"), on(P("x", reduced("y")), {4, 4}) / sum);
}

TEST(ReducedError, OutShardings) {
  const NamedSharding whole(explicit_mesh(), P());
  EXPECT_MISUSE(InvalidArgument, ("reshape", "unreduced and reduced over the same axes", "{R:x}"),
                reshape(on(P(reduced("x"))), {32}, whole));
  EXPECT_MISUSE(InvalidArgument, ("reshape", "unreduced={'x'}", "reshard"),
                reshape(on(P()), {32}, NamedSharding(explicit_mesh(), P(unreduced("x")))));
}

TEST(ReducedError, ShardMap) {
  const Mesh mesh = explicit_mesh();
  const auto identity = [](Array x) { return x; };
  EXPECT_MISUSE(InvalidArgument, ("shard_map", "in_specs P()", "reduced", "float32[4,8]{R:y}", "(y)"),
                shard_map(identity, {.mesh = mesh, .in_specs = P(), .out_specs = P()})(on(P(reduced("y")))));
  EXPECT_MISUSE(InvalidArgument, ("shard_map", "in_specs", "reduced", "()"),
                shard_map(identity, {.mesh = mesh, .in_specs = P(reduced("y")), .out_specs = P()})(on(P())));
  EXPECT_MISUSE(
      InvalidArgument, ("shard_map", "out_specs", "reduced over ()", "is so over (y)"),
      shard_map(identity, {.mesh = mesh, .in_specs = P(reduced("y")), .out_specs = P()})(on(P(reduced("y")))));
  EXPECT_MISUSE(InvalidArgument, ("shard_map", "out_specs", "unreduced over (y)", "so over ()", "pcast"),
                shard_map(identity, {.mesh = mesh, .in_specs = P("x", "y"), .out_specs = P("x", unreduced("y"))})(
                    on(P("x", "y"))));
}

TEST(UnreducedError, ReadingAndMoving) {
  const Mesh mesh = explicit_mesh();
  const Array sum = unreduced_sum();
  EXPECT_MISUSE(InvalidState, ("to_vector", "f32[4@x,4]{U:y}", "not added up", "reshard"), sum.to_vector<float>());
  EXPECT_MISUSE(InvalidArgument, ("device_put", "unreduced={'y'}", "reshard"),
                device_put(sum, NamedSharding(mesh, P("x"))));
  EXPECT_MISUSE(InvalidArgument, ("device_put", "unreduced={'y'}", "reshard"),
                device_put(on(P()), NamedSharding(mesh, P(unreduced("y")))));
  EXPECT_MISUSE(InvalidArgument, ("device_put", "unreduced={'y'}", "reshard"),
                device_put(sum, SingleDeviceSharding(devices().front())));
  EXPECT_MISUSE(InvalidArgument, ("make_array_from_callback", "unreduced={'y'}", "make_array_from_single_device"),
                make_array_from_callback({4}, NamedSharding(mesh, P(unreduced("y"))),
                                         [](const ShardIndex&) { return zeros({4}); }));
  jit([&](Array x) {
    EXPECT_MISUSE(ShardingTypeError, ("with_sharding_constraint", "P('x',)", "{U:y}", "reshard"),
                  with_sharding_constraint(x, NamedSharding(mesh, P("x"))));
    return x;
  })(sum);
}

TEST(UnreducedError, ShardMap) {
  const Mesh mesh = explicit_mesh();
  const Array sum = unreduced_sum();
  const auto identity = [](Array x) { return x; };
  EXPECT_MISUSE(InvalidArgument, ("shard_map", "in_specs P('x',)", "float32[4@x,4]{U:y}", "(y)", "reshard"),
                shard_map(identity, {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x")})(sum));
  EXPECT_MISUSE(InvalidArgument, ("shard_map", "in_specs", "unreduced", "()"),
                shard_map(identity, {.mesh = mesh, .in_specs = P(unreduced("y")), .out_specs = P()})(on(P())));
  EXPECT_MISUSE(
      InvalidArgument, ("shard_map", "out_specs", "sum over axis 'y'", "pvary"),
      shard_map(identity, {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x", unreduced("y"))})(on(P("x"))));
  EXPECT_MISUSE(
      InvalidArgument, ("shard_map", "all axes", "manual"),
      shard_map(identity,
                {.mesh = mesh, .in_specs = P("x", unreduced("y")), .out_specs = P("x"), .axis_names = {"x"}})(sum));
  EXPECT_MISUSE(InvalidArgument, ("unreduced={'y'}", "not Explicit"),
                shard_map(identity, {.mesh = mesh_4x2(), .in_specs = P("x", "y"), .out_specs = P(unreduced("y"))})(
                    zeros({4, 8})));
  const auto captures = shard_map(
      [&](Array x) {
        EXPECT_MISUSE(ShardingTypeError, ("add", "{U:y}", "depends on the Explicit axis"), x + sum);
        return x;
      },
      {.mesh = mesh, .in_specs = P(), .out_specs = P()});
  captures(on(P(), {4, 4}));
}

TEST(ExplicitError, ReshapesThatCannotCarryTheAxes) {
  const Array a = on(P("x", "y"));
  EXPECT_MISUSE(ShardingTypeError, ("reshape", "dimension 1", "f32[4@x,8@y]", "(y)", "reshard"), a.reshape(4, 2, 4));
}

TEST(ExplicitError, SlicesThatTheAxesDoNotDivide) {
  const Array a = on(P("x", "y"));
  EXPECT_MISUSE(ShardingTypeError, ("index", "extent 3", "(y)", "evenly"), a[{ellipsis, range(0, 3)}]);
}

TEST(ExplicitError, ConstraintsThatTheTypeContradicts) {
  const Array a = on(P("x", "y"));
  const auto f = jit([](Array x) {
    EXPECT_MISUSE(ShardingTypeError, ("with_sharding_constraint", "P('y',)", "float32[4@x,8@y]", "reshard"),
                  with_sharding_constraint(x, NamedSharding(explicit_mesh(), P("y"))));
    return x;
  });
  f(a);
}

TEST(ExplicitError, BareSpecsWithoutAMesh) {
  const Array a = zeros({4, 8});
  EXPECT_MISUSE(InvalidState, ("P('x',)", "set_mesh"), device_put(a, P("x")));
  EXPECT_MISUSE(InvalidArgument, ("shard_map", "mesh is empty", "set_mesh"),
                shard_map([](Array x) { return x; }, {.in_specs = P("x"), .out_specs = P("x")})(a));
}

TEST(ExplicitError, BareSpecsThatTheMeshDoesNotKnow) {
  const use_mesh scope(explicit_mesh());
  EXPECT_MISUSE(InvalidArgument, ("'z'", "'x'"), device_put(zeros({4}), P("z")));
}

TEST(ExplicitError, AutoAxesOfAnotherMesh) {
  const Array a = on(P("x"));
  EXPECT_MISUSE(InvalidArgument, ("auto_axes", "'z'"),
                auto_axes([](Array x) { return x; }, {.out_sharding = P(), .axes = {"z"}})(a));
  EXPECT_MISUSE(InvalidState, ("auto_axes", "set_mesh"),
                auto_axes([](Array x) { return x; }, {.out_sharding = P()})(zeros({2})));
}

TEST(ExplicitError, ReshardThatDoesNotFit) {
  EXPECT_MISUSE(IndivisibleError, ("reshard", "size 3", "'x'"),
                reshard(zeros({3}), NamedSharding(explicit_mesh(), P("x"))));
}

}  // namespace
}  // namespace shoal::test
