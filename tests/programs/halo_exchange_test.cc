// The heat equation on a grid that is cut into tiles. Before every step a tile gets the border rows and columns of its
// neighbours; beyond the edge of the grid it is cold, and ppermute gives zeros to who receives nothing.
#include "support.h"

namespace shoal::programs {
namespace {

using Pairs = std::vector<std::pair<int, int>>;

constexpr std::int64_t kHeight = 24;
constexpr std::int64_t kWidth = 16;
constexpr int kSide = 4;
constexpr int kSteps = 10;
constexpr double kRate = 0.2;

Matrix plain_step(const Matrix& heat) {
  Matrix next(heat.rows, heat.cols);
  const auto at = [&](std::int64_t i, std::int64_t j) {
    return i < 0 || j < 0 || i >= heat.rows || j >= heat.cols ? 0 : heat.at(i, j);
  };
  for (std::int64_t i = 0; i < heat.rows; ++i) {
    for (std::int64_t j = 0; j < heat.cols; ++j) {
      const double neighbours = at(i - 1, j) + at(i + 1, j) + at(i, j - 1) + at(i, j + 1);
      next.at(i, j) = at(i, j) + kRate * (neighbours - 4 * at(i, j));
    }
  }
  return next;
}

TEST(HaloExchange, OnlyBordersTravel) {
  const Mesh mesh = make_mesh({kSide, kSide}, {"row", "col"});
  Pairs forward;
  Pairs backward;
  for (int i = 0; i + 1 < kSide; ++i) {
    forward.emplace_back(i, i + 1);
    backward.emplace_back(i + 1, i);
  }

  const auto step = [&](const Array& tile) {
    const Array above = lax::ppermute(tile[{range(-1), range()}], "row", forward);
    const Array below = lax::ppermute(tile[{range(0, 1), range()}], "row", backward);
    const Array left = lax::ppermute(tile[{range(), range(-1)}], "col", forward);
    const Array right = lax::ppermute(tile[{range(), range(0, 1)}], "col", backward);
    const Array up = concatenate({above, tile[{range(0, -1), range()}]}, 0);
    const Array down = concatenate({tile[{range(1), range()}], below}, 0);
    const Array before = concatenate({left, tile[{range(), range(0, -1)}]}, 1);
    const Array after = concatenate({tile[{range(), range(1)}], right}, 1);
    return tile + kRate * (up + down + before + after - 4 * tile);
  };
  const auto evolve = jit(shard_map(
                              [&](Array tile) {
                                for (int i = 0; i < kSteps; ++i) tile = step(tile);
                                return tile;
                              },
                              {.mesh = mesh, .in_specs = P("row", "col"), .out_specs = P("row", "col")}),
                          {.name = "evolve"});

  Matrix heat = random_matrix(kHeight, kWidth, 11);
  const Array start = to_device(heat, mesh, P("row", "col"));
  for (int i = 0; i < kSteps; ++i) heat = plain_step(heat);
  expect_near(evolve(start), heat, 1e-5);

  const std::string text = evolve.lower(start).compile().as_text();
  EXPECT_EQ(collectives_in(text), (Collectives{{"collective_permute", 4 * kSteps}})) << text;
  EXPECT_EQ(largest_on_a_device(text), kHeight * kWidth / (kSide * kSide)) << text;
}

// All steps as one loop, as examples/heat.cc has them: the tile in a frame of what came, which is the one copy of it.
TEST(HaloExchange, InALoopTakesTheMemoryOfTheFramedTile) {
  constexpr std::int64_t kPoints = 256;
  constexpr std::int64_t kTile = kPoints / kSide;
  const Mesh mesh = make_mesh({kSide, kSide}, {"row", "col"});
  Pairs forward;
  Pairs backward;
  for (int i = 0; i + 1 < kSide; ++i) {
    forward.emplace_back(i, i + 1);
    backward.emplace_back(i + 1, i);
  }
  const auto stencil = [](const Array& framed) {
    const auto in = range(1, -1);
    return framed[{in, in}] + kRate * (framed[{range(0, -2), in}] + framed[{range(2), in}] +
                                       framed[{in, range(0, -2)}] + framed[{in, range(2)}] - 4 * framed[{in, in}]);
  };
  const auto step = [&](const Array&, const Array& tile) {
    Array framed = pad(tile, {{1, 1}, {1, 1}});
    framed = lax::dynamic_update_slice(framed, lax::ppermute(tile[{range(-1), range()}], "row", forward), {0, 1});
    framed = lax::dynamic_update_slice(framed, lax::ppermute(tile[{range(0, 1), range()}], "row", backward), {-1, 1});
    framed = lax::dynamic_update_slice(framed, lax::ppermute(tile[{range(), range(-1)}], "col", forward), {1, 0});
    framed = lax::dynamic_update_slice(framed, lax::ppermute(tile[{range(), range(0, 1)}], "col", backward), {1, -1});
    return stencil(framed);
  };
  const PartitionSpec tiles = P("row", "col");
  const auto evolve = jit(shard_map([&](const Array& tile) { return lax::fori_loop(0, kSteps, step, tile); },
                                    {.mesh = mesh, .in_specs = tiles, .out_specs = tiles}),
                          {.donate_argnums = {0}, .name = "evolve"});

  Matrix heat = random_matrix(kPoints, kPoints, 12);
  Array whole = to_device(heat);
  const Array start = to_device(heat, mesh, tiles);
  const auto compiled = evolve.lower(start).compile();
  const MemoryAnalysis memory = compiled.memory_analysis();
  constexpr std::int64_t kFramed = (kTile + 2) * (kTile + 2) * 4;
  EXPECT_EQ(memory.alias_size, kTile * kTile * 4);
  EXPECT_GE(memory.temp_size, kFramed);
  EXPECT_LE(memory.temp_size, kFramed + 8 * kTile * 4 + 64) << "four borders that are sent, and four that come";
  const std::string text = compiled.as_text();
  EXPECT_EQ(collectives_in(text), (Collectives{{"collective_permute", 4}})) << text;
  EXPECT_EQ(compiled.cost_analysis().bytes_exchanged, kSteps * 4 * kTile * 4 * (kSide - 1) / double{kSide});

  const Array evolved = compiled(start);
  for (int i = 0; i < kSteps; ++i) {
    heat = plain_step(heat);
    whole = stencil(pad(whole, {{1, 1}, {1, 1}}));
  }
  expect_near(evolved, heat, 1e-5);
  EXPECT_EQ(evolved.to_vector<float>(), whole.to_vector<float>()) << "the bits of one device";
}

}  // namespace
}  // namespace shoal::programs
