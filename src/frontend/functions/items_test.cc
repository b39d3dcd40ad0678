// Items by index, updates, order and positions, against what JAX gave for the same expressions (testdata/items.inc), on
// whole and on split arrays, eagerly and under jit; and what is moved for them.
#include <cmath>
#include <limits>

#include "frontend/test_support.h"
#include "shoal/ops.h"

namespace shoal::test {
namespace {

struct Expression {
  const char* python;
  Array (*cpp)();
  const char* result;
};

// The names that the expressions use.
Array X, Y, Z, V, A, B, C, FAR;

void make_names() {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  X = arange(60).reshape(3, 4, 5);
  Y = array({1.0F, kNan, 0.0F, 2.0F, -kInf, 2.0F, kNan, -3.0F});
  Z = array({{3, 1, 3, 2}, {0, 5, 5, -1}});
  V = arange(5.0);
  A = array({0, 2, -1});
  B = array({1, 3}).reshape(2, 1);
  C = array({0, 2});
  FAR = array({0, -1, -6, 7});
}

const Expression kExpressions[] = {
#include "frontend/testdata/items.inc"
};

TEST(Items, AsInJax) {
  make_names();
  for (const Expression& expression : kExpressions) {
    try {
      EXPECT_EQ(repr(expression.cpp()), expression.result) << expression.python;
    } catch (const Error& error) {
      ADD_FAILURE() << expression.python << ": " << error.what();
    }
  }
}

// Splits the arrays that are large enough along an axis each.
void split_names() {
  make_names();
  X = put(X, mesh_4x2(), P(none, "x", none));
  Y = put(Y, mesh_4x2(), P("x"));
  Z = put(Z, mesh_4x2(), P("y", "x"));
  C = put(C, mesh_4x2(), P("y"));
}

TEST(Items, OfSplitArrays) {
  split_names();
  for (const Expression& expression : kExpressions) {
    try {
      EXPECT_EQ(repr(expression.cpp()), expression.result) << expression.python;
    } catch (const Error& error) {
      ADD_FAILURE() << expression.python << ": " << error.what();
    }
  }
}

// Those that need values say so; all others give the same.
TEST(Items, UnderJit) {
  split_names();
  int traced = 0;
  for (const Expression& expression : kExpressions) {
    const auto f = jit([&](const std::vector<Array>& names) {
      X = names[0], Y = names[1], Z = names[2], V = names[3], A = names[4], B = names[5], C = names[6], FAR = names[7];
      return expression.cpp();
    });
    const std::vector<Array> names = {X, Y, Z, V, A, B, C, FAR};
    try {
      EXPECT_EQ(repr(f(names)), expression.result) << expression.python;
      ++traced;
    } catch (const InvalidState& error) {
      EXPECT_THAT(error.what(), testing::AnyOf(testing::HasSubstr("while tracing"), testing::HasSubstr("being traced")))
          << expression.python;
    }
    X = names[0], Y = names[1], Z = names[2], V = names[3], A = names[4], B = names[5], C = names[6], FAR = names[7];
  }
  EXPECT_GT(traced, static_cast<int>(std::size(kExpressions)) * 4 / 5);
}

// ---- Where results lie.

TEST(Items, UpdatesKeepTheSharding) {
  const Array x = put(iota({8, 6}), mesh_4x2(), P("x", "y"));
  const Array rows = array({1, 6, 1});
  const std::vector<Array> updated = {
      x.at(3).set(0),
      x.at(range(2, 5), range(0, 6, 2)).set(1),
      x.at(rows).set(2),
      x.at(rows).add(ones({3, 6})),
      x.at(rows, array({0, 5, 3})).max(100),
      x.at(rows, 2).multiply(3),
      x.at(x > 7).set(0),
      x.at(ellipsis).set(0),
      x.at(range(0, 2)).apply([](const Array& part) { return sqrt(part); }),
  };
  const Array whole = iota({8, 6});
  const std::vector<Array> expected = {
      whole.at(3).set(0),
      whole.at(range(2, 5), range(0, 6, 2)).set(1),
      whole.at(rows).set(2),
      whole.at(rows).add(ones({3, 6})),
      whole.at(rows, array({0, 5, 3})).max(100),
      whole.at(rows, 2).multiply(3),
      whole.at(whole > 7).set(0),
      whole.at(ellipsis).set(0),
      whole.at(range(0, 2)).apply([](const Array& part) { return sqrt(part); }),
  };
  for (std::size_t i = 0; i < updated.size(); ++i) {
    EXPECT_EQ(updated[i].sharding(), x.sharding()) << i;
    EXPECT_TRUE(same(updated[i], expected[i])) << i << "\n" << updated[i];
  }
}

// The names of the collectives in a function's program for these arguments.
template <class F>
std::string collectives_named(F&& f, const Array& x, const Array& y) {
  const std::string text = jit(f).lower(x, y).compile().as_text("partitioned");
  std::string found;
  for (const char* name : {"all_gather", "all_reduce", "reduce_scatter", "all_to_all", "collective_permute"}) {
    if (text.find(std::string("= ") + name) != std::string::npos) found += std::string(name) + " ";
  }
  return found;
}

TEST(Items, WhatIsSplitByBatchesMovesNothing) {
  const Array x = put(iota({8, 6}), mesh_4x2(), P("x"));
  const Array y = put(broadcast_to(array({3, 0, 5}), {8, 3}), mesh_4x2(), P("x"));
  const auto moved = [&](auto&& f) { return collectives_named(f, x, y); };
  EXPECT_EQ(moved([](const Array& a, const Array&) { return sort(a); }), "");
  EXPECT_EQ(moved([](const Array& a, const Array&) { return argsort(a); }), "");
  EXPECT_EQ(moved([](const Array& a, const Array&) { return lax::top_k(a, 2).second; }), "");
  EXPECT_EQ(moved([](const Array& a, const Array&) { return cumsum(a, {.axis = 1}); }), "");
  EXPECT_EQ(moved([](const Array& a, const Array&) { return argmax(a, {.axis = 1}); }), "");
  EXPECT_EQ(moved([](const Array& a, const Array& b) { return take_along_axis(a, b, 1); }), "");
  EXPECT_EQ(moved([](const Array& a, const Array& b) { return put_along_axis(a, b, 0, 1); }), "");
  EXPECT_EQ(moved([](const Array& a, const Array&) { return take(a, array({1, 4}), {.axis = 1}); }), "");
  EXPECT_EQ(moved([](const Array& a, const Array& b) { return take(arange(6.0), b) + 0 * a.sum(1).reshape(8, 1); }),
            "");
}

TEST(Items, SplitTablesAreNotGathered) {
  const Array table = put(iota({64, 32}), mesh_4x2(), P("x"));
  const Array ids = put(array({3, 60, 17, 3}), mesh_4x2(), P());
  // Each device looks up what it has, and the items are added up.
  const auto look_up = [](const Array& t, const Array& i) { return t[i]; };
  EXPECT_EQ(collectives_named(look_up, table, ids), "all_reduce ");
  EXPECT_TRUE(same(jit(look_up)(table, ids), iota({64, 32})[array({3, 60, 17, 3})]));
  // Each device keeps its part of the gradient.
  const auto update = [](const Array& t, const Array& i) { return t.at(i).add(ones({4, 32})); };
  EXPECT_EQ(collectives_named(update, table, ids), "");
  const auto replace = [](const Array& t, const Array& i) { return t.at(i).set(ones({4, 32})); };
  EXPECT_EQ(collectives_named(replace, table, ids), "");
  // Sums of split items stay partial until they are complete.
  const auto count = [](const Array& t, const Array&) { return ops::segment_sum(t, arange(64) % 4, 4); };
  EXPECT_EQ(collectives_named(count, table, ids), "all_reduce ");
}

TEST(Items, ArgmaxAlongASplitDimension) {
  const Array x = put(sin(iota({64, 32})), mesh_4x2(), P("x"));
  const auto f = [](const Array& a, const Array&) { return argmax(a, {.axis = 0}); };
  EXPECT_EQ(collectives_named(f, x, x), "all_reduce ");
  EXPECT_TRUE(same(jit(f)(x, x), argmax(sin(iota({64, 32})), {.axis = 0})));
}

TEST(Items, OfArraysOnTheHost) {
  const Array x = device_put(iota({8}), NamedSharding(mesh_8(), P("i"), {.memory_kind = kPinnedHostMemory}));
  const Array set = x.at(range(2, 4)).set(0);
  EXPECT_EQ(floats(set), (std::vector<float>{0, 1, 0, 0, 4, 5, 6, 7}));
  EXPECT_EQ(set.sharding(), x.sharding());
}

TEST(Items, NegativeZerosStay) {
  const Array x = put(full({8}, -0.0), mesh_8(), P("i"));
  const Array read = x[array({1, 5})];
  const Array added = x.at(array({2})).add(0.0);
  for (const float value : floats(read)) EXPECT_TRUE(std::signbit(value));
  std::vector<float> values = floats(added);
  EXPECT_FALSE(std::signbit(values[2]));
  values.erase(values.begin() + 2);
  for (const float value : values) EXPECT_TRUE(std::signbit(value));
}

TEST(Items, WeakNumbersTakeTheArraysDtype) {
  const Array x = zeros({3}, {.dtype = bfloat16});
  EXPECT_EQ(x.at(0).set(1.5).dtype(), bfloat16);
  EXPECT_EQ(x.at(0).add(1).dtype(), bfloat16);
  EXPECT_EQ(zeros({3}, {.dtype = int8}).at(array({0})).set(5).dtype(), int8);
  EXPECT_EQ(arange(3).at(0).divide(2).dtype(), float32);
}

TEST(Items, InsideShardMap) {
  const Array x = put(iota({8, 4}), mesh_8(), P("i"));
  const auto f = shard_map([](const Array& row) { return sort(row, {.descending = true}).at(0, 0).set(-1.0); },
                           {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = P("i")});
  const Array expected = sort(iota({8, 4}), {.descending = true}).at(range(), 0).set(-1.0);
  EXPECT_TRUE(same(f(x), expected));
  EXPECT_TRUE(same(jit(f)(x), expected));
}

}  // namespace
}  // namespace shoal::test
