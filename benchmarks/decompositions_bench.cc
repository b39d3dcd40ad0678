// Decompositions of matrices, large ones alone and small ones in batches: by the kernels, and by LAPACK called
// directly, one matrix after the other and in column-major order, by one thread. items_per_second counts matrices.
//
// SHOAL_NUM_THREADS=1 compares one thread with one.
#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/kernels.h"
#include "backend/cpu/products/libraries.h"
#include "base/thread_pool.h"
#include "ops/table.h"
#include "support.h"

namespace shoal::bench {
namespace {

struct Operation {
  std::string op;
  Attrs attrs;
};

const Operation kOperations[] = {{"cholesky", {}}, {"triangular_solve", {{"lower", true}, {"unit_diagonal", false}}},
                                 {"lu", {}},       {"qr", {{"full", false}}},
                                 {"eigh", {}},     {"svd", {{"full", false}}}};

// Symmetric, and definite if the operation needs it.
template <class T>
std::vector<T> matrices(const Operation& operation, std::int64_t count, std::int64_t n) {
  std::vector<T> made(static_cast<std::size_t>(count * n * n));
  std::mt19937_64 random(1);
  std::normal_distribution<double> draw;
  const bool is_definite = operation.op == "cholesky" || operation.op == "triangular_solve";
  for (std::int64_t number = 0; number < count; ++number) {
    T* const a = made.data() + number * n * n;
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        const T drawn = static_cast<T>(draw(random));
        a[i * n + j] = drawn;
        if (operation.op == "lu" || operation.op == "qr" || operation.op == "svd") continue;
        if (j < i) a[j * n + i] = drawn;
        if (i == j && is_definite) a[i * n + j] += static_cast<T>(3 * n);
      }
    }
  }
  return made;
}

template <class T>
void by_kernel(benchmark::State& state, const Operation& operation, std::int64_t count, std::int64_t n) {
  const Dtype dtype = sizeof(T) == 4 ? Dtype::kF32 : Dtype::kF64;
  const std::vector<T> values = matrices<T>(operation, count, n);
  Graph graph;
  std::vector<Buffer> operands, results;
  std::vector<ValueId> ids;
  const std::size_t arity = operation.op == "triangular_solve" ? 2 : 1;
  for (std::size_t k = 0; k < arity; ++k) {
    operands.emplace_back(host_space({}), dtype, Shape{count, n, n});
    std::copy(values.begin(), values.end(), static_cast<T*>(operands.back().mutable_data()));
    ids.push_back(
        graph.add_input({.dtype = dtype, .shape = {count, n, n}, .weak = false, .memory = {}, .varying = {}}));
  }
  graph.outputs = graph.add_eqn(op_named(operation.op), operation.attrs, ids, SourceLocation::current());
  std::vector<TensorView> inputs, outputs;
  for (const Buffer& operand : operands) inputs.push_back(operand.view());
  for (ValueId id : graph.outputs) {
    results.emplace_back(host_space({}), graph.type(id).dtype, graph.type(id).shape);
    outputs.push_back(results.back().view());
  }
  const std::unique_ptr<Kernel> kernel = cpu::make_kernel(graph, graph.eqns[0]);
  const std::int64_t tiles = kernel->work(inputs, outputs).tiles;
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    if (tiles == 1) {
      kernel->run(inputs, outputs, nullptr, 0);
    } else {
      ThreadPool::shared().parallel_for(tiles, [&](std::int64_t i) { kernel->run(inputs, outputs, nullptr, i); });
    }
    state.SetIterationTime(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  state.SetItemsProcessed(state.iterations() * count);
}

template <class T>
class Memory {
 public:
  explicit Memory(const cpu::LapackSizes& sizes)
      : elements_(static_cast<std::size_t>(sizes.elements) + 1),
        integers_(static_cast<std::size_t>(sizes.integers) + 1),
        sizes_(sizes) {}
  cpu::LapackMemory<T> get() { return {elements_.data(), elements_.data(), integers_.data(), sizes_}; }

 private:
  std::vector<T> elements_;
  std::vector<std::int32_t> integers_;
  cpu::LapackSizes sizes_;
};

template <class T>
void by_lapack(benchmark::State& state, const Operation& operation, std::int64_t count, std::int64_t n) {
  const cpu::BlasApi* const api = cpu::blas();
  if (api == nullptr) return state.SkipWithError("LAPACK is not there");
  const cpu::LapackFunctions<T>& lapack = cpu::lapack_of<T>(*api);
  const std::vector<T> values = matrices<T>(operation, count, n);
  const auto size = static_cast<std::int32_t>(n);
  std::vector<T> a(values.size()), u(values.size()), vh(values.size()), reals(static_cast<std::size_t>(n)),
      beside(static_cast<std::size_t>(n)), factors(static_cast<std::size_t>(n));
  std::vector<std::int32_t> integers(static_cast<std::size_t>(n));
  Memory<T> qr(lapack.geqrf_sizes(size, size));
  Memory<T> unitary(lapack.ungqr_sizes(size, size, size));
  Memory<T> reduction(lapack.hetrd_sizes(size));
  Memory<T> eigen(lapack.stedc_sizes(size));
  Memory<T> product(lapack.unmtr_sizes(size));
  Memory<T> svd(lapack.gesdd_sizes(cpu::SingularVectors::kReduced, size, size));
  for (auto _ : state) {
    a = values;
    const auto start = std::chrono::steady_clock::now();
    for (std::int64_t number = 0; number < count; ++number) {
      const cpu::LapackMatrix<T> matrix{a.data() + number * n * n, size};
      if (operation.op == "cholesky") {
        lapack.potrf('L', size, matrix);
      } else if (operation.op == "triangular_solve") {
        lapack.trsm(size, size, {.data = values.data() + number * n * n, .stride = size, .lower = true},
                    {matrix.data, size});
      } else if (operation.op == "lu") {
        lapack.getrf(size, size, matrix, integers.data());
      } else if (operation.op == "qr") {
        lapack.geqrf(size, size, matrix, reals.data(), qr.get());
        lapack.ungqr(size, size, size, matrix, reals.data(), unitary.get());
      } else if (operation.op == "eigh") {
        // What syevd calls.
        lapack.hetrd(size, matrix, reals.data(), beside.data(), factors.data(), reduction.get());
        lapack.stedc(size, reals.data(), beside.data(), {u.data(), size}, eigen.get());
        lapack.unmtr(size, size, matrix, factors.data(), {u.data(), size}, product.get());
      } else {
        lapack.gesdd(cpu::SingularVectors::kReduced, size, size, matrix, reals.data(), {u.data(), size},
                     {vh.data(), size}, svd.get());
      }
    }
    state.SetIterationTime(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  state.SetItemsProcessed(state.iterations() * count);
}

const int registered = [] {
  constexpr std::pair<std::int64_t, std::int64_t> kBatches[] = {{10000, 4}, {3000, 8}, {1000, 16}, {300, 32}, {1, 8},
                                                                {1, 32},    {1, 128},  {1, 512},   {1, 1024}};
  for (const auto& [count, n] : kBatches) {
    for (const Operation& operation : kOperations) {
      const std::string name = fmt::format("{}/{}x{}x{}", operation.op, count, n, n);
      const auto add = [&](const std::string& what, auto run) {
        benchmark::RegisterBenchmark(
            (name + "/" + what).c_str(),
            [=, count = count, n = n](benchmark::State& state) { run(state, operation, count, n); })
            ->UseManualTime()
            ->Unit(benchmark::kMicrosecond);
      };
      add("f32", by_kernel<float>);
      add("f32/lapack", by_lapack<float>);
      add("f64", by_kernel<double>);
      add("f64/lapack", by_lapack<double>);
    }
  }
  return 0;
}();

}  // namespace
}  // namespace shoal::bench
