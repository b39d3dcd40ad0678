#include "sharding/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <utility>

#include "sharding/test_support.h"

namespace shoal {
namespace {

using test_support::cpus;
using test_support::grid;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const std::vector<Shape>& mesh_shapes() {
  static const std::vector<Shape> kShapes = {{1},    {2},       {3},       {4},       {6},       {8},      {12},
                                             {1, 4}, {4, 1},    {2, 2},    {2, 3},    {3, 2},    {2, 4},   {4, 6},
                                             {6, 6}, {2, 2, 2}, {2, 1, 3}, {1, 1, 1}, {4, 3, 2}, {6, 1, 5}};
  return kShapes;
}

// Every list of at most `longest` distinct atoms, in every order.
std::vector<Atoms> atom_lists(const Grid& grid, std::size_t longest) {
  std::vector<Atoms> lists = {{}};
  for (std::size_t i = 0; i < lists.size(); ++i) {
    if (lists[i].size() == longest) break;
    for (int atom = 0; atom < grid.num_atoms(); ++atom) {
      if (AtomSet(lists[i]).contains(static_cast<Atom>(atom))) continue;
      Atoms longer = lists[i];
      longer.push_back(static_cast<Atom>(atom));
      lists.push_back(std::move(longer));
    }
  }
  return lists;
}

// A spec of `rank` entries that uses each axis of the mesh at most once.
PartitionSpec random_spec(const Mesh& mesh, std::size_t rank, std::mt19937& random) {
  std::vector<std::vector<std::string>> names(rank);
  std::vector<std::string> axes = mesh.axis_names();
  std::shuffle(axes.begin(), axes.end(), random);
  for (const std::string& axis : axes) {
    const std::size_t dim = random() % (rank + 1);
    if (dim < rank) names[dim].push_back(axis);
  }
  std::vector<PartitionEntry> entries;
  for (std::vector<std::string>& list : names) entries.emplace_back(std::move(list));
  return PartitionSpec(std::move(entries));
}

TEST(ReduceKind, NamesRoundTrip) {
  for (const auto kind :
       {ReduceKind::kSum, ReduceKind::kProd, ReduceKind::kMax, ReduceKind::kMin, ReduceKind::kAnd, ReduceKind::kOr}) {
    EXPECT_EQ(parse_reduce_kind(name_of(kind)), kind);
  }
  EXPECT_EQ(name_of(ReduceKind::kProd), "prod");
  EXPECT_THAT([] { parse_reduce_kind("mean"); },
              ThrowsMessage<InvalidArgument>(HasSubstr("reduction kind 'mean' is unknown; the kinds are sum, prod")));
}

TEST(AtomSet, IsASet) {
  AtomSet set(Atoms{5, 0, 63});
  EXPECT_EQ(set.size(), 3);
  EXPECT_TRUE(set.contains(63));
  EXPECT_FALSE(set.contains(1));
  EXPECT_EQ(set.sorted(), (Atoms{0, 5, 63}));
  EXPECT_EQ((set | AtomSet(Atoms{1, 5})).sorted(), (Atoms{0, 1, 5, 63}));
  EXPECT_EQ((set & AtomSet(Atoms{1, 5})).sorted(), (Atoms{5}));
  EXPECT_EQ((set - AtomSet(Atoms{1, 5})).sorted(), (Atoms{0, 63}));
  EXPECT_TRUE(AtomSet().empty());
  EXPECT_EQ(AtomSet().sorted(), Atoms{});
}

TEST(Grid, DividesAxesIntoPrimes) {
  const Grid grid(test_support::grid({12, 1, 5}));
  EXPECT_EQ(grid.atom_sizes(), (std::vector<int>{2, 2, 3, 5}));
  EXPECT_EQ(grid.num_atoms(), 4);
  EXPECT_EQ(grid.num_devices(), 60);
  EXPECT_EQ(grid.atoms_of("x"), (Atoms{0, 1, 2}));
  EXPECT_EQ(grid.atoms_of("y"), Atoms{});
  EXPECT_EQ(grid.atoms_of(std::vector<std::string>{"z", "x"}), (Atoms{3, 0, 1, 2}));
  EXPECT_EQ(grid.axis_of(0), 0U);
  EXPECT_EQ(grid.axis_of(2), 0U);
  EXPECT_EQ(grid.axis_of(3), 2U);
  EXPECT_EQ(grid.size_of(Atoms{2, 0}), 6);
  EXPECT_EQ(grid.size_of(AtomSet(Atoms{1, 3})), 10);
  EXPECT_EQ(grid.size_of(Atoms{}), 1);
}

TEST(Grid, OfOneDeviceHasNoAxes) {
  const Grid grid(Device{.id = 3});
  EXPECT_EQ(grid.num_devices(), 1);
  EXPECT_EQ(grid.num_atoms(), 0);
  EXPECT_TRUE(grid.mesh().empty());
  EXPECT_EQ(grid.extent(7, {}, 0), (Extent{0, 7}));
  EXPECT_EQ(grid.distinct_index(0, {}), 0);
  EXPECT_EQ(grid.representative({}, 0), 0);
  EXPECT_TRUE(grid.covers(test_support::grid({1, 1}, {3})));
  EXPECT_FALSE(grid.covers(test_support::grid({1}, {0})));
}

TEST(Grid, CoordinatesAreThoseOfTheMesh) {
  const Grid grid(test_support::grid({4, 3}));
  for (std::int64_t position = 0; position < 12; ++position) {
    EXPECT_EQ(grid.index_along(position, grid.atoms_of("x")), position / 3);
    EXPECT_EQ(grid.index_along(position, grid.atoms_of("y")), position % 3);
    EXPECT_EQ(grid.coordinate(position, 0), position / 6);
    EXPECT_EQ(grid.coordinate(position, 1), position / 3 % 2);
  }
}

TEST(Grid, WritesSubAxes) {
  const Grid grid(test_support::grid({8, 6}));  // atoms 0 1 2 | 3 4
  const auto refs = [&](const Atoms& atoms) { return grid.axis_refs(atoms); };
  using Refs = std::vector<std::string>;
  EXPECT_EQ(refs({}), Refs{});
  EXPECT_EQ(refs({0, 1, 2}), Refs{"x"});
  EXPECT_EQ(refs({0}), Refs{"x:(1)2"});
  EXPECT_EQ(refs({1}), Refs{"x:(2)2"});
  EXPECT_EQ(refs({1, 2}), Refs{"x:(2)4"});
  EXPECT_EQ(refs({2, 1}), (Refs{"x:(4)2", "x:(2)2"}));
  EXPECT_EQ(refs({0, 1, 2, 3}), (Refs{"x", "y:(1)2"}));
  EXPECT_EQ(refs({4, 0, 1, 2}), (Refs{"y:(2)3", "x"}));
}

TEST(Grid, SubAxesRoundTripThroughText) {
  for (const Shape& shape : mesh_shapes()) {
    const Grid grid(test_support::grid(shape));
    for (const Atoms& atoms : atom_lists(grid, 4)) EXPECT_EQ(grid.atoms_of(grid.axis_refs(atoms)), atoms);
  }
}

TEST(Grid, RefusesUnknownAxes) {
  const Grid grid(test_support::grid({8, 6}));
  for (const char* ref : {"z", "", "z:(1)2", ":(1)2"}) {
    EXPECT_THAT([&] { grid.atoms_of(ref); },
                ThrowsMessage<UnboundAxisError>(HasSubstr("is not an axis of the mesh; its axes are (x, y)")))
        << ref;
  }
}

TEST(Grid, RefusesMalformedSubAxes) {
  const Grid grid(test_support::grid({8, 6}));
  for (const char* ref : {"x:(", "x:(2", "x:(2)", "x:()2", "x:(2)y", "x:(2)2y", "x:(a)2"}) {
    EXPECT_THAT([&] { grid.atoms_of(ref); },
                ThrowsMessage<InvalidArgument>(HasSubstr("is not written as name:(pre)size")))
        << ref;
  }
  for (const char* ref : {"x:(1)3", "x:(3)2", "x:(2)8", "x:(8)2", "y:(1)3", "y:(3)2", "x:(0)2", "x:(2)0", "x:(2)-2"}) {
    EXPECT_THAT([&] { grid.atoms_of(ref); }, ThrowsMessage<InvalidArgument>(HasSubstr("does not divide axis '")))
        << ref;
  }
}

TEST(Grid, CoversMeshesOfTheSameAtoms) {
  const Grid grid(test_support::grid({2, 6}));
  EXPECT_TRUE(grid.covers(test_support::grid({2, 6})));
  EXPECT_TRUE(grid.covers(test_support::grid({4, 3})));
  EXPECT_TRUE(grid.covers(test_support::grid({12})));
  EXPECT_TRUE(grid.covers(test_support::grid({2, 2, 3})));
  EXPECT_TRUE(grid.covers(test_support::grid({4, 1, 3})));
  EXPECT_FALSE(grid.covers(test_support::grid({6, 2})));  // 6 = 2 · 3 puts the 3 in the middle.
  EXPECT_FALSE(grid.covers(test_support::grid({2, 3})));
  EXPECT_FALSE(grid.covers(test_support::grid({12}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 10})));
  EXPECT_FALSE(grid.covers(test_support::grid({12}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})));
}

TEST(Grid, DimsAreThoseOfTheSharding) {
  std::mt19937 random(1);
  for (const Shape& grid_shape : mesh_shapes()) {
    const Grid grid(test_support::grid(grid_shape));
    for (const Shape& shape : mesh_shapes()) {
      const Mesh mesh = test_support::grid(shape);
      if (!grid.covers(mesh)) continue;
      for (int repeat = 0; repeat < 20; ++repeat) {
        const PartitionSpec spec = random_spec(mesh, 3, random);
        const Placement placement{.dims = grid.dims_of(mesh, spec, 3), .partial = {}};
        const Shape global = {360, 360, 360};
        const auto expected = NamedSharding(mesh, spec).devices_indices_map(global);
        for (std::size_t position = 0; position < expected.size(); ++position) {
          ASSERT_EQ(grid.devices()[position], expected[position].first);
          for (std::size_t d = 0; d < 3; ++d) {
            const Extent extent = grid.extent(global[d], placement.dims[d], static_cast<std::int64_t>(position));
            const IndexRange& range = expected[position].second[d];
            ASSERT_EQ(extent.start, range.start.value_or(0)) << to_string(mesh) << to_string(spec);
            ASSERT_EQ(extent.start + extent.size, range.stop.value_or(360)) << to_string(mesh) << to_string(spec);
          }
        }
      }
    }
  }
}

TEST(Grid, SpecsRoundTrip) {
  std::mt19937 random(2);
  for (const Shape& shape : mesh_shapes()) {
    const Mesh mesh = test_support::grid(shape);
    const Grid grid(mesh);
    for (int repeat = 0; repeat < 50; ++repeat) {
      const std::vector<Atoms> dims = grid.dims_of(mesh, random_spec(mesh, 3, random), 3);
      const auto spec = grid.spec_of(mesh, dims);
      ASSERT_TRUE(spec.has_value()) << to_string(mesh);
      EXPECT_EQ(grid.dims_of(mesh, *spec, 3), dims) << to_string(mesh) << to_string(*spec);
    }
  }
}

TEST(Grid, SpecsAreShort) {
  const Mesh mesh = grid({4, 1, 2});
  const Grid grid(mesh);
  const auto settled = [&](const PartitionSpec& spec) { return *grid.spec_of(mesh, grid.dims_of(mesh, spec, 3)); };
  EXPECT_EQ(settled(P("x")), P("x"));
  EXPECT_EQ(settled(P(none, {"z", "x"}, none)), P(none, {"z", "x"}));
  EXPECT_EQ(settled(P("y", "x")), P(none, "x")) << "an axis of size 1 splits nothing";
  EXPECT_EQ(settled(P(unconstrained, "x")), P(none, "x"));
  EXPECT_EQ(settled(P()), P());
}

TEST(Grid, HasNoSpecForPartsOfAxes) {
  const Grid grid(test_support::grid({4}));
  EXPECT_EQ(grid.spec_of(test_support::grid({4}), {{0}}), std::nullopt);
  EXPECT_EQ(grid.spec_of(test_support::grid({4}), {{1, 0}}), std::nullopt);
  EXPECT_EQ(grid.spec_of(test_support::grid({4}), {{0}, {1}}), std::nullopt);
  EXPECT_EQ(grid.spec_of(test_support::grid({2, 2}), {{0}, {1}}), P("x", "y"));
  EXPECT_EQ(grid.spec_of(test_support::grid({2, 2}), {{1, 0}}), P({"y", "x"}));
}

// Every element lies in exactly one shard, shards are in order, and only the coordinates along the atoms matter.
TEST(Grid, ExtentsPartitionEveryDimension) {
  for (const Shape& shape : mesh_shapes()) {
    const Grid grid(test_support::grid(shape));
    for (const Atoms& atoms : atom_lists(grid, 3)) {
      const std::int64_t pieces = grid.size_of(atoms);
      for (const std::int64_t size : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 17, 24, 25, 60}) {
        std::vector<Extent> by_index(static_cast<std::size_t>(pieces), Extent{-1, -1});
        for (std::int64_t position = 0; position < grid.num_devices(); ++position) {
          Extent& known = by_index[static_cast<std::size_t>(grid.index_along(position, atoms))];
          const Extent extent = grid.extent(size, atoms, position);
          if (known.start < 0) known = extent;
          ASSERT_EQ(extent, known);
        }
        std::int64_t next = 0;
        for (const Extent& extent : by_index) {
          ASSERT_EQ(extent.start, next) << "size " << size << " over " << pieces;
          ASSERT_GE(extent.size, 0);
          ASSERT_LE(extent.size, by_index[0].size) << "the first shard is the largest";
          if (size % pieces == 0) {
            ASSERT_EQ(extent.size, size / pieces);
          }
          next += extent.size;
        }
        ASSERT_EQ(next, size);
      }
    }
  }
}

TEST(Grid, EachAtomDividesWhatTheOnesBeforeLeft) {
  const Grid grid(test_support::grid({4}));
  const auto sizes = [&](std::int64_t size, const Atoms& atoms) {
    std::vector<std::int64_t> list;
    for (std::int64_t p = 0; p < 4; ++p) list.push_back(grid.extent(size, atoms, p).size);
    return list;
  };
  EXPECT_EQ(sizes(5, {0, 1}), (std::vector<std::int64_t>{2, 1, 1, 1}));
  EXPECT_EQ(sizes(3, {0, 1}), (std::vector<std::int64_t>{1, 1, 1, 0}));
  EXPECT_EQ(sizes(1, {0, 1}), (std::vector<std::int64_t>{1, 0, 0, 0}));
  EXPECT_EQ(sizes(3, {1, 0}), (std::vector<std::int64_t>{1, 1, 1, 0}));
  EXPECT_EQ(sizes(5, {1}), (std::vector<std::int64_t>{3, 2, 3, 2}));
}

TEST(Grid, IndicesAlongAtomsAreInverse) {
  for (const Shape& shape : mesh_shapes()) {
    const Grid grid(test_support::grid(shape));
    for (const Atoms& atoms : atom_lists(grid, 3)) {
      for (std::int64_t position = 0; position < grid.num_devices(); ++position) {
        const std::int64_t index = grid.index_along(position, atoms);
        ASSERT_EQ(grid.with_index_along(position, atoms, index), position);
        for (std::int64_t other = 0; other < grid.size_of(atoms); ++other) {
          const std::int64_t moved = grid.with_index_along(position, atoms, other);
          ASSERT_EQ(grid.index_along(moved, atoms), other);
          for (int atom = 0; atom < grid.num_atoms(); ++atom) {
            if (AtomSet(atoms).contains(static_cast<Atom>(atom))) continue;
            ASSERT_EQ(grid.coordinate(moved, static_cast<Atom>(atom)),
                      grid.coordinate(position, static_cast<Atom>(atom)));
          }
        }
      }
    }
  }
}

TEST(Grid, IndexAlongTakesTheFirstAtomAsTheMostMajor) {
  const Grid grid(test_support::grid({2, 3}));
  const Atoms y_x = {1, 0};
  EXPECT_EQ(grid.index_along(4, y_x), 3);  // x = 1, y = 1
  EXPECT_EQ(grid.with_index_along(0, y_x, 3), 4);
}

TEST(Grid, RepresentativesStandForDistinctShards) {
  for (const Shape& shape : mesh_shapes()) {
    const Grid grid(test_support::grid(shape));
    for (const Atoms& atoms : atom_lists(grid, 3)) {
      const AtomSet set(atoms);
      for (std::int64_t index = 0; index < grid.size_of(set); ++index) {
        const std::int64_t position = grid.representative(set, index);
        ASSERT_EQ(grid.distinct_index(position, set), index);
        for (int atom = 0; atom < grid.num_atoms(); ++atom) {
          if (!set.contains(static_cast<Atom>(atom))) {
            ASSERT_EQ(grid.coordinate(position, static_cast<Atom>(atom)), 0);
          }
        }
      }
      for (std::int64_t position = 0; position < grid.num_devices(); ++position) {
        ASSERT_EQ(grid.distinct_index(position, set), grid.index_along(position, set.sorted()));
      }
    }
  }
}

TEST(Placement, KnowsOverWhichAtomsDevicesDiffer) {
  const Placement placement{.dims = {{2}, {}, {0, 1}}, .partial = {4}};
  EXPECT_EQ(placement.sharded().sorted(), (Atoms{0, 1, 2}));
  EXPECT_EQ(placement.varying().sorted(), (Atoms{0, 1, 2, 4}));
  EXPECT_FALSE(placement.is_replicated());
  EXPECT_TRUE(Placement::replicated(3).is_replicated());
  EXPECT_EQ(Placement::replicated(3).dims.size(), 3U);
}

TEST(Placement, EqualityIgnoresTheKindOfWhatIsNotPartial) {
  const Placement sum{.dims = {{0}}, .partial = {}};
  const Placement max{.dims = {{0}}, .partial = {}, .kind = ReduceKind::kMax};
  EXPECT_EQ(sum, max);
  const Placement partial_sum{.dims = {{0}}, .partial = {1}};
  const Placement partial_max{.dims = {{0}}, .partial = {1}, .kind = ReduceKind::kMax};
  EXPECT_FALSE(partial_sum == partial_max);
  EXPECT_FALSE(partial_sum == sum);
  EXPECT_FALSE(sum == Placement::replicated(1));
}

TEST(Placement, PrintsAxesPerDimension) {
  const Grid grid(test_support::grid({2, 4, 3}));  // atoms 0 | 1 2 | 3
  EXPECT_EQ(to_string(grid, Placement::replicated(2)), "[_, _]");
  EXPECT_EQ(to_string(grid, Placement::replicated(0)), "[]");
  EXPECT_EQ(to_string(grid, Placement{.dims = {{0}, {}, {3, 2}}, .partial = {}}), "[x, _, (z, y:(2)2)]");
  EXPECT_EQ(to_string(grid, Placement{.dims = {{1, 2}}, .partial = {0, 3}, .kind = ReduceKind::kMax}),
            "[y] partial(max: x, z)");
}

TEST(Placement, GivesLocalShapes) {
  const Grid grid(test_support::grid({2, 3}));
  const Placement placement{.dims = {{1}, {0}}, .partial = {}};
  EXPECT_EQ(local_shape(grid, {7, 4}, placement), (Shape{3, 2}));
  EXPECT_EQ(local_shape(grid, {7, 4}, placement, 0), (Shape{3, 2}));
  EXPECT_EQ(local_shape(grid, {7, 4}, placement, 5), (Shape{1, 2}));
  EXPECT_EQ(local_shape(grid, {}, Placement::replicated(0)), Shape{});
  EXPECT_EQ(shard_start(grid, {7, 4}, placement, 0), (Dims{0, 0}));
  EXPECT_EQ(shard_start(grid, {7, 4}, placement, 5), (Dims{6, 2}));
  EXPECT_TRUE(is_even(grid, {6, 4}, placement.dims));
  EXPECT_FALSE(is_even(grid, {7, 4}, placement.dims));
  EXPECT_TRUE(is_even(grid, {0, 2}, placement.dims));
}

}  // namespace
}  // namespace shoal
