// shoal.lax: reductions of dimensions and of windows, and cumulative ones.
#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <functional>

#include "bindings/core/tree.h"
#include "bindings/lax/lax.h"
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

// ---- Reductions by any associative function, in a balanced tree of neighbours.

using Combine = std::function<std::vector<Array>(const std::vector<Array>& x, const std::vector<Array>& y)>;

// The arrays, which have one shape, reduced along the first dimension, whose extent is not 0.
std::vector<Array> fold(std::vector<Array> arrays, const Combine& combine, SourceLocation where) {
  std::int64_t extent = arrays[0].shape()[0];
  while (extent > 1) {
    const std::int64_t pairs = extent / 2;
    std::vector<Array> even;
    std::vector<Array> odd;
    for (const Array& x : arrays) {
      even.push_back(lax::slice_in_dim({x, where}, 0, 2 * pairs, 2));
      odd.push_back(lax::slice_in_dim({x, where}, 1, 2 * pairs, 2));
    }
    std::vector<Array> combined = combine(even, odd);
    if (extent % 2 != 0) {
      for (std::size_t i = 0; i < arrays.size(); ++i) {
        const Array last = lax::slice_in_dim({arrays[i], where}, extent - 1, extent);
        combined[i] = lax::concatenate({std::vector<Array>{combined[i], last}, where}, 0);
      }
    }
    arrays = std::move(combined);
    extent = pairs + extent % 2;
  }
  for (Array& x : arrays) x = squeeze({x, where}, Axes(0));
  return arrays;
}

// Without the dimensions `axes`, which come first, as one.
Array reduced_first(const Array& x, const Dims& axes, SourceLocation where) {
  Dims order = axes;
  std::sort(order.begin(), order.end());
  Shape shape{1};
  for (const std::int64_t axis : order) shape[0] *= x.shape()[static_cast<std::size_t>(axis)];
  for (std::int64_t dim = 0; dim < static_cast<std::int64_t>(x.ndim()); ++dim) {
    if (std::find(axes.begin(), axes.end(), dim) != axes.end()) continue;
    order.push_back(dim);
    shape.push_back(x.shape()[static_cast<std::size_t>(dim)]);
  }
  return reshape({lax::transpose({x, where}, order), where}, shape);
}

using Binary = Array (*)(const Operand&, const Operand&);

Combine elementwise(Binary f, SourceLocation where) {
  return [f, where](const std::vector<Array>& x, const std::vector<Array>& y) {
    return std::vector<Array>{f({x[0], where}, {y[0], where})};
  };
}

// `ones`: whether nothing has all bits set, or none.
Array reduce_bits(const Operand& x, const Dims& axes, Binary f, bool ones) {
  const SourceLocation where = x.where();
  const Array first = reduced_first(shoal::to_array(x), axes, where);
  if (first.shape()[0] != 0) return fold({first}, elementwise(f, where), where)[0];
  const Array zero = full(Shape(first.shape().begin() + 1, first.shape().end()), {0, where}, {.dtype = first.dtype()});
  return ones ? bitwise_not({zero, where}) : zero;
}
Array reduce_and(const Operand& x, const Dims& axes) {
  if (dtype_of(x) == bool_) return all(x, {.axis = {axes}});
  return reduce_bits(x, axes, &bitwise_and, true);
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

// The result of a reduction, split as out_sharding says.
Array split_as(const Array& array, nb::handle place, std::string_view name) {
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
        return split_as(unlocked([&] { return f(given, list); }), place, name);
      },
      "operand"_a.none(), "axes"_a, nb::kw_only(), "out_sharding"_a = nb::none(), doc);
}

// ---- Functions that a program gives to reduce and reduce_window.

// A function that reductions know.
struct Known {
  Binary combine;
  ReductionOf reduce;
};

// That of a function of shoal.lax, shoal.numpy or operator; without functions for others.
Known known(nb::handle computation) {
  static constexpr struct {
    const char* module;
    const char* name;
    Known functions;
  } kAll[] = {
      {"shoal._core.lax", "add", {&add, &reduce_sum}},
      {"shoal._core.lax", "mul", {&multiply, &reduce_prod}},
      {"shoal._core.lax", "max", {&maximum, &reduce_max}},
      {"shoal._core.lax", "min", {&minimum, &reduce_min}},
      {"shoal._core.lax", "bitwise_and", {&bitwise_and, &reduce_and}},
      {"shoal._core.lax", "bitwise_or", {&bitwise_or, &reduce_or}},
      {"shoal._core.lax", "bitwise_xor", {&bitwise_xor, &reduce_xor}},
      {"shoal.numpy", "add", {&add, &reduce_sum}},
      {"shoal.numpy", "multiply", {&multiply, &reduce_prod}},
      {"shoal.numpy", "maximum", {&maximum, &reduce_max}},
      {"shoal.numpy", "minimum", {&minimum, &reduce_min}},
      {"shoal.numpy", "logical_and", {&logical_and, &reduce_and}},
      {"shoal.numpy", "logical_or", {&logical_or, &reduce_or}},
      {"shoal.numpy", "bitwise_and", {&bitwise_and, &reduce_and}},
      {"shoal.numpy", "bitwise_or", {&bitwise_or, &reduce_or}},
      {"shoal.numpy", "bitwise_xor", {&bitwise_xor, &reduce_xor}},
      {"operator", "add", {&add, &reduce_sum}},
      {"operator", "mul", {&multiply, &reduce_prod}},
  };
  // Only modules that are there can have the function.
  const nb::dict modules = nb::borrow<nb::dict>(PyImport_GetModuleDict());
  for (const auto& row : kAll) {
    if (!modules.contains(row.module)) continue;
    const nb::object module = modules[row.module];
    if (nb::hasattr(module, row.name) && computation.is(module.attr(row.name))) return row.functions;
  }
  return {};
}

// A function of Python on one array each, or on trees of them, which is called on many pairs of elements at once.
Combine combine_of(nb::callable computation, PyTree tree) {
  return [computation = std::move(computation), tree = std::move(tree)](const std::vector<Array>& x,
                                                                        const std::vector<Array>& y) {
    nb::gil_scoped_acquire gil;
    const nb::object result = computation(tree_object(tree, x), tree_object(tree, y));
    ArrayTree given = array_tree(result, "reduce: the result of computation");
    if (given.leaves.size() != x.size()) {
      type_error(fmt::format("reduce: computation gives {} arrays for {}", given.leaves.size(), x.size()));
    }
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (given.leaves[i].shape() == x[i].shape() && given.leaves[i].dtype() == x[i].dtype()) continue;
      type_error(fmt::format("reduce: computation gives {} for elements of {}; it must keep the type of its arguments",
                             type_of(given.leaves[i]), type_of(x[i])));
    }
    return given.leaves;
  };
}

// An initial value, a scalar, in the dtype of what is reduced, which must be that of both together.
Array initial_of(const Array& init, const Array& x, std::string_view function, SourceLocation where) {
  if (init.ndim() != 0) {
    throw TypeMismatch(fmt::format("{}: initial values must be scalars, got {}", function, type_of(init)), where);
  }
  if (promote_types({x.dtype(), x.weak_type()}, {init.dtype(), init.weak_type()}).dtype != x.dtype()) {
    throw TypeMismatch(fmt::format("{}: initial values must have the dtypes of the operands, got {} for {}", function,
                                   type_of(init), type_of(x)),
                       where);
  }
  return astype({init, where}, x.dtype());
}

// What a program reduces: arrays of one shape and their initial values, in trees of one structure.
class Reduced {
 public:
  Reduced(std::string_view function, nb::handle operands, nb::handle init_values)
      : given_(array_tree(operands, function)), where_(user_line()) {
    const ArrayTree inits = array_tree(init_values, function);
    if (given_.leaves.empty()) type_error(fmt::format("{}: there must be an operand", function));
    if (!(given_.tree == inits.tree)) {
      value_error(fmt::format("{}: operands must have the same tree structure as init_values, got {} vs. {}", function,
                              given_.tree.text(), inits.tree.text()));
    }
    for (std::size_t i = 0; i < inits.leaves.size(); ++i) {
      if (given_.leaves[i].shape() != given_.leaves[0].shape()) {
        type_error(fmt::format("{}: all operands must have one shape", function));
      }
      inits_.push_back(unlocked([&] { return initial_of(inits.leaves[i], given_.leaves[i], function, where_); }));
    }
  }

  const std::vector<Array>& arrays() const { return given_.leaves; }
  const std::vector<Array>& inits() const { return inits_; }
  const PyTree& tree() const { return given_.tree; }
  SourceLocation where() const { return where_; }
  nb::object tree_of(const std::vector<Array>& results) const { return tree_object(given_.tree, results); }

 private:
  ArrayTree given_;
  SourceLocation where_;
  std::vector<Array> inits_;
};

std::vector<Array> reduce_by(const std::vector<Array>& arrays, const std::vector<Array>& inits, const Dims& axes,
                             const Combine& combine, SourceLocation where) {
  std::vector<Array> first;
  for (const Array& x : arrays) first.push_back(reduced_first(x, axes, where));
  const Shape shape(first[0].shape().begin() + 1, first[0].shape().end());
  std::vector<Array> initial;
  for (const Array& init : inits) initial.push_back(broadcast_to({init, where}, shape));
  if (first[0].shape()[0] == 0) return initial;
  return combine(initial, fold(std::move(first), combine, where));
}

nb::object reduce(nb::handle operands, nb::handle init_values, nb::callable computation, nb::handle dimensions,
                  nb::handle place) {
  const Reduced given("reduce", operands, init_values);
  const SourceLocation where = given.where();
  const std::vector<Array>& arrays = given.arrays();
  const Dims axes = reduced_axes(dimensions, {arrays[0], where}, "reduce");
  const Known function = known(computation);
  if (function.reduce != nullptr && arrays.size() == 1) {
    const Array result = unlocked([&] {
      const Array reduced = function.reduce({arrays[0], where}, axes);
      return function.combine({reduced, where}, {given.inits()[0], where});
    });
    return given.tree_of({split_as(result, place, "reduce")});
  }
  const Combine combine = combine_of(std::move(computation), given.tree());
  std::vector<Array> results = unlocked([&] { return reduce_by(arrays, given.inits(), axes, combine, where); });
  for (Array& result : results) result = split_as(result, place, "reduce");
  return given.tree_of(results);
}

// ---- Windows.

// Where the places of a window lie in arrays of a shape, when padded.
class Windows {
 public:
  Windows(const Shape& shape, const Dims& window, const lax::ReduceWindowOptions& options, SourceLocation where)
      : window_(window), options_(options), where_(where) {
    for (const Dims* dims : {&window, &options.window_strides, &options.base_dilation, &options.window_dilation}) {
      const bool fits = (dims->empty() && dims != &window) || dims->size() == shape.size();
      if (!fits || std::any_of(dims->begin(), dims->end(), [](std::int64_t d) { return d < 1; })) {
        throw TypeMismatch(fmt::format("reduce_window: windows, strides and dilations must have a positive number for "
                                       "each dimension of shape {}; got {}",
                                       to_string(shape), to_string(*dims)),
                           where);
      }
    }
    for (std::size_t i = 0; i < shape.size(); ++i) {
      const std::int64_t gaps = or_1(options.base_dilation, i);
      const std::int64_t size = std::max<std::int64_t>((shape[i] - 1) * gaps + 1, 0);
      const std::int64_t extent = (window[i] - 1) * or_1(options.window_dilation, i) + 1;
      const std::int64_t stride = or_1(options.window_strides, i);
      const auto [low, high] = pads_of(options.padding, size, extent, stride, i, shape.size(), where);
      around_.push_back({.low = low, .high = high, .interior = gaps - 1});
      const std::int64_t room = size + low + high - extent;
      result_.push_back(room < 0 ? 0 : room / stride + 1);
    }
  }

  const Shape& result() const { return result_; }

  // The elements at each place of the window, row-major, along a new first dimension.
  Array stacked(const Array& x, const Array& padding) const {
    const Array padded = lax::pad({x, where_}, {padding, where_}, around_);
    std::vector<Array> parts;
    Dims place(window_.size(), 0);
    for (std::int64_t n = 0; n < num_elements(window_); ++n) {
      Dims starts;
      Dims limits;
      Dims strides;
      for (std::size_t i = 0; i < window_.size(); ++i) {
        starts.push_back(place[i] * or_1(options_.window_dilation, i));
        strides.push_back(or_1(options_.window_strides, i));
        limits.push_back(starts[i] + (result_[i] - 1) * strides[i] + 1);
      }
      parts.push_back(lax::slice({padded, where_}, starts, limits, strides));
      for (std::size_t i = window_.size(); i-- > 0 && ++place[i] == window_[i];) place[i] = 0;
    }
    return stack({parts, where_}, 0);
  }

 private:
  static std::int64_t or_1(const Dims& dims, std::size_t i) { return dims.empty() ? 1 : dims[i]; }

  const Dims& window_;
  const lax::ReduceWindowOptions& options_;
  SourceLocation where_;
  std::vector<lax::PaddingConfig> around_;
  Shape result_;
};

std::vector<Array> reduce_windows_by(const std::vector<Array>& arrays, const std::vector<Array>& inits,
                                     const Windows& windows, const Combine& combine, SourceLocation where) {
  std::vector<Array> initial;
  std::vector<Array> parts;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    initial.push_back(broadcast_to({inits[i], where}, windows.result()));
    if (num_elements(windows.result()) > 0) parts.push_back(windows.stacked(arrays[i], inits[i]));
  }
  return parts.empty() ? initial : combine(initial, fold(std::move(parts), combine, where));
}

nb::object reduce_window(nb::handle operands, nb::handle init_values, nb::callable computation,
                         nb::handle window_dimensions, nb::handle window_strides, nb::handle padding,
                         nb::handle base_dilation, nb::handle window_dilation) {
  const Reduced given("reduce_window", operands, init_values);
  const Dims window = dim_list(window_dimensions, "reduce_window: window_dimensions");
  const lax::ReduceWindowOptions options{
      .window_strides = maybe_dims(window_strides, "reduce_window: window_strides").value_or(Dims{}),
      .padding = window_padding(padding, "reduce_window"),
      .base_dilation = maybe_dims(base_dilation, "reduce_window: base_dilation").value_or(Dims{}),
      .window_dilation = maybe_dims(window_dilation, "reduce_window: window_dilation").value_or(Dims{})};
  const Binary function = known(computation).combine;
  const bool has_kernel = function == static_cast<Binary>(&add) || function == static_cast<Binary>(&multiply) ||
                          function == static_cast<Binary>(&maximum) || function == static_cast<Binary>(&minimum);
  const std::vector<Array>& arrays = given.arrays();
  if (has_kernel && arrays.size() == 1) {
    return given.tree_of({typed([&] {
      return lax::reduce_window({arrays[0], given.where()}, {given.inits()[0], given.where()}, function, window,
                                options);
    })});
  }
  const Combine combine = combine_of(std::move(computation), given.tree());
  const Windows windows(arrays[0].shape(), window, options, given.where());
  return given.tree_of(
      unlocked([&] { return reduce_windows_by(arrays, given.inits(), windows, combine, given.where()); }));
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
  m.def("reduce", &reduce, "operands"_a.none(), "init_values"_a, "computation"_a, "dimensions"_a,
        "out_sharding"_a = nb::none(),
        "A reduction over dimensions by an associative function of elements; initial values come first.");
  m.def("reduce_window", &reduce_window, "operand"_a.none(), "init_value"_a.none(), "computation"_a,
        "window_dimensions"_a, "window_strides"_a = nb::none(), "padding"_a = "VALID", "base_dilation"_a = nb::none(),
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
