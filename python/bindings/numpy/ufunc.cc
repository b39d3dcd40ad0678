// Functions of NumPy that have reduce, accumulate, at, outer and reduceat.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "bindings/numpy/numpy.h"

namespace shoal::python {
namespace {

// How a function of two arrays is reduced.
enum class Folding : std::uint8_t {
  kOwn,          // By functions of their own: sum and cumsum are those of add.
  kAssociative,  // In any order.
  kOrdered,      // From the first element to the last, one by one.
};

struct Ufunc {
  std::string name;
  nb::object function;  // Takes arrays of any shapes that broadcast.
  int nin;
  int nout;
  nb::object identity;  // None if there is none.
  Folding folding = Folding::kOrdered;
  nb::object reduce;        // Of kOwn: as jnp.sum.
  nb::object accumulate;    // Of kOwn: as jnp.cumsum.
  std::string update = {};  // The method of x.at[index], if there is one.
  bool is_users = false;    // Made by frompyfunc.
};

// ---- Calls.

nb::object called(nb::handle function, nb::handle args) {
  PyObject* result = PyObject_Call(function.ptr(), args.ptr(), nullptr);
  if (result == nullptr) rethrow_python_error();
  return nb::steal(result);
}

// A function of the user computes elements of their own from elements.
nb::object of_elements(const Ufunc& f, nb::handle args) {
  std::vector<Operand> given;
  for (nb::handle x : args) given.push_back(operand(x, f.name, "x"));
  const std::vector<Array> arrays = broadcast_arrays({given, user_line()});
  nb::list list;
  for (const Array& x : arrays) list.append(nb::cast(x));
  const nb::object result = called(f.function, nb::tuple(list));
  const auto check = [&](nb::handle part) {
    const Array array = to_array(part, f.name, "result");
    if (arrays.empty() || array.shape() == arrays[0].shape()) return array;
    if (array.ndim() == 0) return broadcast_to({array, user_line()}, arrays[0].shape());
    type_error(
        fmt::format("{}: the function gives {} for elements of shape {}; it must compute each from those at its "
                    "place",
                    f.name, type_of(array), to_string(arrays[0].shape())));
  };
  if (f.nout == 1) return nb::cast(check(result));
  if (!PyTuple_Check(result.ptr()) || PyTuple_GET_SIZE(result.ptr()) != f.nout) {
    type_error(
        fmt::format("{}: the function must return a tuple of {} arrays, got {}", f.name, f.nout, type_text(result)));
  }
  nb::list parts;
  for (nb::handle part : result) parts.append(nb::cast(check(part)));
  return nb::tuple(parts);
}

nb::object call(const Ufunc& f, nb::handle args) {
  return f.is_users ? of_elements(f, args) : called(f.function, args);
}

// f of two arrays, which must be an array.
Array combined(const Ufunc& f, const Array& x, const Array& y) {
  return to_array(call(f, nb::make_tuple(x, y)), f.name, "result");
}

PyObject* call_slot(PyObject* self, PyObject* args, PyObject* kwargs) noexcept {
  try {
    const Ufunc& f = *nb::inst_ptr<Ufunc>(self);
    if (kwargs != nullptr) {
      for (const auto& [key, value] : nb::borrow<nb::dict>(kwargs)) {
        const auto name = nb::cast<std::string>(key);
        if (name != "out" && name != "where") {
          type_error(fmt::format("ufunc.__call__() got an unexpected keyword argument '{}'", name));
        }
        if (!value.is_none()) not_implemented(fmt::format("{} argument of <jnp.ufunc '{}'>", name, f.name));
      }
    }
    const auto count = PyTuple_GET_SIZE(args);
    if (count < f.nin) {
      type_error(fmt::format("{}() takes {} arrays, but {} are given", f.name, f.nin, count));
    }
    if (count > f.nin) {
      type_error(fmt::format("{}() takes {} positional arguments but {} were given", f.name, f.nin, count));
    }
    return call(f, args).release().ptr();
  } catch (...) {
    raise_current();
  }
  return nullptr;
}

int traverse_slot(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (PyObject** attributes = _PyObject_GetDictPtr(self)) Py_VISIT(*attributes);
  if (!nb::inst_ready(self)) return 0;
  Py_VISIT(nb::inst_ptr<Ufunc>(self)->function.ptr());
  return 0;
}
int clear_slot(PyObject* self) {
  if (PyObject** attributes = _PyObject_GetDictPtr(self)) Py_CLEAR(*attributes);
  if (nb::inst_ready(self)) nb::inst_ptr<Ufunc>(self)->function.reset();
  return 0;
}

void check_binary(const Ufunc& f, const char* method) {
  if (f.nin != 2) value_error(fmt::format("{} only supported for binary ufuncs", method));
  if (f.nout != 1) value_error(fmt::format("{} only supported for functions returning a single value", method));
}

// ---- Reductions.

// A slice of extent 1 along the first dimension, or without that dimension.
Array row_of(const Array& x, std::int64_t i, SourceLocation where) {
  return squeeze({lax::slice_in_dim({x, where}, i, i + 1), where}, Axes(0));
}

std::int64_t first_extent(const Array& x) { return x.shape()[0]; }

Array joined(const std::vector<Array>& arrays, SourceLocation where) {
  return concatenate(Operands(std::vector<Operand>(arrays.begin(), arrays.end()), where));
}

// The reduction of x along its first dimension, one by one: before each step and after the last.
std::vector<Array> steps_of(const Ufunc& f, const Array& x, std::optional<Array> value,
                            const std::optional<Array>& holds, SourceLocation where) {
  std::vector<Array> steps;
  for (std::int64_t i = 0; i < first_extent(x); ++i) {
    const Array row = row_of(x, i, where);
    Array next = value ? combined(f, *value, row) : row;
    if (holds) next = shoal::where({row_of(*holds, i, where), where}, {next, where}, {*value, where});
    steps.push_back(next);
    value = next;
  }
  if (steps.empty()) steps.push_back(*value);
  return steps;
}

std::optional<Array> identity_of(const Ufunc& f, Dtype dtype) {
  if (f.identity.is_none()) return std::nullopt;
  return astype(operand(f.identity, f.name, "identity"), dtype);
}

// x in the dtype of f's results.
Array in_result_dtype(const Ufunc& f, const Array& x, SourceLocation where) {
  if (f.folding != Folding::kAssociative) return x;
  const Array none = zeros({0}, {.dtype = x.dtype()}, where);
  return astype({x, where}, combined(f, none, none).dtype());
}

nb::object reduce(const Ufunc& f, nb::handle a, nb::handle axis, nb::handle dtype, nb::handle out, Flag keepdims,
                  nb::handle initial, nb::handle where_) {
  check_binary(f, "reduce");
  if (!out.is_none()) not_implemented(fmt::format("out argument of {}.reduce()", f.name));
  const SourceLocation where = user_line();
  Array x = to_array(a, f.name + ".reduce", "a");
  const std::optional<Dtype> wanted = maybe_dtype(dtype);
  if (f.folding == Folding::kOwn) {
    nb::dict options;
    options["axis"] = axis;
    options["keepdims"] = keepdims.value;
    options["where"] = where_;
    // all and any have neither an initial value nor a dtype, and max has no dtype.
    const bool is_truth = !f.identity.is_none() && PyBool_Check(f.identity.ptr());
    if (!is_truth) options["initial"] = initial;
    if (wanted && (is_truth || f.identity.is_none())) x = astype({x, where}, *wanted);
    if (wanted && !is_truth && !f.identity.is_none()) options["dtype"] = dtype;
    nb::object result = f.reduce(x, **options);
    if (is_truth && !initial.is_none()) result = call(f, nb::make_tuple(result, nb::borrow(initial)));
    return result;
  }
  if (wanted) x = astype({x, where}, *wanted);
  x = in_result_dtype(f, x, where);
  std::optional<Array> first = maybe_array(initial, f.name, "initial");
  if (!where_.is_none() && !first && f.identity.is_none()) {
    value_error(
        fmt::format("reduction operation '{}' does not have an identity, so to use a where mask one has to "
                    "specify 'initial'.",
                    f.name));
  }
  // The reduced dimensions become the first one.
  const Dims dims = called_as(f.name + ".reduce", where, [&] { return canonical_axes(axes(axis), x.ndim()); });
  if (dims.size() > 1 && f.folding == Folding::kOrdered && !axis.is_none()) not_implemented("tuple of axes");
  Shape kept = x.shape();
  std::int64_t extent = 1;
  Dims front;
  for (const std::int64_t d : dims) {
    front.push_back(static_cast<std::int64_t>(front.size()));
    extent *= kept[static_cast<std::size_t>(d)];
    kept[static_cast<std::size_t>(d)] = keepdims ? 1 : -1;
  }
  kept.erase(std::remove(kept.begin(), kept.end(), -1), kept.end());
  const auto flattened = [&](const Array& given) {
    const Array moved = moveaxis({given, where}, dims, front);
    Shape shape(moved.shape().begin() + static_cast<std::ptrdiff_t>(dims.size()), moved.shape().end());
    shape.insert(shape.begin(), extent);
    return reshape({moved, where}, shape);
  };
  std::optional<Array> holds;
  if (!where_.is_none()) {
    holds = flattened(broadcast_to(operand(where_, f.name, "where"), x.shape()));
  }
  x = flattened(x);
  if (!first && (extent == 0 || holds)) {
    first = identity_of(f, x.dtype());
    if (!first) {
      value_error(fmt::format("zero-size array to reduction operation {} which has no identity", f.name));
    }
  }
  Array result;
  if (f.folding == Folding::kAssociative) {
    const Array identity = *identity_of(f, x.dtype());
    if (holds) x = shoal::where({astype({*holds, where}, bool_), where}, {x, where}, {identity, where});
    const nb::object lax_reduce = nb::module_::import_("shoal._core").attr("lax").attr("reduce");
    result = nb::cast<Array>(lax_reduce(x, identity, nb::find(f), nb::make_tuple(0)));
    if (first) result = combined(f, *first, result);
  } else {
    Shape item(x.shape().begin() + 1, x.shape().end());
    if (first) first = broadcast_to({*first, where}, item);
    result = steps_of(f, x, first, holds, where).back();
  }
  return nb::cast(reshape({result, where}, kept));
}

// In log2(n) steps: of each element and those up to 1, 2, 4, … places before it.
Array doubled(const Ufunc& f, Array x, SourceLocation where) {
  const std::int64_t extent = first_extent(x);
  for (std::int64_t span = 1; span < extent; span *= 2) {
    const Array begin = lax::slice_in_dim({x, where}, 0, span);
    const Array earlier = lax::slice_in_dim({x, where}, 0, extent - span);
    const Array later = lax::slice_in_dim({x, where}, span, extent);
    x = joined({begin, combined(f, earlier, later)}, where);
  }
  return x;
}

nb::object accumulate(const Ufunc& f, nb::handle a, nb::handle axis, nb::handle dtype, nb::handle out) {
  check_binary(f, "accumulate");
  if (!out.is_none()) not_implemented(fmt::format("out argument of {}.accumulate()", f.name));
  const SourceLocation where = user_line();
  Array x = to_array(a, f.name + ".accumulate", "a");
  if (const std::optional<Dtype> wanted = maybe_dtype(dtype)) x = astype({x, where}, *wanted);
  const std::int64_t d =
      called_as(f.name + ".accumulate", where, [&] { return canonical_axis(integer(axis, "axis"), x.ndim()); });
  if (f.accumulate.is_valid() && !f.accumulate.is_none()) return f.accumulate(x, d);
  x = moveaxis({x, where}, d, 0);
  if (first_extent(x) > 0 && f.folding == Folding::kOrdered) {
    std::vector<Array> steps = steps_of(f, x, std::nullopt, std::nullopt, where);
    x = stack(Operands(std::vector<Operand>(steps.begin(), steps.end()), where));
  } else {
    Ufunc any_order = f;
    any_order.folding = Folding::kAssociative;
    x = doubled(f, in_result_dtype(any_order, x, where), where);
  }
  return nb::cast(moveaxis({x, where}, 0, d));
}

// ---- Parts of arrays.

nb::object outer(const Ufunc& f, nb::handle a, nb::handle b) {
  check_binary(f, "outer");
  const SourceLocation where = user_line();
  const Array x = to_array(a, f.name + ".outer", "A");
  const Array y = to_array(b, f.name + ".outer", "B");
  Shape shape = x.shape();
  shape.resize(x.ndim() + y.ndim(), 1);
  return nb::cast(combined(f, reshape({x, where}, shape), y));
}

nb::object at(const Ufunc& f, nb::handle a, nb::handle indices, nb::handle b, Flag inplace) {
  if (inplace) {
    not_implemented(
        "Because JAX arrays are immutable, jnp.ufunc.at() cannot operate inplace like np.ufunc.at(). Instead, you can "
        "pass inplace=False and capture the result; e.g. arr = jnp.add.at(arr, ind, val, inplace=False)");
  }
  if (f.nin > 2 || f.nout != 1) {
    value_error(fmt::format("{}.at: only functions of one or two arrays that return one have it", f.name));
  }
  if (b.is_none() != (f.nin == 1)) {
    type_error(fmt::format("{}.at() takes {} arrays and the indices, but {} given", f.name, f.nin,
                           b.is_none() ? "one is" : "two are"));
  }
  const SourceLocation where = user_line();
  const Array x = to_array(a, f.name + ".at", "a");
  const nb::object array = nb::cast(x);
  if (!f.update.empty()) return array.attr("at")[indices].attr(f.update.c_str())(b);
  // Where the items stand in the flattened array, one after the other: an item may be named more than once.
  const std::int64_t size = x.size();
  const Array numbers = reshape({arange(Operand(size, where)), where}, x.shape());
  const nb::object places = nb::cast(numbers).attr("at")[indices].attr("get")("mode"_a = "fill", "fill_value"_a = size);
  const Array chosen = nb::cast<Array>(places);
  const Array flat_places = ravel({chosen, where});
  std::optional<Array> values;
  if (f.nin == 2) values = ravel({broadcast_to(operand(b, f.name + ".at", "b"), chosen.shape()), where});
  nb::object flat = nb::cast(ravel({x, where}));
  for (std::int64_t i = 0; i < flat_places.size(); ++i) {
    const nb::object place = nb::cast(row_of(flat_places, i, where));
    const nb::object item = flat[place];
    const nb::tuple args = values ? nb::make_tuple(item, row_of(*values, i, where)) : nb::make_tuple(item);
    flat = flat.attr("at")[place].attr("set")(call(f, args));
  }
  return flat.attr("reshape")(to_tuple(x.shape()));
}

nb::object reduceat(const Ufunc& f, nb::handle a, nb::handle indices, nb::handle axis, nb::handle dtype,
                    nb::handle out) {
  check_binary(f, "reduceat");
  if (!out.is_none()) not_implemented(fmt::format("out argument of {}.reduceat()", f.name));
  const SourceLocation where = user_line();
  const std::string name = f.name + ".reduceat";
  Array x = to_array(a, name, "a");
  const Array begins = to_array(indices, name, "indices");
  if (x.ndim() == 0) value_error(fmt::format("{}: a must have at least one dimension", name));
  if (begins.ndim() != 1) {
    value_error(
        fmt::format("reduceat: indices must be one-dimensional, got indices.shape={}", to_string(begins.shape())));
  }
  if (!is_integer(begins.dtype())) {
    type_error(fmt::format("reduceat: indices must be integers, got {}", type_of(begins)));
  }
  if (const std::optional<Dtype> wanted = maybe_dtype(dtype)) x = astype({x, where}, *wanted);
  const std::int64_t d = called_as(name, where, [&] { return canonical_axis(integer(axis, "axis"), x.ndim()); });
  x = moveaxis({x, where}, d, 0);
  const std::int64_t extent = first_extent(x);
  const std::int64_t count = begins.size();
  Shape shape(x.ndim(), 1);
  shape[0] = count;
  const Array last = full({1}, {extent, where}, {.dtype = begins.dtype()});
  const Array later = count == 0 ? begins : joined({lax::slice_in_dim({begins, where}, 1, count), last}, where);
  const Operand first(reshape({begins, where}, shape), where);
  const Operand end(reshape({later, where}, shape), where);
  // Item by item, for all ranges at once. A range that does not ascend is its first item.
  Array result = take({x, where}, {begins, where}, {.axis = 0});
  for (std::int64_t i = 0; i < extent; ++i) {
    const Operand place(i, where);
    const Operand begun(less(first, place), where);
    const Operand inside(bitwise_and(begun, {greater(end, place), where}), where);
    const Array row = broadcast_to({lax::slice_in_dim({x, where}, i, i + 1), where}, result.shape());
    const Operand next(combined(f, result, row), where);
    result = shoal::where(inside, next, {result, where});
  }
  return nb::cast(moveaxis({result, where}, 0, d));
}

// ---- What there is.

nb::object signature(const char* text) {
  // As functools and editors ask for it; nanobind's own would have the type of self.
  nb::dict names;
  const std::string code = fmt::format("lambda {}: None", text);
  PyObject* made = PyRun_String(code.c_str(), Py_eval_input, names.ptr(), names.ptr());
  if (made == nullptr) throw nb::python_error();
  const nb::object function = nb::steal(made);
  return nb::module_::import_("inspect").attr("signature")(function);
}

// The class has these attributes itself, so that each object needs its own.
void name_as(nb::handle made, nb::object name, nb::object doc) {
  made.attr("__name__") = name;
  made.attr("__qualname__") = name;
  made.attr("__doc__") = doc;
  made.attr("__module__") = "shoal.numpy";
}

struct Row {
  const char* name;
  Folding folding;
  const char* reduce;      // Functions of shoal.numpy, or of shoal.lax after a point.
  const char* accumulate;  // The same.
  const char* update;
};
constexpr std::array<Row, 14> kRows = {{
    {"add", Folding::kOwn, "sum", "cumsum", "add"},
    {"bitwise_and", Folding::kAssociative, nullptr, nullptr, ""},
    {"bitwise_or", Folding::kAssociative, nullptr, nullptr, ""},
    {"bitwise_xor", Folding::kAssociative, nullptr, nullptr, ""},
    {"logaddexp", Folding::kAssociative, nullptr, nullptr, ""},
    {"logaddexp2", Folding::kAssociative, nullptr, nullptr, ""},
    {"logical_and", Folding::kOwn, "all", nullptr, ""},
    {"logical_or", Folding::kOwn, "any", nullptr, ""},
    {"logical_xor", Folding::kAssociative, nullptr, nullptr, ""},
    {"maximum", Folding::kOwn, "max", ".cummax", "max"},
    {"minimum", Folding::kOwn, "min", ".cummin", "min"},
    {"multiply", Folding::kOwn, "prod", "cumprod", "multiply"},
    {"negative", Folding::kOrdered, nullptr, nullptr, ""},
    {"subtract", Folding::kOrdered, nullptr, nullptr, "subtract"},
}};

nb::object identity(std::string_view name) {
  if (name == "add" || name == "bitwise_or" || name == "bitwise_xor") return nb::int_(0);
  if (name == "multiply") return nb::int_(1);
  if (name == "bitwise_and") return nb::int_(-1);
  if (name == "logical_and") return nb::bool_(true);
  if (name == "logical_or" || name == "logical_xor") return nb::bool_(false);
  if (name == "logaddexp" || name == "logaddexp2") return nb::float_(-std::numeric_limits<double>::infinity());
  return nb::none();
}

}  // namespace

void bind_ufuncs(nb::module_& m, nb::module_& lax) {
  static PyType_Slot slots[] = {{Py_tp_call, reinterpret_cast<void*>(call_slot)},
                                {Py_tp_traverse, reinterpret_cast<void*>(traverse_slot)},
                                {Py_tp_clear, reinterpret_cast<void*>(clear_slot)},
                                {0, nullptr}};
  nb::class_<Ufunc> c(m, "ufunc", nb::type_slots(slots), nb::dynamic_attr(),
                      "A function of elements that can also reduce arrays.");
  c.def_prop_ro("nin", [](const Ufunc& f) { return f.nin; })
      .def_prop_ro("nout", [](const Ufunc& f) { return f.nout; })
      .def_prop_ro("nargs", [](const Ufunc& f) { return f.nin; })
      .def_prop_ro("identity", [](const Ufunc& f) { return f.identity; })
      .def_prop_ro("__signature__", [](const Ufunc&) { return signature("*args, out=None, where=None"); })
      .def("__reduce__", [](const Ufunc& f) { return f.name; })
      .def("__repr__", [](const Ufunc& f) { return fmt::format("<jnp.ufunc '{}'>", f.name); })
      .def("reduce", &reduce, "a"_x, "axis"_x = 0, "dtype"_x = nb::none(), "out"_x = nb::none(), "keepdims"_x = false,
           "initial"_x = nb::none(), "where"_x = nb::none(), "The elements along dimensions combined to one.")
      .def("accumulate", &accumulate, "a"_x, "axis"_x = 0, "dtype"_x = nb::none(), "out"_x = nb::none(),
           "What the elements up to each are combined to.")
      .def("at", &at, positional(), positional(), nb::arg().none() = nb::none(), nb::kw_only(), "inplace"_x = true,
           "The array with the function applied to items, once for each time that an item is named.")
      .def("outer", &outer, positional(), positional(), "The function of all pairs of elements of two arrays.")
      .def("reduceat", &reduceat, "a"_x, "indices"_x, "axis"_x = 0, "dtype"_x = nb::none(), "out"_x = nb::none(),
           "The elements from each index to the next one combined.");
  for (const Row& row : kRows) {
    const nb::object function = m.attr(row.name);
    const auto find = [&](const char* name) -> nb::object {
      if (name == nullptr) return nb::none();
      return name[0] == '.' ? lax.attr(name + 1) : m.attr(name);
    };
    nb::object made = nb::cast(Ufunc{.name = row.name,
                                     .function = function,
                                     .nin = std::string_view(row.name) == "negative" ? 1 : 2,
                                     .nout = 1,
                                     .identity = identity(row.name),
                                     .folding = row.folding,
                                     .reduce = find(row.reduce),
                                     .accumulate = find(row.accumulate),
                                     .update = row.update});
    name_as(made, nb::str(row.name), function.attr("__doc__"));
    m.attr(row.name) = made;
  }
  m.def(
      "frompyfunc",
      [](nb::handle func, nb::handle nin, nb::handle nout, nb::handle identity) {
        if (PyCallable_Check(func.ptr()) == 0) {
          type_error(fmt::format("frompyfunc: func must be a function, got {}", type_text(func)));
        }
        const std::int64_t inputs = integer(nin, "frompyfunc: nin");
        const std::int64_t outputs = integer(nout, "frompyfunc: nout");
        if (inputs < 1 || outputs < 1) {
          value_error(fmt::format("frompyfunc: nin and nout must be at least 1, got {} and {}", inputs, outputs));
        }
        const nb::object name = nb::getattr(func, "__name__", nb::str("function"));
        nb::object made = nb::cast(Ufunc{.name = nb::cast<std::string>(name),
                                         .function = nb::borrow(func),
                                         .nin = static_cast<int>(inputs),
                                         .nout = static_cast<int>(outputs),
                                         .identity = nb::borrow(identity),
                                         .reduce = {},
                                         .accumulate = {},
                                         .is_users = true});
        name_as(made, name, nb::getattr(func, "__doc__", nb::none()));
        return made;
      },
      positional(), "nin"_x, "nout"_x, nb::kw_only(), "identity"_x = nb::none(),
      "A function of elements, made of one in Python, which is called with whole arrays and must compute each element "
      "from those at its place.");
}

}  // namespace shoal::python
