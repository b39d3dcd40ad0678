#include "shoal/mesh_context.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/misuse.h"
#include "frontend/array/trace.h"
#include "ir/explicit_axes.h"
#include "sharding/current_mesh.h"
#include "sharding/default_place.h"
#include "shoal/error.h"

namespace shoal {
namespace {

// Sets the mesh, over which programs run then that nobody placed, and gives the one before.
Mesh exchanged(const Mesh& mesh) {
  if (const Trace* trace = Trace::current()) {
    throw misuse<InvalidState>("a mesh cannot be set inside '{}', which is being traced; set it around the call",
                               trace->name());
  }
  const std::vector<AxisType>& types = mesh.axis_types();
  if (std::find(types.begin(), types.end(), AxisType::kManual) != types.end()) {
    throw misuse<InvalidArgument>("{} has Manual axes; shard_map is what makes axes manual", to_string(mesh));
  }
  default_place().mesh = mesh.is_abstract() ? Mesh() : mesh;
  return std::exchange(current_mesh(), mesh);
}

}  // namespace

void set_mesh(const Mesh& mesh, SourceLocation where) {
  const Caller caller("set_mesh", where);
  static_cast<void>(exchanged(mesh));
}

use_mesh::use_mesh(const Mesh& mesh, SourceLocation where) : before_place_(default_place().mesh) {
  const Caller caller("use_mesh", where);
  before_ = exchanged(mesh);
}

use_mesh::~use_mesh() {
  default_place().mesh = std::move(before_place_);
  current_mesh() = std::move(before_);
}

AbstractMesh get_abstract_mesh() {
  const Trace* trace = Trace::current();
  if (trace == nullptr || trace->mesh().empty()) return get_mesh().abstract_mesh();
  const Mesh& mesh = trace->mesh();
  std::vector<AxisType> types = mesh.axis_types();
  for (std::size_t a = 0; a < types.size(); ++a) {
    if (trace->graph().axes.size_of(mesh.axis_names()[a])) types[a] = AxisType::kManual;
  }
  return with_axis_types(mesh, std::move(types)).abstract_mesh();
}

use_abstract_mesh::use_abstract_mesh(const Mesh& mesh) : before_(current_mesh()) {
  const bool fits = mesh.is_abstract() && !before_.is_abstract() && before_.size() == mesh.size();
  current_mesh() = fits && !mesh.empty() ? mesh.with_devices(before_.devices()) : mesh;
}

use_abstract_mesh::~use_abstract_mesh() { current_mesh() = std::move(before_); }

}  // namespace shoal
