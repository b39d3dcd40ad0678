// The modules below shoal._core, with the names of the public modules that show what is in them.
#include <fmt/format.h>

#include <string>

#include "bindings/core/convert.h"

namespace shoal::python {
namespace {

// The name of the module itself, and whether it is part of the package: stubs are made of it alone.
std::string& own_name() {
  static std::string name;
  return name;
}
bool is_packaged() { return own_name() == "shoal._core"; }

}  // namespace

nb::module_ submodule(nb::module_& parent, const char* path, const char* public_name, const char* doc) {
  const std::string full = fmt::format("{}.{}", own_name(), path);
  auto made = nb::borrow<nb::module_>(PyImport_AddModule(full.c_str()));
  if (!made.is_valid()) throw nb::python_error();
  if (doc[0] != '\0') made.attr("__doc__") = doc;
  const std::size_t dot = full.rfind('.');
  parent.attr(full.substr(dot + 1).c_str()) = made;
  // Functions and classes take over what their module is called when they are made.
  if (is_packaged()) made.attr("__name__") = public_name;
  return made;
}

void begin_module(nb::module_& m) {
  own_name() = nb::cast<std::string>(m.attr("__name__"));
  if (is_packaged()) m.attr("__name__") = "shoal";
}
void end_module(nb::module_& m) { m.attr("__name__") = own_name().c_str(); }

}  // namespace shoal::python
