// shoal.lax: creation, shapes, parts of arrays, and order.
#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "base/caller.h"
#include "bindings/lax/lax.h"
#include "shoal/shoal.h"

namespace shoal::python {
namespace {

Operand scalar_value(nb::handle x, std::string_view function, std::optional<Dtype> dtype) {
  Operand value = operand_for(dtype, x, function, "fill_value");
  if (!shape_of(value).empty()) {
    type_error(fmt::format("full must be called with scalar fill_value, got fill_value.shape {}.",
                           to_string(shape_of(value))));
  }
  return value;
}

// A list of operands that have one dtype.
std::vector<Operand> alike(nb::handle x, std::string_view function, std::string_view argument) {
  std::vector<Operand> list = operand_list(x, function, argument);
  if (list.empty()) value_error(fmt::format("{} requires a non-empty sequences of arrays", function));
  std::vector<const Operand*> pointers;
  for (const Operand& item : list) pointers.push_back(&item);
  check_dtypes(function, pointers, function);
  return list;
}

Shape shape_of_argument(nb::handle x, std::string_view function) { return dims(x, fmt::format("{}: shape", function)); }

void bind_creation(nb::module_& m) {
  m.def(
      "full",
      [](nb::handle shape, nb::handle fill_value, nb::handle dtype, nb::handle place) {
        const Shape extents = shape_of_argument(shape, "full");
        const CreationOptions options{.dtype = maybe_dtype(dtype), .sharding = maybe_sharding(place, "full: sharding")};
        const Operand value = scalar_value(fill_value, "full", options.dtype);
        const bool is_plain = !options.dtype && !options.sharding;
        // Without a dtype a number of Python stays weak, which broadcasting keeps.
        return unlocked([&] { return is_plain ? broadcast_to(value, extents) : full(extents, value, options); });
      },
      "shape"_a, "fill_value"_a, "dtype"_a = nb::none(), nb::kw_only(), "sharding"_a = nb::none(),
      "An array of one value.");
  m.def(
      "full_like",
      [](nb::handle x, nb::handle fill_value, nb::handle dtype_object, nb::handle shape, nb::handle place) {
        CreationOptions options{.dtype = maybe_dtype(dtype_object),
                                .sharding = maybe_sharding(place, "full_like: sharding")};
        const bool is_type = !is_array_like(x) && nb::hasattr(x, "shape") && nb::hasattr(x, "dtype");
        const auto own_dtype = [&] { return is_type ? dtype(x.attr("dtype")) : dtype_of(operand(x, "full_like")); };
        const Operand value = scalar_value(fill_value, "full_like", options.dtype ? *options.dtype : own_dtype());
        if (is_type || !shape.is_none()) {
          const Shape extents =
              shape_of_argument(shape.is_none() ? nb::object(x.attr("shape")) : nb::borrow(shape), "full_like");
          if (!options.dtype) options.dtype = own_dtype();
          return unlocked([&] { return full(extents, value, options); });
        }
        const Operand like = operand(x, "full_like");
        return unlocked([&] { return full_like(like, value, options); });
      },
      "x"_a.none(), "fill_value"_a, "dtype"_a = nb::none(), "shape"_a = nb::none(), "sharding"_a = nb::none(),
      "An array of one value, like another one.");
  m.def(
      "empty",
      [](nb::handle shape, nb::handle dtype_object, nb::handle place) {
        const Shape extents = shape_of_argument(shape, "empty");
        const CreationOptions options{.dtype = dtype(dtype_object),
                                      .sharding = maybe_sharding(place, "empty: out_sharding")};
        const SourceLocation where = user_line();
        return unlocked([&] { return zeros(extents, options, where); });
      },
      "shape"_a, "dtype"_a, nb::kw_only(), "out_sharding"_a = nb::none(), "An array of zeros.");
  m.def(
      "iota",
      [](nb::handle dtype_object, nb::handle size) {
        const std::int64_t extent = integer(size, "iota: size");
        const Dtype wanted = dtype(dtype_object);
        const SourceLocation where = user_line();
        return typed([&] { return lax::iota(wanted, extent, where); });
      },
      "dtype"_a, "size"_a, "0, 1, 2, …");
  m.def(
      "broadcasted_iota",
      [](nb::handle dtype_object, nb::handle shape, nb::handle dimension, nb::handle place) {
        const Shape extents = shape_of_argument(shape, "broadcasted_iota");
        const std::int64_t dim = integer(dimension, "broadcasted_iota: dimension");
        const Dtype wanted = dtype(dtype_object);
        const SourceLocation where = user_line();
        if (dim < 0 || dim >= static_cast<std::int64_t>(extents.size())) {
          value_error(fmt::format("iota dimension must be between 0 and len(shape), got dimension={} for shape={}", dim,
                                  to_string(extents)));
        }
        const std::optional<Sharding> sharding = maybe_sharding(place, "broadcasted_iota: out_sharding");
        return unlocked([&] {
          const Array result = lax::broadcasted_iota(wanted, extents, dim, where);
          if (!sharding || sharding->named() == nullptr) return result;
          return reshard({result, where}, *sharding->named());
        });
      },
      "dtype"_a, "shape"_a, "dimension"_a, nb::kw_only(), "out_sharding"_a = nb::none(),
      "0, 1, 2, … along one dimension of a shape.");
}

void bind_broadcasts(nb::module_& m) {
  m.def(
      "broadcast",
      [](nb::handle x, nb::handle sizes, nb::handle place) {
        const Operand given = operand(x, "broadcast", "operand");
        Shape shape = dim_list(sizes, "broadcast: sizes");
        shape.insert(shape.end(), shape_of(given).begin(), shape_of(given).end());
        const OutSharding out = out_sharding(place);
        return unlocked([&] { return broadcast_to(given, shape, out); });
      },
      "operand"_a.none(), "sizes"_a, nb::kw_only(), "out_sharding"_a = nb::none(),
      "The array repeated along new leading dimensions.");
  m.def(
      "broadcast_in_dim",
      [](nb::handle x, nb::handle shape, nb::handle broadcast_dimensions, nb::handle place) {
        const Operand given = operand(x, "broadcast_in_dim", "operand");
        const Shape extents = dim_list(shape, "broadcast_in_dim: shape");
        const Dims places = dim_list(broadcast_dimensions, "broadcast_in_dim: broadcast_dimensions");
        const OutSharding out = out_sharding(place);
        return typed([&] { return lax::broadcast_in_dim(given, extents, places, out); });
      },
      "operand"_a.none(), "shape"_a, "broadcast_dimensions"_a, nb::kw_only(), "out_sharding"_a = nb::none(),
      "Every element in each place of new dimensions.");
  m.def(
      "broadcast_like",
      [](nb::handle x, nb::handle like_arr) {
        const Operand given = operand(x, "broadcast_like", "arr");
        const Shape shape = shape_of(operand(like_arr, "broadcast_like", "like_arr"));
        return unlocked([&] { return broadcast_to(given, shape); });
      },
      "arr"_a.none(), "like_arr"_a.none(), "The array repeated to the shape of another one.");
  m.def(
      "broadcast_to_rank",
      [](nb::handle x, nb::handle rank) {
        const Operand given = operand(x, "broadcast_to_rank", "x");
        const std::int64_t wanted = integer(rank, "broadcast_to_rank: rank");
        const auto missing = wanted - static_cast<std::int64_t>(shape_of(given).size());
        if (missing < 0) value_error(fmt::format("broadcast_to_rank: rank {} is less than that of the array", wanted));
        Shape shape(static_cast<std::size_t>(missing), 1);
        shape.insert(shape.end(), shape_of(given).begin(), shape_of(given).end());
        return unlocked([&] { return reshape(given, shape); });
      },
      "x"_a.none(), "rank"_a, "The array with leading dimensions of extent 1.");
  m.def(
      "broadcast_shapes",
      [](nb::args shapes) {
        Shape shape;
        const Caller caller("broadcast_shapes", user_line());
        for (nb::handle other : shapes) shape = broadcast_shapes(shape, dims(other, "broadcast_shapes"));
        return to_tuple(shape);
      },
      "shapes"_a, "The shape that all of them broadcast to.");
}

void bind_shapes(nb::module_& m) {
  m.def(
      "reshape",
      [](nb::handle x, nb::handle new_sizes, nb::handle dimensions, nb::handle place) {
        Operand given = operand(x, "reshape", "operand");
        const Shape shape = dims(new_sizes, "reshape: new_sizes");
        const std::optional<Dims> order = maybe_dims(dimensions, "reshape: dimensions");
        const OutSharding out = out_sharding(place);
        return typed([&] {
          if (order) given = {lax::transpose(given, *order), given.where()};
          return lax::reshape(given, shape, out);
        });
      },
      "operand"_a.none(), "new_sizes"_a, "dimensions"_a = nb::none(), nb::kw_only(), "out_sharding"_a = nb::none(),
      "The same elements in another shape.");
  m.def(
      "transpose",
      [](nb::handle x, nb::handle permutation) {
        const Operand given = operand(x, "transpose", "operand");
        const Dims order = dim_list(permutation, "transpose: permutation");
        return typed([&] { return lax::transpose(given, order); });
      },
      "operand"_a.none(), "permutation"_a, "The dimensions in another order.");
  m.def(
      "squeeze",
      [](nb::handle x, nb::handle dimensions) {
        const Operand given = operand(x, "squeeze", "array");
        const Dims list = dim_list(dimensions, "squeeze: dimensions");
        return unlocked([&] { return squeeze(given, {list}); });
      },
      "array"_a.none(), "dimensions"_a, "The array without these dimensions, of extent 1.");
  m.def(
      "expand_dims",
      [](nb::handle x, nb::handle dimensions) {
        const Operand given = operand(x, "expand_dims", "array");
        const Dims list = dim_list(dimensions, "expand_dims: dimensions");
        return unlocked([&] { return expand_dims(given, list); });
      },
      "array"_a.none(), "dimensions"_a, "The array with new dimensions of extent 1 where the result shall have them.");
  m.def(
      "collapse",
      [](nb::handle x, nb::handle start, nb::handle stop) {
        const Operand given = operand(x, "collapse", "operand");
        const Shape& shape = shape_of(given);
        const auto rank = static_cast<std::int64_t>(shape.size());
        const auto place = [&](std::int64_t dim) {
          return std::clamp(dim < 0 ? dim + rank : dim, std::int64_t{0}, rank);
        };
        const std::int64_t first = place(integer(start, "collapse: start_dimension"));
        const std::int64_t last = place(maybe_integer(stop, "collapse: stop_dimension").value_or(rank));
        if (last < first)
          value_error(fmt::format("collapse: start_dimension {} is after stop_dimension {}", first, last));
        Shape joined(shape.begin(), shape.begin() + first);
        joined.push_back(num_elements(Shape(shape.begin() + first, shape.begin() + last)));
        joined.insert(joined.end(), shape.begin() + last, shape.end());
        return unlocked([&] { return reshape(given, joined); });
      },
      "operand"_a.none(), "start_dimension"_a, "stop_dimension"_a = nb::none(), "Neighbouring dimensions as one.");
  m.def(
      "concatenate",
      [](nb::handle arrays, nb::handle dimension) {
        const std::vector<Operand> list = alike(arrays, "concatenate", "operands");
        const std::int64_t dim = integer(dimension, "concatenate: dimension");
        const auto rank = static_cast<std::int64_t>(shape_of(list[0]).size());
        if (dim < 0 || dim >= rank) {
          type_error(fmt::format("concatenate dimension out of bounds: dimension {} for shape {}", dim,
                                 to_string(shape_of(list[0]))));
        }
        return typed([&] { return lax::concatenate({list, list[0].where()}, dim); });
      },
      "operands"_a.none(), "dimension"_a, "Arrays joined along a dimension.");
  m.def(
      "polynomial",
      [](nb::handle x, nb::handle coefficients, nb::handle) {
        const Operand at = operand(x, "polynomial");
        const std::vector<Operand> list = operand_list(coefficients, "polynomial", "coeffs");
        return unlocked([&] { return lax::polynomial(at, {list, at.where()}); });
      },
      "x"_a, "coeffs"_a, nb::kw_only(), "unroll"_a = nb::none(),
      "The value at x of a polynomial, whose lowest coefficient comes first. `unroll` changes nothing.");
  m.def(
      "stack",
      [](nb::handle arrays, nb::handle axis) {
        const std::vector<Operand> list = alike(arrays, "stack", "operands");
        const std::int64_t dim = integer(axis, "stack: axis");
        return typed([&] { return stack({list, list[0].where()}, dim); });
      },
      "operands"_a.none(), "axis"_a = 0, "Arrays joined along a new dimension.");
  m.def(
      "unstack",
      [](nb::handle x, nb::handle axis) {
        const Operand given = operand(x, "unstack", "x");
        const Caller caller("unstack", given.where());
        const std::int64_t dim = canonical_axis(integer(axis, "unstack: axis"), shape_of(given).size());
        std::vector<Array> parts;
        unlocked([&] {
          for (std::int64_t i = 0; i < shape_of(given)[static_cast<std::size_t>(dim)]; ++i) {
            const Array part = lax::slice_in_dim(given, i, i + 1, 1, dim);
            parts.push_back(squeeze({part, given.where()}, Axes({dim})));
          }
        });
        return tuple_of(std::move(parts));
      },
      "x"_a.none(), "axis"_a = 0, "The parts along a dimension.");
  m.def(
      "split",
      [](nb::handle x, nb::handle sizes, nb::handle axis) {
        const Operand given = operand(x, "split", "operand");
        const Dims extents = dim_list(sizes, "split: sizes");
        const Caller caller("split", given.where());
        const std::int64_t dim = canonical_axis(integer(axis, "split: axis"), shape_of(given).size());
        std::int64_t sum = 0;
        for (const std::int64_t size : extents) {
          if (size < 0) value_error(fmt::format("split: sizes must not be negative, got {}", to_string(extents)));
          sum += size;
        }
        if (sum != shape_of(given)[static_cast<std::size_t>(dim)]) {
          value_error(fmt::format("Sum of sizes {} must be equal to dimension {} of the operand shape {}", sum, dim,
                                  to_string(shape_of(given))));
        }
        std::vector<Array> parts;
        unlocked([&] {
          std::int64_t start = 0;
          for (const std::int64_t size : extents) {
            parts.push_back(lax::slice_in_dim(given, start, start + size, 1, dim));
            start += size;
          }
        });
        return list_of(std::move(parts));
      },
      "operand"_a.none(), "sizes"_a, "axis"_a = 0, "Parts of these extents along a dimension.");
  m.def(
      "tile",
      [](nb::handle x, nb::handle reps) {
        const Operand given = operand(x, "tile", "operand");
        const Dims repetitions = dim_list(reps, "tile: reps");
        if (repetitions.size() != shape_of(given).size()) {
          type_error(fmt::format("reps length must be equal to the ndim of x, got len(reps)={} and x.ndim={}.",
                                 repetitions.size(), shape_of(given).size()));
        }
        return unlocked([&] { return tile(given, repetitions); });
      },
      "operand"_a.none(), "reps"_a, "The array repeated along each dimension.");
  m.def(
      "pad",
      [](nb::handle x, nb::handle padding_value, nb::handle padding_config) {
        const Operand given = operand(x, "pad", "operand");
        const Operand value = operand(padding_value, "pad", "padding_value");
        const Operand* const both[] = {&given, &value};
        check_dtypes("pad", both, "pad");
        std::vector<lax::PaddingConfig> config;
        for (nb::handle item : padding_config) {
          const Dims numbers = dim_list(item, "pad: an entry of padding_config");
          if (numbers.size() != 3) {
            value_error(fmt::format("pad: an entry of padding_config must be (low, high, interior), got {}",
                                    to_string(numbers)));
          }
          config.push_back({.low = numbers[0], .high = numbers[1], .interior = numbers[2]});
        }
        return unlocked([&] { return lax::pad(given, value, config); });
      },
      "operand"_a.none(), "padding_value"_a, "padding_config"_a,
      "The array with a value around it and between its elements: (low, high, interior) for each dimension.");
  m.def(
      "rev",
      [](nb::handle x, nb::handle dimensions) {
        const Operand given = operand(x, "rev", "operand");
        const Dims list = dim_list(dimensions, "rev: dimensions");
        return typed([&] { return lax::rev(given, list); });
      },
      "operand"_a.none(), "dimensions"_a, "The order of elements reversed along dimensions.");
}

std::optional<std::int64_t> bound_of(nb::handle x, std::string_view what) { return maybe_integer(x, what); }

Bound to_bound(const std::optional<std::int64_t>& x) { return x ? Bound(*x) : Bound(none); }

// Starting positions: a vector, or a sequence of scalars.
std::vector<Operand> starts_of(nb::handle x, std::string_view function) {
  std::vector<Operand> starts = operand_list(x, function, "start_indices");
  for (const Operand& start : starts) {
    if (is_integer(dtype_of(start)) && shape_of(start).empty()) continue;
    type_error(fmt::format("index arguments to {} must be integers of the same type, got {}", function,
                           type_of(shoal::to_array(start))));
  }
  return starts;
}

void bind_slices(nb::module_& m) {
  m.def(
      "slice",
      [](nb::handle x, nb::handle start_indices, nb::handle limit_indices, nb::handle strides) {
        const Operand given = operand(x, "slice", "operand");
        const Dims starts = dim_list(start_indices, "slice: start_indices");
        const Dims limits = dim_list(limit_indices, "slice: limit_indices");
        const std::optional<Dims> steps = maybe_dims(strides, "slice: strides");
        return typed([&] { return lax::slice(given, starts, limits, steps); });
      },
      "operand"_a.none(), "start_indices"_a, "limit_indices"_a, "strides"_a = nb::none(),
      "The elements from a start up to a limit of each dimension.");
  m.def(
      "slice_in_dim",
      [](nb::handle x, nb::handle start_index, nb::handle limit_index, nb::handle stride, nb::handle axis) {
        const Operand given = operand(x, "slice_in_dim", "operand");
        const Bound start = to_bound(bound_of(start_index, "slice_in_dim: start_index"));
        const Bound limit = to_bound(bound_of(limit_index, "slice_in_dim: limit_index"));
        const std::int64_t step = integer(stride, "slice_in_dim: stride");
        const std::int64_t dim = integer(axis, "slice_in_dim: axis");
        return unlocked([&] { return lax::slice_in_dim(given, start, limit, step, dim); });
      },
      "operand"_a.none(), "start_index"_a.none(), "limit_index"_a.none(), "stride"_a = 1, "axis"_a = 0,
      "The elements from a start up to a limit of one dimension.");
  m.def(
      "index_in_dim",
      [](nb::handle x, nb::handle index, nb::handle axis, Flag keepdims) {
        const Operand given = operand(x, "index_in_dim", "operand");
        const Caller caller("index_in_dim", given.where());
        const std::int64_t dim = canonical_axis(integer(axis, "index_in_dim: axis"), shape_of(given).size());
        const std::int64_t extent = shape_of(given)[static_cast<std::size_t>(dim)];
        const std::int64_t position = integer(index, "index_in_dim: index");
        if (position < -extent || position >= extent) {
          throw OutOfRange(
              fmt::format("index_in_dim: index {} is out of bounds for axis {} with size {}", position, dim, extent),
              given.where());
        }
        const std::int64_t start = position < 0 ? position + extent : position;
        return unlocked([&] {
          const Array part = lax::slice_in_dim(given, start, start + 1, 1, dim);
          return keepdims ? part : squeeze({part, given.where()}, Axes({dim}));
        });
      },
      "operand"_a.none(), "index"_a, "axis"_a = 0, "keepdims"_a = true, "The elements at one position of a dimension.");
  m.def(
      "dynamic_slice",
      [](nb::handle x, nb::handle start_indices, nb::handle slice_sizes, nb::handle) {
        const Operand given = operand(x, "dynamic_slice", "operand");
        const std::vector<Operand> starts = starts_of(start_indices, "dynamic_slice");
        const Dims sizes = dim_list(slice_sizes, "dynamic_slice: slice_sizes");
        return typed([&] { return lax::dynamic_slice(given, {starts, given.where()}, sizes); });
      },
      "operand"_a.none(), "start_indices"_a, "slice_sizes"_a, nb::kw_only(), "allow_negative_indices"_a = true,
      "The window of these extents at a position that is computed.");
  m.def(
      "dynamic_slice_in_dim",
      [](nb::handle x, nb::handle start_index, nb::handle slice_size, nb::handle axis, nb::handle) {
        const Operand given = operand(x, "dynamic_slice_in_dim", "operand");
        const Operand start = operand(start_index, "dynamic_slice_in_dim", "start_index");
        const std::int64_t size = integer(slice_size, "dynamic_slice_in_dim: slice_size");
        const std::int64_t dim = integer(axis, "dynamic_slice_in_dim: axis");
        return typed([&] { return lax::dynamic_slice_in_dim(given, start, size, dim); });
      },
      "operand"_a.none(), "start_index"_a, "slice_size"_a, "axis"_a = 0, nb::kw_only(),
      "allow_negative_indices"_a = true,
      "The window of an extent at a position that is computed, along one dimension.");
  m.def(
      "dynamic_index_in_dim",
      [](nb::handle x, nb::handle index, nb::handle axis, Flag keepdims, nb::handle) {
        const Operand given = operand(x, "dynamic_index_in_dim", "operand");
        const Operand position = operand(index, "dynamic_index_in_dim", "index");
        const std::int64_t dim = integer(axis, "dynamic_index_in_dim: axis");
        return typed([&] { return lax::dynamic_index_in_dim(given, position, dim, keepdims); });
      },
      "operand"_a.none(), "index"_a, "axis"_a = 0, "keepdims"_a = true, nb::kw_only(),
      "allow_negative_indices"_a = true, "The elements at one position of a dimension, which is computed.");
  m.def(
      "dynamic_update_slice",
      [](nb::handle x, nb::handle update, nb::handle start_indices, nb::handle) {
        const Operand given = operand(x, "dynamic_update_slice", "operand");
        const Operand part = operand(update, "dynamic_update_slice", "update");
        const Operand* const both[] = {&given, &part};
        check_dtypes("dynamic_update_slice", both);
        const std::vector<Operand> starts = starts_of(start_indices, "dynamic_update_slice");
        return typed([&] { return lax::dynamic_update_slice(given, part, {starts, given.where()}); });
      },
      "operand"_a.none(), "update"_a.none(), "start_indices"_a, nb::kw_only(), "allow_negative_indices"_a = true,
      "The array with a window, at a position that is computed, replaced.");
  m.def(
      "dynamic_update_slice_in_dim",
      [](nb::handle x, nb::handle update, nb::handle start_index, nb::handle axis, nb::handle) {
        const Operand given = operand(x, "dynamic_update_slice_in_dim", "operand");
        const Operand part = operand(update, "dynamic_update_slice_in_dim", "update");
        const Operand* const both[] = {&given, &part};
        check_dtypes("dynamic_update_slice", both);
        const Operand start = operand(start_index, "dynamic_update_slice_in_dim", "start_index");
        const std::int64_t dim = integer(axis, "dynamic_update_slice_in_dim: axis");
        return typed([&] { return lax::dynamic_update_slice_in_dim(given, part, start, dim); });
      },
      "operand"_a.none(), "update"_a.none(), "start_index"_a, "axis"_a, nb::kw_only(),
      "allow_negative_indices"_a = true, "The array with a window along one dimension replaced.");
  m.def(
      "dynamic_update_index_in_dim",
      [](nb::handle x, nb::handle update, nb::handle index, nb::handle axis, nb::handle) {
        const Operand given = operand(x, "dynamic_update_index_in_dim", "operand");
        const Operand part = operand(update, "dynamic_update_index_in_dim", "update");
        const Operand* const both[] = {&given, &part};
        check_dtypes("dynamic_update_slice", both);
        const Operand position = operand(index, "dynamic_update_index_in_dim", "index");
        const std::int64_t dim = integer(axis, "dynamic_update_index_in_dim: axis");
        return typed([&] { return lax::dynamic_update_index_in_dim(given, part, position, dim); });
      },
      "operand"_a.none(), "update"_a.none(), "index"_a, "axis"_a, nb::kw_only(), "allow_negative_indices"_a = true,
      "The array with the elements at one position of a dimension replaced.");
}

Dims field(nb::handle x, const char* name, std::string_view function) {
  if (!nb::hasattr(x, name)) {
    type_error(fmt::format("{}: dimension_numbers must be of its own class, with the field {}; got {}", function, name,
                           type_text(x)));
  }
  const nb::object value = x.attr(name);
  return dim_list(value, fmt::format("{}: {}", function, name));
}

// The mode of a name or of a GatherScatterMode, whose members are named alike.
IndexMode scatter_mode(nb::handle mode, IndexMode otherwise) {
  if (mode.is_none()) return otherwise;
  auto name =
      nb::cast<std::string>(PyUnicode_Check(mode.ptr()) ? nb::str(mode) : nb::str(nb::getattr(mode, "name", mode)));
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  if (name == "clip" || name == "promise_in_bounds") return IndexMode::kClip;
  if (name == "fill" || name == "drop" || name == "fill_or_drop") return IndexMode::kFill;
  value_error(
      fmt::format("Unknown gather mode \"{}\": it must be 'clip', 'fill', 'drop' or 'promise_in_bounds'", name));
}

using Scatter = Array (*)(const Operand&, const Operand&, const Operand&, const lax::ScatterDimensionNumbers&,
                          const UpdateOptions&);

Array scatter_sub(const Operand& x, const Operand& indices, const Operand& updates,
                  const lax::ScatterDimensionNumbers& numbers, const UpdateOptions& options) {
  return lax::scatter_add(x, indices, {negative(updates), updates.where()}, numbers, options);
}

template <Scatter f>
void bind_scatter(nb::module_& m, const char* name, const char* doc) {
  m.def(
      name,
      [name](nb::handle x, nb::handle scatter_indices, nb::handle updates, nb::handle dimension_numbers, nb::handle,
             nb::handle, nb::handle mode) {
        const Operand given = operand(x, name, "operand");
        const Operand indices = operand(scatter_indices, name, "scatter_indices");
        const Operand values = operand(updates, name, "updates");
        const Operand* const both[] = {&given, &values};
        check_dtypes(name, both);
        const lax::ScatterDimensionNumbers numbers{
            .update_window_dims = field(dimension_numbers, "update_window_dims", name),
            .inserted_window_dims = field(dimension_numbers, "inserted_window_dims", name),
            .scatter_dims_to_operand_dims = field(dimension_numbers, "scatter_dims_to_operand_dims", name),
            .operand_batching_dims = field(dimension_numbers, "operand_batching_dims", name),
            .scatter_indices_batching_dims = field(dimension_numbers, "scatter_indices_batching_dims", name)};
        const UpdateOptions options{.mode = scatter_mode(mode, IndexMode::kDrop)};
        return typed([&] { return f(given, indices, values, numbers, options); });
      },
      "operand"_a.none(), "scatter_indices"_a, "updates"_a.none(), "dimension_numbers"_a, nb::kw_only(),
      "indices_are_sorted"_a = false, "unique_indices"_a = false, "mode"_a = nb::none(), doc);
}

void bind_gather(nb::module_& m) {
  m.def(
      "gather",
      [](nb::handle x, nb::handle start_indices, nb::handle dimension_numbers, nb::handle slice_sizes, nb::handle,
         nb::handle, nb::handle mode, nb::handle fill_value) {
        const Operand given = operand(x, "gather", "operand");
        const Operand starts = operand(start_indices, "gather", "start_indices");
        const lax::GatherDimensionNumbers numbers{
            .offset_dims = field(dimension_numbers, "offset_dims", "gather"),
            .collapsed_slice_dims = field(dimension_numbers, "collapsed_slice_dims", "gather"),
            .start_index_map = field(dimension_numbers, "start_index_map", "gather"),
            .operand_batching_dims = field(dimension_numbers, "operand_batching_dims", "gather"),
            .start_indices_batching_dims = field(dimension_numbers, "start_indices_batching_dims", "gather")};
        const Dims sizes = dim_list(slice_sizes, "gather: slice_sizes");
        const GetOptions options{.mode = scatter_mode(mode, IndexMode::kClip),
                                 .fill_value = maybe_operand(fill_value, "gather", "fill_value")};
        return typed([&] { return lax::gather(given, starts, numbers, sizes, options); });
      },
      "operand"_a.none(), "start_indices"_a, "dimension_numbers"_a, "slice_sizes"_a, nb::kw_only(),
      "unique_indices"_a = false, "indices_are_sorted"_a = false, "mode"_a = nb::none(), "fill_value"_a = nb::none(),
      "Windows of an array at positions that are computed.");
  bind_scatter<&lax::scatter>(m, "scatter", "The array with windows replaced by the updates.");
  bind_scatter<&lax::scatter_add>(m, "scatter_add", "The array with the updates added to windows.");
  bind_scatter<&scatter_sub>(m, "scatter_sub", "The array with the updates subtracted from windows.");
  bind_scatter<&lax::scatter_mul>(m, "scatter_mul", "The array with windows multiplied by the updates.");
  bind_scatter<&lax::scatter_min>(m, "scatter_min", "The array with the lesser of windows and updates.");
  bind_scatter<&lax::scatter_max>(m, "scatter_max", "The array with the greater of windows and updates.");
}

std::pair<Array, Array> top_k(const Operand& x, std::int64_t k, std::int64_t axis) {
  const Caller caller("top_k", x.where());
  const std::int64_t dim = canonical_axis(axis, shape_of(x).size());
  if (k < 0) throw InvalidArgument(fmt::format("k argument to top_k must be nonnegative, got {}", k), x.where());
  return lax::top_k(x, k, dim);
}

void bind_order(nb::module_& m) {
  m.def(
      "sort",
      [](nb::handle x, nb::handle dimension, Flag, nb::handle num_keys) -> nb::object {
        const lax::SortKeyOptions options{.dimension = integer(dimension, "sort: dimension"),
                                          .num_keys = integer(num_keys, "sort: num_keys")};
        const SourceLocation where = user_line();
        if (!PyTuple_Check(x.ptr()) && !PyList_Check(x.ptr())) {
          const Array array = to_array(x, "sort", "operand");
          return nb::cast(unlocked([&] { return lax::sort({array}, options, where)[0]; }));
        }
        std::vector<Array> arrays;
        for (nb::handle item : x) arrays.push_back(to_array(item, "sort", "operand"));
        if (arrays.empty()) type_error("Sort requires at least one operand");
        for (const Array& array : arrays) {
          if (array.shape() == arrays[0].shape()) continue;
          type_error(fmt::format("Arguments to sort must have equal shapes, got: {} {}", to_string(arrays[0].shape()),
                                 to_string(array.shape())));
        }
        return tuple_of(unlocked([&] { return lax::sort(arrays, options, where); }));
      },
      "operand"_a.none(), "dimension"_a = -1, "is_stable"_a = true, "num_keys"_a = 1,
      "One array, or several by the first num_keys of them, in ascending order along a dimension.");
  m.def(
      "sort_key_val",
      [](nb::handle keys, nb::handle values, nb::handle dimension, Flag) {
        const std::vector<Array> arrays{to_array(keys, "sort_key_val", "keys"),
                                        to_array(values, "sort_key_val", "values")};
        const lax::SortKeyOptions options{.dimension = integer(dimension, "sort_key_val: dimension"), .num_keys = 1};
        const SourceLocation where = user_line();
        return tuple_of(unlocked([&] { return lax::sort(arrays, options, where); }));
      },
      "keys"_a.none(), "values"_a.none(), "dimension"_a = -1, "is_stable"_a = true,
      "Keys and values in the ascending order of the keys.");
  m.def(
      "top_k",
      [](nb::handle x, nb::handle k, nb::handle axis, Flag) {
        const Operand given = operand(x, "top_k", "operand");
        const std::int64_t count = integer(k, "top_k: k");
        const std::int64_t dim = integer(axis, "top_k: axis");
        auto [values, positions] = unlocked([&] { return top_k(given, count, dim); });
        return list_of(std::vector<Array>{values, positions});
      },
      "operand"_a.none(), "k"_a, nb::kw_only(), "axis"_a = -1, "is_stable"_a = true,
      "The k greatest elements along an axis, in descending order, and their positions.");
  const auto approximate = [&](const char* name, bool greatest, const char* doc) {
    m.def(
        name,
        [name, greatest](nb::handle x, nb::handle k, nb::handle dimension, double, nb::handle, Flag) {
          const Operand given = operand(x, name, "operand");
          check_kind(name, given, kFloats);
          const std::int64_t count = integer(k, fmt::format("{}: k", name));
          const std::int64_t dim = integer(dimension, fmt::format("{}: reduction_dimension", name));
          auto [values, positions] = unlocked([&] {
            if (greatest) return top_k(given, count, dim);
            auto [least, places] = top_k({negative(given), given.where()}, count, dim);
            return std::pair(negative({least, given.where()}), places);
          });
          return list_of(std::vector<Array>{values, positions});
        },
        "operand"_a.none(), "k"_a, "reduction_dimension"_a = -1, "recall_target"_a = 0.95,
        "reduction_input_size_override"_a = -1, "aggregate_to_topk"_a = true, doc);
  };
  approximate("approx_max_k", true, "The k greatest elements and their positions; exactly.");
  approximate("approx_min_k", false, "The k least elements and their positions; exactly.");
}

}  // namespace

void bind_lax_movement(nb::module_& m) {
  bind_creation(m);
  bind_broadcasts(m);
  bind_shapes(m);
  bind_slices(m);
  bind_gather(m);
  bind_order(m);
}

}  // namespace shoal::python
