// Both kernels against the references, which compute in f64.
#include "backend/cpu/attention/attention_kernel.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>

#include "backend/cpu/attention/softmax_columns.h"
#include "backend/cpu/kernel_test_support.h"
#include "backend/cpu/machine/simd_dispatch.h"
#include "ops/reduction.h"

namespace shoal::cpu {
namespace {

template <class T>
Buffer normal_numbers(const Shape& shape, std::mt19937_64& random) {
  Buffer buffer(host_space({}), dtype_of<T>(), shape);
  std::normal_distribution<double> draw;
  for (std::int64_t i = 0; i < num_elements(shape); ++i) {
    static_cast<T*>(buffer.mutable_data())[i] = from_accumulator<T>(draw(random));
  }
  return buffer;
}

Buffer random_mask(const Shape& shape, std::mt19937_64& random) {
  Buffer buffer(host_space({}), bool_, shape);
  for (std::int64_t i = 0; i < num_elements(shape); ++i) {
    static_cast<bool*>(buffer.mutable_data())[i] = random() % 3 != 0;
  }
  return buffer;
}

// By how much a result may differ, of the greatest: smaller floats are rounded once, from sums in f32.
template <class T>
constexpr double kBound = std::is_same_v<T, float16_t>    ? 0x1p-10
                          : std::is_same_v<T, bfloat16_t> ? 0x1p-7
                                                          : 64 * static_cast<double>(std::numeric_limits<T>::epsilon());

struct AttentionCase {
  Shape query;  // batch t k g h
  std::int64_t keys;
  std::int64_t width;  // Of values.
  std::int64_t start = 0;
};

// Results of a kernel and of the reference, for shards whose queries begin at a position.
template <class T>
void compare_with_reference(const AttentionCase& one, bool causal, bool biased, bool masked, std::mt19937_64& random) {
  const Shape& q = one.query;
  const std::size_t batch = q.size() - 4;
  Shape key(q.begin(), q.begin() + static_cast<std::ptrdiff_t>(batch));
  Shape logits = key;
  key.insert(key.end(), {one.keys, q[batch + 1], q.back()});
  logits.insert(logits.end(), {1, q[batch + 2], q[batch], one.keys});
  Shape value = key;
  value.back() = one.width;
  Shape result = q;
  result.back() = one.width;
  std::vector<Buffer> inputs = {normal_numbers<T>(q, random), normal_numbers<T>(key, random),
                                normal_numbers<T>(value, random)};
  const bool has_wide_bias = sizeof(T) < sizeof(float) && one.keys % 2 == 0;
  if (biased)
    inputs.push_back(has_wide_bias ? normal_numbers<float>(logits, random) : normal_numbers<T>(logits, random));
  if (masked) inputs.push_back(random_mask(logits, random));
  const Attrs attrs{{"scale", Scalar::of(0.4)}, {"causal", causal}, {"biased", biased}, {"masked", masked}};
  for (const std::string op : {"attention", "attention_gradient"}) {
    if (op == "attention_gradient") inputs.insert(inputs.begin(), normal_numbers<T>(result, random));
    Graph graph;
    std::vector<ValueId> ids;
    for (const Buffer& input : inputs) ids.push_back(graph.add_input({.dtype = input.dtype(), .shape = input.shape()}));
    graph.outputs = graph.add_eqn(op_named(op), attrs, ids, SourceLocation::current());
    SCOPED_TRACE(to_text(graph));
    const auto results_by = [&](const Kernel& kernel) {
      std::vector<TensorView> in, out;
      std::vector<Buffer> results;
      for (const Buffer& input : inputs) {
        in.push_back(input.view());
        if (input.shape().size() == q.size()) {
          in.back().start = Dims(q.size(), 0);
          in.back().start[batch] = one.start;
        }
      }
      for (const Type& type : graph.types(graph.outputs)) {
        results.emplace_back(host_space({}), type.dtype, type.shape);
        if (results.back().size_bytes() != 0)
          std::memset(results.back().mutable_data(), 0xFF, results.back().size_bytes());
        out.push_back(results.back().view());
      }
      run_kernel(kernel, in, out);
      return results;
    };
    const std::vector<Buffer> got = results_by(*make_kernel(graph, graph.eqns[0]));
    const std::vector<Buffer> want = results_by(*reference_kernel(graph.eqns[0], "reference"));
    for (std::size_t r = 0; r < want.size(); ++r) {
      double scale = 1;
      const auto at = [&](const Buffer& buffer, std::int64_t i) {
        return static_cast<double>(static_cast<const T*>(buffer.data())[i]);
      };
      for (std::int64_t i = 0; i < num_elements(want[r].shape()); ++i)
        scale = std::max(scale, std::abs(at(want[r], i)));
      for (std::int64_t i = 0; i < num_elements(want[r].shape()); ++i) {
        ASSERT_NEAR(at(got[r], i), at(want[r], i), kBound<T> * scale) << "element " << i << " of result " << r;
      }
    }
  }
}

template <class T>
class AttentionKernels : public testing::Test {};
using AttentionFloats = testing::Types<float, double, float16_t, bfloat16_t>;
TYPED_TEST_SUITE(AttentionKernels, AttentionFloats);

template <class T>
class AttentionSums : public testing::Test {};
using FloatsOfSums = testing::Types<float, double>;
TYPED_TEST_SUITE(AttentionSums, FloatsOfSums);

// One block and several, of queries in groups too; several parts of sums over queries, as tiles and one after the
// other; shards; no queries, keys or numbers.
TYPED_TEST(AttentionKernels, AreClose) {
  const AttentionCase cases[] = {
      {{1, 1, 1, 1, 1}, 1, 1},        {{2, 5, 3, 1, 4}, 6, 4},       {{1, 40, 2, 3, 6}, 17, 5},
      {{150, 1, 1, 8}, 150, 8},       {{2, 130, 3, 1, 40}, 300, 33}, {{7, 2, 1, 3}, 9, 3, 4},
      {{1, 33, 1, 2, 16}, 64, 8, 20}, {{1, 9, 2, 1, 4}, 400, 4, 3},  {{0, 2, 1, 3}, 9, 3},
      {{4, 2, 1, 3}, 0, 3},           {{4, 2, 1, 0}, 5, 3},          {{4, 2, 1, 3}, 5, 0}};
  std::mt19937_64 random(1);
  for (const AttentionCase& one : cases) {
    for (int form = 0; form < 8; ++form) {
      compare_with_reference<TypeParam>(one, (form & 1) != 0, (form & 2) != 0, (form & 4) != 0, random);
    }
  }
}

// On every kind of processor: powers to two units in the last place, and the limits.
TYPED_TEST(AttentionSums, SoftmaxOfColumns) {
  using T = TypeParam;
  constexpr std::int64_t kRows = 4001;
  constexpr std::int64_t kColumns = 32;
  const SimdLevel best = simd_level();
  for (const SimdLevel level : {SimdLevel::kBaseline, SimdLevel::kAvx2, SimdLevel::kAvx512}) {
    if (level > best) continue;
    limit_simd_level(level);
    std::vector<T> x(kRows * kColumns);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(-0.007 * static_cast<double>(i % 13001));
    x[1] = std::numeric_limits<T>::quiet_NaN();
    x[2] = -std::numeric_limits<T>::infinity();
    x[kColumns + 3] = static_cast<T>(-1e38);
    std::vector<T> most(kColumns, -std::numeric_limits<T>::infinity());
    for (std::size_t i = 0; i < x.size(); ++i) most[i % kColumns] = std::max(most[i % kColumns], x[i]);
    const std::vector<T> before = x;
    // In blocks, of which the first has fewer rows: what comes later changes the greatest element.
    std::vector<T> found(kColumns, std::numeric_limits<T>::lowest());
    std::vector<T> totals(kColumns);
    std::vector<T> factors(kColumns);
    const auto weigh = [&](std::int64_t first, std::int64_t rows) {
      softmax_columns(ColumnBlock<T>{x.data() + first * kColumns, rows, kColumns},
                      RunningSoftmax<T>{found.data(), totals.data(), factors.data()});
      scale_columns(ColumnBlock<T>{x.data(), first, kColumns}, factors.data());
    };
    weigh(0, 1000);
    weigh(1000, kRows - 1000);
    EXPECT_TRUE(std::isnan(totals[1]));
    EXPECT_EQ(x[2], 0);
    EXPECT_EQ(x[kColumns + 3], 0);
    std::vector<double> sums(kColumns);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double exact = std::exp(static_cast<double>(before[i] - most[i % kColumns]));
      sums[i % kColumns] += exact;
      if (i % kColumns == 1) continue;
      // If the maximum has changed, two differences of up to 91 are rounded, and not one.
      const double bound = (i / kColumns < 1000 ? 100 : 2) * std::numeric_limits<T>::epsilon() * exact;
      ASSERT_NEAR(static_cast<double>(x[i]), exact, bound + 1e-37) << i;
    }
    for (std::size_t c = 2; c < kColumns; ++c) {
      ASSERT_NEAR(static_cast<double>(totals[c]) / sums[c], 1, 1000 * std::numeric_limits<T>::epsilon());
    }
  }
  limit_simd_level(best);
}

}  // namespace
}  // namespace shoal::cpu
