// Arrays from and to the memory of NumPy and of whoever speaks DLPack or the buffer protocol.
#include <fmt/format.h>
#include <nanobind/ndarray.h>

#include <array>
#include <cstring>
#include <limits>
#include <memory>

#include "convert.h"
#include "frontend/array_impl.h"
#include "frontend/promote.h"
#include "frontend/trace.h"
#include "ops/rules.h"
#include "runtime/device_array.h"

namespace shoal::python {
namespace {

using Input = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

nb::dlpack::dtype dlpack_dtype(Dtype dtype) {
  using Code = nb::dlpack::dtype_code;
  const auto bits = static_cast<std::uint8_t>(size_of(dtype) * 8);
  const Code code = dtype == bool_       ? Code::Bool
                    : dtype == bfloat16  ? Code::Bfloat
                    : is_complex(dtype)  ? Code::Complex
                    : is_floating(dtype) ? Code::Float
                    : is_signed(dtype)   ? Code::Int
                                         : Code::UInt;
  return {static_cast<std::uint8_t>(code), bits, 1};
}

// The elements in a dtype that NumPy itself has not, as one that it has.
std::string stand_in(Dtype dtype) { return dtype == bfloat16 ? "uint16" : std::string(name_of(dtype)); }

// A dense array of NumPy in one of our dtypes.
nb::object dense(nb::handle x, Dtype& dtype, std::string_view function) {
  const nb::module_ numpy = nb::module_::import_("numpy");
  nb::object array = numpy.attr("asarray")(x);
  const auto kind = nb::cast<std::string>(array.attr("dtype").attr("name"));
  try {
    dtype = parse_dtype(kind);
  } catch (const InvalidArgument&) {
    type_error(
        fmt::format("{}: Dtype {} is not a valid JAX array type. Only arrays of numeric types are supported "
                    "by JAX.",
                    function, kind));
  }
  array = numpy.attr("asarray")(array, "order"_a = "C");
  if (dtype == bfloat16) array = array.attr("view")("uint16");
  // Of another byte order.
  if (!nb::cast<bool>(array.attr("dtype").attr("isnative"))) {
    array = array.attr("astype")(array.attr("dtype").attr("newbyteorder")("="));
  }
  return array;
}

Array from_memory(Dtype from, const Shape& shape, const void* data, Dtype to, SourceLocation where) {
  CreationOptions options;
  if (to != from) options.dtype = to;
  return unlocked([&] { return detail::array_from_host(from, shape, data, options, where); });
}

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
    return convert(array, wanted.value_or(array.dtype()), false, where);
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
    const Scalar element = to_scalar(number, into, "array", where);
    std::memcpy(out, element.bytes.data(), size_of(into));
    out += size_of(into);
  }
  return from_memory(into, nested.shape, bytes.data(), into, where);
}

// ---- To others.

// The whole array in memory of the host: its own where one buffer holds all of it.
Buffer host_buffer(const Array& array, SourceLocation where) {
  const detail::ArrayImpl& impl = detail::impl_of(array, "__array__", where);
  if (const Trace* trace = impl.trace();
      trace != nullptr && trace->kind() == Trace::Kind::kEager && !trace->finished()) {
    // A value of an eager shard_map; copied through the array's own reading.
    Buffer buffer(host_space(kUnpinnedHostMemory), array.dtype(), array.shape());
    detail::copy_to_host(array, array.dtype(), buffer.mutable_data(), false, where);
    return buffer;
  }
  const DeviceArray concrete = detail::concrete(array, "__array__", where);
  wait_for(array);
  return unlocked([&] {
    const ShardSet& shards = concrete.wait();
    if (concrete.sharding().is_fully_replicated() && !shards.shards.empty()) {
      for (const Buffer& shard : shards.shards) {
        if (shard && shard.space().host_accessible()) return shard;
      }
    }
    return to_host(concrete, "__array__", where);
  });
}

// What keeps the memory of an exported view.
using Keep = std::unique_ptr<Buffer>;

nb::object numpy_view(const Array& array, SourceLocation where) {
  auto keep = std::make_unique<Buffer>(host_buffer(array, where));
  const Dtype dtype = array.dtype();
  const Shape& shape = array.shape();
  std::array<std::size_t, 64> extents{};
  for (std::size_t d = 0; d < shape.size(); ++d) extents[d] = static_cast<std::size_t>(shape[d]);
  static const std::uint64_t nothing = 0;
  const void* data = keep->data() == nullptr ? &nothing : keep->data();
  const nb::capsule owner(keep.release(), [](void* p) noexcept { delete static_cast<Buffer*>(p); });
  const Dtype shown = parse_dtype(stand_in(dtype));
  nb::ndarray<nb::numpy, nb::ro> view(data, shape.size(), extents.data(), owner, nullptr, dlpack_dtype(shown));
  nb::object result = nb::cast(view);
  if (shown != dtype) result = result.attr("view")(dtype_object(dtype));
  return result;
}

}  // namespace

Array from_numpy(nb::handle x, std::string_view function, SourceLocation where) {
  Dtype dtype{};
  const nb::object held = dense(x, dtype, function);
  const auto input = nb::cast<Input>(held);
  Shape shape;
  for (std::size_t d = 0; d < input.ndim(); ++d) shape.push_back(static_cast<std::int64_t>(input.shape(d)));
  return from_memory(dtype, shape, input.data(), canonical(dtype), where);
}

void bind_host(nb::module_& m) {
  auto c = nb::borrow<nb::class_<Array>>(nb::type<Array>());
  c.def(
      "__array__",
      [](const Array& a, nb::handle dtype_wanted, nb::handle copy) -> nb::object {
        const SourceLocation where = user_line();
        if (a.is_tracer()) {
          const Trace* trace = detail::impl_of(a).trace();
          if (trace->kind() != Trace::Kind::kEager || trace->finished()) {
            nb::module_::import_("shoal._core")
                .attr("_needs_value")(a, nb::module_::import_("shoal._core").attr("TracerArrayConversionError"));
            static_cast<void>(detail::concrete(a, "numpy.asarray", where));
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
  c.def(
      "__dlpack__",
      [](const Array& a, nb::handle, nb::handle max_version, nb::handle, nb::handle copy) {
        auto keep = std::make_unique<Buffer>(host_buffer(a, user_line()));
        std::array<std::size_t, 64> extents{};
        for (std::size_t d = 0; d < a.ndim(); ++d) extents[d] = static_cast<std::size_t>(a.shape()[d]);
        const void* data = keep->data();
        const nb::capsule owner(keep.release(), [](void* p) noexcept { delete static_cast<Buffer*>(p); });
        nb::ndarray<nb::array_api> view(const_cast<void*>(data), a.ndim(), extents.data(), owner, nullptr,
                                        dlpack_dtype(a.dtype()));
        const nb::object wrapped = nb::cast(view);
        static_cast<void>(copy);
        if (max_version.is_none()) return nb::object(wrapped.attr("__dlpack__")());
        return nb::object(wrapped.attr("__dlpack__")("max_version"_a = max_version));
      },
      nb::kw_only(), "stream"_a = nb::none(), "max_version"_a = nb::none(), "dl_device"_a = nb::none(),
      "copy"_a = nb::none());
  c.def("__dlpack_device__", [](const Array&) { return nb::make_tuple(1, 0); });
  c.def("__reduce__", [](const Array& a) {
    return nb::make_tuple(nb::module_::import_("shoal._pickling").attr("unpickled"),
                          nb::make_tuple(numpy_view(a, user_line()), a.weak_type()));
  });
  m.def("_unpickled", [](nb::handle value, bool weak) {
    Array array = from_numpy(value, "unpickling", user_line());
    return weak ? convert(array, array.dtype(), true, user_line()) : array;
  });

  m.def(
      "_array",
      [](nb::handle object, nb::handle dtype_wanted, bool copy, nb::handle ndmin, nb::handle where_to) {
        const std::optional<Dtype> wanted = maybe_dtype(dtype_wanted);
        const SourceLocation where = user_line();
        nb::object source = nb::borrow(object);
        if (array_of(source) == nullptr && nb::hasattr(source, "__jax_array__"))
          source = source.attr("__jax_array__")();
        Array array;
        if (const Array* given = array_of(source)) {
          array = wanted && given->dtype() != *wanted ? astype({*given, where}, *wanted) : *given;
          if (copy && Trace::current() == nullptr && !array.is_tracer() && &array != given &&
              detail::Access::get(array) == detail::Access::get(*given)) {
            array = unlocked([&] { return array.copy(where); });
          }
        } else if (PyList_Check(source.ptr()) || PyTuple_Check(source.ptr()) || (wanted && is_number(source))) {
          array = from_list(source, wanted);
        } else if (is_array_like(source)) {
          array = to_array(source, "array", "object");
          if (wanted && (array.dtype() != *wanted || array.weak_type())) array = astype({array, where}, *wanted);
        } else if (PyObject_CheckBuffer(source.ptr()) != 0 || nb::hasattr(source, "__array__") ||
                   nb::hasattr(source, "__dlpack__")) {
          array = from_numpy(source, "array", where);
          if (wanted && array.dtype() != *wanted) array = astype({array, where}, *wanted);
        } else if (PySequence_Check(source.ptr()) != 0) {
          array = from_list(nb::list(source), wanted);
        } else {
          refuse_object(source);
        }
        const std::int64_t least = integer(ndmin, "array: ndmin");
        if (static_cast<std::int64_t>(array.ndim()) < least) {
          Shape shape = array.shape();
          shape.insert(shape.begin(), static_cast<std::size_t>(least) - shape.size(), 1);
          array = reshape({array, where}, shape);
        }
        if (!where_to.is_none()) array = device_put({array, where}, sharding(where_to, "array: device"));
        return array;
      },
      "object"_a.none(), "dtype"_a = nb::none(), "copy"_a = true, "ndmin"_a = 0, "device"_a = nb::none());
}

}  // namespace shoal::python
