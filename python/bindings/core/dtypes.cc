// dtypes, which are those of NumPy where users see them. NumPy itself is imported when it is first needed.
#include <fmt/format.h>

#include <array>
#include <string>

#include "bindings/core/convert.h"

namespace shoal::python {
namespace {

// What has been taken for a dtype before: Python's types, scalar types, numpy.dtype objects, names.
PyObject* known_dtypes() {
  static PyObject* const known = [] {
    PyObject* dict = PyDict_New();
    const auto add = [dict](PyObject* key, Dtype dtype) {
      PyDict_SetItem(dict, key, nb::int_(static_cast<int>(dtype)).ptr());
    };
    add(reinterpret_cast<PyObject*>(&PyBool_Type), bool_);
    add(reinterpret_cast<PyObject*>(&PyLong_Type), int64);
    add(reinterpret_cast<PyObject*>(&PyFloat_Type), float64);
    add(reinterpret_cast<PyObject*>(&PyComplex_Type), complex128);
    return dict;
  }();
  return known;
}

}  // namespace

Dtype dtype(nb::handle x) {
  // Equal objects need not be of one type: numpy.dtype compares equal to names. Those stand for the same dtype.
  const bool hashable = PyObject_Hash(x.ptr()) != -1;
  if (!hashable) PyErr_Clear();
  PyObject* known = hashable ? PyDict_GetItemWithError(known_dtypes(), x.ptr()) : nullptr;
  if (known != nullptr) return canonical(static_cast<Dtype>(PyLong_AsLong(known)));
  PyErr_Clear();
  std::string name;
  if (PyUnicode_Check(x.ptr())) {
    name = nb::cast<std::string>(x);
  } else if (nb::hasattr(x, "_shoal_dtype")) {
    name = nb::cast<std::string>(x.attr("_shoal_dtype"));
  } else {
    try {
      name = nb::cast<std::string>(nb::module_::import_("numpy").attr("dtype")(x).attr("name"));
    } catch (nb::python_error&) {
      type_error(fmt::format("Cannot interpret '{}' as a data type", nb::cast<std::string>(nb::repr(x))));
    }
  }
  Dtype result;
  try {
    result = parse_dtype(name);
  } catch (const InvalidArgument&) {
    static constexpr std::array<std::pair<std::string_view, Dtype>, 4> kShort = {
        {{"int", int64}, {"float", float64}, {"complex", complex128}, {"bool_", bool_}}};
    for (const auto& [text, meant] : kShort) {
      if (name == text) return canonical(meant);
    }
    try {
      name = nb::cast<std::string>(nb::module_::import_("numpy").attr("dtype")(x).attr("name"));
      result = parse_dtype(name);
    } catch (const std::exception&) {
      type_error(
          fmt::format("data type '{}' is not understood; arrays are of bool, int8 to int64, uint8 to uint64, "
                      "float16, bfloat16, float32, float64, complex64 or complex128",
                      name));
    }
  }
  if (hashable) PyDict_SetItem(known_dtypes(), x.ptr(), nb::int_(static_cast<int>(result)).ptr());
  return canonical(result);
}

std::optional<Dtype> maybe_dtype(nb::handle x) {
  if (x.is_none()) return std::nullopt;
  return dtype(x);
}

nb::object dtype_object(Dtype dtype) {
  if (is_key(dtype)) return nb::module_::import_("shoal._dtypes").attr("KEYS")[std::string(name_of(dtype)).c_str()];
  static std::array<PyObject*, kNumDtypes> objects{};
  PyObject*& object = objects[static_cast<std::size_t>(dtype)];
  if (object == nullptr) {
    const nb::module_ numpy = nb::module_::import_("numpy");
    if (dtype == bfloat16) {
      object = numpy.attr("dtype")(nb::module_::import_("ml_dtypes").attr("bfloat16")).release().ptr();
    } else {
      object = numpy.attr("dtype")(std::string(name_of(dtype))).release().ptr();
    }
  }
  return nb::borrow(object);
}

void bind_dtypes(nb::module_& m) {
  m.def("_dtype_object", [](const std::string& name) { return dtype_object(parse_dtype(name)); });
  m.def("_dtype_name", [](nb::handle x) { return std::string(name_of(dtype(x))); });
  m.def("_set_x64", &set_x64_enabled);
  m.def("_x64", &x64_enabled);
  m.def("_promote_types", [](const std::string& a, bool a_weak, const std::string& b, bool b_weak) {
    const DtypeAndWeakness result = promote_types({parse_dtype(a), a_weak}, {parse_dtype(b), b_weak});
    return std::make_pair(std::string(name_of(result.dtype)), result.weak);
  });
}

}  // namespace shoal::python
