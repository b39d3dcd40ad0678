// Grids: equal ones are one object for as long as somebody has it, so that comparing pointers compares grids.
#pragma once

#include "sharding/placement.h"

namespace shoal {

/// That of a mesh or of one device.
GridPtr shared_grid(const Mesh& mesh);
GridPtr shared_grid(const Device& device);

}  // namespace shoal
