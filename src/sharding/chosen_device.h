// The device of set_default_device on this thread.
#pragma once

#include <cstdint>
#include <optional>

#include "shoal/device.h"

namespace shoal {

std::optional<Device>& chosen_device();

/// What caches tell it by: -1 if none is set.
inline std::int64_t chosen_device_id() {
  const std::optional<Device>& device = chosen_device();
  return device ? device->id : -1;
}

}  // namespace shoal
