// shoal.lax: reductions of dimensions and of windows, and cumulative ones.
#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <functional>

#include "bindings/core/tree.h"
#include "bindings/lax/lax.h"
#include "bindings/lax/traceable.h"
#include "bindings/numpy/complex_order.h"
#include "shoal/shoal.h"

namespace shoal::python {
namespace {

// The number that a greatest (or least) one of nothing is, as a scalar.
Array extreme(Dtype dtype, bool least, SourceLocation where) {
  const auto make = [&](const Operand& value) { return full({}, value, {.dtype = dtype}); };
  if (dtype == bool_) return make({!least, where});
  if (!is_integer(dtype)) {
    const double infinity = std::numeric_limits<double>::infinity();
    return make({least ? -infinity : infinity, where});
  }
  const auto bits = static_cast<int>(8 * size_of(dtype));
  if (!is_signed(dtype)) {
    return make({least ? std::uint64_t{0} : ~std::uint64_t{0} >> (64 - bits), where});
  }
  const std::int64_t greatest = std::numeric_limits<std::int64_t>::max() >> (64 - bits);
  return make({least ? -greatest - 1 : greatest, where});
}

bool is_empty(const Operand& x, const Dims& axes) {
  return std::any_of(axes.begin(), axes.end(),
                     [&](std::int64_t axis) { return shape_of(x)[static_cast<std::size_t>(axis)] == 0; });
}

// ---- Reductions in the operand's own dtype.

Array reduce_sum(const Operand& x, const Dims& axes) {
  return astype({sum(x, {.axis = {axes}}), x.where()}, dtype_of(x));
}
Array reduce_prod(const Operand& x, const Dims& axes) {
  return astype({prod(x, {.axis = {axes}}), x.where()}, dtype_of(x));
}
Array reduce_max(const Operand& x, const Dims& axes) {
  if (is_complex_operand(x)) return ordered_extreme(x, {.axis = {axes}}, true);
  if (!is_empty(x, axes)) return max(x, {.axis = {axes}});
  return max(x, {.axis = {axes}, .initial = extreme(dtype_of(x), true, x.where())});
}
Array reduce_min(const Operand& x, const Dims& axes) {
  if (is_complex_operand(x)) return ordered_extreme(x, {.axis = {axes}}, false);
  if (!is_empty(x, axes)) return min(x, {.axis = {axes}});
  return min(x, {.axis = {axes}, .initial = extreme(dtype_of(x), false, x.where())});
}

using Binary = Array (*)(const Operand&, const Operand&);

// `ones`: whether nothing has all bits set, or none.
Array reduce_bits(const Operand& x, const Dims& axes, Binary f, bool ones) {
  const Array zero = full({}, {0, x.where()}, {.dtype = dtype_of(x)});
  const Array nothing = ones ? bitwise_not({zero, x.where()}) : zero;
  return lax::reduce(shoal::to_array(x), nothing, f, axes, x.where());
}
Array reduce_and(const Operand& x, const Dims& axes) {
  if (dtype_of(x) == bool_) return all(x, {.axis = {axes}});
  return reduce_bits(x, axes, bitwise_and, true);
}
Array reduce_or(const Operand& x, const Dims& axes) {
  if (dtype_of(x) == bool_) return any(x, {.axis = {axes}});
  return reduce_bits(x, axes, &bitwise_or, false);
}
Array reduce_xor(const Operand& x, const Dims& axes) {
  if (dtype_of(x) != bool_) return reduce_bits(x, axes, &bitwise_xor, false);
  const Array count = sum(x, {.axis = {axes}});
  return astype({bitwise_and({count, x.where()}, {1, x.where()}), x.where()}, bool_);
}

// A result is unreduced over what split the dimensions that were summed, or over what the operand is.
void check_summands(const Array& operand, const Dims& axes, const NamedSharding& wanted, std::string_view name,
                    const SourceLocation& where) {
  const NamedSharding given = type_sharding(operand);
  std::vector<std::string> summed = given.spec().unreduced();
  for (const std::int64_t d : axes) {
    const std::vector<std::string>& names = given.spec()[static_cast<std::size_t>(d)].axes();
    summed.insert(summed.end(), names.begin(), names.end());
  }
  for (const std::string& axis : wanted.spec().unreduced()) {
    if (std::ranges::find(summed, axis) != summed.end()) continue;
    throw ShardingTypeError(
        fmt::format(
            "{}: out_sharding {} is unreduced over '{}', which splits no dimension that is summed of an operand "
            "that is {}, and over which that is not unreduced either",
            name, to_string(wanted.spec()), axis, to_string(given.spec())),
        where);
  }
  if (!wanted.spec().reduced().empty()) {
    throw InvalidArgument(
        fmt::format("{}: out_sharding {} cannot be reduced; reshard the result", name, to_string(wanted.spec())),
        where);
  }
}

// The result of a reduction of an operand, split as out_sharding says.
Array split_as(const Array& array, const Array& operand, const Dims& axes, nb::handle place, std::string_view name) {
  if (place.is_none()) return array;
  const Sharding wanted = sharding(place, fmt::format("{}: out_sharding", name));
  if (wanted.named() == nullptr)
    type_error(fmt::format("{}: out_sharding must be a NamedSharding or a PartitionSpec", name));
  if (!wanted.named()->spec().unreduced().empty() && name != "reduce_sum") {
    throw ShardingTypeError(fmt::format("{}: out_sharding {} says unreduced, but only sums can be left for later; take "
                                        "reduce_sum, or another spec",
                                        name, to_string(wanted.named()->spec())),
                            user_line());
  }
  const SourceLocation where = user_line();
  check_summands(operand, axes, *wanted.named(), name, where);
  return unlocked([&] { return reshard({array, where}, *wanted.named()); });
}

using ReductionOf = Array (*)(const Operand&, const Dims&);

template <ReductionOf f>
void bind_reduction(nb::module_& m, const char* name, Kinds kinds, const char* doc) {
  m.def(
      name,
      [name, kinds](nb::handle x, nb::handle axes, nb::handle place) {
        const Operand given = operand(x, name, "operand");
        check_kind(name, given, kinds);
        const Dims list = reduced_axes(axes, given, name);
        const Array result = unlocked([&] { return f(given, list); });
        return split_as(result, to_array(given), list, place, name);
      },
      "operand"_a.none(), "axes"_a, nb::kw_only(), "out_sharding"_a = nb::none(), doc);
}

// ---- Reductions by functions that a program gives.

nb::object reduce(nb::handle operands, nb::handle init_values, nb::handle computation, nb::handle dimensions,
                  nb::handle place) {
  const Traceable given(computation, "reduce", "computation", nb::make_tuple(operands), {"operands"});
  const Traceable inits(computation, "reduce", "computation", nb::make_tuple(init_values), {"init_values"});
  const Traceable pair(computation, "reduce", "computation", nb::make_tuple(init_values, init_values), {"init_values"});
  const detail::CallArguments arrays = given.flatten();
  const SourceLocation where = user_line();
  Dims axes;
  if (!arrays.leaves.empty()) axes = reduced_axes(dimensions, {arrays.leaves[0], where}, "reduce");
  std::any exemplar;
  std::vector<Array> results =
      unlocked([&] { return detail::call_reduce(arrays, inits.flatten(), pair.function(), axes, exemplar, where); });
  for (Array& result : results) result = split_as(result, arrays.leaves[0], axes, place, "reduce");
  return result_object(exemplar, std::move(results));
}

nb::object reduce_window(nb::handle operands, nb::handle init_values, nb::handle computation,
                         nb::handle window_dimensions, nb::handle window_strides, nb::handle padding,
                         nb::handle base_dilation, nb::handle window_dilation) {
  const Traceable given(computation, "reduce_window", "computation", nb::make_tuple(operands), {"operand"});
  const Traceable inits(computation, "reduce_window", "computation", nb::make_tuple(init_values), {"init_value"});
  const Traceable pair(computation, "reduce_window", "computation", nb::make_tuple(init_values, init_values),
                       {"init_value"});
  const Dims window = dim_list(window_dimensions, "reduce_window: window_dimensions");
  const lax::ReduceWindowOptions options{
      .window_strides = maybe_dims(window_strides, "reduce_window: window_strides").value_or(Dims{}),
      .padding = window_padding(padding, "reduce_window"),
      .base_dilation = maybe_dims(base_dilation, "reduce_window: base_dilation").value_or(Dims{}),
      .window_dilation = maybe_dims(window_dilation, "reduce_window: window_dilation").value_or(Dims{})};
  if (const auto* pairs = options.padding.pairs(); pairs != nullptr && pairs->size() != window.size()) {
    value_error(fmt::format("reduce_window: padding must have a pair for each of {} dimensions, got {}", window.size(),
                            pairs->size()));
  }
  const SourceLocation where = user_line();
  std::any exemplar;
  std::vector<Array> results = typed([&] {
    return detail::call_reduce_window(given.flatten(), inits.flatten(), pair.function(), window, options, exemplar,
                                      where);
  });
  return result_object(exemplar, std::move(results));
}

// ---- Positions, and cumulative reductions.

std::int64_t axis_of(nb::handle axis, const Operand& x, std::string_view function) {
  const std::int64_t dim = integer(axis, fmt::format("{}: axis", function));
  if (dim < 0 || dim >= static_cast<std::int64_t>(shape_of(x).size())) {
    value_error(
        fmt::format("{}: axis {} is out of bounds for array of shape {}", function, dim, to_string(shape_of(x))));
  }
  return dim;
}

template <Array (*f)(const Operand&, const ArgOptions&)>
void bind_position(nb::module_& m, const char* name, const char* doc) {
  m.def(
      name,
      [name](nb::handle x, nb::handle axis, nb::handle index_dtype) {
        const Operand given = operand(x, name, "operand");
        const std::int64_t dim = axis_of(axis, given, name);
        const Dtype wanted = dtype(index_dtype);
        if (!is_integer(wanted)) {
          type_error(fmt::format("{}: index_dtype must be an integer type, but got {}", name, name_of(wanted)));
        }
        return unlocked([&] { return astype({f(given, {.axis = dim}), given.where()}, wanted); });
      },
      "operand"_a.none(), "axis"_a, "index_dtype"_a, doc);
}

template <Array (*f)(const Operand&, std::int64_t, bool)>
void bind_cumulative(nb::module_& m, const char* name, Kinds kinds, const char* doc) {
  m.def(
      name,
      [name, kinds](nb::handle x, nb::handle axis, Flag reverse) {
        const Operand given = operand(x, name, "operand");
        check_kind(name, given, kinds);
        const std::int64_t dim = axis_of(axis, given, name);
        return unlocked([&] { return f(given, dim, reverse); });
      },
      "operand"_a.none(), "axis"_a = 0, "reverse"_a = false, doc);
}

}  // namespace

void bind_lax_reductions(nb::module_& m) {
  bind_reduction<&reduce_sum>(m, "reduce_sum", kNumbers, "The sum over dimensions, in the operand's dtype.");
  bind_reduction<&reduce_prod>(m, "reduce_prod", kNumbers, "The product over dimensions, in the operand's dtype.");
  bind_reduction<&reduce_max>(m, "reduce_max", kAny, "The greatest element over dimensions.");
  bind_reduction<&reduce_min>(m, "reduce_min", kAny, "The least element over dimensions.");
  bind_reduction<&reduce_and>(m, "reduce_and", kBits, "Bitwise or logical and over dimensions.");
  bind_reduction<&reduce_or>(m, "reduce_or", kBits, "Bitwise or logical or over dimensions.");
  bind_reduction<&reduce_xor>(m, "reduce_xor", kBits, "Bitwise or logical exclusive or over dimensions.");
  m.def("reduce", &reduce, "operands"_x, "init_values"_x, "computation"_x, "dimensions"_x,
        "out_sharding"_a = nb::none(),
        "A reduction over dimensions by an associative function of elements; initial values come first.");
  m.def("reduce_window", &reduce_window, "operand"_x, "init_value"_x, "computation"_x, "window_dimensions"_x,
        "window_strides"_a = nb::none(), "padding"_x = "VALID", "base_dilation"_a = nb::none(),
        "window_dilation"_a = nb::none(), "The elements in each place of a window, reduced.");
  bind_position<&argmax>(m, "argmax", "The position of the first greatest element along an axis.");
  bind_position<&argmin>(m, "argmin", "The position of the first least element along an axis.");
  bind_cumulative<&lax::cumsum>(m, "cumsum", kNumbers, "The sums of the elements up to each, along an axis.");
  bind_cumulative<&lax::cumprod>(m, "cumprod", kNumbers, "The products of the elements up to each, along an axis.");
  bind_cumulative<&lax::cummax>(m, "cummax", kAny, "The greatest of the elements up to each, along an axis.");
  bind_cumulative<&lax::cummin>(m, "cummin", kAny, "The least of the elements up to each, along an axis.");
  bind_cumulative<&lax::cumlogsumexp>(m, "cumlogsumexp", kFloats,
                                      "log(cumsum(exp(x))) along an axis, without overflow on the way.");
}

}  // namespace shoal::python
