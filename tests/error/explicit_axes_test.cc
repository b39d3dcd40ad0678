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

TEST(ExplicitError, SumsOverADimensionSplitInBothOperands) {
  const Array a = on(P("x", "y"));
  const Array b = on(P("y"), {8, 4});
  EXPECT_MISUSE(ShardingTypeError, ("dot_general", "f32[4@x,8@y]", "f32[8@y,4]", "out_sharding"), matmul(a, b));
}

TEST(ExplicitError, ReshapesThatCannotCarryTheAxes) {
  const Array a = on(P("x", "y"));
  EXPECT_MISUSE(ShardingTypeError, ("reshape", "dimension 1", "f32[4@x,8@y]", "(y)", "reshard"), a.reshape(4, 2, 4));
}

TEST(ExplicitError, SlicesThatTheAxesDoNotDivide) {
  const Array a = on(P("x", "y"));
  EXPECT_MISUSE(ShardingTypeError, ("slice", "extent 3", "(y)", "evenly"), a[{ellipsis, range(0, 3)}]);
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
