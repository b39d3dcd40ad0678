// The time before the first result: a perceptron of twelve layers, traced, partitioned and compiled for meshes of 1 to
// 4096 devices. The batch is split along one axis of the mesh and the weights along the other.
//
// Trace is the part that does not know the devices; Compile is the rest. Neither should grow with their number.
#include <cmath>
#include <utility>
#include <vector>

#include "support.h"

namespace shoal::bench {
namespace {

constexpr int kLayers = 12;
constexpr std::int64_t kWidth = 64;
constexpr std::int64_t kBatch = 64;

struct Layer {
  Array w, b;
};

struct Case {
  Array x;
  std::vector<Layer> layers;
};

Mesh mesh_of(int data, int model) {
  set_num_cpu_devices(4096);
  return make_mesh({data, model}, {"data", "model"});
}

float weight(std::int64_t i) { return 0.02F * static_cast<float>(i % 23 - 11); }

Case make_case(const Mesh& mesh) {
  const auto put = [&](const std::vector<float>& elements, const Dims& shape, const PartitionSpec& spec) {
    return device_put(array(elements).reshape(shape), NamedSharding(mesh, spec));
  };
  std::vector<float> w, b, x;
  for (std::int64_t i = 0; i < kWidth * kWidth; ++i) w.push_back(weight(i));
  for (std::int64_t i = 0; i < kWidth; ++i) b.push_back(weight(i));
  for (std::int64_t i = 0; i < kBatch * kWidth; ++i) x.push_back(weight(i + 5));
  Case result{.x = put(x, {kBatch, kWidth}, P("data", none)), .layers = {}};
  for (int i = 0; i < kLayers; ++i) {
    // Alternately split by column and by row: one reduction for two layers.
    const bool by_column = i % 2 == 0;
    result.layers.push_back({.w = put(w, {kWidth, kWidth}, by_column ? P(none, "model") : P("model", none)),
                             .b = put(b, {kWidth}, by_column ? P("model") : P())});
  }
  return result;
}

Array perceptron(Array x, std::vector<Layer> layers) {
  for (const Layer& layer : layers) x = tanh(matmul(x, layer.w) + layer.b);
  return x;
}

std::vector<float> plain_loop() {
  std::vector<double> x;
  for (std::int64_t i = 0; i < kBatch * kWidth; ++i) x.push_back(weight(i + 5));
  for (int layer = 0; layer < kLayers; ++layer) {
    std::vector<double> y(x.size());
    for (std::int64_t row = 0; row < kBatch; ++row) {
      for (std::int64_t column = 0; column < kWidth; ++column) {
        double sum = weight(column);
        for (std::int64_t k = 0; k < kWidth; ++k) {
          sum += x[static_cast<std::size_t>(row * kWidth + k)] * static_cast<double>(weight(k * kWidth + column));
        }
        y[static_cast<std::size_t>(row * kWidth + column)] = std::tanh(sum);
      }
    }
    x = std::move(y);
  }
  return {x.begin(), x.end()};
}

void Trace(benchmark::State& state) {
  const Case c = make_case(mesh_of(2, 4));
  for (auto _ : state) benchmark::DoNotOptimize(jit(perceptron).lower(c.x, c.layers));
}
BENCHMARK(Trace)->Unit(benchmark::kMillisecond);

void Compile(benchmark::State& state) {
  const auto data = static_cast<int>(state.range(0));
  const auto model = static_cast<int>(state.range(1));
  const Case c = make_case(mesh_of(data, model));
  const auto lowered = jit(perceptron).lower(c.x, c.layers);
  for (auto _ : state) benchmark::DoNotOptimize(lowered.compile());
  check_result(state, lowered.compile()(c.x, c.layers), plain_loop(), 1e-5F);
  state.counters["devices"] = data * model;
}
BENCHMARK(Compile)
    ->Unit(benchmark::kMillisecond)
    ->ArgNames({"data", "model"})
    ->Args({1, 1})
    ->Args({2, 4})
    ->Args({8, 8})
    ->Args({16, 32})
    ->Args({64, 64});

}  // namespace
}  // namespace shoal::bench
