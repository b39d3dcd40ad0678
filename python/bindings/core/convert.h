// From Python's values to those of the library. All of it needs the GIL.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/caller.h"
#include "bindings/core/location.h"
#include "shoal/shoal.h"

namespace shoal::python {

namespace nb = nanobind;
using namespace nb::literals;

/// Another array of the same elements, if some array besides this one has them and could be deleted; nothing otherwise.
std::optional<Array> array_of_its_own(const Array& array);

}  // namespace shoal::python

namespace nanobind::detail {

/// Each object of Python is an array of its own: what a function does nothing to keeps its elements when the argument
/// is deleted or donated.
template <>
struct type_caster<shoal::Array> : type_caster_base<shoal::Array> {
  template <class T>
  static handle from_cpp(T&& value, rv_policy policy, cleanup_list* cleanup) noexcept {
    using Base = type_caster_base<shoal::Array>;
    if constexpr (!std::is_pointer_v<std::remove_reference_t<T>>) {
      const bool makes_one = policy == rv_policy::automatic || policy == rv_policy::automatic_reference ||
                             policy == rv_policy::copy || policy == rv_policy::move;
      if (makes_one) {
        if (std::optional<shoal::Array> own = shoal::python::array_of_its_own(value)) {
          return Base::from_cpp(std::move(*own), rv_policy::move, cleanup);
        }
      }
    }
    return Base::from_cpp(std::forward<T>(value), policy, cleanup);
  }
};

}  // namespace nanobind::detail

namespace shoal::python {

// ---- Arguments.

/// An argument that may be anything: what converts it says what is wrong with it.
constexpr auto operator""_x(const char* name, std::size_t) { return nb::arg(name).none(); }
/// The same for one that has no name.
constexpr auto positional() { return nb::arg().none(); }

// ---- The GIL.

/// f() without the GIL, for what computes, waits or moves data. What f calls back takes it again.
template <class F>
decltype(auto) unlocked(F&& f) {
  nb::gil_scoped_release release;
  return f();
}

/// f() as the function that the user called on this line, which errors name (base/caller.h).
template <class F>
decltype(auto) called_as(std::string_view function, const SourceLocation& where, F&& f) {
  const Caller caller(function, where);
  return f();
}

/// A reference that any thread may drop, also one that never had the GIL, and after the interpreter has ended. Dropped
/// without the GIL, it is given up soon after by a thread that has it: code of Python never runs where it was dropped.
class Held {
 public:
  Held() = default;
  explicit Held(nb::handle object) : object_(object.inc_ref().ptr()) {}
  Held(const Held& other);
  Held(Held&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Held& operator=(Held other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Held();
  nb::handle get() const { return object_; }

 private:
  PyObject* object_ = nullptr;
};

/// Gives up what was dropped without the GIL, if the interpreter has not come to it yet.
void give_up_dropped();

// ---- Whether 64-bit types are on: jax_enable_x64.

bool x64_enabled();
void set_x64_enabled(bool enabled);
/// The dtype that arrays have for this one: its half while 64-bit types are off.
Dtype canonical(Dtype dtype);
/// Of Python's int, float and complex.
Dtype default_int();
Dtype default_float();
Dtype default_complex();

// ---- Values.

/// The array of a Python object that is one; null for others.
const Array* array_of(nb::handle x);
/// Whether an object can be an operand: an array, a number, an array or number of NumPy, or one that says how it
/// becomes an array (__jax_array__).
bool is_array_like(nb::handle x);
/// The operand, with the user's line. Python's numbers are weakly typed. Throws TypeError, naming function and
/// argument, for what is no array or number.
Operand operand(nb::handle x, std::string_view function, std::string_view argument = "x");
/// The same where only its dtype and shape are asked for: no value is moved to a device.
Operand operand_as_type(nb::handle x, std::string_view function, std::string_view argument = "x");
/// The same where it becomes of a dtype that is known: Python's integers may then be wider than the default width.
Operand operand_for(std::optional<Dtype> dtype, nb::handle x, std::string_view function,
                    std::string_view argument = "x");
/// The same as an array.
Array to_array(nb::handle x, std::string_view function, std::string_view argument = "x");
std::optional<Array> maybe_array(nb::handle x, std::string_view function, std::string_view argument);
std::optional<Operand> maybe_operand(nb::handle x, std::string_view function, std::string_view argument);
/// The operands of a list or tuple. An array counts as the list of its rows.
std::vector<Operand> operand_list(nb::handle x, std::string_view function, std::string_view argument = "arrays");
Operands operands(nb::handle x, std::string_view function, std::string_view argument = "arrays");

/// Throws TypeError for an integer, or an array of them, to a power that Python knows to be negative.
void check_power(const Operand& base, nb::handle exponent);

/// An integer, or what has __index__. Throws TypeError for others.
std::int64_t integer(nb::handle x, std::string_view what);
std::optional<std::int64_t> maybe_integer(nb::handle x, std::string_view what);
/// One integer, or a sequence.
Dims dims(nb::handle x, std::string_view what);
std::optional<Dims> maybe_dims(nb::handle x, std::string_view what);
/// None, one dimension, or several.
Axes axes(nb::handle x, std::string_view what = "axis");
std::optional<double> maybe_number(nb::handle x, std::string_view what);

/// Of a dtype, a scalar type of this package or of NumPy, Python's bool, int, float and complex, or a name; the
/// canonical one. Throws TypeError for others.
Dtype dtype(nb::handle x);
std::optional<Dtype> maybe_dtype(nb::handle x);
/// numpy.dtype of it.
nb::object dtype_object(Dtype dtype);

/// Whether an object is an array of NumPy of float0, the dtype of what integers have for tangents.
bool is_float0(nb::handle x);
/// Whether it is that dtype.
bool is_float0_dtype(nb::handle x);
/// Such an array.
nb::object float0_array(nb::handle shape);

/// The mode of functions that read or write at positions; that of JAX's names.
IndexMode index_mode(nb::handle mode, IndexMode otherwise);
MemoryKind memory_kind(nb::handle x);
/// Throws RuntimeError for a platform that is not here; None is any.
void check_backend(nb::handle backend);
/// The sharding of a Format, which may be None, if its layout is the one there is; anything else as it is.
nb::object sharding_of_format(nb::handle x);

/// A sharding, a partition spec over the mesh of set_mesh, or a device. Throws ValueError if no mesh is set.
Sharding sharding(nb::handle x, std::string_view what);
/// The same, but RuntimeError.
Sharding constraint(nb::handle x, std::string_view what);
std::optional<Sharding> maybe_sharding(nb::handle x, std::string_view what);
OutSharding out_sharding(nb::handle x, std::string_view what = "out_sharding");
PartitionSpec partition_spec(nb::handle x, std::string_view what);
/// None stands for the empty mesh.
Mesh mesh(nb::handle x, std::string_view what);
std::vector<std::string> names(nb::handle x, std::string_view what);
std::vector<Device> device_list(nb::handle x, std::string_view what);

// ---- And back.

/// Waits for an array, without the GIL; Ctrl-C ends the wait. Throws the error of its computation.
void wait_for(const Array& array);

nb::tuple to_tuple(const Dims& dims);
template <class T>
nb::tuple tuple_of(std::vector<T> values) {
  nb::list list;
  for (T& value : values) list.append(std::move(value));
  return nb::tuple(list);
}
template <class T>
nb::list list_of(std::vector<T> values) {
  nb::list list;
  for (T& value : values) list.append(std::move(value));
  return list;
}
/// The same for a sharding, as the class of its kind.
nb::object to_object(const Sharding& sharding);
/// A tuple of slices.
nb::tuple to_object(const ShardIndex& index);

/// "TypeError: {function}: {text}" and the like, for bad arguments that never reach the library.
[[noreturn]] void type_error(const std::string& text);
/// ShapeError, which is a TypeError and a ValueError.
[[noreturn]] void shape_error(const std::string& text);
[[noreturn]] void value_error(const std::string& text);
[[noreturn]] void not_implemented(const std::string& text);
[[noreturn]] void runtime_error(const std::string& text);
/// Sets Python's error to the exception that is being handled.
void raise_current() noexcept;
/// Throws Python's error; what raise_current passed through Python's frames, as it was.
[[noreturn]] void rethrow_python_error();
/// "<class 'list'>"
std::string type_text(nb::handle x);

// ---- What each file adds to the module.

/// A module inside this one; `path` is from there. Its functions say that they are of `public_name`.
nb::module_ submodule(nb::module_& parent, const char* path, const char* public_name, const char* doc = "");
/// While the module is made, its functions and classes say that they are of `shoal`.
void begin_module(nb::module_& m);
void end_module(nb::module_& m);

void bind_errors(nb::module_& m);
void bind_dtypes(nb::module_& m);
void bind_devices(nb::module_& m);
void bind_meshes(nb::module_& m);
void bind_shardings(nb::module_& m);
void bind_array(nb::module_& m);
void bind_indexing(nb::module_& m);
void bind_host(nb::module_& m);
void bind_memory(nb::module_& m);
void bind_tree(nb::module_& m);
void bind_jit(nb::module_& m);
void bind_shard_map(nb::module_& m);
void bind_placement(nb::module_& m);
void bind_debug(nb::module_& m);
void bind_distributed(nb::module_& m);
void bind_multihost(nb::module_& m);
void bind_profiler(nb::module_& m);

}  // namespace shoal::python
