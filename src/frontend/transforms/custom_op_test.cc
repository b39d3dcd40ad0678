// Ops of users: functions and kernels with sharding rules of their own, anywhere in a program.
#include "shoal/custom_op.h"

#include <algorithm>
#include <numeric>

#include "frontend/test_support.h"
#include "shoal/constraints.h"
#include "shoal/control_flow.h"
#include "shoal/pmap.h"
#include "shoal/vmap.h"
#include "spmd/test_collectives.h"

namespace shoal::test {
namespace {

using test_support::Collectives;
using test_support::collectives_in;

std::vector<ShapeDtypeStruct> same_types(const std::vector<ShapeDtypeStruct>& operands) { return operands; }

Array normalised(Array x) { return x / x.sum({.axis = -1, .keepdims = true}); }

const std::vector<PartitionSpec>& specs() {
  static const std::vector<PartitionSpec> all = {P(),         P("x"),        P(none, "x"),
                                                 P("x", "y"), P({"y", "x"}), P(none, {"x", "y"})};
  return all;
}

std::vector<Mesh> meshes() { return {mesh_4x2(), make_mesh({2, 2}, {"x", "y"}), make_mesh({1, 8}, {"x", "y"})}; }

TEST(CustomOp, GivesWhatItsFunctionGivesForWholeArrays) {
  const auto op = custom_op({.name = "normalise", .rule = "... d -> ... d need_replication={d}"}, normalised);
  const Array x = iota({8, 8}) + 1;
  EXPECT_TRUE(same(op(x), normalised(x)));
  EXPECT_TRUE(same(jit(op)(x), normalised(x)));
  EXPECT_TRUE(same(pmap(op)(x.reshape(4, 2, 8)).reshape(8, 8), normalised(x)));
  for (const Mesh& mesh : meshes()) {
    for (const PartitionSpec& spec : specs()) {
      EXPECT_TRUE(same(op(put(x, mesh, spec)), normalised(x))) << to_string(spec);
      EXPECT_TRUE(same(jit([&](const Array& a) { return op(a * 1); })(put(x, mesh, spec)), normalised(x)));
    }
  }
}

TEST(CustomOp, RunsOnShardsWithoutMovingThem) {
  std::vector<Shape> seen;
  const auto op = custom_op({.name = "normalise", .rule = "... d -> ... d need_replication={d}"}, [&](Array x) {
    seen.push_back(x.shape());
    return normalised(x);
  });
  const Array x = put(iota({8, 6}), mesh_4x2(), P("x"));
  const auto compiled = jit([&](const Array& a) { return op(a); }).lower(x).compile();
  EXPECT_EQ(seen, (std::vector<Shape>{{8, 6}, {2, 6}}));
  EXPECT_EQ(collectives_in(compiled.as_text()), Collectives());
  EXPECT_EQ(compiled.output_shardings()[0].named()->spec(), P("x"));
  // Columns that are split become rows, of which each device has fewer to compute.
  EXPECT_EQ(collectives_in(jit([&](const Array& a) { return op(a); })
                               .lower(put(iota({8, 6}), mesh_4x2(), P("x", "y")))
                               .compile()
                               .as_text()),
            (Collectives{{"all_to_all", 1}}));
}

TEST(CustomOp, PartialSumsAreAddedUp) {
  const auto product = [](Array a, Array b) { return matmul(a, b); };
  const auto op = custom_op({.name = "product", .rule = "i k, k j -> i j reduction={k}"}, product);
  const Array a = iota({8, 16});
  const Array b = iota({16, 8});
  for (const Mesh& mesh : meshes()) {
    for (const PartitionSpec& of_a : specs()) {
      for (const PartitionSpec& of_b : {P(), P("y"), P("x", "y")}) {
        EXPECT_TRUE(same(op(put(a, mesh, of_a), put(b, mesh, of_b)), matmul(a, b)))
            << to_string(of_a) << to_string(of_b);
      }
    }
  }
  const auto f = jit([&](const Array& x, const Array& y) { return op(x, y); },
                     {.out_shardings = NamedSharding(mesh_4x2(), P("x"))});
  EXPECT_EQ(collectives_in(f.lower(put(a, mesh_4x2(), P(none, "x")), put(b, mesh_4x2(), P("x"))).compile().as_text()),
            (Collectives{{"reduce_scatter", 1}}));
}

TEST(CustomOp, PropagatesThroughItsRule) {
  const auto op = custom_op({.name = "turn", .rule = "i j -> j i"}, [](Array x) { return x.T(); });
  const auto f = jit([&](const Array& x) { return op(x); });
  EXPECT_EQ(spec_of(f(put(iota({8, 8}), mesh_4x2(), P("x", "y")))), P("y", "x"));
  // Backward, from the result to an argument that nobody placed.
  const auto g = jit([&](const Array& x) { return op(x); }, {.out_shardings = NamedSharding(mesh_4x2(), P("x"))});
  EXPECT_EQ(g.lower(iota({8, 8})).compile().input_shardings()[0].named()->spec(), P(none, "x"));
}

TEST(CustomOp, PermutedDimensionsAreWholeOnlyWhileItRuns) {
  const auto reverse = [](Array x) { return x[range(none, none, -1)]; };
  const auto op = custom_op({.name = "reverse", .rule = "i j -> i j permutation={i}"}, reverse);
  const Array x = iota({8, 8});
  for (const PartitionSpec& spec : specs()) {
    const Array y = op(put(x, mesh_4x2(), spec));
    EXPECT_TRUE(same(y, reverse(x))) << to_string(spec);
  }
  EXPECT_EQ(spec_of(jit([&](const Array& a) { return op(a); })(put(x, mesh_4x2(), P("x", "y")))), P("x", "y"));
}

TEST(CustomOp, CompoundFactors) {
  const auto split = [](Array x) { return x.reshape(4, -1, 3); };
  const auto op = custom_op({.name = "split", .rule = "(i j) k -> i j k need_replication={k}"},
                            [](Array x) { return x.reshape(-1, 2, 3); });
  const Array x = iota({8, 3});
  EXPECT_TRUE(same(op(put(x, mesh_4x2(), P("x"))), split(x)));
  EXPECT_EQ(spec_of(op(put(x, mesh_4x2(), P("x")))), P("x"));
}

TEST(CustomOp, UnevenDimensionsAreSplitByWhatDividesThem) {
  std::vector<Shape> seen;
  const auto op = custom_op({.name = "twice", .rule = "i j -> i j"}, [&](Array x) {
    seen.push_back(x.shape());
    return x * 2;
  });
  const NamedSharding both(mesh_4x2(), P("x", "y"));
  const auto f = jit([&](const Array& x) { return op(with_sharding_constraint(x, both)); });
  EXPECT_TRUE(same(f(iota({7, 4})), iota({7, 4}) * 2));
  EXPECT_EQ(seen.back(), (Shape{7, 2}));
  EXPECT_TRUE(same(f(iota({6, 4})), iota({6, 4}) * 2));
  EXPECT_EQ(seen.back(), (Shape{3, 2})) << "half of x divides it";
}

struct Moments {
  Array mean;
  std::vector<Array> rest;
};

TEST(CustomOp, TreesAndStaticArguments) {
  const auto op =
      custom_op({.name = "moments", .rule = "i j -> i, i j, i j need_replication={j}"}, [](Array x, int power) {
        const Array mean = x.mean(1);
        const Array off = x - mean.reshape(-1, 1);
        return Moments{mean, {off, power == 2 ? off * off : off * off * off}};
      });
  const Array x = put(iota({8, 4}), mesh_8(), P("i"));
  const Array off = x - x.mean(1).reshape(-1, 1);
  const Moments two = op(x, 2);
  EXPECT_TRUE(same(two.mean, x.mean(1)));
  EXPECT_TRUE(same(two.rest[0], off));
  EXPECT_TRUE(same(two.rest[1], off * off));
  EXPECT_TRUE(same(op(x, 3).rest[1], off * off * off));
  EXPECT_EQ(spec_of(two.rest[1]), P("i"));
}

TEST(CustomOp, AFunctionThatCallsAnotherAndPrints) {
  const auto inner = custom_op({.name = "inner", .rule = "i -> i"}, [](Array x) { return x + 1; });
  const auto jitted = jit([](Array x) { return x * 3; });
  std::vector<std::vector<float>> seen;
  const auto outer = custom_op({.name = "outer", .rule = "i -> i"}, [&](Array x) {
    debug::callback([&](const std::vector<Array>& values) { seen.push_back(floats(values[0])); }, {x});
    return jitted(inner(x));
  });
  const auto f = jit([&](const Array& x) { return outer(x); });
  EXPECT_EQ(floats(f(put(iota({4}), make_mesh({2}, {"i"}), P("i")))), (std::vector<float>{3, 6, 9, 12}));
  EXPECT_EQ(seen, (std::vector<std::vector<float>>{{0, 1}, {2, 3}}));
}

TEST(CustomOp, InsideShardMap) {
  const auto op = custom_op({.name = "normalise", .rule = "... d -> ... d need_replication={d}"}, normalised);
  const Array x = iota({8, 4}) + 1;
  const Mesh mesh = mesh_4x2();
  const auto rows = [&](std::vector<std::string> axes) {
    return shard_map([&](const Array& a) { return op(a); },
                     {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x"), .axis_names = std::move(axes)});
  };
  EXPECT_TRUE(same(rows({})(x), normalised(x)));
  EXPECT_TRUE(same(jit(rows({}))(x), normalised(x)));
  EXPECT_TRUE(same(jit(rows({"x"}))(put(x, mesh, P("x", "y"))), normalised(x)));
  // It knows over which axes its result varies.
  const auto summed = shard_map([&](const Array& a) { return lax::psum(op(a), "x"); },
                                {.mesh = mesh, .in_specs = P("x"), .out_specs = P()});
  EXPECT_TRUE(allclose(summed(x), normalised(x).reshape(4, 2, 4).sum(0)));
}

TEST(CustomOp, InsideLoops) {
  const auto op = custom_op({.name = "normalise", .rule = "... d -> ... d need_replication={d}"}, normalised);
  const auto with = [](const auto& f) {
    return [=](const Array& x) {
      const auto trip = [&](const Array& c, const Array& t) {
        const Array next = f(c + t);
        return std::pair(next, next.sum());
      };
      return lax::scan(trip, x, arange(3.0F));
    };
  };
  const Array x = iota({8, 8}) + 1;
  const auto [wanted, wanted_sums] = with(normalised)(x);
  for (const PartitionSpec& spec : specs()) {
    const auto [carry, sums] = jit(with(op))(put(x, mesh_4x2(), spec));
    EXPECT_TRUE(same(carry, wanted)) << to_string(spec);
    EXPECT_TRUE(allclose(sums, wanted_sums)) << to_string(spec);
  }
  const auto batches = vmap(with(op))(x.reshape(2, 4, 8));
  EXPECT_TRUE(allclose(batches.first.reshape(8, 8), wanted));
}

TEST(CustomOp, ExplicitAxesGoThroughItsRule) {
  const Mesh mesh = make_mesh({4, 2}, {"x", "y"}, {.axis_types = {AxisType::kExplicit, AxisType::kExplicit}});
  const auto op = custom_op({.name = "turn", .rule = "i j -> j i"}, [](Array x) { return x.T(); });
  const Array x = device_put(iota({8, 2}), NamedSharding(mesh, P("x", "y")));
  EXPECT_EQ(spec_of(op(x)), P("y", "x"));
  EXPECT_TRUE(same(op(x), iota({8, 2}).T()));
}

TEST(CustomOp, IsOneEquationUnderItsRule) {
  const auto op = custom_op({.name = "turn", .rule = "i j -> j i"}, [](Array x) { return x.T(); });
  const std::string text = jit([&](const Array& x) { return op(x); }).lower(iota({8, 2})).as_text();
  EXPECT_THAT(text, testing::HasSubstr("custom_op(%0)"));
  EXPECT_THAT(text, testing::HasSubstr("name = \"turn\", results = [\"f32[2,8]\"], rule = \"i j -> j i\""));
  EXPECT_EQ(to_text(parse_graph(text, find_op)), text);
}

TEST(CustomOp, IsTracedOnceForEachShape) {
  int traces = 0;
  const auto op = custom_op({.name = "twice", .rule = "i -> i"}, [&](Array x) {
    ++traces;
    return x * 2;
  });
  const Array x = put(iota({8}), mesh_8(), P("i"));
  for (int i = 0; i < 3; ++i) op(x).block_until_ready();
  EXPECT_EQ(traces, 2);  // For the whole array, and for a shard.
  op(iota({8})).block_until_ready();
  EXPECT_EQ(traces, 2);
}

// ---- Kernels.

// The sums of rows, and the rows from the smallest element to the greatest.
void sort_rows(const std::vector<OperandView>& operands, const std::vector<ResultView>& results) {
  const auto rows = operands[0].elements<float>();
  const auto sums = results[0].elements<float>();
  const auto sorted = results[1].elements<float>();
  const auto width = static_cast<std::size_t>(operands[0].shape[1]);
  std::copy(rows.begin(), rows.end(), sorted.begin());
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const auto begin = sorted.begin() + static_cast<std::ptrdiff_t>(i * width);
    const auto end = begin + static_cast<std::ptrdiff_t>(width);
    sums[i] = std::accumulate(begin, end, 0.0F);
    std::sort(begin, end);
  }
}

CustomKernel sorting() {
  return custom_kernel({.name = "sort_rows",
                        .rule = "i j -> i, i j need_replication={j}",
                        .results =
                            [](const std::vector<ShapeDtypeStruct>& x) {
                              return std::vector<ShapeDtypeStruct>{{.shape = {x[0].shape[0]}}, x[0]};
                            }},
                       sort_rows);
}

TEST(CustomKernel, RunsOnEveryPlacement) {
  const CustomKernel op = sorting();
  for (const std::int64_t rows : {8, 6, 1}) {  // Shards are shorter than others, or empty.
    const Array x = sin(iota({rows, 4}));
    const auto f = [&](const NamedSharding& sharding) {
      return jit([&](const Array& a) { return op({with_sharding_constraint(a * 1, sharding)}); });
    };
    for (const Mesh& mesh : meshes()) {
      for (const PartitionSpec& spec : specs()) {
        const std::vector<Array> results = f(NamedSharding(mesh, spec))(x);
        EXPECT_TRUE(allclose(results[0], x.sum(1)));
        EXPECT_TRUE(same(results[1], sort(x))) << to_string(spec);
      }
    }
  }
}

TEST(CustomKernel, RunsOnceForEachDistinctShard) {
  std::atomic<int> calls{0};
  const auto op = custom_kernel({.name = "count", .rule = "i -> i", .results = same_types},
                                [&](const std::vector<OperandView>& in, const std::vector<ResultView>& out) {
                                  ++calls;
                                  std::ranges::copy(in[0].elements<float>(), out[0].elements<float>().begin());
                                });
  op({put(iota({8}), mesh_4x2(), P("x"))})[0].block_until_ready();
  EXPECT_EQ(calls, 4);
  op({iota({8})})[0].block_until_ready();
  EXPECT_EQ(calls, 5);
}

TEST(CustomKernel, PartialSumsAreAddedUp) {
  const auto op = custom_kernel({.name = "total",
                                 .rule = "i -> reduction={i}",
                                 .results = [](const auto&) { return std::vector<ShapeDtypeStruct>(1); }},
                                [](const std::vector<OperandView>& in, const std::vector<ResultView>& out) {
                                  const auto x = in[0].elements<float>();
                                  out[0].elements<float>()[0] = std::accumulate(x.begin(), x.end(), 0.0F);
                                });
  EXPECT_EQ(op({put(iota({8}), mesh_8(), P("i"))})[0].item<float>(), 28);
  EXPECT_EQ(op({iota({8})})[0].item<float>(), 28);
}

TEST(CustomKernel, TakesNumbersAndWorksInShardMap) {
  const auto op =
      custom_kernel({.name = "scale", .rule = "i, -> i", .results = [](const auto& x) { return std::vector{x[0]}; }},
                    [](const std::vector<OperandView>& in, const std::vector<ResultView>& out) {
                      const float factor = in[1].elements<float>()[0];
                      std::ranges::transform(in[0].elements<float>(), out[0].elements<float>().begin(),
                                             [factor](float x) { return x * factor; });
                    });
  const auto f = shard_map(
      [&](const Array& x) {
        return op({x, 3.0})[0];
      },
      {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = P("i")});
  EXPECT_TRUE(same(f(iota({16})), iota({16}) * 3));
  EXPECT_TRUE(same(jit(f)(iota({16})), iota({16}) * 3));
}

}  // namespace
}  // namespace shoal::test
