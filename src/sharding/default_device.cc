#include "shoal/default_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sharding/default_place.h"

namespace shoal {

DefaultPlace& default_place() {
  thread_local DefaultPlace place;
  return place;
}

Device default_device() {
  const std::optional<Device>& chosen = default_place().device;
  return chosen ? *chosen : local_devices().front();
}

void set_default_device(std::optional<Device> device, SourceLocation where) {
  const std::vector<Device> own = local_devices();
  if (device && std::ranges::find(own, *device) == own.end()) {
    throw InvalidArgument(fmt::format("set_default_device: {} is no device of this process, which has {} to {}",
                                      to_string(*device), to_string(own.front()), to_string(own.back())),
                          where);
  }
  default_place().device = std::move(device);
}

use_default_device::use_default_device(const Device& device, SourceLocation where) : before_(default_place().device) {
  set_default_device(device, where);
}

use_default_device::~use_default_device() { default_place().device = before_; }

}  // namespace shoal
