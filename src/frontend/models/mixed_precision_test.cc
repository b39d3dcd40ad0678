// Losses that are scaled for gradients in half precision.
#include "shoal/mixed_precision.h"

#include <cmath>

#include "frontend/test_support.h"
#include "sharding/test_support.h"
#include "shoal/derivatives.h"
#include "shoal/layers.h"

namespace shoal::test {
namespace {

using namespace mixed_precision;
using test_support::message_of;
using testing::HasSubstr;

// A gradient of 2^-27, which f16 has not, comes through.
TEST(MixedPrecision, SmallGradientsAreNotLost) {
  const Array w = full({4}, 1.0F);
  const auto gradient_of = [&](const LossScale& scale) {
    const auto loss_of = [&](const Array& v) {
      const Array half = cast_floats(v, float16);
      return scale_loss((half * 0x1p-14F).mean().astype(float32) * 0x1p-11F, scale);
    };
    return unscale(grad(loss_of)(w), scale);
  };
  EXPECT_TRUE(same(gradient_of(loss_scale(1)), zeros({4})));
  EXPECT_TRUE(same(gradient_of(loss_scale(32768)), full({4}, 0x1p-27F)));
}

TEST(MixedPrecision, TheScaleGrowsAndShrinks) {
  LossScale scale = loss_scale(8);
  const auto step = jit([](const LossScale& s, const Array& finite) { return adjust(s, finite, {.period = 3}); });
  std::vector<float> scales;
  for (const bool finite : {true, true, true, true, false, false, false, false, false, true}) {
    scale = step(scale, Array(finite));
    scales.push_back(scale.scale.item<float>());
  }
  EXPECT_THAT(scales, testing::ElementsAre(8, 8, 16, 16, 8, 4, 2, 1, 1, 1));
  EXPECT_EQ(scale.finite_steps.item<int>(), 1);
  const LossScale largest = adjust(loss_scale(0x1p127), true, {.period = 1});
  EXPECT_EQ(largest.scale.item<float>(), 0x1p127F);
}

TEST(MixedPrecision, WhetherATreeIsFinite) {
  const std::pair<Array, Array> tree(array({1.0F, 2.0F}), array({1, 2}));
  EXPECT_TRUE(all_finite(tree).item<bool>());
  EXPECT_FALSE(all_finite(std::pair(tree, array({1.0F, -INFINITY}).astype(float16))).item<bool>());
  EXPECT_EQ(cast_floats(tree, bfloat16).first.dtype(), bfloat16);
  EXPECT_EQ(cast_floats(tree, bfloat16).second.dtype(), int32);
}

TEST(MixedPrecision, Misuse) {
  EXPECT_THAT(message_of<InvalidArgument>([] { loss_scale(0); }), HasSubstr("loss_scale: the scale is 0"));
  EXPECT_THAT(message_of<InvalidArgument>([] { adjust(loss_scale(), true, {.period = 0}); }),
              HasSubstr("adjust: the period is 0"));
  EXPECT_THAT(message_of<InvalidArgument>([] { adjust(loss_scale(), true, {.factor = 1}); }),
              HasSubstr("the factor is 1, and should be above 1"));
}

}  // namespace
}  // namespace shoal::test
