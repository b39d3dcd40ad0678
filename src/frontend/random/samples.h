// What samplers share: their dtypes and shapes, and uniform numbers.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>

#include "core/float_format.h"
#include "shoal/array.h"
#include "shoal/random.h"

namespace shoal::random {

/// Throws InvalidArgument unless samples of this dtype are floats.
void check_floats(Dtype dtype);
/// The same; complex numbers are taken, too.
void check_inexact(Dtype dtype);
/// Throws InvalidArgument unless `given` is one of the words.
void check_word(std::string_view argument, std::string_view given, std::initializer_list<std::string_view> words);
/// Throws InvalidArgument if a parameter has a dtype that would be rounded in that of the samples.
void check_safe(Dtype dtype, std::initializer_list<const Operand*> parameters);

Shape shape_of(const Operand& operand);
/// The shape of a sample whose parameters have these shapes. Throws InvalidArgument unless they broadcast to it.
Shape sample_shape(const SampleShape& given, std::initializer_list<Shape> parameters);
/// a, and then b.
Shape joined(const Shape& a, const Shape& b);

/// The operand as an array of a dtype, not weak.
Array parameter(const Operand& operand, Dtype dtype);
/// The operand as it is, which may widen the samples; a number in f64 if they are.
Array own_parameter(const Operand& operand, Dtype dtype);
/// Two operands as floats of one dtype, but of their own shapes.
std::pair<Array, Array> floats_of(const Operand& x, const Operand& y);

/// Numbers from 0 up to, but not including, 1: multiples of the distance below 2.
Array unit_floats(const Array& key, const Shape& shape, Dtype dtype);
/// Functions with the bits of JAX, so that samples are JAX's also where what is random nearly cancels.
Array quick_log(const Array& x);
Array quick_log1p(const Array& x);
Array quick_erf(const Array& x);

/// The value of a polynomial, by Horner's rule; the first coefficient is the constant.
Array polynomial(const Array& x, std::span<const double> coefficients);
/// a * b + c, rounded once in f32 and f64, as compiled programs of JAX do.
Array multiply_add(const Array& a, const Array& b, const Array& c);

/// A parameter that differs between devices as the key does: loops, which keep types, begin with others like it.
Array varying_with(const Array& key, const Array& parameter);

}  // namespace shoal::random
