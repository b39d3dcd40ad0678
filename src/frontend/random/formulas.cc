// Distributions whose inverse is a formula of uniform numbers.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/caller.h"
#include "frontend/array/promotion.h"
#include "frontend/random/generator.h"
#include "frontend/random/samples.h"
#include "shoal/lax.h"
#include "shoal/numpy.h"
#include "shoal/random.h"

namespace shoal::random {

Array exponential(const Operand& key, const Shape& shape, Dtype dtype) {
  const Caller caller("exponential", key.where());
  return -quick_log1p(-uniform(key, shape, dtype));
}

Array laplace(const Operand& key, const Shape& shape, Dtype dtype) {
  const Caller caller("laplace", key.where());
  check_floats(dtype);
  const Array u = uniform(key, shape, dtype, -1 + format_of(dtype).epsilon / 2, 1.0);
  return sign(u) * quick_log1p(-abs(u));
}

Array logistic(const Operand& key, const Shape& shape, Dtype dtype) {
  const Caller caller("logistic", key.where());
  check_floats(dtype);
  const Array u = uniform(key, shape, dtype, format_of(dtype).tiny, 1.0);
  return quick_log(u) - quick_log1p(-u);
}

Array cauchy(const Operand& key, const Shape& shape, Dtype dtype) {
  const Caller caller("cauchy", key.where());
  check_floats(dtype);
  const Array u = uniform(key, shape, dtype, format_of(dtype).epsilon, 1.0);
  return tan(M_PI * (u - 0.5));
}

namespace {

// -log(u) of a number of 64 bits, which is more than f32 tells of those next to 0 and 1: the distance from 0 or, if
// that is less, from 1 is what is rounded.
Array minus_log_of_bits(const Array& key, const Shape& shape) {
  const Array words = convert(random_bits(key, 32, joined({2}, shape)), uint64);
  const Array whole = left_shift(words[0], 32) | words[1];
  const Array is_low = shift_right_logical(whole, 63) == 0;
  const Array distance = where(is_low, whole, -whole);
  // The leading 24 bits, so that the conversion is exact.
  const Array rest = maximum(40 - convert(clz(distance), int32), 0);
  const Array leading = left_shift(shift_right_logical(distance, convert(rest, uint64)), convert(rest, uint64));
  const Array u = where(distance == 0, 0x1p-65, convert(leading, float32) * 0x1p-64);
  return where(is_low, -quick_log1p(-u), -quick_log(u));
}

}  // namespace

Array gumbel(const Operand& key, const Shape& shape, Dtype dtype, const std::string& mode) {
  const Caller caller("gumbel", key.where());
  check_floats(dtype);
  check_word("mode", mode, {"low", "high", "highest"});
  check_extents(shape);
  const auto [width, mantissa, epsilon, tiny] = format_of(dtype);
  if (mode == "low") return -quick_log(-quick_log(uniform(key, shape, dtype, tiny, 1.0)));
  const Array single = single_key(key);
  if (mode == "highest" && dtype == float32) return -quick_log(minus_log_of_bits(single, shape));
  const Array both = unit_floats(single, joined({2}, shape), dtype);
  // Further bits where there is room for them.
  const Array finer = both[0] + epsilon * both[1] + std::max(epsilon * epsilon / 2, tiny);
  const Array u = where(both[0] >= 0.5, both[0], finer);
  return -quick_log(-quick_log1p(-u));
}

Array weibull_min(const Operand& key, const Operand& scale, const Operand& concentration, const Shape& shape,
                  Dtype dtype) {
  const Caller caller("weibull_min", key.where());
  return power(exponential(key, shape, dtype), 1.0 / own_parameter(concentration, dtype)) * own_parameter(scale, dtype);
}

Array pareto(const Operand& key, const Operand& b, const SampleShape& shape, Dtype dtype) {
  const Caller caller("pareto", key.where());
  check_floats(dtype);
  check_safe(dtype, {&b});
  return exp(exponential(key, sample_shape(shape, {shape_of(b)}), dtype) / parameter(b, dtype));
}

Array triangular(const Operand& key, const Operand& left, const Operand& mode, const Operand& right,
                 const SampleShape& shape, Dtype dtype) {
  const Caller caller("triangular", key.where());
  check_floats(dtype);
  check_safe(dtype, {&left, &mode, &right});
  const Shape wanted = sample_shape(shape, {shape_of(left), shape_of(mode), shape_of(right)});
  const Array from = parameter(left, dtype);
  const Array top = parameter(mode, dtype);
  const Array to = parameter(right, dtype);
  const Array u = uniform(key, wanted, dtype);
  const Array rising = from + sqrt(u * (to - from) * (top - from));
  const Array falling = to - sqrt((1.0 - u) * (to - from) * (to - top));
  return where(u < (top - from) / (to - from), rising, falling);
}

}  // namespace shoal::random
