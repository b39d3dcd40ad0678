// Formulas of matrices: the last two dimensions of arrays.
#pragma once

#include "shoal/array.h"

namespace shoal {

/// The operand as matrices of f32, f64, c64 or c128: integers of 64 bits become f64, others and bool f32. Throws
/// TypeMismatch, naming the function, for f16 and bf16, and InvalidArgument for fewer than two dimensions.
Array matrices(const Operand& x);
/// The same, and throws InvalidArgument unless they are square.
Array square_matrices(const Operand& x);

Array transposed(const Array& x);  ///< The last two dimensions exchanged.
Array adjoint(const Array& x);     ///< transposed, and conjugated.
Array product(const Array& x, const Array& y);
/// (x + adjoint(x)) / 2
Array hermitian_part(const Array& x);
/// The identity, as matrices of the extents, dtype and memory of x.
Array identity_like(const Array& x);
/// x with its batches broadcast to these.
Array with_batches(const Array& x, const Shape& batches);
/// The extents before the last two.
Shape batches_of(const Array& x);
/// The extents of the last two dimensions.
std::int64_t rows_of(const Array& x);
std::int64_t columns_of(const Array& x);
/// Whether it is one matrix of so many rows that devices which share it work on it together.
bool is_large(const Array& x);
/// The distance of 1 to the next number of the dtype of x.
double epsilon_of(const Array& x);

}  // namespace shoal
