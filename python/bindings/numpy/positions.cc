// Items by position, and conditions.
#include <fmt/format.h>

#include <algorithm>

#include "base/caller.h"
#include "bindings/numpy/numpy.h"

namespace shoal::python {
namespace {

// ---- Positions of what is not 0.

NonzeroOptions nonzero_options(const char* name, nb::handle size, nb::handle fill_value) {
  NonzeroOptions options{.size = maybe_integer(size, fmt::format("{}: size", name))};
  if (fill_value.is_none()) return options;
  if (PyTuple_Check(fill_value.ptr())) {
    const Dims fills = dims(fill_value, "fill_value");
    for (const std::int64_t fill : fills) {
      if (fill != fills.front()) not_implemented(fmt::format("{}: one fill_value for all dimensions", name));
    }
    if (!fills.empty()) options.fill_value = fills.front();
  } else {
    options.fill_value = integer(fill_value, fmt::format("{}: fill_value", name));
  }
  return options;
}

std::vector<Array> nonzero_of(const char* name, nb::handle a, nb::handle size, nb::handle fill_value) {
  const Operand x = operand(a, name, "a");
  if (shoal::to_array(x).ndim() == 0) {
    value_error(
        fmt::format("Calling {} on 0d arrays is not allowed. Use jnp.atleast_1d(scalar).nonzero() instead.", name));
  }
  const NonzeroOptions options = nonzero_options(name, size, fill_value);
  return counted(unlocked([&] { return nonzero(x, options); }));
}

nb::object where_of(nb::handle condition, nb::handle x, nb::handle y, nb::handle size, nb::handle fill_value) {
  if (x.is_none() && y.is_none()) return tuple_of(nonzero_of("where", condition, size, fill_value));
  if (x.is_none() || y.is_none()) {
    value_error("Either both or neither of the x and y arguments should be provided to jax.numpy.where");
  }
  if (!size.is_none() || !fill_value.is_none()) {
    value_error("size and fill_value arguments cannot be used in three-term where function.");
  }
  const Operand holds = operand(condition, "where", "condition");
  const Operand first = operand(x, "where", "x");
  const Operand second = operand(y, "where", "y");
  return nb::cast(unlocked([&] { return shoal::where(holds, first, second); }));
}

Array argwhere(nb::handle a, nb::handle size, nb::handle fill_value) {
  const Array x = to_array(a, "argwhere", "a");
  const SourceLocation where = user_line();
  if (x.ndim() == 0) {
    const nb::object flat = nb::cast(reshape({x, where}, {1}));
    const Array found = nonzero_of("argwhere", flat, size, fill_value).front();
    return zeros({found.size(), 0}, {.dtype = found.dtype()}, where);
  }
  const std::vector<Array> all = nonzero_of("argwhere", a, size, fill_value);
  return unlocked([&] { return stack({all, where}, 1); });
}

// ---- Reading.

Array taken(nb::handle a, nb::handle indices, nb::handle axis, nb::handle out, nb::handle mode, nb::handle, nb::handle,
            nb::handle fill_value) {
  refuse_out("take", out);
  const Operand x = operand(a, "take", "a");
  const Operand places = operand(indices, "take", "indices");
  const TakeOptions options{.axis = maybe_integer(axis, "take: axis"),
                            .mode = index_mode(mode, IndexMode::kFill),
                            .fill_value = maybe_operand(fill_value, "take", "fill_value")};
  return unlocked([&] { return take(x, places, options); });
}

Array taken_along(nb::handle arr, nb::handle indices, nb::handle axis, nb::handle mode, nb::handle fill_value,
                  Flag wraps) {
  const Operand x = operand(arr, "take_along_axis", "arr");
  const Operand places = operand(indices, "take_along_axis", "indices");
  // By products with ones and zeros in JAX: of what is outside there is nothing.
  const bool is_one_hot = PyUnicode_Check(mode.ptr()) && nb::cast<std::string>(mode) == "one_hot";
  TakeAlongOptions options{.mode = is_one_hot ? IndexMode::kFill : index_mode(mode, IndexMode::kFill),
                           .fill_value = maybe_operand(fill_value, "take_along_axis", "fill_value"),
                           .wrap_negative_indices = wraps};
  if (is_one_hot) options.fill_value = Operand(type_of_operand(x).dtype == bool_ ? Operand(false) : Operand(0));
  const std::optional<std::int64_t> along = maybe_integer(axis, "take_along_axis: axis");
  return unlocked([&] {
    if (along) return take_along_axis(x, places, *along, options);
    return take_along_axis({ravel(x), x.where()}, {ravel(places), x.where()}, 0, options);
  });
}

Array compressed(nb::handle condition, nb::handle a, nb::handle axis, nb::handle out, nb::handle size,
                 nb::handle fill_value) {
  refuse_out("compress", out);
  const Operand holds = operand(condition, "compress", "condition");
  const Operand x = operand(a, "compress", "a");
  const std::optional<std::int64_t> along = maybe_integer(axis, "compress: axis");
  const std::optional<std::int64_t> wanted = maybe_integer(size, "compress: size");
  const Operand fill = operand(fill_value, "compress", "fill_value");
  const SourceLocation where = x.where();
  if (shoal::to_array(holds).ndim() != 1) value_error("condition must be a 1D array");
  return unlocked([&] {
    const Operand array(along ? shoal::to_array(x) : ravel(x), where);
    const Caller caller("compress", where);
    const std::int64_t d = canonical_axis(along.value_or(0), array.array()->ndim());
    const std::int64_t extent = array.array()->shape()[static_cast<std::size_t>(d)];
    // Places behind the end are filled.
    const Operand places(flatnonzero(holds, {.size = wanted, .fill_value = wanted ? extent : 0}), where);
    const Operand filling(astype(fill, array.array()->dtype()), where);
    return take(array, places, {.axis = d, .mode = IndexMode::kFill, .fill_value = filling});
  });
}

Array extracted(nb::handle condition, nb::handle arr, nb::handle size, nb::handle fill_value) {
  const Operand holds = operand(condition, "extract", "condition");
  const nb::object flat = nb::cast(unlocked([&] { return ravel(holds); }));
  return compressed(flat, arr, nb::none(), nb::none(), size, fill_value);
}

Array selected(nb::handle condlist, nb::handle choicelist, nb::handle default_value) {
  const std::vector<Operand> conditions = operand_list(condlist, "select", "condlist");
  std::vector<Operand> choices = operand_list(choicelist, "select", "choicelist");
  Operand otherwise = operand(default_value, "select", "default");
  if (conditions.size() != choices.size()) {
    value_error(
        fmt::format("condlist must have length equal to choicelist ({} vs {})", conditions.size(), choices.size()));
  }
  if (conditions.empty()) value_error("condlist must be non-empty");
  return unlocked([&] {
    const SourceLocation where = conditions.front().where();
    for (std::size_t i = conditions.size(); i-- > 0;) {
      otherwise = Operand(shoal::where(conditions[i], choices[i], otherwise), where);
    }
    return shoal::to_array(otherwise);
  });
}

Array chosen(nb::handle a, nb::handle choices, nb::handle out, const std::string& mode) {
  refuse_out("choose", out);
  const Operand places = operand(a, "choose", "a");
  std::vector<Operand> list = operand_list(choices, "choose", "choices");
  const Dtype type = type_of_operand(places).dtype;
  if (!is_integer(type)) value_error("`a` array must be integer typed");
  if (list.empty()) value_error("need at least one array in choices");
  const auto count = static_cast<std::int64_t>(list.size());
  const SourceLocation where = places.where();
  if (mode != "raise" && mode != "wrap" && mode != "clip") {
    value_error(fmt::format("mode='{}' not understood. Must be 'raise', 'wrap', or 'clip'", mode));
  }
  const Array index = shoal::to_array(places);
  if (mode == "raise") {
    if (index.is_tracer()) {
      nb::module_::import_("shoal._core")
          .attr("_needs_value")(index, nb::module_::import_("shoal._core").attr("ConcretizationTypeError"));
    }
    const bool outside = unlocked([&] {
      return any({logical_or({less(places, {0, where}), where}, {greater_equal(places, {count, where}), where}), where})
          .item<bool>(where);
    });
    if (outside) value_error("invalid entry in choice array");
  }
  return unlocked([&] {
    const Operand number(
        mode == "wrap" ? remainder(places, {count, where}) : clip(places, Operand(0, where), Operand(count - 1, where)),
        where);
    constexpr std::int64_t kFew = 16;
    if (count > 1 && count <= kFew) {
      // One pass over all of them, where a gather would need them side by side.
      Operand chosen = list.back();
      for (std::int64_t i = count - 1; i-- > 0;) {
        const Operand here(equal(number, {i, where}), where);
        chosen = Operand(shoal::where(here, list[static_cast<std::size_t>(i)], chosen), where);
      }
      return shoal::to_array(chosen);
    }
    list.push_back(number);
    std::vector<Array> same = broadcast_arrays({list, where});
    const Array which = same.back();
    same.pop_back();
    const Operand all(stack({same, where}), where);
    return squeeze({take_along_axis(all, {expand_dims({which, where}, 0), where}, 0), where}, 0);
  });
}

// ---- Writing.

void refuse_inplace(const char* name, bool inplace) {
  if (!inplace) return;
  value_error(
      fmt::format("jax.numpy.{} cannot modify arrays in-place, because JAX arrays are immutable. Pass "
                  "inplace=False to instead return an updated array.",
                  name));
}

Array put(nb::handle a, nb::handle ind, nb::handle v, nb::handle mode, Flag inplace) {
  refuse_inplace("put", inplace);
  const Operand x = operand(a, "put", "a");
  const Operand places = operand(ind, "put", "ind");
  const Operand values = operand(v, "put", "v");
  const std::string name = mode.is_none() ? "" : nb::cast<std::string>(nb::str(mode));
  if (!mode.is_none() && name != "wrap" && name != "clip") {
    value_error(fmt::format("put: mode should be one of 'wrap' or 'clip'; got mode='{}'", name));
  }
  return unlocked([&] {
    const SourceLocation where = x.where();
    const Array given = shoal::to_array(x);
    const Array flat = ravel({given, where});
    Array index = ravel(places);
    const std::int64_t count = index.size();
    if (count == 0) return given;
    // The first element is the nearest one of all negative positions.
    if (name == "clip") index = maximum({index, where}, {0, where});
    const IndexMode how = name == "wrap" ? IndexMode::kWrap : IndexMode::kClip;
    Operand enough(ravel(values), where);
    const std::int64_t length = enough.array()->size();
    if (length == 0) return given;
    enough = Operand(tile(enough, (count + length - 1) / length), where);
    enough = Operand(astype({lax::slice_in_dim(enough, 0, count), where}, given.dtype()), where);
    const Array changed = flat.at({{index, where}}, where).set(enough, {.mode = how});
    return reshape({changed, where}, given.shape());
  });
}

Array placed(nb::handle arr, nb::handle mask, nb::handle vals, Flag inplace) {
  refuse_inplace("place", inplace);
  const Operand x = operand(arr, "place", "arr");
  const Operand holds = operand(mask, "place", "mask");
  const Operand values = operand(vals, "place", "vals");
  if (shoal::to_array(x).size() != shoal::to_array(holds).size()) {
    value_error("place: arr and mask must be the same size");
  }
  const std::int64_t length = shoal::to_array(values).size();
  if (length == 0) value_error("place: vals must not be empty");
  return unlocked([&] {
    const SourceLocation where = x.where();
    const Array given = shoal::to_array(x);
    const Operand chosen(reshape({astype(holds, bool_), where}, given.shape()), where);
    // Each place takes the next value, in turn.
    const Operand before(subtract({cumsum(chosen), where}, {1, where}), where);
    const Operand number(remainder(before, {length, where}), where);
    const Array taken = take({ravel(values), where}, number, {.mode = IndexMode::kClip});
    const Operand fitting(astype({reshape({taken, where}, given.shape()), where}, given.dtype()), where);
    return shoal::where(chosen, fitting, {given, where});
  });
}

Array put_along(nb::handle arr, nb::handle indices, nb::handle values, nb::handle axis, Flag inplace, nb::handle mode) {
  refuse_inplace("put_along_axis", inplace);
  if (!mode.is_none()) static_cast<void>(index_mode(mode, IndexMode::kDrop));
  const Operand x = operand(arr, "put_along_axis", "arr");
  const Operand places = operand(indices, "put_along_axis", "indices");
  const Operand v = operand(values, "put_along_axis", "values");
  const std::optional<std::int64_t> along = maybe_integer(axis, "put_along_axis: axis");
  return unlocked([&] {
    if (along) return put_along_axis(x, places, v, *along);
    const SourceLocation where = x.where();
    const Array changed = put_along_axis({ravel(x), where}, {ravel(places), where}, {ravel(v), where}, 0);
    return reshape({changed, where}, shoal::to_array(x).shape());
  });
}

Array fill_diagonal(nb::handle a, nb::handle val, Flag wrap, Flag inplace) {
  refuse_inplace("fill_diagonal", inplace);
  if (wrap) not_implemented("wrap=True not implemented, must be False.");
  const Operand x = operand(a, "fill_diagonal", "a");
  const Operand value = operand(val, "fill_diagonal", "val");
  const Shape shape = shoal::to_array(x).shape();
  if (shape.size() < 2) value_error("array must be at least 2-d");
  for (const std::int64_t extent : shape) {
    if (shape.size() > 2 && extent != shape[0]) value_error("All dimensions of input must be of equal length");
  }
  return unlocked([&] {
    const SourceLocation where = x.where();
    const std::int64_t length = *std::min_element(shape.begin(), shape.end());
    const Array line = lax::iota(int32, length, where);
    const Array flat = ravel(value);
    Operand values = value;
    if (flat.size() != 1) {
      values = Operand(take({flat, where}, {remainder({line, where}, {flat.size(), where}), where}), where);
    }
    const std::vector<IndexEntry> index(shape.size(), IndexEntry(line, where));
    const Array given = shoal::to_array(x);
    return given.at(index, where).set({astype(values, given.dtype()), where});
  });
}

// The positions that an object stands for along a dimension: a number, a sequence, or a slice.
Dims positions_of(nb::handle obj, std::int64_t extent, const char* what) {
  nb::object list = nb::borrow(obj);
  if (PySlice_Check(obj.ptr())) {
    const nb::object range = nb::module_::import_("builtins").attr("range");
    list = nb::list(range(*nb::borrow<nb::tuple>(obj.attr("indices")(extent))));
  }
  if (nb::hasattr(list, "tolist")) list = list.attr("tolist")();
  return dims(list, what);
}

// Whether an array, of the library or of NumPy, has bools.
bool is_mask(nb::handle x) {
  if (array_of(x) != nullptr) return array_of(x)->dtype() == bool_;
  return nb::hasattr(x, "dtype") && nb::cast<std::string>(nb::str(x.attr("dtype").attr("kind"))) == "b";
}

Shape mask_shape(nb::handle x) {
  return array_of(x) != nullptr ? array_of(x)->shape() : dims(x.attr("shape"), "delete: obj");
}

// Whether positions are known when the program runs only.
bool are_traced(nb::handle x) { return array_of(x) != nullptr && array_of(x)->is_tracer(); }

// x without the items at traced positions, of which there are no two equal: each of the others goes as far behind as
// there are positions up to it.
Array without_items(const Operand& x, std::int64_t axis, const Array& positions) {
  const SourceLocation where = x.where();
  const Array array = shoal::to_array(x);
  const std::int64_t extent = array.shape()[static_cast<std::size_t>(axis)];
  const Operand given(ravel({positions, where}), where);
  const std::int64_t count = given.array()->size();
  const Operand gone(shoal::where({less(given, {0, where}), where}, {add(given, {extent, where}), where}, given),
                     where);
  const Operand before(lax::iota(int32, count, where), where);
  const Operand reached(subtract({sort(gone), where}, before), where);
  const Operand places(lax::iota(int32, std::max<std::int64_t>(extent - count, 0), where), where);
  const Array passed = searchsorted(reached, places, {.side = Side::kRight});
  return take(x, {add(places, {passed, where}), where}, {.axis = axis, .mode = IndexMode::kClip});
}

// arr without items along an axis.
Array deleted(nb::handle arr, nb::handle obj, nb::handle axis, Flag unique) {
  const Operand given = operand(arr, "delete", "arr");
  const SourceLocation where = given.where();
  const std::optional<std::int64_t> along = maybe_integer(axis, "delete: axis");
  const Operand x(along ? shoal::to_array(given) : ravel(given), where);
  const Caller caller("delete", where);
  const std::int64_t d = canonical_axis(along.value_or(0), x.array()->ndim());
  const std::int64_t extent = x.array()->shape()[static_cast<std::size_t>(d)];
  nb::object places = nb::borrow(obj);
  if (is_mask(obj)) {
    if (mask_shape(obj) != Shape{extent}) {
      value_error(fmt::format("delete: the mask obj has the shape {}, and should have that of axis {}, ({},)",
                              to_string(mask_shape(obj)), d, extent));
    }
    if (array_of(obj) != nullptr) {
      const Operand kept(logical_not({*array_of(obj), where}), where);
      return unlocked([&] { return take(x, {flatnonzero(kept), where}, {.axis = d}); });
    }
    places = obj.attr("nonzero")()[0];  // A mask of NumPy is known in a traced function, too.
  }
  if (are_traced(obj)) {
    if (!is_integer(array_of(obj)->dtype())) type_error("delete: obj must be integers, bools or a slice");
    if (unique) return unlocked([&] { return without_items(x, d, *array_of(obj)); });
    nb::module_::import_("shoal._core")
        .attr("_needs_value")(obj, nb::module_::import_("shoal._core").attr("ConcretizationTypeError"));
  }
  if (nb::hasattr(places, "ravel")) places = places.attr("ravel")();
  std::vector<bool> gone(static_cast<std::size_t>(extent), false);
  for (std::int64_t place : positions_of(places, extent, "delete: obj")) {
    if (place < 0) place += extent;
    if (place >= 0 && place < extent) gone[static_cast<std::size_t>(place)] = true;
  }
  // Items that lie side by side leave two pieces, which are copied.
  const auto begin = std::find(gone.begin(), gone.end(), true);
  const auto end = std::find(begin, gone.end(), false);
  if (std::find(end, gone.end(), true) == gone.end()) {
    return unlocked([&] {
      const Array before = lax::slice_in_dim(x, 0, begin - gone.begin(), 1, d);
      const Array after = lax::slice_in_dim(x, end - gone.begin(), extent, 1, d);
      return concatenate(Operands({before, after}, where), d);
    });
  }
  std::vector<std::int32_t> kept;
  for (std::size_t i = 0; i < gone.size(); ++i) {
    if (!gone[i]) kept.push_back(static_cast<std::int32_t>(i));
  }
  return unlocked([&] { return take(x, {array(kept, {}, where), where}, {.axis = d}); });
}

// The positions of a vector, or the only one so often as there are values, along a dimension of an extent.
Array positions_before(const Array& given, std::int64_t count, std::int64_t extent, SourceLocation where) {
  const Operand all(broadcast_to({ravel({given, where}), where}, {count}), where);
  const Operand wide(astype(all, int32), where);
  const Operand counted(shoal::where({less(wide, {0, where}), where}, {add(wide, {extent, where}), where}, wide),
                        where);
  return clip(counted, Operand(0, where), Operand(extent, where));
}

// Which of old and new items, in this order, is at each place if those go before traced positions.
Array order_of_inserted(const Array& positions, std::int64_t before, SourceLocation where) {
  const std::int64_t count = positions.size();
  const Operand given(positions, where);
  // Those at one position keep their order, and each goes behind those before it.
  const Operand order(argsort(given), where);
  const Operand ranks(lax::iota(int32, count, where), where);
  const Operand places(add({take(given, order), where}, ranks), where);
  const Operand numbers(add(order, {before, where}), where);
  const Array nothing = full({before + count}, {-1, where}, {.dtype = int32});
  const Operand found(nothing.at({{*places.array(), where}}, where).set({astype(numbers, int32), where}), where);
  const Operand is_old(less(found, {0, where}), where);
  const Operand old(subtract({cumsum(is_old), where}, {1, where}), where);
  return shoal::where(is_old, old, found);
}

// A copy with values before some positions.
Array inserted(nb::handle arr, nb::handle obj, nb::handle values, nb::handle axis) {
  const Operand given = operand(arr, "insert", "arr");
  const Operand v = operand(values, "insert", "values");
  const SourceLocation where = given.where();
  const std::optional<std::int64_t> along = maybe_integer(axis, "insert: axis");
  const Operand x(along ? shoal::to_array(given) : ravel(given), where);
  Shape shape = x.array()->shape();
  const Caller caller("insert", where);
  const std::int64_t d = canonical_axis(along.value_or(0), shape.size());
  std::int64_t& extent = shape[static_cast<std::size_t>(d)];
  const std::int64_t before = extent;
  const bool traced = are_traced(obj);
  if (traced && (array_of(obj)->ndim() > 1 || !is_integer(array_of(obj)->dtype()))) {
    value_error(fmt::format("insert: obj must be a slice, or integers in a vector or a scalar; got {}",
                            nb::cast<std::string>(nb::repr(obj))));
  }
  // Of traced positions only the number.
  Dims places =
      traced ? Dims(static_cast<std::size_t>(array_of(obj)->size()), 0) : positions_of(obj, before, "insert: obj");
  Array fresh = shoal::to_array(v);
  if (places.size() == 1) {
    // All values go to one position. If that is a number, not a list, the first dimension of the values is the axis.
    Shape wide = fresh.shape();
    while (wide.size() < shape.size()) wide.insert(wide.begin(), 1);
    fresh = reshape({fresh, where}, wide);
    const bool is_number =
        PyIndex_Check(obj.ptr()) != 0 && !(nb::hasattr(obj, "ndim") && integer(obj.attr("ndim"), "ndim") > 0);
    if (is_number) fresh = moveaxis({fresh, where}, 0, d);
    places = Dims(static_cast<std::size_t>(fresh.shape()[static_cast<std::size_t>(d)]), places.front());
  }
  extent = static_cast<std::int64_t>(places.size());
  const auto put_in = [&](const auto& order_of) {
    return unlocked([&] {
      const Operand typed(astype({fresh, where}, x.array()->dtype()), where);
      const Operand all(concatenate({x, {broadcast_to(typed, shape), where}}, d), where);
      return take(all, {order_of(), where}, {.axis = d});
    });
  };
  if (traced) {
    return put_in(
        [&] { return order_of_inserted(positions_before(*array_of(obj), extent, before, where), before, where); });
  }
  // Which of the old and new items, in this order, is at each place of the result.
  std::vector<std::vector<std::int64_t>> here(static_cast<std::size_t>(before) + 1);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const std::int64_t place = places[i] < 0 ? places[i] + before : places[i];
    if (place < 0 || place > before) {
      value_error(fmt::format("insert: index {} is out of bounds for axis {} with size {}", places[i], d, before));
    }
    here[static_cast<std::size_t>(place)].push_back(before + static_cast<std::int64_t>(i));
  }
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i <= before; ++i) {
    for (const std::int64_t item : here[static_cast<std::size_t>(i)]) order.push_back(item);
    if (i < before) order.push_back(i);
  }
  return put_in([&] { return array(order, {.dtype = int32, .sharding = {}}, where); });
}

// ---- Bits.

bool is_little(const char* name, const std::string& bitorder) {
  if (bitorder == "little") return true;
  if (bitorder == "big") return false;
  value_error(fmt::format("{}: bitorder must be 'little' or 'big', got '{}'", name, bitorder));
}

// Eight bytes as one number, of which the first is the lowest: arithmetic on it is on all of them at once.
Operand eight(std::uint64_t value, SourceLocation where) {
  return {array(value, {.dtype = uint64, .sharding = {}}, where), where};
}

Array packbits(nb::handle a, nb::handle axis, const std::string& bitorder) {
  const Operand given = operand(a, "packbits", "a");
  const Dtype type = type_of_operand(given).dtype;
  if (!is_integer(type) && type != bool_) type_error("Expected an input array of integer or boolean data type");
  const bool little = is_little("packbits", bitorder);
  const std::optional<std::int64_t> along = maybe_integer(axis, "packbits: axis");
  const SourceLocation where = given.where();
  return unlocked([&] {
    const Operand x(along ? shoal::to_array(given) : ravel(given), where);
    const Caller caller("packbits", where);
    const std::int64_t d = canonical_axis(along.value_or(0), x.array()->ndim());
    const Operand last(moveaxis({not_equal(x, {0, where}), where}, d, -1), where);
    Shape shape = last.array()->shape();
    const std::int64_t bytes = (shape.back() + 7) / 8;
    std::vector<PadWidth::Pair> widths(shape.size(), {0, 0});
    widths.back().second = bytes * 8 - shape.back();
    const Operand whole(pad({astype(last, uint8), where}, PadWidth(widths), {.constant_values = Operand(0, where)}),
                        where);
    shape.back() = bytes;
    shape.push_back(8);
    const Operand bits(reshape(whole, shape), where);
    const Operand bytes_together(lax::bitcast_convert_type(bits, uint64), where);
    // Each bit comes to its place in the highest byte by one of the factor's bits, and no two of them anywhere else.
    const Operand factor = eight(little ? 0x0102'0408'1020'4080 : 0x8040'2010'0804'0201, where);
    const Operand spread(multiply(bytes_together, factor), where);
    return moveaxis({astype({right_shift(spread, eight(56, where)), where}, uint8), where}, -1, d);
  });
}

Array unpackbits(nb::handle a, nb::handle axis, nb::handle count, const std::string& bitorder) {
  const Operand given = operand(a, "unpackbits", "a");
  if (type_of_operand(given).dtype != uint8) type_error("Expected an input array of unsigned byte data type");
  const bool little = is_little("unpackbits", bitorder);
  const std::optional<std::int64_t> along = maybe_integer(axis, "unpackbits: axis");
  const std::optional<std::int64_t> wanted = maybe_integer(count, "unpackbits: count");
  const SourceLocation where = given.where();
  return unlocked([&] {
    const Operand x(along ? shoal::to_array(given) : ravel(given), where);
    const Caller caller("unpackbits", where);
    const std::int64_t d = canonical_axis(along.value_or(0), x.array()->ndim());
    const Operand last(moveaxis(x, d, -1), where);
    Shape shape = last.array()->shape();
    shape.back() *= 8;
    const Operand repeated(multiply({astype(last, uint64), where}, eight(0x0101'0101'0101'0101, where)), where);
    const Operand mask = eight(little ? 0x8040'2010'0804'0201 : 0x0102'0408'1020'4080, where);
    const Operand masked(bitwise_and(repeated, mask), where);
    // A byte that is not zero becomes 128 at least, then 1.
    const Operand high(add(masked, eight(0x7f7f'7f7f'7f7f'7f7f, where)), where);
    const Operand lowest(right_shift(high, eight(7, where)), where);
    const Operand each(bitwise_and(lowest, eight(0x0101'0101'0101'0101, where)), where);
    Operand bits(reshape({lax::bitcast_convert_type(each, uint8), where}, shape), where);
    if (wanted) {
      const std::int64_t length = *wanted < 0 ? shape.back() + *wanted : *wanted;
      const auto axis_number = static_cast<std::int64_t>(shape.size()) - 1;
      const std::int64_t kept = std::clamp<std::int64_t>(length, 0, shape.back());
      bits = Operand(lax::slice_in_dim(bits, 0, kept, 1, axis_number), where);
      std::vector<PadWidth::Pair> widths(shape.size(), {0, 0});
      widths.back().second = std::max<std::int64_t>(0, length - shape.back());
      bits = Operand(pad(bits, PadWidth(widths), {.constant_values = Operand(0, where)}), where);
    }
    return moveaxis(bits, -1, d);
  });
}

// ---- Positions of many dimensions.

std::vector<Array> open_mesh(nb::args args) {
  const std::vector<Operand> list = operand_list(args, "ix_", "args");
  const SourceLocation where = user_line();
  std::vector<Array> all;
  for (std::size_t i = 0; i < list.size(); ++i) {
    Array array = shoal::to_array(list[i]);
    if (array.ndim() != 1) {
      value_error(
          fmt::format("Arguments to jax.numpy.ix_ must be 1-dimensional, got shape {}", to_string(array.shape())));
    }
    if (array.dtype() == bool_) array = flatnonzero({array, where});
    if (array.size() == 0) array = astype({array, where}, default_int());
    Shape shape(list.size(), 1);
    shape[i] = array.size();
    all.push_back(reshape({array, where}, shape));
  }
  return all;
}

// The extents of a shape, of which a traced one is known when the program runs only.
std::vector<Operand> extents_of(nb::handle shape, const char* name) {
  const SourceLocation where = user_line();
  const Array* array = array_of(shape);
  const bool is_sequence =
      array != nullptr ? array->ndim() > 0 : PySequence_Check(shape.ptr()) != 0 && PySequence_Size(shape.ptr()) >= 0;
  PyErr_Clear();
  std::vector<Operand> extents;
  const auto add_extent = [&](nb::handle x) {
    if (const Array* one = array_of(x); one != nullptr && one->is_tracer()) {
      if (!is_integer(one->dtype())) type_error(fmt::format("{}: shape must be integers", name));
      extents.emplace_back(*one, where);
    } else {
      extents.emplace_back(integer(x, fmt::format("{}: shape", name)), where);
    }
  };
  if (is_sequence) {
    for (nb::handle item : shape) add_extent(item);
  } else {
    add_extent(shape);
  }
  return extents;
}

std::vector<Array> unraveled(nb::handle indices, nb::handle shape) {
  const Operand x = operand(indices, "unravel_index", "indices");
  const std::vector<Operand> extents = extents_of(shape, "unravel_index");
  if (!is_integer(type_of_operand(x).dtype)) type_error("unravel_index: indices must be integers");
  return unlocked([&] {
    const SourceLocation where = x.where();
    const Caller caller("unravel_index", where);
    Operand size(1, where);
    for (const Operand& extent : extents) size = Operand(multiply(size, extent), where);
    // Positions outside are the nearest ones, as in indexing; negative ones count from the end.
    Operand rest(shoal::where({less(x, {0, where}), where}, {add(x, size), where}, x), where);
    const Operand last(maximum({subtract(size, {1, where}), where}, {0, where}), where);
    rest = Operand(clip(rest, Operand(0, where), last), where);
    std::vector<Array> all(extents.size());
    for (std::size_t d = extents.size(); d-- > 0;) {
      all[d] = remainder(rest, extents[d]);
      rest = Operand(floor_divide(rest, extents[d]), where);
    }
    return all;
  });
}

Array raveled(nb::handle multi_index, nb::handle shape, const std::string& mode, nb::handle order, nb::handle dtype) {
  const std::optional<Dtype> wanted = maybe_dtype(dtype);
  const std::vector<Operand> list = operand_list(multi_index, "ravel_multi_index", "multi_index");
  Shape extents = dims(shape, "ravel_multi_index: dims");
  if (list.size() != extents.size()) {
    value_error(fmt::format("len(multi_index)={} != len(dims)={}", list.size(), extents.size()));
  }
  if (mode != "raise" && mode != "wrap" && mode != "clip" && mode != "ignore") {
    value_error(fmt::format("invalid mode='{}'. Expected 'raise', 'wrap', 'clip', or 'ignore'.", mode));
  }
  const bool column_major = is_column_major(order, "ravel_multi_index");
  const SourceLocation where = user_line();
  if (mode == "raise") {
    for (std::size_t d = 0; d < list.size(); ++d) {
      const Array index = shoal::to_array(list[d]);
      if (index.is_tracer()) {
        nb::module_::import_("shoal._core")
            .attr("_needs_value")(index, nb::module_::import_("shoal._core").attr("ConcretizationTypeError"));
      }
      const Operand below(less(list[d], {0, where}), where);
      const Operand above(greater_equal(list[d], {extents[d], where}), where);
      if (any({logical_or(below, above), where}).item<bool>(where)) value_error("invalid entry in coordinates array");
    }
  }
  return unlocked([&] {
    const Caller caller("ravel_multi_index", where);
    Operand place(0, where);
    std::int64_t stride = 1;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::size_t d = column_major ? i : list.size() - 1 - i;
      const Operand index(mode == "wrap"     ? remainder(list[d], {extents[d], where})
                          : mode == "ignore" ? shoal::to_array(list[d])
                                             : clip(list[d], Operand(0, where), Operand(extents[d] - 1, where)),
                          where);
      place = Operand(add(place, {multiply(index, {stride, where}), where}), where);
      stride *= extents[d];
    }
    const Array places = shoal::to_array(in_dtype(place, wanted));
    return convert(places, places.dtype());
  });
}

nb::tuple diagonal_indices(std::int64_t n, std::int64_t ndim) {
  if (n < 0) value_error(fmt::format("n argument to diag_indices must be nonnegative, got {}", n));
  if (ndim < 0) value_error(fmt::format("ndim argument to diag_indices must be nonnegative, got {}", ndim));
  const Array line = lax::iota(default_int(), n, user_line());
  return tuple_of(std::vector<Array>(static_cast<std::size_t>(ndim), line));
}

// Rows and columns of a triangle, which do not depend on values.
nb::tuple triangle_indices(std::int64_t n, std::int64_t m, std::int64_t k, bool lower) {
  std::vector<std::int64_t> rows;
  std::vector<std::int64_t> columns;
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = lower ? 0 : std::max<std::int64_t>(0, i + k); j < (lower ? std::min(m, i + k + 1) : m); ++j) {
      rows.push_back(i);
      columns.push_back(j);
    }
  }
  const SourceLocation where = user_line();
  const CreationOptions options{.dtype = default_int(), .sharding = {}};
  return nb::make_tuple(array(rows, options, where), array(columns, options, where));
}

void bind_triangle_indices(nb::module_& m, const char* name, bool lower, const char* doc) {
  m.def(
      name,
      [name, lower](nb::handle n, nb::handle k, nb::handle columns) {
        const std::int64_t rows = integer(n, fmt::format("{}: n", name));
        return triangle_indices(rows, maybe_integer(columns, fmt::format("{}: m", name)).value_or(rows),
                                integer(k, fmt::format("{}: k", name)), lower);
      },
      "n"_x, "k"_x = 0, "m"_x = nb::none(), doc);
  m.def((std::string(name) + "_from").c_str(),
        [name, lower](nb::handle arr, nb::handle k) {
          const Shape shape = nb::hasattr(arr, "shape") ? dims(arr.attr("shape"), "shape") : Shape{};
          if (shape.size() != 2) value_error(fmt::format("{}_from: only 2-dimensional arrays have triangles", name));
          return triangle_indices(shape[0], shape[1], integer(k, fmt::format("{}: k", name)), lower);
        },
        "arr"_x, "k"_x = 0, doc);
}

}  // namespace

void bind_numpy_positions(nb::module_& m, ArrayClass& c) {
  m.def("where", &where_of, positional(), "x"_x = nb::none(), "y"_x = nb::none(), nb::kw_only(), "size"_x = nb::none(),
        "fill_value"_x = nb::none(), "x where the condition holds, y elsewhere; or the positions where it holds.");
  define(
      m, c, "nonzero",
      [](nb::handle a, nb::handle size, nb::handle fill_value) {
        return tuple_of(nonzero_of("nonzero", a, size, fill_value));
      },
      "a"_x, nb::kw_only(), "size"_x = nb::none(), "fill_value"_x = nb::none(),
      "The positions of the elements that are not 0, an array for each dimension.");
  m.def(
      "flatnonzero",
      [](nb::handle a, nb::handle size, nb::handle fill_value) {
        const Operand x = operand(a, "flatnonzero", "a");
        const NonzeroOptions options = nonzero_options("flatnonzero", size, fill_value);
        return counted(unlocked([&] { return flatnonzero(x, options); }));
      },
      "a"_x, nb::kw_only(), "size"_x = nb::none(), "fill_value"_x = nb::none(),
      "The positions in the flattened array of the elements that are not 0.");
  m.def("argwhere", &argwhere, "a"_x, nb::kw_only(), "size"_x = nb::none(), "fill_value"_x = nb::none(),
        "The positions of the elements that are not 0, as rows.");
  define(m, c, "take", &taken, "a"_x, "indices"_x, "axis"_x = nb::none(), "out"_x = nb::none(), "mode"_x = nb::none(),
         "unique_indices"_x = false, "indices_are_sorted"_x = false, "fill_value"_x = nb::none(),
         "The items at positions along an axis.");
  m.def("take_along_axis", &taken_along, "arr"_x, "indices"_x, "axis"_x = -1, "mode"_x = nb::none(),
        "fill_value"_x = nb::none(), nb::kw_only(), "wrap_negative_indices"_x = true,
        "Along an axis, the items at the positions of each line of its own.");
  m.def("compress", &compressed, "condition"_x, "a"_x, "axis"_x = nb::none(), "out"_x = nb::none(), nb::kw_only(),
        "size"_x = nb::none(), "fill_value"_x = 0, "The items for which a condition holds.");
  c.def(
      "compress",
      [](nb::handle self, nb::handle condition, nb::handle axis, nb::handle out, nb::handle size,
         nb::handle fill_value) { return compressed(condition, self, axis, out, size, fill_value); },
      "condition"_x, "axis"_x = nb::none(), nb::kw_only(), "out"_x = nb::none(), "size"_x = nb::none(),
      "fill_value"_x = 0, "The items for which a condition holds.");
  m.def("extract", &extracted, "condition"_x, "arr"_x, nb::kw_only(), "size"_x = nb::none(), "fill_value"_x = 0,
        "The elements for which a condition holds.");
  m.def("select", &selected, "condlist"_x, "choicelist"_x, "default"_x = 0,
        "Of each element the choice whose condition is the first that holds.");
  define(m, c, "choose", &chosen, "a"_x, "choices"_x, "out"_x = nb::none(), "mode"_x = "raise",
         "Of each element the choice with its number.");
  m.def("put", &put, "a"_x, "ind"_x, "v"_x, "mode"_x = nb::none(), nb::kw_only(), "inplace"_x = true,
        "A copy with elements of the flattened array replaced.");
  m.def("place", &placed, "arr"_x, "mask"_x, "vals"_x, nb::kw_only(), "inplace"_x = true,
        "A copy with the elements replaced for which a mask holds.");
  m.def("put_along_axis", &put_along, "arr"_x, "indices"_x, "values"_x, "axis"_x, "inplace"_x = true, nb::kw_only(),
        "mode"_x = nb::none(), "A copy with the items replaced that take_along_axis takes.");
  m.def("fill_diagonal", &fill_diagonal, "a"_x, "val"_x, "wrap"_x = false, nb::kw_only(), "inplace"_x = true,
        "A copy with another main diagonal.");
  m.def("delete", &deleted, "arr"_x, "obj"_x, "axis"_x = nb::none(), nb::kw_only(), "assume_unique_indices"_x = false,
        "Without items along an axis.");
  m.def("insert", &inserted, "arr"_x, "obj"_x, "values"_x, "axis"_x = nb::none(), "With more items along an axis.");
  m.def("packbits", &packbits, "a"_x, "axis"_x = nb::none(), "bitorder"_x = "big",
        "Eight elements as the bits of one.");
  m.def("unpackbits", &unpackbits, "a"_x, "axis"_x = nb::none(), "count"_x = nb::none(), "bitorder"_x = "big",
        "The bits of each element.");
  m.def(
      "ix_", [](nb::args args) { return tuple_of(open_mesh(args)); }, "args"_a,
      "The vectors, each along a dimension of its own.");
  m.def(
      "unravel_index", [](nb::handle indices, nb::handle shape) { return tuple_of(unraveled(indices, shape)); },
      "indices"_x, "shape"_x, "Positions in the flattened array as those in each dimension.");
  m.def("ravel_multi_index", &raveled, "multi_index"_x, "dims"_x, "mode"_x = "raise", "order"_x = "C", nb::kw_only(),
        "dtype"_x = nb::none(), "Positions in each dimension as those in the flattened array.");
  m.def(
      "diag_indices",
      [](nb::handle n, nb::handle ndim) {
        return diagonal_indices(integer(n, "diag_indices: n"), integer(ndim, "diag_indices: ndim"));
      },
      "n"_x, "ndim"_x = 2, "The positions of the main diagonal.");
  m.def(
      "diag_indices_from",
      [](nb::handle arr) {
        const Shape shape = to_array(arr, "diag_indices_from", "arr").shape();
        if (shape.size() < 2) value_error("input array must be at least 2-d");
        for (const std::int64_t extent : shape) {
          if (extent != shape[0]) value_error("All dimensions of input must be of equal length");
        }
        return diagonal_indices(shape[0], static_cast<std::int64_t>(shape.size()));
      },
      "arr"_x, "The positions of an array's main diagonal.");
  bind_triangle_indices(m, "tril_indices", true, "The positions on and below a diagonal.");
  bind_triangle_indices(m, "triu_indices", false, "The positions on and above a diagonal.");
}

}  // namespace shoal::python
