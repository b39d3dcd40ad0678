#include "sharding/current_mesh.h"

#include "shoal/mesh_context.h"

namespace shoal {

Mesh& current_mesh() {
  thread_local Mesh current;
  return current;
}

Mesh get_mesh() { return current_mesh(); }

}  // namespace shoal
