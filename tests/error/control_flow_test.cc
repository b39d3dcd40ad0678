// Loops and branches whose functions do not fit.
#include <functional>
#include <tuple>
#include <utility>
#include <vector>

#include "misuse.h"

namespace shoal::test {
namespace {

using Two = std::pair<Array, Array>;

Two sum_of(const Array& carry, const Array& x) { return {carry + x, x}; }

TEST(ControlFlowError, ACarryKeepsItsType) {
  const Array xs = ones({3, 2});
  const Array init = zeros({});
  const auto to_int = [](const Array& c, const Array& x) { return Two(c.astype(int32), x); };
  const auto of_x = [](const Array& c) { return c.astype(float32) / 2; };
  const Array number = zeros({}, {.dtype = int32});
  EXPECT_MISUSE(TypeMismatch,
                ("scan: the body returns the carry as float32[2], but it came as float32[]: a carry keeps its type"),
                lax::scan(sum_of, init, xs));
  EXPECT_MISUSE(TypeMismatch, ("scan: the body returns the carry as int32[]", "convert one of them with astype"),
                lax::scan(to_int, init, xs));
  EXPECT_MISUSE(TypeMismatch, ("while_loop: the body returns the carry as float32[], but it came as int32[]"),
                lax::while_loop([](const Array& c) { return c < 3; }, of_x, number));
  EXPECT_MISUSE(TypeMismatch, ("fori_loop: the body returns the carry as float32[], but it came as int32[]"),
                lax::fori_loop(
                    0, 3, [&](const Array&, const Array& c) { return of_x(c); }, number));
}

TEST(ControlFlowError, ACarryKeepsItsStructure) {
  using Arrays = std::vector<Array>;
  const auto longer = [](Arrays c, const std::tuple<>&) {
    c.push_back(c[0]);
    return std::pair(c, c[0]);
  };
  const Arrays init{ones({2})};
  EXPECT_MISUSE(TypeMismatch,
                ("scan: the body returns a carry of the structure vector([0]: leaf, [1]: leaf), but it came "
                 "as vector([0]: leaf)"),
                lax::scan(longer, init, std::tuple<>(), {.length = 2}));
}

TEST(ControlFlowError, Slices) {
  const auto last = [](const Array& c, const Two&) { return Two(c, c); };
  const auto none_of = [](const Array& c, const std::tuple<>&) { return Two(c, c); };
  const Array one = ones({});
  EXPECT_MISUSE(InvalidArgument,
                ("scan: xs [1] float32[2] has 2 slices along its first dimension, but xs [0] is for 3"),
                lax::scan(last, one, Two(ones({3}), ones({2}))));
  EXPECT_MISUSE(InvalidArgument, ("scan: the xs float32[3] has 3 slices", "but length is for 4"),
                lax::scan(sum_of, one, ones({3}), {.length = 4}));
  EXPECT_MISUSE(InvalidArgument, ("scan: xs [1] is the scalar float32[]"), lax::scan(last, one, Two(ones({3}), one)));
  EXPECT_MISUSE(InvalidArgument, ("scan: there are no xs, and no length"), lax::scan(none_of, one, std::tuple<>()));
  EXPECT_MISUSE(InvalidArgument, ("scan: length is -1; it must be at least 0"),
                lax::scan(none_of, one, std::tuple<>(), {.length = -1}));
  EXPECT_MISUSE(InvalidArgument, ("scan: unroll is 0; it must be at least 1"),
                lax::scan(sum_of, one, ones({3}), {.unroll = 0}));
  EXPECT_MISUSE(InvalidArgument, ("map: the xs is the scalar float32[]"),
                lax::map([](const Array& x) { return x; }, one));
}

TEST(ControlFlowError, Conditions) {
  const auto next = [](const Array& c) { return c + 1; };
  const Array x = ones({3});
  EXPECT_MISUSE(TypeMismatch, ("while_loop: the condition returns bool[3], and should return a bool scalar"),
                lax::while_loop([](const Array& c) { return c < 5; }, next, x));
  EXPECT_MISUSE(TypeMismatch, ("while_loop: the condition returns float32[], and should return a bool scalar"),
                lax::while_loop([](const Array& c) { return c.sum(); }, next, x));
  const auto same = [](const Array&, const Array& c) { return c; };
  EXPECT_MISUSE(TypeMismatch, ("fori_loop: a bound is int32[3], and should be an integer scalar"),
                lax::fori_loop(0, x.astype(int32), same, x));
  EXPECT_MISUSE(TypeMismatch, ("fori_loop", "float32"), lax::fori_loop(0, Array(3.5F), same, x));
  for (const int unroll : {0, -2}) {
    EXPECT_MISUSE(InvalidArgument, ("fori_loop: unroll is", "it must be at least 1"),
                  lax::fori_loop(0, 3, same, x, {.unroll = unroll}));
  }
}

TEST(ControlFlowError, Branches) {
  const auto same = [](const Array& a) { return a; };
  const auto sum = [](const Array& a) { return a.sum(); };
  const Array x = ones({3});
  const std::vector<std::function<Array(Array)>> branches = {same, sum};
  const std::vector<std::function<Array(Array)>> none_at_all;
  EXPECT_MISUSE(TypeMismatch, ("cond: the predicate is float32[3], and should be a scalar"),
                lax::cond(x, same, same, x));
  EXPECT_MISUSE(
      TypeMismatch,
      ("cond: the function for false returns the result as float32[], but the function for true as float32[3]: "
       "the types must be the same"),
      lax::cond(true, same, sum, x));
  EXPECT_MISUSE(TypeMismatch, ("switch_: branch 0 returns the result as float32[3], but branch 1 as float32[]"),
                lax::switch_(0, branches, x));
  EXPECT_MISUSE(TypeMismatch, ("switch_: the index is float32[], and should be an integer"),
                lax::switch_(1.5F, branches, x));
  EXPECT_MISUSE(InvalidArgument, ("switch_: there are no branches"), lax::switch_(0, none_at_all, x));
}

TEST(ControlFlowError, AssociativeScans) {
  const auto sum = [](const Array& a, const Array& b) { return (a + b).astype(float16); };
  const auto first = [](const Two& a, const Two&) { return a; };
  EXPECT_MISUSE(TypeMismatch, ("associative_scan: the function returns the element as float16[1], and should return"),
                lax::associative_scan(sum, ones({3})));
  EXPECT_MISUSE(InvalidArgument, ("associative_scan: element [1] is float32[2], but element [0] is float32[3]"),
                lax::associative_scan(first, Two(ones({3}), ones({2}))));
  EXPECT_MISUSE(OutOfRange, ("associative_scan"), lax::associative_scan(sum, ones({3}), {.axis = 1}));
}

TEST(ControlFlowError, DevicesThatPartMayNotCommunicate) {
  const unsigned line = __LINE__ + 2;
  const auto waits = [](const Array& x) {
    return lax::while_loop([](const Array& c) { return c.sum() < 10; },
                           [](const Array& c) { return c + lax::psum(c, "i"); }, x);
  };
  const auto f = shard_map(waits, {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = P("i")});
  const Array x = ones({8});
  EXPECT_MISUSE_AT(line, InvalidArgument,
                   ("while_loop: the predicate bool[]{V:i} differs between the devices along 'i'",
                    "and psum in the body is between them", "lax::pmax"),
                   f(x));
}

TEST(ControlFlowError, ACarryVariesOverTheAxesThatItCameWith) {
  const unsigned line = __LINE__ + 2;
  const auto f = [](const Array& x) {
    return lax::fori_loop(
        0, 3, [&](const Array&, const Array& c) { return c + x.sum(); }, 0.0F);
  };
  const auto mapped = shard_map(f, {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = P()});
  const Array x = ones({8});
  EXPECT_MISUSE_AT(line, TypeMismatch,
                   ("fori_loop: the body returns the carry as float32[]{V:i}, but it came as float32[]",
                    "make it vary over 'i' before the loop, by pcast to \"varying\""),
                   mapped(x));
}

TEST(ControlFlowError, ExplicitAxesOfCarriesAndSlices) {
  const Mesh mesh = make_mesh({8}, {"i"}, {.axis_types = {AxisType::kExplicit}});
  const Array x = device_put(ones({8, 8}), NamedSharding(mesh, P("i")));
  const auto moved = [&](const Array&, const Array& c) { return reshard(c, NamedSharding(mesh, P(none, "i"))); };
  EXPECT_MISUSE(TypeMismatch,
                ("fori_loop: the body returns the carry as float32[8,8@i], but it came as float32[8@i,8]"),
                lax::fori_loop(0, 3, moved, x));
  EXPECT_MISUSE(ShardingTypeError,
                ("map: the xs float32[8@i,8] is split over the Explicit axis 'i'", "reshard it first"),
                lax::map([](const Array& row) { return row; }, x));
}

TEST(ControlFlowError, AValueOfABodyDoesNotLeaveIt) {
  Array leaked;
  const auto keep = [&](const Array& c, const Array& x) {
    leaked = x;
    return Two(c, x);
  };
  lax::scan(keep, ones({}), ones({3}));
  EXPECT_MISUSE(InvalidState, ("scan"), leaked + 1);
  const auto keep_one = [&](const Array& c) {
    leaked = c;
    return c + 1;
  };
  const auto refused = [&](const char* name) { EXPECT_MISUSE(InvalidState, (name), leaked + 1); };
  lax::while_loop([](const Array& c) { return c < 3; }, keep_one, zeros({}));
  refused("of 'while_loop' is used outside the call that made it");
  lax::fori_loop(
      0, 3, [&](const Array&, const Array& c) { return keep_one(c); }, zeros({}));
  refused("of 'fori_loop'");
  lax::map(keep_one, ones({3}));
  refused("of 'map'");
  lax::cond(
      true, keep_one, [](const Array& c) { return c; }, ones({}));
  refused("of 'cond'");
  lax::switch_(Array(0), std::vector<std::function<Array(Array)>>{keep_one}, ones({}));
  refused("of 'switch_'");
  lax::reduce(ones({3}), 0.0F, [&](const Array& a, const Array& b) { return keep_one(a) * b; }, {0});
  refused("of 'reduce computation'");
}

// Trees that are not the same, wherever they are compared.
TEST(ControlFlowError, Structures) {
  using Arrays = std::vector<Array>;
  const auto grows = [](Arrays c) {
    c.push_back(c[0]);
    return c;
  };
  const auto same = [](const Arrays& c) { return c; };
  const Arrays one{zeros({})};
  EXPECT_MISUSE(TypeMismatch,
                ("while_loop: the body returns a carry of the structure vector([0]: leaf, [1]: leaf), but it came as"),
                lax::while_loop([](const Arrays& c) { return c[0] < 3; }, grows, one));
  EXPECT_MISUSE(TypeMismatch, ("fori_loop: the body returns a carry of the structure vector([0]: leaf, [1]: leaf)"),
                lax::fori_loop(
                    0, 3, [&](const Array&, const Arrays& c) { return grows(c); }, one));
  EXPECT_MISUSE(TypeMismatch,
                ("cond: the function for false returns vector([0]: leaf, [1]: leaf), but the function for true"),
                lax::cond(true, same, grows, one));
  EXPECT_MISUSE(TypeMismatch, ("switch_: branch 0 returns vector([0]: leaf, [1]: leaf), but branch 1 returns"),
                lax::switch_(0, std::vector<std::function<Arrays(Arrays)>>{grows, same}, one));
  EXPECT_MISUSE(InvalidArgument, ("map: xs [1] float32[2] has 2 slices", "but xs [0] is for 3"),
                lax::map([](const Arrays& c) { return c[0]; }, Arrays{ones({3}), ones({2})}));
  EXPECT_MISUSE(InvalidArgument, ("map: there are no xs"), lax::map([](const Arrays& c) { return c; }, Arrays()));
}

TEST(WhileLoopError, Checkpoints) {
  const auto goes_on = [](const Array& x) { return x < 4; };
  const auto trip = [](const Array& x) { return x * 2; };
  EXPECT_MISUSE(InvalidArgument, ("while_loop: max_checkpoints is 0; it must be at least 1"),
                lax::while_loop(goes_on, trip, Array(1.0F), {.max_checkpoints = 0}));
  EXPECT_MISUSE(
      InvalidArgument, ("fori_loop: max_checkpoints is -1; it must be at least 1"),
      lax::fori_loop(0, 3, [](const Array&, const Array& x) { return x * 2; }, Array(1.0F), {.max_checkpoints = -1}));
  const unsigned line = __LINE__ + 2;
  const auto apart = [&](const Array& x) {
    return lax::while_loop([](const Array& v) { return sum(v) < 4; }, trip, x, {.max_checkpoints = 2});
  };
  const auto f = shard_map(apart, {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = P("i")});
  const Array x = ones({8});
  EXPECT_MISUSE_AT(line, Unsupported,
                   ("while_loop: the predicate bool[]{V:i} differs between the devices along 'i'",
                    "a loop with max_checkpoints runs the same number of times on all", "lax::pmax"),
                   f(x));
}

TEST(TreeError, MapOfOtherStructures) {
  const auto f = [](const Array& x, const Array&) { return x; };
  EXPECT_MISUSE(
      TypeMismatch,
      ("tree::map: tree 2 is vector([0]: leaf, [1]: leaf), and the first is vector([0]: leaf); they must have "
       "the same structure"),
      tree::map(f, std::vector{Array(1.0)}, std::vector{Array(1.0), Array(2.0)}));
}

}  // namespace
}  // namespace shoal::test
