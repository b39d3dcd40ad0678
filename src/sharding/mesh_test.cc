#include "shoal/mesh.h"

#include <gtest/gtest.h>

#include <sstream>

#include "sharding/test_support.h"

namespace shoal {
namespace {

using test_support::cpus;
using test_support::devices_of;
using test_support::grid;
using test_support::message_of;

template <class T>
std::string written(const T& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

TEST(Mesh, KeepsWhatItWasMadeOf) {
  const Mesh mesh(cpus(8), {2, 4}, {"x", "y"}, {AxisType::kAuto, AxisType::kManual});
  EXPECT_EQ(mesh.axis_names(), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(mesh.axis_sizes(), (Shape{2, 4}));
  EXPECT_EQ(mesh.axis_types(), (std::vector{AxisType::kAuto, AxisType::kManual}));
  EXPECT_EQ(mesh.devices(), cpus(8));
  EXPECT_EQ(mesh.size(), 8);
  EXPECT_FALSE(mesh.empty());
  EXPECT_EQ(mesh.shape(), (std::vector<std::pair<std::string, std::int64_t>>{{"x", 2}, {"y", 4}}));
}

TEST(Mesh, AxesAreAutoUnlessSaidOtherwise) {
  EXPECT_EQ(grid({2, 4}).axis_types(), (std::vector{AxisType::kAuto, AxisType::kAuto}));
}

TEST(Mesh, FindsAxes) {
  const Mesh mesh = grid({2, 4});
  EXPECT_EQ(mesh.find_axis("x"), 0U);
  EXPECT_EQ(mesh.find_axis("y"), 1U);
  EXPECT_EQ(mesh.find_axis("z"), std::nullopt);
  EXPECT_EQ(mesh.axis_size("y"), 4);
}

TEST(Mesh, TextForms) {
  EXPECT_EQ(to_string(grid({2, 4})), "Mesh('x': 2, 'y': 4, axis_types=(Auto, Auto))");
  EXPECT_EQ(written(grid({8})), "Mesh('x': 8, axis_types=(Auto,))");
  EXPECT_EQ(to_string(Mesh(cpus(1), {1}, {"a"}, {AxisType::kExplicit})), "Mesh('a': 1, axis_types=(Explicit,))");
  EXPECT_EQ(to_string(Mesh()), "Mesh()");
  EXPECT_EQ(to_string(Mesh(cpus(1), {}, {})), "Mesh(axis_types=())");
  EXPECT_EQ(written(AxisType::kManual), "Manual");
  EXPECT_EQ(written(std::vector{AxisType::kAuto, AxisType::kExplicit}), "(Auto, Explicit)");
  EXPECT_EQ(written(std::vector<AxisType>{}), "()");
}

TEST(Mesh, EmptyMesh) {
  const Mesh mesh;
  EXPECT_TRUE(mesh.empty());
  EXPECT_EQ(mesh.size(), 0);
  EXPECT_TRUE(mesh.axis_names().empty());
  EXPECT_EQ(mesh, Mesh());
  EXPECT_NE(mesh, grid({1}));
}

TEST(Mesh, WithoutAxesHoldsOneDevice) {
  const Mesh mesh(cpus(1), {}, {});
  EXPECT_EQ(mesh.size(), 1);
  EXPECT_FALSE(mesh.empty());
  EXPECT_NE(mesh, Mesh());
}

TEST(Mesh, EqualityAndHashSeeEveryPart) {
  const Mesh mesh = grid({2, 4});
  const Mesh same = grid({2, 4});
  EXPECT_EQ(mesh, same);
  EXPECT_EQ(mesh.hash(), same.hash());
  const std::vector<Mesh> others = {
      grid({4, 2}),
      grid({8}),
      grid({2, 4}, {7, 6, 5, 4, 3, 2, 1, 0}),
      Mesh(cpus(8), {2, 4}, {"x", "z"}),
      Mesh(cpus(8), {2, 4}, {"x", "y"}, {AxisType::kAuto, AxisType::kExplicit}),
      Mesh(),
  };
  for (const Mesh& other : others) {
    EXPECT_NE(mesh, other) << other;
    EXPECT_NE(mesh.hash(), other.hash()) << other;
  }
  std::vector<Device> gpus = cpus(8);
  for (Device& device : gpus) device.platform = Platform::kCuda;
  EXPECT_NE(mesh, Mesh(gpus, {2, 4}, {"x", "y"}));
}

TEST(Mesh, EqualAcrossViewsOfProcesses) {
  std::vector<Device> devices = cpus(2);
  devices[1].process_index = 1;
  const Mesh mesh(devices, {2}, {"x"});
  EXPECT_EQ(mesh, grid({2}));
  EXPECT_EQ(mesh.hash(), grid({2}).hash());
}

TEST(MeshError, UnknownAxis) {
  EXPECT_EQ(message_of<UnboundAxisError>([] {
              (void)grid({2, 4}).axis_size("z");
            }),
            "Mesh::axis_size: axis 'z' is not in the mesh, whose axes are ('x', 'y')");
}

TEST(MeshError, WrongNumberOfNames) {
  EXPECT_EQ(message_of<InvalidArgument>([] {
              Mesh(cpus(8), {8}, {"x", "y"});
            }),
            "Mesh: axis_names ('x', 'y') of length 2 does not fit axis sizes (8,) of length 1; give one name for each "
            "axis");
}

TEST(MeshError, WrongNumberOfTypes) {
  EXPECT_EQ(message_of<InvalidArgument>([] {
              Mesh(cpus(8), {2, 4}, {"x", "y"}, {AxisType::kAuto});
            }),
            "Mesh: axis_types (Auto,) of length 1 does not fit axis_names ('x', 'y') of length 2; give one type for "
            "each axis, or none at all");
}

TEST(MeshError, EmptyName) {
  EXPECT_EQ(message_of<InvalidArgument>([] {
              Mesh(cpus(8), {2, 4}, {"x", ""});
            }),
            "Mesh: the name of axis 1 in axis_names ('x', '') is empty; every axis needs a name");
}

TEST(MeshError, RepeatedName) {
  EXPECT_EQ(message_of<InvalidArgument>([] {
              Mesh(cpus(8), {2, 4}, {"x", "x"});
            }),
            "Mesh: axis_names ('x', 'x') has 'x' twice; the names must be distinct");
}

TEST(MeshError, SizeBelowOne) {
  EXPECT_EQ(message_of<InvalidArgument>([] { Mesh({}, {0}, {"x"}); }),
            "Mesh: axis 'x' has size 0; the size of an axis must be at least 1");
  EXPECT_EQ(message_of<InvalidArgument>([] {
              Mesh(cpus(8), {-2, -4}, {"x", "y"});
            }),
            "Mesh: axis 'x' has size -2; the size of an axis must be at least 1");
}

TEST(MeshError, WrongNumberOfDevices) {
  EXPECT_EQ(
      message_of<InvalidArgument>([] {
        Mesh(cpus(8), {2, 3}, {"x", "y"});
      }),
      "Mesh: the product of axis sizes (2, 3) is not 8, the number of devices; the mesh needs one device for each "
      "of its places");
  EXPECT_EQ(message_of<InvalidArgument>([] { Mesh({}, {}, {}); }),
            "Mesh: the product of axis sizes () is not 0, the number of devices; the mesh needs one device for each of "
            "its places");
  // The product of these sizes is 0 modulo 2^64.
  EXPECT_NE(message_of<InvalidArgument>([] {
              Mesh({}, {std::int64_t{1} << 32, std::int64_t{1} << 32}, {"x", "y"});
            }).find("is not 0, the number of devices"),
            std::string::npos);
}

TEST(MeshError, RepeatedDevice) {
  EXPECT_EQ(message_of<InvalidArgument>([] {
              Mesh(devices_of({3, 0, 3}), {3}, {"x"});
            }),
            "Mesh: CpuDevice(id=3) is given twice; the devices of a mesh must be distinct");
}

TEST(Mesh, HasSpeeds) {
  const Mesh usual(cpus(8), {2, 4}, {"x", "y"});
  EXPECT_TRUE(usual.has_usual_speeds());
  EXPECT_EQ(usual.speeds(), (MeshSpeeds{.axes = {4e9, 4e9}, .device = 1e11}));
  EXPECT_EQ(usual.with_speeds({}), usual);
  const Mesh slow = usual.with_speeds({.axes = {1e9, 4e9}});
  EXPECT_NE(slow, usual);
  EXPECT_EQ(slow, usual.with_speeds({.axes = {1e9, 4e9}, .device = 1e11}));
  EXPECT_EQ(slow.hash(), usual.with_speeds({.axes = {1e9, 4e9}}).hash());
  EXPECT_NE(slow, slow.with_speeds({.axes = {1e9, 4e9}, .device = 1e12}));
  EXPECT_EQ(slow.abstract_mesh().speeds(), slow.speeds());
  EXPECT_NE(Mesh(slow.abstract_mesh()), Mesh(usual.abstract_mesh()));
  EXPECT_EQ(slow.with_devices(cpus(8)), slow);
  EXPECT_EQ(slow.local_mesh(), slow);
  EXPECT_EQ(to_string(slow),
            "Mesh('x': 2, 'y': 4, axis_types=(Auto, Auto), axis_speeds=(1e+09, 4e+09), "
            "device_speed=1e+11)");
}

TEST(MeshError, Speeds) {
  const Mesh mesh(cpus(8), {2, 4}, {"x", "y"});
  EXPECT_EQ(message_of<InvalidArgument>([&] { static_cast<void>(mesh.with_speeds({.axes = {1e9}})); }),
            "Mesh: axis speeds (1e+09,) of length 1 do not fit axis_names ('x', 'y') of length 2; give one speed "
            "for each axis, or none at all");
  EXPECT_EQ(message_of<InvalidArgument>([&] {
              static_cast<void>(mesh.with_speeds({.axes = {1e9, 0}}));
            }),
            "Mesh: the speed of axis 'y' is 0; it must be a positive number of bytes per second");
  EXPECT_EQ(message_of<InvalidArgument>([&] { static_cast<void>(mesh.with_speeds({.device = -1})); }),
            "Mesh: the speed of a device is -1; it must be a positive number of operations per second");
}

TEST(MeshError, CarriesTheUsersLine) {
  const unsigned line = std::source_location::current().line() + 2;
  try {
    Mesh(cpus(8), {7}, {"x"});
    FAIL() << "no error was thrown";
  } catch (const InvalidArgument& error) {
    ASSERT_TRUE(error.where().has_value());
    EXPECT_EQ(error.where()->line(), line);
    EXPECT_TRUE(std::string_view(error.what()).ends_with("\n  at mesh_test.cc:" + std::to_string(line)));
  }
}

}  // namespace
}  // namespace shoal
