// Cannon's algorithm: both factors are cut into squares over a square mesh. After a skew, every step multiplies the
// squares at hand and moves those of the first factor one column on, those of the second one row.
#include "support.h"

namespace shoal::programs {
namespace {

using Pairs = std::vector<std::pair<int, int>>;

TEST(Cannon, MovesSquares) {
  constexpr int kSide = 4;
  constexpr std::int64_t kSize = 16;
  const Mesh mesh = make_mesh({kSide, kSide}, {"row", "col"});

  Pairs skew_a;  // From position to position along both axes, rows being the more major.
  Pairs skew_b;
  for (int row = 0; row < kSide; ++row) {
    for (int col = 0; col < kSide; ++col) {
      skew_a.emplace_back(row * kSide + col, row * kSide + (col + kSide - row) % kSide);
      skew_b.emplace_back(row * kSide + col, (row + kSide - col) % kSide * kSide + col);
    }
  }
  Pairs back_one;
  for (int i = 0; i < kSide; ++i) back_one.emplace_back(i, (i + kSide - 1) % kSide);

  const auto multiply = jit(shard_map(
                                [&](Array a, Array b) {
                                  a = lax::ppermute(a, {"row", "col"}, skew_a);
                                  b = lax::ppermute(b, {"row", "col"}, skew_b);
                                  Array sum = matmul(a, b);
                                  for (int step = 1; step < kSide; ++step) {
                                    a = lax::ppermute(a, "col", back_one);
                                    b = lax::ppermute(b, "row", back_one);
                                    sum = sum + matmul(a, b);
                                  }
                                  return sum;
                                },
                                {.mesh = mesh, .in_specs = P("row", "col"), .out_specs = P("row", "col")}),
                            {.name = "cannon"});

  const Matrix a = random_matrix(kSize, kSize, 1);
  const Matrix b = random_matrix(kSize, kSize, 2);
  const Array x = to_device(a, mesh, P("row", "col"));
  const Array y = to_device(b, mesh, P("row", "col"));
  expect_near(multiply(x, y), product(a, b));

  const std::string text = multiply.lower(x, y).compile().as_text();
  EXPECT_EQ(collectives_in(text), (Collectives{{"collective_permute", 2 + 2 * (kSide - 1)}})) << text;
  EXPECT_EQ(largest_on_a_device(text), kSize * kSize / (kSide * kSide)) << text;
}

}  // namespace
}  // namespace shoal::programs
