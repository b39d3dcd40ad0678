// Differences, integrals, interpolation and polynomials; the parts of floating-point numbers; sets.
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
Array diff(const Operand& x, const DiffOptions& options = {});
struct Ediff1dOptions {
  std::optional<Array> to_end = {};
  std::optional<Array> to_begin = {};
};
/// The differences of neighbours in the flattened array, with what is put before and after them, in its dtype.
Array ediff1d(const Operand& x, const Ediff1dOptions& options = {});

struct GradientOptions {
  /// The distance of neighbours, or their positions as a vector: none means 1, one is for all dimensions, otherwise one
  /// for each.
  std::vector<Operand> spacing = {};
  Axes axis = {};  ///< Default: all.
};
/// The derivative along each dimension: central differences inside, one-sided ones at the ends. Throws InvalidArgument
/// for dimensions of fewer than two elements and for spacings that do not fit.
std::vector<Array> gradient(const Operand& f, const GradientOptions& options = {});

struct TrapezoidOptions {
  std::optional<Array> x = {};  ///< The positions: a vector, or of the shape of y.
  Operand dx = 1.0;             ///< Their distances, which broadcast against those, if they are not given.
  std::int64_t axis = -1;
};
/// The integral by trapezoids.
Array trapezoid(const Operand& y, const TrapezoidOptions& options = {});

// ---- Interpolation and polynomials.

struct InterpOptions {
  std::optional<Operand> left = {};   ///< Before the first position; default: the first value.
  std::optional<Operand> right = {};  ///< Behind the last position; default: the last value.
  bool extrapolate_left = false;      ///< Before the first position, follow the first two.
  bool extrapolate_right = false;     ///< Behind the last position, follow the last two.
  std::optional<double> period = {};  ///< Positions count modulo this, in any order.
};
/// The values at x of the lines through the points (xp, fp), whose positions xp ascend. Throws InvalidArgument unless
/// xp and fp are vectors of one extent, which is not 0.
Array interp(const Operand& x, const Operand& xp, const Operand& fp, const InterpOptions& options = {});

/// p[0] x^n + p[1] x^(n - 1) + … + p[n]. Coefficients may have further dimensions, which broadcast with x.
Array polyval(const Operand& p, const Operand& x);
struct VanderOptions {
  std::optional<std::int64_t> N = {};  ///< The number of powers; default: as many as elements.
  bool increasing = false;             ///< Powers ascend from 0.
};
/// The powers of each element of a vector, as rows.
Array vander(const Operand& x, const VanderOptions& options = {});

struct CrossOptions {
  std::int64_t axisa = -1;
  std::int64_t axisb = -1;
  std::int64_t axisc = -1;
};
/// The cross product of vectors of 3 or 2 elements along an axis; of 2 with 2, the third component alone. Other
/// dimensions broadcast. Throws InvalidArgument for other extents.
Array cross(const Operand& a, const Operand& b, const CrossOptions& options = {});

// ---- The parts of numbers.

/// The fractional part of each number and the whole one, both with its sign.
std::pair<Array, Array> modf(const Operand& x);
/// m and e with x = m 2^e and |m| in [0.5, 1); 0, infinities and NaN are their own m. e is i32.
std::pair<Array, Array> frexp(const Operand& x);
/// x 2^n, rounded once. Throws TypeMismatch unless n is an integer.
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
UniqueResult unique_all(const Operand& x, const UniqueOptions& options = {});
/// The values alone.
Array unique(const Operand& x, const UniqueOptions& options = {});
struct SetOptions {
  std::optional<std::int64_t> size = {};   ///< As many elements, the rest filled up.
  std::optional<Operand> fill_value = {};  ///< Default: the first element of the result, or 0 if it has none; of
                                           ///< union1d the least one, of setdiff1d 0.
};
/// The elements of either.
Array union1d(const Operand& a, const Operand& b, const SetOptions& options = {});
/// The elements of both.
Array intersect1d(const Operand& a, const Operand& b, const SetOptions& options = {});
struct Intersection {
  Array values;   ///< The elements of both.
  Array firsts;   ///< Where each stands first in the flattened a; as many as a has elements where one is filled up.
  Array seconds;  ///< In b.
};
Intersection intersection_of(const Operand& a, const Operand& b, const SetOptions& options = {});
/// The elements of a that are not in b.
Array setdiff1d(const Operand& a, const Operand& b, const SetOptions& options = {});
/// The elements of one of them alone.
Array setxor1d(const Operand& a, const Operand& b, const SetOptions& options = {});
/// Whether each element of x is one of `elements`; in the shape of x. This one can be traced.
Array isin(const Operand& x, const Operand& elements, bool invert = false);

}  // namespace shoal
