// The functions of lax that move elements: each is one op, or two.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/caller.h"
#include "base/misuse.h"
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
Array start_index(const Operand& start, std::int64_t extent, std::int64_t room, MemoryKind memory) {
  const Dtype given = element_of(start).dtype;
  if (!is_integer(given)) {
    throw misuse<TypeMismatch>("a start index has dtype {}; it must be an integer", name_of(given));
  }
  const Dtype dtype = holds(int32, extent) ? int32 : int64;
  if (start.number() != nullptr) {
    auto value = to_scalar(*start.number(), int64).as<std::int64_t>();
    value = std::clamp<std::int64_t>(value < 0 ? value + extent : value, 0, room);
    return constant(Scalar::of(value).converted_to(dtype), false, memory);
  }
  Array index = *start.array();
  if (index.ndim() != 0) {
    throw misuse<ShapeMismatch>("a start index is {}; it must be a scalar", type_of(index));
  }
  if (size_of(index.dtype()) < size_of(dtype)) index = convert(index, dtype);
  const Array end = constant(Scalar::of(extent).converted_to(index.dtype()), false, memory);
  const Array zero = constant(Scalar::of(0).converted_to(index.dtype()), false, memory);
  return bind_one("select", {}, {less(index, zero), add(index, end), index});
}

// Throws unless there is a start index for each dimension of x; adds them to the operands.
void add_starts(std::vector<Array>& operands, const Array& x, const Operands& starts, const Shape& window) {
  if (starts.list().size() != x.ndim()) {
    throw misuse<ShapeMismatch>("{} start indices are given for {}; there must be one for each dimension",
                                starts.list().size(), type_of(x));
  }
  for (std::size_t d = 0; d < x.ndim(); ++d) {
    operands.push_back(start_index(starts.list()[d], x.shape()[d], x.shape()[d] - window[d], memory_of(x)));
  }
}

Array dynamic_slice(const Array& x, const Operands& starts, const Dims& sizes) {
  bool inside = sizes.size() == x.ndim();
  for (std::size_t d = 0; inside && d < sizes.size(); ++d) inside = sizes[d] >= 0 && sizes[d] <= x.shape()[d];
  if (!inside) {
    throw misuse<ShapeMismatch>("sizes {} must have one entry for each dimension of {}, between 0 and its extent",
                                to_string(sizes), type_of(x));
  }
  std::vector<Array> operands{x};
  add_starts(operands, x, starts, sizes);
  return bind(op_named("dynamic_slice"), {{"sizes", sizes}}, operands)[0];
}

Array dynamic_update(const Array& x, const Array& update, const Operands& starts) {
  bool inside = update.ndim() == x.ndim();
  for (std::size_t d = 0; inside && d < x.ndim(); ++d) inside = update.shape()[d] <= x.shape()[d];
  if (!inside) {
    throw misuse<ShapeMismatch>("the update {} must have as many dimensions as {}, with extents that are not greater",
                                type_of(update), type_of(x));
  }
  if (update.dtype() != x.dtype()) {
    throw misuse<TypeMismatch>("the update {} must have the dtype of {}; convert it with astype", type_of(update),
                               type_of(x));
  }
  std::vector<Array> operands{x, update};
  add_starts(operands, x, starts, update.shape());
  return bind(op_named("dynamic_update_slice"), {}, operands)[0];
}

// Start indices that are 0 but for one dimension.
Operands starts_in_dim(const Array& x, const Operand& start, std::int64_t axis) {
  std::vector<Operand> starts(x.ndim(), 0);
  starts[static_cast<std::size_t>(axis)] = start;
  return Operands(std::move(starts));
}

}  // namespace

Array slice(const Operand& x, const Dims& starts, const Dims& limits, const std::optional<Dims>& strides) {
  const Caller caller("slice", x.where());
  const Array array = to_array(x);
  return bind_one(
      "slice", {{"starts", starts}, {"limits", limits}, {"strides", strides.value_or(Dims(array.ndim(), 1))}}, {array});
}

Array slice_in_dim(const Operand& x, Bound start, Bound limit, std::int64_t stride, std::int64_t axis) {
  const Caller caller("slice_in_dim", x.where());
  const Array array = to_array(x);
  const auto dim = static_cast<std::size_t>(canonical_axis(axis, array.ndim()));
  const std::int64_t extent = array.shape()[dim];
  const auto from_start = [&](std::int64_t bound) { return bound < 0 ? bound + extent : bound; };
  Dims starts(array.ndim(), 0);
  Dims limits = array.shape();
  Dims strides(array.ndim(), 1);
  starts[dim] = from_start(start.value_or(0));
  limits[dim] = from_start(limit.value_or(extent));
  strides[dim] = stride;
  if (starts[dim] == 0 && limits[dim] == extent && stride == 1) return array;
  return slice(array, starts, limits, strides);
}

Array dynamic_slice(const Operand& x, const Operands& starts, const Dims& sizes) {
  const Caller caller("dynamic_slice", x.where());
  return dynamic_slice(to_array(x), starts, sizes);
}

Array dynamic_slice_in_dim(const Operand& x, const Operand& start, std::int64_t size, std::int64_t axis) {
  const Caller caller("dynamic_slice_in_dim", x.where());
  const Array array = to_array(x);
  const std::int64_t dim = canonical_axis(axis, array.ndim());
  Dims sizes = array.shape();
  sizes[static_cast<std::size_t>(dim)] = size;
  return dynamic_slice(array, starts_in_dim(array, start, dim), sizes);
}

Array dynamic_index_in_dim(const Operand& x, const Operand& index, std::int64_t axis, bool keepdims) {
  const Caller caller("dynamic_index_in_dim", x.where());
  const Array array = to_array(x);
  const std::int64_t dim = canonical_axis(axis, array.ndim());
  Dims sizes = array.shape();
  sizes[static_cast<std::size_t>(dim)] = 1;
  const Array window = dynamic_slice(array, starts_in_dim(array, index, dim), sizes);
  return keepdims ? window : squeeze(window, Axes({dim}));
}

Array dynamic_update_slice(const Operand& x, const Operand& update, const Operands& starts) {
  const Caller caller("dynamic_update_slice", x.where());
  return dynamic_update(to_array(x), to_array(update), starts);
}

Array dynamic_update_slice_in_dim(const Operand& x, const Operand& update, const Operand& start, std::int64_t axis) {
  const Caller caller("dynamic_update_slice_in_dim", x.where());
  const Array array = to_array(x);
  const std::int64_t dim = canonical_axis(axis, array.ndim());
  return dynamic_update(array, to_array(update), starts_in_dim(array, start, dim));
}

Array dynamic_update_index_in_dim(const Operand& x, const Operand& update, const Operand& index, std::int64_t axis) {
  const Caller caller("dynamic_update_index_in_dim", x.where());
  const Array array = to_array(x);
  const std::int64_t dim = canonical_axis(axis, array.ndim());
  Array piece = to_array(update);
  if (piece.ndim() + 1 == array.ndim()) piece = expand_dims(piece, dim);
  return dynamic_update(array, piece, starts_in_dim(array, index, dim));
}

Array pad(const Operand& x, const Operand& padding_value, const std::vector<PaddingConfig>& padding_config) {
  const Caller caller("pad", x.where());
  const Array array = to_array(x);
  // A number takes the array's dtype if it may without losing its kind.
  Array value = to_array(padding_value, memory_of(array));
  if (padding_value.number() != nullptr) {
    const Dtype dtype = promote_types({array.dtype(), false}, element_of(padding_value)).dtype;
    value = constant(to_scalar(*padding_value.number(), dtype), array.weak_type(), memory_of(array));
  }
  if (value.dtype() != array.dtype()) {
    throw misuse<TypeMismatch>("the padding value {} must have the dtype of {}; convert it with astype", type_of(value),
                               type_of(array));
  }
  Dims low;
  Dims high;
  Dims interior;
  for (const PaddingConfig& config : padding_config) {
    low.push_back(config.low);
    high.push_back(config.high);
    interior.push_back(config.interior);
  }
  return bind_one("pad", {{"low", low}, {"high", high}, {"interior", interior}}, {array, value});
}

Array rev(const Operand& x, const Dims& dimensions) {
  const Caller caller("rev", x.where());
  const Array array = to_array(x);
  return bind_one("reverse", {{"dims", canonical_axes(Axes(dimensions), array.ndim())}}, {array});
}

Array concatenate(const Operands& arrays, std::int64_t dimension) {
  const Caller caller("concatenate", arrays.where());
  std::vector<Array> operands;
  for (const Operand& operand : arrays.list()) operands.push_back(to_array(operand));
  return bind(op_named("concatenate"), {{"dim", dimension}}, operands)[0];
}

Array broadcast_in_dim(const Operand& x, const Shape& shape, const Dims& broadcast_dimensions,
                       const OutSharding& out_sharding) {
  const Caller caller("broadcast_in_dim", x.where());
  return moved_as(out_sharding, to_array(x), [&](const Array& relaxed) {
    return bind_one("broadcast_in_dim", {{"shape", shape}, {"dims", broadcast_dimensions}}, {relaxed});
  });
}

Array reshape(const Operand& x, const Shape& new_sizes, const OutSharding& out_sharding) {
  const Caller caller("reshape", x.where());
  const Array array = to_array(x);
  if (out_sharding) check_summed_alike(array, *out_sharding);
  return moved_as(out_sharding, array, [&](const Array& relaxed) {
    return bind_one("reshape", {{"shape", new_sizes}}, {relaxed});
  });
}

Array transpose(const Operand& x, const Dims& permutation) {
  const Caller caller("transpose", x.where());
  return bind_one("transpose", {{"perm", permutation}}, {to_array(x)});
}

Array iota(Dtype dtype, std::int64_t size, SourceLocation where) {
  const Caller caller("iota", where);
  return broadcasted_iota(dtype, {size}, 0);
}

Array broadcasted_iota(Dtype dtype, const Shape& shape, std::int64_t dimension, SourceLocation where) {
  const Caller caller("broadcasted_iota", where);
  const std::int64_t dim = canonical_axis(dimension, shape.size());
  const std::int64_t last = shape[static_cast<std::size_t>(dim)] - 1;
  if (last > 0 && !holds(dtype, last)) {
    throw misuse<InvalidArgument>("dimension {} of shape {} counts to {}, which does not fit {}", dim, to_string(shape),
                                  last, name_of(dtype));
  }
  return bind_one("iota", {{"shape", shape}, {"dtype", dtype}, {"dim", dim}}, {});
}

Array bitcast_convert_type(const Operand& x, Dtype new_dtype) {
  const Caller caller("bitcast_convert_type", x.where());
  const Array array = to_array(x);
  if (array.dtype() == new_dtype) return array;
  if (is_key(array.dtype()) || is_key(new_dtype)) {
    throw misuse<TypeMismatch>("{} cannot be read as {}; random::key_data and random::wrap_key_data do that for keys",
                               type_of(array), name_of(new_dtype));
  }
  return bind_one("bitcast", {{"dtype", new_dtype}}, {array});
}

}  // namespace shoal::lax
