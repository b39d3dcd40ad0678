#include "core/buffer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "shoal/error.h"

namespace shoal {
namespace {

constexpr MemoryKind kKinds[] = {kDeviceMemory, kPinnedHostMemory, kUnpinnedHostMemory};

TEST(HostSpace, ThereIsOneForEachKind) {
  for (const MemoryKind kind : kKinds) {
    EXPECT_EQ(&host_space(kind), &host_space(kind));
    EXPECT_EQ(host_space(kind).memory_kind(), kind);
    EXPECT_EQ(host_space(kind).name(), kind.name());
    EXPECT_TRUE(host_space(kind).host_accessible());
  }
  EXPECT_NE(&host_space(kDeviceMemory), &host_space(kPinnedHostMemory));
  EXPECT_NE(&host_space(kPinnedHostMemory), &host_space(kUnpinnedHostMemory));
}

TEST(HostSpace, AlignsWhatItGives) {
  for (const std::size_t bytes : {0U, 1U, 63U, 64U, 65U, 4097U}) {
    void* data = host_space({}).allocate(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % 64, 0U);
    host_space({}).deallocate(data, bytes);
  }
}

TEST(HostSpace, CountsBytesInUse) {
  for (const MemoryKind kind : kKinds) {
    std::vector<std::size_t> before;
    for (const MemoryKind each : kKinds) before.push_back(host_space(each).bytes_in_use());
    {
      const Buffer a(host_space(kind), float32, {10});
      const Buffer b(host_space(kind), int8, {3, 7});
      const Buffer shared = a;  // NOLINT(performance-unnecessary-copy-initialization)
      for (std::size_t i = 0; i < before.size(); ++i) {
        EXPECT_EQ(host_space(kKinds[i]).bytes_in_use(), before[i] + (kKinds[i] == kind ? 61 : 0));
      }
    }
    EXPECT_EQ(host_space(kind).bytes_in_use(), before[static_cast<std::size_t>(kind.kind())]);
  }
}

TEST(HostSpace, CountsAcrossThreads) {
  const std::size_t before = host_space({}).bytes_in_use();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int k = 0; k < 1000; ++k) const Buffer buffer(host_space({}), float64, {k % 7});
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(host_space({}).bytes_in_use(), before);
}

TEST(Buffer, HoldsElementsOfAShape) {
  Buffer buffer(host_space(kPinnedHostMemory), bfloat16, {2, 3});
  EXPECT_TRUE(buffer);
  EXPECT_EQ(buffer.dtype(), bfloat16);
  EXPECT_EQ(buffer.shape(), (Shape{2, 3}));
  EXPECT_EQ(buffer.size_bytes(), 12U);
  EXPECT_EQ(&buffer.space(), &host_space(kPinnedHostMemory));
  EXPECT_EQ(buffer.data(), buffer.mutable_data());
  const TensorView view = buffer.view();
  EXPECT_EQ(view.dtype, bfloat16);
  EXPECT_EQ(view.shape, (Shape{2, 3}));
  EXPECT_EQ(view.data, buffer.data());
  EXPECT_EQ(view.as<bfloat16_t>(), buffer.data());
}

TEST(Buffer, MayBeScalarEmptyOrNothing) {
  EXPECT_EQ(Buffer(host_space({}), complex128, {}).size_bytes(), 16U);
  const Buffer none(host_space({}), float32, {4, 0});
  EXPECT_TRUE(none);
  EXPECT_EQ(none.size_bytes(), 0U);
  EXPECT_FALSE(Buffer());
}

TEST(Buffer, CopiesShareTheMemory) {
  Buffer buffer(host_space({}), int32, {4});
  std::memset(buffer.mutable_data(), 0, buffer.size_bytes());
  const Buffer copy = buffer;
  static_cast<std::int32_t*>(buffer.mutable_data())[2] = 7;
  EXPECT_EQ(static_cast<const std::int32_t*>(copy.data())[2], 7);
  EXPECT_TRUE(same_memory(buffer, copy));
  EXPECT_FALSE(same_memory(buffer, Buffer(host_space({}), int32, {4})));
  EXPECT_FALSE(same_memory(Buffer(host_space({}), int32, {0}), Buffer(host_space({}), int32, {0}))) << "even if empty";
}

TEST(Buffer, OutlivesItsFirstOwner) {
  Buffer copy;
  const std::size_t before = host_space({}).bytes_in_use();
  {
    Buffer buffer(host_space({}), int32, {2});
    static_cast<std::int32_t*>(buffer.mutable_data())[1] = 5;
    copy = buffer;
  }
  EXPECT_EQ(static_cast<const std::int32_t*>(copy.data())[1], 5);
  EXPECT_EQ(host_space({}).bytes_in_use(), before + 8);
  copy = Buffer();
  EXPECT_EQ(host_space({}).bytes_in_use(), before);
}

// ---- Foreign memory.

TEST(Buffer, OfForeignMemoryKeepsItsOwnerUntilTheLast) {
  auto elements = std::make_shared<const std::vector<std::int32_t>>(std::vector<std::int32_t>{1, 2, 3});
  const std::weak_ptr<const void> owner = elements;
  const std::int32_t* data = elements->data();
  const std::size_t before = host_space({}).bytes_in_use();
  Buffer buffer = Buffer::foreign(host_space({}), data, int32, {3}, std::move(elements));
  EXPECT_EQ(buffer.data(), data);
  EXPECT_EQ(buffer.size_bytes(), 12U);
  EXPECT_EQ(&buffer.space(), &host_space({}));
  EXPECT_EQ(host_space({}).bytes_in_use(), before) << "what is not the library's does not count";
  EXPECT_FALSE(buffer.is_unique()) << "its owner sees it";
  Buffer other = buffer.reshaped({1, 3});
  EXPECT_TRUE(same_memory(buffer, other));
  buffer = Buffer();
  EXPECT_FALSE(owner.expired());
  other = Buffer();
  EXPECT_TRUE(owner.expired());
}

TEST(Buffer, OfForeignMemoryNeedsAnOwnerAndASpaceThatTakesIt) {
  const auto elements = std::make_shared<const int>(1);
  EXPECT_THROW(Buffer::foreign(host_space({}), elements.get(), int32, {1}, nullptr), InternalError);
  EXPECT_THROW(Buffer::foreign(host_space(kPinnedHostMemory), elements.get(), int32, {1}, elements), InternalError);
  EXPECT_NO_THROW(Buffer::foreign(host_space(kUnpinnedHostMemory), elements.get(), int32, {1}, elements));
}

TEST(Buffer, ReshapedSharesTheMemory) {
  const Buffer buffer(host_space({}), int32, {2, 6});
  const Buffer reshaped = buffer.reshaped({3, 4});
  EXPECT_TRUE(same_memory(buffer, reshaped));
  EXPECT_EQ(reshaped.shape(), (Shape{3, 4}));
  EXPECT_EQ(buffer.shape(), (Shape{2, 6}));
  EXPECT_EQ(reshaped.size_bytes(), buffer.size_bytes());
  EXPECT_THROW(buffer.reshaped({5}), InternalError);
}

}  // namespace
}  // namespace shoal
