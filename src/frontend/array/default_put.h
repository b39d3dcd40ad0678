// Arrays put where nobody names the devices.
#pragma once

#include "base/caller.h"
#include "shoal/array.h"

namespace shoal::detail {

/// The array in another memory of the devices where it lies.
Array put_in_memory(const Operand& x, const MemoryKind& memory);

/// An array that nobody placed, over the mesh of set_mesh, whole on each device. Any other stays where it is.
Array at_default_place(const Array& array);

}  // namespace shoal::detail
