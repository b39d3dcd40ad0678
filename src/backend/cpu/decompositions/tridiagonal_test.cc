// Tridiagonal matrices by halves, and products of tiles with vectors, beside plain loops.
#include "backend/cpu/decompositions/tridiagonal.h"

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
#include "backend/cpu/decompositions/matrix_vectors.h"

namespace shoal::cpu {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

template <class Real>
struct Given {
  std::vector<Real> diagonal;
  std::vector<Real> beside;
};

// Random; with values that repeat; falling into pieces; and graded.
template <class Real>
std::vector<Given<Real>> matrices(std::int64_t n) {
  std::mt19937 random(static_cast<std::uint32_t>(n));
  std::uniform_real_distribution<Real> number(-1, 1);
  std::vector<Given<Real>> all(6);
  for (std::int64_t i = 0; i < n; ++i) {
    const auto x = static_cast<Real>(i);
    const std::pair<Real, Real> elements[] = {{number(random), number(random)},
                                              {Real{1}, Real{-0.5}},
                                              {std::abs(x / static_cast<Real>(n) - Real{0.5}), static_cast<Real>(0.01)},
                                              {Real{1}, i % 10 == 3 ? static_cast<Real>(1e-9) : static_cast<Real>(0.1)},
                                              {static_cast<Real>(i % 5) / 5, Real{0}},
                                              {std::exp(-x / 9), std::exp(-x / 9) / 3}};
    for (std::size_t k = 0; k < all.size(); ++k) {
      all[k].diagonal.push_back(elements[k].first);
      all[k].beside.push_back(elements[k].second);
    }
  }
  return all;
}

template <class Real>
void expect_joined(const Tridiagonal<Real>& way, const Given<Real>& given) {
  const auto n = std::ssize(given.diagonal);
  const std::int64_t cut = n / 2;
  const std::int64_t rest = n - cut;
  std::vector<Real> halves = given.diagonal;
  std::vector<Real> beside = given.beside;
  const Real joining = cut == 0 ? Real{0} : given.beside[at(cut - 1)];
  if (cut > 0) halves[at(cut - 1)] -= std::abs(joining);
  halves[at(cut)] -= std::abs(joining);
  std::vector<Real> q1(at(cut * cut));
  std::vector<Real> q2(at(rest * rest));
  ASSERT_TRUE(way.decompose(cut, halves.data(), beside.data(), q1.data()));
  ASSERT_TRUE(way.decompose(rest, halves.data() + cut, beside.data() + cut, q2.data()));
  std::vector<std::byte> memory(JoinedHalves<Real>::memory_of(n));
  JoinedHalves<Real> joined;
  joined.prepare(n, cut, joining, halves.data(), q1.data(), q2.data(), memory.data());
  std::vector<std::int64_t> origins(at(n));
  std::vector<Real> distances(at(n));
  joined.keep_together(0, q1.data());
  joined.keep_together(1, q2.data());
  const std::int64_t middle = joined.roots() / 2;
  joined.find_roots(middle, joined.roots(), origins.data() + middle, distances.data() + middle);
  joined.find_roots(0, middle, origins.data(), distances.data());
  std::vector<Real> values(at(n));
  joined.order(origins.data(), distances.data(), values.data());
  joined.find_weights(0, joined.roots());
  std::vector<Real> z(at(n * n));
  for (std::int64_t begin = 0; begin < n; begin += 50) {
    joined.vectors(begin, std::min(n, begin + 50), q1.data(), q2.data(), z.data() + begin, n);
  }
  const double allowed = 100 * static_cast<double>(std::numeric_limits<Real>::epsilon());
  for (std::int64_t j = 0; j < n; ++j) {
    EXPECT_TRUE(j == 0 || values[at(j - 1)] <= values[at(j)]);
    double length = 0;
    double inner = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      double row = static_cast<double>(given.diagonal[at(i)] - values[at(j)]) * z[at(i * n + j)];
      if (i > 0) row += static_cast<double>(given.beside[at(i - 1)]) * z[at((i - 1) * n + j)];
      if (i + 1 < n) row += static_cast<double>(given.beside[at(i)]) * z[at((i + 1) * n + j)];
      ASSERT_LE(std::abs(row), allowed);
      length += static_cast<double>(z[at(i * n + j)]) * z[at(i * n + j)];
      if (j > 0) inner += static_cast<double>(z[at(i * n + j)]) * z[at(i * n + j - 1)];
    }
    ASSERT_NEAR(length, 1, allowed);
    ASSERT_NEAR(inner, 0, allowed);
  }
  std::vector<Real> alone = given.diagonal;
  std::vector<Real> also_beside = given.beside;
  ASSERT_TRUE(way.values(n, alone.data(), also_beside.data()));
  for (std::int64_t j = 0; j < n; ++j) ASSERT_NEAR(alone[at(j)], values[at(j)], allowed);
}

template <class Real>
class TridiagonalOf : public testing::Test {};
using Reals = testing::Types<float, double>;
TYPED_TEST_SUITE(TridiagonalOf, Reals);

TYPED_TEST(TridiagonalOf, IsDiagonalisedByHalves) {
  for (const std::int64_t n : {1, 2, 3, 4, 7, 50, 161}) {
    for (const Given<TypeParam>& given : matrices<TypeParam>(n)) {
      const testing::ScopedTrace trace(
          __FILE__, __LINE__, testing::PrintToString(n) + " rows from " + testing::PrintToString(given.diagonal[0]));
      expect_joined(Tridiagonal<TypeParam>(nullptr), given);
      expect_joined(Tridiagonal<TypeParam>::shared(), given);
    }
  }
}

template <class T>
class VectorsOf : public testing::Test {};
using Numbers = testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(VectorsOf, Numbers);

TYPED_TEST(VectorsOf, AreMultipliedByTiles) {
  using T = TypeParam;
  using Vectors = MatrixVectors<T>;
  std::mt19937 random(3);
  std::uniform_real_distribution<RealOf<T>> number(-1, 1);
  const auto next = [&] {
    if constexpr (kIsComplexElement<T>) {
      const RealOf<T> real = number(random);
      return T{real, number(random)};
    } else {
      return number(random);
    }
  };
  const auto conjugate = [](const T& x) {
    if constexpr (kIsComplexElement<T>) {
      return std::conj(x);
    } else {
      return x;
    }
  };
  for (const auto& [rows, columns] : {std::pair{0, 3}, {3, 0}, {1, 1}, {5, 7}, {4, 32}, {37, 67}}) {
    const std::int64_t stride = columns + 3;
    std::vector<T> a(at(rows * stride) + 1);
    std::vector<T> x(at(columns) + 1);
    std::vector<T> u(at(rows) + 1);
    std::ranges::generate(a, next);
    std::ranges::generate(x, next);
    std::ranges::generate(u, next);
    std::vector<T> by_rows = u;
    std::vector<T> by_columns = x;
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) {
        by_rows[at(i)] += a[at(i * stride + j)] * x[at(j)];
        by_columns[at(j)] += conjugate(a[at(i * stride + j)]) * u[at(i)];
      }
    }
    const auto expect_near = [&](const std::vector<T>& found, const std::vector<T>& expected, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) {
        ASSERT_LE(std::abs(found[at(i)] - expected[at(i)]), 100 * std::numeric_limits<RealOf<T>>::epsilon());
      }
    };
    std::vector<T> y = u;
    Vectors::multiply(a.data(), stride, rows, columns, x.data(), y.data());
    expect_near(y, by_rows, rows);
    std::vector<T> z = x;
    Vectors::multiply_adjoint(a.data(), stride, rows, columns, u.data(), z.data());
    expect_near(z, by_columns, columns);
    y = u;
    z = x;
    Vectors::multiply_both(a.data(), stride, rows, columns, x.data(), u.data(), y.data(), z.data());
    expect_near(y, by_rows, rows);
    expect_near(z, by_columns, columns);
    const std::int64_t n = std::min(rows, columns);
    std::vector<T> expected = u;
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        const T element = j < i   ? a[at(i * stride + j)]
                          : j > i ? conjugate(a[at(j * stride + i)])
                                  : T{std::real(a[at(i * stride + i)])};
        expected[at(i)] += element * x[at(j)];
      }
    }
    y = u;
    Vectors::multiply_hermitian(a.data(), stride, n, x.data(), y.data());
    expect_near(y, expected, n);
  }
}

}  // namespace
}  // namespace shoal::cpu
