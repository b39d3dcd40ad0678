#include "sharding/shared_grid.h"

#include <cstddef>

#include "base/interned.h"

namespace shoal {
namespace {

struct HashMesh {
  std::size_t operator()(const Mesh& mesh) const { return mesh.hash(); }
};
struct IsGridOf {
  bool operator()(const Grid& grid, const Mesh& mesh) const { return grid.mesh() == mesh; }
};
struct HashDevice {
  std::size_t operator()(const Device& device) const { return static_cast<std::size_t>(device.id); }
};
struct IsGridOfDevice {
  bool operator()(const Grid& grid, const Device& device) const { return grid.devices().front() == device; }
};

}  // namespace

// The tables are never destroyed: arrays in static storage may outlive any order of destruction.

GridPtr shared_grid(const Mesh& mesh) {
  static auto* grids = new Interned<Grid, HashMesh, IsGridOf>;
  return grids->get(mesh, [&] { return Grid(mesh); });
}

GridPtr shared_grid(const Device& device) {
  static auto* grids = new Interned<Grid, HashDevice, IsGridOfDevice>;
  return grids->get(device, [&] { return Grid(device); });
}

}  // namespace shoal
