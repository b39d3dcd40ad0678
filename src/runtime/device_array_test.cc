#include "runtime/device_array.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "core/device_list.h"
#include "runtime/lane.h"
#include "sharding/shared_grid.h"
#include "sharding/test_support.h"

namespace shoal {
namespace {

using test_support::grid;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// An i32 array of 0, 1, 2, … on a device.
DeviceArray counting(const Shape& shape, MemoryKind kind = {}) {
  const SingleDeviceSharding sharding(Device{}, kind);
  ShardSet shards = ShardSet::make(shared_grid(Device{}), {});
  shards.shards[0] = Buffer(host_space(kind), int32, shape);
  auto* data = static_cast<std::int32_t*>(shards.shards[0].mutable_data());
  for (std::int64_t i = 0; i < num_elements(shape); ++i) data[i] = static_cast<std::int32_t>(i);
  return ready_array({.dtype = int32, .shape = shape, .weak = false, .memory = kind, .varying = {}}, sharding, false,
                     std::move(shards));
}

DeviceArray moved(const DeviceArray& array, const Sharding& sharding) {
  return put(array, sharding, true, SourceLocation::current());
}

// Whether every device holds what the sharding's index map says of 0, 1, 2, ….
::testing::AssertionResult holds_counting(const DeviceArray& array) {
  const Shape& shape = array.type().shape;
  const Dims strides = row_major_strides(shape);
  const auto map = array.sharding().devices_indices_map(shape);
  for (std::size_t position = 0; position < map.size(); ++position) {
    if (array.grid()->devices()[position] != map[position].first)
      return ::testing::AssertionFailure() << "device order";
    const Buffer& shard = array.wait().at(static_cast<std::int64_t>(position));
    const ShardIndex& index = map[position].second;
    Shape local;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      local.push_back(index[d].stop.value_or(shape[d]) - index[d].start.value_or(0));
    }
    if (shard.shape() != local) return ::testing::AssertionFailure() << "shape " << to_string(shard.shape());
    const auto* data = static_cast<const std::int32_t*>(shard.data());
    for (std::int64_t i = 0; i < num_elements(local); ++i) {
      std::int64_t rest = i;
      std::int64_t expected = 0;
      for (std::size_t d = shape.size(); d-- > 0; rest /= local[d]) {
        expected += (index[d].start.value_or(0) + rest % local[d]) * strides[d];
      }
      if (data[i] != expected) return ::testing::AssertionFailure() << "element " << i << " at " << position;
    }
  }
  return ::testing::AssertionSuccess();
}

std::vector<const void*> pointers(const DeviceArray& array) {
  std::vector<const void*> list;
  for (const Buffer& shard : array.wait().shards) list.push_back(shard.data());
  return list;
}

// ---- redistribute

Sharding random_sharding(const Shape& shape, std::mt19937& random) {
  static const std::vector<Shape> kMeshes = {{1}, {2}, {4}, {6}, {2, 2}, {2, 3}, {3, 2}, {1, 4}, {2, 2, 2}};
  const MemoryKind kind = random() % 4 == 0 ? kPinnedHostMemory : kDeviceMemory;
  if (random() % 8 == 0) return SingleDeviceSharding(Device{.id = static_cast<std::int64_t>(random() % 3)}, kind);
  const Shape& sizes = kMeshes[random() % kMeshes.size()];
  std::vector<std::int64_t> ids(12);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i);
  if (random() % 2 == 0) std::shuffle(ids.begin(), ids.end(), random);
  ids.resize(static_cast<std::size_t>(num_elements(sizes)));
  const Mesh mesh = grid(sizes, ids);
  std::vector<std::vector<std::string>> names(shape.size());
  for (std::size_t a = 0; a < sizes.size(); ++a) {
    const std::size_t d = random() % (shape.size() + 1);
    if (d == shape.size()) continue;
    names[d].push_back(mesh.axis_names()[a]);
  }
  std::vector<PartitionEntry> entries;
  for (auto& list : names) {
    std::shuffle(list.begin(), list.end(), random);
    entries.emplace_back(std::move(list));
  }
  return NamedSharding(mesh, PartitionSpec(std::move(entries)), {.memory_kind = kind});
}

TEST(Put, MovesBetweenAnyShardings) {
  std::mt19937 random(1);
  for (const Shape& shape : std::vector<Shape>{{}, {24}, {12, 24}, {24, 1, 12}, {0, 12}}) {
    DeviceArray array = counting(shape);
    for (int step = 0; step < 200; ++step) {
      const Sharding sharding = random_sharding(shape, random);
      try {
        array = moved(array, sharding);
      } catch (const IndivisibleError&) {
        continue;
      }
      ASSERT_EQ(array.sharding(), sharding);
      ASSERT_EQ(array.type().memory, sharding.memory_kind());
      ASSERT_EQ(array.wait().varying, array.placement().varying());
      for (const Buffer& shard : array.wait().shards) ASSERT_EQ(&shard.space(), &host_space(sharding.memory_kind()));
      ASSERT_TRUE(holds_counting(array)) << to_string(shape) << " on " << to_string(sharding);
    }
  }
}

TEST(Put, SharesWhatIsUnchanged) {
  const DeviceArray array = moved(counting({8, 8}), NamedSharding(grid({2, 2}), P("x", "y")));
  EXPECT_EQ(pointers(moved(array, array.sharding())), pointers(array));
  EXPECT_EQ(pointers(moved(array, NamedSharding(grid({2, 2}, {4, 5, 6, 7}), P("x", "y")))), pointers(array))
      << "other devices, the same address space";
  const std::vector<const void*> turned = pointers(moved(array, NamedSharding(grid({2, 2}), P("y", "x"))));
  EXPECT_EQ(std::set(turned.begin(), turned.end()).size(), 4U);
  const std::vector<const void*> before = pointers(array);
  EXPECT_TRUE(std::is_permutation(turned.begin(), turned.end(), before.begin())) << "the same four blocks";
}

TEST(Put, ReplicationSharesOneBuffer) {
  const DeviceArray whole = counting({8});
  const DeviceArray replicated = moved(whole, NamedSharding(grid({8}), P()));
  EXPECT_EQ(pointers(replicated), pointers(whole));
  EXPECT_EQ(replicated.wait().shards.size(), 1U);
  const DeviceArray halves = moved(whole, NamedSharding(grid({2, 4}), P("x")));
  EXPECT_EQ(halves.wait().shards.size(), 2U) << "one for each distinct shard, not for each device";
}

TEST(Put, SplittingFurtherCopiesOnlyPieces) {
  const DeviceArray halves = moved(counting({8}), NamedSharding(grid({2, 2}), P("x")));
  const DeviceArray same = moved(halves, NamedSharding(grid({2}, {3, 1}), P("x")));
  EXPECT_EQ(pointers(same), pointers(halves));
  const DeviceArray quarters = moved(halves, NamedSharding(grid({2, 2}), P({"x", "y"})));
  for (const void* piece : pointers(quarters)) {
    EXPECT_THAT(pointers(halves), ::testing::Not(::testing::Contains(piece)));
  }
}

TEST(Put, NeverSharesAcrossMemories) {
  const DeviceArray array = moved(counting({8}), NamedSharding(grid({2}), P("x")));
  const DeviceArray pinned = moved(array, NamedSharding(grid({2}), P("x"), {.memory_kind = kPinnedHostMemory}));
  const DeviceArray back = moved(pinned, array.sharding());
  for (const void* data : pointers(pinned)) {
    EXPECT_THAT(pointers(array), ::testing::Not(::testing::Contains(data)));
    EXPECT_THAT(pointers(back), ::testing::Not(::testing::Contains(data)));
  }
  EXPECT_EQ(&pinned.wait().shards[0].space(), &host_space(kPinnedHostMemory));
  EXPECT_EQ(pinned.type().memory, kPinnedHostMemory);
  EXPECT_TRUE(holds_counting(pinned));
  EXPECT_TRUE(holds_counting(back));
}

TEST(Put, Complains) {
  const DeviceArray array = counting({5});
  EXPECT_THAT(
      [&] { moved(array, NamedSharding(grid({2}), P("x"))); },
      ThrowsMessage<IndivisibleError>(HasSubstr("device_put: argument 0: dimension 0 of shape (5,) has size 5")));
  EXPECT_THAT([&] { moved(array, NamedSharding(grid({2}), P(none, "x"))); },
              ThrowsMessage<InvalidArgument>(HasSubstr("device_put: argument 0: spec P(None, 'x')")));
}

TEST(Put, HandsOnTheErrorOfWhatItMoves) {
  DeviceArray array = counting({4});
  array.shards = ShardFuture::pending();
  array.shards.fail(std::make_exception_ptr(InvalidState("it broke")));
  const DeviceArray result = moved(array, NamedSharding(grid({2}), P("x")));
  EXPECT_THAT([&] { result.wait(); }, ThrowsMessage<InvalidState>(HasSubstr("it broke")));
}

// ---- to_host

TEST(ToHost, PutsShardsTogether) {
  for (const PartitionSpec& spec : {P(), P("x"), P(none, "x"), P("y", "x"), P({"y", "x"})}) {
    const DeviceArray array = moved(counting({4, 6}), NamedSharding(grid({2, 2}), spec));
    const Buffer host = to_host(array);
    ASSERT_EQ(host.shape(), (Shape{4, 6}));
    const auto* data = static_cast<const std::int32_t*>(host.data());
    for (std::int32_t i = 0; i < 24; ++i) ASSERT_EQ(data[i], i) << to_string(spec);
  }
}

TEST(ToHost, SharesWhatIsWhole) {
  const DeviceArray array = counting({4});
  EXPECT_TRUE(same_memory(to_host(array), array.wait().shards[0]));
}

// ---- layout_of

TEST(LayoutOf, IsThePlacementOfTheSharding) {
  const Layout layout = layout_of(NamedSharding(grid({2, 4}), P(none, {"y", "x"})), 3);
  EXPECT_EQ(to_string(*layout.grid, layout.placement), "[_, (y, x), _]");
  const Layout single = layout_of(SingleDeviceSharding(Device{.id = 4}), 2);
  EXPECT_EQ(single.grid->devices(), test_support::devices_of({4}));
  EXPECT_EQ(single.placement, Placement::replicated(2));
}

// ---- kind_of

KindPtr some_kind(const Shape& shape, const PartitionSpec& spec, bool committed = true, Dtype dtype = int32) {
  return kind_of({.dtype = dtype, .shape = shape}, NamedSharding(grid({2, 2}), spec), committed);
}

TEST(KindOf, EqualKindsAreOneObject) {
  const KindPtr kind = some_kind({4, 4}, P("x"));
  EXPECT_EQ(some_kind({4, 4}, P("x")), kind);
  EXPECT_NE(some_kind({4, 8}, P("x")), kind);
  EXPECT_NE(some_kind({4, 4}, P("y")), kind);
  EXPECT_NE(some_kind({4, 4}, P("x"), false), kind);
  EXPECT_NE(some_kind({4, 4}, P("x"), true, float32), kind);
  EXPECT_NE(kind_of({.dtype = int32, .shape = {4, 4}, .weak = true}, kind->sharding, true), kind);
  EXPECT_EQ(kind->layout.grid, shared_grid(grid({2, 2})));
  EXPECT_EQ(some_kind({8}, P())->layout.grid, kind->layout.grid);
  EXPECT_NE(shared_grid(grid({2, 2}, {3, 2, 1, 0})), kind->layout.grid);
}

TEST(KindOf, LastsAsLongAsSomebodyHasIt) {
  KindPtr kind = some_kind({16}, P("x"));
  const std::weak_ptr<const ArrayKind> observer = kind;
  kind.reset();
  EXPECT_TRUE(observer.expired());
  EXPECT_EQ(some_kind({16}, P("x"))->type.shape, (Shape{16}));
}

TEST(KindOf, ManyThreadsMakeAndForgetKinds) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (std::int64_t i = 0; i < 500; ++i) {
        const Shape shape{2 * ((i + t) % 3 + 1)};
        const KindPtr kind = some_kind(shape, P("x"));
        ASSERT_EQ(kind->type.shape, shape);
        ASSERT_EQ(some_kind(shape, P("x")), kind);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// ---- put_host

TEST(PutHost, CopiesEachElementOnceForAllThatShareIt) {
  std::vector<std::int32_t> numbers(24);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::int32_t>(i);
  const Type type{.dtype = int32, .shape = {4, 6}};
  for (const PartitionSpec& spec : {P(), P("x"), P(none, "x"), P("y", "x")}) {
    const std::size_t before = host_space({}).bytes_in_use();
    const DeviceArray array =
        put_host(type, {.data = numbers.data()}, NamedSharding(grid({2, 2}), spec), true, SourceLocation::current());
    EXPECT_TRUE(holds_counting(array)) << to_string(spec);
    EXPECT_EQ(host_space({}).bytes_in_use(), before + 96) << to_string(spec);
    for (const void* data : pointers(array)) EXPECT_NE(data, numbers.data());
  }
}

TEST(DescribeDevices, IsShort) {
  EXPECT_EQ(describe_devices(test_support::devices_of({3})), "device 3");
  EXPECT_EQ(describe_devices(test_support::cpus(8)), "devices 0..7");
  EXPECT_EQ(describe_devices(test_support::devices_of({4, 5, 6})), "devices 4..6");
  EXPECT_EQ(describe_devices(test_support::devices_of({1, 0})), "devices [1, 0]");
}

}  // namespace
}  // namespace shoal
