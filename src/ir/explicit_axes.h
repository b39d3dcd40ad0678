// Explicit axes: how each op's sharding rule carries the axes that split its operands to its results.
#pragma once

#include <span>
#include <vector>

#include "ir/op.h"
#include "shoal/sharding.h"

namespace shoal {

/// The Explicit axes of a sharding, for a value of a rank; nothing if its mesh has none.
std::optional<ExplicitAxes> explicit_axes_of(const NamedSharding& sharding, std::size_t rank);
/// The same mesh with other types of axes.
Mesh with_axis_types(const Mesh& mesh, std::vector<AxisType> types);
/// The spec that they make.
PartitionSpec spec_of(const ExplicitAxes& axes);

/// What op.infer gives, with the Explicit axes that the op's rule derives from the operands'. An attribute
/// `out_sharding` says them instead. Throws ShardingTypeError if operands are split differently where they should
/// agree, if an axis would split two dimensions, if the op needs a split dimension whole, or if it sums over one that
/// is split in several operands: then out_sharding must say how the result is split.
std::vector<Type> infer_types(const InferContext& context);

}  // namespace shoal
