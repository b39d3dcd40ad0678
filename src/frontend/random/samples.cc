#include "frontend/random/samples.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/misuse.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/promotion.h"
#include "frontend/array/trace.h"
#include "frontend/random/generator.h"
#include "shoal/lax.h"
#include "shoal/numpy.h"

namespace shoal::random {
namespace {

// The upper part of f64, so that products of two such parts, and of one with a rest, are exact.
Array upper_part(const Array& x) {
  const Array mask = full({}, ~((std::uint64_t{1} << 27) - 1), {.dtype = uint64});
  return lax::bitcast_convert_type(lax::bitcast_convert_type(x, uint64) & mask, float64);
}

// a * b + c in f64, with what the product and the sum lose (Dekker 1971, Knuth) added at the end. `a` has a bit less
// than others.
Array fused(const Array& a, const Array& b, const Array& c) {
  const Array a_high = upper_part(a);
  const Array a_low = a - a_high;
  const Array b_high = upper_part(b);
  const Array b_low = b - b_high;
  const Array product = a * b;
  const Array lost = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low;
  const Array sum = product + c;
  const Array added = sum - product;
  return sum + ((product - (sum - added)) + (c - added) + lost);
}

}  // namespace

void check_floats(Dtype dtype) {
  if (is_floating(dtype)) return;
  throw misuse<InvalidArgument>("dtype is {}; samples are float16, bfloat16, float32 or float64", name_of(dtype));
}

void check_inexact(Dtype dtype) {
  if (is_floating(dtype) || is_complex(dtype)) return;
  throw misuse<InvalidArgument>("dtype is {}; samples are floats or complex numbers", name_of(dtype));
}

void check_word(std::string_view argument, std::string_view given, std::initializer_list<std::string_view> words) {
  if (std::find(words.begin(), words.end(), given) != words.end()) return;
  throw misuse<InvalidArgument>("{} '{}' does not exist; there are '{}'", argument, given, fmt::join(words, "', '"));
}

void check_safe(Dtype dtype, std::initializer_list<const Operand*> parameters) {
  for (const Operand* operand : parameters) {
    const DtypeAndWeakness given = element_of(*operand);
    if (promote_types(given, {dtype}).dtype == dtype) continue;
    throw misuse<InvalidArgument>(
        "a parameter is {}, which samples of {} would round; convert it, or ask for another "
        "dtype",
        name_of(given.dtype), name_of(dtype));
  }
}

Shape shape_of(const Operand& operand) { return operand.array() == nullptr ? Shape{} : operand.array()->shape(); }

Shape sample_shape(const SampleShape& given, std::initializer_list<Shape> parameters) {
  Shape together;
  for (const Shape& shape : parameters) together = broadcast_shapes(together, shape);
  if (!given.get()) return together;
  check_extents(*given.get());
  if (broadcast_shapes(*given.get(), together) == *given.get()) return *given.get();
  throw misuse<InvalidArgument>("parameters of shape {} do not broadcast to shape {}, which the sample shall have",
                                to_string(together), to_string(*given.get()));
}

Shape joined(const Shape& a, const Shape& b) {
  Shape shape = a;
  shape.insert(shape.end(), b.begin(), b.end());
  return shape;
}

Array parameter(const Operand& operand, Dtype dtype) {
  if (operand.number() != nullptr) return constant(to_scalar(*operand.number(), dtype), false, {});
  return convert(*operand.array(), dtype);
}

Array own_parameter(const Operand& operand, Dtype dtype) {
  const bool is_wide = operand.number() != nullptr && dtype == float64;
  return is_wide ? parameter(operand, float64) : to_array(operand);
}

std::pair<Array, Array> floats_of(const Operand& x, const Operand& y) {
  const DtypeAndWeakness element = promote_types(element_of(x), element_of(y));
  const Dtype dtype = inexact_dtype(element.dtype);
  return {parameter(x, dtype), parameter(y, dtype)};
}

Array unit_floats(const Array& key, const Shape& shape, Dtype dtype) {
  const FloatFormat format = format_of(dtype);
  const std::int64_t width = format.mantissa < 8 ? 8 : format.bits;
  const Dtype integers = unsigned_of(format.bits);
  const Array bits = convert(random_bits(key, width, shape), integers);
  // From 1 on all floats below 2 are as far apart, and have one exponent.
  const Array one = lax::bitcast_convert_type(full({}, 1, {.dtype = dtype}), integers);
  const Array mantissa = shift_right_logical(bits, width - format.mantissa);
  return lax::bitcast_convert_type(mantissa | one, dtype) - 1.0;
}

Array quick_log(const Array& x) { return bind_one("quick_log", {}, {x}); }
Array quick_log1p(const Array& x) { return bind_one("quick_log1p", {}, {x}); }
Array quick_erf(const Array& x) { return bind_one("quick_erf", {}, {x}); }

Array polynomial(const Array& x, std::span<const double> coefficients) {
  Array result = full({}, coefficients.back(), {.dtype = x.dtype()});
  for (std::size_t i = coefficients.size() - 1; i-- > 0;) result = result * x + coefficients[i];
  return result;
}

Array multiply_add(const Array& a, const Array& b, const Array& c) {
  const Dtype dtype = a.dtype();
  if (dtype == float64) return fused(a, b, c);
  if (dtype != float32) return a * b + c;
  const auto wide = [](const Array& x) { return convert(x, float64); };
  return convert(wide(a) * wide(b) + wide(c), float32);  // The product is exact.
}

Array varying_with(const Array& key, const Array& parameter) {
  return varying_over(parameter, detail::impl_of(key).type.varying);
}

}  // namespace shoal::random
