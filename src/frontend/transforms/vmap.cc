#include "shoal/vmap.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/mapping.h"
#include "frontend/array/promotion.h"
#include "frontend/array/tree_prefix.h"
#include "frontend/transforms/mapped_axes.h"
#include "ir/explicit_axes.h"
#include "shoal/explicit_axes.h"
#include "shoal/numpy.h"

namespace shoal::detail {
namespace {

using AxisList = std::vector<std::string>;

// The Explicit axes that split what is mapped, which must be the same for all arguments.
MappedSplit explicit_split(const CallArguments& arguments, const std::vector<MaybeAxis>& dims) {
  MappedSplit split;
  const std::vector<std::string> paths = arguments.tree.leaf_paths();
  std::optional<std::size_t> first;
  const auto type_of_argument = [&](std::size_t i) -> const Type& { return impl_of(arguments.leaves[i]).type; };
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (!dims[i] || !type_of_argument(i).explicit_axes) continue;
    const AxisList& axes = type_of_argument(i).explicit_axes->dims[static_cast<std::size_t>(*dims[i])];
    if (first && axes != split.axes) {
      throw misuse<InvalidArgument>(
          "Explicit axes must split the mapped dimension of all arguments alike, but that of argument {} {} is split "
          "over ({}), and that of argument {} {} over ({}); move one with reshard",
          paths[*first], to_string(type_of_argument(*first)), fmt::join(split.axes, ", "), paths[i],
          to_string(type_of_argument(i)), fmt::join(axes, ", "));
    }
    if (first) continue;
    first = i;
    split.axes = axes;
    if (!axes.empty()) split.mesh = type_of_argument(i).explicit_axes->mesh;
  }
  for (std::size_t i = 0; i < dims.size() && !split.axes.empty(); ++i) {
    if (dims[i] || !type_of_argument(i).explicit_axes) continue;
    for (const AxisList& along : type_of_argument(i).explicit_axes->dims) {
      for (const std::string& axis : along) {
        if (std::ranges::find(split.axes, axis) == split.axes.end()) continue;
        throw misuse<InvalidArgument>(
            "argument {} {} is the same in all places, but split over '{}', which splits what is mapped; move it with "
            "reshard",
            paths[i], to_string(type_of_argument(i)), axis);
      }
    }
  }
  return split;
}

// An array that is the same in all places of `dim`, split as what is mapped.
Array split_over(const Array& array, std::size_t dim, const MappedSplit& split) {
  const Type& type = impl_of(array).type;
  const Shared<ExplicitAxes> wanted = split_at(type, dim, split, Layer::bound_axes()).explicit_axes;
  if (!wanted || wanted == type.explicit_axes) return array;
  return reshard(array, NamedSharding(wanted->mesh, spec_of(*wanted), {}, Caller::line()));
}

}  // namespace

std::vector<Array> call_vmap(const VmapOptions& options, const CallArguments& arguments, const TracedFunction& function,
                             std::any& exemplar, SourceLocation where) {
  const Caller caller("vmap", where);
  const MappedArguments given = mapped_arguments(options.in_axes, arguments, options.axis_size, "axis_size is", 0);
  MappedSplit split = explicit_split(arguments, given.dims);
  if (split.axes.empty()) {
    split.axes = options.spmd_axis_name;
  } else if (!options.spmd_axis_name.empty() && options.spmd_axis_name != split.axes) {
    throw misuse<InvalidArgument>(
        "spmd_axis_name is ({}), but Explicit axes split the mapped dimension over ({}); leave spmd_axis_name out",
        fmt::join(options.spmd_axis_name, ", "), fmt::join(split.axes, ", "));
  }
  const auto mapping =
      std::make_shared<Mapping>("vmap", MappedAxis{.size = given.size, .name = options.axis_name, .split = split});
  std::vector<Array> leaves = arguments.leaves;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (given.dims[i]) leaves[i] = mapping->mapped(leaves[i], static_cast<std::size_t>(*given.dims[i]));
  }
  const TracedResult result = [&] {
    const Layer::Running running(mapping);
    const Caller::Pause pause;
    return function(leaves);
  }();
  check_values(result.leaves, result.tree, "result");
  const std::vector<MaybeAxis> wanted = apply_result_prefix(options.out_axes, result.tree, "out_axes");
  const std::vector<std::string> paths = result.tree.leaf_paths();
  const std::vector<Mapping::Result> made = mapping->finish(result.leaves);
  exemplar = result.exemplar;
  std::vector<Array> results;
  for (std::size_t i = 0; i < made.size(); ++i) {
    const std::string what = paths[i].empty() ? "the result" : "result " + paths[i];
    const auto& [array, dim] = made[i];
    if (!wanted[i]) {
      if (dim) {
        throw misuse<InvalidArgument>(
            "out_axes none for {} says that it is the same in all places, but its value {} depends on what is mapped. "
            "Give out_axes a dimension, or make the value equal with a collective over axis_name",
            what, user_string(impl_of(result.leaves[i]).type));
      }
      results.push_back(array);
      continue;
    }
    const std::size_t rank = impl_of(result.leaves[i]).type.rank() + 1;
    const std::int64_t at = mapped_dim(*wanted[i], rank, "out_axes", what, result.leaves[i]);
    if (dim) {
      results.push_back(moveaxis(array, static_cast<std::int64_t>(*dim), at));
      continue;
    }
    Shape shape = array.shape();
    shape.insert(shape.begin() + at, given.size);
    results.push_back(split_over(broadcast_to(expand_dims(array, at), shape), static_cast<std::size_t>(at), split));
  }
  return results;
}

}  // namespace shoal::detail
