// Solvers of f64 matrices that eight devices share, and beside them LAPACK's functions, called directly, in
// column-major order, by one thread. What is computed is checked by its residual.
//
// SHOAL_NUM_THREADS=1 compares one thread with one; LAPACK on several threads is that of SciPy.
#include <chrono>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/products/libraries.h"
#include "shoal/solvers.h"
#include "support.h"

namespace shoal::bench {
namespace {

constexpr std::int64_t kExtents[] = {1024, 2048, 4096};
constexpr double kAllowed = 1e-10;

using Matrices = std::function<std::vector<Array>(const Array&)>;
using Error = std::function<Array(const Array& a, const std::vector<Array>& found)>;

// Definite.
Array matrix(std::int64_t n) {
  const Array any = random::normal(random::key(0), {n, n}, float64);
  return (any + swapaxes(any, 0, 1)) / 2 + 3 * std::sqrt(static_cast<double>(n)) * eye(n, {.dtype = float64});
}

Mesh grid() {
  set_num_cpu_devices(kDevices);
  return make_mesh({2, 4}, {"x", "y"});
}

// Elements of a difference beside those of what it should be zero beside.
Array greatest(const Array& difference) { return max(abs(difference)); }

void by_devices(benchmark::State& state, std::int64_t n, const Matrices& solve, const Error& error) {
  const Mesh mesh = grid();
  const Array a = device_put(matrix(n), NamedSharding(mesh, P("x", "y")));
  const auto solved = jit(solve);
  const std::vector<Array> found = solved(a);
  if (!(error(a, found).item<double>() <= kAllowed * static_cast<double>(n))) {
    return state.SkipWithError("the result is wrong");
  }
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    solved(a).back().block_until_ready();
    state.SetIterationTime(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
}

// What a function of LAPACK does with a dense matrix, in which it may write.
using Lapack = std::function<void(const cpu::LapackFunctions<double>&, std::int32_t, std::vector<double>&)>;

void by_lapack(benchmark::State& state, std::int64_t n, const Lapack& solve) {
  if (cpu::blas() == nullptr) return state.SkipWithError("LAPACK is not there");
  const std::vector<double> given = matrix(n).to_vector<double>();
  for (auto _ : state) {
    std::vector<double> a = given;
    const auto start = std::chrono::steady_clock::now();
    solve(cpu::lapack_of<double>(*cpu::blas()), static_cast<std::int32_t>(n), a);
    state.SetIterationTime(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
}

std::size_t number(std::int64_t n) { return static_cast<std::size_t>(n); }

void syevd(const cpu::LapackFunctions<double>& lapack, std::int32_t n, std::vector<double>& a, bool has_vectors) {
  const auto memory_of = [](const cpu::LapackSizes& sizes, std::vector<double>& elements,
                            std::vector<std::int32_t>& integers) -> cpu::LapackMemory<double> {
    elements.resize(number(sizes.elements));
    integers.resize(number(sizes.integers));
    return {elements.data(), nullptr, integers.data(), sizes};
  };
  std::vector<double> values(number(n)), beside(number(n)), factors(number(n)), elements;
  std::vector<std::int32_t> integers;
  lapack.hetrd(n, {a.data(), n}, values.data(), beside.data(), factors.data(),
               memory_of(lapack.hetrd_sizes(n), elements, integers));
  if (!has_vectors) {
    lapack.sterf(n, values.data(), beside.data());
    return;
  }
  std::vector<double> vectors(number(n) * number(n));
  lapack.stedc(n, values.data(), beside.data(), {vectors.data(), n},
               memory_of(lapack.stedc_sizes(n), elements, integers));
  lapack.unmtr(n, n, {a.data(), n}, factors.data(), {vectors.data(), n},
               memory_of(lapack.unmtr_sizes(n), elements, integers));
}

// The triangle, and the orthogonal factor in place of the matrix.
void qr(const cpu::LapackFunctions<double>& lapack, std::int32_t n, std::vector<double>& a) {
  std::vector<double> factors(number(n));
  const auto with = [&](const cpu::LapackSizes& sizes, const auto& call) {
    std::vector<double> elements(number(sizes.elements));
    call(cpu::LapackMemory<double>{elements.data(), nullptr, nullptr, sizes});
  };
  with(lapack.geqrf_sizes(n, n), [&](const auto& memory) {
    lapack.geqrf(n, n, {a.data(), n}, factors.data(), memory);
  });
  with(lapack.ungqr_sizes(n, n, n), [&](const auto& memory) {
    lapack.ungqr(n, n, n, {a.data(), n}, factors.data(), memory);
  });
}

void gesdd(const cpu::LapackFunctions<double>& lapack, std::int32_t n, std::vector<double>& a) {
  const cpu::LapackSizes sizes = lapack.gesdd_sizes(cpu::SingularVectors::kReduced, n, n);
  std::vector<double> values(number(n)), u(number(n) * number(n)), vh(number(n) * number(n));
  std::vector<double> elements(number(sizes.elements));
  std::vector<std::int32_t> integers(number(sizes.integers));
  lapack.gesdd(cpu::SingularVectors::kReduced, n, n, {a.data(), n}, values.data(), {u.data(), n}, {vh.data(), n},
               {elements.data(), nullptr, integers.data(), sizes});
}

struct Row {
  std::string name;
  Matrices solve;
  Error error;
  Lapack lapack;  // Empty if it has none by this name here.
};

std::vector<Row> rows() {
  const auto sides = [](const Array& a, std::int64_t count) { return ones({a.shape()[0], count}, {.dtype = float64}); };
  const auto potrs = [sides](std::int64_t count) {
    return [=](const Array& a) {
      return std::vector<Array>{linalg::potrs(a, sides(a, count), {.return_status = true}).x};
    };
  };
  const auto of_system = [sides](const Array& a, const std::vector<Array>& found) {
    return greatest(matmul(a, found[0]) - sides(a, found[0].shape()[1]));
  };
  const auto of_inverse = [](const Array& a, const std::vector<Array>& found) {
    return greatest(matmul(a, found[0]) - eye(a.shape()[0], {.dtype = float64}));
  };
  const auto of_spectrum = [](const Array& a, const std::vector<Array>& found) {
    return greatest(matmul(a, found[1]) - found[1] * found[0]) / greatest(found[0]);
  };
  const auto spectrum = [](bool has_vectors) {
    return [=](const Array& a) {
      auto found = linalg::syevd(a, {.return_status = true, .return_eigenvectors = has_vectors});
      return has_vectors ? std::vector<Array>{found.w, found.v} : std::vector<Array>{found.w};
    };
  };
  const auto by_syevd = [](bool has_vectors) {
    return [=](const cpu::LapackFunctions<double>& lapack, std::int32_t n, std::vector<double>& a) {
      syevd(lapack, n, a, has_vectors);
    };
  };
  return {
      {"potrf", [](const Array& a) { return std::vector<Array>{linalg::cholesky(a)}; },
       [](const Array& a, const std::vector<Array>& found) {
         return greatest(matmul(found[0], swapaxes(found[0], 0, 1)) - a);
       },
       [](const cpu::LapackFunctions<double>& lapack, std::int32_t n, std::vector<double>& a) {
         lapack.potrf('L', n, {a.data(), n});
       }},
      {"potrs/1", potrs(1), of_system, {}},
      {"potrs/256", potrs(256), of_system, {}},
      {"potri",
       [](const Array& a) { return std::vector<Array>{linalg::potri(a, {.return_status = true}).x}; },
       of_inverse,
       {}},
      {"getrf", [](const Array& a) { return std::vector<Array>{lax::linalg::lu(a).lu}; },
       [](const Array& a, const std::vector<Array>& found) {
         const auto [lu, pivots, permutation] = lax::linalg::lu(a);
         const Array product = matmul(tril(lu, -1) + eye(a.shape()[0], {.dtype = float64}), triu(found[0]));
         return greatest(product - a[permutation]);
       },
       [](const cpu::LapackFunctions<double>& lapack, std::int32_t n, std::vector<double>& a) {
         std::vector<std::int32_t> pivots(number(n));
         lapack.getrf(n, n, {a.data(), n}, pivots.data());
       }},
      {"geqrf",
       [](const Array& a) {
         const auto [q, r] = linalg::qr(a);
         return std::vector<Array>{q, r};
       },
       [](const Array& a, const std::vector<Array>& found) { return greatest(matmul(found[0], found[1]) - a); }, qr},
      {"trtri",
       [](const Array& a) { return std::vector<Array>{linalg::trtri(a)}; },
       [](const Array& a, const std::vector<Array>& found) {
         return greatest(matmul(tril(a), found[0]) - eye(a.shape()[0], {.dtype = float64}));
       },
       {}},
      {"sygvd",
       [](const Array& a) {
         const auto found = linalg::sygvd(a, a + eye(a.shape()[0], {.dtype = float64}), {.return_status = true});
         return std::vector<Array>{found.w, found.v};
       },
       [](const Array& a, const std::vector<Array>& found) {
         const Array b = a + eye(a.shape()[0], {.dtype = float64});
         return greatest(matmul(a, found[1]) - matmul(b, found[1]) * found[0]);
       },
       {}},
      {"svd",
       [](const Array& a) {
         const auto [u, s, vh] = linalg::svd(a, false);
         return std::vector<Array>{u, s, vh};
       },
       [](const Array& a, const std::vector<Array>& found) {
         return greatest(matmul(found[0] * found[1], found[2]) - a) / greatest(found[1]);
       },
       gesdd},
      {"solve/1", [sides](const Array& a) { return std::vector<Array>{linalg::solve(a, sides(a, 1))}; }, of_system, {}},
      {"solve/1/refined",
       [sides](const Array& a) { return std::vector<Array>{linalg::solve(a, sides(a, 1), {.refine = true})}; },
       of_system,
       {}},
      {"inv", [](const Array& a) { return std::vector<Array>{linalg::inv(a)}; }, of_inverse, {}},
      {"syevd", spectrum(true), of_spectrum, by_syevd(true)},
      {"syevd/values", spectrum(false),
       [](const Array& a, const std::vector<Array>& found) {
         return abs(sum(found[0]) - trace(a)) / greatest(found[0]);
       },
       by_syevd(false)},
  };
}

const int registered = [] {
  for (const Row& row : rows()) {
    for (const std::int64_t n : kExtents) {
      const std::string name = fmt::format("{}/{}", row.name, n);
      const auto add = [](const std::string& what, auto run) {
        benchmark::RegisterBenchmark(what.c_str(), run)->UseManualTime()->Unit(benchmark::kMillisecond);
      };
      add(name, [=](benchmark::State& state) { by_devices(state, n, row.solve, row.error); });
      if (row.lapack) add(name + "/lapack", [=](benchmark::State& state) { by_lapack(state, n, row.lapack); });
    }
  }
  return 0;
}();

}  // namespace
}  // namespace shoal::bench
