// Differences, integrals, interpolation and polynomials; the parts of floating-point numbers; sets.
//
// @param x An array or a number.
// @param axis The dimension, from the end if negative.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "shoal/numpy.h"

namespace shoal {

// ---- Differences and integrals along a dimension.

struct DiffOptions {
  std::int64_t n = 1;  ///< How often differences are taken.
  std::int64_t axis = -1;
  std::optional<Array> prepend = {};  ///< What is put before x first: an array, or a scalar repeated.
  std::optional<Array> append = {};   ///< What is put after it.
};
/// The differences of neighbours; of bool, whether they differ. Throws InvalidArgument for a negative n and for
/// scalars.
/// @param x An array of at least one dimension.
/// @return An array whose extent along the dimension is less by n.
/// @example diff(array({1, 4, 9}))
///   [3 5]
Array diff(const Operand& x, const DiffOptions& options = {});
struct Ediff1dOptions {
  std::optional<Array> to_end = {};    ///< What is put after the differences.
  std::optional<Array> to_begin = {};  ///< What is put before them.
};
/// The differences of neighbours in the flattened array, with what is put before and after them, in its dtype.
/// @return A vector.
Array ediff1d(const Operand& x, const Ediff1dOptions& options = {});

struct GradientOptions {
  /// The distance of neighbours, or their positions as a vector: none means 1, one is for all dimensions, otherwise one
  /// for each.
  std::vector<Operand> spacing = {};
  Axes axis = {};  ///< Default: all.
};
/// The derivative along each dimension: central differences inside, one-sided ones at the ends. Throws InvalidArgument
/// for dimensions of fewer than two elements and for spacings that do not fit.
/// @param f The values, of at least one dimension.
/// @return An array of the shape of f for each dimension, in floats.
/// @example gradient(array({1.0f, 4.0f, 9.0f}))[0]
/// @python jnp.gradient(jnp.array([1.0, 4.0, 9.0]))
///   [3. 4. 5.]
std::vector<Array> gradient(const Operand& f, const GradientOptions& options = {});

struct TrapezoidOptions {
  std::optional<Array> x = {};  ///< The positions: a vector, or of the shape of y.
  Operand dx = 1.0;             ///< Their distances, which broadcast against those, if they are not given.
  std::int64_t axis = -1;
};
/// The integral by trapezoids.
/// @param y The values.
/// @return An array without the dimension.
/// @example trapezoid(array({1.0f, 2.0f, 3.0f}))
///   4.0
Array trapezoid(const Operand& y, const TrapezoidOptions& options = {});

// ---- Interpolation and polynomials.

struct InterpOptions {
  std::optional<Operand> left = {};    ///< Before the first position; default: the first value.
  std::optional<Operand> right = {};   ///< Behind the last position; default: the last value.
  bool extrapolate_left = false;       ///< Before the first position, follow the first two.
  bool extrapolate_right = false;      ///< Behind the last position, follow the last two.
  std::optional<Operand> period = {};  ///< Positions count modulo this, in any order: a scalar.
};
/// The values at x of the lines through the points (xp, fp), whose positions xp ascend. Throws InvalidArgument unless
/// xp and fp are vectors of one extent, which is not 0.
/// @param x Where the values are wanted.
/// @param xp The positions of points, a vector.
/// @param fp Their values, a vector.
/// @return An array of the shape of x.
/// @example interp(2.5f, array({1.0f, 2.0f, 3.0f}), array({10.0f, 20.0f, 40.0f}))
///   30.0
Array interp(const Operand& x, const Operand& xp, const Operand& fp, const InterpOptions& options = {});

/// p[0] x^n + p[1] x^(n - 1) + … + p[n]. Coefficients may have further dimensions, which broadcast with x.
/// @param p The coefficients, along the first dimension, that of the highest power first.
/// @param x Where the value is wanted.
/// @example polyval(array({1, 2, 3}), 2)
///   11
Array polyval(const Operand& p, const Operand& x);
struct VanderOptions {
  std::optional<std::int64_t> N = {};  ///< The number of powers; default: as many as elements.
  bool increasing = false;             ///< Powers ascend from 0.
};
/// The powers of each element of a vector, as rows.
/// @param x A vector.
/// @return A matrix with a row for each element.
/// @example vander(array({2, 3}), {.N = 3})
///   [[4 2 1]
///    [9 3 1]]
Array vander(const Operand& x, const VanderOptions& options = {});

struct CrossOptions {
  std::int64_t axisa = -1;  ///< The dimension of the components in a.
  std::int64_t axisb = -1;  ///< That in b.
  std::int64_t axisc = -1;  ///< That in the result.
};
/// The cross product of vectors of 3 or 2 elements along an axis; of 2 with 2, the third component alone. Other
/// dimensions broadcast. Throws InvalidArgument for other extents.
/// @param a The first factor.
/// @param b The second one.
/// @example cross(array({1, 0, 0}), array({0, 1, 0}))
///   [0 0 1]
Array cross(const Operand& a, const Operand& b, const CrossOptions& options = {});

// ---- The parts of numbers.

/// The fractional part of each number and the whole one, both with its sign.
/// @return Arrays of the shape of x.
std::pair<Array, Array> modf(const Operand& x);
/// m and e with x = m 2^e and |m| in [0.5, 1); 0, infinities and NaN are their own m. e is i32.
/// @return Arrays of the shape of x.
std::pair<Array, Array> frexp(const Operand& x);
/// x 2^n, rounded once. Throws TypeMismatch unless n is an integer.
/// @param n The powers, which broadcast with x.
Array ldexp(const Operand& x, const Operand& n);

// ---- Sets. In unique and union1d all NaNs are equal, elsewhere none are. Results are sorted, and their extents depend
// on the elements: a tracer throws InvalidState unless a size is given.

struct UniqueOptions {
  std::optional<std::int64_t> axis = {};   ///< Slices along it are compared, in their order; default: all elements.
  bool equal_nan = true;                   ///< Whether NaNs are equal.
  std::optional<std::int64_t> size = {};   ///< As many elements, the rest filled up.
  std::optional<Operand> fill_value = {};  ///< Default: the least element. It broadcasts to a slice.
};
struct UniqueResult {
  Array values;           ///< The different elements of the flattened array, or slices along the axis.
  Array indices;          ///< Where each stands first.
  Array inverse_indices;  ///< For each element the number of its value, in the shape of x; for each slice, a vector.
  Array counts;           ///< How often each occurs.
};
/// Throws InvalidArgument for a negative size, and where there is nothing to fill up with.
/// @example unique_all(array({3, 1, 3})).counts
///   [1 2]
UniqueResult unique_all(const Operand& x, const UniqueOptions& options = {});
/// The values alone.
/// @return A vector, or slices along the axis.
/// @example unique(array({3, 1, 3}))
///   [1 3]
Array unique(const Operand& x, const UniqueOptions& options = {});
struct SetOptions {
  std::optional<std::int64_t> size = {};   ///< As many elements, the rest filled up.
  std::optional<Operand> fill_value = {};  ///< Default: the first element of the result, or 0 if it has none; of
                                           ///< union1d the least one, of setdiff1d 0.
};
/// The elements of either.
/// @param a One array; it counts as flattened.
/// @param b The other one.
/// @return A vector.
/// @example union1d(array({1, 2}), array({2, 3}))
///   [1 2 3]
Array union1d(const Operand& a, const Operand& b, const SetOptions& options = {});
/// The elements of both.
/// @param a One array; it counts as flattened.
/// @param b The other one.
/// @return A vector.
Array intersect1d(const Operand& a, const Operand& b, const SetOptions& options = {});
struct Intersection {
  Array values;   ///< The elements of both.
  Array firsts;   ///< Where each stands first in the flattened a; as many as a has elements where one is filled up.
  Array seconds;  ///< In b.
};
/// @param a One array; it counts as flattened.
/// @param b The other one.
Intersection intersection_of(const Operand& a, const Operand& b, const SetOptions& options = {});
/// The elements of a that are not in b.
/// @param a One array; it counts as flattened.
/// @param b The other one.
/// @return A vector.
Array setdiff1d(const Operand& a, const Operand& b, const SetOptions& options = {});
/// The elements of one of them alone.
/// @param a One array; it counts as flattened.
/// @param b The other one.
/// @return A vector.
Array setxor1d(const Operand& a, const Operand& b, const SetOptions& options = {});
/// Whether each element of x is one of `elements`; in the shape of x. This one can be traced.
/// @param elements The set, of any shape.
/// @param invert Whether the answers are the other way round.
/// @return bool.
/// @example isin(array({1, 2, 3}), array({2}))
///   [False  True False]
Array isin(const Operand& x, const Operand& elements, bool invert = false);

}  // namespace shoal
