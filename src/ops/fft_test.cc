// The transform by its definition, its types, its rule and what it refuses.
#include <complex>

#include "ops/test_support.h"

namespace shoal {
namespace {

using test_support::array;
using test_support::complaint;
using test_support::rule_of;
using test_support::run;
using test_support::type_of;
using test_support::values;
using Numbers = std::vector<std::complex<float>>;

Attrs attrs_of(const std::string& transform, Dims dims, Shape lengths) {
  return {{"transform", transform}, {"dims", std::move(dims)}, {"lengths", std::move(lengths)}};
}

TEST(Fft, OfAnImpulseIsAWave) {
  const Numbers result = values<std::complex<float>>(
      run("fft", attrs_of("fft", {0}, {4}), {array<std::complex<float>>({4}, {0, 1, 0, 0})}));
  const Numbers wave = {1, {0, -1}, -1, {0, 1}};
  for (std::size_t k = 0; k < 4; ++k) EXPECT_LT(std::abs(result[k] - wave[k]), 1e-6F) << k;
}

TEST(Fft, OfRealNumbersHasHalf) {
  const Buffer half = run("fft", attrs_of("rfft", {0}, {5}), {array<float>({5}, {1, 2, 3, 4, 5})});
  EXPECT_EQ(half.shape(), Shape{3});
  const std::vector<float> again = values<float>(run("fft", attrs_of("irfft", {0}, {5}), {half}));
  for (std::size_t j = 0; j < 5; ++j) EXPECT_NEAR(again[j], static_cast<float>(j + 1), 1e-6F);
}

TEST(Fft, OtherDimensionsPassThrough) {
  EXPECT_EQ(to_string(rule_of("fft", attrs_of("fft", {1}, {6}), {type_of(complex64, {8, 6, 4})})),
            "(i, j, l) -> (i, k, l) need_replication={j, k}");
  EXPECT_EQ(to_string(rule_of("fft", attrs_of("rfft", {0, 2}, {8, 4}), {type_of(float32, {8, 6, 4})})),
            "(i, k, l) -> (j, k, m) need_replication={i, j, l, m}");
}

TEST(FftErrors, Operands) {
  EXPECT_EQ(complaint("fft", attrs_of("fft", {0}, {4}), {type_of(float32, {4})}),
            "fft: a transform \"fft\" takes c64 and c128, not f32[4]");
  EXPECT_EQ(complaint("fft", attrs_of("rfft", {0}, {4}), {type_of(float16, {4})}),
            "fft: a transform \"rfft\" takes f32 and f64, not f16[4]");
  EXPECT_EQ(complaint("fft", attrs_of("irfft", {0}, {4}), {type_of(complex64, {4})}),
            "fft: dimension 0 of the operand c64[4] does not fit length 4 of a transform \"irfft\"; it must have 3 "
            "elements, half of them and 1");
  EXPECT_EQ(complaint("fft", attrs_of("dct", {0}, {4}), {type_of(complex64, {4})}),
            "fft: transform \"dct\" must be one of \"fft\", \"ifft\", \"rfft\", \"irfft\"");
  EXPECT_EQ(complaint("fft", attrs_of("fft", {0}, {4, 4}), {type_of(complex64, {4})}),
            "fft: there are 1 dimensions and 2 lengths; there must be as many, and one at least");
}

}  // namespace
}  // namespace shoal
