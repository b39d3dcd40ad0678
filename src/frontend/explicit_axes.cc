#include "shoal/explicit_axes.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "frontend/array_impl.h"
#include "frontend/prefix.h"
#include "frontend/promote.h"
#include "frontend/trace.h"
#include "ir/explicit_axes.h"

namespace shoal {
namespace {

void check_axes(const std::vector<std::string>& axes, const Mesh& mesh, std::string_view function,
                SourceLocation where) {
  for (const std::string& axis : axes) {
    if (mesh.find_axis(axis)) continue;
    throw InvalidArgument(fmt::format("{}: axes has '{}', which {} has not", function, axis, to_string(mesh)), where);
  }
}

}  // namespace

Array reshard(const Operand& x, const NamedSharding& sharding) {
  const Array array = to_array(x);
  Sharding(sharding).check_compatible(array.shape(), "reshard: argument 0", x.where());
  if (Trace::current() == nullptr) return device_put({array, x.where()}, sharding);
  return bind_one("sharding_constraint", {{"sharding", sharding}}, {array}, x.where());
}

namespace detail {

std::vector<Array> relax(const std::vector<Array>& leaves, const std::vector<std::string>& axes, SourceLocation where) {
  std::vector<Array> relaxed;
  for (const Array& leaf : leaves) {
    const auto& given = impl_of(leaf, "auto_axes", where).type.explicit_axes;
    if (!given) {
      relaxed.push_back(leaf);
      continue;
    }
    check_axes(axes, given->mesh, "auto_axes", where);
    relaxed.push_back(
        bind_one("relax_axes", {{"axes", axes.empty() ? given->mesh.axis_names() : axes}}, {leaf}, where));
  }
  return relaxed;
}

std::vector<Array> split_by(const std::vector<Array>& leaves, const TreeDef& tree, const Prefix<PartitionSpec>& specs,
                            const Mesh& mesh, std::string_view what, SourceLocation where) {
  const std::vector<PartitionSpec> given = apply_result_prefix(specs, tree, what, where);
  std::vector<Array> split;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    split.push_back(reshard({leaves[i], where}, NamedSharding(mesh, given[i], {}, where)));
  }
  return split;
}

Mesh mesh_of(const std::vector<Array>& leaves, std::string_view function, SourceLocation where) {
  for (const Array& leaf : leaves) {
    const auto& given = impl_of(leaf, function, where).type.explicit_axes;
    if (given) return given->mesh;
  }
  const Mesh mesh = get_mesh();
  if (!mesh.empty()) return mesh;
  throw InvalidState(
      fmt::format("{}: no argument lies on a mesh with Explicit axes, and no mesh is set; call set_mesh", function),
      where);
}

Mesh with_explicit(const Mesh& mesh, const std::vector<std::string>& axes, std::string_view function,
                   SourceLocation where) {
  check_axes(axes, mesh, function, where);
  std::vector<AxisType> types = mesh.axis_types();
  for (std::size_t a = 0; a < types.size(); ++a) {
    const bool named = axes.empty() || std::find(axes.begin(), axes.end(), mesh.axis_names()[a]) != axes.end();
    if (named && types[a] == AxisType::kAuto) types[a] = AxisType::kExplicit;
  }
  return with_axis_types(mesh, std::move(types));
}

}  // namespace detail
}  // namespace shoal
