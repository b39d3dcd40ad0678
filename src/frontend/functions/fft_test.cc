// Fourier transforms of users: where they lie, and what they give back. python/tests/recorded/fourier.txt compares with
// JAX.
#include "shoal/fft.h"

#include "frontend/recorded_numbers.h"
#include "frontend/test_support.h"
#include "spmd/test_collectives.h"

namespace shoal::test {
namespace {

using test_support::Collectives;

Array numbers() { return lax::complex(M({8, 6}), M({8, 6}, 1)).astype(complex64); }

TEST(Fft, OfSplitLinesMovesNothing) {
  const Array whole = numbers();
  const Array split = put(whole, mesh_4x2(), P({"x", "y"}));
  using OfLines = Array (*)(const Array&);
  for (const OfLines f : {OfLines{[](const Array& x) { return fft::fft(x); }},
                          OfLines{[](const Array& x) { return fft::ifft(x, {.n = 7}); }},
                          OfLines{[](const Array& x) { return fft::irfft(x); }},
                          OfLines{[](const Array& x) { return fft::rfft(real(x), {.norm = "ortho"}); }}}) {
    EXPECT_EQ(collectives_of(f, split), Collectives());
    EXPECT_TRUE(same(f(split), f(whole)));
    EXPECT_EQ(f(split).addressable_shards()[0].data.shape()[0], 1);
  }
}

TEST(Fft, OfASplitDimensionMakesItWhole) {
  const Array whole = numbers();
  const Array split = put(whole, mesh_4x2(), P("x", "y"));
  EXPECT_TRUE(same(fft::fft2(split), fft::fft2(whole)));
  EXPECT_TRUE(same(fft::fft(split, {.axis = 0}), fft::fft(whole, {.axis = 0})));
}

TEST(Fft, InversesGiveTheNumbersAgain) {
  const Array x = numbers();
  const Array reals = real(x);
  for (const char* norm : {"backward", "ortho", "forward"}) {
    const fft::FftnOptions options{.s = {}, .axes = {}, .norm = norm};
    EXPECT_TRUE(allclose(fft::ifftn(fft::fftn(x, options), options), x, {.atol = 1e-5}).item<bool>());
    EXPECT_TRUE(allclose(fft::irfft2(fft::rfft2(reals, options), options), reals, {.atol = 1e-5}).item<bool>());
    const fft::FftOptions line{.n = 6, .axis = -1, .norm = norm};
    EXPECT_TRUE(allclose(fft::irfft(fft::rfft(reals, line), line), reals, {.atol = 1e-5}).item<bool>());
  }
  EXPECT_TRUE(same(fft::ifftshift(fft::fftshift(x)), x));
}

TEST(Fft, FrequenciesOfComputedSpacings) {
  EXPECT_TRUE(same(fft::fftfreq(5, Array(0.5)), fft::fftfreq(5, 0.5)));
  EXPECT_EQ(fft::rfftfreq(4).astype(float64).dtype(), float64);
}

}  // namespace
}  // namespace shoal::test
