#include "shoal/default_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sharding/chosen_device.h"

namespace shoal {

std::optional<Device>& chosen_device() {
  thread_local std::optional<Device> chosen;
  return chosen;
}

Device default_device() {
  const std::optional<Device>& chosen = chosen_device();
  return chosen ? *chosen : local_devices().front();
}

void set_default_device(std::optional<Device> device, SourceLocation where) {
  const std::vector<Device> own = local_devices();
  if (device && std::ranges::find(own, *device) == own.end()) {
    throw InvalidArgument(fmt::format("set_default_device: {} is no device of this process, which has {} to {}",
                                      to_string(*device), to_string(own.front()), to_string(own.back())),
                          where);
  }
  chosen_device() = std::move(device);
}

use_default_device::use_default_device(const Device& device, SourceLocation where) : before_(chosen_device()) {
  set_default_device(device, where);
}

use_default_device::~use_default_device() { chosen_device() = before_; }

}  // namespace shoal
