// A covariance-like matrix that no device holds: factored, solved with, inverted and diagonalised by all devices
// together.
//
//     SHOAL_NUM_CPU_DEVICES=8 solve
//     shoal run -n 2 --devices-per-process 4 -- solve 4096 16
//
// The arguments are the rows of the matrix and the number of right sides. Every layout of devices and processes gives
// the same bits. On a terminal a bar tells how far each solver is.
#include <fmt/format.h>
#include <shoal/shoal.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

namespace {

using shoal::Array;
using shoal::float64;
using shoal::NamedSharding;
using shoal::P;

// All devices as a mesh, as square as it can be.
shoal::Mesh grid() {
  const std::int64_t devices = shoal::device_count();
  std::int64_t rows = 1;
  for (std::int64_t r = 1; r * r <= devices; ++r) {
    if (devices % r == 0) rows = r;
  }
  return shoal::make_mesh({rows, devices / rows}, {"row", "column"});
}

// What points on a line that are near each other have in common, and some noise of their own: positive definite.
Array covariance(std::int64_t n) {
  const Array place = shoal::arange(static_cast<double>(n)).astype(float64) / 64;
  const Array distance = expand_dims(place, 1) - expand_dims(place, 0);
  return exp(-distance * distance) + 0.1 * shoal::eye(n, {.dtype = float64});
}

// The seconds that work() takes; `result` gets what it gives.
template <class Result, class Work>
double timed(Result& result, const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  result = work();
  for (const Array& array : shoal::tree::flatten(result)) array.block_until_ready();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void run(std::int64_t n, std::int64_t sides) {
  const shoal::Mesh mesh = grid();
  const NamedSharding tiles(mesh, P("row", "column"));
  const NamedSharding rows(mesh, P("row"));
  const Array a = shoal::jit([n] { return covariance(n); }, {.out_shardings = tiles})();
  const auto numbers = [&] {
    return cos(shoal::arange(static_cast<double>(n * sides)).astype(float64)).reshape({n, sides});
  };
  const Array wanted = shoal::jit(numbers, {.out_shardings = rows})();
  const Array b =
      shoal::jit([](const Array& x, const Array& y) { return matmul(x, y); }, {.out_shardings = rows})(a, wanted);

  const auto solve = shoal::jit([](const Array& matrix, const Array& right) {
    return shoal::linalg::potrs(matrix, right, {.return_status = true, .return_logdet = true});
  });
  const auto invert =
      shoal::jit([](const Array& matrix) -> Array { return shoal::linalg::potri(matrix, {.return_status = true}); });
  const auto diagonalise = shoal::jit([](const Array& matrix) {
    const auto found = shoal::linalg::syevd(matrix, {.return_status = true});
    return std::vector<Array>{found.w, found.v};
  });
  if (shoal::process_index() == 0 && isatty(STDERR_FILENO) != 0) {
    shoal::linalg::on_progress(shoal::linalg::progress_bar());
  }
  shoal::linalg::PotrsResult solved;
  Array inverse;
  const double seconds = timed(solved, [&] { return solve(a, b); });
  const double more = timed(inverse, [&] { return invert(a); });
  std::vector<Array> spectrum;
  const double most = timed(spectrum, [&] { return diagonalise(a); });
  const auto distance = [](const Array& x, const Array& y, const Array& z) { return max(abs(matmul(x, y) - z)); };
  const double error = shoal::jit(distance)(a, solved.x, b).item<double>();
  const double left = shoal::jit([&](const Array& x, const Array& y) {
                        return distance(x, y, shoal::eye(n, {.dtype = float64}));
                      })(a, inverse)
                          .item<double>();
  const double missed = shoal::jit([](const Array& x, const Array& w, const Array& v) {
                          return max(abs(matmul(x, v) - v * w));
                        })(a, spectrum[0], spectrum[1])
                            .item<double>();
  const auto status = solved.status.item<std::int32_t>();
  const auto logdet = solved.logdet.item<double>();
  if (shoal::process_index() != 0) return;
  const double cube = static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
  std::cout << fmt::format("{0} x {0} on {1} devices of {2} processes, each with {3}\n", n, shoal::device_count(),
                           shoal::process_count(), to_string(a.addressable_shards()[0].data.shape()))
            << fmt::format("potrs   {:7.3f} s   {:6.1f} GF/s   status {}   residual {:.1e}\n", seconds,
                           cube / 3 / seconds / 1e9, status, error)
            << fmt::format("potri   {:7.3f} s   {:6.1f} GF/s   |a inv(a) - 1| {:.1e}\n", more, cube / more / 1e9, left)
            << fmt::format("syevd   {:7.3f} s   {:6.1f} GF/s   |a v - v w| {:.1e}\n", most, 14 * cube / 3 / most / 1e9,
                           missed)
            << fmt::format("log of the determinant: {:.6f}\n", logdet);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    shoal::distributed::initialize();
    run(argc > 1 ? std::stoll(argv[1]) : 2048, argc > 2 ? std::stoll(argv[2]) : 16);
    shoal::distributed::shutdown();
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
