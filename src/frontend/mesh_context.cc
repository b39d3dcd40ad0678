#include "shoal/mesh_context.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "frontend/trace.h"
#include "sharding/current_mesh.h"
#include "shoal/error.h"

namespace shoal {
namespace {

// Sets the mesh and gives the one before.
Mesh exchanged(std::string_view function, const Mesh& mesh, SourceLocation where) {
  if (const Trace* trace = Trace::current()) {
    throw InvalidState(
        fmt::format("{}: a mesh cannot be set inside '{}', which is being traced; set it around the call", function,
                    trace->name()),
        where);
  }
  const std::vector<AxisType>& types = mesh.axis_types();
  if (std::find(types.begin(), types.end(), AxisType::kManual) != types.end()) {
    throw InvalidArgument(
        fmt::format("{}: {} has Manual axes; shard_map is what makes axes manual", function, to_string(mesh)), where);
  }
  return std::exchange(current_mesh(), mesh);
}

}  // namespace

void set_mesh(const Mesh& mesh, SourceLocation where) { static_cast<void>(exchanged("set_mesh", mesh, where)); }

use_mesh::use_mesh(const Mesh& mesh, SourceLocation where) : before_(exchanged("use_mesh", mesh, where)) {}

use_mesh::~use_mesh() { current_mesh() = std::move(before_); }

}  // namespace shoal
