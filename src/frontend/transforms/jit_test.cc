// jit: its cache, nesting, captures, placement, and the programs it makes.
#include "shoal/jit.h"

#include <map>
#include <optional>
#include <thread>
#include <type_traits>

#include "frontend/test_support.h"
#include "runtime/executable.h"
#include "shoal/control_flow.h"

namespace shoal::test {
namespace {

// ---- The cache.

TEST(Jit, TracesOnceForEachKindOfArguments) {
  int traces = 0;
  const auto f = jit([&](const Array& x) {
    ++traces;
    return x * 2 + 1;
  });
  EXPECT_EQ(floats(f(array({1.0F, 2.0F}))), (std::vector<float>{3, 5}));
  EXPECT_EQ(floats(f(array({3.0F, 4.0F}))), (std::vector<float>{7, 9}));
  EXPECT_EQ(traces, 1);
  EXPECT_EQ(ints(f(array({1, 2}))), (std::vector<int>{3, 5}));
  EXPECT_EQ(traces, 2) << "another dtype";
  f(array({1.0F, 2.0F, 3.0F}));
  EXPECT_EQ(traces, 3) << "another shape";
  EXPECT_EQ(f(1).dtype(), int32);
  EXPECT_EQ(f(1.5).dtype(), float32);
  f(2);
  EXPECT_EQ(traces, 5) << "weak types";
  f(Array(1).astype(int32));
  EXPECT_EQ(traces, 6) << "not weak";
}

// The trees of these arguments differ in nothing but how their arrays hang together.
TEST(Jit, TellsTreesOfTheSameArraysApart) {
  const Array a = array({1.0F});
  const Array b = array({10.0F});
  const Array c = array({100.0F});

  using Lists = std::vector<std::vector<Array>>;
  const auto first_list = jit([](const Lists& lists) {
    Array sum = lists[0][0];
    for (std::size_t i = 1; i < lists[0].size(); ++i) sum = sum + lists[0][i];
    return sum;
  });
  struct Pair {
    std::optional<Array> x;
    std::optional<Array> y;
  };
  const auto difference = jit([](const Pair& pair) { return pair.x ? *pair.x : -*pair.y; });
  using Map = std::map<std::string, Array>;
  const auto at_k = jit([](const Map& map) { return map.contains("k") ? map.at("k") * 2 : map.begin()->second; });
  const auto length = jit([](const Map& map) { return Map{{std::string(map.size(), 'x'), map.begin()->second}}; });
  const auto scaled = jit([](const Array& x, int factor) { return x * factor; });
  const auto generic = jit([](const auto& x) {
    if constexpr (std::is_same_v<std::decay_t<decltype(x)>, Array>)
      return x;
    else
      return x[0] + 1;
  });

  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(floats(first_list(Lists{{a, b}, {c}})), (std::vector<float>{11}));
    EXPECT_EQ(floats(first_list(Lists{{a}, {b, c}})), (std::vector<float>{1}));
    EXPECT_EQ(floats(difference(Pair{a, {}})), (std::vector<float>{1}));
    EXPECT_EQ(floats(difference(Pair{{}, a})), (std::vector<float>{-1}));
    EXPECT_EQ(floats(at_k({{"k", b}})), (std::vector<float>{20}));
    EXPECT_EQ(floats(at_k({{"j", b}})), (std::vector<float>{10}));
    EXPECT_EQ(length({{"u", a}}).begin()->first, "x");
    EXPECT_EQ(length({{"u", a}, {"v", b}}).begin()->first, "xx");
    EXPECT_EQ(floats(scaled(b, 3)), (std::vector<float>{30}));
    EXPECT_EQ(floats(scaled(b, 4)), (std::vector<float>{40}));
    EXPECT_EQ(floats(generic(a)), (std::vector<float>{1}));
    EXPECT_EQ(floats(generic(std::vector{a})), (std::vector<float>{2}));
  }
}

TEST(Jit, ArgumentsOfACallLikeTheLastMayStillBeWrong) {
  const auto f = jit([](const Array& x) { return x + 1; });
  const Array x = iota({4});
  f(x);
  EXPECT_EQ(floats(f(x)), (std::vector<float>{1, 2, 3, 4}));
  x.delete_();
  EXPECT_THROW(f(x), InvalidState);
  EXPECT_THROW(f(Array()), InvalidState);
  const auto wanted = jit([](const Array& y) { return y + 1; }, {.in_shardings = NamedSharding(mesh_8(), P("i"))});
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(spec_of(wanted(iota({8}))), P("i")) << "moved anew each time";
    EXPECT_EQ(spec_of(wanted(put(iota({8}), mesh_8(), P("i")))), P("i"));
    EXPECT_THROW(wanted(put(iota({8}), mesh_8(), P())), InvalidArgument);
  }
}

TEST(Jit, CallsOfManyThreadsFindTheirPrograms) {
  const auto f = jit([](const Array& x) { return x * 2; });
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&f, t] {
      for (int i = 0; i < 100; ++i) {
        const std::int64_t size = 1 + (i + t) % 5;
        const std::vector<float> twice = floats(f(iota({size})));
        ASSERT_EQ(twice.size(), static_cast<std::size_t>(size));
        ASSERT_EQ(twice.back(), 2.0F * static_cast<float>(size - 1));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Jit, TracesOnceWhereverArgumentsLie) {
  int traces = 0;
  const auto f = jit([&](const Array& x) {
    ++traces;
    return x + 1;
  });
  const Array x = iota({8});
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(f(x).sharding(), Sharding(SingleDeviceSharding(devices()[0])));
    EXPECT_EQ(f(device_put(x, devices()[1])).sharding(), Sharding(SingleDeviceSharding(devices()[1])));
    EXPECT_EQ(spec_of(f(put(x, mesh_8(), P("i")))), P("i"));
    EXPECT_EQ(spec_of(f(put(x, mesh_8(), P()))), P());
    EXPECT_EQ(spec_of(f(put(x, mesh_4x2(), P("x")))), P("x"));
  }
  EXPECT_EQ(traces, 1);
}

TEST(Jit, TracesForEachMeshThatIsSet) {
  int traces = 0;
  const auto f = jit([&](const Array& x) {
    ++traces;
    return with_sharding_constraint(x * 2, NamedSharding(P("x")));
  });
  const Mesh other = make_mesh({2, 4}, {"x", "y"});
  for (int i = 0; i < 2; ++i) {
    for (const Mesh& mesh : {mesh_4x2(), other}) {
      const use_mesh scope(mesh);
      EXPECT_EQ(f(put(iota({8}), mesh, P())).sharding(), Sharding(NamedSharding(mesh, P("x"))));
    }
  }
  EXPECT_EQ(traces, 2);
}

TEST(Jit, TracesOnceForEachTree) {
  int traces = 0;
  const auto f = jit([&](const std::vector<Array>& list) {
    ++traces;
    Array sum = 0.0;
    for (const Array& x : list) sum = sum + x;
    return sum;
  });
  EXPECT_EQ(f(std::vector{Array(1.0), Array(2.0)}).item<float>(), 3.0F);
  EXPECT_EQ(f(std::vector{Array(3.0), Array(4.0)}).item<float>(), 7.0F);
  EXPECT_EQ(f(std::vector{Array(3.0)}).item<float>(), 3.0F);
  EXPECT_EQ(f(std::vector<Array>()).item<float>(), 0.0F);
  EXPECT_EQ(traces, 3);
}

TEST(Jit, CopiesShareTheCache) {
  int traces = 0;
  const auto f = jit([&](const Array& x) {
    ++traces;
    return x;
  });
  const auto g = f;
  f(1.0);
  g(2.0);
  EXPECT_EQ(traces, 1);
}

TEST(Jit, TracesOnceWhetherNestedOrNot) {
  int traces = 0;
  const auto f = jit([&](const Array& x) {
    ++traces;
    return x + 1;
  });
  const auto outer = jit([&](const Array& x) { return f(f(x)); });
  EXPECT_EQ(outer(1.0).item<float>(), 3.0F);
  EXPECT_EQ(traces, 1) << "the second inner call finds the first";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(f(1.0).item<float>(), 2.0F);
  EXPECT_EQ(traces, 1) << "calls from outside use the same trace";
}

// ---- Functions.

TEST(Jit, Arguments) {
  const auto f = jit([](const Array& x, Array y, const std::vector<Array>& z) { return x + y + z[0]; });
  EXPECT_EQ(f(1, 2.5, std::vector{Array(3)}).item<float>(), 6.5F);
  EXPECT_EQ(jit([] { return Array(4); })().item<int>(), 4);
  EXPECT_EQ(jit([] { return iota({8}); })().shape(), Shape{8});
}

TEST(Jit, Results) {
  const Array x = iota({4});
  const auto [same_one, twice, constant, again] = jit([](const Array& a) {
    return std::tuple{a, a * 2, Array(7), a * 2};
  })(x);
  EXPECT_EQ(floats(same_one), floats(x));
  EXPECT_EQ(floats(twice), (std::vector<float>{0, 2, 4, 6}));
  EXPECT_EQ(constant.item<int>(), 7);
  EXPECT_EQ(floats(again), floats(twice));
  EXPECT_TRUE(constant.weak_type());
  jit([](const Array& a) {
    (a * 2).sum();
    return std::tuple<>();
  })(x);
}

TEST(Jit, LambdasWithState) {
  struct Scale {
    Array factor;
    Array operator()(const Array& x) const { return x * factor; }
  };
  EXPECT_EQ(jit(Scale{Array(3.0)})(2.0).item<float>(), 6.0F);
}

Array free_function(const Array& x) { return x - 1; }

TEST(Jit, FreeFunctions) { EXPECT_EQ(jit(free_function)(3.0).item<float>(), 2.0F); }

TEST(Jit, ControlFlowOnShapes) {
  const auto f = jit([](const Array& x) { return x.ndim() == 1 ? x.sum() : x.T(); });
  EXPECT_EQ(f(iota({3})).shape(), Shape{});
  EXPECT_EQ(f(iota({2, 3})).shape(), (Shape{3, 2}));
}

TEST(Jit, UnusedArgumentsAndDeadCode) {
  EXPECT_EQ(jit([](const Array& x, const Array&) {
              sin(x);
              return x;
            })(1.0, iota({3}))
                .item<float>(),
            1.0F);
}

// ---- Captures and nesting.

TEST(Jit, CapturesArrays) {
  const Array weights = put(iota({8}), mesh_8(), P("i"));
  const Array bias = 10.0;
  const auto f = jit([&](const Array& x) { return x * weights + weights + bias; });
  const Array y = f(ones({8}));
  EXPECT_EQ(floats(y), (std::vector<float>{10, 12, 14, 16, 18, 20, 22, 24}));
  EXPECT_EQ(spec_of(y), P("i"));
  EXPECT_TRUE(same(f(ones({8})), y));
}

TEST(Jit, ReturnsACapture) {
  const Array captured = put(iota({8}), mesh_8(), P("i"));
  const Array y = jit([&](const Array&) { return captured; })(1.0);
  EXPECT_TRUE(same(y, captured));
  EXPECT_EQ(y.sharding(), captured.sharding());
}

TEST(Jit, NestedCapturesOuterTracers) {
  int traces = 0;
  const auto outer = jit([&](const Array& x, const Array& y) {
    const Array z = x * y;
    const auto inner = jit([&](const Array& a) {
      ++traces;
      return a + z + y;
    });
    return inner(x) + inner(y);
  });
  EXPECT_EQ(outer(2.0, 3.0).item<float>(), (2 + 6 + 3) + (3 + 6 + 3));
  EXPECT_EQ(outer(1.0, 1.0).item<float>(), 6.0F);
  EXPECT_GE(traces, 1);
}

TEST(Jit, FunctionWithOuterTracersIsTracedForEachOuterTrace) {
  // The inner function outlives the outer one, whose tracers it must not keep.
  Array outside;
  const auto inner = jit([&](const Array& a) { return a + outside; });
  const auto outer = jit([&](const Array& x) {
    outside = x;
    return inner(x);
  });
  EXPECT_EQ(outer(1.0).item<float>(), 2.0F);
  EXPECT_EQ(outer(iota({2})).shape(), Shape{2});
  EXPECT_EQ(floats(outer(iota({3}))), (std::vector<float>{0, 2, 4}));
}

TEST(Jit, DeepNesting) {
  const auto f = jit([](const Array& x) { return x + 1; });
  const auto g = jit([&](const Array& x) { return f(x) * 2; });
  const auto h = jit([&](const Array& x) { return g(f(x)) + g(x); });
  EXPECT_EQ(h(1.0).item<float>(), (1 + 1 + 1) * 2 + (1 + 1) * 2);
}

TEST(Jit, EqualsEager) {
  const auto f = [](const Array& x, const Array& w) { return matmul(sin(x) + 1, w).sum(0) / 3; };
  const Array x = iota({8, 4});
  const Array w = iota({4, 6});
  EXPECT_TRUE(same(jit(f)(x, w), f(x, w)));
}

// ---- Placement.

TEST(Jit, FollowsItsCommittedArguments) {
  const auto f = jit([](const Array& x, const Array& y) { return x + y; });
  EXPECT_FALSE(f(iota({8}), iota({8})).committed());
  const Array on_three = f(iota({8}), device_put(iota({8}), devices()[3]));
  EXPECT_TRUE(on_three.committed());
  EXPECT_EQ(on_three.devices(), (std::set<Device>{devices()[3]}));
  const Array split = f(put(iota({8}), mesh_8(), P("i")), iota({8}));
  EXPECT_EQ(spec_of(split), P("i"));
  EXPECT_EQ(f(put(iota({8}), mesh_8(), P("i")), put(iota({8}), mesh_8(), P())).devices().size(), 8U);
}

TEST(Jit, InShardings) {
  const NamedSharding rows(mesh_4x2(), P("x"));
  const auto f = jit(
      [](const Array& x, const Array& y) {
        return std::pair{x * 2, y};
      },
      {.in_shardings = {rows, none}});
  const auto [x, y] = f(iota({8, 2}), 1.0);
  EXPECT_EQ(x.sharding(), Sharding(rows));
  EXPECT_TRUE(x.committed());
  EXPECT_EQ(y.devices().size(), 8U);
  const auto for_all = jit([](const Array& a, const Array& b) { return a + b; }, {.in_shardings = rows});
  EXPECT_EQ(for_all(iota({8}), iota({8})).sharding(), Sharding(rows));
}

TEST(Jit, OutShardings) {
  const NamedSharding columns(mesh_4x2(), P(none, "y"));
  const auto f = jit([](const Array& x) { return x * 2; }, {.out_shardings = columns});
  EXPECT_EQ(f(iota({8, 2})).sharding(), Sharding(columns));
  EXPECT_EQ(f(put(iota({8, 2}), mesh_4x2(), P("x"))).sharding(), Sharding(columns));
  const auto one = jit([](const Array& x) { return x * 2; }, {.out_shardings = SingleDeviceSharding(devices()[5])});
  EXPECT_EQ(one(1.0).devices(), (std::set<Device>{devices()[5]}));
  const auto pinned = jit([](const Array& x) { return x * 2; },
                          {.out_shardings = NamedSharding(mesh_8(), P(), {.memory_kind = "pinned_host"})});
  EXPECT_EQ(pinned(1.0).sharding().memory_kind(), kPinnedHostMemory);
}

TEST(Jit, OutShardingsAsTheyAreWritten) {
  for (const PartitionSpec& spec : {P(), P(none), P("x"), P("x", none), P({"x", "y"}), P(none, {"y", "x"})}) {
    const NamedSharding wanted(mesh_4x2(), spec);
    EXPECT_EQ(jit([](const Array& x) { return x + 1; }, {.out_shardings = wanted})(iota({8, 8})).sharding(),
              Sharding(wanted));
    const Array x = put(iota({8, 8}), mesh_4x2(), spec);
    EXPECT_EQ(jit([](const Array& a) { return a; })(x).sharding(), x.sharding());
  }
}

TEST(Jit, ShardingsOfNestedFunctionsAreConstraints) {
  const NamedSharding rows(mesh_4x2(), P("x"));
  const NamedSharding columns(mesh_4x2(), P(none, "y"));
  const auto inner = jit([](const Array& x) { return x + 1; }, {.in_shardings = rows, .out_shardings = columns});
  const auto outer = jit([&](const Array& x) { return inner(x * 1); });
  EXPECT_EQ(outer(put(iota({8, 8}), mesh_4x2(), P())).sharding(), Sharding(columns));
}

TEST(Jit, Constraints) {
  const NamedSharding rows(mesh_4x2(), P("x"));
  const auto f = jit([&](const Array& x) { return with_sharding_constraint(x * 2, rows); });
  const Array y = f(iota({8, 2}));
  EXPECT_EQ(y.sharding(), Sharding(rows));
  EXPECT_TRUE(same(y, iota({8, 2}) * 2));
  const NamedSharding open(mesh_4x2(), P(none, unconstrained));
  const auto g = jit([&](const Array& x) { return with_sharding_constraint(x, open); });
  EXPECT_EQ(spec_of(g(put(iota({8, 2}), mesh_4x2(), P("x", "y")))), P(none, "y"));
}

TEST(Jit, ConstraintsOnUnevenDimensions) {
  const NamedSharding rows(mesh_4x2(), P("x"));
  const NamedSharding both(mesh_4x2(), P({"y", "x"}));
  const Array x = iota({6, 3});
  const auto through = [&](const NamedSharding& sharding, auto&& f) {
    return jit([&](const Array& a) { return f(with_sharding_constraint(a + 0, sharding)); })(x);
  };
  for (const NamedSharding& sharding : {rows, both}) {
    EXPECT_TRUE(same(through(sharding, [](const Array& a) { return a; }), x));
    EXPECT_TRUE(same(through(sharding, [](const Array& a) { return a * 2; }), x * 2));
    EXPECT_TRUE(same(through(sharding, [](const Array& a) { return a.sum(0); }), x.sum(0)));
    EXPECT_TRUE(same(through(sharding, [](const Array& a) { return a.sum(1); }), x.sum(1)));
    EXPECT_TRUE(same(through(sharding, [](const Array& a) { return a.max(); }), x.max()));
    EXPECT_TRUE(same(through(sharding, [](const Array& a) { return matmul(a, a.T()); }), matmul(x, x.T())));
    EXPECT_TRUE(same(through(sharding, [](const Array& a) { return matmul(a.T(), a); }), matmul(x.T(), x)));
    EXPECT_TRUE(same(through(sharding, [](const Array& a) { return a.reshape(3, 6); }), x.reshape(3, 6)));
    EXPECT_TRUE(same(through(sharding, [](const Array& a) { return a[{range(1, 5), 1}]; }), x[{range(1, 5), 1}]));
    EXPECT_TRUE(same(through(sharding, [](const Array& a) { return a.T().reshape(-1); }), x.T().reshape(-1)));
    EXPECT_TRUE(same(through(sharding,
                             [](const Array& a) {
                               return broadcast_to(a, {2, 6, 3});
                             }),
                     broadcast_to(x, {2, 6, 3})));
    EXPECT_TRUE(same(through(sharding,
                             [&](const Array& a) {
                               return with_sharding_constraint(a, NamedSharding(mesh_4x2(), P(none, "x"))) + a;
                             }),
                     x + x));
  }
}

// The operand of these reductions exists nowhere, and what it is made of does not tell how much of it a shard has.
TEST(Jit, ReductionsOfUnevenShardsOfBroadcasts) {
  using Reduction = Array (*)(const Array& y, int axis);
  const Reduction reductions[] = {
      [](const Array& y, int axis) { return max(y, {.axis = axis}); },
      [](const Array& y, int axis) { return sum(y, {.axis = axis}); },
      [](const Array& y, int axis) { return argmax(y, {.axis = axis}); },
      [](const Array& y, int axis) { return min(y * 2, {.axis = axis, .keepdims = true}); },
      [](const Array& y, int axis) {
        return sum(y, {.axis = Dims{0, (axis + 1) % 2 + 1}});
      },
      [](const Array& y, int) { return sum(y); },
  };
  const NamedSharding rows(mesh_8(), P("i"));
  for (const std::int64_t n : {10, 11, 1}) {
    for (const std::int64_t k : {1, 5, 16, 700}) {
      const Array w = iota({3, k}) * 7 % 11;
      for (const int axis : {0, 1, 2}) {
        for (const Reduction& reduction : reductions) {
          const auto reduced = [&](bool is_split) {
            return jit([&, is_split](const Array& x) {
              const Array y = lax::broadcast_in_dim(x, {n, 3, k}, {1, 2});
              return reduction(is_split ? with_sharding_constraint(y, rows) : y, axis);
            })(w);
          };
          EXPECT_TRUE(same(reduced(true), reduced(false)))
              << "reduction " << &reduction - reductions << " over axis " << axis << " of " << n << " by 3 by " << k;
        }
      }
    }
  }
}

TEST(Jit, SumsOfConstantsOnUnevenShards) {
  const auto total = [](const Shape& shape, const PartitionSpec& spec) {
    const NamedSharding lies(make_mesh({2, 3}, {"x", "y"}), spec);
    return jit([&] { return sum(with_sharding_constraint(full(shape, 3), lies)); })().item<int>();
  };
  EXPECT_EQ(total({1, 2}, P("x", "y")), 6);
  EXPECT_EQ(total({3, 8, 5}, P(none, {"x", "y"})), 360);
}

TEST(Jit, ResultsOfUnevenConstraintsAreSplitEvenly) {
  const NamedSharding rows(mesh_4x2(), P("x"));
  const auto f = jit([&](const Array& x) { return with_sharding_constraint(x, rows); });
  for (std::int64_t n : {1, 2, 3, 6, 7, 9}) {
    const Array y = f(iota({n}));
    EXPECT_TRUE(same(y, iota({n}))) << n;
    EXPECT_EQ(y.addressable_shards().size(), 8U) << n;
  }
}

TEST(Jit, MovesInside) {
  const NamedSharding pinned(mesh_8(), P("i"), {.memory_kind = "pinned_host"});
  const auto f = jit([&](const Array& x) {
    const Array far = device_put(x * 2, pinned);
    return std::pair{far, device_put(far, NamedSharding(mesh_8(), P())) + 1};
  });
  const auto [far, back] = f(iota({8}));
  EXPECT_EQ(far.sharding(), Sharding(pinned));
  EXPECT_EQ(back.sharding().memory_kind(), kDeviceMemory);
  EXPECT_EQ(floats(back), (std::vector<float>{1, 3, 5, 7, 9, 11, 13, 15}));
}

TEST(Jit, LoopsMoveBetweenMemories) {
  const NamedSharding near(mesh_8(), P("i"));
  const NamedSharding far = near.with_memory_kind(kPinnedHostMemory);
  // The carry comes near and goes far again in each trip, and so does what trips leave.
  const auto trip = [&](const Array& c, const Array& x) {
    const Array next = device_put(c, near) * 2 + x;
    return std::pair(device_put(next, far), device_put(next + 1, far));
  };
  const auto f = jit([&](const Array& c, const Array& xs) { return lax::scan(trip, device_put(c, far), xs); });
  const auto [carry, stack] = f(put(iota({8}), mesh_8(), P("i")), arange(3.0F));
  EXPECT_EQ(carry.sharding().memory_kind(), kPinnedHostMemory);
  EXPECT_EQ(stack.sharding().memory_kind(), kPinnedHostMemory);
  EXPECT_TRUE(same(device_put(carry, near), iota({8}) * 8 + 4));
  EXPECT_EQ(floats(device_put(stack[2], near)), floats(iota({8}) * 8 + 5));
}

TEST(Jit, InShardingsNameMemories) {
  const NamedSharding rows(mesh_8(), P("i"));
  const NamedSharding pinned = rows.with_memory_kind(kPinnedHostMemory);
  const auto f = jit([](const Array& x) { return x * 2; }, {.in_shardings = {pinned}});
  // An array that lies nowhere yet is put there; one that lies there already stays.
  for (const Array& x : {iota({8}), device_put(iota({8}), pinned)}) {
    const Array y = f(x);
    EXPECT_EQ(y.sharding(), Sharding(pinned));
    EXPECT_TRUE(same(device_put(y, rows), iota({8}) * 2));
  }
  const auto compiled = f.lower(iota({8})).compile();
  EXPECT_EQ(compiled.input_shardings()[0], Sharding(pinned));
}

TEST(Jit, ComputesInOtherMemories) {
  const NamedSharding pinned(mesh_8(), P("i"), {.memory_kind = "pinned_host"});
  const Array y = jit([](const Array& x) { return x * 2 + x.sum(); })(device_put(iota({8}), pinned));
  EXPECT_EQ(y.sharding().memory_kind(), kPinnedHostMemory);
  EXPECT_EQ(y.to_vector<float>()[1], 30.0F);
}

// ---- Programs.

TEST(Jit, Lowered) {
  int traces = 0;
  const auto f = jit(
      [&](const Array& x) {
        ++traces;
        return sin(x) * 2;
      },
      {.name = "wave"});
  const Array x = put(iota({8}), mesh_8(), P("i"));
  const auto lowered = f.lower(x);
  EXPECT_THAT(lowered.as_text(),
              testing::AllOf(testing::HasSubstr("wave"), testing::HasSubstr("sin"), testing::HasSubstr("f32[8]")));
  const auto compiled = lowered.compile();
  EXPECT_TRUE(same(compiled(x), f(x)));
  EXPECT_EQ(compiled.input_shardings(), (std::vector<Sharding>{x.sharding()}));
  EXPECT_EQ(compiled.output_shardings(), (std::vector<Sharding>{x.sharding()}));
}

TEST(Jit, TextOfEachStage) {
  const auto square = jit([](const Array& x) { return x * x; }, {.name = "square"});
  const auto f = jit([&](const Array& x) {
    sin(x);
    return square(x).sum();
  });
  const auto compiled = f.lower(put(iota({8}), mesh_8(), P("i"))).compile();
  EXPECT_THAT(compiled.as_text("traced"), testing::AllOf(testing::HasSubstr("square"), testing::HasSubstr("sin")));
  EXPECT_THAT(compiled.as_text("simplified"),
              testing::AllOf(testing::HasSubstr("multiply"), testing::Not(testing::HasSubstr("sin"))));
  EXPECT_THAT(compiled.as_text("placed"), testing::HasSubstr("reduce_sum"));
  EXPECT_THAT(compiled.as_text("propagated"), testing::HasSubstr("f32[8]"));
  EXPECT_THAT(compiled.as_text("partitioned"),
              testing::AllOf(testing::HasSubstr("all_reduce"), testing::HasSubstr("f32[1]")));
  EXPECT_EQ(compiled.as_text(), compiled.as_text("partitioned"));
}

TEST(Jit, CompiledWithCapturesAndTrees) {
  const Array captured = put(iota({8}), mesh_8(), P("i"));
  const auto f = jit([&](const std::vector<Array>& list) { return std::pair{list[0] + captured, list[1]}; });
  const auto compiled = f.lower(std::vector<Array>{iota({8}), Array(2.0)}).compile();
  const auto [x, y] = compiled(std::vector<Array>{iota({8}), Array(3.0)});
  EXPECT_EQ(x.to_vector<float>()[7], 14.0F);
  EXPECT_EQ(y.item<float>(), 3.0F);
  EXPECT_EQ(compiled.input_shardings().size(), 2U);
}

TEST(Jit, ReplicatedWorkIsDoneOnce) {
  const Array x = put(iota({64}), mesh_8(), P());
  const auto f = jit([](const Array& a) { return sin(a) + 1; });
  f(x).block_until_ready();
  const std::int64_t before = execution_counters().buffers;
  f(x).block_until_ready();
  EXPECT_LE(execution_counters().buffers - before, 3);
}

TEST(Jit, CountsTheProgramsOfItsCalls) {
  const auto f = jit([](const Array& x) { return x + 1; });
  EXPECT_EQ(f.cache_size(), 0u);
  f(ones({2}));
  f(ones({2}));
  EXPECT_EQ(f.cache_size(), 1u);
  f(ones({3}));
  EXPECT_EQ(f.cache_size(), 2u);
  f.clear_cache();
  EXPECT_EQ(f.cache_size(), 0u);
  f(ones({3}));
  EXPECT_EQ(f.cache_size(), 1u);
}

}  // namespace
}  // namespace shoal::test
