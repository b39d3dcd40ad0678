// Executables: what they compute while values share memory, how they fail, and how they run side by side.
#include "runtime/executable.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "runtime/test_support.h"

namespace shoal {
namespace {

using test_support::all_atoms;
using test_support::GraphOfShards;
using test_support::grid_of;
using test_support::random_inputs;
using test_support::RandomProgram;
using test_support::run_one_by_one;
using test_support::same_elements;

// More threads than this machine may have, so that loops are really shared.
class ThreeThreads : public ::testing::Environment {
  void SetUp() override { ::setenv("SHOAL_NUM_THREADS", "3", 1); }
};
const auto* const kThreads = ::testing::AddGlobalTestEnvironment(new ThreeThreads);

// Where a shard lies, as an interval of one space of addresses: each piece of a buffer has a range of its own.
struct Range {
  std::size_t begin;
  std::size_t end;
};

std::vector<std::vector<Range>> ranges_of(const Graph& graph, const MemoryPlan& plan) {
  std::vector<std::vector<Range>> ranges(graph.values.size());
  for (std::size_t id = 0; id < graph.values.size(); ++id) {
    const std::size_t bytes = static_cast<std::size_t>(num_elements(graph.values[id].type.shape)) * 4;
    for (const MemoryPlan::Place& place : plan.places[id]) {
      const MemoryPlan::Storage& storage = plan.storage(place);
      EXPECT_NE(storage.kind, MemoryPlan::Kind::kMerged);
      std::size_t begin = storage.offset + static_cast<std::size_t>(place.piece) * storage.stride + place.offset;
      if (storage.kind == MemoryPlan::Kind::kArena) {
        EXPECT_LE(begin + bytes, plan.arena_bytes[0]);
      } else {
        // An output that takes a donor's buffers lies where the donor does.
        const auto region = static_cast<std::size_t>(storage.donor >= 0 ? storage.donor : place.storage);
        begin = ((region + 1) << 40) + (static_cast<std::size_t>(place.piece) << 24) + place.offset;
      }
      ranges[id].push_back({begin, begin + bytes});
    }
  }
  return ranges;
}

bool shares_storage(const MemoryPlan& plan, ValueId a, ValueId b) {
  const auto& of_a = plan.places[static_cast<std::size_t>(a)];
  const auto& of_b = plan.places[static_cast<std::size_t>(b)];
  return std::ranges::any_of(of_a, [&](const MemoryPlan::Place& x) {
    return std::ranges::any_of(of_b, [&](const MemoryPlan::Place& y) { return x.storage == y.storage; });
  });
}

// A value that is needed after a step, or read by it, is not written over by the step, unless element by element.
void check_plan(const Graph& graph, const MemoryPlan& plan) {
  const auto steps = static_cast<std::ptrdiff_t>(graph.eqns.size());
  std::vector<std::ptrdiff_t> needed_until(graph.values.size(), -1);
  const auto need = [&](ValueId id, std::ptrdiff_t step) {
    std::ptrdiff_t& until = needed_until[static_cast<std::size_t>(id)];
    until = std::max(until, step);
  };
  for (ValueId id : graph.outputs) need(id, steps);
  for (std::ptrdiff_t step = steps; step-- > 0;) {
    const Eqn& eqn = graph.eqns[static_cast<std::size_t>(step)];
    // Where nothing is written, the result is made of the operand's bytes; so is, among zeros, what lies with them.
    const bool writes = plan.runs[static_cast<std::size_t>(step)] && !plan.renames[static_cast<std::size_t>(step)];
    const bool renames = !writes && shares_storage(plan, eqn.inputs[0], eqn.outputs[0]);
    for (ValueId id : eqn.inputs) {
      need(id, step);
      if (renames) need(id, needed_until[static_cast<std::size_t>(eqn.outputs[0])]);
    }
  }
  const auto ranges = ranges_of(graph, plan);
  for (std::ptrdiff_t step = 0; step < steps; ++step) {
    const Eqn& eqn = graph.eqns[static_cast<std::size_t>(step)];
    if (!plan.runs[static_cast<std::size_t>(step)] || plan.renames[static_cast<std::size_t>(step)]) continue;
    for (const Range& written : ranges[static_cast<std::size_t>(eqn.outputs[0])]) {
      for (std::size_t id = 0; id < graph.values.size(); ++id) {
        const bool defined_before = static_cast<ValueId>(id) < eqn.outputs[0];
        if (!defined_before || needed_until[id] < step) continue;
        const bool dies_here = needed_until[id] == step && eqn.op->elementwise != nullptr;
        // What is read as part of an operand is looked at there.
        const bool is_operand = std::ranges::count(eqn.inputs, static_cast<ValueId>(id)) != 0;
        for (const Range& held : ranges[id]) {
          const bool apart = written.end <= held.begin || held.end <= written.begin;
          const bool same = written.begin == held.begin && written.end == held.end;
          EXPECT_TRUE(apart || (dies_here && (same || !is_operand))) << "step " << step << " writes over %" << id;
        }
      }
    }
  }
}

TEST(Executable, ComputesWhatItsEquationsSayWhateverSharesMemory) {
  std::int64_t taken = 0;
  std::size_t renamed = 0;
  std::size_t donated = 0;
  for (std::uint32_t seed = 0; seed < 400; ++seed) {
    for (const Shape& mesh : std::vector<Shape>{{2}, {2, 3}, {2, 2, 2}}) {
      RandomProgram program(seed, grid_of(mesh));
      const Graph& graph = program.graph();
      SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + to_text(graph));
      const std::vector<Reuse> reuses = program.random_reuses();
      const Executable executable(graph, reference_backend(), reuses);
      check_plan(graph, executable.memory_plan());
      const std::vector<ShardSet> inputs = random_inputs(graph, seed);
      const std::vector<ShardSet> expected = run_one_by_one(graph, inputs);
      // Inputs that the caller keeps stay as they are.
      ASSERT_TRUE(same_elements(executable.run(inputs), expected));
      ASSERT_TRUE(same_elements(inputs, random_inputs(graph, seed)));
      // Those that it gives away may hold outputs, on the second run with what is left of the first.
      ASSERT_TRUE(same_elements(executable.run(random_inputs(graph, seed)), expected));
      if (HasFailure()) return;
      for (std::int64_t some : executable.memory_plan().taken) taken += some;
      renamed += static_cast<std::size_t>(std::ranges::count(executable.memory_plan().runs, false));
      for (const auto& storage : executable.memory_plan().storages) donated += storage.donor >= 0 ? 1 : 0;
    }
  }
  // What is to be tested has happened.
  EXPECT_GT(taken, 500);
  EXPECT_GT(renamed, 500U);
  EXPECT_GT(donated, 50U);
}

TEST(Executable, KeepsAChainInTheMemoryOfItsOutput) {
  const GridPtr grid = grid_of({2});
  GraphOfShards g(grid);
  ValueId x = g.input({64}, all_atoms(*grid));
  const ValueId in = x;
  for (int i = 0; i < 5; ++i) x = g.add("negative", x);
  g.graph().outputs = {x};
  const Executable executable(g.graph(), reference_backend());
  EXPECT_EQ(executable.memory_plan().arena_bytes[0], 0U);
  const std::int64_t before = execution_counters().buffers;
  executable.run(random_inputs(g.graph(), 1));
  EXPECT_EQ(execution_counters().buffers - before, 2) << "one for each shard";
  // Given away, the input's memory serves all along.
  const Executable donating(g.graph(), reference_backend(), {{.input = 0, .output = 0}});
  std::vector<ShardSet> inputs = random_inputs(g.graph(), 1);
  const void* memory = inputs[0].shards[1].data();
  const std::int64_t middle = execution_counters().buffers;
  const std::vector<ShardSet> outputs = donating.run(std::move(inputs));
  EXPECT_EQ(execution_counters().buffers, middle);
  EXPECT_EQ(outputs[0].shards[1].data(), memory);
  EXPECT_EQ(donating.memory_plan().use.alias, 64 * 4U);
  EXPECT_EQ(g.graph().inputs[0], in);
}

TEST(Executable, DonatesPastALaterUseOfTheInput) {
  // The first result may not lie where the input is still needed; the last may.
  const GridPtr grid = grid_of({1});
  GraphOfShards g(grid);
  const ValueId x = g.input({64}, {});
  const ValueId y = g.add("negative", x);
  g.graph().outputs = {g.add("multiply", y, x)};
  const Executable executable(g.graph(), reference_backend(), {{.input = 0, .output = 0}});
  std::vector<ShardSet> inputs = random_inputs(g.graph(), 2);
  const void* memory = inputs[0].shards[0].data();
  std::vector<std::int32_t> expected;
  for (int i = 0; i < 64; ++i) {
    const auto element = static_cast<std::uint32_t>(static_cast<const std::int32_t*>(memory)[i]);
    expected.push_back(static_cast<std::int32_t>((0 - element) * element));
  }
  const std::vector<ShardSet> outputs = executable.run(std::move(inputs));
  EXPECT_EQ(outputs[0].shards[0].data(), memory);
  EXPECT_EQ(std::memcmp(memory, expected.data(), 256), 0);
}

TEST(Executable, GathersWhereTheShardsAreMade) {
  const GridPtr grid = grid_of({2, 2});
  GraphOfShards g(grid);
  const ValueId x = g.input({4, 16}, all_atoms(*grid));
  Attrs attrs = g.along({0, 1});
  attrs.set("dim", std::int64_t{0});
  g.graph().outputs = {g.add("all_gather", std::move(attrs), {g.add("negative", x)}, {16, 16}, {})};
  const Executable executable(g.graph(), reference_backend());
  EXPECT_FALSE(executable.memory_plan().runs[1]);
  EXPECT_EQ(executable.memory_plan().arena_bytes[0], 0U);
  const std::vector<ShardSet> inputs = random_inputs(g.graph(), 3);
  EXPECT_TRUE(same_elements(executable.run(inputs), run_one_by_one(g.graph(), inputs)));
}

TEST(Executable, ValuesThatDoNotLiveAtOnceShareTheArena) {
  // A chain of sums over devices: each result is needed by the next step alone.
  const GridPtr grid = grid_of({2});
  GraphOfShards g(grid);
  ValueId x = g.input({1024}, all_atoms(*grid));
  for (int i = 0; i < 20; ++i) {
    Attrs attrs = g.along({0});
    attrs.set("kind", std::string("sum"));
    attrs.set("reverse", false);
    x = g.add("exclusive_scan", std::move(attrs), {x}, {1024}, all_atoms(*grid));
  }
  g.graph().outputs = {x};
  const Executable executable(g.graph(), reference_backend());
  EXPECT_EQ(executable.memory_plan().arena_bytes[0], 2U * 2 * 4096);
  EXPECT_EQ(executable.memory_plan().use.temp, 2U * 4096);
}

TEST(Executable, RunsOnManyThreadsAtOnce) {
  RandomProgram program(7, grid_of({2, 2, 2}));
  const Graph& graph = program.graph();
  const Executable executable(graph, reference_backend(), program.random_reuses());
  std::vector<std::vector<ShardSet>> expected;
  for (std::uint32_t seed = 0; seed < 4; ++seed) {
    expected.push_back(run_one_by_one(graph, random_inputs(graph, seed)));
  }
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (std::uint32_t seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      for (int i = 0; i < 100; ++i) {
        if (!same_elements(executable.run(random_inputs(graph, seed)), expected[seed])) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// ---- Kernels of many tiles, and kernels that fail

// Integers wrap.
std::int32_t sum_of(const std::int32_t* data, std::int64_t count) {
  std::uint32_t sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += static_cast<std::uint32_t>(data[i]);
  return static_cast<std::int32_t>(sum);
}

// The sum of a vector, a tile for each 16 elements, whose sums meet in scratch memory. Counts the ranges of tiles that
// are run at once.
class TiledSum final : public Kernel {
 public:
  static constexpr std::int64_t kTile = 16;
  TiledSum(bool merges, std::atomic<int>& ranges) : merges_(merges), ranges_(ranges) {}
  Work work(std::span<const TensorView> inputs, std::span<const TensorView>) const override {
    const std::int64_t tiles = (inputs[0].shape[0] + kTile - 1) / kTile;
    return {.tiles = tiles, .scratch_bytes = static_cast<std::size_t>(tiles) * sizeof(std::int32_t), .merges = merges_};
  }
  void run_tiles(std::span<const TensorView> inputs, std::span<const TensorView> outputs, std::byte* scratch,
                 std::int64_t begin, std::int64_t end) const override {
    ranges_ += begin < end ? 1 : 0;
    Kernel::run_tiles(inputs, outputs, scratch, begin, end);
  }
  void run(std::span<const TensorView> inputs, std::span<const TensorView>, std::byte* scratch,
           std::int64_t tile) const override {
    const auto* data = inputs[0].as<std::int32_t>();
    const std::int64_t end = std::min(inputs[0].shape[0], (tile + 1) * kTile);
    reinterpret_cast<std::int32_t*>(scratch)[tile] = sum_of(data + tile * kTile, end - tile * kTile);
  }
  void finish(std::span<const TensorView> inputs, std::span<const TensorView> outputs,
              std::byte* scratch) const override {
    const auto* sums = reinterpret_cast<const std::int32_t*>(scratch);
    *outputs[0].as<std::int32_t>() = sum_of(sums, work(inputs, outputs).tiles);
  }

 private:
  bool merges_;
  std::atomic<int>& ranges_;
};

// The reference, but sums run in tiles, and when `runs` kernels have run, one fails.
class TestBackend final : public Backend {
 public:
  std::string_view name() const override { return "test"; }
  AddressSpace& address_space(const Device&, MemoryKind kind) const override { return host_space(kind); }
  std::unique_ptr<Kernel> compile(const Graph& graph, const Eqn& eqn) const override {
    if (eqn.op->name == "reduce_sum") return std::make_unique<TiledSum>(merges, ranges);
    return std::make_unique<Failing>(reference_backend().compile(graph, eqn), runs);
  }
  mutable std::atomic<int> runs{1 << 30};
  bool merges = false;
  mutable std::atomic<int> ranges{0};

 private:
  class Failing final : public Kernel {
   public:
    Failing(std::unique_ptr<Kernel> kernel, std::atomic<int>& runs) : kernel_(std::move(kernel)), runs_(runs) {}
    void run(std::span<const TensorView> inputs, std::span<const TensorView> outputs, std::byte* scratch,
             std::int64_t tile) const override {
      if (runs_-- == 0) throw std::runtime_error("a kernel fails");
      kernel_->run(inputs, outputs, scratch, tile);
    }
    bool may_overwrite(std::size_t input, std::size_t output) const override {
      return kernel_->may_overwrite(input, output);
    }

   private:
    std::unique_ptr<Kernel> kernel_;
    std::atomic<int>& runs_;
  };
};

TEST(Executable, RunsTilesWithScratchOnAllThreads) {
  for (const bool merges : {false, true}) {
    TestBackend backend;
    backend.merges = merges;
    for (const std::int64_t extent : {1, 100, 5000}) {
      const GridPtr grid = grid_of({2, 2, 2});
      GraphOfShards g(grid);
      const ValueId x = g.input({extent}, all_atoms(*grid));
      g.graph().outputs = {g.add("reduce_sum", {{"axes", Dims{0}}}, {x}, {}, all_atoms(*grid))};
      const Executable executable(g.graph(), backend);
      const std::vector<ShardSet> inputs = random_inputs(g.graph(), 5);
      backend.ranges = 0;
      const std::vector<ShardSet> outputs = executable.run(inputs);
      for (std::size_t i = 0; i < 8; ++i) {
        const auto* data = static_cast<const std::int32_t*>(inputs[0].shards[i].data());
        EXPECT_EQ(*static_cast<const std::int32_t*>(outputs[0].shards[i].data()), sum_of(data, extent));
      }
      // A range for each of three threads, which ends where a shard does.
      if (merges) {
        EXPECT_LE(backend.ranges, 8 + 2) << extent;
      } else if (extent == 5000) {
        EXPECT_GE(backend.ranges, 3 * 8);
      }
    }
  }
}

TEST(Executable, TilesOfUnevenShards) {
  for (const bool merges : {false, true}) {
    TestBackend backend;
    backend.merges = merges;
    const GridPtr grid = grid_of({3});
    GraphOfShards g(grid);
    // 4000 elements on three devices: 1334, 1334 and 1332, which is a tile less.
    const ValueId x = g.input({1334}, all_atoms(*grid));
    g.graph().value(x).global = GlobalShape{{4000}, {.dims = {{0}}, .partial = {}}};
    g.graph().outputs = {g.add("reduce_sum", {{"axes", Dims{0}}}, {x}, {}, all_atoms(*grid))};
    const Executable executable(g.graph(), backend);
    std::vector<ShardSet> inputs = random_inputs(g.graph(), 6);
    inputs[0].shards[2] = Buffer(host_space({}), int32, {1332});
    std::fill_n(static_cast<std::int32_t*>(inputs[0].shards[2].mutable_data()), 1332, 3);
    const std::vector<ShardSet> outputs = executable.run(inputs);
    for (std::size_t i = 0; i < 3; ++i) {
      const auto* data = static_cast<const std::int32_t*>(inputs[0].shards[i].data());
      EXPECT_EQ(*static_cast<const std::int32_t*>(outputs[0].shards[i].data()),
                sum_of(data, inputs[0].shards[i].shape()[0]));
    }
  }
}

TEST(Executable, IsUsableAfterAFailure) {
  TestBackend backend;
  RandomProgram program(11, grid_of({2, 2}));
  const Graph& graph = program.graph();
  const Executable executable(graph, backend, program.random_reuses());
  const std::vector<ShardSet> expected = run_one_by_one(graph, random_inputs(graph, 1));
  const std::int64_t before_runs = backend.runs;
  executable.run(random_inputs(graph, 1));
  const std::int64_t kernels = before_runs - backend.runs;
  ASSERT_GT(kernels, 4);
  const std::size_t held = host_space({}).bytes_in_use();
  for (int i = 0; i < kernels; ++i) {
    backend.runs = i;
    EXPECT_THROW(executable.run(random_inputs(graph, 1)), std::runtime_error);
    EXPECT_EQ(host_space({}).bytes_in_use(), held) << "after the failure of kernel " << i;
  }
  backend.runs = 1 << 30;
  EXPECT_TRUE(same_elements(executable.run(random_inputs(graph, 1)), expected));
}

TEST(Executable, ReleasesItsArena) {
  const std::size_t before = host_space({}).bytes_in_use();
  {
    RandomProgram program(7, grid_of({2, 2}));
    const Executable executable(program.graph(), reference_backend());
    executable.run(random_inputs(program.graph(), 1));
    ASSERT_GT(executable.memory_plan().arena_bytes[0], 0U);
    EXPECT_EQ(host_space({}).bytes_in_use() - before, executable.memory_plan().arena_bytes[0]);
  }
  EXPECT_EQ(host_space({}).bytes_in_use(), before);
}

TEST(Executable, SaysWhatNeedsMoreMemoryThanThereIs) {
  const GridPtr grid = grid_of({2});
  GraphOfShards g(grid);
  const ValueId x = g.input({}, {});
  constexpr std::int64_t kMany = std::int64_t{1} << 50;
  const ValueId y = g.add("broadcast_in_dim", {{"shape", Dims{kMany}}, {"dims", Dims{}}}, {x}, {kMany}, {});
  g.graph().outputs = {g.add("reduce_sum", {{"axes", Dims{0}}}, {y}, {}, {})};
  const Executable executable(g.graph(), reference_backend());
  for (int i = 0; i < 2; ++i) {
    try {
      executable.run(random_inputs(g.graph(), 1));
      FAIL() << "no machine has so much";
    } catch (const OutOfMemory& error) {
      EXPECT_NE(std::string(error.what()).find("broadcast_in_dim: out of memory"), std::string::npos) << error.what();
      EXPECT_TRUE(error.where().has_value());
    }
  }
}

}  // namespace
}  // namespace shoal
