// Where programs run on this thread, and new arrays lie, that nobody placed.
#pragma once

#include <optional>

#include "shoal/device.h"
#include "shoal/mesh.h"

namespace shoal {

struct DefaultPlace {
  std::optional<Device> device;  ///< Of set_default_device.
  Mesh mesh;  ///< Of set_mesh, over all of which programs run then. Empty if none is set, or if it has no devices.
  friend bool operator==(const DefaultPlace&, const DefaultPlace&) = default;
};

DefaultPlace& default_place();

}  // namespace shoal
