// Operators and NumPy-style functions, against what JAX gave for the same operands (testdata/*.inc), and the rest by
// hand.
#include "shoal/numpy.h"

#include <array>
#include <cmath>
#include <complex>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <string_view>

#include "frontend/test_support.h"

namespace shoal::test {
namespace {

// ---- Recorded operators and functions. Long tables are constants, so that no code has to be compiled to fill them.

struct BinaryCase {
  std::string_view op;
  std::string_view left;
  std::string_view right;
  std::string_view result;
};

constexpr BinaryCase kBinary[] = {
#include "frontend/testdata/binary.inc"
};

using Binary = std::function<Array(const Operand&, const Operand&)>;
const std::map<std::string_view, Binary> kOperators{
    {"+", [](const Operand& x, const Operand& y) { return x + y; }},
    {"-", [](const Operand& x, const Operand& y) { return x - y; }},
    {"*", [](const Operand& x, const Operand& y) { return x * y; }},
    {"/", [](const Operand& x, const Operand& y) { return x / y; }},
    {"%", [](const Operand& x, const Operand& y) { return x % y; }},
    {"&", [](const Operand& x, const Operand& y) { return x & y; }},
    {"<", [](const Operand& x, const Operand& y) { return x < y; }},
    {"power", power},
    {"maximum", maximum},
};

Operand operand(std::string_view name) {
  if (name == "true") return true;
  if (name == "2") return 2;
  if (name == "2.5") return 2.5;
  if (name == "i") return std::complex<float>(0, 1);
  return array({1, 2, 4}).astype(parse_dtype(name));
}

template <class F>
std::string outcome(F&& f) {
  try {
    return repr(f());
  } catch (const TypeMismatch&) {
    return "TypeError";
  }
}

TEST(Numpy, OperatorsOnAllPairsOfTypes) {
  for (const BinaryCase& c : kBinary) {
    EXPECT_EQ(outcome([&] { return kOperators.at(c.op)(operand(c.left), operand(c.right)); }), c.result)
        << c.left << ' ' << c.op << ' ' << c.right;
  }
}

struct UnaryCase {
  std::string_view function;
  std::string_view operand;
  std::string_view result;
};

constexpr UnaryCase kUnary[] = {
#include "frontend/testdata/unary.inc"
};

using Unary = Array (*)(const Operand&);
const std::map<std::string_view, Unary> kUnaryFunctions{
    {"negative", negative},
    {"abs", abs},
    {"sign", sign},
    {"sqrt", sqrt},
    {"floor", floor},
    {"round", round},
    {"isnan", isnan},
    {"isfinite", isfinite},
    {"real", real},
    {"imag", imag},
    {"conj", conj},
    {"bitwise_not", bitwise_not},
    {"square", square},
    {"reciprocal", reciprocal},
    {"trunc", trunc},
    {"isinf", isinf},
    {"signbit", signbit},
    {"logical_not", logical_not},
    {"isposinf", isposinf},
    {"isneginf", isneginf},
    {"rint", rint},
    {"isreal", isreal},
    {"iscomplex", iscomplex},
    {"nan_to_num", [](const Operand& x) { return nan_to_num(x); }},
    {"count_nonzero", [](const Operand& x) { return count_nonzero(x); }},
};

TEST(Numpy, FunctionsOfAllTypes) {
  for (const UnaryCase& c : kUnary) {
    EXPECT_EQ(outcome([&] { return kUnaryFunctions.at(c.function)(operand(c.operand)); }), c.result)
        << c.function << ' ' << c.operand;
  }
}

// ---- Recorded reductions and products.

// Axes as a constant.
class RecordedAxes {
 public:
  constexpr RecordedAxes(None) : all_(true) {}
  constexpr RecordedAxes(int axis) : RecordedAxes({axis}) {}
  constexpr RecordedAxes(std::initializer_list<int> axes) {
    for (int axis : axes) axes_[count_++] = axis;
  }
  operator Axes() const { return all_ ? Axes() : Axes(Dims(axes_.begin(), axes_.begin() + count_)); }

 private:
  std::array<int, 3> axes_{};
  std::size_t count_ = 0;
  bool all_ = false;
};

struct ReductionCase {
  std::string_view function;
  std::string_view dtype;
  RecordedAxes axes;
  bool keepdims;
  std::string_view result;
};

constexpr ReductionCase kReductions[] = {
#include "frontend/testdata/reductions.inc"
};

using Reduction = Array (*)(const Operand&, const ReduceOptions&);
const std::map<std::string_view, Reduction> kReducers{{"sum", sum},   {"prod", prod}, {"max", max}, {"min", min},
                                                      {"mean", mean}, {"any", any},   {"all", all}};

TEST(Numpy, Reductions) {
  const Array values = array({0, 1, 2, 1, 0, 1, 2, 2, 1, 0, 0, 2, 1, 1, 1, 1}).reshape(2, 4, 2);
  for (const ReductionCase& c : kReductions) {
    const Array result =
        kReducers.at(c.function)(values.astype(parse_dtype(c.dtype)), {.axis = c.axes, .keepdims = c.keepdims});
    EXPECT_EQ(repr(result), c.result) << c.function << ' ' << c.dtype;
  }
}

TEST(Numpy, ReductionMembers) {
  const Array x = iota({2, 3});
  EXPECT_EQ(floats(x.sum()), (std::vector<float>{15}));
  EXPECT_EQ(floats(x.sum(0)), (std::vector<float>{3, 5, 7}));
  EXPECT_EQ(floats(x.sum({.axis = -1})), (std::vector<float>{3, 12}));
  EXPECT_EQ(x.max({.axis = {0, 1}, .keepdims = true}).shape(), (Shape{1, 1}));
  EXPECT_EQ(floats((x + 1).prod({.axis = 1})), (std::vector<float>{6, 120}));
  EXPECT_EQ(floats(x.min({.axis = 0})), (std::vector<float>{0, 1, 2}));
  EXPECT_EQ(floats(x.mean({.axis = 0})), (std::vector<float>{1.5, 2.5, 3.5}));
  EXPECT_TRUE(static_cast<bool>((x >= 0).all()));
  EXPECT_FALSE(static_cast<bool>((x < 0).any()));
}

TEST(Numpy, ReductionsOfNothing) {
  EXPECT_EQ(zeros({0, 2}).sum({.axis = 0}).to_vector<float>(), (std::vector<float>{0, 0}));
  EXPECT_EQ(zeros({0}).prod().item<float>(), 1.0F);
  EXPECT_EQ(zeros({0, 2}).max({.axis = 1}).shape(), Shape{0});
  EXPECT_TRUE(static_cast<bool>(zeros({0}).all()));
  EXPECT_FALSE(static_cast<bool>(zeros({0}).any()));
  EXPECT_TRUE(std::isnan(zeros({0}).mean().item<float>()));
}

TEST(Numpy, MeansOfHalfPrecisionDoNotOverflow) {
  EXPECT_EQ(full({4}, 60000.0, {.dtype = float16}).mean().item<float>(), 60000.0F);
  EXPECT_EQ(repr(ones({4}, {.dtype = bfloat16}).mean()), "Array(1, dtype=bfloat16)");
}

TEST(Numpy, IntegersOf64BitsAreTakenAsF64) {
  for (const Dtype dtype : {int64, uint64}) {
    const Array x = array({1, 2, 4}, {.dtype = dtype});
    for (const Array& result :
         {x / x, x / 2, 2 / x, true_divide(x, 2), sqrt(x), arctan2(x, 1), mean(x), linspace(x, x, 2)}) {
      EXPECT_EQ(result.dtype(), float64);
    }
    EXPECT_EQ(jit([](const Array& y) { return y / 2; })(x).dtype(), float64);
  }
  const Array large = array({(std::int64_t{1} << 53) - 1}, {.dtype = int64});
  EXPECT_EQ((large / 1).item<double>(), 9007199254740991.0);
  for (const Dtype dtype : {bool_, int8, int32, uint32}) {
    EXPECT_EQ((array({1}, {.dtype = dtype}) / 2).dtype(), float32);
  }
}

TEST(Numpy, NaNsWinMaximaAndMinima) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Array x = array({1.0F, nan, 3.0F});
  EXPECT_TRUE(std::isnan(x.max().item<float>()));
  EXPECT_TRUE(std::isnan(x.min().item<float>()));
  EXPECT_TRUE(static_cast<bool>(any(isnan(maximum(x, 2)))));
}

struct ProductCase {
  std::string function;
  Shape left;
  Shape right;
  std::string result;
};

const ProductCase kProducts[] = {
#include "frontend/testdata/products.inc"
};

TEST(Numpy, Products) {
  const auto counted = [](const Shape& shape) {
    return arange(1, 1 + num_elements(shape), {.dtype = int32}).reshape(shape);
  };
  for (const ProductCase& c : kProducts) {
    const Array left = counted(c.left);
    const Array right = counted(c.right);
    EXPECT_EQ(repr(c.function == "dot" ? dot(left, right) : matmul(left, right)), c.result)
        << c.function << to_string(c.left) << to_string(c.right);
  }
}

TEST(Numpy, ProductsPromote) {
  EXPECT_EQ(matmul(ones({2, 2}, {.dtype = int32}), ones({2}, {.dtype = float16})).dtype(), float16);
  EXPECT_EQ(repr(matmul(array({true, true}), array({true, true}))), "Array(True, dtype=bool)");
  EXPECT_EQ(dot(2, ones({3})).dtype(), float32);
}

TEST(Numpy, DotGeneral) {
  const Array x = iota({2, 3, 4});
  const Array y = iota({4, 2, 5});
  const Array z =
      lax::dot_general(x, y, {.lhs_contracting = {2}, .rhs_contracting = {0}, .lhs_batch = {0}, .rhs_batch = {1}});
  ASSERT_EQ(z.shape(), (Shape{2, 3, 5}));
  for (std::int64_t b = 0; b < 2; ++b) {
    EXPECT_TRUE(same(z[b], matmul(x[b], y[{range({}, {}), b}])));
  }
  EXPECT_TRUE(same(
      lax::dot_general(x, y, {.lhs_contracting = {-1}, .rhs_contracting = {0}, .lhs_batch = {0}, .rhs_batch = {-2}}),
      z));
}

// ---- Where, shapes, astype.

TEST(Numpy, Where) {
  const Array x = array({1, -2, 3});
  EXPECT_EQ(repr(where(x > 0, x, 0)), "Array([1, 0, 3], dtype=int32)");
  EXPECT_EQ(repr(where(x > 0, 1.5, x)), "Array([ 1.5, -2. ,  1.5], dtype=float32, weak_type=True)");
  EXPECT_EQ(repr(where(true, 1, 2)), "Array(1, dtype=int32, weak_type=True)");
  EXPECT_EQ(where(array({true, false}).reshape(2, 1), ones({3}), 0).shape(), (Shape{2, 3}));
  EXPECT_EQ(repr(where(array({0, 2}), 1, 2)), "Array([2, 1], dtype=int32, weak_type=True)");
}

TEST(Numpy, Shapes) {
  const Array x = iota({2, 3});
  EXPECT_EQ(reshape(x, {3, -1}).shape(), (Shape{3, 2}));
  EXPECT_EQ(x.reshape(-1).shape(), Shape{6});
  EXPECT_EQ(x.reshape({1, 2, 3, 1}).shape(), (Shape{1, 2, 3, 1}));
  EXPECT_EQ(x.reshape(3, 2, 1).shape(), (Shape{3, 2, 1}));
  EXPECT_EQ(zeros({0, 3}).reshape({3, -1}).shape(), (Shape{3, 0}));
  EXPECT_EQ(Array(1).reshape(Dims{}).shape(), Shape{});
  EXPECT_EQ(floats(x.T()), (std::vector<float>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(transpose(iota({2, 3, 4}), Dims{1, -1, 0}).shape(), (Shape{3, 4, 2}));
  EXPECT_EQ(broadcast_to(x, {4, 2, 3}).shape(), (Shape{4, 2, 3}));
  EXPECT_EQ(floats(broadcast_to(array({1.0F, 2.0F}).reshape(2, 1), {2, 2})), (std::vector<float>{1, 1, 2, 2}));
  EXPECT_EQ(expand_dims(x, 1).shape(), (Shape{2, 1, 3}));
  EXPECT_EQ(expand_dims(x, -1).shape(), (Shape{2, 3, 1}));
  EXPECT_EQ(squeeze(zeros({1, 3, 1})).shape(), Shape{3});
  EXPECT_EQ(squeeze(zeros({1, 3, 1}), 0).shape(), (Shape{3, 1}));
  EXPECT_EQ(squeeze(zeros({1, 3, 1}), {-1, 0}).shape(), Shape{3});
  EXPECT_EQ(ravel(x).shape(), Shape{6});
}

TEST(Numpy, Astype) {
  EXPECT_EQ(repr(array({1.7, -1.7}).astype(int32)), "Array([ 1, -1], dtype=int32)");
  EXPECT_EQ(repr(array({0, 2}).astype(bool_)), "Array([False,  True], dtype=bool)");
  EXPECT_EQ(repr(Array(2).astype(int32)), "Array(2, dtype=int32)");
  EXPECT_EQ(repr(array({300}).astype(uint8)), "Array([44], dtype=uint8)");
  EXPECT_EQ(array({1.5}).astype(complex64).item<std::complex<float>>(), std::complex<float>(1.5));
}

TEST(Numpy, IntegersWrapAndDivideByZeroQuietly) {
  EXPECT_EQ((array({std::numeric_limits<int>::max()}) + 1).item<int>(), std::numeric_limits<int>::min());
  EXPECT_EQ(floor_divide(array({5, -5}), 0).to_vector<int>(), (std::vector<int>{-2, -2}));  // As JAX.
  EXPECT_EQ((array({5, -5}) % 0).to_vector<int>(), (std::vector<int>{0, 0}));
  EXPECT_EQ((array({5, -5}) % 3).to_vector<int>(), (std::vector<int>{2, 1}));
  EXPECT_TRUE(std::isinf((array({1}) / 0).item<float>()));
}

// ---- Composed functions.

TEST(Numpy, LogicalFunctionsTakeAnyDtype) {
  EXPECT_EQ(repr(logical_and(array({0, 1, 2}), array({1.0, 0.0, 0.5}))), "Array([False, False,  True], dtype=bool)");
  EXPECT_EQ(repr(logical_or(array({0, 1}), false)), "Array([False,  True], dtype=bool)");
  EXPECT_EQ(repr(logical_xor(array({true, true}), array({0, 3}))), "Array([ True, False], dtype=bool)");
}

TEST(Numpy, Clip) {
  EXPECT_EQ(repr(clip(array({1, 5, 9}), 2, 6)), "Array([2, 5, 6], dtype=int32)");
  EXPECT_EQ(repr(clip(array({1, 5, 9}), {}, 6)), "Array([1, 5, 6], dtype=int32)");
  EXPECT_EQ(repr(clip(array({1.0, 5.0}), array({2.0, 6.0}), {})), "Array([2., 6.], dtype=float32)");
  EXPECT_TRUE(std::isnan(clip(array({std::nan("")}), 0, 1)[0].item<float>()));
  EXPECT_EQ(repr(lax::clamp(2, array({1, 5, 9}), 6)), "Array([2, 5, 6], dtype=int32)");
}

TEST(Numpy, NanToNum) {
  const double inf = std::numeric_limits<double>::infinity();
  const Array x = array({std::nan(""), inf, -inf, 2.0});
  const float greatest = std::numeric_limits<float>::max();
  EXPECT_EQ(floats(nan_to_num(x)), (std::vector<float>{0, greatest, -greatest, 2}));
  EXPECT_EQ(floats(nan_to_num(x, {.nan = 1, .posinf = 3, .neginf = -4})), (std::vector<float>{1, 3, -4, 2}));
  EXPECT_EQ(nan_to_num(x.astype(float16))[1].item<float>(), 65504.0F);
  EXPECT_EQ(repr(nan_to_num(array({1, 2}))), "Array([1, 2], dtype=int32)");
  const std::complex<float> z(std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity());
  EXPECT_EQ(nan_to_num(Array(z)).item<std::complex<float>>(), std::complex<float>(0, greatest));
}

TEST(Numpy, Closeness) {
  const double nan = std::nan("");
  const double inf = std::numeric_limits<double>::infinity();
  const Array x = array({1.0, 1.0, inf, inf, nan, 0.0});
  const Array y = array({1.000001, 1.1, inf, -inf, nan, 1e-9});
  EXPECT_EQ(repr(isclose(x, y)), "Array([ True, False,  True, False, False,  True], dtype=bool)");
  EXPECT_EQ(repr(isclose(x, y, {.atol = 0.2, .equal_nan = true})),
            "Array([ True,  True,  True, False,  True,  True], dtype=bool)");
  EXPECT_FALSE(static_cast<bool>(allclose(x, y)));
  EXPECT_TRUE(static_cast<bool>(allclose(iota({2, 3}) + 1, iota({2, 3}) + 1.000001)));
  EXPECT_TRUE(static_cast<bool>(allclose(array({1, 2}), array({1, 2}))));
  EXPECT_FALSE(static_cast<bool>(array_equal(x, x)));
  EXPECT_TRUE(static_cast<bool>(array_equal(x, x, true)));
  EXPECT_FALSE(static_cast<bool>(array_equal(iota({2}), iota({2, 1}))));
}

TEST(Numpy, Divmod) {
  const auto [quotient, rest] = divmod(array({7, -7}), 3);
  EXPECT_EQ(ints(quotient), (std::vector<int>{2, -3}));
  EXPECT_EQ(ints(rest), (std::vector<int>{1, 2}));
}

TEST(Numpy, ComplexFunctions) {
  using C = std::complex<float>;
  const Array z = array(std::vector<C>{C(3, 4), C(0, -2)});
  EXPECT_EQ(floats(abs(z)), (std::vector<float>{5, 2}));
  EXPECT_FLOAT_EQ(floats(angle(z))[0], std::arg(C(3, 4)));
  EXPECT_FLOAT_EQ(floats(angle(z))[1], std::arg(C(0, -2)));
  EXPECT_EQ(sqrt(Array(C(-4, 0))).item<C>(), C(0, 2));
  EXPECT_EQ(sqrt(z).dtype(), complex64);
  EXPECT_EQ(repr(lax::complex(array({1.0}), 2.0)), "Array([1.+2.j], dtype=complex64)");
  EXPECT_EQ(repr(z < C(1, 0)), "Array([False,  True], dtype=bool)");
  EXPECT_EQ(repr(isnan(z)), "Array([False, False], dtype=bool)");
}

TEST(Numpy, IntegerFunctions) {
  EXPECT_EQ(ints(gcd(array({12, -18, 0}), array({18, 12, 5}))), (std::vector<int>{6, 6, 5}));
  EXPECT_EQ(ints(lcm(array({4, 0}), 6)), (std::vector<int>{12, 0}));
  EXPECT_EQ(ints(left_shift(array({1, 3}), 2)), (std::vector<int>{4, 12}));
  EXPECT_EQ(ints(right_shift(array({-8, 8}), 1)), (std::vector<int>{-4, 4}));
  EXPECT_EQ(ints(population_count(array({7, -1}))), (std::vector<int>{3, 32}));
  EXPECT_EQ(ints(clz(array({1, 0}))), (std::vector<int>{31, 32}));
}

// ---- Reductions made of others.

TEST(Numpy, ReductionsWithoutNaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Array x = array(std::vector<float>{1, nan, 3, nan, nan, nan}).reshape(2, 3);
  EXPECT_EQ(floats(nansum(x, {.axis = 1})), (std::vector<float>{4, 0}));
  EXPECT_EQ(floats(nanprod(x, {.axis = 1})), (std::vector<float>{3, 1}));
  EXPECT_EQ(floats(nanmax(x[0])), (std::vector<float>{3}));
  EXPECT_EQ(floats(nanmin(x[0])), (std::vector<float>{1}));
  EXPECT_EQ(floats(nanmean(x[0])), (std::vector<float>{2}));
  EXPECT_TRUE(std::isnan(nanmax(x, {.axis = 1})[1].item<float>()));
  EXPECT_TRUE(std::isnan(nanmean(x, {.axis = 1})[1].item<float>()));
  EXPECT_EQ(repr(nansum(array({1, 2}))), "Array(3, dtype=int32)");
  EXPECT_EQ(repr(nanmax(array({1, 2}))), "Array(2, dtype=int32)");
}

TEST(Numpy, ReductionsWithMasksAndInitialValues) {
  const Array x = array({1, 2, 3, 4, 5, 6}).reshape(2, 3);
  const Array odd = x % 2 == 1;
  EXPECT_EQ(ints(sum(x, {.axis = 1, .where = odd})), (std::vector<int>{4, 5}));
  EXPECT_EQ(ints(sum(x, {.axis = 1, .initial = 10})), (std::vector<int>{16, 25}));
  EXPECT_EQ(ints(prod(x, {.axis = 0, .where = odd, .initial = 2})), (std::vector<int>{2, 10, 6}));
  EXPECT_EQ(ints(max(x, {.axis = 1, .where = odd, .initial = 4})), (std::vector<int>{4, 5}));
  EXPECT_EQ(ints(min(x, {.axis = 0, .keepdims = true, .where = odd, .initial = 9})), (std::vector<int>{1, 5, 3}));
  EXPECT_EQ(ints(x.sum({.where = array({true, false, false})})), std::vector<int>{5});
  EXPECT_EQ(repr(mean(x, {.axis = 1, .where = odd})), "Array([2., 5.], dtype=float32)");
  EXPECT_EQ(repr(var(x, {.axis = 1, .where = odd})), "Array([1., 0.], dtype=float32)");
  EXPECT_TRUE(std::isnan(mean(x, {.where = false}).item<float>()));
  EXPECT_TRUE(static_cast<bool>(all(odd, {.where = odd})));
  EXPECT_FALSE(static_cast<bool>(any(odd, {.where = ~odd})));
  EXPECT_EQ(count_nonzero(x, {.where = odd}).item<int>(), 3);
  EXPECT_EQ(logsumexp(array({1.0, 800.0}), {.where = array({true, false})}).item<float>(), 1.0F);
  EXPECT_EQ(repr(max(zeros({0, 2}), {.axis = 0, .initial = 3})), "Array([3., 3.], dtype=float32)");
  EXPECT_EQ(min(zeros({2, 0}), {.axis = 1, .keepdims = true, .initial = 3}).shape(), (Shape{2, 1}));
  const Array y = array({1.0, std::nan(""), 3.0, 9.0});
  EXPECT_EQ(nanmean(y, {.where = array({true, true, true, false})}).item<float>(), 2.0F);
  EXPECT_EQ(nanmax(y, {.where = array({true, true, true, false}), .initial = 0}).item<float>(), 3.0F);
}

TEST(Numpy, VariancesOfOtherDtypes) {
  EXPECT_EQ(repr(var(array({1, 3}))), "Array(1., dtype=float32)");
  EXPECT_EQ(std_(full({4}, 30000.0, {.dtype = float16})).dtype(), float16);
  EXPECT_EQ(var(array({200.0, -200.0}).astype(float16)).item<float>(), 40000.0F);  // Whose squares' sum overflows f16.
  EXPECT_EQ(repr(var(array(std::vector<std::complex<float>>{{0, 1}, {2, 1}}))), "Array(1., dtype=float32)");
  EXPECT_TRUE(std::isnan(var(array({1.0}), {.ddof = 1}).item<float>()));
}

TEST(Numpy, LogsumexpOfInfinities) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(logsumexp(array({-inf, -inf})).item<float>(), -inf);
  EXPECT_EQ(logsumexp(array({-inf, 3.0})).item<float>(), 3.0F);
  EXPECT_EQ(logsumexp(array({inf, 3.0})).item<float>(), inf);
  EXPECT_EQ(logsumexp(full({4}, 1000.0)).item<float>(), static_cast<float>(1000 + std::log(4.0)));
}

TEST(Numpy, TracesOfIntegersAndOfMoreDimensions) {
  EXPECT_EQ(repr(trace(ones({3, 3}, {.dtype = int8}))), "Array(3, dtype=int32)");
  // Where rows or columns have no item of the diagonal, where both do, and beyond the matrix.
  const Array tall = iota({2, 5, 3});
  for (std::int64_t k = -6; k <= 4; ++k) {
    std::vector<float> items;
    for (std::int64_t b = 0; b < 2; ++b) {
      for (std::int64_t i = std::max<std::int64_t>(0, -k); i < 5 && i + k < 3; ++i) {
        items.push_back(static_cast<float>(b * 15 + i * 3 + i + k));
      }
    }
    EXPECT_EQ(floats(diagonal(tall, {.offset = k, .axis1 = 1, .axis2 = 2})), items);
    EXPECT_EQ(floats(diagonal(transpose(tall), {.offset = -k, .axis1 = 0, .axis2 = 1})), items);
    EXPECT_EQ(floats(diag(tall[1], k)), std::vector<float>(items.begin() + std::ssize(items) / 2, items.end()));
  }
  EXPECT_THROW(diagonal(tall, {.axis1 = 1, .axis2 = -2}), InvalidArgument);
  EXPECT_EQ(floats(trace(iota({2, 3, 2}), {.axis1 = 0, .axis2 = -1})), (std::vector<float>{7, 11, 15}));
}

}  // namespace
}  // namespace shoal::test
