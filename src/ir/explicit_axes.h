// Explicit axes: how each op's sharding rule carries the axes that split its operands to its results.
#pragma once

#include <span>
#include <vector>

#include "base/function_ref.h"
#include "ir/op.h"
#include "shoal/sharding.h"

namespace shoal {

/// The Explicit axes of a sharding, for a value of a rank; nothing if its mesh has none.
std::optional<ExplicitAxes> explicit_axes_of(const NamedSharding& sharding, std::size_t rank);
/// The same mesh with other types of axes.
Mesh with_axis_types(const Mesh& mesh, std::vector<AxisType> types);
/// The same mesh where those of the named axes that are Explicit are Auto.
Mesh with_auto_axes(const Mesh& mesh, const std::vector<std::string>& axes);
/// What is left of them where only the axes for which `is_manual` does not hold are seen; nothing if those are not
/// Explicit.
std::optional<ExplicitAxes> without_manual(ExplicitAxes axes, FunctionRef<bool(const std::string&)> is_manual);
/// The spec that they make.
PartitionSpec spec_of(const ExplicitAxes& axes);

/// Whether no Explicit axis splits a value: by its type, or as the compiler chooses.
bool is_unsplit(const Type& type);
/// Whether types are equal, but that one may say so where the other leaves it to the compiler.
bool equal_if_unsplit(const Type& a, const Type& b);

/// What op.infer gives, with the Explicit axes that the op's rule derives from the operands'. An attribute
/// `out_sharding` says them instead. Throws ShardingTypeError if operands are split differently where they should
/// agree, if an axis would split two dimensions, if the op needs a split dimension whole, or if it sums over one that
/// is split in several operands: then out_sharding must say how the result is split. Unreduced operands make the
/// result unreduced, if the op is linear and all are alike; otherwise it throws, too.
std::vector<Type> infer_types(const InferContext& context);

}  // namespace shoal
