// Mistakes with quantiles, histograms, differences, interpolation and sets.
#include <complex>

#include "misuse.h"

namespace shoal::test {
namespace {

TEST(StatisticsError, Quantiles) {
  const Array x = ones({4});
  EXPECT_MISUSE(InvalidArgument, ("quantile", "q is 1.5", "0 to 1"), quantile(x, 1.5));
  EXPECT_MISUSE(InvalidArgument, ("percentile", "q is -1", "0 to 100"), percentile(x, -1));
  EXPECT_MISUSE(InvalidArgument, ("quantile", "float32[1,1]", "a vector"), quantile(x, ones({1, 1})));
  EXPECT_MISUSE(InvalidArgument, ("nanquantile", "\"cubic\"", "\"linear\""), nanquantile(x, 0.5, {.method = "cubic"}));
  EXPECT_MISUSE(TypeMismatch, ("median", "complex64[4]", "no order"), median(x.astype(complex64)));
  EXPECT_MISUSE(OutOfRange, ("median", "axis 1"), median(x, {.axis = 1}));
  EXPECT_MISUSE(InvalidArgument, ("nanvar", "(3,)", "(4,)"), nanvar(x, {.where = ones({3})}));
}

TEST(StatisticsError, Histograms) {
  const Array x = ones({4});
  EXPECT_MISUSE(InvalidArgument, ("histogram", "number of bins is 0", "at least 1"), histogram(x, 0));
  EXPECT_MISUSE(InvalidArgument, ("histogram_bin_edges", "float32[2,2]", "vector"),
                histogram_bin_edges(x, ones({2, 2})));
  EXPECT_MISUSE(InvalidArgument, ("histogram", "float32[3]", "float32[4]"), histogram(x, 2, {.weights = ones({3})}));
  EXPECT_MISUSE(TypeMismatch, ("histogram", "complex64[4]"), histogram(x.astype(complex64)));
  EXPECT_MISUSE(InvalidArgument, ("digitize", "float32[2,2]", "vector"), digitize(x, ones({2, 2})));
}

TEST(StatisticsError, Covariances) {
  const Array x = ones({2, 4});
  EXPECT_MISUSE(InvalidArgument, ("cov", "float32[1,2,4]", "2 dimensions"), cov(ones({1, 2, 4})));
  EXPECT_MISUSE(InvalidArgument, ("corrcoef", "float32[1,2,4]"), corrcoef(ones({1, 2, 4})));
  EXPECT_MISUSE(InvalidArgument, ("cov", "float32[2,4]", "float32[3]", "observations"), cov(x, {.y = ones({3})}));
  EXPECT_MISUSE(InvalidArgument, ("cov", "aweights", "float32[3]", "4"), cov(x, {.aweights = ones({3})}));
  EXPECT_MISUSE(TypeMismatch, ("cov", "fweights", "float32[4]", "integers"), cov(x, {.fweights = ones({4})}));
}

TEST(CalculusError, Differences) {
  EXPECT_MISUSE(InvalidArgument, ("diff", "n is -1", "at least 0"), diff(ones({3}), {.n = -1}));
  EXPECT_MISUSE(OutOfRange, ("diff", "0 dimensions"), diff(1.0));
  EXPECT_MISUSE(InvalidArgument, ("gradient", "float32[1,3]", "extent 1", "at least 2"), gradient(ones({1, 3})));
  EXPECT_MISUSE(InvalidArgument, ("gradient", "2 spacings", "3 dimensions"),
                gradient(ones({2, 2, 2}), {.spacing = {1.0, 2.0}}));
  EXPECT_MISUSE(InvalidArgument, ("gradient", "float32[2]", "3 positions"),
                gradient(ones({3}), {.spacing = {ones({2})}}));
  EXPECT_MISUSE(InvalidArgument, ("trapezoid", "float32[2]", "3"), trapezoid(ones({3}), {.x = ones({2})}));
  EXPECT_MISUSE(InvalidArgument, ("trapezoid", "float32[3,1]", "float32[2,3]"),
                trapezoid(ones({2, 3}), {.x = ones({3, 1})}));
}

TEST(CalculusError, Interpolation) {
  EXPECT_MISUSE(InvalidArgument, ("interp", "float32[2]", "float32[3]", "one extent"),
                interp(1.0, ones({2}), ones({3})));
  EXPECT_MISUSE(InvalidArgument, ("interp", "float32[0]", "at least 1"), interp(1.0, ones({0}), ones({0})));
  EXPECT_MISUSE(InvalidArgument, ("interp", "period is 0"), interp(1.0, ones({2}), ones({2}), {.period = 0}));
  EXPECT_MISUSE(TypeMismatch, ("interp", "complex64", "real"),
                interp(std::complex<double>(0, 1), ones({2}), ones({2})));
  EXPECT_MISUSE(InvalidArgument, ("polyval", "a scalar"), polyval(1.0, ones({2})));
  EXPECT_MISUSE(InvalidArgument, ("vander", "float32[2,2]", "vector"), vander(ones({2, 2})));
  EXPECT_MISUSE(InvalidArgument, ("vander", "N is -1"), vander(ones({2}), {.N = -1}));
  EXPECT_MISUSE(InvalidArgument, ("cross", "float32[4]", "extent 4", "2 or 3"), cross(ones({4}), ones({3})));
}

TEST(CalculusError, PartsOfNumbers) {
  EXPECT_MISUSE(TypeMismatch, ("frexp", "complex64"), frexp(ones({2}, {.dtype = complex64})));
  EXPECT_MISUSE(TypeMismatch, ("modf", "complex64"), modf(ones({2}, {.dtype = complex64})));
  EXPECT_MISUSE(TypeMismatch, ("ldexp", "float32[2]", "integers"), ldexp(1.0, ones({2})));
}

TEST(CalculusError, Sets) {
  EXPECT_MISUSE(InvalidArgument, ("unique", "size is -1"), unique(ones({2}), {.size = -1}));
  EXPECT_MISUSE(InvalidArgument, ("unique", "float32[0]", "give a fill_value"), unique(ones({0}), {.size = 2}));
  EXPECT_MISUSE(OutOfRange, ("unique", "axis 1"), unique(ones({2}), {.axis = 1}));
  EXPECT_MISUSE(InvalidState, ("unique", "float32[2]", "give a size"),
                jit([](const Array& x) { return unique(x); })(ones({2})));
}

}  // namespace
}  // namespace shoal::test
