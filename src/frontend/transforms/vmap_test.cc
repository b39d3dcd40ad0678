// vmap against one place after the other: every shape of it, nested, in jit and around it, with derivatives, loops,
// collectives and regions. That every op does in each place what it does is shown by tests/parity.
#include "shoal/vmap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "frontend/array/tracer_errors.h"
#include "frontend/test_support.h"
#include "sharding/test_support.h"
#include "shoal/control_flow.h"
#include "shoal/debug.h"
#include "shoal/derivatives.h"
#include "shoal/explicit_axes.h"
#include "shoal/linalg.h"
#include "shoal/pmap.h"

namespace shoal::test {
namespace {

using test_support::message_of;

using Function = std::function<Array(const Array&)>;

Array numbers(const Shape& shape) {
  return sin(reshape(arange(static_cast<double>(num_elements(shape))), shape) * 1.7);
}

Array stacked_places(const Function& f, const Array& x) {
  std::vector<Array> places;
  for (std::int64_t i = 0; i < x.shape()[0]; ++i) places.push_back(f(x[i]));
  return stack(places);
}

void expect_close(const Array& a, const Array& b, const std::string& what) {
  ASSERT_EQ(a.shape(), b.shape()) << what;
  EXPECT_EQ(a.dtype(), b.dtype()) << what;
  EXPECT_TRUE(all(isclose(a, b)).item<bool>()) << what << ": " << str(a) << " and " << str(b);
}

struct Case {
  const char* name;
  Function f;
  Shape shape;  // Of all places.
};

class VmapOf : public testing::TestWithParam<Case> {};

TEST_P(VmapOf, GivesWhatOnePlaceAfterTheOtherGives) {
  const Case& c = GetParam();
  const Array x = numbers(c.shape);
  const Array expected = stacked_places(c.f, x);
  expect_close(vmap(c.f)(x), expected, "outside of jit");
  expect_close(jit(vmap(c.f))(x), expected, "in jit");
  expect_close(vmap(jit(c.f))(x), expected, "of jit");
  const Array turned = moveaxis(x, 0, static_cast<std::int64_t>(x.ndim()) - 1);
  expect_close(vmap(c.f, {.in_axes = -1})(turned), expected, "along the last dimension");
  expect_close(moveaxis(vmap(c.f, {.out_axes = -1})(x), -1, 0), expected, "to the last dimension");
  const Mesh mesh = make_mesh({4}, {"i"});
  expect_close(jit(vmap(c.f))(device_put(x, NamedSharding(mesh, P("i")))), expected, "split over devices");
  const Array slopes =
      stacked_places([&](const Array& v) { return grad([&](const Array& u) { return sum(c.f(u)); })(v); }, x);
  expect_close(vmap(grad([&](const Array& u) { return sum(c.f(u)); }))(x), slopes, "the gradient in each place");
  expect_close(grad([&](const Array& v) { return sum(vmap(c.f)(v)); })(x), slopes, "the gradient of all");
  const Array twice = concatenate({expand_dims(x, 0), expand_dims(x * 0.5, 0)});
  expect_close(vmap(vmap(c.f))(twice), stacked_places([&](const Array& v) { return stacked_places(c.f, v); }, twice),
               "nested");
}

std::vector<Case> cases() {
  return {
      {"products", [](const Array& x) { return matmul(x, transpose(x)) + x[0][1]; }, {4, 3, 5}},
      {"reductions", [](const Array& x) { return sum(x, {.axis = 1}) * max(x) + mean(x); }, {4, 3, 5}},
      {"indices",
       [](const Array& x) {
         const Array at = argsort(x[0]);
         return x.at(1).set(x[2])[at[0] % 3] * take(x[1], at);
       },
       {4, 3, 5}},
      {"a loop",
       [](const Array& x) {
         const auto trip = [&](const Array& c, const Array& row) { return std::pair(sin(c) * x[0] + row, c * row); };
         const auto [last, ys] = lax::scan(trip, cos(x[0]), x);
         return last + sum(ys, {.axis = 0});
       },
       {4, 3, 5}},
      {"a branch by what is mapped",
       [](const Array& x) {
         return lax::cond(
             sum(x) > 0, [](const Array& v) { return sin(v) * v; }, [](const Array& v) { return v * 0.5; }, x);
       },
       {4, 3}},
      {"solve", [](const Array& x) { return linalg::solve(x + 4.0 * eye(3), x[0]); }, {4, 3, 3}},
      {"a pmap", pmap([](const Array& x) { return sin(x) * lax::psum(x * x, "p"); }, {.axis_name = "p"}), {4, 4, 3}},
      {"a shard_map",
       [](const Array& x) {
         const Mesh mesh = make_mesh({4}, {"d"});
         const auto f = [](const Array& v) { return lax::psum(sin(v), "d") * v; };
         return shard_map(f, {.mesh = mesh, .in_specs = {P("d")}, .out_specs = P("d")})(x);
       },
       {4, 4, 3}},
  };
}

INSTANTIATE_TEST_SUITE_P(Functions, VmapOf, testing::ValuesIn(cases()), [](const auto& instance) {
  std::string name = instance.param.name;
  std::erase_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
  return name;
});

TEST(Vmap, LoopsGoOnAsLongAsOnePlaceDoes) {
  const auto doubled = [](const Array& x) {
    return lax::while_loop([](const Array& c) { return c < 10.0; }, [](const Array& c) { return c * 2.0; }, x);
  };
  const Array x = array({1.F, 3.F, 20.F, 9.F});
  EXPECT_EQ(floats(vmap(doubled)(x)), (std::vector<float>{16, 12, 20, 18}));
  EXPECT_EQ(floats(jit(vmap(doubled))(x)), (std::vector<float>{16, 12, 20, 18}));
}

TEST(Vmap, WhatIsTheSameInAllPlacesIsConcrete) {
  const auto f = [](const Array& x, const Array& n) { return n.item<int>() > 2 ? x * n : x; };
  const Array x = array({1.F, 2.F});
  EXPECT_EQ(floats(vmap(f, {.in_axes = {0, none}})(x, 3)), (std::vector<float>{3, 6}));
  EXPECT_EQ(floats(vmap(f, {.in_axes = {0, none}})(x, 1)), (std::vector<float>{1, 2}));
}

TEST(Vmap, CollectivesCombineWhatIsInThePlaces) {
  const Array x = reshape(arange(6.0F), {3, 2});
  const VmapOptions named{.axis_name = "i"};
  EXPECT_EQ(floats(vmap([](const Array& v) { return lax::psum(v, "i"); }, named)(x)),
            (std::vector<float>{6, 9, 6, 9, 6, 9}));
  EXPECT_EQ(floats(vmap([](const Array& v) { return v * lax::axis_index("i"); }, named)(x)),
            (std::vector<float>{0, 0, 2, 3, 8, 10}));
  EXPECT_EQ(floats(vmap(
                [](const Array& v) {
                  return lax::ppermute(v, "i", {{0, 1}, {1, 2}});
                },
                named)(x)),
            (std::vector<float>{0, 0, 0, 1, 2, 3}));
  // The same axis of devices and of places, in one collective.
  const Mesh mesh = make_mesh({2}, {"d"});
  const auto both = vmap([](const Array& v) { return lax::psum(v, {"i", "d"}); }, named);
  const auto mapped = shard_map(both, {.mesh = mesh, .in_specs = {P(none, "d")}, .out_specs = P()});
  EXPECT_EQ(floats(mapped(x)), (std::vector<float>{15, 15, 15}));
}

// The innermost axis of a name is meant, be it one of places or of devices.
TEST(Vmap, AnAxisHidesOneOfItsName) {
  const Array x = reshape(arange(8.0F), {2, 4});
  const auto sum_over = [](const Array& v) { return lax::psum(v, "i"); };
  const auto of_devices = vmap(pmap(sum_over, {.axis_name = "i"}), {.axis_name = "i"});
  EXPECT_EQ(floats(of_devices(x)), (std::vector<float>{6, 6, 6, 6, 22, 22, 22, 22}));
  const auto of_both =
      vmap([&](const Array& v) { return pmap(sum_over, {.axis_name = "i"})(v) + sum_over(v); }, {.axis_name = "i"});
  EXPECT_EQ(floats(of_both(x)), (std::vector<float>{10, 12, 14, 16, 26, 28, 30, 32}));
  EXPECT_EQ(floats(vmap(vmap(sum_over, {.axis_name = "i"}), {.axis_name = "i"})(x)),
            (std::vector<float>{6, 6, 6, 6, 22, 22, 22, 22}));
}

// What a collective gives differs between the places, whatever came into the loop; what users see are types without
// that.
TEST(Vmap, LoopsCarryWhatCollectivesGive) {
  const VmapOptions named{.axis_name = "i"};
  const auto shifted = [](const Array& v) { return lax::ppermute(v, "i", {{0, 1}, {1, 2}, {2, 0}}); };
  const auto twice = [](const Function& f) {
    return [f](const Array& x) {
      return lax::fori_loop(
          0, 2, [f](const Array&, const Array& c) { return f(c); }, x);
    };
  };
  const auto as_often_as_all_say = [&](const Array& x) {
    return lax::while_loop([](const Array& c) { return lax::psum(c, "i").sum() < 60.0; },
                           [&](const Array& c) { return 2.0 * shifted(c); }, x);
  };
  const auto as_often_as_each_says = [&](const Array& x) {
    return lax::while_loop([&](const Array& c) { return shifted(c).sum() < 30.0; },
                           [&](const Array& c) { return c + lax::pmean(c, "i"); }, x);
  };
  // The inner loop gets what differs, and gives what does not.
  const auto nested = twice([&](const Array& x) {
    return twice([](const Array& c) { return lax::psum(c, "i"); })(shifted(x)) + lax::axis_index("i");
  });
  const Array x = reshape(arange(6.0F), {3, 2});
  const auto check = [&](const Function& f, const std::vector<float>& want) {
    EXPECT_EQ(floats(vmap(f, named)(x)), want);
    EXPECT_EQ(floats(jit(vmap(f, named))(x)), want);
    EXPECT_EQ(floats(vmap(jit(f), named)(x)), want);
  };
  check(twice(shifted), {2, 3, 4, 5, 0, 1});
  check(as_often_as_all_say, {8, 12, 16, 20, 0, 4});
  check(as_often_as_each_says, {14, 22, 16, 24, 18, 26});
  check(nested, {171, 252, 172, 253, 173, 254});
  EXPECT_EQ(floats(vmap(grad([&](const Array& v) { return sum(twice(shifted)(v) * v * v); }), named)(x)),
            floats(vmap(grad([&](const Array& v) { return sum(shifted(shifted(v)) * v * v); }), named)(x)));
}

// Where the mapped dimension is split over devices, what they have of it differs, and so does what derivatives keep.
TEST(Vmap, SplitOverAnAxisOfTheMesh) {
  const Mesh mesh = make_mesh({2, 4}, {"a", "b"});
  const auto f = shard_map([](const Array& x) { return square(lax::psum(x, "b")); },
                           {.mesh = mesh, .in_specs = {P("b")}, .out_specs = P()});
  const Array x = reshape(arange(8.0F), {2, 4});
  const auto total = [&](const VmapOptions& options) {
    return [&, options](const Array& v) { return sum(vmap(f, options)(v)); };
  };
  EXPECT_EQ(floats(grad(total({.spmd_axis_name = {"a"}}))(x)), floats(grad(total({}))(x)));
  EXPECT_EQ(floats(grad(total({.spmd_axis_name = {"a"}}))(x)), (std::vector<float>{12, 12, 12, 12, 44, 44, 44, 44}));
  // Where no types say what differs, too.
  const auto unchecked = shard_map([](const Array& v) { return sin(v) * v; },
                                   {.mesh = mesh, .in_specs = {P("b")}, .out_specs = P("b"), .check_vma = false});
  const auto slope = [&](const VmapOptions& options) {
    const Array ones_like_x = ones({2, 4});
    return std::pair(
        grad([&](const Array& v) { return sum(vmap(unchecked, options)(v)); })(x),
        jvp([&](const Array& v) { return vmap(unchecked, options)(v); }, std::tuple(x), std::tuple(ones_like_x))
            .second);
  };
  const auto [gradient, change] = slope({.spmd_axis_name = {"a"}});
  const auto [plain_gradient, plain_change] = slope({});
  EXPECT_EQ(floats(gradient), floats(plain_gradient));
  EXPECT_EQ(floats(change), floats(plain_change));
}

// A constraint says nothing of the mapped dimension, unless axes of the mesh split that.
TEST(Vmap, ConstraintsAreSplitBySpmdAxisName) {
  const Mesh mesh = make_mesh({2, 4}, {"a", "b"});
  const auto f = [&](const Array& x) { return with_sharding_constraint(x * 2, NamedSharding(mesh, P("b"))) + 1; };
  const Array x = put(iota({4, 8}), mesh, P());
  const auto mapped = [&](const VmapOptions& options) {
    return jit([&, options](const Array& v) { return vmap(f, options)(v); });
  };
  const Array split = mapped({.spmd_axis_name = {"a"}})(x);
  EXPECT_EQ(spec_of(split), P("a", "b"));
  EXPECT_TRUE(same(split, iota({4, 8}) * 2 + 1));
  EXPECT_EQ(spec_of(mapped({})(x)), P(none, "b"));
  const Array turned = mapped({.in_axes = 1, .out_axes = 1, .spmd_axis_name = {"a"}})(put(iota({8, 4}), mesh, P()));
  EXPECT_EQ(spec_of(turned), P("b", "a"));
}

// What Explicit axes split stays split, also where a function says how its result is.
TEST(Vmap, OverADimensionThatExplicitAxesSplit) {
  const Mesh mesh = make_mesh({2, 2}, {"x", "y"}, {.axis_types = {AxisType::kExplicit, AxisType::kExplicit}});
  const auto put = [&](const Array& array, const PartitionSpec& spec) {
    return device_put(array, NamedSharding(mesh, spec));
  };
  const Array a = put(numbers({4, 2, 2}), P("x", none, "y"));
  const Array b = put(numbers({4, 2, 2}), P("x", "y", none));
  const auto product = [&](const Array& v, const Array& w) { return matmul(v, w, NamedSharding(mesh, P(none, "y"))); };
  const auto moved = [&](const Array& v) { return reshard(v, NamedSharding(mesh, P("y", none))); };
  const auto summed = [](const Array& v) {
    return lax::scan([](const Array& c, const Array& s) { return std::pair(c + s, c); }, sum(v, {.axis = 0}), v).first;
  };
  const auto mapped = [&](const Array& v) { return vmap(product)(v, b); };
  for (const Function& f : {Function(mapped), Function(jit(mapped))}) {
    EXPECT_EQ(type_of(f(a)), "float32[4@x,2,2@y]");
    expect_close(f(a), matmul(numbers({4, 2, 2}), numbers({4, 2, 2})), "products");
  }
  EXPECT_EQ(type_of(vmap(moved)(a)), "float32[4@x,2@y,2]");
  EXPECT_EQ(type_of(vmap(summed)(a)), "float32[4@x,2@y]");
  EXPECT_EQ(type_of(vmap([](const Array&) { return zeros({3}); }, {.out_axes = 1})(a)), "float32[3,4@x]");
  EXPECT_EQ(type_of(vmap(grad([](const Array& v) { return sum(v * v); }))(a)), "float32[4@x,2,2@y]");
  const Array over_y = put(numbers({4, 2, 2}), P("y", none, none));
  EXPECT_THAT(message_of<InvalidArgument>([&] { vmap(product)(a, over_y); }),
              testing::HasSubstr("Explicit axes must split the mapped dimension of all arguments alike, but that of "
                                 "argument [0] f32[4@x,2,2@y] is split over (x), and that of argument [1] f32[4@y,2,2] "
                                 "over (y)"));
  const Array whole = put(numbers({2, 2}), P("x", none));
  EXPECT_THAT(message_of<InvalidArgument>([&] {
                vmap(product, {.in_axes = {0, none}})(a, whole);
              }),
              testing::HasSubstr("argument [1] f32[2@x,2] is the same in all places, but split over 'x'"));
  EXPECT_THAT(message_of<InvalidArgument>([&] { vmap(moved, {.spmd_axis_name = {"y"}})(a); }),
              testing::HasSubstr("spmd_axis_name is (y), but Explicit axes split the mapped dimension over (x)"));
}

TEST(Vmap, SaysWhatCannotBeSplitOverTheMesh) {
  const Mesh mesh = make_mesh({2}, {"d"});
  const auto on_mesh = [&](const Function& f) {
    return shard_map(f, {.mesh = mesh, .in_specs = P(), .out_specs = P()});
  };
  const auto same = on_mesh([](const Array& x) { return x; });
  EXPECT_THAT(message_of<IndivisibleError>([&] { vmap(same, {.spmd_axis_name = {"d"}})(zeros({3})); }),
              testing::HasSubstr("spmd_axis_name (d) has 2 devices, which do not divide the 3 places evenly"));
  const auto split =
      shard_map([](const Array& x) { return x; }, {.mesh = mesh, .in_specs = P("d"), .out_specs = P("d")});
  EXPECT_THAT(message_of<InvalidArgument>([&] {
                vmap(split, {.spmd_axis_name = {"d"}})(zeros({4, 4}));
              }),
              testing::HasSubstr("the mapped dimension is split over 'd', which therefore cannot appear in in_specs"));
  const auto summed = on_mesh([](const Array& x) { return lax::psum(x, "i"); });
  EXPECT_THAT(message_of<Unsupported>([&] { vmap(summed, {.axis_name = "i", .spmd_axis_name = {"d"}})(zeros({4})); }),
              testing::HasSubstr("a collective over the axis 'i' of vmap cannot be inside a shard_map over (d)"));
}

TEST(Vmap, CallsTheUserPlaceByPlace) {
  std::vector<float> seen;
  const auto f = [&](const Array& x) {
    debug::callback([&](const std::vector<Array>& given) { seen.push_back(given[0].item<float>()); }, {x});
    return x * 2.0F;
  };
  const Array x = array({1.F, 2.F, 3.F});
  EXPECT_EQ(floats(vmap(f)(x)), (std::vector<float>{2, 4, 6}));
  EXPECT_EQ(seen, (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(floats(jit(vmap(f))(x)), (std::vector<float>{2, 4, 6}));
  EXPECT_EQ(seen, (std::vector<float>{1, 2, 3, 1, 2, 3}));
}

TEST(Vmap, OfNoPlaces) {
  EXPECT_EQ(vmap([](const Array& x) { return sin(x) * sum(x); })(zeros({0, 3})).shape(), (Shape{0, 3}));
}

TEST(Vmap, MappedArraysPrintTheirTypes) {
  std::string text;
  vmap([&](const Array& x) {
    text = str(x) + repr(x);
    return x;
  })(zeros({3, 2}));
  EXPECT_EQ(text, "Tracer<float32[2] in vmap>Tracer<float32[2] in vmap>");
}

TEST(Vmap, ErrorsSayWhatIsWrong) {
  const auto same = [](const Array& x) { return x; };
  const auto add = [](const Array& x, const Array& y) { return x + y; };
  EXPECT_THAT(message_of<InvalidArgument>([&] { vmap(add)(zeros({3}), zeros({4})); }),
              testing::HasSubstr("vmap: all mapped dimensions must be of one size, but dimension 0 of argument [0] "
                                 "float32[3] has extent 3, and dimension 0 of argument [1] float32[4] has extent 4"));
  EXPECT_THAT(message_of<InvalidArgument>([&] { vmap(same, {.in_axes = none})(zeros({3})); }),
              testing::HasSubstr("no argument is mapped; map one by in_axes, or give axis_size"));
  EXPECT_THAT(message_of<OutOfRange>([&] { vmap(same, {.in_axes = 2})(zeros({3})); }),
              testing::HasSubstr("in_axes is 2 for argument [0] float32[3]; allowed is -1 to 0"));
  EXPECT_THAT(message_of<InvalidArgument>([&] { vmap(same, {.out_axes = none})(zeros({3})); }),
              testing::HasSubstr("out_axes none for the result says that it is the same in all places, but its value "
                                 "float32[] depends on what is mapped"));
  EXPECT_THAT(
      message_of<ValueOfTracer>([&] { vmap([](const Array& x) { return x.item<float>() > 0 ? x : -x; })(zeros({3})); }),
      testing::HasSubstr("the array f32[] of 'vmap' stands for those of all places"));
  EXPECT_THAT(message_of<UnboundAxisError>(
                  [&] { vmap([](const Array& x) { return lax::psum(x, "j"); }, {.axis_name = "i"})(zeros({3})); }),
              testing::HasSubstr("axis 'j' is not bound here: the axes bound here are (i)"));
}

}  // namespace
}  // namespace shoal::test
