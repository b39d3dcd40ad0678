// The mesh of set_mesh on this thread.
#pragma once

#include "shoal/mesh.h"

namespace shoal {

Mesh& current_mesh();

}  // namespace shoal
