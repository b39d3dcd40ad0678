// Collectives, eagerly and under jit, against a simulation that moves the blocks of all devices about on the host.
#include "shoal/lax.h"

#include <complex>
#include <functional>
#include <numeric>

#include "frontend/test_support.h"

namespace shoal::test {
namespace {

using Blocks = std::vector<Array>;  // What each device holds, in mesh order.

const std::vector<AxisNames> kAxes = {{"x"}, {"y"}, {"x", "y"}, {"y", "x"}};

// ---- The simulation.

// The positions in the mesh of the group to which a device belongs, the first axis being the most major.
std::vector<std::size_t> group_of(std::size_t device, const AxisNames& axes) {
  const std::size_t x = device / 2;
  const std::size_t y = device % 2;
  if (axes == AxisNames{"x"}) return {y, 2 + y, 4 + y, 6 + y};
  if (axes == AxisNames{"y"}) return {2 * x, 2 * x + 1};
  if (axes == AxisNames{"x", "y"}) return {0, 1, 2, 3, 4, 5, 6, 7};
  return {0, 2, 4, 6, 1, 3, 5, 7};
}

std::size_t index_in(const std::vector<std::size_t>& group, std::size_t device) {
  return static_cast<std::size_t>(std::find(group.begin(), group.end(), device) - group.begin());
}

std::size_t positive(std::int64_t axis, std::size_t rank) {
  return static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis);
}

// Blocks of equal shapes, one after the other along a dimension.
Array concatenated(const Blocks& blocks, std::int64_t axis) {
  const Shape& shape = blocks[0].shape();
  const std::size_t d = positive(axis, shape.size());
  std::int64_t outer = 1;
  for (std::size_t i = 0; i < d; ++i) outer *= shape[i];
  const std::int64_t row = blocks[0].size() / outer;
  std::vector<float> elements;
  for (std::int64_t i = 0; i < outer; ++i) {
    for (const Array& block : blocks) {
      const std::vector<float> all = floats(block);
      elements.insert(elements.end(), all.begin() + i * row, all.begin() + (i + 1) * row);
    }
  }
  Shape whole = shape;
  whole[d] *= static_cast<std::int64_t>(blocks.size());
  return array(std::span<const float>(elements), whole);
}

Array piece(const Array& block, std::int64_t axis, std::size_t index, std::size_t count) {
  const std::size_t d = positive(axis, block.ndim());
  const std::int64_t length = block.shape()[d] / static_cast<std::int64_t>(count);
  const auto start = static_cast<std::int64_t>(index) * length;
  std::vector<IndexEntry> entries(block.ndim(), range());
  entries[d] = range(start, start + length);
  return block.at(entries).get();
}

Array total(const Blocks& blocks) {
  return std::accumulate(blocks.begin() + 1, blocks.end(), blocks[0],
                         [](const Array& a, const Array& b) { return a + b; });
}

// ---- Running on devices.

// Blocks of a shape with distinct small values.
Blocks blocks_of(const Shape& shape) {
  Blocks blocks;
  for (int device = 0; device < 8; ++device) blocks.push_back(iota(shape) + 100 * device);
  return blocks;
}

// What the devices hold after f, which sees one block on each, eagerly and under jit.
Blocks run(const Blocks& blocks, const std::function<Array(const Array&)>& f) {
  Blocks expanded;
  for (const Array& block : blocks) expanded.push_back(expand_dims(block, 0));
  const auto mapped = shard_map([&](const Array& x) { return expand_dims(f(x[0]), 0); },
                                {.mesh = mesh_4x2(), .in_specs = P({"x", "y"}), .out_specs = P({"x", "y"})});
  const Array eager = mapped(concatenated(expanded, 0));
  const Array compiled = jit([&](const Array& x) { return mapped(x); })(concatenated(expanded, 0));
  EXPECT_EQ(repr(eager), repr(compiled));
  Blocks results;
  for (int device = 0; device < 8; ++device) results.push_back(eager[device]);
  return results;
}

// Runs f and compares each device's result with what `expected` makes of its group's blocks and its index in it.
void check(const Shape& shape, const AxisNames& axes, const std::function<Array(const Array&)>& f,
           const std::function<Array(const Blocks&, std::size_t)>& expected) {
  const Blocks before = blocks_of(shape);
  const Blocks after = run(before, f);
  for (std::size_t device = 0; device < 8; ++device) {
    const std::vector<std::size_t> group = group_of(device, axes);
    Blocks theirs;
    for (std::size_t member : group) theirs.push_back(before[member]);
    const Array want = expected(theirs, index_in(group, device));
    EXPECT_EQ(after[device].shape(), want.shape());
    EXPECT_EQ(floats(after[device]), floats(want)) << "device " << device << " of " << axes.size() << " axes";
  }
}

// ---- Reductions.

TEST(Lax, Reductions) {
  for (const AxisNames& axes : kAxes) {
    check(
        {2, 3}, axes, [&](const Array& x) { return lax::psum(x, axes); },
        [](const Blocks& group, std::size_t) { return total(group); });
    check(
        {2, 3}, axes, [&](const Array& x) { return lax::pmean(x, axes); },
        [](const Blocks& group, std::size_t) { return total(group) / static_cast<int>(group.size()); });
    check(
        {2}, axes, [&](const Array& x) { return lax::pmax(x, axes); },
        [](const Blocks& group, std::size_t) {
          return std::accumulate(group.begin() + 1, group.end(), group[0],
                                 [](const Array& a, const Array& b) { return maximum(a, b); });
        });
    check(
        {2}, axes, [&](const Array& x) { return lax::pmin(-x, axes); },
        [](const Blocks& group, std::size_t) {
          return std::accumulate(group.begin() + 1, group.end(), -group[0],
                                 [](const Array& a, const Array& b) { return minimum(a, -b); });
        });
  }
}

TEST(Lax, ReductionsOfAllTypes) {
  const auto on_8 = [](auto f) { return shard_map(f, {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = P()}); };
  const Array x = arange(8);
  const auto sum = on_8([](const Array& a) { return lax::psum(a, "i"); });
  for (Dtype dtype : {int8, uint16, int64, float16, bfloat16, float64, complex64}) {
    const Array y = sum(x.astype(dtype));
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_EQ(y.astype(float32).item<float>(), 28.0F) << name_of(dtype);
  }
  EXPECT_EQ(repr(sum(x > 2)), "Array([5], dtype=int32)");
  EXPECT_EQ(repr(on_8([](const Array& a) { return lax::pmean(a, "i"); })(x)), "Array([3.5], dtype=float32)");
  EXPECT_EQ(repr(on_8([](const Array& a) { return lax::pmax(a, "i"); })(x)), "Array([7], dtype=int32)");
  EXPECT_EQ(repr(on_8([](const Array& a) { return lax::pmin(a > 2, "i"); })(x)), "Array([False], dtype=bool)");
}

TEST(Lax, ReductionsOfEqualValuesCountThemAll) {
  const auto f = shard_map(
      [](const Array& x) {
        return std::pair{lax::psum(x, {"x", "y"}), lax::psum(1, "x")};
      },
      {.mesh = mesh_4x2(), .in_specs = P(), .out_specs = P()});
  for (const auto& [sum, count] : {f(3.0), jit([&](const Array& x) { return f(x); })(3.0)}) {
    EXPECT_EQ(sum.item<float>(), 24.0F);
    EXPECT_EQ(count.item<int>(), 4);
  }
}

TEST(Lax, ReductionOverPartOfWhatVaries) {
  const auto f = shard_map([](const Array& x) { return lax::psum(x, "y"); },
                           {.mesh = mesh_4x2(), .in_specs = P("x", "y"), .out_specs = P("x")});
  EXPECT_TRUE(same(f(iota({4, 2})), iota({4, 2}).sum({.axis = 1, .keepdims = true})));
}

// ---- Moves.

TEST(Lax, AllGather) {
  for (const AxisNames& axes : kAxes) {
    for (std::int64_t axis : {0, 1, -1}) {
      check(
          {2, 3}, axes, [&](const Array& x) { return lax::all_gather(x, axes, {.axis = axis, .tiled = true}); },
          [&](const Blocks& group, std::size_t) { return concatenated(group, axis); });
    }
    for (std::int64_t axis : {0, 1, 2, -1, -3}) {
      check(
          {2, 3}, axes, [&](const Array& x) { return lax::all_gather(x, axes, {.axis = axis}); },
          [&](const Blocks& group, std::size_t) {
            Blocks stacked;
            for (const Array& block : group) stacked.push_back(expand_dims(block, axis));
            return concatenated(stacked, axis);
          });
    }
  }
}

TEST(Lax, PsumScatter) {
  for (const AxisNames& axes : kAxes) {
    const auto n = static_cast<std::int64_t>(group_of(0, axes).size());
    for (std::int64_t dim : {0, 1, -1}) {
      check(
          {2 * n, n}, axes,
          [&](const Array& x) { return lax::psum_scatter(x, axes, {.scatter_dimension = dim, .tiled = true}); },
          [&](const Blocks& group, std::size_t index) { return piece(total(group), dim, index, group.size()); });
      check(
          {n, n}, axes, [&](const Array& x) { return lax::psum_scatter(x, axes, {.scatter_dimension = dim}); },
          [&](const Blocks& group, std::size_t index) {
            return squeeze(piece(total(group), dim, index, group.size()), static_cast<int>(dim));
          });
    }
  }
}

TEST(Lax, AllToAllTiled) {
  for (const AxisNames& axes : kAxes) {
    const auto n = static_cast<std::int64_t>(group_of(0, axes).size());
    for (const auto& [split, concat] : {std::pair{0, 1}, {1, 0}, {0, 0}, {1, 1}, {-1, 0}}) {
      check(
          {2 * n, n}, axes,
          [&](const Array& x) {
            return lax::all_to_all(x, axes, {.split_axis = split, .concat_axis = concat, .tiled = true});
          },
          [&](const Blocks& group, std::size_t index) {
            Blocks pieces;
            for (const Array& block : group) pieces.push_back(piece(block, split, index, group.size()));
            return concatenated(pieces, concat);
          });
    }
  }
}

TEST(Lax, AllToAllMovesADimension) {
  for (const AxisNames& axes : kAxes) {
    const auto n = static_cast<std::int64_t>(group_of(0, axes).size());
    for (std::int64_t split : {0, 1, 2}) {
      Shape shape{3, 2, 2};
      shape[static_cast<std::size_t>(split)] = n;
      for (std::int64_t concat : {0, 1, 2}) {
        check(
            shape, axes,
            [&](const Array& x) { return lax::all_to_all(x, axes, {.split_axis = split, .concat_axis = concat}); },
            [&](const Blocks& group, std::size_t index) {
              Blocks pieces;
              for (const Array& block : group) {
                const Array part = squeeze(piece(block, split, index, group.size()), static_cast<int>(split));
                pieces.push_back(expand_dims(part, concat));
              }
              return concatenated(pieces, concat);
            });
      }
    }
  }
}

TEST(Lax, Ppermute) {
  const std::vector<std::vector<std::pair<int, int>>> permutations = {
      {{0, 1}, {1, 0}}, {{0, 1}}, {{1, 1}}, {}, {{0, 0}, {1, 1}}};
  for (const AxisNames& axes : kAxes) {
    for (const auto& perm : permutations) {
      check(
          {2, 3}, axes, [&](const Array& x) { return lax::ppermute(x, axes, perm); },
          [&](const Blocks& group, std::size_t index) {
            for (const auto& [from, to] : perm) {
              if (static_cast<std::size_t>(to) == index) return group[static_cast<std::size_t>(from)];
            }
            return zeros({2, 3});
          });
    }
  }
}

TEST(Lax, Ring) {
  const auto f = shard_map(
      [](const Array& x) {
        std::vector<std::pair<int, int>> ring;
        for (int i = 0; i < 8; ++i) ring.emplace_back(i, (i + 1) % 8);
        return lax::ppermute(x, "i", ring);
      },
      {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = P("i")});
  EXPECT_EQ(floats(f(iota({8}))), (std::vector<float>{7, 0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(floats(jit(f)(iota({8}))), (std::vector<float>{7, 0, 1, 2, 3, 4, 5, 6}));
}

// ---- AxisNames.

// ---- Groups.

// The positions along the axes of the group to which a device belongs, in the group's order.
struct Grouping {
  AxisNames axes;
  lax::AxisIndexGroups groups;
};

const std::vector<Grouping> kGroupings = {{{"x"}, {{0, 1}, {2, 3}}},
                                          {{"x"}, {{3, 0}, {1, 2}}},
                                          {{"y"}, {{1}, {0}}},
                                          {{"y", "x"}, {{7, 0, 2, 4}, {6, 5, 3, 1}}},
                                          {{"x", "y"}, {{5, 4, 3, 2, 1, 0, 7, 6}}}};

// As `check`, within groups.
void check_groups(const Shape& shape, const Grouping& grouping, const std::function<Array(const Array&)>& f,
                  const std::function<Array(const Blocks&, std::size_t)>& expected) {
  const Blocks before = blocks_of(shape);
  const Blocks after = run(before, f);
  for (std::size_t device = 0; device < 8; ++device) {
    const std::vector<std::size_t> all = group_of(device, grouping.axes);
    const int position = static_cast<int>(index_in(all, device));
    for (const std::vector<int>& group : grouping.groups) {
      const auto found = std::find(group.begin(), group.end(), position);
      if (found == group.end()) continue;
      Blocks theirs;
      for (int member : group) theirs.push_back(before[all[static_cast<std::size_t>(member)]]);
      const Array want = expected(theirs, static_cast<std::size_t>(found - group.begin()));
      EXPECT_EQ(after[device].shape(), want.shape());
      EXPECT_EQ(floats(after[device]), floats(want)) << "device " << device;
    }
  }
}

TEST(Lax, ReductionsInGroups) {
  std::vector<Grouping> groupings = kGroupings;
  groupings.push_back({{"x"}, {{0, 1, 3}, {2}}});
  groupings.push_back({{"x", "y"}, {{7}, {0, 2, 4, 6, 1}, {3, 5}}});
  for (const Grouping& grouping : groupings) {
    const lax::GroupOptions options{.axis_index_groups = grouping.groups};
    check_groups(
        {2, 3}, grouping, [&](const Array& x) { return lax::psum(x, grouping.axes, options); },
        [](const Blocks& group, std::size_t) { return total(group); });
    check_groups(
        {3}, grouping, [&](const Array& x) { return lax::pmean(x, grouping.axes, options); },
        [](const Blocks& group, std::size_t) { return total(group) / static_cast<int>(group.size()); });
    check_groups(
        {3}, grouping, [&](const Array& x) { return lax::pmax(x, grouping.axes, options); },
        [](const Blocks& group, std::size_t) {
          return std::accumulate(group.begin() + 1, group.end(), group[0],
                                 [](const Array& a, const Array& b) { return maximum(a, b); });
        });
  }
}

TEST(Lax, GatherAndScatterInGroups) {
  for (const Grouping& grouping : kGroupings) {
    const auto count = static_cast<std::int64_t>(grouping.groups[0].size());
    for (const std::int64_t axis : {0, 1, -1}) {
      check_groups(
          {2, 3}, grouping,
          [&](const Array& x) {
            return lax::all_gather(x, grouping.axes,
                                   {.axis = axis, .tiled = true, .axis_index_groups = grouping.groups});
          },
          [&](const Blocks& group, std::size_t) { return concatenated(group, axis); });
    }
    check_groups(
        {2, 2 * count}, grouping,
        [&](const Array& x) {
          return lax::psum_scatter(x, grouping.axes,
                                   {.scatter_dimension = -1, .tiled = true, .axis_index_groups = grouping.groups});
        },
        [&](const Blocks& group, std::size_t i) { return piece(total(group), -1, i, group.size()); });
    check_groups(
        {count, 2}, grouping,
        [&](const Array& x) { return lax::psum_scatter(x, grouping.axes, {.axis_index_groups = grouping.groups}); },
        [&](const Blocks& group, std::size_t i) { return total(group)[static_cast<std::int64_t>(i)]; });
  }
}

TEST(Lax, ExchangesInGroups) {
  for (const Grouping& grouping : kGroupings) {
    const auto count = static_cast<std::int64_t>(grouping.groups[0].size());
    check_groups(
        {count * 2, 3}, grouping,
        [&](const Array& x) {
          return lax::all_to_all(
              x, grouping.axes,
              {.split_axis = -2, .concat_axis = -1, .tiled = true, .axis_index_groups = grouping.groups});
        },
        [&](const Blocks& group, std::size_t i) {
          Blocks pieces;
          for (const Array& block : group) pieces.push_back(piece(block, 0, i, group.size()));
          return concatenated(pieces, 1);
        });
    check_groups(
        {3, count}, grouping,
        [&](const Array& x) { return lax::pswapaxes(x, grouping.axes, 1, {.axis_index_groups = grouping.groups}); },
        [&](const Blocks& group, std::size_t i) {
          Blocks columns;
          for (const Array& block : group) columns.push_back(piece(block, 1, i, group.size()));
          return concatenated(columns, 1);
        });
  }
}

// ---- The others.

TEST(Lax, Pshuffle) {
  const std::vector<int> perm = {2, 0, 3, 1};
  check(
      {2}, {"x"}, [&](const Array& x) { return lax::pshuffle(x, "x", perm); },
      [&](const Blocks& group, std::size_t i) { return group[static_cast<std::size_t>(perm[i])]; });
}

TEST(Lax, Pbroadcast) {
  for (const AxisNames& axes : kAxes) {
    check(
        {2, 3}, axes, [&](const Array& x) { return lax::pbroadcast(x, axes, 1); },
        [](const Blocks& group, std::size_t) { return group[1]; });
  }
  const auto f = shard_map([](const Array& x) { return lax::pbroadcast(x, "i", 5); },
                           {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = P()});
  EXPECT_EQ(floats(f(iota({8}))), std::vector<float>{5}) << "the same on all, also by its type";
}

TEST(Lax, AllGatherInvariant) {
  for (const std::int64_t axis : {0, -1}) {
    const auto gather = [axis](const Array& x) { return lax::all_gather_invariant(x, {"x", "y"}, {.axis = axis}); };
    const auto f = shard_map(gather, {.mesh = mesh_4x2(), .in_specs = P({"x", "y"}), .out_specs = P()});
    const Array expected = axis == 0 ? iota({8, 2}) : iota({8, 2}).T();
    EXPECT_TRUE(same(f(iota({16})), expected));
    EXPECT_TRUE(same(jit(f)(iota({16})), expected));
  }
}

TEST(Lax, RaggedAllToAll) {
  // The example of two devices in the documentation of jax.lax.
  const Mesh mesh = make_mesh({2}, {"x"});
  const auto f = shard_map(
      [](const Array& operand, const Array& output, const Array& in, const Array& send, const Array& out,
         const Array& receive) {
        return lax::ragged_all_to_all(operand, output, {in, send, out, receive}, "x");
      },
      {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x")});
  const Array operand = array({1, 2, 2, 3, 4, 0});
  const Array output = zeros({8}, {.dtype = int32});
  const Array in = array({0, 1, 0, 1});
  const Array send = array({1, 2, 1, 1});
  const Array out = array({0, 0, 1, 2});
  const Array receive = array({1, 1, 2, 1});
  const std::vector<int> expected = {1, 3, 0, 0, 2, 2, 4, 0};
  EXPECT_EQ(ints(f(operand, output, in, send, out, receive)), expected);
  EXPECT_EQ(ints(jit(f)(operand, output, in, send, out, receive)), expected);
}

TEST(Lax, RaggedAllToAllOfRowsInGroups) {
  // Each device has two rows for itself and one for its partner; groups reverse the order of the partners.
  const auto f = shard_map(
      [](const Array& x) {
        const Array mine = lax::axis_index("i") % 2;  // In groups [1, 0], [3, 2], … the odd ones come first.
        const Array first = where(mine == 1, array({2, 1}), array({1, 2}));
        const Array starts = where(mine == 1, array({0, 2}), array({0, 1}));
        const Array to = where(mine == 1, array({0, 0}), array({2, 1}));
        return lax::ragged_all_to_all(x, zeros({3, 2}), {starts, first, to, first}, "i",
                                      {.axis_index_groups = {{1, 0}, {3, 2}, {5, 4}, {7, 6}}});
      },
      {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = P("i")});
  const Array x = iota({24, 2});
  const std::vector<float> got = floats(jit(f)(x));
  EXPECT_EQ(got, floats(f(x)));
  for (std::size_t pair = 0; pair < 4; ++pair) {
    const auto row = [&](std::size_t r) { return got[(6 * pair + r) * 2] / 2 - static_cast<float>(6 * pair); };
    // The odd device sends its rows 0 and 1 to itself and 2 to the even one; the even one its 0 to the odd one.
    EXPECT_EQ((std::vector<float>{row(0), row(1), row(2), row(3), row(4), row(5)}),
              (std::vector<float>{5, 1, 2, 3, 4, 0}));
  }
}

TEST(Lax, Trees) {
  const auto f = shard_map(
      [](const Array& x) {
        const std::pair<Array, std::vector<Array>> tree{x, {x > 2.0, astype(x, int32)}};
        const auto sums = lax::psum(tree, "i");
        const auto greatest = lax::pmax(std::vector<Array>{x, -x}, "i");
        const auto all = lax::all_gather_invariant(std::array<Array, 1>{x}, "i", {.tiled = true});
        return std::tuple{sums.first,
                          sums.second,
                          greatest,
                          all[0],
                          lax::pmean(std::tuple{x}, "i"),
                          lax::psum(std::vector<Array>{x}, "i", {.axis_index_groups = {{0, 1, 2, 3, 4, 5, 6, 7}}})};
      },
      {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = {P(), P(), P(), P(), P(), P("i")}});
  const auto [sum, sums, greatest, all, means, group] = f(iota({8}));
  EXPECT_EQ(floats(sum), std::vector<float>{28});
  EXPECT_EQ(ints(sums[0]), std::vector<int>{5}) << "bool counts";
  EXPECT_EQ(ints(sums[1]), std::vector<int>{28});
  EXPECT_EQ(floats(greatest[0]), std::vector<float>{7});
  EXPECT_EQ(floats(greatest[1]), std::vector<float>{0});
  EXPECT_TRUE(same(all, iota({8})));
  EXPECT_EQ(floats(std::get<0>(means)), std::vector<float>{3.5});
  EXPECT_EQ(floats(group[0]), std::vector<float>(8, 28));
}

TEST(Lax, ConstantsCountOnEveryDevice) {
  const auto f = shard_map(
      [](const Array& x) {
        EXPECT_EQ(type_of(lax::psum(1, "x")), "int32[]");
        return x * 0 + lax::psum(1, "x") + 10 * lax::psum(2.5, {"x", "y"}) + 1000 * lax::psum(true, "y") +
               lax::psum(1, "x", {.axis_index_groups = {{0, 1, 2}, {3}}});
      },
      {.mesh = mesh_4x2(), .in_specs = P({"x", "y"}), .out_specs = P({"x", "y"})});
  EXPECT_EQ(floats(f(iota({8}))), (std::vector<float>{2207, 2207, 2207, 2207, 2207, 2207, 2205, 2205}));
  EXPECT_EQ(floats(jit(f)(iota({8}))), floats(f(iota({8}))));
}

TEST(Lax, Pcast) {
  const auto f = shard_map(
      [](const Array& x) {
        EXPECT_EQ(type_of(lax::pcast(x, {"x", "y"}, "varying")), "float32[8]{V:(x,y)}");
        return lax::pcast(x, "x", "varying");
      },
      {.mesh = mesh_4x2(), .in_specs = P(), .out_specs = P("x")});
  EXPECT_EQ(f(iota({8})).shape(), (Shape{32}));
}

TEST(Lax, AxisIndexAndSize) {
  for (const AxisNames& axes : kAxes) {
    check(
        {}, axes,
        [&](const Array& x) { return x * 0 + lax::axis_index(axes) * 10 + static_cast<int>(lax::axis_size(axes)); },
        [](const Blocks& group, std::size_t index) { return Array(static_cast<float>(index * 10 + group.size())); });
  }
}

TEST(Lax, AxisIndexIsAnInteger) {
  shard_map(
      [](const Array& x) {
        EXPECT_EQ(type_of(lax::axis_index("x")), "int32[]{V:x}");
        EXPECT_EQ(type_of(lax::axis_index({"y", "x"})), "int32[]{V:(x,y)}");
        EXPECT_EQ(lax::axis_size({"y", "x"}), 8);
        return x;
      },
      {.mesh = mesh_4x2(), .in_specs = P(), .out_specs = P()})(1.0);
}

TEST(Lax, VaryingTypes) {
  shard_map(
      [](const Array& x, const Array& w) {
        EXPECT_EQ(type_of(x), "float32[2]{V:x}");
        EXPECT_EQ(type_of(w), "float32[3]");
        EXPECT_EQ(type_of(x.sum()), "float32[]{V:x}");
        EXPECT_EQ(type_of(lax::psum(x, "x")), "float32[2]");
        EXPECT_EQ(type_of(lax::psum(x, "y")), "float32[2]{V:x}");
        EXPECT_EQ(type_of(lax::pvary(w, "y")), "float32[3]{V:y}");
        EXPECT_EQ(type_of(x.sum() + lax::pvary(w, "y")), "float32[3]{V:(x,y)}");
        EXPECT_EQ(type_of(lax::all_gather(w, "y")), "float32[2,3]{V:y}");
        EXPECT_EQ(type_of(w * 2), "float32[3]");
        return lax::psum(x, "x");
      },
      {.mesh = mesh_4x2(), .in_specs = {P("x"), P()}, .out_specs = P()})(iota({8}), iota({3}));
}

TEST(Lax, SizeOneAxes) {
  const Mesh mesh = make_mesh({1, 8}, {"one", "i"});
  const auto f = shard_map(
      [](const Array& x) {
        const Array y = lax::psum(x, "one") + lax::axis_index("one") + lax::all_gather(x, "one", {.tiled = true});
        return lax::psum_scatter(lax::ppermute(y, "one", {{0, 0}}), "one", {.tiled = true});
      },
      {.mesh = mesh, .in_specs = P("i"), .out_specs = P({"one", "i"})});
  EXPECT_TRUE(same(f(iota({16})), iota({16}) * 2));
  EXPECT_TRUE(same(jit(f)(iota({16})), iota({16}) * 2));
}

TEST(Lax, EmptyArrays) {
  const auto f = shard_map(
      [](const Array& x) {
        return std::pair{lax::psum(x, "i"), lax::all_gather(x, "i", {.tiled = true})};
      },
      {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = {P(), P("i")}});
  const auto [sum, all] = f(zeros({0, 3}));
  EXPECT_EQ(sum.shape(), (Shape{0, 3}));
  EXPECT_EQ(all.shape(), (Shape{0, 3}));
}

}  // namespace
}  // namespace shoal::test
