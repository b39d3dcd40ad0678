// Operators and NumPy-style functions, against what JAX gave for the same operands (testdata/*.inc), and the rest by
// hand.
#include "shoal/numpy.h"

#include <cmath>
#include <complex>
#include <functional>
#include <limits>
#include <map>

#include "frontend/test_support.h"

namespace shoal::test {
namespace {

// ---- Recorded operators and functions.

struct BinaryCase {
  std::string op;
  std::string left;
  std::string right;
  std::string result;
};

const BinaryCase kBinary[] = {
#include "frontend/testdata/binary.inc"
};

using Binary = std::function<Array(const Operand&, const Operand&)>;
const std::map<std::string, Binary> kOperators{
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

Operand operand(const std::string& name) {
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
  std::string function;
  std::string operand;
  std::string result;
};

const UnaryCase kUnary[] = {
#include "frontend/testdata/unary.inc"
};

using Unary = Array (*)(const Operand&);
const std::map<std::string, Unary> kFunctions{
    {"negative", negative}, {"abs", abs},     {"sign", sign},   {"sqrt", sqrt},
    {"floor", floor},       {"round", round}, {"isnan", isnan}, {"isfinite", isfinite},
    {"real", real},         {"imag", imag},   {"conj", conj},   {"bitwise_not", bitwise_not},
};

TEST(Numpy, FunctionsOfAllTypes) {
  for (const UnaryCase& c : kUnary) {
    EXPECT_EQ(outcome([&] { return kFunctions.at(c.function)(operand(c.operand)); }), c.result)
        << c.function << ' ' << c.operand;
  }
}

// ---- Recorded reductions and products.

struct ReductionCase {
  std::string function;
  std::string dtype;
  Axes axes;
  bool keepdims;
  std::string result;
};

const ReductionCase kReductions[] = {
#include "frontend/testdata/reductions.inc"
};

using Reduction = Array (*)(const Operand&, const ReduceOptions&);
const std::map<std::string, Reduction> kReducers{{"sum", sum},   {"prod", prod}, {"max", max}, {"min", min},
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

TEST(Numpy, NeuralNetworks) {
  EXPECT_EQ(floats(nn::relu(array({-1.0F, 2.0F}))), (std::vector<float>{0, 2}));
  EXPECT_EQ(nn::sigmoid(0).item<float>(), 0.5F);
  EXPECT_EQ(nn::relu(array({-1, 2})).dtype(), int32);
}

}  // namespace
}  // namespace shoal::test
