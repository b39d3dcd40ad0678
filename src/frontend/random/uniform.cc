// Keys, bits, and numbers that are equally likely.
#include <algorithm>
#include <cmath>
#include <concepts>
#include <limits>
#include <type_traits>
#include <variant>

#include "base/caller.h"
#include "base/misuse.h"
#include "core/dispatch.h"
#include "frontend/array/promotion.h"
#include "frontend/array/promotion_mode.h"
#include "frontend/random/generator.h"
#include "frontend/random/samples.h"
#include "shoal/lax.h"
#include "shoal/numpy.h"
#include "shoal/random.h"

namespace shoal::random {

// ---- Keys.

void set_default_implementation(const std::string& name, SourceLocation where) {
  const Caller caller("set_default_implementation", where);
  KeyMode mode = key_mode();
  mode.implementation = implementation_named(name);
  set_key_mode(mode);
}

std::string default_implementation() { return name_of(key_mode().implementation); }

Dtype key_dtype(const Implementation& impl, SourceLocation where) {
  const Caller caller("key_dtype", where);
  return dtype_of_keys(implementation_named(impl));
}

Array PRNGKey(const Operand& seed, const Implementation& impl) {
  const Caller caller("PRNGKey", seed.where());
  const KeyImplementation implementation = implementation_named(impl);
  const DtypeAndWeakness element = element_of(seed);
  if (!is_integer(element.dtype) || !shape_of(seed).empty()) {
    throw misuse<TypeMismatch>("the seed is {}; it must be an integer scalar", type_of(to_array(seed)));
  }
  if (seed.number() == nullptr) return raw_key_of_seed(*seed.array(), implementation);
  // As JAX does, which takes numbers as i32.
  const auto lower = std::visit(
      [](auto value) {
        if constexpr (std::integral<decltype(value)>) return static_cast<std::uint32_t>(value);
        return std::uint32_t{0};
      },
      *seed.number());
  return raw_key_of_seed(parameter(lower, uint32), implementation);
}

Array key(const Operand& seed, const Implementation& impl) {
  const Caller caller("key", seed.where());
  return typed_keys(PRNGKey(seed, impl), implementation_named(impl));
}

Array wrap_key_data(const Operand& bits, const Implementation& impl) {
  const Caller caller("wrap_key_data", bits.where());
  const Array array = to_array(bits);
  if (is_key(array.dtype())) throw misuse<TypeMismatch>("takes bits, not the keys {}", type_of(array));
  return typed_keys(array, implementation_named(impl));
}

Array key_data(const Operand& keys) {
  const Caller caller("key_data", keys.where());
  return raw_keys(any_keys(keys));
}

std::string key_impl(const Operand& keys) {
  const Caller caller("key_impl", keys.where());
  return name_of(implementation_of(any_keys(keys)));
}

Array split(const Operand& key, std::int64_t num) {
  const Caller caller("split", key.where());
  return split(key, Shape{num});
}

Array split(const Operand& key, const Shape& shape) {
  const Caller caller("split", key.where());
  check_extents(shape);
  return split_key(single_key(key), shape);
}

Array fold_in(const Operand& key, const Operand& data) {
  const Caller caller("fold_in", key.where());
  const Array single = single_key(key);
  if (!shape_of(data).empty()) {
    throw misuse<TypeMismatch>("the data is {}; it must be a scalar, and vmap takes each", type_of(*data.array()));
  }
  return fold_in_key(single, parameter(data, uint32));
}

Array clone(const Operand& key) {
  const Caller caller("clone", key.where());
  return cloned_keys(any_keys(key));
}

// ---- Bits and floats.

Array bits(const Operand& key, const Shape& shape, Dtype dtype) {
  const Caller caller("bits", key.where());
  if (!is_integer(dtype) || is_signed(dtype)) {
    throw misuse<InvalidArgument>("dtype is {}; bits are uint8, uint16, uint32 or uint64", name_of(dtype));
  }
  check_extents(shape);
  return random_bits(single_key(key), static_cast<std::int64_t>(8 * size_of(dtype)), shape);
}

namespace {

// A bound that is known: rounded to the dtype.
double rounded(const Operand& number, Dtype dtype) {
  return to_scalar(*number.number(), dtype).converted_to(float64).as<double>();
}

bool is_power_of_two(double x) {
  int exponent = 0;
  return std::frexp(x, &exponent) == 0.5;
}

// The numbers of unit_floats stretched from [0, 1) to between the bounds.
Array stretched(const Array& unit, const Operand& minval, const Operand& maxval) {
  const Dtype dtype = unit.dtype();
  const Array low = parameter(minval, dtype);
  const Array high = parameter(maxval, dtype);
  // Products by powers of two are exact: the usual bounds need no more than a sum.
  bool is_exact = false;
  if (minval.number() != nullptr && maxval.number() != nullptr) {
    const double from = rounded(minval, dtype);
    const double extent = rounded(rounded(maxval, dtype) - from, dtype);
    if (from == 0 && extent == 1) return unit;
    is_exact = is_power_of_two(extent);
  }
  const Array extent = high - low;
  const Array value = is_exact ? unit * extent + low : multiply_add(unit, extent, low);
  return maximum(low, value);
}

}  // namespace

Array uniform(const Operand& key, const Shape& shape, Dtype dtype, const Operand& minval, const Operand& maxval) {
  const Caller caller("uniform", key.where());
  check_floats(dtype);
  sample_shape(shape, {shape_of(minval), shape_of(maxval)});
  return stretched(unit_floats(single_key(key), shape, dtype), minval, maxval);
}

// ---- Integers.

namespace {

struct Limits {
  std::int64_t least;
  std::uint64_t greatest;
};

Limits limits_of(Dtype dtype) {
  return with_element_type(dtype, []<class T>(T) -> Limits {
    if constexpr (std::is_integral_v<T>) {
      return {static_cast<std::int64_t>(std::numeric_limits<T>::min()),
              static_cast<std::uint64_t>(std::numeric_limits<T>::max())};
    }
    return {0, 0};
  });
}

// A bound of integers: an array of them as it is, a number of any size.
Array bound_of(const Operand& bound) {
  if (bound.array() != nullptr) return is_integer(bound.array()->dtype()) ? *bound.array() : parameter(bound, int32);
  const std::uint64_t* large = std::get_if<std::uint64_t>(bound.number());
  return parameter(bound, large != nullptr && *large > limits_of(int64).greatest ? uint64 : int64);
}

// The greatest element of a dtype that is at most a number.
Array greatest_up_to(std::uint64_t greatest, Dtype dtype) {
  return parameter(std::min(greatest, limits_of(dtype).greatest), dtype);
}

Array clipped(const Array& x, const Limits& limits, Dtype dtype) {
  const Array least = parameter(std::max(limits.least, limits_of(x.dtype()).least), x.dtype());
  return convert(minimum(maximum(x, least), greatest_up_to(limits.greatest, x.dtype())), dtype);
}

// Integers of 32 or 64 bits from low up to high - 1, or up to the greatest one.
Array integers_between(const Array& key, const Shape& shape, const Array& minval, const Array& maxval, Dtype dtype) {
  const Limits limits = limits_of(dtype);
  const auto width = static_cast<std::int64_t>(8 * size_of(dtype));
  const Array low = clipped(minval, limits, dtype);
  const Array high = clipped(maxval, limits, dtype);
  const Array is_beyond = maxval > greatest_up_to(limits.greatest, maxval.dtype());
  const Array keys = split_key(key, {2});
  const Array upper = random_bits(key_at(keys, 0), width, shape);
  const Array lower = random_bits(key_at(keys, 1), width, shape);
  const Array distance = convert(high - low, upper.dtype());
  const Array span = where(high <= low, 1, where(is_beyond, distance + 1, distance));
  // A span of 0 is that of all integers.
  const auto rest = [&](const Array& x) { return where(span == 0, x, remainder(x, span)); };
  // The remainder of upper * 2^width + lower, in which 2^width is the square of a number that the dtype holds.
  const Array root = rest(parameter(std::int64_t{1} << (width / 2), upper.dtype()));
  const Array factor = rest(root * root);
  return low + convert(rest(rest(upper) * factor + rest(lower)), dtype);
}

}  // namespace

Array randint(const Operand& key, const Shape& shape, const Operand& minval, const Operand& maxval, Dtype dtype) {
  const Caller caller("randint", key.where());
  if (!is_integer(dtype)) {
    throw misuse<TypeMismatch>("dtype is {}; it must be one of integers", name_of(dtype));
  }
  sample_shape(shape, {shape_of(minval), shape_of(maxval)});
  const Array single = single_key(key);
  Array low = bound_of(minval);
  Array high = bound_of(maxval);
  if (size_of(dtype) >= size_of(int32)) return integers_between(single, shape, low, high, dtype);
  // In i32, where the end may be one more than the dtype holds.
  Limits limits = limits_of(dtype);
  low = clipped(low, limits, int32);
  ++limits.greatest;
  high = clipped(high, limits, int32);
  return convert(integers_between(single, shape, low, high, int32), dtype);
}

Array bernoulli(const Operand& key, const Operand& p, const SampleShape& shape, const std::string& mode) {
  const Caller caller("bernoulli", key.where());
  check_word("mode", mode, {"low", "high"});
  const Dtype dtype = element_of(p).dtype;
  if (!is_floating(dtype)) throw misuse<TypeMismatch>("p is {}; probabilities are floats", name_of(dtype));
  const Shape wanted = sample_shape(shape, {shape_of(p)});
  const Array probability = parameter(p, dtype);
  const Array single = single_key(key);
  if (mode == "low") return unit_floats(single, wanted, dtype) < probability;
  const Array both = unit_floats(single, joined({2}, wanted), dtype);
  return both[1] * format_of(dtype).epsilon < probability - both[0];
}

Array rademacher(const Operand& key, const Shape& shape, Dtype dtype) {
  const Caller caller("rademacher", key.where());
  // The bits of JAX, which has 64-bit types only in a mode in which 0.5 is f64, whatever the signs are wanted as.
  const bool is_wide = has_wide_numbers() || size_of(real_dtype(dtype)) == 8;
  const Array half = full({}, 0.5, {.dtype = is_wide ? float64 : float32});
  const Array sign = convert(bernoulli(key, half, shape), dtype);
  return convert(2 * sign - 1, dtype);
}

}  // namespace shoal::random
