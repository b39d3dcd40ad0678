// Types that stand for arrays, meshes without devices, and what lowered and compiled functions tell of themselves.
#include <map>

#include "frontend/test_support.h"
#include "shoal/checkpoint.h"
#include "shoal/control_flow.h"
#include "shoal/derivatives.h"

namespace shoal::test {
namespace {

struct Params {
  Array w;
  std::vector<Array> biases;
};

std::string printed(const auto& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

NamedSharding rows() { return {mesh_4x2(), P("x")}; }
NamedSharding abstract_rows() { return {AbstractMesh({4, 2}, {"x", "y"}), P("x")}; }

// ---- ShapeDtypeStruct.

TEST(ShapeDtypeStruct, TextAndEquality) {
  const ShapeDtypeStruct type{{8, 4}, int32};
  EXPECT_EQ(printed(type), "ShapeDtypeStruct(shape=(8, 4), dtype=int32)");
  EXPECT_EQ(printed(ShapeDtypeStruct{.shape = {}, .weak_type = true}),
            "ShapeDtypeStruct(shape=(), dtype=float32, weak_type=True)");
  EXPECT_EQ(printed(ShapeDtypeStruct{{8}, float32, rows()}),
            "ShapeDtypeStruct(shape=(8,), dtype=float32, sharding=" + to_string(Sharding(rows())) + ")");
  EXPECT_EQ(type, (ShapeDtypeStruct{{8, 4}, int32}));
  EXPECT_NE(type, (ShapeDtypeStruct{{8, 4}, int32, rows()}));
}

TEST(ShapeDtypeStruct, LikeAnArray) {
  EXPECT_EQ(ShapeDtypeStruct::like(ones({3})), (ShapeDtypeStruct{{3}, float32}));
  EXPECT_EQ(ShapeDtypeStruct::like(2), (ShapeDtypeStruct{.shape = {}, .dtype = int32, .weak_type = true}));
  EXPECT_EQ(ShapeDtypeStruct::like(put(ones({8}), mesh_4x2(), P("x"))), (ShapeDtypeStruct{{8}, float32, rows()}));
  const ShapeDtypeStruct type{{8}, int32, rows()};
  EXPECT_EQ(ShapeDtypeStruct::like(type), type);
  jit([](const Array& x) {
    EXPECT_EQ(ShapeDtypeStruct::like(x), (ShapeDtypeStruct{{3}, float32}));
    return x;
  })(ones({3}));
}

TEST(ShapeDtypeStruct, StandsForAnArray) {
  const Array type = ShapeDtypeStruct{{8, 4}, int32, rows()};
  EXPECT_EQ(type.shape(), (Shape{8, 4}));
  EXPECT_EQ(type.dtype(), int32);
  EXPECT_EQ(type.nbytes(), 128);
  EXPECT_EQ(type.sharding(), Sharding(rows()));
  EXPECT_FALSE(type.is_tracer());
  EXPECT_FALSE(type.committed());
  EXPECT_FALSE(type.is_deleted());
  EXPECT_THAT(str(type), testing::StartsWith("ShapeDtypeStruct(shape=(8, 4), dtype=int32, sharding="));
  EXPECT_EQ(type_of(type), "int32[8,4]");
}

// ---- eval_shape.

TEST(EvalShape, OfTreesOfTypesAndArrays) {
  const auto f = [](const Params& p, const Array& x) { return std::pair{matmul(x, p.w) + p.biases[0], x.sum()}; };
  const Params types{.w = ShapeDtypeStruct{{8, 16}, float32}, .biases = {ShapeDtypeStruct{{16}, float32}}};
  const auto [y, sum] = eval_shape(f, types, ones({4, 8}));
  EXPECT_EQ(ShapeDtypeStruct::like(y), (ShapeDtypeStruct{{4, 16}, float32}));
  EXPECT_EQ(ShapeDtypeStruct::like(sum), (ShapeDtypeStruct{{}, float32}));
  EXPECT_THROW(y + 1, InvalidState);
  const auto any = eval_shape([](const auto& x) { return x * 2; }, ShapeDtypeStruct{{3}, int32});
  EXPECT_EQ(ShapeDtypeStruct::like(any), (ShapeDtypeStruct{{3}, int32}));
  EXPECT_TRUE(eval_shape([](const Array& x, int n) { return x * n; }, 1, 3).weak_type());
}

TEST(EvalShape, ComputesNothing) {
  const auto huge =
      eval_shape([](const Array& x) { return matmul(x, x); }, ShapeDtypeStruct{{1 << 20, 1 << 20}, float32});
  EXPECT_EQ(huge.nbytes(), std::int64_t{1} << 42);
}

TEST(EvalShape, InsideATrace) {
  const auto f = jit([](const Array& x) {
    const Array type = eval_shape([](const Array& y) { return y.reshape(-1); }, x);
    return x.reshape(type.shape());
  });
  EXPECT_EQ(f(ones({2, 3})).shape(), Shape{6});
  const auto g = jit([](const Array& x) { return x + 1; });
  EXPECT_EQ(g.eval_shape(ShapeDtypeStruct{{5}, float16}).dtype(), float16);
}

// ---- Lowering.

TEST(Lowering, AgainstTypes) {
  const auto f = jit([](const Params& p) { return p.w + p.biases[0]; });
  const auto lowered = f.lower({.w = ShapeDtypeStruct{{8, 4}, float32, rows()}, .biases = {ShapeDtypeStruct{{4}}}});
  EXPECT_EQ(to_string(lowered.in_tree()), "tuple([0]: struct(.0: leaf, .1: vector([0]: leaf)))");
  const auto compiled = lowered.compile();
  EXPECT_EQ(compiled.input_shardings()[0], Sharding(rows()));
  const Array w = put(iota({8, 4}), mesh_4x2(), P("x"));
  EXPECT_TRUE(same(compiled({.w = w, .biases = {ones({4})}}), iota({8, 4}) + 1));
  EXPECT_THROW(compiled({.w = put(w, mesh_4x2(), P("y")), .biases = {ones({4})}}), InvalidArgument);
}

TEST(Lowering, HoldsNoArguments) {
  const Array x = iota({8});
  const auto lowered = jit([](const Array& a) { return a + 1; }).lower(x);
  x.delete_();
  EXPECT_TRUE(same(lowered.compile()(iota({8})), iota({8}) + 1));
}

TEST(Lowering, ToInShardings) {
  const auto f = jit([](const Array& x) { return x * 2; }, {.in_shardings = {rows()}});
  const auto compiled = f.lower(ShapeDtypeStruct{{8}, float32}).compile();
  EXPECT_EQ(compiled.input_shardings(), (std::vector<Sharding>{rows()}));
  EXPECT_EQ(compiled.output_shardings(), (std::vector<Sharding>{rows()}));
}

TEST(Lowering, OutInfo) {
  const NamedSharding columns(mesh_4x2(), P(none, "y"));
  const auto f = jit(
      [](const Array& x) {
        return std::map<std::string, Array>{{"t", x.T()}, {"n", x.sum()}};
      },
      {.out_shardings = {none, columns}, .name = "f"});
  const auto lowered = f.lower(put(iota({8, 4}), mesh_4x2(), P("x")));
  auto info = lowered.out_info();
  EXPECT_EQ(ShapeDtypeStruct::like(info.at("t")), (ShapeDtypeStruct{{4, 8}, float32, columns}));
  EXPECT_EQ(ShapeDtypeStruct::like(info.at("n")), (ShapeDtypeStruct{{}, float32}));
  const auto compiled = lowered.compile();
  info = compiled.out_info();
  EXPECT_EQ(info.at("t").sharding(), Sharding(columns));
  EXPECT_EQ(info.at("n").sharding(), compiled.output_shardings()[0]);
  EXPECT_EQ(to_string(compiled.in_tree()), "tuple([0]: leaf)");
  EXPECT_THAT(lowered.as_text(), testing::HasSubstr("graph \"f\"(%0: f32[8,4])"));
}

// ---- What programs cost.

TEST(Analysis, OfAProduct) {
  const auto compiled = jit([](const Array& a, const Array& b) { return sin(matmul(a, b)); })
                            .lower(ShapeDtypeStruct{{8, 4}}, ShapeDtypeStruct{{4, 3}})
                            .compile();
  const CostAnalysis cost = compiled.cost_analysis();
  EXPECT_EQ(cost.flops, 2 * 8 * 4 * 3 + 8 * 3);
  EXPECT_EQ(cost.bytes_accessed, 4 * (8 * 4 + 4 * 3 + 8 * 3 + 8 * 3 + 8 * 3));
  EXPECT_EQ(cost.bytes_exchanged, 0);
  const MemoryAnalysis memory = compiled.memory_analysis();
  EXPECT_EQ(memory.argument_size, 4 * (8 * 4 + 4 * 3));
  EXPECT_EQ(memory.output_size, 4 * 8 * 3);
  EXPECT_EQ(memory.temp_size, 0) << "the product lies where its sines will";
  EXPECT_EQ(memory.alias_size, 0);
}

TEST(Analysis, IsOfOneDevice) {
  const ShapeDtypeStruct x{{64, 8}, float32, NamedSharding(mesh_8(), P("i"))};
  const auto compiled = jit([](const Array& a) { return a.sum(0); }).lower(x).compile();
  const CostAnalysis cost = compiled.cost_analysis();
  EXPECT_EQ(cost.flops, 8 * 8);
  EXPECT_EQ(cost.bytes_exchanged, 2 * 4 * 8 * 7 / 8.0) << "an all-reduce of eight numbers";
  EXPECT_EQ(compiled.memory_analysis().argument_size, 4 * 8 * 8);
  const auto gathered = jit([](const Array& a) { return a + 0; }, {.out_shardings = NamedSharding(mesh_8(), P())});
  EXPECT_EQ(gathered.lower(x).compile().cost_analysis().bytes_exchanged, 4 * 64 * 8 * 7 / 8.0);
}

TEST(Analysis, OfALoopIsOfOneDevice) {
  // Sorts are computed by themselves, into memory of the body; only what they are of is longer than what is carried.
  const auto f = jit(
      [](const Array& x) {
        return lax::fori_loop(
            0, 3,
            [](const Array&, const Array& carry) {
              return sort(concatenate({carry, carry + 1}, 1))[{range(), range(0, 256)}];
            },
            x);
      },
      {.donate_argnums = {0}});
  const auto temp_size = [&](const Array& x) { return f.lower(x).compile().memory_analysis().temp_size; };
  const std::int64_t alone = temp_size(zeros({2, 256}));
  EXPECT_GE(alone, 2 * 512 * 4);
  EXPECT_EQ(temp_size(device_put(zeros({16, 256}), NamedSharding(mesh_8(), P("i")))), alone);
}

TEST(Analysis, OfDonationsAndTemporaries) {
  // A sort is computed by itself, whatever a back end puts together.
  const auto f = jit([](const Array& x) { return sort(x + 1) * sort(x + 2) - x; }, {.donate_argnums = {0}});
  const MemoryAnalysis memory = f.lower(ShapeDtypeStruct{{256}}).compile().memory_analysis();
  EXPECT_EQ(memory.alias_size, 1024);
  EXPECT_GE(memory.temp_size, 3 * 1024) << "both sums, and the first of them sorted";
  EXPECT_LT(memory.temp_size, 4 * 1024);
}

// ---- Meshes without devices.

TEST(AbstractMesh, IsAMeshWithoutDevices) {
  const AbstractMesh mesh({4, 2}, {"x", "y"});
  EXPECT_EQ(to_string(mesh), "AbstractMesh('x': 4, 'y': 2, axis_types=(Auto, Auto))");
  EXPECT_TRUE(mesh.is_abstract());
  EXPECT_FALSE(mesh.empty());
  EXPECT_EQ(mesh.size(), 8);
  EXPECT_EQ(mesh.axis_size("x"), 4);
  EXPECT_EQ(mesh, mesh_4x2().abstract_mesh());
  EXPECT_EQ(mesh.hash(), mesh_4x2().abstract_mesh().hash());
  EXPECT_NE(Mesh(mesh), mesh_4x2());
  EXPECT_NE(mesh, AbstractMesh({4, 2}, {"x", "z"}));
  EXPECT_EQ(mesh.with_devices(devices()), mesh_4x2());
  EXPECT_FALSE(mesh_4x2().is_abstract());
  EXPECT_THROW(AbstractMesh({4, 2}, {"x"}), InvalidArgument);
  EXPECT_THROW(AbstractMesh({4, 0}, {"x", "y"}), InvalidArgument);
  EXPECT_THROW(mesh.with_devices({devices()[0]}), InvalidArgument);
}

TEST(AbstractMesh, ShardingsCutArrays) {
  EXPECT_EQ(abstract_rows().shard_shape({8, 4}), (Shape{2, 4}));
  EXPECT_THROW(abstract_rows().shard_shape({6}), IndivisibleError);
  EXPECT_THROW(NamedSharding(AbstractMesh({2}, {"x"}), P("y")), InvalidArgument);
  const Sharding sharding = abstract_rows();
  EXPECT_TRUE(sharding.is_equivalent_to(NamedSharding(AbstractMesh({4, 2}, {"x", "y"}), P("x", none)), 2));
  EXPECT_FALSE(sharding.is_equivalent_to(NamedSharding(AbstractMesh({4, 2}, {"x", "y"}), P("y")), 2));
  EXPECT_FALSE(sharding.is_equivalent_to(rows(), 2));
  EXPECT_FALSE(sharding.is_equivalent_to(abstract_rows().with_memory_kind("pinned_host"), 2));
}

TEST(AbstractMesh, LoweredAgainstAndCompiledForDevices) {
  const auto f = jit([](const Array& x) { return with_sharding_constraint(x * 2, abstract_rows()); });
  const auto lowered = f.lower(ShapeDtypeStruct{{8, 4}, float32, abstract_rows()});
  EXPECT_THAT(lowered.as_text(), testing::HasSubstr(R"(mesh("x"=4, "y"=2))"));
  const auto compiled = lowered.compile(devices());
  EXPECT_EQ(compiled.input_shardings(), (std::vector<Sharding>{rows()}));
  EXPECT_EQ(compiled.output_shardings(), (std::vector<Sharding>{rows()}));
  EXPECT_TRUE(same(compiled(put(iota({8, 4}), mesh_4x2(), P("x"))), iota({8, 4}) * 2));
  EXPECT_TRUE(same(compiled(iota({8, 4})), iota({8, 4}) * 2));
  const std::vector<Device> all = devices();
  const std::vector<Device> reversed(all.rbegin(), all.rend());
  EXPECT_EQ(lowered.compile(reversed).input_shardings()[0].device_list(), reversed);
}

TEST(AbstractMesh, TakesTheDevicesOfArguments) {
  const auto f = jit([](const Array& x) { return with_sharding_constraint(x * 2, abstract_rows()); },
                     {.out_shardings = abstract_rows()});
  const Array y = f(put(iota({8}), mesh_4x2(), P("y")));
  EXPECT_EQ(y.sharding(), Sharding(rows()));
  EXPECT_TRUE(same(y, iota({8}) * 2));
  const auto inner = shard_map([](const Array& x) { return lax::psum(x, "x"); },
                               {.mesh = AbstractMesh({4, 2}, {"x", "y"}), .in_specs = P("x"), .out_specs = P()});
  const Array sum = jit(inner)(put(iota({8}), mesh_4x2(), P("x")));
  EXPECT_EQ(floats(sum), (std::vector<float>{12, 16}));
}

// With a budget a program computes again what it cannot keep, to the same bits.
TEST(Jit, KeepsToItsMemoryBudget) {
  const auto loss = [](const Array& w, const Array& x) {
    Array h = x;
    for (int i = 0; i < 16; ++i) h = tanh(matmul(h, w)) + x;
    return sum(h * h);
  };
  const Array w = iota({32, 32}) / 4000 - 0.1F;
  const Array x = iota({1024, 32}) / 40000;
  const auto taken = [](const auto& compiled) {
    const MemoryAnalysis memory = compiled.memory_analysis();
    return memory.temp_size + memory.output_size;
  };
  const auto free = jit(grad(loss)).lower(w, x).compile();
  const std::int64_t budget = taken(free) / 2;
  const auto lean = jit(grad(loss), {.memory_budget = budget}).lower(w, x).compile();
  EXPECT_LE(taken(lean), budget);
  EXPECT_EQ(floats(lean(w, x)), floats(free(w, x)));
  EXPECT_EQ(floats(jit(grad(loss), {.memory_budget = budget})(w, x)), floats(free(w, x)));
  // What is asked for is there already: nothing changes.
  EXPECT_EQ(jit(grad(loss), {.memory_budget = 2 * taken(free)}).lower(w, x).compile().as_text("fused"),
            free.as_text("fused"));
}

// Where checkpoints in checkpoints need less, so does a budget, but for one value of a layer: sums of gradients take in
// each when it is there, and products give their memory back before what follows them.
TEST(Jit, FitsNearlyWhereNestedCheckpointsDo) {
  constexpr int kLayers = 8;
  using Layer = std::function<Array(const Array&, const Array&)>;
  const auto nested = [](const Layer& layer, const auto& self, const Array& x, const Array& w, int count) -> Array {
    if (count == 1) return layer(x, w);
    const auto first = [&](const Array& a, const Array& b) { return self(layer, self, a, b, count / 2); };
    return self(layer, self, checkpoint(first)(x, w), w, count - count / 2);
  };
  const Layer plain = [](const Array& x, const Array& w) { return tanh(matmul(x, w)); };
  const Layer residual = [](const Array& x, const Array& w) { return x + tanh(matmul(x, w)); };
  const Array x = iota({128, 128}) / 40000;
  const Array w = iota({128, 128}) / 40000 - 0.2F;
  for (const Layer& layer : {plain, residual}) {
    const auto flat = [&](const Array& v, const Array& a) {
      Array h = a;
      for (int i = 0; i < kLayers; ++i) h = layer(h, v);
      return sum(h);
    };
    const auto deep = [&](const Array& v, const Array& a) { return sum(nested(layer, nested, a, v, kLayers)); };
    const auto check = [&](const auto& gradient_of) {
      const auto taken = [](const auto& compiled) {
        const MemoryAnalysis memory = compiled.memory_analysis();
        return memory.temp_size + memory.output_size;
      };
      const auto free = jit(gradient_of(flat)).lower(w, x).compile();
      const std::int64_t budget = taken(jit(gradient_of(deep)).lower(w, x).compile()) + x.nbytes();
      EXPECT_LT(budget, taken(free));
      const auto lean = jit(gradient_of(flat), {.memory_budget = budget}).lower(w, x).compile();
      EXPECT_LE(taken(lean), budget);
      const std::vector<Array> expected = tree::flatten(free(w, x));
      const std::vector<Array> found = tree::flatten(lean(w, x));
      for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(floats(found[i]), floats(expected[i]));
    };
    check([](const auto& f) { return grad<0>(f); });
    check([](const auto& f) { return grad<1>(f); });
    check([](const auto& f) { return grad<0, 1>(f); });
  }
}

// What a loop keeps for the way back is made by a second run of it, while other loops are under way; and what a body
// holds within one trip is computed again there.
TEST(Jit, KeepsToItsMemoryBudgetInLoops) {
  const Array w = iota({32, 32}) / 4000 - 0.1F;
  const Array x = iota({256, 32}) / 10000;
  const auto layers = [&](const Array& h, const Array& weights) {
    const auto layer = [&](const Array& c, std::int64_t) { return tanh(matmul(c, weights)) + x; };
    return lax::fori_loop(
        0, 8, [&](const Array&, const Array& c) { return layer(c, 0); }, h);
  };
  const auto after_another = [&](const Array& weights) {
    Array h = x;
    for (int i = 0; i < 4; ++i) h = layers(h * 0.5F, weights);
    return sum(h * h);
  };
  const auto deep = [&](const Array& weights) {
    Array h = x;
    for (int i = 0; i < 16; ++i) h = tanh(matmul(h, weights)) + x;
    return sum(h * h);
  };
  const auto steps = [&](const Array& weights) {
    return lax::fori_loop(
        0, 3, [&](const Array&, const Array& v) { return v - 0.001F * grad(deep)(v); }, weights);
  };
  const auto check = [&](const auto& f, double share) {
    const auto taken = [](const auto& compiled) {
      const MemoryAnalysis memory = compiled.memory_analysis();
      return memory.temp_size + memory.output_size;
    };
    const auto free = jit(f).lower(w).compile();
    const auto budget = static_cast<std::int64_t>(static_cast<double>(taken(free)) * share);
    const auto lean = jit(f, {.memory_budget = budget}).lower(w).compile();
    EXPECT_LE(taken(lean), budget);
    EXPECT_EQ(floats(lean(w)), floats(free(w)));
  };
  check(grad(after_another), 0.6);
  check(steps, 0.5);
}

}  // namespace
}  // namespace shoal::test
