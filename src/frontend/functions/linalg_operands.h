// Formulas of matrices: the last two dimensions of arrays.
#pragma once

#include <string_view>

#include "frontend/array/term.h"

namespace shoal {

/// The operand as matrices of f32, f64, c64 or c128: integers and bool become f32. Throws TypeMismatch, naming the
/// function, for f16 and bf16, and InvalidArgument for fewer than two dimensions.
Term matrices(std::string_view function, const Operand& x);
/// The same, and throws InvalidArgument unless they are square.
Term square_matrices(std::string_view function, const Operand& x);

Term transposed(const Term& x);  ///< The last two dimensions exchanged.
Term adjoint(const Term& x);     ///< transposed, and conjugated.
Term product(const Term& x, const Term& y);
/// (x + adjoint(x)) / 2
Term hermitian_part(const Term& x);
/// The identity, as matrices of the extents, dtype and memory of x.
Term identity_like(const Term& x);
/// x with its batches broadcast to these.
Term with_batches(const Term& x, const Shape& batches);
/// The extents before the last two.
Shape batches_of(const Term& x);
/// The extents of the last two dimensions.
std::int64_t rows_of(const Term& x);
std::int64_t columns_of(const Term& x);
/// The distance of 1 to the next number of the dtype of x.
double epsilon_of(const Term& x);

}  // namespace shoal
