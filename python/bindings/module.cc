// The module shoal._core: everything that the package has, under the names of C++. Public modules of the package take
// their names from here.
#include "convert.h"
#include "frontend/integers.h"
#include "shoal/log.h"

namespace shoal::python {
namespace {

// Warnings and what is asked for by topic, for Python's logging.
void set_sink(nb::handle sink) {
  if (sink.is_none()) {
    set_log_sink({});
    return;
  }
  set_log_sink([held = Held(sink)](LogLevel level, std::string_view text) {
    if (Py_IsInitialized() == 0) return;
    nb::gil_scoped_acquire gil;
    try {
      held.get()(level == LogLevel::kWarning, std::string(text));
    } catch (nb::python_error& e) {
      e.discard_as_unraisable("shoal log");
    }
  });
}

PyObject* signature_of(PyObject* function, void*) noexcept {
  try {
    return nb::module_::import_("shoal._signatures").attr("signature")(nb::handle(function)).release().ptr();
  } catch (nb::python_error& e) {
    e.restore();
    return nullptr;
  }
}

// inspect.signature() asks functions for __signature__, which those of nanobind have not; their types can only be
// changed from C++.
void give_signature(nb::handle function) {
  static PyGetSetDef getter = {"__signature__", signature_of, nullptr, "What inspect.signature() gives.", nullptr};
  auto* type = Py_TYPE(function.ptr());
  const nb::object descriptor = nb::steal(PyDescr_NewGetSet(type, &getter));
  if (!descriptor.is_valid() || PyDict_SetItemString(type->tp_dict, getter.name, descriptor.ptr()) != 0) {
    throw nb::python_error();
  }
  PyType_Modified(type);
}

}  // namespace
}  // namespace shoal::python

NB_MODULE(_core, m) {
  using namespace shoal::python;
  // Functions that refer to each other through the module are left to the process's end.
  nb::set_leak_warnings(false);
  shoal::set_integers_wrap(true);
  bind_errors(m);
  bind_dtypes(m);
  bind_devices(m);
  bind_meshes(m);
  bind_shardings(m);
  bind_array(m);
  bind_indexing(m);
  bind_memory(m);
  bind_host(m);
  bind_tree(m);
  bind_jit(m);
  bind_shard_map(m);
  bind_placement(m);
  bind_debug(m);
  bind_distributed(m);
  bind_multihost(m);
  bind_profiler(m);
  nb::module_ numpy = m.def_submodule("numpy");
  bind_numpy(numpy);
  nb::module_ lax = m.def_submodule("lax");
  bind_lax(lax);
  nb::module_ nn = m.def_submodule("nn");
  bind_nn(nn);
  nb::module_ linalg = m.def_submodule("linalg");
  bind_linalg(linalg);
  give_signature(m.attr("device_put"));
  give_signature(m.attr("Array").attr("astype"));
  m.def("_set_log_sink", &set_sink, "sink"_a.none());
  m.def("_set_log_topics", [](const std::string& topics) { return shoal::set_log_topics(topics); });
}
