// The check of ops that compare elements.
#pragma once

#include "ir/op.h"

namespace shoal {

/// Throws TypeMismatch, naming the user's function and line, if elements are complex numbers, of which none is greater
/// than another.
void check_ordered(const InferContext& context, const Type& type);

}  // namespace shoal
