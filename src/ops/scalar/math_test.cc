// Accuracy and special values of the mathematical functions. Each accuracy test prints the largest error found.
#include "ops/scalar/math.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <iterator>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "ops/scalar/core_ops.h"
#include "ops/scalar/interpret.h"
#include "shoal/error.h"

namespace shoal::scalar {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

using Unary = Expr (*)(Expr);
using Binary = Expr (*)(Expr, Expr);

template <class R, class T>
std::vector<R> evaluate(const Body& body, const std::vector<T>& x) {
  std::vector<R> result(x.size());
  const void* inputs[] = {x.data()};
  const std::int64_t strides[] = {1};
  interpret(body, inputs, strides, result.data(), static_cast<std::int64_t>(x.size()));
  return result;
}

template <class R, class T>
std::vector<R> evaluate(const Body& body, const std::vector<T>& x, const std::vector<T>& y) {
  std::vector<R> result(x.size());
  const void* inputs[] = {x.data(), y.data()};
  const std::int64_t strides[] = {1, 1};
  interpret(body, inputs, strides, result.data(), static_cast<std::int64_t>(x.size()));
  return result;
}

template <class T>
std::vector<T> apply(Unary function, const std::vector<T>& x) {
  return evaluate<T>(make_body({dtype_of<T>()}, [=](auto in) { return function(in[0]); }), x);
}

template <class T>
std::vector<T> apply(Binary function, const std::vector<T>& x, const std::vector<T>& y) {
  return evaluate<T>(make_body({dtype_of<T>(), dtype_of<T>()}, [=](auto in) { return function(in[0], in[1]); }), x, y);
}

template <class T>
T apply_one(Unary function, double x) {
  return apply<T>(function, std::vector<T>{core_ops::convert<T>(x)})[0];
}

template <class T>
T apply_one(Binary function, double x, double y) {
  return apply<T>(function, std::vector<T>{core_ops::convert<T>(x)}, std::vector<T>{core_ops::convert<T>(y)})[0];
}

// The format of a float type.
template <class T>
struct Format {
  static constexpr int kDigits = std::numeric_limits<T>::digits;
  static constexpr int kMinExponent = std::numeric_limits<T>::min_exponent - 1;
  static constexpr int kMaxExponent = std::numeric_limits<T>::max_exponent - 1;
};
template <>
struct Format<float16_t> {
  static constexpr int kDigits = 11;
  static constexpr int kMinExponent = -14;
  static constexpr int kMaxExponent = 15;
};
template <>
struct Format<bfloat16_t> {
  static constexpr int kDigits = 8;
  static constexpr int kMinExponent = -126;
  static constexpr int kMaxExponent = 127;
};

// Infinities count as the power of two after the largest number.
template <class T>
long double without_infinity(long double value) {
  const long double beyond = std::ldexp(1.0L, Format<T>::kMaxExponent + 1);
  return std::abs(value) > beyond ? std::copysign(beyond, value) : value;
}

// The distance of a result to the true value, in units in the last place of the true value.
template <class T>
double ulp_error(T got, long double expected) {
  const auto value = static_cast<long double>(static_cast<double>(got));
  if (std::isnan(expected)) return std::isnan(value) ? 0 : kInf;
  if (std::isnan(value)) return kInf;
  if (expected == 0) return value == 0 && std::signbit(value) == std::signbit(expected) ? 0 : kInf;
  const long double reference = without_infinity<T>(expected);
  const int exponent = std::clamp(std::ilogb(reference), Format<T>::kMinExponent, Format<T>::kMaxExponent);
  const long double ulp = std::ldexp(1.0L, exponent - Format<T>::kDigits + 1);
  return static_cast<double>(std::abs(without_infinity<T>(value) - reference) / ulp);
}

template <class T>
void expect_accurate(const char* name, const std::vector<T>& got, double bound,
                     const std::function<long double(std::size_t)>& expected,
                     const std::function<std::string(std::size_t)>& describe) {
  double worst = 0;
  std::size_t where = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = ulp_error(got[i], expected(i));
    if (error > worst) {
      worst = error;
      where = i;
    }
  }
  std::cout << name << " " << short_name_of(dtype_of<T>()) << ": " << worst << " ulp at " << describe(where) << "\n";
  EXPECT_LE(worst, bound) << describe(where) << " got " << static_cast<double>(got[where]) << " expected "
                          << expected(where);
}

// Where the functions turn.
const std::vector<double> kSpecial = {0.0,       -0.0,     kInf,     -kInf,         kNaN,       1.0,
                                      -1.0,      0x1p-149, 0x1p-126, 1e-45,         -0x1p-1074, 0x1p-1022,
                                      0x1p-1074, 0x1p1023, -0x1p127, 0x1.fffffep127};

// Numbers of all exponents and signs, equally spaced in their representation, and a fine sweep of an interval.
std::vector<float> sweep_f32(double low, double high) {
  std::vector<float> x;
  for (const double special : kSpecial) x.push_back(static_cast<float>(special));
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 6151) {
    x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  constexpr int kCount = 300'000;
  for (int i = 0; i <= kCount; ++i) x.push_back(static_cast<float>(low + (high - low) * i / kCount));
  return x;
}

// Random numbers of all exponents and signs, and a fine sweep of an interval.
std::vector<double> sweep_f64(double low, double high) {
  std::vector<double> x = kSpecial;
  std::mt19937_64 random(1);
  for (int i = 0; i < 60'000; ++i) x.push_back(std::bit_cast<double>(random()));
  constexpr int kCount = 240'000;
  for (int i = 0; i <= kCount; ++i) x.push_back(low + (high - low) * i / kCount);
  return x;
}

long double exp2_ld(long double x) { return std::exp2(x); }
long double rsqrt_ld(long double x) { return 1 / std::sqrt(x); }
long double logistic_ld(long double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }

long double sinc_ld(long double x) {
  if (std::isinf(x)) return 0;  // The limit, as in JAX.
  if (x == 0) return 1;
  const long double pi = 3.14159265358979323846264338327950288L;
  const long double n = std::rint(x);
  const long double sine = std::sin(pi * (x - n));
  return (std::fmod(n, 2.0L) == 0 ? sine : -sine) / (pi * x) + 0.0L;  // A zero is positive.
}

long double erf_inv_ld(long double x) {
  const long double magnitude = std::abs(x);
  if (!(magnitude < 1)) return magnitude == 1 ? x * std::numeric_limits<long double>::infinity() : x * 0 / 0.0L;
  // Newton's iteration from the left, where it is monotonic; with the derivative of erf at 0 and then at y.
  const long double root_pi_half = 0.88622692545275801364908374167057259L;
  long double y =
      root_pi_half * (magnitude < 0.1L ? magnitude : std::sqrt(-std::log((1 - magnitude) * (1 + magnitude))));
  for (int step = 0; step < 14; ++step) {
    const long double residual = magnitude < 0.5L ? std::erf(y) - magnitude : (1 - magnitude) - std::erfc(y);
    y -= residual * root_pi_half * std::exp(y * y);
  }
  return std::copysign(y, x);
}

// A function, the truth, the interval of the fine sweep and the error that the header promises.
struct Case {
  const char* name;
  Unary function;
  long double (*expected)(long double);
  double low, high;
  double bound_f32, bound_f64;
};

const std::vector<Case> kCases = {
    {"exp", exp, std::exp, -110, 90, 1.7, 0.9},
    {"exp2", exp2, exp2_ld, -152, 130, 0.9, 1.2},
    {"expm1", expm1, std::expm1, -3, 3, 1.7, 1.7},
    {"log", log, std::log, 0.1, 10, 1, 0.65},
    {"log2", log2, std::log2, 0.1, 10, 0.75, 0.75},
    {"log1p", log1p, std::log1p, -1, 5, 1.6, 0.65},
    {"rsqrt", rsqrt, rsqrt_ld, 0.1, 10, 1.5, 1.5},
    {"tanh", tanh, std::tanh, -12, 12, 1.8, 2.5},
    {"logistic", logistic, logistic_ld, -100, 100, 1.9, 2.3},
    {"erf", erf, std::erf, -5, 5, 1.6, 1.0},
    {"sin", sin, std::sin, -50, 50, 1.6, 0.8},
    {"cos", cos, std::cos, -50, 50, 1.6, 0.8},
    {"tan", tan, std::tan, -50, 50, 2, 1.0},
    {"log10", log10, std::log10, 0.1, 10, 0.75, 0.75},
    {"cbrt", cbrt, std::cbrt, -10, 10, 0.51, 0.51},
    {"sinh", sinh, std::sinh, -4, 4, 2.1, 2.1},
    {"cosh", cosh, std::cosh, -4, 4, 1.6, 1.6},
    {"arcsinh", arcsinh, std::asinh, -10, 10, 2.5, 0.8},
    {"arccosh", arccosh, std::acosh, 1, 20, 2.2, 2},
    {"arctanh", arctanh, std::atanh, -1, 1, 0.8, 0.8},
    {"arcsin", arcsin, std::asin, -1, 1, 2.5, 0.8},
    {"arccos", arccos, std::acos, -1, 1, 2.5, 0.8},
    {"arctan", arctan, std::atan, -5, 5, 2.5, 1.6},
    {"sinc", sinc, sinc_ld, -20, 20, 4, 0.8},
    {"erfc", erfc, std::erfc, -6, 27, 4, 4},
    {"erf_inv", erf_inv, erf_inv_ld, -1, 1, 4, 4},
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class Accuracy : public testing::TestWithParam<Case> {
 protected:
  template <class T>
  void expect(const std::vector<T>& x, double bound) {
    const Case& c = GetParam();
    expect_accurate<T>(
        c.name, apply<T>(c.function, x), bound,
        [&](std::size_t i) { return c.expected(static_cast<long double>(static_cast<double>(x[i]))); },
        [&](std::size_t i) { return fmt::format("{:a}", static_cast<double>(x[i])); });
  }

  template <class T>
  void expect_for_all_16_bits() {
    std::vector<T> x(65536);
    for (std::size_t i = 0; i < x.size(); ++i) x[i].bits = static_cast<std::uint16_t>(i);
    expect(x, 0.501);
  }
};

TEST_P(Accuracy, F32) { expect(sweep_f32(GetParam().low, GetParam().high), GetParam().bound_f32); }
TEST_P(Accuracy, F64) { expect(sweep_f64(GetParam().low, GetParam().high), GetParam().bound_f64); }
TEST_P(Accuracy, F16) { expect_for_all_16_bits<float16_t>(); }
TEST_P(Accuracy, BF16) { expect_for_all_16_bits<bfloat16_t>(); }

INSTANTIATE_TEST_SUITE_P(Functions, Accuracy, testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

template <class T>
void expect_quick_erf_inv(double bound) {
  std::vector<T> x;
  for (int i = -990; i <= 990; ++i) x.push_back(static_cast<T>(i / 1000.0));
  expect_accurate<T>(
      "quick_erf_inv", apply<T>(quick_erf_inv, x), bound,
      [&](std::size_t i) { return erf_inv_ld(static_cast<long double>(x[i])); },
      [&](std::size_t i) { return fmt::format("{:a}", x[i]); });
  const std::vector<T> ends = apply<T>(quick_erf_inv, std::vector<T>{1, -1, 1.5, 0, -0.0});
  EXPECT_EQ(ends[0], std::numeric_limits<T>::infinity());
  EXPECT_EQ(ends[1], -std::numeric_limits<T>::infinity());
  EXPECT_TRUE(std::isnan(ends[2]));
  EXPECT_EQ(ends[3], 0);
  EXPECT_TRUE(std::signbit(ends[4]));
}

TEST(QuickErfInv, IsAccurateAwayFromOne) {
  expect_quick_erf_inv<float>(4);
  expect_quick_erf_inv<double>(4);
}

template <class T>
void expect_quick_functions(double bound_log1p, double bound_erf) {
  std::vector<T> x;
  for (int i = 1; i <= 4000; ++i) x.push_back(static_cast<T>(i / 1000.0));
  const auto compare = [&](const char* name, Expr (*function)(Expr), double bound, const std::vector<T>& at,
                           long double (*exact)(long double)) {
    expect_accurate<T>(
        name, apply<T>(function, at), bound, [&](std::size_t i) { return exact(static_cast<long double>(at[i])); },
        [&](std::size_t i) { return fmt::format("{:a}", at[i]); });
  };
  std::vector<T> both;
  for (const T one : x) both.insert(both.end(), {one / 8, -one / 4 * static_cast<T>(0.9999)});
  compare("quick_log", quick_log, 1.1, x, [](long double v) { return std::log(v); });
  compare("quick_log1p", quick_log1p, bound_log1p, both, [](long double v) { return std::log1p(v); });
  compare("quick_erf", quick_erf, bound_erf, both, [](long double v) { return std::erf(v); });
  constexpr T kInfinite = std::numeric_limits<T>::infinity();
  const std::vector<T> ends = apply<T>(quick_log, std::vector<T>{0, -1, kInfinite, 1});
  EXPECT_EQ(ends[0], -kInfinite);
  EXPECT_TRUE(std::isnan(ends[1]));
  EXPECT_EQ(ends[2], kInfinite);
  EXPECT_EQ(ends[3], 0);
  EXPECT_EQ(apply<T>(quick_log1p, std::vector<T>{-1})[0], -kInfinite);
  EXPECT_EQ(apply<T>(quick_erf, std::vector<T>{9})[0], 1);
}

TEST(QuickFunctions, AreAccurate) {
  expect_quick_functions<float>(2.5, 3.1);
  expect_quick_functions<double>(0.65, 1);
}

struct Golden {
  std::string_view function;
  double x, y;
  long double value;
};

const std::vector<Golden> kGolden = {
#include "ops/scalar/golden.inc"
};

std::vector<Golden> golden_rows(std::string_view function) {
  std::vector<Golden> rows;
  std::copy_if(kGolden.begin(), kGolden.end(), std::back_inserter(rows),
               [&](const Golden& row) { return row.function == function; });
  return rows;
}

TEST(Golden, UnaryFunctions) {
  for (const Case& c : kCases) {
    const std::vector<Golden> rows = golden_rows(c.name);
    ASSERT_GT(rows.size(), 100U) << c.name;
    std::vector<double> x;
    for (const Golden& row : rows) x.push_back(row.x);
    expect_accurate<double>(
        c.name, apply<double>(c.function, x), c.bound_f64, [&](std::size_t i) { return rows[i].value; },
        [&](std::size_t i) { return fmt::format("{:a}", x[i]); });
  }
}

// Of functions with zeros next to which nothing but their absolute error is small.
TEST(Golden, GammaFunctions) {
  for (const auto& [name, function, bound] :
       {std::tuple("lgamma", Unary(lgamma), 6.0), std::tuple("digamma", Unary(digamma), 8.0)}) {
    const std::vector<Golden> rows = golden_rows(name);
    ASSERT_GT(rows.size(), 100U) << name;
    double worst = 0;
    for (const Golden& row : rows) {
      const bool relative = name == std::string_view("lgamma") && row.x > 0;
      const long double size = relative ? std::abs(row.value) : std::max(std::abs(row.value), 1.0L);
      const double error = static_cast<double>(std::abs(apply_one<double>(function, row.x) - row.value) /
                                               std::ldexp(1.0L, std::ilogb(size) - 52));
      EXPECT_LE(error, bound) << name << ' ' << row.x;
      worst = std::max(worst, error);
      const float single = static_cast<float>(row.x);
      if (row.x == static_cast<double>(single)) {
        EXPECT_LE(std::abs(apply_one<float>(function, row.x) - row.value), 5 * std::ldexp(1.0L, std::ilogb(size) - 23));
      }
    }
    std::cout << name << ": " << worst << " ulp\n";
  }
  EXPECT_EQ(apply_one<float>(lgamma, -0.0), kInf);
  EXPECT_EQ(apply_one<float>(lgamma, -3), kInf);
  EXPECT_EQ(apply_one<float>(lgamma, -kInf), kInf);
  EXPECT_EQ(apply_one<float>(lgamma, kInf), kInf);
  EXPECT_EQ(apply_one<float>(lgamma, 2), 0);
  EXPECT_TRUE(std::isnan(apply_one<float>(lgamma, kNaN)));
  EXPECT_EQ(apply_one<float>(digamma, 0), -kInf);
  EXPECT_EQ(apply_one<float>(digamma, -0.0), kInf);
  EXPECT_TRUE(std::isnan(apply_one<float>(digamma, -2)));
  EXPECT_EQ(apply_one<float>(digamma, kInf), kInf);
}

TEST(Golden, BinaryFunctions) {
  for (const auto& [name, function] : {std::pair("arctan2", Binary(arctan2)), std::pair("hypot", Binary(hypot))}) {
    const std::vector<Golden> rows = golden_rows(name);
    ASSERT_GT(rows.size(), 100U) << name;
    std::vector<double> x;
    std::vector<double> y;
    for (const Golden& row : rows) {
      x.push_back(row.x);
      y.push_back(row.y);
    }
    expect_accurate<double>(
        name, apply<double>(function, x, y), 1.3, [&](std::size_t i) { return rows[i].value; },
        [&](std::size_t i) { return fmt::format("{:a}, {:a}", x[i], y[i]); });
  }
}

// The points are exact in f32.
struct SpecialCase {
  std::string_view name;
  std::function<Expr(std::span<const Expr>)> function;
  double bound_f32;
  double bound_f64;
  double least_size = 0;  // Errors are in ulp of it where the result is smaller.
};

template <class T>
double worst_error(const SpecialCase& c, const std::vector<Golden>& rows) {
  std::vector<T> x;
  std::vector<T> y;
  for (const Golden& row : rows) {
    x.push_back(static_cast<T>(row.x));
    y.push_back(static_cast<T>(row.y));
  }
  const std::vector<T> got = evaluate<T>(make_body({dtype_of<T>(), dtype_of<T>()}, c.function), x, y);
  double worst = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const long double size = std::max(std::abs(rows[i].value), static_cast<long double>(c.least_size));
    const long double ulp = std::ldexp(1.0L, std::ilogb(size) - Format<T>::kDigits + 1);
    const double error = static_cast<double>(std::abs(got[i] - rows[i].value) / ulp);
    EXPECT_LE(error, sizeof(T) == 4 ? c.bound_f32 : c.bound_f64) << c.name << ' ' << x[i] << ", " << y[i];
    worst = std::max(worst, error);
  }
  return worst;
}

TEST(Golden, SpecialFunctions) {
  const auto unary = [](Unary f) { return [f](std::span<const Expr> in) { return f(in[0]); }; };
  const auto binary = [](Binary f) { return [f](std::span<const Expr> in) { return f(in[0], in[1]); }; };
  const std::vector<SpecialCase> cases = {
      {"bessel_i0", unary(bessel_i0), 4, 4},
      {"bessel_i1", unary(bessel_i1), 4, 4},
      {"bessel_i0e", unary(bessel_i0e), 4, 4},
      {"bessel_i1e", unary(bessel_i1e), 4, 4},
      {"erfcx", unary(erfcx), 4, 4},
      {"erfc_inv", unary(erfc_inv), 4, 4},
      {"ndtr", unary(ndtr), 4, 4},
      {"log_ndtr", unary(log_ndtr), 4, 4},
      {"dawsn", unary(dawsn), 4, 4},
      {"spence", unary(spence), 4, 4, 1},
      {"expi", unary(expi), 0.6, 16, 1},
      {"expn", binary(expn), 0.6, 16},
      {"zeta", binary(zeta), 0.6, 16},
      {"igamma", binary(igamma), 0.6, 500},
      {"igammac", binary(igammac), 0.6, 500},
      {"igamma_grad_a", binary(igamma_grad_a), 0.6, 64, 1},
  };
  for (const SpecialCase& c : cases) {
    const std::vector<Golden> rows = golden_rows(c.name);
    ASSERT_GE(rows.size(), 60U) << c.name;
    const double of_f32 = worst_error<float>(c, rows);
    std::cout << c.name << ": " << of_f32 << " and " << worst_error<double>(c, rows) << " ulp\n";
  }
}

// At the ends of domains, as SciPy has it.
TEST(SpecialValues, OfSpecialFunctions) {
  EXPECT_EQ(apply_one<float>(bessel_i0, 0), 1);
  EXPECT_EQ(apply_one<float>(bessel_i0, -kInf), kInf);
  EXPECT_EQ(apply_one<double>(bessel_i1, -kInf), -kInf);
  EXPECT_EQ(apply_one<double>(bessel_i0e, kInf), 0);
  EXPECT_TRUE(std::signbit(apply_one<float>(bessel_i1e, -0.0)));
  EXPECT_EQ(apply_one<float>(erfcx, kInf), 0);
  EXPECT_EQ(apply_one<float>(erfcx, -kInf), kInf);
  EXPECT_EQ(apply_one<float>(erfc_inv, 0), kInf);
  EXPECT_EQ(apply_one<double>(erfc_inv, 2), -kInf);
  EXPECT_EQ(apply_one<double>(erfc_inv, 1), 0);
  EXPECT_TRUE(std::isnan(apply_one<double>(erfc_inv, -1)));
  EXPECT_EQ(apply_one<float>(ndtr, -kInf), 0);
  EXPECT_EQ(apply_one<float>(ndtr, kInf), 1);
  EXPECT_EQ(apply_one<float>(log_ndtr, -kInf), -kInf);
  EXPECT_EQ(apply_one<float>(log_ndtr, kInf), 0);
  EXPECT_EQ(apply_one<double>(dawsn, kInf), 0);
  EXPECT_EQ(apply_one<double>(expi, 0), -kInf);
  EXPECT_EQ(apply_one<double>(expi, kInf), kInf);
  EXPECT_EQ(apply_one<double>(expi, -kInf), 0);
  EXPECT_NEAR(apply_one<double>(spence, 0), 1.6449340668482264, 1e-15);
  EXPECT_EQ(apply_one<double>(spence, 1), 0);
  EXPECT_TRUE(std::isnan(apply_one<double>(spence, -1)));
  EXPECT_EQ(apply_one<double>(expn, 1, 0), kInf);
  EXPECT_EQ(apply_one<double>(expn, 3, 0), 0.5);
  EXPECT_EQ(apply_one<double>(expn, 3, kInf), 0);
  EXPECT_TRUE(std::isnan(apply_one<double>(expn, -1, 1)));
  EXPECT_EQ(apply_one<double>(zeta, 1, 3), kInf);
  EXPECT_EQ(apply_one<double>(zeta, 2, -3), kInf);
  EXPECT_TRUE(std::isnan(apply_one<double>(zeta, 0.5, 3)));
  EXPECT_EQ(apply_one<double>(zeta, kInf, 3), 0);
  EXPECT_EQ(apply_one<double>(igamma, 2, 0), 0);
  EXPECT_EQ(apply_one<double>(igamma, 2, kInf), 1);
  EXPECT_EQ(apply_one<double>(igamma, 0, 2), 1);
  EXPECT_EQ(apply_one<double>(igamma, kInf, 2), 0);
  EXPECT_EQ(apply_one<double>(igammac, 2, 0), 1);
  EXPECT_EQ(apply_one<double>(igammac, 2, kInf), 0);
  EXPECT_TRUE(std::isnan(apply_one<double>(igamma, -1, 2)));
  EXPECT_TRUE(std::isnan(apply_one<double>(igamma, 1, -2)));
  EXPECT_TRUE(std::isnan(apply_one<double>(igamma, kNaN, 2)));
  // Huge shapes, where the share is nearly that of a normal distribution.
  EXPECT_NEAR(apply_one<double>(igamma, 1e8, 1e8), 0.50001329807601, 1e-13);
}

TEST(Iterate, EndsForEachElementByItself) {
  // Halvings of x until it is below 1: they do not go on for one element because others need more.
  const Body body = make_body({float32}, [](auto in) {
    const auto goes_on = [](Iterated state) { return (state[0] >= 1) & (state[1] < 20); };
    const auto next = [](Iterated state) { return std::vector{state[0] * 0.5, state[1] + 1}; };
    return iterate({in[0], in[0].like(0)}, goes_on, next)[1];
  });
  EXPECT_EQ(
      evaluate<float>(body, std::vector<float>{0.5, 1, 3, 1000, static_cast<float>(kInf), static_cast<float>(kNaN)}),
      (std::vector<float>{0, 1, 2, 10, 20, 0}));
}

TEST(Iterate, IsNotSharedWithAnother) {
  const Body body = make_body({float32}, [](auto in) {
    const auto goes_on = [](Iterated state) { return state[0] < 4; };
    const Expr first = iterate({in[0]}, goes_on, [](Iterated state) { return std::vector{state[0] + 3}; })[0];
    return first + 100 * iterate({in[0]}, goes_on, [](Iterated state) { return std::vector{state[0] + 2}; })[0];
  });
  EXPECT_EQ(evaluate<float>(body, std::vector<float>{0, 5}), (std::vector<float>{406, 505}));
}

TEST(Golden, Pow) {
  const std::vector<Golden> rows = golden_rows("pow");
  ASSERT_GT(rows.size(), 200U);
  std::vector<double> x;
  std::vector<double> y;
  for (const Golden& row : rows) {
    x.push_back(row.x);
    y.push_back(row.y);
  }
  expect_accurate<double>(
      "pow", apply<double>(pow, x, y), 0.8, [&](std::size_t i) { return rows[i].value; },
      [&](std::size_t i) { return fmt::format("{:a}, {:a}", x[i], y[i]); });
}

TEST(Golden, Pio2Reduction) {
  const std::vector<Golden> high = golden_rows("pio2");
  const std::vector<Golden> low = golden_rows("pio2_low");
  ASSERT_GT(high.size(), 100U);
  ASSERT_EQ(high.size(), low.size());
  std::vector<double> x;
  for (const Golden& row : high) x.push_back(row.x);
  const auto quadrants = evaluate<std::int32_t>(make_body({float64}, [](auto in) { return pio2_quadrant(in[0]); }), x);
  const auto remainders = evaluate<double>(make_body({float64}, [](auto in) { return pio2_remainder(in[0]); }), x);
  const auto lows = evaluate<double>(make_body({float64}, [](auto in) { return pio2_remainder_low(in[0]); }), x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const long double error = (static_cast<long double>(remainders[i]) - high[i].value) + (lows[i] - low[i].value);
    EXPECT_LE(std::abs(error), 0x1p-64L * std::abs(high[i].value)) << fmt::format("{:a}", x[i]);
    EXPECT_EQ(quadrants[i], high[i].y) << fmt::format("{:a}", x[i]);
    EXPECT_LE(std::abs(lows[i]), 0x1p-53 * std::abs(remainders[i]));
  }
}

// Pairs whose powers have all magnitudes, and x near 1 with large y.
template <class T>
void power_operands(std::vector<T>& x, std::vector<T>& y) {
  std::mt19937_64 random(2);
  std::uniform_real_distribution<double> unit(-1, 1);
  const double max_exponent = std::numeric_limits<T>::max_exponent;
  for (int i = 0; i < 200'000; ++i) {
    const bool is_near_one = i % 2 == 0;
    const double base = is_near_one ? 1 + unit(random) * std::exp2(-20 * std::abs(unit(random)))
                                    : std::exp2((max_exponent - 1) * unit(random));
    if (base <= 0) continue;
    x.push_back(static_cast<T>(base));
    const double power = 1.2 * max_exponent * unit(random) / std::log2(static_cast<double>(x.back()));
    y.push_back(static_cast<T>(std::isfinite(power) ? power : 3));
  }
}

template <class T>
void expect_accurate_pow(double bound) {
  std::vector<T> x;
  std::vector<T> y;
  power_operands(x, y);
  expect_accurate<T>(
      "pow", apply<T>(pow, x, y), bound,
      [&](std::size_t i) { return std::pow(static_cast<long double>(x[i]), static_cast<long double>(y[i])); },
      [&](std::size_t i) { return fmt::format("{:a}, {:a}", x[i], y[i]); });
}

TEST(Pow, IsAccurate) {
  expect_accurate_pow<float>(0.51);
  expect_accurate_pow<double>(0.8);
}

template <class T>
void expect_special_powers() {
  const double largest = std::numeric_limits<T>::max();
  const double smallest = std::numeric_limits<T>::denorm_min();
  const double values[] = {0.0,  -0.0, kInf, -kInf, kNaN, 1.0,     -1.0,     0.5,      -0.5,      2.0,    -2.0, 3.0,
                           -3.0, 4.0,  -8.0, 1.5,   -1.5, largest, -largest, smallest, -smallest, 0x1p53, 17.0, -17.0};
  for (const double a : values) {
    for (const double b : values) {
      const T x = static_cast<T>(a);
      const T y = static_cast<T>(b);
      const T got = apply_one<T>(pow, x, y);
      const T expected = std::pow(x, y);
      EXPECT_TRUE((std::isnan(got) && std::isnan(expected)) ||
                  (std::abs(got - expected) <= std::abs(expected) * std::numeric_limits<T>::epsilon() &&
                   std::signbit(got) == std::signbit(expected)) ||
                  (got == expected && std::signbit(got) == std::signbit(expected)))
          << a << "^" << b << " gave " << got << " instead of " << expected;
    }
  }
}

TEST(Pow, SpecialCasesAreThoseOfC) {
  expect_special_powers<float>();
  expect_special_powers<double>();
}

TEST(Pow, ExactPowersAreExact) {
  for (int base = 1; base < 40; ++base) {
    double power = 1;
    for (int n = 0; n < 12 && power < 0x1p53; ++n, power *= base) {
      EXPECT_EQ(apply_one<double>(pow, base, n), power) << base << "^" << n;
    }
  }
}

TEST(Pow, IntegersWrapAndTruncate) {
  const auto power = [](auto x, auto y) {
    using T = decltype(x);
    return apply<T>(pow, std::vector<T>{x}, std::vector<T>{static_cast<T>(y)})[0];
  };
  EXPECT_EQ(power(std::int32_t{3}, 4), 81);
  EXPECT_EQ(power(std::int32_t{0}, 0), 1);
  EXPECT_EQ(power(std::int8_t{2}, 7), -128);
  EXPECT_EQ(power(std::uint8_t{3}, 200), 161);  // 3^200 modulo 256.
  EXPECT_EQ(power(std::int64_t{2}, 64), 0);
  EXPECT_EQ(power(std::int32_t{-1}, 1'000'001), -1);
  EXPECT_EQ(power(std::int32_t{-1}, -3), -1);
  EXPECT_EQ(power(std::int32_t{-1}, -4), 1);
  EXPECT_EQ(power(std::int32_t{5}, -1), 0);
  EXPECT_EQ(power(std::int32_t{0}, -1), 0);
}

TEST(Exponentials, OverflowAndUnderflowWhereTheyShould) {
  EXPECT_EQ(apply_one<float>(exp, 0x1.62e42ep6), std::exp(0x1.62e42ep6F));  // The last finite power.
  EXPECT_EQ(apply_one<float>(exp, 0x1.62e430p6), kInf);
  EXPECT_EQ(apply_one<double>(exp, 0x1.62e42fefa39efp9), std::exp(0x1.62e42fefa39efp9));
  EXPECT_EQ(apply_one<double>(exp, 0x1.62e42fefa39f0p9), kInf);
  EXPECT_EQ(apply_one<float>(exp, -103.9), 0x1p-149F);
  EXPECT_EQ(apply_one<float>(exp, -104.1), 0);
  EXPECT_EQ(apply_one<double>(exp, -745.1), 0x1p-1074);
  EXPECT_EQ(apply_one<double>(exp, -745.2), 0);
  EXPECT_EQ(apply_one<float>(exp2, 128), kInf);
  EXPECT_EQ(apply_one<float>(expm1, 88.8), kInf);
  EXPECT_EQ(apply_one<double>(expm1, 709.7), std::expm1(709.7));
  EXPECT_EQ(apply_one<double>(expm1, -1000), -1);
  for (int n = -1074; n < 1024; ++n) ASSERT_EQ(apply_one<double>(exp2, n), std::ldexp(1.0, n));
  for (int n = -1074; n < 1024; ++n) ASSERT_EQ(apply_one<double>(log2, std::ldexp(1.0, n)), n);
}

// The speed of a body is the number of its operations, where those of f64 count twice and divisions are apart. A third
// of those of sin and cos is for large arguments alone.
TEST(Functions, OfF32TakeFewOperations) {
  struct Limit {
    const char* name;
    Unary function;
    int operations;
    int divisions;
  };
  const Limit limits[] = {{"exp", exp, 18, 0},        {"exp2", exp2, 19, 0},         {"expm1", expm1, 21, 0},
                          {"log", log, 27, 0},        {"log1p", log1p, 26, 0},       {"rsqrt", rsqrt, 2, 1},
                          {"tanh", tanh, 21, 1},      {"logistic", logistic, 18, 1}, {"erf", erf, 27, 0},
                          {"sin", sin, 52, 0},        {"cos", cos, 55, 0},           {"tan", tan, 46, 1},
                          {"arcsinh", arcsinh, 40, 1}};
  for (const Limit& limit : limits) {
    const Body body = make_body({float32}, [&](auto in) { return limit.function(in[0]); });
    int operations = 0;
    int divisions = 0;
    for (const Node& node : body.nodes) {
      if (node.core == Core::kInput || node.core == Core::kConstant || node.core == Core::kBitcast) continue;
      operations += size_of(node.dtype) == 8 ? 2 : 1;
      divisions += node.core == Core::kDiv ? 1 : 0;
    }
    EXPECT_LE(operations, limit.operations) << limit.name << '\n' << to_string(body);
    EXPECT_LE(divisions, limit.divisions) << limit.name;
  }
}

TEST(Functions, OfF32StayInTheirRange) {
  std::vector<float> x = sweep_f32(-20, 20);
  for (const Unary function : {Unary(sin), Unary(cos), Unary(tanh), Unary(erf), Unary(logistic)}) {
    for (const float y : apply<float>(function, x)) ASSERT_FALSE(std::abs(y) > 1);
  }
  for (const float big : {1e5F, 65536.0F, 65537.0F, 1e30F}) x.push_back(big);
  std::vector<float> negated(x.size());
  std::transform(x.begin(), x.end(), negated.begin(), [](float v) { return -v; });
  for (const Unary function : {Unary(sin), Unary(tan), Unary(tanh), Unary(erf)}) {
    const std::vector<float> y = apply<float>(function, x);
    const std::vector<float> z = apply<float>(function, negated);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (std::isnan(y[i])) continue;
      ASSERT_EQ(std::bit_cast<std::uint32_t>(y[i]) ^ 0x80000000U, std::bit_cast<std::uint32_t>(z[i]));
    }
  }
  const std::vector<float> y = apply<float>(cos, x);
  const std::vector<float> z = apply<float>(cos, negated);
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_TRUE(y[i] == z[i] || std::isnan(y[i]));
}

TEST(Functions, TakeFloatsOnly) {
  Builder builder;
  EXPECT_THROW(exp(builder.input(0, int32)), InternalError);
  EXPECT_THROW(cbrt(builder.input(1, complex64)), InternalError);
  EXPECT_THROW(pow(builder.input(2, bool_), builder.input(3, bool_)), InternalError);
}

// Complex numbers.

template <class T>
std::complex<T> apply_one(Binary function, std::complex<T> x, std::complex<T> y) {
  const Dtype dtype = dtype_of<std::complex<T>>();
  const Body body = make_body({dtype, dtype}, [=](auto in) { return function(in[0], in[1]); });
  return evaluate<std::complex<T>>(body, std::vector{x}, std::vector{y})[0];
}

template <class T>
std::vector<std::complex<T>> random_complex(std::size_t count, int max_exponent, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> unit(-1, 1);
  std::vector<std::complex<T>> result;
  for (std::size_t i = 0; i < count; ++i) {
    const double size = max_exponent * unit(random);
    const double re = unit(random) * std::exp2(size);
    const double im = unit(random) * std::exp2(size + 12 * unit(random));
    result.emplace_back(static_cast<T>(re), static_cast<T>(im));
  }
  return result;
}

// Quotients in a wider format with range to spare: x87 long double for f32, IEEE quadruple for f64.
__extension__ using Quadruple = __float128;
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, float>, long double, Quadruple>;

template <class T>
void expect_accurate_division() {
  const int max_exponent = std::numeric_limits<T>::max_exponent - 14;
  const auto x = random_complex<T>(50'000, max_exponent, 3);
  const auto y = random_complex<T>(50'000, max_exponent, 4);
  const Dtype dtype = dtype_of<std::complex<T>>();
  const auto quotients =
      evaluate<std::complex<T>>(make_body({dtype, dtype}, [](auto in) { return div(in[0], in[1]); }), x, y);
  std::vector<T> got;
  std::vector<long double> expected;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Wide<T> a = x[i].real();
    const Wide<T> b = x[i].imag();
    const Wide<T> c = y[i].real();
    const Wide<T> d = y[i].imag();
    const Wide<T> norm = c * c + d * d;
    got.insert(got.end(), {quotients[i].real(), quotients[i].imag()});
    expected.insert(expected.end(), {static_cast<long double>((a * c + b * d) / norm),
                                     static_cast<long double>((b * c - a * d) / norm)});
  }
  expect_accurate<T>(
      "complex div", got, 4, [&](std::size_t i) { return expected[i]; },
      [&](std::size_t i) { return std::to_string(i); });
}

TEST(Complex, DivisionIsAccurateInBothParts) {
  expect_accurate_division<float>();
  expect_accurate_division<double>();
}

TEST(Complex, DivisionOfExtremes) {
  using C = std::complex<double>;
  const double largest = std::numeric_limits<double>::max();
  EXPECT_EQ(apply_one<double>(div, C(largest, largest), C(largest, largest)), C(1, 0));
  EXPECT_EQ(apply_one<double>(div, C(0x1p-1074, 0), C(0x1p-1074, 0)), C(1, 0));
  EXPECT_EQ(apply_one<double>(div, C(0, 0), C(1, 2)), C(0, 0));
  EXPECT_EQ(apply_one<double>(div, C(1, 1), C(kInf, 0)), C(0, 0));
  const C by_zero = apply_one<double>(div, C(1, -1), C(0, 0));
  EXPECT_EQ(by_zero, C(kInf, -kInf));
  const C of_infinity = apply_one<double>(div, C(kInf, 0), C(1, 1));
  EXPECT_EQ(of_infinity, C(kInf, -kInf));
}

TEST(Complex, ArithmeticIsThatOfTheTextbook) {
  using C = std::complex<float>;
  EXPECT_EQ(apply_one<float>(add, C(1, 2), C(3, 5)), C(4, 7));
  EXPECT_EQ(apply_one<float>(sub, C(1, 2), C(3, 5)), C(-2, -3));
  EXPECT_EQ(apply_one<float>(mul, C(1, 2), C(3, 5)), C(-7, 11));
  const Body equal = make_body({complex64, complex64}, [](auto in) { return eq(in[0], in[1]); });
  const Body different = make_body({complex64, complex64}, [](auto in) { return ne(in[0], in[1]); });
  const std::vector<C> x = {C(1, 2), C(1, 2), C(1, 2), C(0, static_cast<float>(kNaN))};
  const std::vector<C> y = {C(1, 2), C(1, 3), C(2, 2), C(0, static_cast<float>(kNaN))};
  const bool expected[] = {true, false, false, false};
  std::array<bool, 4> are_equal;
  std::array<bool, 4> are_different;
  const void* inputs[] = {x.data(), y.data()};
  const std::int64_t strides[] = {1, 1};
  interpret(equal, inputs, strides, are_equal.data(), 4);
  interpret(different, inputs, strides, are_different.data(), 4);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(are_equal[i], expected[i]);
    EXPECT_EQ(are_different[i], !expected[i]);
  }
}

template <class T>
void expect_accurate_modulus() {
  const auto z = random_complex<T>(100'000, std::numeric_limits<T>::max_exponent - 2, 5);
  const auto got = evaluate<T>(make_body({dtype_of<std::complex<T>>()}, [](auto in) { return absolute(in[0]); }), z);
  expect_accurate<T>(
      "complex abs", got, 0.8,
      [&](std::size_t i) {
        return std::hypot(static_cast<long double>(z[i].real()), static_cast<long double>(z[i].imag()));
      },
      [&](std::size_t i) { return std::to_string(i); });
}

TEST(Complex, ModulusIsAccurate) {
  expect_accurate_modulus<float>();
  expect_accurate_modulus<double>();
}

TEST(Complex, ModulusOfExtremes) {
  const auto modulus = [](std::complex<double> z) {
    return evaluate<double>(make_body({complex128}, [](auto in) { return absolute(in[0]); }), std::vector{z})[0];
  };
  EXPECT_EQ(modulus({0, -0.0}), 0);
  EXPECT_EQ(modulus({3 * 0x1p-1074, 4 * 0x1p-1074}), 5 * 0x1p-1074);
  EXPECT_EQ(modulus({3 * 0x1p1020, -4 * 0x1p1020}), 5 * 0x1p1020);
  EXPECT_EQ(modulus({kNaN, -kInf}), kInf);
  EXPECT_TRUE(std::isnan(modulus({kNaN, 1})));
  EXPECT_EQ(modulus({0x1.fffffffffffffp1023, 0x1.fffffffffffffp1023}), kInf);
}

struct ComplexCase {
  const char* name;
  Unary function;
  double bound_c128;
};

const ComplexCase kComplexCases[] = {
    {"exp", exp, 2},          {"expm1", expm1, 3},     {"log", log, 2},           {"log1p", log1p, 2},
    {"sqrt", square_root, 2}, {"rsqrt", rsqrt, 5},     {"logistic", logistic, 6}, {"sin", sin, 3},
    {"cos", cos, 3},          {"tan", tan, 6},         {"sinh", sinh, 3},         {"cosh", cosh, 3},
    {"tanh", tanh, 6},        {"arcsin", arcsin, 4},   {"arccos", arccos, 4},     {"arctan", arctan, 4},
    {"arcsinh", arcsinh, 4},  {"arccosh", arccosh, 4}, {"arctanh", arctanh, 4},
};

// The greatest error of either part, in units in the last place of the modulus.
template <class T>
double complex_error(Unary function, const std::vector<Golden>& re, const std::vector<Golden>& im) {
  std::vector<std::complex<T>> z;
  for (const Golden& row : re) z.emplace_back(static_cast<T>(row.x), static_cast<T>(row.y));
  const std::vector<std::complex<T>> got = apply<std::complex<T>>(function, z);
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const int exponent = std::max(std::ilogb(std::hypot(re[i].value, im[i].value)), Format<T>::kMinExponent);
    const long double ulp = std::ldexp(1.0L, exponent - Format<T>::kDigits + 1);
    const double error = static_cast<double>(
        std::max(std::abs(got[i].real() - re[i].value), std::abs(got[i].imag() - im[i].value)) / ulp);
    EXPECT_FALSE(std::isnan(error)) << z[i];
    worst = std::max(worst, error);
  }
  return worst;
}

TEST(Complex, FunctionsAreAccurate) {
  for (const ComplexCase& c : kComplexCases) {
    const std::vector<Golden> re = golden_rows(std::string(c.name) + ".re");
    const std::vector<Golden> im = golden_rows(std::string(c.name) + ".im");
    ASSERT_GT(re.size(), 50U) << c.name;
    ASSERT_EQ(re.size(), im.size()) << c.name;
    const double single = complex_error<float>(c.function, re, im);
    const double twice = complex_error<double>(c.function, re, im);
    std::cout << c.name << ": " << single << " ulp in c64, " << twice << " in c128\n";
    EXPECT_LE(single, 0.51) << c.name;
    EXPECT_LE(twice, c.bound_c128) << c.name;
  }
}

// C99 Annex G, where the value of a function at a special point is not a matter of choice.
TEST(Complex, FunctionsOfSpecialValues) {
  using C = std::complex<double>;
  const auto expect_value = [](Unary function, C z, C expected) {
    const C got = apply<C>(function, std::vector{z})[0];
    const auto is_same = [](double a, double b) {
      return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
    };
    EXPECT_TRUE(is_same(got.real(), expected.real()) && is_same(got.imag(), expected.imag()))
        << z << " gave " << got << " instead of " << expected;
  };
  const double pi = M_PI;
  expect_value(exp, {-kInf, kNaN}, {0, 0});
  expect_value(exp, {kInf, 0}, {kInf, 0});
  expect_value(exp, {0, -0.0}, {1, -0.0});
  expect_value(exp, {kInf, kInf}, {kInf, kNaN});
  expect_value(log, {0, 0}, {-kInf, 0});
  expect_value(log, {-0.0, 0}, {-kInf, pi});
  expect_value(log, {-1, -0.0}, {0, -pi});
  expect_value(log, {kInf, kNaN}, {kInf, kNaN});
  expect_value(log, {-kInf, 1}, {kInf, pi});
  expect_value(square_root, {-4, 0}, {0, 2});
  expect_value(square_root, {-4, -0.0}, {0, -2});
  expect_value(square_root, {0, -0.0}, {0, -0.0});
  expect_value(square_root, {-kInf, -1}, {0, -kInf});
  expect_value(square_root, {kNaN, kInf}, {kInf, kInf});
  expect_value(square_root, {0x1p1023, 0}, {0x1.6a09e667f3bcdp511, 0});
  expect_value(square_root, {-0x1p-1074, 0}, {0, 0x1p-537});
  expect_value(sinh, {0, 0}, {0, 0});
  expect_value(sinh, {kInf, 0}, {kInf, 0});
  expect_value(cosh, {-0.0, 0}, {1, -0.0});
  expect_value(cosh, {-kInf, 0}, {kInf, -0.0});
  expect_value(tanh, {kInf, 1}, {1, 0});
  expect_value(tanh, {-kInf, kInf}, {-1, 0});
  expect_value(arcsin, {0, 0}, {0, 0});
  expect_value(arcsin, {kInf, 1}, {pi / 2, kInf});
  expect_value(arcsin, {-kInf, -0.0}, {-pi / 2, -kInf});
  expect_value(arcsin, {-2, kInf}, {-0.0, kInf});
  expect_value(arcsin, {kInf, -kInf}, {pi / 4, -kInf});
  expect_value(arcsinh, {1, kInf}, {kInf, pi / 2});
  expect_value(arcsinh, {-kInf, 1}, {-kInf, 0});
  expect_value(arctanh, {1, 0}, {kInf, 0});
  expect_value(arctanh, {0, kInf}, {0, pi / 2});
  expect_value(sin, {0, 1}, {0, std::sinh(1.0)});
  // Of parts that are not finite.
  for (const double lost : {kInf, kNaN}) {
    expect_value(expm1, {-kInf, lost}, {-1, 0});
    expect_value(sinh, {kInf, lost}, {kInf, kNaN});
    expect_value(sinh, {-0.0, lost}, {-0.0, kNaN});
    expect_value(cosh, {-kInf, lost}, {kInf, kNaN});
    expect_value(tanh, {-0.0, lost}, {-0.0, kNaN});
    expect_value(tanh, {1, lost}, {kNaN, kNaN});
    expect_value(tanh, {30, lost}, {kNaN, kNaN});
    expect_value(tanh, {kInf, lost}, {1, 0});
  }
  expect_value(tanh, {kNaN, -0.0}, {kNaN, -0.0});
  expect_value(arcsin, {-0.0, kNaN}, {-0.0, kNaN});
  expect_value(arccos, {0, kNaN}, {pi / 2, kNaN});
  expect_value(arccos, {kInf, kInf}, {pi / 4, -kInf});
  expect_value(arccos, {-kInf, -kInf}, {3 * pi / 4, kInf});
  expect_value(arccos, {-kInf, 1}, {pi, -kInf});
  expect_value(arccos, {1, -kInf}, {pi / 2, kInf});
  expect_value(arccos, {kNaN, kInf}, {kNaN, -kInf});
  expect_value(arccosh, {0, kNaN}, {kNaN, pi / 2});
  expect_value(arccosh, {kInf, kInf}, {kInf, pi / 4});
  expect_value(arccosh, {-kInf, -kInf}, {kInf, -3 * pi / 4});
  expect_value(arccosh, {-kInf, 1}, {kInf, pi});
  expect_value(arccosh, {kInf, kNaN}, {kInf, kNaN});
  expect_value(arccosh, {kNaN, kInf}, {kInf, kNaN});
  expect_value(arcsinh, {kNaN, 0}, {kNaN, 0});
  expect_value(arctanh, {0, kNaN}, {0, kNaN});
  expect_value(arctanh, {-kInf, kNaN}, {-0.0, kNaN});
  expect_value(arctanh, {kNaN, -kInf}, {0, -pi / 2});
  expect_value(arctan, {kInf, kNaN}, {pi / 2, -0.0});
  // The sign of NaN tells nothing.
  for (const double nan : {kNaN, -kNaN}) {
    expect_value(arctanh, {nan, kInf}, {0, pi / 2});
    expect_value(arccos, {kInf, nan}, {kNaN, -kInf});
    expect_value(arcsin, {-kInf, nan}, {kNaN, kInf});
    expect_value(arccosh, {-0.0, nan}, {kNaN, pi / 2});
    expect_value(square_root, {-kInf, nan}, {kNaN, kInf});
    expect_value(cosh, {nan, 0}, {kNaN, 0});
  }
}

TEST(Complex, Powers) {
  using C = std::complex<double>;
  const auto expect_power = [](C z, C w, C expected) {
    const C got = apply_one<double>(pow, z, w);
    EXPECT_LE(std::abs(got - expected), 1e-14 * std::abs(expected)) << z << '^' << w << " gave " << got;
  };
  expect_power({1, 1}, {2, 0}, {0, 2});
  expect_power({0, 1}, {0, 1}, {std::exp(-M_PI / 2), 0});
  expect_power({2, 0}, {-3, 0}, {0.125, 0});
  expect_power({-1, 0}, {0.5, 0}, {0, 1});
  expect_power({0, 0}, {0, 0}, {1, 0});
  expect_power({0, 0}, {2, 1}, {0, 0});
  expect_power({3, -4}, {1.5, 0.25}, std::pow(C(3, -4), C(1.5, 0.25)));
}

TEST(Complex, IsOrderedByItsPartsInTurn) {
  using C = std::complex<float>;
  const auto holds = [](Binary relation, C x, C y) {
    const Body body = make_body({complex64, complex64}, [=](auto in) { return relation(in[0], in[1]); });
    return static_cast<bool>(evaluate<std::uint8_t>(body, std::vector{x}, std::vector{y})[0]);
  };
  EXPECT_TRUE(holds(lt, C(1, 9), C(2, 0)));
  EXPECT_TRUE(holds(lt, C(1, 2), C(1, 3)));
  EXPECT_FALSE(holds(lt, C(1, 3), C(1, 3)));
  EXPECT_TRUE(holds(le, C(1, 3), C(1, 3)));
  EXPECT_FALSE(holds(le, C(2, 0), C(1, 3)));
  EXPECT_FALSE(holds(le, C(static_cast<float>(kNaN), 0), C(1, 3)));
}

// Arithmetic beyond the core operations.

template <class T>
void expect_special_angles() {
  const double values[] = {0.0, -0.0, 1, -1, 2.5, -2.5, kInf, -kInf, kNaN, 1e-30, -1e30};
  for (const double y : values) {
    for (const double x : values) {
      const T got = apply_one<T>(arctan2, y, x);
      const double expected =
          std::atan2(static_cast<double>(static_cast<T>(y)), static_cast<double>(static_cast<T>(x)));
      EXPECT_TRUE((std::isnan(got) && std::isnan(expected)) ||
                  (std::abs(got - expected) <= std::abs(expected) * std::numeric_limits<T>::epsilon() &&
                   std::signbit(got) == std::signbit(expected)))
          << y << ", " << x << " gave " << got;
    }
  }
}

TEST(Arctan2, SpecialCasesAreThoseOfC) {
  expect_special_angles<float>();
  expect_special_angles<double>();
}

TEST(Hypot, SpecialCasesAreThoseOfC) {
  EXPECT_EQ(apply_one<double>(hypot, kNaN, -kInf), kInf);
  EXPECT_EQ(apply_one<double>(hypot, 3e300, 4e300), 5e300);
  EXPECT_EQ(apply_one<float>(hypot, -3, 4), 5);
}

TEST(Functions, AtTheirEnds) {
  EXPECT_DOUBLE_EQ(apply_one<double>(sinh, 710.4), std::sinh(710.4));
  EXPECT_EQ(apply_one<double>(sinh, -710.5), -kInf);
  EXPECT_FLOAT_EQ(apply_one<float>(cosh, 89.4), std::cosh(89.4F));
  EXPECT_EQ(apply_one<float>(cosh, 89.5), kInf);
  EXPECT_EQ(apply_one<double>(arccosh, 1), 0);
  EXPECT_TRUE(std::isnan(apply_one<double>(arccosh, 0.99)));
  EXPECT_EQ(apply_one<double>(arctanh, -1), -kInf);
  EXPECT_EQ(apply_one<double>(erfc, -30), 2);
  EXPECT_EQ(apply_one<double>(erfc, 30), 0);
  EXPECT_EQ(apply_one<float>(sinc, 1e10), 0);
  for (int n = -300; n <= 300; ++n)
    ASSERT_EQ(apply_one<double>(log10, std::strtod(fmt::format("1e{}", n).c_str(), nullptr)), n);
  for (int n = -100; n <= 100; ++n) ASSERT_EQ(apply_one<double>(cbrt, n * n * n), n);
}

TEST(Logaddexp, IsAccurate) {
  const double values[] = {-700, -30, -1.5, -0.69, 0, 1e-3, 0.5, 12, 800};
  for (const double x : values) {
    for (const double y : values) {
      const double scale = std::max({std::abs(x), std::abs(y), 1.0}) * 0x1p-52;
      const long double great = std::max(x, y);
      const long double distance = std::abs(static_cast<long double>(x) - y);
      EXPECT_NEAR(apply_one<double>(logaddexp, x, y), static_cast<double>(great + std::log1p(std::exp(-distance))),
                  2 * scale);
      EXPECT_NEAR(apply_one<double>(logaddexp2, x, y), static_cast<double>(great + std::log2(1 + std::exp2(-distance))),
                  2 * scale);
    }
  }
  for (const Binary function : {Binary(logaddexp), Binary(logaddexp2)}) {
    EXPECT_EQ(apply_one<float>(function, kInf, kInf), kInf);
    EXPECT_EQ(apply_one<float>(function, -kInf, -kInf), -kInf);
    EXPECT_EQ(apply_one<float>(function, -kInf, 3), 3);
    EXPECT_EQ(apply_one<float>(function, kInf, -kInf), kInf);
    EXPECT_TRUE(std::isnan(apply_one<float>(function, kNaN, 1)));
  }
}

TEST(Xlogy, IsZeroWhereXIs) {
  EXPECT_EQ(apply_one<float>(xlogy, 0, 0), 0);
  EXPECT_TRUE(std::isnan(apply_one<float>(xlogy, 0, kNaN)));
  EXPECT_TRUE(std::isnan(apply_one<float>(xlog1py, 0, kNaN)));
  EXPECT_EQ(apply_one<double>(xlogy, 2, 0), -kInf);
  EXPECT_EQ(apply_one<double>(xlog1py, 0, -1), 0);
  std::vector<double> x = sweep_f64(-3, 3);
  x.resize(100'000);
  std::vector<double> y(x.rbegin(), x.rend());
  for (double& value : y) value = std::abs(value);
  const auto describe = [&](std::size_t i) { return fmt::format("{:a}, {:a}", x[i], y[i]); };
  const auto of_zero = [&](std::size_t i, long double value) { return x[i] == 0 ? 0.0L : value; };
  expect_accurate<double>(
      "xlogy", apply<double>(xlogy, x, y), 1.9,
      [&](std::size_t i) { return of_zero(i, x[i] * std::log(static_cast<long double>(y[i]))); }, describe);
  expect_accurate<double>(
      "xlog1py", apply<double>(xlog1py, x, y), 1.9,
      [&](std::size_t i) { return of_zero(i, x[i] * std::log1p(static_cast<long double>(y[i]))); }, describe);
}

TEST(Bits, AreCountedInEveryWidth) {
  const auto count_of = [](auto x) { return apply<decltype(x)>(population_count, std::vector{x})[0]; };
  const auto zeros_of = [](auto x) { return apply<decltype(x)>(clz, std::vector{x})[0]; };
  const auto expect_counts = [&]<class T>(T) {
    using Unsigned = std::make_unsigned_t<T>;
    std::mt19937_64 random(6);
    for (int i = 0; i < 200; ++i) {
      const auto bits = static_cast<Unsigned>(random() >> (random() % 64));
      EXPECT_EQ(count_of(static_cast<T>(bits)), static_cast<T>(std::popcount(bits)));
      EXPECT_EQ(zeros_of(static_cast<T>(bits)), static_cast<T>(std::countl_zero(bits)));
    }
    EXPECT_EQ(zeros_of(T{0}), static_cast<T>(8 * sizeof(T)));
    EXPECT_EQ(count_of(static_cast<T>(-1)), static_cast<T>(8 * sizeof(T)));
  };
  expect_counts(std::int8_t{});
  expect_counts(std::uint16_t{});
  expect_counts(std::int32_t{});
  expect_counts(std::uint64_t{});
}

TEST(Gcd, AgreesWithTheStandardLibrary) {
  const auto expect_divisors = [&]<class T>(T) {
    std::mt19937_64 random(7);
    std::vector<T> x = {
        0, 0, 1, static_cast<T>(21), static_cast<T>(34), static_cast<T>(89)};  // Fibonacci numbers take the most steps.
    std::vector<T> y = {0, 5, 0, static_cast<T>(13), static_cast<T>(21), static_cast<T>(55)};
    for (int i = 0; i < 200; ++i) {
      x.push_back(static_cast<T>(random() >> (random() % 64)));
      y.push_back(static_cast<T>(random() >> (random() % 64)));
      if (x.back() == std::numeric_limits<T>::min()) x.back() = 1;
      if (y.back() == std::numeric_limits<T>::min()) y.back() = 1;
    }
    const std::vector<T> divisors = apply<T>(gcd, x, y);
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(divisors[i], std::gcd(x[i], y[i])) << +x[i] << ' ' << +y[i];
  };
  expect_divisors(std::int8_t{});
  expect_divisors(std::uint8_t{});
  expect_divisors(std::int32_t{});
  expect_divisors(std::int64_t{});
  expect_divisors(std::uint64_t{});
  EXPECT_EQ(apply<std::int64_t>(gcd, std::vector<std::int64_t>{4660046610375530309},
                                std::vector<std::int64_t>{7540113804746346429})[0],
            1);
  EXPECT_EQ(apply_one<std::int32_t>(lcm, 4, -6), 12);
  EXPECT_EQ(apply_one<std::int32_t>(lcm, 0, 5), 0);
  EXPECT_EQ(apply_one<std::int32_t>(lcm, 0, 0), 0);
}

TEST(Functions, ShiftsWithoutTheSign) {
  EXPECT_EQ(apply_one<std::int8_t>(shift_right_logical, -1, 4), 15);
  EXPECT_EQ(apply_one<std::int32_t>(shift_right_logical, -8, 1), 0x7ffffffc);
  EXPECT_EQ(apply_one<std::int32_t>(shift_right_logical, -8, 32), 0);
  EXPECT_EQ(apply_one<std::int32_t>(shift_right_logical, -8, -1), 0);
}

TEST(Nextafter, StepsThroughTheNumbers) {
  const double values[] = {0.0, -0.0, 1, -1, 0x1p-126, -0x1p-149, 0x1.fffffep127, kInf, -kInf, kNaN};
  for (const double x : values) {
    for (const double y : values) {
      const float got = apply_one<float>(nextafter, x, y);
      const float expected = std::nextafter(static_cast<float>(x), static_cast<float>(y));
      EXPECT_TRUE((std::isnan(got) && std::isnan(expected)) ||
                  (got == expected && std::signbit(got) == std::signbit(expected)))
          << x << ", " << y << " gave " << got;
    }
  }
  EXPECT_EQ(static_cast<float>(apply_one<float16_t>(nextafter, 1, 2)), 1 + 0x1p-10F);
  EXPECT_EQ(static_cast<float>(apply_one<bfloat16_t>(nextafter, 0, -1)), -0x1p-133F);
}

TEST(Functions, OfNaNAndOtherwise) {
  EXPECT_EQ(apply_one<float>(fmax, kNaN, 2), 2);
  EXPECT_EQ(apply_one<float>(fmax, 2, kNaN), 2);
  EXPECT_EQ(apply_one<double>(fmin, kNaN, -kInf), -kInf);
  EXPECT_TRUE(std::isnan(apply_one<double>(fmin, kNaN, kNaN)));
  EXPECT_EQ(apply_one<std::int32_t>(fmax, -2, 3), 3);
  EXPECT_EQ(apply_one<float>(heaviside, -2, 0.5), 0);
  EXPECT_EQ(apply_one<float>(heaviside, -0.0, 0.5), 0.5);
  EXPECT_EQ(apply_one<float>(heaviside, kInf, 0.5), 1);
  EXPECT_TRUE(std::isnan(apply_one<float>(heaviside, kNaN, 0.5)));
}

TEST(Sign, OfEveryKind) {
  const auto sign_of = [](auto x) { return apply<decltype(x)>(sign, std::vector{x})[0]; };
  EXPECT_EQ(sign_of(-2.5F), -1.0F);
  EXPECT_EQ(sign_of(1e-45F), 1.0F);
  EXPECT_EQ(sign_of(kInf), 1.0);
  EXPECT_TRUE(std::signbit(sign_of(-0.0)));
  EXPECT_TRUE(std::isnan(sign_of(kNaN)));
  EXPECT_EQ(sign_of(float16_t(-3.0F)), float16_t(-1.0F));
  EXPECT_EQ(sign_of(std::int8_t{-128}), -1);
  EXPECT_EQ(sign_of(std::uint64_t{1} << 63), 1U);
  EXPECT_EQ(sign_of(std::int32_t{0}), 0);
  EXPECT_EQ(sign_of(std::complex<double>(3, -4)), std::complex<double>(0.6, -0.8));
  const std::complex<double> diagonal = sign_of(std::complex<double>(0x1p1023, -0x1p1023));
  EXPECT_DOUBLE_EQ(diagonal.real(), M_SQRT1_2);
  EXPECT_DOUBLE_EQ(diagonal.imag(), -M_SQRT1_2);
  EXPECT_EQ(sign_of(std::complex<float>(0, 0)), std::complex<float>(0, 0));
}

TEST(Functions, MaximumAndMinimumPropagateNaN) {
  EXPECT_TRUE(std::isnan(apply_one<float>(maximum, kNaN, 1)));
  EXPECT_TRUE(std::isnan(apply_one<float>(minimum, 1, kNaN)));
  EXPECT_EQ(apply_one<double>(maximum, -3, 2), 2);
  EXPECT_EQ(apply_one<double>(minimum, -3, 2), -3);
}

// Recorded from jnp.floor_divide and jnp.remainder (JAX 0.10).
struct Division {
  double x, y, quotient, remainder;
};

template <class T>
void expect_divisions(const std::vector<Division>& rows) {
  const auto is_same = [](double a, double b) {
    return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
  };
  for (const Division& row : rows) {
    const auto quotient = static_cast<double>(apply_one<T>(floor_divide, row.x, row.y));
    const auto left = static_cast<double>(apply_one<T>(remainder, row.x, row.y));
    EXPECT_TRUE(is_same(quotient, row.quotient)) << row.x << " // " << row.y << " gave " << quotient;
    EXPECT_TRUE(is_same(left, row.remainder)) << row.x << " % " << row.y << " gave " << left;
  }
}

TEST(Division, OfIntegersAsInJax) {
  const double lowest = std::numeric_limits<std::int32_t>::lowest();
  const double largest = std::numeric_limits<std::int32_t>::max();
  expect_divisions<std::int32_t>({
      {7, 3, 2, 1},
      {7, -3, -3, -2},
      {-7, 3, -3, 2},
      {-7, -3, 2, -1},
      {7, 7, 1, 0},
      {7, -7, -1, 0},
      {3, -7, -1, -4},
      {-3, 7, -1, 4},
      {7, 0, -2, 0},
      {-7, 0, -2, 0},
      {0, 0, -1, 0},
      {0, -7, 0, 0},
      {lowest, -1, lowest, 0},
      {lowest, largest, -2, 2147483646},
      {largest, lowest, -1, -1},
  });
  expect_divisions<std::uint8_t>({{200, 7, 28, 4}, {200, 0, 255, 0}, {0, 0, 255, 0}, {7, 200, 0, 7}});
}

// Numbers of all exponents, and such whose quotients are small, whole, or a rounding away from it.
template <class T, class Bits>
void expect_exact_remainders() {
  std::mt19937_64 random(11);
  std::vector<T> x;
  std::vector<T> y;
  for (int i = 0; i < 60000; ++i) {
    x.push_back(std::bit_cast<T>(static_cast<Bits>(random())));
    y.push_back(std::bit_cast<T>(static_cast<Bits>(random())));
    if (i % 3 == 0) continue;
    const T quotient = static_cast<T>(random() % 100000);
    const T step = std::abs(y.back()) < T(1e30) ? y.back() : T(1.1);
    y.back() = step;
    x.back() = quotient * step;
    if (i % 3 == 2) x.back() = std::nextafter(x.back(), random() % 2 == 0 ? T(-1e30) : T(1e30));
  }
  const std::vector<T> got = apply<T>(fmod, x, y);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const T wanted = std::fmod(x[i], y[i]);
    const bool is_same =
        std::isnan(wanted) ? std::isnan(got[i]) : std::bit_cast<Bits>(wanted) == std::bit_cast<Bits>(got[i]);
    ASSERT_TRUE(is_same) << fmt::format("fmod({:a}, {:a}) is {:a}, not {:a}", x[i], y[i], wanted, got[i]);
  }
}

// Of the largest numbers and the smallest, whose quotient is beyond the format, and of halves.
TEST(Division, AtTheEndsOfTheFormat) {
  for (const float y : {0x1p-149F, 0x1p-148F, 0x1.8p-147F, 0x1p-126F}) {
    for (const float x : {0x1.fffffep127F, 0x1.8p126F, 0x1.2p125F}) {
      EXPECT_EQ(apply_one<float>(fmod, x, y), std::fmod(x, y)) << x << " " << y;
    }
  }
  EXPECT_EQ(apply_one<double>(fmod, 0x1.fffffffffffffp1023, 0x1p-1074), 0);
  EXPECT_EQ(apply_one<float>(floor_divide, 323357014753280.0, -38738356.0), -8347207);
  EXPECT_EQ(apply_one<double>(floor_divide, -2.0509429964486654, 8.118018811741418e-16), -2526408282624703);
}

TEST(Division, LeavesWhatTheStandardFunctionDoes) {
  expect_exact_remainders<float, std::uint32_t>();
  expect_exact_remainders<double, std::uint64_t>();
}

TEST(Division, OfFloatsAsInJax) {
  expect_divisions<float>({
      {7.5, 2.0, 3.0, 1.5},
      {7.5, -2.0, -4.0, -0.5},
      {-7.5, 2.0, -4.0, 0.5},
      {-7.5, -2.0, 3.0, -1.5},
      {-7.5, 7.5, -1.0, -0.0},
      {7.5, 0.0, kInf, kNaN},
      {7.5, -0.0, -kInf, kNaN},
      {0.0, 0.0, kNaN, kNaN},
      {7.5, kInf, 0.0, 7.5},
      {7.5, -kInf, -1.0, -kInf},
      {-7.5, kInf, -1.0, kInf},
      {-7.5, -kInf, -0.0, -7.5},
      {kInf, 2.0, kNaN, kNaN},
      {0.0, -7.5, -0.0, 0.0},
      {7.5, 0.10000000149011612, 74.0, 0.09999988973140717},
      {2.0, -0.10000000149011612, -20.0, -2.9802322387695312e-08},
      {kNaN, 2.0, kNaN, kNaN},
  });
  expect_divisions<float16_t>({{7.5, -2.0, -4.0, -0.5}});
}

TEST(IntegerPow, MultipliesRepeatedly) {
  const auto power = [](auto x, std::int64_t n) {
    using T = decltype(x);
    return evaluate<T>(make_body({dtype_of<T>()}, [=](auto in) { return integer_pow(in[0], n); }), std::vector{x})[0];
  };
  EXPECT_EQ(power(3.0F, 0), 1.0F);
  EXPECT_EQ(power(3.0F, 1), 3.0F);
  EXPECT_EQ(power(3.0F, 5), 243.0F);
  EXPECT_EQ(power(2.0, -3), 0.125);
  EXPECT_EQ(power(std::int8_t{2}, 7), -128);
  EXPECT_EQ(power(std::complex<float>(0, 1), 3), std::complex<float>(0, -1));
  EXPECT_EQ(power(std::complex<double>(0, 2), -1), std::complex<double>(0, -0.5));
  // In f16 itself the square would overflow before the reciprocal.
  EXPECT_EQ(static_cast<float>(power(float16_t(1024.0F), -2)), 0x1p-20F);

  const Body cube = make_body({float32}, [](auto in) { return integer_pow(in[0], 3); });
  EXPECT_EQ(cube.nodes.size(), 3U) << to_string(cube);
  Builder builder;
  EXPECT_THROW(integer_pow(builder.input(0, int32), -1), InternalError);
}

TEST(Functions, ClassifyFloats) {
  const auto classify = [](Unary function, double x) {
    const Body body = make_body({float64}, [=](auto in) { return function(in[0]); });
    bool result = false;
    const void* inputs[] = {&x};
    const std::int64_t strides[] = {0};
    interpret(body, inputs, strides, &result, 1);
    return result;
  };
  EXPECT_TRUE(classify(is_nan, kNaN));
  EXPECT_FALSE(classify(is_nan, kInf));
  EXPECT_TRUE(classify(is_finite, -1e308));
  EXPECT_FALSE(classify(is_finite, -kInf));
  EXPECT_FALSE(classify(is_finite, kNaN));
  EXPECT_TRUE(classify(is_infinite, -kInf));
  EXPECT_FALSE(classify(is_infinite, kNaN));
  EXPECT_TRUE(classify(signbit, -0.0));
  EXPECT_FALSE(classify(signbit, kInf));
  EXPECT_EQ(apply_one<float>(copysign, 2, -0.0), -2);
  EXPECT_EQ(apply_one<double>(copysign, -2, 1), 2);
  EXPECT_EQ(apply_one<bfloat16_t>(copysign, 2, -1), bfloat16_t(-2.0F));
}

}  // namespace
}  // namespace shoal::scalar
