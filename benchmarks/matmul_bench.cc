// Matrix products: the tiles of the cpu back end on the threads of the pool, against the library called directly.
//
// Each benchmark runs both in turns, so that what else the machine does hurts both, and reports
//   GF/s       what Shoal reached, in its best round,
//   of_1t      that as a part of `threads` times what one call of OpenBLAS (libopenblas.so.0) reaches on one thread,
//   of_threads that as a part of what it reaches with threads of its own.
// For bf16 the library is that for f32, so that values above 1 are no surprise where the machine multiplies bf16.
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <complex>
#include <cstring>
#include <functional>
#include <limits>

#include "backend/cpu/products/dot.h"
#include "base/thread_pool.h"
#include "ops/table.h"
#include "support.h"

namespace shoal::bench {
namespace {

double seconds(const std::function<void()>& f) {
  const auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// cblas_sgemm and cblas_dgemm of the installed shared library, as its users call it.
class OpenBlas {
 public:
  template <class T>
  using Gemm = void (*)(int order, int transpose_a, int transpose_b, int m, int n, int k, T alpha, const T* a, int lda,
                        const T* b, int ldb, T beta, T* c, int ldc);

  static const OpenBlas& get() {
    static const OpenBlas blas;
    return blas;
  }

  Gemm<float> sgemm = nullptr;
  Gemm<double> dgemm = nullptr;
  void (*set_threads)(int) = nullptr;

 private:
  OpenBlas() {
    void* library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    sgemm = reinterpret_cast<Gemm<float>>(dlsym(library, "cblas_sgemm"));
    dgemm = reinterpret_cast<Gemm<double>>(dlsym(library, "cblas_dgemm"));
    set_threads = reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"));
  }
};

struct Sizes {
  std::int64_t batch, m, n, k;
  double operations() const { return 2.0 * static_cast<double>(batch * m * n * k); }
};

template <class T>
T element(std::int64_t i) {
  return T(static_cast<float>(i % 13 - 6) / 8);
}

template <class T>
Buffer operand(Shape shape) {
  Buffer buffer(host_space({}), dtype_of<T>(), std::move(shape));
  for (std::int64_t i = 0; i < num_elements(buffer.shape()); ++i) {
    static_cast<T*>(buffer.mutable_data())[i] = element<T>(i);
  }
  return buffer;
}

// Shoal's kernel as an executable runs it.
class Product {
 public:
  Product(const Sizes& sizes, Dtype dtype) {
    Graph graph;
    const auto input = [&](Shape shape) {
      return graph.add_input(
          Type{.dtype = dtype, .shape = std::move(shape), .weak = false, .memory = {}, .varying = {}});
    };
    const std::vector<ValueId> inputs{input({sizes.batch, sizes.m, sizes.k}), input({sizes.batch, sizes.k, sizes.n})};
    graph.add_eqn(
        op_named("dot_general"),
        {{"lhs_contract", Dims{2}}, {"rhs_contract", Dims{1}}, {"lhs_batch", Dims{0}}, {"rhs_batch", Dims{0}}}, inputs,
        SourceLocation::current());
    kernel_ = cpu::dot_kernel(graph, graph.eqns[0]);
  }

  void run(const Buffer& lhs, const Buffer& rhs, const Buffer& out) {
    const std::vector<TensorView> inputs{lhs.view(), rhs.view()};
    const std::vector<TensorView> outputs{out.view()};
    const Work work = kernel_->work(inputs, outputs);
    scratch_.resize(work.scratch_bytes);
    // As a launch divides it.
    ThreadPool& pool = ThreadPool::shared();
    const std::int64_t ranges = std::min<std::int64_t>(work.tiles, pool.thread_count() * (work.merges ? 1 : 8));
    pool.parallel_for(ranges, [&](std::int64_t i) {
      kernel_->run_tiles(inputs, outputs, scratch_.data(), work.tiles * i / ranges, work.tiles * (i + 1) / ranges);
    });
    kernel_->finish(inputs, outputs, scratch_.data());
  }

 private:
  std::unique_ptr<Kernel> kernel_;
  std::vector<std::byte> scratch_;
};

// T: of the operands; L: what the library computes in.
template <class T, class L>
void product(benchmark::State& state, Sizes sizes) {
  const OpenBlas& blas = OpenBlas::get();
  if (blas.set_threads == nullptr) return state.SkipWithError("there is no libopenblas.so.0 to compare with");
  const Shape lhs_shape{sizes.batch, sizes.m, sizes.k};
  const Shape rhs_shape{sizes.batch, sizes.k, sizes.n};
  const Shape out_shape{sizes.batch, sizes.m, sizes.n};
  const Buffer lhs = operand<T>(lhs_shape);
  const Buffer rhs = operand<T>(rhs_shape);
  const Buffer out(host_space({}), dtype_of<T>(), out_shape);
  const Buffer library_lhs = operand<L>(lhs_shape);
  const Buffer library_rhs = operand<L>(rhs_shape);
  Buffer library_out(host_space({}), dtype_of<L>(), out_shape);
  const auto* a = static_cast<const L*>(library_lhs.data());
  const auto* b = static_cast<const L*>(library_rhs.data());
  auto* c = static_cast<L*>(library_out.mutable_data());
  const auto m = static_cast<std::int32_t>(sizes.m);
  const auto n = static_cast<std::int32_t>(sizes.n);
  const auto k = static_cast<std::int32_t>(sizes.k);
  const auto each_batch = [&](auto&& call) {
    for (std::int64_t i = 0; i < sizes.batch; ++i) {
      call(a + i * sizes.m * sizes.k, b + i * sizes.k * sizes.n, c + i * sizes.m * sizes.n);
    }
  };
  const auto library = [&](const L* x, const L* y, L* z) {
    constexpr int kRowMajor = 101;
    constexpr int kNoTranspose = 111;
    if constexpr (std::is_same_v<L, float>) {
      blas.sgemm(kRowMajor, kNoTranspose, kNoTranspose, m, n, k, 1, x, k, y, n, 0, z, n);
    } else {
      blas.dgemm(kRowMajor, kNoTranspose, kNoTranspose, m, n, k, 1, x, k, y, n, 0, z, n);
    }
  };

  Product shoal(sizes, dtype_of<T>());
  shoal.run(lhs, rhs, out);
  double shoal_time = std::numeric_limits<double>::infinity();
  double single_time = shoal_time;
  double threaded_time = shoal_time;
  for (auto _ : state) {
    blas.set_threads(1);
    single_time = std::min(single_time, seconds([&] { each_batch(library); }));
    blas.set_threads(ThreadPool::shared().thread_count());
    threaded_time = std::min(threaded_time, seconds([&] { each_batch(library); }));
    const double time = seconds([&] { shoal.run(lhs, rhs, out); });
    shoal_time = std::min(shoal_time, time);
    state.SetIterationTime(time);
  }
  each_batch(library);
  const double tolerance = 0.01 * static_cast<double>(sizes.k);
  for (std::int64_t i = 0; i < num_elements(out_shape); ++i) {
    const auto got = static_cast<double>(static_cast<const T*>(out.data())[i]);
    if (std::abs(got - static_cast<double>(c[i])) <= tolerance + 0.01 * std::abs(got)) continue;
    return state.SkipWithError(fmt::format("element {} is {} instead of {}", i, got, c[i]).c_str());
  }
  state.counters["GF/s"] = sizes.operations() / shoal_time / 1e9;
  state.counters["of_1t"] = single_time / shoal_time / ThreadPool::shared().thread_count();
  state.counters["of_threads"] = threaded_time / shoal_time;
}

void f32(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  product<float, float>(state, {1, n, n, n});
}
BENCHMARK(f32)->Arg(64)->Arg(128)->Arg(256)->Arg(512)->Arg(1024)->Arg(2048)->UseManualTime();

void f64(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  product<double, double>(state, {1, n, n, n});
}
BENCHMARK(f64)->Arg(256)->Arg(1024)->UseManualTime();

void bf16(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  product<bfloat16_t, float>(state, {1, n, n, n});
}
BENCHMARK(bf16)->Arg(256)->Arg(1024)->UseManualTime();

void f32_batched(benchmark::State& state) { product<float, float>(state, {96, 128, 128, 64}); }
BENCHMARK(f32_batched)->UseManualTime();

// A layer of a small transformer, and the last one.
void f32_layer(benchmark::State& state) {
  product<float, float>(state, {1, state.range(0), state.range(1), state.range(2)});
}
BENCHMARK(f32_layer)
    ->Args({1024, 3072, 768})
    ->Args({1024, 768, 3072})
    ->Args({8, 50304, 768})
    ->Args({16, 4096, 4096})
    ->UseManualTime();

void f32_matrix_vector(benchmark::State& state) { product<float, float>(state, {1, 4096, 1, 4096}); }
BENCHMARK(f32_matrix_vector)->UseManualTime();

// A long contraction of a small result.
void f32_long(benchmark::State& state) { product<float, float>(state, {1, 64, 64, 1 << 18}); }
BENCHMARK(f32_long)->UseManualTime();

}  // namespace
}  // namespace shoal::bench
