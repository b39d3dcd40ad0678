#include "core/host_allocator.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <random>
#include <thread>
#include <vector>

namespace shoal {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

bool is_aligned(const void* data, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(data) % alignment == 0;
}

TEST(HostAllocator, AlignsAndGivesWhatIsAskedFor) {
  HostAllocator allocator(256 * kMiB);
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{64}, std::size_t{65}, std::size_t{4097},
                                  std::size_t{32769}, kMiB + 1, 2 * kMiB, 2 * kMiB + 1, 17 * kMiB + 3}) {
    void* data = allocator.allocate(bytes);
    EXPECT_TRUE(is_aligned(data, bytes < 2 * kMiB ? 64 : 2 * kMiB)) << bytes;
    std::memset(data, 1, bytes);
    EXPECT_GE(allocator.bytes_in_use(), bytes);
    EXPECT_LE(allocator.bytes_in_use(), std::max(bytes + bytes / 4 + 64, bytes < 2 * kMiB ? 0 : bytes + 3 * kMiB));
    allocator.deallocate(data, bytes);
    EXPECT_EQ(allocator.bytes_in_use(), 0U);
  }
}

TEST(HostAllocator, CountsWhatItTakesOfTheSystem) {
  HostAllocator allocator(256 * kMiB);
  void* small = allocator.allocate(1000);
  void* large = allocator.allocate(kMiB);
  EXPECT_EQ(allocator.blocks_from_system(), 2U);
  const std::size_t both = HostAllocator::block_size(1000) + HostAllocator::block_size(kMiB);
  EXPECT_EQ(allocator.peak_bytes(), both);
  allocator.deallocate(small, 1000);
  allocator.deallocate(large, kMiB);
  allocator.trim();
  EXPECT_EQ(allocator.peak_bytes(), both);
  allocator.forget_peak();
  EXPECT_EQ(allocator.peak_bytes(), 0U);
  if (!HostAllocator::kCaches) return;
  // What one thread gives back another may take.
  for (int i = 0; i < 20; ++i) {
    std::thread([&] { small = allocator.allocate(1000); }).join();
    std::thread([&] { allocator.deallocate(small, 1000); }).join();
  }
  EXPECT_EQ(allocator.blocks_from_system(), 3U);
  EXPECT_EQ(allocator.peak_bytes(), HostAllocator::block_size(1000));
}

// Every size has a class, no smaller than itself, and that of a larger size is no smaller.
TEST(HostAllocator, NeverMixesSizes) {
  HostAllocator allocator(std::size_t{8} << 30);
  std::mt19937_64 random(1);
  struct Block {
    unsigned char* data;
    std::size_t bytes;
    unsigned char mark;
  };
  std::vector<Block> blocks;
  const auto check = [](const Block& block) {
    for (const std::size_t i : {std::size_t{0}, block.bytes / 2, block.bytes - 1}) ASSERT_EQ(block.data[i], block.mark);
  };
  for (int step = 0; step < 20000; ++step) {
    if (blocks.size() > 100 || (!blocks.empty() && random() % 2 == 0)) {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      check(blocks.back());
      allocator.deallocate(blocks.back().data, blocks.back().bytes);
      blocks.pop_back();
    } else {
      const std::size_t bytes = 1 + random() % (std::size_t{1} << (6 + random() % 17));
      const auto mark = static_cast<unsigned char>(random());
      Block block{static_cast<unsigned char*>(allocator.allocate(bytes)), bytes, mark};
      for (const std::size_t i : {std::size_t{0}, bytes / 2, bytes - 1}) block.data[i] = mark;
      blocks.push_back(block);
    }
  }
  for (const Block& block : blocks) {
    check(block);
    allocator.deallocate(block.data, block.bytes);
  }
  EXPECT_EQ(allocator.bytes_in_use(), 0U);
}

TEST(HostAllocator, HandsOutAgainWhatItGotBack) {
  if (!HostAllocator::kCaches) GTEST_SKIP() << "nothing is kept under the sanitizers";
  HostAllocator allocator(256 * kMiB);
  for (const std::size_t bytes : {std::size_t{100}, std::size_t{100000}, 8 * kMiB}) {
    void* first = allocator.allocate(bytes);
    allocator.deallocate(first, bytes);
    EXPECT_GE(allocator.bytes_cached(), bytes);
    EXPECT_EQ(allocator.allocate(bytes - 1), first) << "one of the same class";
    EXPECT_EQ(allocator.bytes_cached(), 0U);
    void* second = allocator.allocate(bytes);
    EXPECT_NE(second, first);
    allocator.deallocate(first, bytes - 1);
    allocator.deallocate(second, bytes);
    allocator.trim();
    EXPECT_EQ(allocator.bytes_cached(), 0U);
  }
}

TEST(HostAllocator, KeepsNoMoreThanAQuarterOfItsLimit) {
  HostAllocator allocator(64 * kMiB);
  std::vector<void*> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(allocator.allocate(4 * kMiB));
  for (void* block : blocks) allocator.deallocate(block, 4 * kMiB);
  EXPECT_LE(allocator.bytes_cached(), 16 * kMiB);
  if (!HostAllocator::kCaches) return;
  EXPECT_EQ(allocator.bytes_cached(), 16 * kMiB);
  EXPECT_EQ(allocator.allocate(4 * kMiB), blocks.back()) << "those unused longest have gone";
  allocator.deallocate(blocks.back(), 4 * kMiB);
}

TEST(HostAllocator, KeepsToItsLimit) {
  HostAllocator allocator(16 * kMiB);
  void* large = allocator.allocate(10 * kMiB);
  EXPECT_THROW(allocator.allocate(8 * kMiB), std::bad_alloc);
  void* rest = allocator.allocate(6 * kMiB);
  EXPECT_THROW(allocator.allocate(1), std::bad_alloc);
  allocator.deallocate(rest, 6 * kMiB);
  allocator.deallocate(large, 10 * kMiB);
  EXPECT_THROW(allocator.allocate(17 * kMiB), std::bad_alloc);
  EXPECT_THROW(allocator.allocate(~std::size_t{0}), std::bad_alloc);
  EXPECT_EQ(allocator.bytes_in_use(), 0U);
}

TEST(HostAllocator, GivesUpWhatItKeepsBeforeItFails) {
  HostAllocator allocator(16 * kMiB);
  void* kept = allocator.allocate(4 * kMiB);
  void* small = allocator.allocate(64);
  allocator.deallocate(kept, 4 * kMiB);
  allocator.deallocate(small, 64);
  void* all = allocator.allocate(16 * kMiB);
  EXPECT_EQ(allocator.bytes_in_use(), 16 * kMiB);
  EXPECT_EQ(allocator.bytes_cached(), 0U);
  allocator.deallocate(all, 16 * kMiB);
}

TEST(HostAllocator, ServesManyThreads) {
  HostAllocator allocator(std::size_t{4} << 30);
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 6; ++seed) {
    threads.emplace_back([&allocator, seed] {
      std::mt19937_64 random(seed);
      std::vector<std::pair<std::size_t*, std::size_t>> blocks;
      for (int step = 0; step < 5000; ++step) {
        const std::size_t bytes = 8 + random() % (std::size_t{1} << (4 + random() % 14));
        auto* data = static_cast<std::size_t*>(allocator.allocate(bytes));
        *data = bytes + seed;
        blocks.emplace_back(data, bytes);
        if (blocks.size() < 50) continue;
        for (const auto& [block, size] : blocks) {
          ASSERT_EQ(*block, size + seed);
          allocator.deallocate(block, size);
        }
        blocks.clear();
      }
      for (const auto& [block, size] : blocks) allocator.deallocate(block, size);
    });
  }
  threads.emplace_back([&allocator] {
    for (int i = 0; i < 200; ++i) allocator.trim();
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(allocator.bytes_in_use(), 0U);
}

}  // namespace
}  // namespace shoal
