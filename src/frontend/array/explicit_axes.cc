#include "shoal/explicit_axes.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/misuse.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/out_sharding.h"
#include "frontend/array/promotion.h"
#include "frontend/array/trace.h"
#include "frontend/array/tree_prefix.h"
#include "ir/explicit_axes.h"

namespace shoal {
namespace {

void check_axes(const std::vector<std::string>& axes, const Mesh& mesh) {
  for (const std::string& axis : axes) {
    if (mesh.find_axis(axis)) continue;
    throw misuse<InvalidArgument>("axes has '{}', which {} has not", axis, to_string(mesh));
  }
}

}  // namespace

Array reshard(const Operand& x, const NamedSharding& sharding) {
  const Caller caller("reshard", x.where());
  Array array = to_array(x);
  Sharding(sharding).check_compatible(array.shape(), fmt::format("{}: argument 0", Caller::function_or("reshard")),
                                      Caller::line());
  if (sharding.says_nothing()) return array;
  const auto& given = detail::impl_of(array).type.explicit_axes;
  const bool is_whole = !given || given->unreduced.empty();
  if (Trace::current() == nullptr && is_whole) {
    const PartitionSpec split(sharding.spec().entries(), {}, sharding.spec().reduced());
    array = device_put(array, sharding.with_spec(split));
    if (sharding.spec().unreduced().empty()) return array;
  }
  return bind_one("sharding_constraint", {{"sharding", sharding}}, {array});
}

NamedSharding type_sharding(const Array& x) {
  const Type& type = detail::impl_of(x).type;
  if (type.explicit_axes) {
    const ExplicitAxes& axes = *type.explicit_axes;
    return {axes.mesh.abstract_mesh(), spec_of(axes), {.memory_kind = type.memory}};
  }
  const PartitionSpec whole{std::vector<PartitionEntry>(x.ndim())};
  if (!x.is_tracer()) {
    const Sharding sharding = x.sharding();
    if (sharding.named() != nullptr) {
      return {sharding.named()->mesh().abstract_mesh(), whole, {.memory_kind = type.memory}};
    }
  }
  return {get_abstract_mesh(), whole, {.memory_kind = type.memory}};
}

namespace detail {

std::vector<Array> relax(const std::vector<Array>& leaves, const std::vector<std::string>& axes, SourceLocation where) {
  const Caller caller("auto_axes", where);
  std::vector<Array> result;
  for (const Array& leaf : leaves) {
    const auto& given = impl_of(leaf).type.explicit_axes;
    if (given) check_axes(axes, given->mesh);
    result.push_back(relaxed(leaf, axes));
  }
  return result;
}

std::vector<Array> split_by(const std::vector<Array>& leaves, const TreeDef& tree, const Prefix<PartitionSpec>& specs,
                            const Mesh& mesh, std::string_view what, SourceLocation where) {
  // "auto_axes: out_sharding" names the function and its option.
  const std::size_t colon = what.find(": ");
  const Caller caller(what.substr(0, colon), where);
  const std::vector<PartitionSpec> given = apply_result_prefix(specs, tree, what.substr(colon + 2));
  std::vector<Array> split;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    split.push_back(reshard(leaves[i], NamedSharding(mesh, given[i], {}, Caller::line())));
  }
  return split;
}

Mesh mesh_of(const std::vector<Array>& leaves, std::string_view function, SourceLocation where) {
  const Caller caller(function, where);
  for (const Array& leaf : leaves) {
    const auto& given = impl_of(leaf).type.explicit_axes;
    if (given) return given->mesh;
  }
  const Mesh mesh = get_mesh();
  if (!mesh.empty()) return mesh;
  throw misuse<InvalidState>("no argument lies on a mesh with Explicit axes, and no mesh is set; call set_mesh");
}

Mesh with_auto(const Mesh& mesh, const std::vector<std::string>& axes, std::string_view function,
               SourceLocation where) {
  const Caller caller(function, where);
  check_axes(axes, mesh);
  return with_auto_axes(mesh, axes.empty() ? mesh.axis_names() : axes);
}

Mesh with_explicit(const Mesh& mesh, const std::vector<std::string>& axes, std::string_view function,
                   SourceLocation where) {
  const Caller caller(function, where);
  check_axes(axes, mesh);
  std::vector<AxisType> types = mesh.axis_types();
  for (std::size_t a = 0; a < types.size(); ++a) {
    const bool named = axes.empty() || std::find(axes.begin(), axes.end(), mesh.axis_names()[a]) != axes.end();
    if (named && types[a] == AxisType::kAuto) types[a] = AxisType::kExplicit;
  }
  return with_axis_types(mesh, std::move(types));
}

}  // namespace detail
}  // namespace shoal
