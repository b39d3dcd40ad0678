// The functions of lax that move elements: each is one op, or two.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/shape_mismatch.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/out_sharding.h"
#include "frontend/array/promotion.h"
#include "frontend/array/trace.h"
#include "ops/rules.h"
#include "ops/table.h"
#include "shoal/lax.h"
#include "shoal/numpy.h"

namespace shoal::lax {
namespace {

MemoryKind memory_of(const Array& array) { return detail::impl_of(array).type.memory; }

// A start index as an operand of the op, counted from the beginning. `room` is the last start at which the window fits.
Array start_index(std::string_view function, const Operand& start, std::int64_t extent, std::int64_t room,
                  MemoryKind memory, SourceLocation where) {
  const Dtype given = element_of(function, start).dtype;
  if (!is_integer(given)) {
    throw TypeMismatch(fmt::format("{}: a start index has dtype {}; it must be an integer", function, name_of(given)),
                       where);
  }
  const Dtype dtype = holds(int32, extent) ? int32 : int64;
  if (start.number() != nullptr) {
    auto value = to_scalar(*start.number(), int64, function, where).as<std::int64_t>();
    value = std::clamp<std::int64_t>(value < 0 ? value + extent : value, 0, room);
    return constant(Scalar::of(value).converted_to(dtype), false, memory, where);
  }
  Array index = *start.array();
  if (index.ndim() != 0) {
    throw ShapeMismatch(fmt::format("{}: a start index is {}; it must be a scalar", function, type_of(index)), where);
  }
  if (size_of(index.dtype()) < size_of(dtype)) index = convert(index, dtype, false, where);
  const Array end = constant(Scalar::of(extent).converted_to(index.dtype()), false, memory, where);
  const Array zero = constant(Scalar::of(0).converted_to(index.dtype()), false, memory, where);
  return bind_one("select", {}, {less({index, where}, {zero, where}), add({index, where}, {end, where}), index}, where);
}

// Throws unless there is a start index for each dimension of x; adds them to the operands.
void add_starts(std::string_view function, std::vector<Array>& operands, const Array& x, const Operands& starts,
                const Shape& window, SourceLocation where) {
  if (starts.list().size() != x.ndim()) {
    throw ShapeMismatch(fmt::format("{}: {} start indices are given for {}; there must be one for each dimension",
                                    function, starts.list().size(), type_of(x)),
                        where);
  }
  for (std::size_t d = 0; d < x.ndim(); ++d) {
    operands.push_back(
        start_index(function, starts.list()[d], x.shape()[d], x.shape()[d] - window[d], memory_of(x), where));
  }
}

Array dynamic_slice(std::string_view function, const Array& x, const Operands& starts, const Dims& sizes,
                    SourceLocation where) {
  bool inside = sizes.size() == x.ndim();
  for (std::size_t d = 0; inside && d < sizes.size(); ++d) inside = sizes[d] >= 0 && sizes[d] <= x.shape()[d];
  if (!inside) {
    throw ShapeMismatch(fmt::format("{}: sizes {} must have one entry for each dimension of {}, between 0 and its "
                                    "extent",
                                    function, to_string(sizes), type_of(x)),
                        where);
  }
  std::vector<Array> operands{x};
  add_starts(function, operands, x, starts, sizes, where);
  return bind(op_named("dynamic_slice"), {{"sizes", sizes}}, operands, where)[0];
}

Array dynamic_update(std::string_view function, const Array& x, const Array& update, const Operands& starts,
                     SourceLocation where) {
  bool inside = update.ndim() == x.ndim();
  for (std::size_t d = 0; inside && d < x.ndim(); ++d) inside = update.shape()[d] <= x.shape()[d];
  if (!inside) {
    throw ShapeMismatch(
        fmt::format("{}: the update {} must have as many dimensions as {}, with extents that are not greater", function,
                    type_of(update), type_of(x)),
        where);
  }
  if (update.dtype() != x.dtype()) {
    throw TypeMismatch(fmt::format("{}: the update {} must have the dtype of {}; convert it with astype", function,
                                   type_of(update), type_of(x)),
                       where);
  }
  std::vector<Array> operands{x, update};
  add_starts(function, operands, x, starts, update.shape(), where);
  return bind(op_named("dynamic_update_slice"), {}, operands, where)[0];
}

// Start indices that are 0 but for one dimension.
Operands starts_in_dim(const Array& x, const Operand& start, std::int64_t axis, SourceLocation where) {
  std::vector<Operand> starts(x.ndim(), Operand(0, where));
  starts[static_cast<std::size_t>(axis)] = start;
  return {std::move(starts), where};
}

}  // namespace

Array slice(const Operand& x, const Dims& starts, const Dims& limits, const std::optional<Dims>& strides) {
  const Array array = to_array(x);
  return bind_one("slice",
                  {{"starts", starts}, {"limits", limits}, {"strides", strides.value_or(Dims(array.ndim(), 1))}},
                  {array}, x.where());
}

Array slice_in_dim(const Operand& x, Bound start, Bound limit, std::int64_t stride, std::int64_t axis) {
  const Array array = to_array(x);
  const auto dim = static_cast<std::size_t>(canonical_axis("slice_in_dim", axis, array.ndim(), x.where()));
  const std::int64_t extent = array.shape()[dim];
  const auto from_start = [&](std::int64_t bound) { return bound < 0 ? bound + extent : bound; };
  Dims starts(array.ndim(), 0);
  Dims limits = array.shape();
  Dims strides(array.ndim(), 1);
  starts[dim] = from_start(start.value_or(0));
  limits[dim] = from_start(limit.value_or(extent));
  strides[dim] = stride;
  if (starts[dim] == 0 && limits[dim] == extent && stride == 1) return array;
  return slice({array, x.where()}, starts, limits, strides);
}

Array dynamic_slice(const Operand& x, const Operands& starts, const Dims& sizes) {
  return dynamic_slice("dynamic_slice", to_array(x), starts, sizes, x.where());
}

Array dynamic_slice_in_dim(const Operand& x, const Operand& start, std::int64_t size, std::int64_t axis) {
  const Array array = to_array(x);
  const std::int64_t dim = canonical_axis("dynamic_slice_in_dim", axis, array.ndim(), x.where());
  Dims sizes = array.shape();
  sizes[static_cast<std::size_t>(dim)] = size;
  return dynamic_slice("dynamic_slice_in_dim", array, starts_in_dim(array, start, dim, x.where()), sizes, x.where());
}

Array dynamic_index_in_dim(const Operand& x, const Operand& index, std::int64_t axis, bool keepdims) {
  const Array array = to_array(x);
  const std::int64_t dim = canonical_axis("dynamic_index_in_dim", axis, array.ndim(), x.where());
  Dims sizes = array.shape();
  sizes[static_cast<std::size_t>(dim)] = 1;
  const Array window =
      dynamic_slice("dynamic_index_in_dim", array, starts_in_dim(array, index, dim, x.where()), sizes, x.where());
  return keepdims ? window : squeeze({window, x.where()}, Axes({dim}));
}

Array dynamic_update_slice(const Operand& x, const Operand& update, const Operands& starts) {
  return dynamic_update("dynamic_update_slice", to_array(x), to_array(update), starts, x.where());
}

Array dynamic_update_slice_in_dim(const Operand& x, const Operand& update, const Operand& start, std::int64_t axis) {
  const Array array = to_array(x);
  const std::int64_t dim = canonical_axis("dynamic_update_slice_in_dim", axis, array.ndim(), x.where());
  return dynamic_update("dynamic_update_slice_in_dim", array, to_array(update),
                        starts_in_dim(array, start, dim, x.where()), x.where());
}

Array dynamic_update_index_in_dim(const Operand& x, const Operand& update, const Operand& index, std::int64_t axis) {
  const Array array = to_array(x);
  const std::int64_t dim = canonical_axis("dynamic_update_index_in_dim", axis, array.ndim(), x.where());
  Array piece = to_array(update);
  if (piece.ndim() + 1 == array.ndim()) piece = expand_dims({piece, x.where()}, dim);
  return dynamic_update("dynamic_update_index_in_dim", array, piece, starts_in_dim(array, index, dim, x.where()),
                        x.where());
}

Array pad(const Operand& x, const Operand& padding_value, const std::vector<PaddingConfig>& padding_config) {
  const Array array = to_array(x);
  // A number takes the array's dtype if it may without losing its kind.
  Array value = to_array(padding_value, memory_of(array));
  if (padding_value.number() != nullptr) {
    const Dtype dtype = promote_types({array.dtype(), false}, element_of("pad", padding_value)).dtype;
    value = constant(to_scalar(*padding_value.number(), dtype, "pad", x.where()), array.weak_type(), memory_of(array),
                     x.where());
  }
  if (value.dtype() != array.dtype()) {
    throw TypeMismatch(fmt::format("pad: the padding value {} must have the dtype of {}; convert it with astype",
                                   type_of(value), type_of(array)),
                       x.where());
  }
  Dims low;
  Dims high;
  Dims interior;
  for (const PaddingConfig& config : padding_config) {
    low.push_back(config.low);
    high.push_back(config.high);
    interior.push_back(config.interior);
  }
  return bind_one("pad", {{"low", low}, {"high", high}, {"interior", interior}}, {array, value}, x.where());
}

Array rev(const Operand& x, const Dims& dimensions) {
  const Array array = to_array(x);
  return bind_one("reverse", {{"dims", canonical_axes("rev", Axes(dimensions), array.ndim(), x.where())}}, {array},
                  x.where());
}

Array concatenate(const Operands& arrays, std::int64_t dimension) {
  std::vector<Array> operands;
  for (const Operand& operand : arrays.list()) operands.push_back(to_array(operand));
  return bind(op_named("concatenate"), {{"dim", dimension}}, operands, arrays.where())[0];
}

Array broadcast_in_dim(const Operand& x, const Shape& shape, const Dims& broadcast_dimensions,
                       const OutSharding& out_sharding) {
  return split_as("broadcast_in_dim", out_sharding, {to_array(x)}, x.where(), [&](const std::vector<Array>& arrays) {
    return bind_one("broadcast_in_dim", {{"shape", shape}, {"dims", broadcast_dimensions}}, {arrays[0]}, x.where());
  });
}

Array reshape(const Operand& x, const Shape& new_sizes, const OutSharding& out_sharding) {
  return split_as("reshape", out_sharding, {to_array(x)}, x.where(), [&](const std::vector<Array>& arrays) {
    return bind_one("reshape", {{"shape", new_sizes}}, {arrays[0]}, x.where());
  });
}

Array transpose(const Operand& x, const Dims& permutation) {
  return bind_one("transpose", {{"perm", permutation}}, {to_array(x)}, x.where());
}

Array iota(Dtype dtype, std::int64_t size, SourceLocation where) { return broadcasted_iota(dtype, {size}, 0, where); }

Array broadcasted_iota(Dtype dtype, const Shape& shape, std::int64_t dimension, SourceLocation where) {
  const std::int64_t dim = canonical_axis("broadcasted_iota", dimension, shape.size(), where);
  const std::int64_t last = shape[static_cast<std::size_t>(dim)] - 1;
  if (last > 0 && !holds(dtype, last)) {
    throw InvalidArgument(fmt::format("broadcasted_iota: dimension {} of shape {} counts to {}, which does not fit {}",
                                      dim, to_string(shape), last, name_of(dtype)),
                          where);
  }
  return bind_one("iota", {{"shape", shape}, {"dtype", dtype}, {"dim", dim}}, {}, where);
}

Array bitcast_convert_type(const Operand& x, Dtype new_dtype) {
  const Array array = to_array(x);
  if (array.dtype() == new_dtype) return array;
  return bind_one("bitcast", {{"dtype", new_dtype}}, {array}, x.where());
}

}  // namespace shoal::lax
