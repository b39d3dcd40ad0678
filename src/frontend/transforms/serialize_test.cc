// Compiled programs as bytes: what is loaded does what was stored, here and in another process.
#include "shoal/serialize.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>

#include "frontend/test_support.h"
#include "shoal/custom_op.h"

namespace shoal::test {
namespace {

struct SerializeParams {
  Array w;
  std::map<std::string, std::vector<Array>> layers;
  std::optional<Array> bias;
};

SerializeParams step(const SerializeParams& p, const Array& x) {
  SerializeParams next = p;
  next.w = matmul(x.T(), x) + p.w;
  for (Array& layer : next.layers["a"]) layer = layer * 2;
  return next;
}

SerializeParams params() {
  const Mesh mesh = mesh_4x2();
  return {put(iota({8, 8}), mesh, P("x", "y")), {{"a", {put(iota({4}), mesh, P("x")), iota({2})}}}, {}};
}

bool same_trees(const SerializeParams& a, const SerializeParams& b) {
  return same(a.w, b.w) && same(a.layers.at("a")[0], b.layers.at("a")[0]) &&
         same(a.layers.at("a")[1], b.layers.at("a")[1]) && a.bias.has_value() == b.bias.has_value();
}

TEST(Serialize, TreesAndShardings) {
  const Array x = put(sin(iota({16, 8})), mesh_4x2(), P("x"));
  const auto compiled =
      jit(step, {.out_shardings = NamedSharding(mesh_4x2(), P("y")), .name = "step"}).lower(params(), x).compile();
  const auto loaded = deserialize_and_load<SerializeParams(SerializeParams, Array)>(compiled.serialize());
  const SerializeParams want = compiled(params(), x);
  const SerializeParams have = loaded(params(), x);
  EXPECT_TRUE(same_trees(have, want));
  EXPECT_EQ(have.w.sharding(), want.w.sharding());
  EXPECT_EQ(have.w.committed(), want.w.committed());
  EXPECT_EQ(loaded.input_shardings(), compiled.input_shardings());
  EXPECT_EQ(loaded.output_shardings(), compiled.output_shardings());
  EXPECT_EQ(loaded.in_tree(), compiled.in_tree());
  EXPECT_EQ(loaded.out_info().w.shape(), (Shape{8, 8}));
  EXPECT_EQ(loaded.cost_analysis().flops, compiled.cost_analysis().flops);
  for (const char* stage : {"traced", "simplified", "placed", "propagated", "partitioned"}) {
    EXPECT_EQ(loaded.as_text(stage), compiled.as_text(stage));
  }
  EXPECT_EQ(loaded.serialize(), compiled.serialize());
}

TEST(Serialize, CapturedArraysGoAlong) {
  const Array table = put(iota({8, 2}), mesh_8(), P("i"));
  const Array shift = array({1.5F, -2});
  const auto compiled = jit([&](const Array& x) { return table * x + shift; }).lower(Array(2)).compile();
  const auto loaded = deserialize_and_load<Array(Array)>(compiled.serialize());
  EXPECT_TRUE(same(loaded(2), iota({8, 2}) * 2 + shift));
  EXPECT_EQ(loaded(2).sharding(), table.sharding());
}

TEST(Serialize, AllDtypesOfCapturedArrays) {
  for (const Dtype dtype : {bool_, int8, uint64, bfloat16, float64, complex64}) {
    const Array table = (arange(6) - 2).astype(dtype);
    const auto compiled = jit([&](const Array& x) { return table[x]; }).lower(arange(3)).compile();
    EXPECT_TRUE(same(deserialize_and_load<Array(Array)>(compiled.serialize())(arange(3)), table[range(0, 3)]));
  }
}

TEST(Serialize, StaticArgumentsStayWhatTheyWere) {
  const auto power = [](const Array& x, int n) { return n == 2 ? x * x : x; };
  const auto compiled = jit(power).lower(iota({4}), 2).compile();
  const auto loaded = deserialize_and_load<Array(Array, int)>(compiled.serialize());
  EXPECT_EQ(floats(loaded(iota({4}))), (std::vector<float>{0, 1, 4, 9}));
}

TEST(Serialize, InShardingsPlaceArguments) {
  const NamedSharding rows(mesh_8(), P("i"), {.memory_kind = kPinnedHostMemory});
  const auto compiled = jit([](const Array& x) { return x * 2; }, {.in_shardings = {rows}}).lower(iota({8})).compile();
  const Array y = deserialize_and_load<Array(Array)>(compiled.serialize())(iota({8}));
  EXPECT_EQ(y.sharding(), compiled(iota({8})).sharding());
  EXPECT_TRUE(same(y, iota({8}) * 2));
}

TEST(Serialize, Donation) {
  const auto compiled = jit([](const Array& x) { return x + 1; }, {.donate_argnums = {0}})
                            .lower(put(iota({8}), mesh_8(), P("i")))
                            .compile();
  const auto loaded = deserialize_and_load<Array(Array)>(compiled.serialize());
  const Array x = put(iota({8}), mesh_8(), P("i"));
  EXPECT_TRUE(same(loaded(x), iota({8}) + 1));
  EXPECT_TRUE(x.is_deleted());
}

TEST(Serialize, ShardMapAndOpsOfUsers) {
  const auto twice = custom_op({.name = "twice", .rule = "i -> i"}, [](Array x) { return x * 2; });
  const auto sum = shard_map([](const Array& x) { return lax::psum(x, "i"); },
                             {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = P()});
  const Array x = put(iota({16}), mesh_8(), P("i"));
  const auto compiled = jit([&](const Array& a) { return sum(twice(a)); }).lower(x).compile();
  const auto loaded = deserialize_and_load<Array(Array)>(compiled.serialize());
  EXPECT_EQ(floats(loaded(x)), (std::vector<float>{112, 128}));
}

TEST(Serialize, ExplicitAxes) {
  const Mesh mesh = make_mesh({4, 2}, {"x", "y"}, {.axis_types = {AxisType::kExplicit, AxisType::kAuto}});
  const Array x = device_put(iota({8, 2}), NamedSharding(mesh, P("x")));
  const auto compiled = jit([](const Array& a) { return a.T(); }).lower(x).compile();
  const Array y = deserialize_and_load<Array(Array)>(compiled.serialize())(x);
  EXPECT_EQ(spec_of(y), P(none, "x"));
  EXPECT_TRUE(same(y, iota({8, 2}).T()));
}

TEST(Serialize, LoweredAgainstAnAbstractMesh) {
  const NamedSharding rows(AbstractMesh({4, 2}, {"x", "y"}), P("x"));
  const auto f = jit([&](const Array& x) { return with_sharding_constraint(x * 2, rows); });
  const auto compiled = f.lower(ShapeDtypeStruct{{8, 4}, float32, rows}).compile(devices());
  const auto loaded = deserialize_and_load<Array(Array)>(compiled.serialize());
  EXPECT_EQ(loaded.as_text("traced"), compiled.as_text("traced"));
  const Array y = loaded(put(iota({8, 4}), mesh_4x2(), P("x")));
  EXPECT_EQ(y.sharding(), Sharding(NamedSharding(mesh_4x2(), P("x"))));
  EXPECT_TRUE(same(y, iota({8, 4}) * 2));
}

TEST(Serialize, OnOtherDevices) {
  const Mesh mesh = make_mesh({4}, {"i"});
  const Array table = put(iota({4}), mesh, P("i"));
  const auto compiled = jit([&](const Array& x) { return x + table; }).lower(put(ones({4}), mesh, P("i"))).compile();
  const std::vector<Device> all = devices();
  const std::vector<Device> others(all.rbegin(), all.rbegin() + 4);
  const auto loaded = deserialize_and_load<Array(Array)>(compiled.serialize(), others);
  const Array y = loaded(ones({4}));
  EXPECT_EQ(y.sharding().device_list(), others);
  EXPECT_TRUE(same(y, iota({4}) + 1));
  const auto single = jit([](const Array& x) { return x * 2; }).lower(device_put(ones({4}), all[0])).compile();
  const Array z = deserialize_and_load<Array(Array)>(single.serialize(), {all[5]})(ones({4}));
  EXPECT_EQ(z.devices(), (std::set<Device>{all[5]}));
}

// ---- Another process: this binary once more, with the program in a file. There the function does not exist.

constexpr const char* kStored = "SHOAL_TEST_STORED_PROGRAM";

// Run by the next test, as another process.
TEST(Serialize, DISABLED_AsSeenByTheOtherProcess) {
  const char* path = std::getenv(kStored);
  ASSERT_NE(path, nullptr);
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const auto loaded = deserialize_and_load<SerializeParams(SerializeParams, Array)>(bytes);
  const Array x = put(sin(iota({16, 8})), mesh_4x2(), P("x"));
  EXPECT_TRUE(same_trees(loaded(params(), x), step(params(), x)));
}

TEST(Serialize, RunsInAnotherProcess) {
  const Array x = put(sin(iota({16, 8})), mesh_4x2(), P("x"));
  const std::string path =
      (std::filesystem::temp_directory_path() / ("shoal_program_" + std::to_string(getpid()))).string();
  const auto run_with = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
    const std::string command =
        std::string(kStored) + "='" + path + "' '" + self +
        "' --gtest_also_run_disabled_tests --gtest_filter=Serialize.DISABLED_AsSeenByTheOtherProcess > /dev/null 2>&1";
    return std::system(command.c_str());
  };
  const std::string bytes = jit(step).lower(params(), x).compile().serialize();
  EXPECT_EQ(run_with(bytes), 0);
  const auto other = [](const SerializeParams& p, const Array& a) { return step(p, a + 1); };
  EXPECT_NE(run_with(jit(other).lower(params(), x).compile().serialize()), 0) << "the test cannot fail";
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace shoal::test
