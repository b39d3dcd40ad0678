#include "shoal/vmap.h"

#include <fmt/format.h>

#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/mapping.h"
#include "frontend/array/promotion.h"
#include "frontend/array/tree_prefix.h"
#include "frontend/transforms/mapped_axes.h"
#include "shoal/numpy.h"

namespace shoal::detail {

std::vector<Array> call_vmap(const VmapOptions& options, const CallArguments& arguments, const TracedFunction& function,
                             std::any& exemplar, SourceLocation where) {
  const Caller caller("vmap", where);
  const MappedArguments given = mapped_arguments(options.in_axes, arguments, options.axis_size, "axis_size is", 0);
  const auto mapping = std::make_shared<Mapping>(
      "vmap", MappedAxis{.size = given.size, .name = options.axis_name, .mesh_axes = options.spmd_axis_name});
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
    results.push_back(broadcast_to(expand_dims(array, at), shape));
  }
  return results;
}

}  // namespace shoal::detail
