// NumPy-style functions on arrays. Shapes broadcast and dtypes promote as in JAX; axes count from the end if negative.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
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
/// From literals: int gives i32, double f32, bool bool.
Array array(std::initializer_list<double> elements, const CreationOptions& options = {},
            SourceLocation where = SourceLocation::current());
Array array(std::initializer_list<float> elements, const CreationOptions& options = {},
            SourceLocation where = SourceLocation::current());
Array array(std::initializer_list<int> elements, const CreationOptions& options = {},
            SourceLocation where = SourceLocation::current());
Array array(std::initializer_list<bool> elements, const CreationOptions& options = {},
            SourceLocation where = SourceLocation::current());
Array array(std::initializer_list<std::initializer_list<double>> rows, const CreationOptions& options = {},
            SourceLocation where = SourceLocation::current());
Array array(std::initializer_list<std::initializer_list<int>> rows, const CreationOptions& options = {},
            SourceLocation where = SourceLocation::current());

Array zeros(const Shape& shape, const CreationOptions& options = {}, SourceLocation where = SourceLocation::current());
Array ones(const Shape& shape, const CreationOptions& options = {}, SourceLocation where = SourceLocation::current());
/// dtype: that of `value`, not weak.
Array full(const Shape& shape, const Operand& value, const CreationOptions& options = {});
/// [0, 1, …] up to `stop`, or start, start + step, … up to it. i32 for integers, f32 for floats.
Array arange(const Operand& stop, const CreationOptions& options = {});
Array arange(const Operand& start, const Operand& stop, const CreationOptions& options = {});
Array arange(const Operand& start, const Operand& stop, const Operand& step, const CreationOptions& options = {});

// ---- Elementwise functions: one for each row of elementwise.def.

#define SHOAL_UNARY(name, kinds, result, doc, body) Array name(const Operand& x);
#define SHOAL_BINARY(name, kinds, result, doc, body) Array name(const Operand& x, const Operand& y);
#include "shoal/elementwise.def"
#undef SHOAL_UNARY
#undef SHOAL_BINARY

/// x where `condition` holds, y elsewhere.
Array where(const Operand& condition, const Operand& x, const Operand& y);
Array astype(const Operand& x, Dtype dtype);

// ---- Reductions. bool sums count in i32; means of integers are f32.

Array sum(const Operand& x, const ReduceOptions& options = {});
Array prod(const Operand& x, const ReduceOptions& options = {});
Array max(const Operand& x, const ReduceOptions& options = {});
Array min(const Operand& x, const ReduceOptions& options = {});
Array mean(const Operand& x, const ReduceOptions& options = {});
Array any(const Operand& x, const ReduceOptions& options = {});
Array all(const Operand& x, const ReduceOptions& options = {});

// ---- Contractions.

/// The matrix product of the last two dimensions; leading dimensions broadcast. Vectors are taken as one row or column,
/// which the result lacks again. Throws InvalidArgument for scalars and for inner extents that differ.
Array matmul(const Operand& x, const Operand& y);
/// NumPy's dot: like matmul for ranks up to 2, a product for scalars, and else a sum over the last dimension of x and
/// the last but one of y.
Array dot(const Operand& x, const Operand& y);

// ---- Shapes.

/// One extent may be -1: it follows from the others.
Array reshape(const Operand& x, const Dims& shape);
/// The dimensions reversed, or in the order of `axes`.
Array transpose(const Operand& x, const std::optional<Dims>& axes = {});
Array broadcast_to(const Operand& x, const Shape& shape);
Array expand_dims(const Operand& x, std::int64_t axis);
Array squeeze(const Operand& x, const Axes& axis = {});
Array ravel(const Operand& x);

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
}  // namespace detail

template <Element T>
Array array(std::span<const T> elements, const Shape& shape, const CreationOptions& options, SourceLocation where) {
  if (static_cast<std::int64_t>(elements.size()) != num_elements(shape)) {
    throw InvalidArgument(
        "array: " + std::to_string(elements.size()) + " elements do not fill shape " + to_string(shape), where);
  }
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
