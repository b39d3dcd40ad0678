// Axes over which values are unreduced (devices hold summands) or reduced (devices hold the same, and such a
// cotangent), as types say: over Explicit axes of a mesh, and over manual axes of a region.
#pragma once

#include <vector>

#include "ir/op.h"

namespace shoal {

/// Whether the type says that devices hold summands of the value.
bool is_unreduced(const Type& type);

/// Writes down in the results of an op, whose types are known else, over which axes they are unreduced and reduced.
/// What is linear in its unreduced operands gives such results; factors must be reduced over these axes. Operands of
/// elementwise ops that are reduced are so over the same axes. Over Explicit axes nothing is taken for reduced that is
/// not, unless it is a scalar or says nothing; over manual axes devices may have other data of another operand, and
/// the result then differs, too. Throws ShardingTypeError for others.
void infer_summed_axes(const InferContext& context, std::vector<Type>& results);

/// Throws ShardingTypeError if an operand is unreduced.
void refuse_unreduced(const InferContext& context);

}  // namespace shoal
