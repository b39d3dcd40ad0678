#include "comm/transport/shared_heap.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cstring>
#include <random>
#include <vector>

#include "shoal/error.h"

namespace shoal {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

// Pages that the file has, in bytes.
std::size_t bytes_of_file(const SharedHeap& heap) {
  struct stat status {};
  EXPECT_EQ(fstat(heap.descriptor(), &status), 0);
  return static_cast<std::size_t>(status.st_blocks) * 512;
}

FileDescriptor copy_of(int descriptor) { return FileDescriptor(fcntl(descriptor, F_DUPFD_CLOEXEC, 0)); }

TEST(SharedHeap, GivesAlignedPagesAndTakesThemBack) {
  SharedHeap heap(256 * kMiB);
  EXPECT_EQ(heap.size(), 256 * kMiB);
  EXPECT_EQ(bytes_of_file(heap), 0U);
  void* small = heap.map(5000);
  void* large = heap.map(9 * kMiB + 1);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(small) % SharedHeap::kPage, 0U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(large) % HostAllocator::kHugePage, 0U);
  EXPECT_EQ(heap.bytes_in_use(), 2 * SharedHeap::kPage + 9 * kMiB + SharedHeap::kPage);
  EXPECT_GE(bytes_of_file(heap), heap.bytes_in_use());
  std::memset(large, 1, 9 * kMiB + 1);
  heap.unmap(small, 5000);
  heap.unmap(large, 9 * kMiB + 1);
  EXPECT_EQ(heap.bytes_in_use(), 0U);
  EXPECT_EQ(bytes_of_file(heap), 0U);
  // All ranges are one again, and clean.
  auto* all = static_cast<unsigned char*>(heap.map(64 * kMiB));
  ASSERT_NE(all, nullptr);
  for (std::size_t i = 0; i < 64 * kMiB; i += 511) ASSERT_EQ(all[i], 0);
}

TEST(SharedHeap, KnowsWhatLiesInIt) {
  SharedHeap heap(16 * kMiB);
  auto* data = static_cast<std::byte*>(heap.map(4 * kMiB));
  const std::size_t offset = *heap.offset_of(data);
  EXPECT_EQ(heap.offset_of(data + 17), offset + 17);
  EXPECT_FALSE(heap.offset_of(&heap).has_value());
  EXPECT_FALSE(heap.offset_of(data - offset - 1).has_value());
  EXPECT_FALSE(heap.offset_of(data - offset + heap.size()).has_value());
  EXPECT_TRUE(heap.owns(data));
}

TEST(SharedHeap, HasNoMoreThanItsSize) {
  SharedHeap heap(8 * kMiB);
  void* first = heap.map(5 * kMiB);
  EXPECT_EQ(heap.map(5 * kMiB), nullptr);
  EXPECT_EQ(heap.map(9 * kMiB), nullptr);
  heap.unmap(first, 5 * kMiB);
  EXPECT_NE(heap.map(8 * kMiB), nullptr);
}

TEST(SharedHeap, NeverGivesMemoryTwice) {
  SharedHeap heap(64 * kMiB);
  std::mt19937_64 random(7);
  struct Block {
    unsigned char* data;
    std::size_t bytes;
    unsigned char mark;
  };
  std::vector<Block> blocks;
  for (int step = 0; step < 600; ++step) {
    if (!blocks.empty() && random() % 2 == 0) {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      const Block block = blocks.back();
      for (const std::size_t i : {std::size_t{0}, block.bytes / 2, block.bytes - 1})
        ASSERT_EQ(block.data[i], block.mark);
      heap.unmap(block.data, block.bytes);
      blocks.pop_back();
      continue;
    }
    const std::size_t bytes = 1 + random() % (std::size_t{1} << (10 + random() % 13));
    auto* data = static_cast<unsigned char*>(heap.map(bytes));
    if (data == nullptr) continue;
    const auto mark = static_cast<unsigned char>(random());
    for (const std::size_t i : {std::size_t{0}, bytes / 2, bytes - 1}) data[i] = mark;
    blocks.push_back({data, bytes, mark});
  }
  for (const Block& block : blocks) heap.unmap(block.data, block.bytes);
  EXPECT_EQ(heap.bytes_in_use(), 0U);
  EXPECT_NE(heap.map(64 * kMiB), nullptr);
}

TEST(SharedHeap, IsSeenByThoseWhoMapItsDescriptor) {
  SharedHeap heap(8 * kMiB);
  auto* data = static_cast<char*>(heap.map(kMiB));
  const PeerHeap peer(copy_of(heap.descriptor()), heap.size());
  const auto* seen = reinterpret_cast<const char*>(peer.base()) + *heap.offset_of(data);
  std::strcpy(data, "first");
  EXPECT_STREQ(seen, "first");
  std::strcpy(data, "second");
  EXPECT_STREQ(seen, "second");
}

TEST(SharedHeap, CannotBeCutBelowItsReaders) {
  SharedHeap heap(8 * kMiB);
  EXPECT_NE(ftruncate(heap.descriptor(), 4096), 0);
  EXPECT_NE(ftruncate(heap.descriptor(), 16 * 1024 * 1024), 0);
  EXPECT_THROW(PeerHeap(copy_of(heap.descriptor()), 4 * kMiB), InvalidArgument);
  const FileDescriptor unsealed(memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), 4096), 0);
  EXPECT_THROW(PeerHeap(unsealed, 4096), InvalidArgument);
}

TEST(SharedHeap, StaysBelowTheLimitOfFiles) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit limit = before;
  limit.rlim_cur = 4 * kMiB;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  {
    SharedHeap heap(64 * kMiB);
    EXPECT_EQ(heap.size(), 4 * kMiB);
    EXPECT_NE(heap.map(3 * kMiB), nullptr);
    EXPECT_EQ(heap.map(3 * kMiB), nullptr);
  }
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
}

// What a child of fork() does to the memory is its own affair.
TEST(SharedHeap, IsTheParentsAfterFork) {
  SharedHeap heap(16 * kMiB);
  auto* data = static_cast<char*>(heap.map(4 * kMiB));
  std::strcpy(data, "parent");
  const pid_t child = fork();
  if (child == 0) {
    const bool same = std::strcmp(data, "parent") == 0;
    std::strcpy(data, "child");
    const bool none = heap.map(4096) == nullptr;
    heap.unmap(data, 4 * kMiB);
    _exit(same && none && std::strcmp(data, "child") == 0 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_STREQ(data, "parent");
}

TEST(HostAllocator, TakesLargeBlocksFromItsSource) {
  SharedHeap heap(64 * kMiB);
  HostAllocator allocator(48 * kMiB);
  void* before = allocator.allocate(4 * kMiB);
  void* kept = allocator.allocate(3 * kMiB);
  allocator.deallocate(kept, 3 * kMiB);
  allocator.set_page_source(heap);
  EXPECT_EQ(allocator.bytes_cached(), 0U);
  EXPECT_FALSE(heap.owns(before));
  for (const std::size_t bytes : {HostAllocator::kSmall + 1, kMiB, 3 * kMiB, 17 * kMiB}) {
    void* data = allocator.allocate(bytes);
    EXPECT_TRUE(heap.owns(data)) << bytes;
    std::memset(data, 1, bytes);
    allocator.deallocate(data, bytes);
  }
  void* small = allocator.allocate(HostAllocator::kSmall);
  EXPECT_FALSE(heap.owns(small));
  allocator.deallocate(small, HostAllocator::kSmall);
  // What was there before is not handed out again.
  allocator.deallocate(before, 4 * kMiB);
  void* after = allocator.allocate(4 * kMiB);
  EXPECT_TRUE(heap.owns(after));
  EXPECT_THROW(allocator.allocate(45 * kMiB), std::bad_alloc);
  allocator.deallocate(after, 4 * kMiB);
  allocator.trim();
  EXPECT_EQ(heap.bytes_in_use(), 0U);
  EXPECT_EQ(allocator.bytes_in_use(), 0U);
}

TEST(HostAllocator, ThrowsWhenItsSourceIsExhausted) {
  SharedHeap heap(8 * kMiB);
  HostAllocator allocator(std::size_t{1} << 30);
  allocator.set_page_source(heap);
  void* most = allocator.allocate(6 * kMiB);
  EXPECT_THROW(allocator.allocate(4 * kMiB), std::bad_alloc);
  allocator.deallocate(most, 6 * kMiB);
  void* other = allocator.allocate(4 * kMiB);  // What was kept has been given back for it.
  EXPECT_TRUE(heap.owns(other));
  allocator.deallocate(other, 4 * kMiB);
}

}  // namespace
}  // namespace shoal
