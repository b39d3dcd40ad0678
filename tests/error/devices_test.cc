// Mistakes with devices, meshes, partition specs, shardings and memories.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>

#include "misuse.h"

namespace shoal::test {
namespace {

// ---- Devices.

// Every test of this binary has eight devices, but for the child processes below.
class Devices : public testing::Environment {
 public:
  void SetUp() override {
    if (std::getenv("SHOAL_NUM_CPU_DEVICES") == nullptr) set_num_cpu_devices(8);
  }
};
[[maybe_unused]] testing::Environment* const kDevices = testing::AddGlobalTestEnvironment(new Devices);

TEST(DevicesError, CountOfDevicesMustBePositive) {
  EXPECT_MISUSE(InvalidArgument, ("set_num_cpu_devices", "count is 0", "between 1 and"), set_num_cpu_devices(0));
  EXPECT_MISUSE(InvalidArgument, ("set_num_cpu_devices", "count is -3", "between 1 and"), set_num_cpu_devices(-3));
}

TEST(DevicesError, TheDefaultDeviceIsOfThisProcess) {
  Device other = devices()[0];
  other.process_index = 7;
  other.id = 7 << 20;
  EXPECT_MISUSE(InvalidArgument, ("set_default_device", "no device of this process"), set_default_device(other));
}

TEST(DevicesError, CountOfDevicesIsFixedOnceTheyAreUsed) {
  EXPECT_EQ(device_count(), 8);
  EXPECT_MISUSE(InvalidState, ("set_num_cpu_devices", "called with 4", "there are 8", "before"),
                set_num_cpu_devices(4));
  EXPECT_NO_THROW(set_num_cpu_devices(8));
}

// What a use of devices says in a process with this value of SHOAL_NUM_CPU_DEVICES.
std::string message_with(const std::string& value) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command = "SHOAL_NUM_CPU_DEVICES='" + value + "' '" + self +
                              "' --gtest_also_run_disabled_tests --gtest_filter='DevicesError.DISABLED_Child' 2>&1";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string output;
  char part[256];
  while (std::fgets(part, sizeof part, pipe.get()) != nullptr) output += part;
  return output;
}

TEST(DevicesError, DISABLED_Child) {
  try {
    std::printf("%d devices\n", device_count());
  } catch (const InvalidArgument& error) {
    std::printf("InvalidArgument: %s\n", error.what());
  }
}

TEST(DevicesError, MalformedVariables) {
  EXPECT_THAT(message_with("3"), testing::HasSubstr("3 devices"));
  for (const char* value : {"abc", "0", "-1", "4x", "99999999999999999999"}) {
    EXPECT_THAT(message_with(value),
                testing::AllOf(testing::HasSubstr("InvalidArgument"), testing::HasSubstr("SHOAL_NUM_CPU_DEVICES"),
                               testing::HasSubstr(value), testing::HasSubstr("1")));
  }
}

// ---- Meshes.

TEST(MeshError, TooFewDevices) {
  EXPECT_MISUSE(InvalidArgument, ("make_mesh", "(3, 3)", "need 9 devices", "there are 8", "SHOAL_NUM_CPU_DEVICES"),
                make_mesh({3, 3}, {"x", "y"}));
  EXPECT_MISUSE(InvalidArgument, ("make_mesh", "(4,)", "need 4 devices", "there are 2"),
                make_mesh({4}, {"x"}, {.devices = {devices()[0], devices()[1]}}));
}

TEST(MeshError, NamesThatDoNotFitSizes) {
  EXPECT_MISUSE(InvalidArgument, ("Mesh", "('x',)", "(4, 2)", "one name for each axis"), make_mesh({4, 2}, {"x"}));
  EXPECT_MISUSE(InvalidArgument, ("Mesh", "('x', 'y')", "(8,)"), Mesh(devices(), {8}, {"x", "y"}));
}

TEST(MeshError, AxisTypesThatDoNotFit) {
  EXPECT_MISUSE(InvalidArgument, ("Mesh", "axis_types (Auto,)", "('x', 'y')", "one type for each axis"),
                make_mesh({4, 2}, {"x", "y"}, {.axis_types = {AxisType::kAuto}}));
}

TEST(MeshError, RepeatedAxisName) {
  EXPECT_MISUSE(InvalidArgument, ("axis_names ('x', 'x')", "'x' twice", "distinct"), make_mesh({4, 2}, {"x", "x"}));
}

TEST(MeshError, EmptyAxisName) {
  EXPECT_MISUSE(InvalidArgument, ("axis 1", "('x', '')", "empty"), make_mesh({4, 2}, {"x", ""}));
}

TEST(MeshError, RepeatedDevice) {
  EXPECT_MISUSE(InvalidArgument, ("CpuDevice(id=0)", "twice", "distinct"),
                Mesh({devices()[0], devices()[1], devices()[0]}, {3}, {"x"}));
}

TEST(MeshError, SizesThatAreNoSizes) {
  EXPECT_MISUSE(InvalidArgument, ("make_mesh", "(0, 2)", "at least 1"), make_mesh({0, 2}, {"x", "y"}));
  EXPECT_MISUSE(InvalidArgument, ("make_mesh", "(-4, -2)", "at least 1"), make_mesh({-4, -2}, {"x", "y"}));
  EXPECT_MISUSE(InvalidArgument, ("Mesh", "(3,)", "8"), Mesh(devices(), {3}, {"x"}));
}

TEST(MeshError, SizesWhoseProductOverflows) {
  const std::int64_t huge = std::int64_t{1} << 32;
  EXPECT_MISUSE(InvalidArgument, ("make_mesh", "4294967296", "there are 8"), make_mesh({huge, huge}, {"x", "y"}));
}

TEST(MeshError, SizeOfAnUnknownAxis) {
  EXPECT_MISUSE(UnboundAxisError, ("axis_size", "'z'", "('x', 'y')"), mesh_4x2().axis_size("z"));
}

// ---- Specs and shardings.

TEST(ShardingError, UnknownAxis) {
  EXPECT_MISUSE(InvalidArgument, ("NamedSharding", "'z'", "P('z',)", "('x', 'y')"), NamedSharding(mesh_4x2(), P("z")));
  EXPECT_MISUSE(InvalidArgument, ("NamedSharding", "'z'", "P(('x', 'z'),)"), NamedSharding(mesh_4x2(), P({"x", "z"})));
}

TEST(ShardingError, AxisNamedTwice) {
  EXPECT_MISUSE(DuplicateSpecError, ("P('x', 'x')", "'x'", "dimension 0", "dimension 1"),
                NamedSharding(mesh_4x2(), P("x", "x")));
  EXPECT_MISUSE(DuplicateSpecError, ("P(('x', 'x'),)", "'x'"), NamedSharding(mesh_4x2(), P({"x", "x"})));
  EXPECT_MISUSE(DuplicateSpecError, ("P(('x', 'y'), 'y')", "'y'"), NamedSharding(mesh_4x2(), P({"x", "y"}, "y")));
}

TEST(ShardingError, EmptyMesh) {
  EXPECT_MISUSE(InvalidArgument, ("NamedSharding", "empty", "P('x',)"), NamedSharding(Mesh(), P("x")));
}

TEST(ShardingError, ShardShape) {
  const NamedSharding rows(mesh_4x2(), P("x"));
  EXPECT_MISUSE(IndivisibleError, ("shard_shape", "dimension 0", "(6, 2)", "size 6", "4", "'x': 4"),
                rows.shard_shape({6, 2}));
  EXPECT_MISUSE(InvalidArgument, ("shard_shape", "P('x',)", "rank 0", "P()"), rows.shard_shape({}));
  EXPECT_MISUSE(IndivisibleError, ("devices_indices_map", "dimension 0", "size 6"), rows.devices_indices_map({6}));
  const NamedSharding open(mesh_4x2(), P(unconstrained));
  EXPECT_MISUSE(InvalidArgument, ("shard_shape", "UNCONSTRAINED"), open.shard_shape({8}));
}

TEST(ShardingError, ZeroExtentsDivide) {
  EXPECT_EQ(NamedSharding(mesh_4x2(), P("x")).shard_shape({0, 2}), (Shape{0, 2}));
}

// ---- device_put.

TEST(DevicePutError, IndivisibleDimension) {
  const NamedSharding rows(mesh_4x2(), P("x"));
  const NamedSharding both(mesh_4x2(), P({"x", "y"}));
  EXPECT_MISUSE(IndivisibleError, ("device_put", "dimension 0", "(2, 4)", "size 2", "4", "P('x',)", "'x': 4"),
                device_put(ones({2, 4}), rows));
  EXPECT_MISUSE(IndivisibleError, ("device_put", "dimension 0", "size 6", "8", "'x': 4, 'y': 2"),
                device_put(ones({6}), both));
  EXPECT_MISUSE(IndivisibleError, ("device_put", "dimension 1", "(4, 3)", "size 3"),
                device_put(ones({4, 3}), NamedSharding(mesh_4x2(), P("x", "y"))));
}

TEST(DevicePutError, SpecLongerThanTheRank) {
  const NamedSharding grid(mesh_4x2(), P("x", "y"));
  EXPECT_MISUSE(InvalidArgument, ("device_put", "P('x', 'y')", "length 2", "rank 1"), device_put(ones({8}), grid));
  EXPECT_MISUSE(InvalidArgument, ("device_put", "rank 0", "P()"), device_put(3.0, NamedSharding(mesh_4x2(), P("x"))));
}

TEST(DevicePutError, UnconstrainedDimension) {
  EXPECT_MISUSE(InvalidArgument, ("device_put", "UNCONSTRAINED"),
                device_put(ones({8}), NamedSharding(mesh_4x2(), P(unconstrained))));
}

TEST(DevicePutError, UnknownDevice) {
  const Device absent{.id = 99};
  EXPECT_MISUSE(InvalidArgument, ("device_put", "CpuDevice(id=99)", "devices 0..7"), device_put(ones({8}), absent));
  const Mesh mesh({Device{.id = 0}, Device{.id = 99}}, {2}, {"x"});
  const NamedSharding sharding(mesh, P("x"));
  EXPECT_MISUSE(InvalidArgument, ("device_put", "CpuDevice(id=99)", "devices 0..7"), device_put(ones({8}), sharding));
  EXPECT_MISUSE(InvalidArgument, ("make_array_from_callback", "CpuDevice(id=99)"),
                make_array_from_callback({8}, sharding, [](const ShardIndex&) { return ones({4}); }));
  const auto g =
      shard_map([](const Array& x) { return x + 1; }, {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x")});
  EXPECT_MISUSE(InvalidArgument, ("shard_map", "CpuDevice(id=99)", "devices 0..7"), g(ones({8})));
  const auto f = jit([](const Array& x) { return x + 1; }, {.out_shardings = sharding, .name = "f"});
  EXPECT_MISUSE(InvalidArgument, ("f: ", "CpuDevice(id=99)", "devices 0..7"), f(ones({8})));
}

TEST(DevicePutError, CreationWithASharding) {
  const NamedSharding rows(mesh_4x2(), P("x"));
  EXPECT_MISUSE(IndivisibleError, ("dimension 0", "size 6", "P('x',)"), zeros({6}, {.sharding = rows}));
  EXPECT_MISUSE(IndivisibleError, ("dimension 0", "size 6", "P('x',)"), arange(6, {.sharding = rows}));
  EXPECT_MISUSE(IndivisibleError, ("dimension 0", "size 3", "P('x',)"), array({1, 2, 3}, {.sharding = rows}));
}

// ---- Memories.

TEST(MemoryError, UnknownKind) {
  EXPECT_MISUSE(InvalidArgument, ("\"hbm\"", "\"device\"", "\"pinned_host\"", "\"unpinned_host\""),
                NamedSharding(mesh_4x2(), P("x"), {.memory_kind = "hbm"}));
}

TEST(MemoryError, OperandsInDifferentMemories) {
  const Array near = put(ones({8, 4}), mesh_4x2(), P("x"));
  const Array far = device_put(near, NamedSharding(mesh_4x2(), P("x"), {.memory_kind = "pinned_host"}));
  EXPECT_MISUSE(InvalidArgument,
                ("add", "f32[8,4]", "'device'", "f32<pinned_host>[8,4]", "'pinned_host'", "device_put"), near + far);
  EXPECT_MISUSE(InvalidArgument, ("matmul", "'device'", "'pinned_host'", "device_put"), matmul(near.T(), far));
  const auto f = jit([](const Array& a, const Array& b) { return a * b; });
  EXPECT_THROW(f(near, far), InvalidArgument);
}

TEST(MemoryError, OperandsInDifferentMemoriesUnderJit) {
  const Array near = put(ones({8, 4}), mesh_4x2(), P("x"));
  const Array far = device_put(near, NamedSharding(mesh_4x2(), P("x"), {.memory_kind = "pinned_host"}));
  const unsigned line = __LINE__ + 1;
  const auto f = jit([](const Array& a, const Array& b) { return a * b; });
  EXPECT_MISUSE_AT(line, InvalidArgument, ("multiply", "'device'", "'pinned_host'"), f(near, far));
}

// ---- Pictures.

TEST(VisualizeError, Rank) {
  std::ostringstream out;
  EXPECT_MISUSE(InvalidArgument, ("visualize_sharding", "rank 3", "rank 1 and 2"),
                debug::visualize_array_sharding(put(ones({4, 2, 2}), mesh_4x2(), P("x")), {.out = &out}));
  EXPECT_MISUSE(InvalidArgument, ("visualize_sharding", "rank 0", "rank 1 and 2"),
                debug::visualize_array_sharding(Array(1.0), {.out = &out}));
}

TEST(VisualizeError, ShardingThatDoesNotFit) {
  std::ostringstream out;
  EXPECT_MISUSE(IndivisibleError, ("visualize_sharding", "dimension 0", "size 6"),
                debug::visualize_sharding({6}, NamedSharding(mesh_4x2(), P("x")), {.out = &out}));
}

}  // namespace
}  // namespace shoal::test
