// Mistakes with Fourier transforms.
#include "misuse.h"

namespace shoal::test {
namespace {

TEST(FftError, Lengths) {
  EXPECT_MISUSE(InvalidArgument, ("fft", "positive", "0"), fft::fft(ones({4}), {.n = 0}));
  EXPECT_MISUSE(InvalidArgument, ("fftn", "1 lengths", "2 axes"),
                fft::fftn(ones({4, 4}), {.s = Shape{3}, .axes = Dims{0, 1}}));
  EXPECT_MISUSE(InvalidArgument, ("fftn", "3 lengths", "float32[4,4]", "2 dimensions"),
                fft::fftn(ones({4, 4}), {.s = Shape{3, 3, 3}}));
  EXPECT_MISUSE(InvalidArgument, ("fft", "dimension 0", "length 5", "5 elements"),
                lax::fft(ones({4}), lax::FftType::kFft, {5}));
  EXPECT_MISUSE(InvalidArgument, ("irfft", "length 0"), fft::irfft(ones({1})));
}

TEST(FftError, Axes) {
  EXPECT_MISUSE(OutOfRange, ("fft", "axis 2", "2 dimensions"), fft::fft(ones({4, 4}), {.axis = 2}));
  EXPECT_MISUSE(InvalidArgument, ("fftn", "axis 0", "twice"), fft::fftn(ones({4, 4}), {.axes = Dims{0, -2}}));
  EXPECT_MISUSE(InvalidArgument, ("rfft2", "2 axes", "3"), fft::rfft2(ones({4, 4, 4}), {.axes = Dims{0, 1, 2}}));
}

TEST(FftError, Others) {
  EXPECT_MISUSE(InvalidArgument, ("fft", "norm \"other\"", "ortho"), fft::fft(ones({4}), {.norm = "other"}));
  EXPECT_MISUSE(InvalidArgument, ("rfft", "real numbers", "complex64[4]"), fft::rfft(lax::complex(ones({4}), 1.0F)));
}

}  // namespace
}  // namespace shoal::test
