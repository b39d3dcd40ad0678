// The mesh in whose axes bare partition specs are meant.
#pragma once

#include <source_location>

#include "shoal/mesh.h"

namespace shoal {

/// Makes `mesh` the one that a PartitionSpec given for a sharding means, on this thread, from now on; an empty mesh
/// takes it away. shard_map takes it, too, when it is given no mesh. Programs none of whose arrays is committed run
/// over it, and what nothing splits is whole on each of its devices; this goes before set_default_device. Throws
/// InvalidState inside a traced function or shard_map, and InvalidArgument for a mesh with Manual axes.
void set_mesh(const Mesh& mesh, std::source_location where = std::source_location::current());

/// The mesh of set_mesh or use_mesh on this thread; empty if there is none.
Mesh get_mesh();

/// The axes of the mesh that holds here, with their types here: those of a shard_map around are Manual, and auto_axes
/// and explicit_axes change others. Empty if there is no mesh.
AbstractMesh get_abstract_mesh();

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
  Mesh before_place_;  // Over which ran what nobody placed.
  Mesh before_;
};

/// While it lives these axes stand in the place of those of the mesh of set_mesh, also in functions that are traced. If
/// that has as many devices, they are over its devices; otherwise shardings over them have none.
class [[nodiscard]] use_abstract_mesh {
 public:
  explicit use_abstract_mesh(const Mesh& mesh);
  ~use_abstract_mesh();
  use_abstract_mesh(const use_abstract_mesh&) = delete;
  use_abstract_mesh& operator=(const use_abstract_mesh&) = delete;

 private:
  Mesh before_;
};

}  // namespace shoal
