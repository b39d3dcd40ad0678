// The mesh in whose axes bare partition specs are meant.
#pragma once

#include <source_location>

#include "shoal/mesh.h"

namespace shoal {

/// Makes `mesh` the one that a PartitionSpec given for a sharding means, on this thread, from now on; an empty mesh
/// takes it away. shard_map takes it, too, when it is given no mesh.
/// Throws InvalidState inside a traced function or shard_map, and InvalidArgument for a mesh with Manual axes.
void set_mesh(const Mesh& mesh, std::source_location where = std::source_location::current());

/// The mesh of set_mesh or use_mesh on this thread; empty if there is none.
Mesh get_mesh();

/// set_mesh for as long as this object lives:
///   use_mesh scope(mesh);
///   Array y = device_put(x, P("x"));
class [[nodiscard]] use_mesh {
 public:
  explicit use_mesh(const Mesh& mesh, std::source_location where = std::source_location::current());
  ~use_mesh();
  use_mesh(const use_mesh&) = delete;
  use_mesh& operator=(const use_mesh&) = delete;

 private:
  Mesh before_;
};

}  // namespace shoal
