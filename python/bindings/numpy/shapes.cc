// Shapes, joining and splitting, repeating and rearranging.
#include <fmt/format.h>

#include <algorithm>

#include "base/caller.h"
#include "bindings/numpy/numpy.h"

namespace shoal::python {
namespace {

// ---- Shapes.

// The shape that is asked for, -1 filled in. Throws TypeError where sizes do not fit.
Shape new_shape(const Shape& from, Dims wanted) {
  const std::int64_t size = num_elements(from);
  const std::string asked = to_string(wanted);
  std::int64_t product = 1;
  auto unknown = wanted.end();
  for (auto extent = wanted.begin(); extent != wanted.end(); ++extent) {
    if (*extent != -1) {
      product *= *extent;
    } else if (unknown != wanted.end()) {
      type_error(fmt::format("can only specify one unknown axis size with a `-1` value, got {}", asked));
    } else {
      unknown = extent;
    }
  }
  if (unknown != wanted.end()) {
    if (product == 0 ? size != 0 : size % product != 0) {
      type_error(
          fmt::format("cannot reshape array of shape {} (size {}) into shape {} because the product of specified "
                      "axis sizes ({}) does not evenly divide {}",
                      to_string(from), size, asked, product, size));
    }
    *unknown = product == 0 ? 0 : size / product;
  } else if (product != size) {
    type_error(fmt::format("cannot reshape array of shape {} (size {}) into shape {} (size {})", to_string(from), size,
                           asked, product));
  }
  return wanted;
}

Array reshaped(const Operand& x, const Dims& wanted, bool column_major, const OutSharding& out_sharding) {
  const Array array = shoal::to_array(x);
  const Shape shape = new_shape(array.shape(), wanted);
  return unlocked([&] {
    if (!column_major) return reshape({array, x.where()}, shape, out_sharding);
    const Shape reversed(shape.rbegin(), shape.rend());
    const Operand turned(transpose({array, x.where()}), x.where());
    return transpose({reshape(turned, reversed), x.where()});
  });
}

// Arguments of a method that takes several numbers or one sequence.
Dims several(nb::args args, const char* what) {
  if (nb::len(args) == 1) return dims(args[0], what);
  Dims list;
  for (nb::handle item : args) list.push_back(integer(item, what));
  return list;
}

Array transposed(nb::handle x, const std::optional<Dims>& axes) {
  const Operand a = operand(x, "transpose", "a");
  return unlocked([&] { return transpose(a, axes); });
}

// The array with at least so many dimensions, as NumPy adds them.
Array at_least(const Operand& x, int rank) {
  const Array array = shoal::to_array(x);
  const SourceLocation where = x.where();
  Shape shape = array.shape();
  if (rank == 3 && shape.size() == 2) {
    shape.push_back(1);
  } else if (rank == 3 && shape.size() == 1) {
    shape = {1, shape[0], 1};
  } else {
    while (static_cast<int>(shape.size()) < rank) shape.insert(shape.begin(), 1);
  }
  return shape.size() == array.ndim() ? array : reshape({array, where}, shape);
}

template <int rank>
void bind_at_least(nb::module_& m, const char* name, const char* doc) {
  m.def(
      name,
      [name](nb::args arrays) -> nb::object {
        const std::vector<Operand> list = operand_list(arrays, name, "arys");
        std::vector<Array> results = unlocked([&] {
          std::vector<Array> all;
          for (const Operand& x : list) all.push_back(at_least(x, rank));
          return all;
        });
        if (results.size() == 1) return nb::cast(results.front());
        return list_of(std::move(results));
      },
      "arys"_a, doc);
}

// ---- Joining.

std::vector<Operand> all_in_dtype(std::vector<Operand> arrays, nb::handle dtype) {
  const std::optional<Dtype> wanted = maybe_dtype(dtype);
  for (Operand& x : arrays) x = python::in_dtype(x, wanted);
  return arrays;
}

std::vector<Operand> at_least(const std::vector<Operand>& arrays, int rank) {
  std::vector<Operand> all;
  for (const Operand& x : arrays) all.emplace_back(at_least(x, rank), x.where());
  return all;
}

Array concatenated(const char* name, nb::handle arrays, nb::handle axis, nb::handle dtype) {
  const std::vector<Operand> list = all_in_dtype(operand_list(arrays, name), dtype);
  const SourceLocation where = user_line();
  if (list.empty()) value_error("Need at least one array to concatenate.");
  const std::optional<std::int64_t> along = maybe_integer(axis, fmt::format("{}: axis", name));
  return unlocked([&] {
    if (along) return concatenate({list, where}, *along);
    std::vector<Operand> flat;
    for (const Operand& x : list) flat.emplace_back(ravel(x), where);
    return concatenate({flat, where}, 0);
  });
}

using Join = Array (*)(const std::vector<Operand>& arrays, SourceLocation where);

void bind_join(nb::module_& m, const char* name, Join f, const char* doc) {
  m.def(
      name,
      [f, name](nb::handle tup, nb::handle dtype) {
        const std::vector<Operand> list = all_in_dtype(operand_list(tup, name, "tup"), dtype);
        const SourceLocation where = user_line();
        if (list.empty()) value_error("Need at least one array to concatenate.");
        return unlocked([&] { return f(list, where); });
      },
      "tup"_x, "dtype"_x = nb::none(), doc);
}

Array join_rows(const std::vector<Operand>& arrays, SourceLocation where) {
  return concatenate({at_least(arrays, 2), where}, 0);
}
Array join_columns(const std::vector<Operand>& arrays, SourceLocation where) {
  const std::vector<Operand> list = at_least(arrays, 1);
  return concatenate({list, where}, list.front().array()->ndim() == 1 ? 0 : 1);
}
Array join_depth(const std::vector<Operand>& arrays, SourceLocation where) {
  return concatenate({at_least(arrays, 3), where}, 2);
}
// Vectors are columns.
Array stack_columns(const std::vector<Operand>& arrays, SourceLocation where) {
  std::vector<Operand> columns;
  for (const Operand& x : arrays) {
    const Array array = shoal::to_array(x);
    columns.emplace_back(array.ndim() >= 2 ? array : transpose({at_least(x, 2), where}), where);
  }
  return concatenate({columns, where}, 1);
}

// An array of nested lists of blocks; `depth` is how deep lists go below.
std::size_t depth_of(nb::handle blocks) {
  if (PyTuple_Check(blocks.ptr())) {
    type_error("jnp.block: arrays is a tuple; only lists can be used to arrange blocks");
  }
  if (!PyList_Check(blocks.ptr())) return 0;
  if (nb::len(blocks) == 0) value_error("jnp.block: a list is empty");
  std::optional<std::size_t> depth;
  for (nb::handle item : blocks) {
    const std::size_t inner = depth_of(item);
    if (depth && *depth != inner) value_error("jnp.block: list depths are mismatched");
    depth = inner;
  }
  return *depth + 1;
}

Operand assembled(nb::handle blocks, std::size_t depth, std::size_t rank) {
  if (depth == 0) {
    const Operand x = operand(blocks, "block", "arrays");
    Array array = shoal::to_array(x);
    Shape shape = array.shape();
    while (shape.size() < rank) shape.insert(shape.begin(), 1);
    return {reshape({array, x.where()}, shape), x.where()};
  }
  std::vector<Operand> parts;
  for (nb::handle item : blocks) parts.push_back(assembled(item, depth - 1, rank));
  const SourceLocation where = user_line();
  return {concatenate({parts, where}, -static_cast<std::int64_t>(depth)), where};
}

std::size_t greatest_rank(nb::handle blocks) {
  if (!PyList_Check(blocks.ptr())) return to_array(blocks, "block", "arrays").ndim();
  std::size_t rank = 0;
  for (nb::handle item : blocks) rank = std::max(rank, greatest_rank(item));
  return rank;
}

// ---- Splitting.

Sections sections(nb::handle x, const char* name) {
  const bool number = PyIndex_Check(x.ptr()) != 0 && !(array_of(x) != nullptr && array_of(x)->ndim() > 0);
  const std::string what = fmt::format("{}: indices_or_sections", name);
  if (number) return integer(x, what);
  return dims(x, what);
}

using Split = std::vector<Array> (*)(const Operand&, const Sections&, std::int64_t);

void bind_split(nb::module_& m, const char* name, Split f, const char* doc) {
  m.def(
      name,
      [f, name](nb::handle ary, nb::handle indices_or_sections, nb::handle axis) {
        const Operand a = operand(ary, name, "ary");
        const Sections parts = sections(indices_or_sections, name);
        const std::int64_t along = integer(axis, fmt::format("{}: axis", name));
        return list_of(unlocked([&] { return f(a, parts, along); }));
      },
      "ary"_x, "indices_or_sections"_x, "axis"_x = 0, doc);
}

void bind_split_along(nb::module_& m, const char* name, std::int64_t axis, const char* doc) {
  m.def(
      name,
      [name, axis](nb::handle ary, nb::handle indices_or_sections) {
        const Operand a = operand(ary, name, "ary");
        const Sections parts = sections(indices_or_sections, name);
        const std::size_t rank = shoal::to_array(a).ndim();
        // hsplit splits vectors along their only dimension.
        const std::int64_t along = axis == 1 && rank == 1 ? 0 : axis;
        if (static_cast<std::int64_t>(rank) <= along) {
          value_error(fmt::format("{} only works on arrays of {} or more dimensions", name, axis + 1));
        }
        return list_of(unlocked([&] { return split(a, parts, along); }));
      },
      "ary"_x, "indices_or_sections"_x, doc);
}

// ---- Repeating and rearranging.

Array repeated(nb::handle x, nb::handle repeats, nb::handle axis, nb::handle total_repeat_length,
               nb::handle out_sharding) {
  const Operand a = operand(x, "repeat", "a");
  const std::optional<std::int64_t> along = maybe_integer(axis, "repeat: axis");
  const std::optional<std::int64_t> total = maybe_integer(total_repeat_length, "repeat: total_repeat_length");
  const OutSharding sharding = python::out_sharding(out_sharding);
  if (PyLong_Check(repeats.ptr())) {
    const std::int64_t times = integer(repeats, "repeat: repeats");
    if (times < 0) value_error("repeat: repeats must not be negative");
    const Array result = unlocked([&] { return repeat(a, times, along, sharding); });
    if (!total || result.shape()[static_cast<std::size_t>(along.value_or(0))] == *total) return result;
  }
  // A number for each element: element i stands at those places before which i elements have ended.
  const Operand counts = operand(repeats, "repeat", "repeats");
  if (!total && counts.array() != nullptr && counts.array()->is_tracer()) {
    type_error(
        "When jit-compiling jnp.repeat, the total number of repeats must be static. To fix this, either specify "
        "a static value for `repeats`, or pass a static value to `total_repeat_length`.");
  }
  const SourceLocation where = a.where();
  const Array given = shoal::to_array(a);
  const Operand flat(along ? given : ravel(a), where);
  const Caller caller("repeat", where);
  const std::int64_t axis_number = canonical_axis(along.value_or(0), flat.array()->ndim());
  const std::int64_t extent = flat.array()->shape()[static_cast<std::size_t>(axis_number)];
  const Array all = unlocked([&] { return broadcast_to({ravel(counts), where}, {extent}); });
  const Operand ends(unlocked([&] { return cumsum({all, where}); }), where);
  const std::int64_t length = total         ? *total
                              : extent == 0 ? 0
                                            : unlocked([&] {
                                                return sum({all, where}).item<std::int64_t>(where);
                                              });
  return unlocked([&] {
    const Operand places(lax::iota(int32, length, where), where);
    const Array from = searchsorted(ends, places, {.side = Side::kRight});
    return take(flat, {from, where}, {.axis = axis_number, .mode = IndexMode::kClip});
  });
}

bool is_traced(nb::handle x) { return array_of(x) != nullptr && array_of(x)->is_tracer(); }

// The numbers that a shift or an axis is made of: a number, a sequence or an array of one dimension.
std::vector<nb::object> numbers_of(nb::handle x, const char* what) {
  const bool has_dims = nb::hasattr(x, "ndim");
  const std::int64_t rank = has_dims ? integer(x.attr("ndim"), "ndim") : 0;
  if (rank > 1) value_error("'shift' and 'axis' arguments to roll must be scalars or 1D arrays");
  const bool is_sequence = PyTuple_Check(x.ptr()) || PyList_Check(x.ptr()) || rank == 1;
  std::vector<nb::object> numbers;
  if (is_sequence) {
    for (nb::handle one : x) numbers.push_back(nb::borrow(one));
  } else {
    numbers.push_back(nb::borrow(x));
  }
  for (nb::object& one : numbers) {
    if (!is_traced(one)) one = nb::int_(integer(one, what));
  }
  return numbers;
}

Array rolled(nb::handle x, nb::handle shift, nb::handle axis) {
  const Operand a = operand(x, "roll", "a");
  const std::vector<nb::object> shifts = numbers_of(shift, "roll: shift");
  const std::optional<Dims> axes = axis.is_none() ? std::nullopt : std::optional<Dims>(Dims{});
  Dims along = axes.value_or(Dims{0});
  if (axes) {
    for (const nb::object& one : numbers_of(axis, "roll: axis")) along.push_back(integer(one, "roll: axis"));
  }
  if (std::none_of(shifts.begin(), shifts.end(), is_traced)) {
    Dims by;
    for (const nb::object& one : shifts) by.push_back(integer(one, "roll: shift"));
    return unlocked([&] { return roll(a, by, axes ? Axes(along) : Axes()); });
  }
  // Shifts that are known when the program runs only: positions modulo the extent.
  const std::size_t count = std::max(shifts.size(), along.size());
  if ((shifts.size() != count && shifts.size() != 1) || (along.size() != count && along.size() != 1)) {
    value_error(fmt::format("roll: {} shifts are given for {} axes; there must be as many, or one", shifts.size(),
                            along.size()));
  }
  std::vector<Operand> by;
  for (const nb::object& one : shifts) by.push_back(operand(one, "roll", "shift"));
  return unlocked([&] {
    const SourceLocation where = a.where();
    const Array given = shoal::to_array(a);
    Array array = axes ? given : ravel(a);
    const Caller caller("roll", where);
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t d = canonical_axis(along[along.size() == 1 ? 0 : i], array.ndim());
      const std::int64_t extent = array.shape()[static_cast<std::size_t>(d)];
      if (extent == 0) continue;
      const Operand places(lax::iota(int32, extent, where), where);
      const Operand& distance = by[by.size() == 1 ? 0 : i];
      const Operand from(remainder({subtract(places, distance), where}, {extent, where}), where);
      array = take({array, where}, from, {.axis = d, .mode = IndexMode::kClip});
    }
    return axes ? array : reshape({array, where}, given.shape());
  });
}

Array rotated(nb::handle m, nb::handle k, nb::handle axes_of_plane) {
  const Operand a = operand(m, "rot90", "m");
  const std::int64_t turns = ((integer(k, "rot90: k") % 4) + 4) % 4;
  const Dims plane = dims(axes_of_plane, "rot90: axes");
  if (plane.size() != 2) value_error("rot90 requires exactly two axes");
  const SourceLocation where = a.where();
  const std::size_t rank = shoal::to_array(a).ndim();
  const Caller caller("rot90", where);
  const std::int64_t first = canonical_axis(plane[0], rank);
  const std::int64_t second = canonical_axis(plane[1], rank);
  if (first == second) value_error("rot90 requires two different axes");
  return unlocked([&]() -> Array {
    if (turns == 0) return shoal::to_array(a);
    if (turns == 2) return flip(a, {first, second});
    if (turns == 1) return swapaxes({flip(a, Axes(Dims{second})), where}, first, second);
    return flip({swapaxes(a, first, second), where}, Axes(Dims{second}));
  });
}

// NumPy's forms of widths: 1, (1,), (1, 2), ((1, 2),), ((1, 2), (3, 4)).
std::vector<PadWidth::Pair> pairs_of(nb::handle x, std::size_t rank, const char* what) {
  const auto is_sequence = [](nb::handle h) {
    return array_of(h) != nullptr ? array_of(h)->ndim() > 0 : PySequence_Check(h.ptr()) != 0;
  };
  const auto refuse_fraction = [&](nb::handle h) {
    if (PyFloat_Check(h.ptr())) type_error(fmt::format("jnp.pad: `{}` must be of integral type.", what));
  };
  if (!is_sequence(x)) {
    refuse_fraction(x);
    const std::int64_t both = integer(x, what);
    return std::vector<PadWidth::Pair>(rank, {both, both});
  }
  std::vector<nb::object> items;
  for (nb::handle item : x) items.push_back(nb::borrow(item));
  if (items.empty() || !is_sequence(items.front())) {
    const Dims numbers = dims(x, what);
    if (numbers.size() == 1) return std::vector<PadWidth::Pair>(rank, {numbers[0], numbers[0]});
    if (numbers.size() == 2) return std::vector<PadWidth::Pair>(rank, {numbers[0], numbers[1]});
    value_error(fmt::format("jnp.pad: {} must be a number, a pair, or a pair for each dimension", what));
  }
  std::vector<PadWidth::Pair> pairs;
  for (const nb::object& item : items) {
    const Dims pair = dims(item, what);
    if (pair.empty() || pair.size() > 2) value_error(fmt::format("jnp.pad: {} must consist of pairs", what));
    pairs.emplace_back(pair[0], pair.back());
  }
  if (pairs.size() == 1) return std::vector<PadWidth::Pair>(rank, pairs.front());
  return pairs;
}

// A value for each side of each dimension: 1, (1, 2), ((1, 2),), ((1, 2), (3, 4)). One value alone gives none.
std::vector<std::pair<Operand, Operand>> sides_of(nb::handle x, std::size_t rank, const char* what) {
  if (is_array_like(x)) {
    const Operand value = operand(x, "pad", what);
    if (value.array() == nullptr || value.array()->ndim() == 0) return {};
  }
  const nb::object list = nb::hasattr(x, "tolist") ? x.attr("tolist")() : nb::borrow(x);
  std::vector<nb::object> items;
  for (nb::handle item : list) items.push_back(nb::borrow(item));
  const auto pair_of = [&](nb::handle pair) {
    const std::vector<Operand> two = operand_list(pair, "pad", what);
    if (two.empty() || two.size() > 2) value_error(fmt::format("jnp.pad: {} must consist of pairs", what));
    return std::pair(two.front(), two.back());
  };
  std::vector<std::pair<Operand, Operand>> values;
  if (!items.empty() && PySequence_Check(items.front().ptr()) != 0) {
    for (const nb::object& item : items) values.push_back(pair_of(item));
  } else {
    values.push_back(pair_of(list));
  }
  if (values.size() == 1) values.assign(rank, values.front());
  if (values.size() != rank) {
    value_error(fmt::format("jnp.pad: {} must be a number, a pair, or a pair for each dimension", what));
  }
  return values;
}

// One side of one dimension after the other, so that each has a value of its own.
Array padded_by_sides(const Operand& a, const std::vector<PadWidth::Pair>& pairs, const PadOptions& options,
                      const std::vector<std::pair<Operand, Operand>>& values) {
  const SourceLocation where = a.where();
  Array result = shoal::to_array(a);
  for (std::size_t d = 0; d < pairs.size(); ++d) {
    for (const bool after : {false, true}) {
      std::vector<PadWidth::Pair> side(pairs.size(), {0, 0});
      (after ? side[d].second : side[d].first) = after ? pairs[d].second : pairs[d].first;
      PadOptions one = options;
      one.constant_values = one.end_values = after ? values[d].second : values[d].first;
      result = pad({result, where}, PadWidth(side), one);
    }
  }
  return result;
}

// The widths filled by a function of each line, its widths, its axis and the keywords, one dimension after the other.
Array padded_by(nb::handle function, const Operand& a, const std::vector<PadWidth::Pair>& pairs, nb::dict kwargs) {
  nb::object result = nb::cast(unlocked([&] { return pad(a, PadWidth(pairs)); }));
  const nb::object along = nb::module_::import_("shoal.numpy").attr("apply_along_axis");
  for (std::size_t d = 0; d < pairs.size(); ++d) {
    const nb::tuple width = nb::make_tuple(pairs[d].first, pairs[d].second);
    result = along(function, d, result, width, d, kwargs);
  }
  return nb::cast<Array>(result);
}

// The keyword that a mode takes.
std::string_view keyword_of(std::string_view mode) {
  if (mode == "constant") return "constant_values";
  if (mode == "linear_ramp") return "end_values";
  if (mode == "reflect" || mode == "symmetric") return "reflect_type";
  if (mode == "maximum" || mode == "minimum" || mode == "mean" || mode == "median") return "stat_length";
  if (mode == "edge" || mode == "wrap" || mode == "empty") return {};
  not_implemented(fmt::format("Unimplemented padding mode '{}' for np.pad.", mode));
}

Array padded(nb::handle array, nb::handle pad_width, nb::handle mode, nb::kwargs kwargs) {
  const Operand a = operand(array, "pad", "array");
  const std::size_t rank = shoal::to_array(a).ndim();
  if (rank == 0 && PyUnicode_Check(mode.ptr())) return shoal::to_array(a);
  std::vector<PadWidth::Pair> pairs;
  if (PyDict_Check(pad_width.ptr())) {
    pairs.assign(rank, {0, 0});
    for (const auto& [axis, width] : nb::borrow<nb::dict>(pad_width)) {
      const Caller caller("pad", a.where());
      const std::int64_t d = canonical_axis(integer(axis, "pad_width"), rank);
      pairs[static_cast<std::size_t>(d)] = pairs_of(width, 1, "pad_width").front();
    }
  } else {
    pairs = pairs_of(pad_width, rank, "pad_width");
  }
  if (PyCallable_Check(mode.ptr()) != 0) return padded_by(mode, a, pairs, kwargs);
  if (!PyUnicode_Check(mode.ptr())) {
    type_error(fmt::format("jnp.pad: mode must be a str or a function, got {}", type_text(mode)));
  }
  PadOptions options{.mode = nb::cast<std::string>(mode)};
  const std::string_view taken = keyword_of(options.mode);
  options.constant_values = options.end_values = Operand(0, a.where());
  std::vector<std::pair<Operand, Operand>> sides;
  for (const auto& [key, value] : kwargs) {
    const auto name = nb::cast<std::string>(key);
    if (name != taken) {
      value_error(fmt::format("jnp.pad: unsupported keyword arguments for mode '{}': {{'{}'}}", options.mode, name));
    }
    if (name == "reflect_type") {
      const auto type = nb::cast<std::string>(nb::str(value));
      if (type != "even" && type != "odd") {
        value_error(fmt::format("jnp.pad: reflect_type must be 'even' or 'odd', got '{}'", type));
      }
      options.odd = type == "odd";
    } else if (name == "stat_length") {
      if (!value.is_none()) options.stat_length = PadWidth(pairs_of(value, rank, "stat_length"));
    } else {
      sides = sides_of(value, rank, taken.data());
      if (sides.empty()) options.constant_values = options.end_values = operand(value, "pad", taken);
    }
  }
  if (options.mode == "empty") options.mode = "constant";
  if (!sides.empty() && pairs.size() == rank) {
    return unlocked([&] { return padded_by_sides(a, pairs, options, sides); });
  }
  return unlocked([&] { return pad(a, PadWidth(pairs), options); });
}

using Triangle = Array (*)(const Operand&, std::int64_t);
void bind_triangle(nb::module_& m, const char* name, Triangle f, const char* argument, const char* doc) {
  m.def(
      name,
      [f, name](nb::handle x, nb::handle k) {
        const Operand a = operand(x, name, "m");
        const std::int64_t diagonal = integer(k, fmt::format("{}: k", name));
        return unlocked([&] { return f(a, diagonal); });
      },
      nb::arg(argument).none(), "k"_x = 0, doc);
}

Array diagflat(const Operand& v, std::int64_t k) { return diag({ravel(v), v.where()}, k); }

}  // namespace

void bind_numpy_shapes(nb::module_& m, ArrayClass& c) {
  m.def(
      "reshape",
      [](nb::handle a, nb::handle shape, nb::handle order, nb::handle copy, nb::handle out_sharding) {
        static_cast<void>(copy);
        return reshaped(operand(a, "reshape", "a"), shape_from(shape, "reshape"), is_column_major(order, "reshape"),
                        python::out_sharding(out_sharding));
      },
      "a"_x, "shape"_x, "order"_x = "C", nb::kw_only(), "copy"_x = nb::none(), "out_sharding"_x = nb::none(),
      "The same elements in another shape.");
  c.def(
      "reshape",
      [](nb::handle self, nb::args args, nb::handle order, nb::handle out_sharding) {
        return reshaped(operand(self, "reshape"),
                        shape_from(nb::len(args) == 1 ? nb::object(args[0]) : nb::object(args), "reshape"),
                        is_column_major(order, "reshape"), python::out_sharding(out_sharding));
      },
      "args"_a, nb::kw_only(), "order"_x = "C", "out_sharding"_x = nb::none(), "The same elements in another shape.");
  const auto flatten = [](nb::handle a, nb::handle order, nb::handle out_sharding) {
    return reshaped(operand(a, "ravel", "a"), Dims{-1}, is_column_major(order, "ravel"),
                    python::out_sharding(out_sharding));
  };
  define(m, c, "ravel", flatten, "a"_x, "order"_x = "C", nb::kw_only(), "out_sharding"_x = nb::none(),
         "The elements in one dimension.");
  c.def("flatten", flatten, "order"_x = "C", nb::kw_only(), "out_sharding"_x = nb::none(),
        "The elements in one dimension.");

  m.def(
      "transpose", [](nb::handle a, nb::handle axes) { return transposed(a, maybe_dims(axes, "transpose: axes")); },
      "a"_x, "axes"_x = nb::none(), "The dimensions in another order, by default reversed.");
  c.def(
      "transpose",
      [](nb::handle self, nb::args axes) {
        const bool reversed = nb::len(axes) == 0 || (nb::len(axes) == 1 && axes[0].is_none());
        return transposed(self, reversed ? std::nullopt : std::optional(several(axes, "transpose: axes")));
      },
      "args"_a, "The dimensions in another order, by default reversed.");
  c.def_prop_ro("T", [](nb::handle self) { return transposed(self, std::nullopt); });
  m.def(
      "permute_dims", [](nb::handle x, nb::handle axes) { return transposed(x, dims(axes, "permute_dims: axes")); },
      positional(), "axes"_x, "The dimensions in another order.");
  const auto matrix_transposed = [](nb::handle x) {
    const Operand a = operand(x, "matrix_transpose");
    const std::size_t rank = shoal::to_array(a).ndim();
    if (rank < 2)
      value_error(fmt::format("x must be at least two-dimensional for matrix_transpose; got ndim={}", rank));
    return unlocked([&] { return linalg::matrix_transpose(a); });
  };
  m.def("matrix_transpose", matrix_transposed, positional(), "The last two dimensions exchanged.");
  c.def_prop_ro("mT", matrix_transposed);
  define(
      m, c, "swapaxes",
      [](nb::handle a, nb::handle axis1, nb::handle axis2) {
        const Operand x = operand(a, "swapaxes", "a");
        const std::int64_t first = integer(axis1, "swapaxes: axis1");
        const std::int64_t second = integer(axis2, "swapaxes: axis2");
        return unlocked([&] { return swapaxes(x, first, second); });
      },
      "a"_x, "axis1"_x, "axis2"_x, "Two dimensions exchanged.");
  m.def(
      "moveaxis",
      [](nb::handle a, nb::handle source, nb::handle destination) {
        const Operand x = operand(a, "moveaxis", "a");
        const Dims from = dims(source, "moveaxis: source");
        const Dims to = dims(destination, "moveaxis: destination");
        return unlocked([&] { return moveaxis(x, from, to); });
      },
      "a"_x, "source"_x, "destination"_x, "Dimensions moved, the others in their order.");
  m.def(
      "rollaxis",
      [](nb::handle a, nb::handle axis, nb::handle start) {
        const Operand x = operand(a, "rollaxis", "a");
        const std::size_t rank = shoal::to_array(x).ndim();
        const Caller caller("rollaxis", x.where());
        const std::int64_t from = canonical_axis(integer(axis, "rollaxis: axis"), rank);
        std::int64_t to = integer(start, "rollaxis: start");
        if (to < 0) to += static_cast<std::int64_t>(rank);
        if (to < 0 || to > static_cast<std::int64_t>(rank)) value_error("rollaxis: start is out of range");
        if (to > from) --to;
        return unlocked([&] { return moveaxis(x, from, to); });
      },
      "a"_x, "axis"_x, "start"_x = 0, "A dimension rolled back to another one.");
  m.def(
      "expand_dims",
      [](nb::handle a, nb::handle axis) {
        const Operand x = operand(a, "expand_dims", "a");
        const Dims places = dims(axis, "expand_dims: axis");
        return unlocked([&] { return expand_dims(x, places); });
      },
      "a"_x, "axis"_x, "New dimensions of extent 1.");
  define(
      m, c, "squeeze",
      [](nb::handle a, nb::handle axis) {
        const Operand x = operand(a, "squeeze", "a");
        const Axes places = axes(axis, "squeeze: axis");
        return unlocked([&] { return squeeze(x, places); });
      },
      "a"_x, "axis"_x = nb::none(), "Without dimensions of extent 1.");
  m.def(
      "broadcast_to",
      [](nb::handle array, nb::handle shape, nb::handle out_sharding) {
        const Operand x = operand(array, "broadcast_to", "array");
        const Shape wanted = shape_from(shape, "broadcast_to");
        const OutSharding sharding = python::out_sharding(out_sharding);
        return unlocked([&] { return broadcast_to(x, wanted, sharding); });
      },
      "array"_x, "shape"_x, nb::kw_only(), "out_sharding"_x = nb::none(), "The array repeated to a shape.");
  m.def(
      "broadcast_arrays",
      [](nb::args args) {
        const Operands list = operands(args, "broadcast_arrays", "args");
        return tuple_of(unlocked([&] { return broadcast_arrays(list); }));
      },
      "args"_a, "The arrays, repeated to one shape.");
  m.def(
      "broadcast_shapes",
      [](nb::args shapes) {
        Shape common;
        for (nb::handle shape : shapes) {
          const Caller caller("broadcast_shapes", user_line());
          common = shoal::broadcast_shapes(common, dims(shape, "broadcast_shapes: a shape"));
        }
        return to_tuple(common);
      },
      "shapes"_a, "The shape that all of them broadcast to.");
  bind_at_least<1>(m, "atleast_1d", "Scalars with one dimension.");
  bind_at_least<2>(m, "atleast_2d", "Arrays with at least two dimensions.");
  bind_at_least<3>(m, "atleast_3d", "Arrays with at least three dimensions.");

  m.def(
      "concatenate",
      [](nb::handle arrays, nb::handle axis, nb::handle dtype) {
        return concatenated("concatenate", arrays, axis, dtype);
      },
      "arrays"_x, "axis"_x = 0, "dtype"_x = nb::none(), "Joined along a dimension that exists.");
  m.def(
      "concat", [](nb::handle arrays, nb::handle axis) { return concatenated("concat", arrays, axis, nb::none()); },
      positional(), nb::kw_only(), "axis"_x = 0, "Joined along a dimension that exists.");
  m.def(
      "append",
      [](nb::handle arr, nb::handle values, nb::handle axis) {
        return concatenated("append", nb::make_tuple(arr, values), axis, nb::none());
      },
      "arr"_x, "values"_x, "axis"_x = nb::none(), "values behind arr, both flattened unless an axis is given.");
  m.def(
      "stack",
      [](nb::handle arrays, nb::handle axis, nb::handle out, nb::handle dtype) {
        refuse_out("stack", out);
        const std::vector<Operand> list = all_in_dtype(operand_list(arrays, "stack"), dtype);
        const SourceLocation where = user_line();
        if (list.empty()) value_error("Need at least one array to stack.");
        const std::int64_t along = integer(axis, "stack: axis");
        return unlocked([&] { return stack({list, where}, along); });
      },
      "arrays"_x, "axis"_x = 0, "out"_x = nb::none(), "dtype"_x = nb::none(), "Joined along a new dimension.");
  bind_join(m, "vstack", &join_rows, "Joined along the first dimension; a vector is one row.");
  bind_join(m, "hstack", &join_columns, "Joined along the second dimension; vectors along their only one.");
  bind_join(m, "dstack", &join_depth, "Joined along the third dimension.");
  m.def(
      "column_stack",
      [](nb::handle tup) {
        const std::vector<Operand> list = operand_list(tup, "column_stack", "tup");
        const SourceLocation where = user_line();
        if (list.empty()) value_error("Need at least one array to concatenate.");
        return unlocked([&] { return stack_columns(list, where); });
      },
      "tup"_x, "Joined as columns of a matrix.");
  m.def(
      "block",
      [](nb::handle arrays) {
        const std::size_t depth = depth_of(arrays);
        return shoal::to_array(assembled(arrays, depth, std::max(depth, greatest_rank(arrays))));
      },
      "arrays"_x, "An array of nested lists of blocks.");
  bind_split(m, "split", &split, "Equal parts, or those between positions.");
  bind_split(m, "array_split", &array_split, "Parts that differ in length by one at most.");
  bind_split_along(m, "vsplit", 0, "split along the first dimension.");
  bind_split_along(m, "hsplit", 1, "split along the second dimension.");
  bind_split_along(m, "dsplit", 2, "split along the third dimension.");
  m.def(
      "unstack",
      [](nb::handle x, nb::handle axis) {
        const Operand a = operand(x, "unstack");
        const SourceLocation where = a.where();
        const Array array = shoal::to_array(a);
        if (array.ndim() == 0) value_error("Unstack requires arrays with rank > 0, however a scalar array was passed.");
        const Caller caller("unstack", where);
        const std::int64_t along = canonical_axis(integer(axis, "unstack: axis"), array.ndim());
        return tuple_of(unlocked([&] {
          std::vector<Array> rows;
          const Array front = moveaxis(a, along, 0);
          for (auto row = front.begin(where); row != front.end(where); ++row) rows.push_back(*row);
          return rows;
        }));
      },
      positional(), nb::kw_only(), "axis"_x = 0, "The parts along a dimension, without it.");

  m.def(
      "tile",
      [](nb::handle A, nb::handle reps) {
        const Operand a = operand(A, "tile", "A");
        const Dims times = dims(reps, "tile: reps");
        return unlocked([&] { return tile(a, times); });
      },
      "A"_x, "reps"_x, "The array repeated along each dimension.");
  define(m, c, "repeat", &repeated, "a"_x, "repeats"_x, "axis"_x = nb::none(), nb::kw_only(),
         "total_repeat_length"_x = nb::none(), "out_sharding"_x = nb::none(), "Each element several times.");
  m.def("roll", &rolled, "a"_x, "shift"_x, "axis"_x = nb::none(),
        "The elements moved on, those at the end to the begin.");
  m.def("rot90", &rotated, "m"_x, "k"_x = 1, "axes"_x = nb::make_tuple(0, 1), "Turned by right angles in a plane.");
  m.def(
      "flip",
      [](nb::handle x, nb::handle axis) {
        const Operand a = operand(x, "flip", "m");
        const Axes along = axes(axis, "flip: axis");
        return unlocked([&] { return flip(a, along); });
      },
      "m"_x, "axis"_x = nb::none(), "The order of elements reversed.");
  m.def(
      "flipud",
      [](nb::handle x) {
        const Operand a = operand(x, "flipud", "m");
        return unlocked([&] { return flip(a, Axes(0)); });
      },
      "m"_x, "Rows in reverse order.");
  m.def(
      "fliplr",
      [](nb::handle x) {
        const Operand a = operand(x, "fliplr", "m");
        return unlocked([&] { return flip(a, Axes(1)); });
      },
      "m"_x, "Columns in reverse order.");
  bind_triangle(m, "tril", &tril, "m", "The elements on and below a diagonal, zeros elsewhere.");
  bind_triangle(m, "triu", &triu, "m", "The elements on and above a diagonal, zeros elsewhere.");
  bind_triangle(m, "diag", &diag, "v", "A diagonal of a matrix, or a matrix with this one.");
  bind_triangle(m, "diagflat", &diagflat, "v", "A matrix with the elements on a diagonal.");
  m.def("pad", &padded, "array"_x, "pad_width"_x, "mode"_x = "constant", "kwargs"_a, "More elements on each side.");
  m.def(
      "resize",
      [](nb::handle a, nb::handle new_shape) {
        const Operand x = operand(a, "resize", "a");
        const Shape shape = shape_from(new_shape, "resize");
        const SourceLocation where = x.where();
        return unlocked([&]() -> Array {
          const std::int64_t wanted = num_elements(shape);
          const Operand flat(ravel(x), where);
          const std::int64_t size = flat.array()->size();
          if (size == 0 || wanted == 0) return zeros(shape, {.dtype = flat.array()->dtype()}, where);
          const Operand enough(tile(flat, (wanted + size - 1) / size), where);
          return reshape({lax::slice_in_dim(enough, 0, wanted), where}, shape);
        });
      },
      "a"_x, "new_shape"_x, "The elements, repeated or cut off, in another shape.");
}

}  // namespace shoal::python
