// What the programs share: sixteen devices, numbers to compute with, and plain matrices to check the results against.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <shoal/shoal.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/collectives.h"

namespace shoal::programs {

using test_support::Collectives;
using test_support::collectives_in;
using test_support::largest_gathered;
using test_support::largest_on_a_device;

class SixteenDevices : public testing::Environment {
 public:
  void SetUp() override { set_num_cpu_devices(16); }
};
inline testing::Environment* const kSixteenDevices = testing::AddGlobalTestEnvironment(new SixteenDevices);

/// A plain matrix in double precision. The checks are loops over these, and nothing of the library.
struct Matrix {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<double> elements;

  Matrix(std::int64_t rows_, std::int64_t cols_)
      : rows(rows_), cols(cols_), elements(static_cast<std::size_t>(rows_ * cols_)) {}
  double& at(std::int64_t i, std::int64_t j) { return elements[static_cast<std::size_t>(i * cols + j)]; }
  double at(std::int64_t i, std::int64_t j) const { return elements[static_cast<std::size_t>(i * cols + j)]; }
};

/// Numbers in [-1, 1) that look random and are the same everywhere.
inline Matrix random_matrix(std::int64_t rows, std::int64_t cols, std::uint32_t seed) {
  Matrix matrix(rows, cols);
  std::uint32_t state = seed * 2654435761U + 1;
  for (double& element : matrix.elements) {
    state = state * 1664525U + 1013904223U;
    element = static_cast<double>(state >> 8U) / (1 << 23) - 1;
  }
  return matrix;
}

inline Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c(a.rows, b.cols);
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t j = 0; j < b.cols; ++j) {
      for (std::int64_t k = 0; k < a.cols; ++k) c.at(i, j) += a.at(i, k) * b.at(k, j);
    }
  }
  return c;
}

/// The matrix as an array of f32.
inline Array to_device(const Matrix& matrix) {
  const std::vector<float> elements(matrix.elements.begin(), matrix.elements.end());
  return array(std::span<const float>(elements), {matrix.rows, matrix.cols});
}

inline Array to_device(const Matrix& matrix, const Mesh& mesh, const PartitionSpec& spec) {
  return device_put(to_device(matrix), NamedSharding(mesh, spec));
}

/// Expects the elements of an f32 array, in row-major order, to be these.
inline void expect_near(const Array& array, const std::vector<double>& expected, double tolerance = 1e-4) {
  const std::vector<float> elements = array.to_vector<float>();
  ASSERT_EQ(elements.size(), expected.size());
  for (std::size_t i = 0; i < elements.size(); ++i) {
    ASSERT_NEAR(elements[i], expected[i], tolerance) << "element " << i;
  }
}

inline void expect_near(const Array& array, const Matrix& expected, double tolerance = 1e-4) {
  EXPECT_EQ(array.shape(), (Shape{expected.rows, expected.cols}));
  expect_near(array, expected.elements, tolerance);
}

}  // namespace shoal::programs
