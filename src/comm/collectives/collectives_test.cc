#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "base/thread_pool.h"
#include "comm/collectives/table.h"
#include "comm/collectives/test_support.h"
#include "core/dispatch.h"
#include "ops/table.h"
#include "sharding/test_support.h"

namespace shoal {
namespace {

// More threads than this machine may have, so that loops are really shared.
class FiveThreads : public ::testing::Environment {
  void SetUp() override { ::setenv("SHOAL_NUM_THREADS", "5", 1); }
};
const auto* const kThreads = ::testing::AddGlobalTestEnvironment(new FiveThreads);

GridPtr grid_of(const Shape& mesh) { return std::make_shared<const Grid>(test_support::grid(mesh)); }

template <class T>
const T* data_of(const Buffer& buffer) {
  return static_cast<const T*>(buffer.data());
}

template <class T>
std::vector<T> elements(const Buffer& buffer) {
  const T* data = data_of<T>(buffer);
  return std::vector<T>(data, data + num_elements(buffer.shape()));
}

bool same_bytes(const Buffer& a, const Buffer& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// A value of equal shards, with elements that next() gives.
template <class T>
ShardSet make_value(const GridPtr& grid, AtomSet varying, const Shape& local, const std::function<T()>& next) {
  ShardSet value = ShardSet::make(grid, varying);
  for (Buffer& shard : value.shards) {
    shard = Buffer(host_space({}), dtype_of<T>(), local);
    T* data = static_cast<T*>(shard.mutable_data());
    for (std::int64_t i = 0; i < num_elements(local); ++i) data[i] = next();
  }
  return value;
}

ShardSet counted(const GridPtr& grid, AtomSet varying, const Shape& local) {
  std::int32_t next = 0;
  return make_value<std::int32_t>(grid, varying, local, [&] { return ++next; });
}

// Every list of one to three distinct atoms of a grid, in every order.
std::vector<Atoms> groups(const Grid& grid) {
  std::vector<Atoms> lists = {{}};
  for (std::size_t i = 0; i < lists.size() && lists[i].size() < 3; ++i) {
    for (int atom = 0; atom < grid.num_atoms(); ++atom) {
      if (AtomSet(lists[i]).contains(static_cast<Atom>(atom))) continue;
      Atoms longer = lists[i];
      longer.push_back(static_cast<Atom>(atom));
      lists.push_back(longer);
    }
  }
  lists.erase(lists.begin());
  return lists;
}

AtomSet all_atoms(const Grid& grid) {
  AtomSet set;
  for (int atom = 0; atom < grid.num_atoms(); ++atom) set.insert(static_cast<Atom>(atom));
  return set;
}

// The sets of atoms a value may vary over.
std::vector<AtomSet> subsets(const Grid& grid) {
  std::vector<AtomSet> sets = {{}};
  for (int atom = 0; atom < grid.num_atoms(); ++atom) {
    for (std::size_t i = 0, n = sets.size(); i < n; ++i) {
      sets.push_back(sets[i]);
      sets.back().insert(static_cast<Atom>(atom));
    }
  }
  return sets;
}

// One case for every mesh, list of atoms and set of atoms that the operand varies over.
void for_each_case(const std::function<void(const GridPtr&, const Atoms&, AtomSet)>& body) {
  for (const Shape& mesh : std::vector<Shape>{{2}, {3}, {4}, {2, 3}, {2, 2, 2}}) {
    const GridPtr grid = grid_of(mesh);
    for (const Atoms& atoms : groups(*grid)) {
      for (const AtomSet varying : subsets(*grid)) {
        SCOPED_TRACE(to_string(grid->mesh()) + " group " + ::testing::PrintToString(grid->axis_refs(atoms)) +
                     " varying " + ::testing::PrintToString(grid->axis_refs(varying.sorted())));
        body(grid, atoms, varying);
      }
    }
  }
}

// The shards of the group of a device, in the order of `atoms`.
std::vector<const Buffer*> group_of(const ShardSet& value, const Atoms& atoms, std::int64_t position) {
  std::vector<const Buffer*> shards;
  for (std::int64_t i = 0; i < value.grid->size_of(atoms); ++i) {
    shards.push_back(&value.at(value.grid->with_index_along(position, atoms, i)));
  }
  return shards;
}

// A matrix as rows, to compute expected values with plain loops.
using Rows = std::vector<std::vector<std::int32_t>>;

Rows rows_of(const Buffer& buffer) {
  Rows rows(static_cast<std::size_t>(buffer.shape()[0]));
  const std::int32_t* next = data_of<std::int32_t>(buffer);
  for (auto& row : rows) {
    row.assign(next, next + buffer.shape()[1]);
    next += buffer.shape()[1];
  }
  return rows;
}

Rows transposed(const Rows& rows) {
  Rows result(rows[0].size());
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) result[i].push_back(row[i]);
  }
  return result;
}

// Rows [begin, end) or columns [begin, end).
Rows part(const Rows& rows, std::size_t dim, std::size_t begin, std::size_t end) {
  if (dim == 1) return transposed(part(transposed(rows), 0, begin, end));
  return {rows.begin() + static_cast<std::ptrdiff_t>(begin), rows.begin() + static_cast<std::ptrdiff_t>(end)};
}

Rows joined(const std::vector<Rows>& parts, std::size_t dim) {
  Rows result;
  for (const Rows& rows : parts) {
    const Rows turned = dim == 1 ? transposed(rows) : rows;
    result.insert(result.end(), turned.begin(), turned.end());
  }
  return dim == 1 ? transposed(result) : result;
}

// ---- Sums

// The documented tree: the left half has the greatest power of two below the number of terms.
template <class T>
T tree_sum(const std::vector<T>& terms, std::size_t begin, std::size_t end) {
  if (end - begin == 1) return terms[begin];
  std::size_t left = 1;
  while (2 * left < end - begin) left *= 2;
  return static_cast<T>(tree_sum(terms, begin, begin + left) + tree_sum(terms, begin + left, end));
}

template <class T>
void check_tree() {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  const std::function<T()> next = [&] { return T(std::ldexp(normal(random), static_cast<int>(random() % 12))); };
  for (const Shape& mesh : std::vector<Shape>{{2}, {3}, {5}, {6}, {7}, {8}, {11}, {12}, {16}, {3, 4}}) {
    const GridPtr grid = grid_of(mesh);
    const Atoms all = all_atoms(*grid).sorted();
    const ShardSet in = make_value<T>(grid, all, {700}, next);
    const ShardSet out = collectives::all_reduce(in, {in.grid, all}, ReduceKind::kSum);
    ASSERT_EQ(out.shards.size(), 1U);
    for (std::size_t i = 0; i < 700; ++i) {
      std::vector<T> terms;
      for (const Buffer& shard : in.shards) terms.push_back(data_of<T>(shard)[i]);
      const T expected = tree_sum(terms, 0, terms.size());
      ASSERT_EQ(std::memcmp(&data_of<T>(out.shards[0])[i], &expected, sizeof(T)), 0)
          << "element " << i << " over " << terms.size() << " devices";
    }
  }
}

TEST(AllReduce, AddsInTheFixedTree) {
  check_tree<float>();
  check_tree<double>();
  check_tree<float16_t>();
  check_tree<bfloat16_t>();
}

TEST(AllReduce, TheOrderMatters) {
  // 1 is lost when it is added to 1e8 first: ((a + b) + (c + d)) + e shows where each term stands.
  const GridPtr grid = grid_of({5});
  const std::vector<float> terms = {1e8F, 1.0F, -1e8F, 1.0F, 1.0F};
  std::size_t i = 0;
  const ShardSet in = make_value<float>(grid, all_atoms(*grid), {}, [&] { return terms[i++]; });
  EXPECT_EQ(elements<float>(collectives::all_reduce(in, {in.grid, {0}}, ReduceKind::kSum).shards[0]),
            (std::vector{1.0F}));
}

TEST(AllReduce, FollowsDeviceOrderWhateverTheOrderOfTheAxes) {
  const GridPtr grid = grid_of({3, 4});
  std::mt19937 random(4);
  std::normal_distribution<float> normal;
  const ShardSet in = make_value<float>(grid, all_atoms(*grid), {64}, [&] { return normal(random); });
  const ShardSet a = collectives::all_reduce(in, {in.grid, {0, 1, 2}}, ReduceKind::kSum);
  for (const Atoms& atoms : {Atoms{2, 1, 0}, Atoms{1, 0, 2}}) {
    EXPECT_TRUE(same_bytes(a.shards[0], collectives::all_reduce(in, {in.grid, atoms}, ReduceKind::kSum).shards[0]));
  }
}

TEST(AllReduce, GivesTheSameBitsOnAnyNumberOfThreads) {
  const GridPtr grid = grid_of({2, 7});
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  const ShardSet in = make_value<float>(grid, all_atoms(*grid), {3, 1234}, [&] { return normal(random); });
  for (const Atoms& atoms : {Atoms{0}, Atoms{1}, Atoms{0, 1}}) {
    const ShardSet parallel = collectives::all_reduce(in, {in.grid, atoms}, ReduceKind::kSum);
    ShardSet inline_result;
    // A loop inside an iteration runs in that iteration's thread.
    ThreadPool::shared().parallel_for(1, [&](std::int64_t) {
      inline_result = collectives::all_reduce(in, {in.grid, atoms}, ReduceKind::kSum);
    });
    ASSERT_EQ(parallel.shards.size(), inline_result.shards.size());
    for (std::size_t i = 0; i < parallel.shards.size(); ++i) {
      EXPECT_TRUE(same_bytes(parallel.shards[i], inline_result.shards[i]));
    }
  }
}

TEST(AllReduce, AddsShardsThatAreSharedAsOftenAsDevicesHoldThem) {
  for_each_case([](const GridPtr& grid, const Atoms& atoms, AtomSet varying) {
    const ShardSet in = counted(grid, varying, {2, 3});
    const ShardSet out = collectives::all_reduce(in, {in.grid, atoms}, ReduceKind::kSum);
    ASSERT_EQ(out.varying, varying - AtomSet(atoms));
    for (std::int64_t position = 0; position < grid->num_devices(); ++position) {
      std::vector<std::int32_t> expected(6);
      for (const Buffer* shard : group_of(in, atoms, position)) {
        for (std::size_t i = 0; i < 6; ++i) expected[i] += data_of<std::int32_t>(*shard)[i];
      }
      ASSERT_EQ(elements<std::int32_t>(out.at(position)), expected) << position;
    }
  });
}

// ---- Kinds and dtypes

template <class T>
std::vector<T> reduced(ReduceKind kind, const std::vector<T>& terms) {
  const GridPtr grid = grid_of({static_cast<std::int64_t>(terms.size())});
  std::size_t i = 0;
  const ShardSet in = make_value<T>(grid, all_atoms(*grid), {1}, [&] { return terms[i++]; });
  return elements<T>(collectives::all_reduce(in, {in.grid, grid->atoms_of("x")}, kind).shards[0]);
}

TEST(AllReduce, HasAllKinds) {
  EXPECT_EQ(reduced<std::int32_t>(ReduceKind::kSum, {3, -5, 4}), (std::vector<std::int32_t>{2}));
  EXPECT_EQ(reduced<std::int32_t>(ReduceKind::kProd, {3, -5, 4}), (std::vector<std::int32_t>{-60}));
  EXPECT_EQ(reduced<std::int32_t>(ReduceKind::kMax, {3, -5, 4}), (std::vector<std::int32_t>{4}));
  EXPECT_EQ(reduced<std::int32_t>(ReduceKind::kMin, {3, -5, 4}), (std::vector<std::int32_t>{-5}));
  EXPECT_EQ(reduced<std::uint8_t>(ReduceKind::kAnd, {0b1110, 0b0111, 0b1111}), (std::vector<std::uint8_t>{0b0110}));
  EXPECT_EQ(reduced<std::uint8_t>(ReduceKind::kOr, {0b1000, 0b0001, 0}), (std::vector<std::uint8_t>{0b1001}));
  EXPECT_EQ(reduced<bool>(ReduceKind::kOr, {false, true, false}), (std::vector<bool>{true}));
  EXPECT_EQ(reduced<bool>(ReduceKind::kAnd, {true, true, false}), (std::vector<bool>{false}));
}

TEST(AllReduce, IntegersWrap) {
  EXPECT_EQ(reduced<std::int8_t>(ReduceKind::kSum, {100, 100, 100}), (std::vector<std::int8_t>{44}));
  EXPECT_EQ(reduced<std::uint16_t>(ReduceKind::kProd, {300, 300}), (std::vector<std::uint16_t>{24464}));
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(reduced<std::int64_t>(ReduceKind::kSum, {kMost, 1}),
            (std::vector{std::numeric_limits<std::int64_t>::min()}));
}

TEST(AllReduce, ExtremaKeepNansAndSigns) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const ReduceKind kind : {ReduceKind::kMax, ReduceKind::kMin}) {
    EXPECT_TRUE(std::isnan(reduced<float>(kind, {1, kNan, 2})[0]));
    EXPECT_TRUE(std::isnan(reduced<float>(kind, {kNan, 1})[0]));
    EXPECT_TRUE(std::isnan(static_cast<float>(reduced<bfloat16_t>(kind, {1.0F, kNan})[0])));
  }
  EXPECT_FALSE(std::signbit(reduced<float>(ReduceKind::kMax, {-0.0F, 0.0F})[0]));
  EXPECT_FALSE(std::signbit(reduced<float>(ReduceKind::kMax, {0.0F, -0.0F})[0]));
  EXPECT_TRUE(std::signbit(reduced<float>(ReduceKind::kMin, {-0.0F, 0.0F})[0]));
  EXPECT_TRUE(std::signbit(reduced<float>(ReduceKind::kMin, {0.0F, -0.0F})[0]));
}

TEST(AllReduce, TakesEveryDtype) {
  for (int number = 0; number < kNumDtypes; ++number) {
    with_element_type(static_cast<Dtype>(number), [&](auto tag) {
      using T = decltype(tag);
      if constexpr (!std::is_same_v<T, bool>) {
        EXPECT_EQ(reduced<T>(ReduceKind::kSum, {T(3), T(4), T(5)}), std::vector<T>{T(12)}) << number;
        EXPECT_EQ(reduced<T>(ReduceKind::kProd, {T(3), T(4), T(5)}), std::vector<T>{T(60)}) << number;
      }
    });
  }
  using C = std::complex<float>;
  EXPECT_EQ(reduced<C>(ReduceKind::kProd, {C(0, 1), C(0, 1), C(2, 1)}), (std::vector<C>{C(-2, -1)}));
}

// ---- Movement

TEST(AllGather, JoinsTheGroup) {
  for_each_case([](const GridPtr& grid, const Atoms& atoms, AtomSet varying) {
    const ShardSet in = counted(grid, varying, {2, 3});
    for (const std::size_t dim : {0U, 1U}) {
      const ShardSet out = collectives::all_gather(in, {in.grid, atoms}, dim);
      ASSERT_EQ(out.varying, varying - AtomSet(atoms));
      for (std::int64_t position = 0; position < grid->num_devices(); ++position) {
        std::vector<Rows> parts;
        for (const Buffer* shard : group_of(in, atoms, position)) parts.push_back(rows_of(*shard));
        ASSERT_EQ(rows_of(out.at(position)), joined(parts, dim)) << position;
      }
    }
  });
}

TEST(ShardSlice, TakesTheDevicesOwnPiece) {
  for_each_case([](const GridPtr& grid, const Atoms& atoms, AtomSet varying) {
    const auto group = static_cast<std::size_t>(grid->size_of(atoms));
    for (const std::size_t dim : {0U, 1U}) {
      const ShardSet in =
          counted(grid, varying, {2 * static_cast<std::int64_t>(group), 3 * static_cast<std::int64_t>(group)});
      const std::size_t piece = dim + 2;
      const ShardSet out = collectives::shard_slice(in, atoms, dim);
      ASSERT_EQ(out.varying, varying | AtomSet(atoms));
      for (std::int64_t position = 0; position < grid->num_devices(); ++position) {
        const std::size_t begin = static_cast<std::size_t>(grid->index_along(position, atoms)) * piece;
        ASSERT_EQ(rows_of(out.at(position)), part(rows_of(in.at(position)), dim, begin, begin + piece)) << position;
      }
    }
  });
}

TEST(ReduceScatter, IsAllReduceThenSlice) {
  std::mt19937 random(6);
  std::normal_distribution<float> normal;
  for_each_case([&](const GridPtr& grid, const Atoms& atoms, AtomSet varying) {
    const std::int64_t group = grid->size_of(atoms);
    const ShardSet in = make_value<float>(grid, varying, {2 * group, 3, group}, [&] { return normal(random); });
    for (const std::size_t dim : {0U, 2U}) {
      const ShardSet out = collectives::reduce_scatter(in, {in.grid, atoms}, dim, ReduceKind::kSum);
      const ShardSet expected =
          collectives::shard_slice(collectives::all_reduce(in, {in.grid, atoms}, ReduceKind::kSum), atoms, dim);
      ASSERT_EQ(out.varying, varying | AtomSet(atoms));
      for (std::int64_t position = 0; position < grid->num_devices(); ++position) {
        ASSERT_TRUE(same_bytes(out.at(position), expected.at(position))) << position;
      }
    }
  });
}

TEST(AllToAll, ExchangesPieces) {
  for_each_case([](const GridPtr& grid, const Atoms& atoms, AtomSet varying) {
    const std::int64_t group = grid->size_of(atoms);
    for (const std::size_t split : {0U, 1U}) {
      const ShardSet in = counted(grid, varying, split == 0 ? Shape{2 * group, 3} : Shape{3, 2 * group});
      const ShardSet out = collectives::all_to_all(in, {in.grid, atoms}, split, 1 - split);
      ASSERT_EQ(out.varying, varying | AtomSet(atoms));
      for (std::int64_t position = 0; position < grid->num_devices(); ++position) {
        const std::size_t begin = static_cast<std::size_t>(grid->index_along(position, atoms)) * 2;
        std::vector<Rows> parts;
        for (const Buffer* shard : group_of(in, atoms, position)) {
          parts.push_back(part(rows_of(*shard), split, begin, begin + 2));
        }
        ASSERT_EQ(rows_of(out.at(position)), joined(parts, 1 - split)) << position;
      }
    }
  });
}

TEST(AllToAll, ExchangesPiecesOfOneDimension) {
  // As jax.lax.all_to_all with split_axis == concat_axis: a transposition of blocks.
  for_each_case([](const GridPtr& grid, const Atoms& atoms, AtomSet varying) {
    const std::int64_t group = grid->size_of(atoms);
    const ShardSet in = counted(grid, varying, {2 * group, 3});
    const ShardSet out = collectives::all_to_all(in, {in.grid, atoms}, 0, 0);
    for (std::int64_t position = 0; position < grid->num_devices(); ++position) {
      const std::size_t begin = static_cast<std::size_t>(grid->index_along(position, atoms)) * 2;
      std::vector<Rows> parts;
      for (const Buffer* shard : group_of(in, atoms, position)) {
        parts.push_back(part(rows_of(*shard), 0, begin, begin + 2));
      }
      ASSERT_EQ(rows_of(out.at(position)), joined(parts, 0)) << position;
    }
  });
}

TEST(CollectivePermute, MovesShardsAndFillsWithZeros) {
  std::mt19937 random(7);
  for_each_case([&](const GridPtr& grid, const Atoms& atoms, AtomSet varying) {
    const std::int64_t group = grid->size_of(atoms);
    Dims sources(static_cast<std::size_t>(group));
    std::iota(sources.begin(), sources.end(), 0);
    Dims targets = sources;
    std::shuffle(sources.begin(), sources.end(), random);
    std::shuffle(targets.begin(), targets.end(), random);
    const std::size_t pairs = random() % (sources.size() + 1);
    sources.resize(pairs);
    targets.resize(pairs);
    const ShardSet in = counted(grid, varying, {2, 3});
    const ShardSet out = collectives::collective_permute(in, atoms, sources, targets);
    ASSERT_EQ(out.varying, varying | AtomSet(atoms));
    for (std::int64_t position = 0; position < grid->num_devices(); ++position) {
      const auto found = std::find(targets.begin(), targets.end(), grid->index_along(position, atoms));
      if (found == targets.end()) {
        ASSERT_EQ(elements<std::int32_t>(out.at(position)), std::vector<std::int32_t>(6)) << position;
        continue;
      }
      const std::int64_t source = sources[static_cast<std::size_t>(found - targets.begin())];
      const Buffer& expected = in.at(grid->with_index_along(position, atoms, source));
      ASSERT_TRUE(same_memory(out.at(position), expected)) << "shards move whole: the buffer is shared";
    }
  });
}

// ---- Of sizes that are cut into tiles, and written past the caches

TEST(LargeShards, AreReducedInTheSameTree) {
  const GridPtr grid = grid_of({8});
  std::mt19937 random(8);
  const std::function<double()> next = [&] { return static_cast<double>(random()) * 0.1; };
  for (const Shape& shape : std::vector<Shape>{{8, 4007}, {16, 65537}}) {
    const ShardSet in = make_value<double>(grid, all_atoms(*grid), shape, next);
    const ShardSet sum = collectives::all_reduce(in, {in.grid, {0, 1, 2}}, ReduceKind::kSum);
    const ShardSet rows = collectives::reduce_scatter(in, {in.grid, {0, 1, 2}}, 0, ReduceKind::kSum);
    const std::int64_t n = num_elements(shape);
    for (std::int64_t i = 0; i < n; ++i) {
      double x[8];
      for (std::size_t k = 0; k < 8; ++k) x[k] = data_of<double>(in.shards[k])[i];
      const double expected = ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
      ASSERT_EQ(data_of<double>(sum.shards[0])[i], expected) << i;
      ASSERT_EQ(data_of<double>(rows.shards[static_cast<std::size_t>(i / (n / 8))])[i % (n / 8)], expected) << i;
    }
  }
}

TEST(LargeShards, AreJoinedAndExchanged) {
  const GridPtr grid = grid_of({2, 2});
  for (const Shape& shape : std::vector<Shape>{{4, 40004}, {400, 1500}, {70000, 8}}) {
    const std::int64_t rows = shape[0];
    const std::int64_t columns = shape[1];
    const ShardSet in = counted(grid, all_atoms(*grid), shape);
    const auto position_of = [&](std::int64_t rank) { return grid->with_index_along(0, {1, 0}, rank); };
    const auto expect_same = [](const std::int32_t* got, const std::int32_t* want, std::int64_t count) {
      ASSERT_EQ(std::memcmp(got, want, static_cast<std::size_t>(count) * sizeof *got), 0);
    };
    for (const std::size_t dim : {0U, 1U}) {
      const ShardSet joined = collectives::all_gather(in, {in.grid, {1, 0}}, dim);
      const ShardSet turned = collectives::all_to_all(in, {in.grid, {1, 0}}, 1 - dim, dim);
      const std::int32_t* all = data_of<std::int32_t>(joined.shards[0]);
      for (std::int64_t k = 0; k < 4; ++k) {
        const std::int32_t* from = data_of<std::int32_t>(in.at(position_of(k)));
        for (std::int64_t i = 0; i < rows; ++i) {
          const std::int64_t row = dim == 0 ? (k * rows + i) * columns : (i * 4 + k) * columns;
          expect_same(all + row, from + i * columns, columns);
        }
        // What each device gets of it.
        const std::int64_t piece = shape[1 - dim] / 4;
        for (std::int64_t to = 0; to < 4; ++to) {
          const std::int32_t* got = data_of<std::int32_t>(turned.at(position_of(to)));
          for (std::int64_t i = 0; i < (dim == 0 ? rows : piece); ++i) {
            if (dim == 0) {
              expect_same(got + (k * rows + i) * piece, from + i * columns + to * piece, piece);
            } else {
              expect_same(got + (i * 4 + k) * columns, from + (to * piece + i) * columns, columns);
            }
          }
        }
      }
    }
  }
}

TEST(PBroadcast, SharesTheShardOfTheSource) {
  for_each_case([](const GridPtr& grid, const Atoms& atoms, AtomSet varying) {
    const ShardSet in = counted(grid, varying, {2, 3});
    for (std::int64_t source = 0; source < grid->size_of(atoms); ++source) {
      const ShardSet out = collectives::pbroadcast(in, atoms, source);
      ASSERT_EQ(out.varying, varying - AtomSet(atoms));
      for (std::int64_t position = 0; position < grid->num_devices(); ++position) {
        const Buffer& expected = in.at(grid->with_index_along(position, atoms, source));
        ASSERT_TRUE(same_memory(out.at(position), expected)) << position;
      }
    }
  });
}

TEST(ExclusiveScan, ReducesWhatComesBefore) {
  for_each_case([](const GridPtr& grid, const Atoms& atoms, AtomSet varying) {
    const ShardSet in = counted(grid, varying, {5});
    for (const bool reverse : {false, true}) {
      const ShardSet out = collectives::exclusive_scan(in, atoms, ReduceKind::kSum, reverse);
      ASSERT_EQ(out.varying, varying | AtomSet(atoms));
      for (std::int64_t position = 0; position < grid->num_devices(); ++position) {
        const auto rank = static_cast<std::size_t>(grid->index_along(position, atoms));
        const std::vector<const Buffer*> group = group_of(in, atoms, position);
        std::vector<std::int32_t> sum(5);
        for (std::size_t i = reverse ? rank + 1 : 0; i < (reverse ? group.size() : rank); ++i) {
          for (std::size_t k = 0; k < 5; ++k) sum[k] += data_of<std::int32_t>(*group[i])[k];
        }
        ASSERT_EQ(elements<std::int32_t>(out.at(position)), sum) << position;
      }
    }
  });
}

TEST(AxisIndex, IsThePositionAlongTheAtoms) {
  const GridPtr grid = grid_of({2, 3});
  const ShardSet out = collectives::axis_index(grid, {1, 0}, host_space(kPinnedHostMemory));
  for (std::int64_t position = 0; position < 6; ++position) {
    const Buffer& shard = out.at(position);
    EXPECT_EQ(shard.shape(), Shape{});
    EXPECT_EQ(&shard.space(), &host_space(kPinnedHostMemory));
    EXPECT_EQ(elements<std::int32_t>(shard),
              (std::vector<std::int32_t>{static_cast<std::int32_t>(position % 3 * 2 + position / 3)}));
  }
  EXPECT_EQ(collectives::axis_index(grid, {1}, host_space({})).shards.size(), 3U) << "one buffer for each index";
}

TEST(Collectives, AreTheOpsThatMoveData) {
  std::set<std::string_view> ops;
  for (const OpDef* op : all_ops()) {
    // Solvers have a table of their own, and what back ends make is in them.
    if (op->op_class != OpClass::kCollective || op->collective->solves || op->collective->computes) continue;
    ops.insert(op->name);
  }
  std::set<std::string_view> rows;
  for (const collectives::Row& row : collectives::kTable) EXPECT_TRUE(rows.insert(row.op).second) << row.op;
  EXPECT_EQ(rows, ops);
}

TEST(Collectives, StayInTheOperandsMemory) {
  const GridPtr grid = grid_of({2});
  AddressSpace& space = host_space(kPinnedHostMemory);
  ShardSet in = ShardSet::make(grid, AtomSet(Atoms{0}));
  for (Buffer& shard : in.shards) {
    shard = Buffer(space, float32, {2, 2});
    std::memset(shard.mutable_data(), 0, shard.size_bytes());
  }
  const auto stays = [&](const ShardSet& out) { return &out.at(0).space() == &space && &out.at(1).space() == &space; };
  EXPECT_TRUE(stays(collectives::all_reduce(in, {in.grid, {0}}, ReduceKind::kSum)));
  EXPECT_TRUE(stays(collectives::all_gather(in, {in.grid, {0}}, 0)));
  EXPECT_TRUE(stays(collectives::reduce_scatter(in, {in.grid, {0}}, 0, ReduceKind::kSum)));
  EXPECT_TRUE(stays(collectives::all_to_all(in, {in.grid, {0}}, 0, 1)));
  EXPECT_TRUE(stays(collectives::collective_permute(in, {0}, {}, {})));
  EXPECT_TRUE(stays(collectives::shard_slice(in, {0}, 0)));
}

TEST(Collectives, ShareBuffersOverAGroupOfOne) {
  const GridPtr grid = grid_of({2, 1});
  const ShardSet in = counted(grid, AtomSet(Atoms{0}), {2, 2});
  const auto shares = [&](const ShardSet& out) {
    return out.varying == in.varying && same_memory(out.shards[0], in.shards[0]) &&
           same_memory(out.shards[1], in.shards[1]);
  };
  EXPECT_TRUE(shares(collectives::all_reduce(in, {in.grid, {}}, ReduceKind::kSum)));
  EXPECT_TRUE(shares(collectives::all_gather(in, {in.grid, {}}, 0)));
  EXPECT_TRUE(shares(collectives::reduce_scatter(in, {in.grid, {}}, 0, ReduceKind::kSum)));
  EXPECT_TRUE(shares(collectives::all_to_all(in, {in.grid, {}}, 0, 1)));
  EXPECT_TRUE(shares(collectives::collective_permute(in, {}, {0}, {0})));
  EXPECT_TRUE(shares(collectives::shard_slice(in, {}, 1)));
}

TEST(Collectives, TakeEmptyShards) {
  const GridPtr grid = grid_of({2});
  const ShardSet in = counted(grid, AtomSet(Atoms{0}), {0, 4});
  EXPECT_EQ(collectives::all_reduce(in, {in.grid, {0}}, ReduceKind::kMax).at(0).shape(), (Shape{0, 4}));
  EXPECT_EQ(collectives::all_gather(in, {in.grid, {0}}, 0).at(0).shape(), (Shape{0, 4}));
  EXPECT_EQ(collectives::all_gather(in, {in.grid, {0}}, 1).at(0).shape(), (Shape{0, 8}));
  EXPECT_EQ(collectives::reduce_scatter(in, {in.grid, {0}}, 1, ReduceKind::kSum).at(1).shape(), (Shape{0, 2}));
  EXPECT_EQ(collectives::all_to_all(in, {in.grid, {0}}, 1, 0).at(1).shape(), (Shape{0, 2}));
  EXPECT_EQ(collectives::shard_slice(in, {0}, 0).at(1).shape(), (Shape{0, 4}));
}

TEST(ShardSet, WidensWithoutCopies) {
  const GridPtr grid = grid_of({2, 3});
  const ShardSet in = counted(grid, AtomSet(Atoms{1}), {2});
  const ShardSet wide = in.widened_to(AtomSet(Atoms{0}));
  EXPECT_EQ(wide.varying, AtomSet(Atoms{0, 1}));
  EXPECT_EQ(wide.shards.size(), 6U);
  for (std::int64_t position = 0; position < 6; ++position) {
    EXPECT_TRUE(same_memory(wide.at(position), in.at(position)));
  }
}

}  // namespace
}  // namespace shoal
