// Devices and the memories they can address.
//
// A virtual CPU device is a place in the programming model, not a thread: a process may have thousands.
//
// @param kind The kind.
// @param name "device", "pinned_host" or "unpinned_host".
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <set>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

namespace shoal {

/// The id of a device is the number of its process times 2^kLocalIdBits, plus its number there.
inline constexpr int kLocalIdBits = 17;

enum class Platform : std::uint8_t { kCpu, kCuda };

/// Names an address space of a device: "device" (the default), "pinned_host" or "unpinned_host".
/// A value lives in one kind, is moved only on request, and operands of one operation are all of one kind.
class MemoryKind {
 public:
  enum class Kind : std::uint8_t { kDevice, kPinnedHost, kUnpinnedHost };

  constexpr MemoryKind() = default;
  constexpr MemoryKind(Kind kind) : kind_(kind) {}
  /// From a name. Throws InvalidArgument, listing the kinds that exist, for any other text.
  MemoryKind(std::string_view name, std::source_location where = std::source_location::current());
  MemoryKind(const char* name, std::source_location where = std::source_location::current());

  constexpr Kind kind() const { return kind_; }
  std::string_view name() const;
  friend constexpr bool operator==(MemoryKind, MemoryKind) = default;

 private:
  Kind kind_ = Kind::kDevice;
};

inline constexpr MemoryKind kDeviceMemory{MemoryKind::Kind::kDevice};
inline constexpr MemoryKind kPinnedHostMemory{MemoryKind::Kind::kPinnedHost};
inline constexpr MemoryKind kUnpinnedHostMemory{MemoryKind::Kind::kUnpinnedHost};

std::ostream& operator<<(std::ostream& out, MemoryKind kind);  ///< Writes the name.

/// One memory of one device. Prints as "CpuDeviceMemory(id=0, process_index=0, client=cpu)".
struct Memory {
  Platform platform = Platform::kCpu;
  std::int64_t device_id = 0;
  int process_index = 0;
  MemoryKind kind;
  friend bool operator==(const Memory&, const Memory&) = default;
};

std::ostream& operator<<(std::ostream& out, const Memory& memory);

/// A device of any process. A small value, compared by platform and id.
struct Device {
  std::int64_t id = 0;
  int process_index = 0;
  Platform platform = Platform::kCpu;

  /// Every memory that computations on this device can use, the default first.
  std::vector<Memory> addressable_memories() const;
  Memory default_memory() const;

  friend bool operator==(const Device& a, const Device& b) { return a.id == b.id && a.platform == b.platform; }
  friend auto operator<=>(const Device& a, const Device& b) {
    if (auto order = a.platform <=> b.platform; order != 0) return order;
    return a.id <=> b.id;
  }
};

/// "CpuDevice(id=0)".
/// @param device The device.
std::string to_string(const Device& device);
std::ostream& operator<<(std::ostream& out, const Device& device);
std::ostream& operator<<(std::ostream& out, const std::vector<Device>& devices);  ///< "[CpuDevice(id=0), …]"
std::ostream& operator<<(std::ostream& out, const std::set<Device>& devices);     ///< "{CpuDevice(id=0), …}"

// ---- The devices of this job. The number of virtual CPU devices is SHOAL_NUM_CPU_DEVICES (default 1), or what
// ---- set_num_cpu_devices said before the first use of a device.

/// Sets the number of virtual CPU devices of this process. Throws InvalidState once devices have been used and
/// InvalidArgument for a number below 1.
/// @param count The number of devices.
void set_num_cpu_devices(int count, std::source_location where = std::source_location::current());

std::vector<Device> devices();        ///< All devices of the job, by id.
std::vector<Device> local_devices();  ///< Those of this process.
int device_count();
int local_device_count();
int process_index();
int process_count();

}  // namespace shoal
