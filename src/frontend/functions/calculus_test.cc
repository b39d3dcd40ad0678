// Differences, interpolation, parts of numbers and sets, against what JAX gave for the same expressions
// (testdata/calculus.inc), and against the functions of C++.
#include "shoal/calculus.h"

#include <cmath>
#include <limits>

#include "frontend/recorded_numbers.h"
#include "frontend/test_support.h"
#include "spmd/test_collectives.h"

namespace shoal::test {
namespace {

using test_support::Collectives;
using test_support::collectives_in;

const RecordedNumbers kExpressions[] = {
#include "frontend/testdata/calculus.inc"
};

TEST(Calculus, AsInJax) { expect_recorded(kExpressions); }

TEST(Calculus, DifferencesOfBatchesMoveNothing) {
  const Array x = put(M({8, 6}), mesh_4x2(), P({"x", "y"}));
  const auto f = [](const Array& a) {
    return diff(a).sum(1) + trapezoid(a) + gradient(a, {.axis = 1})[0].sum(1) +
           interp(a, arange(3.0), arange(3.0)).sum(1);
  };
  EXPECT_EQ(collectives_in(jit(f).lower(x).compile().as_text()), Collectives());
  EXPECT_TRUE(same(jit(f)(x), f(M({8, 6}))));
}

// Numbers of every kind: normal, subnormal, the greatest and the least.
template <class T>
std::vector<T> kinds_of_numbers() {
  using Limits = std::numeric_limits<T>;
  return {T(0),
          -T(0),
          T(1),
          T(-0.75),
          T(1.5),
          Limits::max(),
          -Limits::min(),
          Limits::min(),
          Limits::denorm_min() * 3,
          -Limits::denorm_min(),
          T(1e-30),
          T(12345.678),
          T(0.5)};
}

template <class T>
void check_parts() {
  const std::vector<T> numbers = kinds_of_numbers<T>();
  const auto [mantissas, exponents] = frexp(array(numbers));
  const std::vector<T> m = mantissas.template to_vector<T>();
  const std::vector<int> e = ints(exponents);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    int exponent = 0;
    const T mantissa = std::frexp(numbers[i], &exponent);
    EXPECT_EQ(m[i], mantissa) << numbers[i];
    EXPECT_EQ(std::signbit(m[i]), std::signbit(mantissa)) << numbers[i];
    EXPECT_EQ(e[i], exponent) << numbers[i];
  }
  for (const int n : {0, 1, -1, 30, -120, 127, -149, -160, 250, -250, 1000, -1060, 2000, -2100, 1 << 30, -(1 << 30)}) {
    const std::vector<T> scaled = ldexp(array(numbers), n).template to_vector<T>();
    for (std::size_t i = 0; i < numbers.size(); ++i)
      EXPECT_EQ(scaled[i], std::ldexp(numbers[i], n)) << numbers[i] << ' ' << n;
  }
}

TEST(Calculus, PartsOfSingleNumbers) { check_parts<float>(); }
TEST(Calculus, PartsOfDoubleNumbers) { check_parts<double>(); }

TEST(Calculus, PartsOfNoNumbers) {
  const float inf = std::numeric_limits<float>::infinity();
  const Array x = array(std::vector<float>{inf, -inf, std::nanf("")});
  const std::vector<float> m = floats(frexp(x).first);
  EXPECT_EQ(m[0], inf);
  EXPECT_EQ(m[1], -inf);
  EXPECT_TRUE(std::isnan(m[2]));
  EXPECT_EQ(ints(frexp(x).second), (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(floats(ldexp(x, -5))[1], -inf);
  EXPECT_EQ(floats(modf(x).first)[0], 0);
  EXPECT_TRUE(std::signbit(floats(modf(x).first)[1]));
  EXPECT_EQ(floats(modf(x).second)[1], -inf);
  EXPECT_EQ(frexp(array({1.5}).astype(bfloat16)).first.dtype(), bfloat16);
  EXPECT_EQ(repr(ldexp(3, array({2}))), "Array([12.], dtype=float32)");
}

TEST(Calculus, GradientsOfWhatIsNotFinite) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(repr(gradient(array({0.f, nan, 2.f, 3.f, 5.f}))[0]), "Array([nan, 1. , nan, 1.5, 2. ], dtype=float32)");
  EXPECT_EQ(repr(gradient(array({0.f, nan, 2.f}), {.spacing = {array({0.f, 1.f, 3.f})}})[0]),
            "Array([nan, nan, nan], dtype=float32)");
}

TEST(Calculus, TrapezoidsOfManyDistances) {
  const Array x = arange(12.0).reshape(3, 4);
  EXPECT_EQ(repr(trapezoid(x, {.dx = array({1.f, 2.f, 1.f})})), "Array([ 6., 22., 38.], dtype=float32)");
  EXPECT_EQ(repr(trapezoid(x, {.dx = 2.0})), "Array([ 9., 33., 57.], dtype=float32)");
  EXPECT_THROW(trapezoid(x, {.dx = ones({2})}), InvalidArgument);
}

TEST(Calculus, DiagonalsBeyondTheMatrix) {
  for (const int k : {-5, -2, 3, 5}) EXPECT_EQ(diag(ones({2, 3}), k).shape(), Shape{0}) << k;
  EXPECT_EQ(repr(diag(arange(6).reshape(2, 3), 2)), "Array([2], dtype=int32)");
}

TEST(Calculus, PolynomialsOfIntegers) {
  EXPECT_EQ(repr(polyval(array({2, 0, 1}), array({3, -1}))), "Array([19,  3], dtype=int32)");
  EXPECT_EQ(repr(lax::polynomial(array({3, -1}), {1, array({0, 5}), 2})), "Array([19, -2], dtype=int32)");
  EXPECT_THROW(lax::polynomial(1.0, {}), InvalidArgument);
  EXPECT_EQ(repr(vander(array({2, 3}), {.N = 3})), "Array([[4, 2, 1],\n       [9, 3, 1]], dtype=int32)");
}

TEST(Calculus, SetsUnderJit) {
  const auto f = jit([](const Array& x) {
    const UniqueResult result = unique_all(x, {.size = 3, .fill_value = -1});
    return std::pair(result.values, result.counts);
  });
  const auto [values, counts] = f(array({5, 2, 5}));
  EXPECT_EQ(ints(values), (std::vector<int>{2, 5, -1}));
  EXPECT_EQ(ints(counts), (std::vector<int>{1, 2, 0}));
  EXPECT_EQ(repr(jit([](const Array& x) {
              return isin(x, array({1, 5}));
            })(array({5, 2}))),
            "Array([ True, False], dtype=bool)");
}

TEST(Calculus, RowsThatDiffer) {
  const Array x = array({{1, 2}, {3, 0}, {1, 2}, {0, 9}});
  const UniqueResult rows = unique_all(x, {.axis = 0});
  EXPECT_EQ(repr(rows.values), "Array([[0, 9],\n       [1, 2],\n       [3, 0]], dtype=int32)");
  EXPECT_EQ(ints(rows.indices), (std::vector<int>{3, 0, 1}));
  EXPECT_EQ(ints(rows.inverse_indices), (std::vector<int>{1, 2, 1, 0}));
  EXPECT_EQ(ints(rows.counts), (std::vector<int>{1, 2, 1}));
  EXPECT_EQ(repr(unique(transpose(x), {.axis = -1, .size = 4, .fill_value = -1})),
            "Array([[ 0,  1,  3, -1],\n       [ 9,  2,  0, -1]], dtype=int32)");
  EXPECT_EQ(unique(zeros({3, 0}), {.axis = 0}).shape(), (Shape{1, 0}));
  EXPECT_EQ(unique(zeros({0, 3}), {.axis = 0}).shape(), (Shape{0, 3}));
}

TEST(Calculus, NansAreEqualOrNot) {
  const float nan = std::nanf("");
  const Array x = array({1.0f, nan, 0.0f, nan});
  EXPECT_EQ(ints(unique_all(x).counts), (std::vector<int>{1, 1, 2}));
  EXPECT_EQ(ints(unique_all(x, {.equal_nan = false}).counts), (std::vector<int>{1, 1, 1, 1}));
}

}  // namespace
}  // namespace shoal::test
