// Operations on tiles by LAPACK beside plain loops.
#include "backend/cpu/decompositions/tile_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "backend/cpu/decompositions/matrix_elements.h"

namespace shoal::cpu {
namespace {

template <class T>
class TilesOf : public testing::Test {
 protected:
  static constexpr std::int32_t kStride = 40;

  std::vector<T> tile() {
    std::vector<T> made(std::size_t{kStride} * kStride);
    std::uniform_real_distribution<RealOf<T>> number(-1, 1);
    for (T& element : made) {
      const RealOf<T> real = number(random_);
      if constexpr (kIsComplexElement<T>) {
        element = {real, number(random_)};
      } else {
        element = real;
      }
    }
    return made;
  }
  // What work() makes of a tile, by both.
  template <class F>
  void expect_alike(const std::vector<T>& given, F&& work) {
    std::vector<T> plain = given;
    std::vector<T> by_lapack = given;
    work(TileKernels<T>(nullptr), BlasMatrix<T>{plain.data(), kStride});
    work(TileKernels<T>::shared(), BlasMatrix<T>{by_lapack.data(), kStride});
    for (std::size_t i = 0; i < given.size(); ++i) {
      ASSERT_LE(std::abs(plain[i] - by_lapack[i]), 500 * std::numeric_limits<RealOf<T>>::epsilon()) << i;
    }
  }

 private:
  std::mt19937 random_{5};
};
using Numbers = testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(TilesOf, Numbers);

TYPED_TEST(TilesOf, AreMultipliedByTriangles) {
  const std::vector<TypeParam> a = this->tile();
  const std::vector<TypeParam> x = this->tile();
  for (const bool lower : {false, true}) {
    for (const bool unit : {false, true}) {
      for (const bool adjoint : {false, true}) {
        for (const bool right : {false, true}) {
          this->expect_alike(x, [&](const TileKernels<TypeParam>& kernels, BlasMatrix<TypeParam> to) {
            kernels.trmm(7, 9, -1, {a.data(), this->kStride, lower, unit, adjoint, right}, to);
          });
        }
      }
    }
  }
}

TYPED_TEST(TilesOf, SubtractSquares) {
  const std::vector<TypeParam> a = this->tile();
  for (const bool transposed : {false, true}) {
    this->expect_alike(this->tile(), [&](const TileKernels<TypeParam>& kernels, BlasMatrix<TypeParam> to) {
      // What the libraries make of the diagonal's imaginary parts is no matter.
      for (std::int32_t i = 0; i < 9; ++i) to.data[i * (to.stride + 1)] = std::real(to.data[i * (to.stride + 1)]);
      kernels.subtract_square(9, 17, {a.data(), this->kStride, transposed}, to);
      for (std::int32_t i = 0; i < 9; ++i) to.data[i * (to.stride + 1)] = std::real(to.data[i * (to.stride + 1)]);
    });
  }
}

TYPED_TEST(TilesOf, HaveFactorsWithExchangedRows) {
  std::vector<std::int32_t> first;
  this->expect_alike(this->tile(), [&](const TileKernels<TypeParam>& kernels, BlasMatrix<TypeParam> to) {
    for (std::int32_t i = 0; i < 30; ++i) to.data[i * to.stride + 5] = 0;  // Singular ones, too.
    std::vector<std::int32_t> pivots(11);
    kernels.getrf(30, 11, to, pivots.data());
    if (first.empty()) first = pivots;
    EXPECT_EQ(pivots, first);
  });
}

}  // namespace
}  // namespace shoal::cpu
