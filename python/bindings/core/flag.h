// A parameter that is true or false, of any object that Python takes for one, as 1 or numpy.bool.
#pragma once

#include <nanobind/nanobind.h>

namespace shoal::python {

struct Flag {
  bool value;
  constexpr Flag(bool flag = false) : value(flag) {}
  operator bool() const { return value; }
};

}  // namespace shoal::python

namespace nanobind::detail {

template <>
struct type_caster<shoal::python::Flag> {
  NB_TYPE_CASTER(shoal::python::Flag, const_name("bool"))

  bool from_python(handle source, std::uint8_t, cleanup_list*) noexcept {
    const int truth = PyObject_IsTrue(source.ptr());
    if (truth < 0) {
      PyErr_Clear();
      return false;
    }
    value.value = truth != 0;
    return true;
  }
  static handle from_cpp(shoal::python::Flag flag, rv_policy, cleanup_list*) noexcept {
    return PyBool_FromLong(flag ? 1 : 0);
  }
};

}  // namespace nanobind::detail
