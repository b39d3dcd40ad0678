// From operands to arrays of one dtype and shape.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "frontend/array/array_impl.h"
#include "ir/attrs.h"
#include "ops/elementwise.h"
#include "shoal/array.h"

namespace shoal {

/// The operand as an array; a C++ scalar becomes a weak scalar in memory `memory`. Throws InvalidState for an Array
/// without a value.
Array to_array(const Operand& operand, MemoryKind memory = {});

/// A scalar array of the program, or outside any trace one at once.
Array constant(const Scalar& value, bool weak, MemoryKind memory, SourceLocation where);

/// The value of a number in a dtype. Throws OutOfRange if an integer dtype cannot hold it.
Scalar to_scalar(const Operand::Number& number, Dtype dtype, std::string_view op, SourceLocation where);

/// The same as a scalar array in memory `memory`.
Array scalar_of(const Operand::Number& number, DtypeAndWeakness element, MemoryKind memory, std::string_view op,
                SourceLocation where);

/// Dtype and weakness of an operand of `op`.
DtypeAndWeakness element_of(std::string_view op, const Operand& operand);

/// The operands as arrays of one dtype, that of the promotion rules, or what an op that takes only `kinds` computes in:
/// integers and bool become f32 where it takes floats. Shapes broadcast; scalars stay scalars.
/// Throws InvalidArgument, showing the shapes, if they do not broadcast, and TypeMismatch if the op does not take them.
std::vector<Array> promote(std::string_view op, Kinds kinds, std::span<const Operand* const> operands);

/// Throws InvalidArgument, naming `op`, for a shape with a negative extent.
void check_extents(std::string_view op, const Shape& shape, SourceLocation where);

/// The dimensions between 0 and rank - 1 that `axes` names, ascending; all if none are given. Throws OutOfRange and,
/// for one that is given twice, InvalidArgument.
Dims canonical_axes(std::string_view op, const Axes& axes, std::size_t rank, SourceLocation where);

/// The operand in another dtype.
Array convert(const Array& array, Dtype dtype, bool weak, SourceLocation where);

/// The shape that both broadcast to. Throws InvalidArgument if they do not.
Shape broadcast_shapes(std::string_view op, const Shape& a, const Shape& b, SourceLocation where);
Array broadcast(const Array& array, const Shape& shape, SourceLocation where);

/// A dimension number between 0 and rank - 1 for one counted from either end. Throws OutOfRange.
std::int64_t canonical_axis(std::string_view op, std::int64_t axis, std::size_t rank, SourceLocation where);

}  // namespace shoal
