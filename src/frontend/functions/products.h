// Contractions of arrays whose dtypes are promoted already.
#pragma once

#include <optional>
#include <string_view>
#include <utility>

#include "shoal/lax.h"

namespace shoal {

/// lax::dot_general, whose errors name `function`. `preferred` must fit the dtype of the operands.
Array contract(std::string_view function, const Array& x, const Array& y, const lax::DotDimensionNumbers& dims,
               SourceLocation where, std::optional<Dtype> preferred = {}, const OutSharding& out_sharding = {});

/// Throws TypeMismatch unless products of `dtype` may be added in `preferred`: one of the same kind that is not
/// smaller.
void check_preferred(std::string_view function, Dtype dtype, std::optional<Dtype> preferred, SourceLocation where);

/// The operands in their common dtype, with their own shapes.
std::pair<Array, Array> promote_dtypes(std::string_view function, const Operand& x, const Operand& y);

}  // namespace shoal
