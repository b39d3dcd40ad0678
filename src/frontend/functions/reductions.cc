// Reductions.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <type_traits>
#include <variant>

#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/promotion.h"
#include "frontend/array/trace.h"
#include "shoal/derivatives.h"
#include "shoal/numpy.h"

namespace shoal {
namespace {

// A plain reduction: its op, what changes nothing in it, and how two results are combined.
struct Reduction {
  const char* op;
  double neutral;
  Array (*combine)(const Operand&, const Operand&);
};

Shape with_units(Shape shape, const Dims& axes) {
  for (std::int64_t d : axes) shape[static_cast<std::size_t>(d)] = 1;
  return shape;
}

// x with `value` where the mask does not hold.
Array only_where(const Array& x, const Array& mask, const Operand& value) {
  const Array condition = truth(mask);
  const Shape& shape = x.shape();
  if (broadcast_shapes(shape, condition.shape()) != shape) {
    throw misuse<InvalidArgument>("the mask `where` of shape {} must broadcast to shape {}",
                                  to_string(condition.shape()), to_string(shape));
  }
  // In the dtype of x, whatever that of the value.
  const Array other = convert(to_array(value), x.dtype());
  return where(condition, x, other);
}

Array initial_value(const Array& x, const Array& initial) {
  if (initial.ndim() != 0) {
    throw misuse<InvalidArgument>("the initial value must be a scalar, not {}", type_of(initial));
  }
  return convert(initial, x.dtype());
}

void refuse_initial(const ReduceOptions& options) {
  if (!options.initial) return;
  throw misuse<InvalidArgument>("an initial value is for sum, prod, max and min");
}

Array reduce(const Reduction& reduction, const Array& given, const ReduceOptions& options) {
  const Dims axes = canonical_axes(options.axis, given.ndim());
  Array x = given;
  const bool chooses = std::isinf(reduction.neutral);  // max and min, whose neutral element not all dtypes have.
  if (options.where && chooses && !options.initial) {
    throw misuse<InvalidArgument>("a mask needs an initial value");
  }
  const auto initial = [&] { return initial_value(x, *options.initial); };
  if (options.where) {
    const Operand neutral = chooses ? Operand(initial()) : reduction.neutral;
    x = only_where(x, *options.where, neutral);
  }
  const Shape kept = with_units(given.shape(), axes);
  Array result;
  if (chooses && options.initial && given.size() == 0) {
    check_ordered(given);
    result = broadcast(initial(), kept);  // max and min of nothing.
    return options.keepdims ? result : squeeze(result, axes);
  }
  result = bind_one(reduction.op, {{"axes", axes}}, {x});
  if (options.initial) result = reduction.combine(result, initial());
  return options.keepdims ? reshape(result, kept) : result;
}

// What sums and products of a dtype are computed in: integers of at least 32 bits.
Array widened(const Operand& x) {
  const Array array = to_array(x);
  switch (array.dtype()) {
    case Dtype::kBool:
    case Dtype::kI8:
    case Dtype::kI16:
      return convert(array, int32);
    case Dtype::kU8:
    case Dtype::kU16:
      return convert(array, uint32);
    default:
      return array;
  }
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

constexpr Reduction kSum = {"reduce_sum", 0, add};
constexpr Reduction kProd = {"reduce_prod", 1, multiply};
constexpr Reduction kMax = {"reduce_max", -kInfinity, maximum};
constexpr Reduction kMin = {"reduce_min", kInfinity, minimum};
constexpr Reduction kOr = {"reduce_or", 0, bitwise_or};
constexpr Reduction kAnd = {"reduce_and", 1, bitwise_and};

}  // namespace

Array sum(const Operand& x, const ReduceOptions& options) {
  const Caller caller("sum", x.where());
  return reduce(kSum, widened(x), options);
}
Array prod(const Operand& x, const ReduceOptions& options) {
  const Caller caller("prod", x.where());
  return reduce(kProd, widened(x), options);
}
Array max(const Operand& x, const ReduceOptions& options) {
  const Caller caller("max", x.where());
  return reduce(kMax, to_array(x), options);
}
Array min(const Operand& x, const ReduceOptions& options) {
  const Caller caller("min", x.where());
  return reduce(kMin, to_array(x), options);
}
Array any(const Operand& x, const ReduceOptions& options) {
  const Caller caller("any", x.where());
  refuse_initial(options);
  return reduce(kOr, truth(x), options);
}
Array all(const Operand& x, const ReduceOptions& options) {
  const Caller caller("all", x.where());
  refuse_initial(options);
  return reduce(kAnd, truth(x), options);
}

Array ptp(const Operand& x, const ReduceOptions& options) {
  const Caller caller("ptp", x.where());
  const Array array = to_array(x);
  const Array greatest = reduce(kMax, array, options);
  const Array least = reduce(kMin, array, options);
  return (greatest - least);
}

Array count_nonzero(const Operand& x, const ReduceOptions& options) {
  const Caller caller("count_nonzero", x.where());
  refuse_initial(options);
  return reduce(kSum, convert(truth(x), int32), options);
}

namespace {

Array sum_of(const Array& x, const ReduceOptions& options) {
  refuse_initial(options);
  return reduce(kSum, x, options);
}

double number_of(const Operand::Number& number) {
  return std::visit(
      []<class T>(const T& value) -> double {
        if constexpr (std::is_arithmetic_v<T>) return static_cast<double>(value);
        throw misuse<TypeMismatch>("ddof is complex; it must be real");
      },
      number);
}

// `sums` divided by the number of elements that each adds up, less `ddof`; NaN if none are left.
Array divided_by_count(const Array& sums, const Array& x, const ReduceOptions& options, const Operand& ddof = 0) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const auto over = [&](const Array& count) { return sums / where(count > 0, convert(count, sums.dtype()), kNan); };
  const auto with_fractions = [&](const Operand& value) {
    return value.array() != nullptr ? Operand(convert(*value.array(), sums.dtype()))
                                    : Operand(number_of(*value.number()));
  };
  if (options.where) {
    const Array counted = only_where(ones(x.shape(), {.dtype = int32}), *options.where, 0);
    return over(sum_of(counted, {.axis = options.axis, .keepdims = options.keepdims}) - with_fractions(ddof));
  }
  double extents = 1;
  for (std::int64_t d : canonical_axes(options.axis, x.ndim())) {
    extents *= static_cast<double>(x.shape()[static_cast<std::size_t>(d)]);
  }
  if (ddof.array() != nullptr) {
    return over(extents - with_fractions(ddof));
  }
  const double count = extents - number_of(*ddof.number());
  return sums / (count > 0 ? count : kNan);
}

Array mean_of(const Array& x, const ReduceOptions& options) { return divided_by_count(sum_of(x, options), x, options); }

// real(conj(x) x).
Array squared_magnitude(const Array& x) {
  if (!is_complex(x.dtype())) return x * x;
  const Array re = real(x);
  const Array im = imag(x);
  return re * re + im * im;
}

Array variance_of(const Array& x, const VarianceOptions& given) {
  ReduceOptions options{.axis = given.axis, .keepdims = true, .where = given.where};
  const Array squares = squared_magnitude(x - mean_of(x, options));
  options.keepdims = given.keepdims;
  return divided_by_count(sum_of(squares, options), x, options, given.ddof);
}

void refuse_mask(const ReduceOptions& options) {
  if (options.where) throw misuse<InvalidArgument>("takes no mask `where`");
}

}  // namespace

Array mean(const Operand& x, const ReduceOptions& options) {
  const Caller caller("mean", x.where());
  return at_least_f32(
      kFractions, [&](const Array& v) { return mean_of(v, options); }, x);
}

Array var(const Operand& x, const VarianceOptions& options) {
  const Caller caller("var", x.where());
  return at_least_f32(
      kFractions, [&](const Array& v) { return variance_of(v, options); }, x);
}

Array std_(const Operand& x, const VarianceOptions& options) {
  const Caller caller("std", x.where());
  return at_least_f32(
      kFractions, [&](const Array& v) { return sqrt(variance_of(v, options)); }, x);
}

Array average(const Operand& x, const ReduceOptions& options) {
  const Caller caller("average", x.where());
  refuse_mask(options);
  return at_least_f32(
      kFractions, [&](const Array& v) { return mean_of(v, options); }, x);
}

Array average(const Operand& x, const Operand& weights, const ReduceOptions& options) {
  const Caller caller("average", x.where());
  refuse_mask(options);
  const Array values = to_array(x);
  Array factors = to_array(weights);
  const Dims axes = canonical_axes(options.axis, values.ndim());
  if (factors.shape() != values.shape()) {
    const bool fits = axes.size() == 1 && factors.ndim() == 1 &&
                      factors.shape()[0] == values.shape()[static_cast<std::size_t>(axes[0])];
    if (!fits) {
      throw misuse<InvalidArgument>(
          "weights of shape {} fit neither shape {} nor one axis of it, of those averaged over: {}",
          to_string(factors.shape()), to_string(values.shape()), to_string(axes));
    }
    Shape shape(values.ndim(), 1);
    shape[static_cast<std::size_t>(axes[0])] = factors.shape()[0];
    factors = broadcast(reshape(factors, shape), values.shape());
  }
  const auto formula = [&](const Array& v, const Array& w) { return sum_of(v * w, options) / sum_of(w, options); };
  return at_least_f32(kFractions, formula, values, factors);
}

Array logsumexp(const Operand& x, const ReduceOptions& options) {
  const Caller caller("logsumexp", x.where());
  refuse_initial(options);
  const auto formula = [&](const Array& given) {
    const Array v = options.where ? only_where(given, *options.where, -kInfinity) : given;
    const Array zero = full({}, 0, {.dtype = v.dtype()});
    // The greatest element, over which exp does not overflow: a constant to derivatives, as the result does not depend
    // on it. Infinities are not subtracted: their difference is NaN.
    const auto greatest = [&](bool keepdims) {
      ReduceOptions greatest_of{.axis = options.axis, .keepdims = keepdims};
      if (v.size() == 0) greatest_of.initial = Array(-kInfinity);
      const Array value = stop_gradient(reduce(kMax, v, greatest_of));
      return where(isfinite(value), value, zero);
    };
    const Array powers = exp(v - greatest(true));
    const Array sums = sum_of(powers, {.axis = options.axis, .keepdims = options.keepdims});
    return log(sums) + greatest(options.keepdims);
  };
  return at_least_f32(kFloats, formula, x);
}

// ---- Reductions that leave out NaN.

namespace {

// x with another value for NaN; only floats and complex numbers have any.
Array with_nan_as(const Operand& x, double value) {
  const Array v = to_array(x);
  if ((kind_of(v.dtype()) & kFractions) == 0) return v;
  return where(Operand(isnan(v)), value, v);
}

// Whether x is not NaN, and the mask of the options, if any, holds.
Array is_number(const Array& x, const ReduceOptions& options) {
  const Array numbers = logical_not(isnan(x));
  return options.where ? only_where(numbers, *options.where, 0) : numbers;
}

// max or min of what is not NaN; NaN where nothing is left.
Array nan_choice(const Reduction& reduction, const Operand& x, const ReduceOptions& options) {
  const Array v = to_array(x);
  const Array values = reduce(reduction, with_nan_as(v, reduction.neutral), options);
  if (!is_floating(v.dtype()) || options.initial) return values;
  const Array any_number = any(is_number(v, {}), options);
  return where(any_number, values, std::numeric_limits<double>::quiet_NaN());
}

}  // namespace

Array nansum(const Operand& x, const ReduceOptions& options) {
  const Caller caller("nansum", x.where());
  return reduce(kSum, widened(with_nan_as(x, 0)), options);
}
Array nanprod(const Operand& x, const ReduceOptions& options) {
  const Caller caller("nanprod", x.where());
  return reduce(kProd, widened(with_nan_as(x, 1)), options);
}
Array nanmax(const Operand& x, const ReduceOptions& options) {
  const Caller caller("nanmax", x.where());
  return nan_choice(kMax, x, options);
}
Array nanmin(const Operand& x, const ReduceOptions& options) {
  const Caller caller("nanmin", x.where());
  return nan_choice(kMin, x, options);
}

Array nanmean(const Operand& x, const ReduceOptions& options) {
  const Caller caller("nanmean", x.where());
  const auto formula = [&](const Array& v) {
    ReduceOptions numbers = options;
    numbers.where = is_number(v, options);
    return mean_of(v, numbers);
  };
  return at_least_f32(kFractions, formula, x);
}

// ---- Diagonals.

}  // namespace shoal
