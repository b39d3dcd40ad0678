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

}  // namespace
}  // namespace shoal::programs
