// Functions of Python that the library traces: bodies of loops, branches, and what reductions combine elements by.
#pragma once

#include <fmt/format.h>

#include <any>
#include <string>
#include <utility>
#include <vector>

#include "bindings/core/call.h"
#include "shoal/callable.h"

namespace shoal::python {

/// A function of the user and the arguments that it is traced with.
class Traceable {
 public:
  /// With `types_allowed` a ShapeDtypeStruct may stand for an array.
  Traceable(nb::handle function, const char* name, nb::object arguments, bool types_allowed = false)
      : callee_{nb::borrow(function), name, {}, {}},
        arguments_(std::move(arguments)),
        call_(callee_, arguments_, none_, types_allowed) {
    if (PyCallable_Check(function.ptr()) == 0) {
      type_error(fmt::format("{}: needs a function, got {}", name, type_text(function)));
    }
  }
  /// An argument of the function `name`, as the body of a loop: `role` is its name there, and `names` are those of the
  /// arguments whose values it is called with (Callee::arguments).
  Traceable(nb::handle function, const char* name, std::string role, nb::object arguments,
            std::vector<std::string> names)
      : callee_{nb::borrow(function), name, {}, {}, checked(function, name, std::move(role)), std::move(names)},
        arguments_(std::move(arguments)),
        call_(callee_, arguments_, none_) {}
  Traceable(const Traceable&) = delete;

  detail::CallArguments flatten() const { return call_.flatten(); }
  detail::TracedFunction function() const { return call_.function(); }

 private:
  static std::string checked(nb::handle function, const char* name, std::string role) {
    if (PyCallable_Check(function.ptr()) == 0) {
      type_error(fmt::format("{}: {} must be a function, got {}", name, role, type_text(function)));
    }
    return role;
  }

  const Callee callee_;
  const nb::object arguments_;
  const nb::dict none_;
  const PythonCall call_;
};

/// What call(exemplar) gives, which is computed without the GIL, in the structure that the exemplar says.
template <class F>
nb::object result_of(F&& call) {
  std::any exemplar;
  std::vector<Array> leaves = unlocked([&] { return call(exemplar); });
  return result_object(exemplar, std::move(leaves));
}

}  // namespace shoal::python
