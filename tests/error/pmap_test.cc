// Mistakes with pmap.
#include <map>
#include <tuple>

#include "misuse.h"

namespace shoal::test {
namespace {

const auto kUnchanged = [](const Array& x) { return x; };
const auto kPlus = [](const Array& x, const Array& y) { return x + y; };

// Calls f on arguments, outside jit and inside: both must say the same.
#define EXPECT_BOTH_MISUSE(E, parts, f, ...) \
  EXPECT_MISUSE(E, parts, f(__VA_ARGS__));   \
  EXPECT_MISUSE(E, parts, jit([&](const Array& zero) { return f(__VA_ARGS__), zero; })(zeros({2})))

// ---- Sizes and devices.

TEST(PmapError, MoreSlicesThanDevices) {
  const auto f = pmap(kUnchanged, {.axis_name = "i"});
  EXPECT_BOTH_MISUSE(InvalidArgument, ("pmap", "9 devices", "'i': 9", "there are 8"), f, ones({9}));
}

TEST(PmapError, MoreSlicesThanGivenDevices) {
  const auto f = pmap(kUnchanged, {.devices = std::vector{devices()[0], devices()[1]}});
  EXPECT_BOTH_MISUSE(InvalidArgument, ("pmap", "3 devices", "there are 2"), f, ones({3}));
}

TEST(PmapError, FewerSlicesThanGivenDevices) {
  const auto f = pmap(kUnchanged, {.devices = devices()});
  EXPECT_BOTH_MISUSE(InvalidArgument, ("pmap", "names 8 devices", "takes 2"), f, ones({2}));
}

TEST(PmapError, NoDevices) {
  EXPECT_MISUSE(InvalidArgument, ("pmap", "devices is empty"), pmap(kUnchanged, {.devices = std::vector<Device>{}}));
}

TEST(PmapError, DifferentSizes) {
  const auto f = pmap(kPlus);
  EXPECT_BOTH_MISUSE(InvalidArgument,
                     ("pmap", "one size", "dimension 0 of argument [0] float32[4] has extent 4",
                      "dimension 0 of argument [1] float32[8] has extent 8"),
                     f, ones({4}), ones({8}));
}

TEST(PmapError, OtherSizeThanAxisSize) {
  const auto f = pmap(kUnchanged, {.axis_size = 4});
  EXPECT_BOTH_MISUSE(InvalidArgument, ("pmap", "axis_size is 4", "argument [0] float32[2] has extent 2"), f, ones({2}));
}

TEST(PmapError, NothingIsMapped) {
  const auto f = pmap(kUnchanged, {.in_axes = none});
  EXPECT_BOTH_MISUSE(InvalidArgument, ("pmap", "no argument is mapped", "in_axes", "axis_size"), f, ones({2}));
}

TEST(PmapError, NoSlices) {
  const auto f = pmap(kUnchanged);
  EXPECT_BOTH_MISUSE(InvalidArgument, ("pmap", "one slice or more", "extent 0"), f, ones({0, 2}));
  const auto g = pmap([] { return lax::axis_index("i"); }, {.axis_name = "i", .axis_size = -1});
  EXPECT_MISUSE(InvalidArgument, ("pmap", "one slice or more", "axis_size is -1"), g());
}

// ---- in_axes and out_axes.

TEST(PmapError, DimensionThatAnArgumentLacks) {
  const auto f = pmap(kPlus, {.in_axes = {0, 1}});
  EXPECT_BOTH_MISUSE(OutOfRange, ("pmap", "in_axes is 1", "argument [1] float32[2]", "-1 to 0"), f, ones({2}),
                     ones({2}));
  const auto g = pmap(kPlus);
  EXPECT_BOTH_MISUSE(OutOfRange, ("pmap", "in_axes is 0", "argument [1] float32[]", "no dimensions"), g, ones({2}),
                     full({}, 1.0));
}

TEST(PmapError, DimensionThatAResultLacks) {
  const auto f = pmap([](const Array& x) { return std::pair{x, x}; }, {.out_axes = {0, 2}});
  EXPECT_MISUSE(OutOfRange, ("pmap", "out_axes is 2", "result [1] float32[3]", "-2 to 1"), f(ones({2, 3})));
}

TEST(PmapError, NoPrefix) {
  const auto f = pmap(kPlus, {.in_axes = {0, 0, 0}});
  EXPECT_BOTH_MISUSE(InvalidArgument, ("pmap", "in_axes", "3 entries", "a tuple of 2"), f, ones({2}), ones({2}));
  const auto g = pmap([](const Array& x) { return std::map<std::string, Array>{{"a", x}}; }, {.out_axes = {0, 1}});
  EXPECT_MISUSE(InvalidArgument, ("pmap", "out_axes", "2 entries", "a map of 1"), g(ones({2})));
}

TEST(PmapError, ResultThatDiffersBetweenDevices) {
  const auto f = pmap(kUnchanged, {.axis_name = "i", .out_axes = none});
  EXPECT_BOTH_MISUSE(InvalidArgument,
                     ("pmap", "out_axes none", "the result", "float32[3]{V:i}", "'i'", "psum", "all_gather_invariant"),
                     f, ones({2, 3}));
}

// ---- Inside others.

TEST(PmapError, NestedWithTooFewDevices) {
  const auto inner = pmap(kUnchanged, {.axis_name = "cols"});
  const auto f = pmap(inner, {.axis_name = "rows"});
  EXPECT_BOTH_MISUSE(InvalidArgument, ("pmap", "12 devices", "'rows': 4, 'cols': 3", "there are 8"), f, ones({4, 3}));
}

TEST(PmapError, NestedSizes) {
  const auto inner = pmap(kPlus);
  const unsigned line = __LINE__ - 1;
  const auto f = pmap(inner);
  EXPECT_MISUSE_AT(line, InvalidArgument,
                   ("pmap", "one size", "float32[2]{V:pmap_axis_0}", "float32[3]{V:pmap_axis_0}"),
                   f(ones({2, 2}), ones({2, 3})));
}

TEST(PmapError, NestedWithDevices) {
  const auto inner = pmap(kUnchanged, {.devices = devices()});
  const unsigned line = __LINE__ - 1;
  EXPECT_MISUSE_AT(line, InvalidArgument, ("pmap", "devices", "outermost"), pmap(inner)(ones({4, 2})));
}

TEST(PmapError, AxisNameThatIsTaken) {
  const auto inner = pmap(kUnchanged, {.axis_name = "i"});
  const unsigned line = __LINE__ - 1;
  const auto f = pmap(inner, {.axis_name = "i"});
  EXPECT_MISUSE_AT(line, InvalidArgument, ("pmap", "axis_name 'i'", "bound here already"), f(ones({4, 2})));
}

TEST(PmapError, InsideShardMapWithoutFreeAxes) {
  const auto inner = pmap(kUnchanged, {.axis_name = "i"});
  for (const std::vector<std::string>& manual : {std::vector<std::string>{}, {"x"}}) {
    const unsigned line = __LINE__ + 1;
    const auto f = shard_map([&](const Array& x) { return inner(x); },
                             {.mesh = mesh_4x2(), .in_specs = P("x"), .out_specs = P("x"), .axis_names = manual});
    EXPECT_MISUSE_AT(line, InvalidArgument, ("pmap", "'i' has size 4", "'x': 4, 'y': 2", "shard_map leaves"),
                     f(ones({16, 2})));
  }
}

TEST(PmapError, ShardMapInsideOverOtherDevices) {
  const Mesh mesh = Mesh({devices()[1], devices()[0]}, {2}, {"y"});
  const auto inner = shard_map(kUnchanged, {.mesh = mesh, .in_specs = P(), .out_specs = P()});
  const unsigned line = __LINE__ - 1;
  EXPECT_MISUSE_AT(line, InvalidArgument, ("shard_map", "same devices", "'i': 4", "'y': 2"),
                   pmap(inner, {.axis_name = "i"})(ones({4, 2})));
}

// ---- The rest.

TEST(PmapError, ValuesThatAreNotThere) {
  const auto f = pmap(kUnchanged);
  EXPECT_MISUSE(InvalidState, ("pmap", "argument [0]", "without a value"), f(Array()));
  const auto g = pmap([](const Array&) { return Array(); });
  EXPECT_MISUSE(InvalidState, ("pmap", "result", "without a value"), g(ones({2})));
}

TEST(PmapError, ValuesCannotBeRead) {
  pmap([](const Array& x) {
    EXPECT_MISUSE(InvalidState, ("item"), x.item<float>());
    EXPECT_MISUSE(InvalidArgument, ("device_put", "inside"), device_put(x, devices()[0]));
    return x;
  })(ones({2}));
}

TEST(PmapError, UnboundAxis) {
  pmap(
      [](const Array& x) {
        EXPECT_MISUSE(UnboundAxisError, ("psum", "'k'", "not bound", "(i)"), lax::psum(x, "k"));
        return x;
      },
      {.axis_name = "i"})(ones({2}));
}

TEST(PmapError, LoweredInsideATrace) {
  const auto f = pmap(kUnchanged);
  jit([&](const Array& x) {
    EXPECT_MISUSE(InvalidState, ("pmap", "lower"), f.lower(x));
    return x;
  })(ones({2}));
}

TEST(PmapError, AnErrorInsideIsTheUsers) {
  struct Mine {};
  const auto f = pmap([](const Array& x) -> Array {
    throw Mine();
    return x;
  });
  EXPECT_THROW(f(ones({2})), Mine);
  EXPECT_THROW(jit(f)(ones({2})), Mine);
  EXPECT_EQ(pmap(kUnchanged)(ones({2})).shape(), (Shape{2})) << "the trace is over";
}

#undef EXPECT_BOTH_MISUSE

}  // namespace
}  // namespace shoal::test
