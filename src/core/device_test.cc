#include "shoal/device.h"

#include <gtest/gtest.h>

#include <sstream>

#include "shoal/error.h"

namespace shoal {
namespace {

template <class T>
std::string printed(const T& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

TEST(MemoryKind, NamesParseBack) {
  EXPECT_EQ(MemoryKind(), kDeviceMemory);
  EXPECT_EQ(MemoryKind("device"), kDeviceMemory);
  EXPECT_EQ(MemoryKind("pinned_host"), kPinnedHostMemory);
  EXPECT_EQ(MemoryKind(std::string_view("unpinned_host")), kUnpinnedHostMemory);
  EXPECT_EQ(printed(kPinnedHostMemory), "pinned_host");
}

TEST(MemoryKind, UnknownNameListsTheKindsAndTheUsersLine) {
  const int line = __LINE__ + 2;
  try {
    MemoryKind("gpu_hbm");
    FAIL() << "did not throw";
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(),
                 ("memory_kind: devices have no memory \"gpu_hbm\"; allowed: \"device\", \"pinned_host\", "
                  "\"unpinned_host\"\n  at device_test.cc:" +
                  std::to_string(line))
                     .c_str());
  }
}

TEST(Device, Prints) {
  EXPECT_EQ(to_string(Device{.id = 131072}), "CpuDevice(id=131072)");
  EXPECT_EQ(printed(Device{.id = 1, .platform = Platform::kCuda}), "CudaDevice(id=1)");
  EXPECT_EQ(printed(std::vector<Device>{}), "[]");
  EXPECT_EQ(printed(std::vector<Device>{Device{.id = 0}, Device{.id = 1}}), "[CpuDevice(id=0), CpuDevice(id=1)]");
  EXPECT_EQ(printed(std::set<Device>{}), "{}");
  EXPECT_EQ(printed(std::set<Device>{Device{.id = 1}, Device{.id = 0}}), "{CpuDevice(id=0), CpuDevice(id=1)}");
}

TEST(Device, ComparesByPlatformAndId) {
  EXPECT_EQ((Device{.id = 3, .process_index = 0}), (Device{.id = 3, .process_index = 1}));
  EXPECT_LT((Device{.id = 3}), (Device{.id = 4}));
  EXPECT_LT((Device{.id = 3}), (Device{.id = 0, .platform = Platform::kCuda}));
}

TEST(Device, HasThreeMemoriesTheDefaultFirst) {
  const Device device{.id = 7, .process_index = 2};
  const std::vector<Memory> memories = device.addressable_memories();
  ASSERT_EQ(memories.size(), 3U);
  EXPECT_EQ(memories[0], device.default_memory());
  EXPECT_EQ(memories[0].kind, kDeviceMemory);
  EXPECT_EQ(memories[1].kind, kPinnedHostMemory);
  EXPECT_EQ(memories[2].kind, kUnpinnedHostMemory);
}

TEST(Memory, Prints) {
  const std::vector<Memory> memories = Device{.id = 7, .process_index = 2}.addressable_memories();
  EXPECT_EQ(printed(memories.at(0)), "CpuDeviceMemory(id=7, process_index=2, client=cpu)");
  EXPECT_EQ(printed(memories.at(1)), "PinnedHostMemory(id=7, process_index=2, client=cpu)");
  EXPECT_EQ(printed(memories.at(2)), "UnpinnedHostMemory(id=7, process_index=2, client=cpu)");
}

}  // namespace
}  // namespace shoal
