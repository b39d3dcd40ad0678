// Kernels are compared with the reference of their op, where that takes no long time, and with what the op means: that
// the factors make the matrix again, and that what is orthonormal is so.
#include "backend/cpu/decompositions/decomposition_kernels.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/decompositions/small_matrices.h"
#include "backend/cpu/kernel_test_support.h"
#include "backend/cpu/machine/simd_dispatch.h"
#include "base/thread_pool.h"

namespace shoal::cpu {
namespace {

using Wide = std::complex<double>;

constexpr Dtype kDtypes[] = {Dtype::kF32, Dtype::kF64, Dtype::kC64, Dtype::kC128};
constexpr std::int64_t kSizes[] = {0, 1, 2, 3, 8, 31, 32, 33, 64, 129, 200};
// The reference takes long for more.
constexpr std::int64_t kMostForReference = 64;

double epsilon_of(Dtype dtype) {
  return real_dtype(dtype) == Dtype::kF32 ? std::numeric_limits<float>::epsilon()
                                          : std::numeric_limits<double>::epsilon();
}

// ---- Matrices of complex numbers, by which all results are checked.

struct Dense {
  std::int64_t rows;
  std::int64_t columns;
  std::vector<Wide> elements;

  Dense(std::int64_t m, std::int64_t n)
      : rows(m), columns(n), elements(static_cast<std::size_t>(m) * static_cast<std::size_t>(n)) {}
  Wide& operator()(std::int64_t i, std::int64_t j) { return elements[static_cast<std::size_t>(i * columns + j)]; }
  const Wide& operator()(std::int64_t i, std::int64_t j) const {
    return elements[static_cast<std::size_t>(i * columns + j)];
  }
};

Dense adjoint_of(const Dense& a) {
  Dense result(a.columns, a.rows);
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t j = 0; j < a.columns; ++j) result(j, i) = std::conj(a(i, j));
  }
  return result;
}

Dense operator*(const Dense& a, const Dense& b) {
  Dense result(a.rows, b.columns);
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t k = 0; k < a.columns; ++k) {
      const double re = a(i, k).real();
      const double im = a(i, k).imag();
      const Wide* const row = b.elements.data() + k * b.columns;
      Wide* const sum = result.elements.data() + i * b.columns;
      for (std::int64_t j = 0; j < b.columns; ++j) {
        const double x = row[j].real();
        const double y = row[j].imag();
        sum[j] += Wide(re * x - im * y, re * y + im * x);
      }
    }
  }
  return result;
}

// The root of the sum of the squares of a - b.
double distance(const Dense& a, const Dense& b) {
  EXPECT_EQ(a.rows, b.rows);
  EXPECT_EQ(a.columns, b.columns);
  double sum = 0;
  for (std::size_t i = 0; i < a.elements.size(); ++i) sum += std::norm(a.elements[i] - b.elements[i]);
  return std::sqrt(sum);
}

double size_of_matrix(const Dense& a) { return distance(a, Dense(a.rows, a.columns)); }

Dense identity(std::int64_t n) {
  Dense result(n, n);
  for (std::int64_t i = 0; i < n; ++i) result(i, i) = 1;
  return result;
}

// The matrix number `number` of a buffer; a vector is one column.
Dense dense(const Buffer& buffer, std::int64_t number, std::int64_t rows, std::int64_t columns) {
  Dense result(rows, columns);
  with_element_type(buffer.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const T* const data = static_cast<const T*>(buffer.data()) + number * rows * columns;
    for (std::size_t i = 0; i < result.elements.size(); ++i) {
      if constexpr (kIsComplexElement<T>) {
        result.elements[i] = Wide(data[i].real(), data[i].imag());
      } else {
        result.elements[i] = static_cast<double>(data[i]);
      }
    }
  });
  return result;
}

// ---- Operands.

Wide normal(Dtype dtype, std::mt19937_64& random) {
  std::normal_distribution<double> distribution;
  const double real = distribution(random);
  return {real, is_complex(dtype) ? distribution(random) : 0};
}

void set(Buffer& buffer, std::int64_t at, Wide value) {
  with_element_type(buffer.dtype(), [&](auto tag) {
    using T = decltype(tag);
    T* const data = static_cast<T*>(buffer.mutable_data());
    if constexpr (kIsComplexElement<T>) {
      using Real = typename T::value_type;
      data[at] = {static_cast<Real>(value.real()), static_cast<Real>(value.imag())};
    } else if constexpr (std::is_floating_point_v<T>) {
      data[at] = static_cast<T>(value.real());
    }
  });
}

Buffer filled(Dtype dtype, const Shape& shape, const std::function<Wide(std::int64_t i, std::int64_t j)>& element) {
  Buffer buffer(host_space({}), dtype, shape);
  const std::int64_t columns = shape.back();
  const std::int64_t rows = shape[shape.size() - 2];
  for (std::int64_t at = 0; at < num_elements(shape); ++at) {
    set(buffer, at, element(at / columns % rows, at % columns));
  }
  return buffer;
}

Buffer any_matrices(Dtype dtype, const Shape& shape, std::mt19937_64& random) {
  return filled(dtype, shape, [&](std::int64_t, std::int64_t) { return normal(dtype, random); });
}

constexpr double kNaNs = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Of which the lower triangle is that of Hermitian matrices, and the upper one must not be looked at.
Buffer hermitian_matrices(Dtype dtype, const Shape& shape, double diagonal, std::mt19937_64& random) {
  return filled(dtype, shape, [&](std::int64_t i, std::int64_t j) -> Wide {
    const Wide drawn = normal(dtype, random);
    return i > j ? drawn : i == j ? Wide(drawn.real() + diagonal) : Wide(kNaNs);
  });
}

Dense hermitian(Dense a) {
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t j = i + 1; j < a.rows; ++j) a(i, j) = std::conj(a(j, i));
  }
  return a;
}

// ---- Kernels.

// Which code decomposes: the kernel, or what it does for small matrices, and for all where LAPACK is not there.
enum class Way { kKernel, kWithoutLapack };

template <class T>
void compute_without_lapack(std::string_view op, const Attrs& attrs, const std::vector<Buffer>& in,
                            std::vector<Buffer>& out) {
  const Shape& shape = in[0].shape();
  const bool has_full = op == "qr" || op == "svd";
  const bool solves = op == "triangular_solve";
  const MatrixProblem problem{.rows = shape[1],
                              .columns = shape[2],
                              .sides = in.back().shape()[2],
                              .full = has_full && attrs.get<bool>("full"),
                              .lower = !solves || attrs.get<bool>("lower"),
                              .unit_diagonal = solves && attrs.get<bool>("unit_diagonal")};
  const SmallMatrices<T> matrices(shape[0]);
  const T* const a = static_cast<const T*>(in[0].data());
  const auto result = [&](auto tag, std::size_t k) { return static_cast<decltype(tag)*>(out[k].mutable_data()); };
  if (op == "cholesky") {
    matrices.cholesky(problem, a, result(T{}, 0));
  } else if (op == "triangular_solve") {
    matrices.triangular_solve(problem, a, static_cast<const T*>(in[1].data()), result(T{}, 0));
  } else if (op == "lu") {
    matrices.lu(problem, a, result(T{}, 0), result(std::int32_t{}, 1), result(std::int32_t{}, 2));
  } else if (op == "qr") {
    matrices.qr(problem, a, result(T{}, 0), result(T{}, 1));
  } else if (op == "eigh") {
    matrices.eigh(problem, a, result(RealOf<T>{}, 0), result(T{}, 1));
  } else if (out.size() == 1) {
    matrices.svd(problem, a, nullptr, result(RealOf<T>{}, 0), nullptr);
  } else {
    matrices.svd(problem, a, result(T{}, 0), result(RealOf<T>{}, 1), result(T{}, 2));
  }
}

struct Results {
  std::vector<Buffer> kernel;
  std::vector<Buffer> reference;  // Empty if it was not asked for.
};

Results compute(std::string_view op, const Attrs& attrs, const std::vector<Buffer>& inputs, bool with_reference,
                Way way = Way::kKernel) {
  Graph graph;
  std::vector<ValueId> ids;
  for (const Buffer& input : inputs) {
    ids.push_back(
        graph.add_input({.dtype = input.dtype(), .shape = input.shape(), .weak = false, .memory = {}, .varying = {}}));
  }
  graph.outputs = graph.add_eqn(op_named(op), attrs, ids, SourceLocation::current());
  Results results;
  results.kernel = results_of(*make_kernel(graph, graph.eqns[0]), inputs, graph);
  if (way == Way::kWithoutLapack) {
    switch (inputs[0].dtype()) {
      case Dtype::kF32:
        compute_without_lapack<float>(op, attrs, inputs, results.kernel);
        break;
      case Dtype::kF64:
        compute_without_lapack<double>(op, attrs, inputs, results.kernel);
        break;
      case Dtype::kC64:
        compute_without_lapack<std::complex<float>>(op, attrs, inputs, results.kernel);
        break;
      default:
        compute_without_lapack<std::complex<double>>(op, attrs, inputs, results.kernel);
    }
  }
  if (with_reference) {
    results.reference = results_of(*reference_kernel(graph.eqns[0], "reference"), inputs, graph);
  }
  return results;
}

void expect_close(const Dense& got, const Dense& want, double tolerance, const std::string& what) {
  EXPECT_LE(distance(got, want), tolerance * std::max(1.0, size_of_matrix(want))) << what;
}

void expect_orthonormal_columns(const Dense& q, double tolerance, const std::string& what) {
  EXPECT_LE(distance(adjoint_of(q) * q, identity(q.columns)), tolerance) << what;
}

void expect_descending(const Dense& values, int direction, const std::string& what) {
  for (std::int64_t i = 1; i < values.rows; ++i) {
    EXPECT_GE(direction * (values(i - 1, 0).real() - values(i, 0).real()), 0) << what;
  }
}

bool all_are_nan(const Dense& a) {
  return std::all_of(a.elements.begin(), a.elements.end(), [](Wide x) { return std::isnan(x.real()); });
}

// Errors of factors, of LAPACK as of others, are a small multiple of n times the unit of the last place.
double tolerance_of(Dtype dtype, std::int64_t n) { return 10 * epsilon_of(dtype) * static_cast<double>(n + 1); }

std::string name_of(Dtype dtype, std::int64_t m, std::int64_t n) {
  return fmt::format("{} {}x{}", short_name_of(dtype), m, n);
}

// Rows and columns, square, tall and wide.
std::vector<std::pair<std::int64_t, std::int64_t>> rectangles() {
  std::vector<std::pair<std::int64_t, std::int64_t>> result = {{0, 3},  {3, 0},   {1, 5},   {5, 1},   {7, 20},  {20, 7},
                                                               {90, 1}, {31, 33}, {33, 31}, {40, 70}, {150, 60}};
  for (const std::int64_t n : kSizes) result.emplace_back(n, n);
  return result;
}

void check_cholesky(Dtype dtype, std::int64_t n, Way way, std::mt19937_64& random) {
  const std::string what = name_of(dtype, n, n);
  const Buffer a = hermitian_matrices(dtype, {3, n, n}, 3 * static_cast<double>(n) + 3, random);
  const Results results = compute("cholesky", {}, {a}, true, way);
  for (std::int64_t number = 0; number < 3; ++number) {
    const Dense l = dense(results.kernel[0], number, n, n);
    expect_close(l * adjoint_of(l), hermitian(dense(a, number, n, n)), tolerance_of(dtype, n), what);
    expect_close(l, dense(results.reference[0], number, n, n), 10 * tolerance_of(dtype, n), what);
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = i + 1; j < n; ++j) EXPECT_EQ(l(i, j), 0.0) << what;
    }
  }
}

TEST(Decompositions, CholeskyMakesTheMatrix) {
  std::mt19937_64 random(1);
  for (const Dtype dtype : kDtypes) {
    for (const std::int64_t n : kSizes) check_cholesky(dtype, n, Way::kKernel, random);
  }
}

TEST(Decompositions, CholeskyOfWhatIsNotDefiniteIsNaN) {
  std::mt19937_64 random(2);
  for (const Dtype dtype : kDtypes) {
    for (const std::int64_t n : {1, 3, 32, 33, 150}) {
      Buffer a = hermitian_matrices(dtype, {4, n, n}, 3 * static_cast<double>(n) + 3, random);
      set(a, n * n + (n - 1) * (n + 1), Wide(-1));  // The last pivot of the second matrix.
      set(a, 2 * n * n + (n / 2) * (n + 1), Wide(0));
      const Buffer l = compute("cholesky", {}, {a}, false).kernel[0];
      for (std::int64_t number = 0; number < 4; ++number) {
        const Dense factor = dense(l, number, n, n);
        const bool is_definite = number == 0 || number == 3;
        for (std::int64_t i = 0; i < n; ++i) {
          for (std::int64_t j = 0; j < n; ++j) {
            if (j > i) {
              EXPECT_EQ(factor(i, j), 0.0) << name_of(dtype, n, n);
            } else {
              EXPECT_EQ(std::isnan(factor(i, j).real()), !is_definite) << name_of(dtype, n, n);
            }
          }
        }
      }
    }
  }
}

void check_triangular_solve(Dtype dtype, std::int64_t n, std::int64_t sides, Way way, std::mt19937_64& random) {
  for (const bool lower : {false, true}) {
    for (const bool unit : {false, true}) {
      const std::string what = fmt::format("{} {} {}", name_of(dtype, n, sides), lower, unit);
      // What does not count is NaN; elements besides the diagonal are small, so that errors stay so.
      const Buffer a = filled(dtype, {2, n, n}, [&](std::int64_t i, std::int64_t j) -> Wide {
        const Wide drawn = normal(dtype, random);
        if (i == j) return unit ? Wide(kNaNs) : drawn + Wide(drawn.real() < 0 ? -3 : 3);
        return (i > j) == lower ? drawn / static_cast<double>(n) : Wide(kNaNs);
      });
      const Buffer b = any_matrices(dtype, {2, n, sides}, random);
      const Results results =
          compute("triangular_solve", {{"lower", lower}, {"unit_diagonal", unit}}, {a, b}, true, way);
      for (std::int64_t number = 0; number < 2; ++number) {
        Dense triangle = dense(a, number, n, n);
        for (std::int64_t i = 0; i < n; ++i) {
          if (unit) triangle(i, i) = 1;
          for (std::int64_t j = 0; j < n; ++j) {
            if (i != j && (i > j) != lower) triangle(i, j) = 0;
          }
        }
        const Dense x = dense(results.kernel[0], number, n, sides);
        expect_close(triangle * x, dense(b, number, n, sides), tolerance_of(dtype, n), what);
        expect_close(x, dense(results.reference[0], number, n, sides), tolerance_of(dtype, n), what);
      }
    }
  }
}

TEST(Decompositions, TriangularSolveSolves) {
  std::mt19937_64 random(3);
  for (const Dtype dtype : kDtypes) {
    for (const auto& [n, sides] : rectangles()) check_triangular_solve(dtype, n, sides, Way::kKernel, random);
  }
}

TEST(Decompositions, RightSidesHaveNothingToDoWithEachOther) {
  std::mt19937_64 random(4);
  for (const Dtype dtype : kDtypes) {
    for (const std::int64_t n : {3, 32, 33, 150}) {
      const Buffer a = filled(dtype, {1, n, n}, [&](std::int64_t i, std::int64_t j) -> Wide {
        return i == j ? Wide(2) : normal(dtype, random) / static_cast<double>(n);
      });
      Buffer b = any_matrices(dtype, {1, n, 5}, random);
      set(b, 2, Wide(kNaNs));
      set(b, 3, Wide(kInfinity));
      const Buffer x =
          compute("triangular_solve", {{"lower", true}, {"unit_diagonal", false}}, {a, b}, false).kernel[0];
      const Dense solution = dense(x, 0, n, 5);
      for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t j = 0; j < 5; ++j) {
          EXPECT_EQ(std::isfinite(solution(i, j).real()), j != 2 && j != 3) << name_of(dtype, n, 5);
        }
      }
    }
  }
}

void check_lu(const Buffer& a, const Results& results, std::int64_t number, std::int64_t m, std::int64_t n) {
  const Dtype dtype = a.dtype();
  const std::string what = name_of(dtype, m, n);
  const std::int64_t k = std::min(m, n);
  const Dense factors = dense(results.kernel[0], number, m, n);
  const Dense permutation = dense(results.kernel[2], number, m, 1);
  const Dense pivots = dense(results.kernel[1], number, k, 1);
  Dense l(m, k), u(k, n), exchanged(m, n);
  const Dense matrix = dense(a, number, m, n);
  std::vector<std::int64_t> order(static_cast<std::size_t>(m));
  std::iota(order.begin(), order.end(), 0);
  for (std::int64_t i = 0; i < k; ++i) {
    std::swap(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(pivots(i, 0).real())]);
  }
  for (std::int64_t i = 0; i < m; ++i) {
    EXPECT_EQ(static_cast<double>(order[static_cast<std::size_t>(i)]), permutation(i, 0).real()) << what;
    for (std::int64_t j = 0; j < n; ++j) {
      exchanged(i, j) = matrix(order[static_cast<std::size_t>(i)], j);
      if (j < std::min(i, k)) {
        l(i, j) = factors(i, j);
        EXPECT_LE(std::abs(l(i, j)), is_complex(dtype) ? 1.4143 : 1.0001) << what;
      }
      if (j >= i && i < k) u(i, j) = factors(i, j);
    }
    if (i < k) l(i, i) = 1;
  }
  expect_close(l * u, exchanged, tolerance_of(dtype, k), what);
  if (results.reference.empty()) return;
  for (std::int64_t i = 0; i < k; ++i) {
    ASSERT_EQ(pivots(i, 0), dense(results.reference[1], number, k, 1)(i, 0)) << what << " pivot " << i;
  }
  expect_close(factors, dense(results.reference[0], number, m, n), 1000 * tolerance_of(dtype, k), what);
}

void check_lu(Dtype dtype, std::int64_t m, std::int64_t n, Way way, std::mt19937_64& random) {
  const Buffer a = any_matrices(dtype, {3, m, n}, random);
  const Results results = compute("lu", {}, {a}, std::min(m, n) <= kMostForReference, way);
  for (std::int64_t number = 0; number < 3; ++number) check_lu(a, results, number, m, n);
}

TEST(Decompositions, LuMakesTheMatrix) {
  std::mt19937_64 random(5);
  for (const Dtype dtype : kDtypes) {
    for (const auto& [m, n] : rectangles()) check_lu(dtype, m, n, Way::kKernel, random);
  }
}

TEST(Decompositions, LuOfSingularMatrices) {
  std::mt19937_64 random(6);
  for (const Dtype dtype : kDtypes) {
    for (const std::int64_t n : {1, 2, 3, 32, 33, 150}) {
      // Zeros; equal rows; a column of zeros.
      for (int kind = 0; kind < 3; ++kind) {
        const Wide same = normal(dtype, random);
        const Buffer a = filled(dtype, {1, n, n}, [&](std::int64_t i, std::int64_t j) -> Wide {
          if (kind == 0) return 0;
          if (kind == 1) return same + static_cast<double>(j);
          return j == n / 2 ? Wide(0) : i == j ? Wide(4) : normal(dtype, random);
        });
        check_lu(a, compute("lu", {}, {a}, kind != 1), 0, n, n);
      }
    }
  }
}

void check_qr(Dtype dtype, std::int64_t m, std::int64_t n, Way way, std::mt19937_64& random) {
  for (const bool full : {false, true}) {
    const std::string what = fmt::format("{} {}", name_of(dtype, m, n), full);
    const std::int64_t left = full ? m : std::min(m, n);
    const double tolerance = tolerance_of(dtype, std::max(m, n));
    const Buffer a = any_matrices(dtype, {3, m, n}, random);
    const Results results = compute("qr", {{"full", full}}, {a}, true, way);
    for (std::int64_t number = 0; number < 3; ++number) {
      const Dense q = dense(results.kernel[0], number, m, left);
      const Dense r = dense(results.kernel[1], number, left, n);
      const Dense reference = dense(results.reference[1], number, left, n);
      expect_close(q * r, dense(a, number, m, n), tolerance, what);
      expect_orthonormal_columns(q, tolerance, what);
      expect_close(r, reference, 100 * tolerance, what);
      for (std::int64_t i = 0; i < left; ++i) {
        for (std::int64_t j = 0; j < std::min(i, n); ++j) EXPECT_EQ(r(i, j), 0.0) << what;
        if (i >= std::min(m, n)) continue;
        EXPECT_EQ(r(i, i).imag(), 0) << what;
        EXPECT_GE(r(i, i).real() * reference(i, i).real(), 0) << what;
      }
    }
  }
}

TEST(Decompositions, QrMakesTheMatrix) {
  std::mt19937_64 random(7);
  for (const Dtype dtype : kDtypes) {
    for (const auto& [m, n] : rectangles()) check_qr(dtype, m, n, Way::kKernel, random);
  }
}

void check_eigh(Dtype dtype, std::int64_t n, Way way, std::mt19937_64& random) {
  const std::string what = name_of(dtype, n, n);
  const bool with_reference = n <= kMostForReference;
  const Buffer a = hermitian_matrices(dtype, {2, n, n}, 0, random);
  const Results results = compute("eigh", {}, {a}, with_reference, way);
  for (std::int64_t number = 0; number < 2; ++number) {
    const Dense values = dense(results.kernel[0], number, n, 1);
    const Dense vectors = dense(results.kernel[1], number, n, n);
    Dense scaled = vectors;
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j < n; ++j) scaled(i, j) *= values(j, 0);
    }
    expect_close(scaled * adjoint_of(vectors), hermitian(dense(a, number, n, n)), tolerance_of(dtype, n), what);
    expect_orthonormal_columns(vectors, tolerance_of(dtype, n), what);
    expect_descending(values, -1, what);
    if (with_reference) {
      expect_close(values, dense(results.reference[0], number, n, 1), tolerance_of(dtype, n), what);
    }
  }
}

TEST(Decompositions, EighMakesTheMatrix) {
  std::mt19937_64 random(8);
  for (const Dtype dtype : kDtypes) {
    for (const std::int64_t n : kSizes) check_eigh(dtype, n, Way::kKernel, random);
    check_eigh(dtype, 300, Way::kKernel, random);  // Several threads rotate its vectors.
  }
}

void check_svd(Dtype dtype, std::int64_t m, std::int64_t n, Way way, std::mt19937_64& random) {
  for (const bool full : {false, true}) {
    const std::string what = fmt::format("{} {}", name_of(dtype, m, n), full);
    const std::int64_t k = std::min(m, n);
    const std::int64_t left = full ? m : k;
    const std::int64_t right = full ? n : k;
    const double tolerance = tolerance_of(dtype, std::max(m, n));
    const Buffer a = any_matrices(dtype, {2, m, n}, random);
    const Results results = compute("svd", {{"full", full}}, {a}, k <= kMostForReference, way);
    for (std::int64_t number = 0; number < 2; ++number) {
      const Dense u = dense(results.kernel[0], number, m, left);
      const Dense s = dense(results.kernel[1], number, k, 1);
      const Dense vh = dense(results.kernel[2], number, right, n);
      Dense scaled(left, right);
      for (std::int64_t i = 0; i < k; ++i) {
        scaled(i, i) = s(i, 0);
        EXPECT_GE(s(i, 0).real(), 0) << what;
      }
      expect_close(u * scaled * vh, dense(a, number, m, n), tolerance, what);
      expect_orthonormal_columns(u, tolerance, what);
      expect_orthonormal_columns(adjoint_of(vh), tolerance, what);
      expect_descending(s, 1, what);
      if (k <= kMostForReference) {
        expect_close(s, dense(results.reference[1], number, k, 1), tolerance, what);
      }
    }
    const Attrs alone = {{"full", full}, {"values_only", true}};
    const Results values = compute("svd", alone, {a}, k <= kMostForReference, way);
    for (std::int64_t number = 0; number < 2; ++number) {
      const Dense s = dense(values.kernel[0], number, k, 1);
      expect_close(s, dense(results.kernel[1], number, k, 1), tolerance, what);
      if (k <= kMostForReference) expect_close(s, dense(values.reference[0], number, k, 1), tolerance, what);
    }
  }
}

TEST(Decompositions, SvdMakesTheMatrix) {
  std::mt19937_64 random(9);
  for (const Dtype dtype : kDtypes) {
    for (const auto& [m, n] : rectangles()) check_svd(dtype, m, n, Way::kKernel, random);
  }
}

void check_all(Dtype dtype, std::int64_t m, std::int64_t n, Way way, std::mt19937_64& random) {
  check_cholesky(dtype, m, way, random);
  check_triangular_solve(dtype, m, n, way, random);
  check_lu(dtype, m, n, way, random);
  check_qr(dtype, m, n, way, random);
  check_eigh(dtype, m, way, random);
  check_svd(dtype, m, n, way, random);
}

TEST(Decompositions, WithoutLapack) {
  std::mt19937_64 random(14);
  for (const Dtype dtype : kDtypes) {
    for (const auto& [m, n] : {std::pair{33, 33}, {33, 50}, {70, 40}}) {
      check_all(dtype, m, n, Way::kWithoutLapack, random);
    }
  }
}

TEST(Decompositions, OfEveryInstructionSet) {
  std::mt19937_64 random(15);
  for (const SimdLevel level : {SimdLevel::kBaseline, SimdLevel::kAvx2}) {
    limit_simd_level(level);
    for (const Dtype dtype : kDtypes) {
      for (const auto& [m, n] : {std::pair{1, 1}, {3, 3}, {6, 9}, {17, 5}, {32, 32}, {70, 70}}) {
        check_all(dtype, m, n, Way::kKernel, random);
      }
    }
  }
  limit_simd_level(SimdLevel::kAvx512);
}

// Matrices that are zero, of rank one, the identity, and very large and very small ones.
void check_special_matrices(std::initializer_list<std::int64_t> sizes, Way way) {
  for (const Dtype dtype : kDtypes) {
    const bool is_single = real_dtype(dtype) == Dtype::kF32;
    const double huge = is_single ? 1e37 : 1e307;
    const double tiny = is_single ? 1e-37 : 1e-305;
    for (const std::int64_t n : sizes) {
      const auto element = [&](int kind, std::int64_t i, std::int64_t j) -> double {
        const double product = 1 / (1.0 + static_cast<double>(i)) / (1.0 + static_cast<double>(j));
        const double any = std::cos(static_cast<double>(i * j + 3 * (i + j)));
        const double kinds[] = {0, product, i == j ? 1.0 : 0.0, huge * any / static_cast<double>(n), tiny * any};
        return kinds[kind];
      };
      for (int kind = 0; kind < 5; ++kind) {
        const std::string what = fmt::format("{} kind {}", name_of(dtype, n, n), kind);
        const double scale = kind == 3 ? huge : kind == 4 ? tiny : 1;
        const double tolerance = tolerance_of(dtype, n);
        const Buffer a =
            filled(dtype, {1, n, n}, [&](std::int64_t i, std::int64_t j) { return Wide(element(kind, i, j)); });
        Dense matrix = dense(a, 0, n, n);
        for (Wide& x : matrix.elements) x /= scale;
        const Results eigh = compute("eigh", {}, {a}, false, way);
        Dense vectors = dense(eigh.kernel[1], 0, n, n);
        expect_orthonormal_columns(vectors, tolerance, what);
        Dense product = vectors;
        for (std::int64_t i = 0; i < n * n; ++i) {
          product.elements[static_cast<std::size_t>(i)] *= dense(eigh.kernel[0], 0, n, 1)(i % n, 0) / scale;
        }
        expect_close(product * adjoint_of(vectors), matrix, tolerance, what + " eigh");
        const Results svd = compute("svd", {{"full", false}}, {a}, false, way);
        Dense u = dense(svd.kernel[0], 0, n, n);
        const Dense vh = dense(svd.kernel[2], 0, n, n);
        expect_orthonormal_columns(u, tolerance, what);
        expect_orthonormal_columns(adjoint_of(vh), tolerance, what);
        for (std::int64_t i = 0; i < n * n; ++i) {
          u.elements[static_cast<std::size_t>(i)] *= dense(svd.kernel[1], 0, n, 1)(i % n, 0) / scale;
        }
        expect_close(u * vh, matrix, tolerance, what + " svd");
        const Results qr = compute("qr", {{"full", false}}, {a}, false, way);
        const Dense q = dense(qr.kernel[0], 0, n, n);
        Dense r = dense(qr.kernel[1], 0, n, n);
        for (Wide& x : r.elements) x /= scale;
        expect_orthonormal_columns(q, tolerance, what);
        expect_close(q * r, matrix, tolerance, what + " qr");
      }
    }
  }
}

TEST(Decompositions, SpecialMatrices) {
  check_special_matrices({1, 2, 3, 16, 32, 33, 100}, Way::kKernel);
  check_special_matrices({50, 100}, Way::kWithoutLapack);
}

// Whose root is taken, as for samples with this covariance: what rounding makes of 0 would be far from it.
TEST(Decompositions, SingularMatricesOfTwoRowsHaveAnEigenvalueOfZero) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kF64}) {
    const Buffer a = filled(dtype, {1, 2, 2}, [](std::int64_t, std::int64_t) { return Wide(1); });
    const Dense values = dense(compute("eigh", {}, {a}, false).kernel[0], 0, 2, 1);
    EXPECT_EQ(values(0, 0), 0.0);
    EXPECT_EQ(values(1, 0), 2.0);
  }
}

struct Case {
  std::string_view op;
  Attrs attrs;
};

const Case kCases[] = {{"cholesky", {}}, {"triangular_solve", {{"lower", true}, {"unit_diagonal", false}}},
                       {"lu", {}},       {"qr", {{"full", true}}},
                       {"eigh", {}},     {"svd", {{"full", true}}}};

std::vector<Buffer> operands_of(const Case& test, Dtype dtype, std::int64_t count, std::int64_t n,
                                std::mt19937_64& random) {
  const bool is_definite = test.op == "cholesky" || test.op == "triangular_solve";
  std::vector<Buffer> operands = {filled(dtype, {count, n, n}, [&](std::int64_t i, std::int64_t j) {
    return i == j ? Wide(normal(dtype, random).real() + (is_definite ? 3 * static_cast<double>(n) : 0))
                  : normal(dtype, random);
  })};
  if (test.op == "triangular_solve") operands.push_back(any_matrices(dtype, {count, n, 3}, random));
  return operands;
}

// A copy of one matrix of each of some buffers, as a batch of `count` matrices of which it is the one at `at`; the
// others are those of `rest`.
std::vector<Buffer> with_matrix(const std::vector<Buffer>& from, std::int64_t number, const std::vector<Buffer>& rest,
                                std::int64_t at) {
  std::vector<Buffer> result;
  for (std::size_t k = 0; k < from.size(); ++k) {
    Buffer copy(host_space({}), rest[k].dtype(), rest[k].shape());
    const std::size_t bytes = rest[k].size_bytes() / static_cast<std::size_t>(rest[k].shape()[0]);
    std::memcpy(copy.mutable_data(), rest[k].data(), rest[k].size_bytes());
    std::memcpy(static_cast<std::byte*>(copy.mutable_data()) + static_cast<std::size_t>(at) * bytes,
                static_cast<const std::byte*>(from[k].data()) + static_cast<std::size_t>(number) * bytes, bytes);
    result.push_back(std::move(copy));
  }
  return result;
}

void expect_same_bits(const Buffer& a, std::int64_t number_of_a, const Buffer& b, std::int64_t number_of_b,
                      const std::string& what) {
  const std::size_t bytes = a.size_bytes() / static_cast<std::size_t>(a.shape()[0]);
  EXPECT_EQ(std::memcmp(static_cast<const std::byte*>(a.data()) + static_cast<std::size_t>(number_of_a) * bytes,
                        static_cast<const std::byte*>(b.data()) + static_cast<std::size_t>(number_of_b) * bytes, bytes),
            0)
      << what;
}

// What is computed of a matrix depends neither on its place in the batch nor on the other matrices.
TEST(Decompositions, SameBitsWhereverAMatrixLies) {
  std::mt19937_64 random(10);
  for (const Dtype dtype : kDtypes) {
    for (const std::int64_t n : {1, 3, 5, 17, 32, 33, 70, 129}) {
      const std::int64_t count = n <= 32 ? 37 : 3;
      for (const Case& test : kCases) {
        const std::vector<Buffer> all = operands_of(test, dtype, count, n, random);
        const std::vector<Buffer> results = compute(test.op, test.attrs, all, false).kernel;
        const std::vector<Buffer> others = operands_of(test, dtype, 2, n, random);
        for (const std::int64_t number : {std::int64_t{0}, count / 2, count - 1}) {
          const std::vector<Buffer> again =
              compute(test.op, test.attrs, with_matrix(all, number, others, 1), false).kernel;
          for (std::size_t k = 0; k < results.size(); ++k) {
            expect_same_bits(results[k], number, again[k], 1, fmt::format("{} {}", test.op, name_of(dtype, n, n)));
          }
        }
      }
    }
  }
}

TEST(Decompositions, WhatIsNotFiniteGivesNaNForItsMatrixAlone) {
  std::mt19937_64 random(11);
  for (const Dtype dtype : kDtypes) {
    for (const std::int64_t n : {1, 3, 32, 33, 129}) {
      for (const Case& test : kCases) {
        if (test.op == "triangular_solve") continue;
        for (const double bad : {kNaNs, kInfinity, -kInfinity}) {
          const std::string what = fmt::format("{} {} {}", test.op, name_of(dtype, n, n), bad);
          const std::vector<Buffer> fine = operands_of(test, dtype, 3, n, random);
          std::vector<Buffer> broken = with_matrix(fine, 0, fine, 0);
          set(broken[0], n * n + (n - 1) * n + n / 2, Wide(bad));
          const std::vector<Buffer> expected = compute(test.op, test.attrs, fine, false).kernel;
          const Results results = compute(test.op, test.attrs, broken, n <= 3);
          const std::vector<Buffer>& got = results.kernel;
          for (std::size_t k = 0; k < got.size(); ++k) {
            for (const std::int64_t number : {0, 2}) expect_same_bits(got[k], number, expected[k], number, what);
            if (is_integer(got[k].dtype())) continue;
            const std::int64_t each = num_elements(got[k].shape()) / 3;
            Dense result = dense(got[k], 1, each, 1);
            if (test.op == "cholesky" || (test.op == "qr" && k == 1)) {
              // The other triangle is zero.
              for (std::int64_t i = 0; i < each; ++i) {
                const bool is_lower = i % n <= i / n;
                const bool is_upper = i % n >= i / n;
                const bool counts = test.op == "cholesky" ? is_lower : is_upper;
                if (counts) continue;
                EXPECT_EQ(result(i, 0), 0.0) << what;
                result(i, 0) = kNaNs;
              }
            }
            EXPECT_TRUE(all_are_nan(result)) << what << " result " << k;
            if (results.reference.empty()) continue;
            const Dense reference = dense(results.reference[k], 1, each, 1);
            for (std::int64_t i = 0; i < each; ++i) {
              EXPECT_EQ(std::isnan(reference(i, 0).real()), std::isnan(dense(got[k], 1, each, 1)(i, 0).real())) << what;
            }
          }
        }
      }
    }
  }
}

// Tiles, and what divides a matrix, are computed by whichever thread comes.
TEST(Decompositions, SameBitsWithAnyNumberOfThreads) {
  std::mt19937_64 random(12);
  for (const Dtype dtype : kDtypes) {
    for (const std::int64_t n : {5, 100, 300, 700}) {
      for (const Case& test : kCases) {
        if (n == 700 && (test.op == "eigh" || test.op == "svd")) continue;
        const std::vector<Buffer> operands = operands_of(test, dtype, n >= 300 ? 1 : 20, n, random);
        const std::vector<Buffer> outside = compute(test.op, test.attrs, operands, false).kernel;
        // Within an iteration of a pool all loops run inline.
        std::vector<Buffer> inside;
        ThreadPool alone(2);
        alone.parallel_for(2, [&](std::int64_t i) {
          if (i == 0) inside = compute(test.op, test.attrs, operands, false).kernel;
        });
        for (std::size_t k = 0; k < outside.size(); ++k) {
          for (std::int64_t number = 0; number < outside[k].shape()[0]; ++number) {
            expect_same_bits(outside[k], number, inside[k], number,
                             fmt::format("{} {}", test.op, name_of(dtype, n, n)));
          }
        }
      }
    }
  }
}

TEST(Decompositions, BatchesOfNothing) {
  for (const Case& test : kCases) {
    std::mt19937_64 random(13);
    for (const std::int64_t n : {4, 40}) {
      const std::vector<Buffer> results =
          compute(test.op, test.attrs, operands_of(test, Dtype::kF32, 0, n, random), true).kernel;
      for (const Buffer& result : results) EXPECT_EQ(num_elements(result.shape()), 0);
    }
  }
}

// ---- What LAPACK alone computes

Dense diagonal_of_column(const Dense& w) {
  Dense result(w.rows, w.rows);
  for (std::int64_t i = 0; i < w.rows; ++i) result(i, i) = w(i, 0);
  return result;
}

TEST(Decompositions, HessenbergMakesTheMatrix) {
  std::mt19937_64 random(31);
  for (const Dtype dtype : kDtypes) {
    for (const std::int64_t n : kSizes) {
      if (n < 2) continue;
      const std::string what = name_of(dtype, n, n);
      const Buffer a = any_matrices(dtype, {2, n, n}, random);
      const Results results = compute("hessenberg", {}, {a}, n <= kMostForReference);
      for (std::int64_t number = 0; number < 2; ++number) {
        Dense h = dense(results.kernel[0], number, n, n);
        Buffer reflections =
            filled(dtype, {1, n - 1, n - 1}, [&](std::int64_t i, std::int64_t j) { return h(i + 1, j); });
        Buffer factors = filled(dtype, {1, n - 1}, [&](std::int64_t, std::int64_t j) {
          return dense(results.kernel[1], number, n - 1, 1)(j, 0);
        });
        const Dense inner =
            dense(compute("householder_product", {}, {reflections, factors}, false).kernel[0], 0, n - 1, n - 1);
        Dense q = identity(n);
        for (std::int64_t i = 1; i < n; ++i) {
          for (std::int64_t j = 1; j < n; ++j) q(i, j) = inner(i - 1, j - 1);
          for (std::int64_t j = 0; j + 1 < i; ++j) h(i, j) = 0;
        }
        expect_orthonormal_columns(q, tolerance_of(dtype, n), what);
        expect_close(q * h * adjoint_of(q), dense(a, number, n, n), tolerance_of(dtype, n), what);
      }
    }
  }
}

TEST(Decompositions, ProductsOfReflectionsAreThoseOfTheReference) {
  std::mt19937_64 random(32);
  for (const Dtype dtype : kDtypes) {
    for (const auto& [m, n, k] : {std::tuple<std::int64_t, std::int64_t, std::int64_t>{5, 3, 2},
                                  {40, 33, 33},
                                  {6, 6, 0},
                                  {3, 0, 0},
                                  {64, 20, 20}}) {
      const Buffer a = any_matrices(dtype, {2, m, n}, random);
      const Buffer factors =
          filled(dtype, {2, k}, [&](std::int64_t, std::int64_t) { return 0.1 * normal(dtype, random); });
      const Results results = compute("householder_product", {}, {a, factors}, true);
      for (std::int64_t number = 0; number < 2; ++number) {
        const Dense want = dense(results.reference[0], number, m, n);
        expect_close(dense(results.kernel[0], number, m, n), want, 10 * tolerance_of(dtype, m), name_of(dtype, m, n));
      }
    }
  }
}

TEST(Decompositions, SchurMakesTheMatrix) {
  std::mt19937_64 random(33);
  for (const Dtype dtype : kDtypes) {
    for (const std::int64_t n : kSizes) {
      const std::string what = name_of(dtype, n, n);
      const Buffer a = any_matrices(dtype, {2, n, n}, random);
      const Results results = compute("schur", {}, {a}, false);
      for (std::int64_t number = 0; number < 2; ++number) {
        const Dense t = dense(results.kernel[0], number, n, n);
        const Dense q = dense(results.kernel[1], number, n, n);
        expect_orthonormal_columns(q, tolerance_of(dtype, n), what);
        expect_close(q * t * adjoint_of(q), dense(a, number, n, n), tolerance_of(dtype, n), what);
        for (std::int64_t i = 0; i < n; ++i) {
          const std::int64_t zeros = is_complex(dtype) ? i : i - 1;
          for (std::int64_t j = 0; j < zeros; ++j) EXPECT_EQ(t(i, j), 0.0) << what;
        }
      }
    }
  }
}

TEST(Decompositions, EigenvectorsDiagonaliseTheMatrix) {
  std::mt19937_64 random(34);
  for (const Dtype dtype : kDtypes) {
    for (const std::int64_t n : kSizes) {
      const std::string what = name_of(dtype, n, n);
      const Buffer a = any_matrices(dtype, {2, n, n}, random);
      const auto attrs = [](bool left, bool right) {
        return Attrs{{"left", left}, {"right", right}, {"differentiable", false}};
      };
      const std::vector<Buffer> all = compute("eig", attrs(true, true), {a}, false).kernel;
      const std::vector<Buffer> values = compute("eig", attrs(false, false), {a}, false).kernel;
      const std::vector<Buffer> left = compute("eig", attrs(true, false), {a}, false).kernel;
      for (std::int64_t number = 0; number < 2; ++number) {
        const Dense given = dense(a, number, n, n);
        const Dense w = dense(all[0], number, n, 1);
        const Dense u = dense(all[1], number, n, n);
        const Dense v = dense(all[2], number, n, n);
        const double tolerance = 10 * tolerance_of(dtype, n);
        expect_close(given * v, v * diagonal_of_column(w), tolerance, what);
        expect_close(adjoint_of(u) * given, diagonal_of_column(w) * adjoint_of(u), tolerance, what);
        expect_close(u, dense(left[1], number, n, n), tolerance, what);
        // Without vectors LAPACK may find them in another order: their sum is the trace, and that of squares, too.
        Wide sum = 0;
        Wide trace = 0;
        const Dense alone = dense(values[0], number, n, 1);
        for (std::int64_t i = 0; i < n; ++i) {
          sum += alone(i, 0);
          trace += given(i, i);
        }
        EXPECT_LE(std::abs(sum - trace), tolerance * std::max(1.0, size_of_matrix(given))) << what;
      }
    }
  }
}

TEST(Decompositions, OfGeneralMatricesThatAreNotFiniteAreNaN) {
  std::mt19937_64 random(35);
  const Attrs both{{"left", true}, {"right", true}, {"differentiable", false}};
  for (const Dtype dtype : kDtypes) {
    for (const double bad : {kNaNs, kInfinity}) {
      Buffer a = any_matrices(dtype, {2, 5, 5}, random);
      set(a, 7, Wide(bad));
      for (const auto& [op, attrs] :
           std::vector<std::pair<std::string_view, Attrs>>{{"hessenberg", {}}, {"schur", {}}, {"eig", both}}) {
        for (const Buffer& result : compute(op, attrs, {a}, false).kernel) {
          const std::int64_t count = num_elements(result.shape()) / 2;
          EXPECT_TRUE(all_are_nan(dense(result, 0, count, 1))) << op;
          EXPECT_FALSE(all_are_nan(dense(result, 1, count, 1))) << op;
        }
      }
    }
  }
}

}  // namespace
}  // namespace shoal::cpu
