// Tangents and cotangents that the user gives.
#pragma once

#include <string_view>

#include "ir/type.h"
#include "shoal/array.h"

namespace shoal::detail {

/// The tangent or cotangent, `what` number i, which should be of that type: weakly typed as this is, varying over the
/// same axes, unreduced and reduced. Throws TypeMismatch or ShapeMismatch if it is another array's.
Array checked_change(const Array& given, const Type& type, std::string_view what, std::size_t i);

/// Zeros of the type of an array.
Array zeros_like(const Array& array);
/// The cotangent of an array on which nothing depends.
Array zero_cotangent_of(const Array& array);

}  // namespace shoal::detail
