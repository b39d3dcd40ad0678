// The mesh whose axes bare partition specs name.
//
// @param mesh The mesh.
#pragma once

#include <source_location>

#include "shoal/mesh.h"

namespace shoal {

/// Sets, for this thread and from now on, the mesh of PartitionSpecs that are given as shardings, and of shard_map
/// without a mesh. An empty mesh removes it. Programs whose arrays are all uncommitted run over it; values that no axis
/// splits are whole on each of its devices. It takes precedence over set_default_device. Throws InvalidState inside a
/// traced function or shard_map, and InvalidArgument for a mesh with Manual axes.
/// @param mesh The mesh.
void set_mesh(const Mesh& mesh, std::source_location where = std::source_location::current());

/// The mesh of set_mesh or use_mesh on this thread; empty if there is none.
Mesh get_mesh();

/// The axes of the current mesh with their current types: axes of an enclosing shard_map are Manual, and auto_axes and
/// explicit_axes change the types of others. Empty if there is no mesh.
AbstractMesh get_abstract_mesh();

/// Sets the mesh, as set_mesh does, for the lifetime of this object:
///   use_mesh scope(mesh);
///   Array y = device_put(x, P("x"));
class [[nodiscard]] use_mesh {
 public:
  explicit use_mesh(const Mesh& mesh, std::source_location where = std::source_location::current());
  ~use_mesh();
  use_mesh(const use_mesh&) = delete;
  use_mesh& operator=(const use_mesh&) = delete;

 private:
  Mesh before_place_;  // The mesh over which programs with only uncommitted arrays ran before.
  Mesh before_;
};

/// While it lives, these axes replace those of the mesh of set_mesh, also in functions that are traced. If that mesh
/// has as many devices, the axes are over them; otherwise shardings over the axes have no devices.
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
