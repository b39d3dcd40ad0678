// Each distinct shard exists once and is computed once, whatever the number of devices: counted in the executor, with
// 4,096 virtual devices in one process.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "runtime/executable.h"
#include "shoal/jit.h"
#include "shoal/lax.h"
#include "shoal/numpy.h"
#include "shoal/shard_map.h"

namespace shoal {
namespace {

constexpr int kDevices = 4096;

class ManyDevices : public testing::Environment {
 public:
  void SetUp() override { set_num_cpu_devices(kDevices); }
};
const auto* const kManyDevices = testing::AddGlobalTestEnvironment(new ManyDevices);

// What the executor does during a call.
struct Counts {
  std::int64_t kernels = 0;
  std::int64_t buffers = 0;
  std::int64_t collectives = 0;
  friend bool operator==(const Counts&, const Counts&) = default;
};

Counts now() {
  const ExecutionCounters& counters = execution_counters();
  return {counters.kernels, counters.buffers, counters.collectives};
}

template <class F>
Counts counted(F&& call) {
  const Counts before = now();
  call();
  const Counts after = now();
  return {after.kernels - before.kernels, after.buffers - before.buffers, after.collectives - before.collectives};
}

TEST(DistinctShards, AreComputedOnce) {
  const Mesh mesh = make_mesh({2, 4}, {"x", "y"});
  const Array replicated = device_put(arange(8.0F), NamedSharding(mesh, P()));
  const Array rows = device_put(arange(8.0F), NamedSharding(mesh, P("x")));
  const Array all = device_put(arange(8.0F), NamedSharding(mesh, P({"x", "y"})));
  const auto f =
      jit([](const Array& a, const Array& b, const Array& c) { return std::make_tuple(sin(a), cos(b), tanh(c)); });
  f(replicated, rows, all);  // Compiled.
  const Counts counts = counted([&] { std::get<2>(f(replicated, rows, all)).block_until_ready(); });
  EXPECT_EQ(counts, (Counts{.kernels = 1 + 2 + 8, .buffers = 1 + 2 + 8, .collectives = 0}));
}

TEST(DistinctShards, OfAReductionExistOnce) {
  const Mesh mesh = make_mesh({8}, {"i"});
  const Array x = device_put(arange(64.0F), NamedSharding(mesh, P("i")));
  const auto f = jit([](const Array& a) { return exp(a.sum()); });
  f(x);
  // Eight partial sums, one reduction, and one exponential that all devices share, in the memory of the reduction.
  const Counts counts = counted([&] { f(x).block_until_ready(); });
  EXPECT_EQ(counts, (Counts{.kernels = 8 + 1, .buffers = 8, .collectives = 1}));
}

TEST(DistinctShards, OfAReplicatedArrayShareMemory) {
  const Mesh mesh = make_mesh({64, 64}, {"x", "y"});
  const std::size_t before = host_space({}).bytes_in_use();
  const Array x = device_put(ones({1024}), NamedSharding(mesh, P()));
  x.block_until_ready();
  EXPECT_LE(host_space({}).bytes_in_use() - before, 2 * 4096U);
  EXPECT_TRUE(x.is_fully_replicated());
}

TEST(ManyVirtualDevices, ComputeElementwiseAndReduce) {
  const Mesh mesh = make_mesh({kDevices}, {"i"});
  const Array x = device_put(arange(2 * kDevices), NamedSharding(mesh, P("i")));
  const auto f = jit([](const Array& a) { return std::make_pair(2 * a + 1, a.sum()); });
  const auto [doubled, sum] = f(x);
  std::vector<int> expected(2 * kDevices);
  for (int i = 0; i < 2 * kDevices; ++i) expected[static_cast<std::size_t>(i)] = 2 * i + 1;
  EXPECT_EQ(doubled.to_vector<int>(), expected);
  EXPECT_EQ(doubled.sharding(), x.sharding());
  EXPECT_EQ(sum.item<int>(), kDevices * (2 * kDevices - 1));
}

TEST(ManyVirtualDevices, CommunicateInsideShardMap) {
  const Mesh mesh = make_mesh({64, 64}, {"x", "y"});
  const auto f = shard_map(
      [](const Array& a) {
        const Array row = lax::psum(a, "y");
        return lax::psum(row, "x") + lax::axis_index({"x", "y"});
      },
      {.mesh = mesh, .in_specs = P({"x", "y"}), .out_specs = P({"x", "y"})});
  const Array y = jit([&](const Array& a) { return f(a); })(ones({kDevices}, {.dtype = int32}));
  std::vector<int> expected(kDevices);
  std::iota(expected.begin(), expected.end(), kDevices);
  EXPECT_EQ(y.to_vector<int>(), expected);
}

}  // namespace
}  // namespace shoal
