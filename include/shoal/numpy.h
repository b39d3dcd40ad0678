// NumPy-style functions on arrays. Shapes broadcast and dtypes promote as in JAX; axes count from the end if negative.
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

struct CreationOptions {
  std::optional<Dtype> dtype = {};        ///< Default: as each function says.
  std::optional<Sharding> sharding = {};  ///< Where to lie; committed there if given.
};

/// From host memory, row-major; typed data keeps its dtype.
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
Array array(const Literal& literal, const CreationOptions& options = {},
            SourceLocation where = SourceLocation::current());

Array zeros(const Shape& shape, const CreationOptions& options = {}, SourceLocation where = SourceLocation::current());
Array ones(const Shape& shape, const CreationOptions& options = {}, SourceLocation where = SourceLocation::current());
/// dtype: that of `value`, not weak.
Array full(const Shape& shape, const Operand& value, const CreationOptions& options = {});
/// [0, 1, …] up to `stop`, or start, start + step, … up to it. i32 for integers, f32 for floats.
Array arange(const Operand& stop, const CreationOptions& options = {});
Array arange(const Operand& start, const Operand& stop, const CreationOptions& options = {});
Array arange(const Operand& start, const Operand& stop, const Operand& step, const CreationOptions& options = {});

/// `num` numbers evenly spaced from start to stop, which is the last one unless endpoint is false.
struct LinspaceOptions {
  bool endpoint = true;
  std::optional<Dtype> dtype = {};  ///< Default: that of the bounds, floats for integers. Integers are rounded down.
  std::int64_t axis = 0;            ///< Where the numbers go if the bounds are no scalars.
  std::optional<Sharding> sharding = {};
};
Array linspace(const Operand& start, const Operand& stop, std::int64_t num = 50, const LinspaceOptions& options = {});
struct EyeOptions {
  std::optional<std::int64_t> m = {};  ///< Columns; default: as many as rows.
  std::int64_t k = 0;                  ///< Which diagonal; the ones above the main one are positive.
  std::optional<Dtype> dtype = {};     ///< Default: f32.
  std::optional<Sharding> sharding = {};
};
/// An array of `n` rows with ones on a diagonal, zeros elsewhere.
Array eye(std::int64_t n, const EyeOptions& options = {}, SourceLocation where = SourceLocation::current());
Array identity(std::int64_t n, const CreationOptions& options = {}, SourceLocation where = SourceLocation::current());
/// The k-th diagonal of a matrix, or the matrix that has a vector there and zeros elsewhere. Throws InvalidArgument for
/// other ranks.
Array diag(const Operand& x, std::int64_t k = 0);

// Arrays like another one: with its shape, its dtype unless another is given, and where it lies if it is committed.
Array zeros_like(const Operand& x, const CreationOptions& options = {});
Array ones_like(const Operand& x, const CreationOptions& options = {});
Array full_like(const Operand& x, const Operand& value, const CreationOptions& options = {});
Array empty_like(const Operand& x, const CreationOptions& options = {});  ///< Zeros, too.

struct MeshgridOptions {
  std::string indexing = "xy";  ///< "xy": the first array runs along the second dimension; "ij": along the first.
  bool sparse = false;          ///< Leave extents of 1 instead of repeating.
};
/// The coordinates of a grid, one array for each of the given vectors.
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
Array logical_and(const Operand& x, const Operand& y);
Array logical_or(const Operand& x, const Operand& y);
Array logical_xor(const Operand& x, const Operand& y);
Array true_divide(const Operand& x, const Operand& y);  ///< divide.
Array mod(const Operand& x, const Operand& y);          ///< remainder.
Array pow(const Operand& x, const Operand& y);          ///< power.
Array float_power(const Operand& x, const Operand& y);  ///< power of floats, as which integers are taken.
/// floor_divide(x, y) and remainder(x, y).
std::pair<Array, Array> divmod(const Operand& x, const Operand& y);
/// x, but at least `low` and at most `high`; `none` sets no bound. NaN stays.
Array clip(const Operand& x, const std::optional<Operand>& low, const std::optional<Operand>& high);

struct NanToNumOptions {
  double nan = 0;                     ///< What NaN becomes.
  std::optional<double> posinf = {};  ///< What infinity becomes; default: the greatest number of the dtype.
  std::optional<double> neginf = {};  ///< What negative infinity becomes; default: the least number of the dtype.
};
/// x with NaN and infinities, also in the parts of complex numbers, replaced; integers and bool are returned as they
/// are.
Array nan_to_num(const Operand& x, const NanToNumOptions& options = {});

struct CloseOptions {
  double rtol = 1e-5;
  double atol = 1e-8;
  bool equal_nan = false;  ///< Whether NaN is close to NaN.
};
/// Whether |x - y| <= atol + rtol |y|; equal infinities are close.
Array isclose(const Operand& x, const Operand& y, const CloseOptions& options = {});
/// Whether all elements are close: a bool scalar.
Array allclose(const Operand& x, const Operand& y, const CloseOptions& options = {});
/// Whether shapes and all elements are equal: a bool scalar.
Array array_equal(const Operand& x, const Operand& y, bool equal_nan = false);

/// x where `condition` holds, y elsewhere.
Array where(const Operand& condition, const Operand& x, const Operand& y);
Array astype(const Operand& x, Dtype dtype);

// ---- Reductions. bool sums count in i32; means, variances and what is made of them are floats, and those of
// f16 and bf16 are computed in f32 and rounded once at the end. Axes that do not exist throw OutOfRange; options that
// mean nothing to a function, and a mask that does not broadcast to the operand, InvalidArgument.

Array sum(const Operand& x, const ReduceOptions& options = {});
Array prod(const Operand& x, const ReduceOptions& options = {});
Array max(const Operand& x, const ReduceOptions& options = {});
Array min(const Operand& x, const ReduceOptions& options = {});
Array mean(const Operand& x, const ReduceOptions& options = {});
Array any(const Operand& x, const ReduceOptions& options = {});
Array all(const Operand& x, const ReduceOptions& options = {});
Array ptp(const Operand& x, const ReduceOptions& options = {});            ///< max - min.
Array count_nonzero(const Operand& x, const ReduceOptions& options = {});  ///< i32.

struct VarianceOptions {
  Axes axis = {};
  bool keepdims = false;
  std::int64_t ddof = 0;  ///< The sum of squares is divided by the number of elements less this; NaN if none are left.
  std::optional<Array> where = {};  ///< Which elements count, as in ReduceOptions.
};
/// The mean of |x - mean(x)|^2; real, also of complex numbers.
Array var(const Operand& x, const VarianceOptions& options = {});
Array std_(const Operand& x, const VarianceOptions& options = {});  ///< sqrt(var(x)): NumPy's std.

/// The mean weighted by an array of the shape of x, or of one dimension as long as the only axis given. Throws
/// InvalidArgument for others.
Array average(const Operand& x, const Operand& weights, const ReduceOptions& options = {});
Array average(const Operand& x, const ReduceOptions& options = {});  ///< mean.

/// log(sum(exp(x))), without overflow on the way.
Array logsumexp(const Operand& x, const ReduceOptions& options = {});

// Without the elements that are NaN. Where all are, nanmax, nanmin and nanmean give NaN, the sum is 0, the product 1.
Array nansum(const Operand& x, const ReduceOptions& options = {});
Array nanprod(const Operand& x, const ReduceOptions& options = {});
Array nanmax(const Operand& x, const ReduceOptions& options = {});
Array nanmin(const Operand& x, const ReduceOptions& options = {});
Array nanmean(const Operand& x, const ReduceOptions& options = {});

struct TraceOptions {
  std::int64_t offset = 0;  ///< Which diagonal: those above the main one are positive.
  std::int64_t axis1 = 0;
  std::int64_t axis2 = 1;
};
/// The sum of a diagonal of two dimensions; the others stay.
Array trace(const Operand& x, const TraceOptions& options = {});

// ---- Contractions.

/// The matrix product of the last two dimensions; leading dimensions broadcast. Vectors are taken as one row or column,
/// which the result lacks again. Throws InvalidArgument for scalars and for inner extents that differ.
///
/// In this and other functions, `out_sharding` says how Explicit axes split the result, where the operands leave that
/// open, as products of operands that are both split along the summed dimension do, or where it shall be split in
/// another way. Throws InvalidArgument if it names an axis that is not Explicit, and as NamedSharding does for arrays
/// that it cannot hold.
Array matmul(const Operand& x, const Operand& y, const OutSharding& out_sharding = {});
/// NumPy's dot: like matmul for ranks up to 2, a product for scalars, and else a sum over the last dimension of x and
/// the last but one of y.
Array dot(const Operand& x, const Operand& y, const OutSharding& out_sharding = {});
/// The sum over the last dimension of both; a product for scalars.
Array inner(const Operand& x, const Operand& y, const OutSharding& out_sharding = {});
/// The products of all elements of x with all of y, a matrix.
Array outer(const Operand& x, const Operand& y);
/// The sum of conj(x) y over all elements, which must be of one number.
Array vdot(const Operand& x, const Operand& y);
/// The sum of conj(x) y over a dimension of both; the others broadcast.
Array vecdot(const Operand& x, const Operand& y, std::int64_t axis = -1, const OutSharding& out_sharding = {});
/// The sum over the last `axes` dimensions of x and the first of y.
Array tensordot(const Operand& x, const Operand& y, std::int64_t axes = 2, const OutSharding& out_sharding = {});
/// The sum over pairs of dimensions.
Array tensordot(const Operand& x, const Operand& y, const Dims& x_axes, const Dims& y_axes,
                const OutSharding& out_sharding = {});
/// The Kronecker product: blocks of y, times the elements of x.
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

/// One extent may be -1: it follows from the others.
Array reshape(const Operand& x, const Dims& shape, const OutSharding& out_sharding = {});
/// The dimensions reversed, or in the order of `axes`.
Array transpose(const Operand& x, const std::optional<Dims>& axes = {});
Array broadcast_to(const Operand& x, const Shape& shape, const OutSharding& out_sharding = {});
std::vector<Array> broadcast_arrays(const Operands& arrays);
/// A new dimension of extent 1, or several, where the result shall have it.
Array expand_dims(const Operand& x, std::int64_t axis);
Array expand_dims(const Operand& x, const Dims& axes);
Array squeeze(const Operand& x, const Axes& axis = {});
Array ravel(const Operand& x, const OutSharding& out_sharding = {});
Array swapaxes(const Operand& x, std::int64_t axis1, std::int64_t axis2);
/// The dimensions `source` moved to `destination`, the others in their order.
Array moveaxis(const Operand& x, std::int64_t source, std::int64_t destination);
Array moveaxis(const Operand& x, const Dims& source, const Dims& destination);

// ---- Joining and splitting. Arrays that are joined are promoted to one dtype; a dimension along which nothing is
// joined or split may be sharded, and stays so.

/// Along a dimension that exists. Throws InvalidArgument unless all other extents are equal.
Array concatenate(const Operands& arrays, std::int64_t axis = 0);
/// Along a new dimension. Throws InvalidArgument unless all shapes are equal.
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
std::vector<Array> split(const Operand& x, const Sections& sections, std::int64_t axis = 0);
/// The same, but the first parts are longer by one where the extent is no multiple.
std::vector<Array> array_split(const Operand& x, const Sections& sections, std::int64_t axis = 0);

// ---- Repeating and rearranging.

/// The array repeated along each dimension; missing dimensions and repetitions count as 1, at the front.
Array tile(const Operand& x, const Dims& repetitions);
Array tile(const Operand& x, std::int64_t repetitions);
/// Each element `repeats` times, along `axis`; along the flattened array if none is given.
Array repeat(const Operand& x, std::int64_t repeats, std::optional<std::int64_t> axis = {},
             const OutSharding& out_sharding = {});
/// The elements moved on by `shift`, those at the end to the beginning. Along several dimensions by as many shifts, or
/// one for all; in the flattened array if no dimension is given.
Array roll(const Operand& x, std::int64_t shift, const Axes& axis = {});
Array roll(const Operand& x, const Dims& shifts, const Axes& axis);
/// The order of elements reversed along the given dimensions, or all.
Array flip(const Operand& x, const Axes& axis = {});
/// The elements on and below (tril) or above (triu) the k-th diagonal of the last two dimensions, zeros elsewhere.
Array tril(const Operand& x, std::int64_t k = 0);
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
/// Throws InvalidArgument for negative widths, another number of pairs than dimensions, an unknown mode, a mode that
/// repeats elements where there are none, and a stat_length that is not positive.
Array pad(const Operand& x, const PadWidth& width, const PadOptions& options = {});

// ---- Positions and order. Positions are i32; a dimension that i32 cannot count throws OutOfRange.

/// The position of the first greatest element along `axis`, or in the flattened array if there is none; that of the
/// first NaN if there is one. Throws InvalidArgument where there are no elements, and TypeMismatch for complex numbers.
struct ArgOptions {
  std::optional<std::int64_t> axis = {};
  bool keepdims = false;
};
Array argmax(const Operand& x, const ArgOptions& options = {});
Array argmin(const Operand& x, const ArgOptions& options = {});

/// In ascending order, NaN last; complex numbers by their real parts, then their imaginary ones. Equal elements keep
/// their order.
struct SortOptions {
  std::optional<std::int64_t> axis = -1;  ///< When not given, of the flattened array.
  bool descending = false;                ///< The other way round, NaN first.
};
Array sort(const Operand& x, const SortOptions& options = {});
/// The positions that sort x.
Array argsort(const Operand& x, const SortOptions& options = {});
/// The positions that sort by the last key, then by the one before it, and so on. Keys have one shape.
Array lexsort(const std::vector<Array>& keys, std::int64_t axis = -1, SourceLocation where = SourceLocation::current());

enum class Side : std::uint8_t { kLeft, kRight };
struct SearchOptions {
  Side side = Side::kLeft;
};
/// Where each of the values would stand in the sorted vector: before the elements equal to it, or after them.
Array searchsorted(const Operand& sorted, const Operand& values, const SearchOptions& options = {});

/// The positions of the elements that are not zero, an array for each dimension. Their number depends on x unless
/// `size` is given: it takes as many, or fills up with `fill_value`. Throws InvalidState for a tracer without a size.
struct NonzeroOptions {
  std::optional<std::int64_t> size = {};
  std::int64_t fill_value = 0;
};
std::vector<Array> nonzero(const Operand& x, const NonzeroOptions& options = {});
/// The same in the flattened array.
Array flatnonzero(const Operand& x, const NonzeroOptions& options = {});

struct BincountOptions {
  std::optional<Array> weights = {};        ///< What each element counts; 1 when not given.
  std::int64_t minlength = 0;               ///< The result has at least as many bins.
  std::optional<std::int64_t> length = {};  ///< The number of bins; larger values are not counted.
  OutSharding out_sharding = {};            ///< How Explicit axes split the result, where they split x.
};
/// How often each number from 0 on occurs in a vector; negative ones count as 0. Without a length, as many bins as the
/// greatest number needs: a tracer throws InvalidState then.
Array bincount(const Operand& x, const BincountOptions& options = {});

// ---- Items by position.

struct TakeOptions {
  std::optional<std::int64_t> axis = {};  ///< When not given, of the flattened array.
  IndexMode mode = IndexMode::kFill;      ///< In kClip, negative positions are the first.
  std::optional<Operand> fill_value = {};
};
/// x[..., indices, ...] along one axis.
Array take(const Operand& x, const Operand& indices, const TakeOptions& options = {});

struct TakeAlongOptions {
  IndexMode mode = IndexMode::kFill;
  std::optional<Operand> fill_value = {};
  bool wrap_negative_indices = true;  ///< Whether negative positions count from the end.
};
/// Along `axis`, the items at the indices of each line of its own; the other dimensions broadcast.
Array take_along_axis(const Operand& x, const Operand& indices, std::int64_t axis,
                      const TakeAlongOptions& options = {});
/// x with those items replaced by the values, which broadcast to the shape of the indices. Others are dropped.
Array put_along_axis(const Operand& x, const Operand& indices, const Operand& values, std::int64_t axis);

// ---- Cumulative sums and products.

struct CumulativeOptions {
  std::optional<std::int64_t> axis = {};  ///< When not given, of the flattened array.
  std::optional<Dtype> dtype = {};        ///< Default: that of x; i32 for bool.
};
Array cumsum(const Operand& x, const CumulativeOptions& options = {});
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
