// Arrays made of parts and taken apart, moved as trees, deleted and donated.
#include <atomic>
#include <cstring>
#include <map>
#include <set>
#include <thread>

#include "frontend/array/array_impl.h"
#include "frontend/test_support.h"
#include "runtime/executable.h"
#include "runtime/lane.h"
#include "shoal/log.h"
#include "shoal/make_array.h"

namespace shoal::test {
namespace {

static_assert(!std::is_default_constructible_v<std::hash<Array>>, "arrays cannot be hashed");

const void* storage(const Array& array, std::size_t shard = 0) {
  return detail::concrete(array).wait().shards.at(shard).data();
}

std::int64_t buffers_made_by(const std::function<void()>& call) {
  const std::int64_t before = execution_counters().buffers;
  call();
  return execution_counters().buffers - before;
}

// The part of an array at an index.
Array part_of(const Array& whole, const ShardIndex& index) {
  std::vector<IndexEntry> entries;
  for (const IndexRange& range : index) entries.emplace_back(Range{range.start, range.stop, 1});
  return whole.at(entries).get();
}

// Memory of the program, which counts when it is given up.
struct Lent {
  std::shared_ptr<std::vector<float>> elements = std::make_shared<std::vector<float>>();
  explicit Lent(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) elements->push_back(static_cast<float>(i));
  }
  std::span<const float> span() const { return *elements; }
};

NamedSharding rows() { return {mesh_4x2(), P("x")}; }

// ---- Memory of the program.

TEST(AsArray, HasTheElementsThemselves) {
  Lent lent(24);
  const std::span<const float> elements = lent.span();
  const void* data = elements.data();
  const std::weak_ptr<const void> owner = lent.elements;
  Array a = asarray(elements, {4, 6}, std::move(lent.elements));
  EXPECT_EQ(storage(a), data);
  EXPECT_FALSE(a.committed());
  EXPECT_TRUE(same(a, arange(24.0F).reshape(4, 6)));
  Array twice = a * 2;
  EXPECT_TRUE(same(twice, arange(24.0F).reshape(4, 6) * 2));
  EXPECT_EQ(storage(device_put(a, devices()[3])), data) << "devices of one process share memory";
  EXPECT_NE(storage(a.copy()), data);
  EXPECT_FALSE(owner.expired());
  twice.block_until_ready();
  a = Array();
  Lane::shared().drain();
  EXPECT_TRUE(owner.expired());
}

TEST(AsArray, DropsTheOwnerOnceWhateverThreadIsLast) {
  std::atomic<int> dropped = 0;
  const std::vector<float> elements(1000, 1.0F);
  {
    Array a = asarray(std::span<const float>(elements), {1000},
                      std::shared_ptr<const void>(&elements, [&](const void*) { ++dropped; }));
    const auto f = jit([](const Array& x) { return sin(x) + 1; });
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back([a, &f] { f(a).block_until_ready(); });
    const Array result = f(a);
    a = Array();
    for (std::thread& thread : threads) thread.join();
    result.block_until_ready();
  }
  Lane::shared().drain();
  EXPECT_EQ(dropped, 1);
}

TEST(AsArray, IsCutWhereShardsAreRunsOfIt) {
  const Lent lent(64);
  const auto begin = reinterpret_cast<std::uintptr_t>(lent.elements->data());
  const auto put = [&](const Sharding& sharding) {
    return asarray(lent.span(), {8, 8}, lent.elements, {.sharding = sharding});
  };
  const Array whole = arange(64.0F).reshape(8, 8);
  const Array split = put(rows());
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(storage(split, i)), begin + i * 64);
  }
  EXPECT_TRUE(same(split, whole));
  EXPECT_TRUE(split.committed());
  EXPECT_EQ(storage(put(NamedSharding(mesh_8(), P()))), lent.elements->data()) << "on every device";
  const NamedSharding columns(mesh_8(), P(none, "i"));
  const Array copied = put(columns);
  const long owners = lent.elements.use_count();
  EXPECT_TRUE(same(copied, whole));
  EXPECT_EQ(owners, 1 + 4) << "columns are copied";
  EXPECT_TRUE(same(put(rows().with_memory_kind("unpinned_host")), whole));
  EXPECT_EQ(put(rows().with_memory_kind("pinned_host")).sharding().memory_kind(), kPinnedHostMemory);
  EXPECT_EQ(lent.elements.use_count(), 1 + 4) << "pinned memory is the library's";
}

TEST(AsArray, CopiesWhatIsNotAligned) {
  const auto bytes = std::make_shared<std::vector<std::byte>>(4 * sizeof(double) + 1);
  std::byte* odd = bytes->data() + (reinterpret_cast<std::uintptr_t>(bytes->data()) % 2 == 0 ? 1 : 0);
  const double values[] = {1, 2, 3, 4};
  std::memcpy(odd, values, sizeof(double) * 3);
  const Array a = asarray(odd, float64, {3}, bytes);
  EXPECT_EQ(bytes.use_count(), 1);
  EXPECT_EQ(a.to_vector<double>(), (std::vector<double>{1, 2, 3}));
  EXPECT_THAT([&] { asarray(odd, float64, {3}, bytes, {.copy = false}); },
              testing::ThrowsMessage<InvalidArgument>(testing::HasSubstr("not aligned to 8 bytes")));
}

TEST(AsArray, CopiesWhenAsked) {
  const Lent lent(8);
  EXPECT_NE(storage(asarray(lent.span(), {8}, lent.elements, {.copy = true})), lent.elements->data());
  EXPECT_EQ(storage(asarray(lent.span(), {8}, lent.elements, {.copy = false})), lent.elements->data());
  EXPECT_THAT(
      [&] {
        asarray(lent.span(), {2, 4}, lent.elements,
                {.sharding = NamedSharding(mesh_4x2(), P(none, "x")), .copy = false});
      },
      testing::ThrowsMessage<InvalidArgument>(testing::HasSubstr("not next to each other")));
  EXPECT_THAT([&] { asarray(lent.span(), {9}, lent.elements); },
              testing::ThrowsMessage<InvalidArgument>(testing::HasSubstr("8 elements do not fill shape (9,)")));
  EXPECT_THAT([&] { asarray(lent.span(), {8}, nullptr); },
              testing::ThrowsMessage<InvalidArgument>(testing::HasSubstr("no owner")));
}

TEST(AsArray, IsNotOverwrittenWhenItIsDonated) {
  const Lent lent(512);
  const auto f = jit([](const Array& x) { return x * 2 + 1; }, {.donate_argnums = {0}});
  for (int i = 0; i < 2; ++i) {
    const Array a = asarray(lent.span(), {512}, lent.elements);
    const Array result = f(a);
    EXPECT_TRUE(same(result, arange(512.0F) * 2 + 1));
    EXPECT_NE(storage(result), lent.elements->data());
    EXPECT_TRUE(a.is_deleted());
  }
  Lane::shared().drain();
  EXPECT_EQ(lent.elements.use_count(), 1);
  for (std::size_t i = 0; i < 512; ++i) ASSERT_EQ((*lent.elements)[i], static_cast<float>(i));
}

// ---- Making.

TEST(MakeArrayFromCallback, CallsOnceForEachDistinctIndex) {
  const Array whole = iota({8, 6});
  const std::map<std::string, std::pair<PartitionSpec, std::size_t>> cases = {{"all", {P("x", "y"), 8}},
                                                                              {"rows", {P("x"), 4}},
                                                                              {"columns", {P(none, "y"), 2}},
                                                                              {"whole", {P(), 1}},
                                                                              {"joint", {P({"x", "y"}), 8}}};
  for (const auto& [name, expected] : cases) {
    SCOPED_TRACE(name);
    const NamedSharding sharding(mesh_4x2(), expected.first);
    std::set<std::string> indices;
    std::size_t calls = 0;
    const Array made = make_array_from_callback({8, 6}, sharding, [&](const ShardIndex& index) {
      ++calls;
      indices.insert(to_string(index));
      return part_of(whole, index);
    });
    EXPECT_EQ(calls, expected.second);
    EXPECT_EQ(indices.size(), calls);
    EXPECT_TRUE(same(made, whole));
    EXPECT_EQ(made.sharding(), Sharding(sharding));
    EXPECT_TRUE(made.committed());
    EXPECT_TRUE(same(made * 2, whole * 2));
  }
}

TEST(MakeArrayFromCallback, OnOneDeviceInAnyMemoryAndOfAnyDtype) {
  const SingleDeviceSharding there(devices()[3], kPinnedHostMemory);
  const Array made = make_array_from_callback({2, 2}, there,
                                              [](const ShardIndex&) {
                                                return array({{1, 2}, {3, 4}});
                                              },
                                              {.dtype = int32});
  EXPECT_EQ(ints(made), (std::vector<int>{1, 2, 3, 4}));
  EXPECT_EQ(made.sharding(), Sharding(there));
  const Array scalar = make_array_from_callback({}, NamedSharding(mesh_8(), P()), [](const ShardIndex& index) {
    EXPECT_TRUE(index.empty());
    return Array(true);
  });
  EXPECT_TRUE(static_cast<bool>(scalar));
}

TEST(MakeArrayFromCallback, WithoutElements) {
  int calls = 0;
  const Array made = make_array_from_callback({0, 4}, rows(), [&](const ShardIndex&) {
    ++calls;
    return zeros({0, 4});
  });
  EXPECT_EQ(made.shape(), (Shape{0, 4}));
  EXPECT_EQ(calls, 1);
}

TEST(MakeArrayFromSingleDeviceArrays, InAnyOrder) {
  const Array whole = iota({8, 6});
  for (const PartitionSpec& spec : {P("x", "y"), P("y"), P(none, "y"), P()}) {
    const Array source = put(whole, mesh_4x2(), spec);
    std::vector<Array> parts;
    for (const Shard& shard : source.addressable_shards()) parts.insert(parts.begin(), shard.data);
    const Array made = make_array_from_single_device_arrays({8, 6}, source.sharding(), parts);
    EXPECT_TRUE(same(made, whole));
    EXPECT_EQ(made.sharding(), source.sharding());
    EXPECT_EQ(storage(made), storage(source)) << "nothing is copied";
  }
}

TEST(MakeArrayFromSingleDeviceArrays, OfReplicasMadeApart) {
  std::vector<Array> parts;
  for (const Device& device : devices()) parts.push_back(device_put(arange(3.0F), device));
  const Array made = make_array_from_single_device_arrays({3}, NamedSharding(mesh_8(), P()), parts);
  EXPECT_EQ(floats(made), (std::vector<float>{0, 1, 2}));
  EXPECT_TRUE(made.is_fully_replicated());
}

TEST(MakeArrayFromProcessLocalData, IsTheWholeArray) {
  const Array made = make_array_from_process_local_data(rows(), iota({8, 2}));
  EXPECT_TRUE(same(made, iota({8, 2})));
  EXPECT_EQ(made.sharding(), Sharding(rows()));
  EXPECT_TRUE(same(make_array_from_process_local_data(rows(), iota({8}), Shape{8}), iota({8})));
}

TEST(MakeArrayFromProcessLocalData, SharesWhatLiesThereAlready) {
  const Array x = put(iota({8, 2}), mesh_4x2(), P("x"));
  const Array made = make_array_from_process_local_data(rows(), x);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(storage(made, i), storage(x, i));
  const Array columns = put(iota({8, 2}), mesh_4x2(), P(none, "y"));
  EXPECT_TRUE(same(make_array_from_process_local_data(rows(), columns), x));
}

// ---- Taking apart.

TEST(Shards, GlobalAndAddressableOnesAgree) {
  const Array x = put(iota({8, 6}), mesh_4x2(), P("x", "y"));
  const std::vector<Shard> global = x.global_shards();
  const std::vector<Shard> local = x.addressable_shards();
  ASSERT_EQ(global.size(), 8U);
  for (std::size_t i = 0; i < global.size(); ++i) {
    EXPECT_EQ(to_string(global[i]), to_string(local[i]));
    EXPECT_TRUE(same(x.addressable_data(static_cast<std::int64_t>(i)), local[i].data));
  }
}

TEST(Shards, Bytes) {
  const Array x = put(iota({8, 6}), mesh_4x2(), P("x"));
  EXPECT_EQ(x.nbytes(), 8 * 6 * 4);
  EXPECT_EQ(x.on_device_size_in_bytes(), 2 * 8 * 6 * 4) << "two copies";
  EXPECT_EQ(Array(true).nbytes(), 1);
  EXPECT_EQ(zeros({0, 3}).nbytes(), 0);
}

// ---- Moving.

TEST(DevicePut, OfATree) {
  const std::pair<Array, std::vector<Array>> tree = {iota({8}), {iota({4}), Array(2)}};
  const auto moved = device_put(tree, NamedSharding(mesh_4x2(), P()));
  EXPECT_EQ(spec_of(moved.first), P());
  EXPECT_EQ(spec_of(moved.second[1]), P());
  const NamedSharding columns(mesh_4x2(), P("y"));
  const auto apart = device_put(tree, {rows(), {columns, none}});
  EXPECT_EQ(spec_of(apart.first), P("x"));
  EXPECT_EQ(spec_of(apart.second[0]), P("y"));
  EXPECT_FALSE(apart.second[1].committed()) << "left where it is";
  EXPECT_TRUE(same(apart.first, tree.first));
  const auto whole = device_get(apart);
  EXPECT_TRUE(same(whole.second[0], tree.second[0]));
  EXPECT_EQ(whole.second[0].sharding(), Sharding(SingleDeviceSharding(devices()[0])));
  EXPECT_FALSE(whole.second[0].committed());
}

TEST(DevicePut, SharesMemoryUnlessToldNotTo) {
  const Array x = put(iota({8}), mesh_4x2(), P("x"));
  EXPECT_EQ(storage(device_put(x, rows())), storage(x));
  const Array apart = device_put(x, rows(), {.may_alias = false});
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NE(storage(apart, i), storage(x, i));
  EXPECT_TRUE(same(apart, x));
  const Array copy = x.copy();
  EXPECT_NE(storage(copy), storage(x));
  EXPECT_TRUE(same(copy, x));
  EXPECT_EQ(copy.sharding(), x.sharding());
  EXPECT_FALSE(Array(1).copy().committed());
  EXPECT_EQ(jit([](const Array& a) { return a.copy() + 1; })(1).item<int>(), 2);
}

TEST(DevicePut, DonatesWhatItIsGiven) {
  const Array x = iota({8});
  const Array y = device_put(x, rows(), {.donate = true});
  EXPECT_TRUE(x.is_deleted());
  EXPECT_EQ(floats(y), floats(iota({8})));
  const Array z = device_put(y, devices()[1], {.donate = true, .may_alias = false});
  EXPECT_TRUE(y.is_deleted());
  EXPECT_TRUE(same(z, iota({8})));
  const std::vector<Array> tree = {iota({8}), iota({4})};
  device_put(tree, rows(), {.donate = true});
  EXPECT_TRUE(tree[0].is_deleted() && tree[1].is_deleted());
}

TEST(DevicePut, DonatesNothingByMistake) {
  const Array x = iota({6});
  EXPECT_THROW(device_put(x, rows(), {.donate = true}), IndivisibleError);
  EXPECT_FALSE(x.is_deleted());
}

// ---- Deletion.

TEST(Delete, FreesMemoryAndKeepsTheType) {
  const AddressSpace& space = host_space({});
  const std::size_t before = space.bytes_in_use();
  const Array x = put(iota({1024}), mesh_4x2(), P("x")).copy();
  x.block_until_ready();
  EXPECT_GE(space.bytes_in_use(), before + 4096);
  EXPECT_FALSE(x.is_deleted());
  x.delete_();
  x.delete_();
  EXPECT_TRUE(x.is_deleted());
  EXPECT_LE(space.bytes_in_use(), before);
  EXPECT_EQ(x.shape(), Shape{1024});
  EXPECT_EQ(x.dtype(), float32);
  EXPECT_EQ(x.nbytes(), 4096);
  EXPECT_EQ(x.sharding(), Sharding(rows()));
  EXPECT_EQ(x.devices().size(), 8U);
  EXPECT_FALSE(x.is_fully_replicated());
  EXPECT_TRUE(x.committed());
  EXPECT_THROW(x + 1, InvalidState);
}

TEST(Delete, ReachesAllCopiesButNotThoseThatShareMemory) {
  const Array x = put(iota({8}), mesh_4x2(), P("x"));
  const Array copy = x;  // NOLINT(performance-unnecessary-copy-initialization)
  const Array alias = device_put(x, rows());
  const Array shard = x.addressable_data(0);
  const Array pending = x * 2;
  x.delete_();
  EXPECT_TRUE(copy.is_deleted());
  EXPECT_FALSE(alias.is_deleted());
  EXPECT_TRUE(same(alias, iota({8})));
  EXPECT_EQ(floats(shard), (std::vector<float>{0, 1}));
  EXPECT_TRUE(same(pending, iota({8}) * 2));
}

TEST(Delete, OfALargeArrayWaitsForNothing) {
  const Array x = ones({1 << 18});
  const Array sum = (x * 2).sum();
  x.delete_();
  EXPECT_EQ(sum.item<float>(), static_cast<float>(1 << 19));
}

// ---- Donation.

TEST(Donation, ReusesTheMemoryElementByElement) {
  const auto f = jit([](const Array& x) { return x * 2 + 1; }, {.donate_argnums = {0}});
  for (const PartitionSpec& spec : {P("x", "y"), P("x"), P()}) {
    const Array warm = put(iota({8, 6}), mesh_4x2(), spec).copy();
    f(warm);
    const Array x = put(iota({8, 6}), mesh_4x2(), spec).copy();
    const void* memory = storage(x);
    Array y;
    EXPECT_LE(buffers_made_by([&] { y = f(x).block_until_ready(); }), 2)
        << "the two numbers; the products and the sums are where x was";
    EXPECT_EQ(storage(y), memory);
    EXPECT_TRUE(x.is_deleted());
    EXPECT_TRUE(same(y, iota({8, 6}) * 2 + 1));
  }
}

TEST(Donation, MakesNoBufferForOneStep) {
  const auto f = jit([](const Array& x) { return sin(x); }, {.donate_argnums = {0}});
  Array x = put(iota({8}), mesh_4x2(), P("x")).copy();
  x = f(x);
  const void* memory = storage(x);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(buffers_made_by([&] { x = f(x).block_until_ready(); }), 0);
    EXPECT_EQ(storage(x), memory);
  }
  EXPECT_TRUE(same(x, sin(sin(sin(sin(sin(sin(iota({8})))))))));
}

TEST(Donation, OfLargeArraysToo) {
  const auto f = jit([](const Array& x) { return x + x; }, {.donate_argnums = {0}});
  Array x = put(ones({1 << 16}), mesh_8(), P("i")).copy();
  x = f(x).block_until_ready();
  const void* memory = storage(x);
  for (int i = 0; i < 3; ++i) x = f(x);
  EXPECT_EQ(x.sum().item<float>(), static_cast<float>(1 << 20));
  EXPECT_EQ(storage(x), memory);
}

TEST(Donation, LeavesSharedMemoryAlone) {
  const auto f = jit([](const Array& x) { return -x; }, {.donate_argnums = {0}});
  const Array x = put(iota({8}), mesh_4x2(), P("x"));
  const Array alias = device_put(x, rows());
  const Array y = f(x);
  EXPECT_TRUE(x.is_deleted());
  EXPECT_TRUE(same(alias, iota({8})));
  EXPECT_TRUE(same(y, -iota({8})));
  EXPECT_NE(storage(y), storage(alias));
}

TEST(Donation, OfWhatOtherStepsStillRead) {
  // The product needs all of x while it is made, and x is needed after the first sum.
  const auto f = jit([](const Array& x) { return std::pair{matmul(x, x), x.sum()}; }, {.donate_argnums = {0}});
  const Array x = iota({4, 4});
  const Array expected = matmul(iota({4, 4}), iota({4, 4}));
  const auto [product, sum] = f(iota({4, 4}).copy());
  EXPECT_TRUE(same(product, expected));
  EXPECT_EQ(sum.item<float>(), 120.0F);
  const auto g = jit([](const Array& a) { return std::pair{a + 1, a.sum()}; }, {.donate_argnums = {0}});
  const auto [later, total] = g(iota({4, 4}).copy());
  EXPECT_TRUE(same(later, iota({4, 4}) + 1));
  EXPECT_EQ(total.item<float>(), 120.0F);
}

TEST(Donation, OfTreesByPosition) {
  const auto f = jit(
      [](const std::vector<Array>& state, const Array& step, int n) {
        return std::vector{state[0] + step * n, state[1] - step};
      },
      {.donate_argnums = {0}});
  const std::vector<Array> state = {iota({8}), iota({8}) * 2};
  const Array step = ones({8});
  const std::vector<Array> next = f(state, step, 3);
  EXPECT_TRUE(state[0].is_deleted() && state[1].is_deleted());
  EXPECT_FALSE(step.is_deleted());
  EXPECT_TRUE(same(next[1], iota({8}) * 2 - 1));
  const auto last = jit([](const Array& a, const Array& b) { return a + b; }, {.donate_argnums = {-1}});
  const Array a = ones({8});
  const Array b = ones({8});
  last(a, b);
  EXPECT_TRUE(b.is_deleted());
  EXPECT_FALSE(a.is_deleted());
}

TEST(Donation, OfNoUseIsKeptWithAWarning) {
  std::vector<std::string> warnings;
  const LogSink before = set_log_sink([&](LogLevel, std::string_view text) { warnings.emplace_back(text); });
  const auto f = jit([](const Array& x) { return x.sum(); }, {.donate_argnums = {0}, .name = "total"});
  const Array x = iota({8});
  f(x);
  f(x);
  const auto far = jit([](const Array& a) { return a + 1; },
                       {.out_shardings = rows().with_memory_kind("pinned_host"), .donate_argnums = {0}});
  const Array near = put(iota({8}), mesh_4x2(), P("x"));
  far(near);
  set_log_sink(before);
  EXPECT_FALSE(x.is_deleted());
  EXPECT_FALSE(near.is_deleted()) << "memory of one kind is no use in another";
  ASSERT_EQ(warnings.size(), 2U) << "once for each program";
  EXPECT_THAT(warnings[0], testing::HasSubstr("total: argument [0] f32[8] is donated, but"));
}

TEST(Donation, ToInShardingsAndInCompiledPrograms) {
  const auto f = jit([](const Array& x) { return x + 1; }, {.in_shardings = {rows()}, .donate_argnums = {0}});
  const Array x = iota({8});
  EXPECT_TRUE(same(f(x), iota({8}) + 1));
  EXPECT_TRUE(x.is_deleted());
  const auto compiled = f.lower(ShapeDtypeStruct{{8}, float32}).compile();
  const Array y = put(iota({8}), mesh_4x2(), P("x")).copy();
  const void* memory = storage(y);
  EXPECT_EQ(storage(compiled(y)), memory);
  EXPECT_TRUE(y.is_deleted());
}

TEST(Donation, MeansNothingInsideATrace) {
  const auto inner = jit([](const Array& x) { return x + 1; }, {.donate_argnums = {0}});
  const auto outer = jit([&](const Array& x) { return inner(x) + x; });
  const Array x = iota({4});
  EXPECT_EQ(floats(outer(x)), (std::vector<float>{1, 3, 5, 7}));
  EXPECT_FALSE(x.is_deleted());
}

TEST(Donation, OfWhatIsReturnedAsItIs) {
  const auto f = jit([](const Array& x) { return x; }, {.donate_argnums = {0}});
  const Array x = iota({4});
  const Array y = f(x);
  EXPECT_TRUE(x.is_deleted());
  EXPECT_TRUE(same(y, iota({4})));
}

}  // namespace
}  // namespace shoal::test
