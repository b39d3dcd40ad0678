// Arrays from numbers, lists and whatever else can become one, and as arrays and lists of NumPy and Python.
#include <fmt/format.h>

#include <cstring>

#include "base/caller.h"
#include "bindings/core/memory.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/default_put.h"
#include "frontend/array/promotion.h"
#include "frontend/array/trace.h"
#include "ops/rules.h"
#include "shoal/explicit_axes.h"
#include "shoal/random.h"

namespace shoal::python {
namespace {

// ---- Nested lists.

// What a nested list is made of.
struct Nested {
  Shape shape;
  std::vector<nb::handle> leaves;
  bool has_arrays = false;
};

[[noreturn]] void refuse_object(nb::handle x) {
  if (x.is_none()) value_error("None is not a valid value for jnp.array");
  type_error(
      fmt::format("Value '{}' with dtype object is not a valid JAX array type. Only arrays of numeric types are "
                  "supported by JAX.",
                  nb::cast<std::string>(nb::repr(x))));
}

void flatten(nb::handle x, std::size_t depth, Nested& nested) {
  PyObject* p = x.ptr();
  if (PyList_Check(p) || PyTuple_Check(p)) {
    const auto length = static_cast<std::int64_t>(nb::len(x));
    if (depth == nested.shape.size() && nested.leaves.empty()) {
      nested.shape.push_back(length);
    } else if (depth >= nested.shape.size() || nested.shape[depth] != length) {
      value_error(
          "setting an array element with a sequence. The requested array has an inhomogeneous shape: lists at "
          "one depth differ in length");
    }
    for (nb::handle item : x) flatten(item, depth + 1, nested);
    return;
  }
  if (depth < nested.shape.size() && (array_of(x) != nullptr || (is_of_numpy(x) && nb::hasattr(x, "__len__")))) {
    nested.has_arrays = true;  // A row that is an array among rows that are lists.
    return;
  }
  if (depth != nested.shape.size()) {
    value_error(
        "setting an array element with a sequence. The requested array has an inhomogeneous shape: numbers and "
        "lists stand side by side");
  }
  if (array_of(x) != nullptr || (!PyLong_Check(p) && !PyFloat_Check(p) && !PyComplex_Check(p))) {
    if (!is_array_like(x)) refuse_object(x);
    nested.has_arrays = true;
  }
  nested.leaves.push_back(x);
}

// A number of Python, whose value may be wider than any dtype.
bool is_number(nb::handle x) {
  return PyLong_CheckExact(x.ptr()) || PyFloat_CheckExact(x.ptr()) || PyComplex_CheckExact(x.ptr());
}

// The array of a list in which there are arrays: they are stacked.
Array stacked(nb::handle x) {
  if (!PyList_Check(x.ptr()) && !PyTuple_Check(x.ptr())) {
    // In a list Python's numbers are arrays like others.
    return to_array(x, "array", "object");
  }
  std::vector<Operand> rows;
  const SourceLocation where = user_line();
  for (nb::handle item : x) rows.emplace_back(stacked(item), where);
  return unlocked([&] { return stack({rows, where}); });
}

Array from_list(nb::handle x, std::optional<Dtype> wanted) {
  const SourceLocation where = user_line();
  Nested nested;
  flatten(x, 0, nested);
  if (nested.has_arrays) {
    const Array array = stacked(x);
    const Caller caller("array", where);
    return convert(array, wanted.value_or(array.dtype()));
  }
  Dtype dtype = default_float();
  if (!nested.leaves.empty()) {
    bool any_int = false;
    bool any_float = false;
    bool any_complex = false;
    for (nb::handle leaf : nested.leaves) {
      if (PyBool_Check(leaf.ptr())) continue;
      any_int |= PyLong_Check(leaf.ptr()) != 0;
      any_float |= PyFloat_Check(leaf.ptr()) != 0;
      any_complex |= PyComplex_Check(leaf.ptr()) != 0;
    }
    dtype = any_complex ? default_complex() : any_float ? default_float() : any_int ? default_int() : bool_;
  }
  const Dtype into = wanted.value_or(dtype);
  if (is_complex(dtype) && !is_complex(into))
    type_error(fmt::format("array: {} cannot hold complex numbers", name_of(into)));
  std::vector<std::byte> bytes(nested.leaves.size() * size_of(into));
  std::byte* out = bytes.data();
  for (nb::handle leaf : nested.leaves) {
    PyObject* p = leaf.ptr();
    Operand::Number number;
    if (PyBool_Check(p)) {
      number = p == Py_True;
    } else if (is_integer(into) && (PyLong_Check(p) || PyFloat_Check(p))) {
      // Infinity and NaN are no integers.
      const nb::object whole = nb::steal(PyNumber_Long(p));
      if (!whole.is_valid()) throw nb::python_error();
      if (into == uint64) {
        number = static_cast<std::uint64_t>(PyLong_AsUnsignedLongLong(whole.ptr()));
        if (PyErr_Occurred() != nullptr) throw nb::python_error();
      } else {
        number = integer(whole, "array: an element");
      }
    } else if (PyLong_Check(p) || PyFloat_Check(p)) {
      number = PyFloat_AsDouble(p);
      if (PyErr_Occurred() != nullptr) throw nb::python_error();
    } else {
      number = std::complex<double>(PyComplex_RealAsDouble(p), PyComplex_ImagAsDouble(p));
    }
    const bool is_held = std::visit(
        [&](auto value) {
          constexpr bool is_integer = std::is_integral_v<decltype(value)> && !std::is_same_v<decltype(value), bool>;
          if constexpr (is_integer) return holds(into, value);
          return true;
        },
        number);
    if (!is_held) {
      PyErr_SetString(PyExc_OverflowError, fmt::format("array: the integer {} does not fit dtype {}",
                                                       nb::cast<std::string>(nb::str(leaf)), name_of(into))
                                               .c_str());
      throw nb::python_error();
    }
    const Scalar element = called_as("array", where, [&] { return to_scalar(number, into); });
    std::memcpy(out, element.bytes.data(), size_of(into));
    out += size_of(into);
  }
  return unlocked([&] { return detail::array_from_host(into, nested.shape, bytes.data(), {}, where); });
}

}  // namespace

Array array_of_any(nb::handle object, std::optional<Dtype> wanted, Sharing sharing) {
  const SourceLocation where = user_line();
  nb::object source = nb::borrow(object);
  if (array_of(source) == nullptr && nb::hasattr(source, "__jax_array__")) source = source.attr("__jax_array__")();
  Array array;
  if (const Array* given = array_of(source)) {
    if (wanted && given->dtype() != *wanted) return astype({*given, where}, *wanted);
    const bool copies = sharing == Sharing::kNever && Trace::current() == nullptr && !given->is_tracer();
    return copies ? unlocked([&] { return given->copy(where); }) : *given;
  }
  if (PyList_Check(source.ptr()) || PyTuple_Check(source.ptr()) || (wanted && is_number(source))) {
    return from_list(source, wanted);
  }
  if (sharing == Sharing::kNever && is_masked(source)) source = source.attr("data");  // As numpy.array has it.
  if (is_of_numpy(source)) {
    array = from_numpy(source, "array", where, sharing);
  } else if (is_array_like(source)) {
    array = to_array(source, "array", "object");
  } else if (PyObject_CheckBuffer(source.ptr()) != 0 || nb::hasattr(source, "__array__")) {
    array = from_numpy(source, "array", where, sharing);
  } else if (nb::hasattr(source, "__dlpack__")) {
    array = from_dlpack(source, where, sharing);
  } else if (PySequence_Check(source.ptr()) != 0) {
    return from_list(nb::list(source), wanted);
  } else {
    refuse_object(source);
  }
  return wanted && (array.dtype() != *wanted || array.weak_type()) ? astype({array, where}, *wanted) : array;
}

void bind_host(nb::module_& m) {
  auto c = nb::borrow<nb::class_<Array>>(nb::type<Array>());
  c.def(
      "__array__",
      [](const Array& a, nb::handle dtype_wanted, nb::handle copy) -> nb::object {
        const SourceLocation where = user_line();
        raise_interrupt(a);
        if (detail::impl_of(a).abstract != nullptr) {
          const Trace* trace = detail::impl_of(a).trace();
          if (trace == nullptr || trace->kind() != Trace::Kind::kEager || trace->finished()) {
            nb::module_::import_("shoal._core")
                .attr("_needs_value")(a, nb::module_::import_("shoal._core").attr("TracerArrayConversionError"));
            called_as("numpy.asarray", where, [&] { static_cast<void>(detail::concrete(a)); });
          }
        }
        nb::object view = numpy_view(a, where);
        if (!dtype_wanted.is_none()) view = view.attr("astype")(dtype_wanted, "copy"_a = false);
        if (!copy.is_none() && nb::cast<bool>(copy)) view = view.attr("copy")();
        return view;
      },
      "dtype"_a = nb::none(), "copy"_a = nb::none());
  c.def("tolist", [](const Array& a) { return numpy_view(a, user_line()).attr("tolist")(); });
  c.def(
      "tobytes", [](const Array& a, nb::handle order) { return numpy_view(a, user_line()).attr("tobytes")(order); },
      "order"_a = "C");
  c.def("__reduce__", [](const Array& a) {
    const nb::module_ functions = nb::module_::import_("shoal._pickling");
    const SourceLocation where = user_line();
    if (is_key(a.dtype())) {
      const Array words = unlocked([&] { return random::key_data({a, where}); });
      return nb::make_tuple(functions.attr("keys"),
                            nb::make_tuple(numpy_view(words, where), random::key_impl({a, where})));
    }
    return nb::make_tuple(functions.attr("unpickled"), nb::make_tuple(numpy_view(a, where), a.weak_type()));
  });
  m.def("_unpickled", [](nb::handle value, bool weak) {
    Array array = from_numpy(value, "unpickling", user_line());  // Which nobody else has.
    return weak ? called_as("unpickling", user_line(), [&] { return convert(array, array.dtype(), true); }) : array;
  });

  m.def(
      "_array",
      [](nb::handle object, nb::handle dtype_wanted, nb::handle copy, nb::handle ndmin, nb::handle where_to) {
        const Sharing sharing = copy.is_none()                     ? Sharing::kConstant
                                : PyObject_IsTrue(copy.ptr()) != 0 ? Sharing::kNever
                                                                   : Sharing::kAlways;
        Array array = array_of_any(object, maybe_dtype(dtype_wanted), sharing);
        const SourceLocation where = user_line();
        const std::int64_t least = integer(ndmin, "array: ndmin");
        if (static_cast<std::int64_t>(array.ndim()) < least) {
          Shape shape = array.shape();
          shape.insert(shape.begin(), static_cast<std::size_t>(least) - shape.size(), 1);
          array = reshape({array, where}, shape);
        }
        if (!where_to.is_none()) {
          const Sharding place = sharding(where_to, "array: device");
          const bool is_summed = place.named() != nullptr && !place.named()->spec().unreduced().empty();
          return is_summed ? reshard({array, where}, *place.named()) : device_put({array, where}, place);
        }
        // An array that was given, and is not copied, stays where it is.
        const bool is_new = array_of(object) == nullptr || sharing == Sharing::kNever;
        if (!is_new) return array;
        return unlocked([&] { return called_as("array", where, [&] { return detail::at_default_place(array); }); });
      },
      "object"_a.none(), "dtype"_a = nb::none(), "copy"_a.none() = true, "ndmin"_a = 0, "device"_a = nb::none());
}

}  // namespace shoal::python
