// Order and positions: sorting, searching, counting, cumulative reductions.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/out_sharding.h"
#include "frontend/array/promotion.h"
#include "frontend/array/trace.h"
#include "frontend/array/tracer_errors.h"
#include "frontend/functions/indexing.h"
#include "ops/table.h"
#include "shoal/lax.h"
#include "shoal/numpy.h"
#include "shoal/ops.h"

namespace shoal {
namespace {

// The array and axis that are meant when no axis means the flattened array.
struct AlongAxis {
  Array array;
  std::int64_t axis;
};

AlongAxis along(const Array& array, std::optional<std::int64_t> axis) {
  if (!axis) return {ravel(array), 0};
  return {array, canonical_axis(*axis, array.ndim())};
}

// 0, 1, … along an axis, in the shape of the array.
Array positions_along(const Array& array, std::int64_t axis) {
  return spread(counted(extent_of(array, axis), array), array.shape(), {axis});
}

// The value of a concrete integer array's greatest element, or -1 if it has none.
std::int64_t greatest(const Array& array) { return array.size() == 0 ? -1 : shoal::max(array).item<std::int64_t>(); }

void refuse_tracer(std::string_view option, const Array& array) {
  if (!array.is_tracer()) return;
  throw misuse<ValueOfTracer>(
      "the extent of the result depends on the values of {}, which are not known while tracing; give {}",
      type_of(array), option);
}

void check_count(std::string_view option, std::int64_t count) {
  if (count >= 0) return;
  throw misuse<InvalidArgument>("{} is {}; it must be at least 0", option, count);
}

// ---- argmax, argmin

// The least position of those elements that equal the extreme one, or are NaN if that is.
Array arg_extreme(Array (*extreme)(const Operand&, const ReduceOptions&), const Operand& x, const ArgOptions& options) {
  const Array given = to_array(x);
  const auto [array, axis] = along(given, options.axis);
  const std::int64_t extent = extent_of(array, axis);
  if (extent == 0) {
    throw misuse<InvalidArgument>("{} has no elements along axis {} to choose from", type_of(array), axis);
  }
  const ReduceOptions over{.axis = Dims{axis}, .keepdims = true};
  Array chosen = equal(array, extreme(array, over));
  if (is_floating(array.dtype())) chosen = bitwise_or(chosen, not_equal(array, array));
  const Array positions = positions_along(array, axis);
  const Array least = min(where(chosen, positions, extent - 1), {.axis = Dims{axis}, .keepdims = options.keepdims});
  if (options.axis || !options.keepdims) return least;
  return reshape(least, Shape(given.ndim(), 1));
}

}  // namespace

Array argmax(const Operand& x, const ArgOptions& options) {
  const Caller caller("argmax", x.where());
  return arg_extreme(max, x, options);
}
Array argmin(const Operand& x, const ArgOptions& options) {
  const Caller caller("argmin", x.where());
  return arg_extreme(min, x, options);
}

// ---- Sorting.

namespace {

std::vector<Array> sorted(const std::vector<Array>& operands, std::int64_t dim, std::int64_t keys, bool descending) {
  return shoal::bind(op_named("sort"), {{"dim", dim}, {"num_keys", keys}, {"descending", descending}}, operands);
}

}  // namespace

Array sort(const Operand& x, const SortOptions& options) {
  const Caller caller("sort", x.where());
  const auto [array, axis] = along(to_array(x), options.axis);
  return sorted({array}, axis, 1, options.descending)[0];
}

Array argsort(const Operand& x, const SortOptions& options) {
  const Caller caller("argsort", x.where());
  const auto [array, axis] = along(to_array(x), options.axis);
  const Array positions = positions_along(array, axis);
  return sorted({array, positions}, axis, 1, options.descending)[1];
}

Array lexsort(const std::vector<Array>& keys, std::int64_t axis, SourceLocation where) {
  const Caller caller("lexsort", where);
  if (keys.empty()) throw misuse<InvalidArgument>("needs at least one key");
  std::vector<Array> operands(keys.rbegin(), keys.rend());
  for (const Array& key : operands) {
    detail::impl_of(key);
    if (key.shape() == operands[0].shape()) continue;
    throw misuse<InvalidArgument>("keys must have one shape, but are {} and {}", type_of(operands[0]), type_of(key));
  }
  const std::int64_t dim = canonical_axis(axis, operands[0].ndim());
  operands.push_back(positions_along(operands[0], dim));
  return sorted(operands, dim, static_cast<std::int64_t>(keys.size()), false).back();
}

namespace lax {

std::vector<Array> sort(const std::vector<Array>& operands, const SortKeyOptions& options, SourceLocation where) {
  const Caller caller("sort", where);
  if (operands.empty()) throw misuse<InvalidArgument>("needs at least one operand");
  for (const Array& operand : operands) detail::impl_of(operand);
  const std::int64_t dim = canonical_axis(options.dimension, operands[0].ndim());
  return sorted(operands, dim, options.num_keys, false);
}

std::pair<Array, Array> top_k(const Operand& x, std::int64_t k, std::int64_t axis) {
  const Caller caller("top_k", x.where());
  const Array array = to_array(x);
  const std::int64_t dim = canonical_axis(axis, array.ndim());
  if (extent_of(array, dim) > std::numeric_limits<std::int32_t>::max()) {
    throw misuse<OutOfRange>("dimension {} of {} has more positions than i32 counts", dim, type_of(array));
  }
  const std::vector<Array> results = shoal::bind(op_named("top_k"), {{"dim", dim}, {"k", k}}, {&array, 1});
  return {results[0], results[1]};
}

}  // namespace lax

// ---- Searching.

// A binary search for all values at once.
Array searchsorted(const Operand& sorted, const Operand& values, const SearchOptions& options) {
  const Caller caller("searchsorted", sorted.where());
  const DtypeAndWeakness element = promote_types(element_of(sorted), element_of(values));
  const Array list = convert(to_array(sorted), element.dtype, element.weak);
  const Array wanted = convert(to_array(values), element.dtype, element.weak);
  if (list.ndim() != 1) {
    throw misuse<InvalidArgument>("searches a vector, not {}", type_of(list));
  }
  // a comes before b, NaN last.
  const auto before = [&](const Array& a, const Array& b) {
    const Array less_than = less(a, b);
    if (!is_floating(element.dtype) && !is_complex(element.dtype)) return less_than;
    return bitwise_or(less_than, bitwise_and(equal(a, a), not_equal(b, b)));
  };
  const std::int64_t extent = list.shape()[0];
  counted(extent, list);
  const auto everywhere = [&](std::int64_t position) {
    return spread(convert(to_array(position), int32), wanted.shape(), {});
  };
  Array low = everywhere(0);
  Array high = everywhere(extent);
  for (auto step = std::bit_width(static_cast<std::uint64_t>(extent)); step > 0; --step) {
    const Array middle = floor_divide(add(low, high), 2);
    const Array here = items_at(list, {middle}, {.dims = {0}}, {});
    const Array behind = options.side == Side::kLeft ? before(here, wanted) : bitwise_not(before(wanted, here));
    const Array open = less(low, high);
    const Array up = bitwise_and(open, behind);
    const Array down = bitwise_and(open, bitwise_not(behind));
    low = where(up, add(middle, 1), low);
    high = where(down, middle, high);
  }
  return low;
}

namespace {

// The positions in the flattened mask where it holds, `size` of them, and the mask's extent where there are no more.
Array first_true(const Array& flat, std::int64_t size) {
  const std::int64_t extent = flat.shape()[0];
  const Array positions = counted(extent, flat);
  const Array rank = subtract(lax::cumsum(convert(flat, int32)), 1);
  const Array places = where(flat, rank, size);
  const Array none_left = spread(to_array(extent), {size}, {});
  return with_items(convert(none_left, int32), positions, {places}, {.dims = {0}});
}

}  // namespace

std::vector<Array> nonzero(const Operand& x, const NonzeroOptions& options) {
  const Caller caller("nonzero", x.where());
  const Array mask = truth(x);
  if (mask.ndim() == 0) {
    throw misuse<InvalidArgument>("a scalar has no positions; reshape it to one dimension");
  }
  if (!options.size) {
    refuse_tracer("a size", mask);
    return positions_of_true(mask);
  }
  check_count("size", *options.size);
  const std::int64_t extent = mask.size();
  const Array flat = first_true(ravel(mask), *options.size);
  const Array found = less(flat, extent);
  const Dims strides = row_major_strides(mask.shape());
  std::vector<Array> results;
  for (std::size_t d = 0; d < mask.ndim(); ++d) {
    const Array along = floor_divide(flat, std::max<std::int64_t>(strides[d], 1));
    const Array position = remainder(along, std::max<std::int64_t>(mask.shape()[d], 1));
    results.push_back(where(found, position, options.fill_value));
  }
  return results;
}

Array flatnonzero(const Operand& x, const NonzeroOptions& options) {
  const Caller caller("flatnonzero", x.where());
  return nonzero(ravel(x), options)[0];
}

// ---- Counting.

Array bincount(const Operand& x, const BincountOptions& options) {
  const Caller caller("bincount", x.where());
  const Array array = to_array(x);
  if (array.ndim() != 1 || !is_integer(array.dtype())) {
    throw misuse<TypeMismatch>("counts a vector of integers, not {}", type_of(array));
  }
  check_count("minlength", options.minlength);
  if (options.length) {
    check_count("length", *options.length);
  } else {
    refuse_tracer("a length", array);
  }
  const std::int64_t length = options.length ? *options.length : std::max(greatest(array) + 1, options.minlength);
  Array weights = options.weights ? *options.weights : spread(to_array(1), array.shape(), {});
  if (weights.shape() != array.shape()) {
    throw misuse<InvalidArgument>("weights {} must have the shape of {}", type_of(weights), type_of(array));
  }
  if (weights.dtype() == bool_) weights = convert(weights, int32);
  weights = convert(weights, weights.dtype());
  return split_as(options.out_sharding, {array, weights}, [&](const std::vector<Array>& arrays) {
    const Array bins = resolved_positions(arrays[0], length, IndexMode::kDrop, false);
    const Array counted_up = maximum(bins, 0);  // Negative numbers count as 0.
    return add(reduced_items("sum", {length}, arrays[1], {counted_up}, {.dims = {0}}), 0);
  });
}

namespace ops {
namespace {

Array segment_reduce(std::string_view kind, const Operand& data, const Operand& segment_ids,
                     std::optional<std::int64_t> num_segments, const OutSharding& out_sharding) {
  if (kind != "sum" && out_sharding && !out_sharding->spec().unreduced().empty()) {
    throw misuse<Unsupported>(
        "out_sharding {} asks for a result that is still to be summed, and the results of devices are not to be; leave "
        "unreduced out",
        to_string(out_sharding->spec()));
  }
  const Array items = to_array(data);
  const Array ids = to_array(segment_ids);
  if (ids.ndim() > items.ndim() || !std::equal(ids.shape().begin(), ids.shape().end(), items.shape().begin())) {
    throw misuse<InvalidArgument>("the extents of segment_ids {} must be the first ones of data {}", type_of(ids),
                                  type_of(items));
  }
  if (num_segments) {
    check_count("num_segments", *num_segments);
  } else {
    refuse_tracer("num_segments", ids);
  }
  return split_as(out_sharding, {items, ids}, [&](const std::vector<Array>& arrays) {
    const Array positions = resolved_positions(arrays[1], 0, IndexMode::kDrop, false);
    Shape shape = {num_segments ? *num_segments : std::max<std::int64_t>(greatest(ids) + 1, 0)};
    shape.insert(shape.end(), items.shape().begin() + static_cast<std::ptrdiff_t>(ids.ndim()), items.shape().end());
    return reduced_items(kind, shape, arrays[0], {positions}, {.dims = {0}});
  });
}

}  // namespace

Array segment_sum(const Operand& data, const Operand& segment_ids, std::optional<std::int64_t> num_segments,
                  const OutSharding& out_sharding) {
  const Caller caller("segment_sum", data.where());
  const Array sums = segment_reduce("sum", data, segment_ids, num_segments, out_sharding);
  const bool is_finished = !out_sharding || out_sharding->spec().unreduced().empty();
  if (sums.dtype() == bool_ || !is_finished) return sums;
  return add(sums, 0);  // Of nothing: 0, not -0.
}
Array segment_prod(const Operand& data, const Operand& segment_ids, std::optional<std::int64_t> num_segments,
                   const OutSharding& out_sharding) {
  const Caller caller("segment_prod", data.where());
  return segment_reduce("prod", data, segment_ids, num_segments, out_sharding);
}
Array segment_max(const Operand& data, const Operand& segment_ids, std::optional<std::int64_t> num_segments,
                  const OutSharding& out_sharding) {
  const Caller caller("segment_max", data.where());
  return segment_reduce("max", data, segment_ids, num_segments, out_sharding);
}
Array segment_min(const Operand& data, const Operand& segment_ids, std::optional<std::int64_t> num_segments,
                  const OutSharding& out_sharding) {
  const Caller caller("segment_min", data.where());
  return segment_reduce("min", data, segment_ids, num_segments, out_sharding);
}

}  // namespace ops

// ---- Items by position.

Array take(const Operand& x, const Operand& indices, const TakeOptions& options) {
  const Caller caller("take", x.where());
  const auto [array, axis] = along(to_array(x), options.axis);
  const std::int64_t extent = extent_of(array, axis);
  const bool fills = options.mode == IndexMode::kFill;
  const Array positions = resolved_positions(to_array(indices), extent, options.mode, fills);
  if (extent == 0 && positions.size() > 0) {
    throw misuse<OutOfRange>("dimension {} of {} has no element to take", axis, type_of(array));
  }
  std::optional<Operand> fill;
  if (fills) fill = options.fill_value ? options.fill_value : default_fill(array.dtype());
  const Array items = items_at(array, {positions}, {.dims = {axis}}, fill);
  // The dimensions in front of the axis come first again.
  Dims perm;
  const auto rank = static_cast<std::int64_t>(positions.ndim());
  for (std::int64_t d = 0; d < axis; ++d) perm.push_back(rank + d);
  for (std::int64_t d = 0; d < rank; ++d) perm.push_back(d);
  for (auto d = static_cast<std::int64_t>(perm.size()); d < static_cast<std::int64_t>(items.ndim()); ++d) {
    perm.push_back(d);
  }
  return axis == 0 || rank == 0 ? items : transpose(items, perm);
}

namespace {

// An array and positions in lines of it: all their dimensions but one broadcast together.
struct LinesAlong {
  Array array;
  Array positions;
  ItemDims dims;
};

LinesAlong lines_along(const Operand& x, const Operand& indices, std::int64_t axis, IndexMode mode, bool from_end) {
  const Array array = to_array(x);
  const Array positions = to_array(indices);
  const auto dim = static_cast<std::size_t>(canonical_axis(axis, array.ndim()));
  if (positions.ndim() != array.ndim()) {
    throw misuse<InvalidArgument>("{} and indices {} must have as many dimensions", type_of(array), type_of(positions));
  }
  Shape one = array.shape();
  Shape other = positions.shape();
  one[dim] = other[dim] = 1;
  Shape array_shape = broadcast_shapes(one, other);
  Shape positions_shape = array_shape;
  array_shape[dim] = array.shape()[dim];
  positions_shape[dim] = positions.shape()[dim];
  ItemDims dims{.dims = {static_cast<std::int64_t>(dim)}};
  for (std::size_t d = 0; d < array.ndim(); ++d) {
    if (d != dim) dims.array_batch.push_back(static_cast<std::int64_t>(d));
  }
  dims.index_batch = dims.array_batch;
  const Array resolved = resolved_positions(positions, array_shape[dim], mode, from_end);
  return {broadcast(array, array_shape), broadcast(resolved, positions_shape), std::move(dims)};
}

}  // namespace

Array take_along_axis(const Operand& x, const Operand& indices, std::int64_t axis, const TakeAlongOptions& options) {
  const Caller caller("take_along_axis", x.where());
  const LinesAlong lines = lines_along(x, indices, axis, options.mode, options.wrap_negative_indices);
  std::optional<Operand> fill;
  if (options.mode == IndexMode::kFill) {
    fill = options.fill_value ? options.fill_value : default_fill(lines.array.dtype());
  } else if (extent_of(lines.array, lines.dims.dims[0]) == 0 && lines.positions.size() > 0) {
    throw misuse<OutOfRange>("{} has no element to take", type_of(lines.array));
  }
  return items_at(lines.array, {lines.positions}, lines.dims, fill);
}

Array put_along_axis(const Operand& x, const Operand& indices, const Operand& values, std::int64_t axis) {
  const Caller caller("put_along_axis", x.where());
  const LinesAlong lines = lines_along(x, indices, axis, IndexMode::kDrop, true);
  const Array given = fitting(lines.array, values);
  const Shape& shape = lines.positions.shape();
  if (broadcast_shapes(given.shape(), shape) != shape) {
    throw misuse<InvalidArgument>("values {} do not broadcast to the shape {} of the indices", type_of(given),
                                  to_string(shape));
  }
  return with_items(lines.array, broadcast(given, shape), {lines.positions}, lines.dims);
}

// ---- Cumulative reductions.

namespace {

Array cumulative(std::string_view op, const Array& array, std::int64_t axis, bool reverse) {
  return bind_one(op, {{"dim", canonical_axis(axis, array.ndim())}, {"reverse", reverse}}, {array});
}

Array numpy_cumulative(std::string_view op, const Operand& x, const CumulativeOptions& options) {
  const auto [array, axis] = along(to_array(x), options.axis);
  const Dtype dtype = options.dtype.value_or(array.dtype() == bool_ ? int32 : array.dtype());
  const bool weak = dtype == array.dtype() && detail::impl_of(array).type.weak;
  return cumulative(op, convert(array, dtype, weak), axis, false);
}

}  // namespace

Array cumsum(const Operand& x, const CumulativeOptions& options) {
  const Caller caller("cumsum", x.where());
  return numpy_cumulative("cumsum", x, options);
}
Array cumprod(const Operand& x, const CumulativeOptions& options) {
  const Caller caller("cumprod", x.where());
  return numpy_cumulative("cumprod", x, options);
}

namespace lax {

Array cumsum(const Operand& x, std::int64_t axis, bool reverse) {
  const Caller caller("cumsum", x.where());
  return cumulative("cumsum", to_array(x), axis, reverse);
}
Array cumprod(const Operand& x, std::int64_t axis, bool reverse) {
  const Caller caller("cumprod", x.where());
  return cumulative("cumprod", to_array(x), axis, reverse);
}
Array cummax(const Operand& x, std::int64_t axis, bool reverse) {
  const Caller caller("cummax", x.where());
  return cumulative("cummax", to_array(x), axis, reverse);
}
Array cummin(const Operand& x, std::int64_t axis, bool reverse) {
  const Caller caller("cummin", x.where());
  return cumulative("cummin", to_array(x), axis, reverse);
}
Array cumlogsumexp(const Operand& x, std::int64_t axis, bool reverse) {
  const Caller caller("cumlogsumexp", x.where());
  const Array array = to_array(x);
  if (!is_floating(array.dtype())) {
    throw misuse<TypeMismatch>("takes floats, not {}", type_of(array));
  }
  return cumulative("cumlogsumexp", array, axis, reverse);
}

}  // namespace lax
}  // namespace shoal
