#include "shoal/calculus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "frontend/array/term.h"
#include "frontend/array/trace.h"
#include "frontend/functions/indexing.h"
#include "frontend/functions/products.h"
#include "shoal/lax.h"

namespace shoal {
namespace {

Term floats_of(const Operand& x) {
  const Array array = to_array(x);
  const bool is_exact = is_integer(array.dtype()) || array.dtype() == bool_;
  return {is_exact ? convert(array, float32, array.weak_type(), x.where()) : array, x.where()};
}

Term part(const Term& x, std::int64_t axis, Bound start, Bound limit) {
  return {lax::slice_in_dim(x, start, limit, 1, axis), x.where()};
}

std::int64_t extent_of(const Term& x, std::int64_t axis) { return x.array().shape()[static_cast<std::size_t>(axis)]; }

// Every element less the one before it.
Term differences(const Term& x, std::int64_t axis) {
  const Term later = part(x, axis, 1, none);
  const Term earlier = part(x, axis, none, -1);
  if (x.array().dtype() == bool_) return {not_equal(later, earlier), x.where()};
  return later - earlier;
}

// Neighbours of x along an axis: an array, or a scalar repeated once.
Operand neighbours(const Array& given, const Array& x, std::int64_t axis, SourceLocation where) {
  if (given.ndim() > 0) return {given, where};
  Shape shape = x.shape();
  shape[static_cast<std::size_t>(axis)] = 1;
  return {broadcast(given, shape, where), where};
}

}  // namespace

Array diff(const Operand& x, const DiffOptions& options) {
  const SourceLocation where = x.where();
  const Array array = to_array(x);
  if (options.n < 0) {
    throw InvalidArgument(fmt::format("diff: n is {}; it must be at least 0", options.n), where);
  }
  const std::int64_t axis = canonical_axis("diff", options.axis, array.ndim(), where);
  if (options.n == 0) return array;
  std::vector<Operand> parts;
  if (options.prepend) parts.push_back(neighbours(*options.prepend, array, axis, where));
  parts.emplace_back(array, where);
  if (options.append) parts.push_back(neighbours(*options.append, array, axis, where));
  Term result(parts.size() > 1 ? concatenate(Operands(parts, where), axis) : array, where);
  for (std::int64_t i = 0; i < options.n && extent_of(result, axis) > 0; ++i) result = differences(result, axis);
  return result.array();
}

Array ediff1d(const Operand& x, const Ediff1dOptions& options) {
  const SourceLocation where = x.where();
  const Term flat(ravel(x), where);
  std::vector<Operand> parts;
  const auto add_part = [&](const std::optional<Array>& given) {
    if (given) parts.emplace_back(ravel({astype({*given, where}, flat.array().dtype()), where}), where);
  };
  add_part(options.to_begin);
  if (flat.array().size() > 0) parts.emplace_back(differences(flat, 0).array(), where);
  add_part(options.to_end);
  return parts.empty() ? flat.array() : concatenate(Operands(parts, where), 0);
}

namespace {

// The derivative along one dimension, by the distance of neighbours or by their positions.
Array derivative(const Term& f, const Term& spacing, std::int64_t axis) {
  const SourceLocation where = f.where();
  const std::int64_t n = extent_of(f, axis);
  if (n < 2) {
    throw InvalidArgument(fmt::format("gradient: dimension {} of {} has extent {}; a derivative takes at least 2", axis,
                                      type_of(f.array()), n),
                          where);
  }
  const Array& given = spacing.array();
  if (given.ndim() > 1 || (given.ndim() == 1 && given.size() != n)) {
    throw InvalidArgument(
        fmt::format("gradient: the spacing {} must be a number, or the {} positions along dimension {}", type_of(given),
                    n, axis),
        where);
  }
  Shape line(f.array().ndim(), 1);
  line[static_cast<std::size_t>(axis)] = n - 1;
  // The distance of each element to the one before.
  const Term steps = given.ndim() == 1 ? differences(spacing, 0) : Term(broadcast(given, {n - 1}, where), where);
  const Term h(reshape(steps, line), where);
  const Term slopes = differences(f, axis) / h;
  // Inside, the slopes on both sides, the shorter one counting more.
  const Term before = part(h, axis, none, -1);
  const Term behind = part(h, axis, 1, none);
  const Term inner = (behind * part(slopes, axis, none, -1) + before * part(slopes, axis, 1, none)) / (before + behind);
  return concatenate(Operands({part(slopes, axis, 0, 1), inner, part(slopes, axis, n - 2, n - 1)}, where), axis);
}

}  // namespace

std::vector<Array> gradient(const Operand& f, const GradientOptions& options) {
  const SourceLocation where = f.where();
  const Term values = floats_of(f);
  const std::size_t rank = values.array().ndim();
  const Dims axes = canonical_axes("gradient", options.axis, rank, where);
  const std::size_t count = options.spacing.size();
  if (count > 1 && count != axes.size()) {
    throw InvalidArgument(fmt::format("gradient: got {} spacings for {} dimensions; give one for each, or one for all",
                                      count, axes.size()),
                          where);
  }
  std::vector<Array> results;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const Operand spacing = count == 0 ? Operand(1.0, where) : options.spacing[count == 1 ? 0 : i];
    const auto [v, h] = promote_dtypes("gradient", values, spacing);
    results.push_back(derivative(Term(v, where), Term(h, where), axes[i]));
  }
  return results;
}

Array trapezoid(const Operand& y, const TrapezoidOptions& options) {
  const SourceLocation where = y.where();
  Term values = floats_of(y);
  const std::int64_t axis = canonical_axis("trapezoid", options.axis, values.array().ndim(), where);
  if (extent_of(values, axis) == 0) return values.then(sum, ReduceOptions{.axis = Dims{axis}}).array();
  const auto pairs = [&](const Term& v) { return part(v, axis, 1, none) + part(v, axis, none, -1); };
  const ReduceOptions along{.axis = Dims{axis}};
  if (!options.x) return (pairs(values).then(sum, along) * (0.5 * options.dx)).array();
  const std::int64_t n = extent_of(values, axis);
  Array positions = *options.x;
  if (positions.ndim() == 1) {
    if (positions.size() != n) {
      throw InvalidArgument(fmt::format("trapezoid: x {} must have an element for each of {}", type_of(positions), n),
                            where);
    }
    Shape line(values.array().ndim(), 1);
    line[static_cast<std::size_t>(axis)] = n;
    positions = reshape({positions, where}, line);
  } else if (positions.shape() != values.array().shape()) {
    throw InvalidArgument(fmt::format("trapezoid: x {} must be a vector, or have the shape of y {}", type_of(positions),
                                      type_of(values.array())),
                          where);
  }
  const auto [v, x] = promote_dtypes("trapezoid", values, {positions, where});
  return (pairs(Term(v, where)) * differences(Term(x, where), axis))
      .then(sum, along)
      .then(multiply, values.number(0.5))
      .array();
}

// ---- Interpolation and polynomials.

Array interp(const Operand& x, const Operand& xp, const Operand& fp, const InterpOptions& options) {
  const SourceLocation where = x.where();
  const Array given = to_array(xp);
  if (given.ndim() != 1 || given.size() == 0 || to_array(fp).shape() != given.shape()) {
    throw InvalidArgument(fmt::format("interp: xp {} and fp {} must be vectors of one extent, at least 1",
                                      type_of(given), type_of(to_array(fp))),
                          where);
  }
  const auto [at, from] = promote_dtypes("interp", floats_of(x), floats_of(xp));
  if (is_complex(at.dtype())) {
    throw TypeMismatch(fmt::format("interp: positions are real, not {}", name_of(at.dtype())), where);
  }
  Term position(at, where);
  Term positions(from, where);
  Term values = floats_of(fp);
  if (options.period) {
    const double period = std::abs(*options.period);
    if (!(period > 0)) throw InvalidArgument(fmt::format("interp: period is {}; it must not be 0", period), where);
    const auto around = [&](const Term& v) { return v.then(remainder, v.number(period)); };
    position = around(position);
    const std::vector<Array> sorted = lax::sort({around(positions).array(), values.array()}, {}, where);
    // One point more on each side.
    const Term p(sorted[0], where);
    const Term v(sorted[1], where);
    positions =
        Term(concatenate(Operands({part(p, 0, -1, none) - period, p, part(p, 0, 0, 1) + period}, where)), where);
    values = Term(concatenate(Operands({part(v, 0, -1, none), v, part(v, 0, 0, 1)}, where)), where);
  }
  const std::int64_t last = positions.array().size() - 1;
  const auto item = [&](const Term& list, const Operand& index) { return Term(take(list, index), where); };
  Term result = Term(broadcast(item(values, {0, where}).array(), position.array().shape(), where), where);
  if (last > 0) {
    const Term above(clip({searchsorted(positions, position, {.side = Side::kRight}), where}, 1, last), where);
    const Term below(subtract(above, {1, where}), where);
    const Term start = item(positions, below);
    const Term width = item(positions, above) - start;
    const Term first = item(values, below);
    const Term is_point(equal(width, width.number(0)), where);
    const Term share = (position - start) / Term(shoal::where(is_point, width.number(1), width), where);
    result = select(is_point, first, first + share * (item(values, above) - first));
  }
  if (options.period) return result.array();
  const auto outside = [&](Array (*comparison)(const Operand&, const Operand&), std::int64_t end,
                           const std::optional<Operand>& value) {
    const Term is_outside(comparison(position, item(positions, {end, where})), where);
    const Operand other = value ? *value : Operand(item(values, {end, where}));
    return Term(shoal::where(is_outside, other, result), where);
  };
  if (!options.extrapolate_left) result = outside(less, 0, options.left);
  if (!options.extrapolate_right) result = outside(greater, last, options.right);
  return result.array();
}

// By Horner's rule.
Array polyval(const Operand& p, const Operand& x) {
  const SourceLocation where = p.where();
  const auto [coefficients, points] = promote_dtypes("polyval", p, x);
  if (coefficients.ndim() == 0) throw InvalidArgument("polyval: the coefficients are a scalar, not a vector", where);
  const Shape rest(coefficients.shape().begin() + 1, coefficients.shape().end());
  const Shape shape = broadcast_shapes("polyval", rest, points.shape(), where);
  const Term at(points, where);
  Term result(zeros(shape, {.dtype = coefficients.dtype()}, where), where);
  for (std::int64_t i = 0; i < coefficients.shape()[0]; ++i) {
    const Term coefficient(lax::dynamic_index_in_dim({coefficients, where}, {i, where}, 0, false), where);
    result = i == 0 ? Term(broadcast(coefficient.array(), shape, where), where) : result * at + coefficient;
  }
  return result.array();
}

Array vander(const Operand& x, const VanderOptions& options) {
  const SourceLocation where = x.where();
  const Array array = to_array(x);
  if (array.ndim() != 1) throw InvalidArgument(fmt::format("vander: {} is no vector", type_of(array)), where);
  const std::int64_t n = options.N.value_or(array.size());
  if (n < 0) throw InvalidArgument(fmt::format("vander: N is {}; it must be at least 0", n), where);
  const Term powers(counted("vander", n, array, where), where);
  const Term exponents = options.increasing ? powers : Term(subtract({n - 1, where}, powers), where);
  return power({expand_dims({array, where}, std::int64_t{1}), where},
               {convert(exponents.array(), array.dtype(), false, where), where});
}

Array cross(const Operand& a, const Operand& b, const CrossOptions& options) {
  const SourceLocation where = a.where();
  const auto [left, right] = promote_dtypes("cross", a, b);
  const auto components = [&](const Array& array, std::int64_t axis) {
    const std::int64_t d = canonical_axis("cross", axis, array.ndim(), where);
    const std::int64_t extent = array.shape()[static_cast<std::size_t>(d)];
    if (extent != 2 && extent != 3) {
      throw InvalidArgument(
          fmt::format("cross: dimension {} of {} has extent {}; it must be 2 or 3", d, type_of(array), extent), where);
    }
    std::vector<Term> parts;
    for (std::int64_t i = 0; i < extent; ++i) {
      parts.emplace_back(squeeze({lax::slice_in_dim({array, where}, i, i + 1, 1, d), where}, Axes(Dims{d})), where);
    }
    return parts;
  };
  std::vector<Term> u = components(left, options.axisa);
  std::vector<Term> v = components(right, options.axisb);
  if (u.size() == 2 && v.size() == 2) return (u[0] * v[1] - u[1] * v[0]).array();
  for (std::vector<Term>* vector : {&u, &v}) {
    if (vector->size() == 2) vector->emplace_back(zeros_like((*vector)[0]), where);
  }
  return stack(Operands({u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]}, where),
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
std::pair<Term, Dtype> real_floats(const char* function, const Operand& x) {
  const Term given = floats_of(x);
  const Dtype dtype = given.array().dtype();
  if (is_complex(dtype))
    throw TypeMismatch(fmt::format("{}: takes real numbers, not {}", function, name_of(dtype)), x.where());
  return {Term(convert(given.array(), dtype == float64 ? float64 : float32, false, x.where()), x.where()), dtype};
}

Operand integer(std::int64_t value, Dtype dtype, SourceLocation where) {
  return {full({}, {value, where}, {.dtype = dtype}), where};
}

// 2^n for integers n between -126 and 127, by its bits.
Term power_of_two(const Term& n, const Bits& bits, Dtype dtype) {
  const Operand stored(add(n, integer(bits.exponent + 1, bits.integer, n.where())), n.where());
  const Operand shifted(left_shift(stored, integer(bits.digits, bits.integer, n.where())), n.where());
  return {lax::bitcast_convert_type(shifted, dtype), n.where()};
}

// m and e, in an integer dtype of the width of x, which is f32 or f64.
std::pair<Term, Term> mantissa_and_exponent(const Term& x) {
  const SourceLocation where = x.where();
  const Dtype dtype = x.array().dtype();
  const Bits bits = bits_of(dtype);
  const auto whole = [&](std::int64_t value) { return integer(value, bits.integer, where); };
  // Subnormal numbers become normal first.
  const int lift = bits.digits + 2;
  const Term is_small(less(x.then(abs), x.number(std::ldexp(1.0, 1 - bits.exponent))), where);
  const Term lifted = select(is_small, x * std::ldexp(1.0, lift), x);
  const Operand pattern(lax::bitcast_convert_type(lifted, bits.integer), where);
  const std::int64_t mask = (std::int64_t{1} << (dtype == float64 ? 11 : 8)) - 1;
  const Operand stored(bitwise_and({right_shift(pattern, whole(bits.digits)), where}, whole(mask)), where);
  const Operand cleared(bitwise_and(pattern, whole(~(mask << bits.digits))), where);
  const Operand between(bitwise_or(cleared, whole(std::int64_t{bits.exponent} << bits.digits)), where);
  const Term mantissa(lax::bitcast_convert_type(between, dtype), where);
  const Term exponent(
      subtract(stored, {shoal::where(is_small, whole(bits.exponent + lift), whole(bits.exponent)), where}), where);
  const Term has_parts(bitwise_and({isfinite(x), where}, {not_equal(x, x.number(0)), where}), where);
  return {select(has_parts, mantissa, x), Term(shoal::where(has_parts, exponent, whole(0)), where)};
}

}  // namespace

std::pair<Array, Array> modf(const Operand& x) {
  const auto [v, dtype] = real_floats("modf", x);
  const Term whole = v.then(trunc);
  // Of an infinity nothing is left.
  const Term rest(where(Operand(isinf(v), x.where()), v.number(0), v - whole), x.where());
  return {convert(copysign(rest, v), dtype, false, x.where()), convert(whole.array(), dtype, false, x.where())};
}

std::pair<Array, Array> frexp(const Operand& x) {
  const auto [v, dtype] = real_floats("frexp", x);
  const auto [mantissa, exponent] = mantissa_and_exponent(v);
  return {convert(mantissa.array(), dtype, false, x.where()), convert(exponent.array(), int32, false, x.where())};
}

Array ldexp(const Operand& x, const Operand& n) {
  const SourceLocation where = x.where();
  const auto [v, dtype] = real_floats("ldexp", x);
  const Array given = to_array(n);
  if (!is_integer(given.dtype())) {
    throw TypeMismatch(fmt::format("ldexp: the exponents are {}; they must be integers", type_of(given)), where);
  }
  const Bits bits = bits_of(v.array().dtype());
  const auto whole = [&](std::int64_t value) { return integer(value, bits.integer, where); };
  const auto [mantissa, exponent] = mantissa_and_exponent(v);
  // Everything beyond these bounds is 0 or infinite. Halves of them are exponents of numbers.
  const std::int64_t most = 2 * bits.exponent;
  // In i64, which the greatest unsigned numbers would leave.
  const Array powers = given.dtype() == uint64 ? minimum({given, where}, {2 * most, where}) : given;
  const Operand wide(convert(powers, int64, false, where), where);
  const Array change = clip(wide, Operand(-2 * most, where), Operand(2 * most, where));
  const Term sums = exponent + Term(convert(change, bits.integer, false, where), where);
  const Term total(clip(sums, whole(-most), whole(most)), where);
  const Term half(right_shift(total, whole(1)), where);
  const Term product =
      mantissa * power_of_two(half, bits, v.array().dtype()) * power_of_two(total - half, bits, v.array().dtype());
  const Term is_own(bitwise_or({logical_not({isfinite(v), where}), where}, {equal(v, v.number(0)), where}), where);
  return convert(select(is_own, v, product).array(), dtype, false, where);
}

// ---- Sets.

namespace {

// What unique compares: n items, each of one element of every column.
struct Items {
  Array rows;                  // Item by item along dimension 0.
  std::vector<Array> columns;  // Vectors of n elements.
};

Items items_of(const Array& x, std::optional<std::int64_t> axis, SourceLocation where) {
  if (!axis) {
    const Array flat = ravel({x, where});
    return {flat, {flat}};
  }
  Items items{moveaxis({x, where}, *axis, 0), {}};
  const std::int64_t n = items.rows.shape()[0];
  std::int64_t width = 1;
  for (std::size_t d = 1; d < items.rows.ndim(); ++d) width *= items.rows.shape()[d];
  const Term table(reshape({items.rows, where}, {n, width}), where);
  for (std::int64_t j = 0; j < width; ++j) {
    items.columns.push_back(reshape(part(table, 1, j, j + 1), {n}));
  }
  return items;
}

// Whether each item but the first differs from the one before it.
Array changes(const std::vector<Array>& columns, std::int64_t n, bool equal_nan, SourceLocation where) {
  Array changed = zeros({n - 1}, {.dtype = bool_}, where);
  for (const Array& column : columns) {
    const Term values(column, where);
    const Term later = part(values, 0, 1, none);
    const Term earlier = part(values, 0, none, -1);
    Term differs(not_equal(later, earlier), where);
    if (equal_nan && (kind_of(column.dtype()) & kFractions) != 0) {
      const Term both_nan(bitwise_and({isnan(later), where}, {isnan(earlier), where}), where);
      differs = Term(bitwise_and(differs, both_nan.then(logical_not)), where);
    }
    changed = bitwise_or({changed, where}, differs);
  }
  return changed;
}

}  // namespace

UniqueResult unique_all(const Operand& x, const UniqueOptions& options) {
  const SourceLocation where = x.where();
  const Array given = to_array(x);
  std::optional<std::int64_t> axis = options.axis;
  if (axis) axis = canonical_axis("unique", *axis, given.ndim(), where);
  if (!options.size && given.is_tracer()) {
    throw InvalidState(fmt::format("unique: the extent of the result depends on the values of {}, which are not known "
                                   "while tracing; give a size",
                                   type_of(given)),
                       where);
  }
  if (options.size && *options.size < 0) {
    throw InvalidArgument(fmt::format("unique: size is {}; it must be at least 0", *options.size), where);
  }
  const auto [rows, columns] = items_of(given, axis, where);
  const std::int64_t n = rows.shape()[0];
  if (n == 0 && options.size.value_or(0) > 0 && !options.fill_value) {
    throw InvalidArgument(fmt::format("unique: {} has no elements of which {} could be filled up; give a fill_value",
                                      type_of(given), *options.size),
                          where);
  }
  // Equal items are neighbours in the sorted array, in their order.
  std::vector<Array> sorted = columns;
  sorted.push_back(counted("unique", n, rows, where));
  if (!columns.empty()) sorted = lax::sort(sorted, {.num_keys = static_cast<std::int64_t>(columns.size())}, where);
  const Term order(sorted.back(), where);
  sorted.pop_back();
  Term starts(ones({n}, {.dtype = bool_}, where), where);
  if (n > 1) {
    const Operand later(changes(sorted, n, options.equal_nan, where), where);
    starts = Term(concatenate(Operands({part(starts, 0, 0, 1), later}, where)), where);
  }
  const Term numbers(subtract({cumsum(starts), where}, {1, where}), where);
  const std::int64_t count = options.size ? *options.size : sum(starts).item<int>(where);
  // The place of the first item of each value; those that are too many are dropped.
  const Array firsts = reduced_items("min", {count}, order.array(), {numbers.array()}, {.dims = {0}}, where);
  const Term is_there(less({firsts, where}, {n, where}), where);
  // Where there is none, that of the least item.
  const Operand least = n == 0 ? Operand(0, where) : Operand(part(order, 0, 0, 1).array(), where);
  const Array places = shoal::where(is_there, {firsts, where}, least);
  Shape shape = rows.shape();
  shape[0] = count;
  Array found =
      n == 0 ? zeros(shape, {.dtype = rows.dtype()}, where) : take({rows, where}, {places, where}, {.axis = 0});
  if (options.fill_value) {
    Shape expanded(shape.size(), 1);
    expanded[0] = count;
    const Operand kept(reshape(is_there, expanded), where);
    found = convert(shoal::where(kept, {found, where}, *options.fill_value), rows.dtype(), false, where);
  }
  const Array inverse = take(numbers, {argsort(order), where});
  return {.values = axis ? moveaxis({found, where}, 0, *axis) : found,
          .indices = places,
          .inverse_indices = axis ? inverse : reshape({inverse, where}, given.shape()),
          .counts = bincount(numbers, {.length = count})};
}

Array unique(const Operand& x, const UniqueOptions& options) { return unique_all(x, options).values; }

namespace {

// Both as vectors of one dtype.
std::pair<Operand, Operand> flat_pair(std::string_view function, const Operand& a, const Operand& b) {
  const auto [x, y] = promote_dtypes(function, a, b);
  return {Operand(ravel({x, a.where()}), a.where()), Operand(ravel({y, a.where()}), a.where())};
}

}  // namespace

Array union1d(const Operand& a, const Operand& b) {
  const auto [x, y] = flat_pair("union1d", a, b);
  return unique({concatenate(Operands({x, y}, a.where())), a.where()});
}

Array intersect1d(const Operand& a, const Operand& b) {
  const auto [x, y] = flat_pair("intersect1d", a, b);
  const Array values = unique(x);
  return values[IndexEntry(isin({values, a.where()}, y), a.where())];
}

Array setdiff1d(const Operand& a, const Operand& b) {
  const Array values = unique(a);
  return values[IndexEntry(isin({values, a.where()}, b, true), a.where())];
}

Array setxor1d(const Operand& a, const Operand& b) {
  const auto [x, y] = flat_pair("setxor1d", a, b);
  return union1d({setdiff1d(x, y), a.where()}, {setdiff1d(y, x), a.where()});
}

// By searching the sorted elements: none of them is NaN's equal.
Array isin(const Operand& x, const Operand& elements, bool invert) {
  const SourceLocation where = x.where();
  const auto [values, list] = promote_dtypes("isin", x, elements);
  const Operand sorted(sort({ravel({list, where}), where}), where);
  Array result = zeros_like({values, where}, {.dtype = bool_});
  if (list.size() > 0) {
    const Operand place(searchsorted(sorted, {values, where}), where);
    const Operand inside(minimum(place, {list.size() - 1, where}), where);
    result = equal({take(sorted, inside), where}, {values, where});
  }
  return invert ? logical_not({result, where}) : result;
}

}  // namespace shoal
