// A product of two matrices that are both split by rows. The blocks of the second one travel round a ring: at every
// step a device multiplies with the block at hand, and passes it on.
#include "support.h"

namespace shoal::programs {
namespace {

TEST(RingMatmul, PassesBlocksRound) {
  constexpr std::int64_t kDevices = 8;
  constexpr std::int64_t kRows = 16;
  constexpr std::int64_t kInner = 24;
  constexpr std::int64_t kCols = 10;
  const Mesh mesh = make_mesh({kDevices}, {"i"});

  std::vector<std::pair<int, int>> to_the_left;
  for (int i = 0; i < kDevices; ++i) to_the_left.emplace_back(i, (i + kDevices - 1) % kDevices);

  const auto multiply = jit(shard_map(
                                [&](const Array& a, Array b) {
                                  constexpr std::int64_t kBlock = kInner / kDevices;
                                  const Array here = lax::axis_index("i");
                                  Array sum = zeros({a.shape()[0], kCols});
                                  for (int step = 0; step < kDevices; ++step) {
                                    const Array owner = (here + step) % kDevices;  // Whose block is here now.
                                    sum = sum + matmul(lax::dynamic_slice_in_dim(a, owner * kBlock, kBlock, 1), b);
                                    if (step + 1 < kDevices) b = lax::ppermute(b, "i", to_the_left);
                                  }
                                  return sum;
                                },
                                {.mesh = mesh, .in_specs = P("i"), .out_specs = P("i")}),
                            {.name = "multiply"});

  const Matrix a = random_matrix(kRows, kInner, 1);
  const Matrix b = random_matrix(kInner, kCols, 2);
  const Array x = to_device(a, mesh, P("i"));
  const Array y = to_device(b, mesh, P("i"));
  expect_near(multiply(x, y), product(a, b));

  const std::string text = multiply.lower(x, y).compile().as_text();
  EXPECT_EQ(collectives_in(text), (Collectives{{"collective_permute", kDevices - 1}})) << text;
  EXPECT_LE(largest_on_a_device(text), kRows * kInner / kDevices) << text;
}

}  // namespace
}  // namespace shoal::programs
