// Tangents and cotangents that the user gives.
#pragma once

#include <string_view>

#include "ir/type.h"
#include "shoal/array.h"

namespace shoal::detail {

/// The tangent or cotangent, `what` number i, of a value of that type: weakly typed as this is, and varying over the
/// same axes. Throws TypeMismatch or ShapeMismatch if it is another array's.
Array checked_change(const Array& given, const Type& type, std::string_view what, std::size_t i);

/// Zeros of the type of an array.
Array zeros_like(const Array& array);

}  // namespace shoal::detail
