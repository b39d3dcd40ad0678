#include "shoal/initializers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/promotion.h"
#include "frontend/random/generator.h"
#include "frontend/random/samples.h"
#include "shoal/lax.h"
#include "shoal/random.h"

namespace shoal::nn::initializers {
namespace {

// The standard deviations of what is left of normal numbers of variance 1 between -2 and 2, and of complex ones in the
// circle of radius 2.
constexpr double kTruncatedDeviation = 0.87962566103423978;
constexpr double kTruncatedComplexDeviation = 0.95311164380491208;

Array number_of(double value, Dtype dtype) { return constant(Scalar::of(value).converted_to(dtype), false, {}); }

// The extent of some dimensions together.
std::int64_t extent_along(const Shape& shape, const Dims& axes) {
  std::int64_t extent = 1;
  for (const std::int64_t d : canonical_axes(axes, shape.size())) extent *= shape[static_cast<std::size_t>(d)];
  return extent;
}

// By what the variance is divided.
double fan_of(const Shape& shape, const VarianceScalingOptions& options) {
  random::check_word("mode", options.mode, {"fan_in", "fan_out", "fan_avg", "fan_geo_avg"});
  if (shape.size() < 2 && options.in_axis == VarianceScalingOptions().in_axis) {
    throw misuse<InvalidArgument>(
        "shape {} has {} dimensions, and should have at least 2, of which the last two are inputs and outputs; or say "
        "by in_axis and out_axis which these are",
        to_string(shape), shape.size());
  }
  const auto inputs = static_cast<double>(extent_along(shape, options.in_axis));
  const auto outputs = static_cast<double>(extent_along(shape, options.out_axis));
  const auto layers = static_cast<double>(extent_along(shape, options.batch_axis));
  const double windows = static_cast<double>(num_elements(shape)) / inputs / outputs / layers;
  if (options.mode == "fan_in") return inputs * windows;
  if (options.mode == "fan_out") return outputs * windows;
  if (options.mode == "fan_avg") return (inputs * windows + outputs * windows) / 2;
  return std::sqrt(inputs * windows * outputs * windows);
}

// Complex numbers whose absolute values are `radius` of uniform numbers, in all directions.
template <class F>
Array in_all_directions(const Operand& key, const Shape& shape, Dtype dtype, F&& radius) {
  const Array keys = random::split_key(random::single_key(key), {2});
  const auto uniform = [&](std::int64_t i) {
    return convert(random::uniform(random::key_at(keys, i), shape, real_dtype(dtype)), dtype);
  };
  const Array length = radius(uniform(0));
  return length * exp(uniform(1) * (2 * std::numbers::pi) * std::complex<double>(0, 1));
}

}  // namespace

Array uniform(const Operand& key, const Shape& shape, Dtype dtype, const Operand& scale) {
  const Caller caller("uniform", key.where());
  return random::uniform(key, shape, dtype) * random::parameter(scale, dtype);
}

Array normal(const Operand& key, const Shape& shape, Dtype dtype, const Operand& stddev) {
  const Caller caller("normal", key.where());
  return random::normal(key, shape, dtype) * random::parameter(stddev, dtype);
}

Array truncated_normal(const Operand& key, const Shape& shape, Dtype dtype, const Operand& stddev, const Operand& lower,
                       const Operand& upper) {
  const Caller caller("truncated_normal", key.where());
  return random::truncated_normal(key, lower, upper, shape, dtype) * random::parameter(stddev, dtype);
}

Array variance_scaling(const Operand& key, const Shape& shape, const VarianceScalingOptions& options, Dtype dtype) {
  const Caller caller("variance_scaling", key.where());
  random::check_inexact(dtype);
  random::check_word("distribution", options.distribution, {"truncated_normal", "normal", "uniform"});
  check_extents(shape);
  const double fan = fan_of(shape, options);
  const Array variance = options.scale.number() == nullptr
                             ? (options.scale / fan).astype(dtype)
                             : number_of(to_scalar(*options.scale.number(), float64).as<double>() / fan, dtype);
  if (options.distribution == "normal") return random::normal(key, shape, dtype) * sqrt(variance);
  if (options.distribution == "uniform") {
    if (!is_complex(dtype)) return random::uniform(key, shape, dtype, -1.0) * sqrt(3.0 * variance);
    return in_all_directions(key, shape, dtype, [](const Array& u) { return sqrt(u); }) * sqrt(2.0 * variance);
  }
  if (!is_complex(dtype)) {
    const Array deviation = sqrt(variance) / number_of(kTruncatedDeviation, dtype);
    return random::truncated_normal(key, -2.0, 2.0, shape, dtype) * deviation;
  }
  const Array deviation = sqrt(variance) / number_of(kTruncatedComplexDeviation, dtype);
  const auto radius = [&](const Array& u) { return sqrt(-log(1.0 - (1.0 - exp(number_of(-4, dtype))) * u)); };
  return in_all_directions(key, shape, dtype, radius) * deviation;
}

Array orthogonal(const Operand& key, const Shape& shape, Dtype dtype, const Operand& scale, std::int64_t column_axis) {
  const Caller caller("orthogonal", key.where());
  random::check_inexact(dtype);
  check_extents(shape);
  if (shape.size() < 2) {
    throw misuse<InvalidArgument>("shape {} has {} dimensions, and should have at least 2", to_string(shape),
                                  shape.size());
  }
  const std::int64_t axis = canonical_axis(column_axis, shape.size());
  const std::int64_t columns = shape[static_cast<std::size_t>(axis)];
  Shape split = shape;
  split.erase(split.begin() + axis);
  const std::int64_t rows = num_elements(split);
  split.push_back(columns);
  const Array matrix = reshape(random::orthogonal(key, rows, {}, dtype, columns), split);
  return random::parameter(scale, dtype) * moveaxis(matrix, -1, axis);
}

Array delta_orthogonal(const Operand& key, const Shape& shape, Dtype dtype, const Operand& scale,
                       std::int64_t column_axis) {
  const Caller caller("delta_orthogonal", key.where());
  random::check_inexact(dtype);
  check_extents(shape);
  if (shape.size() < 3 || shape.size() > 5) {
    throw misuse<InvalidArgument>("shape {} has {} dimensions, and should have 3, 4 or 5", to_string(shape),
                                  shape.size());
  }
  const std::int64_t inputs = shape[shape.size() - 2];
  if (shape.back() < inputs) {
    throw misuse<InvalidArgument>("shape {} has {} inputs and {} outputs; there must be as many outputs at least",
                                  to_string(shape), inputs, shape.back());
  }
  const Array matrix = orthogonal(key, {inputs, shape.back()}, dtype, scale, column_axis);
  std::vector<IndexEntry> middle;
  for (std::size_t d = 0; d + 2 < shape.size(); ++d) middle.emplace_back((shape[d] - 1) / 2);
  return zeros(shape, {.dtype = dtype}).at(middle).set(matrix);
}

}  // namespace shoal::nn::initializers
