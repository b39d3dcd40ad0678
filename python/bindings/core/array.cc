// The class of arrays: properties, operators and methods.
#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>

#include "bindings/core/convert.h"
#include "bindings/core/memory.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/array_text.h"
#include "frontend/array/trace.h"
#include "frontend/array/tracer_errors.h"
#include "runtime/transfer_guard.h"
#include "shoal/explicit_axes.h"

namespace shoal::python {
namespace {

// The class of an exception of this package.
nb::object error_class(const char* name) { return nb::module_::import_("shoal._core").attr(name); }

// Runs f; what is said of a tracer's value there is an error of the class `name`.
template <class F>
decltype(auto) needing_value(const char* name, F&& f) {
  try {
    return f();
  } catch (const ValueOfTracer& e) {
    PyErr_SetString(error_class(name).ptr(), e.what());
    throw nb::python_error();
  }
}

[[noreturn]] void attribute_error(const char* name) {
  PyErr_SetString(PyExc_AttributeError,
                  fmt::format("The '{}' attribute is not available on an array that is being traced.", name).c_str());
  throw nb::python_error();
}

// The element of an array that has one, as soon as it is computed.
template <class T>
T number(const Array& array, SourceLocation where) {
  if (!array.is_tracer() && !array.is_deleted()) wait_for(array);
  return unlocked([&] { return array.item<T>(where); });
}

// A number of NumPy's kind for Python: int, float, complex or bool.
nb::object item_of(const Array& array, SourceLocation where) {
  const Dtype dtype = array.dtype();
  if (dtype == bool_) return nb::cast(number<bool>(array, where));
  if (is_complex(dtype)) {
    const auto value = number<std::complex<double>>(array, where);
    return nb::steal(PyComplex_FromDoubles(value.real(), value.imag()));
  }
  if (is_floating(dtype)) return nb::cast(number<double>(array, where));
  if (dtype == uint64) return nb::cast(number<std::uint64_t>(array, where));
  return nb::cast(number<std::int64_t>(array, where));
}

// Refuses an array of which a derivative is being taken, which what becomes of its value as a Python number would not
// have. Comparisons, int() and item() give it, as in JAX: what is asked for by these is constant where it is there.
void check_keeps_derivative(const Array& array, const char* function) {
  const Layer* layer = detail::impl_of(array).layer();
  if (layer == nullptr) return;
  called_as(function, user_line(), [&] { static_cast<void>(detail::concrete(array)); });
}

bool operator_truth(const Array& array) {
  const SourceLocation where = user_line();
  if (array.size() != 1) {
    value_error("The truth value of an array with more than one element is ambiguous. Use a.any() or a.all()");
  }
  return needing_value("TracerBoolConversionError", [&] {
    if (is_complex(array.dtype())) return number<std::complex<double>>(array, where) != std::complex<double>();
    return number<double>(array, where) != 0;
  });
}

// Those of NumPy, which numpy.set_printoptions changes; a program that has not loaded it has not changed them.
PrintOptions print_options() {
  const nb::object numpy = nb::steal(PyImport_GetModule(nb::str("numpy").ptr()));
  PrintOptions options;
  if (!numpy.is_valid()) return options;
  const nb::object given = numpy.attr("get_printoptions")();
  const auto number = [&](const char* name, int otherwise) {
    const nb::object value = given[name];
    return value.is_none() ? otherwise : static_cast<int>(nb::cast<double>(value));
  };
  options.linewidth = number("linewidth", options.linewidth);
  options.threshold = number("threshold", options.threshold);
  options.edgeitems = number("edgeitems", options.edgeitems);
  options.precision = number("precision", options.precision);
  options.suppress = nb::cast<bool>(given["suppress"]);
  return options;
}

std::string text_of(const Array& array) {
  const PrintOptions options = print_options();
  return unlocked([&] { return str(array, options); });
}

// The other operand of an operator; none if Python shall ask the other one's class.
std::optional<Operand> other_operand(nb::handle x) {
  if (array_of(x) == nullptr && !is_array_like(x)) return std::nullopt;
  return operand(x, "operator", "other");
}

using Binary = Array (*)(const Operand&, const Operand&);

Array product(const Operand& x, const Operand& y) { return matmul(x, y); }

template <Binary f, bool reflected>
nb::object binary(const Array& self, nb::handle other) {
  const std::optional<Operand> second = other_operand(other);
  if (!second) return nb::borrow(Py_NotImplemented);
  const Operand first(self, second->where());
  return nb::cast(unlocked([&] { return reflected ? f(*second, first) : f(first, *second); }));
}

template <Binary f>
void bind_operator(nb::class_<Array>& c, const char* name) {
  c.def(fmt::format("__{}__", name).c_str(), &binary<f, false>, nb::is_operator());
  c.def(fmt::format("__r{}__", name).c_str(), &binary<f, true>, nb::is_operator());
}

template <Binary f>
void bind_comparison(nb::class_<Array>& c, const char* name) {
  c.def(
      name,
      [name](const Array& self, nb::handle other) {
        // Python would find that they are not the same object.
        if (PyList_Check(other.ptr()) || PyTuple_Check(other.ptr())) {
          type_error(fmt::format("{}: an array cannot be compared with a {}; make an array of it", name,
                                 Py_TYPE(other.ptr())->tp_name));
        }
        return binary<f, false>(self, other);
      },
      nb::is_operator());
}

}  // namespace

void wait_for(const Array& array) {
  const auto called_by_user = [&](const auto& f) -> decltype(auto) {
    return called_as("block_until_ready", user_line(), f);
  };
  const detail::ArrayImpl& impl = called_by_user([&]() -> const auto& { return detail::impl_of(array); });
  if (impl.abstract != nullptr) return;
  const ShardFuture shards = impl.shards();
  if (!shards) called_by_user([&] { static_cast<void>(detail::concrete(array)); });
  if (!shards.is_settled()) {
    nb::gil_scoped_release release;
    while (!shards.wait_for(std::chrono::milliseconds(100))) {
      nb::gil_scoped_acquire gil;
      if (PyErr_CheckSignals() != 0) {
        Lane::give_up_loops();
        throw nb::python_error();
      }
    }
  }
  unlocked([&] { static_cast<void>(shards.wait()); });
}

void bind_array(nb::module_& m) {
  nb::class_<Shard>(m, "Shard", "A shard of an array on one device.")
      .def_ro("device", &Shard::device)
      .def_prop_ro("index", [](const Shard& shard) { return to_object(shard.index); })
      .def_ro("replica_id", &Shard::replica_id)
      .def_prop_ro("data",
                   [](const Shard& shard) -> nb::object {
                     if (detail::Access::get(shard.data) == nullptr) return nb::none();
                     return nb::cast(shard.data);
                   })
      .def("__repr__", [](const Shard& shard) { return to_string(shard); });

  static PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(array_buffer)}, {0, nullptr}};
  nb::class_<Array> c(m, "Array", nb::is_weak_referenceable(), nb::type_slots(slots),
                      "A multi-dimensional array, on devices or being traced.");
  c.def_prop_ro("shape", [](const Array& a) { return to_tuple(a.shape()); })
      .def_prop_ro("ndim", [](const Array& a) { return a.ndim(); })
      .def_prop_ro("size", [](const Array& a) { return a.size(); })
      .def_prop_ro("nbytes", [](const Array& a) { return a.nbytes(); })
      .def_prop_ro("itemsize", [](const Array& a) { return size_of(a.dtype()); })
      .def_prop_ro("dtype", [](const Array& a) { return dtype_object(a.dtype()); })
      .def_prop_ro("_dtype_name", [](const Array& a) { return std::string(name_of(a.dtype())); })
      .def_prop_ro("weak_type", [](const Array& a) { return a.weak_type(); })
      .def_prop_ro("sharding",
                   [](const Array& a) {
                     // So that hasattr() is false of a tracer, and getattr() takes its default.
                     if (a.is_tracer()) attribute_error("sharding");
                     return to_object(a.sharding(user_line()));
                   })
      .def_prop_ro("committed", [](const Array& a) { return a.committed(); })
      .def_prop_ro("_committed", [](const Array& a) { return a.committed(); })
      .def_prop_ro("is_fully_replicated", [](const Array& a) { return a.is_fully_replicated(user_line()); })
      .def_prop_ro("is_fully_addressable", [](const Array& a) { return a.is_fully_addressable(user_line()); })
      .def_prop_ro("addressable_shards", [](const Array& a) { return a.addressable_shards(user_line()); })
      .def_prop_ro("global_shards", [](const Array& a) { return a.global_shards(user_line()); })
      .def(
          "addressable_data", [](const Array& a, std::int64_t i) { return a.addressable_data(i, user_line()); },
          "index"_a, "The data of the shard with this position in addressable_shards.")
      .def(
          "devices",
          [](const Array& a) {
            nb::object set = nb::steal(PySet_New(nullptr));
            for (const Device& device : a.devices(user_line())) PySet_Add(set.ptr(), nb::cast(device).ptr());
            return set;
          },
          "The devices where the array lies.")
      .def_prop_ro("device",
                   [](const Array& a) -> nb::object {
                     const Sharding sharding = a.sharding(user_line());
                     if (sharding.single_device() != nullptr) return nb::cast(sharding.single_device()->device());
                     return to_object(sharding);
                   })
      .def("on_device_size_in_bytes", [](const Array& a) { return a.on_device_size_in_bytes(user_line()); })
      .def_prop_ro("_is_tracer", &Array::is_tracer)
      .def_prop_ro("_is_leaked", [](const Array& a) { return detail::impl_of(a).is_leaked(); })
      .def_prop_ro("_type_text", [](const Array& a) { return type_of(a); })
      .def_prop_ro("_type_sharding", &type_sharding)
      .def_prop_ro("_manual_axis_type",
                   [](const Array& a) {
                     const Type& type = detail::impl_of(a).type;
                     return nb::make_tuple(tuple_of(difference_of(type.varying, type.summands)),
                                           tuple_of(type.summands), tuple_of(type.reduced));
                   })
      .def("is_ready", &Array::is_ready)
      .def("is_deleted", &Array::is_deleted)
      .def(
          "delete", [](const Array& a) { a.delete_(user_line()); }, "Gives up the elements.")
      .def(
          "block_until_ready",
          [](nb::object self) {
            wait_for(*nb::inst_ptr<Array>(self));
            return self;
          },
          "Waits for the value; raises the error of its computation.")
      .def("copy_to_host_async", [](const Array&) {})
      .def("copy", [](const Array& a) { return unlocked([&, where = user_line()] { return a.copy(where); }); })
      .def("__copy__", [](const Array& a) { return a; })
      .def("__deepcopy__", [](const Array& a, nb::handle) { return a.is_tracer() ? a : a.copy(user_line()); });

  // Numbers.
  c.def("item",
        [](const Array& a, nb::args index) {
          const SourceLocation where = user_line();
          if (nb::len(index) == 0) {
            if (a.size() != 1) value_error("can only convert an array of size 1 to a Python scalar");
            return needing_value("ConcretizationTypeError", [&] { return item_of(a, where); });
          }
          const nb::object all = nb::find(a).is_valid() ? nb::find(a) : nb::cast(a);
          nb::object key = nb::len(index) == 1 ? nb::object(index[0]) : nb::object(nb::tuple(index));
          if (PyTuple_Check(key.ptr()) && nb::len(key) == 1) key = key[0];
          if (PyIndex_Check(key.ptr()) != 0) return all.attr("reshape")(-1)[key].attr("item")();
          return all[key].attr("item")();
        })
      .def("__bool__", &operator_truth)
      .def("__float__",
           [](const Array& a) {
             if (a.size() != 1 || a.ndim() != 0)
               type_error(
                   "Only scalar arrays can be converted to Python scalars; "
                   "got arr.ndim=" +
                   std::to_string(a.ndim()));
             return needing_value("ConcretizationTypeError", [&] {
               check_keeps_derivative(a, "float");
               return number<double>(a, user_line());
             });
           })
      .def("__complex__",
           [](const Array& a) {
             const auto value = needing_value("ConcretizationTypeError", [&] {
               check_keeps_derivative(a, "complex");
               return number<std::complex<double>>(a, user_line());
             });
             return nb::steal(PyComplex_FromDoubles(value.real(), value.imag()));
           })
      .def("__int__",
           [](const Array& a) {
             if (a.ndim() != 0)
               type_error("Only scalar arrays can be converted to Python scalars; got arr.ndim=" +
                          std::to_string(a.ndim()));
             return needing_value("ConcretizationTypeError", [&]() -> nb::object {
               const nb::object item = item_of(a, user_line());
               return nb::steal(PyNumber_Long(item.ptr()));
             });
           })
      .def("__index__",
           [](const Array& a) {
             if (a.ndim() != 0 || !(is_integer(a.dtype()) || a.dtype() == bool_)) {
               type_error("Only integer scalar arrays can be converted to a scalar index.");
             }
             return needing_value("TracerIntegerConversionError", [&]() -> nb::object {
               const nb::object item = item_of(a, user_line());
               return nb::steal(PyNumber_Long(item.ptr()));
             });
           })
      .def("__hash__", [](const Array&) -> Py_hash_t { type_error("unhashable type: 'shoal.Array'"); })
      .def("__len__",
           [](const Array& a) {
             if (a.ndim() == 0) type_error("len() of unsized object");
             return a.shape()[0];
           })
      .def("__iter__", [](const Array& a) {
        if (a.ndim() == 0) type_error("iteration over a 0-d array");
        const SourceLocation where = user_line();
        nb::list rows;
        for (auto row = a.begin(where); row != a.end(where); ++row) rows.append(nb::cast(*row));
        return nb::iter(rows);
      });

  // Operators.
  bind_operator<&add>(c, "add");
  bind_operator<&subtract>(c, "sub");
  bind_operator<&multiply>(c, "mul");
  bind_operator<&divide>(c, "truediv");
  bind_operator<&floor_divide>(c, "floordiv");
  bind_operator<&remainder>(c, "mod");
  bind_operator<&bitwise_and>(c, "and");
  bind_operator<&bitwise_or>(c, "or");
  bind_operator<&bitwise_xor>(c, "xor");
  bind_operator<&left_shift>(c, "lshift");
  bind_operator<&right_shift>(c, "rshift");
  bind_comparison<&less>(c, "__lt__");
  bind_comparison<&less_equal>(c, "__le__");
  bind_comparison<&greater>(c, "__gt__");
  bind_comparison<&greater_equal>(c, "__ge__");
  bind_comparison<&equal>(c, "__eq__");
  bind_comparison<&not_equal>(c, "__ne__");
  bind_operator<&product>(c, "matmul");
  c.def(
      "__pow__",
      [](const Array& a, nb::handle b, nb::handle modulus) -> nb::object {
        if (!modulus.is_none()) return nb::borrow(Py_NotImplemented);
        check_power({a, user_line()}, b);
        std::optional<ExplicitTransfers> part_of_program;  // An integer says which products to take.
        if (PyLong_CheckExact(b.ptr())) part_of_program.emplace();
        return binary<&power, false>(a, b);
      },
      "other"_a, "modulus"_a = nb::none(), nb::is_operator());
  c.def(
      "__rpow__", [](const Array& a, nb::handle b, nb::handle) { return binary<&power, true>(a, b); }, "other"_a,
      "modulus"_a = nb::none(), nb::is_operator());
  c.def("__divmod__", [](const Array& a, nb::handle b) {
    const auto [quotient, rest] = divmod({a, user_line()}, operand(b, "divmod", "other"));
    return nb::make_tuple(quotient, rest);
  });
  c.def("__rdivmod__", [](const Array& a, nb::handle b) {
    const auto [quotient, rest] = divmod(operand(b, "divmod", "other"), {a, user_line()});
    return nb::make_tuple(quotient, rest);
  });
  c.def("__neg__", [](const Array& a) { return unlocked([&, w = user_line()] { return negative({a, w}); }); });
  c.def("__pos__", [](const Array& a) { return a; });
  c.def("__abs__", [](const Array& a) { return unlocked([&, w = user_line()] { return abs({a, w}); }); });
  c.def("__invert__", [](const Array& a) { return unlocked([&, w = user_line()] { return bitwise_not({a, w}); }); });

  // Text.
  c.def("__repr__", [](const Array& a) {
    const PrintOptions options = print_options();
    return unlocked([&] { return repr(a, options); });
  });
  c.def("__str__", &text_of);
  c.def("__format__", [](const Array& a, nb::handle spec) -> nb::object {
    if (nb::len(spec) == 0) return nb::cast(text_of(a));
    if (a.ndim() != 0) type_error("unsupported format string passed to Array.__format__: only scalars have formats");
    return needing_value("ConcretizationTypeError", [&] { return item_of(a, user_line()).attr("__format__")(spec); });
  });

  m.def("_needs_value", [](const Array& a, nb::handle error) {
    if (detail::impl_of(a).abstract == nullptr) return;
    try {
      called_as("NumPy", user_line(), [&] { detail::refuse_tracer(detail::impl_of(a)); });
    } catch (const ValueOfTracer& e) {
      PyErr_SetString(error.ptr(), e.what());
      throw nb::python_error();
    }
  });
}

}  // namespace shoal::python
