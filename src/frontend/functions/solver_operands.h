// What all solvers of matrices that devices share ask of their operands and options.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shoal/array.h"
#include "shoal/linalg.h"

namespace shoal::linalg {

/// Throws InvalidArgument for options that no solver of so many operands has.
void check_options(const SolverOptions& options, std::size_t operands);
/// An operand where the options want it.
Array placed(const Array& x, const SolverOptions& options, std::size_t number);
/// A matrix, the first operand or a later one, where the options want it; square.
Array square_matrix(const Operand& a, const SolverOptions& options, std::size_t number = 0);
/// One of any extents.
Array any_matrix(const Operand& a, const SolverOptions& options, std::size_t number = 0);
/// Right sides of a matrix, as columns, where the options want the second operand. Throws InvalidArgument for those
/// that do not fit.
struct Sides {
  Array columns;
  bool is_vector;
  /// The solution in the form of the right sides.
  Array result(const Array& x) const;
};
Sides sides_of(const Operand& b, const Array& matrix, const SolverOptions& options);
/// The attribute `tile` of ops on matrices with so many rows, or columns.
std::int64_t tile_of(std::int64_t extent, const SolverOptions& options);
/// The diagonal of a square matrix, which may be split and stays where it is.
Array diagonal_of(const Array& x);
/// The Cholesky factor; its diagonal is NaN from the first row on with which leading blocks are not positive definite.
Array leading_factor(const Array& a, const SolverOptions& options);
/// How many rows the smallest leading block has that has none: i32, 0 if all have.
Array status_of_factor(const Array& l);
/// The x with l x = b, or l^H x = b.
Array solved_with(const Array& l, const Array& b, bool is_adjoint, const SolverOptions& options);

}  // namespace shoal::linalg
