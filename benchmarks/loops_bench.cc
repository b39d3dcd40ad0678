// Compiled loops over 64 MiB of f32, on the threads that the library uses, in memory with huge pages.
//
// bytes_per_second counts what a loop must read and write. Memcpy and CopyPastCaches are the limits of loops that read
// and write as much, without and with stores that go past the caches; Read is that of Sum. The argument of a loop is
// whether its stores do. Run with --benchmark_enable_random_interleaving=true --benchmark_repetitions=9, so that all
// see the same machine. Compile measures the compiler, without any cache.
#include <sys/mman.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <cstring>
#include <functional>
#include <span>

#include "backend/cpu/loops/compiler.h"
#include "base/thread_pool.h"
#include "ops/scalar/math.h"
#include "support.h"

namespace shoal::bench {
namespace {

using cpu::Access;
using cpu::Loop;
using cpu::LoopInput;
using cpu::LoopResult;
using scalar::Expr;

constexpr std::int64_t kElements = 16 << 20;
constexpr std::int64_t kBytes = kElements * static_cast<std::int64_t>(sizeof(float));
constexpr std::int64_t kTile = 64 << 10;  // Elements.
constexpr std::int64_t kRow = 1024;       // Of softmax.

// 64 MiB in huge pages, written to once.
class Memory {
 public:
  Memory() {
    constexpr std::size_t kHuge = 2 << 20;
    room_ = mmap(nullptr, kBytes + kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const std::size_t misaligned = reinterpret_cast<std::uintptr_t>(room_) % kHuge;
    data_ = reinterpret_cast<float*>(static_cast<std::byte*>(room_) + (kHuge - misaligned) % kHuge);
    madvise(data_, kBytes, MADV_HUGEPAGE);
    for (std::int64_t i = 0; i < kElements; ++i) data_[i] = static_cast<float>(i % 4093) / 512 - 4;
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  float* data() const { return data_; }

 private:
  void* room_;  // For the whole run.
  float* data_;
};

float* input() {
  static const Memory memory;
  return memory.data();
}
float* output() {
  static const Memory memory;
  return memory.data();
}

void for_each_tile(FunctionRef<void(std::int64_t)> body) {
  ThreadPool::shared().parallel_for(kElements / kTile, [&](std::int64_t tile) { body(tile * kTile); });
  benchmark::ClobberMemory();
}

void Memcpy(benchmark::State& state) {
  for (auto _ : state) {
    for_each_tile([](std::int64_t i) { std::memcpy(output() + i, input() + i, kTile * sizeof(float)); });
  }
  state.SetBytesProcessed(2 * kBytes * state.iterations());
}
BENCHMARK(Memcpy)->UseRealTime();

#ifdef __x86_64__
void CopyPastCaches(benchmark::State& state) {
  for (auto _ : state) {
    for_each_tile([](std::int64_t begin) {
      const float* const from = input() + begin;
      float* const to = output() + begin;
      for (std::int64_t i = 0; i < kTile; i += 4) _mm_stream_ps(to + i, _mm_load_ps(from + i));
      _mm_sfence();
    });
  }
  state.SetBytesProcessed(2 * kBytes * state.iterations());
}
BENCHMARK(CopyPastCaches)->UseRealTime();

void Read(benchmark::State& state) {
  for (auto _ : state) {
    for_each_tile([](std::int64_t begin) {
      const float* const from = input() + begin;
      __m128 all[4] = {};
      for (std::int64_t i = 0; i < kTile; i += 16) {
        for (int k = 0; k < 4; ++k) all[k] = _mm_or_ps(all[k], _mm_load_ps(from + i + 4 * k));
      }
      benchmark::DoNotOptimize(all);
    });
  }
  state.SetBytesProcessed(kBytes * state.iterations());
}
BENCHMARK(Read)->UseRealTime();
#endif

// f of each element.
Loop elementwise_loop(Expr (*f)(Expr)) {
  const scalar::Body body = scalar::make_body({float32}, [&](std::span<const Expr> in) { return f(in[0]); });
  return {.arrays = {{float32}, {float32, Access::kDense, true}},
          .temporaries = {},
          .scalars = {},
          .phases = {{false, body.nodes, {{}}, {{LoopResult::Kind::kArray, 1, body.result}}}}};
}

Expr sigmoid(Expr x) { return scalar::logistic(x); }
Expr line(Expr x) { return 3.0 * x + 2.0; }
Expr sine(Expr x) { return 2.0 * scalar::sin(x) + 1.0; }

void elementwise(benchmark::State& state, Expr (*f)(Expr), double (*wanted)(double)) {
  const auto compiled = cpu::compile_loop(elementwise_loop(f), cpu::When::kNow);
  if (compiled->runner() == nullptr) return state.SkipWithError("not compiled");
  const bool streaming = state.range(0) != 0;
  for (auto _ : state) {
    for_each_tile([&](std::int64_t begin) {
      std::byte* const bases[] = {reinterpret_cast<std::byte*>(input() + begin),
                                  reinterpret_cast<std::byte*>(output() + begin)};
      const std::int64_t strides[] = {0, 0};
      compiled->runner()->run({bases, strides, strides, 1, kTile, nullptr, streaming});
    });
  }
  for (std::int64_t i = 0; i < kElements; i += 1021) {
    const double want = wanted(static_cast<double>(input()[i]));
    if (std::abs(static_cast<double>(output()[i]) - want) > 1e-5) return state.SkipWithError("a wrong result");
  }
  state.SetBytesProcessed(2 * kBytes * state.iterations());
}
void Sigmoid(benchmark::State& state) {
  elementwise(state, &sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); });
}
void Line(benchmark::State& state) {
  elementwise(state, &line, [](double x) { return 3 * x + 2; });
}
void Sine(benchmark::State& state) {
  elementwise(state, &sine, [](double x) { return 2 * std::sin(x) + 1; });
}
BENCHMARK(Sigmoid)->Arg(0)->Arg(1)->UseRealTime();
BENCHMARK(Line)->Arg(0)->Arg(1)->UseRealTime();
BENCHMARK(Sine)->Arg(0)->Arg(1)->UseRealTime();

void Sum(benchmark::State& state) {
  const scalar::Node x{scalar::Core::kInput, float32};
  const Loop loop = {.arrays = {{float32}, {float32, Access::kUniform, true}},
                     .temporaries = {},
                     .scalars = {float32},
                     .phases = {{false, {x}, {{}}, {{LoopResult::Kind::kReduce, 0, 0}}},
                                {true, {x}, {{LoopInput::Kind::kScalar, 0}}, {{LoopResult::Kind::kArray, 1, 0}}}}};
  const auto compiled = cpu::compile_loop(loop, cpu::When::kNow);
  if (compiled->runner() == nullptr) return state.SkipWithError("not compiled");
  std::vector<float> sums(kElements / cpu::kMostReduced);
  for (auto _ : state) {
    for_each_tile([&](std::int64_t begin) {
      std::byte* const bases[] = {reinterpret_cast<std::byte*>(input() + begin),
                                  reinterpret_cast<std::byte*>(sums.data() + begin / cpu::kMostReduced)};
      const std::int64_t strides[] = {cpu::kMostReduced * 4, 4};
      compiled->runner()->run({bases, strides, strides, kTile / cpu::kMostReduced, cpu::kMostReduced, nullptr});
    });
  }
  double sum = 0;
  double wanted = 0;
  for (const float part : sums) sum += static_cast<double>(part);
  for (std::int64_t i = 0; i < kElements; ++i) wanted += static_cast<double>(input()[i]);
  if (std::abs(sum - wanted) > 1e-4 * kElements) return state.SkipWithError("a wrong result");
  state.SetBytesProcessed(kBytes * state.iterations());
}
BENCHMARK(Sum)->UseRealTime();

void Softmax(benchmark::State& state) {
  const scalar::Node x{scalar::Core::kInput, float32};
  const scalar::Body exponential =
      scalar::make_body({float32, float32}, [](std::span<const Expr> in) { return scalar::exp(in[0] - in[1]); });
  const scalar::Body quotient =
      scalar::make_body({float32, float32}, [](std::span<const Expr> in) { return in[0] / in[1]; });
  const LoopInput row_max{LoopInput::Kind::kScalar, 0};
  const LoopInput row_sum{LoopInput::Kind::kScalar, 1};
  const Loop loop = {.arrays = {{float32}, {float32, Access::kDense, true}},
                     .temporaries = {float32},
                     .scalars = {float32, float32},
                     .phases = {{false, {x}, {{}}, {{LoopResult::Kind::kReduce, 0, 0, ReduceKind::kMax}}},
                                {false,
                                 exponential.nodes,
                                 {{}, row_max},
                                 {{LoopResult::Kind::kTemporary, 0, exponential.result},
                                  {LoopResult::Kind::kReduce, 1, exponential.result}}},
                                {false,
                                 quotient.nodes,
                                 {{LoopInput::Kind::kTemporary, 0}, row_sum},
                                 {{LoopResult::Kind::kArray, 1, quotient.result}}}}};
  const auto compiled = cpu::compile_loop(loop, cpu::When::kNow);
  if (compiled->runner() == nullptr) return state.SkipWithError("not compiled");
  const bool streaming = state.range(0) != 0;
  const std::size_t scratch_size = cpu::scratch_bytes(loop, kRow);
  for (auto _ : state) {
    for_each_tile([&](std::int64_t begin) {
      static thread_local std::vector<std::byte> scratch(scratch_size + 64);
      std::byte* const aligned = scratch.data() + (64 - reinterpret_cast<std::uintptr_t>(scratch.data()) % 64) % 64;
      std::byte* const bases[] = {reinterpret_cast<std::byte*>(input() + begin),
                                  reinterpret_cast<std::byte*>(output() + begin)};
      const std::int64_t strides[] = {kRow * 4, kRow * 4};
      compiled->runner()->run({bases, strides, strides, kTile / kRow, kRow, aligned, streaming});
    });
  }
  for (std::int64_t row = 0; row < kElements; row += 499 * kRow) {
    double sum = 0;
    for (std::int64_t i = row; i < row + kRow; ++i) sum += std::exp(static_cast<double>(input()[i]));
    for (std::int64_t i = row; i < row + kRow; ++i) {
      const double want = std::exp(static_cast<double>(input()[i])) / sum;
      if (std::abs(static_cast<double>(output()[i]) / want - 1) > 1e-5) return state.SkipWithError("a wrong result");
    }
  }
  state.SetBytesProcessed(2 * kBytes * state.iterations());
}
BENCHMARK(Softmax)->Arg(0)->Arg(1)->UseRealTime();

// A loop that was not seen before, without files.
void Compile(benchmark::State& state) {
  Expr (*const functions[])(Expr) = {&line, &sigmoid, &sine};
  const Loop loop = elementwise_loop(functions[state.range(0)]);
  for (auto _ : state) {
    cpu::LoopCompiler compiler(std::nullopt);
    if (compiler.compile(loop, cpu::When::kNow)->runner() == nullptr) return state.SkipWithError("not compiled");
  }
}
BENCHMARK(Compile)->DenseRange(0, 2)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace shoal::bench
