// Every derivative against finite differences in f64; in reverse against forward; second ones, too.
#include "shoal/derivatives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/shape_mismatch.h"
#include "frontend/array/trace.h"
#include "frontend/array/tracer_errors.h"
#include "frontend/test_support.h"
#include "ops/derivatives.h"
#include "ops/elementwise.h"
#include "ops/table.h"
#include "sharding/test_support.h"
#include "shoal/checkpoint.h"
#include "shoal/convolution.h"
#include "shoal/fft.h"
#include "shoal/linalg.h"
#include "shoal/nn.h"
#include "shoal/pmap.h"
#include "shoal/reduce.h"
#include "shoal/statistics.h"

namespace shoal::test {
namespace {

using test_support::message_of;

using Function = std::function<Array(const Array&)>;

std::vector<double> numbers(std::int64_t count, double low, double high, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> pick(low, high);
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(pick(random));
  return values;
}

Array random(const Shape& shape, double low, double high, unsigned seed) {
  return reshape(array(numbers(num_elements(shape), low, high, seed)), shape);
}

double dot(const Array& a, const Array& b) { return sum(a * b).item<double>(); }

// How f changes with x along `direction`, by differences whose error is of fourth order.
Array difference(const Function& f, const Array& x, const Array& direction) {
  constexpr double kStep = 1e-3;
  const auto at = [&](double times) { return f(x + direction * (times * kStep)); };
  return ((at(1) - at(-1)) * 8.0 - (at(2) - at(-2))) / (12 * kStep);
}

void expect_near(const Array& a, const Array& b, double tolerance, const std::string& what) {
  ASSERT_EQ(a.shape(), b.shape()) << what;
  const double scale = 1 + max(abs(b)).item<double>();
  const double error = max(abs(a - b)).item<double>();
  EXPECT_LE(error / scale, tolerance) << what << ": " << str(a) << " and " << str(b);
}

// `is_smooth`: whether there is a second derivative that differences can find.
void check(const std::string& name, const Function& f, const Array& x, bool is_smooth = true) {
  SCOPED_TRACE(name);
  const Array direction = random(x.shape(), -1, 1, 7);
  const auto [y, change] = jvp(f, std::tuple(x), std::tuple(direction));
  EXPECT_EQ(str(y), str(f(x)));
  expect_near(change, difference(f, x, direction), 1e-8, "forward");
  const Array weights = random(y.shape(), -1, 1, 8);
  const auto weighted = [&](const Array& v) { return sum(f(v) * weights); };
  const Array gradient = grad(weighted)(x);
  EXPECT_NEAR(dot(gradient, direction), dot(weights, change), 1e-10 * (1 + std::abs(dot(weights, change))));
  expect_near(jit(grad(weighted))(x), gradient, 1e-13, "in jit");
  const auto [value, pull] = vjp(f, x);
  expect_near(pull(weights), gradient, 1e-13, "vjp");
  const auto [same, push] = linearize(f, x);
  expect_near(push(direction), change, 1e-13, "linearize");
  if (!is_smooth) return;
  const Function slope = [&](const Array& v) { return jvp(f, std::tuple(v), std::tuple(direction)).second; };
  const Function steep = [&](const Array& v) { return grad(weighted)(v); };
  const Array turned = difference(steep, x, direction);
  expect_near(jvp(slope, std::tuple(x), std::tuple(direction)).second, difference(slope, x, direction), 1e-7,
              "forward over forward");
  expect_near(jvp(steep, std::tuple(x), std::tuple(direction)).second, turned, 1e-7, "forward over reverse");
  const auto along = [&](const Array& v) { return sum(grad(weighted)(v) * direction); };
  expect_near(grad(along)(x), turned, 1e-7, "reverse over reverse");
}

// Where a function is smooth.
std::pair<double, double> domain_of(std::string_view name) {
  if (name == "arccosh") return {1.2, 3};
  if (name == "tan" || name == "digamma" || name == "lgamma") return {0.3, 1.4};
  if (name == "zeta") return {0.5, 1.4};
  return {0.15, 0.85};
}

// Of an op that has a derivative by its last operand alone, values of the others; of all others, none.
std::vector<Array> held_operands(std::string_view name) {
  const auto scalars = [](std::initializer_list<double> values) {
    std::vector<Array> made;
    for (const double value : values) made.push_back(full({}, value, {.dtype = float64}));
    return made;
  };
  if (name == "expn") return scalars({2});
  if (name == "zeta") return scalars({2.5});
  if (name == "igamma_grad_a") return scalars({1.5});
  if (name == "betainc" || name == "hyp1f1_grad_a" || name == "hyp1f1_grad_b") return scalars({1.5, 2.5});
  if (name == "hyp2f1_grad_a" || name == "hyp2f1_grad_c") return scalars({1.5, 0.5, 2.5});
  return {};
}

TEST(Derivatives, OfEveryElementwiseOp) {
  std::size_t count = 0;
  for (const OpDef& op : elementwise_ops()) {
    if ((op.elementwise->takes & kFloatKind) == 0 || op.elementwise->result == ResultDtype::kBool) continue;
    if (op.name == "select" || op.name == "complex" || op.name == "convert" || op.is_flat) continue;
    ++count;
    const auto [low, high] = domain_of(op.name);
    const Array x = random({5}, low, high, 1);
    const auto apply = [&](std::initializer_list<Array> operands) { return bind_one(op.name, {}, operands); };
    if (op.arity == 1) {
      check(
          std::string(op.name), [&](const Array& v) { return apply({v}); }, x);
      continue;
    }
    const std::vector<Array> held = held_operands(op.name);
    if (!held.empty()) {
      const auto by_last = [&](const Array& v) {
        std::vector<Array> operands = held;
        operands.push_back(v);
        return bind(op.name, {}, operands)[0];
      };
      check(std::string(op.name), by_last, x);
      const auto by_first = [&](const Array& v) {
        std::vector<Array> operands(held.size() + 1, x);
        operands[0] = v;
        return sum(bind(op.name, {}, operands)[0]);
      };
      EXPECT_THROW(grad(by_first)(x), Unsupported) << op.name;
      continue;
    }
    // What is the derivative by a parameter has none by it.
    for (std::size_t place = 0; op.arity > 2 && place < static_cast<std::size_t>(op.arity); ++place) {
      const auto by_one = [&](const Array& v) {
        std::vector<Array> operands(static_cast<std::size_t>(op.arity), random({5}, 0.2, 0.9, 2));
        operands[place] = v;
        return bind(op.name, {}, operands)[0];
      };
      const bool is_last = place + 1 == static_cast<std::size_t>(op.arity);
      check(std::string(op.name) + " by operand " + std::to_string(place), by_one, x, is_last);
    }
    if (op.arity > 2) continue;
    const bool is_smooth = op.name != "igamma" && op.name != "igammac";
    const Array y = random({5}, 0.2, 0.9, 2);
    const Array scalar = random({}, 0.3, 0.4, 4);
    // Steps of floor_divide, and ties, are not near these numbers.
    check(
        std::string(op.name) + " by x",
        [&](const Array& v) {
          return apply({v, y});
        },
        x, is_smooth);
    check(
        std::string(op.name) + " by y",
        [&](const Array& v) {
          return apply({x, v});
        },
        y);
    check(
        std::string(op.name) + " by both",
        [&](const Array& v) {
          return apply({v, flip(v) + 0.05});
        },
        x, is_smooth);
    check(
        std::string(op.name) + " by a scalar",
        [&](const Array& v) {
          return apply({x, v});
        },
        scalar);
    check(
        std::string(op.name) + " by a scalar on the left",
        [&](const Array& v) {
          return apply({v, y});
        },
        scalar, is_smooth);
  }
  EXPECT_GE(count, 50U);
}

// What is flat has no derivative, and every other op of numbers has a rule.
TEST(Derivatives, EveryRecordSaysWhatItsDerivativeIs) {
  for (const OpDef* op : all_ops()) {
    if (op->elementwise == nullptr || op->is_flat) continue;
    if ((op->elementwise->takes & kFloatKind) == 0 || op->elementwise->result == ResultDtype::kBool) continue;
    for (std::size_t i = 0; i < static_cast<std::size_t>(op->arity); ++i) {
      const bool is_condition = op->name == "select" && i == 0;
      const ElementwiseColumns& columns = op->elementwise->columns;
      EXPECT_TRUE(is_condition || columns.tangents[i] != nullptr || op->linear[i] != Linear::kNo) << op->name << i;
      EXPECT_TRUE(is_condition || op->linear[i] == Linear::kNo || columns.cotangents[i] != nullptr) << op->name << i;
    }
  }
}

struct Case {
  const char* name;
  Function f;
  Shape shape;
  bool is_smooth = true;
};

class DerivativeOf : public testing::TestWithParam<Case> {};

TEST_P(DerivativeOf, IsWhatDifferencesSay) {
  const Case& c = GetParam();
  check(c.name, c.f, random(c.shape, -1, 1, 3), c.is_smooth);
}

const Array& matrix() {
  static const Array& made = *new Array(random({4, 3}, -1, 1, 11));
  return made;
}

Array positions() { return array(std::vector<std::int32_t>{0, 3, 3, 1}); }

std::vector<Case> cases() {
  // Array and window are parts of x.
  const auto conv = [](Dims strides, std::vector<std::pair<std::int64_t, std::int64_t>> padding,
                       lax::ConvOptions options) {
    return [=](const Array& x) {
      const Array array = reshape(lax::slice_in_dim(x, 0, 2 * 4 * 7 * 2), {2, 4, 7, 2});
      lax::ConvOptions with_groups = options;
      with_groups.feature_group_count = 2;
      return lax::conv_general_dilated(array, reshape(lax::slice_in_dim(x, 100, 172), {6, 2, 3, 2}), strides, padding,
                                       with_groups);
    };
  };
  return {
      {"broadcast",
       [](const Array& x) {
         return broadcast_to(square(x), {2, 4, 3});
       },
       {4, 1}},
      {"reshape and transpose",
       [](const Array& x) {
         return transpose(reshape(sin(x), {3, 2, 2}));
       },
       {12}},
      {"slice",
       [](const Array& x) {
         return lax::slice(exp(x), {1, 0}, {6, 4}, Dims{2, 3});
       },
       {7, 4}},
      {"pad",
       [](const Array& x) {
         return lax::pad(square(x), sum(x), {{1, -1, 2}, {-2, 0, 1}});
       },
       {4, 5}},
      {"concatenate",
       [](const Array& x) {
         return concatenate({sin(x), x, cos(x)}, 1);
       },
       {3, 2}},
      {"flip and roll", [](const Array& x) { return roll(flip(exp(x), 0), 2, 1) * x; }, {3, 5}},
      {"select", [](const Array& x) { return where(greater(x, 0.1), x * x, sin(x)); }, {9}},
      {"sum", [](const Array& x) { return sum(square(x), {.axis = 1}); }, {3, 4}},
      {"max", [](const Array& x) { return max(x * x, {.axis = 0}); }, {5, 4}},
      {"min of all", [](const Array& x) { return min(sin(x)); }, {5, 4}},
      {"prod", [](const Array& x) { return prod(x, {.axis = 1}); }, {3, 4}},
      {"prod of all, of which one is 0",
       [](const Array& x) {
         return prod(x - x * array({1., 0., 0., 0.}));
       },
       {4}},
      {"variance", [](const Array& x) { return var(x, {.axis = 0}); }, {6, 2}},
      {"logsumexp", [](const Array& x) { return nn::logsumexp(x, {.axis = 1}); }, {3, 4}},
      {"softmax", [](const Array& x) { return nn::softmax(x); }, {3, 4}},
      {"matmul on the left", [](const Array& x) { return matmul(x, matrix()); }, {2, 4}},
      {"matmul on the right", [](const Array& x) { return matmul(matrix(), x); }, {3, 2}},
      {"matmul of both", [](const Array& x) { return matmul(x, transpose(x)); }, {3, 4}},
      {"batched products", [](const Array& x) { return einsum("bij,kbj->ikb", x, x); }, {2, 2, 3}},
      {"products over two dimensions",
       [](const Array& x) {
         return tensordot(x, lax::transpose(x, {1, 2, 0}), 2);
       },
       {3, 3, 3}},
      {"gather", [](const Array& x) { return take(square(x), positions(), {.axis = 0}); }, {4, 2}},
      {"elements",
       [](const Array& x) {
         return take_along_axis(square(x), reshape(positions(), {2, 2}), 1);
       },
       {2, 4}},
      {"one element of each row",
       [](const Array& x) {
         return take_along_axis(square(x), reshape(positions(), {4, 1}), 1);
       },
       {4, 5}},
      {"one element of each column, by small integers",
       [](const Array& x) {
         const Array index = reshape(positions(), {1, 2, 2}).astype(int8);
         return take_along_axis(sin(x), index + index, 0);
       },
       {200, 2, 2}},
      {"set at",
       [](const Array& x) {
         return (x * x).at(positions()).set(sin(reshape(x, {4, 2})));
       },
       {4, 2}},
      {"add at", [](const Array& x) { return (x * x).at(positions()).add(sin(x)); }, {4, 2}},
      {"multiply at", [](const Array& x) { return (x * x).at(positions()).multiply(sin(x)); }, {4, 2}},
      {"max at", [](const Array& x) { return (x * x).at(positions()).max(sin(x)); }, {4, 2}},
      {"dynamic_slice",
       [](const Array& x) {
         return lax::dynamic_slice(exp(x), {1, array(2)}, {2, 2});
       },
       {4, 4}},
      {"dynamic_update_slice",
       [](const Array& x) {
         return lax::dynamic_update_slice(exp(x), lax::slice(sin(x), {0, 0}, {2, 2}), {1, array(2)});
       },
       {4, 4}},
      {"sort", [](const Array& x) { return sort(x * x); }, {3, 5}},
      {"top_k", [](const Array& x) { return lax::top_k(sin(x), 2).first; }, {3, 5}},
      {"median", [](const Array& x) { return median(x * x); }, {7}},
      {"cumsum", [](const Array& x) { return cumsum(square(x), {.axis = 0}); }, {4, 3}},
      {"cumprod", [](const Array& x) { return cumprod(x, {.axis = 1}); }, {2, 6}},
      {"cummax", [](const Array& x) { return lax::cummax(sin(x), 1); }, {2, 6}},
      {"cumlogsumexp backwards", [](const Array& x) { return lax::cumlogsumexp(x, 1, true); }, {2, 6}},
      {"convolution", conv({1, 1}, {{0, 0}, {0, 0}}, {}), {172}},
      {"convolution in steps, padded", conv({2, 1}, {{1, 2}, {1, 0}}, {}), {172}},
      {"convolution of what is dilated",
       conv({3, 2}, {{2, 1}, {0, 1}}, {.lhs_dilation = {2, 1}, .rhs_dilation = {1, 2}}),
       {172}},
      {"attention", [](const Array& x) { return nn::dot_product_attention(x, sin(x), cos(x)); }, {2, 3, 2, 2}},
      {"attention of values alone",
       [](const Array& x) {
         const Array q = random({5, 2, 3}, -1, 1, 3);
         return nn::dot_product_attention(q, q, x, {.is_causal = true});
       },
       {5, 2, 3}},
      {"attention with a bias and a mask",
       [](const Array& x) {
         const Array k = reshape(sin(x)[range(0, 2)], {4, 1, 1});
         const Array bias = reshape(x, {2, 6, 1}) * arange(4);
         const Array mask = arange(6).reshape({6, 1}) + arange(4) != 1;
         return nn::dot_product_attention(reshape(x, {6, 2, 1}), k, k,
                                          {.bias = bias, .mask = mask, .scale = 0.7, .is_causal = true});
       },
       {6, 2}},
      {"fft",
       [](const Array& x) {
         const Array y = fft::fft(square(x), {.axis = 0});
         return real(y) * imag(y) + real(y);
       },
       {5, 3}},
      {"inverse fft of complex numbers",
       [](const Array& x) { return real(fft::ifft2(lax::complex(x, sin(x)) * fft::fft2(x))); },
       {4, 3}},
      {"fft of real numbers", [](const Array& x) { return imag(fft::rfft(square(x))); }, {3, 6}},
      {"fft of an odd number of real ones",
       [](const Array& x) {
         const Array y = fft::rfftn(x * x, {.axes = Dims{1, 0}});
         return real(y) * imag(y);
       },
       {5, 4}},
      {"inverse fft to real numbers",
       [](const Array& x) { return fft::irfft(lax::complex(x, cos(x)), {.n = 7}); },
       {2, 4}},
      {"inverse fft to an even number of real ones",
       [](const Array& x) { return fft::irfft2(lax::complex(x * x, cos(x))); },
       {3, 5}},
      {"window sums",
       [](const Array& x) {
         return lax::reduce_window(square(x), 0.0, [](const Array& a, const Array& b) { return a + b; }, {2, 3},
                                   {.window_strides = {2, 1}, .padding = "SAME"});
       },
       {5, 6}},
      {"window maxima",
       [](const Array& x) {
         return lax::reduce_window(square(x), -1e9, [](const Array& a, const Array& b) { return maximum(a, b); },
                                   {2, 3}, {.window_strides = {2, 1}, .padding = "SAME"});
       },
       {5, 6}},
      {"cholesky", [](const Array& x) { return linalg::cholesky(matmul(x, transpose(x)) + 3.0 * eye(3)); }, {3, 3}},
      {"triangular_solve",
       [](const Array& x) {
         return lax::linalg::triangular_solve(x + 3.0 * eye(3), sin(x), {.left_side = true, .lower = true});
       },
       {2, 3, 3}},
      {"inverse", [](const Array& x) { return linalg::inv(x + 3.0 * eye(3)); }, {2, 3, 3}},
      {"determinant", [](const Array& x) { return linalg::det(x); }, {4, 4}},
      {"solve", [](const Array& x) { return linalg::solve(x + 3.0 * eye(3), sin(x)); }, {3, 3}},
      {"lu of more rows", [](const Array& x) { return lax::linalg::lu(x).lu; }, {2, 4, 3}},
      {"lu of more columns", [](const Array& x) { return lax::linalg::lu(x).lu; }, {3, 5}},
      {"qr", [](const Array& x) { return linalg::qr(x).Q * linalg::qr(x).R; }, {3, 3}},
      {"eigenvalues of any matrix",
       [](const Array& x) {
         const Array w = linalg::eigvals(x + diag(arange(4.0)) * 3.0);
         return sort(real(w)) * abs(w[0]);
       },
       {4, 4}},
      {"eigenvectors of any matrix",
       [](const Array& x) {
         const auto parts = lax::linalg::eig(x + diag(arange(3.0)) * 3.0, {.enable_eigvec_derivs = true});
         return concatenate({abs(*parts.vl) + imag(*parts.vl), real(*parts.vr), expand_dims(abs(parts.w), 0)});
       },
       {3, 3}},
      {"eigenvalues", [](const Array& x) { return linalg::eigh(x + transpose(x)).eigenvalues; }, {4, 4}},
      {"singular values", [](const Array& x) { return linalg::svd(x, false).S; }, {2, 4, 3}},
      {"pseudo-inverse",
       [](const Array& x) {
         return linalg::pinv(concatenate({x + 3.0 * eye(3), sin(x)}, 1));
       },
       {3, 3}},
      {"a jitted function",
       [](const Array& x) {
         const auto inner = jit([](const Array& v) { return sin(v) * v; });
         return inner(x) + inner(inner(x));
       },
       {4}},
  };
}

std::vector<Case> loops() {
  return {
      {"a loop",
       [](const Array& x) {
         const auto trip = [&](const Array& c, const Array& row) { return std::pair(sin(c) * x[0] + row, c * row); };
         const auto [last, ys] = lax::scan(trip, cos(x[0]), x);
         return concatenate({expand_dims(last, 0), ys});
       },
       {4, 3}},
      {"a loop in reverse, whose results nobody needs",
       [](const Array& x) {
         const auto trip = [](const Array& c, const Array& row) { return std::pair(c * exp(row) + row, c); };
         return lax::scan(trip, sum(x, {.axis = 0}), x, {.reverse = true}).first;
       },
       {4, 3}},
      {"a loop with a carry that no trip changes",
       [](const Array& x) {
         const auto trip = [](const std::pair<Array, Array>& c, const Array& row) {
           return std::pair(std::pair(c.first * sin(c.second) + row, c.second), c.first);
         };
         return lax::scan(trip, std::pair(x[0], x[1]), x).second;
       },
       {4, 3}},
      {"a loop in a loop with a branch",
       [](const Array& x) {
         const auto inner = [&](const Array& c, const Array& row) {
           const Array turned = lax::cond(
               sum(row) > 1.5, [](const Array& v) { return sin(v) * v; }, [&](const Array& v) { return v * x[1]; }, c);
           return std::pair(turned + row, turned);
         };
         const auto outer = [&](const Array& c, const Array&) { return lax::scan(inner, c, x); };
         const auto [last, ys] = lax::scan(outer, x[0], arange(2.0));
         return sum(ys, {.axis = 0}) + last;
       },
       {4, 3}},
      {"a loop that ends when its values say so, with checkpoints",
       [](const Array& x) {
         using Three = std::tuple<Array, Array, Array>;
         const auto goes_on = [](const Three& s) { return std::get<0>(s) < 6; };
         const auto trip = [&](const Three& s) {
           const auto& [i, a, b] = s;
           return Three(i + 1, sin(a) * x[0] + b, a * x[1]);
         };
         return std::get<1>(lax::while_loop(goes_on, trip, Three(Array(0), x[2], x[3]), {.max_checkpoints = 2}));
       },
       {4, 3}},
      {"a loop of products",
       [](const Array& x) {
         return lax::fori_loop(
             0, 3, [&](const Array&, const Array& m) { return matmul(m, x) + 0.1; }, x);
       },
       {3, 3}},
      {"branches",
       [](const Array& x) {
         const std::vector<Function> branches = {[](const Array& v) { return sin(v); },
                                                 [](const Array& v) { return square(v); },
                                                 [](const Array& v) { return zeros_like(v) + 1.0; }};
         const auto pick = [&](int i) { return lax::switch_(i, branches, x); };
         return pick(0) + pick(1) * pick(2);
       },
       {4}},
      {"checkpoint",
       [](const Array& x) {
         const auto f = [&](const Array& v) { return tanh(matmul(sin(matmul(v, x)), v)); };
         return checkpoint(f)(checkpoint(f, {.policy = checkpoint_policies::dots_saveable()})(x));
       },
       {3, 3}},
      {"map", [](const Array& x) { return lax::map([](const Array& row) { return sum(sin(row)) * row; }, x); }, {4, 3}},
      {"associative_scan",
       [](const Array& x) {
         return lax::associative_scan([](const Array& a, const Array& b) { return a * b + b; }, x);
       },
       {5, 2}},
  };
}

// A function of the shards of rows on four devices.
Function on_shards(const Function& f, bool checked = true) {
  return [=](const Array& x) {
    const Mesh mesh = make_mesh({4}, {"i"});
    return shard_map(f, {.mesh = mesh, .in_specs = {P("i")}, .out_specs = P("i"), .check_vma = checked})(x);
  };
}

std::vector<Case> over_devices() {
  return {
      {"shards", on_shards([](const Array& x) { return sin(x) * lax::psum(x * x, "i"); }), {4, 2}},
      {"psum over unchecked axes",
       on_shards([](const Array& x) { return sin(x) * lax::psum(x * x, "i"); }, false),
       {4, 2}},
      {"psum in groups",
       on_shards([](const Array& x) {
         return lax::psum(sin(x), "i", {.axis_index_groups = {{0, 3}, {1, 2}}}) * x;
       }),
       {4, 2}},
      {"all_gather",
       on_shards([](const Array& x) { return lax::all_gather(sin(x), "i") * (1.0 + lax::axis_index("i")); }),
       {4, 2}},
      {"all_gather_invariant",
       on_shards([](const Array& x) { return lax::all_gather_invariant(sin(x), "i", {.tiled = true}) * x; }),
       {4, 2}},
      {"psum_scatter",
       on_shards([](const Array& x) {
         return lax::psum_scatter(x[0][0] * arange(4.0) + sin(x[0][1]), "i", {.tiled = true});
       }),
       {4, 2}},
      {"all_to_all",
       on_shards([](const Array& x) {
         return lax::all_to_all(sin(x) * x, "i", {.split_axis = 1, .concat_axis = 0, .tiled = true});
       }),
       {4, 4}},
      {"ppermute",
       on_shards([](const Array& x) {
         return lax::ppermute(sin(x), "i", {{0, 1}, {1, 3}, {3, 0}}) * x;
       }),
       {4, 2}},
      {"ragged_all_to_all",
       on_shards([](const Array& x) {
         // One of the two rows of a device for each other device, in its place among five rows, so that each row goes
         // to several.
         const Array mine = lax::axis_index("i");
         const Array others = astype(arange(4) != mine, int32);
         const Array to = full({4}, mine, {.dtype = int32});
         const Array output = concatenate({x * x, cos(x), expand_dims(sum(x, {.axis = 0}), 0)}, 0);
         return lax::ragged_all_to_all(sin(x), output, {(arange(4) + mine) % 2, others, to, others}, "i") * 2.0;
       }),
       {8, 2}},
      {"pbroadcast", on_shards([](const Array& x) { return lax::pbroadcast(sin(x), "i", 2) * x; }), {4, 2}},
      {"a loop on shards",
       on_shards([](const Array& x) {
         const auto trip = [&](const Array& c, const Array& t) {
           return std::pair(sin(c) * t + lax::psum(c * x, "i"), c);
         };
         return lax::scan(trip, x, arange(3.0)).first;
       }),
       {4, 2}},
      {"pmap", pmap([](const Array& x) { return sin(x) * lax::psum(x * x, "i"); }, {.axis_name = "i"}), {4, 2}},
      {"pmap of what it captures",
       [](const Array& x) {
         return pmap([&](const Array& row) { return row * lax::pmean(sum(x) * row, "i"); }, {.axis_name = "i"})(x);
       },
       {4, 2}},
      {"pmap in pmap",
       pmap(
           [](const Array& x) {
             return pmap([](const Array& y) { return sin(y) * lax::psum(y * y, "j") * lax::psum(y, "i"); },
                         {.axis_name = "j"})(x);
           },
           {.axis_name = "i"}),
       {4, 2}},
  };
}

std::string name_of_case(const testing::TestParamInfo<Case>& instance) {
  std::string name = instance.param.name;
  std::erase_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
  return name;
}

INSTANTIATE_TEST_SUITE_P(Functions, DerivativeOf, testing::ValuesIn(cases()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Loops, DerivativeOf, testing::ValuesIn(loops()), name_of_case);
INSTANTIATE_TEST_SUITE_P(OverDevices, DerivativeOf, testing::ValuesIn(over_devices()), name_of_case);

TEST(Derivatives, OfNestedFunctionsTellTheirArgumentsApart) {
  // d/dx (x d/dy (x y)) = d/dx x^2
  const auto f = [](const Array& x) { return x * grad([&](const Array& y) { return x * y; })(array(1.)); };
  EXPECT_EQ(grad(f)(array(3.)).item<double>(), 6);
}

TEST(Derivatives, WhatIsConcreteStaysConcrete) {
  const auto f = [](const Array& x) {
    if (greater(x, 2)) return x * x;
    return x;
  };
  EXPECT_EQ(grad(f)(array(3.)).item<double>(), 6);
  EXPECT_EQ(grad(f)(array(1.)).item<double>(), 1);
  const auto read = [](const Array& x) { return x * x.item<double>(); };
  EXPECT_EQ(grad(read)(array(3.)).item<double>(), 3);
}

TEST(Derivatives, StopAtStopGradient) {
  const auto f = [](const Array& x) { return stop_gradient(x) * x; };
  EXPECT_EQ(grad(f)(array(3.)).item<double>(), 3);
  EXPECT_EQ(jit(grad(f))(array(3.)).item<double>(), 3);
  const auto nested = [](const Array& x) {
    return sum(grad([](const Array& v) { return stop_gradient(v) * v * v; })(x));
  };
  EXPECT_EQ(grad(nested)(array(3.)).item<double>(), 2 * 3.);
}

TEST(Derivatives, StopAtBits) {
  const auto f = [](const Array& x) { return sum(lax::bitcast_convert_type(x, float16).astype(float32)) + sum(x * x); };
  EXPECT_EQ(floats(grad(f)(array({3.F, -1.F}))), (std::vector<float>{6, -2}));
  EXPECT_EQ(floats(jit(grad(f))(array({3.F, -1.F}))), (std::vector<float>{6, -2}));
}

TEST(Derivatives, OfEqualElementsOfAWindowTheFirstHasThem) {
  const auto f = [](const Array& x) {
    return sum(lax::reduce_window(x, -1e9, [](const Array& a, const Array& b) { return maximum(a, b); }, {2, 2}, {}));
  };
  const Array x = reshape(array({1.F, 5.F, 5.F, 5.F, 2.F, 1.F, 0.F, 5.F, 5.F}), {3, 3});
  EXPECT_EQ(floats(grad(f)(x)), (std::vector<float>{0, 2, 0, 1, 0, 0, 0, 1, 0}));
}

TEST(Derivatives, ByTreesAndSeveralArguments) {
  const auto f = [](const std::map<std::string, Array>& p, const Array& x) {
    return std::pair(sum(p.at("w") * x + p.at("b")), x * 2.0);
  };
  const std::map<std::string, Array> p = {{"w", array({1., 2.})}, {"b", array(0.5)}};
  const auto [value_and_aux, gradients] = value_and_grad<0, 1>(f)(p, array({3., 4.}));
  EXPECT_EQ(value_and_aux.first.item<double>(), 12);
  EXPECT_EQ(str(value_and_aux.second), "[6. 8.]");
  EXPECT_EQ(str(std::get<0>(gradients).at("w")), "[3. 4.]");
  EXPECT_EQ(std::get<0>(gradients).at("b").item<double>(), 2);
  EXPECT_EQ(str(std::get<1>(gradients)), "[1. 2.]");
}

TEST(Derivatives, OfComplexNumbersAreThoseOfJax) {
  const Array z = array(std::complex<float>(3, 4));
  EXPECT_EQ(grad([](const Array& v) { return abs(v); })(z).item<std::complex<float>>(),
            std::complex<float>(0.6F, -0.8F));
  EXPECT_EQ(grad([](const Array& v) { return real(v * v); })(z).item<std::complex<float>>(), std::complex<float>(6, 8));
  EXPECT_EQ(grad([](const Array& v) { return v * v; }, {.holomorphic = true})(z).item<std::complex<float>>(),
            std::complex<float>(6, 8));
}

TEST(Derivatives, LieAsTheirArguments) {
  const Mesh mesh = make_mesh({4, 2}, {"x", "y"});
  const auto f = [](const Array& w, const Array& x) { return sum(square(nn::softmax(matmul(x, w)))); };
  const Array w = random({8, 4}, -1, 1, 1);
  const Array x = random({16, 8}, -1, 1, 2);
  const auto expected = grad(f)(w, x);
  const NamedSharding sharding(mesh, P("x", "y"));
  const Array split = device_put(w, sharding);
  const Array batch = device_put(x, NamedSharding(mesh, P("x")));
  for (const Array& gradient : {grad(f)(split, batch), jit(grad(f))(split, batch)}) {
    EXPECT_EQ(to_string(gradient.sharding()), to_string(Sharding(sharding)));
    expect_near(gradient, expected, 1e-14, "split");
  }
}

// Where types say over which axes values differ, what devices have of the derivative of a value that is the same on all
// is summed; under pmap and unchecked axes each device has its own, as in JAX.
TEST(Derivatives, InsideOfRegionsAreSummedWhereTypesSayWhereValuesDiffer) {
  const auto loss = [](const Array& w, const Array& x) { return sum(w * x * x); };
  const auto slope = [&](const Array& w, const Array& x) { return expand_dims(grad(loss)(w, x), std::int64_t{0}); };
  const Mesh mesh = make_mesh({4}, {"i"});
  const Array x = array(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8});
  const Array w = array(3.F);
  const auto inside = [&](bool checked) {
    return shard_map(slope, {.mesh = mesh, .in_specs = {P(), P("i")}, .out_specs = P("i"), .check_vma = checked});
  };
  const std::vector<float> whole(4, 204.F);
  const std::vector<float> parts = {5, 25, 61, 113};
  for (const bool checked : {true, false}) {
    const std::vector<float>& expected = checked ? whole : parts;
    EXPECT_EQ(floats(inside(checked)(w, x)), expected);
    EXPECT_EQ(floats(jit(inside(checked))(w, x)), expected);
  }
  const auto mapped = pmap([&](const Array& v) { return grad(loss)(w, v); }, {.axis_name = "i"});
  EXPECT_EQ(floats(mapped(x.reshape({4, 2}))), parts);
}

// Zeros on the way back are not made NaN by what a value that was not chosen would have had as a derivative.
TEST(Derivatives, StrongZerosStayZeros) {
  const auto safe = [](const Array& x) { return where(greater(x, 0.0), sqrt(x), 0.0); };
  const auto quotient = [](const Array& x) { return where(greater(x, 0.0), log(x) / x, 0.0); };
  const auto by_power = [](const Array& x) { return where(greater(x, 0.0), power(x, -0.5) * arctan(x), x * 2.0); };
  const Array x = array({-1., 0., 4.});
  const auto of = [&](const Function& f, bool strong) {
    const auto loss = [&](const Array& v) { return sum(f(v)); };
    const Array gradient = grad(loss, {.strong_zeros = strong})(x);
    EXPECT_EQ(str(jit(grad(loss, {.strong_zeros = strong}))(x)), str(gradient));
    const auto in_loop = [&](const Array& v) {
      return sum(lax::fori_loop(
          0, 1, [&](const Array&, const Array& w) { return f(w); }, v));
    };
    EXPECT_EQ(str(grad(in_loop, {.strong_zeros = strong})(x)), str(gradient));
    return gradient.to_vector<float>();
  };
  EXPECT_TRUE(std::isnan(of(safe, false)[1]));
  EXPECT_EQ(of(safe, true), (std::vector<float>{0, 0, 0.25F}));
  EXPECT_TRUE(std::isnan(of(quotient, false)[1]));
  const std::vector<float> of_quotient = of(quotient, true);
  EXPECT_EQ(of_quotient[0], 0);
  EXPECT_EQ(of_quotient[1], 0);
  EXPECT_NEAR(of_quotient[2], (1 - std::log(4.)) / 16, 1e-7);
  EXPECT_EQ(of(by_power, true)[1], 2);
  // Where nothing is zero they say the same.
  const Array positive = array({1., 2., 3.});
  const auto smooth = [](const Array& v) { return sum(exp(v) * sin(v) / v); };
  EXPECT_EQ(str(grad(smooth, {.strong_zeros = true})(positive)), str(grad(smooth)(positive)));
}

// The same of other derivatives than gradients, forward and in reverse, and of second ones.
TEST(Derivatives, StrongZerosStayZerosForward) {
  const auto safe = [](const Array& x) { return where(greater(x, 0.0), sqrt(x), 0.0); };
  const Array x = array({0., 4.});
  const Array one = array({1., 1.});
  const auto expect = [](const Array& made, const std::vector<float>& wanted) { EXPECT_EQ(floats(made), wanted); };
  EXPECT_TRUE(std::isnan(floats(vjp(safe, x).second(one))[0]));
  expect(vjp(safe, x).second.with_strong_zeros()(one), {0, 0.25F});
  const Array change = array({0., 1.});
  EXPECT_TRUE(std::isnan(floats(linearize([](const Array& v) { return sqrt(v); }, x).second(change))[0]));
  const auto forward = [&](const auto& f) { return linearize(f, x).second.with_strong_zeros()(change); };
  const auto plain = [](const Array& v) { return sqrt(v); };
  const auto in_jit = [&](const Array& v) { return jit(plain)(v); };
  const auto in_loop = [&](const Array& v) {
    return lax::fori_loop(
        0, 1, [&](const Array&, const Array& w) { return sqrt(w); }, v);
  };
  const auto in_branch = [&](const Array& v) {
    return lax::cond(
        v.sum() > 0, plain, [](const Array& w) { return w; }, v);
  };
  for (const Array& made : {forward(plain), forward(in_jit), forward(in_loop), forward(in_branch)}) {
    expect(made, {0, 0.25F});
  }
  const auto over_devices = shard_map(plain, {.mesh = make_mesh({2}, {"i"}), .in_specs = P("i"), .out_specs = P("i")});
  expect(forward([&](const Array& v) { return over_devices(v); }), {0, 0.25F});
  const auto infinite = std::numeric_limits<float>::infinity();
  expect(jacfwd(plain, {.strong_zeros = true})(x).reshape({4}), {infinite, 0, 0, 0.25F});
  EXPECT_TRUE(std::isnan(floats(jacfwd(plain)(x).reshape({4}))[1]));
  expect(jacrev(plain, {.strong_zeros = true})(x).reshape({4}), {infinite, 0, 0, 0.25F});
  expect(jacrev(safe, {.strong_zeros = true})(x).reshape({4}), {0, 0, 0, 0.25F});
  const auto loss = [&](const Array& v) { return sum(safe(v)); };
  expect(hessian(loss, {.strong_zeros = true})(x).reshape({4}), {0, 0, 0, -1.F / 32});
  expect(hessian(jit(loss), {.strong_zeros = true})(x).reshape({4}), {0, 0, 0, -1.F / 32});
}

TEST(Derivatives, ErrorsSayWhatIsWrong) {
  const auto same = [](const Array& x) { return x; };
  EXPECT_THAT(
      message_of<TypeMismatch>([&] {
        grad(same)(array({1., 2.}));
      }),
      testing::HasSubstr("grad: the function returns float32[2], and only scalars have gradients; sum it, or use vjp"));
  EXPECT_THAT(message_of<TypeMismatch>([&] { grad(same)(array(1)); }),
              testing::HasSubstr(
                  "grad: argument [0] is int32[], and only floats and complex numbers can be differentiated by"));
  EXPECT_THAT(message_of<ShapeMismatch>([&] {
                jvp(same, std::tuple(array(1.)), std::tuple(array({1., 2.})));
              }),
              testing::HasSubstr("jvp: tangent 0 is float32[2], and should have the shape of its array, float32[]"));
  Array kept;
  grad([&](const Array& x) {
    kept = x;
    return x;
  })(array(1.));
  EXPECT_THAT(message_of<LeakedTracer>([&] { static_cast<void>(kept + 1.0); }),
              testing::HasSubstr("is used outside the call that made it"));
}

}  // namespace
}  // namespace shoal::test
