// Mistakes with jit: shardings of arguments and results, devices that do not fit, compiled programs.
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
  const unsigned line = __LINE__ + 1;
  const auto f = jit(kAdd);
  EXPECT_MISUSE_AT(line, InvalidArgument,
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
  const unsigned line = __LINE__ + 1;
  const auto f = jit(kTwice, {.out_shardings = rows()});
  EXPECT_MISUSE_AT(line, InvalidArgument, ("argument [0]", "device 0", "result", "devices 0..7"), f(a));
}

TEST(IncompatibleDevices, CapturedArrayElsewhere) {
  const Array a = device_put(ones({8}), devices()[0]);
  const Array b = device_put(ones({8}), devices()[1]);
  const unsigned line = __LINE__ + 1;
  const auto f = jit([&](const Array& x) { return x + b; });
  EXPECT_MISUSE_AT(line, InvalidArgument, ("argument [0]", "device 0", "captured array f32[8]", "device 1"), f(a));
}

TEST(IncompatibleDevices, PathsInTrees) {
  const Params params{.w = device_put(ones({8}), devices()[0]),
                      .biases = {ones({8}), device_put(ones({8}), devices()[1])}};
  const unsigned line = __LINE__ + 1;
  const auto f = jit([](const Params& p) { return p.w + p.biases[1]; }, {.name = "loss"});
  EXPECT_MISUSE_AT(line, InvalidArgument, ("loss", "argument [0].0 f32[8]", "argument [0].1[1] f32[8]"), f(params));
}

// ---- in_shardings and out_shardings.

TEST(InShardings, ArgumentThatLiesElsewhere) {
  const Array x = put(ones({8, 8}), mesh_4x2(), P("y"));
  const unsigned line = __LINE__ + 1;
  const auto f = jit(kTwice, {.in_shardings = {rows()}});
  EXPECT_MISUSE_AT(line, InvalidArgument,
                   ("fn", "argument [0]", "f32[8,8]", "P('y',)", "in_shardings", "P('x',)", "device_put"), f(x));
}

TEST(InShardings, EquivalentShardingsAreAlike) {
  const auto f = jit(kTwice, {.in_shardings = {rows()}});
  EXPECT_NO_THROW(f(put(ones({8, 8}), mesh_4x2(), P("x", none))));
  EXPECT_NO_THROW(f(ones({8, 8})));
}

TEST(InShardings, IndivisibleArgument) {
  const unsigned line = __LINE__ + 1;
  const auto f = jit(kTwice, {.in_shardings = {rows()}});
  EXPECT_MISUSE_AT(line, IndivisibleError, ("fn", "argument [0]", "dimension 0", "(6, 4)", "size 6", "4", "P('x',)"),
                   f(ones({6, 4})));
  EXPECT_MISUSE_AT(line, InvalidArgument, ("fn", "argument [0]", "rank 0", "P()"), f(1.0));
}

TEST(InShardings, Unconstrained) {
  const NamedSharding open(mesh_4x2(), P(unconstrained, "x"));
  const unsigned line = __LINE__ + 1;
  const auto f = jit(kTwice, {.in_shardings = {open}});
  EXPECT_MISUSE_AT(line, InvalidArgument, ("fn", "in_shardings", "UNCONSTRAINED"), f(ones({8, 8})));
}

TEST(InShardings, NoPrefixOfTheArguments) {
  const unsigned line = __LINE__ + 1;
  const auto f = jit(kTwice, {.in_shardings = {rows(), rows()}});
  EXPECT_MISUSE_AT(line, InvalidArgument, ("fn", "in_shardings", "2 entries", "a tuple of 1"), f(ones({8})));
}

TEST(InShardings, NoPrefixDeepInTheTree) {
  const unsigned line = __LINE__ + 1;
  const auto f = jit([](const Params& p) { return p.w; }, {.in_shardings = {{rows(), {rows(), rows()}}}});
  const Params params{.w = ones({8}), .biases = {ones({8})}};
  EXPECT_MISUSE_AT(line, InvalidArgument, ("in_shardings", "[0].1", "2 entries", "a vector of 1"), f(params));
  const auto g = jit(kTwice, {.in_shardings = {{rows(), rows()}}});
  EXPECT_MISUSE_AT(__LINE__ - 1, InvalidArgument, ("in_shardings", "at [0]", "2 entries", "an array"), g(ones({8})));
}

TEST(OutShardings, IndivisibleResult) {
  const unsigned line = __LINE__ + 1;
  const auto f = jit([](const Array& x) { return Params{.w = x, .biases = {x + 1}}; }, {.out_shardings = rows()});
  EXPECT_MISUSE_AT(line, IndivisibleError, ("fn", "result.0", "dimension 0", "size 6", "4"), f(ones({6})));
}

TEST(OutShardings, SpecLongerThanTheRank) {
  const NamedSharding grid(mesh_4x2(), P("x", "y"));
  const unsigned line = __LINE__ + 1;
  const auto f = jit(kTwice, {.out_shardings = grid});
  EXPECT_MISUSE_AT(line, InvalidArgument, ("fn", "result", "P('x', 'y')", "rank 1"), f(ones({8})));
}

TEST(OutShardings, Unconstrained) {
  const NamedSharding open(mesh_4x2(), P(unconstrained));
  const unsigned line = __LINE__ + 1;
  const auto f = jit(kTwice, {.out_shardings = open});
  EXPECT_MISUSE_AT(line, InvalidArgument, ("fn", "out_shardings", "P(UNCONSTRAINED,)"), f(ones({8})));
}

TEST(OutShardings, NoPrefixOfTheResult) {
  const unsigned line = __LINE__ + 1;
  const auto f = jit(
      [](const Array& x) {
        return std::pair{x, std::vector{x, x}};
      },
      {.out_shardings = {rows(), {rows(), rows(), rows()}}});
  EXPECT_MISUSE_AT(line, InvalidArgument, ("fn", "out_shardings", "at [1]", "3 entries", "a vector of 2"),
                   f(ones({8})));
}

TEST(OutShardings, UnderAnotherJit) {
  const auto inner = jit(kTwice, {.out_shardings = rows(), .name = "inner"});
  const unsigned line = __LINE__ - 1;
  const auto outer = jit([&](const Array& x) { return inner(x); });
  EXPECT_MISUSE_AT(line, IndivisibleError, ("inner", "result", "dimension 0", "size 6"), outer(ones({6})));
  const auto wanting = jit(kTwice, {.in_shardings = {rows()}, .name = "wanting"});
  const unsigned wanting_line = __LINE__ - 1;
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
  const unsigned line = __LINE__ + 1;
  const auto f = jit([](const Array& x) { return Params{.w = x, .biases = {x, Array()}}; });
  EXPECT_MISUSE_AT(line, InvalidState, ("fn", "result.1[1]", "without a value"), f(ones({8})));
}

TEST(JitError, ArgumentWithoutAValue) {
  const unsigned line = __LINE__ + 1;
  const auto f = jit(kAdd);
  EXPECT_MISUSE_AT(line, InvalidState, ("fn", "argument [1]", "without a value"), f(ones({8}), Array()));
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
  const unsigned line = __LINE__ + 1;
  const auto f = jit(kTwice, {.name = "twice"});
  const auto compiled = f.lower(ones({8})).compile();
  EXPECT_MISUSE_AT(line, TypeMismatch, ("twice", "argument [0]", "f32[8]", "f32[4]", "compiled"), compiled(ones({4})));
  EXPECT_MISUSE_AT(line, TypeMismatch, ("twice", "argument [0]", "f32[8]", "i32[8]", "compiled"),
                   compiled(ones({8}, {.dtype = int32})));
  EXPECT_MISUSE_AT(line, TypeMismatch, ("twice", "argument [0]", "f32[8]", "f32[]"), compiled(1.0));
}

TEST(CompiledError, OtherTree) {
  const unsigned line = __LINE__ + 1;
  const auto f = jit([](const Params& p) { return p.w; }, {.name = "first"});
  const auto compiled = f.lower(Params{.w = ones({8}), .biases = {ones({8})}}).compile();
  EXPECT_MISUSE_AT(line, TypeMismatch, ("first", "compiled", "vector([0]: leaf)", "vector([0]: leaf, [1]: leaf)"),
                   compiled(Params{.w = ones({8}), .biases = {ones({8}), ones({8})}}));
  EXPECT_MISUSE_AT(line, TypeMismatch, ("first", "compiled"), compiled(ones({8})));
  EXPECT_MISUSE_AT(line, TypeMismatch, ("first", "compiled"), compiled(ones({8}), ones({8})));
}

TEST(CompiledError, OtherSharding) {
  const Array x = put(ones({8, 8}), mesh_4x2(), P("x"));
  const unsigned line = __LINE__ + 1;
  const auto f = jit(kTwice, {.name = "twice"});
  const auto compiled = f.lower(x).compile();
  EXPECT_MISUSE_AT(line, InvalidArgument, ("twice", "argument [0]", "P('x',)", "P('y',)", "compiled"),
                   compiled(put(ones({8, 8}), mesh_4x2(), P("y"))));
  EXPECT_MISUSE_AT(line, InvalidArgument, ("twice", "argument [0]", "SingleDeviceSharding"),
                   compiled(device_put(ones({8, 8}), devices()[0])));
  EXPECT_NO_THROW(compiled(ones({8, 8})));
  EXPECT_NO_THROW(compiled(put(ones({8, 8}), mesh_4x2(), P("x", none))));
}

TEST(CompiledError, OtherMemory) {
  const Array x = put(ones({8}), mesh_4x2(), P("x"));
  const unsigned line = __LINE__ + 1;
  const auto f = jit(kTwice, {.name = "twice"});
  const auto compiled = f.lower(x).compile();
  EXPECT_MISUSE_AT(line, TypeMismatch, ("twice", "argument [0]", "f32[8]", "f32<pinned_host>[8]"),
                   compiled(device_put(x, rows().with_memory_kind("pinned_host"))));
}

TEST(CompiledError, ArgumentWithoutAValue) {
  const unsigned line = __LINE__ + 1;
  const auto f = jit(kTwice, {.name = "twice"});
  EXPECT_MISUSE_AT(line, InvalidState, ("twice", "argument [0]", "without a value"), f.lower(Array()));
  const auto compiled = f.lower(ones({8})).compile();
  EXPECT_MISUSE_AT(line, InvalidState, ("twice", "argument [0]", "without a value"), compiled(Array()));
}

TEST(CompiledError, CalledWithATracer) {
  const auto f = jit(kTwice, {.name = "twice"});
  const unsigned line = __LINE__ - 1;
  const auto compiled = f.lower(ones({8})).compile();
  jit([&](const Array& x) {
    EXPECT_MISUSE_AT(line, InvalidState, ("twice", "argument [0]", "f32[8]", "traced"), compiled(x));
    return x;
  })(ones({8}));
}

TEST(CompiledError, UnknownStage) {
  const auto compiled = jit(kTwice).lower(ones({8})).compile();
  EXPECT_MISUSE_ANYWHERE(InvalidArgument,
                         ("as_text", "'optimised'", "traced", "simplified", "propagated", "partitioned"),
                         compiled.as_text("optimised"));
}

}  // namespace
}  // namespace shoal::test
