// Fully sharded data parallelism: the batch and the parameters are split over the same axis. Each layer's weights are
// gathered when the layer comes, and no others are whole at that time.
#include "support.h"

namespace shoal::programs {
namespace {

struct Layer {
  Array weights;
  Array bias;
};
using Network = std::vector<Layer>;

TEST(Fsdp, GathersOneLayerAtATime) {
  const Mesh mesh = make_mesh({8}, {"data"});
  const std::vector<std::int64_t> widths = {16, 32, 24, 8};
  constexpr std::int64_t kBatch = 64;

  const auto forward = jit(
      [&](const Network& network, Array x) {
        for (const Layer& layer : network) {
          const Array weights = with_sharding_constraint(layer.weights, NamedSharding(mesh, P()));
          const Array bias = with_sharding_constraint(layer.bias, NamedSharding(mesh, P()));
          x = tanh(matmul(x, weights) + bias);
        }
        return x;
      },
      {.name = "forward"});

  Network network;
  Matrix expected = random_matrix(kBatch, widths[0], 1);
  const Array x = to_device(expected, mesh, P("data"));
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    const Matrix weights = random_matrix(widths[i], widths[i + 1], 10 + static_cast<std::uint32_t>(i));
    const Matrix bias = random_matrix(1, widths[i + 1], 20 + static_cast<std::uint32_t>(i));
    network.push_back({to_device(weights, mesh, P("data")),
                       device_put(to_device(bias).reshape(widths[i + 1]), NamedSharding(mesh, P("data")))});
    expected = product(expected, weights);
    for (std::int64_t row = 0; row < kBatch; ++row) {
      for (std::int64_t col = 0; col < expected.cols; ++col) {
        expected.at(row, col) = std::tanh(expected.at(row, col) + bias.at(0, col));
      }
    }
  }

  const Array y = forward(network, x);
  expect_near(y, expected);
  EXPECT_EQ(y.sharding().named()->spec(), P("data")) << "the batch stays split";

  const std::string text = forward.lower(network, x).compile().as_text();
  EXPECT_EQ(collectives_in(text), (Collectives{{"all_gather", 6}})) << text;
  EXPECT_EQ(largest_gathered(text), 32 * 24) << "the largest layer, never an activation";
  EXPECT_EQ(largest_on_a_device(text), 32 * 24) << text;
}

}  // namespace
}  // namespace shoal::programs
