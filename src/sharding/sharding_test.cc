#include "shoal/sharding.h"

#include <gtest/gtest.h>

#include <sstream>

#include "sharding/test_support.h"

namespace shoal {
namespace {

using test_support::cpus;
using test_support::grid;
using test_support::message_of;

NamedSharding named(const Shape& sizes, PartitionSpec spec) { return NamedSharding(grid(sizes), std::move(spec)); }
SingleDeviceSharding on_device(std::int64_t id) { return SingleDeviceSharding(Device{.id = id}); }

// The index of each device's shard, in the order of the mesh.
std::vector<std::string> indices(const Sharding& sharding, const Shape& global) {
  std::vector<std::string> out;
  for (const auto& [device, index] : sharding.devices_indices_map(global)) out.push_back(to_string(index));
  return out;
}

TEST(ShardIndex, TextForms) {
  EXPECT_EQ(to_string(ShardIndex{}), "()");
  EXPECT_EQ(to_string(ShardIndex{{0, 4}}), "(slice(0, 4, None),)");
  EXPECT_EQ(to_string(ShardIndex{{0, 2}, {}}), "(slice(0, 2, None), slice(None, None, None))");
}

TEST(Sharding, TextForms) {
  EXPECT_EQ(to_string(named({2, 4}, P("x", "y"))),
            "NamedSharding(mesh=Mesh('x': 2, 'y': 4, axis_types=(Auto, Auto)), spec=P('x', 'y'), memory_kind=device)");
  EXPECT_EQ(to_string(named({8}, P()).with_memory_kind("pinned_host")),
            "NamedSharding(mesh=Mesh('x': 8, axis_types=(Auto,)), spec=P(), memory_kind=pinned_host)");
  EXPECT_EQ(to_string(on_device(0)), "SingleDeviceSharding(device=CpuDevice(id=0), memory_kind=device)");
  std::ostringstream out;
  out << Sharding(on_device(3));
  EXPECT_EQ(out.str(), "SingleDeviceSharding(device=CpuDevice(id=3), memory_kind=device)");
}

TEST(Sharding, HoldsOneKind) {
  const Sharding mesh = named({2}, P("x"));
  ASSERT_NE(mesh.named(), nullptr);
  EXPECT_EQ(mesh.single_device(), nullptr);
  const Sharding single = on_device(1);
  ASSERT_NE(single.single_device(), nullptr);
  EXPECT_EQ(single.named(), nullptr);
}

TEST(Sharding, Devices) {
  const Sharding sharding = NamedSharding(grid({2, 2}, {3, 1, 0, 2}), P("x"));
  EXPECT_EQ(sharding.device_list(), test_support::devices_of({3, 1, 0, 2}));
  const std::vector<Device> sorted = cpus(4);
  EXPECT_EQ(sharding.device_set(), (std::set<Device>{sorted.begin(), sorted.end()}));
  EXPECT_EQ(Sharding(on_device(5)).device_list(), test_support::devices_of({5}));
  EXPECT_EQ(Sharding(on_device(5)).device_set(), std::set<Device>{Device{.id = 5}});
}

TEST(Sharding, MemoryKinds) {
  const NamedSharding device = named({2}, P("x"));
  EXPECT_EQ(device.memory_kind(), kDeviceMemory);
  const NamedSharding host = device.with_memory_kind("pinned_host");
  EXPECT_EQ(host.memory_kind(), kPinnedHostMemory);
  EXPECT_EQ(host, NamedSharding(grid({2}), P("x"), {.memory_kind = kPinnedHostMemory}));
  EXPECT_EQ(host.with_spec(P()).memory_kind(), kPinnedHostMemory);
  EXPECT_EQ(Sharding(host).memory_kind(), kPinnedHostMemory);
  EXPECT_EQ(Sharding(host).with_memory_kind(kDeviceMemory), Sharding(device));
  EXPECT_EQ(Sharding(on_device(1)).with_memory_kind(kUnpinnedHostMemory),
            Sharding(SingleDeviceSharding(Device{.id = 1}, kUnpinnedHostMemory)));
}

TEST(Sharding, NumPieces) {
  const Sharding sharding = named({2, 4}, P({"x", "y"}));
  EXPECT_EQ(sharding.num_pieces(1), (Dims{8}));
  EXPECT_EQ(sharding.num_pieces(3), (Dims{8, 1, 1}));
  EXPECT_EQ(Sharding(named({2, 4}, P(none, "y"))).num_pieces(2), (Dims{1, 4}));
  EXPECT_EQ(Sharding(on_device(0)).num_pieces(2), (Dims{1, 1}));
  EXPECT_EQ(Sharding(on_device(0)).num_pieces(0), Dims{});
}

TEST(Sharding, ShardShape) {
  EXPECT_EQ(named({2, 4}, P("x", "y")).shard_shape({4, 8}), (Shape{2, 2}));
  EXPECT_EQ(named({2, 4}, P("y")).shard_shape({8, 3, 5}), (Shape{2, 3, 5}));
  EXPECT_EQ(named({2, 4}, P({"x", "y"})).shard_shape({0, 3}), (Shape{0, 3}));
  EXPECT_EQ(named({2, 4}, P()).shard_shape({}), Shape{});
  EXPECT_EQ(Sharding(named({2}, P("x"))).shard_shape({6}), (Shape{3}));
  EXPECT_EQ(Sharding(on_device(0)).shard_shape({3, 5}), (Shape{3, 5}));
}

TEST(Sharding, IndicesOfTwoDimensions) {
  EXPECT_EQ(
      indices(named({2, 2}, P("x", "y")), {4, 8}),
      (std::vector<std::string>{"(slice(0, 2, None), slice(0, 4, None))", "(slice(0, 2, None), slice(4, 8, None))",
                                "(slice(2, 4, None), slice(0, 4, None))", "(slice(2, 4, None), slice(4, 8, None))"}));
}

TEST(Sharding, IndicesFollowTheOrderOfAxesInAnEntry) {
  EXPECT_EQ(indices(named({2, 2}, P({"x", "y"})), {4}),
            (std::vector<std::string>{"(slice(0, 1, None),)", "(slice(1, 2, None),)", "(slice(2, 3, None),)",
                                      "(slice(3, 4, None),)"}));
  EXPECT_EQ(indices(named({2, 2}, P({"y", "x"})), {4}),
            (std::vector<std::string>{"(slice(0, 1, None),)", "(slice(2, 3, None),)", "(slice(1, 2, None),)",
                                      "(slice(3, 4, None),)"}));
}

TEST(Sharding, IndicesOfWholeDimensionsHaveNoBounds) {
  EXPECT_EQ(indices(named({2}, P(none, "x")), {3, 2, 5}),
            (std::vector<std::string>{"(slice(None, None, None), slice(0, 1, None), slice(None, None, None))",
                                      "(slice(None, None, None), slice(1, 2, None), slice(None, None, None))"}));
  EXPECT_EQ(indices(named({2}, P()), {}), (std::vector<std::string>{"()", "()"}));
  EXPECT_EQ(indices(on_device(4), {3, 2}),
            (std::vector<std::string>{"(slice(None, None, None), slice(None, None, None))"}));
}

TEST(Sharding, IndicesOverAxesOfSizeOneHaveNoBounds) {
  EXPECT_EQ(indices(named({1, 2}, P("x")), {8}),
            (std::vector<std::string>{"(slice(None, None, None),)", "(slice(None, None, None),)"}));
  EXPECT_EQ(indices(named({1, 2}, P({"x", "y"})), {8}),
            (std::vector<std::string>{"(slice(0, 4, None),)", "(slice(4, 8, None),)"}));
}

TEST(Sharding, IndicesOfEmptyDimensions) {
  EXPECT_EQ(indices(named({2}, P("x")), {0}),
            (std::vector<std::string>{"(slice(0, 0, None),)", "(slice(0, 0, None),)"}));
}

TEST(Sharding, IndicesBelongToTheDevicesOfTheMesh) {
  const Sharding sharding = NamedSharding(grid({2}, {7, 3}), P("x"));
  const auto map = sharding.devices_indices_map({4});
  ASSERT_EQ(map.size(), 2U);
  EXPECT_EQ(map[0], (std::pair<Device, ShardIndex>{Device{.id = 7}, {{0, 2}}}));
  EXPECT_EQ(map[1], (std::pair<Device, ShardIndex>{Device{.id = 3}, {{2, 4}}}));
}

TEST(Sharding, FullyReplicated) {
  EXPECT_TRUE(named({2, 4}, P()).is_fully_replicated());
  EXPECT_TRUE(named({2, 4}, P(none, none)).is_fully_replicated());
  EXPECT_TRUE(named({1, 4}, P("x")).is_fully_replicated());
  EXPECT_TRUE(named({1, 1}, P("x", "y")).is_fully_replicated());
  EXPECT_TRUE(Sharding(on_device(0)).is_fully_replicated());
  EXPECT_FALSE(named({2, 4}, P("x")).is_fully_replicated());
  EXPECT_FALSE(Sharding(named({1, 4}, P({"x", "y"}))).is_fully_replicated());
  EXPECT_FALSE(named({2, 4}, P(unconstrained)).is_fully_replicated());
}

TEST(Sharding, UnreducedOnesAreNotWhole) {
  const auto over = [](const Shape& sizes, const PartitionSpec& spec) {
    const std::vector<AxisType> types(sizes.size(), AxisType::kExplicit);
    return Sharding(NamedSharding(AbstractMesh(sizes, {"x", "y"}, types), spec));
  };
  EXPECT_FALSE(over({2, 4}, P(unreduced("y"))).is_fully_replicated());
  EXPECT_TRUE(over({2, 4}, P(reduced("y"))).is_fully_replicated());
  EXPECT_TRUE(over({2, 4}, P("x", reduced("y"))).is_equivalent_to(over({2, 4}, P("x")), 2));
  EXPECT_TRUE(over({2, 1}, P(unreduced("y"))).is_fully_replicated());
  EXPECT_TRUE(over({2, 4}, P("x", unreduced("y"))).is_equivalent_to(over({2, 4}, P("x", none, unreduced("y"))), 2));
  EXPECT_FALSE(over({2, 4}, P("x", unreduced("y"))).is_equivalent_to(over({2, 4}, P("x")), 2));
  EXPECT_FALSE(over({2, 4}, P(unreduced("x"))).is_equivalent_to(over({2, 4}, P(unreduced("y"))), 2));
  EXPECT_EQ(over({2, 4}, P("x", unreduced("y"))).shard_shape({4, 4}), (Shape{2, 4}));
}

TEST(Sharding, EqualityAndHashSeeEveryPart) {
  const Sharding sharding = named({2, 4}, P("x"));
  EXPECT_EQ(sharding, Sharding(named({2, 4}, P("x"))));
  EXPECT_EQ(sharding.hash(), Sharding(named({2, 4}, P("x"))).hash());
  const std::vector<Sharding> others = {named({2, 4}, P("y")), named({2, 4}, P("x", none)), named({4, 2}, P("x")),
                                        sharding.with_memory_kind(kPinnedHostMemory), on_device(0)};
  for (const Sharding& other : others) {
    EXPECT_NE(sharding, other) << other;
    EXPECT_NE(sharding.hash(), other.hash()) << other;
  }
  EXPECT_EQ(Sharding(on_device(1)).hash(), Sharding(on_device(1)).hash());
  EXPECT_NE(Sharding(on_device(0)), Sharding(on_device(1)));
  EXPECT_NE(Sharding(on_device(0)).hash(), Sharding(on_device(1)).hash());
}

TEST(Sharding, EquivalentSpellings) {
  const auto equivalent = [](const Sharding& a, const Sharding& b, std::size_t rank) {
    EXPECT_EQ(a.is_equivalent_to(b, rank), b.is_equivalent_to(a, rank)) << a << ' ' << b;
    return a.is_equivalent_to(b, rank);
  };
  // The same mesh.
  EXPECT_TRUE(equivalent(named({2, 4}, P("x")), named({2, 4}, P("x", none)), 2));
  EXPECT_FALSE(equivalent(named({2, 4}, P("x")), named({2, 4}, P("y")), 1));
  EXPECT_FALSE(equivalent(named({2, 2}, P("x")), named({2, 2}, P("y")), 1));
  EXPECT_FALSE(equivalent(named({2, 4}, P("x")), named({2, 4}, P(none, "x")), 2));
  EXPECT_FALSE(equivalent(named({2, 4}, P({"x", "y"})), named({2, 4}, P({"y", "x"})), 1));
  EXPECT_TRUE(equivalent(named({1, 4}, P("x")), named({1, 4}, P()), 1));
  // Other meshes over the same devices.
  EXPECT_TRUE(equivalent(named({2, 4}, P({"x", "y"})), named({8}, P("x")), 1));
  EXPECT_TRUE(equivalent(named({2, 4}, P()), named({8}, P()), 3));
  EXPECT_FALSE(equivalent(named({2, 4}, P("x")), named({8}, P("x")), 1));
  EXPECT_FALSE(equivalent(named({2}, P()), named({4}, P()), 1));
  EXPECT_FALSE(equivalent(NamedSharding(grid({2}, {1, 0}), P()), named({2}, P()), 1));
  // One device.
  EXPECT_TRUE(equivalent(on_device(0), named({1, 1}, P("x", "y")), 2));
  EXPECT_FALSE(equivalent(on_device(1), named({1}, P("x")), 1));
  // Memory kinds.
  EXPECT_FALSE(equivalent(named({2}, P("x")), named({2}, P("x")).with_memory_kind(kPinnedHostMemory), 1));
}

TEST(Sharding, EquivalentToEqualsOnlyWherePiecesAreUnknown) {
  const Sharding open = named({2, 4}, P("x", unconstrained));
  EXPECT_TRUE(open.is_equivalent_to(named({2, 4}, P("x", unconstrained)), 2));
  EXPECT_FALSE(open.is_equivalent_to(named({2, 4}, P("x")), 2));
  const Sharding matrix = named({2, 4}, P("x", none));
  EXPECT_TRUE(matrix.is_equivalent_to(matrix, 1));
  EXPECT_FALSE(matrix.is_equivalent_to(named({2, 4}, P("x")), 1));
  EXPECT_FALSE(Sharding(named({2, 4}, P("x"))).is_equivalent_to(matrix, 1));
}

TEST(Sharding, Compatible) {
  EXPECT_NO_THROW(Sharding(named({2, 4}, P("x", "y"))).check_compatible({4, 8, 3}, "test"));
  EXPECT_NO_THROW(Sharding(named({2, 4}, P("x"))).check_compatible({0}, "test"));
  EXPECT_NO_THROW(Sharding(named({2, 4}, P("x", unconstrained))).check_compatible({4, 7}, "test"));
  EXPECT_NO_THROW(Sharding(on_device(0)).check_compatible({}, "test"));
}

TEST(ShardingError, EmptyMesh) {
  EXPECT_EQ(message_of<InvalidArgument>([] { NamedSharding(Mesh(), P("x")); }),
            "NamedSharding: the mesh given for spec P('x',) is empty; a mesh of at least one device is needed");
}

TEST(ShardingError, UnknownAxis) {
  EXPECT_EQ(message_of<InvalidArgument>([] {
              named({2, 4}, P()).with_spec(P("x", "z"));
            }),
            "NamedSharding: axis 'z' of spec P('x', 'z') is not in the mesh, whose axes are ('x', 'y')");
  EXPECT_EQ(message_of<InvalidArgument>([] { NamedSharding(grid({2}), P("")); }),
            "NamedSharding: axis '' of spec P('',) is not in the mesh, whose axes are ('x',)");
}

TEST(ShardingError, AxisNamedTwice) {
  EXPECT_EQ(message_of<DuplicateSpecError>([] {
              NamedSharding(grid({2, 4}), P("x", "x"));
            }),
            "NamedSharding: spec P('x', 'x') names axis 'x' for dimension 0 and again for dimension 1; an axis may be "
            "named once in a spec");
  EXPECT_EQ(message_of<DuplicateSpecError>([] {
              NamedSharding(grid({2, 4}), P(none, {"y", "y"}));
            }),
            "NamedSharding: spec P(None, ('y', 'y')) names axis 'y' for dimension 1 and again for dimension 1; an axis "
            "may be named once in a spec");
}

TEST(ShardingError, UnknownMemoryKind) {
  EXPECT_NE(message_of<InvalidArgument>([] { named({2}, P()).with_memory_kind("fast"); }).find("pinned_host"),
            std::string::npos);
}

TEST(ShardingError, SpecLongerThanRank) {
  const Sharding sharding = named({2, 4}, P("x", "y"));
  EXPECT_EQ(message_of<InvalidArgument>([&] { sharding.check_compatible({8}, "device_put: argument 0"); }),
            "device_put: argument 0: spec P('x', 'y') of length 2 does not fit an array of rank 1; a spec may have at "
            "most one entry for each dimension");
  EXPECT_EQ(message_of<InvalidArgument>([&] { (void)sharding.shard_shape({}); }),
            "shard_shape: spec P('x', 'y') of length 2 does not fit an array of rank 0; for a scalar the spec must be "
            "P()");
  EXPECT_EQ(message_of<InvalidArgument>([&] { (void)sharding.num_pieces(1); }),
            "num_pieces: spec P('x', 'y') of length 2 does not fit an array of rank 1; a spec may have at most one "
            "entry for each dimension");
  EXPECT_EQ(
      message_of<InvalidArgument>([&] { (void)sharding.devices_indices_map({8}); }),
      "devices_indices_map: spec P('x', 'y') of length 2 does not fit an array of rank 1; a spec may have at most "
      "one entry for each dimension");
}

TEST(ShardingError, NotDivisible) {
  EXPECT_EQ(
      message_of<IndivisibleError>(
          [] { Sharding(named({8}, P("x"))).check_compatible({30}, "device_put: argument 0"); }),
      "device_put: argument 0: dimension 0 of shape (30,) has size 30, which is not a multiple of 8, the number of "
      "pieces that spec P('x',) asks for over mesh axes ('x': 8)");
  EXPECT_EQ(message_of<IndivisibleError>([] {
              (void)named({4, 2}, P(none, {"x", "y"})).shard_shape({8, 6});
            }),
            "shard_shape: dimension 1 of shape (8, 6) has size 6, which is not a multiple of 8, the number of pieces "
            "that spec P(None, ('x', 'y')) asks for over mesh axes ('x': 4, 'y': 2)");
  EXPECT_EQ(message_of<IndivisibleError>([] { (void)Sharding(named({4}, P("x"))).devices_indices_map({2}); }),
            "devices_indices_map: dimension 0 of shape (2,) has size 2, which is not a multiple of 4, the number of "
            "pieces that spec P('x',) asks for over mesh axes ('x': 4)");
  // The other dimensions of a constraint are checked as usual.
  EXPECT_EQ(
      message_of<IndivisibleError>([] {
        Sharding(named({4}, P(unconstrained, "x"))).check_compatible({2, 2}, "with_sharding_constraint");
      }),
      "with_sharding_constraint: dimension 1 of shape (2, 2) has size 2, which is not a multiple of 4, the number "
      "of pieces that spec P(UNCONSTRAINED, 'x') asks for over mesh axes ('x': 4)");
}

TEST(ShardingError, Unconstrained) {
  const NamedSharding sharding = named({2, 4}, P("x", unconstrained));
  const std::string rest =
      ": spec P('x', UNCONSTRAINED) leaves a dimension unconstrained, so its pieces are unknown; every entry must be "
      "none or axes (unconstrained is for sharding constraints)";
  EXPECT_EQ(message_of<InvalidArgument>([&] { (void)sharding.shard_shape({4, 8}); }), "shard_shape" + rest);
  EXPECT_EQ(message_of<InvalidArgument>([&] {
              (void)sharding.devices_indices_map({4, 8});
            }),
            "devices_indices_map" + rest);
  EXPECT_EQ(message_of<InvalidArgument>([&] { (void)Sharding(sharding).num_pieces(2); }), "num_pieces" + rest);
}

TEST(ShardingError, CarriesTheUsersLine) {
  const unsigned line = std::source_location::current().line() + 2;
  try {
    NamedSharding(grid({2}), P("y"));
    FAIL() << "no error was thrown";
  } catch (const InvalidArgument& error) {
    ASSERT_TRUE(error.where().has_value());
    EXPECT_EQ(error.where()->line(), line);
  }
}

}  // namespace
}  // namespace shoal
