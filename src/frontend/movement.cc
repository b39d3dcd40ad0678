// NumPy-style functions that join, split, repeat and rearrange arrays. All are made of few ops; those of a dimension
// that a function leaves alone may be sharded.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "frontend/out_sharding.h"
#include "frontend/promote.h"
#include "frontend/trace.h"
#include "ops/table.h"
#include "shoal/lax.h"
#include "shoal/numpy.h"

namespace shoal {
namespace {

std::int64_t extent_of(const Array& array, std::int64_t axis) { return array.shape()[static_cast<std::size_t>(axis)]; }

// The operands as arrays of one dtype, each with its shape. Throws if there are none.
std::vector<Array> promoted(std::string_view function, const Operands& operands) {
  if (operands.list().empty()) {
    throw InvalidArgument(fmt::format("{}: no arrays are given; it takes at least one", function), operands.where());
  }
  DtypeAndWeakness element = element_of(function, operands.list().front());
  for (const Operand& operand : operands.list()) element = promote_types(element, element_of(function, operand));
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
    throw InvalidArgument(fmt::format("{}: scalars have no dimension to be joined along; stack makes one", function),
                          where);
  }
  const std::int64_t dim = canonical_axis(function, axis, first.ndim(), where);
  for (const Array& array : arrays) {
    Shape shape = array.shape();
    if (shape.size() == first.ndim()) shape[static_cast<std::size_t>(dim)] = extent_of(first, dim);
    if (shape == first.shape()) continue;
    throw InvalidArgument(fmt::format("{}: shapes {} and {} cannot be joined along axis {}: all other extents must be "
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
    throw InvalidArgument(fmt::format("repeat: repeats is {}; it must be at least 0", repeats), x.where());
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

// What x looks like along a dimension if it is continued for ever, over one period from its first element on.
Array period_of(std::string_view mode, const Array& x, std::int64_t axis, SourceLocation where) {
  const std::int64_t extent = extent_of(x, axis);
  if (mode == "wrap" || (mode == "reflect" && extent == 1)) return x;
  const Array back = lax::rev({x, where}, {axis});
  const Array rest = mode == "symmetric" ? back : part(back, axis, 1, extent - 1, where);
  return join("pad", {x, rest}, axis, where);
}

Array pad_periodic(std::string_view mode, const Array& x, std::int64_t axis, PadWidth::Pair width,
                   SourceLocation where) {
  const Array period = period_of(mode, x, axis, where);
  const std::int64_t length = extent_of(period, axis);
  const std::int64_t end = extent_of(x, axis) + width.second;
  std::vector<Array> parts;
  for (std::int64_t from = -width.first; from < end;) {
    const std::int64_t start = (from % length + length) % length;
    const std::int64_t limit = std::min(length, start + end - from);
    parts.push_back(part(period, axis, start, limit, where));
    from += limit - start;
  }
  return join("pad", parts, axis, where);
}

Array pad_edge(const Array& x, std::int64_t axis, PadWidth::Pair width, SourceLocation where) {
  const std::int64_t extent = extent_of(x, axis);
  const auto copies = [&](std::int64_t position, std::int64_t count) {
    Shape shape = x.shape();
    shape[static_cast<std::size_t>(axis)] = count;
    return broadcast(part(x, axis, position, position + 1, where), shape, where);
  };
  return join("pad", {copies(0, width.first), x, copies(extent - 1, width.second)}, axis, where);
}

}  // namespace

Array pad(const Operand& x, const PadWidth& width, const PadOptions& options) {
  const SourceLocation where = x.where();
  Array array = to_array(x);
  std::vector<PadWidth::Pair> pairs = width.pairs();
  if (pairs.size() == 1) pairs.resize(array.ndim(), pairs.front());
  if (pairs.size() != array.ndim()) {
    throw InvalidArgument(fmt::format("pad: {} pairs of widths are given for {}; there must be one for each dimension, "
                                      "or one for all",
                                      pairs.size(), type_of(array)),
                          where);
  }
  for (const auto& [before, after] : pairs) {
    if (before >= 0 && after >= 0) continue;
    throw InvalidArgument(fmt::format("pad: the width ({}, {}) is negative; lax::pad cuts elements off", before, after),
                          where);
  }
  if (options.mode == "constant") return pad_constant(array, pairs, options.constant_values, where);
  const std::vector<std::string_view> modes = {"edge", "reflect", "symmetric", "wrap"};
  if (std::find(modes.begin(), modes.end(), options.mode) == modes.end()) {
    throw InvalidArgument(fmt::format("pad: mode '{}' does not exist; there are 'constant', '{}'", options.mode,
                                      fmt::join(modes, "', '")),
                          where);
  }
  for (std::size_t d = 0; d < array.ndim(); ++d) {
    if (array.shape()[d] != 0 || pairs[d] == PadWidth::Pair(0, 0)) continue;
    throw InvalidArgument(
        fmt::format("pad: mode '{}' has no elements to repeat along axis {} of {}", options.mode, d, type_of(array)),
        where);
  }
  for (std::size_t d = 0; d < array.ndim(); ++d) {
    const auto axis = static_cast<std::int64_t>(d);
    if (pairs[d] == PadWidth::Pair(0, 0)) continue;
    array = options.mode == "edge" ? pad_edge(array, axis, pairs[d], where)
                                   : pad_periodic(options.mode, array, axis, pairs[d], where);
  }
  return array;
}

}  // namespace shoal
