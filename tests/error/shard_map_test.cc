// Mistakes with shard_map and the collectives inside it.
#include <tuple>

#include "misuse.h"

namespace shoal::test {
namespace {

const auto kIdentity = [](const Array& x) { return x; };

// Calls f on an argument, eagerly and under jit: both must say the same.
#define EXPECT_BOTH_MISUSE(E, parts, f, argument) \
  EXPECT_MISUSE(E, parts, f(argument));           \
  EXPECT_MISUSE(E, parts, jit([&](const Array& x) { return f(x); })(argument))

// Runs `use` inside shard_map over a 4 × 2 mesh on shards of shape (2, 3), eagerly and under jit.
template <class F>
void in_shard_map(F&& use) {
  const auto f = shard_map(
      [&](const Array& x) {
        use(x);
        return x;
      },
      {.mesh = mesh_4x2(), .in_specs = P("x", "y"), .out_specs = P("x", "y")});
  f(ones({8, 6}));
  jit(f)(ones({8, 6}));
}

// ---- Specs.

TEST(ShardMapError, EmptyMesh) {
  const auto f = shard_map(kIdentity, {.mesh = Mesh(), .in_specs = P(), .out_specs = P()});
  EXPECT_BOTH_MISUSE(InvalidArgument, ("shard_map", "mesh is empty", "make_mesh"), f, ones({8}));
}

TEST(ShardMapError, AxisThatTheMeshLacks) {
  const auto f = shard_map(kIdentity, {.mesh = mesh_4x2(), .in_specs = P("z"), .out_specs = P("x")});
  EXPECT_BOTH_MISUSE(InvalidArgument, ("shard_map", "in_specs", "P('z',)", "argument [0]", "'z'", "'x': 4"), f,
                     ones({8}));
  const auto g = shard_map(kIdentity, {.mesh = mesh_4x2(), .in_specs = P("x"), .out_specs = P("x", "z")});
  EXPECT_BOTH_MISUSE(InvalidArgument, ("shard_map", "out_specs", "'z'", "'x': 4"), g, ones({8, 2}));
}

TEST(ShardMapError, SpecLongerThanTheRank) {
  const auto f = shard_map(kIdentity, {.mesh = mesh_4x2(), .in_specs = P("x", "y"), .out_specs = P("x")});
  EXPECT_BOTH_MISUSE(InvalidArgument,
                     ("shard_map", "in_specs", "P('x', 'y')", "argument [0]", "float32[8]", "1 dimensions"), f,
                     ones({8}));
  const auto g = shard_map(kIdentity, {.mesh = mesh_4x2(), .in_specs = P("x"), .out_specs = P("x", "y")});
  EXPECT_BOTH_MISUSE(InvalidArgument, ("shard_map", "out_specs", "P('x', 'y')", "result", "float32[2]"), g, ones({8}));
}

TEST(ShardMapError, IndivisibleArgument) {
  const auto f = shard_map(kIdentity, {.mesh = mesh_4x2(), .in_specs = P({"x", "y"}), .out_specs = P("x")});
  EXPECT_BOTH_MISUSE(IndivisibleError,
                     ("shard_map", "argument [0]", "float32[6]", "dimension 0", "extent 6", "8", "x, y"), f, ones({6}));
}

TEST(ShardMapError, AxisNamedTwice) {
  const auto f = shard_map(kIdentity, {.mesh = mesh_4x2(), .in_specs = P("x", "x"), .out_specs = P("x")});
  EXPECT_BOTH_MISUSE(DuplicateSpecError, ("shard_map", "in_specs", "P('x', 'x')", "'x' twice"), f, ones({8, 8}));
  const auto g = shard_map(kIdentity, {.mesh = mesh_4x2(), .in_specs = P("x"), .out_specs = P({"x", "x"})});
  EXPECT_BOTH_MISUSE(DuplicateSpecError, ("shard_map", "out_specs", "P(('x', 'x'),)", "'x' twice"), g, ones({8}));
}

TEST(ShardMapError, Unconstrained) {
  const auto f = shard_map(kIdentity, {.mesh = mesh_4x2(), .in_specs = P(unconstrained), .out_specs = P("x")});
  EXPECT_BOTH_MISUSE(InvalidArgument, ("shard_map", "in_specs", "UNCONSTRAINED", "argument [0]"), f, ones({8}));
  const auto g = shard_map(kIdentity, {.mesh = mesh_4x2(), .in_specs = P("x"), .out_specs = P(unconstrained)});
  EXPECT_BOTH_MISUSE(InvalidArgument, ("shard_map", "out_specs", "UNCONSTRAINED"), g, ones({8}));
}

TEST(ShardMapError, NoPrefixOfTheArguments) {
  const auto f = shard_map(kIdentity, {.mesh = mesh_4x2(), .in_specs = {P("x"), P("x")}, .out_specs = P("x")});
  EXPECT_BOTH_MISUSE(InvalidArgument, ("shard_map", "in_specs", "2 entries", "a tuple of 1"), f, ones({8}));
}

TEST(ShardMapError, NoPrefixOfTheResult) {
  const auto f = shard_map(
      [](const Array& x) {
        return std::tuple{x, x};
      },
      {.mesh = mesh_4x2(), .in_specs = P("x"), .out_specs = {P("x"), P("x"), P("x")}});
  EXPECT_BOTH_MISUSE(InvalidArgument, ("shard_map", "out_specs", "3 entries", "a tuple of 2"), f, ones({8}));
}

// ---- Replication.

TEST(ShardMapError, ResultThatVariesOverAnAxisItDoesNotName) {
  for (const PartitionSpec& spec : {P("x"), P(none, "y"), P()}) {
    const auto f = shard_map(kIdentity, {.mesh = mesh_4x2(), .in_specs = P("x", "y"), .out_specs = spec});
    const std::string loose = spec == P("x") ? "'y'" : "'x'";
    EXPECT_BOTH_MISUSE(InvalidArgument,
                       ("shard_map", "out_specs " + to_string(spec), "along axis " + loose, "float32[2,4]{V:(x,y)}",
                        "psum", "check_vma"),
                       f, ones({8, 8}));
  }
}

TEST(ShardMapError, GatheredResultCountsAsVarying) {
  const auto f = shard_map([](const Array& x) { return lax::all_gather(x, "x", {.tiled = true}); },
                           {.mesh = mesh_4x2(), .in_specs = P("x"), .out_specs = P()});
  EXPECT_BOTH_MISUSE(InvalidArgument, ("out_specs P()", "'x'", "check_vma"), f, ones({8}));
}

TEST(ShardMapError, NamesTheResult) {
  const auto f = shard_map(
      [](const Array& x) {
        return std::tuple{lax::psum(x, "x"), x};
      },
      {.mesh = mesh_4x2(), .in_specs = P("x"), .out_specs = P()});
  EXPECT_MISUSE(InvalidArgument, ("out_specs P()", "result [1]", "'x'"), f(ones({8})));
}

// ---- What does not go inside.

TEST(ShardMapError, Nested) {
  const auto inner = shard_map(kIdentity, {.mesh = mesh_4x2(), .in_specs = P(), .out_specs = P()});
  in_shard_map([&](const Array& x) {
    EXPECT_MISUSE(InvalidArgument, ("shard_map", "all axes", "manual already"), inner(x));
    jit([&](const Array& y) {
      EXPECT_MISUSE(InvalidArgument, ("shard_map", "all axes", "manual already"), inner(y));
      return y;
    })(x);
  });
}

TEST(ShardMapError, AxesThatCannotBecomeManual) {
  const auto f = shard_map(kIdentity, {.mesh = mesh_4x2(), .in_specs = P(), .out_specs = P(), .axis_names = {"w"}});
  EXPECT_BOTH_MISUSE(InvalidArgument, ("shard_map", "axis_names", "'w'", "'x': 4"), f, ones({8}));
  const auto again = shard_map(kIdentity, {.mesh = mesh_4x2(), .in_specs = P(), .out_specs = P(), .axis_names = {"x"}});
  in_shard_map([&](const Array& x) {
    EXPECT_MISUSE(InvalidArgument, ("shard_map", "axis_names", "'x'", "manual already"), again(x));
  });
}

TEST(ShardMapError, OtherNamesForWhatIsManual) {
  const unsigned line = __LINE__ + 2;
  const auto over = [](const Mesh& mesh) {
    return shard_map(kIdentity, {.mesh = mesh, .in_specs = P(), .out_specs = P(), .axis_names = {"u"}});
  };
  const auto within = [](const Mesh& mesh, const auto& f) {
    return shard_map(f, {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x"), .axis_names = {"x"}});
  };
  const auto f = within(mesh_4x2(), over(make_mesh({2, 4}, {"u", "v"})));
  EXPECT_MISUSE_AT(line, InvalidArgument,
                   ("shard_map", "axis 'u' of Mesh('u': 2, 'v': 4", "along 'x' of", "manual already"), f(ones({12})));
  within(mesh_4x2(), over(make_mesh({4, 2}, {"v", "u"})))(ones({12}));
  const auto g = within(make_mesh({2, 3}, {"x", "y"}), over(make_mesh({3, 2}, {"v", "u"})));
  EXPECT_MISUSE_AT(line, Unsupported, ("'v': 3, 'u': 2", "cannot be divided into the same parts", "'x': 2, 'y': 3"),
                   g(ones({12})));
}

TEST(ShardMapError, SpecsThatNameAnAxisThatIsNotManual) {
  const auto f = shard_map(kIdentity, {.mesh = mesh_4x2(), .in_specs = P("y"), .out_specs = P(), .axis_names = {"x"}});
  EXPECT_BOTH_MISUSE(InvalidArgument, ("shard_map", "in_specs P('y',)", "'y'", "not manual", "(x)"), f, ones({8}));
  const auto g = shard_map(kIdentity, {.mesh = mesh_4x2(), .in_specs = P(), .out_specs = P("y"), .axis_names = {"x"}});
  EXPECT_BOTH_MISUSE(InvalidArgument, ("shard_map", "out_specs P('y',)", "'y'", "not manual"), g, ones({8}));
}

TEST(ShardMapError, NestedOverOtherDevices) {
  const Mesh half = make_mesh({2, 2}, {"u", "v"});
  const auto inner = shard_map(kIdentity, {.mesh = half, .in_specs = P(), .out_specs = P()});
  const auto outer = shard_map(
      [&](const Array& x) {
        EXPECT_MISUSE(InvalidArgument, ("shard_map", "'x': 4", "same devices", "'u': 2"), inner(x));
        return x;
      },
      {.mesh = mesh_4x2(), .in_specs = P("x"), .out_specs = P("x"), .axis_names = {"x"}});
  outer(ones({8}));
}

TEST(ShardMapError, CollectiveOverAnAxisThatIsNotManual) {
  const auto f = shard_map(
      [](const Array& x) {
        EXPECT_MISUSE(UnboundAxisError, ("psum", "'y'", "(x)"), lax::psum(x, "y"));
        EXPECT_MISUSE(InvalidArgument, ("with_sharding_constraint", "'x'", "manual"),
                      with_sharding_constraint(x, NamedSharding(mesh_4x2(), P("x"))));
        return x;
      },
      {.mesh = mesh_4x2(), .in_specs = P("x"), .out_specs = P("x"), .axis_names = {"x"}});
  f(ones({8}));
}

TEST(ShardMapError, MovesAndConstraintsInside) {
  const NamedSharding rows(mesh_4x2(), P("x"));
  in_shard_map([&](const Array& x) {
    EXPECT_MISUSE(InvalidArgument, ("device_put", "inside shard_map", "P('x',)"), device_put(x, rows));
    EXPECT_MISUSE(InvalidArgument, ("device_put", "inside shard_map", "CpuDevice(id=0)"), device_put(x, devices()[0]));
    EXPECT_MISUSE(InvalidArgument, ("with_sharding_constraint", "axis 'x'", "manual here", "P('x',)"),
                  with_sharding_constraint(x, rows));
    EXPECT_MISUSE(InvalidArgument, ("zeros", "inside shard_map"), zeros({8}, {.sharding = rows}));
  });
}

TEST(ShardMapError, ArgumentOnOtherDevices) {
  const Array x = device_put(ones({8}), devices()[3]);
  const auto f = shard_map(kIdentity, {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = P("i")});
  EXPECT_MISUSE(InvalidArgument, ("shard_map", "argument [0]", "device 3", "devices 0..7", "device_put"), f(x));
  EXPECT_MISUSE(InvalidArgument, ("argument [0]", "device 3", "shard_map", "devices 0..7"),
                jit([&](const Array& y) { return f(y); })(x));
}

TEST(ShardMapError, CapturedArrayOnOtherDevices) {
  const Array x = device_put(ones({1}), devices()[3]);
  const auto f = shard_map(
      [&](const Array& y) {
        EXPECT_MISUSE(InvalidArgument, ("device 3", "devices 0..7", "device_put"), y + x);
        return y;
      },
      {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = P("i")});
  f(ones({8}));
}

TEST(ShardMapError, ArgumentsAndResultsWithoutAValue) {
  const auto f = shard_map(kIdentity, {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = P("i")});
  EXPECT_MISUSE(InvalidState, ("shard_map", "argument [0]", "without a value"), f(Array()));
  const auto nothing = [](const Array&) { return Array(); };
  const auto g = shard_map(nothing, {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = P("i")});
  EXPECT_BOTH_MISUSE(InvalidState, ("shard_map", "result", "without a value"), g, ones({8}));
}

TEST(ShardMapError, LeakedTracerAsArgument) {
  Array leaked;
  jit([&](const Array& x) { return leaked = x * 1; })(ones({8}));
  const auto f = shard_map(kIdentity, {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = P("i")});
  EXPECT_MISUSE(InvalidState, ("shard_map", "argument [0]", "f32[8]", "'fn'"), f(leaked));
}

// ---- Collectives.

TEST(CollectiveError, OutsideShardMap) {
  const Array x = ones({8});
  EXPECT_MISUSE(UnboundAxisError, ("psum", "'x'", "not bound", "shard_map"), lax::psum(x, "x"));
  EXPECT_MISUSE(UnboundAxisError, ("pmean", "'x'", "shard_map"), lax::pmean(x, "x"));
  EXPECT_MISUSE(UnboundAxisError, ("pmax", "'x'", "shard_map"), lax::pmax(x, "x"));
  EXPECT_MISUSE(UnboundAxisError, ("pmin", "'x'", "shard_map"), lax::pmin(x, "x"));
  EXPECT_MISUSE(UnboundAxisError, ("all_gather", "'x'", "shard_map"), lax::all_gather(x, "x"));
  EXPECT_MISUSE(UnboundAxisError, ("psum_scatter", "'x'", "shard_map"), lax::psum_scatter(x, "x"));
  EXPECT_MISUSE(UnboundAxisError, ("all_to_all", "'x'", "shard_map"), lax::all_to_all(x, "x", {}));
  EXPECT_MISUSE(UnboundAxisError, ("ppermute", "'x'", "shard_map"), lax::ppermute(x, "x", {{0, 1}}));
  EXPECT_MISUSE(UnboundAxisError, ("pvary", "'x'", "shard_map"), lax::pvary(x, "x"));
  EXPECT_MISUSE(UnboundAxisError, ("axis_index", "'x'", "shard_map"), lax::axis_index("x"));
  EXPECT_MISUSE(UnboundAxisError, ("axis_size", "'x'", "shard_map"), lax::axis_size("x"));
  jit([](const Array& y) {
    EXPECT_MISUSE(UnboundAxisError, ("psum", "'x'", "shard_map"), lax::psum(y, "x"));
    return y;
  })(x);
}

TEST(CollectiveError, AxisThatTheMeshLacks) {
  in_shard_map([](const Array& x) {
    EXPECT_MISUSE(UnboundAxisError, ("psum", "'z'", "(x, y)"), lax::psum(x, "z"));
    EXPECT_MISUSE(UnboundAxisError, ("psum", "'z'", "(x, y)"), lax::psum(x, {"x", "z"}));
    EXPECT_MISUSE(UnboundAxisError, ("all_gather", "'z'", "(x, y)"), lax::all_gather(x, "z"));
    EXPECT_MISUSE(UnboundAxisError, ("axis_index", "'z'", "(x, y)"), lax::axis_index("z"));
    EXPECT_MISUSE(UnboundAxisError, ("axis_size", "'z'", "(x, y)"), lax::axis_size("z"));
  });
}

TEST(CollectiveError, AxisNamedTwice) {
  in_shard_map([](const Array& x) {
    EXPECT_MISUSE(InvalidArgument, ("psum", "'x'", "twice"), lax::psum(x, {"x", "x"}));
    EXPECT_MISUSE(InvalidArgument, ("all_gather", "'y'", "twice"), lax::all_gather(x, {"y", "x", "y"}));
    EXPECT_MISUSE(InvalidArgument, ("axis_index", "'x'", "twice"), lax::axis_index({"x", "x"}));
  });
}

TEST(CollectiveError, Dimensions) {
  in_shard_map([](const Array& x) {
    EXPECT_MISUSE(OutOfRange, ("all_gather", "axis 3", "dimensions"), lax::all_gather(x, "x", {.axis = 3}));
    EXPECT_MISUSE(OutOfRange, ("all_gather", "axis 2", "2 dimensions"),
                  lax::all_gather(x, "x", {.axis = 2, .tiled = true}));
    EXPECT_MISUSE(OutOfRange, ("psum_scatter", "axis 2", "2 dimensions"),
                  lax::psum_scatter(x, "x", {.scatter_dimension = 2}));
    EXPECT_MISUSE(OutOfRange, ("all_to_all", "axis -3"), lax::all_to_all(x, "x", {.split_axis = -3}));
    EXPECT_MISUSE(OutOfRange, ("all_to_all", "axis 2"), lax::all_to_all(x, "x", {.concat_axis = 2}));
    EXPECT_MISUSE(OutOfRange, ("all_gather", "axis 0", "0 dimensions"), lax::all_gather(x.sum(), "x", {.tiled = true}));
  });
}

TEST(CollectiveError, ScatterThatDoesNotDivide) {
  in_shard_map([](const Array& x) {
    EXPECT_MISUSE(InvalidArgument, ("psum_scatter", "scatter_dimension 1", "float32[2,3]", "extent 3", "multiple", "2"),
                  lax::psum_scatter(x, "y", {.scatter_dimension = 1, .tiled = true}));
    EXPECT_MISUSE(InvalidArgument, ("psum_scatter", "scatter_dimension 0", "extent 2", "equal", "4"),
                  lax::psum_scatter(x, "x"));
  });
}

TEST(CollectiveError, ExchangeThatDoesNotDivide) {
  in_shard_map([](const Array& x) {
    EXPECT_MISUSE(InvalidArgument, ("all_to_all", "split_axis 1", "float32[2,3]", "extent 3", "multiple", "4"),
                  lax::all_to_all(x, "x", {.split_axis = 1, .concat_axis = 0, .tiled = true}));
    EXPECT_MISUSE(InvalidArgument, ("all_to_all", "split_axis 0", "extent 2", "equal", "4"),
                  lax::all_to_all(x, "x", {.split_axis = 0, .concat_axis = 1}));
  });
}

TEST(CollectiveError, Permutations) {
  in_shard_map([](const Array& x) {
    EXPECT_MISUSE(InvalidArgument, ("ppermute", "distinct", "(2, 1)"), lax::ppermute(x, "x", {{0, 1}, {2, 1}}));
    EXPECT_MISUSE(InvalidArgument, ("ppermute", "distinct", "(0, 2)"), lax::ppermute(x, "x", {{0, 1}, {0, 2}}));
    EXPECT_MISUSE(OutOfRange, ("ppermute", "(0, 4)", "0..3"), lax::ppermute(x, "x", {{0, 4}}));
    EXPECT_MISUSE(OutOfRange, ("ppermute", "(-1, 0)", "0..3"), lax::ppermute(x, "x", {{-1, 0}}));
  });
}

TEST(CollectiveError, ComplexNumbersHaveNoOrder) {
  in_shard_map([](const Array& x) {
    EXPECT_MISUSE(TypeMismatch, ("pmax", "complex64"), lax::pmax(astype(x, complex64), "x"));
    EXPECT_MISUSE(TypeMismatch, ("pmin", "complex64"), lax::pmin(astype(x, complex64), "x"));
  });
}

TEST(CollectiveError, MoreOutsideShardMap) {
  const Array x = ones({8});
  EXPECT_MISUSE(UnboundAxisError, ("all_gather_invariant", "'x'", "pmap"), lax::all_gather_invariant(x, "x"));
  EXPECT_MISUSE(UnboundAxisError, ("pshuffle", "'x'"), lax::pshuffle(x, "x", {0}));
  EXPECT_MISUSE(UnboundAxisError, ("pswapaxes", "'x'"), lax::pswapaxes(x, "x", 0));
  EXPECT_MISUSE(UnboundAxisError, ("pbroadcast", "'x'"), lax::pbroadcast(x, "x", 0));
  EXPECT_MISUSE(UnboundAxisError, ("pcast", "'x'"), lax::pcast(x, "x", "varying"));
  const Array i = arange(8);
  EXPECT_MISUSE(UnboundAxisError, ("ragged_all_to_all", "'x'"), lax::ragged_all_to_all(x, x, {i, i, i, i}, "x"));
  EXPECT_MISUSE(UnboundAxisError, ("psum", "'x'"), lax::psum(std::vector<Array>{x, x}, "x"));
}

TEST(CollectiveError, Groups) {
  in_shard_map([](const Array& x) {
    EXPECT_MISUSE(InvalidArgument, ("psum", "axis_index_groups [[0, 1], [2]]", "(x)", "0..3", "exactly once"),
                  lax::psum(x, "x", {.axis_index_groups = {{0, 1}, {2}}}));
    EXPECT_MISUSE(InvalidArgument, ("pmax", "[[0, 1], [2, 2]]", "exactly once"),
                  lax::pmax(x, "x", {.axis_index_groups = {{0, 1}, {2, 2}}}));
    EXPECT_MISUSE(InvalidArgument, ("pmean", "[[0, 1], [2, 4]]", "0..3"),
                  lax::pmean(x, "x", {.axis_index_groups = {{0, 1}, {2, 4}}}));
    EXPECT_MISUSE(InvalidArgument, ("pmin", "[[0, 1], [2, 3], []]"),
                  lax::pmin(x, "y", {.axis_index_groups = {{0, 1}, {2, 3}, {}}}));
    EXPECT_MISUSE(InvalidArgument, ("all_gather", "[[0, 1, 2], [3]]", "one size"),
                  lax::all_gather(x, "x", {.axis_index_groups = {{0, 1, 2}, {3}}}));
    EXPECT_MISUSE(InvalidArgument, ("psum_scatter", "[[0, 1, 2], [3]]", "one size"),
                  lax::psum_scatter(x, "x", {.tiled = true, .axis_index_groups = {{0, 1, 2}, {3}}}));
    EXPECT_MISUSE(InvalidArgument, ("all_to_all", "[[0, 1, 2], [3]]", "one size"),
                  lax::all_to_all(x, "x", {.axis_index_groups = {{0, 1, 2}, {3}}}));
    EXPECT_MISUSE(InvalidArgument, ("pswapaxes", "[[0, 1, 2], [3]]", "one size"),
                  lax::pswapaxes(x, "x", 0, {.axis_index_groups = {{0, 1, 2}, {3}}}));
    EXPECT_MISUSE(InvalidArgument, ("psum_scatter", "extent 3", "equal", "the 2 devices"),
                  lax::psum_scatter(x, "x", {.scatter_dimension = 1, .axis_index_groups = {{0, 1}, {2, 3}}}));
    EXPECT_MISUSE(InvalidArgument, ("all_gather_invariant", "groups", "all_gather"),
                  lax::all_gather_invariant(x, "x", {.axis_index_groups = {{0, 1}, {2, 3}}}));
  });
}

TEST(CollectiveError, Shuffles) {
  in_shard_map([](const Array& x) {
    for (const std::vector<int>& perm : {std::vector{0, 1, 2}, {0, 1, 2, 2}, {1, 2, 3, 4}, {0, 1, 2, 3, 4}, {}}) {
      EXPECT_MISUSE(InvalidArgument, ("pshuffle", "no permutation", "0..3", "(x)"), lax::pshuffle(x, "x", perm));
    }
  });
}

TEST(CollectiveError, SwappedDimensions) {
  in_shard_map([](const Array& x) {
    EXPECT_MISUSE(InvalidArgument, ("pswapaxes", "extent 2", "equal", "4"), lax::pswapaxes(x, "x", 0));
    EXPECT_MISUSE(OutOfRange, ("pswapaxes", "axis 2"), lax::pswapaxes(x, "x", 2));
  });
}

TEST(CollectiveError, Sources) {
  in_shard_map([](const Array& x) {
    EXPECT_MISUSE(OutOfRange, ("pbroadcast", "source is 4", "0..3"), lax::pbroadcast(x, "x", 4));
    EXPECT_MISUSE(OutOfRange, ("pbroadcast", "source is -1"), lax::pbroadcast(x, "x", -1));
  });
}

TEST(CollectiveError, Casts) {
  in_shard_map([](const Array& x) {
    EXPECT_MISUSE(InvalidArgument, ("pcast", "'invarying'", "'varying'", "psum"), lax::pcast(x, "x", "invarying"));
    EXPECT_MISUSE(InvalidArgument, ("pcast", "{V:(x,y)}", "'x' already"), lax::pcast(x, "x", "varying"));
    EXPECT_MISUSE(InvalidArgument, ("pcast", "does not vary over 'x'", "pvary"),
                  lax::pcast(ones({2}), "x", "unreduced"));
    EXPECT_MISUSE(InvalidArgument, ("pcast", "is varying over 'x'", "reduced"), lax::pcast(x, "x", "reduced"));
    const Array sums = lax::pcast(x, "x", "unreduced");
    EXPECT_MISUSE(InvalidArgument, ("pcast", "is unreduced over 'x'", "psum"), lax::pcast(sums, "x", "varying"));
    EXPECT_MISUSE(InvalidArgument, ("pcast", "unreduced over 'x'", "varying over 'y'", "alike"),
                  lax::pcast(sums, {"x", "y"}, "unreduced"));
    EXPECT_MISUSE(ShardingTypeError, ("sin", "not linear", "U:x", "psum"), sin(sums));
    EXPECT_MISUSE(ShardingTypeError, ("add", "all unreduced", "psum"), sums + x);
    EXPECT_MISUSE(InvalidArgument, ("all_gather", "moves data along (x)", "psum"), lax::all_gather(sums, "x"));
    const Array same = lax::pcast(ones({2}), "x", "reduced");
    EXPECT_MISUSE(InvalidArgument, ("psum", "reduced over (x)", "pcast"), lax::psum(same, "x"));
  });
}

TEST(CollectiveError, RaggedArguments) {
  in_shard_map([](const Array& x) {
    const Array i = arange(4);
    const Array rows = x.reshape(6);
    const auto ragged = [&](const Array& operand, const Array& output, const lax::RaggedSlices& slices) {
      lax::ragged_all_to_all(operand, output, slices, "x");
    };
    const unsigned line = __LINE__ - 2;
    const auto expect_bad = [&](auto error, const std::vector<std::string>& parts, const auto& misuse) {
      try {
        misuse();
        ADD_FAILURE() << "nothing was thrown";
      } catch (const decltype(error)& thrown) {
        for (const std::string& part : parts) EXPECT_THAT(thrown.what(), testing::HasSubstr(part));
      }
    };
    // Each of the four vectors must be of integers, a vector, and not empty.
    const std::vector<std::string> names = {"input_offsets", "send_sizes", "output_offsets", "recv_sizes"};
    for (std::size_t bad = 0; bad < names.size(); ++bad) {
      const auto with = [&](const Array& wrong) {
        std::vector<Array> all(4, i);
        all[bad] = wrong;
        ragged(rows, rows, {all[0], all[1], all[2], all[3]});
      };
      expect_bad(TypeMismatch(""), {"ragged_all_to_all: " + names[bad], "integers", "float32[4]"},
                 [&] { with(ones({4})); });
      expect_bad(InvalidArgument(""), {"ragged_all_to_all: " + names[bad], "vector", "int32[2,2]"},
                 [&] { with(i.reshape(2, 2)); });
      expect_bad(InvalidArgument(""), {"ragged_all_to_all: " + names[bad], "one element or more", "int32[0]"},
                 [&] { with(arange(0)); });
    }
    EXPECT_MISUSE_AT(line, InvalidArgument, ("ragged_all_to_all", "one length", "4, 4, 4 and 8"),
                     ragged(rows, rows, {i, i, i, arange(8)}));
    EXPECT_MISUSE_AT(line, InvalidArgument, ("ragged_all_to_all", "3 slices", "multiple of the 4 devices"),
                     ragged(rows, rows, {arange(3), arange(3), arange(3), arange(3)}));
    EXPECT_MISUSE_AT(line, TypeMismatch, ("ragged_all_to_all", "one dtype", "float32", "int32"),
                     ragged(rows, i, {i, i, i, i}));
    EXPECT_MISUSE_AT(line, InvalidArgument, ("ragged_all_to_all", "equal dimensions", "float32[2,3]", "float32[6]"),
                     ragged(x, rows, {i, i, i, i}));
  });
}

TEST(CollectiveError, RaggedSlicesOutsideTheArrays) {
  const auto run = [](int start, int size, int to, int expected) {
    const auto f = shard_map(
        [=](const Array& x) {
          const auto all = [](int value) { return full({8}, value); };
          return lax::ragged_all_to_all(x, x, {all(start), all(size), all(to), all(expected)}, "i");
        },
        {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = P("i")});
    jit(f)(ones({32})).block_until_ready();
  };
  const unsigned line = __LINE__ - 5;
  EXPECT_NO_THROW(run(0, 1, 3, 1));
  EXPECT_MISUSE_AT(line, OutOfRange, ("ragged_all_to_all", "2 rows from row 3", "the operand, which has 4"),
                   run(3, 2, 0, 2));
  EXPECT_MISUSE_AT(line, OutOfRange, ("ragged_all_to_all", "1 rows from row -1", "the output, which has 4"),
                   run(0, 1, -1, 1));
  EXPECT_MISUSE_AT(line, InvalidArgument, ("ragged_all_to_all", "gets 2 rows", "send_sizes there says 1"),
                   run(0, 1, 0, 2));
}

TEST(CollectiveError, OperandWithoutAValue) {
  in_shard_map([](const Array&) {
    EXPECT_MISUSE(InvalidState, ("without a value"), lax::psum(Array(), "x"));
    EXPECT_MISUSE(InvalidState, ("without a value"), lax::all_gather(Array(), "x"));
  });
}

// ---- smap.

TEST(SmapError, DimensionFromTheEnd) {
  const auto same = [](Array x) { return x; };
  EXPECT_MISUSE(InvalidArgument, ("smap: in_axes has -1", "counted from the first"),
                smap(same, {.axis_name = "x", .in_axes = -1, .out_axes = 0, .mesh = mesh_4x2()}));
  EXPECT_MISUSE(InvalidArgument, ("smap: out_axes has -2"),
                smap(same, {.axis_name = "x", .in_axes = 0, .out_axes = {-2}, .mesh = mesh_4x2()}));
  EXPECT_MISUSE(InvalidArgument, ("smap: in_axes has 4294967296", "so many dimensions"),
                smap(same, {.axis_name = "x", .in_axes = std::int64_t{1} << 32, .out_axes = 0, .mesh = mesh_4x2()}));
}

TEST(SmapError, AsShardMap) {
  const auto same = [](Array x) { return x; };
  const auto unknown = smap(same, {.axis_name = "z", .in_axes = 0, .out_axes = 0, .mesh = mesh_4x2()});
  EXPECT_MISUSE(InvalidArgument, ("axis_names has 'z'"), unknown(ones({8})));
  const auto too_far = smap(same, {.axis_name = "x", .in_axes = 1, .out_axes = 0, .mesh = mesh_4x2()});
  EXPECT_MISUSE(InvalidArgument, ("in_specs", "2 entries", "only 1 dimensions"), too_far(ones({8})));
  const auto loose = smap(same, {.axis_name = "x", .in_axes = 0, .out_axes = none, .mesh = mesh_4x2()});
  EXPECT_MISUSE(InvalidArgument, ("same on all devices along axis 'x'"), loose(ones({8})));
}

#undef EXPECT_BOTH_MISUSE

}  // namespace
}  // namespace shoal::test
