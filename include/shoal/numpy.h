// NumPy-style functions on arrays. Shapes broadcast and dtypes promote as in JAX; axes count from the end if negative.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
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
Array float_power(const Operand& x, const Operand& y);  ///< power of floats; integers are taken as f32.
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

// ---- Reductions. bool sums count in i32; means, variances and what is made of them are f32 of integers, and those of
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
Array matmul(const Operand& x, const Operand& y);
/// NumPy's dot: like matmul for ranks up to 2, a product for scalars, and else a sum over the last dimension of x and
/// the last but one of y.
Array dot(const Operand& x, const Operand& y);
/// The sum over the last dimension of both; a product for scalars.
Array inner(const Operand& x, const Operand& y);
/// The products of all elements of x with all of y, a matrix.
Array outer(const Operand& x, const Operand& y);
/// The sum of conj(x) y over all elements, which must be of one number.
Array vdot(const Operand& x, const Operand& y);
/// The sum of conj(x) y over a dimension of both; the others broadcast.
Array vecdot(const Operand& x, const Operand& y, std::int64_t axis = -1);
/// The sum over the last `axes` dimensions of x and the first of y.
Array tensordot(const Operand& x, const Operand& y, std::int64_t axes = 2);
/// The sum over pairs of dimensions.
Array tensordot(const Operand& x, const Operand& y, const Dims& x_axes, const Dims& y_axes);
/// The Kronecker product: blocks of y, times the elements of x.
Array kron(const Operand& x, const Operand& y);

struct EinsumOptions {
  std::optional<Dtype> preferred_element_type = {};  ///< What products are added in, and the result's dtype.
};
/// Products of the operands' elements, summed over the labels that the output lacks. `subscripts` gives a letter to
/// each dimension: "ij,jk->ik". Without an output it has, in alphabetic order, the labels that occur once. An ellipsis
/// stands for leading, middle or trailing dimensions that broadcast; a label twice in one operand takes its diagonal;
/// extents of 1 broadcast. Pairs of operands are contracted in the cheapest order, by number of multiplications, of up
/// to eight operands, and greedily of more. Throws InvalidArgument for subscripts that do not fit the operands.
Array einsum(std::string_view subscripts, const std::vector<Operand>& operands, const EinsumOptions& options = {});
Array einsum(std::string_view subscripts, const Operand& x, const EinsumOptions& options = {});
Array einsum(std::string_view subscripts, const Operand& x, const Operand& y, const EinsumOptions& options = {});
Array einsum(std::string_view subscripts, const Operand& x, const Operand& y, const Operand& z,
             const EinsumOptions& options = {});

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
