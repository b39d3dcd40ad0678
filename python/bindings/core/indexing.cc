// x[...] and x.at[...].
#include <fmt/format.h>

#include "base/caller.h"
#include "bindings/core/convert.h"
#include "bindings/core/flag.h"
#include "bindings/core/location.h"
#include "frontend/array/promotion.h"
#include "frontend/array/promotion_mode.h"
#include "frontend/array/tracer_errors.h"

namespace shoal::python {
namespace {

[[noreturn]] void index_error(const std::string& text) {
  PyErr_SetString(PyExc_IndexError, with_user_line(text).c_str());
  throw nb::python_error();
}

std::optional<std::int64_t> bound(nb::handle x) {
  if (x.is_none()) return std::nullopt;
  if (const Array* array = array_of(x); array != nullptr && array->is_tracer()) {
    index_error(
        "Array slice indices must have static start/stop/step to be used with NumPy indexing syntax: a bound is an "
        "array that is being traced. To index at a dynamic position with a static size, use lax.dynamic_slice");
  }
  return integer(x, "a slice bound");
}

IndexEntry entry_of(nb::handle x, SourceLocation where) {
  if (x.is_none()) return {newaxis, where};
  if (x.is(Py_Ellipsis)) return {ellipsis, where};
  PyObject* p = x.ptr();
  if (PySlice_Check(p)) {
    const auto* slice = reinterpret_cast<PySliceObject*>(p);
    return {Range{.start = bound(slice->start), .stop = bound(slice->stop), .step = bound(slice->step).value_or(1)},
            where};
  }
  if (const Array* array = array_of(x)) {
    if (!is_integer(array->dtype()) && array->dtype() != bool_) {
      type_error(
          fmt::format("Indexer must have integer or boolean type, got indexer with type {}", name_of(array->dtype())));
    }
    return {*array, where};
  }
  if (PyBool_Check(p)) return {full({}, Operand(p == Py_True, where)), where};
  if (PyLong_Check(p)) return {integer(x, "an index"), where};
  if (PyList_Check(p) || PyTuple_Check(p)) {
    const nb::object array = nb::module_::import_("shoal._core").attr("_array")(x);
    if (nb::len(x) != 0) return entry_of(array, where);
    return {astype({*array_of(array), where}, int32), where};
  }
  if (is_array_like(x) && !PyFloat_Check(p)) {
    const Array array = to_array(x, "indexing", "index");
    if (array.ndim() == 0 && is_integer(array.dtype()) && PyIndex_Check(p) != 0) return {integer(x, "an index"), where};
    return entry_of(nb::cast(array), where);
  }
  if (PyIndex_Check(p) != 0) return {integer(x, "an index"), where};
  type_error(fmt::format("Indexer must have integer or boolean type, got {}", type_text(x)));
}

// The number of dimensions that an entry takes.
std::int64_t taken_by(const IndexEntry& entry) {
  if (const auto* array = std::get_if<Array>(&entry.value()); array != nullptr && array->dtype() == bool_) {
    return static_cast<std::int64_t>(array->ndim());
  }
  return std::holds_alternative<NewAxis>(entry.value()) || std::holds_alternative<Ellipsis>(entry.value()) ? 0 : 1;
}

// Integers outside their dimension are positions as those of arrays are, which have modes for that.
void defer_outside(const Array& array, std::vector<IndexEntry>& entries, SourceLocation where) {
  const auto rank = static_cast<std::int64_t>(array.ndim());
  std::int64_t taken = 0;
  for (const IndexEntry& entry : entries) taken += taken_by(entry);
  std::int64_t d = 0;
  for (IndexEntry& entry : entries) {
    const auto* position = std::get_if<std::int64_t>(&entry.value());
    if (position != nullptr && d < rank) {
      const std::int64_t extent = array.shape()[static_cast<std::size_t>(d)];
      const bool is_outside = *position < -extent || *position >= extent;
      if (is_outside) entry = {full({}, Operand(*position, where), {.dtype = int64}), where};
    }
    d += std::holds_alternative<Ellipsis>(entry.value()) ? rank - taken : taken_by(entry);
  }
}

std::vector<IndexEntry> entries_of(const Array& array, nb::handle index) {
  const SourceLocation where = user_line();
  std::vector<IndexEntry> entries;
  if (PyTuple_Check(index.ptr())) {
    for (nb::handle item : index) entries.push_back(entry_of(item, where));
  } else if (PyList_Check(index.ptr())) {
    type_error(
        fmt::format("Using a non-tuple sequence for multidimensional indexing is not allowed; use "
                    "`arr[array(seq)]` instead of `arr[seq]`; got {}",
                    nb::cast<std::string>(nb::repr(index))));
  } else {
    entries.push_back(entry_of(index, where));
  }
  defer_outside(array, entries, where);
  return entries;
}

// Runs f, in which a mask that is being traced has a class of errors of its own.
template <class F>
auto with_masks(F&& f) {
  try {
    return unlocked(f);
  } catch (const ValueOfTracer& e) {
    const nb::object error = nb::module_::import_("shoal._core").attr("NonConcreteBooleanIndexError");
    PyErr_SetString(error.ptr(), e.what());
    throw nb::python_error();
  }
}

// The values of an update: arrays, numbers, or lists of numbers. What the array's dtype does not hold is converted all
// the same, with JAX's warning.
Operand update_values(const Array& array, nb::handle values, const char* function) {
  const nb::object made = PyList_Check(values.ptr()) || PyTuple_Check(values.ptr())
                              ? nb::module_::import_("shoal._core").attr("_array")(values)
                              : nb::borrow(values);
  const Operand given = operand(made, function, "values");
  const Caller caller(function, given.where());
  const DtypeAndWeakness type = element_of(given);
  const DtypeAndWeakness own{array.dtype(), array.weak_type()};
  if (promoted_types(own, type).dtype == own.dtype) return given;
  const std::string text = fmt::format(
      "{}: scatter inputs have incompatible types: cannot safely cast value from dtype={} to dtype={}. In future "
      "releases this will result in an error.",
      function, name_of(type.dtype), name_of(own.dtype));
  if (PyErr_WarnEx(PyExc_FutureWarning, text.c_str(), 1) != 0) throw nb::python_error();
  return {astype(given, own.dtype), given.where()};
}

// x.at and x.at[index].
struct At {
  Array array;
};
struct IndexRef {
  Array array;
  std::vector<IndexEntry> index;
  IndexUpdate update() const { return array.at(index, user_line()); }
};

UpdateOptions update_options(nb::handle mode, nb::handle sharding, bool wraps) {
  return {.mode = index_mode(mode, IndexMode::kDrop),
          .out_sharding = out_sharding(sharding),
          .wrap_negative_indices = wraps};
}

template <class F>
void bind_update(nb::class_<IndexRef>& c, const char* name, F f, const char* doc) {
  c.def(
      name,
      [f, name](const IndexRef& ref, nb::handle values, nb::handle, nb::handle, nb::handle mode, nb::handle sharding,
                Flag wraps) {
        const Operand operand_values = update_values(ref.array, values, name);
        const UpdateOptions options = update_options(mode, sharding, wraps);
        const IndexUpdate update = ref.update();
        return with_masks([&] { return (update.*f)(operand_values, options); });
      },
      "values"_a, nb::kw_only(), "indices_are_sorted"_a = false, "unique_indices"_a = false, "mode"_a = nb::none(),
      "out_sharding"_a = nb::none(), "wrap_negative_indices"_a = Flag(true), doc);
}

}  // namespace

void bind_indexing(nb::module_& m) {
  nb::class_<IndexRef> ref(m, "_IndexUpdateRef", "Part of an array, to be read or replaced in a copy.");
  bind_update(ref, "set", &IndexUpdate::set, "The array with the part replaced.");
  bind_update(ref, "add", &IndexUpdate::add, "The array with values added to the part.");
  bind_update(ref, "subtract", &IndexUpdate::subtract, "The array with values subtracted from the part.");
  bind_update(ref, "multiply", &IndexUpdate::multiply, "The array with the part multiplied.");
  bind_update(ref, "mul", &IndexUpdate::multiply, "The array with the part multiplied.");
  bind_update(ref, "divide", &IndexUpdate::divide, "The array with the part divided.");
  bind_update(ref, "power", &IndexUpdate::power, "The array with the part raised to a power.");
  bind_update(ref, "min", &IndexUpdate::min, "The array with the lesser of part and values.");
  bind_update(ref, "max", &IndexUpdate::max, "The array with the greater of part and values.");
  ref.def(
         "get",
         [](const IndexRef& self, nb::handle, nb::handle, nb::handle mode, nb::handle fill_value, nb::handle sharding,
            Flag wraps) {
           const GetOptions options{.mode = index_mode(mode, IndexMode::kClip),
                                    .fill_value = maybe_operand(fill_value, "get", "fill_value"),
                                    .out_sharding = out_sharding(sharding),
                                    .wrap_negative_indices = wraps};
           const IndexUpdate update = self.update();
           return with_masks([&] { return update.get(options); });
         },
         nb::kw_only(), "indices_are_sorted"_a = false, "unique_indices"_a = false, "mode"_a = nb::none(),
         "fill_value"_a = nb::none(), "out_sharding"_a = nb::none(), "wrap_negative_indices"_a = Flag(true),
         "The part.")
      .def(
          "apply",
          [](const IndexRef& self, nb::callable f, nb::handle, nb::handle, nb::handle mode, nb::handle sharding,
             Flag wraps) {
            const auto apply = [&](const Array& part) {
              const nb::object result = f(part);
              return to_array(result, "at[...].apply", "the result of func");
            };
            return self.update().apply(apply, update_options(mode, sharding, wraps));
          },
          "func"_a, nb::kw_only(), "indices_are_sorted"_a = false, "unique_indices"_a = false, "mode"_a = nb::none(),
          "out_sharding"_a = nb::none(), "wrap_negative_indices"_a = Flag(true),
          "The array with func applied to the part.");

  nb::class_<At>(m, "_IndexUpdateHelper")
      .def(
          "__getitem__",
          [](const At& at, nb::handle index) {
            return IndexRef{at.array, entries_of(at.array, index)};
          },
          "index"_a.none());

  auto array = nb::borrow<nb::class_<Array>>(nb::type<Array>());
  array.def_prop_ro(
      "at", [](const Array& a) { return At{a}; }, "x.at[index].set(values) and the like: a changed copy.");
  array.def(
      "__getitem__",
      [](const Array& a, nb::handle index) {
        const std::vector<IndexEntry> entries = entries_of(a, index);
        const IndexUpdate part = a.at(entries, user_line());
        return with_masks([&] { return part.get(); });
      },
      "index"_a.none());
  array.def("__setitem__", [](const Array&, nb::handle, nb::handle) {
    type_error(
        "JAX arrays are immutable and do not support in-place item assignment. Instead of x[idx] = y, use "
        "x = x.at[idx].set(y)");
  });
}

}  // namespace shoal::python
