// Decompositions: products of the factors give the matrix again, factors that are known exactly, and what has none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <limits>
#include <random>

#include "ops/test_support.h"

namespace shoal {
namespace {

using test_support::array;
using test_support::complaint;
using test_support::rule_of;
using test_support::run;
using test_support::run_all;
using test_support::type_of;
using test_support::values;

using Complex = std::complex<double>;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

const Attrs kFull{{"full", true}};
const Attrs kReduced{{"full", false}};

// ---- Matrices as lists of complex numbers, and what their factors must be.

struct Matrix {
  std::int64_t rows;
  std::int64_t columns;
  std::vector<Complex> elements;

  Complex operator()(std::int64_t i, std::int64_t j) const {
    return elements[static_cast<std::size_t>(i * columns + j)];
  }
};

template <class F>
Matrix matrix(std::int64_t rows, std::int64_t columns, F&& element) {
  Matrix result{rows, columns, {}};
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) result.elements.push_back(element(i, j));
  }
  return result;
}

Matrix read(const Buffer& buffer) {
  Matrix result{buffer.shape()[0], buffer.shape()[1], {}};
  with_element_type(buffer.dtype(), [&](auto tag) {
    using T = decltype(tag);
    for (const T& x : values<T>(buffer)) {
      if constexpr (kIsComplexElement<T>) {
        result.elements.emplace_back(x);
      } else {
        result.elements.emplace_back(static_cast<double>(x));
      }
    }
  });
  return result;
}

Matrix operator*(const Matrix& a, const Matrix& b) {
  return matrix(a.rows, b.columns, [&](auto i, auto j) {
    Complex sum = 0;
    for (std::int64_t k = 0; k < a.columns; ++k) sum += a(i, k) * b(k, j);
    return sum;
  });
}

Matrix adjoint(const Matrix& a) {
  return matrix(a.columns, a.rows, [&](auto i, auto j) { return std::conj(a(j, i)); });
}

Matrix diagonal(const std::vector<double>& numbers) {
  const auto n = static_cast<std::int64_t>(numbers.size());
  return matrix(n, n, [&](auto i, auto j) { return i == j ? numbers[static_cast<std::size_t>(i)] : 0; });
}

Matrix identity(std::int64_t n) {
  return matrix(n, n, [](auto i, auto j) { return i == j ? 1 : 0; });
}

// The greatest difference of two elements.
double distance(const Matrix& a, const Matrix& b) {
  EXPECT_EQ(a.rows, b.rows);
  EXPECT_EQ(a.columns, b.columns);
  double greatest = 0;
  for (std::size_t i = 0; i < a.elements.size(); ++i) {
    greatest = std::max(greatest, std::abs(a.elements[i] - b.elements[i]));
  }
  return greatest;
}

std::vector<double> reals(const Buffer& buffer) {
  std::vector<double> result;
  if (buffer.dtype() == float32) {
    for (float x : values<float>(buffer)) result.push_back(x);
  } else {
    result = values<double>(buffer);
  }
  return result;
}

// An array of a dtype with these elements, or their real parts.
template <class T>
Buffer buffer_of(const Matrix& a) {
  std::vector<T> elements;
  for (const Complex& x : a.elements) {
    if constexpr (kIsComplexElement<T>) {
      elements.emplace_back(x);
    } else {
      elements.push_back(static_cast<T>(x.real()));
    }
  }
  return array<T>({a.rows, a.columns}, elements);
}

// The same of the dtype of another one.
Buffer with_element_type_of(const Buffer& like, const Matrix& a) {
  switch (like.dtype()) {
    case Dtype::kF32:
      return buffer_of<float>(a);
    case Dtype::kF64:
      return buffer_of<double>(a);
    case Dtype::kC64:
      return buffer_of<std::complex<float>>(a);
    default:
      return buffer_of<Complex>(a);
  }
}

Matrix random_matrix(std::mt19937& random, std::int64_t rows, std::int64_t columns) {
  const auto number = [&] { return static_cast<double>(random() % 1000) / 500 - 1; };
  return matrix(rows, columns, [&](auto, auto) { return Complex(number(), number()); });
}

// Calls f(array, elements, tolerance) with random matrices of every dtype.
template <class F>
void for_random_matrices(std::int64_t rows, std::int64_t columns, F&& f) {
  std::mt19937 random(static_cast<unsigned>(rows * 100 + columns));
  const auto with = [&](auto tag, double epsilon) {
    using T = decltype(tag);
    SCOPED_TRACE(std::string(name_of(dtype_of<T>())) + " " + to_string(Shape{rows, columns}));
    const Buffer a = buffer_of<T>(random_matrix(random, rows, columns));
    f(a, read(a), 8 * epsilon * static_cast<double>(1 + rows + columns));
  };
  with(float{}, 0x1p-24);
  with(double{}, 0x1p-53);
  with(std::complex<float>{}, 0x1p-24);
  with(std::complex<double>{}, 0x1p-53);
}

const std::vector<Shape> kShapes = {{1, 1}, {2, 2}, {3, 3}, {7, 7}, {5, 2}, {2, 5},
                                    {9, 1}, {1, 4}, {3, 0}, {0, 2}, {0, 0}};

// ---- cholesky

TEST(Cholesky, TimesItsAdjointIsTheMatrix) {
  for (const std::int64_t n : {0, 1, 2, 5, 12}) {
    for_random_matrices(n, n, [&](const Buffer& root, const Matrix& b, double tolerance) {
      with_element_type(root.dtype(), [&](auto tag) {
        using T = decltype(tag);
        if constexpr (std::is_floating_point_v<T> || kIsComplexElement<T>) {
          const Buffer a =
              buffer_of<T>(matrix(n, n, [&](auto i, auto j) { return (b * adjoint(b))(i, j) + (i == j ? 1.0 : 0.0); }));
          const Matrix l = read(run("cholesky", {}, {a}));
          EXPECT_LE(distance(l * adjoint(l), read(a)), tolerance * static_cast<double>(n + 1));
          for (std::int64_t i = 0; i < n; ++i) {
            for (std::int64_t j = i + 1; j < n; ++j) EXPECT_EQ(l(i, j), 0.0);
          }
        }
      });
    });
  }
}

// The numbers min(i, j) and the binomial coefficients have factors of integers.
TEST(Cholesky, OfMatricesWithKnownFactors) {
  const auto ones = [](auto i, auto j) { return j <= i ? 1.0 : 0.0; };
  const Buffer least =
      buffer_of<double>(matrix(6, 6, [](auto i, auto j) { return static_cast<double>(std::min(i, j)) + 1; }));
  EXPECT_EQ(read(run("cholesky", {}, {least})).elements, matrix(6, 6, ones).elements);
  const auto binomial = [](std::int64_t n, std::int64_t k) {
    double result = k <= n ? 1 : 0;
    for (std::int64_t i = 1; i <= k && k <= n; ++i)
      result = result * static_cast<double>(n - k + i) / static_cast<double>(i);
    return result;
  };
  const Buffer pascal = buffer_of<float>(matrix(7, 7, [&](auto i, auto j) { return binomial(i + j, i); }));
  EXPECT_EQ(read(run("cholesky", {}, {pascal})).elements, matrix(7, 7, binomial).elements);
}

TEST(Cholesky, LooksAtTheLowerTriangleOnly) {
  const Buffer a = array<double>({2, 2}, {4, kNaN, 2, 5});
  EXPECT_EQ(values<double>(run("cholesky", {}, {a})), (std::vector<double>{2, 0, 1, 2}));
}

TEST(Cholesky, OfOneBatchThatIsNotDefinite) {
  const Buffer a = array<float>({2, 2, 2}, {1, 2, 2, 1, 4, 2, 2, 5});
  const std::vector<float> l = values<float>(run("cholesky", {}, {a}));
  EXPECT_TRUE(std::isnan(l[0]) && std::isnan(l[2]) && std::isnan(l[3]));
  EXPECT_EQ(std::vector<float>(l.begin() + 4, l.end()), (std::vector<float>{2, 0, 1, 2}));
  EXPECT_EQ(l[1], 0);
}

// ---- triangular_solve

TEST(TriangularSolve, LeavesNoResidual) {
  for (const std::int64_t n : {0, 1, 4, 9}) {
    for (const bool lower : {false, true}) {
      for (const bool unit : {false, true}) {
        for_random_matrices(n, n, [&](const Buffer& a, const Matrix& given, double tolerance) {
          const Matrix used = matrix(n, n, [&](auto i, auto j) {
            if (i == j) return unit ? Complex(1) : given(i, j);
            return (i > j) == lower ? given(i, j) : Complex(0);
          });
          const Buffer x = run("triangular_solve", {{"lower", lower}, {"unit_diagonal", unit}}, {a, a});
          double size = 1;
          for (const Complex& element : read(x).elements) size = std::max(size, std::abs(element));
          EXPECT_LE(distance(used * read(x), given), tolerance * size);
        });
      }
    }
  }
}

TEST(TriangularSolve, OfSingularMatricesDividesByZero) {
  const Buffer a = array<float>({2, 2}, {0, 5, 1, 0});
  const Attrs lower{{"lower", true}, {"unit_diagonal", false}};
  const std::vector<float> x = values<float>(run("triangular_solve", lower, {a, array<float>({2, 1}, {1, 1})}));
  EXPECT_EQ(x, (std::vector<float>{std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}));
}

// ---- lu

TEST(Lu, FactorsGiveTheRowsInTheirNewOrder) {
  for (const Shape& shape : kShapes) {
    for_random_matrices(shape[0], shape[1], [&](const Buffer& a, const Matrix& given, double tolerance) {
      const std::vector<Buffer> results = run_all("lu", {}, {a});
      const Matrix lu = read(results[0]);
      const std::int64_t k = std::min(shape[0], shape[1]);
      const Matrix l = matrix(shape[0], k, [&](auto i, auto j) { return i == j ? 1.0 : i > j ? lu(i, j) : 0.0; });
      const Matrix u = matrix(k, shape[1], [&](auto i, auto j) { return i <= j ? lu(i, j) : 0.0; });
      const std::vector<std::int32_t> order = values<std::int32_t>(results[2]);
      const auto row = [&](std::int64_t i) { return static_cast<std::int64_t>(order[static_cast<std::size_t>(i)]); };
      EXPECT_LE(distance(l * u, matrix(shape[0], shape[1], [&](auto i, auto j) { return given(row(i), j); })),
                tolerance);
      // The exchanges, one after the other, make that order.
      std::vector<std::int32_t> exchanged(order.size());
      for (std::size_t i = 0; i < exchanged.size(); ++i) exchanged[i] = static_cast<std::int32_t>(i);
      const std::vector<std::int32_t> pivots = values<std::int32_t>(results[1]);
      for (std::size_t i = 0; i < pivots.size(); ++i)
        std::swap(exchanged[i], exchanged[static_cast<std::size_t>(pivots[i])]);
      EXPECT_EQ(exchanged, order);
    });
  }
}

TEST(Lu, OfSingularMatricesHasAZero) {
  const std::vector<Buffer> results = run_all("lu", {}, {array<double>({3, 3}, {0, 1, 2, 0, 3, 4, 0, 6, 8})});
  EXPECT_EQ(values<double>(results[0]), (std::vector<double>{0, 1, 2, 0, 6, 8, 0, 0.5, 0}));
  EXPECT_EQ(values<std::int32_t>(results[1]), (std::vector<std::int32_t>{0, 2, 2}));
}

// ---- qr

TEST(Qr, IsOrthonormalTimesTriangular) {
  for (const Shape& shape : kShapes) {
    for (const Attrs& attrs : {kFull, kReduced}) {
      for_random_matrices(shape[0], shape[1], [&](const Buffer& a, const Matrix& given, double tolerance) {
        const std::vector<Buffer> results = run_all("qr", attrs, {a});
        const Matrix q = read(results[0]);
        const Matrix r = read(results[1]);
        EXPECT_LE(distance(q * r, given), tolerance);
        EXPECT_LE(distance(adjoint(q) * q, identity(q.columns)), tolerance);
        for (std::int64_t i = 0; i < r.rows; ++i) {
          for (std::int64_t j = 0; j < std::min(i, r.columns); ++j) EXPECT_EQ(r(i, j), 0.0);
          EXPECT_TRUE(i >= r.columns || r(i, i).imag() == 0);
        }
      });
    }
  }
}

TEST(Qr, OfMatricesWithoutFullRank) {
  const Buffer zeros = array<double>({3, 2}, {0, 0, 0, 0, 0, 0});
  EXPECT_EQ(read(run("qr", kReduced, {zeros})).elements, (std::vector<Complex>{1, 0, 0, 1, 0, 0}));
  const Buffer equal = array<double>({2, 2}, {1e200, 1e200, 1e200, 1e200});
  const std::vector<Buffer> results = run_all("qr", kFull, {equal});
  EXPECT_LE(distance(read(results[0]) * read(results[1]), read(equal)), 1e186);
}

// ---- eigh

TEST(Eigh, VectorsDiagonaliseTheMatrix) {
  for (const std::int64_t n : {0, 1, 2, 3, 10}) {
    for_random_matrices(n, n, [&](const Buffer& buffer, const Matrix& given, double tolerance) {
      const Matrix a = matrix(n, n, [&](auto i, auto j) {
        return i == j ? Complex(given(i, i).real()) : i > j ? given(i, j) : std::conj(given(j, i));
      });
      const std::vector<Buffer> results = run_all("eigh", {}, {buffer});
      const std::vector<double> w = reals(results[0]);
      const Matrix v = read(results[1]);
      EXPECT_TRUE(std::is_sorted(w.begin(), w.end()));
      EXPECT_LE(distance(a * v, v * diagonal(w)), tolerance * static_cast<double>(n + 1));
      EXPECT_LE(distance(adjoint(v) * v, identity(n)), tolerance);
    });
  }
}

// Second differences have the eigenvalues 4 sin^2(k pi / (2 n + 2)).
TEST(Eigh, OfSecondDifferences) {
  const std::int64_t n = 12;
  const Matrix a = matrix(n, n, [](auto i, auto j) { return i == j ? 2.0 : std::abs(i - j) == 1 ? -1.0 : 0.0; });
  const std::vector<double> w = reals(run("eigh", {}, {buffer_of<double>(a)}));
  for (std::size_t k = 0; k < w.size(); ++k) {
    const double root = 2 * std::sin(static_cast<double>(k + 1) * M_PI / static_cast<double>(2 * n + 2));
    EXPECT_NEAR(w[k], root * root, 1e-14 * root * root);
  }
}

// Jacobi's method finds the small eigenvalues of a definite matrix as precisely as the large ones.
TEST(Eigh, OfMatricesOfVeryDifferentSizes) {
  const Buffer a = array<double>({3, 3}, {1e40, 1e29, 1e19, 1e29, 1e20, 1e9, 1e19, 1e9, 1});
  const std::vector<double> w = reals(run("eigh", {}, {a}));
  // From the determinants of the leading blocks, in arithmetic of many digits.
  EXPECT_NEAR(w[0], 9.8181818181818181e-1, 1e-14);
  EXPECT_NEAR(w[1], 9.9e19, 1e6);
  EXPECT_NEAR(w[2], 1e40, 1e26);
}

TEST(Eigh, OfDegenerateAndIndefiniteMatrices) {
  EXPECT_THAT(reals(run("eigh", {}, {array<double>({2, 2}, {0, kNaN, 1, 0})})),
              testing::ElementsAre(testing::DoubleNear(-1, 1e-15), testing::DoubleNear(1, 1e-15)));
  const Matrix ones = matrix(5, 5, [](auto, auto) { return 1.0; });
  const std::vector<double> w = reals(run("eigh", {}, {buffer_of<double>(ones)}));
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(w[i], 0, 1e-15);
  EXPECT_NEAR(w[4], 5, 1e-14);
  EXPECT_EQ(reals(run("eigh", {}, {buffer_of<float>(matrix(3, 3, [](auto, auto) { return 0.0; }))})),
            (std::vector<double>{0, 0, 0}));
}

TEST(Eigh, OfNumbersThatAreNone) {
  for (const double bad : {kNaN, std::numeric_limits<double>::infinity()}) {
    const std::vector<Buffer> results = run_all("eigh", {}, {array<double>({2, 2}, {1, 0, bad, 1})});
    for (const Buffer& result : results) EXPECT_THAT(values<double>(result), testing::Each(testing::IsNan()));
  }
}

// ---- svd

TEST(Svd, FactorsGiveTheMatrix) {
  for (const Shape& shape : kShapes) {
    for (const Attrs& attrs : {kFull, kReduced}) {
      for_random_matrices(shape[0], shape[1], [&](const Buffer& a, const Matrix& given, double tolerance) {
        const std::vector<Buffer> results = run_all("svd", attrs, {a});
        const Matrix u = read(results[0]);
        const Matrix vh = read(results[2]);
        const std::vector<double> s = reals(results[1]);
        EXPECT_TRUE(std::is_sorted(s.rbegin(), s.rend()));
        EXPECT_TRUE(s.empty() || s.back() >= 0);
        const Matrix middle = matrix(u.columns, vh.rows, [&](auto i, auto j) {
          return i == j && i < static_cast<std::int64_t>(s.size()) ? s[static_cast<std::size_t>(i)] : 0.0;
        });
        EXPECT_LE(distance(u * middle * vh, given), tolerance);
        EXPECT_LE(distance(adjoint(u) * u, identity(u.columns)), tolerance);
        EXPECT_LE(distance(vh * adjoint(vh), identity(vh.rows)), tolerance);
      });
    }
  }
}

TEST(Svd, OfMatricesWithoutFullRank) {
  const Matrix a =
      matrix(4, 3, [](auto i, auto j) { return (static_cast<double>(i) + 1) * (static_cast<double>(j) + 1); });
  const std::vector<Buffer> results = run_all("svd", kFull, {buffer_of<double>(a)});
  const std::vector<double> s = reals(results[1]);
  EXPECT_NEAR(s[0], std::sqrt(30.0 * 14.0), 1e-13);
  EXPECT_NEAR(s[1], 0, 1e-14);
  EXPECT_LE(distance(adjoint(read(results[0])) * read(results[0]), identity(4)), 1e-14);
  const std::vector<Buffer> of_zeros = run_all("svd", kFull, {array<double>({2, 3}, {0, 0, 0, 0, 0, 0})});
  EXPECT_EQ(reals(of_zeros[1]), (std::vector<double>{0, 0}));
  EXPECT_LE(distance(adjoint(read(of_zeros[2])) * read(of_zeros[2]), identity(3)), 0);
}

// Columns of very different sizes: the small singular value is as precise as the large one.
TEST(Svd, OfColumnsOfVeryDifferentSizes) {
  const std::vector<double> s =
      reals(run_all("svd", kReduced, {array<double>({2, 2}, {1e150, 1e-150, 1e150, -1e-150})})[1]);
  EXPECT_NEAR(s[0] / 1e150, std::sqrt(2.0), 1e-15);
  EXPECT_NEAR(s[1] / 1e-150, std::sqrt(2.0), 1e-15);
}

TEST(Svd, OfNumbersThatAreNone) {
  for (const Buffer& result : run_all("svd", kFull, {array<double>({2, 3}, {1, 0, kNaN, 1, 2, 3})})) {
    EXPECT_THAT(values<double>(result), testing::Each(testing::IsNan()));
  }
}

// ---- hessenberg and householder_product, schur, eig

// The reflections below the first subdiagonal, one row up: those of all rows but the first.
Matrix without_first_row_and_last_column(const Matrix& a) {
  return matrix(a.rows - 1, a.columns - 1, [&](auto i, auto j) { return a(i + 1, j); });
}

TEST(Hessenberg, IsTheMatrixBetweenReflections) {
  for (const std::int64_t n : {1, 2, 3, 4, 10}) {
    for_random_matrices(n, n, [&](const Buffer& buffer, const Matrix& given, double tolerance) {
      const std::vector<Buffer> results = run_all("hessenberg", {}, {buffer});
      const Matrix both = read(results[0]);
      const Matrix h = matrix(n, n, [&](auto i, auto j) { return i <= j + 1 ? both(i, j) : 0.0; });
      Matrix q = identity(n);
      if (n > 1) {
        const Matrix below = without_first_row_and_last_column(both);
        const Buffer reflections = with_element_type_of(buffer, below);
        const Matrix inner = read(run("householder_product", {}, {reflections, results[1]}));
        q = matrix(n, n, [&](auto i, auto j) -> Complex {
          return i == 0 || j == 0 ? (i == j ? 1.0 : 0.0) : inner(i - 1, j - 1);
        });
      }
      EXPECT_LE(distance(q * h * adjoint(q), given), tolerance * static_cast<double>(n + 1));
      EXPECT_LE(distance(adjoint(q) * q, identity(n)), tolerance);
    });
  }
}

TEST(Schur, IsATriangleBetweenUnitaryFactors) {
  for (const std::int64_t n : {0, 1, 2, 3, 5, 10, 24}) {
    for_random_matrices(n, n, [&](const Buffer& buffer, const Matrix& given, double tolerance) {
      const std::vector<Buffer> results = run_all("schur", {}, {buffer});
      const Matrix t = read(results[0]);
      const Matrix q = read(results[1]);
      EXPECT_LE(distance(q * t * adjoint(q), given), tolerance * static_cast<double>(n + 1));
      EXPECT_LE(distance(adjoint(q) * q, identity(n)), tolerance * 4);
      for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t j = 0; j + 1 < i; ++j) EXPECT_EQ(t(i, j), 0.0);
        if (i == 0 || t(i, i - 1) == 0.0) continue;
        // Of two complex eigenvalues, which only real matrices have.
        EXPECT_FALSE(is_complex(buffer.dtype()));
        EXPECT_EQ(t(i, i), t(i - 1, i - 1));
        EXPECT_LT((t(i, i - 1) * t(i - 1, i)).real(), 0);
        EXPECT_TRUE(i == 1 || t(i - 1, i - 2) == 0.0);
      }
    });
  }
}

TEST(Eig, VectorsDiagonaliseTheMatrix) {
  for (const std::int64_t n : {0, 1, 2, 3, 10}) {
    for_random_matrices(n, n, [&](const Buffer& buffer, const Matrix& given, double tolerance) {
      const Attrs attrs{{"left", true}, {"right", true}, {"differentiable", false}};
      const std::vector<Buffer> results = run_all("eig", attrs, {buffer});
      const Buffer values = results[0].reshaped({1, n});
      const Matrix w = read(values);
      const Matrix left = read(results[1]);
      const Matrix right = read(results[2]);
      const Matrix d = matrix(n, n, [&](auto i, auto j) { return i == j ? w(0, i) : 0.0; });
      const double allowed = tolerance * 10 * static_cast<double>(n + 1);
      EXPECT_LE(distance(given * right, right * d), allowed);
      EXPECT_LE(distance(adjoint(left) * given, d * adjoint(left)), allowed);
      for (std::int64_t j = 0; j < n; ++j) {
        for (const Matrix& vectors : {left, right}) {
          double squares = 0;
          Complex greatest = 0;
          for (std::int64_t i = 0; i < n; ++i) {
            squares += std::norm(vectors(i, j));
            if (std::abs(vectors(i, j)) > std::abs(greatest)) greatest = vectors(i, j);
          }
          EXPECT_NEAR(squares, 1, allowed);
          EXPECT_NEAR(greatest.imag(), 0, allowed);
        }
      }
    });
  }
}

// Cyclic shifts, whose eigenvalues are roots of 1, move nothing without exceptional shifts.
TEST(Eig, OfCyclicShifts) {
  for (const std::int64_t n : {2, 3, 4, 8}) {
    const Matrix shift = matrix(n, n, [&](auto i, auto j) { return (i + 1) % n == j ? 1.0 : 0.0; });
    const Attrs attrs{{"left", false}, {"right", false}, {"differentiable", false}};
    for (const Buffer& a : {buffer_of<double>(shift), buffer_of<Complex>(shift)}) {
      const Matrix w = read(run("eig", attrs, {a}).reshaped({1, n}));
      for (const Complex& value : w.elements) {
        EXPECT_NEAR(std::abs(value), 1, 1e-13);
        EXPECT_NEAR(std::abs(std::pow(value, static_cast<double>(n)) - 1.0), 0, 1e-12);
      }
      const Matrix t = read(run("schur", {}, {a}));
      EXPECT_TRUE(std::ranges::all_of(t.elements, [](const Complex& x) { return std::isfinite(x.real()); }));
    }
  }
}

TEST(GeneralDecompositions, OfWhatIsNotFiniteAreNaN) {
  const Attrs attrs{{"left", true}, {"right", true}, {"differentiable", false}};
  for (const double bad : {kNaN, std::numeric_limits<double>::infinity()}) {
    const Buffer a = array<double>({2, 2}, {1, bad, 0, 1});
    for (const auto& [op, with] :
         std::vector<std::pair<std::string_view, Attrs>>{{"hessenberg", {}}, {"schur", {}}, {"eig", attrs}}) {
      for (const Buffer& result : run_all(op, with, {a})) {
        for (std::int64_t i = 0; i < num_elements(result.shape()); ++i) {
          const double part = is_complex(result.dtype()) ? static_cast<const Complex*>(result.data())[i].real()
                                                         : static_cast<const double*>(result.data())[i];
          EXPECT_TRUE(std::isnan(part)) << op;
        }
      }
    }
  }
}

// ---- Rules and complaints

TEST(LinalgRules, BatchesPassThrough) {
  const Type a = type_of(float32, {8, 4, 4});
  EXPECT_EQ(to_string(rule_of("cholesky", {}, {a})), "(i, j, k) -> (i, l, m) need_replication={j, k, l, m}");
  EXPECT_EQ(to_string(rule_of("eigh", {}, {a})), "(i, j, k) -> (i, l), (i, m, n) need_replication={j, k, l, m, n}");
  EXPECT_EQ(to_string(rule_of("svd", kReduced, {type_of(float32, {8, 4, 3})})),
            "(i, j, k) -> (i, l, m), (i, n), (i, o, p) need_replication={j, k, l, m, n, o, p}");
}

TEST(LinalgRules, BatchesOfReflectionsPassThrough) {
  EXPECT_EQ(to_string(rule_of("householder_product", {}, {type_of(float32, {8, 4, 3}), type_of(float32, {8, 2})})),
            "(i, j, k), (i, l) -> (i, m, n) need_replication={j, k, l, m, n}");
  EXPECT_EQ(to_string(rule_of("schur", {}, {type_of(float32, {8, 4, 4})})),
            "(i, j, k) -> (i, l, m), (i, n, o) need_replication={j, k, l, m, n, o}");
}

TEST(LinalgErrors, Reflections) {
  EXPECT_EQ(complaint("householder_product", {}, {type_of(float32, {2, 3}), type_of(float32, {2})}),
            "householder_product: operand f32[2,3] must have no fewer rows than columns");
  EXPECT_EQ(
      complaint("householder_product", {}, {type_of(float32, {3, 2}), type_of(float32, {3})}),
      "householder_product: the factors f32[3] of reflections must have the dtype and the batches of the matrices "
      "f32[3,2], and be no more than these have columns");
}

TEST(LinalgRules, RightSidesPassThrough) {
  const Attrs attrs{{"lower", true}, {"unit_diagonal", false}};
  EXPECT_EQ(to_string(rule_of("triangular_solve", attrs, {type_of(float32, {8, 4, 4}), type_of(float32, {8, 4, 6})})),
            "(i, j, k), (i, l, m) -> (i, l, m) need_replication={j, k, l}");
}

// Two thirds of n^3 for the factors of a square matrix, and so on; each matrix counts, and complex ones four times.
TEST(LinalgRules, Costs) {
  const auto flops_of = [](std::string_view name, const Attrs& attrs, const std::vector<Type>& inputs) {
    const OpDef& op = op_named(name);
    const std::vector<Type> outputs = test_support::infer(name, attrs, inputs);
    return op.flops({.op = op, .inputs = inputs, .outputs = outputs, .attrs = attrs});
  };
  EXPECT_DOUBLE_EQ(flops_of("cholesky", {}, {type_of(float32, {2, 6, 6})}), 144);
  EXPECT_DOUBLE_EQ(flops_of("cholesky", {}, {type_of(complex64, {2, 6, 6})}), 576);
  const Attrs lower{{"lower", true}, {"unit_diagonal", false}};
  EXPECT_DOUBLE_EQ(flops_of("triangular_solve", lower, {type_of(float32, {2, 4, 4}), type_of(float32, {2, 4, 3})}), 96);
  EXPECT_DOUBLE_EQ(flops_of("lu", {}, {type_of(float32, {6, 6})}), 144);
  EXPECT_DOUBLE_EQ(flops_of("qr", kReduced, {type_of(float32, {6, 6})}), 576);
  EXPECT_DOUBLE_EQ(flops_of("qr", kReduced, {type_of(float32, {9, 3})}), 288);
  EXPECT_DOUBLE_EQ(flops_of("eigh", {}, {type_of(float32, {3, 3})}), 243);
  for (const auto& [rows, columns] : {std::pair{4, 2}, std::pair{2, 4}}) {
    EXPECT_DOUBLE_EQ(flops_of("svd", kReduced, {type_of(float32, {rows, columns})}), 256);
    EXPECT_DOUBLE_EQ(flops_of("svd", kFull, {type_of(float32, {rows, columns})}), 304);
  }
  EXPECT_DOUBLE_EQ(flops_of("hessenberg", {}, {type_of(float32, {3, 3})}), 90);
  EXPECT_DOUBLE_EQ(flops_of("householder_product", {}, {type_of(float32, {6, 6}), type_of(float32, {6})}), 288);
  EXPECT_DOUBLE_EQ(flops_of("schur", {}, {type_of(float32, {2, 2})}), 200);
}

TEST(LinalgErrors, Operands) {
  EXPECT_EQ(complaint("cholesky", {}, {type_of(int32, {2, 2})}),
            "cholesky: takes f32, f64, c64 and c128, not i32[2,2]");
  EXPECT_EQ(complaint("qr", kFull, {type_of(float16, {2, 2})}), "qr: takes f32, f64, c64 and c128, not f16[2,2]");
  EXPECT_EQ(complaint("svd", kFull, {type_of(float32, {2})}),
            "svd: operand f32[2] must have at least 2 dimensions, those of a matrix");
  EXPECT_EQ(complaint("eigh", {}, {type_of(float32, {2, 3})}),
            "eigh: operand f32[2,3] must have square matrices in its last two dimensions");
  const Attrs attrs{{"lower", true}, {"unit_diagonal", false}};
  EXPECT_EQ(complaint("triangular_solve", attrs, {type_of(float32, {2, 2}), type_of(float64, {2, 1})}),
            "triangular_solve: operands f32[2,2] and f64[2,1] have different dtypes; they must be equal");
  EXPECT_EQ(complaint("triangular_solve", attrs, {type_of(float32, {2, 2}), type_of(float32, {3, 1})}),
            "triangular_solve: the right sides f32[3,1] must have the extents of the matrices f32[2,2], except for the "
            "last dimension, the number of right sides");
}

}  // namespace
}  // namespace shoal
