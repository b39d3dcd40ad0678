// Arrays that span processes, brought to each of them piece by piece.
#pragma once

#include <cstdint>

#include "core/buffer.h"
#include "runtime/device_array.h"
#include "shoal/error.h"

namespace shoal::multihost {

/// The whole of an array in each process that has devices of it, which all call this in one order. At most
/// `chunk_bytes` bytes of it are under way at a time. Throws InvalidState if this process has no device of
/// it, and InvalidArgument if a chunk holds no element.
Buffer gather_whole(const DeviceArray& array, std::int64_t chunk_bytes);

}  // namespace shoal::multihost
