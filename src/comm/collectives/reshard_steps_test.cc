// Executes the plans of the reshard planner between all placements of small values.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>

#include "comm/collectives/test_support.h"
#include "sharding/test_support.h"
#include "spmd/reshard.h"
#include "spmd/test_support.h"

namespace shoal {
namespace {

using test_support::all_placements;
using test_support::can_reshard;

// A value of i64 elements, which its placement spreads over a grid.
struct Case {
  GridPtr grid;
  Shape shape;
  ReduceKind kind = ReduceKind::kSum;
};

// The element of the global value at an offset in row-major order.
std::int64_t element(std::int64_t offset) { return 1000 + 7 * offset; }

// What device `index` of `count` adds to a partial element: all of them together reduce to element(offset).
std::int64_t contribution(ReduceKind kind, std::int64_t offset, std::int64_t index, std::int64_t count) {
  const std::int64_t holder = offset % count;
  if (kind == ReduceKind::kMax) return index == holder ? element(offset) : element(offset) - 1 - index;
  if (index != holder) return 100 * index + offset + 1;
  std::int64_t others = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    if (i != holder) others += contribution(kind, offset, i, count);
  }
  return element(offset) - others;
}

// Calls body(offset in the shard, offset in the global value) for the elements of the shard at a position.
template <class F>
void for_each_element(const Case& test, const Placement& placement, std::int64_t position, F&& body) {
  const Shape local = local_shape(*test.grid, test.shape, placement, position);
  const Dims strides = row_major_strides(test.shape);
  const std::int64_t count = num_elements(local);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i;
    std::int64_t offset = 0;
    for (std::size_t d = local.size(); d-- > 0;) {
      const std::int64_t start = test.grid->extent(test.shape[d], placement.dims[d], position).start;
      offset += (start + rest % local[d]) * strides[d];
      rest /= local[d];
    }
    body(i, offset);
  }
}

ShardSet make_value(const Case& test, const Placement& placement) {
  ShardSet value = ShardSet::make(test.grid, placement.varying());
  const std::int64_t count = test.grid->size_of(placement.partial);
  for (std::size_t shard = 0; shard < value.shards.size(); ++shard) {
    const std::int64_t position = value.position_of(shard);
    Buffer buffer(host_space({}), int64, local_shape(*test.grid, test.shape, placement, position));
    auto* data = static_cast<std::int64_t*>(buffer.mutable_data());
    const std::int64_t index = test.grid->index_along(position, placement.partial);
    for_each_element(test, placement, position, [&](std::int64_t i, std::int64_t offset) {
      data[i] = contribution(test.kind, offset, index, count);
    });
    value.shards[shard] = std::move(buffer);
  }
  return value;
}

ShardSet execute(const Case& test, const ReshardStep& step, const Placement& before, const ShardSet& in) {
  switch (step.kind) {
    case ReshardStep::Kind::kAllReduce:
      return collectives::all_reduce(in, {in.grid, step.atoms}, test.kind);
    case ReshardStep::Kind::kReduceScatter:
      return collectives::reduce_scatter(in, {in.grid, step.atoms}, step.dim, test.kind);
    case ReshardStep::Kind::kAllGather:
      return collectives::all_gather(in, {in.grid, step.atoms}, step.dim);
    case ReshardStep::Kind::kSlice:
      return collectives::shard_slice(in, step.atoms, step.dim);
    case ReshardStep::Kind::kAllToAll:
      return collectives::all_to_all(in, {in.grid, step.atoms}, step.dim, step.from_dim);
    case ReshardStep::Kind::kMakePartial:
      break;  // No exchange; the plans here make none.
    case ReshardStep::Kind::kPermute: {
      const auto sources = permutation_sources(*test.grid, before, step.result, step.atoms);
      Dims targets(sources.size());
      std::iota(targets.begin(), targets.end(), 0);
      return collectives::collective_permute(in, step.atoms, Dims(sources.begin(), sources.end()), targets);
    }
  }
  return in;
}

// Whether every device holds what the placement says.
::testing::AssertionResult lies_as(const Case& test, const Placement& placement, const ShardSet& value) {
  const Atoms& partial = placement.partial;
  const std::int64_t count = test.grid->size_of(partial);
  for (std::int64_t position = 0; position < test.grid->num_devices(); ++position) {
    const Shape expected = local_shape(*test.grid, test.shape, placement, position);
    if (value.at(position).shape() != expected) {
      return ::testing::AssertionFailure() << "shape " << to_string(value.at(position).shape()) << " at " << position;
    }
    bool right = true;
    for_each_element(test, placement, position, [&](std::int64_t i, std::int64_t offset) {
      std::int64_t sum = test.kind == ReduceKind::kSum ? 0 : INT64_MIN;
      for (std::int64_t k = 0; k < count; ++k) {
        const Buffer& shard = value.at(test.grid->with_index_along(position, partial, k));
        const std::int64_t part = static_cast<const std::int64_t*>(shard.data())[i];
        sum = test.kind == ReduceKind::kSum ? sum + part : std::max(sum, part);
      }
      right = right && sum == element(offset);
    });
    if (!right) return ::testing::AssertionFailure() << "elements at " << position;
  }
  return ::testing::AssertionSuccess();
}

void check_all_pairs(const Case& test) {
  const std::vector<Placement> placements = all_placements(*test.grid, test.shape.size(), true);
  for (Placement from : placements) {
    from.kind = test.kind;
    const ShardSet start = make_value(test, from);
    ASSERT_TRUE(lies_as(test, from, start));
    for (Placement to : placements) {
      if (!can_reshard(from, to)) continue;
      to.kind = test.kind;
      const ReshardPlan plan = plan_reshard(*test.grid, test.shape, 8, from, to);
      ShardSet value = start;
      Placement at = from;
      for (const ReshardStep& step : plan.steps) {
        value = execute(test, step, at, value);
        at = step.result;
        ASSERT_TRUE(lies_as(test, at, value)) << to_string(*test.grid, from) << " -> " << to_string(*test.grid, to)
                                              << " after " << to_string(*test.grid, at);
      }
      ASSERT_EQ(at, to);
    }
  }
}

void check_meshes(const std::vector<Shape>& meshes, const std::vector<Shape>& shapes, ReduceKind kind) {
  for (const Shape& mesh : meshes) {
    for (const Shape& shape : shapes) {
      SCOPED_TRACE("mesh " + to_string(mesh) + ", value " + to_string(shape));
      check_all_pairs({std::make_shared<const Grid>(test_support::grid(mesh)), shape, kind});
    }
  }
}

TEST(ReshardSteps, OfScalars) { check_meshes({{1}, {2}, {2, 3}, {2, 2, 2}}, {{}}, ReduceKind::kSum); }

TEST(ReshardSteps, OfVectors) {
  check_meshes({{2}, {3}, {4}, {2, 3}, {2, 2, 2}}, {{0}, {1}, {2}, {5}, {8}, {12}}, ReduceKind::kSum);
}

TEST(ReshardSteps, OfMatrices) {
  check_meshes({{2}, {4}, {2, 2}, {2, 3}}, {{4, 4}, {6, 12}, {5, 3}, {1, 4}, {0, 2}}, ReduceKind::kSum);
}

TEST(ReshardSteps, OfMatricesOverThreeAxes) { check_meshes({{2, 2, 2}}, {{8, 8}, {3, 5}}, ReduceKind::kSum); }

TEST(ReshardSteps, OfCubes) { check_meshes({{2, 2}, {2, 3}}, {{2, 6, 4}, {3, 1, 5}}, ReduceKind::kSum); }

TEST(ReshardSteps, OfPartialMaxima) { check_meshes({{4}, {2, 3}}, {{12}, {4, 6}, {3, 5}}, ReduceKind::kMax); }

}  // namespace
}  // namespace shoal
