// Exceptions of Python that arrays hold.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "bindings/core/convert.h"

namespace shoal::python {

/// What a function of Python raised that the library called on its own. It is raised each time that a result of the
/// program is read, which a python_error can be only once.
class KeptError : public std::exception {
 public:
  explicit KeptError(nb::python_error& error)
      : value_(std::make_shared<const Held>(error.value())), text_(std::make_shared<const std::string>(error.what())) {}
  const char* what() const noexcept override { return text_->c_str(); }
  /// Whether it is one that programs do not handle: KeyboardInterrupt, SystemExit. With the GIL.
  bool ends_program() const noexcept { return PyErr_GivenExceptionMatches(value_->get().ptr(), PyExc_Exception) == 0; }
  /// Sets Python's error. With the GIL.
  void raise() const noexcept { PyErr_SetObject(value_->get().type().ptr(), value_->get().ptr()); }

 private:
  std::shared_ptr<const Held> value_;
  std::shared_ptr<const std::string> text_;
};

/// f() with the GIL.
template <class F>
void call_back(F&& f) {
  nb::gil_scoped_acquire gil;
  try {
    std::forward<F>(f)();
  } catch (nb::python_error& error) {
    throw KeptError(error);
  }
}

}  // namespace shoal::python
