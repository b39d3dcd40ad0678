// Functions that join, split, repeat, rearrange and make arrays, against what JAX gave for the same expressions
// (testdata/movement.inc), and where their results lie.
#include <algorithm>
#include <cmath>
#include <complex>
#include <iterator>
#include <limits>
#include <utility>

#include "frontend/test_support.h"

namespace shoal::test {
namespace {

#define MOVED(...) []([[maybe_unused]] const Array& x) -> Array { return __VA_ARGS__; }

struct MovementCase {
  const char* python;
  Array (*function)(const Array& x);
  const char* result;
};

const MovementCase kCases[] = {
#include "frontend/testdata/movement.inc"
};

Array counted_blocks() { return arange(24).reshape(2, 3, 4); }

TEST(Movement, AsInJax) {
  const Array x = counted_blocks();
  for (const MovementCase& c : kCases) EXPECT_EQ(repr(c.function(x)), c.result) << c.python;
}

TEST(Movement, UnderJitAndOnSplitArrays) {
  const Array split = put(counted_blocks(), mesh_4x2(), P("y", none, "x"));
  for (const MovementCase& c : kCases) {
    EXPECT_EQ(repr(jit([&](const Array& x) { return c.function(x); })(split)), c.result) << c.python;
  }
}

// What f gives for arrays whose first dimension is split must be split as well, with nothing moved.
TEST(Movement, BatchesStayWhereTheyAre) {
  const NamedSharding rows(mesh_8(), P("i"));
  const Array x = device_put(iota({8, 12}), rows);
  const std::vector<std::pair<std::string, Array (*)(const Array&)>> functions = {
      {"concatenate",
       [](const Array& a) {
         return concatenate({a, a * 2}, 1);
       }},
      {"stack",
       [](const Array& a) {
         return stack({a, a}, 1);
       }},
      {"hstack",
       [](const Array& a) {
         return hstack({a, a});
       }},
      {"split", [](const Array& a) { return split(a, 3, 1)[1]; }},
      {"tile",
       [](const Array& a) {
         return tile(a, {1, 2});
       }},
      {"repeat", [](const Array& a) { return repeat(a, 2, 1); }},
      {"repeat rows", [](const Array& a) { return repeat(a, 2, 0); }},
      {"roll", [](const Array& a) { return roll(a, 2, 1); }},
      {"flip", [](const Array& a) { return flip(a, 1); }},
      {"pad",
       [](const Array& a) {
         return pad(a, {{0, 0}, {1, 2}});
       }},
      {"reflect",
       [](const Array& a) {
         return pad(a, {{0, 0}, {1, 2}}, {.mode = "reflect"});
       }},
      {"edge",
       [](const Array& a) {
         return pad(a, {{0, 0}, {1, 2}}, {.mode = "edge"});
       }},
      {"tril", [](const Array& a) { return tril(a); }},
      {"diag", [](const Array& a) { return diag(a); }},
      {"steps",
       [](const Array& a) {
         return a[{range(), range(none, none, -2)}];
       }},
      {"dynamic_slice", [](const Array& a) { return lax::dynamic_slice_in_dim(a, a.sum().astype(int32), 2, 1); }},
      {"dynamic_update_slice",
       [](const Array& a) {
         return lax::dynamic_update_slice_in_dim(a, a[{range(), range(0, 2)}], 3, 1);
       }},
      {"one_hot", [](const Array& a) { return nn::one_hot(a, 3); }},
      {"bitcast", [](const Array& a) { return lax::bitcast_convert_type(a, uint8); }},
      {"zeros_like", [](const Array& a) { return zeros_like(a) + a; }},
  };
  for (const auto& [name, function] : functions) {
    const std::string program =
        jit([&](const Array& a) { return function(a); }).lower(x).compile().as_text("partitioned");
    EXPECT_THAT(program, testing::Not(testing::HasSubstr("all_gather"))) << name;
    EXPECT_THAT(program, testing::Not(testing::HasSubstr("all_to_all"))) << name;
  }
}

TEST(Movement, SlicesTakeStepsOfAnyLength) {
  constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(ints(lax::slice(arange(64), {3}, {64}, Dims{kFar})), std::vector<int>{3});
  EXPECT_EQ(ints(arange(64)[range(none, none, kFar)]), std::vector<int>{0});
}

TEST(Movement, ManyArrays) {
  const std::vector<Array> rows(3, arange(2));
  EXPECT_EQ(ints(concatenate(rows)), (std::vector<int>{0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(stack(rows).shape(), (Shape{3, 2}));
  std::vector<Array> parts = split(concatenate(rows), {2, 4});
  EXPECT_EQ(parts.size(), 3U);
  EXPECT_EQ(ints(concatenate(parts)), ints(concatenate(rows)));
}

TEST(Movement, LinspaceEndsWhereItShould) {
  for (const double stop : {0.1, 1e-30, 7.3, 1e30}) {
    const std::vector<float> points = floats(linspace(-1.5, stop, 1000));
    EXPECT_EQ(points.front(), -1.5F);
    EXPECT_EQ(points.back(), static_cast<float>(stop));
    EXPECT_TRUE(std::is_sorted(points.begin(), points.end()));
  }
  EXPECT_EQ(linspace(0.0, std::complex<double>(0, 2), 3).to_vector<std::complex<float>>()[1],
            std::complex<float>(0, 1));
}

TEST(Movement, DiagonalsKeepTheirBits) {
  const Array x = array({{-0.0, 1.0}, {2.0, 3.0}});
  EXPECT_TRUE(std::signbit(floats(diag(x))[0]));
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(floats(diag(array({{-inf, inf}, {inf, -inf}}))), (std::vector<float>{-inf, -inf}));
  EXPECT_TRUE(std::isnan(floats(diag(array({{std::nan(""), 1.0}, {2.0, 3.0}})))[0]));
}

// ---- Arrays like another one.

TEST(Like, LiesWhereItsModelDoes) {
  const NamedSharding halves(mesh_4x2(), P("x", "y"));
  const Array x = device_put(iota({8, 4}), halves);
  for (const Array& y : {zeros_like(x), ones_like(x, {.dtype = int8}), full_like(x, 3), empty_like(x)}) {
    EXPECT_EQ(y.sharding(), Sharding(halves));
    EXPECT_TRUE(y.committed());
  }
  const NamedSharding rows(mesh_4x2(), P("x"));
  EXPECT_EQ(zeros_like(x, {.sharding = rows}).sharding(), Sharding(rows));
  EXPECT_FALSE(zeros_like(iota({2})).committed());
  const Array host = device_put(iota({8, 4}), halves.with_memory_kind(kPinnedHostMemory));
  EXPECT_EQ(ones_like(host).sharding().memory_kind(), kPinnedHostMemory);
}

TEST(Like, VariesAsItsModelDoes) {
  shard_map(
      [](const Array& x) {
        EXPECT_EQ(type_of(zeros_like(x)), type_of(x));
        return x;
      },
      {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = P("i")})(iota({8}));
}

// ---- Iteration.

TEST(Iteration, GivesTheRows) {
  std::vector<std::vector<float>> rows;
  for (const Array& row : iota({3, 2})) rows.push_back(floats(row));
  EXPECT_EQ(rows, (std::vector<std::vector<float>>{{0, 1}, {2, 3}, {4, 5}}));
  for (const Array& row : zeros({0, 2})) ADD_FAILURE() << row;
  EXPECT_EQ(std::distance(iota({4}).begin(), iota({4}).end()), 4);
}

TEST(Iteration, OfSplitArraysAndTracers) {
  const Array x = put(iota({8, 4}), mesh_4x2(), P("x", "y"));
  float expected = 0;
  for (const Array& row : x) {
    EXPECT_EQ(floats(row)[0], expected);
    EXPECT_EQ(spec_of(row), P("y"));
    expected += 4;
  }
  EXPECT_EQ(expected, 32);
  const auto last = jit([](const Array& a) {
    Array sum = zeros({4});
    for (const Array& row : a) sum = sum * 2 + row;
    return sum;
  });
  EXPECT_EQ(floats(last(iota({3, 4}))), (std::vector<float>{16, 23, 30, 37}));
}

TEST(Movement, PadsByRampsStatisticsAndMirrors) {
  const Array x = array({1, 4, 9});
  const auto padded = [&](std::string mode, PadOptions options = {}) {
    options.mode = std::move(mode);
    return repr(pad(x, {{2, 3}}, options));
  };
  EXPECT_EQ(padded("linear_ramp"), "Array([0, 0, 1, 4, 9, 6, 3, 0], dtype=int32)");
  EXPECT_EQ(padded("linear_ramp", {.end_values = -3}), "Array([-3, -1,  1,  4,  9,  5,  1, -3], dtype=int32)");
  EXPECT_EQ(padded("maximum", {.stat_length = PadWidth{{2, 1}}}), "Array([4, 4, 1, 4, 9, 9, 9, 9], dtype=int32)");
  EXPECT_EQ(padded("minimum"), "Array([1, 1, 1, 4, 9, 1, 1, 1], dtype=int32)");
  EXPECT_EQ(padded("mean"), "Array([5, 5, 1, 4, 9, 5, 5, 5], dtype=int32)");
  EXPECT_EQ(padded("median"), "Array([4, 4, 1, 4, 9, 4, 4, 4], dtype=int32)");
  EXPECT_EQ(padded("reflect", {.odd = true}), "Array([-7, -2,  1,  4,  9, 14, 17, 20], dtype=int32)");
  EXPECT_EQ(padded("symmetric", {.odd = true}), "Array([-2,  1,  1,  4,  9,  9, 14, 17], dtype=int32)");
}

}  // namespace
}  // namespace shoal::test
