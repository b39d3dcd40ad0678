#include "backend/cpu/sorts/sort_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "backend/cpu/kernel_test_support.h"
#include "base/thread_pool.h"

namespace shoal::cpu {
namespace {

Attrs sort_attrs(std::int64_t dim, std::int64_t keys, bool descending) {
  return {{"dim", dim}, {"num_keys", keys}, {"descending", descending}};
}

struct Case {
  Shape shape;
  std::int64_t dim;
};

// Lines of one element, shorter than vectors and longer, dense and apart, and none.
const Case kCases[] = {{{1}, 0},      {{7}, 0},      {{1000}, 0},     {{30, 5}, 1},    {{3, 300, 1}, 1},
                       {{300, 3}, 0}, {{70, 50}, 0}, {{2, 60, 9}, 1}, {{2, 9, 60}, 1}, {{0}, 0},
                       {{3, 0}, 1},   {{0, 3}, 1},   {{3, 0}, 0}};

TEST(SortKernel, ValuesOfEveryDtype) {
  std::mt19937_64 random(1);
  for (const Dtype dtype : kEveryDtype) {
    for (const Case& c : kCases) {
      for (const Draw draw : {Draw::kAnyBits, Draw::kFew}) {
        for (const bool descending : {false, true}) {
          check_kernel("sort", sort_attrs(c.dim, 1, descending), {drawn_buffer(dtype, c.shape, draw, random)});
        }
      }
    }
  }
}

TEST(SortKernel, OperandsFollowAKeyOfEveryDtype) {
  std::mt19937_64 random(2);
  for (const Dtype dtype : kEveryDtype) {
    for (const Case& c : kCases) {
      for (const Draw draw : {Draw::kAnyBits, Draw::kFew}) {
        std::vector<Buffer> operands{drawn_buffer(dtype, c.shape, draw, random)};
        for (const Dtype other : {Dtype::kI32, Dtype::kU8, Dtype::kC128, Dtype::kF16, Dtype::kF64}) {
          operands.push_back(drawn_buffer(other, c.shape, Draw::kAnyBits, random));
        }
        for (const bool descending : {false, true}) check_kernel("sort", sort_attrs(c.dim, 1, descending), operands);
      }
    }
  }
}

// From keys that fit a short word to such as need several turns.
TEST(SortKernel, SeveralKeys) {
  std::mt19937_64 random(3);
  const std::vector<std::vector<Dtype>> keys = {
      {Dtype::kBool, Dtype::kI8, Dtype::kU8},
      {Dtype::kF32, Dtype::kI16, Dtype::kU8},
      {Dtype::kI32, Dtype::kF32, Dtype::kF32},
      {Dtype::kI64, Dtype::kF64, Dtype::kI64},
      {Dtype::kC128, Dtype::kU8, Dtype::kC64, Dtype::kF64, Dtype::kBF16},
  };
  for (const std::vector<Dtype>& dtypes : keys) {
    for (const Case& c : kCases) {
      std::vector<Buffer> operands;
      for (const Dtype dtype : dtypes) operands.push_back(drawn_buffer(dtype, c.shape, Draw::kFew, random));
      operands.push_back(drawn_buffer(Dtype::kI64, c.shape, Draw::kAnyBits, random));
      for (std::size_t count = 1; count <= dtypes.size() + 1; ++count) {
        for (const bool descending : {false, true}) {
          check_kernel("sort", sort_attrs(c.dim, static_cast<std::int64_t>(count), descending), operands);
        }
      }
    }
  }
}

TEST(SortKernel, Greatest) {
  std::mt19937_64 random(4);
  for (const Dtype dtype : kEveryDtype) {
    if (is_complex(dtype)) continue;
    for (const Case& c : kCases) {
      const std::int64_t n = c.shape[static_cast<std::size_t>(c.dim)];
      for (const Draw draw : {Draw::kAnyBits, Draw::kFew}) {
        const Buffer operand = drawn_buffer(dtype, c.shape, draw, random);
        for (const std::int64_t k : {std::int64_t{0}, std::min<std::int64_t>(n, 1), n / 20, n / 2, n}) {
          check_kernel("top_k", {{"dim", c.dim}, {"k", k}}, {operand});
        }
      }
    }
  }
}

// So long that several threads sort one line, also where they do not come out even.
TEST(SortKernel, LongLines) {
  std::mt19937_64 random(5);
  for (const std::int64_t n : {(1 << 17) + 1, 300'001}) {
    for (const Dtype dtype : {Dtype::kU8, Dtype::kF32, Dtype::kI64, Dtype::kC64}) {
      for (const Draw draw : {Draw::kAnyBits, Draw::kFew}) {
        const Buffer key = drawn_buffer(dtype, {n}, draw, random);
        const Buffer other = drawn_buffer(Dtype::kI32, {n}, Draw::kAnyBits, random);
        check_kernel("sort", sort_attrs(0, 1, false), {key});
        check_kernel("sort", sort_attrs(0, 1, true), {key, other});
        if (!is_complex(dtype)) check_kernel("top_k", {{"dim", std::int64_t{0}}, {"k", n / 3}}, {key});
      }
    }
  }
}

// Inside a loop each thread sorts alone; the bits are the same.
TEST(SortKernel, LongLinesInsideOfALoop) {
  ThreadPool::shared().parallel_for(4, [](std::int64_t i) {
    std::mt19937_64 random(static_cast<std::uint64_t>(i));
    check_kernel("sort", sort_attrs(0, 1, false), {drawn_buffer(Dtype::kF32, {100'000}, Draw::kAnyBits, random)});
  });
}

}  // namespace
}  // namespace shoal::cpu
