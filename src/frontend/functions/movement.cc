// NumPy-style functions that join, split, repeat and rearrange arrays. All are made of few ops; those of a dimension
// that a function leaves alone may be sharded.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/caller.h"
#include "base/misuse.h"
#include "base/shape_mismatch.h"
#include "frontend/array/layer.h"
#include "frontend/array/out_sharding.h"
#include "frontend/array/promotion.h"
#include "frontend/array/promotion_mode.h"
#include "frontend/array/trace.h"
#include "frontend/functions/indexing.h"
#include "ops/table.h"
#include "shoal/derivatives.h"
#include "shoal/lax.h"
#include "shoal/numpy.h"
#include "shoal/statistics.h"

namespace shoal {
namespace {

// The operands as arrays of one dtype, each with its shape. Throws if there are none.
std::vector<Array> promoted(const Operands& operands) {
  if (operands.list().empty()) {
    throw misuse<InvalidArgument>("no arrays are given; it takes at least one");
  }
  DtypeAndWeakness element = element_of(operands.list().front());
  for (const Operand& operand : operands.list()) {
    element = promoted_types(element, element_of(operand));
  }
  std::vector<Array> arrays;
  for (const Operand& operand : operands.list()) {
    arrays.push_back(convert(to_array(operand), element.dtype, element.weak));
  }
  return arrays;
}

// Arrays of one dtype joined along a dimension counted from either end.
Array join(const std::vector<Array>& arrays, std::int64_t axis) {
  const Array& first = arrays.front();
  if (first.ndim() == 0) {
    throw misuse<ShapeMismatch>("scalars have no dimension to be joined along; stack makes one");
  }
  const std::int64_t dim = canonical_axis(axis, first.ndim());
  for (const Array& array : arrays) {
    Shape shape = array.shape();
    if (shape.size() == first.ndim()) shape[static_cast<std::size_t>(dim)] = extent_of(first, dim);
    if (shape == first.shape()) continue;
    throw misuse<ShapeMismatch>("shapes {} and {} cannot be joined along axis {}: all other extents must be equal",
                                to_string(first.shape()), to_string(array.shape()), dim);
  }
  if (arrays.size() == 1) return first;
  return bind(op_named("concatenate"), {{"dim", dim}}, arrays)[0];
}

// The elements from start up to limit of one dimension.
Array part(const Array& x, std::int64_t axis, std::int64_t start, std::int64_t limit) {
  return lax::slice_in_dim(x, start, limit, 1, axis);
}

// At least one dimension, or as many as given: missing ones are added in front.
Array at_least(const Array& x, std::size_t rank) {
  Shape shape = x.shape();
  if (shape.size() < rank) shape.insert(shape.begin(), rank - shape.size(), 1);
  return reshape(x, shape);
}

// Every element `repeats` times along a dimension; if `whole`, all elements one after the other as many times.
Array repeated(const Array& x, std::int64_t axis, std::int64_t repeats, bool whole) {
  if (repeats == 1) return x;
  const auto d = static_cast<std::size_t>(axis);
  Shape shape = x.shape();
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(d) + (whole ? 0 : 1), repeats);
  Dims dims;
  for (std::size_t i = 0; i < x.ndim(); ++i) {
    dims.push_back(static_cast<std::int64_t>(i < d || (i == d && !whole) ? i : i + 1));
  }
  const Array spread = lax::broadcast_in_dim(x, shape, dims);  // Refuses what is too large.
  Shape merged = x.shape();
  merged[d] *= repeats;
  return reshape(spread, merged);
}

}  // namespace

// ---- Joining and splitting.

Array concatenate(const Operands& arrays, std::int64_t axis) {
  const Caller caller("concatenate", arrays.where());
  return join(promoted(arrays), axis);
}

Array stack(const Operands& arrays, std::int64_t axis) {
  const Caller caller("stack", arrays.where());
  std::vector<Array> slices = promoted(arrays);
  const Shape shape = slices.front().shape();
  const std::int64_t dim = canonical_axis(axis, shape.size() + 1);
  for (Array& array : slices) {
    if (array.shape() != shape) {
      throw misuse<InvalidArgument>("shapes {} and {} differ; all must be equal", to_string(shape),
                                    to_string(array.shape()));
    }
    array = expand_dims(array, dim);
  }
  return join(slices, dim);
}

Array hstack(const Operands& arrays) {
  const Caller caller("hstack", arrays.where());
  std::vector<Array> parts = promoted(arrays);
  for (Array& array : parts) array = at_least(array, 1);
  return join(parts, parts.front().ndim() == 1 ? 0 : 1);
}

Array vstack(const Operands& arrays) {
  const Caller caller("vstack", arrays.where());
  std::vector<Array> parts = promoted(arrays);
  for (Array& array : parts) array = at_least(array, 2);
  return join(parts, 0);
}

namespace {

// The parts of a dimension that begin at 0 and at the given positions.
std::vector<Array> split_at(const Array& x, std::int64_t axis, const Dims& positions) {
  Dims bounds = positions;
  bounds.insert(bounds.begin(), 0);
  bounds.push_back(extent_of(x, axis));
  if (!std::is_sorted(bounds.begin(), bounds.end())) {
    throw misuse<InvalidArgument>("positions {} must ascend between 0 and {}, the extent of axis {} of {}",
                                  to_string(positions), bounds.back(), axis, type_of(x));
  }
  std::vector<Array> parts;
  for (std::size_t i = 0; i + 1 < bounds.size(); ++i) parts.push_back(part(x, axis, bounds[i], bounds[i + 1]));
  return parts;
}

std::vector<Array> split(const Operand& x, const Sections& sections, std::int64_t axis, bool evenly) {
  const Array array = to_array(x);
  const std::int64_t dim = canonical_axis(axis, array.ndim());
  if (sections.positions() != nullptr) return split_at(array, dim, *sections.positions());
  const std::int64_t count = *sections.count();
  const std::int64_t extent = extent_of(array, dim);
  if (count < 1 || (evenly && extent % count != 0)) {
    throw misuse<InvalidArgument>("axis {} of {} has extent {}, which cannot be split into {} {}parts{}", dim,
                                  type_of(array), extent, count, evenly ? "equal " : "",
                                  evenly && count > 0 ? "; array_split allows others" : "; there must be at least 1");
  }
  Dims positions;
  for (std::int64_t i = 1; i < count; ++i) positions.push_back(i * (extent / count) + std::min(i, extent % count));
  return split_at(array, dim, positions);
}

}  // namespace

std::vector<Array> split(const Operand& x, const Sections& sections, std::int64_t axis) {
  const Caller caller("split", x.where());
  return split(x, sections, axis, true);
}

std::vector<Array> array_split(const Operand& x, const Sections& sections, std::int64_t axis) {
  const Caller caller("array_split", x.where());
  return split(x, sections, axis, false);
}

// ---- Repeating and rearranging.

Array tile(const Operand& x, std::int64_t repetitions) {
  const Caller caller("tile", x.where());
  return tile(x, Dims{repetitions});
}

Array tile(const Operand& x, const Dims& repetitions) {
  const Caller caller("tile", x.where());
  Dims counts = repetitions;
  Array array = at_least(to_array(x), counts.size());
  counts.insert(counts.begin(), array.ndim() - counts.size(), 1);
  for (std::size_t d = 0; d < counts.size(); ++d) {
    if (counts[d] < 0) {
      throw misuse<InvalidArgument>("repetitions {} have a negative entry", to_string(repetitions));
    }
    array = repeated(array, static_cast<std::int64_t>(d), counts[d], true);
  }
  return array;
}

Array repeat(const Operand& x, std::int64_t repeats, std::optional<std::int64_t> axis,
             const OutSharding& out_sharding) {
  const Caller caller("repeat", x.where());
  if (repeats < 0) {
    throw misuse<ShapeMismatch>("repeats is {}; it must be at least 0", repeats);
  }
  return split_as(out_sharding, {to_array(x)}, [&](const std::vector<Array>& arrays) {
    const Array array = axis ? arrays[0] : ravel(arrays[0]);
    const std::int64_t dim = canonical_axis(axis.value_or(0), array.ndim());
    return repeated(array, dim, repeats, false);
  });
}

Array roll(const Operand& x, std::int64_t shift, const Axes& axis) {
  const Caller caller("roll", x.where());
  return roll(x, Dims{shift}, axis);
}

Array roll(const Operand& x, const Dims& shifts, const Axes& axis) {
  const Caller caller("roll", x.where());
  const Array given = to_array(x);
  const Dims axes = axis.get().value_or(Dims{0});
  if (shifts.size() != axes.size() && shifts.size() != 1 && axes.size() != 1) {
    throw misuse<InvalidArgument>("{} shifts {} are given for {} axes {}; there must be as many, or one", shifts.size(),
                                  to_string(shifts), axes.size(), to_string(axes));
  }
  Array array = axis.get() ? given : ravel(given);
  for (std::size_t i = 0; i < std::max(shifts.size(), axes.size()); ++i) {
    const std::int64_t dim = canonical_axis(axes[axes.size() == 1 ? 0 : i], array.ndim());
    const std::int64_t extent = extent_of(array, dim);
    if (extent == 0) continue;
    const std::int64_t remainder = shifts[shifts.size() == 1 ? 0 : i] % extent;
    if (remainder == 0) continue;
    Dims by(array.ndim(), 0);
    by[static_cast<std::size_t>(dim)] = remainder > 0 ? remainder : extent + remainder;
    array = bind_one("roll", {{"shifts", std::move(by)}}, {array});
  }
  return reshape(array, given.shape());
}

Array flip(const Operand& x, const Axes& axis) {
  const Caller caller("flip", x.where());
  const Array array = to_array(x);
  const Dims dims = canonical_axes(axis, array.ndim());
  return dims.empty() ? array : lax::rev(array, dims);
}

Array swapaxes(const Operand& x, std::int64_t axis1, std::int64_t axis2) {
  const Caller caller("swapaxes", x.where());
  const Array array = to_array(x);
  Dims perm;
  for (std::size_t d = 0; d < array.ndim(); ++d) perm.push_back(static_cast<std::int64_t>(d));
  const std::int64_t first = canonical_axis(axis1, array.ndim());
  const std::int64_t second = canonical_axis(axis2, array.ndim());
  std::swap(perm[static_cast<std::size_t>(first)], perm[static_cast<std::size_t>(second)]);
  return transpose(array, perm);
}

Array moveaxis(const Operand& x, std::int64_t source, std::int64_t destination) {
  const Caller caller("moveaxis", x.where());
  return moveaxis(x, Dims{source}, Dims{destination});
}

Array moveaxis(const Operand& x, const Dims& source, const Dims& destination) {
  const Caller caller("moveaxis", x.where());
  const Array array = to_array(x);
  if (source.size() != destination.size()) {
    throw misuse<InvalidArgument>("source {} and destination {} must have as many entries", to_string(source),
                                  to_string(destination));
  }
  // canonical_axes looks for repetitions.
  canonical_axes(Axes(source), array.ndim());
  canonical_axes(Axes(destination), array.ndim());
  std::vector<std::pair<std::int64_t, std::int64_t>> moves;  // To, from.
  Dims perm;
  for (std::size_t d = 0; d < array.ndim(); ++d) perm.push_back(static_cast<std::int64_t>(d));
  for (std::size_t i = 0; i < source.size(); ++i) {
    const std::int64_t from = canonical_axis(source[i], array.ndim());
    moves.emplace_back(canonical_axis(destination[i], array.ndim()), from);
    perm.erase(std::find(perm.begin(), perm.end(), from));
  }
  std::sort(moves.begin(), moves.end());
  for (const auto& [to, from] : moves) perm.insert(perm.begin() + to, from);
  return transpose(array, perm);
}

Array expand_dims(const Operand& x, std::int64_t axis) {
  const Caller caller("expand_dims", x.where());
  return expand_dims(x, Dims{axis});
}

Array expand_dims(const Operand& x, const Dims& axes) {
  const Caller caller("expand_dims", x.where());
  const Array array = to_array(x);
  Shape shape = array.shape();
  for (std::int64_t d : canonical_axes(Axes(axes), array.ndim() + axes.size())) {
    shape.insert(shape.begin() + d, 1);
  }
  return reshape(array, shape);
}

std::vector<Array> broadcast_arrays(const Operands& arrays) {
  const Caller caller("broadcast_arrays", arrays.where());
  std::vector<Array> results;
  Shape shape;
  for (const Operand& operand : arrays.list()) {
    results.push_back(to_array(operand));
    shape = broadcast_shapes(shape, results.back().shape());
  }
  for (Array& array : results) array = broadcast(array, shape);
  return results;
}

// ---- Padding.

namespace {

Array pad_constant(const Array& x, const std::vector<PadWidth::Pair>& width, const Operand& value) {
  std::vector<lax::PaddingConfig> config;
  for (const auto& [before, after] : width) config.push_back({before, after, 0});
  const Type& type = detail::impl_of(x).type;
  const Array element = value.number() == nullptr
                            ? convert(*value.array(), type.dtype, type.weak)
                            : constant(to_scalar(*value.number(), type.dtype), type.weak, type.memory);
  return lax::pad(x, element, config);
}

// The outermost element along a dimension: the first or the last.
Array edge_of(const Array& x, std::int64_t axis, bool last) {
  const std::int64_t place = last ? extent_of(x, axis) - 1 : 0;
  return part(x, axis, place, place + 1);
}

// Along a dimension x is continued for ever: by itself, or going back and forth, so that it repeats after so many
// elements.
std::int64_t length_of_period(const PadOptions& options, std::int64_t extent) {
  if (options.mode == "wrap" || (options.mode == "reflect" && extent == 1)) return extent;
  return options.mode == "symmetric" ? 2 * extent : 2 * extent - 2;
}

// Elements start ... limit - 1 of that period; either all are on the way forth or all on the way back.
Array part_of_period(const PadOptions& options, const Array& x, std::int64_t axis, std::int64_t start,
                     std::int64_t limit) {
  const std::int64_t extent = extent_of(x, axis);
  if (limit <= extent) return part(x, axis, start, limit);
  const std::int64_t turn = options.mode == "symmetric" ? 2 * extent : 2 * extent - 1;  // Element i is turn - 1 - i.
  const Array back = lax::rev(part(x, axis, turn - limit, turn - start), {axis});
  if (!options.odd) return back;
  const Array edge = edge_of(x, axis, true);
  return edge + edge - back;
}

Array pad_periodic(const PadOptions& options, const Array& x, std::int64_t axis, PadWidth::Pair width) {
  const std::int64_t extent = extent_of(x, axis);
  const std::int64_t length = length_of_period(options, extent);
  const std::int64_t end = extent + width.second;
  std::vector<Array> parts;
  for (std::int64_t from = -width.first; from < end;) {
    const std::int64_t start = (from % length + length) % length;
    const std::int64_t limit = std::min(start < extent ? extent : length, start + end - from);
    parts.push_back(part_of_period(options, x, axis, start, limit));
    const std::int64_t turns = (from - start) / length;
    if (options.odd && turns != 0) {
      // Mirrored twice, what was turned over stands upright again, by as much higher.
      const Array rise = edge_of(x, axis, true) - edge_of(x, axis, false);
      const Operand factor = 2 * turns;
      parts.back() = add(parts.back(), multiply(rise, factor));
    }
    from += limit - start;
  }
  return join(parts, axis);
}

// One element along a dimension, repeated.
Array copies(const Array& x, std::int64_t axis, std::int64_t count) {
  Shape shape = x.shape();
  shape[static_cast<std::size_t>(axis)] = count;
  return broadcast(x, shape);
}

Array pad_edge(const PadOptions&, const Array& x, std::int64_t axis, PadWidth::Pair width) {
  return join(
      {copies(edge_of(x, axis, false), axis, width.first), x, copies(edge_of(x, axis, true), axis, width.second)},
      axis);
}

// From end_values, which is reached, to the outermost element, which is not.
Array ramp(const Array& x, std::int64_t axis, std::int64_t count, bool last, const Operand& end) {
  const Dtype dtype = x.dtype();
  const bool whole = is_integer(dtype);
  const Dtype wide = is_complex(dtype) ? dtype : whole || size_of(dtype) == 8 ? float64 : float32;
  const Array edge = convert(edge_of(x, axis, last), wide);
  const Array goal = convert(convert(to_array(end), dtype), wide);
  Shape steps(x.ndim(), 1);
  steps[static_cast<std::size_t>(axis)] = count;
  Array numbers = convert(counted(count, x), wide);
  if (last) numbers = lax::rev(numbers, {0});
  const Array places = reshape(numbers, steps);
  const auto n = static_cast<double>(count);
  // Whole numbers are met exactly where there are some on the way.
  const Array way = whole ? (edge - goal) * places / n : (edge - goal) * (places / n);
  const Array values = goal + way;
  return convert(whole ? floor(values) : values, dtype, x.weak_type());
}

Array pad_ramp(const PadOptions& options, const Array& x, std::int64_t axis, PadWidth::Pair width) {
  const Operand& end = options.end_values;
  return join({ramp(x, axis, width.first, false, end), x, ramp(x, axis, width.second, true, end)}, axis);
}

// The statistic of `length` elements at one end of a dimension.
Array statistic(std::string_view mode, const Array& x, std::int64_t axis, std::int64_t length, bool last) {
  const std::int64_t extent = extent_of(x, axis);
  const std::int64_t count = std::min(length, extent);
  const Array elements = last ? part(x, axis, extent - count, extent) : part(x, axis, 0, count);
  const ReduceOptions options{.axis = {axis}, .keepdims = true};
  if (mode == "maximum") return max(elements, options);
  if (mode == "minimum") return min(elements, options);
  Array value =
      mode == "mean" ? mean(elements, options) : median(elements, {.axis = options.axis, .keepdims = options.keepdims});
  if (is_integer(x.dtype())) value = round(value);
  return convert(value, x.dtype(), x.weak_type());
}

Array pad_statistic(const PadOptions& options, const Array& x, std::int64_t axis, PadWidth::Pair width) {
  PadWidth::Pair length(extent_of(x, axis), extent_of(x, axis));
  if (options.stat_length) {
    const auto& pairs = options.stat_length->pairs();
    length = pairs[pairs.size() == 1 ? 0 : static_cast<std::size_t>(axis)];
  }
  return join({copies(statistic(options.mode, x, axis, length.first, false), axis, width.first), x,
               copies(statistic(options.mode, x, axis, length.second, true), axis, width.second)},
              axis);
}

// One pair for each dimension.
std::vector<PadWidth::Pair> pairs_for(const PadWidth& given, std::string_view what, const Array& x) {
  std::vector<PadWidth::Pair> pairs = given.pairs();
  if (pairs.size() == 1) pairs.resize(x.ndim(), pairs.front());
  if (pairs.size() == x.ndim()) return pairs;
  throw misuse<InvalidArgument>("{} pairs of {} are given for {}; there must be one for each dimension, or one for all",
                                pairs.size(), what, type_of(x));
}

}  // namespace

Array pad(const Operand& x, const PadWidth& width, const PadOptions& options) {
  const Caller caller("pad", x.where());
  Array array = to_array(x);
  const std::vector<PadWidth::Pair> pairs = pairs_for(width, "widths", array);
  for (const auto& [before, after] : pairs) {
    if (before >= 0 && after >= 0) continue;
    throw misuse<InvalidArgument>("the width ({}, {}) is negative; lax::pad cuts elements off", before, after);
  }
  const std::string& mode = options.mode;
  if (mode == "constant") return pad_constant(array, pairs, options.constant_values);
  using PadOne = Array (*)(const PadOptions&, const Array&, std::int64_t, PadWidth::Pair);
  static constexpr std::array<std::pair<std::string_view, PadOne>, 9> kModes = {{{"edge", &pad_edge},
                                                                                 {"reflect", &pad_periodic},
                                                                                 {"symmetric", &pad_periodic},
                                                                                 {"wrap", &pad_periodic},
                                                                                 {"linear_ramp", &pad_ramp},
                                                                                 {"maximum", &pad_statistic},
                                                                                 {"minimum", &pad_statistic},
                                                                                 {"mean", &pad_statistic},
                                                                                 {"median", &pad_statistic}}};
  const auto found = std::ranges::find(kModes, mode, &std::pair<std::string_view, PadOne>::first);
  if (found == kModes.end()) {
    std::vector<std::string_view> modes;
    for (const auto& [name, pad_one] : kModes) modes.push_back(name);
    throw misuse<InvalidArgument>("mode '{}' does not exist; there are 'constant', '{}'", mode,
                                  fmt::join(modes, "', '"));
  }
  for (std::size_t d = 0; d < array.ndim(); ++d) {
    if (array.shape()[d] != 0 || pairs[d] == PadWidth::Pair(0, 0)) continue;
    throw misuse<InvalidArgument>("mode '{}' has no elements to repeat along axis {} of {}", mode, d, type_of(array));
  }
  if (options.stat_length) {
    for (const auto& [before, after] : pairs_for(*options.stat_length, "stat_length", array)) {
      if (before > 0 && after > 0) continue;
      throw misuse<InvalidArgument>("stat_length ({}, {}) must be positive: it says how many elements count", before,
                                    after);
    }
  }
  for (std::size_t d = 0; d < array.ndim(); ++d) {
    const auto axis = static_cast<std::int64_t>(d);
    if (pairs[d] != PadWidth::Pair(0, 0)) array = found->second(options, array, axis, pairs[d]);
  }
  return array;
}

Array stop_gradient(const Operand& x) {
  const Caller caller("stop_gradient", x.where());
  const Array array = to_array(x);
  if (Trace::current() == nullptr && !of_layers({&array, 1})) return array;
  return bind_one("stop_gradient", {}, {array});
}

}  // namespace shoal
