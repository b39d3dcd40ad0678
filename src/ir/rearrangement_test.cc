#include "ir/rearrangement.h"

#include <gtest/gtest.h>

namespace shoal {
namespace {

// Counts by looking at every position.
std::pair<std::int64_t, std::int64_t> counted(std::int64_t start, std::int64_t step, std::int64_t count,
                                              std::int64_t begin, std::int64_t end) {
  std::int64_t first = count;
  std::int64_t last = count;
  bool seen = false;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t at = start + i * step;
    if (at < begin || at >= end) continue;
    if (!seen) first = i;
    last = i + 1;
    seen = true;
  }
  return seen ? std::pair(first, last) : std::pair<std::int64_t, std::int64_t>(0, 0);
}

TEST(Run, FindsThePartWithinARange) {
  for (std::int64_t start : {0, 1, 5, 9, 12}) {
    for (std::int64_t step : {1, 2, 3, -1, -2, -4}) {
      for (std::int64_t count : {0, 1, 4, 7}) {
        for (std::int64_t begin = -3; begin < 15; ++begin) {
          for (std::int64_t end = begin; end < 16; ++end) {
            auto [first, last] = shoal::Run::within(start, step, count, begin, end);
            if (last <= first) first = last = 0;
            EXPECT_EQ(std::pair(first, last), counted(start, step, count, begin, end))
                << start << ' ' << step << ' ' << count << ' ' << begin << ' ' << end;
          }
        }
      }
    }
  }
}

TEST(Windows, CoverWhatTheirNumbersMeet) {
  for (const std::int64_t stride : {1, 2, 3}) {
    for (const std::int64_t base : {1, 2, 3}) {
      for (const std::int64_t covers : {1, 3, 8}) {
        for (const std::int64_t low : {-3, 0, 2, 5}) {
          const Windows windows{.numbers = 9, .stride = stride, .low = low, .covers = covers, .base = base};
          EXPECT_EQ(windows_of(to_dims(windows)), windows);
          for (std::int64_t begin = 0; begin < 9; ++begin) {
            for (std::int64_t size = 1; begin + size <= 9; ++size) {
              std::int64_t first = 100;
              std::int64_t last = -100;
              for (std::int64_t e = -20; e < 60; ++e) {
                const std::int64_t at = e * base + low - begin * stride;
                if (at < 0 || at >= (size - 1) * stride + covers) continue;
                first = std::min(first, e);
                last = e;
              }
              const Extent met = windows.elements_of({begin, size});
              EXPECT_LE(met.size, windows.most_elements(size));
              if (last < first) {
                EXPECT_EQ(met.size, 0);
                continue;
              }
              EXPECT_EQ(met, (Extent{first, last - first + 1}));
              // Shards differ in nothing but in what is before their first element.
              const std::int64_t low_of_first = windows.elements_of({0, size}).start * base + low;
              EXPECT_EQ(low_of_shard(low_of_first, base, stride, begin), first * base + low - begin * stride);
            }
          }
        }
      }
    }
  }
}

TEST(Run, IsAnAttribute) {
  const std::vector<shoal::Run> runs = {
      {.operand = 1, .count = 4, .in_start = 7, .in_step = -2, .out_start = 3, .out_step = 5}, {.count = 2}};
  EXPECT_EQ(runs_of(to_dims(runs)), runs);
  EXPECT_TRUE(runs_of({}).empty());
}

}  // namespace
}  // namespace shoal
