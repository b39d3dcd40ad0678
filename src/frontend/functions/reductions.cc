// Reductions.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "frontend/array/promotion.h"
#include "frontend/array/term.h"
#include "frontend/array/trace.h"
#include "frontend/functions/diagonals.h"
#include "shoal/numpy.h"

namespace shoal {
namespace {

// A plain reduction: its op, what changes nothing in it, and how two results are combined.
struct Reduction {
  const char* function;
  const char* op;
  double neutral;
  Array (*combine)(const Operand&, const Operand&);
};

Shape with_units(Shape shape, const Dims& axes) {
  for (std::int64_t d : axes) shape[static_cast<std::size_t>(d)] = 1;
  return shape;
}

// x with `value` where the mask does not hold.
Term masked(const char* function, const Term& x, const Array& mask, const Operand& value) {
  const Array condition = truth({mask, x.where()});
  const Shape& shape = x.array().shape();
  if (broadcast_shapes(function, shape, condition.shape(), x.where()) != shape) {
    throw InvalidArgument(fmt::format("{}: the mask `where` of shape {} must broadcast to shape {}", function,
                                      to_string(condition.shape()), to_string(shape)),
                          x.where());
  }
  // In the dtype of x, whatever that of the value.
  const Array other = convert(to_array(value), x.array().dtype(), false, x.where());
  return {where({condition, x.where()}, x, {other, x.where()}), x.where()};
}

Term initial_value(const char* function, const Term& x, const Array& initial) {
  if (initial.ndim() != 0) {
    throw InvalidArgument(fmt::format("{}: the initial value must be a scalar, not {}", function, type_of(initial)),
                          x.where());
  }
  return {convert(initial, x.array().dtype(), false, x.where()), x.where()};
}

void refuse_initial(const char* function, const ReduceOptions& options, SourceLocation where) {
  if (!options.initial) return;
  throw InvalidArgument(fmt::format("{}: an initial value is for sum, prod, max and min", function), where);
}

Array reduce(const Reduction& reduction, const Array& given, const ReduceOptions& options, SourceLocation where) {
  const Dims axes = canonical_axes(reduction.function, options.axis, given.ndim(), where);
  Term x(given, where);
  const bool chooses = std::isinf(reduction.neutral);  // max and min, whose neutral element not all dtypes have.
  if (options.where && chooses && !options.initial) {
    throw InvalidArgument(fmt::format("{}: a mask needs an initial value", reduction.function), where);
  }
  const auto initial = [&] { return initial_value(reduction.function, x, *options.initial); };
  if (options.where) {
    const Operand neutral = chooses ? Operand(initial()) : x.number(reduction.neutral);
    x = masked(reduction.function, x, *options.where, neutral);
  }
  const Shape kept = with_units(given.shape(), axes);
  Array result;
  if (chooses && options.initial && given.size() == 0) {
    result = broadcast(initial().array(), kept, where);  // max and min of nothing.
    return options.keepdims ? result : squeeze({result, where}, axes);
  }
  result = bind_one(reduction.op, {{"axes", axes}}, {x.array()}, where);
  if (options.initial) result = reduction.combine({result, where}, initial());
  return options.keepdims ? reshape({result, where}, kept) : result;
}

// What sums and products of a dtype are computed in: integers of at least 32 bits.
Array widened(const Operand& x) {
  const Array array = to_array(x);
  switch (array.dtype()) {
    case Dtype::kBool:
    case Dtype::kI8:
    case Dtype::kI16:
      return convert(array, int32, false, x.where());
    case Dtype::kU8:
    case Dtype::kU16:
      return convert(array, uint32, false, x.where());
    default:
      return array;
  }
}

Array ordered(std::string_view function, const Operand& x) {
  const Array array = to_array(x);
  if (is_complex(array.dtype())) {
    throw TypeMismatch(fmt::format("{}: complex numbers have no order; got {}", function, type_of(array)), x.where());
  }
  return array;
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

constexpr Reduction sum_as(const char* function) { return {function, "reduce_sum", 0, add}; }
constexpr Reduction prod_as(const char* function) { return {function, "reduce_prod", 1, multiply}; }
constexpr Reduction max_as(const char* function) { return {function, "reduce_max", -kInfinity, maximum}; }
constexpr Reduction min_as(const char* function) { return {function, "reduce_min", kInfinity, minimum}; }

}  // namespace

Array sum(const Operand& x, const ReduceOptions& options) {
  return reduce(sum_as("sum"), widened(x), options, x.where());
}
Array prod(const Operand& x, const ReduceOptions& options) {
  return reduce(prod_as("prod"), widened(x), options, x.where());
}
Array max(const Operand& x, const ReduceOptions& options) {
  return reduce(max_as("max"), ordered("max", x), options, x.where());
}
Array min(const Operand& x, const ReduceOptions& options) {
  return reduce(min_as("min"), ordered("min", x), options, x.where());
}
Array any(const Operand& x, const ReduceOptions& options) {
  refuse_initial("any", options, x.where());
  return reduce({"any", "reduce_or", 0, bitwise_or}, truth(x), options, x.where());
}
Array all(const Operand& x, const ReduceOptions& options) {
  refuse_initial("all", options, x.where());
  return reduce({"all", "reduce_and", 1, bitwise_and}, truth(x), options, x.where());
}

Array ptp(const Operand& x, const ReduceOptions& options) {
  const Array array = ordered("ptp", x);
  const Term greatest(reduce(max_as("ptp"), array, options, x.where()), x.where());
  const Term least(reduce(min_as("ptp"), array, options, x.where()), x.where());
  return (greatest - least).array();
}

Array count_nonzero(const Operand& x, const ReduceOptions& options) {
  refuse_initial("count_nonzero", options, x.where());
  return reduce(sum_as("count_nonzero"), convert(truth(x), int32, false, x.where()), options, x.where());
}

namespace {

Term sum_of(const char* function, const Term& x, const ReduceOptions& options) {
  refuse_initial(function, options, x.where());
  return {reduce(sum_as(function), x.array(), options, x.where()), x.where()};
}

// `sums` divided by the number of elements that each adds up, less `ddof`; NaN if none are left.
Term divided_by_count(const char* function, const Term& sums, const Term& x, const ReduceOptions& options,
                      std::int64_t ddof = 0) {
  if (options.where) {
    const Term counted = masked(function, Term(ones(x.array().shape(), {.dtype = int32}, x.where()), x.where()),
                                *options.where, x.number(0));
    const Term count =
        sum_of(function, counted, {.axis = options.axis, .keepdims = options.keepdims}) - static_cast<double>(ddof);
    return sums / select(count > 0, count, Term(Array(std::numeric_limits<float>::quiet_NaN(), x.where()), x.where()));
  }
  double extents = 1;
  for (std::int64_t d : canonical_axes(function, options.axis, x.array().ndim(), x.where())) {
    extents *= static_cast<double>(x.array().shape()[static_cast<std::size_t>(d)]);
  }
  const double count = extents - static_cast<double>(ddof);
  return sums / (count > 0 ? count : std::numeric_limits<double>::quiet_NaN());
}

Term mean_of(const char* function, const Term& x, const ReduceOptions& options) {
  return divided_by_count(function, sum_of(function, x, options), x, options);
}

// real(conj(x) x).
Term squared_magnitude(const Term& x) {
  if (!is_complex(x.array().dtype())) return x * x;
  const Term re = x.then(real);
  const Term im = x.then(imag);
  return re * re + im * im;
}

Term variance_of(const char* function, const Term& x, const VarianceOptions& given) {
  ReduceOptions options{.axis = given.axis, .keepdims = true, .where = given.where};
  const Term squares = squared_magnitude(x - mean_of(function, x, options));
  options.keepdims = given.keepdims;
  return divided_by_count(function, sum_of(function, squares, options), x, options, given.ddof);
}

void refuse_mask(const char* function, const ReduceOptions& options, SourceLocation where) {
  if (options.where) throw InvalidArgument(fmt::format("{}: takes no mask `where`", function), where);
}

}  // namespace

Array mean(const Operand& x, const ReduceOptions& options) {
  return at_least_f32(
      "mean", kFractions, [&](const Term& v) { return mean_of("mean", v, options); }, x);
}

Array var(const Operand& x, const VarianceOptions& options) {
  return at_least_f32(
      "var", kFractions, [&](const Term& v) { return variance_of("var", v, options); }, x);
}

Array std_(const Operand& x, const VarianceOptions& options) {
  return at_least_f32(
      "std", kFractions, [&](const Term& v) { return variance_of("std", v, options).then(sqrt); }, x);
}

Array average(const Operand& x, const ReduceOptions& options) {
  refuse_mask("average", options, x.where());
  return at_least_f32(
      "average", kFractions, [&](const Term& v) { return mean_of("average", v, options); }, x);
}

Array average(const Operand& x, const Operand& weights, const ReduceOptions& options) {
  refuse_mask("average", options, x.where());
  const Array values = to_array(x);
  Array factors = to_array(weights);
  const Dims axes = canonical_axes("average", options.axis, values.ndim(), x.where());
  if (factors.shape() != values.shape()) {
    const bool fits = axes.size() == 1 && factors.ndim() == 1 &&
                      factors.shape()[0] == values.shape()[static_cast<std::size_t>(axes[0])];
    if (!fits) {
      throw InvalidArgument(
          fmt::format(
              "average: weights of shape {} fit neither shape {} nor one axis of it, of those averaged over: {}",
              to_string(factors.shape()), to_string(values.shape()), to_string(axes)),
          x.where());
    }
    Shape shape(values.ndim(), 1);
    shape[static_cast<std::size_t>(axes[0])] = factors.shape()[0];
    factors = broadcast(reshape({factors, x.where()}, shape), values.shape(), x.where());
  }
  const auto formula = [&](const Term& v, const Term& w) {
    return sum_of("average", v * w, options) / sum_of("average", w, options);
  };
  return at_least_f32("average", kFractions, formula, Operand(values, x.where()), Operand(factors, x.where()));
}

Array logsumexp(const Operand& x, const ReduceOptions& options) {
  refuse_initial("logsumexp", options, x.where());
  const auto formula = [&](const Term& given) {
    const Term v = options.where ? masked("logsumexp", given, *options.where, given.number(-kInfinity)) : given;
    const Term zero(full({}, v.number(0), {.dtype = v.array().dtype()}), v.where());
    // The greatest element, over which exp does not overflow. Infinities are not subtracted: their difference is NaN.
    const auto greatest = [&](bool keepdims) {
      ReduceOptions greatest_of{.axis = options.axis, .keepdims = keepdims};
      if (v.array().size() == 0) greatest_of.initial = Array(-kInfinity, v.where());
      const Array value = reduce(max_as("logsumexp"), v.array(), greatest_of, v.where());
      const Term term(value, v.where());
      return select(term.then(isfinite), term, zero);
    };
    const Term powers = (v - greatest(true)).then(exp);
    const Term sums = sum_of("logsumexp", powers, {.axis = options.axis, .keepdims = options.keepdims});
    return sums.then(log) + greatest(options.keepdims);
  };
  return at_least_f32("logsumexp", kFloats, formula, x);
}

// ---- Reductions that leave out NaN.

namespace {

// x with another value for NaN; only floats and complex numbers have any.
Term with_nan_as(const Operand& x, double value) {
  const Term v(to_array(x), x.where());
  if ((kind_of(v.array().dtype()) & kFractions) == 0) return v;
  return {where(Operand(v.then(isnan)), v.number(value), v), x.where()};
}

// Whether x is not NaN, and the mask of the options, if any, holds.
Term is_number(const char* function, const Term& x, const ReduceOptions& options) {
  const Term numbers = x.then(isnan).then(logical_not);
  return options.where ? masked(function, numbers, *options.where, x.number(0)) : numbers;
}

// max or min of what is not NaN; NaN where nothing is left.
Array nan_choice(const Reduction& reduction, const Operand& x, const ReduceOptions& options) {
  const Term v(ordered(reduction.function, x), x.where());
  const Term values(reduce(reduction, with_nan_as(v, reduction.neutral).array(), options, x.where()), x.where());
  if (!is_floating(v.array().dtype()) || options.initial) return values.array();
  const Term any_number = is_number(reduction.function, v, {}).then(any, options);
  return where(any_number, values, values.number(std::numeric_limits<double>::quiet_NaN()));
}

}  // namespace

Array nansum(const Operand& x, const ReduceOptions& options) {
  return reduce(sum_as("nansum"), widened(with_nan_as(x, 0)), options, x.where());
}
Array nanprod(const Operand& x, const ReduceOptions& options) {
  return reduce(prod_as("nanprod"), widened(with_nan_as(x, 1)), options, x.where());
}
Array nanmax(const Operand& x, const ReduceOptions& options) { return nan_choice(max_as("nanmax"), x, options); }
Array nanmin(const Operand& x, const ReduceOptions& options) { return nan_choice(min_as("nanmin"), x, options); }

Array nanmean(const Operand& x, const ReduceOptions& options) {
  const auto formula = [&](const Term& v) {
    ReduceOptions numbers = options;
    numbers.where = is_number("nanmean", v, options).array();
    return mean_of("nanmean", v, numbers);
  };
  return at_least_f32("nanmean", kFractions, formula, x);
}

// ---- Diagonals.

Array trace(const Operand& x, const TraceOptions& options) {
  const Array array = widened(x);
  const std::size_t rank = array.ndim();
  const std::int64_t first = canonical_axis("trace", options.axis1, rank, x.where());
  const std::int64_t second = canonical_axis("trace", options.axis2, rank, x.where());
  if (first == second) {
    throw InvalidArgument(
        fmt::format("trace: axis1 and axis2 of {} must differ, but both are {}", type_of(array), first), x.where());
  }
  return reduce(sum_as("trace"), diagonal_alone(array, first, second, options.offset, x.where()),
                {.axis = {first, second}}, x.where());
}

}  // namespace shoal
