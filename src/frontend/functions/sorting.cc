// Order and positions: sorting, searching, counting, cumulative reductions.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>

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

AlongAxis along(std::string_view function, const Array& array, std::optional<std::int64_t> axis, SourceLocation where) {
  if (!axis) return {ravel({array, where}), 0};
  return {array, canonical_axis(function, *axis, array.ndim(), where)};
}

std::int64_t extent_of(const Array& array, std::int64_t axis) { return array.shape()[static_cast<std::size_t>(axis)]; }

// 0, 1, … along an axis, in the shape of the array.
Array positions_along(std::string_view function, const Array& array, std::int64_t axis, SourceLocation where) {
  return spread(counted(function, extent_of(array, axis), array, where), array.shape(), {axis}, where);
}

// The value of a concrete integer array's greatest element, or -1 if it has none.
std::int64_t greatest(const Array& array, SourceLocation where) {
  return array.size() == 0 ? -1 : shoal::max({array, where}).item<std::int64_t>(where);
}

void refuse_tracer(std::string_view function, std::string_view option, const Array& array, SourceLocation where) {
  if (!array.is_tracer()) return;
  throw ValueOfTracer(fmt::format("{}: the extent of the result depends on the values of {}, which are not known while "
                                  "tracing; give {}",
                                  function, type_of(array), option),
                      where);
}

void check_count(std::string_view function, std::string_view option, std::int64_t count, SourceLocation where) {
  if (count >= 0) return;
  throw InvalidArgument(fmt::format("{}: {} is {}; it must be at least 0", function, option, count), where);
}

// ---- argmax, argmin

// The least position of those elements that equal the extreme one, or are NaN if that is.
Array arg_extreme(std::string_view function, Array (*extreme)(const Operand&, const ReduceOptions&), const Operand& x,
                  const ArgOptions& options) {
  const SourceLocation where = x.where();
  const Array given = to_array(x);
  if (is_complex(given.dtype())) {
    throw TypeMismatch(fmt::format("{}: complex numbers have no order; got {}", function, type_of(given)), where);
  }
  const auto [array, axis] = along(function, given, options.axis, where);
  const std::int64_t extent = extent_of(array, axis);
  if (extent == 0) {
    throw InvalidArgument(
        fmt::format("{}: {} has no elements along axis {} to choose from", function, type_of(array), axis), where);
  }
  const ReduceOptions over{.axis = Dims{axis}, .keepdims = true};
  const Operand element(array, where);
  Array chosen = equal(element, {extreme(element, over), where});
  if (is_floating(array.dtype())) chosen = bitwise_or({chosen, where}, {not_equal(element, element), where});
  const Array positions = positions_along(function, array, axis, where);
  const Array least = min({shoal::where({chosen, where}, {positions, where}, {extent - 1, where}), where},
                          {.axis = Dims{axis}, .keepdims = options.keepdims});
  if (options.axis || !options.keepdims) return least;
  return reshape({least, where}, Shape(given.ndim(), 1));
}

}  // namespace

Array argmax(const Operand& x, const ArgOptions& options) { return arg_extreme("argmax", max, x, options); }
Array argmin(const Operand& x, const ArgOptions& options) { return arg_extreme("argmin", min, x, options); }

// ---- Sorting.

namespace {

std::vector<Array> sorted(const std::vector<Array>& operands, std::int64_t dim, std::int64_t keys, bool descending,
                          SourceLocation where) {
  return shoal::bind(op_named("sort"), {{"dim", dim}, {"num_keys", keys}, {"descending", descending}}, operands, where);
}

}  // namespace

Array sort(const Operand& x, const SortOptions& options) {
  const auto [array, axis] = along("sort", to_array(x), options.axis, x.where());
  return sorted({array}, axis, 1, options.descending, x.where())[0];
}

Array argsort(const Operand& x, const SortOptions& options) {
  const auto [array, axis] = along("argsort", to_array(x), options.axis, x.where());
  const Array positions = positions_along("argsort", array, axis, x.where());
  return sorted({array, positions}, axis, 1, options.descending, x.where())[1];
}

Array lexsort(const std::vector<Array>& keys, std::int64_t axis, SourceLocation where) {
  if (keys.empty()) throw InvalidArgument("lexsort: needs at least one key", where);
  std::vector<Array> operands(keys.rbegin(), keys.rend());
  for (const Array& key : operands) {
    detail::impl_of(key, "lexsort", where);
    if (key.shape() == operands[0].shape()) continue;
    throw InvalidArgument(
        fmt::format("lexsort: keys must have one shape, but are {} and {}", type_of(operands[0]), type_of(key)), where);
  }
  const std::int64_t dim = canonical_axis("lexsort", axis, operands[0].ndim(), where);
  operands.push_back(positions_along("lexsort", operands[0], dim, where));
  return sorted(operands, dim, static_cast<std::int64_t>(keys.size()), false, where).back();
}

namespace lax {

std::vector<Array> sort(const std::vector<Array>& operands, const SortKeyOptions& options, SourceLocation where) {
  if (operands.empty()) throw InvalidArgument("sort: needs at least one operand", where);
  for (const Array& operand : operands) detail::impl_of(operand, "sort", where);
  const std::int64_t dim = canonical_axis("sort", options.dimension, operands[0].ndim(), where);
  return sorted(operands, dim, options.num_keys, false, where);
}

std::pair<Array, Array> top_k(const Operand& x, std::int64_t k, std::int64_t axis) {
  const Array array = to_array(x);
  const std::int64_t dim = canonical_axis("top_k", axis, array.ndim(), x.where());
  if (extent_of(array, dim) > std::numeric_limits<std::int32_t>::max()) {
    throw OutOfRange(fmt::format("top_k: dimension {} of {} has more positions than i32 counts", dim, type_of(array)),
                     x.where());
  }
  const std::vector<Array> results = shoal::bind(op_named("top_k"), {{"dim", dim}, {"k", k}}, {&array, 1}, x.where());
  return {results[0], results[1]};
}

}  // namespace lax

// ---- Searching.

// A binary search for all values at once.
Array searchsorted(const Operand& sorted, const Operand& values, const SearchOptions& options) {
  const SourceLocation where = sorted.where();
  const DtypeAndWeakness element =
      promote_types(element_of("searchsorted", sorted), element_of("searchsorted", values));
  const Array list = convert(to_array(sorted), element.dtype, element.weak, where);
  const Array wanted = convert(to_array(values), element.dtype, element.weak, where);
  if (list.ndim() != 1) {
    throw InvalidArgument(fmt::format("searchsorted: searches a vector, not {}", type_of(list)), where);
  }
  const auto binary = [&](Array (*op)(const Operand&, const Operand&), const Operand& a, const Operand& b) {
    return Operand(op(a, b), where);
  };
  // a comes before b, NaN last.
  const auto before = [&](const Operand& a, const Operand& b) {
    const Operand less_than = binary(less, a, b);
    if (!is_floating(element.dtype) && !is_complex(element.dtype)) return less_than;
    return binary(bitwise_or, less_than, binary(bitwise_and, binary(equal, a, a), binary(not_equal, b, b)));
  };
  const std::int64_t extent = list.shape()[0];
  counted("searchsorted", extent, list, where);
  const Operand target(wanted, where);
  const auto everywhere = [&](std::int64_t position) {
    return spread(convert(to_array({position, where}), int32, false, where), wanted.shape(), {}, where);
  };
  Array low = everywhere(0);
  Array high = everywhere(extent);
  for (auto step = std::bit_width(static_cast<std::uint64_t>(extent)); step > 0; --step) {
    const Operand middle = binary(floor_divide, binary(add, {low, where}, {high, where}), {2, where});
    const Operand here(items_at(list, {*middle.array()}, {.dims = {0}}, {}, where), where);
    const Operand behind =
        options.side == Side::kLeft ? before(here, target) : Operand(bitwise_not(before(target, here)), where);
    const Operand open = binary(less, {low, where}, {high, where});
    const Operand up = binary(bitwise_and, open, behind);
    const Operand down = binary(bitwise_and, open, {bitwise_not(behind), where});
    low = shoal::where(up, binary(add, middle, {1, where}), {low, where});
    high = shoal::where(down, middle, {high, where});
  }
  return low;
}

namespace {

Array truth_of(const Operand& x) {
  const Array array = to_array(x);
  return array.dtype() == bool_ ? array : not_equal({array, x.where()}, {0, x.where()});
}

// The positions in the flattened mask where it holds, `size` of them, and the mask's extent where there are no more.
Array first_true(std::string_view function, const Array& flat, std::int64_t size, SourceLocation where) {
  const std::int64_t extent = flat.shape()[0];
  const Operand positions(counted(function, extent, flat, where), where);
  const Operand rank(subtract({lax::cumsum({convert(flat, int32, false, where), where}), where}, {1, where}), where);
  const Array places = shoal::where({flat, where}, rank, {size, where});
  const Array none_left = spread(to_array({extent, where}), {size}, {}, where);
  return with_items(convert(none_left, int32, false, where), *positions.array(), {places}, {.dims = {0}}, where);
}

}  // namespace

std::vector<Array> nonzero(const Operand& x, const NonzeroOptions& options) {
  const SourceLocation where = x.where();
  const Array mask = truth_of(x);
  if (mask.ndim() == 0) {
    throw InvalidArgument("nonzero: a scalar has no positions; reshape it to one dimension", where);
  }
  if (!options.size) {
    refuse_tracer("nonzero", "a size", mask, where);
    return positions_of_true(mask, where);
  }
  check_count("nonzero", "size", *options.size, where);
  const std::int64_t extent = mask.size();
  const Operand flat(first_true("nonzero", ravel({mask, where}), *options.size, where), where);
  const Operand found(less(flat, {extent, where}), where);
  const Dims strides = row_major_strides(mask.shape());
  std::vector<Array> results;
  for (std::size_t d = 0; d < mask.ndim(); ++d) {
    const Operand along(floor_divide(flat, {std::max<std::int64_t>(strides[d], 1), where}), where);
    const Operand position(remainder(along, {std::max<std::int64_t>(mask.shape()[d], 1), where}), where);
    results.push_back(shoal::where(found, position, {options.fill_value, where}));
  }
  return results;
}

Array flatnonzero(const Operand& x, const NonzeroOptions& options) {
  return nonzero({ravel(x), x.where()}, options)[0];
}

// ---- Counting.

Array bincount(const Operand& x, const BincountOptions& options) {
  const SourceLocation where = x.where();
  const Array array = to_array(x);
  if (array.ndim() != 1 || !is_integer(array.dtype())) {
    throw TypeMismatch(fmt::format("bincount: counts a vector of integers, not {}", type_of(array)), where);
  }
  check_count("bincount", "minlength", options.minlength, where);
  if (options.length) {
    check_count("bincount", "length", *options.length, where);
  } else {
    refuse_tracer("bincount", "a length", array, where);
  }
  const std::int64_t length =
      options.length ? *options.length : std::max(greatest(array, where) + 1, options.minlength);
  Array weights = options.weights ? *options.weights : spread(to_array({1, where}), array.shape(), {}, where);
  if (weights.shape() != array.shape()) {
    throw InvalidArgument(
        fmt::format("bincount: weights {} must have the shape of {}", type_of(weights), type_of(array)), where);
  }
  if (weights.dtype() == bool_) weights = convert(weights, int32, false, where);
  weights = convert(weights, weights.dtype(), false, where);
  return split_as("bincount", options.out_sharding, {array, weights}, where, [&](const std::vector<Array>& arrays) {
    const Operand bins(resolved_positions("bincount", arrays[0], length, IndexMode::kDrop, false, where), where);
    const Array counted_up = maximum(bins, {0, where});  // Negative numbers count as 0.
    return add({reduced_items("sum", {length}, arrays[1], {counted_up}, {.dims = {0}}, where), where}, {0, where});
  });
}

namespace ops {
namespace {

Array segment_reduce(std::string_view function, std::string_view kind, const Operand& data, const Operand& segment_ids,
                     std::optional<std::int64_t> num_segments, const OutSharding& out_sharding) {
  if (kind != "sum" && out_sharding && !out_sharding->spec().unreduced().empty()) {
    throw Unsupported(
        fmt::format("{}: out_sharding {} asks for a result that is still to be summed, and the results of "
                    "devices are not to be; leave unreduced out",
                    function, to_string(out_sharding->spec())),
        data.where());
  }
  const SourceLocation where = data.where();
  const Array items = to_array(data);
  const Array ids = to_array(segment_ids);
  if (ids.ndim() > items.ndim() || !std::equal(ids.shape().begin(), ids.shape().end(), items.shape().begin())) {
    throw InvalidArgument(fmt::format("{}: the extents of segment_ids {} must be the first ones of data {}", function,
                                      type_of(ids), type_of(items)),
                          where);
  }
  if (kind != "sum" && kind != "prod" && is_complex(items.dtype())) {
    throw TypeMismatch(fmt::format("{}: complex numbers have no order; got {}", function, type_of(items)), where);
  }
  if (num_segments) {
    check_count(function, "num_segments", *num_segments, where);
  } else {
    refuse_tracer(function, "num_segments", ids, where);
  }
  return split_as(function, out_sharding, {items, ids}, where, [&](const std::vector<Array>& arrays) {
    const Array positions = resolved_positions(function, arrays[1], 0, IndexMode::kDrop, false, where);
    Shape shape = {num_segments ? *num_segments : std::max<std::int64_t>(greatest(ids, where) + 1, 0)};
    shape.insert(shape.end(), items.shape().begin() + static_cast<std::ptrdiff_t>(ids.ndim()), items.shape().end());
    return reduced_items(kind, shape, arrays[0], {positions}, {.dims = {0}}, where);
  });
}

}  // namespace

Array segment_sum(const Operand& data, const Operand& segment_ids, std::optional<std::int64_t> num_segments,
                  const OutSharding& out_sharding) {
  const Array sums = segment_reduce("segment_sum", "sum", data, segment_ids, num_segments, out_sharding);
  if (sums.dtype() == bool_) return sums;
  return add({sums, data.where()}, {0, data.where()});  // Of nothing: 0, not -0.
}
Array segment_prod(const Operand& data, const Operand& segment_ids, std::optional<std::int64_t> num_segments,
                   const OutSharding& out_sharding) {
  return segment_reduce("segment_prod", "prod", data, segment_ids, num_segments, out_sharding);
}
Array segment_max(const Operand& data, const Operand& segment_ids, std::optional<std::int64_t> num_segments,
                  const OutSharding& out_sharding) {
  return segment_reduce("segment_max", "max", data, segment_ids, num_segments, out_sharding);
}
Array segment_min(const Operand& data, const Operand& segment_ids, std::optional<std::int64_t> num_segments,
                  const OutSharding& out_sharding) {
  return segment_reduce("segment_min", "min", data, segment_ids, num_segments, out_sharding);
}

}  // namespace ops

// ---- Items by position.

Array take(const Operand& x, const Operand& indices, const TakeOptions& options) {
  const SourceLocation where = x.where();
  const auto [array, axis] = along("take", to_array(x), options.axis, where);
  const std::int64_t extent = extent_of(array, axis);
  const bool fills = options.mode == IndexMode::kFill;
  const Array positions = resolved_positions("take", to_array(indices), extent, options.mode, fills, where);
  if (extent == 0 && positions.size() > 0 && !fills) {
    throw OutOfRange(fmt::format("take: dimension {} of {} has no element to take", axis, type_of(array)), where);
  }
  std::optional<Operand> fill;
  if (fills) fill = options.fill_value ? options.fill_value : default_fill(array.dtype(), where);
  const Array items = items_at(array, {positions}, {.dims = {axis}}, fill, where);
  // The dimensions in front of the axis come first again.
  Dims perm;
  const auto rank = static_cast<std::int64_t>(positions.ndim());
  for (std::int64_t d = 0; d < axis; ++d) perm.push_back(rank + d);
  for (std::int64_t d = 0; d < rank; ++d) perm.push_back(d);
  for (auto d = static_cast<std::int64_t>(perm.size()); d < static_cast<std::int64_t>(items.ndim()); ++d) {
    perm.push_back(d);
  }
  return axis == 0 || rank == 0 ? items : transpose({items, where}, perm);
}

namespace {

// An array and positions in lines of it: all their dimensions but one broadcast together.
struct Lines {
  Array array;
  Array positions;
  ItemDims dims;
};

Lines lines_along(std::string_view function, const Operand& x, const Operand& indices, std::int64_t axis,
                  IndexMode mode) {
  const SourceLocation where = x.where();
  const Array array = to_array(x);
  const Array positions = to_array(indices);
  const auto dim = static_cast<std::size_t>(canonical_axis(function, axis, array.ndim(), where));
  if (positions.ndim() != array.ndim()) {
    throw InvalidArgument(
        fmt::format("{}: {} and indices {} must have as many dimensions", function, type_of(array), type_of(positions)),
        where);
  }
  Shape one = array.shape();
  Shape other = positions.shape();
  one[dim] = other[dim] = 1;
  Shape array_shape = broadcast_shapes(function, one, other, where);
  Shape positions_shape = array_shape;
  array_shape[dim] = array.shape()[dim];
  positions_shape[dim] = positions.shape()[dim];
  ItemDims dims{.dims = {static_cast<std::int64_t>(dim)}};
  for (std::size_t d = 0; d < array.ndim(); ++d) {
    if (d != dim) dims.array_batch.push_back(static_cast<std::int64_t>(d));
  }
  dims.index_batch = dims.array_batch;
  const Array resolved =
      resolved_positions(function, positions, array_shape[dim], mode, mode == IndexMode::kFill, where);
  return {broadcast(array, array_shape, where), broadcast(resolved, positions_shape, where), std::move(dims)};
}

}  // namespace

Array take_along_axis(const Operand& x, const Operand& indices, std::int64_t axis, const TakeAlongOptions& options) {
  const Lines lines = lines_along("take_along_axis", x, indices, axis, options.mode);
  std::optional<Operand> fill;
  if (options.mode == IndexMode::kFill) {
    fill = options.fill_value ? options.fill_value : default_fill(lines.array.dtype(), x.where());
  } else if (extent_of(lines.array, lines.dims.dims[0]) == 0 && lines.positions.size() > 0) {
    throw OutOfRange(fmt::format("take_along_axis: {} has no element to take", type_of(lines.array)), x.where());
  }
  return items_at(lines.array, {lines.positions}, lines.dims, fill, x.where());
}

Array put_along_axis(const Operand& x, const Operand& indices, const Operand& values, std::int64_t axis) {
  const Lines lines = lines_along("put_along_axis", x, indices, axis, IndexMode::kDrop);
  const Array given = fitting("put_along_axis", lines.array, values, x.where());
  const Shape& shape = lines.positions.shape();
  if (broadcast_shapes("put_along_axis", given.shape(), shape, x.where()) != shape) {
    throw InvalidArgument(fmt::format("put_along_axis: values {} do not broadcast to the shape {} of the indices",
                                      type_of(given), to_string(shape)),
                          x.where());
  }
  return with_items(lines.array, broadcast(given, shape, x.where()), {lines.positions}, lines.dims, x.where());
}

// ---- Cumulative reductions.

namespace {

Array cumulative(const char* op, const Array& array, std::int64_t axis, bool reverse, SourceLocation where) {
  return bind_one(op, {{"dim", canonical_axis(op, axis, array.ndim(), where)}, {"reverse", reverse}}, {array}, where);
}

Array numpy_cumulative(const char* op, const Operand& x, const CumulativeOptions& options) {
  const auto [array, axis] = along(op, to_array(x), options.axis, x.where());
  const Dtype dtype = options.dtype.value_or(array.dtype() == bool_ ? int32 : array.dtype());
  const bool weak = dtype == array.dtype() && detail::impl_of(array).type.weak;
  return cumulative(op, convert(array, dtype, weak, x.where()), axis, false, x.where());
}

Array checked_cumulative(const char* op, bool orders, const Operand& x, std::int64_t axis, bool reverse) {
  const Array array = to_array(x);
  if (orders && is_complex(array.dtype())) {
    throw TypeMismatch(fmt::format("{}: complex numbers have no order; got {}", op, type_of(array)), x.where());
  }
  return cumulative(op, array, axis, reverse, x.where());
}

}  // namespace

Array cumsum(const Operand& x, const CumulativeOptions& options) { return numpy_cumulative("cumsum", x, options); }
Array cumprod(const Operand& x, const CumulativeOptions& options) { return numpy_cumulative("cumprod", x, options); }

namespace lax {

Array cumsum(const Operand& x, std::int64_t axis, bool reverse) {
  return checked_cumulative("cumsum", false, x, axis, reverse);
}
Array cumprod(const Operand& x, std::int64_t axis, bool reverse) {
  return checked_cumulative("cumprod", false, x, axis, reverse);
}
Array cummax(const Operand& x, std::int64_t axis, bool reverse) {
  return checked_cumulative("cummax", true, x, axis, reverse);
}
Array cummin(const Operand& x, std::int64_t axis, bool reverse) {
  return checked_cumulative("cummin", true, x, axis, reverse);
}
Array cumlogsumexp(const Operand& x, std::int64_t axis, bool reverse) {
  const Array array = to_array(x);
  if (!is_floating(array.dtype())) {
    throw TypeMismatch(fmt::format("cumlogsumexp: takes floats, not {}", type_of(array)), x.where());
  }
  return cumulative("cumlogsumexp", array, axis, reverse, x.where());
}

}  // namespace lax
}  // namespace shoal
