// Memory that arrays share with NumPy, and with whoever speaks DLPack or the buffer protocol. All of it needs the GIL.
#pragma once

#include <cstdint>
#include <optional>

#include "bindings/core/convert.h"

namespace shoal::python {

/// Whether the memory of an object may become that of an array. It must lie in one piece, in row-major order, and its
/// elements must be aligned and of a dtype that arrays have here; otherwise it is copied before the call returns.
enum class Sharing : std::uint8_t {
  kNever,
  kConstant,  ///< If nobody can write it: it is an array's own, or that of bytes.
  kAligned,   ///< Also if each shard is aligned to 64 bytes, as JAX does in device_put.
  kAlways,    ///< Also if somebody can write it.
  kRequired,  ///< Throws ValueError rather than copy.
};

/// Whether an object is an array or number of NumPy, or has the memory of an array as NumPy describes it.
bool is_of_numpy(nb::handle x);
/// Whether an array of NumPy has a mask.
bool is_masked(nb::handle x);

/// From an array of NumPy, or any object with a buffer or __array__, with its dtype or the canonical one for it.
/// Committed to the sharding if there is one.
Array from_numpy(nb::handle x, std::string_view function, SourceLocation where, Sharing sharing = Sharing::kConstant,
                 const std::optional<Sharding>& sharding = {});
/// From an object with __dlpack__, which may be an array. Throws TypeError for one of memory that is not the host's.
Array from_dlpack(nb::handle x, SourceLocation where, Sharing sharing, const std::optional<Sharding>& sharding = {});
/// From any object that can become an array, lists of numbers included. Throws TypeError for others.
Array array_of_any(nb::handle object, std::optional<Dtype> wanted, Sharing sharing);

/// The array as one of NumPy, which shares its memory and cannot be written.
nb::object numpy_view(const Array& array, SourceLocation where);

/// Throws what a signal's handler raised, such as that of Ctrl-C, while NumPy asked for the buffer of this array. NumPy
/// drops that, and asks for __array__ next.
void raise_interrupt(const Array& array);

/// What lets memoryview(x) look at an array: bf_getbuffer.
int array_buffer(PyObject* self, Py_buffer* view, int flags) noexcept;

}  // namespace shoal::python
