// How compiling grows with layers that are equal: the GPT of gpt.h with 12, 48 and 96 of them, forward and as a
// training step, on one device and over a mesh of 2 × 4, from the traced graph to the executable. Machine code is there
// after the first of each.
#include <utility>

#include "gpt.h"
#include "support.h"

namespace shoal::bench {
namespace {

Gpt with_layers(std::int64_t layers, bool is_split) {
  set_num_cpu_devices(kDevices);
  const Mesh mesh = make_mesh({2, 4}, {"data", "model"});
  const auto place = [&](const PartitionSpec& spec) -> Sharding {
    if (is_split) return NamedSharding(mesh, spec);
    return SingleDeviceSharding(mesh.devices()[0]);
  };
  Gpt gpt = make_gpt(
      [&](GptKind, const Dims& shape, const PartitionSpec& spec) { return device_put(zeros(shape), place(spec)); });
  gpt.layers.resize(static_cast<std::size_t>(layers), gpt.layers[0]);
  return gpt;
}

Array loss(const Gpt& gpt, const Array& tokens) {
  const Array log_probabilities = nn::log_softmax(gpt_forward(gpt, tokens), -1);
  return -mean(take_along_axis(log_probabilities, expand_dims(tokens, -1), -1));
}

Gpt step(const Gpt& gpt, const Array& tokens) {
  const Gpt gradient = grad(loss)(gpt, tokens);
  const auto updated = [](const Array& w, const Array& d) { return w - 0.01 * d; };
  Gpt result{.wte = updated(gpt.wte, gradient.wte),
             .wpe = updated(gpt.wpe, gradient.wpe),
             .lnf = updated(gpt.lnf, gradient.lnf),
             .lnfb = updated(gpt.lnfb, gradient.lnfb),
             .layers = {}};
  for (std::size_t i = 0; i < gpt.layers.size(); ++i) {
    const GptLayer& w = gpt.layers[i];
    const GptLayer& d = gradient.layers[i];
    result.layers.push_back({.ln1 = updated(w.ln1, d.ln1),
                             .b1 = updated(w.b1, d.b1),
                             .wqkv = updated(w.wqkv, d.wqkv),
                             .wo = updated(w.wo, d.wo),
                             .ln2 = updated(w.ln2, d.ln2),
                             .b2 = updated(w.b2, d.b2),
                             .w1 = updated(w.w1, d.w1),
                             .bb1 = updated(w.bb1, d.bb1),
                             .w2 = updated(w.w2, d.w2),
                             .bb2 = updated(w.bb2, d.bb2)});
  }
  return result;
}

// Compiles a program for each iteration, traced before: the cache of one function would have it.
template <class F>
void compile(benchmark::State& state, F&& function, bool is_split) {
  const Gpt gpt = with_layers(state.range(0), is_split);
  const Array tokens = zeros({kBatch, kSequence}, {.dtype = int32});
  for (auto _ : state) {
    state.PauseTiming();
    auto lowered = jit(function).lower(gpt, tokens);
    state.ResumeTiming();
    auto compiled = lowered.compile();
    benchmark::DoNotOptimize(compiled);
    state.PauseTiming();
    { const auto gone = std::move(compiled); }
    state.ResumeTiming();
  }
}

void Forward(benchmark::State& state) { compile(state, gpt_forward, false); }
void Training(benchmark::State& state) { compile(state, step, false); }
void ForwardOver2x4(benchmark::State& state) { compile(state, gpt_forward, true); }
void TrainingOver2x4(benchmark::State& state) { compile(state, step, true); }

void settings(benchmark::internal::Benchmark* one) {
  one->Arg(12)->Arg(48)->Arg(96)->Unit(benchmark::kMillisecond)->UseRealTime();
}
BENCHMARK(Forward)->Apply(settings);
BENCHMARK(Training)->Apply(settings);
BENCHMARK(ForwardOver2x4)->Apply(settings);
BENCHMARK(TrainingOver2x4)->Apply(settings);

}  // namespace
}  // namespace shoal::bench
