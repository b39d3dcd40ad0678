// The module shoal._core: everything that the package has, under the names of C++. Public modules of the package take
// their names from here.
#include <string>
#include <utility>
#include <vector>

#include "bindings/core/checkpoints.h"
#include "bindings/core/convert.h"
#include "bindings/lax/lax.h"
#include "bindings/nn/nn.h"
#include "bindings/numpy/numpy.h"
#include "bindings/random/random.h"
#include "bindings/scipy/scipy.h"
#include "bindings/scipy/special.h"
#include "bindings/training/training.h"
#include "frontend/array/integers.h"
#include "frontend/array/promotion_mode.h"
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
    const nb::handle bare = nb::handle(function);
    const bool is_bound = nb::hasattr(bare, "__self__") && nb::hasattr(bare, "__func__");
    const nb::module_ signatures = nb::module_::import_("shoal._signatures");
    return is_bound ? signatures.attr("signature_of_bound")(bare.attr("__func__")).release().ptr()
                    : signatures.attr("signature")(bare).release().ptr();
  } catch (nb::python_error& e) {
    e.restore();
    return nullptr;
  }
}

// Types of nanobind can only be changed from C++.
void set_getter(nb::handle function, PyGetSetDef& getter) {
  auto* type = Py_TYPE(function.ptr());
  const nb::object descriptor = nb::steal(PyDescr_NewGetSet(type, &getter));
  if (!descriptor.is_valid() || PyDict_SetItemString(type->tp_dict, getter.name, descriptor.ptr()) != 0) {
    throw nb::python_error();
  }
  PyType_Modified(type);
}

// inspect.signature() asks functions for __signature__, which those of nanobind have not.
void give_signature(nb::handle function) {
  static PyGetSetDef getter = {"__signature__", signature_of, nullptr, "What inspect.signature() gives.", nullptr};
  set_getter(function, getter);
}

// What the types of functions had for attributes before they were given documentation.
using Attributes = std::pair<PyTypeObject*, getattrofunc>;
std::vector<Attributes>& attributes() {
  static std::vector<Attributes> all;
  return all;
}

PyObject* attribute_before(PyObject* function, PyObject* name) {
  for (const auto& [type, get] : attributes()) {
    if (Py_IS_TYPE(function, type) != 0) return get(function, name);
  }
  return PyObject_GenericGetAttr(function, name);
}

PyObject* documentation_of(PyObject* function, void*) noexcept {
  try {
    nb::object doc = nb::module_::import_("shoal._docs").attr("of")(nb::handle(function));
    return doc.is_none() ? attribute_before(function, nb::str("__doc__").ptr()) : doc.release().ptr();
  } catch (nb::python_error& e) {
    e.restore();
    return nullptr;
  }
}

PyObject* attribute_of(PyObject* function, PyObject* name) noexcept {
  const bool is_doc = PyUnicode_CompareWithASCIIString(name, "__doc__") == 0;
  return is_doc ? documentation_of(function, nullptr) : attribute_before(function, name);
}

// The documentation of functions is long, and rarely asked for: it is read from a file then. nanobind answers for
// __doc__ itself, so that the slot is replaced.
void give_documentation(nb::handle function) {
  auto* type = Py_TYPE(function.ptr());
  attributes().emplace_back(type, type->tp_getattro);
  type->tp_getattro = attribute_of;
  PyType_Modified(type);
}

// What help() asks is the type, past that slot.
void give_documentation_to_help(nb::handle function) {
  static PyGetSetDef getter = {"__doc__", documentation_of, nullptr, nullptr, nullptr};
  set_getter(function, getter);
}

}  // namespace

}  // namespace shoal::python

NB_MODULE(_core, m) {
  using namespace shoal::python;
  begin_module(m);
  // Functions that refer to each other through the module are left to the process's end.
  nb::set_leak_warnings(false);
  shoal::set_integers_wrap(true);
  shoal::set_narrow_promotion(true);  // 64-bit types are off at first.
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
  bind_checkpoints(m);
  nb::module_ numpy = submodule(m, "numpy", "shoal.numpy");
  nb::module_ special = submodule(numpy, "numpy.special", "shoal.scipy.special", "The functions of jax.scipy.special.");
  bind_numpy(numpy, special);
  bind_special(special);
  nb::module_ lax = submodule(m, "lax", "shoal.lax");
  bind_lax(lax);
  bind_solvers(m);
  bind_ufuncs(numpy, lax);
  nb::module_ nn = submodule(m, "nn", "shoal.nn");
  bind_nn(nn);
  nb::module_ initializers = submodule(nn, "nn._initializers", "shoal.nn.initializers");
  bind_initializers(initializers);
  nb::module_ layers = submodule(nn, "nn.layers", "shoal.nn.layers");
  bind_layers(layers);
  nb::module_ optimizers = submodule(m, "optimizers", "shoal.optimizers");
  bind_optimizers(optimizers);
  nb::module_ mixed_precision = submodule(m, "mixed_precision", "shoal.mixed_precision");
  bind_mixed_precision(mixed_precision);
  nb::module_ data = submodule(m, "data", "shoal.data");
  bind_data(data);
  nb::module_ run_log = submodule(m, "run_log", "shoal.run_log");
  bind_run_log(run_log);
  nb::module_ elastic = submodule(m, "elastic", "shoal.elastic");
  bind_elastic(elastic);
  nb::module_ random = submodule(m, "random", "shoal.random");
  bind_random(random);
  nb::module_ linalg = submodule(m, "linalg", "shoal.numpy.linalg");
  bind_linalg(linalg);
  nb::module_ fft = submodule(m, "fft", "shoal.numpy.fft");
  bind_numpy_fft(fft);
  bind_lax_fft(lax);
  nb::module_ image = submodule(m, "image", "shoal.image");
  bind_image(image);
  nb::module_ signal = submodule(m, "signal", "shoal.scipy.signal");
  bind_signal(signal);
  nb::module_ cosines = submodule(fft, "fft.scipy", "shoal.scipy.fft");
  bind_cosines(cosines);
  nb::module_ ndimage = submodule(m, "ndimage", "shoal.scipy.ndimage");
  bind_ndimage(ndimage);
  nb::module_ stats = submodule(m, "stats", "shoal.scipy.stats");
  bind_ranks(stats);
  give_signature(m.attr("device_put"));
  give_signature(m.attr("Array").attr("astype"));
  give_signature(nb::cast(shoal::PartitionSpec()).attr("index"));  // A bound method.
  if (nb::cast<std::string>(m.attr("__name__")) == "shoal") {      // Otherwise stubs are made of the module alone.
    const nb::object bound = nb::cast(shoal::PartitionSpec()).attr("index");
    for (const nb::object& function :
         {nb::object(m.attr("device_put")), nb::object(m.attr("Array").attr("astype")), bound}) {
      give_documentation(function);
      give_documentation_to_help(function);
    }
    give_documentation(numpy.attr("add"));  // A ufunc.
  }
  m.def("_with_user_line", &with_user_line);
  m.def("_set_result_checks", &shoal::debug::check_results);
  m.def("_check_key_reuse", &shoal::debug::check_key_reuse);
  m.def("_set_strict_promotion", &shoal::set_strict_promotion);
  m.def("_set_rank_promotion", [](int mode) { shoal::set_rank_promotion(static_cast<shoal::RankPromotion>(mode)); });
  m.def("_set_log_sink", &set_sink, "sink"_a.none());
  m.def("_set_log_topics", [](const std::string& topics) { return shoal::set_log_topics(topics); });
  end_module(m);
}
