// The mesh of nested pmaps.
//
// An outermost pmap cannot know how many devices those inside it take before it has traced its function. It first tries
// a mesh of its own axis alone; what finds too few devices there asks for more, and the trace begins again.
#pragma once

#include <vector>

#include "shoal/device.h"

namespace shoal::detail {

/// Called inside a trace by what needs exactly these devices. Inside a pmap whose devices are the first of them, this
/// does not return: the pmap is traced again on all of them. Otherwise it does nothing.
void request_devices(const std::vector<Device>& devices);

}  // namespace shoal::detail
