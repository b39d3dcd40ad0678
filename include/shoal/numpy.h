// NumPy-style functions on arrays. Shapes broadcast and dtypes promote as in JAX; axes count from the end if negative.
//
// @param x An array or a number, of any shape and dtype unless the function says otherwise.
// @param y As x; shapes broadcast, and dtypes promote.
// @param out_sharding How Explicit axes split the result, where the operands leave that open; see matmul.
// @param sharding Where the result lies, committed there. Default: the default device, uncommitted.
// @param number A number.
// @param items A list of literals.
// @param count How many parts.
// @param positions Where parts begin.
// @param both How many elements come before and after each dimension.
// @param pairs The same, for each dimension.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "shoal/array.h"

namespace shoal {

// ---- Creation. Results are uncommitted, on the default device.
// @param shape The extents of the result.
// @param dtype The dtype of the result.

struct CreationOptions {
  std::optional<Dtype> dtype = {};        ///< Default: as each function says.
  std::optional<Sharding> sharding = {};  ///< Where to lie; committed there if given.
};

/// From host memory, row-major; typed data keeps its dtype.
/// @param elements The elements, row-major.
/// @param shape The extents; their product is the number of elements, or InvalidArgument is thrown. A vector has its
///   own.
/// @return An array of the elements' dtype, unless the options say another one.
template <Element T>
Array array(std::span<const T> elements, const Shape& shape, const CreationOptions& options = {},
            SourceLocation where = SourceLocation::current());
template <Element T>
Array array(const std::vector<T>& elements, const CreationOptions& options = {},
            SourceLocation where = SourceLocation::current());

struct AsArrayOptions {
  std::optional<Sharding> sharding = {};  ///< Where to lie; committed there if given.
  /// true: always a copy. false: never; throws InvalidArgument, saying why, where there must be one.
  std::optional<bool> copy = {};
};

/// An array over memory of the program, which is not copied where it can be used as it is: in device and unpinned host
/// memory, if elements are aligned to their size, and each shard is a run of them. `owner` keeps the elements,
/// row-major, and is dropped when no array and no computation needs them any more, on any thread: what it then does
/// must not wait. Until then they must not change. They are only read; donating the array does not overwrite them.
/// Throws InvalidArgument if there is no owner or the elements do not fill the shape, and as device_put.
/// @param data The first element.
/// @param elements The elements, typed.
/// @param dtype What the elements are.
/// @param shape The extents of the array.
/// @param owner What keeps the elements.
/// @return An array that cannot be told from others.
Array asarray(const void* data, Dtype dtype, const Shape& shape, std::shared_ptr<const void> owner,
              const AsArrayOptions& options = {}, SourceLocation where = SourceLocation::current());
template <Element T>
Array asarray(std::span<const T> elements, const Shape& shape, std::shared_ptr<const void> owner,
              const AsArrayOptions& options = {}, SourceLocation where = SourceLocation::current());

/// A number, or a list of literals: 1, {1, 2}, {{1, 2}, {3, 4}}, as deep as wanted.
class Literal {
 public:
  template <ScalarLike T>
  Literal(T number) : value_(*Operand(number).number()) {}
  Literal(std::initializer_list<Literal> items) : value_(std::vector<Literal>(items)) {}

  const Operand::Number* number() const { return std::get_if<Operand::Number>(&value_); }
  const std::vector<Literal>* items() const { return std::get_if<std::vector<Literal>>(&value_); }

 private:
  std::variant<Operand::Number, std::vector<Literal>> value_;
};
/// From literals, as array({{1, 2}, {3, 4}}). Integers give i32, floats f32, complex numbers c64 and bools bool; if
/// they are mixed, the widest of these. An empty list gives f32. Throws InvalidArgument, naming two of them, for lists
/// of different lengths, and OutOfRange for an integer that does not fit.
/// @param literal A number, or lists of them in braces.
/// @return An array with a dimension for each depth of the lists.
/// @example array({{1, 2}, {3, 4}})
///   [[1 2]
///    [3 4]]
Array array(const Literal& literal, const CreationOptions& options = {},
            SourceLocation where = SourceLocation::current());

/// An array of zeros.
/// @return f32 by default.
/// @example zeros({2, 3})
///   [[0. 0. 0.]
///    [0. 0. 0.]]
Array zeros(const Shape& shape, const CreationOptions& options = {}, SourceLocation where = SourceLocation::current());
/// An array of ones.
/// @return f32 by default.
/// @example ones({2}, {.dtype = int32})
///   [1 1]
Array ones(const Shape& shape, const CreationOptions& options = {}, SourceLocation where = SourceLocation::current());
/// dtype: that of `value`, not weak.
/// An array with the same value everywhere.
/// @param value A number, or an array that broadcasts to the shape.
/// @return By default of the dtype of `value`, not weak.
/// @example full({2, 2}, 7)
///   [[7 7]
///    [7 7]]
Array full(const Shape& shape, const Operand& value, const CreationOptions& options = {});
/// [0, 1, …] up to `stop`, or start, start + step, … up to it. i32 for integers, f32 for floats.
/// @param start The first number; 0 when not given.
/// @param stop The number before which they end.
/// @param step The distance of neighbours; 1 when not given. It may be negative.
/// @return A vector.
/// @example arange(5)
///   [0 1 2 3 4]
/// @example arange(2, 10, 3)
///   [2 5 8]
Array arange(const Operand& stop, const CreationOptions& options = {});
Array arange(const Operand& start, const Operand& stop, const CreationOptions& options = {});
Array arange(const Operand& start, const Operand& stop, const Operand& step, const CreationOptions& options = {});

/// `num` numbers evenly spaced from start to stop, which is the last one unless endpoint is false.
struct LinspaceOptions {
  bool endpoint = true;             ///< Whether `stop` is the last number.
  std::optional<Dtype> dtype = {};  ///< Default: that of the bounds, floats for integers. Integers are rounded down.
  std::int64_t axis = 0;            ///< Where the numbers go if the bounds are no scalars.
  std::optional<Sharding> sharding = {};
};
/// Numbers evenly spaced between two bounds.
/// @param start The first number, or an array of them.
/// @param stop The last number, which is left out if `endpoint` is false.
/// @param num How many numbers.
/// @return A new dimension of extent `num`, where `axis` says, beside those of the bounds.
/// @example linspace(0, 1, 5)
///   [0.   0.25 0.5  0.75 1.  ]
Array linspace(const Operand& start, const Operand& stop, std::int64_t num = 50, const LinspaceOptions& options = {});
struct EyeOptions {
  std::optional<std::int64_t> m = {};  ///< Columns; default: as many as rows.
  std::int64_t k = 0;                  ///< Which diagonal; the ones above the main one are positive.
  std::optional<Dtype> dtype = {};     ///< Default: f32.
  std::optional<Sharding> sharding = {};
};
/// An array of `n` rows with ones on a diagonal, zeros elsewhere.
/// @param n The number of rows.
/// @return A matrix, f32 by default.
/// @example eye(3)
///   [[1. 0. 0.]
///    [0. 1. 0.]
///    [0. 0. 1.]]
/// @example eye(2, {.m = 3, .k = 1})
/// @python jnp.eye(2, 3, k=1)
///   [[0. 1. 0.]
///    [0. 0. 1.]]
Array eye(std::int64_t n, const EyeOptions& options = {}, SourceLocation where = SourceLocation::current());
/// The square matrix with ones on its diagonal and zeros elsewhere.
/// @param n The number of rows and of columns.
/// @return A matrix, f32 by default.
Array identity(std::int64_t n, const CreationOptions& options = {}, SourceLocation where = SourceLocation::current());
/// The k-th diagonal of a matrix, or the matrix that has a vector there and zeros elsewhere. Throws InvalidArgument for
/// other ranks.
/// @param x A vector, or a matrix.
/// @param k Which diagonal; the ones above the main one are positive.
/// @return A square matrix that holds the vector, or a vector of the matrix's elements.
/// @example diag(array({1, 2}))
///   [[1 0]
///    [0 2]]
/// @example diag(array({{1, 2}, {3, 4}}))
///   [1 4]
Array diag(const Operand& x, std::int64_t k = 0);

// Arrays like another one: with its shape, its dtype unless another is given, and where it lies if it is committed.
/// Zeros in an array like another: with its shape, its dtype unless another is given, and where it lies if it is
/// committed.
/// @param x The array that the result is like; its values do not matter.
/// @example zeros_like(array({1, 2}))
///   [0 0]
Array zeros_like(const Operand& x, const CreationOptions& options = {});
/// Ones in an array like another: with its shape, its dtype unless another is given, and where it lies if it is
/// committed.
/// @param x The array that the result is like; its values do not matter.
/// @example ones_like(array({1.5f, 2.5f}))
///   [1. 1.]
Array ones_like(const Operand& x, const CreationOptions& options = {});
/// An array with the same value everywhere, otherwise like another: with its shape, its dtype unless another is given,
/// and where it lies if it is committed.
/// @param x The array that the result is like.
/// @param value The value.
Array full_like(const Operand& x, const Operand& value, const CreationOptions& options = {});
Array empty_like(const Operand& x, const CreationOptions& options = {});  ///< Zeros, too.

struct MeshgridOptions {
  std::string indexing = "xy";  ///< "xy": the first array runs along the second dimension; "ij": along the first.
  bool sparse = false;          ///< Leave extents of 1 instead of repeating.
};
/// The coordinates of a grid, one array for each of the given vectors.
/// @param arrays The vectors, one for each dimension.
/// @return As many arrays as vectors, each with all dimensions.
/// @example meshgrid({arange(3), arange(2)})[0]
/// @python jnp.meshgrid(jnp.arange(3), jnp.arange(2))[0]
///   [[0 1 2]
///    [0 1 2]]
std::vector<Array> meshgrid(const Operands& arrays, const MeshgridOptions& options = {});

// ---- Elementwise functions: one for each row of elementwise.def.

#define SHOAL_UNARY(name, ...) Array name(const Operand& x);
#define SHOAL_BINARY(name, ...) Array name(const Operand& x, const Operand& y);
#include "shoal/elementwise.def"
#undef SHOAL_UNARY
#undef SHOAL_BINARY

Array absolute(const Operand& x);     ///< abs.
Array conjugate(const Operand& x);    ///< conj.
Array fix(const Operand& x);          ///< trunc.
Array rint(const Operand& x);         ///< The nearest integer, ties to even, as a float.
Array isposinf(const Operand& x);     ///< Whether x is positive infinity; real dtypes.
Array isneginf(const Operand& x);     ///< Whether x is negative infinity; real dtypes.
Array deg2rad(const Operand& x);      ///< Degrees to radians.
Array rad2deg(const Operand& x);      ///< Radians to degrees.
Array radians(const Operand& x);      ///< deg2rad.
Array degrees(const Operand& x);      ///< rad2deg.
Array angle(const Operand& x);        ///< The argument of a complex number, in radians; 0 or pi of a real one.
Array isreal(const Operand& x);       ///< Whether the imaginary part is 0.
Array iscomplex(const Operand& x);    ///< Whether the imaginary part is not 0.
Array logical_not(const Operand& x);  ///< Whether x is 0 or false. The next three take any dtype likewise.
/// Whether both are true.
/// @return bool, of the shape to which both broadcast.
/// @example logical_and(array({true, true}), array({true, false}))
///   [ True False]
Array logical_and(const Operand& x, const Operand& y);
/// Whether either is true.
/// @return bool, of the shape to which both broadcast.
Array logical_or(const Operand& x, const Operand& y);
/// Whether one is true and the other is not.
/// @return bool, of the shape to which both broadcast.
Array logical_xor(const Operand& x, const Operand& y);
Array true_divide(const Operand& x, const Operand& y);  ///< divide.
Array mod(const Operand& x, const Operand& y);          ///< remainder.
Array pow(const Operand& x, const Operand& y);          ///< power.
Array float_power(const Operand& x, const Operand& y);  ///< power of floats, as which integers are taken.
/// floor_divide(x, y) and remainder(x, y).
/// @return The quotients rounded down, and the remainders, which have the sign of y.
std::pair<Array, Array> divmod(const Operand& x, const Operand& y);
/// x, but at least `low` and at most `high`; `none` sets no bound. NaN stays.
/// @param low The least value of the result, or no bound.
/// @param high The greatest value, or no bound. Where it is less than `low`, it counts.
/// @return An array of the shape to which all broadcast.
/// @example clip(array({-2, 0, 5}), 0, 3)
///   [0 0 3]
Array clip(const Operand& x, const std::optional<Operand>& low, const std::optional<Operand>& high);

struct NanToNumOptions {
  Operand nan = 0.0;                   ///< What NaN becomes: a number or an array, which is broadcast with x.
  std::optional<Operand> posinf = {};  ///< What infinity becomes; default: the greatest number of the dtype.
  std::optional<Operand> neginf = {};  ///< What negative infinity becomes; default: the least number of the dtype.
};
/// x with NaN and infinities, also in the parts of complex numbers, replaced; integers and bool are returned as they
/// are.
/// @return An array of the shape and, for floats and complex numbers, the dtype of x.
Array nan_to_num(const Operand& x, const NanToNumOptions& options = {});

struct CloseOptions {
  Operand rtol = 1e-5;     ///< The difference that is allowed, in parts of |y|: a number or an array, as is atol.
  Operand atol = 1e-8;     ///< The difference that is always allowed.
  bool equal_nan = false;  ///< Whether NaN is close to NaN.
};
/// Whether |x - y| <= atol + rtol |y|; equal infinities are close.
/// @return bool, of the shape to which both broadcast.
/// @example isclose(array({1.0f, 1.1f}), 1.0f)
///   [ True False]
Array isclose(const Operand& x, const Operand& y, const CloseOptions& options = {});
/// Whether all elements are close: a bool scalar.
/// @return A bool scalar.
/// @example allclose(array({1.0f, 1.0f}), 1.0f)
///   True
Array allclose(const Operand& x, const Operand& y, const CloseOptions& options = {});
/// Whether shapes and all elements are equal: a bool scalar.
/// @param equal_nan Whether NaN equals NaN.
/// @return A bool scalar; false where shapes differ.
Array array_equal(const Operand& x, const Operand& y, bool equal_nan = false);

/// x where `condition` holds, y elsewhere.
/// @param condition bool, or numbers, which count as true where they are not 0.
/// @param x What is taken where the condition holds.
/// @param y What is taken elsewhere; its dtype and that of x promote to that of the result.
/// @return An array of the shape to which all three broadcast.
/// @example where(array({true, false}), array({1, 2}), 0)
///   [1 0]
Array where(const Operand& condition, const Operand& x, const Operand& y);
/// The elements in another dtype: floats become integers towards 0, and bool is whether they are not 0.
/// @param dtype The dtype of the result.
/// @return An array of the shape of x.
/// @example astype(array({1.7f, -1.7f}), int32)
///   [ 1 -1]
Array astype(const Operand& x, Dtype dtype);

// ---- Reductions. bool sums count in i32; means, variances and what is made of them are floats, and those of
// f16 and bf16 are computed in f32 and rounded once at the end. Throws OutOfRange for axes that do not exist, and
// InvalidArgument for options that mean nothing to a function, and for a mask that does not broadcast to the operand.
// @param x The array to reduce.
// @return An array without the dimensions that are reduced; with `keepdims` they have extent 1.

/// The sum of the elements along dimensions. Partial sums are added in a fixed tree, so that bits do not depend on
/// threads, devices or processes.
/// @return An array without the dimensions that are reduced, in the dtype of x; of bool i32.
/// @example sum(array({{1, 2}, {3, 4}}))
///   10
/// @example sum(array({{1, 2}, {3, 4}}), {.axis = 0})
///   [4 6]
Array sum(const Operand& x, const ReduceOptions& options = {});
/// The product of the elements along dimensions; 1 if there are none.
/// @example prod(array({1, 2, 3, 4}))
///   24
Array prod(const Operand& x, const ReduceOptions& options = {});
/// The greatest element along dimensions; NaN if there is one. Throws InvalidArgument if there are no elements and no
/// `initial`.
/// @example max(array({{1, 5}, {3, 2}}), {.axis = 1})
///   [5 3]
Array max(const Operand& x, const ReduceOptions& options = {});
/// The least element along dimensions; NaN if there is one. Throws InvalidArgument if there are no elements and no
/// `initial`.
/// @example min(array({{1, 5}, {3, 2}}), {.axis = 1})
///   [1 2]
Array min(const Operand& x, const ReduceOptions& options = {});
/// The mean of the elements along dimensions; NaN if there are none. Integers and bool count as f32.
/// @example mean(array({1, 2, 4, 5}))
///   3.0
Array mean(const Operand& x, const ReduceOptions& options = {});
/// Whether an element along the dimensions is not 0 or false.
/// @return bool, without the dimensions that are reduced.
/// @example any(array({false, true}))
///   True
Array any(const Operand& x, const ReduceOptions& options = {});
/// Whether all elements along the dimensions are not 0 or false; true if there are none.
/// @return bool, without the dimensions that are reduced.
/// @example all(array({false, true}))
///   False
Array all(const Operand& x, const ReduceOptions& options = {});
Array ptp(const Operand& x, const ReduceOptions& options = {});            ///< max - min.
Array count_nonzero(const Operand& x, const ReduceOptions& options = {});  ///< i32.

struct VarianceOptions {
  Axes axis = {};         ///< Dimensions to reduce, from the end if negative; all when not given.
  bool keepdims = false;  ///< Reduced dimensions stay, with extent 1.
  /// The sum of squares is divided by the number of elements less this, a number or an array; NaN if none are left.
  Operand ddof = 0;
  std::optional<Array> where = {};  ///< Which elements count, as in ReduceOptions.
};
/// The mean of |x - mean(x)|^2; real, also of complex numbers.
/// @example var(array({1.0f, 2.0f, 3.0f, 4.0f}))
///   1.25
Array var(const Operand& x, const VarianceOptions& options = {});
Array std_(const Operand& x, const VarianceOptions& options = {});  ///< sqrt(var(x)): NumPy's std.

/// The mean weighted by an array of the shape of x, or of one dimension as long as the only axis given. Throws
/// InvalidArgument for others.
/// @param weights How much each element counts.
Array average(const Operand& x, const Operand& weights, const ReduceOptions& options = {});
Array average(const Operand& x, const ReduceOptions& options = {});  ///< mean.

/// log(sum(exp(x))), without overflow on the way.
/// @example logsumexp(array({1000.0f, 1000.0f}))
/// @python jax.nn.logsumexp(jnp.array([1000.0, 1000.0]))
///   1000.6932
Array logsumexp(const Operand& x, const ReduceOptions& options = {});

// Without the elements that are NaN. Where all are, nanmax, nanmin and nanmean give NaN, the sum is 0, the product 1.
/// The sum of the elements that are not NaN; 0 if all are.
Array nansum(const Operand& x, const ReduceOptions& options = {});
/// The product of the elements that are not NaN; 1 if all are.
Array nanprod(const Operand& x, const ReduceOptions& options = {});
/// The greatest of the elements that are not NaN; NaN if all are.
Array nanmax(const Operand& x, const ReduceOptions& options = {});
/// The least of the elements that are not NaN; NaN if all are.
Array nanmin(const Operand& x, const ReduceOptions& options = {});
/// The mean of the elements that are not NaN; NaN if all are.
Array nanmean(const Operand& x, const ReduceOptions& options = {});

struct DiagonalOptions {
  std::int64_t offset = 0;  ///< Which diagonal: those above the main one are positive.
  std::int64_t axis1 = 0;   ///< The dimension of the diagonal's rows.
  std::int64_t axis2 = 1;   ///< The dimension of its columns.
};
/// A diagonal of two dimensions. Only its items are read; where it has one of each row, what is split by rows stays so.
/// Throws OutOfRange for an axis that x does not have, and InvalidArgument if both are the same.
/// @return The other dimensions of x, and then the diagonal, which is empty if it is beyond the matrix.
/// @example diagonal(array({{1, 2, 3}, {4, 5, 6}}), {.offset = 1})
///   [2 6]
Array diagonal(const Operand& x, const DiagonalOptions& options = {});
/// The sum of a diagonal of two dimensions; the others stay.
/// @example trace(array({{1, 2}, {3, 4}}))
///   5
Array trace(const Operand& x, const DiagonalOptions& options = {});

// ---- Contractions.
// @param x An array or a number.
// @param y As x; dtypes promote.

/// The matrix product of the last two dimensions; leading dimensions broadcast. Vectors are taken as one row or column,
/// which the result lacks again. Throws InvalidArgument for scalars and for inner extents that differ.
///
/// In this and other functions, `out_sharding` says how Explicit axes split the result, where the operands leave that
/// open, as products of operands that are both split along the summed dimension do, or where it shall be split in
/// another way. Throws InvalidArgument if `out_sharding` names an axis that is not
/// Explicit, and as NamedSharding does for arrays that it cannot hold.
/// @param x An array of at least one dimension, [..., n, k].
/// @param y An array of at least one dimension, [..., k, m].
/// @return An array [..., n, m] of the dtype to which both promote; products of f16 and bf16 are added in f32 and
///   rounded once.
/// @example matmul(array({{1, 2}, {3, 4}}), array({5, 6}))
///   [17 39]
Array matmul(const Operand& x, const Operand& y, const OutSharding& out_sharding = {});
/// NumPy's dot: like matmul for ranks up to 2, a product for scalars, and else a sum over the last dimension of x and
/// the last but one of y.
/// @return A scalar for two vectors.
/// @example dot(array({1, 2, 3}), array({4, 5, 6}))
///   32
Array dot(const Operand& x, const Operand& y, const OutSharding& out_sharding = {});
/// The sum over the last dimension of both; a product for scalars.
/// @example inner(array({1, 2, 3}), array({4, 5, 6}))
///   32
Array inner(const Operand& x, const Operand& y, const OutSharding& out_sharding = {});
/// The products of all elements of x with all of y, a matrix.
/// @example outer(array({1, 2}), array({3, 4, 5}))
///   [[ 3  4  5]
///    [ 6  8 10]]
Array outer(const Operand& x, const Operand& y);
/// The sum of conj(x) y over all elements, which must be of one number.
/// @return A scalar.
Array vdot(const Operand& x, const Operand& y);
/// The sum of conj(x) y over a dimension of both; the others broadcast.
/// @param axis The dimension that is summed over.
Array vecdot(const Operand& x, const Operand& y, std::int64_t axis = -1, const OutSharding& out_sharding = {});
/// The sum over the last `axes` dimensions of x and the first of y.
/// @param axes How many dimensions are summed over.
/// @param x_axes The dimensions of x that are summed over.
/// @param y_axes Those of y, in the same order.
/// @return The other dimensions of x, then those of y.
/// @example tensordot(ones({2, 3}), ones({3, 4}), 1)
///   [[3. 3. 3. 3.]
///    [3. 3. 3. 3.]]
Array tensordot(const Operand& x, const Operand& y, std::int64_t axes = 2, const OutSharding& out_sharding = {});
/// The sum over pairs of dimensions.
Array tensordot(const Operand& x, const Operand& y, const Dims& x_axes, const Dims& y_axes,
                const OutSharding& out_sharding = {});
/// The Kronecker product: blocks of y, times the elements of x.
/// @example kron(array({1, 2}), array({1, 10}))
///   [ 1 10  2 20]
Array kron(const Operand& x, const Operand& y);

struct EinsumOptions {
  std::optional<Dtype> preferred_element_type = {};  ///< What products are added in, and the result's dtype.
  OutSharding out_sharding = {};                     ///< How Explicit axes split the result; see matmul.
};
/// Products of the operands' elements, summed over the labels that the output lacks. `subscripts` gives a letter to
/// each dimension: "ij,jk->ik". Without an output it has, in alphabetic order, the labels that occur once. An ellipsis
/// stands for leading, middle or trailing dimensions that broadcast; a label twice in one operand takes its diagonal;
/// extents of 1 broadcast. Pairs of operands are contracted in the cheapest order, by number of multiplications, of up
/// to eight operands, and greedily of more. Throws InvalidArgument for subscripts that do not fit the operands.
/// @param subscripts The labels of the operands' dimensions, and of the result's.
/// @param operands The arrays, one for each part of the subscripts.
/// @param x The first operand.
/// @param y The second one.
/// @param z The third one.
/// @example einsum("ij,jk->ik", array({{1, 2}, {3, 4}}), array({{1, 0}, {0, 1}}))
///   [[1 2]
///    [3 4]]
Array einsum(std::string_view subscripts, const std::vector<Operand>& operands, const EinsumOptions& options = {});
inline Array einsum(std::string_view subscripts, std::initializer_list<Operand> operands,
                    const EinsumOptions& options = {}) {
  return einsum(subscripts, std::vector<Operand>(operands), options);
}
Array einsum(std::string_view subscripts, const Operand& x, const EinsumOptions& options = {});
Array einsum(std::string_view subscripts, const Operand& x, const Operand& y, const EinsumOptions& options = {});
Array einsum(std::string_view subscripts, const Operand& x, const Operand& y, const Operand& z,
             const EinsumOptions& options = {});

// ---- Shapes.
// @return An array with the elements of x.

/// One extent may be -1: it follows from the others.
/// The elements, row-major, in another shape. One extent may be -1: it follows from the others. Throws InvalidArgument
/// if the number of elements is another one.
/// @param shape The extents of the result.
/// @example reshape(arange(6), {2, -1})
///   [[0 1 2]
///    [3 4 5]]
Array reshape(const Operand& x, const Dims& shape, const OutSharding& out_sharding = {});
/// The dimensions reversed, or in the order of `axes`.
/// @param axes For each dimension of the result, the one of x that it is.
/// @example transpose(array({{1, 2}, {3, 4}}))
///   [[1 3]
///    [2 4]]
Array transpose(const Operand& x, const std::optional<Dims>& axes = {});
/// The array repeated to a shape: dimensions that it lacks come first, and those of extent 1 are repeated. Throws
/// InvalidArgument for a shape to which it does not broadcast.
/// @param shape The extents of the result.
/// @example broadcast_to(array({1, 2}), {2, 2})
///   [[1 2]
///    [1 2]]
Array broadcast_to(const Operand& x, const Shape& shape, const OutSharding& out_sharding = {});
/// All arrays in the shape to which they broadcast. Throws InvalidArgument if there is no such shape.
/// @param arrays The arrays.
/// @return As many arrays, each with its dtype.
std::vector<Array> broadcast_arrays(const Operands& arrays);
/// A new dimension of extent 1, or several. Throws OutOfRange for a place that the result does not have, and
/// InvalidArgument for one that is named twice.
/// @param axis Where the result has it, from the end if negative.
/// @param axes The same for several.
/// @example expand_dims(array({1, 2}), 0)
///   [[1 2]]
Array expand_dims(const Operand& x, std::int64_t axis);
Array expand_dims(const Operand& x, const Dims& axes);
/// Without dimensions of extent 1. Throws InvalidArgument for a dimension of another extent.
/// @param axis The dimensions to remove; all of extent 1 when not given.
/// @example squeeze(array({{1, 2}}))
///   [1 2]
Array squeeze(const Operand& x, const Axes& axis = {});
/// All elements as a vector, row-major.
/// @example ravel(array({{1, 2}, {3, 4}}))
///   [1 2 3 4]
Array ravel(const Operand& x, const OutSharding& out_sharding = {});
/// Two dimensions exchanged. Throws OutOfRange for dimensions that x does not have.
/// @param axis1 The one, from the end if negative.
/// @param axis2 The other one.
Array swapaxes(const Operand& x, std::int64_t axis1, std::int64_t axis2);
/// The dimensions `source` moved to `destination`, the others in their order.
/// @param source The dimensions to move, from the end if negative.
/// @param destination Where they go.
/// @example moveaxis(array({{1, 2}, {3, 4}}), 0, 1)
///   [[1 3]
///    [2 4]]
Array moveaxis(const Operand& x, std::int64_t source, std::int64_t destination);
Array moveaxis(const Operand& x, const Dims& source, const Dims& destination);

// ---- Joining and splitting. Arrays that are joined are promoted to one dtype; a dimension along which nothing is
// joined or split may be sharded, and stays so.
// @param arrays The arrays to join.
// @param axis The dimension, from the end if negative.

/// Along a dimension that exists. Throws InvalidArgument unless all other extents are equal.
/// @return An array whose extent along the dimension is the sum of theirs.
/// @example concatenate({array({1, 2}), array({3})})
/// @python jnp.concatenate([jnp.array([1, 2]), jnp.array([3])])
///   [1 2 3]
Array concatenate(const Operands& arrays, std::int64_t axis = 0);
/// Along a new dimension. Throws InvalidArgument unless all shapes are equal.
/// @return An array with one dimension more.
/// @example stack({array({1, 2}), array({3, 4})})
/// @python jnp.stack([jnp.array([1, 2]), jnp.array([3, 4])])
///   [[1 2]
///    [3 4]]
Array stack(const Operands& arrays, std::int64_t axis = 0);
Array hstack(const Operands& arrays);  ///< Along the second dimension; vectors along their only one.
Array vstack(const Operands& arrays);  ///< Along the first dimension; a vector is one row.

/// Into how many parts an array is split, or where: 3, or {2, 5}.
class Sections {
 public:
  Sections(std::int64_t count) : value_(count) {}
  Sections(std::initializer_list<std::int64_t> positions) : value_(Dims(positions)) {}
  Sections(Dims positions) : value_(std::move(positions)) {}
  const std::int64_t* count() const { return std::get_if<std::int64_t>(&value_); }
  const Dims* positions() const { return std::get_if<Dims>(&value_); }

 private:
  std::variant<std::int64_t, Dims> value_;
};
/// Throws InvalidArgument if the extent is no multiple of the count, or the positions do not ascend within it.
/// The parts of an array along a dimension.
/// @param sections Into how many equal parts, or the positions at which they begin, without the first.
/// @return The parts, in order.
/// @example split(arange(6), 3)[1]
///   [2 3]
std::vector<Array> split(const Operand& x, const Sections& sections, std::int64_t axis = 0);
/// The same, but the first parts are longer by one where the extent is no multiple.
/// @param sections As of split.
/// @return The parts, in order.
std::vector<Array> array_split(const Operand& x, const Sections& sections, std::int64_t axis = 0);

// ---- Repeating and rearranging.
// @return An array of the dtype of x.

/// The array repeated along each dimension; missing dimensions and repetitions count as 1, at the front.
/// @param repetitions How often, for each dimension.
/// @example tile(array({1, 2}), 2)
///   [1 2 1 2]
Array tile(const Operand& x, const Dims& repetitions);
Array tile(const Operand& x, std::int64_t repetitions);
/// Each element `repeats` times, along `axis`; along the flattened array if none is given.
/// @param repeats How often.
/// @param axis The dimension.
/// @example repeat(array({1, 2}), 2)
///   [1 1 2 2]
Array repeat(const Operand& x, std::int64_t repeats, std::optional<std::int64_t> axis = {},
             const OutSharding& out_sharding = {});
/// The elements moved on by `shift`, those at the end to the beginning. Along several dimensions by as many shifts, or
/// one for all; in the flattened array if no dimension is given.
/// @param shift By how many positions; negative towards the beginning.
/// @param shifts The same, for each dimension.
/// @param axis The dimensions.
/// @example roll(arange(5), 2)
///   [3 4 0 1 2]
Array roll(const Operand& x, std::int64_t shift, const Axes& axis = {});
Array roll(const Operand& x, const Dims& shifts, const Axes& axis);
/// The order of elements reversed along the given dimensions, or all.
/// @param axis The dimensions; all when not given.
/// @example flip(array({1, 2, 3}))
///   [3 2 1]
Array flip(const Operand& x, const Axes& axis = {});
/// The elements on and below the k-th diagonal of the last two dimensions, and zeros above it.
/// @param k Which diagonal; the ones above the main one are positive.
/// @example tril(array({{1, 2}, {3, 4}}))
///   [[1 0]
///    [3 4]]
Array tril(const Operand& x, std::int64_t k = 0);
/// The elements on and above the k-th diagonal of the last two dimensions, and zeros below it.
/// @param k Which diagonal; the ones above the main one are positive.
/// @example triu(array({{1, 2}, {3, 4}}))
///   [[1 2]
///    [0 4]]
Array triu(const Operand& x, std::int64_t k = 0);

/// How many elements to add before and after each dimension: 2 for all, {{1, 2}} for all, or {{1, 2}, {0, 0}}.
class PadWidth {
 public:
  using Pair = std::pair<std::int64_t, std::int64_t>;
  PadWidth(std::int64_t both) : pairs_{{both, both}} {}
  PadWidth(std::initializer_list<Pair> pairs) : pairs_(pairs) {}
  PadWidth(std::vector<Pair> pairs) : pairs_(std::move(pairs)) {}
  const std::vector<Pair>& pairs() const { return pairs_; }

 private:
  std::vector<Pair> pairs_;
};
struct PadOptions {
  /// "constant"; "edge": the outermost element; "reflect", "symmetric": mirrored, without or with the outermost
  /// element; "wrap": from the other end; "linear_ramp": evenly from the outermost element to end_values; "maximum",
  /// "minimum", "mean", "median": that of the elements along the dimension, of integers rounded.
  std::string mode = "constant";
  Operand constant_values = 0;  ///< In the array's dtype.
  Operand end_values = 0;       ///< The same.
  /// How many elements at each end count for maximum and the like; default: all.
  std::optional<PadWidth> stat_length = {};
  bool odd = false;  ///< What is mirrored is also turned over: twice the outermost element less it.
};
/// The array with more elements before and after each dimension. Throws InvalidArgument for negative widths, another
/// number of pairs than dimensions, an unknown mode, a mode that repeats elements where there are none, and a
/// stat_length that is not positive.
/// @param width How many elements come before and after each dimension.
/// @example pad(array({1, 2}), 1)
///   [0 1 2 0]
Array pad(const Operand& x, const PadWidth& width, const PadOptions& options = {});

// ---- Positions and order. Positions are i32; a dimension that i32 cannot count throws OutOfRange.
// @return Positions, i32.

/// The position of the first greatest element along `axis`, or in the flattened array if there is none; that of the
/// first NaN if there is one. Throws InvalidArgument where there are no elements, and TypeMismatch for complex numbers.
struct ArgOptions {
  std::optional<std::int64_t> axis = {};  ///< The dimension; when not given, of the flattened array.
  bool keepdims = false;                  ///< The dimension stays, with extent 1.
};
/// The position of the first greatest element, or of the first NaN if there is one. Throws InvalidArgument where there
/// are no elements, and TypeMismatch for complex numbers.
/// @example argmax(array({3, 7, 5}))
///   1
Array argmax(const Operand& x, const ArgOptions& options = {});
/// The position of the first least element, or of the first NaN if there is one. Throws InvalidArgument where there are
/// no elements, and TypeMismatch for complex numbers.
/// @example argmin(array({3, 7, 5}))
///   0
Array argmin(const Operand& x, const ArgOptions& options = {});

/// In ascending order, NaN last; complex numbers by their real parts, then their imaginary ones. Equal elements keep
/// their order.
struct SortOptions {
  std::optional<std::int64_t> axis = -1;  ///< When not given, of the flattened array.
  bool descending = false;                ///< The other way round, NaN first.
};
/// The elements of each line in ascending order, NaN last; complex numbers by their real parts, then by their imaginary
/// ones. Equal elements keep their order.
/// @return An array of the shape and dtype of x; a vector if no axis is given.
/// @example sort(array({3, 1, 2}))
///   [1 2 3]
Array sort(const Operand& x, const SortOptions& options = {});
/// The positions that sort x.
/// @return Positions along the axis, i32.
/// @example argsort(array({3, 1, 2}))
///   [1 2 0]
Array argsort(const Operand& x, const SortOptions& options = {});
/// The positions that sort by the last key, then by the one before it, and so on. Keys have one shape.
/// @param keys Arrays of one shape, the last one being the most important.
/// @param axis The dimension that is sorted.
Array lexsort(const std::vector<Array>& keys, std::int64_t axis = -1, SourceLocation where = SourceLocation::current());

enum class Side : std::uint8_t { kLeft, kRight };
struct SearchOptions {
  /// Whether a value stands before (kLeft) or after (kRight) the elements that are equal to it.
  Side side = Side::kLeft;
};
/// Where each of the values would stand in the sorted vector: before the elements equal to it, or after them.
/// @param sorted A vector in ascending order.
/// @param values What is looked for, of any shape.
/// @return Positions in the shape of `values`, i32.
/// @example searchsorted(array({10, 20, 30}), array({5, 20, 40}))
///   [0 1 3]
Array searchsorted(const Operand& sorted, const Operand& values, const SearchOptions& options = {});

/// The positions of the elements that are not zero, an array for each dimension. Their number depends on x unless
/// `size` is given: it takes as many, or fills up with `fill_value`. Throws InvalidState for a tracer without a size.
struct NonzeroOptions {
  std::optional<std::int64_t> size = {};  ///< How many positions the result has; without it, as many as there are.
  std::int64_t fill_value = 0;            ///< What the result is filled up with.
};
/// The positions of the elements that are not zero, in row-major order. Throws InvalidState for a tracer without a
/// size.
/// @return A vector of positions, i32, for each dimension.
/// @example nonzero(array({0, 5, 0, 7}))[0]
///   [1 3]
std::vector<Array> nonzero(const Operand& x, const NonzeroOptions& options = {});
/// The same in the flattened array.
/// @return A vector of positions in the flattened array.
Array flatnonzero(const Operand& x, const NonzeroOptions& options = {});

struct BincountOptions {
  std::optional<Array> weights = {};        ///< What each element counts; 1 when not given.
  std::int64_t minlength = 0;               ///< The result has at least as many bins.
  std::optional<std::int64_t> length = {};  ///< The number of bins; larger values are not counted.
  OutSharding out_sharding = {};            ///< How Explicit axes split the result, where they split x.
};
/// How often each number from 0 on occurs in a vector; negative ones count as 0. Without a length, as many bins as the
/// greatest number needs: a tracer throws InvalidState then.
/// @param x A vector of integers.
/// @return i32, or the dtype of the weights.
/// @example bincount(array({0, 1, 1, 3}))
///   [1 2 0 1]
Array bincount(const Operand& x, const BincountOptions& options = {});

// ---- Items by position.
// @param indices Integers.
// @param axis The dimension, from the end if negative.

struct TakeOptions {
  std::optional<std::int64_t> axis = {};  ///< When not given, of the flattened array.
  IndexMode mode = IndexMode::kFill;      ///< In kClip, negative positions are the first.
  /// What stands for positions outside, with kFill. Default: NaN, the least signed or the greatest unsigned integer,
  /// true.
  std::optional<Operand> fill_value = {};
};
/// x[..., indices, ...] along one axis.
/// @param indices Positions along the axis, of any shape, which takes the place of the axis.
/// @return An array of the dtype of x.
/// @example take(array({10, 20, 30}), array({2, 0}))
///   [30 10]
Array take(const Operand& x, const Operand& indices, const TakeOptions& options = {});

struct TakeAlongOptions {
  IndexMode mode = IndexMode::kFill;       ///< What becomes of positions outside.
  std::optional<Operand> fill_value = {};  ///< As of TakeOptions.
  bool wrap_negative_indices = true;       ///< Whether negative positions count from the end.
};
/// Along `axis`, the items at the indices of each line of its own; the other dimensions broadcast.
/// @param indices Positions along the axis, with as many dimensions as x has.
/// @example take_along_axis(array({{1, 2}, {3, 4}}), array({{1}, {0}}), 1)
///   [[2]
///    [3]]
Array take_along_axis(const Operand& x, const Operand& indices, std::int64_t axis,
                      const TakeAlongOptions& options = {});
/// x with those items replaced by the values, which broadcast to the shape of the indices. Others are dropped.
/// @param indices As of take_along_axis.
/// @param values What is put there.
/// @return A copy of x, of its dtype.
Array put_along_axis(const Operand& x, const Operand& indices, const Operand& values, std::int64_t axis);

// ---- Cumulative sums and products.
// @return An array of the shape of x; a vector if no axis is given.

struct CumulativeOptions {
  std::optional<std::int64_t> axis = {};  ///< When not given, of the flattened array.
  std::optional<Dtype> dtype = {};        ///< Default: that of x; i32 for bool.
};
/// The sum of the elements up to each one.
/// @example cumsum(array({1, 2, 3}))
///   [1 3 6]
Array cumsum(const Operand& x, const CumulativeOptions& options = {});
/// The product of the elements up to each one.
/// @example cumprod(array({1, 2, 3}))
///   [1 2 6]
Array cumprod(const Operand& x, const CumulativeOptions& options = {});

namespace detail {
Array array_from_host(Dtype dtype, const Shape& shape, const void* data, const CreationOptions& options,
                      SourceLocation where);
void check_fill(std::string_view function, std::size_t elements, const Shape& shape, SourceLocation where);
}  // namespace detail

template <Element T>
Array asarray(std::span<const T> elements, const Shape& shape, std::shared_ptr<const void> owner,
              const AsArrayOptions& options, SourceLocation where) {
  detail::check_fill("asarray", elements.size(), shape, where);
  return asarray(elements.data(), dtype_of<T>(), shape, std::move(owner), options, where);
}

template <Element T>
Array array(std::span<const T> elements, const Shape& shape, const CreationOptions& options, SourceLocation where) {
  detail::check_fill("array", elements.size(), shape, where);
  return detail::array_from_host(dtype_of<T>(), shape, elements.data(), options, where);
}

template <Element T>
Array array(const std::vector<T>& elements, const CreationOptions& options, SourceLocation where) {
  const Shape shape{static_cast<std::int64_t>(elements.size())};
  if constexpr (std::same_as<T, bool>) {
    const auto bytes = std::make_unique<bool[]>(elements.size());
    std::copy(elements.begin(), elements.end(), bytes.get());
    return detail::array_from_host(bool_, shape, bytes.get(), options, where);
  } else {
    return detail::array_from_host(dtype_of<T>(), shape, elements.data(), options, where);
  }
}

}  // namespace shoal
