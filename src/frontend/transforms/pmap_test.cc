// pmap: slices in, stacked results out; in_axes and out_axes; pmaps inside each other, jit and shard_map.
#include "shoal/pmap.h"

#include <map>
#include <thread>
#include <tuple>

#include "frontend/test_support.h"

namespace shoal::test {
namespace {

const auto kIdentity = [](const Array& x) { return x; };
const auto kTwice = [](const Array& x) { return 2 * x; };

std::vector<Device> reversed_devices() {
  std::vector<Device> list = devices();
  std::reverse(list.begin(), list.end());
  return list;
}

// ---- Slices.

TEST(Pmap, StaticArguments) {
  const auto f = pmap([](Array x, int power) {
    for (int i = 1; i < power; ++i) x = x * x;
    return x;
  });
  EXPECT_TRUE(same(f(arange(4), 1), arange(4)));
  EXPECT_TRUE(same(f(arange(4), 2), arange(4) * arange(4)));
}

TEST(Pmap, MapsTheFirstDimension) {
  std::vector<Shape> shapes;
  const auto f = pmap([&](const Array& x) {
    shapes.push_back(x.shape());
    return x.sum();
  });
  const Array y = f(iota({8, 3}));
  EXPECT_EQ(shapes, std::vector<Shape>{Shape{3}}) << "traced once";
  EXPECT_EQ(floats(y), (std::vector<float>{3, 12, 21, 30, 39, 48, 57, 66}));
  f(iota({8, 3}));
  EXPECT_EQ(shapes.size(), 1U) << "and kept";
  f(iota({4, 3}));
  EXPECT_EQ(shapes.size(), 2U);
}

TEST(Pmap, ResultsAreOrdinaryArrays) {
  const Array y = pmap(kTwice, {.axis_name = "i"})(iota({8, 3}));
  EXPECT_EQ(y.sharding(), Sharding(NamedSharding(make_mesh({8}, {"i"}), P("i"))));
  EXPECT_TRUE(y.committed());
  EXPECT_TRUE(same(y[5], 2 * iota({8, 3})[5]));
  EXPECT_EQ(to_string(y.addressable_shards()[3].index), "(slice(3, 4, None), slice(None, None, None))");
  // And ordinary arguments: nothing moves, whatever made them.
  EXPECT_TRUE(same(pmap(kTwice, {.axis_name = "i"})(y), 4 * iota({8, 3})));
  const Array elsewhere = put(iota({8, 2}), mesh_4x2(), P(none, "y"));
  EXPECT_TRUE(same(pmap(kTwice, {.axis_name = "i"})(elsewhere), 2 * iota({8, 2})));
  EXPECT_EQ(pmap(kTwice, {.axis_name = "i"})(elsewhere).sharding(), y.sharding());
}

TEST(Pmap, TakesTheFirstDevices) {
  const Array y = pmap(kIdentity)(iota({3}));
  EXPECT_EQ(y.devices(), (std::set<Device>{devices()[0], devices()[1], devices()[2]}));
}

TEST(Pmap, AxesOfArgumentsAndResults) {
  const Array x = iota({2, 4, 3});
  for (const std::int64_t in : {1, -2}) {
    for (const std::int64_t out : {0, 1, 2, -1, -3}) {
      const Array y = pmap(kIdentity, {.in_axes = in, .out_axes = out})(x);
      const std::int64_t at = out < 0 ? out + 3 : out;
      for (int i = 0; i < 4; ++i) {
        std::vector<IndexEntry> slice(3, range());
        slice[static_cast<std::size_t>(at)] = i;
        EXPECT_TRUE(same(y.at(slice).get(), x[{range(), i, range()}])) << in << ' ' << out << ' ' << i;
      }
    }
  }
}

TEST(Pmap, NoneIsWholeAndTheSame) {
  const auto f = pmap(
      [](const Array& x, const Array& y) {
        EXPECT_EQ(y.shape(), (Shape{3}));
        return std::pair{x + y, y * 2};
      },
      {.in_axes = {0, none}, .out_axes = {0, none}});
  const auto [sum, twice] = f(iota({8, 3}), iota({3}));
  EXPECT_TRUE(same(sum, iota({8, 3}) + iota({3})));
  EXPECT_TRUE(same(twice, iota({3}) * 2));
  EXPECT_EQ(floats(pmap([](const Array& x, const Array& y) { return x + y; }, {.in_axes = {0, none}})(iota({2}), 5)),
            (std::vector<float>{5, 6}));
}

struct Layer {
  Array weights;
  Array bias;
};

TEST(Pmap, GivesUpItsPrograms) {
  int traced = 0;
  const auto f = pmap([&](const Array& x) {
    ++traced;
    return x + 1;
  });
  f(ones({2, 3}));
  const int once = traced;
  f(ones({2, 3}));
  EXPECT_EQ(traced, once);
  EXPECT_EQ(f.cache_size(), 1U);
  f.clear_cache();
  EXPECT_EQ(f.cache_size(), 0U);
  f(ones({2, 3}));
  EXPECT_EQ(traced, 2 * once);
}

TEST(Pmap, DonatedArrays) {
  const auto add = pmap([](const Array& x, const Array& y) { return x + y; }, {.donate_argnums = {0}});
  const Array x = pmap(kTwice)(iota({8}));
  const Array y = pmap(kIdentity)(iota({8}));
  EXPECT_TRUE(same(add(x, y), 3 * iota({8})));
  EXPECT_TRUE(x.is_deleted());
  EXPECT_FALSE(y.is_deleted());
  const Array elsewhere = put(iota({8}), mesh_4x2(), P("x"));
  EXPECT_TRUE(same(add(elsewhere, y), 2 * iota({8})));
  EXPECT_FALSE(elsewhere.is_deleted()) << "it was moved";
  const Array on_one = iota({8});
  EXPECT_TRUE(same(add(on_one, y), 2 * iota({8})));
  EXPECT_FALSE(on_one.is_deleted()) << "it was moved";
}

TEST(Pmap, Trees) {
  const auto f = pmap(
      [](const Layer& layer, const std::map<std::string, Array>& inputs) {
        return std::map<std::string, Array>{{"out", matmul(layer.weights, inputs.at("x")) + layer.bias},
                                            {"count", lax::psum(inputs.at("n"), "batch")}};
      },
      {.axis_name = "batch", .in_axes = {none, {none, 1}}, .out_axes = {none, 1}});
  const std::map<std::string, Array> y =
      f(Layer{iota({2, 3}), iota({2})}, std::map<std::string, Array>{{"n", full({}, 2)}, {"x", iota({3, 4})}});
  EXPECT_TRUE(same(y.at("out"), matmul(iota({2, 3}), iota({3, 4})) + iota({2}).reshape(2, 1)));
  EXPECT_EQ(y.at("count").item<int>(), 8);
}

TEST(Pmap, ConstantsAndCaptures) {
  const Array captured = iota({3});
  EXPECT_TRUE(same(pmap([&](const Array& x) { return x * captured; })(iota({4, 3})), iota({4, 3}) * captured));
  EXPECT_EQ(floats(pmap([](const Array&) { return full({2}, 3.0); })(iota({2}))), (std::vector<float>{3, 3, 3, 3}));
  EXPECT_TRUE(same(pmap([&](const Array&) { return captured; }, {.out_axes = none})(iota({4})), captured));
  const auto positions = pmap([] { return lax::axis_index("i"); }, {.axis_name = "i", .axis_size = 5});
  EXPECT_EQ(positions().to_vector<std::int32_t>(), (std::vector<std::int32_t>{0, 1, 2, 3, 4}));
}

TEST(Pmap, GivenDevices) {
  const std::vector<Device> list = reversed_devices();
  const Array y = pmap(kTwice, {.devices = list})(iota({8}));
  EXPECT_TRUE(same(y, 2 * iota({8})));
  EXPECT_EQ(y.addressable_shards()[0].device, devices()[7]);
  const Array one = pmap(kTwice, {.devices = std::vector{devices()[5]}})(iota({1, 2}));
  EXPECT_EQ(one.devices(), std::set<Device>{devices()[5]});
  // Committed arguments move.
  EXPECT_TRUE(same(pmap(kTwice)(y), 4 * iota({8})));
  EXPECT_TRUE(same(pmap(kTwice, {.devices = list})(device_put(iota({8}), devices()[2])), 2 * iota({8})));
}

TEST(Pmap, Lowered) {
  const auto f = pmap([](const Array& x) { return lax::psum(x, "i"); }, {.axis_name = "i", .out_axes = none});
  const auto lowered = f.lower(iota({8}));
  EXPECT_NE(lowered.as_text().find("all_reduce"), std::string::npos);
  const auto compiled = lowered.compile();
  EXPECT_EQ(compiled(iota({8})).item<float>(), 28);
  EXPECT_THROW(compiled(iota({4})), TypeMismatch);
}

TEST(Pmap, Rule30) {
  // A cellular automaton whose row is spread over the devices: each sends its edges to its neighbours.
  const auto step = [](const Array& cells) {
    std::vector<std::pair<int, int>> right;
    std::vector<std::pair<int, int>> left;
    for (int i = 0; i < 8; ++i) {
      right.emplace_back(i, (i + 1) % 8);
      left.emplace_back((i + 1) % 8, i);
    }
    const Array before = lax::ppermute(cells[{range(3, 4)}], "i", right);
    const Array after = lax::ppermute(cells[{range(0, 1)}], "i", left);
    const auto shifted = [&](const Array& edge, bool from_left) {
      const Array wide = matmul(cells.reshape(1, 4), array({{0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}, {0, 0, 0, 0}}));
      const Array narrow = matmul(cells.reshape(1, 4), array({{0, 0, 0, 0}, {1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}}));
      return from_left ? wide.reshape(4) + edge * array({1, 0, 0, 0}) : narrow.reshape(4) + edge * array({0, 0, 0, 1});
    };
    return bitwise_xor(shifted(before, true), bitwise_or(cells, shifted(after, false)));
  };
  std::vector<std::int32_t> expected(32, 0);
  expected[16] = 1;
  Array cells = array(expected).reshape(8, 4);
  const auto f = pmap(step, {.axis_name = "i"});
  for (int generation = 0; generation < 10; ++generation) {
    cells = f(cells);
    std::vector<std::int32_t> next(32);
    for (std::size_t i = 0; i < 32; ++i) next[i] = expected[(i + 31) % 32] ^ (expected[i] | expected[(i + 1) % 32]);
    expected = next;
    EXPECT_EQ(cells.to_vector<std::int32_t>(), expected) << generation;
  }
}

// ---- Inside and around others.

TEST(Pmap, Nested) {
  int traces = 0;
  const auto f =
      pmap(pmap(
               [&](const Array& x) {
                 ++traces;
                 return std::tuple{lax::psum(x, "rows"), lax::psum(x, "cols"), lax::psum(x, {"rows", "cols"}),
                                   lax::axis_index({"rows", "cols"}) + 10 * lax::axis_index("cols")};
               },
               {.axis_name = "cols"}),
           {.axis_name = "rows"});
  const Array x = iota({4, 2});
  const auto [rows, cols, all, position] = f(x);
  EXPECT_TRUE(same(rows, x * 0 + x.sum(0)));
  EXPECT_TRUE(same(cols, x * 0 + x.sum(1).reshape(4, 1)));
  EXPECT_TRUE(same(all, x * 0 + x.sum()));
  EXPECT_EQ(position.to_vector<std::int32_t>(), (std::vector<std::int32_t>{0, 11, 2, 13, 4, 15, 6, 17}));
  EXPECT_EQ(position.sharding(), Sharding(NamedSharding(make_mesh({4, 2}, {"rows", "cols"}), P("rows", "cols"))));
  EXPECT_EQ(traces, 1) << "the function is reached only when there are devices for it";
  f(x + 1);
  EXPECT_EQ(traces, 1);
}

TEST(Pmap, NestedThreeDeep) {
  const auto index = [](const Array& x) {
    return x + lax::axis_index("a") * 100 + lax::axis_index("b") * 10 + lax::axis_index("c");
  };
  const auto f =
      pmap(pmap(pmap(index, {.axis_name = "c"}), {.axis_name = "b", .out_axes = 1}), {.axis_name = "a", .in_axes = 2});
  const Array x = arange(8).reshape(2, 2, 2) * 0;
  EXPECT_EQ(f(x).to_vector<std::int32_t>(), (std::vector<std::int32_t>{0, 10, 1, 11, 100, 110, 101, 111}));
  EXPECT_EQ(jit([&](const Array& y) { return f(y); })(x).to_vector<std::int32_t>(), f(x).to_vector<std::int32_t>());
}

TEST(Pmap, SiblingsOfDifferentSizes) {
  const auto inner = [](const char* name) {
    return pmap([name](const Array& x) { return x / lax::psum(x, name); }, {.axis_name = name});
  };
  const auto f = pmap(
      [&](const Array& x, const Array& y) {
        return std::pair{inner("a")(x), inner("b")(y)};
      },
      {.axis_name = "rows"});
  const Array x = iota({2, 2}) + 1;
  const Array y = iota({2, 4}) + 1;
  for (const auto& [a, b] : {f(x, y), jit([&](const Array&u, const Array&v) { return f(u, v); })(x, y)}) {
    EXPECT_TRUE(same(a, x / x.sum(1).reshape(2, 1)));
    EXPECT_TRUE(same(b, y / y.sum(1).reshape(2, 1)));
    EXPECT_EQ(a.devices().size(), 8U);
  }
}

TEST(Pmap, NestedOverDevicesOfTheOuter) {
  const auto f = pmap(pmap(kTwice), {.devices = reversed_devices()});
  const Array y = f(iota({4, 2}));
  EXPECT_TRUE(same(y, 2 * iota({4, 2})));
  EXPECT_EQ(y.addressable_shards()[0].device, devices()[7]);
}

TEST(Pmap, SizeOne) {
  EXPECT_TRUE(same(pmap(pmap(kTwice))(iota({1, 1})), 2 * iota({1, 1})));
  EXPECT_TRUE(same(pmap(pmap(kTwice))(iota({8, 1})), 2 * iota({8, 1})));
}

TEST(Pmap, JitInsideAndOutside) {
  const auto sum = jit([](const Array& x) { return lax::psum(x, "i") + x; });
  const auto f = pmap(sum, {.axis_name = "i"});
  const Array x = iota({8});
  EXPECT_TRUE(same(f(x), x + 28));
  EXPECT_TRUE(same(jit([&](const Array& y) { return f(f(y)); })(x), (x + 28) + (x + 28).sum()));
  // One inner function in pmaps over different devices.
  const auto other = pmap(pmap(sum, {.axis_name = "j"}), {.axis_name = "i", .devices = reversed_devices()});
  EXPECT_TRUE(same(other(x.reshape(4, 2)), x.reshape(4, 2) + x.reshape(4, 2).sum(0)));
  const auto through = jit([](const Array& y) { return pmap(kTwice)(y); });
  EXPECT_TRUE(same(pmap(through)(iota({4, 2})), 2 * iota({4, 2})));
  EXPECT_TRUE(same(pmap(through)(iota({2, 2})), 2 * iota({2, 2})));
  EXPECT_TRUE(same(pmap(through, {.devices = reversed_devices()})(iota({4, 2})), 2 * iota({4, 2})));
}

TEST(Pmap, ShardMapInside) {
  const Mesh mesh = make_mesh({4, 2}, {"i", "y"});
  const auto inner = shard_map(
      [](const Array& x) {
        return lax::psum(x, {"i", "y"}) + 0 * x;
      },
      {.mesh = mesh, .in_specs = P("y"), .out_specs = P("y")});
  const Array x = iota({4, 2});
  EXPECT_TRUE(same(pmap(inner, {.axis_name = "i"})(x), 0 * x + x.sum()));
}

TEST(Pmap, InsideShardMap) {
  const Array x = iota({8, 2});
  const auto rows = pmap([](const Array& y) { return y + lax::psum(y, {"x", "i"}); }, {.axis_name = "i"});
  for (const Mesh& mesh : {make_mesh({4, 2}, {"x", "y"}), make_mesh({2, 4}, {"y", "x"})}) {
    const auto f = shard_map([&](const Array& y) { return rows(y.T()).T(); },
                             {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x"), .axis_names = {"x"}});
    const Array expected =
        x + (x.reshape(4, 2, 2).sum(0) + 0 * x.reshape(4, 2, 2)).reshape(8, 2).sum({.axis = {1}}).reshape(8, 1);
    EXPECT_TRUE(same(jit(f)(x), expected)) << mesh;
    EXPECT_TRUE(same(f(x), expected)) << mesh;
  }
  // Nothing is left to the compiler, but one slice needs nothing.
  const auto g = shard_map([](const Array& y) { return pmap(kTwice)(y.reshape(1, 2)).reshape(2); },
                           {.mesh = mesh_4x2(), .in_specs = P("x"), .out_specs = P("x")});
  EXPECT_TRUE(same(g(iota({8})), 2 * iota({8})));
}

TEST(Pmap, FromManyThreads) {
  const auto f = pmap(pmap(
                          [](const Array& x) {
                            return lax::psum(x, {"a", "b"}) * x;
                          },
                          {.axis_name = "b"}),
                      {.axis_name = "a"});
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&f, thread] {
      for (std::int64_t rows = 1; rows <= 4; ++rows) {
        const Array x = iota({rows, 2}) + thread;
        EXPECT_TRUE(same(f(x), x.sum() * x));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Pmap, ResultsThatAreTheSameEverywhere) {
  const Array y =
      pmap([](const Array& x) { return lax::pmean(x * x, "i"); }, {.axis_name = "i", .out_axes = none})(iota({8}));
  EXPECT_EQ(y.item<float>(), 17.5F);
  EXPECT_TRUE(y.is_fully_replicated());
}

TEST(Pmap, EvalShape) {
  const auto f = pmap([](const Array& x) { return lax::psum(x, "i") * 2; }, {.axis_name = "i"});
  const Array type = f.eval_shape(ShapeDtypeStruct{{4, 3}, float32});
  EXPECT_EQ(type.shape(), (Shape{4, 3}));
  EXPECT_EQ(type.dtype(), float32);
}

}  // namespace
}  // namespace shoal::test
