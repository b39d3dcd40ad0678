// k-means: points split over the devices, centres known to all. A step is an ordinary function of whole arrays; sums
// and counts of the clusters are all that devices tell each other.
#include "support.h"

namespace shoal::programs {
namespace {

constexpr std::int64_t kPoints = 96;
constexpr std::int64_t kDims = 3;
constexpr std::int64_t kClusters = 5;

double distance(const Matrix& points, std::int64_t i, const Matrix& centres, std::int64_t k) {
  double sum = 0;
  for (std::int64_t d = 0; d < kDims; ++d) sum += std::pow(points.at(i, d) - centres.at(k, d), 2);
  return sum;
}

Matrix moved_centres(const Matrix& points, const Matrix& centres) {
  Matrix sums(kClusters, kDims);
  std::vector<int> counts(kClusters, 0);
  for (std::int64_t i = 0; i < kPoints; ++i) {
    std::int64_t nearest = 0;
    for (std::int64_t k = 1; k < kClusters; ++k) {
      if (distance(points, i, centres, k) < distance(points, i, centres, nearest)) nearest = k;
    }
    ++counts[static_cast<std::size_t>(nearest)];
    for (std::int64_t d = 0; d < kDims; ++d) sums.at(nearest, d) += points.at(i, d);
  }
  for (std::int64_t k = 0; k < kClusters; ++k) {
    const int count = counts[static_cast<std::size_t>(k)];
    for (std::int64_t d = 0; d < kDims; ++d) {
      sums.at(k, d) = count == 0 ? centres.at(k, d) : sums.at(k, d) / count;
    }
  }
  return sums;
}

TEST(KMeans, OnlySumsTravel) {
  const Mesh mesh = make_mesh({8}, {"i"});
  const auto step = jit(
      [](const Array& points, const Array& centres) {
        const Array offsets = expand_dims(points, 1) - expand_dims(centres, 0);
        const Array distances = sum(offsets * offsets, {.axis = 2});
        const Array nearest = distances == min(distances, {.axis = 1, .keepdims = true});
        const Array membership = nearest.astype(float32);  // A row for each point, with a single 1.
        const Array sums = matmul(membership.T(), points);
        const Array counts = expand_dims(membership.sum(0), 1);
        return where(counts > 0, sums / maximum(counts, 1), centres);
      },
      {.name = "step"});

  // Five heaps of points, so that no point is near the border of two clusters.
  Matrix points = random_matrix(kPoints, kDims, 3);
  for (std::int64_t i = 0; i < kPoints; ++i) {
    for (std::int64_t d = 0; d < kDims; ++d) points.at(i, d) += 2.5 * static_cast<double>((i * (d + 1)) % kClusters);
  }
  Matrix expected(kClusters, kDims);
  for (std::int64_t k = 0; k < kClusters; ++k) {
    for (std::int64_t d = 0; d < kDims; ++d) expected.at(k, d) = points.at(k, d);
  }
  const Array x = to_device(points, mesh, P("i"));
  Array centres = to_device(expected);
  const std::string text = step.lower(x, centres).compile().as_text();
  for (int iteration = 0; iteration < 6; ++iteration) {
    centres = step(x, centres);
    expected = moved_centres(points, expected);
    expect_near(centres, expected);
  }
  EXPECT_EQ(collectives_in(text), (Collectives{{"all_reduce", 2}})) << text;
  EXPECT_LE(largest_on_a_device(text), kPoints * kDims * kClusters / 8) << text;
}

}  // namespace
}  // namespace shoal::programs
