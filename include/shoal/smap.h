// smap: shard_map over one axis of the mesh, said by the dimension of each array that the axis splits.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "shoal/mesh.h"
#include "shoal/pmap.h"
#include "shoal/shard_map.h"

namespace shoal {

struct SmapOptions {
  std::string axis_name;  ///< The axis of the mesh that becomes manual.
  AxisTree in_axes =
      {};             ///< The dimension of each argument that it splits; none: every device gets the whole argument.
  AxisTree out_axes;  ///< Where results are put together; none: they are the same on all devices.
  Mesh mesh = {};     ///< That of set_mesh if not given.
  /// Instead of in_axes: arguments are split over the axis as their types say, or, if it is an Auto axis, as they lie.
  bool infer_in_axes = false;
};

namespace detail {
/// P(none, …, axis_name) for each dimension. Throws InvalidArgument for one below 0.
SpecTree specs_of_axes(const AxisTree& axes, const std::string& axis_name, std::string_view option,
                       SourceLocation where);
}  // namespace detail

/// f on the shards along one axis; the other axes of the mesh are left as they are. smaps nest, an axis each. Throws as
/// shard_map, and InvalidArgument for a dimension that is counted from the end.
/// @param f The function of one device's shards.
template <class F>
ShardMapped<F> smap(F f, const SmapOptions& options, SourceLocation where = SourceLocation::current()) {
  return shard_map(std::move(f),
                   {.mesh = options.mesh,
                    .in_specs = detail::specs_of_axes(options.in_axes, options.axis_name, "in_axes", where),
                    .out_specs = detail::specs_of_axes(options.out_axes, options.axis_name, "out_axes", where),
                    .axis_names = {options.axis_name},
                    .infer_in_specs = options.infer_in_axes},
                   where);
}

}  // namespace shoal
