// Results have the same bits whatever the number of threads: the same programs run in processes with 1, 2 and 8.
#include <gtest/gtest.h>
#include <shoal/shoal.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace shoal {
namespace {

// FNV-1a over the bytes of an array.
std::uint64_t digest(const Array& array) {
  std::uint64_t hash = 14695981039346656037U;
  for (const float element : array.astype(float32).to_vector<float>()) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &element, sizeof(bits));
    hash = (hash ^ bits) * 1099511628211U;
  }
  return hash;
}

// Reductions of every kind, products, and what loops fuse, over enough elements for many tiles.
std::string digests() {
  set_num_cpu_devices(8);
  const Mesh mesh = make_mesh({2, 4}, {"x", "y"});
  const Array x = sin(arange(600 * 700).astype(float32)).reshape({600, 700});
  const Array y = cos(arange(700 * 500).astype(float32)).reshape({700, 500});
  const auto programs = [&](const Array& a, const Array& b) {
    const Array shifted = a - max(a, {.axis = 1, .keepdims = true});
    const Array powers = exp(shifted);
    return std::vector<Array>{
        sum(a),
        sum(a, {.axis = 0}),
        sum(a, {.axis = 1}),
        powers / sum(powers, {.axis = 1, .keepdims = true}),
        matmul(a, b),
        matmul(a.astype(bfloat16), b.astype(bfloat16)),
        matmul(a.astype(float64), b.astype(float64)),
        tanh(matmul(a, b) + 1),
        sort(a, {.axis = 0}),
        sort(a, {.axis = std::nullopt}),
        argsort(a, {.axis = std::nullopt}),
        cumsum(a, {.axis = 1}),
    };
  };
  std::string text;
  for (const bool is_split : {false, true}) {
    const Array a = is_split ? device_put(x, NamedSharding(mesh, P("x", "y"))) : x;
    const Array b = is_split ? device_put(y, NamedSharding(mesh, P("y", none))) : y;
    for (const Array& result : jit(programs)(a, b)) text += std::to_string(digest(result)) + " ";
  }
  return text;
}

// What this program prints with another number of threads.
std::string digests_with(int threads) {
  std::array<char, 4096> path{};
  if (readlink("/proc/self/exe", path.data(), path.size() - 1) < 0) return "no path";
  const std::string command = "SHOAL_NUM_THREADS=" + std::to_string(threads) + " SHOAL_TEST_DIGESTS=1 " + path.data() +
                              " --gtest_filter=Threads.PrintsDigests 2>/dev/null";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string text;
  for (std::array<char, 4096> part{}; pipe != nullptr && fgets(part.data(), part.size(), pipe.get()) != nullptr;) {
    text += part.data();
  }
  const std::size_t begin = text.find("digests: ");
  return begin == std::string::npos ? "nothing: " + text : text.substr(begin, text.find('\n', begin) - begin);
}

TEST(Threads, PrintsDigests) {
  if (std::getenv("SHOAL_TEST_DIGESTS") == nullptr) GTEST_SKIP() << "it is run by the next test, as another process";
  std::printf("digests: %s\n", digests().c_str());
}

TEST(Threads, DoNotChangeBits) {
  const std::string one = digests_with(1);
  ASSERT_EQ(one.substr(0, 9), "digests: ") << one;
  EXPECT_EQ(digests_with(2), one);
  EXPECT_EQ(digests_with(8), one);
}

}  // namespace
}  // namespace shoal
