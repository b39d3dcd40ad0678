#include "shoal/calculus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/promotion.h"
#include "frontend/array/trace.h"
#include "frontend/functions/contractions.h"
#include "frontend/functions/indexing.h"
#include "shoal/lax.h"

namespace shoal {
namespace {

Array floats_of(const Operand& x) {
  const Array array = to_array(x);
  return convert(array, inexact_dtype(array.dtype()), array.weak_type());
}

Array part(const Array& x, std::int64_t axis, Bound start, Bound limit) {
  return lax::slice_in_dim(x, start, limit, 1, axis);
}

// Every element less the one before it.
Array differences(const Array& x, std::int64_t axis) {
  const Array later = part(x, axis, 1, none);
  const Array earlier = part(x, axis, none, -1);
  if (x.dtype() == bool_) return not_equal(later, earlier);
  return later - earlier;
}

// Neighbours of x along an axis: an array, or a scalar repeated once.
Operand neighbours(const Array& given, const Array& x, std::int64_t axis) {
  if (given.ndim() > 0) return given;
  Shape shape = x.shape();
  shape[static_cast<std::size_t>(axis)] = 1;
  return broadcast(given, shape);
}

}  // namespace

Array diff(const Operand& x, const DiffOptions& options) {
  const Caller caller("diff", x.where());
  const Array array = to_array(x);
  if (options.n < 0) {
    throw misuse<InvalidArgument>("n is {}; it must be at least 0", options.n);
  }
  const std::int64_t axis = canonical_axis(options.axis, array.ndim());
  if (options.n == 0) return array;
  std::vector<Operand> parts;
  if (options.prepend) parts.push_back(neighbours(*options.prepend, array, axis));
  parts.emplace_back(array);
  if (options.append) parts.push_back(neighbours(*options.append, array, axis));
  Array result = parts.size() > 1 ? concatenate(Operands(parts), axis) : array;
  for (std::int64_t i = 0; i < options.n && extent_of(result, axis) > 0; ++i) result = differences(result, axis);
  return result;
}

Array ediff1d(const Operand& x, const Ediff1dOptions& options) {
  const Caller caller("ediff1d", x.where());
  const Array flat = ravel(x);
  std::vector<Operand> parts;
  const auto add_part = [&](const std::optional<Array>& given) {
    if (given) parts.emplace_back(ravel(astype(*given, flat.dtype())));
  };
  add_part(options.to_begin);
  if (flat.size() > 0) parts.emplace_back(differences(flat, 0));
  add_part(options.to_end);
  return parts.empty() ? flat : concatenate(Operands(parts), 0);
}

namespace {

// The derivative along one dimension, by the distance of neighbours or by their positions.
Array derivative(const Array& f, const Array& spacing, std::int64_t axis) {
  const std::int64_t n = extent_of(f, axis);
  if (n < 2) {
    throw misuse<InvalidArgument>("dimension {} of {} has extent {}; a derivative takes at least 2", axis, type_of(f),
                                  n);
  }
  if (spacing.ndim() > 1 || (spacing.ndim() == 1 && spacing.size() != n)) {
    throw misuse<InvalidArgument>("the spacing {} must be a number, or the {} positions along dimension {}",
                                  type_of(spacing), n, axis);
  }
  if (spacing.ndim() == 0) {
    // Inside by the elements on both sides alone, so that what is not finite stays with its neighbours.
    const Array ends = differences(f, axis) / spacing;
    const Array inner = (part(f, axis, 2, none) - part(f, axis, none, -2)) * 0.5 / spacing;
    return concatenate(Operands({part(ends, axis, 0, 1), inner, part(ends, axis, n - 2, n - 1)}), axis);
  }
  Shape line(f.ndim(), 1);
  line[static_cast<std::size_t>(axis)] = n - 1;
  // The distance of each element to the one before.
  const Array h = reshape(differences(spacing, 0), line);
  const Array slopes = differences(f, axis) / h;
  // Inside, the slopes on both sides, the shorter one counting more.
  const Array before = part(h, axis, none, -1);
  const Array behind = part(h, axis, 1, none);
  const Array inner =
      (behind * part(slopes, axis, none, -1) + before * part(slopes, axis, 1, none)) / (before + behind);
  return concatenate(Operands({part(slopes, axis, 0, 1), inner, part(slopes, axis, n - 2, n - 1)}), axis);
}

}  // namespace

std::vector<Array> gradient(const Operand& f, const GradientOptions& options) {
  const Caller caller("gradient", f.where());
  const Array values = floats_of(f);
  const std::size_t rank = values.ndim();
  const Dims axes = canonical_axes(options.axis, rank);
  const std::size_t count = options.spacing.size();
  if (count > 1 && count != axes.size()) {
    throw misuse<InvalidArgument>("got {} spacings for {} dimensions; give one for each, or one for all", count,
                                  axes.size());
  }
  std::vector<Array> results;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const Operand spacing = count == 0 ? 1.0 : options.spacing[count == 1 ? 0 : i];
    const auto [v, h] = promote_dtypes(values, spacing);
    results.push_back(derivative(v, h, axes[i]));
  }
  return results;
}

Array trapezoid(const Operand& y, const TrapezoidOptions& options) {
  const Caller caller("trapezoid", y.where());
  Array values = floats_of(y);
  std::optional<Array> points = options.x;
  if (points) {
    // Integers together are floats of their common dtype.
    const auto [common, x] = promote_dtypes(y, *points);
    values = floats_of(common);
    points = floats_of(x);
  }
  const std::int64_t axis = canonical_axis(options.axis, values.ndim());
  if (extent_of(values, axis) == 0) return sum(values, ReduceOptions{.axis = Dims{axis}});
  const auto pairs = [&](const Array& v) { return part(v, axis, 1, none) + part(v, axis, none, -1); };
  const ReduceOptions along{.axis = Dims{axis}};
  if (!points) {
    if (to_array(options.dx).ndim() == 0) return sum(pairs(values), along) * multiply(0.5, options.dx);
    return sum(multiply(pairs(values), options.dx), along) * 0.5;
  }
  const std::int64_t n = extent_of(values, axis);
  Array positions = *points;
  if (positions.ndim() == 1) {
    if (positions.size() != n) {
      throw misuse<InvalidArgument>("x {} must have an element for each of {}", type_of(positions), n);
    }
    Shape line(values.ndim(), 1);
    line[static_cast<std::size_t>(axis)] = n;
    positions = reshape(positions, line);
  } else if (positions.shape() != values.shape()) {
    throw misuse<InvalidArgument>("x {} must be a vector, or have the shape of y {}", type_of(positions),
                                  type_of(values));
  }
  return sum(pairs(values) * differences(positions, axis), along) * 0.5;
}

// ---- Interpolation and polynomials.

Array interp(const Operand& x, const Operand& xp, const Operand& fp, const InterpOptions& options) {
  const Caller caller("interp", x.where());
  const Array given = to_array(xp);
  if (given.ndim() != 1 || given.size() == 0 || to_array(fp).shape() != given.shape()) {
    throw misuse<InvalidArgument>("xp {} and fp {} must be vectors of one extent, at least 1", type_of(given),
                                  type_of(to_array(fp)));
  }
  const auto [at, from] = promote_dtypes(floats_of(x), floats_of(xp));
  if (is_complex(at.dtype())) {
    throw misuse<TypeMismatch>("positions are real, not {}", name_of(at.dtype()));
  }
  Array position = at;
  Array positions = from;
  Array values = floats_of(fp);
  if (options.period) {
    const Array period = abs(*options.period);
    if (period.ndim() != 0) throw misuse<InvalidArgument>("period {} is no scalar", type_of(period));
    if (!period.is_tracer() && !period.astype(bool_).item<bool>()) {
      throw misuse<InvalidArgument>("period is 0; it must not be");
    }
    const auto around = [&](const Array& v) { return remainder(v, period); };
    position = around(position);
    const std::vector<Array> sorted = lax::sort({around(positions), values}, {});
    // One point more on each side.
    const Array& p = sorted[0];
    const Array& v = sorted[1];
    positions = concatenate(Operands({part(p, 0, -1, none) - period, p, part(p, 0, 0, 1) + period}));
    values = concatenate(Operands({part(v, 0, -1, none), v, part(v, 0, 0, 1)}));
  }
  const std::int64_t last = positions.size() - 1;
  const auto item = [&](const Array& list, const Operand& index) { return take(list, index); };
  Array result = broadcast(item(values, 0), position.shape());
  if (last > 0) {
    const Array above = clip(searchsorted(positions, position, {.side = Side::kRight}), 1, last);
    const Array below = subtract(above, 1);
    const Array start = item(positions, below);
    const Array width = item(positions, above) - start;
    const Array first = item(values, below);
    const Array is_point = equal(width, 0);
    const Array share = (position - start) / where(is_point, 1, width);
    result = where(is_point, first, first + share * (item(values, above) - first));
  }
  if (options.period) return result;
  const auto outside = [&](Array (*comparison)(const Operand&, const Operand&), std::int64_t end,
                           const std::optional<Operand>& value) {
    const Array is_outside = comparison(position, item(positions, end));
    const Operand other = value ? *value : Operand(item(values, end));
    return where(is_outside, other, result);
  };
  if (!options.extrapolate_left) result = outside(less, 0, options.left);
  if (!options.extrapolate_right) result = outside(greater, last, options.right);
  return result;
}

// By Horner's rule.
Array polyval(const Operand& p, const Operand& x) {
  const Caller caller("polyval", p.where());
  const auto [coefficients, points] = promote_dtypes(p, x);
  if (coefficients.ndim() == 0) throw misuse<InvalidArgument>("the coefficients are a scalar, not a vector");
  const Shape rest(coefficients.shape().begin() + 1, coefficients.shape().end());
  const Shape shape = broadcast_shapes(rest, points.shape());
  Array result = zeros(shape, {.dtype = coefficients.dtype()});
  for (std::int64_t i = 0; i < coefficients.shape()[0]; ++i) {
    const Array coefficient = lax::dynamic_index_in_dim(coefficients, i, 0, false);
    result = i == 0 ? broadcast(coefficient, shape) : result * points + coefficient;
  }
  return result;
}

namespace lax {

Array polynomial(const Operand& x, const Operands& coefficients) {
  const Caller caller("polynomial", x.where());
  const std::vector<Operand>& list = coefficients.list();
  if (list.empty()) throw misuse<InvalidArgument>("there are no coefficients; a polynomial has one at least");
  auto [at, result] = promote_dtypes(x, list.back());
  for (std::size_t i = list.size() - 1; i-- > 0;) result = result * at + list[i];
  return broadcast_to(result, broadcast_shapes(at.shape(), result.shape()));
}

}  // namespace lax

Array vander(const Operand& x, const VanderOptions& options) {
  const Caller caller("vander", x.where());
  const Array array = to_array(x);
  if (array.ndim() != 1) throw misuse<InvalidArgument>("{} is no vector", type_of(array));
  const std::int64_t n = options.N.value_or(array.size());
  if (n < 0) throw misuse<InvalidArgument>("N is {}; it must be at least 0", n);
  const Array powers = counted(n, array);
  const Array exponents = options.increasing ? powers : subtract(n - 1, powers);
  return power(expand_dims(array, std::int64_t{1}), convert(exponents, array.dtype()));
}

Array cross(const Operand& a, const Operand& b, const CrossOptions& options) {
  const Caller caller("cross", a.where());
  const auto [left, right] = promote_dtypes(a, b);
  const auto components = [&](const Array& array, std::int64_t axis) {
    const std::int64_t d = canonical_axis(axis, array.ndim());
    const std::int64_t extent = array.shape()[static_cast<std::size_t>(d)];
    if (extent != 2 && extent != 3) {
      throw misuse<InvalidArgument>("dimension {} of {} has extent {}; it must be 2 or 3", d, type_of(array), extent);
    }
    std::vector<Array> parts;
    for (std::int64_t i = 0; i < extent; ++i) {
      parts.emplace_back(squeeze(lax::slice_in_dim(array, i, i + 1, 1, d), Axes(Dims{d})));
    }
    return parts;
  };
  std::vector<Array> u = components(left, options.axisa);
  std::vector<Array> v = components(right, options.axisb);
  if (u.size() == 2 && v.size() == 2) return u[0] * v[1] - u[1] * v[0];
  for (std::vector<Array>* vector : {&u, &v}) {
    if (vector->size() == 2) vector->emplace_back(zeros_like((*vector)[0]));
  }
  return stack(Operands({u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]}),
               options.axisc);
}

// ---- The parts of numbers.

namespace {

// How the bits of a float are used.
struct Bits {
  Dtype integer;
  int digits;    // Of the mantissa, without the first.
  int exponent;  // That of numbers between 1/2 and 1, as it is stored.
};

Bits bits_of(Dtype dtype) { return dtype == float64 ? Bits{int64, 52, 1022} : Bits{int32, 23, 126}; }

// Real numbers as f32 or f64; and the dtype that results have.
std::pair<Array, Dtype> real_floats(const Operand& x) {
  const Array given = floats_of(x);
  const Dtype dtype = given.dtype();
  if (is_complex(dtype)) throw misuse<TypeMismatch>("takes real numbers, not {}", name_of(dtype));
  return {convert(given, dtype == float64 ? float64 : float32), dtype};
}

Operand integer(std::int64_t value, Dtype dtype) { return full({}, value, {.dtype = dtype}); }

// 2^n for integers n between -126 and 127, by its bits.
Array power_of_two(const Array& n, const Bits& bits, Dtype dtype) {
  const Array stored = add(n, integer(bits.exponent + 1, bits.integer));
  const Array shifted = left_shift(stored, integer(bits.digits, bits.integer));
  return lax::bitcast_convert_type(shifted, dtype);
}

// m and e, in an integer dtype of the width of x, which is f32 or f64.
std::pair<Array, Array> mantissa_and_exponent(const Array& x) {
  const Dtype dtype = x.dtype();
  const Bits bits = bits_of(dtype);
  const auto whole = [&](std::int64_t value) { return integer(value, bits.integer); };
  // Subnormal numbers become normal first.
  const int lift = bits.digits + 2;
  const Array is_small = less(abs(x), std::ldexp(1.0, 1 - bits.exponent));
  const Array lifted = where(is_small, x * std::ldexp(1.0, lift), x);
  const Array pattern = lax::bitcast_convert_type(lifted, bits.integer);
  const std::int64_t mask = (std::int64_t{1} << (dtype == float64 ? 11 : 8)) - 1;
  const Array stored = bitwise_and(right_shift(pattern, whole(bits.digits)), whole(mask));
  // Exact, and with the derivative of a product.
  const Array reached = whole(bits.exponent) - stored;
  const Array half = right_shift(reached, whole(1));
  const Array mantissa = lifted * power_of_two(half, bits, dtype) * power_of_two(reached - half, bits, dtype);
  const Array exponent = subtract(stored, where(is_small, whole(bits.exponent + lift), whole(bits.exponent)));
  const Array has_parts = bitwise_and(isfinite(x), not_equal(x, 0));
  return {where(has_parts, mantissa, x), where(has_parts, exponent, whole(0))};
}

}  // namespace

std::pair<Array, Array> modf(const Operand& x) {
  const Caller caller("modf", x.where());
  const auto [v, dtype] = real_floats(x);
  const Array whole = trunc(v);
  // Of an infinity nothing is left.
  const Array rest = where(isinf(v), 0, v - whole);
  return {convert(copysign(rest, v), dtype), convert(whole, dtype)};
}

std::pair<Array, Array> frexp(const Operand& x) {
  const Caller caller("frexp", x.where());
  const auto [v, dtype] = real_floats(x);
  const auto [mantissa, exponent] = mantissa_and_exponent(v);
  return {convert(mantissa, dtype), convert(exponent, int32)};
}

Array ldexp(const Operand& x, const Operand& n) {
  const Caller caller("ldexp", x.where());
  const auto [v, dtype] = real_floats(x);
  const Array exponents = to_array(n);
  const Array given = exponents.dtype() == bool_ ? convert(exponents, int32) : exponents;
  if (!is_integer(given.dtype())) {
    throw misuse<TypeMismatch>("the exponents are {}; they must be integers", type_of(given));
  }
  const Bits bits = bits_of(v.dtype());
  const auto whole = [&](std::int64_t value) { return integer(value, bits.integer); };
  const auto [mantissa, exponent] = mantissa_and_exponent(v);
  // Everything beyond these bounds is 0 or infinite. Halves of them are exponents of numbers.
  const std::int64_t most = 2 * bits.exponent;
  // In i64, which the greatest unsigned numbers would leave.
  const Array powers = given.dtype() == uint64 ? minimum(given, 2 * most) : given;
  const Array wide = convert(powers, int64);
  const Array change = clip(wide, -2 * most, 2 * most);
  const Array sums = exponent + convert(change, bits.integer);
  const Array total = clip(sums, whole(-most), whole(most));
  const Array half = right_shift(total, whole(1));
  const Array product = mantissa * power_of_two(half, bits, v.dtype()) * power_of_two(total - half, bits, v.dtype());
  return convert(where(isfinite(v), product, v), dtype);
}

// ---- Sets.

namespace {

// What unique compares: n items, each of one element of every column.
struct Items {
  Array rows;                  // Item by item along dimension 0.
  std::vector<Array> columns;  // Vectors of n elements.
};

Items items_of(const Array& x, std::optional<std::int64_t> axis) {
  if (!axis) {
    const Array flat = ravel(x);
    return {flat, {flat}};
  }
  Items items{moveaxis(x, *axis, 0), {}};
  const std::int64_t n = items.rows.shape()[0];
  std::int64_t width = 1;
  for (std::size_t d = 1; d < items.rows.ndim(); ++d) width *= items.rows.shape()[d];
  const Array table = reshape(items.rows, {n, width});
  for (std::int64_t j = 0; j < width; ++j) {
    items.columns.push_back(reshape(part(table, 1, j, j + 1), {n}));
  }
  return items;
}

// Whether each item but the first differs from the one before it.
Array changes(const std::vector<Array>& columns, std::int64_t n, bool equal_nan) {
  Array changed = zeros({n - 1}, {.dtype = bool_});
  for (const Array& column : columns) {
    const Array later = part(column, 0, 1, none);
    const Array earlier = part(column, 0, none, -1);
    Array differs = not_equal(later, earlier);
    if (equal_nan && (kind_of(column.dtype()) & kFractions) != 0) {
      const Array both_nan = bitwise_and(isnan(later), isnan(earlier));
      differs = bitwise_and(differs, logical_not(both_nan));
    }
    changed = bitwise_or(changed, differs);
  }
  return changed;
}

}  // namespace

UniqueResult unique_all(const Operand& x, const UniqueOptions& options) {
  const Caller caller("unique_all", x.where());
  const Array given = to_array(x);
  std::optional<std::int64_t> axis = options.axis;
  if (axis) axis = canonical_axis(*axis, given.ndim());
  if (!options.size && given.is_tracer()) {
    throw misuse<InvalidState>(
        "the extent of the result depends on the values of {}, which are not known while tracing; give a size",
        type_of(given));
  }
  if (options.size && *options.size < 0) {
    throw misuse<InvalidArgument>("size is {}; it must be at least 0", *options.size);
  }
  const auto [rows, columns] = items_of(given, axis);
  const std::int64_t n = rows.shape()[0];
  if (n == 0 && options.size.value_or(0) > 0 && !options.fill_value) {
    throw misuse<InvalidArgument>("{} has no elements of which {} could be filled up; give a fill_value",
                                  type_of(given), *options.size);
  }
  // Equal items are neighbours in the sorted array, in their order.
  std::vector<Array> sorted = columns;
  sorted.push_back(counted(n, rows));
  if (!columns.empty()) sorted = lax::sort(sorted, {.num_keys = static_cast<std::int64_t>(columns.size())});
  const Array order = sorted.back();
  sorted.pop_back();
  Array starts = ones({n}, {.dtype = bool_});
  if (n > 1) {
    const Array later = changes(sorted, n, options.equal_nan);
    starts = concatenate(Operands({part(starts, 0, 0, 1), later}));
  }
  const Array numbers = subtract(cumsum(starts), 1);
  const std::int64_t count = options.size ? *options.size : sum(starts).item<int>();
  // The place of the first item of each value; those that are too many are dropped.
  const Array firsts = reduced_items("min", {count}, order, {numbers}, {.dims = {0}});
  const Array is_there = less(firsts, n);
  // Where there is none, that of the least item.
  const Operand least = n == 0 ? 0 : part(order, 0, 0, 1);
  const Array places = where(is_there, firsts, least);
  Shape shape = rows.shape();
  shape[0] = count;
  Array found = n == 0 ? zeros(shape, {.dtype = rows.dtype()}) : take(rows, places, {.axis = 0});
  if (options.fill_value) {
    Shape expanded(shape.size(), 1);
    expanded[0] = count;
    const Array kept = reshape(is_there, expanded);
    found = convert(where(kept, found, *options.fill_value), rows.dtype());
  }
  const Array inverse = take(numbers, argsort(order));
  return {.values = axis ? moveaxis(found, 0, *axis) : found,
          .indices = places,
          .inverse_indices = axis ? inverse : reshape(inverse, given.shape()),
          .counts = bincount(numbers, {.length = count})};
}

Array unique(const Operand& x, const UniqueOptions& options) {
  const Caller caller("unique", x.where());
  return unique_all(x, options).values;
}

namespace {

// Both as vectors of one dtype.
std::pair<Operand, Operand> flat_pair(const Operand& a, const Operand& b) {
  const auto [x, y] = promote_dtypes(a, b);
  return {ravel(x), ravel(y)};
}

// A set of elements in a vector, of which it has those where `belongs` holds; all are different there.
struct Candidates {
  Array values;
  Array belongs;
};

// The elements of x, each once. If a size is given for what becomes of them, nothing depends on how many there are.
Candidates different(const Array& x, const SetOptions& options) {
  if (!options.size || x.size() == 0) {
    const Array values = unique(x);
    return {values, ones(values.shape(), {.dtype = bool_})};
  }
  const UniqueResult all = unique_all(x, {.size = x.size()});
  return {all.values, greater(all.counts, 0)};
}

// The elements of a set, filled up to the size that is given. `otherwise` is what with, unless that is given, too:
// default: the first element.
Array elements_of(const Candidates& set, const SetOptions& options, const std::optional<Operand>& otherwise = {}) {
  if (!options.size) return set.values[IndexEntry(set.belongs)];
  const std::int64_t n = set.values.size();
  const Dtype dtype = set.values.dtype();
  if (n == 0) return full({*options.size}, options.fill_value.value_or(0), {.dtype = dtype});
  const Array places = flatnonzero(set.belongs, {.size = *options.size, .fill_value = n});
  const Array found = take(set.values, places, {.mode = IndexMode::kClip});
  Operand fill = 0;
  if (options.fill_value) {
    fill = *options.fill_value;
  } else if (otherwise) {
    fill = *otherwise;
  } else if (*options.size > 0) {
    const Array first = part(found, 0, 0, 1);
    fill = where(any(set.belongs), first, convert(to_array(0), dtype));
  }
  return convert(where(less(places, n), found, fill), dtype);
}

Candidates in_both(const Array& x, const Array& y, const SetOptions& options) {
  Candidates set = different(x, options);
  set.belongs = bitwise_and(set.belongs, isin(set.values, y));
  return set;
}

// Where values stand first in x: the places in the sorted array, and where the elements there came from.
Array places_of(const Array& values, const Array& x) {
  const Array order = argsort(x);
  const Array sorted = take(x, order);
  return take(order, searchsorted(sorted, values), {.mode = IndexMode::kClip});
}

}  // namespace

Array union1d(const Operand& a, const Operand& b, const SetOptions& options) {
  const Caller caller("union1d", a.where());
  const auto [x, y] = flat_pair(a, b);
  return unique(concatenate(Operands({x, y})), {.size = options.size, .fill_value = options.fill_value});
}

Array intersect1d(const Operand& a, const Operand& b, const SetOptions& options) {
  const Caller caller("intersect1d", a.where());
  const auto [x, y] = flat_pair(a, b);
  return elements_of(in_both(to_array(x), to_array(y), options), options);
}

Intersection intersection_of(const Operand& a, const Operand& b, const SetOptions& options) {
  const Caller caller("intersect1d", a.where());
  const auto [x, y] = flat_pair(a, b);
  const Array first = to_array(x);
  const Array second = to_array(y);
  const Candidates set = in_both(first, second, options);
  const Array values = elements_of(set, options);
  const auto places_in = [&](const Array& array) {
    if (array.size() == 0) return zeros({values.size()}, {.dtype = int32});
    const Array places = places_of(values, array);
    if (!options.size) return places;
    const Array is_there = less(arange(*options.size), sum(set.belongs));
    return where(is_there, places, array.size());
  };
  return {.values = values, .firsts = places_in(first), .seconds = places_in(second)};
}

Array setdiff1d(const Operand& a, const Operand& b, const SetOptions& options) {
  const Caller caller("setdiff1d", a.where());
  Candidates set = different(to_array(a), options);
  set.belongs = bitwise_and(set.belongs, isin(set.values, b, true));
  return elements_of(set, options, 0);
}

Array setxor1d(const Operand& a, const Operand& b, const SetOptions& options) {
  const Caller caller("setxor1d", a.where());
  const auto [x, y] = flat_pair(a, b);
  if (!options.size) return union1d(setdiff1d(x, y), setdiff1d(y, x));
  Candidates set = different(concatenate(Operands({x, y})), options);
  set.belongs = bitwise_and(set.belongs, not_equal(isin(set.values, x), isin(set.values, y)));
  return elements_of(set, options);
}

// By searching the sorted elements: none of them is NaN's equal.
Array isin(const Operand& x, const Operand& elements, bool invert) {
  const Caller caller("isin", x.where());
  const auto [values, list] = promote_dtypes(x, elements);
  const Array sorted = sort(ravel(list));
  Array result = zeros_like(values, {.dtype = bool_});
  if (list.size() > 0) {
    const Array place = searchsorted(sorted, values);
    const Array inside = minimum(place, list.size() - 1);
    result = equal(take(sorted, inside), values);
  }
  return invert ? logical_not(result) : result;
}

}  // namespace shoal
