// A tensor-parallel MLP: the first layer's weights are split by columns, the second's by rows, the batch over the other
// axis. One reduction per block is all that is exchanged.
#include "support.h"

namespace shoal::programs {
namespace {

struct Block {
  Array up;
  Array up_bias;
  Array down;
  Array down_bias;
};

Array mlp(const Block& block, const Array& x) {
  const Array hidden = maximum(matmul(x, block.up) + block.up_bias, 0);
  return matmul(hidden, block.down) + block.down_bias;
}

TEST(TensorParallel, ReducesOnceInEachBlock) {
  const Mesh mesh = make_mesh({2, 4}, {"data", "model"});
  constexpr std::int64_t kBatch = 12;
  constexpr std::int64_t kRowWidth = 16;
  constexpr std::int64_t kHidden = 64;
  const auto put = [&](const Array& array, const PartitionSpec& spec) {
    return device_put(array, NamedSharding(mesh, spec));
  };

  const auto forward = jit(
      [](const std::vector<Block>& blocks, Array x) {
        for (const Block& block : blocks) x = mlp(block, x);
        return x;
      },
      {.name = "forward"});

  std::vector<Block> blocks;
  Matrix expected = random_matrix(kBatch, kRowWidth, 1);
  const Array x = to_device(expected, mesh, P("data"));
  for (std::uint32_t i = 0; i < 2; ++i) {
    const Matrix up = random_matrix(kRowWidth, kHidden, 10 + i);
    const Matrix up_bias = random_matrix(1, kHidden, 20 + i);
    const Matrix down = random_matrix(kHidden, kRowWidth, 30 + i);
    const Matrix down_bias = random_matrix(1, kRowWidth, 40 + i);
    blocks.push_back({put(to_device(up), P(none, "model")), put(to_device(up_bias).reshape(kHidden), P("model")),
                      put(to_device(down), P("model")), put(to_device(down_bias).reshape(kRowWidth), P())});
    Matrix hidden = product(expected, up);
    for (std::int64_t row = 0; row < kBatch; ++row) {
      for (std::int64_t col = 0; col < kHidden; ++col) {
        hidden.at(row, col) = std::max(hidden.at(row, col) + up_bias.at(0, col), 0.0);
      }
    }
    expected = product(hidden, down);
    for (std::int64_t row = 0; row < kBatch; ++row) {
      for (std::int64_t col = 0; col < kRowWidth; ++col) expected.at(row, col) += down_bias.at(0, col);
    }
  }

  const Array y = forward(blocks, x);
  expect_near(y, expected, 2e-3);
  EXPECT_EQ(y.sharding().named()->spec(), P("data"));

  const std::string text = forward.lower(blocks, x).compile().as_text();
  EXPECT_EQ(collectives_in(text), (Collectives{{"all_reduce", 2}})) << text;
  EXPECT_EQ(largest_on_a_device(text), kRowWidth * kHidden / 4) << "no weight is ever whole\n" << text;
}

}  // namespace
}  // namespace shoal::programs
