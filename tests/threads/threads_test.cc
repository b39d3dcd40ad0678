// Results have the same bits whatever the number of threads: the same programs run in processes with 1, 2 and 8.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <shoal/shoal.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shoal {
namespace {

// FNV-1a over the bytes of an array, whatever its dtype.
std::uint64_t digest(const Array& array) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(array.size()) * size_of(array.dtype()));
  detail::copy_to_host(array, array.dtype(), bytes.data(), false, SourceLocation::current());
  std::uint64_t hash = 14695981039346656037U;
  for (const std::uint8_t byte : bytes) hash = (hash ^ byte) * 1099511628211U;
  return hash;
}

// Reductions of every kind, products, and what loops fuse, over enough elements for many tiles; in all kinds of numbers
// whose results depend on the order of operations.
std::vector<std::pair<std::string, Array>> results_of(const Array& a, const Array& b) {
  std::vector<std::pair<std::string, Array>> results;
  for (const Dtype dtype : {float32, bfloat16, float16, float64, complex64, complex128}) {
    const auto add = [&](const std::string& name, const Array& result) {
      results.emplace_back(std::string(name_of(dtype)) + " " + name, result);
    };
    const bool is_complex = dtype == complex64 || dtype == complex128;
    const auto of_dtype = [&](const Array& x) {
      if (!is_complex) return x.astype(dtype);
      const Array real = x.astype(dtype == complex64 ? float32 : float64);
      return lax::complex(real, real * real - 1);
    };
    const Array x = of_dtype(a);
    const Array y = of_dtype(b);
    add("sum", sum(x));
    add("sum of columns", sum(x, {.axis = 0}));
    add("sum of rows", sum(x, {.axis = 1}));
    add("prod", prod(x + 1, {.axis = 1}));
    add("var", var(x, {.axis = 0}));
    add("matmul", matmul(x, y));
    add("matmul and more", tanh(matmul(x, y) * 0.01 + 1));
    add("sum after exp", sum(exp(x) * x, {.axis = 1}));
    add("cumsum", cumsum(x, {.axis = 1}));
    if (is_complex) continue;
    add("softmax", nn::softmax(x, 1));
    add("logsumexp", logsumexp(x, {.axis = 0}));
    add("sort", sort(x, {.axis = 0}));
    add("sort of all", sort(x, {.axis = std::nullopt}));
    add("argsort", argsort(x, {.axis = std::nullopt}));
  }
  const Array group = (arange(a.shape()[0]) * 7) % 13;
  results.emplace_back("segment_sum", ops::segment_sum(a, group, 13));
  results.emplace_back("convolution", convolve(a.astype(float64)[0], b.astype(float64)[0]));
  const Array square = matmul(a, a.T()).astype(float64) + eye(a.shape()[0]) * 1000;
  results.emplace_back("cholesky", linalg::cholesky(square));
  results.emplace_back("integers", matmul((a * 100).astype(int8), (b * 100).astype(int8)));
  return results;
}

// A word for each result.
std::string digests() {
  set_num_cpu_devices(8);
  const Mesh mesh = make_mesh({2, 4}, {"x", "y"});
  const Array x = sin(arange(600 * 700).astype(float32)).reshape({600, 700});
  const Array y = cos(arange(700 * 500).astype(float32)).reshape({700, 500});
  std::string text;
  for (const bool is_split : {false, true}) {
    const Array a = is_split ? device_put(x, NamedSharding(mesh, P("x", "y"))) : x;
    const Array b = is_split ? device_put(y, NamedSharding(mesh, P("y", none))) : y;
    std::vector<std::string> names;
    const auto programs = [&](const Array& p, const Array& q) {
      std::vector<Array> results;
      for (auto& [name, result] : results_of(p, q)) {
        names.push_back(name);
        results.push_back(result);
      }
      return results;
    };
    const std::vector<Array> results = jit(programs)(a, b);
    for (std::size_t i = 0; i < results.size(); ++i) {
      text += fmt::format("\ndigest: {}{}: {:016x}", is_split ? "split " : "", names[i], digest(results[i]));
    }
  }
  return text;
}

// What a process of this program prints with this number of threads.
std::string digests_with(int threads) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command = fmt::format(
      "SHOAL_NUM_THREADS={} '{}' --gtest_also_run_disabled_tests "
      "--gtest_filter=Threads.DISABLED_PrintsDigests 2>/dev/null",
      threads, self);
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string text;
  for (std::array<char, 4096> line{}; pipe != nullptr && fgets(line.data(), line.size(), pipe.get()) != nullptr;) {
    if (std::string_view(line.data()).starts_with("digest: ")) text += line.data();
  }
  return text;
}

// Run by the next test, as another process.
TEST(Threads, DISABLED_PrintsDigests) { std::printf("%s\n", digests().c_str()); }

TEST(Threads, DoNotChangeBits) {
  const std::string one = digests_with(1);
  ASSERT_GT(std::ranges::count(one, '\n'), 100) << one;
  EXPECT_EQ(digests_with(2), one);
  EXPECT_EQ(digests_with(8), one);
}

}  // namespace
}  // namespace shoal
