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

TYPED_TEST(TilesOf, HaveOrthogonalFactors) {
  using T = TypeParam;
  constexpr std::int32_t kRows = 30;
  for (const std::int32_t columns : {1, 11, 30}) {
    const std::vector<T> given = this->tile();
    const auto at = [](std::int32_t row, std::int32_t stride, std::int32_t column) {
      return static_cast<std::size_t>(row * stride + column);
    };
    std::vector<T> t(at(columns, columns, 0));
    std::vector<T> first;
    this->expect_alike(given, [&](const TileKernels<T>& kernels, BlasMatrix<T> to) {
      kernels.geqrf(kRows, columns, to, {t.data(), columns});
      if (first.empty()) first = t;
      for (std::size_t i = 0; i < t.size(); ++i) {
        EXPECT_LE(std::abs(t[i] - first[i]), 500 * std::numeric_limits<RealOf<T>>::epsilon());
      }
      // (I - v t v^H) r is what was given.
      const auto v = [&](std::int32_t i, std::int32_t j) {
        return i == j ? T{1} : i < j ? T{} : to.data[i * to.stride + j];
      };
      const auto conjugate = [](const T& x) {
        if constexpr (kIsComplexElement<T>) return std::conj(x);
        return x;
      };
      for (std::int32_t c = 0; c < columns; ++c) {
        std::vector<T> x(kRows);
        for (std::int32_t i = 0; i <= c; ++i) x[at(i, 1, 0)] = to.data[i * to.stride + c];
        std::vector<T> y(static_cast<std::size_t>(columns));
        for (std::int32_t j = 0; j < columns; ++j) {
          for (std::int32_t i = j; i < kRows; ++i) y[at(j, 1, 0)] += conjugate(v(i, j)) * x[at(i, 1, 0)];
        }
        for (std::int32_t i = 0; i < kRows; ++i) {
          for (std::int32_t j = 0; j < columns; ++j) {
            for (std::int32_t q = j; q < columns; ++q) {
              x[at(i, 1, 0)] -= v(i, j) * t[at(j, columns, q)] * y[at(q, 1, 0)];
            }
          }
          EXPECT_LE(std::abs(x[at(i, 1, 0)] - given[at(i, this->kStride, c)]),
                    500 * std::numeric_limits<RealOf<T>>::epsilon());
        }
      }
    });
  }
}

}  // namespace
}  // namespace shoal::cpu
