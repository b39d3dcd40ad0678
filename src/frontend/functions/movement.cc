// NumPy-style functions that join, split, repeat and rearrange arrays. All are made of few ops; those of a dimension
// that a function leaves alone may be sharded.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/shape_mismatch.h"
#include "frontend/array/out_sharding.h"
#include "frontend/array/promotion.h"
#include "frontend/array/promotion_mode.h"
#include "frontend/array/term.h"
#include "frontend/array/trace.h"
#include "frontend/functions/indexing.h"
#include "ops/table.h"
#include "shoal/lax.h"
#include "shoal/numpy.h"
#include "shoal/statistics.h"

namespace shoal {
namespace {

std::int64_t extent_of(const Array& array, std::int64_t axis) { return array.shape()[static_cast<std::size_t>(axis)]; }

// The operands as arrays of one dtype, each with its shape. Throws if there are none.
std::vector<Array> promoted(std::string_view function, const Operands& operands) {
  if (operands.list().empty()) {
    throw InvalidArgument(fmt::format("{}: no arrays are given; it takes at least one", function), operands.where());
  }
  DtypeAndWeakness element = element_of(function, operands.list().front());
  for (const Operand& operand : operands.list()) {
    element = promoted_types(function, element, element_of(function, operand), operand.where());
  }
  std::vector<Array> arrays;
  for (const Operand& operand : operands.list()) {
    arrays.push_back(convert(to_array(operand), element.dtype, element.weak, operand.where()));
  }
  return arrays;
}

// Arrays of one dtype joined along a dimension counted from either end.
Array join(std::string_view function, const std::vector<Array>& arrays, std::int64_t axis, SourceLocation where) {
  const Array& first = arrays.front();
  if (first.ndim() == 0) {
    throw ShapeMismatch(fmt::format("{}: scalars have no dimension to be joined along; stack makes one", function),
                        where);
  }
  const std::int64_t dim = canonical_axis(function, axis, first.ndim(), where);
  for (const Array& array : arrays) {
    Shape shape = array.shape();
    if (shape.size() == first.ndim()) shape[static_cast<std::size_t>(dim)] = extent_of(first, dim);
    if (shape == first.shape()) continue;
    throw ShapeMismatch(fmt::format("{}: shapes {} and {} cannot be joined along axis {}: all other extents must be "
                                    "equal",
                                    function, to_string(first.shape()), to_string(array.shape()), dim),
                        where);
  }
  if (arrays.size() == 1) return first;
  return bind(op_named("concatenate"), {{"dim", dim}}, arrays, where)[0];
}

// The elements from start up to limit of one dimension.
Array part(const Array& x, std::int64_t axis, std::int64_t start, std::int64_t limit, SourceLocation where) {
  return lax::slice_in_dim({x, where}, start, limit, 1, axis);
}

// At least one dimension, or as many as given: missing ones are added in front.
Array at_least(const Array& x, std::size_t rank, SourceLocation where) {
  Shape shape = x.shape();
  if (shape.size() < rank) shape.insert(shape.begin(), rank - shape.size(), 1);
  return reshape({x, where}, shape);
}

// Every element `repeats` times along a dimension; if `whole`, all elements one after the other as many times.
Array repeated(const Array& x, std::int64_t axis, std::int64_t repeats, bool whole, SourceLocation where) {
  if (repeats == 1) return x;
  const auto d = static_cast<std::size_t>(axis);
  Shape shape = x.shape();
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(d) + (whole ? 0 : 1), repeats);
  Dims dims;
  for (std::size_t i = 0; i < x.ndim(); ++i) {
    dims.push_back(static_cast<std::int64_t>(i < d || (i == d && !whole) ? i : i + 1));
  }
  const Array spread = lax::broadcast_in_dim({x, where}, shape, dims);  // Refuses what is too large.
  Shape merged = x.shape();
  merged[d] *= repeats;
  return reshape({spread, where}, merged);
}

}  // namespace

// ---- Joining and splitting.

Array concatenate(const Operands& arrays, std::int64_t axis) {
  return join("concatenate", promoted("concatenate", arrays), axis, arrays.where());
}

Array stack(const Operands& arrays, std::int64_t axis) {
  std::vector<Array> slices = promoted("stack", arrays);
  const Shape shape = slices.front().shape();
  const std::int64_t dim = canonical_axis("stack", axis, shape.size() + 1, arrays.where());
  for (Array& array : slices) {
    if (array.shape() != shape) {
      throw InvalidArgument(
          fmt::format("stack: shapes {} and {} differ; all must be equal", to_string(shape), to_string(array.shape())),
          arrays.where());
    }
    array = expand_dims({array, arrays.where()}, dim);
  }
  return join("stack", slices, dim, arrays.where());
}

Array hstack(const Operands& arrays) {
  std::vector<Array> parts = promoted("hstack", arrays);
  for (Array& array : parts) array = at_least(array, 1, arrays.where());
  return join("hstack", parts, parts.front().ndim() == 1 ? 0 : 1, arrays.where());
}

Array vstack(const Operands& arrays) {
  std::vector<Array> parts = promoted("vstack", arrays);
  for (Array& array : parts) array = at_least(array, 2, arrays.where());
  return join("vstack", parts, 0, arrays.where());
}

namespace {

// The parts of a dimension that begin at 0 and at the given positions.
std::vector<Array> split_at(std::string_view function, const Array& x, std::int64_t axis, const Dims& positions,
                            SourceLocation where) {
  Dims bounds = positions;
  bounds.insert(bounds.begin(), 0);
  bounds.push_back(extent_of(x, axis));
  if (!std::is_sorted(bounds.begin(), bounds.end())) {
    throw InvalidArgument(fmt::format("{}: positions {} must ascend between 0 and {}, the extent of axis {} of {}",
                                      function, to_string(positions), bounds.back(), axis, type_of(x)),
                          where);
  }
  std::vector<Array> parts;
  for (std::size_t i = 0; i + 1 < bounds.size(); ++i) parts.push_back(part(x, axis, bounds[i], bounds[i + 1], where));
  return parts;
}

std::vector<Array> split(std::string_view function, const Operand& x, const Sections& sections, std::int64_t axis,
                         bool evenly) {
  const Array array = to_array(x);
  const std::int64_t dim = canonical_axis(function, axis, array.ndim(), x.where());
  if (sections.positions() != nullptr) return split_at(function, array, dim, *sections.positions(), x.where());
  const std::int64_t count = *sections.count();
  const std::int64_t extent = extent_of(array, dim);
  if (count < 1 || (evenly && extent % count != 0)) {
    throw InvalidArgument(
        fmt::format("{}: axis {} of {} has extent {}, which cannot be split into {} {}parts{}", function, dim,
                    type_of(array), extent, count, evenly ? "equal " : "",
                    evenly && count > 0 ? "; array_split allows others" : "; there must be at least 1"),
        x.where());
  }
  Dims positions;
  for (std::int64_t i = 1; i < count; ++i) positions.push_back(i * (extent / count) + std::min(i, extent % count));
  return split_at(function, array, dim, positions, x.where());
}

}  // namespace

std::vector<Array> split(const Operand& x, const Sections& sections, std::int64_t axis) {
  return split("split", x, sections, axis, true);
}

std::vector<Array> array_split(const Operand& x, const Sections& sections, std::int64_t axis) {
  return split("array_split", x, sections, axis, false);
}

// ---- Repeating and rearranging.

Array tile(const Operand& x, std::int64_t repetitions) { return tile(x, Dims{repetitions}); }

Array tile(const Operand& x, const Dims& repetitions) {
  Dims counts = repetitions;
  Array array = at_least(to_array(x), counts.size(), x.where());
  counts.insert(counts.begin(), array.ndim() - counts.size(), 1);
  for (std::size_t d = 0; d < counts.size(); ++d) {
    if (counts[d] < 0) {
      throw InvalidArgument(fmt::format("tile: repetitions {} have a negative entry", to_string(repetitions)),
                            x.where());
    }
    array = repeated(array, static_cast<std::int64_t>(d), counts[d], true, x.where());
  }
  return array;
}

Array repeat(const Operand& x, std::int64_t repeats, std::optional<std::int64_t> axis,
             const OutSharding& out_sharding) {
  if (repeats < 0) {
    throw ShapeMismatch(fmt::format("repeat: repeats is {}; it must be at least 0", repeats), x.where());
  }
  return split_as("repeat", out_sharding, {to_array(x)}, x.where(), [&](const std::vector<Array>& arrays) {
    const Array array = axis ? arrays[0] : ravel({arrays[0], x.where()});
    const std::int64_t dim = canonical_axis("repeat", axis.value_or(0), array.ndim(), x.where());
    return repeated(array, dim, repeats, false, x.where());
  });
}

Array roll(const Operand& x, std::int64_t shift, const Axes& axis) { return roll(x, Dims{shift}, axis); }

Array roll(const Operand& x, const Dims& shifts, const Axes& axis) {
  const SourceLocation where = x.where();
  const Array given = to_array(x);
  const Dims axes = axis.get().value_or(Dims{0});
  if (shifts.size() != axes.size() && shifts.size() != 1 && axes.size() != 1) {
    throw InvalidArgument(fmt::format("roll: {} shifts {} are given for {} axes {}; there must be as many, or one",
                                      shifts.size(), to_string(shifts), axes.size(), to_string(axes)),
                          where);
  }
  Array array = axis.get() ? given : ravel({given, where});
  for (std::size_t i = 0; i < std::max(shifts.size(), axes.size()); ++i) {
    const std::int64_t dim = canonical_axis("roll", axes[axes.size() == 1 ? 0 : i], array.ndim(), where);
    const std::int64_t extent = extent_of(array, dim);
    if (extent == 0) continue;
    const std::int64_t remainder = shifts[shifts.size() == 1 ? 0 : i] % extent;
    if (remainder == 0) continue;
    Dims by(array.ndim(), 0);
    by[static_cast<std::size_t>(dim)] = remainder > 0 ? remainder : extent + remainder;
    array = bind_one("roll", {{"shifts", std::move(by)}}, {array}, where);
  }
  return reshape({array, where}, given.shape());
}

Array flip(const Operand& x, const Axes& axis) {
  const Array array = to_array(x);
  const Dims dims = canonical_axes("flip", axis, array.ndim(), x.where());
  return dims.empty() ? array : lax::rev({array, x.where()}, dims);
}

Array swapaxes(const Operand& x, std::int64_t axis1, std::int64_t axis2) {
  const Array array = to_array(x);
  Dims perm;
  for (std::size_t d = 0; d < array.ndim(); ++d) perm.push_back(static_cast<std::int64_t>(d));
  const std::int64_t first = canonical_axis("swapaxes", axis1, array.ndim(), x.where());
  const std::int64_t second = canonical_axis("swapaxes", axis2, array.ndim(), x.where());
  std::swap(perm[static_cast<std::size_t>(first)], perm[static_cast<std::size_t>(second)]);
  return transpose({array, x.where()}, perm);
}

Array moveaxis(const Operand& x, std::int64_t source, std::int64_t destination) {
  return moveaxis(x, Dims{source}, Dims{destination});
}

Array moveaxis(const Operand& x, const Dims& source, const Dims& destination) {
  const SourceLocation where = x.where();
  const Array array = to_array(x);
  if (source.size() != destination.size()) {
    throw InvalidArgument(fmt::format("moveaxis: source {} and destination {} must have as many entries",
                                      to_string(source), to_string(destination)),
                          where);
  }
  // canonical_axes looks for repetitions.
  canonical_axes("moveaxis", Axes(source), array.ndim(), where);
  canonical_axes("moveaxis", Axes(destination), array.ndim(), where);
  std::vector<std::pair<std::int64_t, std::int64_t>> moves;  // To, from.
  Dims perm;
  for (std::size_t d = 0; d < array.ndim(); ++d) perm.push_back(static_cast<std::int64_t>(d));
  for (std::size_t i = 0; i < source.size(); ++i) {
    const std::int64_t from = canonical_axis("moveaxis", source[i], array.ndim(), where);
    moves.emplace_back(canonical_axis("moveaxis", destination[i], array.ndim(), where), from);
    perm.erase(std::find(perm.begin(), perm.end(), from));
  }
  std::sort(moves.begin(), moves.end());
  for (const auto& [to, from] : moves) perm.insert(perm.begin() + to, from);
  return transpose({array, where}, perm);
}

Array expand_dims(const Operand& x, std::int64_t axis) { return expand_dims(x, Dims{axis}); }

Array expand_dims(const Operand& x, const Dims& axes) {
  const Array array = to_array(x);
  Shape shape = array.shape();
  for (std::int64_t d : canonical_axes("expand_dims", Axes(axes), array.ndim() + axes.size(), x.where())) {
    shape.insert(shape.begin() + d, 1);
  }
  return reshape({array, x.where()}, shape);
}

std::vector<Array> broadcast_arrays(const Operands& arrays) {
  std::vector<Array> results;
  Shape shape;
  for (const Operand& operand : arrays.list()) {
    results.push_back(to_array(operand));
    shape = broadcast_shapes("broadcast_arrays", shape, results.back().shape(), arrays.where());
  }
  for (Array& array : results) array = broadcast(array, shape, arrays.where());
  return results;
}

// ---- Padding.

namespace {

Array pad_constant(const Array& x, const std::vector<PadWidth::Pair>& width, const Operand& value,
                   SourceLocation where) {
  std::vector<lax::PaddingConfig> config;
  for (const auto& [before, after] : width) config.push_back({before, after, 0});
  const Type& type = detail::impl_of(x).type;
  const Array element = value.number() == nullptr ? convert(*value.array(), type.dtype, type.weak, where)
                                                  : constant(to_scalar(*value.number(), type.dtype, "pad", where),
                                                             type.weak, type.memory, where);
  return lax::pad({x, where}, {element, where}, config);
}

// The outermost element along a dimension: the first or the last.
Array edge_of(const Array& x, std::int64_t axis, bool last, SourceLocation where) {
  const std::int64_t place = last ? extent_of(x, axis) - 1 : 0;
  return part(x, axis, place, place + 1, where);
}

// What x looks like along a dimension if it is continued for ever, over one period from its first element on.
Array period_of(const PadOptions& options, const Array& x, std::int64_t axis, SourceLocation where) {
  const std::int64_t extent = extent_of(x, axis);
  if (options.mode == "wrap" || (options.mode == "reflect" && extent == 1)) return x;
  const Array back = lax::rev({x, where}, {axis});
  Array rest = options.mode == "symmetric" ? back : part(back, axis, 1, extent - 1, where);
  if (options.odd) {
    const Term edge(edge_of(x, axis, true, where), where);
    rest = (edge + edge - Term(rest, where)).array();
  }
  return join("pad", {x, rest}, axis, where);
}

Array pad_periodic(const PadOptions& options, const Array& x, std::int64_t axis, PadWidth::Pair width,
                   SourceLocation where) {
  const Array period = period_of(options, x, axis, where);
  const std::int64_t length = extent_of(period, axis);
  const std::int64_t end = extent_of(x, axis) + width.second;
  std::vector<Array> parts;
  for (std::int64_t from = -width.first; from < end;) {
    const std::int64_t start = (from % length + length) % length;
    const std::int64_t limit = std::min(length, start + end - from);
    parts.push_back(part(period, axis, start, limit, where));
    const std::int64_t turns = (from - start) / length;
    if (options.odd && turns != 0) {
      // Mirrored twice, what was turned over stands upright again, by as much higher.
      const Term rise = Term(edge_of(x, axis, true, where), where) - Term(edge_of(x, axis, false, where), where);
      const Operand factor(2 * turns, where);
      parts.back() = add({parts.back(), where}, {multiply(rise, factor), where});
    }
    from += limit - start;
  }
  return join("pad", parts, axis, where);
}

// One element along a dimension, repeated.
Array copies(const Array& x, std::int64_t axis, std::int64_t count, SourceLocation where) {
  Shape shape = x.shape();
  shape[static_cast<std::size_t>(axis)] = count;
  return broadcast(x, shape, where);
}

Array pad_edge(const PadOptions&, const Array& x, std::int64_t axis, PadWidth::Pair width, SourceLocation where) {
  return join("pad",
              {copies(edge_of(x, axis, false, where), axis, width.first, where), x,
               copies(edge_of(x, axis, true, where), axis, width.second, where)},
              axis, where);
}

// From end_values, which is reached, to the outermost element, which is not.
Array ramp(const Array& x, std::int64_t axis, std::int64_t count, bool last, const Operand& end, SourceLocation where) {
  const Dtype dtype = x.dtype();
  const bool whole = is_integer(dtype);
  const Dtype wide = is_complex(dtype) ? dtype : whole || size_of(dtype) == 8 ? float64 : float32;
  const Term edge(convert(edge_of(x, axis, last, where), wide, false, where), where);
  const Term goal(convert(convert(to_array(end), dtype, false, where), wide, false, where), where);
  Shape steps(x.ndim(), 1);
  steps[static_cast<std::size_t>(axis)] = count;
  Array numbers = convert(counted("pad", count, x, where), wide, false, where);
  if (last) numbers = lax::rev({numbers, where}, {0});
  const Term places(reshape({numbers, where}, steps), where);
  const auto n = static_cast<double>(count);
  // Whole numbers are met exactly where there are some on the way.
  const Term way = whole ? (edge - goal) * places / n : (edge - goal) * (places / n);
  const Term values = goal + way;
  return convert(whole ? floor(values) : values.array(), dtype, x.weak_type(), where);
}

Array pad_ramp(const PadOptions& options, const Array& x, std::int64_t axis, PadWidth::Pair width,
               SourceLocation where) {
  const Operand& end = options.end_values;
  return join("pad", {ramp(x, axis, width.first, false, end, where), x, ramp(x, axis, width.second, true, end, where)},
              axis, where);
}

// The statistic of `length` elements at one end of a dimension.
Array statistic(std::string_view mode, const Array& x, std::int64_t axis, std::int64_t length, bool last,
                SourceLocation where) {
  const std::int64_t extent = extent_of(x, axis);
  const std::int64_t count = std::min(length, extent);
  const Operand elements(last ? part(x, axis, extent - count, extent, where) : part(x, axis, 0, count, where), where);
  const ReduceOptions options{.axis = {axis}, .keepdims = true};
  if (mode == "maximum") return max(elements, options);
  if (mode == "minimum") return min(elements, options);
  Array value =
      mode == "mean" ? mean(elements, options) : median(elements, {.axis = options.axis, .keepdims = options.keepdims});
  if (is_integer(x.dtype())) value = round({value, where});
  return convert(value, x.dtype(), x.weak_type(), where);
}

Array pad_statistic(const PadOptions& options, const Array& x, std::int64_t axis, PadWidth::Pair width,
                    SourceLocation where) {
  PadWidth::Pair length(extent_of(x, axis), extent_of(x, axis));
  if (options.stat_length) {
    const auto& pairs = options.stat_length->pairs();
    length = pairs[pairs.size() == 1 ? 0 : static_cast<std::size_t>(axis)];
  }
  return join("pad",
              {copies(statistic(options.mode, x, axis, length.first, false, where), axis, width.first, where), x,
               copies(statistic(options.mode, x, axis, length.second, true, where), axis, width.second, where)},
              axis, where);
}

// One pair for each dimension.
std::vector<PadWidth::Pair> pairs_for(const PadWidth& given, std::string_view what, const Array& x,
                                      SourceLocation where) {
  std::vector<PadWidth::Pair> pairs = given.pairs();
  if (pairs.size() == 1) pairs.resize(x.ndim(), pairs.front());
  if (pairs.size() == x.ndim()) return pairs;
  throw InvalidArgument(fmt::format("pad: {} pairs of {} are given for {}; there must be one for each dimension, "
                                    "or one for all",
                                    pairs.size(), what, type_of(x)),
                        where);
}

}  // namespace

Array pad(const Operand& x, const PadWidth& width, const PadOptions& options) {
  const SourceLocation where = x.where();
  Array array = to_array(x);
  const std::vector<PadWidth::Pair> pairs = pairs_for(width, "widths", array, where);
  for (const auto& [before, after] : pairs) {
    if (before >= 0 && after >= 0) continue;
    throw InvalidArgument(fmt::format("pad: the width ({}, {}) is negative; lax::pad cuts elements off", before, after),
                          where);
  }
  const std::string& mode = options.mode;
  if (mode == "constant") return pad_constant(array, pairs, options.constant_values, where);
  using PadOne = Array (*)(const PadOptions&, const Array&, std::int64_t, PadWidth::Pair, SourceLocation);
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
    throw InvalidArgument(
        fmt::format("pad: mode '{}' does not exist; there are 'constant', '{}'", mode, fmt::join(modes, "', '")),
        where);
  }
  for (std::size_t d = 0; d < array.ndim(); ++d) {
    if (array.shape()[d] != 0 || pairs[d] == PadWidth::Pair(0, 0)) continue;
    throw InvalidArgument(
        fmt::format("pad: mode '{}' has no elements to repeat along axis {} of {}", mode, d, type_of(array)), where);
  }
  if (options.stat_length) {
    for (const auto& [before, after] : pairs_for(*options.stat_length, "stat_length", array, where)) {
      if (before > 0 && after > 0) continue;
      throw InvalidArgument(
          fmt::format("pad: stat_length ({}, {}) must be positive: it says how many elements count", before, after),
          where);
    }
  }
  for (std::size_t d = 0; d < array.ndim(); ++d) {
    const auto axis = static_cast<std::int64_t>(d);
    if (pairs[d] != PadWidth::Pair(0, 0)) array = found->second(options, array, axis, pairs[d], where);
  }
  return array;
}

}  // namespace shoal
