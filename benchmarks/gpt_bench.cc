// The forward pass of a small GPT (gpt.h), batch 8: on one device, and over a mesh of 2 × 4. "MiB" is by how much the
// memory of the process has grown at most, weights included. The result is checked against plain loops in f64.
#include <cmath>
#include <numbers>
#include <vector>

#include "gpt.h"
#include "memory_growth.h"
#include "support.h"

namespace shoal::bench {
namespace {

// ---- Plain loops, of one sequence. A matrix is its rows, one after the other.

using Matrix = std::vector<double>;

Matrix elements(const Array& x) {
  const std::vector<float> values = x.to_vector<float>();
  return {values.begin(), values.end()};
}

// x (rows × k) times y (k × n).
Matrix product(const Matrix& x, const Matrix& y, std::size_t k) {
  const std::size_t rows = x.size() / k, n = y.size() / k;
  Matrix result(rows * n);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t i = 0; i < k; ++i) {
      for (std::size_t c = 0; c < n; ++c) result[r * n + c] += x[r * k + i] * y[i * n + c];
    }
  }
  return result;
}

// Adds y, repeated, to x.
void add(Matrix& x, const Matrix& y) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i % y.size()];
}

Matrix plain_layer_norm(Matrix x, const Matrix& scale, const Matrix& bias) {
  const std::size_t n = scale.size();
  for (std::size_t row = 0; row < x.size(); row += n) {
    double mean = 0, variance = 0;
    for (std::size_t i = 0; i < n; ++i) mean += x[row + i] / static_cast<double>(n);
    for (std::size_t i = 0; i < n; ++i) variance += (x[row + i] - mean) * (x[row + i] - mean) / static_cast<double>(n);
    for (std::size_t i = 0; i < n; ++i)
      x[row + i] = (x[row + i] - mean) / std::sqrt(variance + 1e-5) * scale[i] + bias[i];
  }
  return x;
}

double plain_gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

constexpr auto kD = static_cast<std::size_t>(kWidth), kS = static_cast<std::size_t>(kSequence);

// What each position attends to, of rows that hold queries, keys and values of kD each.
Matrix plain_attention(const Matrix& qkv) {
  constexpr auto kH = static_cast<std::size_t>(kHeads), kPart = kD / kH;
  const auto at = [&](std::size_t position, std::size_t which, std::size_t head, std::size_t i) {
    return qkv[position * 3 * kD + which * kD + head * kPart + i];
  };
  Matrix result(kS * kD);
  for (std::size_t head = 0; head < kH; ++head) {
    for (std::size_t query = 0; query < kS; ++query) {
      Matrix weights(query + 1);  // Positions before this one, and itself.
      double total = 0;
      for (std::size_t key = 0; key <= query; ++key) {
        double score = 0;
        for (std::size_t i = 0; i < kPart; ++i) score += at(query, 0, head, i) * at(key, 1, head, i);
        total += weights[key] = std::exp(score / std::sqrt(static_cast<double>(kPart)));
      }
      for (std::size_t key = 0; key <= query; ++key) {
        for (std::size_t i = 0; i < kPart; ++i) {
          result[query * kD + head * kPart + i] += weights[key] / total * at(key, 2, head, i);
        }
      }
    }
  }
  return result;
}

std::vector<float> plain_forward(const Gpt& gpt, const std::vector<std::int32_t>& tokens) {
  const Matrix wte = elements(gpt.wte);
  Matrix x;
  for (std::size_t position = 0; position < kS; ++position) {
    const auto row = wte.begin() + static_cast<std::ptrdiff_t>(tokens[position]) * kWidth;
    x.insert(x.end(), row, row + kWidth);
  }
  add(x, elements(gpt.wpe));
  for (const GptLayer& layer : gpt.layers) {
    const Matrix qkv = product(plain_layer_norm(x, elements(layer.ln1), elements(layer.b1)), elements(layer.wqkv), kD);
    add(x, product(plain_attention(qkv), elements(layer.wo), kD));
    Matrix h = product(plain_layer_norm(x, elements(layer.ln2), elements(layer.b2)), elements(layer.w1), kD);
    add(h, elements(layer.bb1));
    for (double& value : h) value = plain_gelu(value);
    add(x, product(h, elements(layer.w2), 4 * kD));
    add(x, elements(layer.bb2));
  }
  x = plain_layer_norm(x, elements(gpt.lnf), elements(gpt.lnfb));
  const Matrix logits = product(x, elements(transpose(gpt.wte)), kD);
  return {logits.begin(), logits.end()};
}

// ---- The benchmarks.

// `place` says where an array that a spec splits lies.
template <class F>
void forward(benchmark::State& state, F&& place) {
  const MemoryGrowth growth;
  RandomWeights weights;
  const Gpt gpt = make_gpt(
      [&](GptKind kind, const Dims& shape, const PartitionSpec& spec) { return weights(kind, shape, place(spec)); });
  const std::vector<std::int32_t> numbers = random_tokens();
  const Array tokens = device_put(array(numbers).reshape({kBatch, kSequence}), place(P("data")));
  const auto f = jit(gpt_forward);
  Array y = f(gpt, tokens);  // Compiles.
  for (auto _ : state) {
    y = f(gpt, tokens);
    y.block_until_ready();
  }
  state.counters["MiB"] = growth.mib();
  check_result(state, y[0], plain_forward(gpt, numbers), 1e-4F);
}

void OneDevice(benchmark::State& state) {
  const Device device = eight_devices().devices()[0];
  forward(state, [&](const PartitionSpec&) -> Sharding { return SingleDeviceSharding(device); });
}
BENCHMARK(OneDevice)->UseRealTime()->Unit(benchmark::kMillisecond);

void Over2x4(benchmark::State& state) {
  set_num_cpu_devices(kDevices);
  const Mesh mesh = make_mesh({2, 4}, {"data", "model"});
  forward(state, [&](const PartitionSpec& spec) -> Sharding { return NamedSharding(mesh, spec); });
}
BENCHMARK(Over2x4)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace shoal::bench
