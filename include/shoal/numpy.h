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
