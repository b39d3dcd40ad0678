// A small GPT: 12 layers of width 256, 4 heads, 1000 tokens, sequences of 128; 9.8 million weights. Only the forward
// pass. benchmarks/compare computes the same with the same weights in JAX.
#pragma once

#include <shoal/shoal.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace shoal::bench {

inline constexpr std::int64_t kWidth = 256, kHeads = 4, kLayers = 12, kVocabulary = 1000, kSequence = 128, kBatch = 8;

struct GptLayer {
  Array ln1, b1, wqkv, wo, ln2, b2, w1, bb1, w2, bb2;
};
struct Gpt {
  Array wte, wpe, lnf, lnfb;
  std::vector<GptLayer> layers;
};

/// What the weights are drawn from, in the order of the members of Gpt.
enum class GptKind { kNormal, kOnes, kZeros };

/// Makes each weight by `make(kind, shape, spec)`; the spec splits it over an axis "model" as Megatron does.
inline Gpt make_gpt(const std::function<Array(GptKind, const Dims&, const PartitionSpec&)>& make) {
  using enum GptKind;
  // Statements of their own: the order of the members is that of the weights in a file.
  Gpt gpt;
  gpt.wte = make(kNormal, {kVocabulary, kWidth}, P());
  gpt.wpe = make(kNormal, {kSequence, kWidth}, P());
  gpt.lnf = make(kOnes, {kWidth}, P());
  gpt.lnfb = make(kZeros, {kWidth}, P());
  for (std::int64_t i = 0; i < kLayers; ++i) {
    GptLayer layer;
    layer.ln1 = make(kOnes, {kWidth}, P());
    layer.b1 = make(kZeros, {kWidth}, P());
    layer.wqkv = make(kNormal, {kWidth, 3, kWidth}, P(none, none, "model"));
    layer.wo = make(kNormal, {kWidth, kWidth}, P("model", none));
    layer.ln2 = make(kOnes, {kWidth}, P());
    layer.b2 = make(kZeros, {kWidth}, P());
    layer.w1 = make(kNormal, {kWidth, 4 * kWidth}, P(none, "model"));
    layer.bb1 = make(kZeros, {4 * kWidth}, P("model"));
    layer.w2 = make(kNormal, {4 * kWidth, kWidth}, P("model", none));
    layer.bb2 = make(kZeros, {kWidth}, P());
    gpt.layers.push_back(std::move(layer));
  }
  return gpt;
}

/// The weights of a new model, drawn with a fixed seed.
class RandomWeights {
 public:
  Array operator()(GptKind kind, const Dims& shape, const Sharding& sharding) {
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) count *= extent;
    std::vector<float> elements(static_cast<std::size_t>(count), kind == GptKind::kOnes ? 1.0F : 0.0F);
    if (kind == GptKind::kNormal) {
      for (float& element : elements) element = 0.02F * normal_(random_);
    }
    return device_put(array(std::span<const float>(elements), shape), sharding);
  }

 private:
  std::mt19937 random_{0};
  std::normal_distribution<float> normal_;
};

/// Token numbers, i32 [kBatch, kSequence].
inline std::vector<std::int32_t> random_tokens() {
  std::mt19937 random(1);
  std::uniform_int_distribution<std::int32_t> token(0, static_cast<std::int32_t>(kVocabulary) - 1);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(kBatch * kSequence));
  for (std::int32_t& one : tokens) one = token(random);
  return tokens;
}

inline Array layer_norm(const Array& x, const Array& scale, const Array& bias) {
  const ReduceOptions last{.axis = -1, .keepdims = true};
  const Array centred = x - mean(x, last);
  return centred * rsqrt(mean(centred * centred, last) + 1e-5) * scale + bias;
}

/// Logits f32 [batch, kSequence, kVocabulary] of tokens i32 [batch, kSequence].
inline Array gpt_forward(const Gpt& gpt, const Array& tokens) {
  const std::int64_t batch = tokens.shape()[0];
  const Dims by_head = {batch, kSequence, kHeads, kWidth / kHeads};
  Array x = take(gpt.wte, tokens, {.axis = 0}) + gpt.wpe;
  for (const GptLayer& layer : gpt.layers) {
    const Array qkv = einsum("bsd,dke->kbse", layer_norm(x, layer.ln1, layer.b1), layer.wqkv);
    const Array q = qkv[0].reshape(by_head), k = qkv[1].reshape(by_head), v = qkv[2].reshape(by_head);
    const Array means = nn::dot_product_attention(q, k, v, {.is_causal = true});
    x = x + matmul(means.reshape({batch, kSequence, kWidth}), layer.wo);
    const Array h = layer_norm(x, layer.ln2, layer.b2);
    x = x + matmul(nn::gelu(matmul(h, layer.w1) + layer.bb1), layer.w2) + layer.bb2;
  }
  return matmul(layer_norm(x, gpt.lnf, gpt.lnfb), transpose(gpt.wte));
}

}  // namespace shoal::bench
