// A mixture of experts with one expert on each device. Every token goes to the expert that scores highest, in a slot of
// a buffer of fixed capacity; an all_to_all brings the buffers to the experts, and another one back.
#include "support.h"

namespace shoal::programs {
namespace {

constexpr std::int64_t kExperts = 8;
constexpr std::int64_t kTokens = 48;  // On each device.
constexpr std::int64_t kTokenWidth = 12;
constexpr std::int64_t kCapacity = 9;  // Tokens that an expert takes from each device.

// What the tokens of one device become.
Matrix plain_experts(const Matrix& tokens, const Matrix& router, const std::vector<Matrix>& experts, int* dropped) {
  const Matrix scores = product(tokens, router);
  std::vector<std::int64_t> taken(kExperts, 0);
  Matrix result(kTokens, kTokenWidth);
  for (std::int64_t t = 0; t < kTokens; ++t) {
    std::int64_t best = 0;
    for (std::int64_t e = 1; e < kExperts; ++e) {
      if (scores.at(t, e) > scores.at(t, best)) best = e;
    }
    if (taken[static_cast<std::size_t>(best)]++ >= kCapacity) {
      ++*dropped;
      continue;
    }
    for (std::int64_t j = 0; j < kTokenWidth; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < kTokenWidth; ++k)
        sum += tokens.at(t, k) * experts[static_cast<std::size_t>(best)].at(k, j);
      result.at(t, j) = std::tanh(sum);
    }
  }
  return result;
}

TEST(MixtureOfExperts, TokensTravelToTheirExperts) {
  const Mesh mesh = make_mesh({kExperts}, {"expert"});
  const auto layer = jit(
      shard_map(
          [](const Array& tokens, const Array& router, const Array& expert) {
            const Array scores = matmul(tokens, router);
            const Array chosen = (scores == max(scores, {.axis = 1, .keepdims = true})).astype(float32);
            // The slot of a token: the number of tokens before it that chose the same expert.
            const Array order = arange(kTokens);
            const Array before = (expand_dims(order, 1) > expand_dims(order, 0)).astype(float32);
            const Array slot = matmul(before, chosen);
            const Array slots = expand_dims(slot, 2) == arange(kCapacity).astype(float32);
            // dispatch[t, e, c] is 1 where token t is in slot c of expert e.
            const Array dispatch = where(slots, expand_dims(chosen, 2), 0).reshape(kTokens, kExperts * kCapacity);
            const Array sent = matmul(dispatch.T(), tokens).reshape(kExperts, kCapacity, kTokenWidth);
            const Array received = lax::all_to_all(sent, "expert", {.split_axis = 0, .concat_axis = 0, .tiled = true});
            const Array answers = tanh(matmul(received, expert[0]));
            const Array back = lax::all_to_all(answers, "expert", {.split_axis = 0, .concat_axis = 0, .tiled = true});
            return matmul(dispatch, back.reshape(kExperts * kCapacity, kTokenWidth));
          },
          {.mesh = mesh, .in_specs = {P("expert"), P(), P("expert")}, .out_specs = P("expert")}),
      {.name = "layer"});

  const Matrix tokens = random_matrix(kExperts * kTokens, kTokenWidth, 1);
  const Matrix router = random_matrix(kTokenWidth, kExperts, 2);
  std::vector<Matrix> experts;
  Matrix stacked(kExperts * kTokenWidth, kTokenWidth);
  for (std::int64_t e = 0; e < kExperts; ++e) {
    experts.push_back(random_matrix(kTokenWidth, kTokenWidth, 10 + static_cast<std::uint32_t>(e)));
    std::copy(experts.back().elements.begin(), experts.back().elements.end(),
              stacked.elements.begin() + e * kTokenWidth * kTokenWidth);
  }
  const Array x = to_device(tokens, mesh, P("expert"));
  const Array route = to_device(router, mesh, P());
  const Array weights =
      device_put(to_device(stacked).reshape(kExperts, kTokenWidth, kTokenWidth), NamedSharding(mesh, P("expert")));

  Matrix expected(kExperts * kTokens, kTokenWidth);
  int dropped = 0;
  for (std::int64_t device = 0; device < kExperts; ++device) {
    Matrix own(kTokens, kTokenWidth);
    const auto begin = tokens.elements.begin() + device * kTokens * kTokenWidth;
    std::copy(begin, begin + kTokens * kTokenWidth, own.elements.begin());
    const Matrix result = plain_experts(own, router, experts, &dropped);
    std::copy(result.elements.begin(), result.elements.end(),
              expected.elements.begin() + device * kTokens * kTokenWidth);
  }
  EXPECT_GT(dropped, 0) << "some buffers overflow";
  expect_near(layer(x, route, weights), expected);

  const std::string text = layer.lower(x, route, weights).compile().as_text();
  EXPECT_EQ(collectives_in(text), (Collectives{{"all_to_all", 2}})) << text;
}

}  // namespace
}  // namespace shoal::programs
