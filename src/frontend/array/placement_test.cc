// Where arrays lie: device_put, committed and uncommitted arrays, memories, shards; and arrays as futures.
#include <future>

#include "frontend/array/array_impl.h"
#include "frontend/test_support.h"
#include "runtime/lane.h"
#include "shoal/default_device.h"

namespace shoal::test {
namespace {

// The storage of a shard.
const void* storage(const Shard& shard) { return detail::impl_of(shard.data).shards().wait().shards[0].data(); }

TEST(Placement, NewArraysAreUncommittedOnTheDefaultDevice) {
  for (const Array& x : {Array(1), zeros({4}), arange(4), array({1, 2}), ones({2}) + 1}) {
    EXPECT_FALSE(x.committed());
    EXPECT_EQ(x.devices(), (std::set<Device>{devices()[0]}));
  }
}

TEST(Placement, DevicePut) {
  const Array x = device_put(iota({8}), devices()[2]);
  EXPECT_TRUE(x.committed());
  EXPECT_EQ(x.devices(), (std::set<Device>{devices()[2]}));
  const Array y = put(x, mesh_8(), P("i"));
  EXPECT_EQ(y.devices().size(), 8U);
  EXPECT_EQ(floats(y), floats(x));
  EXPECT_EQ(device_put(2.5, devices()[1]).item<float>(), 2.5F);
  EXPECT_TRUE(device_put(2.5, devices()[1]).weak_type());
  EXPECT_FALSE(device_put(iota({2})).committed());
  EXPECT_EQ(device_put(x).devices(), x.devices());
}

TEST(Placement, AllShardingsOfAllShapesHoldTheSame) {
  const Mesh mesh = make_mesh({2, 2, 2}, {"a", "b", "c"});
  const std::vector<PartitionSpec> specs = {P(),
                                            P("a"),
                                            P(none, "a"),
                                            P("a", "b"),
                                            P("b", "a"),
                                            P({"a", "b"}),
                                            P({"b", "a"}),
                                            P({"c", "a"}, "b"),
                                            P(none, {"c", "b", "a"}),
                                            P("c", {"a", "b"})};
  const Array x = iota({8, 8});
  for (const PartitionSpec& from : specs) {
    const Array y = put(x, mesh, from);
    EXPECT_TRUE(same(y, x)) << to_string(from);
    for (const PartitionSpec& to : specs) {
      const Array z = put(y, mesh, to);
      EXPECT_TRUE(same(z, x)) << to_string(from) << to_string(to);
      EXPECT_EQ(spec_of(z), to);
    }
  }
}

TEST(Placement, BetweenMeshesAndDeviceOrders) {
  std::vector<Device> reversed = devices();
  std::reverse(reversed.begin(), reversed.end());
  std::vector<Device> odd;
  for (int i : {1, 5, 3, 7}) odd.push_back(devices()[static_cast<std::size_t>(i)]);
  const std::vector<Sharding> places = {NamedSharding(mesh_8(), P("i")),
                                        NamedSharding(mesh_4x2(), P("y", "x")),
                                        NamedSharding(Mesh(reversed, {8}, {"r"}), P("r")),
                                        NamedSharding(Mesh(odd, {2, 2}, {"u", "v"}), P("v", "u")),
                                        SingleDeviceSharding(devices()[6]),
                                        NamedSharding(mesh_8(), P("i"), {.memory_kind = "unpinned_host"})};
  const Array x = iota({8, 8});
  for (const Sharding& from : places) {
    for (const Sharding& to : places) {
      const Array y = device_put(device_put(x, from), to);
      EXPECT_TRUE(same(y, x)) << to_string(from) << to_string(to);
      EXPECT_EQ(y.sharding(), to);
      for (const Shard& shard : y.addressable_shards()) {
        EXPECT_EQ(shard.data.devices(), (std::set<Device>{shard.device}));
        std::vector<IndexEntry> index;
        for (const IndexRange& r : shard.index) index.emplace_back(Range{r.start, r.stop, 1});
        EXPECT_TRUE(same(shard.data, x.at(index).get()));
      }
    }
  }
}

TEST(Placement, ShardsInMeshOrder) {
  const auto shards = put(iota({4, 8}), mesh_4x2(), P("x", "y")).addressable_shards();
  ASSERT_EQ(shards.size(), 8U);
  EXPECT_EQ(shards[3].device, devices()[3]);
  EXPECT_EQ(to_string(shards[3].index), "(slice(1, 2, None), slice(4, 8, None))");
  EXPECT_EQ(shards[3].replica_id, 0);
  EXPECT_EQ(floats(shards[3].data), (std::vector<float>{12, 13, 14, 15}));
  EXPECT_TRUE(shards[3].data.committed());
}

TEST(Placement, EqualShardsShareTheirStorage) {
  const auto shards = put(iota({8}), mesh_4x2(), P("x")).addressable_shards();
  std::set<const void*> distinct;
  for (const Shard& shard : shards) distinct.insert(storage(shard));
  EXPECT_EQ(distinct.size(), 4U);
  EXPECT_EQ(storage(shards[0]), storage(shards[1]));
  EXPECT_EQ(shards[0].replica_id, 0);
  EXPECT_EQ(shards[1].replica_id, 1);
  const auto copies = put(iota({8}), mesh_8(), P()).addressable_shards();
  EXPECT_EQ(storage(copies[0]), storage(copies[7]));
  EXPECT_EQ(copies[7].replica_id, 7);
}

TEST(Placement, MovesThatChangeNothingShareStorage) {
  const Array x = put(iota({8}), mesh_8(), P("i"));
  EXPECT_EQ(storage(put(x, mesh_8(), P("i")).addressable_shards()[3]), storage(x.addressable_shards()[3]));
  EXPECT_EQ(storage(put(x, mesh_4x2(), P({"x", "y"})).addressable_shards()[3]), storage(x.addressable_shards()[3]));
}

TEST(Placement, ComputationFollowsCommittedData) {
  const Array five = device_put(iota({8}), devices()[5]);
  EXPECT_EQ((five + iota({8})).devices(), five.devices());
  EXPECT_EQ((iota({8}) + five).devices(), five.devices());
  EXPECT_EQ((1 - five).devices(), five.devices());
  EXPECT_TRUE((five + 1).committed());
  EXPECT_EQ(five.sum().devices(), five.devices());
  EXPECT_EQ(where(five > 2, five, 0).devices(), five.devices());
}

TEST(Placement, EagerOpsKeepShardings) {
  const Array x = put(iota({8, 8}), mesh_4x2(), P("x", "y"));
  EXPECT_EQ(spec_of(x * 2 + 1), P("x", "y"));
  EXPECT_EQ(spec_of(x.T()), P("y", "x"));
  EXPECT_EQ(spec_of(x.astype(int32)), P("x", "y"));
  EXPECT_EQ(spec_of(x.sum(0)), P("y"));
  EXPECT_EQ(spec_of(x.reshape(4, 2, 8)), P("x", none, "y"));
  EXPECT_EQ(spec_of(x + ones({8})), P("x", "y"));
  EXPECT_TRUE(same(matmul(x, x), matmul(iota({8, 8}), iota({8, 8}))));
}

TEST(Placement, Memories) {
  const NamedSharding pinned(mesh_8(), P("i"), {.memory_kind = "pinned_host"});
  const Array near = put(iota({8}), mesh_8(), P("i"));
  const Array far = device_put(near, pinned);
  EXPECT_EQ(far.sharding().memory_kind(), kPinnedHostMemory);
  EXPECT_EQ(floats(far), floats(near));
  EXPECT_NE(storage(far.addressable_shards()[0]), storage(near.addressable_shards()[0]));
  EXPECT_EQ((far * 2).sharding().memory_kind(), kPinnedHostMemory);
  EXPECT_EQ((2 * far + 1).sharding().memory_kind(), kPinnedHostMemory);
  EXPECT_EQ(where(far > 2, far, 0).sharding().memory_kind(), kPinnedHostMemory);
  EXPECT_EQ(maximum(3, far).sharding().memory_kind(), kPinnedHostMemory);
  EXPECT_EQ(far.mean().sharding().memory_kind(), kPinnedHostMemory);
  EXPECT_EQ((far > 0).any().sharding().memory_kind(), kPinnedHostMemory);
  EXPECT_EQ(far[{range(0, 4)}].sharding().memory_kind(), kPinnedHostMemory);
  EXPECT_EQ(device_put(far, near.sharding()).sharding(), near.sharding());
}

TEST(Placement, ConstraintOutsideJitMoves) {
  const NamedSharding rows(mesh_4x2(), P("x"));
  EXPECT_EQ(with_sharding_constraint(iota({8, 2}), rows).sharding(), Sharding(rows));
  EXPECT_EQ(with_sharding_constraint(device_put(iota({8}), devices()[3]), rows).sharding(), Sharding(rows));
  const Array split = put(iota({8, 2}), mesh_4x2(), P("x", "y"));
  EXPECT_EQ(spec_of(with_sharding_constraint(split, NamedSharding(mesh_4x2(), P(none, unconstrained)))), P(none, "y"));
  EXPECT_EQ(with_sharding_constraint(split, rows.with_memory_kind("pinned_host")).sharding().memory_kind(),
            kPinnedHostMemory);
}

// ---- Futures.

// Occupies the launch lane until it is released.
class Gate {
 public:
  Gate() {
    Lane::shared().submit(Lane::Length::kLong, [this] { open_.get_future().wait(); });
  }
  ~Gate() { release(); }
  void release() {
    if (!std::exchange(released_, true)) open_.set_value();
    Lane::shared().drain();
  }

 private:
  std::promise<void> open_;
  bool released_ = false;
};

TEST(Future, ResultsAreReadyLater) {
  const Array x = iota({8});
  const auto f = jit([](const Array& a) { return a * 2; });
  Gate gate;
  const Array y = f(x);
  const Array z = y + 1;
  EXPECT_TRUE(x.is_ready());
  EXPECT_FALSE(y.is_ready());
  EXPECT_FALSE(z.is_ready());
  EXPECT_EQ(z.shape(), Shape{8});
  EXPECT_EQ(z.dtype(), float32);
  gate.release();
  EXPECT_EQ(&z.block_until_ready(), &z);
  EXPECT_TRUE(y.is_ready());
  EXPECT_TRUE(z.is_ready());
  EXPECT_EQ(z.to_vector<float>()[7], 15.0F);
}

TEST(Future, MovesAreFutures) {
  Gate gate;
  const Array y = put(iota({8}), mesh_8(), P("i"));
  EXPECT_FALSE(y.is_ready());
  gate.release();
  EXPECT_EQ(floats(y)[7], 7.0F);
}

TEST(Future, ReadingWaits) {
  auto gate = std::make_unique<Gate>();
  const Array y = iota({8}) + 1;
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    gate->release();
  });
  EXPECT_EQ(floats(y)[0], 1.0F);
  opener.join();
}

TEST(Future, TracersAreReady) {
  jit([](const Array& x) {
    EXPECT_TRUE(x.is_ready());
    EXPECT_NO_THROW(x.block_until_ready());
    EXPECT_FALSE(x.committed());
    return x;
  })(1.0);
}

TEST(Future, LargeResults) {
  const Array x = put(iota({512, 512}), mesh_4x2(), P("x", "y"));
  const auto f = jit([](const Array& a) { return matmul(a, a.T()).sum(); });
  const Array y = f(x);
  EXPECT_TRUE(y.block_until_ready().is_ready());
}

TEST(Placement, TheDefaultDevice) {
  const Array before = ones({2});
  const Device third = devices()[3];
  const auto made = jit([] { return ones({2}); });
  const auto doubled = jit([](const Array& x) { return x * 2; });
  doubled(before);
  {
    const use_default_device here(third);
    EXPECT_EQ(default_device(), third);
    for (const Array& x : {ones({2}), array({1, 2}), before + 1, made(), doubled(before), arange(3)}) {
      EXPECT_EQ(x.devices(), (std::set<Device>{third}));
      EXPECT_FALSE(x.committed());
    }
    EXPECT_EQ((device_put(before, devices()[1]) + 1).devices(), (std::set<Device>{devices()[1]}));
  }
  EXPECT_EQ(default_device(), devices()[0]);
  EXPECT_EQ(made().devices(), (std::set<Device>{devices()[0]}));
  EXPECT_EQ(doubled(before).devices(), (std::set<Device>{devices()[0]}));
}

}  // namespace
}  // namespace shoal::test
