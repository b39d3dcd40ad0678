#include "shoal/device.h"

#include <fmt/format.h>

#include <array>
#include <ostream>

#include "shoal/error.h"

namespace shoal {

namespace {

struct PlatformNames {
  std::string_view type;    // as in "CpuDevice"
  std::string_view client;  // as in "client=cpu"
};

PlatformNames names_of(Platform platform) {
  switch (platform) {
    case Platform::kCpu:
      return {"Cpu", "cpu"};
    case Platform::kCuda:
      return {"Cuda", "cuda"};
  }
  throw InternalError("unknown platform");
}

// All kinds; every device can use each of them, the first by default.
constexpr std::array kMemoryKinds = {kDeviceMemory, kPinnedHostMemory, kUnpinnedHostMemory};

MemoryKind parse_memory_kind(std::string_view name, const SourceLocation& where) {
  for (const MemoryKind kind : kMemoryKinds) {
    if (kind.name() == name) return kind;
  }
  std::string allowed;
  for (const MemoryKind kind : kMemoryKinds)
    allowed += fmt::format("{}\"{}\"", allowed.empty() ? "" : ", ", kind.name());
  throw InvalidArgument(fmt::format("memory_kind: devices have no memory \"{}\"; allowed: {}", name, allowed), where);
}

}  // namespace

MemoryKind::MemoryKind(std::string_view name, std::source_location where)
    : MemoryKind(parse_memory_kind(name, where)) {}

MemoryKind::MemoryKind(const char* name, std::source_location where) : MemoryKind(std::string_view(name), where) {}

std::string_view MemoryKind::name() const {
  switch (kind_) {
    case Kind::kDevice:
      return "device";
    case Kind::kPinnedHost:
      return "pinned_host";
    case Kind::kUnpinnedHost:
      return "unpinned_host";
  }
  throw InternalError("unknown memory kind");
}

std::ostream& operator<<(std::ostream& out, MemoryKind kind) { return out << kind.name(); }

std::ostream& operator<<(std::ostream& out, const Memory& memory) {
  const PlatformNames names = names_of(memory.platform);
  switch (memory.kind.kind()) {
    case MemoryKind::Kind::kDevice:
      out << names.type << "DeviceMemory";
      break;
    case MemoryKind::Kind::kPinnedHost:
      out << "PinnedHostMemory";
      break;
    case MemoryKind::Kind::kUnpinnedHost:
      out << "UnpinnedHostMemory";
      break;
  }
  return out << fmt::format("(id={}, process_index={}, client={})", memory.device_id, memory.process_index,
                            names.client);
}

std::vector<Memory> Device::addressable_memories() const {
  std::vector<Memory> memories;
  for (const MemoryKind kind : kMemoryKinds) memories.push_back({platform, id, process_index, kind});
  return memories;
}

Memory Device::default_memory() const { return {platform, id, process_index, kDeviceMemory}; }

std::string to_string(const Device& device) {
  return fmt::format("{}Device(id={})", names_of(device.platform).type, device.id);
}

std::ostream& operator<<(std::ostream& out, const Device& device) { return out << to_string(device); }

namespace {

template <class Devices>
std::ostream& write_list(std::ostream& out, char open, const Devices& devices, char close) {
  std::string_view separator;
  out << open;
  for (const Device& device : devices) {
    out << separator << device;
    separator = ", ";
  }
  return out << close;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const std::vector<Device>& devices) {
  return write_list(out, '[', devices, ']');
}

std::ostream& operator<<(std::ostream& out, const std::set<Device>& devices) {
  return write_list(out, '{', devices, '}');
}

}  // namespace shoal
