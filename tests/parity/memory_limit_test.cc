// Random graphs under random limits of memory give the same bits as without, or say that memory is short.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <iostream>

#include "core/host_allocator.h"
#include "random_graphs.h"
#include "shoal/error.h"

namespace shoal::parity {
namespace {

bool same_bits(const std::vector<Buffer>& a, const std::vector<Buffer>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].shape() != b[i].shape()) return false;
    if (a[i].size_bytes() != 0 && std::memcmp(a[i].data(), b[i].data(), a[i].size_bytes()) != 0) return false;
  }
  return true;
}

TEST(MemoryLimit, ChangesNoBits) {
  HostAllocator& memory = HostAllocator::shared();
  const std::size_t no_limit = memory.limit();
  Rng rng(7);
  int fitted = 0;
  int failed = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const Case test = random_case(seed);
    const std::vector<Buffer> expected = run(test);
    for (int i = 0; i < 3; ++i) {
      memory.trim();
      // A limit that is like the sizes of these arrays.
      memory.set_limit(memory.bytes_in_use() + (std::size_t{1} << (8 + rng.below(8))));
      try {
        EXPECT_TRUE(same_bits(run(test), expected)) << "seed " << seed;
        ++fitted;
      } catch (const OutOfMemory&) {
        ++failed;
      }
      EXPECT_LE(memory.bytes_in_use() + memory.bytes_cached(), memory.limit());
      memory.set_limit(no_limit);
    }
  }
  std::cout << fmt::format("{} runs fitted, {} did not\n", fitted, failed);
  EXPECT_GT(fitted, 100);
  EXPECT_GT(failed, 100);
}

}  // namespace
}  // namespace shoal::parity
