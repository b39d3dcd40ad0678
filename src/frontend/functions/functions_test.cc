// Functions of floats composed of others, against what JAX gave for the same operand (testdata/functions.inc).
#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>

#include "frontend/test_support.h"
#include "shoal/linalg.h"

namespace shoal::test {
namespace {

struct FunctionCase {
  std::string name;
  Shape shape;
  std::vector<double> result;
};

const FunctionCase kFunctionCases[] = {
#include "frontend/testdata/functions.inc"
};

using Function = std::function<Array(const Array&)>;

// As tools/record_frontend_cases.py: x from its end to its beginning, and weights from 0.01 to 0.99.
Array reversed(const Array& x) {
  const Array position = arange(4);
  const Array exchange = (position.reshape(4, 1) + position == 3).astype(x.dtype());
  return matmul(matmul(exchange, x), exchange);
}
Array clipped(const Array& x) { return clip(abs(x) / 8, 0.01, 0.99); }

const std::map<std::string, Function> kFunctionsOfFloats{
    {"sigmoid", [](const Array& x) { return nn::sigmoid(x); }},
    {"relu", [](const Array& x) { return nn::relu(x); }},
    {"relu6", [](const Array& x) { return nn::relu6(x); }},
    {"leaky_relu", [](const Array& x) { return nn::leaky_relu(x); }},
    {"leaky_relu 0.3", [](const Array& x) { return nn::leaky_relu(x, 0.3); }},
    {"elu", [](const Array& x) { return nn::elu(x); }},
    {"elu 0.7", [](const Array& x) { return nn::elu(x, 0.7); }},
    {"selu", [](const Array& x) { return nn::selu(x); }},
    {"celu", [](const Array& x) { return nn::celu(x); }},
    {"celu 0.7", [](const Array& x) { return nn::celu(x, 0.7); }},
    {"gelu", [](const Array& x) { return nn::gelu(x); }},
    {"gelu exact", [](const Array& x) { return nn::gelu(x, false); }},
    {"silu", [](const Array& x) { return nn::silu(x); }},
    {"mish", [](const Array& x) { return nn::mish(x); }},
    {"softplus", [](const Array& x) { return nn::softplus(x); }},
    {"squareplus", [](const Array& x) { return nn::squareplus(x); }},
    {"squareplus 1", [](const Array& x) { return nn::squareplus(x, 1); }},
    {"sparse_plus", [](const Array& x) { return nn::sparse_plus(x); }},
    {"sparse_sigmoid", [](const Array& x) { return nn::sparse_sigmoid(x); }},
    {"log_sigmoid", [](const Array& x) { return nn::log_sigmoid(x); }},
    {"log1mexp", [](const Array& x) { return nn::log1mexp(abs(x) + 0.25); }},
    {"soft_sign", [](const Array& x) { return nn::soft_sign(x); }},
    {"hard_tanh", [](const Array& x) { return nn::hard_tanh(x); }},
    {"hard_sigmoid", [](const Array& x) { return nn::hard_sigmoid(x); }},
    {"hard_silu", [](const Array& x) { return nn::hard_silu(x); }},
    {"softmax", [](const Array& x) { return nn::softmax(x); }},
    {"softmax 0", [](const Array& x) { return nn::softmax(x, 0); }},
    {"softmax all",
     [](const Array& x) {
       return nn::softmax(x, {0, 1});
     }},
    {"log_softmax", [](const Array& x) { return nn::log_softmax(x); }},
    {"log_softmax 0", [](const Array& x) { return nn::log_softmax(x, 0); }},
    {"logsumexp", [](const Array& x) { return nn::logsumexp(x); }},
    {"logsumexp 0", [](const Array& x) { return logsumexp(x, {.axis = 0}); }},
    {"logsumexp keepdims", [](const Array& x) { return logsumexp(x, {.axis = 1, .keepdims = true}); }},
    {"logmeanexp", [](const Array& x) { return nn::logmeanexp(x); }},
    {"logmeanexp 1", [](const Array& x) { return nn::logmeanexp(x, {.axis = 1}); }},
    {"standardize", [](const Array& x) { return nn::standardize(x); }},
    {"standardize 0", [](const Array& x) { return nn::standardize(x, 0); }},
    {"glu", [](const Array& x) { return nn::glu(x); }},
    {"glu 0", [](const Array& x) { return nn::glu(x, 0); }},
    {"sigmoid_binary_cross_entropy",
     [](const Array& x) { return nn::sigmoid_binary_cross_entropy(x, clipped(reversed(x))); }},
    {"softmax_cross_entropy", [](const Array& x) { return nn::softmax_cross_entropy(x, clipped(reversed(x))); }},
    {"attention",
     [](const Array& x) {
       const Array q = x.reshape({1, 4, 2, 2});
       return nn::dot_product_attention(q, reversed(x).reshape({1, 4, 2, 2}), q);
     }},
    {"attention causal",
     [](const Array& x) {
       const Array q = x.reshape({1, 4, 2, 2}) / 4;
       return nn::dot_product_attention(q, q, q, {.scale = 0.5, .is_causal = true});
     }},
    {"attention grouped",
     [](const Array& x) {
       const Array k = x[range(0, 2)].reshape({4, 1, 2});
       const Array position = arange(4);
       return nn::dot_product_attention(x.reshape({4, 2, 2}), k, k,
                                        {.bias = x, .mask = position.reshape(4, 1) != position});
     }},
    {"mean", [](const Array& x) { return mean(x); }},
    {"mean 0", [](const Array& x) { return mean(x, {.axis = 0}); }},
    {"var", [](const Array& x) { return var(x); }},
    {"var 1", [](const Array& x) { return var(x, {.axis = 1}); }},
    {"var ddof", [](const Array& x) { return var(x, {.axis = 0, .keepdims = true, .ddof = 1}); }},
    {"std", [](const Array& x) { return std_(x); }},
    {"std 0", [](const Array& x) { return std_(x, {.axis = 0}); }},
    {"ptp 1", [](const Array& x) { return ptp(x, {.axis = 1}); }},
    {"average", [](const Array& x) { return average(x); }},
    {"average weights", [](const Array& x) { return average(x, clipped(reversed(x))); }},
    {"average axis",
     [](const Array& x) {
       return average(x, array({1, 2, 3, 4}), {.axis = 0});
     }},
    {"trace", [](const Array& x) { return trace(x); }},
    {"trace 1", [](const Array& x) { return trace(x, {.offset = 1}); }},
    {"trace -2", [](const Array& x) { return trace(x, {.offset = -2}); }},
    {"deg2rad", [](const Array& x) { return deg2rad(x); }},
    {"rad2deg", [](const Array& x) { return rad2deg(x); }},
    {"float_power", [](const Array& x) { return float_power(abs(x), reversed(x)); }},
    {"divmod 0", [](const Array& x) { return divmod(x, clipped(x)).first; }},
    {"divmod 1", [](const Array& x) { return divmod(x, clipped(x)).second; }},
    {"clip", [](const Array& x) { return clip(x, -1, 2); }},
    {"angle", [](const Array& x) { return angle(lax::complex(x, reversed(x))); }},
    {"norm", [](const Array& x) { return linalg::norm(x); }},
    {"norm 1", [](const Array& x) { return linalg::norm(x, {.ord = 1}); }},
    {"norm -1", [](const Array& x) { return linalg::norm(x, {.ord = -1}); }},
    {"norm fro", [](const Array& x) { return linalg::norm(x, {.ord = "fro"}); }},
    {"norm inf", [](const Array& x) { return linalg::norm(x, {.ord = INFINITY}); }},
    {"norm -inf", [](const Array& x) { return linalg::norm(x, {.ord = -INFINITY}); }},
    {"vector norm 0", [](const Array& x) { return linalg::norm(x, {.ord = 0, .axis = 1}); }},
    {"vector norm 1", [](const Array& x) { return linalg::norm(x, {.ord = 1, .axis = 1}); }},
    {"vector norm 2", [](const Array& x) { return linalg::norm(x, {.axis = 0}); }},
    {"vector norm 3", [](const Array& x) { return linalg::norm(x, {.ord = 3, .axis = 1}); }},
    {"vector norm inf", [](const Array& x) { return linalg::norm(x, {.ord = INFINITY, .axis = 0, .keepdims = true}); }},
    {"vector norm -inf", [](const Array& x) { return linalg::norm(x, {.ord = -INFINITY, .axis = 0}); }},
    {"inner", [](const Array& x) { return inner(x, reversed(x)); }},
    {"outer", [](const Array& x) { return outer(x, x[0]); }},
    {"vdot", [](const Array& x) { return vdot(x, reversed(x)); }},
    {"vecdot", [](const Array& x) { return vecdot(x, reversed(x)); }},
    {"vecdot 0", [](const Array& x) { return vecdot(x, reversed(x), 0); }},
    {"tensordot 1", [](const Array& x) { return tensordot(x, x, 1); }},
    {"tensordot", [](const Array& x) { return tensordot(x, reversed(x)); }},
    {"tensordot 0", [](const Array& x) { return tensordot(x[0], x, 0); }},
    {"tensordot axes",
     [](const Array& x) {
       return tensordot(x, reversed(x), {0, 1}, {1, 0});
     }},
    {"kron", [](const Array& x) { return kron(x[range(0, 2)], x[0]); }},
};

// The values of VALUES in tools/record_frontend_cases.py.
Array values_of(Dtype dtype) {
  return array({-7.5, -3.0, -1.25, -1.0, -0.625, -0.1, 0.0, 0.1, 0.5, 0.75, 1.0, 1.5, 2.25, 3.0, 6.5, 20.0},
               {.dtype = dtype})
      .reshape(4, 4);
}

void expect_values(Dtype dtype, double tolerance) {
  ASSERT_EQ(std::size(kFunctionCases), kFunctionsOfFloats.size());
  for (const FunctionCase& c : kFunctionCases) {
    const Array result = kFunctionsOfFloats.at(c.name)(values_of(dtype));
    EXPECT_EQ(result.dtype(), dtype) << c.name;
    ASSERT_EQ(result.shape(), c.shape) << c.name;
    const std::vector<double> got = result.astype(float64).to_vector<double>();
    double scale = 1;  // Sums of terms of both signs are as good as the largest term.
    for (const double value : c.result) scale = std::max(scale, std::abs(value));
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i], c.result[i], tolerance * scale) << c.name << " element " << i;
    }
  }
}

TEST(Functions, GiveTheRecordedValuesInF64) { expect_values(float64, 1e-13); }
TEST(Functions, GiveTheRecordedValuesInF32) { expect_values(float32, 2e-6); }

// Rounded once: the f32 result, to f16.
TEST(Functions, OfHalfPrecisionComputeInF32) {
  const Array x = values_of(float16).reshape(16);
  EXPECT_TRUE(same(nn::gelu(x), nn::gelu(x.astype(float32)).astype(float16)));
  EXPECT_TRUE(same(nn::softmax(x), nn::softmax(x.astype(float32)).astype(float16)));
  EXPECT_TRUE(same(nn::standardize(x), nn::standardize(x.astype(float32)).astype(float16)));
  EXPECT_TRUE(same(logsumexp(x * 100), logsumexp((x * 100).astype(float32)).astype(float16)));
  EXPECT_TRUE(same(linalg::norm(x * 1000), linalg::norm((x * 1000).astype(float32)).astype(float16)));
}

std::string partitioned(const Function& function, const Array& x) {
  return jit([&](Array v) { return function(v); }).lower(x).compile().as_text();
}

TEST(Functions, OfWholeRowsMoveNothing) {
  const Array rows = put(iota({8, 6}), mesh_8(), P("i"));
  const std::vector<Function> functions = {
      [](const Array& x) { return nn::softmax(x); },
      [](const Array& x) { return nn::log_softmax(x); },
      [](const Array& x) { return nn::standardize(x); },
      [](const Array& x) { return nn::glu(x); },
      [](const Array& x) { return nn::gelu(x); },
      [](const Array& x) { return std_(x, {.axis = 1}); },
      [](const Array& x) { return nanmean(x, {.axis = 1}); },
      [](const Array& x) { return vecdot(x, x); },
      [](const Array& x) { return linalg::norm(x, {.axis = 1}); },
  };
  for (const Function& function : functions) {
    const std::string text = partitioned(function, rows);
    for (const char* collective : {"all_reduce", "all_gather", "all_to_all", "collective_permute", "reduce_scatter"}) {
      EXPECT_THAT(text, testing::Not(testing::HasSubstr(collective))) << text;
    }
  }
}

TEST(Functions, OfSplitRowsOnlyExchangeSums) {
  const Array columns = put(iota({6, 8}), mesh_8(), P(none, "i"));
  const Array square = put(iota({8, 8}), mesh_8(), P(none, "i"));
  const std::vector<std::pair<Function, Array>> calls = {
      {[](const Array& x) { return nn::softmax(x); }, columns},
      {[](const Array& x) { return logsumexp(x, {.axis = 1}); }, columns},
      {[](const Array& x) { return var(x); }, columns},
      {[](const Array& x) { return vdot(x, x); }, columns},
      {[](const Array& x) { return linalg::norm(x); }, columns},
      {[](const Array& x) { return trace(x); }, square},
      {[](const Array& x) { return einsum("ii", x); }, square},
  };
  for (const auto& [function, operand] : calls) {
    const std::string text = partitioned(function, operand);
    EXPECT_THAT(text, testing::HasSubstr("all_reduce"));
    EXPECT_THAT(text, testing::Not(testing::HasSubstr("all_gather"))) << text;
    EXPECT_THAT(text, testing::Not(testing::HasSubstr("all_to_all"))) << text;
  }
}

TEST(Functions, OfNeuralNetworksTakeIntegers) {
  EXPECT_EQ(floats(nn::relu(array({-1.0F, 2.0F}))), (std::vector<float>{0, 2}));
  EXPECT_EQ(nn::sigmoid(0).item<float>(), 0.5F);
  EXPECT_EQ(nn::relu(array({-1, 2})).dtype(), int32);
  EXPECT_EQ(nn::relu6(array({-1, 20})).dtype(), float32);
  EXPECT_TRUE(same(nn::swish(iota({3})), nn::silu(iota({3}))));
  EXPECT_TRUE(same(nn::hard_swish(iota({3})), nn::hard_silu(iota({3}))));
}

TEST(Functions, OfNothing) {
  EXPECT_EQ(repr(logsumexp(zeros({0, 2}), {.axis = 0})), "Array([-inf, -inf], dtype=float32)");
  EXPECT_EQ(nn::softmax(zeros({3, 0})).shape(), (Shape{3, 0}));
  EXPECT_EQ(nn::log_softmax(zeros({0, 3}), 0).shape(), (Shape{0, 3}));
}

}  // namespace
}  // namespace shoal::test
