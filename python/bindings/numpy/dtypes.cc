// dtypes of arrays and of what is made of them, and other questions about objects.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/caller.h"
#include "bindings/numpy/numpy.h"
#include "frontend/array/promotion_mode.h"
#include "runtime/transfer_guard.h"

namespace shoal::python {
namespace {

// Whether an object stands for a dtype, not for a value.
bool is_dtype(nb::handle x) {
  if (PyType_Check(x.ptr()) || PyUnicode_Check(x.ptr())) return true;
  return std::string_view(Py_TYPE(x.ptr())->tp_name).starts_with("numpy.dtype");
}

bool is_list(nb::handle x) { return PyList_Check(x.ptr()) != 0 || PyTuple_Check(x.ptr()) != 0; }

// The array of a list, of which only the type is asked for.
Array array_of_list(nb::handle x) {
  const ExplicitTransfers none_that_counts;
  return nb::cast<Array>(nb::module_::import_("shoal._core").attr("_array")(x));
}

DtypeAndWeakness type_of_object(nb::handle x) {
  if (x.is_none()) return {default_float(), false};
  // Python's types are as weak as their values.
  if (x.is(reinterpret_cast<PyObject*>(&PyLong_Type))) return {default_int(), true};
  if (x.is(reinterpret_cast<PyObject*>(&PyFloat_Type))) return {default_float(), true};
  if (x.is(reinterpret_cast<PyObject*>(&PyComplex_Type))) return {default_complex(), true};
  if (is_dtype(x)) return {dtype(x), false};
  if (is_array_like(x)) return type_of_operand(operand_as_type(x, "result_type", "args"));
  if (nb::hasattr(x, "dtype")) return {dtype(x.attr("dtype")), false};
  return {dtype(x), false};
}

nb::object result_type(nb::args args) {
  if (nb::len(args) == 0) value_error("at least one array or dtype is required");
  DtypeAndWeakness type = type_of_object(args[0]);
  for (std::size_t i = 1; i < nb::len(args); ++i) {
    const Caller caller("result_type", user_line());
    type = promoted_types(type, type_of_object(args[i]));
  }
  return dtype_object(canonical(type.dtype));
}

nb::object as_type(nb::handle x, nb::handle dtype, nb::handle copy, nb::handle device) {
  const Operand a = operand(x, "astype");
  const Dtype wanted = dtype.is_none() ? default_float() : python::dtype(dtype);
  const std::optional<Sharding> to = maybe_sharding(device, "astype: device");
  const Array* array = array_of(x);
  const bool changes = array == nullptr || to || array->dtype() != wanted || array->weak_type();
  if (!changes && PyObject_IsTrue(copy.ptr()) == 0) return nb::borrow(x);
  return nb::cast(unlocked([&] {
    const Array made = astype(a, wanted);
    return to ? device_put({made, a.where()}, *to) : made;
  }));
}

// The bytes as elements of another dtype; the last extent follows.
Array view_of(const Array& a, nb::handle dtype, nb::handle type) {
  if (!type.is_none()) not_implemented("`type` argument of array.view() is not supported.");
  if (dtype.is_none()) return a;
  const Dtype wanted = python::dtype(dtype);
  const SourceLocation where = user_line();
  const std::size_t from = size_of(a.dtype());
  const std::size_t to = size_of(wanted);
  if (a.ndim() == 0 && from != to) {
    value_error("view() of a 0d array is only supported if the itemsize is unchanged.");
  }
  if (to > from && (a.shape().back() * static_cast<std::int64_t>(from)) % static_cast<std::int64_t>(to) != 0) {
    value_error(
        "When changing to a larger dtype, its size must be a divisor of the total size in bytes of the last "
        "axis of the array.");
  }
  return unlocked([&] {
    Operand x(a, where);
    if (wanted == a.dtype()) return a;
    // The library does not look at the bytes of bool and complex numbers; these take the way over integers.
    const auto bits = [](std::size_t bytes) {
      return bytes == 1 ? uint8 : bytes == 2 ? uint16 : bytes == 4 ? uint32 : uint64;
    };
    if (a.dtype() == bool_) x = Operand(astype(x, uint8), where);
    if (is_complex(a.dtype())) {
      const Array parts = stack({Operand(real(x), where), Operand(imag(x), where)}, -1);
      Shape shape = a.shape();
      if (shape.empty()) throw InvalidArgument("view() of a complex scalar is not supported", where);
      shape.back() *= 2;
      x = Operand(reshape({parts, where}, shape), where);
    }
    const Dtype element = wanted == bool_      ? uint8
                          : is_complex(wanted) ? (wanted == complex64 ? float32 : float64)
                                               : wanted;
    const std::size_t size = size_of(x.array()->dtype());
    const std::size_t into = size_of(element);
    Shape shape = x.array()->shape();
    if (into > size) {
      const auto ratio = static_cast<std::int64_t>(into / size);
      shape.back() /= ratio;
      shape.push_back(ratio);
      x = Operand(reshape(x, shape), where);
      x = Operand(lax::bitcast_convert_type({lax::bitcast_convert_type(x, bits(size)), where}, element), where);
    } else {
      x = Operand(lax::bitcast_convert_type(x, element), where);
      if (into < size) {
        shape.back() *= static_cast<std::int64_t>(size / into);
        x = Operand(reshape(x, shape), where);
      }
    }
    if (wanted == bool_) return not_equal(x, {0, where});
    if (!is_complex(wanted)) return *x.array();
    shape = x.array()->shape();
    shape.back() /= 2;
    shape.push_back(2);
    const Operand pairs(reshape(x, shape), where);
    const auto part = [&](std::int64_t i) {
      return Operand(squeeze({lax::slice_in_dim(pairs, i, i + 1, 1, -1), where}, -1), where);
    };
    return lax::complex(part(0), part(1));
  });
}

Array swapped(const Array& a) {
  const Array bytes = lax::bitcast_convert_type(a, uint8);
  return lax::bitcast_convert_type(lax::rev(bytes, {static_cast<std::int64_t>(a.ndim())}), a.dtype());
}

Array contains(const Array& a, nb::handle other) {
  if (other.is_none() || PyUnicode_Check(other.ptr())) {
    type_error(fmt::format("Array.__contains__: unsupported operand type {}.", type_text(other)));
  }
  const Operand value = operand(other, "Array.__contains__", "other");
  if (a.ndim() != 1) {
    value_error(fmt::format("Array.__contains__: search array must be one-dimensional, got arr.shape={}.",
                            to_string(a.shape())));
  }
  if (value.array() != nullptr && value.array()->ndim() != 0) {
    value_error(fmt::format("Array.__contains__: query value must be a scalar, got query.shape={}",
                            to_string(value.array()->shape())));
  }
  return unlocked([&] { return any({equal({a, value.where()}, value), value.where()}); });
}

bool is_complex_object(nb::handle x) {
  if (PyUnicode_Check(x.ptr())) return false;
  return is_complex(is_list(x) ? array_of_list(x).dtype() : type_of_object(x).dtype);
}

Shape shape_of(nb::handle a, const char* name) {
  if (is_list(a)) return array_of_list(a).shape();
  if (array_of(a) == nullptr && nb::hasattr(a, "shape")) return dims(a.attr("shape"), "shape");
  const Operand x = operand_as_type(a, name, "a");
  return x.array() != nullptr ? x.array()->shape() : Shape{};
}

std::int64_t size_along(nb::handle a, nb::handle axis) {
  const Shape shape = shape_of(a, "size");
  const std::optional<Dims> axes = maybe_dims(axis, "size: axis");
  if (!axes) return num_elements(shape);
  const Caller caller("size", user_line());
  std::int64_t size = 1;
  for (const std::int64_t d : canonical_axes(*axes, shape.size())) size *= shape[static_cast<std::size_t>(d)];
  return size;
}

}  // namespace

void bind_numpy_dtypes(nb::module_& m) {
  m.def("result_type", &result_type, "args"_a, "The dtype of a result of arrays, numbers and dtypes.");
  m.def(
      "promote_types",
      [](nb::handle a, nb::handle b) {
        const Caller caller("promote_types", user_line());
        return dtype_object(canonical(promoted_types(type_of_object(a), type_of_object(b)).dtype));
      },
      "a"_x, "b"_x, "The dtype that both are promoted to.");
  m.def("astype", &as_type, positional(), nb::arg("dtype").none(), nb::kw_only(), "copy"_x = false,
        "device"_x = nb::none(), "The elements in another dtype.");
  m.def(
      "iscomplexobj", [](nb::handle x) { return is_complex_object(x); }, "x"_x, "Whether the dtype is complex.");
  m.def(
      "isrealobj", [](nb::handle x) { return !is_complex_object(x); }, "x"_x, "Whether the dtype is not complex.");
  m.def(
      "isscalar",
      [](nb::handle element) {
        if (const Array* array = array_of(element)) return array->ndim() == 0;
        return !is_list(element) && is_array_like(element) && shape_of(element, "isscalar").empty();
      },
      "element"_x, "Whether an object is a number, or an array without dimensions.");
  m.def(
      "ndim", [](nb::handle a) { return shape_of(a, "ndim").size(); }, "a"_x, "The number of dimensions.");
  m.def(
      "shape", [](nb::handle a) { return to_tuple(shape_of(a, "shape")); }, "a"_x, "The extents.");
  m.def("size", &size_along, "a"_x, "axis"_x = nb::none(), "The number of elements, or the extent of dimensions.");

  auto c = nb::borrow<ArrayClass>(nb::type<Array>());
  c.def("astype", &as_type, nb::arg("dtype").none(), "copy"_x = false, "device"_x = nb::none(),
        "The elements in another dtype.");
  c.def("view", &view_of, "dtype"_x = nb::none(), "type"_x = nb::none(), "The bytes as elements of another dtype.");
  c.def(
      "__contains__", [](const Array& a, nb::handle other) { return contains(a, other); }, "other"_x);
  c.def(
      "to_device",
      [](const Array& a, nb::handle device, nb::handle stream) {
        if (!stream.is_none()) not_implemented("stream argument of array.to_device()");
        const Sharding to = sharding(device, "to_device: device");
        return unlocked([&, where = user_line()] { return device_put({a, where}, to); });
      },
      "device"_x, nb::kw_only(), "stream"_x = nb::none(), "The array on another device or in another sharding.");
  c.def(
      "byteswap",
      [](const Array& a) {
        const SourceLocation where = user_line();
        if (size_of(a.dtype()) == 1) return a;
        return unlocked([&] {
          const Caller caller("byteswap", where);
          if (is_complex(a.dtype())) return lax::complex(swapped(real(a)), swapped(imag(a)));
          return swapped(a);
        });
      },
      "The elements with their bytes in reverse order.");
  c.def_prop_ro("flat", [](const Array&) -> nb::object {
    not_implemented("JAX Arrays do not implement the arr.flat property: consider arr.flatten() instead.");
  });
  c.def(
      "__array_namespace__",
      [](const Array&, nb::handle api_version) -> nb::object {
        if (!api_version.is_none()) {
          const auto version = nb::cast<std::string>(nb::str(api_version));
          static constexpr std::array kVersions = {"2021.12", "2022.12", "2023.12", "2024.12", "2025.12"};
          if (std::find(kVersions.begin(), kVersions.end(), version) == kVersions.end()) {
            value_error(fmt::format("api_version='{}' is not available; available: 2021.12 to 2025.12", version));
          }
        }
        return nb::module_::import_("shoal.numpy");
      },
      nb::kw_only(), "api_version"_x = nb::none(), "The module of the Array API's functions.");
  c.attr("__array_priority__") = 100;
}

}  // namespace shoal::python
