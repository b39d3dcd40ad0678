// Calls of Python functions on trees, as the library's caches take them.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "bindings/core/convert.h"
#include "bindings/core/tree.h"

namespace shoal::python {

/// A Python function and which of its arguments are static. Copies share the function.
struct Callee {
  nb::object function;
  std::string name;
  std::vector<std::int64_t> static_argnums;  ///< Not negative, ascending.
  std::vector<std::string> static_argnames;
  /// Of a function that is an argument of another, as the body of a loop: the name of that argument, and those of the
  /// ones whose values it is called with; the last is that of all further ones.
  std::string role = {};
  std::vector<std::string> arguments = {};

  bool is_static(std::size_t position) const;
  bool is_static(std::string_view keyword) const;
};

/// One call. Its arguments must outlive it. Made and destroyed with the GIL; the library may use it without.
class PythonCall final : public detail::FunctionCall {
 public:
  /// With `types_allowed` a ShapeDtypeStruct may stand for an array.
  PythonCall(const Callee& callee, nb::handle args, nb::handle kwargs, bool types_allowed = false);

  detail::CallArguments flatten() const override;
  detail::TracedFunction function() const override;

 private:
  const Array& array_at(nb::handle leaf, std::size_t number);
  void add_static(nb::handle value, std::string_view what);
  void refuse_operand(nb::handle leaf, std::size_t number) const;

  const Callee& callee_;
  nb::handle args_;
  nb::handle kwargs_;
  std::deque<Array> made_;        // Of numbers and arrays of NumPy.
  std::vector<nb::object> held_;  // What registered classes are made of.
};

/// What a traced function returned: its structure, which is what an exemplar holds. `hint` ends what is said of a value
/// that is none.
detail::TracedResult traced_result(nb::handle result, const std::string& name, std::string_view hint = {});
/// The result of a call, of which an exemplar says the structure.
nb::object result_object(const std::any& exemplar, std::vector<Array> leaves);

/// The slots of a class T of functions with a `callee`: it is called by `call`, binds as a method does, and shows the
/// collector what it refers to.
template <class T, nb::object (*call)(const T&, nb::handle args, nb::handle kwargs)>
struct FunctionSlots {
  static PyObject* call_slot(PyObject* self, PyObject* args, PyObject* kwargs) noexcept {
    try {
      return call(*nb::inst_ptr<T>(self), args, kwargs).release().ptr();
    } catch (...) {
      raise_current();
    }
    return nullptr;
  }
  static PyObject* get_slot(PyObject* self, PyObject* instance, PyObject*) noexcept {
    if (instance == nullptr || instance == Py_None) return Py_NewRef(self);
    return PyMethod_New(self, instance);
  }
  static int traverse_slot(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    if (PyObject** attributes = _PyObject_GetDictPtr(self)) Py_VISIT(*attributes);
    if (!nb::inst_ready(self)) return 0;
    Py_VISIT(nb::inst_ptr<T>(self)->callee.function.ptr());
    return 0;
  }
  static int clear_slot(PyObject* self) {
    if (PyObject** attributes = _PyObject_GetDictPtr(self)) Py_CLEAR(*attributes);
    if (nb::inst_ready(self)) nb::inst_ptr<T>(self)->callee.function.reset();
    return 0;
  }
  static inline PyType_Slot slots[] = {{Py_tp_call, reinterpret_cast<void*>(call_slot)},
                                       {Py_tp_descr_get, reinterpret_cast<void*>(get_slot)},
                                       {Py_tp_traverse, reinterpret_cast<void*>(traverse_slot)},
                                       {Py_tp_clear, reinterpret_cast<void*>(clear_slot)},
                                       {0, nullptr}};
};

/// One sharding for all, or a tree of them.
ShardingTree sharding_tree(nb::handle x, std::string_view what);
/// Whether such a tree has partition specs, which mean the mesh that is set when they are used.
bool has_bare_specs(nb::handle x);
SpecTree spec_tree(nb::handle x, std::string_view what);

}  // namespace shoal::python
