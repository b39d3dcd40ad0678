// Lists of devices in messages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "shoal/device.h"
#include "shoal/error.h"

namespace shoal {

/// "[CpuDevice(id=0), …]" shortened for messages: "devices 0..7", "device 3".
std::string describe_devices(const std::vector<Device>& devices);
/// Throws InvalidArgument, beginning with `what`, if this job does not have one of the devices.
void check_devices(const std::vector<Device>& devices, std::string_view what, SourceLocation where);

}  // namespace shoal
