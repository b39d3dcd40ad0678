#include "core/device_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace shoal {

void check_devices(const std::vector<Device>& devices, std::string_view what, SourceLocation where) {
  const std::vector<Device> all = shoal::devices();
  for (const Device& device : devices) {
    if (std::find(all.begin(), all.end(), device) != all.end()) continue;
    throw InvalidArgument(
        fmt::format("{}: there is no {}; this job has {}", what, to_string(device), describe_devices(all)), where);
  }
}

std::string describe_devices(const std::vector<Device>& devices) {
  if (devices.size() == 1) return fmt::format("device {}", devices[0].id);
  bool consecutive = true;
  std::vector<std::int64_t> ids;
  for (const Device& device : devices) {
    consecutive = consecutive && (ids.empty() || device.id == ids.back() + 1);
    ids.push_back(device.id);
  }
  if (consecutive) return fmt::format("devices {}..{}", ids.front(), ids.back());
  return fmt::format("devices [{}]", fmt::join(ids, ", "));
}

}  // namespace shoal
