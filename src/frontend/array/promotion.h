// From operands to arrays of one dtype and shape.
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/caller.h"
#include "frontend/array/array_impl.h"
#include "ir/attrs.h"
#include "ops/elementwise.h"
#include "shoal/array.h"

namespace shoal {

/// The operand as an array; a C++ scalar becomes a weak scalar in memory `memory`. Throws InvalidState for an Array
/// without a value.
Array to_array(const Operand& operand, MemoryKind memory = {});

/// A scalar array of the program, or outside any trace one at once.
Array constant(const Scalar& value, bool weak, MemoryKind memory);

/// The value of a number in a dtype. Throws OutOfRange if an integer dtype cannot hold it.
Scalar to_scalar(const Operand::Number& number, Dtype dtype);

/// The same as a scalar array in memory `memory`.
Array scalar_of(const Operand::Number& number, DtypeAndWeakness element, MemoryKind memory);

DtypeAndWeakness element_of(const Operand& operand);

/// What functions of floats take arrays of this dtype as: f64 for integers of 64 bits, f32 for all other integers and
/// bool; the same dtype for floats and complex numbers.
Dtype inexact_dtype(Dtype dtype);

/// The operands as arrays of one dtype, that of the promotion rules, or what an op that takes only `kinds` computes in:
/// that of inexact_dtype() where it takes floats. Shapes broadcast; scalars stay scalars.
/// Throws InvalidArgument, showing the shapes, if they do not broadcast, and TypeMismatch if the op does not take them.
std::vector<Array> promote(Kinds kinds, std::span<const Operand* const> operands);
std::vector<Array> promote(Kinds kinds, std::initializer_list<const Operand*> operands);
/// The same for operands whose ranks may differ whatever set_rank_promotion says.
std::vector<Array> promote_of_any_rank(Kinds kinds, std::initializer_list<const Operand*> operands);
/// Refuses what promote() does while promotion is strict, for a function of the user's call that leaves it to others.
void check_promotion(std::initializer_list<const Operand*> operands);

/// Throws InvalidArgument for a shape with a negative extent.
void check_extents(const Shape& shape);

/// The dimensions between 0 and rank - 1 that `axes` names, ascending; all if none are given. Throws OutOfRange and,
/// for one that is given twice, InvalidArgument.
Dims canonical_axes(const Axes& axes, std::size_t rank);

/// The array in another dtype.
Array convert(const Array& array, Dtype dtype, bool weak = false);

/// Throws TypeMismatch for an array of complex numbers, of which none is greater than another: for functions that
/// compare without an op that does.
void check_ordered(const Array& array);

/// Whether each element is not 0.
Array truth(const Operand& x);

/// The shape that both broadcast to. Throws InvalidArgument if they do not.
Shape broadcast_shapes(const Shape& a, const Shape& b);
Array broadcast(const Array& array, const Shape& shape);

/// A dimension number between 0 and rank - 1 for one counted from either end. Throws OutOfRange.
std::int64_t canonical_axis(std::int64_t axis, std::size_t rank);
/// Of a canonical axis.
inline std::int64_t extent_of(const Array& x, std::int64_t axis) { return x.shape()[static_cast<std::size_t>(axis)]; }

/// formula(x...), where operands are promoted as promote() says, and those of f16 and bf16 are taken as f32: the result
/// alone is rounded.
template <class F, class... Operands>
Array at_least_f32(Kinds kinds, F&& formula, const Operands&... x) {
  const std::array<Operand, sizeof...(Operands)> operands = {Operand(x)...};
  std::array<const Operand*, sizeof...(Operands)> given;
  for (std::size_t i = 0; i < given.size(); ++i) given[i] = &operands[i];
  std::vector<Array> arrays = promote(kinds, given);
  const Dtype dtype = arrays[0].dtype();
  const bool is_half = is_floating(dtype) && size_of(dtype) < size_of(float32);
  if (is_half) {
    for (Array& array : arrays) array = convert(array, float32);
  }
  const auto call = [&]<std::size_t... I>(std::index_sequence<I...>) { return formula(arrays[I]...); };
  const Array result = call(std::index_sequence_for<Operands...>());
  return is_half ? convert(result, dtype) : result;
}

}  // namespace shoal
