#include "bindings/core/memory.h"

#include <fmt/format.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "base/caller.h"
#include "core/host_allocator.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/trace.h"
#include "runtime/device_array.h"
#include "runtime/transfer_guard.h"

namespace shoal::python {
namespace {

// ---- Memory of arrays, for others to read.

// The elements of a whole array. A dtype that buffers have no name for is shown as its bits.
struct Exported {
  Buffer buffer;
  std::vector<Py_ssize_t> extents;
  std::vector<Py_ssize_t> strides;

  explicit Exported(Buffer given) : buffer(std::move(given)) {
    auto stride = static_cast<Py_ssize_t>(size_of(buffer.dtype()));
    extents.assign(buffer.shape().begin(), buffer.shape().end());
    strides.resize(extents.size());
    for (std::size_t d = extents.size(); d-- > 0; stride *= extents[d]) strides[d] = stride;
  }
};

// In the language of the module struct, and of NumPy for complex numbers. 64 bits are a long, as for NumPy.
const char* format_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::kBool:
      return "?";
    case Dtype::kI8:
      return "b";
    case Dtype::kI16:
      return "h";
    case Dtype::kI32:
      return "i";
    case Dtype::kI64:
      return "l";
    case Dtype::kU8:
      return "B";
    case Dtype::kU16:
    case Dtype::kBF16:
      return "H";
    case Dtype::kU32:
      return "I";
    case Dtype::kU64:
      return "L";
    case Dtype::kF16:
      return "e";
    case Dtype::kF32:
      return "f";
    case Dtype::kF64:
      return "d";
    case Dtype::kC64:
      return "Zf";
    case Dtype::kC128:
      return "Zd";
  }
  return "B";
}

int exported_buffer(PyObject* self, Py_buffer* view, int flags) noexcept {
  Exported& exported = *nb::inst_ptr<Exported>(self);
  const std::size_t rank = exported.extents.size();
  if ((flags & PyBUF_WRITABLE) == PyBUF_WRITABLE) {
    PyErr_SetString(PyExc_BufferError, "arrays cannot be written");
    return -1;
  }
  if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && rank > 1) {
    PyErr_SetString(PyExc_BufferError, "arrays are row-major");
    return -1;
  }
  static std::uint64_t nothing = 0;
  const void* data = exported.buffer.data();
  *view = {};
  view->buf = data == nullptr ? &nothing : const_cast<void*>(data);
  view->obj = Py_NewRef(self);
  view->len = static_cast<Py_ssize_t>(exported.buffer.size_bytes());
  view->itemsize = static_cast<Py_ssize_t>(size_of(exported.buffer.dtype()));
  view->readonly = 1;
  view->ndim = static_cast<int>(rank);
  if ((flags & PyBUF_FORMAT) != 0) view->format = const_cast<char*>(format_of(exported.buffer.dtype()));
  if ((flags & PyBUF_ND) != 0) view->shape = exported.extents.data();
  if ((flags & PyBUF_STRIDES) == PyBUF_STRIDES) view->strides = exported.strides.data();
  return 0;
}

// The whole array in memory of the host: its own where one buffer holds all of it.
Buffer host_buffer(const Array& array, SourceLocation where) {
  if (is_key(array.dtype())) {
    type_error(
        "JAX array with PRNGKey dtype cannot be converted to a NumPy array. Use jax.random.key_data(arr) if you wish "
        "to extract the underlying integer array.");
  }
  const detail::ArrayImpl& impl = called_as(
      "__array__", where, [&]() -> const auto& { return detail::impl_of(array); });
  if (const Trace* trace = impl.trace();
      trace != nullptr && trace->kind() == Trace::Kind::kEager && !trace->finished()) {
    // A value of an eager shard_map; copied through the array's own reading.
    Buffer buffer(host_space(kUnpinnedHostMemory), array.dtype(), array.shape());
    detail::copy_to_host(array, array.dtype(), buffer.mutable_data(), false, where);
    return buffer;
  }
  const DeviceArray concrete = called_as("__array__", where, [&] { return detail::concrete(array); });
  // One shard is read where it lies.
  if (is_guarded(TransferKind::kDeviceToHost) && !array.sharding(where).is_fully_replicated()) {
    check_transfer(TransferKind::kDeviceToHost, to_string(impl.type), where);
  }
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

// ---- Memory of others, for arrays.

// What keeps an object as long as an array has its memory.
std::shared_ptr<const void> keeper(nb::handle object) {
  give_up_dropped();  // However long the main thread runs something else.
  return std::make_shared<const Held>(object);
}

// A dense array of NumPy in one of our dtypes.
nb::object dense(nb::handle x, Dtype& dtype, std::string_view function) {
  const nb::module_ numpy = nb::module_::import_("numpy");
  if (is_masked(x)) {
    value_error(
        fmt::format("{}: numpy masked arrays are not supported as direct inputs to JAX functions. Use arr.filled() to "
                    "convert the value to a standard numpy array.",
                    function));
  }
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

// Whether nobody can write the memory of an array of NumPy: no array in between can, and it is that of one of our
// arrays, or of bytes. One that owns its memory can always be made to be written.
bool is_constant(nb::handle array) {
  const nb::object ndarray = nb::module_::import_("numpy").attr("ndarray");
  nb::object x = nb::borrow(array);
  while (nb::isinstance(x, ndarray)) {
    if (nb::cast<bool>(x.attr("flags").attr("writeable"))) return false;
    x = x.attr("base");
  }
  if (PyMemoryView_Check(x.ptr())) {
    PyObject* exporter = PyMemoryView_GET_BUFFER(x.ptr())->obj;
    return exporter != nullptr && (PyBytes_Check(exporter) || nb::isinstance<Exported>(exporter));
  }
  return PyBytes_Check(x.ptr());
}

// Whether an array of NumPy has just been made, and nobody else has it.
bool is_fresh(nb::handle array) {
  return Py_REFCNT(array.ptr()) == 1 && nb::cast<bool>(array.attr("flags").attr("owndata"));
}

// The array of elements, which share their memory if they may. If they are constant, it matters to nobody that they do.
Array from_memory(Dtype from, const Shape& shape, HostElements elements, Dtype to, bool constant, Sharing sharing,
                  const std::optional<Sharding>& sharding, SourceLocation where) {
  if (sharing == Sharing::kRequired && from != to) {
    value_error(
        fmt::format("{}{} cannot become an array without a copy, which is of {} while 64-bit types are off; "
                    "leave out copy=False",
                    name_of(from), to_string(shape), name_of(to)));
  }
  // What is converted is read later, and a program that is traced would have it forever.
  if (Trace::current() != nullptr || from != to) sharing = std::min(sharing, Sharing::kConstant);
  if (sharing < Sharing::kAligned && !constant) elements.owner = nullptr;
  if (sharing == Sharing::kAligned && !constant) elements.alignment = HostAllocator::kAlignment;
  elements.may_copy = sharing != Sharing::kRequired;
  CreationOptions options{.dtype = {}, .sharding = sharding};
  if (to != from) options.dtype = to;
  return unlocked([&] {
    const Caller caller("array", where);
    return detail::array_of_elements(from, shape, elements, options);
  });
}

// ---- DLPack.

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

using Tensor = nb::ndarray<nb::ro>;

Dtype dtype_of(const Tensor& tensor) {
  for (int i = 0; i < kNumDtypes; ++i) {
    if (dlpack_dtype(static_cast<Dtype>(i)) == tensor.dtype()) return static_cast<Dtype>(i);
  }
  type_error(fmt::format("from_dlpack: there is no dtype for DLPack's code {} with {} bits and {} lanes",
                         tensor.dtype().code, tensor.dtype().bits, tensor.dtype().lanes));
}

bool is_dense(const Tensor& tensor) {
  std::int64_t stride = 1;
  for (std::size_t d = tensor.ndim(); d-- > 0;) {
    if (tensor.shape(d) != 1 && tensor.stride(d) != stride && tensor.size() != 0) return false;
    stride *= static_cast<std::int64_t>(tensor.shape(d));
  }
  return true;
}

// Copies the elements from dimension `dim` on, one after the other.
std::byte* pack(const Tensor& tensor, std::size_t element, std::size_t dim, const std::byte* from, std::byte* to) {
  if (dim == tensor.ndim()) {
    std::memcpy(to, from, element);
    return to + element;
  }
  for (std::size_t i = 0; i < tensor.shape(dim); ++i) {
    to = pack(tensor, element, dim + 1, from, to);
    from += tensor.stride(dim) * static_cast<std::int64_t>(element);
  }
  return to;
}

nb::object to_dlpack(const Array& array, nb::handle max_version, nb::handle dl_device, nb::handle copy) {
  const SourceLocation where = user_line();
  const auto refuse = [](const char* text) {
    PyErr_SetString(PyExc_BufferError, text);
    throw nb::python_error();
  };
  if (!dl_device.is_none() && !nb::borrow(dl_device).equal(nb::make_tuple(nb::device::cpu::value, 0))) {
    refuse("__dlpack__: arrays lie in memory of the host; dl_device must be (1, 0) or None");
  }
  Buffer buffer = host_buffer(array, where);
  if (!copy.is_none()) {
    const std::vector<Buffer> own =
        unlocked([&] { return called_as("__dlpack__", where, [&] { return detail::concrete(array); }).wait().shards; });
    const bool is_own =
        std::ranges::any_of(own, [&](const Buffer& shard) { return shard && same_memory(shard, buffer); });
    const bool copies = PyObject_IsTrue(copy.ptr()) != 0;
    if (!copies && !is_own) refuse("__dlpack__: the shards of this array must be put together, but copy=False");
    if (copies && is_own) {
      buffer = host_buffer(unlocked([&] { return array.copy(where); }), where);
    }
  }
  const std::vector<std::size_t> extents(buffer.shape().begin(), buffer.shape().end());
  auto keep = std::make_unique<Buffer>(std::move(buffer));
  const Buffer& kept = *keep;
  const nb::capsule owner(keep.release(), [](void* p) noexcept { delete static_cast<Buffer*>(p); });
  const nb::ndarray<nb::array_api, nb::ro> view(kept.data(), extents.size(), extents.data(), owner, nullptr,
                                                dlpack_dtype(kept.dtype()));
  return nb::cast(view).attr("__dlpack__")("max_version"_a = max_version);
}

}  // namespace

bool is_masked(nb::handle x) {
  return is_of_numpy(x) && nb::isinstance(x, nb::object(nb::module_::import_("numpy").attr("ma").attr("MaskedArray")));
}

bool is_of_numpy(nb::handle x) {
  const char* name = Py_TYPE(x.ptr())->tp_name;
  return std::string_view(name).starts_with("numpy.") || nb::hasattr(x, "__array_interface__");
}

Array from_numpy(nb::handle x, std::string_view function, SourceLocation where, Sharing sharing,
                 const std::optional<Sharding>& sharding) {
  Dtype dtype{};
  const nb::object held = dense(x, dtype, function);
  Py_buffer view;
  if (PyObject_GetBuffer(held.ptr(), &view, PyBUF_ND) != 0) throw nb::python_error();
  const Shape shape(view.shape, view.shape + view.ndim);
  const HostElements elements{.data = view.buf, .owner = keeper(held)};
  PyBuffer_Release(&view);  // An array of NumPy stays where it is as long as somebody has it.
  const bool copied = !held.is(x) && is_fresh(held);
  const bool constant = copied || (sharing != Sharing::kNever && is_constant(held));
  return from_memory(dtype, shape, elements, canonical(dtype), constant, sharing, sharding, where);
}

Array from_dlpack(nb::handle x, SourceLocation where, Sharing sharing, const std::optional<Sharding>& sharding) {
  if (const Array* array = array_of(x)) {
    // Another array of the same memory.
    const Array again =
        sharing == Sharing::kNever
            ? unlocked([&] { return array->copy(where); })
            : detail::Access::make(called_as("from_dlpack", where, [&] { return detail::concrete(*array); }));
    return sharding ? unlocked([&] { return device_put({again, where}, *sharding); }) : again;
  }
  if (!nb::hasattr(x, "__dlpack__") || !nb::hasattr(x, "__dlpack_device__")) {
    type_error("The array passed to from_dlpack must have __dlpack__ and __dlpack_device__ methods.");
  }
  // Its own way keeps what is read-only, which older exchanges refuse to give.
  if (is_of_numpy(x)) return from_numpy(x, "from_dlpack", where, sharing, sharding);
  const nb::object device = x.attr("__dlpack_device__")();
  const std::int64_t kind = integer(nb::object(device[0]), "from_dlpack: the device type");
  if (kind != nb::device::cpu::value && kind != nb::device::cuda_host::value) {
    type_error(fmt::format("Array passed to from_dlpack is on unsupported device type (DLDeviceType: {}, array: {})",
                           kind, type_text(x)));
  }
  auto tensor = nb::cast<Tensor>(x);
  const Dtype dtype = dtype_of(tensor);
  Shape shape;
  for (std::size_t d = 0; d < tensor.ndim(); ++d) shape.push_back(static_cast<std::int64_t>(tensor.shape(d)));
  const Dtype to = canonical(dtype);
  if (!is_dense(tensor)) {
    if (sharing == Sharing::kRequired) {
      value_error("from_dlpack: the elements do not lie next to each other in row-major order, but copy=False");
    }
    const auto packed = std::make_shared<std::vector<std::byte>>(tensor.size() * size_of(dtype));
    pack(tensor, size_of(dtype), 0, static_cast<const std::byte*>(tensor.data()), packed->data());
    return from_memory(dtype, shape, {.data = packed->data(), .owner = packed}, to, true, sharing, sharding, where);
  }
  HostElements elements{.data = tensor.data()};
  // The deleter of the other side runs when the capsule goes, which is with the GIL.
  auto kept = std::make_unique<Tensor>(std::move(tensor));
  const nb::capsule owner(kept.release(), [](void* p) noexcept { delete static_cast<Tensor*>(p); });
  elements.owner = keeper(owner);
  return from_memory(dtype, shape, std::move(elements), to, false, sharing, sharding, where);
}

nb::object numpy_view(const Array& array, SourceLocation where) {
  const nb::object exported = nb::cast(Exported(host_buffer(array, where)));
  const nb::object view = nb::module_::import_("numpy").attr("asarray")(exported);
  return array.dtype() == bfloat16 ? nb::object(view.attr("view")(dtype_object(bfloat16))) : view;
}

namespace {

// Of the last buffer that was asked for: the array, and what the wait for it was ended by. Guarded by the GIL.
const Array* interrupted = nullptr;
PyObject* interrupt = nullptr;

}  // namespace

void raise_interrupt(const Array& array) {
  if (interrupt == nullptr || interrupted != &array) return;
  const nb::object error = nb::steal(std::exchange(interrupt, nullptr));
  PyErr_SetObject(error.type().ptr(), error.ptr());
  throw nb::python_error();
}

int array_buffer(PyObject* self, Py_buffer* view, int flags) noexcept {
  const Array& array = *nb::inst_ptr<Array>(self);
  Py_CLEAR(interrupt);
  try {
    if (array.dtype() == bfloat16) {
      PyErr_SetString(PyExc_BufferError, "buffers have no format for bfloat16");
      return -1;
    }
    const nb::object exported = nb::cast(Exported(host_buffer(array, user_line())));
    return PyObject_GetBuffer(exported.ptr(), view, flags);
  } catch (nb::python_error& error) {
    interrupted = &array;
    interrupt = Py_NewRef(error.value().ptr());
    error.restore();
  } catch (...) {
    raise_current();
  }
  return -1;
}

void bind_memory(nb::module_& m) {
  static PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(exported_buffer)}, {0, nullptr}};
  nb::class_<Exported>(m, "_Exported", nb::type_slots(slots), "The memory of an array, as others see it.");
  auto c = nb::borrow<nb::class_<Array>>(nb::type<Array>());
  c.def(
      "__dlpack__",
      [](const Array& a, nb::handle, nb::handle max_version, nb::handle dl_device, nb::handle copy) {
        return to_dlpack(a, max_version, dl_device, copy);
      },
      nb::kw_only(), "stream"_a = nb::none(), "max_version"_a = nb::none(), "dl_device"_a = nb::none(),
      "copy"_a = nb::none());
  c.def("__dlpack_device__", [](const Array&) { return nb::make_tuple(nb::device::cpu::value, 0); });
  m.def(
      "is_supported_dtype",
      [](nb::handle x) {
        if (x.is_none()) type_error("Expected a string or dtype-like object; got dtype=None");
        try {
          static_cast<void>(dtype(x));
          return true;
        } catch (nb::python_error&) {
          return false;
        }
      },
      "dtype"_a.none(), "Whether arrays of this dtype can be exchanged.");
  m.def(
      "from_dlpack",
      [](nb::handle external_array, nb::handle device, nb::handle copy) {
        const Sharing sharing = copy.is_none()                     ? Sharing::kAlways
                                : PyObject_IsTrue(copy.ptr()) != 0 ? Sharing::kNever
                                                                   : Sharing::kRequired;
        return from_dlpack(external_array, user_line(), sharing, maybe_sharding(device, "from_dlpack: device"));
      },
      "external_array"_a, "device"_a = nb::none(), "copy"_a = nb::none(),
      "An array of what speaks DLPack, whose memory it shares where no copy is needed: nobody may write it then. "
      "With copy=False what would need one raises ValueError.");
}

}  // namespace shoal::python
