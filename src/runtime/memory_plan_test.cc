// Where values lie in the arena, compared with the plain way to lay them out.
#include "runtime/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <random>
#include <vector>

#include "runtime/test_support.h"

namespace shoal {
namespace {

using test_support::GraphOfShards;
using test_support::grid_of;

// A graph in which some values are used soon, and some long after they are made, as activations are by derivatives.
Graph random_graph(std::mt19937& random, int eqns) {
  GraphOfShards made(grid_of({1}));
  const auto below = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most)); };
  const int sizes = 1 + below(8);
  std::vector<ValueId> live = {made.input({16}, {})};
  for (int i = 0; i < eqns; ++i) {
    const std::size_t last = live.size() - 1;
    const std::size_t operand = below(4) == 0 ? static_cast<std::size_t>(below(static_cast<int>(live.size()))) : last;
    live.push_back(made.add("convert", {}, {live[operand]}, {16 << below(sizes)}, {}));
    // Those that stay are used later, or never.
    if (below(3) == 0) live.erase(live.begin() + static_cast<std::ptrdiff_t>(operand));
  }
  made.graph().outputs = {live.back()};
  return std::move(made.graph());
}

struct Block {
  std::size_t storage;
  std::size_t bytes;
  std::size_t offset = 0;
};

// The largest first, each at the lowest of all offsets where it meets nothing that lives when it does.
std::vector<Block> laid_out(const MemoryPlan& plan) {
  std::vector<Block> blocks;
  for (std::size_t i = 0; i < plan.storages.size(); ++i) {
    const MemoryPlan::Storage& storage = plan.storages[i];
    if (storage.kind != MemoryPlan::Kind::kArena) continue;
    blocks.push_back({.storage = i, .bytes = storage.stride * static_cast<std::size_t>(storage.held)});
  }
  std::ranges::stable_sort(blocks, std::greater<>(), &Block::bytes);
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const MemoryPlan::Storage& own = plan.storages[blocks[b].storage];
    const auto meets_any = [&](std::size_t offset) {
      return std::any_of(blocks.begin(), blocks.begin() + static_cast<std::ptrdiff_t>(b), [&](const Block& other) {
        const MemoryPlan::Storage& storage = plan.storages[other.storage];
        return storage.birth <= own.death && own.birth <= storage.death && offset < other.offset + other.bytes &&
               other.offset < offset + blocks[b].bytes;
      });
    };
    std::vector<std::size_t> candidates = {0};
    for (std::size_t other = 0; other < b; ++other) candidates.push_back(blocks[other].offset + blocks[other].bytes);
    std::ranges::sort(candidates);
    blocks[b].offset = *std::ranges::find_if(candidates, [&](std::size_t offset) { return !meets_any(offset); });
  }
  return blocks;
}

TEST(MemoryPlan, LaysBlocksAtTheLowestOffsetsThatAreFree) {
  std::mt19937 random(7);
  std::size_t compared = 0;
  for (int round = 0; round < 24; ++round) {
    const Graph graph = random_graph(random, round % 4 == 0 ? 500 : 150);
    std::vector<ShardShapes> shapes;
    for (const Value& value : graph.values) {
      shapes.push_back(
          {.grid = graph.grid, .varying = value.varying, .dtype = value.type.dtype, .shapes = {value.type.shape}});
    }
    const std::vector<StepFacts> steps(graph.eqns.size());
    const MemoryPlan plan = plan_memory(graph, shapes, steps, {}, false);
    std::size_t end = 0;
    for (const Block& block : laid_out(plan)) {
      ASSERT_EQ(plan.storages[block.storage].offset, block.offset)
          << "storage " << block.storage << " in round " << round;
      end = std::max(end, block.offset + block.bytes);
      ++compared;
    }
    EXPECT_EQ(plan.arena_bytes[0], end);
  }
  EXPECT_GT(compared, 5000U);
}

}  // namespace
}  // namespace shoal
