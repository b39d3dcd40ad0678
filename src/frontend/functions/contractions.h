// Contractions of arrays whose dtypes are promoted already.
#pragma once

#include <optional>
#include <utility>

#include "shoal/lax.h"

namespace shoal {

/// lax::dot_general. `preferred` must fit the dtype of the operands.
Array contract(const Array& x, const Array& y, const lax::DotDimensionNumbers& dims,
               std::optional<Dtype> preferred = {}, const OutSharding& out_sharding = {});

/// Throws TypeMismatch unless products of `dtype` may be added in `preferred`: one of the same kind that is not
/// smaller.
void check_preferred(Dtype dtype, std::optional<Dtype> preferred);

/// The operands in their common dtype, with their own shapes.
std::pair<Array, Array> promote_dtypes(const Operand& x, const Operand& y);

}  // namespace shoal
