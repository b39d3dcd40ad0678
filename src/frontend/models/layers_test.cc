// Layers and losses, against what JAX and Optax gave for the same expressions (testdata/layers.inc), and what devices
// exchange for them.
#include "shoal/layers.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "frontend/recorded_numbers.h"
#include "frontend/test_support.h"
#include "sharding/test_support.h"
#include "shoal/derivatives.h"
#include "shoal/jit.h"
#include "shoal/random.h"
#include "shoal/shard_map.h"
#include "spmd/test_collectives.h"

namespace shoal::test {
namespace {

using namespace nn;
using test_support::Collectives;
using test_support::message_of;
using testing::HasSubstr;

const RecordedNumbers kLayers[] = {
#include "frontend/testdata/layers.inc"
};

TEST(Layers, AsInJax) { expect_recorded(kLayers); }

TEST(Layers, DropoutKeepsTheMean) {
  const Array x = ones({64, 64});
  const Array kept = dropout(random::key(0), x, 0.25);
  const std::vector<float> elements = kept.reshape(-1).to_vector<float>();
  std::size_t zero = 0;
  for (const float e : elements) {
    EXPECT_TRUE(e == 0 || e == 1 / 0.75F);
    zero += e == 0 ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(zero) / 4096, 0.25, 0.03);
  EXPECT_TRUE(same(dropout(random::key(0), put(x, mesh_4x2(), P("x", "y")), 0.25), kept));
  EXPECT_TRUE(same(dropout(random::key(0), x, 0), x));
  EXPECT_TRUE(same(dropout(random::key(0), x, 1), zeros({64, 64})));
}

// Token by token, and several at a time, a cache gives what attention over the whole sequence does.
TEST(Layers, CachedAttentionIsCausalAttention) {
  const auto make = [](int seed) { return M({2, 6, 4, 8}, seed).astype(float32); };
  const Array q = make(0);
  const Array k = make(1).at({range(), range(), range(0, 2)}).get();
  const Array v = make(2).at({range(), range(), range(0, 2)}).get();
  const Array whole = dot_product_attention(q, k, v, {.is_causal = true});
  const auto step = jit([](const KeyValueCache& cache, const Array& qs, const Array& ks, const Array& vs) {
    const KeyValueCache next = extend(cache, ks, vs);
    return std::pair(next, cached_attention(qs, next));
  });
  KeyValueCache cache = key_value_cache(2, 9, 2, 8);
  std::vector<Array> parts;
  for (const auto& [from, to] : {std::pair(0, 3), std::pair(3, 4), std::pair(4, 6)}) {
    const auto rows = [&, from = from, to = to](const Array& a) { return a.at({range(), range(from, to)}).get(); };
    Array part;
    std::tie(cache, part) = step(cache, rows(q), rows(k), rows(v));
    parts.push_back(part);
  }
  EXPECT_TRUE(static_cast<bool>(allclose(concatenate(Operands(parts), 1), whole, {.rtol = 1e-5, .atol = 1e-6})));
  EXPECT_EQ(cache.length.item<int>(), 6);
}

// The loss of classes that are split is a sum over devices of a number for each example, and no gather of logits.
TEST(Layers, LossOfSplitClasses) {
  const Array logits = put(M({16, 64}).astype(float32), mesh_4x2(), P("x", "y"));
  const Array labels = arange(16) * 3;
  const auto loss = [&](const Array& l) { return softmax_cross_entropy_with_integer_labels(l, labels).mean(); };
  const Collectives moved = collectives_of(grad(loss), logits);
  EXPECT_FALSE(moved.contains("all_gather"));
  const Array whole = grad(loss)(M({16, 64}).astype(float32));
  EXPECT_TRUE(static_cast<bool>(allclose(grad(loss)(logits), whole, {.rtol = 1e-5, .atol = 1e-8})));
}

TEST(Layers, ClassesOutOfBoundsGiveNaN) {
  const Array losses = softmax_cross_entropy_with_integer_labels(zeros({3, 4}), array({-1, 2, 4}));
  const std::vector<float> values = losses.to_vector<float>();
  EXPECT_TRUE(std::isnan(values[0]) && std::isnan(values[2]));
  EXPECT_FLOAT_EQ(values[1], std::log(4.0F));
  // Labels may be narrower than the number of classes.
  const Array narrow = softmax_cross_entropy_with_integer_labels(zeros({2, 300}), array({3, 200}).astype(uint8));
  EXPECT_FLOAT_EQ(narrow[1].item<float>(), std::log(300.0F));
}

TEST(Layers, WhatFillsABatchDoesNotCount) {
  const Array losses = array({1.0F, 3.0F, NAN, 5.0F});
  EXPECT_EQ(masked_mean(losses, array({true, true, false, false})).item<float>(), 2);
  EXPECT_EQ(masked_mean(losses, array({1.0F, 0.0F, 0.0F, 3.0F})).item<float>(), 4);
  EXPECT_EQ(masked_mean(losses, array({false, false, false, false})).item<float>(), 0);
  const Array gradient = grad([](const Array& l) { return masked_mean(l, array({true, true, false, false})); })(losses);
  EXPECT_TRUE(same(gradient, array({0.5F, 0.5F, 0.0F, 0.0F})));
}

// Against the formula in f64; the same however the batch is split, in shard_map too; and the derivative by both means.
TEST(Layers, BatchNormIsOfTheWholeBatch) {
  const Array x = M({16, 3, 8}) * 3 + 2;
  const Array scale = arange(8) * 0.5 + 1;
  const Array bias = arange(8) * 0.25;
  const BatchStatistics before{.mean = ones({8}), .variance = full({8}, 2.0)};
  const auto [y, after] = batch_norm(x, before, {.scale = scale, .bias = bias, .momentum = 0.75});
  const Array whole = x.reshape(48, 8);
  const Array expected = (whole - mean(whole, {.axis = 0})) / sqrt(var(whole, {.axis = 0}) + 1e-5) * scale + bias;
  EXPECT_TRUE(static_cast<bool>(allclose(y.reshape(48, 8), expected, {.rtol = 1e-5, .atol = 1e-5})));
  EXPECT_TRUE(static_cast<bool>(allclose(after.mean, 0.75 + 0.25 * mean(whole, {.axis = 0}), {.rtol = 1e-5})));
  EXPECT_TRUE(static_cast<bool>(allclose(after.variance, 1.5 + 0.25 * var(whole, {.axis = 0}), {.rtol = 1e-5})));
  const auto [used, kept] = batch_norm(x, after, {.use_running_average = true});
  EXPECT_TRUE(same(kept.mean, after.mean));
  EXPECT_TRUE(
      static_cast<bool>(allclose(used, (x - after.mean) / sqrt(after.variance + 1e-5), {.rtol = 1e-5, .atol = 1e-5})));

  const Mesh mesh = mesh_4x2();
  const Array split = put(x, mesh, P("x"));
  const auto [of_split, moved] = jit([&](const Array& v) { return batch_norm(v, before, {.scale = scale}); })(split);
  const auto [of_whole, alone] = batch_norm(x, before, {.scale = scale});
  EXPECT_TRUE(static_cast<bool>(allclose(of_split, of_whole, {.rtol = 1e-5, .atol = 1e-5})));
  EXPECT_TRUE(static_cast<bool>(allclose(moved.variance, alone.variance, {.rtol = 1e-5})));
  const auto mapped =
      shard_map([&](const Array& v) { return batch_norm(v, before, {.scale = scale, .axis_name = "x"}).first; },
                {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x")});
  EXPECT_TRUE(static_cast<bool>(allclose(mapped(split), of_whole, {.rtol = 1e-5, .atol = 1e-5})));

  // What is added to all of the batch goes out with the mean, and its scale with the variance.
  const auto loss = [&](const Array& v) {
    return (batch_norm(v, before).first * sin(arange(16 * 24)).reshape(16, 3, 8)).sum();
  };
  const Array slope = grad(loss)(x);
  EXPECT_NEAR(abs(sum(slope, {.axis = {0, 1}})).max().item<float>(), 0, 1e-4);
  EXPECT_NEAR(abs(sum(slope * x, {.axis = {0, 1}})).max().item<float>(), 0, 1e-3);
  EXPECT_GT(abs(slope).max().item<float>(), 1e-3);
  EXPECT_THAT(message_of<InvalidArgument>([&] { batch_norm(x, batch_statistics(4)); }), HasSubstr("should be (8,)"));
}

TEST(Layers, HalfPrecisionIsComputedInSingle) {
  const Array x = M({2, 256}).astype(bfloat16);
  const Array y = layer_norm(x, {.scale = ones({256})});
  EXPECT_EQ(y.dtype(), bfloat16);
  EXPECT_TRUE(same(y, layer_norm(x.astype(float32)).astype(bfloat16)));
  EXPECT_EQ(softmax_cross_entropy_with_integer_labels(x, array({3, 4})).dtype(), bfloat16);
}

// What is a number by default is differentiated by where it is an array, and gives what the number gives.
TEST(Layers, DerivativesByTheirNumbers) {
  const Array x = array({0.5, -1.25, 2.0, 0.25, 1.5, -0.75}).reshape(2, 3);
  const Array heads = x.reshape(1, 2, 1, 3);
  using Made = std::function<Array(const Operand&)>;
  const std::vector<std::pair<double, Made>> cases = {
      {0.75, [&](const Operand& v) { return nn::huber_loss(x, 0.125, v); }},
      {0.25, [&](const Operand& v) { return nn::smooth_labels(x, v) * x; }},
      {0.25, [&](const Operand& v) { return nn::layer_norm(x, {.epsilon = v}) * x; }},
      {0.25, [&](const Operand& v) { return nn::rms_norm(x, {.epsilon = v}) * x; }},
      {0.25, [&](const Operand& v) { return nn::group_norm(x, 1, {.epsilon = v}) * x; }},
      {0.5, [&](const Operand& v) { return nn::dot_product_attention(heads, heads, heads * heads, {.scale = v}); }},
  };
  for (const auto& [at, made] : cases) {
    const auto f = [&, &made = made](const Array& v) { return made(v).sum(); };
    const Array v = full({}, at, {.dtype = x.dtype()});
    EXPECT_NEAR(f(v).item<double>(), made(at).sum().item<double>(), 1e-5);
    const double slope = grad(f)(v).item<double>();
    EXPECT_NEAR(slope, (f(v + 0.015625) - f(v - 0.015625)).item<double>() * 32, 1e-3 * std::max(std::abs(slope), 1.0));
    EXPECT_NEAR(jit(grad(f))(v).item<double>(), slope, 1e-5);
  }
  const Array key = random::key(3);
  const Array dropped = nn::dropout(key, x, 0.5);
  EXPECT_TRUE(same(jit([&](const Array& rate) { return nn::dropout(key, x, rate); })(full({}, 0.5)), dropped));
  for (const double rate : {0.0, 1.0}) {
    const auto f = [&](const Array& v) { return nn::dropout(key, v, full({}, rate)).sum(); };
    EXPECT_TRUE(same(grad(f)(x), full({2, 3}, 1 - rate)));
  }
}

TEST(Layers, Misuse) {
  EXPECT_THAT(message_of<InvalidArgument>([] {
                dense(zeros({2, 3}), zeros({4, 5}));
              }),
              HasSubstr("dense: x is float32[2,3] and kernel float32[4,5]"));
  EXPECT_THAT(message_of<InvalidArgument>([] { dropout(random::key(0), zeros({2}), 1.5); }),
              HasSubstr("dropout: the rate is 1.5"));
  EXPECT_THAT(
      message_of<InvalidArgument>([] {
        huber_loss(zeros({8, 1}), zeros({8}));
      }),
      HasSubstr("huber_loss: predictions are float32[8,1] and targets float32[8], which should have that shape"));
  EXPECT_THAT(message_of<InvalidArgument>([] { group_norm(zeros({2, 6}), 4); }), HasSubstr("into 4 groups"));
  EXPECT_THAT(message_of<InvalidArgument>([] {
                rotary_embedding(zeros({2, 3, 5}), arange(2));
              }),
              HasSubstr("H being even"));
  EXPECT_THAT(message_of<InvalidArgument>([] {
                max_pool(zeros({2, 3}), {2});
              }),
              HasSubstr("the window has 1 dimensions"));
  EXPECT_THAT(message_of<InvalidArgument>([] {
                nn::conv(zeros({2, 3}), zeros({2, 3, 4}));
              }),
              HasSubstr("conv: the window of kernel has 1 dimensions"));
  EXPECT_THAT(message_of<InvalidArgument>([] {
                softmax_cross_entropy_with_integer_labels(zeros({2, 3}), zeros({2}));
              }),
              HasSubstr("labels should be integers"));
  EXPECT_THAT(message_of<InvalidArgument>([] {
                extend(key_value_cache(2, 4, 2, 8), zeros({2, 5, 2, 8}), zeros({2, 5, 2, 8}));
              }),
              HasSubstr("which do not fit behind those of a cache of (2, 4, 2, 8)"));
}

}  // namespace
}  // namespace shoal::test
