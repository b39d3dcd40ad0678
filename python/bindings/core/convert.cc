#include "bindings/core/convert.h"

#include <fmt/format.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <cctype>
#include <limits>
#include <mutex>

#include "bindings/core/location.h"
#include "bindings/core/memory.h"
#include "bindings/core/numbers.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/promotion.h"
#include "frontend/array/promotion_mode.h"
#include "frontend/array/trace.h"
#include "ir/attrs.h"
#include "runtime/transfer_guard.h"

namespace shoal::python {
namespace {

bool x64 = false;

// The class of arrays, for a comparison of pointers.
PyTypeObject* array_class() {
  static PyTypeObject* const type = reinterpret_cast<PyTypeObject*>(nb::type<Array>().ptr());
  return type;
}

// A number of Python as a weakly typed operand.
Operand number_operand(const Operand::Number& number, Dtype wide, SourceLocation where) {
  if (x64) return {called_as("constant", where, [&] { return scalar_of(number, {wide, true}, {}); }), where};
  return std::visit([&](auto value) { return Operand(value, where); }, number);
}

[[noreturn]] void refuse_integer(const std::string& text) {
  PyErr_SetString(PyExc_OverflowError, text.c_str());
  throw nb::python_error();
}

// Python's integer, of which a narrower dtype takes the low bits. It must fit the default width.
Operand integer_operand(nb::handle x, std::string_view function, SourceLocation where) {
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(x.ptr(), &overflow);
  if (overflow != 0 || (!x64 && value != static_cast<std::int32_t>(value))) {
    refuse_integer(fmt::format("{}: the integer {} does not fit dtype {}{}", function,
                               nb::cast<std::string>(nb::str(x)), name_of(default_int()),
                               x64 ? "" : "; 64-bit types are off, see jax_enable_x64"));
  }
  return number_operand(static_cast<std::int64_t>(value), int64, where);
}

std::int64_t to_int64(nb::handle x) {
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(x.ptr(), &overflow);
  if (overflow != 0) {
    PyErr_SetString(PyExc_OverflowError, "Python int too large to convert to C long");
    throw nb::python_error();
  }
  if (value == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  return value;
}

// References that were dropped without the GIL. Never destroyed: some are dropped after static objects.
struct Dropped {
  std::mutex mutex;
  std::vector<PyObject*> objects;
  std::atomic<bool> is_any = false;
  static Dropped& all() {
    static auto* all = new Dropped;
    return *all;
  }
};

// Gives them up. With the GIL.
int give_up_dropped(void*) {
  std::vector<PyObject*> objects;
  {
    Dropped& dropped = Dropped::all();
    const std::lock_guard lock(dropped.mutex);
    objects.swap(dropped.objects);
    dropped.is_any = false;
  }
  for (PyObject* object : objects) Py_DECREF(object);
  return 0;
}

bool is_finalizing() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

}  // namespace

Held::Held(const Held& other) {
  if (other.object_ == nullptr) return;
  nb::gil_scoped_acquire gil;
  object_ = Py_NewRef(other.object_);
}

Held::~Held() {
  if (object_ == nullptr || Py_IsInitialized() == 0 || is_finalizing()) return;
  if (PyGILState_Check() != 0) {
    Py_DECREF(object_);
    return;
  }
  bool is_first = false;
  {
    Dropped& dropped = Dropped::all();
    const std::lock_guard lock(dropped.mutex);
    is_first = dropped.objects.empty();
    dropped.objects.push_back(object_);
    dropped.is_any = true;
  }
  // The interpreter calls it between two steps of the main thread.
  if (is_first) Py_AddPendingCall(give_up_dropped, nullptr);
}

void give_up_dropped() {
  if (Dropped::all().is_any.load(std::memory_order_relaxed)) give_up_dropped(nullptr);
}

bool x64_enabled() { return x64; }
void set_x64_enabled(bool enabled) {
  x64 = enabled;
  set_narrow_promotion(!enabled);
  set_wide_numbers(enabled);
}

Dtype canonical(Dtype dtype) {
  if (x64) return dtype;
  switch (dtype) {
    case Dtype::kI64:
      return Dtype::kI32;
    case Dtype::kU64:
      return Dtype::kU32;
    case Dtype::kF64:
      return Dtype::kF32;
    case Dtype::kC128:
      return Dtype::kC64;
    default:
      return dtype;
  }
}
Dtype default_int() { return x64 ? int64 : int32; }
Dtype default_float() { return x64 ? float64 : float32; }
Dtype default_complex() { return x64 ? complex128 : complex64; }

void type_error(const std::string& text) {
  PyErr_SetString(PyExc_TypeError, with_user_line(text).c_str());
  throw nb::python_error();
}
void value_error(const std::string& text) {
  PyErr_SetString(PyExc_ValueError, with_user_line(text).c_str());
  throw nb::python_error();
}
void not_implemented(const std::string& text) {
  PyErr_SetString(PyExc_NotImplementedError, with_user_line(text).c_str());
  throw nb::python_error();
}
void runtime_error(const std::string& text) {
  PyErr_SetString(PyExc_RuntimeError, with_user_line(text).c_str());
  throw nb::python_error();
}
std::string type_text(nb::handle x) { return nb::cast<std::string>(nb::str(x.type())); }

const Array* array_of(nb::handle x) { return Py_TYPE(x.ptr()) == array_class() ? nb::inst_ptr<Array>(x) : nullptr; }

std::optional<Array> array_of_its_own(const Array& array) {
  const auto& impl = detail::Access::shared(array);
  if (impl == nullptr || impl.use_count() == 1 || impl->abstract != nullptr) return std::nullopt;
  ShardFuture shards = impl->shards();
  if (!shards) return std::nullopt;
  return detail::Access::make(DeviceArray{impl->kind, std::move(shards)});
}

bool is_array_like(nb::handle x) {
  return array_of(x) != nullptr || PyFloat_Check(x.ptr()) || PyLong_Check(x.ptr()) || PyComplex_Check(x.ptr()) ||
         is_of_numpy(x) || nb::hasattr(x, "__jax_array__");
}

Operand operand(nb::handle x, std::string_view function, std::string_view argument) {
  const SourceLocation where = user_line();
  if (const Array* array = array_of(x)) return {*array, where};
  PyObject* p = x.ptr();
  const auto is_number = [&] { return PyFloat_Check(p) || PyLong_Check(p) || PyComplex_Check(p); };
  if (is_guarded(TransferKind::kHostToDevice) && Trace::current() == nullptr && is_number()) {
    check_transfer(TransferKind::kHostToDevice, type_text(x), where);
  }
  if (PyBool_Check(p)) return {p == Py_True, where};
  if (PyFloat_CheckExact(p)) return number_operand(PyFloat_AS_DOUBLE(p), float64, where);
  if (PyLong_CheckExact(p)) return integer_operand(x, function, where);
  if (PyComplex_CheckExact(p)) {
    return number_operand(std::complex<double>(PyComplex_RealAsDouble(p), PyComplex_ImagAsDouble(p)), complex128,
                          where);
  }
  if (is_of_numpy(x)) return {from_numpy(x, function, where), where};
  if (nb::hasattr(x, "__jax_array__")) {
    const nb::object converted = x.attr("__jax_array__")();
    return operand(converted, function, argument);
  }
  if (PyFloat_Check(p)) return number_operand(PyFloat_AsDouble(p), float64, where);
  if (PyLong_Check(p)) return integer_operand(x, function, where);
  type_error(fmt::format("{} requires ndarray or scalar arguments, got {} for argument '{}'", function, type_text(x),
                         argument));
}

Operand operand_as_type(nb::handle x, std::string_view function, std::string_view argument) {
  const ExplicitTransfers none_that_counts;
  return operand(x, function, argument);
}

Operand operand_for(std::optional<Dtype> dtype, nb::handle x, std::string_view function, std::string_view argument) {
  if (!dtype || !PyLong_CheckExact(x.ptr())) return operand(x, function, argument);
  if (is_integer(*dtype)) {
    // The low bits count.
    const std::uint64_t bits = PyLong_AsUnsignedLongLongMask(x.ptr());
    return {static_cast<std::int64_t>(bits), user_line()};
  }
  const double value = PyLong_AsDouble(x.ptr());
  if (value == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  return {value, user_line()};
}

Array to_array(nb::handle x, std::string_view function, std::string_view argument) {
  if (const Array* array = array_of(x)) return *array;
  return shoal::to_array(operand(x, function, argument));
}

std::optional<Array> maybe_array(nb::handle x, std::string_view function, std::string_view argument) {
  if (x.is_none()) return std::nullopt;
  return to_array(x, function, argument);
}

std::optional<Operand> maybe_operand(nb::handle x, std::string_view function, std::string_view argument) {
  if (x.is_none()) return std::nullopt;
  return operand(x, function, argument);
}

std::vector<Operand> operand_list(nb::handle x, std::string_view function, std::string_view argument) {
  std::vector<Operand> list;
  if (const Array* array = array_of(x)) {
    const SourceLocation where = user_line();
    for (auto row = array->begin(where); row != array->end(where); ++row) list.emplace_back(*row, where);
    return list;
  }
  if (PyUnicode_Check(x.ptr()) || PySequence_Check(x.ptr()) == 0) {
    type_error(fmt::format("{} requires a sequence of arrays for '{}', got {}", function, argument, type_text(x)));
  }
  for (nb::handle item : x) list.push_back(operand(item, function, argument));
  return list;
}

Operands operands(nb::handle x, std::string_view function, std::string_view argument) {
  return {operand_list(x, function, argument), user_line()};
}

void check_power(const Operand& base, nb::handle exponent) {
  if (!PyLong_CheckExact(exponent.ptr()) || _PyLong_Sign(exponent.ptr()) >= 0) return;
  const DtypeAndWeakness type = called_as("power", base.where(), [&] { return element_of(base); });
  if (!is_integer(type.dtype)) return;
  type_error(fmt::format("Integers cannot be raised to negative powers, got {} to the power {}; convert it with astype",
                         name_of(type.dtype), nb::cast<std::string>(nb::str(exponent))));
}

Operand number_or_array(nb::handle x, std::string_view function, std::string_view argument) {
  if (array_of(x) != nullptr || nb::hasattr(x, "__jax_array__")) return operand(x, function, argument);
  if (const auto value = maybe_number(x, fmt::format("{}: {}", function, argument))) return {*value, user_line()};
  type_error(fmt::format("{}: {} must be a number, not None", function, argument));
}

std::int64_t integer(nb::handle x, std::string_view what) {
  PyObject* index = PyNumber_Index(x.ptr());
  if (index == nullptr) {
    PyErr_Clear();
    if (const Array* array = array_of(x); array != nullptr && array->is_tracer()) {
      PyErr_SetString(nb::object(nb::module_::import_("shoal._core").attr("TracerIntegerConversionError")).ptr(),
                      fmt::format("{} must be known when the function is traced, but it is {}, which is being traced; "
                                  "pass it as a static argument (static_argnums, static_argnames)",
                                  what, type_of(*array))
                          .c_str());
      throw nb::python_error();
    }
    type_error(fmt::format("{} must be an integer, got {}", what, type_text(x)));
  }
  const nb::object held = nb::steal(index);
  return to_int64(held);
}

std::optional<std::int64_t> maybe_integer(nb::handle x, std::string_view what) {
  if (x.is_none()) return std::nullopt;
  return integer(x, what);
}

Dims dims(nb::handle x, std::string_view what) {
  // Arrays of any rank look like integers and like sequences.
  const bool has_length = PySequence_Check(x.ptr()) != 0 && PySequence_Size(x.ptr()) >= 0;
  PyErr_Clear();
  if (PyIndex_Check(x.ptr()) != 0 && !has_length) return Dims{integer(x, what)};
  if (PyUnicode_Check(x.ptr()) || PySequence_Check(x.ptr()) == 0) {
    type_error(fmt::format("{} must be an integer or a sequence of integers, got {}", what, type_text(x)));
  }
  Dims list;
  for (nb::handle item : x) list.push_back(integer(item, what));
  return list;
}

std::optional<Dims> maybe_dims(nb::handle x, std::string_view what) {
  if (x.is_none()) return std::nullopt;
  return dims(x, what);
}

Axes axes(nb::handle x, std::string_view what) {
  if (x.is_none()) return {};
  return {dims(x, what)};
}

std::optional<double> maybe_number(nb::handle x, std::string_view what) {
  if (x.is_none()) return std::nullopt;
  // One that is differentiated would lose its derivative.
  if (const Array* array = array_of(x); array != nullptr && detail::impl_of(*array).layer() != nullptr) {
    called_as(what, user_line(), [&] { static_cast<void>(detail::concrete(*array)); });
  }
  const double value = PyFloat_AsDouble(x.ptr());
  if (value == -1 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    type_error(fmt::format("{} must be a number, got {}", what, type_text(x)));
  }
  return value;
}

namespace {

nb::object float0_dtype() { return nb::module_::import_("shoal._derivatives").attr("float0")(); }

}  // namespace

bool is_float0(nb::handle x) {
  return array_of(x) == nullptr && is_of_numpy(x) && nb::hasattr(x, "dtype") && is_float0_dtype(x.attr("dtype"));
}

bool is_float0_dtype(nb::handle x) {
  constexpr int kVoid = 20;  // NumPy's number of what it has no type for.
  if (!nb::hasattr(x, "num") || PyType_Check(x.ptr()) || nb::cast<int>(x.attr("num")) != kVoid) return false;
  return nb::borrow(x).equal(float0_dtype());
}

nb::object float0_array(nb::handle shape) { return nb::module_::import_("numpy").attr("zeros")(shape, float0_dtype()); }

IndexMode index_mode(nb::handle mode, IndexMode otherwise) {
  if (mode.is_none()) return otherwise;
  // JAX's enumeration has members of these names, whose text has its name in front.
  std::string name = nb::cast<std::string>(nb::str(mode));
  if (const std::size_t dot = name.rfind('.'); dot != std::string::npos) name = name.substr(dot + 1);
  for (char& letter : name) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  if (name == "clip" || name == "promise_in_bounds") return IndexMode::kClip;
  if (name == "fill" || name == "drop" || name == "fill_or_drop") return IndexMode::kFill;
  if (name == "wrap") return IndexMode::kWrap;
  value_error(fmt::format("mode must be 'clip', 'fill', 'drop', 'wrap' or 'promise_in_bounds', got '{}'", name));
}

void check_backend(nb::handle backend) {
  if (backend.is_none()) return;
  const auto name = nb::cast<std::string>(nb::str(backend));
  if (name == "cpu") return;
  runtime_error(
      fmt::format("Unknown backend: '{}' requested, but no platforms that are instances of {} are present. Platforms "
                  "present are: cpu",
                  name, name));
}

MemoryKind memory_kind(nb::handle x) {
  if (x.is_none()) return {};
  if (!PyUnicode_Check(x.ptr())) type_error(fmt::format("memory_kind must be a str, got {}", type_text(x)));
  return {nb::cast<std::string>(x), user_line()};
}

PartitionSpec partition_spec(nb::handle x, std::string_view what) {
  if (nb::isinstance<PartitionSpec>(x)) return nb::cast<PartitionSpec>(x);
  type_error(fmt::format("{} must be a PartitionSpec, got {}", what, type_text(x)));
}

namespace {

// JAX has a ValueError for a bare spec, but for those that jit and with_sharding_constraint are given.
void check_mesh_is_set(nb::handle spec, std::string_view what) {
  if (!get_mesh().empty()) return;
  value_error(
      fmt::format("{}: the PartitionSpec {} alone stands for a sharding only while a mesh is set: call set_mesh, "
                  "or pass NamedSharding(mesh, spec)",
                  what, nb::cast<std::string>(nb::repr(spec))));
}

}  // namespace

nb::object sharding_of_format(nb::handle x) {
  if (!nb::hasattr(x, "_sharding_of_rows")) return nb::borrow(x);
  return x.attr("_sharding_of_rows")();
}

Sharding sharding(nb::handle x, std::string_view what) {
  if (nb::isinstance<PartitionSpec>(x)) check_mesh_is_set(x, what);
  return constraint(x, what);
}

Sharding constraint(nb::handle x, std::string_view what) {
  if (nb::isinstance<NamedSharding>(x)) return nb::cast<NamedSharding>(x);
  if (nb::isinstance<SingleDeviceSharding>(x)) return nb::cast<SingleDeviceSharding>(x);
  if (nb::isinstance<PartitionSpec>(x)) return {nb::cast<PartitionSpec>(x), user_line()};
  if (nb::isinstance<Device>(x)) return SingleDeviceSharding(nb::cast<Device>(x));
  type_error(
      fmt::format("{} must be a Sharding, a PartitionSpec under set_mesh, or a Device; got {}", what, type_text(x)));
}

std::optional<Sharding> maybe_sharding(nb::handle x, std::string_view what) {
  if (x.is_none()) return std::nullopt;
  return sharding(x, what);
}

OutSharding out_sharding(nb::handle x, std::string_view what) {
  if (x.is_none()) return {};
  if (nb::isinstance<NamedSharding>(x)) return {nb::cast<NamedSharding>(x)};
  PartitionSpec spec = partition_spec(x, what);
  check_mesh_is_set(x, what);
  return {std::move(spec), user_line()};
}

Mesh mesh(nb::handle x, std::string_view what) {
  if (x.is_none()) return {};
  if (nb::isinstance<Mesh>(x)) return nb::cast<Mesh>(x);
  type_error(fmt::format("{} must be a Mesh, got {}", what, type_text(x)));
}

std::vector<std::string> names(nb::handle x, std::string_view what) {
  if (PyUnicode_Check(x.ptr())) return {nb::cast<std::string>(x)};
  if (PySequence_Check(x.ptr()) == 0 && PyAnySet_Check(x.ptr()) == 0) {
    type_error(fmt::format("{} must be a name or a sequence of names, got {}", what, type_text(x)));
  }
  std::vector<std::string> list;
  for (nb::handle item : x) {
    if (!PyUnicode_Check(item.ptr()))
      type_error(fmt::format("{}: a name must be a str, got {}", what, type_text(item)));
    list.push_back(nb::cast<std::string>(item));
  }
  return list;
}

std::vector<Device> device_list(nb::handle x, std::string_view what) {
  if (nb::isinstance<Device>(x)) return {nb::cast<Device>(x)};
  std::vector<Device> list;
  const nb::object flat = nb::hasattr(x, "ravel") ? x.attr("ravel")() : nb::borrow(x);
  if (PyUnicode_Check(flat.ptr()) || PySequence_Check(flat.ptr()) == 0) {
    type_error(fmt::format("{} must be a sequence of devices, got {}", what, type_text(x)));
  }
  for (nb::handle item : flat) {
    if (nb::isinstance<Device>(item)) {
      list.push_back(nb::cast<Device>(item));
    } else if (PySequence_Check(item.ptr()) != 0 && !PyUnicode_Check(item.ptr())) {
      const std::vector<Device> inner = device_list(item, what);
      list.insert(list.end(), inner.begin(), inner.end());
    } else {
      type_error(fmt::format("{} must consist of devices, got {}", what, type_text(item)));
    }
  }
  return list;
}

nb::tuple to_tuple(const Dims& dims) {
  nb::object tuple = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(dims.size())));
  for (std::size_t i = 0; i < dims.size(); ++i) {
    PyTuple_SET_ITEM(tuple.ptr(), static_cast<Py_ssize_t>(i), PyLong_FromLongLong(dims[i]));
  }
  return nb::borrow<nb::tuple>(tuple);
}

nb::object to_object(const Sharding& sharding) {
  if (sharding.named() != nullptr) return nb::cast(*sharding.named());
  return nb::cast(*sharding.single_device());
}

}  // namespace shoal::python
