// Mistakes with jit: shardings of arguments and results, devices that do not fit, compiled programs. Errors name the
// line of the call, and that of jit() for functions whose parameter types are not known.
#include <map>
#include <optional>
#include <tuple>

#include "misuse.h"

namespace shoal::test {
namespace {

struct Params {
  Array w;
  std::vector<Array> biases;
};

const auto kTwice = [](const Array& x) { return x * 2; };
const auto kAdd = [](const Array& a, const Array& b) { return a + b; };

NamedSharding rows() { return {mesh_4x2(), P("x")}; }
Mesh reversed_mesh() {
  std::vector<Device> all = devices();
  return Mesh({all.rbegin(), all.rend()}, {8}, {"i"});
}
Mesh first_half() { return make_mesh({4}, {"h"}); }

// ---- Devices that do not fit.

TEST(IncompatibleDevices, TwoSingleDevices) {
  const Array a = device_put(ones({8}), devices()[0]);
  const Array b = device_put(ones({8}), devices()[1]);
  const auto f = jit(kAdd);
  EXPECT_MISUSE(InvalidArgument,
                ("fn", "incompatible devices", "argument [0] f32[8]", "device 0", "argument [1] f32[8]", "device 1"),
                f(a, b));
}

TEST(IncompatibleDevices, OfOneOperation) {
  const Array a = device_put(ones({8}), devices()[0]);
  const Array b = device_put(ones({8}), devices()[3]);
  EXPECT_MISUSE(InvalidArgument, ("add", "operand 0 f32[8]", "device 0", "operand 1 f32[8]", "device 3"), a + b);
}

TEST(IncompatibleDevices, DisjointAndOverlappingMeshes) {
  const Array a = put(ones({8}), first_half(), P("h"));
  const std::vector<Device> all = devices();
  const Array b = put(ones({8}), make_mesh({4}, {"h"}, {.devices = {all.begin() + 4, all.end()}}), P("h"));
  const Array c = put(ones({8}), mesh_8(), P("i"));
  EXPECT_MISUSE(InvalidArgument, ("add", "devices 0..3", "devices 4..7"), a + b);
  EXPECT_MISUSE(InvalidArgument, ("add", "devices 0..3", "devices 0..7"), a + c);
}

TEST(IncompatibleDevices, OrderMatters) {
  const Array a = put(ones({8}), mesh_8(), P("i"));
  const Array b = put(ones({8}), reversed_mesh(), P("i"));
  EXPECT_MISUSE(InvalidArgument, ("add", "devices 0..7", "devices [7, 6, 5", "same order"), a + b);
}

TEST(IncompatibleDevices, SingleDeviceWithAMesh) {
  const Array a = device_put(ones({8}), devices()[2]);
  const Array b = put(ones({8}), mesh_8(), P("i"));
  EXPECT_MISUSE(InvalidArgument, ("add", "device 2", "devices 0..7"), a + b);
}

TEST(IncompatibleDevices, UncommittedArraysMove) {
  EXPECT_NO_THROW(ones({8}) + put(ones({8}), mesh_8(), P("i")));
  EXPECT_NO_THROW(ones({8}) + device_put(ones({8}), devices()[5]));
}

TEST(IncompatibleDevices, ConstraintElsewhere) {
  const Array a = device_put(ones({8}), devices()[0]);
  unsigned line = 0;
  const auto f = jit([&](const Array& x) {
    line = __LINE__ + 1;
    return with_sharding_constraint(x, rows());
  });
  try {
    f(a);
    FAIL() << "nothing was thrown";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(),
                testing::AllOf(testing::HasSubstr("argument [0] f32[8]"), testing::HasSubstr("device 0"),
                               testing::HasSubstr("with_sharding_constraint"), testing::HasSubstr("devices 0..7")));
    ASSERT_TRUE(error.where());
    EXPECT_EQ(error.where()->line(), line);
  }
}

TEST(IncompatibleDevices, ResultsElsewhere) {
  const Array a = device_put(ones({8}), devices()[0]);
  const auto f = jit(kTwice, {.out_shardings = rows()});
  EXPECT_MISUSE(InvalidArgument, ("argument [0]", "device 0", "result", "devices 0..7"), f(a));
}

TEST(IncompatibleDevices, CapturedArrayElsewhere) {
  const Array a = device_put(ones({8}), devices()[0]);
  const Array b = device_put(ones({8}), devices()[1]);
  const auto f = jit([&](const Array& x) { return x + b; });
  EXPECT_MISUSE(InvalidArgument, ("argument [0]", "device 0", "captured array f32[8]", "device 1"), f(a));
}

TEST(IncompatibleDevices, PathsInTrees) {
  const Params params{.w = device_put(ones({8}), devices()[0]),
                      .biases = {ones({8}), device_put(ones({8}), devices()[1])}};
  const auto f = jit([](const Params& p) { return p.w + p.biases[1]; }, {.name = "loss"});
  EXPECT_MISUSE(InvalidArgument, ("loss", "argument [0].0 f32[8]", "argument [0].1[1] f32[8]"), f(params));
}

// ---- in_shardings and out_shardings.

TEST(InShardings, ArgumentThatLiesElsewhere) {
  const Array x = put(ones({8, 8}), mesh_4x2(), P("y"));
  const auto f = jit(kTwice, {.in_shardings = {rows()}});
  EXPECT_MISUSE(InvalidArgument, ("fn", "argument [0]", "f32[8,8]", "P('y',)", "in_shardings", "P('x',)", "device_put"),
                f(x));
}

TEST(InShardings, ArgumentInAnotherMemory) {
  const NamedSharding pinned = rows().with_memory_kind("pinned_host");
  const auto f = jit(kTwice, {.in_shardings = {pinned}});
  EXPECT_MISUSE(InvalidArgument,
                ("fn", "argument [0]", "memory_kind=device", "in_shardings", "memory_kind=pinned_host"),
                f(put(ones({8, 8}), mesh_4x2(), P("x"))));
  const auto g = jit(kTwice, {.in_shardings = {rows()}});
  EXPECT_MISUSE(InvalidArgument,
                ("fn", "argument [0]", "memory_kind=pinned_host", "in_shardings", "memory_kind=device"),
                g(device_put(ones({8, 8}), pinned)));
}

TEST(InShardings, EquivalentShardingsAreAlike) {
  const auto f = jit(kTwice, {.in_shardings = {rows()}});
  EXPECT_NO_THROW(f(put(ones({8, 8}), mesh_4x2(), P("x", none))));
  EXPECT_NO_THROW(f(ones({8, 8})));
}

TEST(InShardings, IndivisibleArgument) {
  const auto f = jit(kTwice, {.in_shardings = {rows()}});
  EXPECT_MISUSE(IndivisibleError, ("fn", "argument [0]", "dimension 0", "(6, 4)", "size 6", "4", "P('x',)"),
                f(ones({6, 4})));
  EXPECT_MISUSE(InvalidArgument, ("fn", "argument [0]", "rank 0", "P()"), f(1.0));
}

TEST(InShardings, Unconstrained) {
  const NamedSharding open(mesh_4x2(), P(unconstrained, "x"));
  const auto f = jit(kTwice, {.in_shardings = {open}});
  EXPECT_MISUSE(InvalidArgument, ("fn", "in_shardings", "UNCONSTRAINED"), f(ones({8, 8})));
}

TEST(InShardings, NoPrefixOfTheArguments) {
  const auto f = jit(kTwice, {.in_shardings = {rows(), rows()}});
  EXPECT_MISUSE(InvalidArgument, ("fn", "in_shardings", "2 entries", "a tuple of 1"), f(ones({8})));
}

TEST(InShardings, NoPrefixDeepInTheTree) {
  const auto f = jit([](const Params& p) { return p.w; }, {.in_shardings = {{rows(), {rows(), rows()}}}});
  const Params params{.w = ones({8}), .biases = {ones({8})}};
  EXPECT_MISUSE(InvalidArgument, ("in_shardings", "[0].1", "2 entries", "a vector of 1"), f(params));
  // All places at once.
  const auto both = jit([](const Params& p, const Array& x) { return p.w + x; },
                        {.in_shardings = {{rows(), {rows(), rows()}}, {rows(), rows(), none}}});
  EXPECT_MISUSE(
      InvalidArgument,
      ("at [0].1 it has 2 entries where the tree has a vector of 1; at [1] it has 3 entries where the tree has "
       "an array"),
      both(params, ones({8})));
  const auto g = jit(kTwice, {.in_shardings = {{rows(), rows()}}});
  EXPECT_MISUSE(InvalidArgument, ("in_shardings", "at [0]", "2 entries", "an array"), g(ones({8})));
}

TEST(OutShardings, IndivisibleResult) {
  const auto f = jit([](const Array& x) { return Params{.w = x, .biases = {x + 1}}; }, {.out_shardings = rows()});
  EXPECT_MISUSE(IndivisibleError, ("fn", "result.0", "dimension 0", "size 6", "4"), f(ones({6})));
}

TEST(OutShardings, SpecLongerThanTheRank) {
  const NamedSharding grid(mesh_4x2(), P("x", "y"));
  const auto f = jit(kTwice, {.out_shardings = grid});
  EXPECT_MISUSE(InvalidArgument, ("fn", "result", "P('x', 'y')", "rank 1"), f(ones({8})));
}

TEST(OutShardings, Unconstrained) {
  const NamedSharding open(mesh_4x2(), P(unconstrained));
  const auto f = jit(kTwice, {.out_shardings = open});
  EXPECT_MISUSE(InvalidArgument, ("fn", "out_shardings", "P(UNCONSTRAINED,)"), f(ones({8})));
}

TEST(OutShardings, NoPrefixOfTheResult) {
  const auto f = jit(
      [](const Array& x) {
        return std::pair{x, std::vector{x, x}};
      },
      {.out_shardings = {rows(), {rows(), rows(), rows()}}});
  EXPECT_MISUSE(InvalidArgument, ("fn", "out_shardings", "at [1]", "3 entries", "a vector of 2"), f(ones({8})));
}

TEST(OutShardings, UnderAnotherJit) {
  const auto inner = jit(kTwice, {.out_shardings = rows(), .name = "inner"});
  const unsigned line = __LINE__ + 1;
  const auto outer = jit([&](const Array& x) { return inner(x); });
  EXPECT_MISUSE_AT(line, IndivisibleError, ("inner", "result", "dimension 0", "size 6"), outer(ones({6})));
  const auto wanting = jit(kTwice, {.in_shardings = {rows()}, .name = "wanting"});
  const unsigned wanting_line = __LINE__ + 1;
  const auto calling = jit([&](const Array& x) { return wanting(x); });
  EXPECT_MISUSE_AT(wanting_line, IndivisibleError, ("wanting", "argument [0]", "dimension 0", "size 6"),
                   calling(ones({6})));
}

// ---- Constraints and moves inside.

TEST(ConstraintError, SpecLongerThanTheRank) {
  EXPECT_MISUSE(InvalidArgument, ("with_sharding_constraint", "P('x',)", "float32[]", "0 dimensions"),
                with_sharding_constraint(1.0F, rows()));
  jit([](const Array& x) {
    const NamedSharding grid(mesh_4x2(), P("x", "y"));
    EXPECT_MISUSE(InvalidArgument, ("with_sharding_constraint", "P('x', 'y')", "float32[8]", "1 dimensions"),
                  with_sharding_constraint(x, grid));
    return x;
  })(ones({8}));
}

TEST(ConstraintError, IndivisibleOutsideJit) {
  EXPECT_MISUSE(IndivisibleError, ("with_sharding_constraint", "dimension 0", "size 6", "4", "P('x',)"),
                with_sharding_constraint(ones({6}), rows()));
}

TEST(ConstraintError, IndivisibleMoveUnderJit) {
  jit([](const Array& x) {
    EXPECT_MISUSE(IndivisibleError, ("device_put", "dimension 0", "size 6", "4", "P('x',)"), device_put(x, rows()));
    return x;
  })(ones({6}));
}

TEST(ConstraintError, MeshesThatCannotBeDividedAlike) {
  std::vector<Device> six = devices();
  six.resize(6);
  const Mesh three_two = make_mesh({3, 2}, {"a", "b"}, {.devices = six});
  const Mesh two_three = make_mesh({2, 3}, {"c", "d"}, {.devices = six});
  unsigned line = 0;
  const auto f = jit([&](const Array& x) {
    line = __LINE__ + 1;
    return with_sharding_constraint(x, NamedSharding(two_three, P("c")));
  });
  try {
    f(put(ones({6}), three_two, P("a")));
    FAIL() << "nothing was thrown";
  } catch (const Unsupported& error) {
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("'c': 2"), testing::HasSubstr("'a': 3"),
                                             testing::HasSubstr("with_sharding_constraint")));
    ASSERT_TRUE(error.where());
    EXPECT_EQ(error.where()->line(), line);
  }
}

// ---- Functions.

TEST(JitError, ResultWithoutAValue) {
  const auto f = jit([](const Array& x) { return Params{.w = x, .biases = {x, Array()}}; });
  EXPECT_MISUSE(InvalidState, ("fn", "result.1[1]", "without a value"), f(ones({8})));
}

TEST(JitError, ArgumentWithoutAValue) {
  const auto f = jit(kAdd);
  EXPECT_MISUSE(InvalidState, ("fn", "argument [1]", "without a value"), f(ones({8}), Array()));
}

TEST(JitError, OfAFunctionOfAnythingNamesTheLineOfJit) {
  const unsigned line = __LINE__ + 1;
  const auto f = jit([](const auto& x) { return x; });
  EXPECT_MISUSE_AT(line, InvalidState, ("fn", "argument [0]", "without a value"), f(Array()));
  EXPECT_MISUSE_AT(line, InvalidState, ("fn", "argument [0]", "without a value"), f.lower(Array()));
}

TEST(JitError, NamesTheLineOfTheCallInJitOfJitToo) {
  const auto f = jit(jit(shard_map(kTwice, {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = P("i")})));
  EXPECT_MISUSE(InvalidState, ("fn", "argument [0]", "without a value"), f(Array()));
}

// ---- Donation.

TEST(DonationError, UseAfterwards) {
  const auto f = jit(kTwice, {.donate_argnums = {0}, .name = "step"});
  const Array x = ones({8});
  const unsigned line = __LINE__ + 1;
  f(x);
  const std::string where = "jit_test.cc:" + std::to_string(line);
  EXPECT_MISUSE(InvalidState, ("add", "f32[8]", "donated to 'step' at " + where), x + 1);
  EXPECT_MISUSE(InvalidState, ("step: argument [0]", "f32[8]", "donated to 'step' at " + where), f(x));
  EXPECT_MISUSE(InvalidState, ("to_vector", "donated to 'step' at " + where), x.to_vector<float>());
  EXPECT_MISUSE(InvalidState, ("device_put", "donated to 'step'"), device_put(x, devices()[1]));
  EXPECT_MISUSE(InvalidState, ("addressable_shards", "donated to 'step'"), x.addressable_shards());
  EXPECT_MISUSE_ANYWHERE(InvalidState, ("str", "donated to 'step'"), str(x));
}

TEST(DonationError, TwiceInOneCall) {
  const auto both = jit(
      [](const Array& a, const Array& b) {
        return std::pair{a + 1, b + 1};
      },
      {.donate_argnums = {0, 1}, .name = "both"});
  const Array x = ones({8});
  EXPECT_MISUSE(InvalidArgument, ("both", "argument [0] f32[8]", "donated", "argument [1]", "copy"), both(x, x));
  const auto first = jit(kAdd, {.donate_argnums = {0}});
  EXPECT_MISUSE(InvalidArgument, ("fn", "argument [0] f32[8]", "donated", "argument [1]", "copy"), first(x, x));
  const auto captures = jit([&](const Array& a) { return a + x; }, {.donate_argnums = {0}});
  EXPECT_MISUSE(InvalidArgument, ("fn", "argument [0] f32[8]", "donated", "captures"), captures(x));
  EXPECT_FALSE(x.is_deleted());
  EXPECT_NO_THROW(both(x, x.copy()));
}

TEST(DonationError, PositionsThatAreNoArguments) {
  const auto f = jit(kTwice, {.donate_argnums = {1}, .name = "twice"});
  EXPECT_MISUSE(InvalidArgument, ("twice", "donate_argnums", "has 1", "1 arguments"), f(ones({8})));
  const auto g = jit(kTwice, {.donate_argnums = {-2}});
  EXPECT_MISUSE(InvalidArgument, ("fn", "donate_argnums", "has -2", "1 arguments"), g(ones({8})));
  const auto h = jit([](const Array& x, int n) { return x * n; }, {.donate_argnums = {1}});
  EXPECT_MISUSE(InvalidArgument, ("fn", "donate_argnums", "argument [1]", "static"), h(ones({8}), 3));
}

// ---- Deletion.

TEST(DeletionError, UseAfterwards) {
  const Array x = ones({8});
  const Array same = x;
  const unsigned line = __LINE__ + 1;
  x.delete_();
  const std::string how = "deleted at jit_test.cc:" + std::to_string(line);
  EXPECT_MISUSE(InvalidState, ("add", "f32[8]", how), same + 1);
  EXPECT_MISUSE(InvalidState, ("fn: argument [0]", how), jit(kTwice)(same));
  EXPECT_MISUSE(InvalidState, ("copy", how), x.copy());
  EXPECT_MISUSE(InvalidState, ("addressable_data", how), x.addressable_data(0));
  EXPECT_MISUSE(InvalidState, ("global_shards", how), x.global_shards());
  EXPECT_MISUSE(InvalidState, ("on_device_size_in_bytes", how), x.on_device_size_in_bytes());
  EXPECT_MISUSE_ANYWHERE(InvalidState, ("block_until_ready", how), x.block_until_ready());
  EXPECT_MISUSE_ANYWHERE(InvalidState, ("is_ready", how), x.is_ready());
  const auto captures = jit([&](const Array& a) { return a + x; });
  EXPECT_MISUSE(InvalidState, ("fn: captured array", how), captures(1.0));
}

TEST(DeletionError, OfACapturedArrayAfterTheFirstCall) {
  const Array x = ones({8});
  const auto f = jit([&](const Array& a) { return a + x; });
  f(1.0);
  x.delete_();
  EXPECT_MISUSE(InvalidState, ("fn: captured array", "f32[8]", "deleted at"), f(1.0));
}

TEST(DeletionError, OfATracer) {
  jit([](const Array& x) {
    EXPECT_MISUSE(InvalidState, ("delete_", "f32[8]", "traced"), x.delete_());
    EXPECT_FALSE(x.is_deleted());
    return x;
  })(ones({8}));
}

TEST(ShardError, AddressableDataOutsideTheShards) {
  const Array x = put(ones({8}), mesh_8(), P("i"));
  EXPECT_MISUSE(OutOfRange, ("addressable_data", "index 8", "8 shards", "float32[8]"), x.addressable_data(8));
  EXPECT_MISUSE(OutOfRange, ("addressable_data", "index -1"), x.addressable_data(-1));
}

// ---- Types that stand for arrays.

TEST(TypeOnlyError, UsedAsAnArray) {
  const Array type = ShapeDtypeStruct{{8}, float32};
  EXPECT_MISUSE(InvalidState, ("add", "f32[8]", "ShapeDtypeStruct", "eval_shape"), type + 1);
  EXPECT_MISUSE(InvalidState, ("fn: argument [0]", "f32[8]", "ShapeDtypeStruct"), jit(kTwice)(type));
  EXPECT_MISUSE(InvalidState, ("to_vector", "ShapeDtypeStruct"), type.to_vector<float>());
  EXPECT_MISUSE(InvalidState, ("device_put", "ShapeDtypeStruct"), device_put(type, devices()[0]));
  EXPECT_MISUSE(InvalidState, ("sharding", "ShapeDtypeStruct"), type.sharding());
  EXPECT_MISUSE(InvalidState, ("delete_", "ShapeDtypeStruct"), type.delete_());
  jit([&](const Array& x) {
    EXPECT_MISUSE(InvalidState, ("add", "f32[8]", "ShapeDtypeStruct"), x + type);
    return x;
  })(ones({8}));
  const auto compiled = jit(kTwice).lower(type).compile();
  EXPECT_MISUSE(InvalidState, ("fn: argument [0]", "ShapeDtypeStruct"), compiled(type));
}

TEST(TypeOnlyError, ThatCannotExist) {
  EXPECT_MISUSE(InvalidArgument, ("ShapeDtypeStruct", "(8, -1)", "negative"),
                Array(ShapeDtypeStruct{{8, -1}, float32}));
  EXPECT_MISUSE(IndivisibleError, ("ShapeDtypeStruct", "dimension 0", "size 6", "P('x',)"),
                Array(ShapeDtypeStruct{{6}, float32, rows()}));
  EXPECT_MISUSE(InvalidArgument, ("ShapeDtypeStruct", "P('x',)", "rank 0"),
                Array(ShapeDtypeStruct{{}, float32, rows()}));
}

TEST(TypeOnlyError, ShardingThatInShardingsDoesNotWant) {
  const auto f = jit(kTwice, {.in_shardings = {rows()}});
  const NamedSharding columns(mesh_4x2(), P("y"));
  EXPECT_MISUSE(InvalidArgument, ("fn", "argument [0]", "P('y',)", "in_shardings", "P('x',)"),
                f.lower(ShapeDtypeStruct{{8}, float32, columns}));
}

// ---- Meshes without devices.

TEST(AbstractMeshError, WhereDevicesAreNeeded) {
  const NamedSharding nowhere(AbstractMesh({4, 2}, {"x", "y"}), P("x"));
  EXPECT_MISUSE(InvalidArgument, ("device_put", "AbstractMesh('x': 4, 'y': 2", "no devices"),
                device_put(ones({8}), nowhere));
  EXPECT_MISUSE(InvalidState, ("devices_indices_map", "AbstractMesh", "no devices"), nowhere.devices_indices_map({8}));
  EXPECT_MISUSE_ANYWHERE(InvalidState, ("AbstractMesh", "no devices"), nowhere.device_set());
  EXPECT_MISUSE_ANYWHERE(InvalidState, ("AbstractMesh", "no devices"), nowhere.mesh().devices());
  const auto f = jit(kTwice, {.name = "twice"});
  const auto lowered = f.lower(ShapeDtypeStruct{{8}, float32, nowhere});
  EXPECT_MISUSE(InvalidArgument, ("twice", "AbstractMesh", "no devices", "compile(devices())"), lowered.compile());
  EXPECT_MISUSE(InvalidArgument, ("twice", "AbstractMesh", "8 devices", "device 0"), lowered.compile({devices()[0]}));
  const auto g = jit(kTwice, {.out_shardings = nowhere});
  EXPECT_MISUSE(InvalidArgument, ("fn", "AbstractMesh", "no devices"), g(ones({8})));
  EXPECT_MISUSE(InvalidArgument, ("fn", "AbstractMesh", "8 devices", "device 3"),
                g(device_put(ones({8}), devices()[3])));
}

TEST(AbstractMeshError, DevicesThatAreNotThoseOfTheArguments) {
  const auto lowered = jit(kTwice).lower(put(ones({8}), mesh_8(), P("i")));
  const std::vector<Device> all = devices();
  EXPECT_MISUSE(InvalidArgument, ("fn", "incompatible devices", "[7, 6", "argument [0]", "devices 0..7"),
                lowered.compile({all.rbegin(), all.rend()}));
}

TEST(JitError, ErrorInsideNamesTheLineInside) {
  const auto f = jit([](const Array& x) {
    EXPECT_MISUSE(InvalidArgument, ("add", "(8,)", "(3,)"), x + ones({3}));
    EXPECT_MISUSE(InvalidArgument, ("matmul", "(8,)"), matmul(x, ones({3})));
    EXPECT_MISUSE(OutOfRange, ("sum", "axis 1"), x.sum(1));
    return x;
  });
  f(ones({8}));
}

TEST(JitError, FailedTraceIsNotCached) {
  int calls = 0;
  const auto f = jit([&](const Array& x) {
    ++calls;
    return x + ones({3});
  });
  EXPECT_THROW(f(ones({8})), InvalidArgument);
  EXPECT_THROW(f(ones({8})), InvalidArgument);
  EXPECT_EQ(calls, 2);
}

// ---- Compiled programs.

TEST(CompiledError, OtherShapeOrDtype) {
  const auto f = jit(kTwice, {.name = "twice"});
  const auto compiled = f.lower(ones({8})).compile();
  EXPECT_MISUSE(TypeMismatch, ("twice", "argument [0]", "f32[8]", "f32[4]", "compiled"), compiled(ones({4})));
  EXPECT_MISUSE(TypeMismatch, ("twice", "argument [0]", "f32[8]", "i32[8]", "compiled"),
                compiled(ones({8}, {.dtype = int32})));
  EXPECT_MISUSE(TypeMismatch, ("twice", "argument [0]", "f32[8]", "f32[]"), compiled(1.0));
}

TEST(CompiledError, OtherTree) {
  const auto f = jit([](const Params& p) { return p.w; }, {.name = "first"});
  const auto compiled = f.lower(Params{.w = ones({8}), .biases = {ones({8})}}).compile();
  EXPECT_MISUSE(TypeMismatch, ("first", "compiled", "vector([0]: leaf)", "vector([0]: leaf, [1]: leaf)"),
                compiled(Params{.w = ones({8}), .biases = {ones({8}), ones({8})}}));
  // Where the types of parameters are not known, the compiler of the program cannot tell.
  const unsigned line = __LINE__ + 1;
  const auto any = jit([](const auto& p) { return p.w; }, {.name = "any"});
  const auto any_compiled = any.lower(Params{.w = ones({8}), .biases = {}}).compile();
  EXPECT_MISUSE_AT(line, TypeMismatch, ("any", "compiled", "struct"), any_compiled(ones({8})));
  EXPECT_MISUSE_AT(line, TypeMismatch, ("any", "compiled", "struct"), any_compiled(ones({8}), ones({8})));
}

TEST(CompiledError, OtherSharding) {
  const Array x = put(ones({8, 8}), mesh_4x2(), P("x"));
  const auto f = jit(kTwice, {.name = "twice"});
  const auto compiled = f.lower(x).compile();
  EXPECT_MISUSE(InvalidArgument, ("twice", "argument [0]", "P('x',)", "P('y',)", "compiled"),
                compiled(put(ones({8, 8}), mesh_4x2(), P("y"))));
  EXPECT_MISUSE(InvalidArgument, ("twice", "argument [0]", "SingleDeviceSharding"),
                compiled(device_put(ones({8, 8}), devices()[0])));
  EXPECT_NO_THROW(compiled(ones({8, 8})));
  EXPECT_NO_THROW(compiled(put(ones({8, 8}), mesh_4x2(), P("x", none))));
}

TEST(CompiledError, OtherMemory) {
  const Array x = put(ones({8}), mesh_4x2(), P("x"));
  const auto f = jit(kTwice, {.name = "twice"});
  const auto compiled = f.lower(x).compile();
  EXPECT_MISUSE(TypeMismatch, ("twice", "argument [0]", "f32[8]", "f32<pinned_host>[8]"),
                compiled(device_put(x, rows().with_memory_kind("pinned_host"))));
}

TEST(CompiledError, ArgumentWithoutAValue) {
  const auto f = jit(kTwice, {.name = "twice"});
  EXPECT_MISUSE(InvalidState, ("twice", "argument [0]", "without a value"), f.lower(Array()));
  const auto compiled = f.lower(ones({8})).compile();
  EXPECT_MISUSE(InvalidState, ("twice", "argument [0]", "without a value"), compiled(Array()));
}

TEST(CompiledError, CalledWithATracer) {
  const auto f = jit(kTwice, {.name = "twice"});
  const auto compiled = f.lower(ones({8})).compile();
  jit([&](const Array& x) {
    EXPECT_MISUSE(InvalidState, ("twice", "argument [0]", "f32[8]", "traced"), compiled(x));
    return x;
  })(ones({8}));
}

TEST(CompiledError, UnknownStage) {
  const auto compiled = jit(kTwice).lower(ones({8})).compile();
  EXPECT_MISUSE_ANYWHERE(InvalidArgument,
                         ("as_text", "'optimised'", "traced", "simplified", "propagated", "partitioned"),
                         compiled.as_text("optimised"));
}

TEST(JitError, MemoryBudget) {
  const auto f = jit([](const Array& x) { return sort(x) + flip(x, 0); }, {.name = "f", .memory_budget = 1000});
  const Array x = ones({1000});
  EXPECT_MISUSE(
      OutOfMemory,
      ("f: memory_budget is 1000 bytes, and the least that a call was found to take beside its arguments is "), f(x));
  const auto negative = jit([](const Array& v) { return v; }, {.name = "g", .memory_budget = -1});
  EXPECT_MISUSE(InvalidArgument, ("g: memory_budget is -1 bytes, and must not be negative"), negative(x));
}

}  // namespace
}  // namespace shoal::test
