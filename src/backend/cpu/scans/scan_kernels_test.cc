#include "backend/cpu/scans/scan_kernels.h"

#include <gtest/gtest.h>

#include <iterator>
#include <limits>
#include <random>
#include <string>

#include "backend/cpu/kernel_test_support.h"

namespace shoal::cpu {
namespace {

// A sum of two NaNs may be either of them, so that there is but one: the one that arithmetic makes.
Buffer numbers(Dtype dtype, const Shape& shape, std::mt19937_64& random) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kFew[] = {
      0, -0.0F, 1, -1, 2.5F, -2.5F, kInfinity, -kInfinity, -std::numeric_limits<float>::quiet_NaN()};
  Buffer buffer(host_space({}), dtype, shape);
  with_element_type(dtype, [&]<class T>(T) {
    const std::size_t count = is_floating(dtype) ? std::size(kFew) : 4;
    for (std::int64_t i = 0; i < num_elements(shape); ++i) {
      static_cast<T*>(buffer.mutable_data())[i] = T(kFew[random() % count]);
    }
  });
  return buffer;
}

class ScanKernels : public ::testing::TestWithParam<Dtype> {};

// Lines that lie by themselves and side by side, short and long, several tiles and blocks, and none.
TEST_P(ScanKernels, GiveTheBitsOfTheReference) {
  struct Case {
    Shape shape;
    std::int64_t dim;
  };
  const Case cases[] = {{{7}, 0},        {{70000}, 0}, {{300, 5}, 1}, {{5, 300}, 0}, {{3, 40, 600}, 1},
                        {{700, 100}, 1}, {{1, 9}, 0},  {{0, 4}, 0},   {{4, 0}, 0},   {{2, 3, 4}, 0}};
  std::mt19937_64 random(1);
  for (const std::string op : {"cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"}) {
    const bool orders = op == "cummax" || op == "cummin";
    if (is_complex(GetParam()) && orders) continue;
    if (GetParam() == Dtype::kBool && orders) continue;
    if (op == "cumlogsumexp" && !is_floating(GetParam())) continue;
    for (const auto& [shape, dim] : cases) {
      for (const bool reverse : {false, true}) {
        check_kernel(op, {{"dim", dim}, {"reverse", reverse}}, {numbers(GetParam(), shape, random)});
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ScanKernels, ::testing::ValuesIn(kEveryDtype),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

}  // namespace
}  // namespace shoal::cpu
