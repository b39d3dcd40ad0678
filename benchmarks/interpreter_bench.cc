// Fused loops in the SIMD interpreter.
//
// Small*: the time of one run on 8 elements, which is the constant cost. L2*: f32 arrays that together fit the
// second-level cache, interpreted and by a plain loop that is compiled for the same instruction set; bytes_per_second
// counts what is read and written.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "backend/cpu/loops/interpreter.h"
#include "ops/scalar/math.h"

namespace shoal::cpu {
namespace {

using scalar::Expr;

using Define = Expr (*)(std::span<const Expr>);

// One phase that computes dense f32 outputs of inputs with the given accesses.
Loop loop_of(const std::vector<Access>& inputs, Define define) {
  const scalar::Body body = scalar::make_body(std::vector<Dtype>(inputs.size(), Dtype::kF32), define);
  Loop loop;
  Phase phase;
  for (const Access access : inputs) {
    phase.inputs.push_back({.kind = LoopInput::Kind::kArray, .index = static_cast<int>(loop.arrays.size())});
    loop.arrays.push_back({.dtype = Dtype::kF32, .access = access});
  }
  phase.nodes = body.nodes;
  phase.results = {{.kind = LoopResult::Kind::kArray, .index = static_cast<int>(inputs.size()), .node = body.result}};
  loop.arrays.push_back({.dtype = Dtype::kF32, .access = Access::kDense, .written = true});
  loop.phases.push_back(std::move(phase));
  return loop;
}

constexpr auto kAddOne = [](std::span<const Expr> in) { return in[0] + 1; };
constexpr auto kAdd = [](std::span<const Expr> in) { return in[0] + in[1]; };
constexpr auto kAxpb = [](std::span<const Expr> in) { return in[0] * in[1] + in[2]; };
constexpr auto kFourOps = [](std::span<const Expr> in) { return ((in[0] * 0.5 + 1) * in[0] - 0.25); };
constexpr auto kSigmoid = [](std::span<const Expr> in) { return scalar::logistic(in[0]); };
constexpr auto kExp = [](std::span<const Expr> in) { return scalar::exp(in[0]); };
constexpr auto kSin = [](std::span<const Expr> in) { return scalar::sin(in[0]); };

// Numbers around 0, exact in few bits.
std::vector<float> numbers(std::size_t n, float scale) {
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = scale * static_cast<float>(static_cast<int>(i * 37 % 257) - 128) / 64;
  return x;
}

class Run {
 public:
  Run(const std::vector<Access>& inputs, Define define, std::size_t n)
      : runner_(interpret_loop(loop_of(inputs, define))), n_(n) {
    for (std::size_t i = 0; i <= inputs.size(); ++i) data_.push_back(numbers(n, static_cast<float>(i + 1)));
    for (std::vector<float>& array : data_) bases_.push_back(reinterpret_cast<std::byte*>(array.data()));
    strides_.resize(bases_.size(), 0);
  }

  void operator()() const {
    runner_->run({.bases = bases_.data(),
                  .row_strides = strides_.data(),
                  .column_strides = strides_.data(),
                  .rows = 1,
                  .columns = static_cast<std::int64_t>(n_),
                  .scratch = nullptr});
  }

  const std::vector<float>& operator[](std::size_t i) const { return data_[i]; }
  const std::vector<float>& output() const { return data_.back(); }
  std::int64_t bytes() const { return static_cast<std::int64_t>(n_ * sizeof(float) * data_.size()); }

 private:
  std::unique_ptr<LoopRunner> runner_;
  std::size_t n_;
  std::vector<std::vector<float>> data_;
  std::vector<std::byte*> bases_;
  std::vector<std::int64_t> strides_;
};

// Ends the benchmark with an error unless the output is f of the inputs, to within a few units in the last place.
template <class F>
void check(benchmark::State& state, const Run& run, F f) {
  for (std::size_t i = 0; i < run.output().size(); ++i) {
    const double want = f(i);
    if (std::abs(run.output()[i] - want) > 1e-6 * std::max(1.0, std::abs(want))) {
      return state.SkipWithError("the result is wrong");
    }
  }
}

template <class F>
void small(benchmark::State& state, const std::vector<Access>& inputs, Define define, F f) {
  const Run run(inputs, define, 8);
  for (auto _ : state) run();
  check(state, run, [&](std::size_t i) { return f(run, i); });
}

constexpr Access kDense = Access::kDense;
constexpr Access kUniform = Access::kUniform;

void SmallAddOne(benchmark::State& state) {
  small(state, {kDense}, kAddOne, [](const Run& x, std::size_t i) { return x[0][i] + 1.0; });
}
BENCHMARK(SmallAddOne);

void SmallAdd(benchmark::State& state) {
  small(state, {kDense, kDense}, kAdd, [](const Run& x, std::size_t i) { return double{x[0][i]} + x[1][i]; });
}
BENCHMARK(SmallAdd);

void SmallAddUniform(benchmark::State& state) {
  small(state, {kDense, kUniform}, kAdd, [](const Run& x, std::size_t i) { return double{x[0][i]} + x[1][0]; });
}
BENCHMARK(SmallAddUniform);

double sigmoid(const Run& x, std::size_t i) { return 1 / (1 + std::exp(-double{x[0][i]})); }

void SmallSigmoid(benchmark::State& state) { small(state, {kDense}, kSigmoid, sigmoid); }
BENCHMARK(SmallSigmoid);

constexpr std::size_t kL2 = 1 << 15;  // Elements of an array: 128 KiB.

template <class F>
void in_l2(benchmark::State& state, const std::vector<Access>& inputs, Define define, F f) {
  const Run run(inputs, define, kL2);
  for (auto _ : state) run();
  state.SetBytesProcessed(run.bytes() * state.iterations());
  check(state, run, [&](std::size_t i) { return f(run, i); });
}

// What the compiler makes of the loop, for the best instruction set of the machine.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define SHOAL_COMPILED __attribute__((noinline, target_clones("avx512f", "avx2,fma", "default")))
#else
#define SHOAL_COMPILED
#endif

SHOAL_COMPILED void add_one(const float* __restrict x, float* __restrict out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = x[i] + 1;
}
SHOAL_COMPILED void four_ops(const float* __restrict x, float* __restrict out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = (x[i] * 0.5F + 1) * x[i] - 0.25F;
}

template <class F>
void compiled(benchmark::State& state, F f) {
  const std::vector<float> x = numbers(kL2, 1);
  std::vector<float> out(kL2);
  for (auto _ : state) {
    f(x.data(), out.data(), kL2);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(2 * kL2 * sizeof(float)) * state.iterations());
}

void L2AddOneCompiled(benchmark::State& state) { compiled(state, add_one); }
BENCHMARK(L2AddOneCompiled);
void L2AddOne(benchmark::State& state) {
  in_l2(state, {kDense}, kAddOne, [](const Run& x, std::size_t i) { return x[0][i] + 1.0; });
}
BENCHMARK(L2AddOne);

void L2FourOpsCompiled(benchmark::State& state) { compiled(state, four_ops); }
BENCHMARK(L2FourOpsCompiled);
void L2FourOps(benchmark::State& state) {
  in_l2(state, {kDense}, kFourOps, [](const Run& x, std::size_t i) { return (x[0][i] * 0.5 + 1) * x[0][i] - 0.25; });
}
BENCHMARK(L2FourOps);

void L2Axpb(benchmark::State& state) {
  in_l2(state, {kDense, kDense, kDense}, kAxpb,
        [](const Run& x, std::size_t i) { return double{x[0][i]} * x[1][i] + x[2][i]; });
}
BENCHMARK(L2Axpb);

void L2Sigmoid(benchmark::State& state) { in_l2(state, {kDense}, kSigmoid, sigmoid); }
BENCHMARK(L2Sigmoid);

void L2Exp(benchmark::State& state) {
  in_l2(state, {kDense}, kExp, [](const Run& x, std::size_t i) { return std::exp(double{x[0][i]}); });
}
BENCHMARK(L2Exp);

void L2Sin(benchmark::State& state) {
  in_l2(state, {kDense}, kSin, [](const Run& x, std::size_t i) { return std::sin(double{x[0][i]}); });
}
BENCHMARK(L2Sin);

}  // namespace
}  // namespace shoal::cpu
