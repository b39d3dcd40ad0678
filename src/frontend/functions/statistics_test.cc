// Quantiles, histograms and correlations, against what JAX gave for the same expressions (testdata/statistics.inc), and
// what is moved for them.
#include "shoal/statistics.h"

#include <cmath>

#include "frontend/recorded_numbers.h"
#include "frontend/test_support.h"
#include "shoal/ops.h"
#include "spmd/test_collectives.h"

namespace shoal::test {
namespace {

using test_support::Collectives;
using test_support::collectives_in;

const RecordedNumbers kStatistics[] = {
#include "frontend/testdata/statistics.inc"
};

TEST(Statistics, AsInJax) { expect_recorded(kStatistics); }

TEST(Statistics, QuantilesOfSplitLinesMoveNothing) {
  const Array x = put(M({8, 5, 4}), mesh_4x2(), P("x", none, "y"));
  const Array fractions = array(std::vector<double>{0.2, 0.7});
  const auto rank = [&](const Array& a) { return quantile(a, fractions, {.axis = 1}); };
  const auto middle = [](const Array& a) { return nanmedian(a, {.axis = 1, .keepdims = true}); };
  EXPECT_EQ(collectives_of(rank, x), Collectives());
  EXPECT_EQ(collectives_of(middle, x), Collectives());
  EXPECT_EQ(spec_of(middle(x)), P("x", none, "y"));
  EXPECT_TRUE(same(rank(x), rank(M({8, 5, 4}))));
}

TEST(Statistics, CountsOfSplitElementsAreAddedUp) {
  const Array x = put(M({64}), mesh_8(), P("i"));
  const auto count = [](const Array& a) { return histogram(a, 4, {.range = std::pair(-2.0, 2.0)}).counts; };
  EXPECT_EQ(collectives_of(count, x), (Collectives{{"all_reduce", 1}}));
  EXPECT_TRUE(same(jit(count)(x), count(M({64}))));
  EXPECT_TRUE(same(histogram(x).edges, histogram(M({64})).edges));
}

TEST(Statistics, CovariancesOfSplitObservationsAreSums) {
  const Array x = put(M({3, 16}), mesh_8(), P(none, "i"));
  const Collectives moved = collectives_of([](const Array& a) { return cov(a); }, x);
  EXPECT_EQ(moved, (Collectives{{"all_reduce", 2}}));  // Of the means, and of the products.
  EXPECT_TRUE(static_cast<bool>(allclose(cov(x), cov(M({3, 16})))));
}

// Those of rows, and those that count the elements of all.
TEST(Statistics, OfExplicitAxes) {
  const Mesh mesh = make_mesh({4, 2}, {"x", "y"}, {.axis_types = {AxisType::kExplicit, AxisType::kExplicit}});
  const Array x = device_put(M({8, 5}), NamedSharding(mesh, P("x", none)));
  const auto expect_same = [&](auto&& f, const PartitionSpec& spec) {
    const Array result = jit(f)(x);
    EXPECT_TRUE(same(result, f(M({8, 5})))) << result;
    EXPECT_TRUE(result.sharding().is_equivalent_to(NamedSharding(mesh, spec), result.ndim())) << result.sharding();
  };
  expect_same([](const Array& a) { return percentile(a, 30, {.axis = 1}); }, P("x"));
  expect_same([](const Array& a) { return tril(a); }, P("x"));
  expect_same([](const Array& a) { return nn::one_hot(a[{range(), 0}].astype(int32), 3); }, P("x"));
}

TEST(Statistics, QuantilesOfSmallFloats) {
  EXPECT_EQ(median(array({1.0, 2.0}).astype(float16)).dtype(), float16);
  EXPECT_EQ(median(array({60000.0, 60000.0}).astype(float16)).item<float>(), 60000.0F);  // Whose sum overflows f16.
  EXPECT_EQ(repr(median(array({1, 2, 4}))), "Array(2., dtype=float32)");
}

TEST(Statistics, QuantilesOfNothing) {
  EXPECT_TRUE(std::isnan(quantile(zeros({0}), 0.5).item<float>()));
  EXPECT_EQ(median(zeros({0, 3}), {.axis = 1}).shape(), Shape{0});
  EXPECT_TRUE(std::isnan(nanmedian(zeros({2, 0}), {.axis = 1})[1].item<float>()));
  EXPECT_EQ(floats(histogram(zeros({0}), 2).counts), (std::vector<float>{0, 0}));
}

TEST(Statistics, VariancesOfIntegersWithoutNaN) { EXPECT_EQ(repr(nanvar(array({1, 3}))), "Array(1., dtype=float32)"); }

}  // namespace
}  // namespace shoal::test
