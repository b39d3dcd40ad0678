// Exceptions of the library as those of Python.
#include <cctype>
#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "base/shape_mismatch.h"
#include "bindings/core/convert.h"
#include "bindings/core/kept_error.h"
#include "bindings/core/location.h"
#include "frontend/array/promotion_mode.h"
#include "frontend/array/tracer_errors.h"
#include "runtime/process_data.h"
#include "runtime/result_checks.h"
#include "shoal/checkpoints.h"
#include "shoal/elastic.h"

namespace shoal::python {
namespace {

// Classes of exceptions, which live as long as the process.
struct Classes {
  PyObject* shape;
  PyObject* promotion;
  PyObject* indivisible;
  PyObject* duplicate_spec;
  PyObject* sharding_type;
  PyObject* distributed;
  PyObject* disagreement;
  PyObject* process_failed;
  PyObject* deadline_exceeded;
  PyObject* unexpected_tracer;
  PyObject* concretization;
  PyObject* passing;
  PyObject* out_of_range;
  PyObject* key_reuse;
  PyObject* checkpoint;
  PyObject* fenced;
};
Classes& classes() {
  static Classes all{};
  return all;
}

PyObject* make_class(nb::module_& m, const char* name, nb::handle base, const char* doc) {
  const std::string full = std::string("shoal.errors.") + name;
  PyObject* made = PyErr_NewExceptionWithDoc(full.c_str(), doc, base.ptr(), nullptr);
  if (made == nullptr) throw nb::python_error();
  m.attr(name) = nb::borrow(made);
  return made;
}

// What the library throws to itself through a function of the user, which is no error. Only BaseException is caught by
// nobody who catches exceptions.
PyObject* passing_class() { return classes().passing; }

constexpr const char* kPassing = "shoal exception";

void raise_passing(const std::exception_ptr& error) {
  const auto destroy = [](PyObject* capsule) {
    delete static_cast<std::exception_ptr*>(PyCapsule_GetPointer(capsule, kPassing));
  };
  const nb::object carried = nb::steal(PyCapsule_New(new std::exception_ptr(error), kPassing, destroy));
  PyErr_SetObject(passing_class(), carried.ptr());
}

bool ends_like_source(std::string_view file) { return file.ends_with(".cc") || file.ends_with(".h"); }

// What an error says, with names as Python has them, lax.pcast and switch, not lax::pcast and switch_, and with a line
// of Python's program where it has one of the library.
std::string in_python(const std::exception& error) {
  std::string whole = error.what();
  const auto* own = dynamic_cast<const Error*>(&error);
  if (own != nullptr && own->where() && ends_like_source(own->where()->file_name())) {
    const std::string line = to_string(user_line());
    const std::size_t at = whole.rfind("\n  at ");
    if (at != std::string::npos) whole = whole.substr(0, at) + (line.empty() ? "" : "\n  at " + line);
  }
  const std::string_view text = whole;
  const auto is_part = [&](std::size_t i) {
    return i < text.size() && (std::isalnum(static_cast<unsigned char>(text[i])) != 0 || text[i] == '_');
  };
  std::string said;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_inside = i > 0 && is_part(i - 1);
    if (is_inside && text.substr(i).starts_with("::") && is_part(i + 2)) {
      said += '.';
      ++i;
    } else if (!(is_inside && text[i] == '_' && text[i - 1] != '_' && text.substr(i + 1).starts_with(": "))) {
      said += text[i];
    }
  }
  return said;
}

void translate(const std::exception_ptr& error, void*) {
  try {
    std::rethrow_exception(error);
  } catch (const KeptError& e) {
    e.raise();
  } catch (const IndivisibleError& e) {
    PyErr_SetString(classes().indivisible, in_python(e).c_str());
  } catch (const DuplicateSpecError& e) {
    PyErr_SetString(classes().duplicate_spec, in_python(e).c_str());
  } catch (const ShardingTypeError& e) {
    PyErr_SetString(classes().sharding_type, in_python(e).c_str());
  } catch (const ShapeMismatch& e) {
    PyErr_SetString(classes().shape, in_python(e).c_str());
  } catch (const PromotionError& e) {
    PyErr_SetString(classes().promotion, in_python(e).c_str());
  } catch (const NotFinite& e) {
    PyErr_SetString(PyExc_FloatingPointError, in_python(e).c_str());
  } catch (const UnboundAxisError& e) {
    PyErr_SetString(PyExc_NameError, in_python(e).c_str());
  } catch (const ValuesDiffer& e) {
    PyErr_SetString(PyExc_AssertionError, in_python(e).c_str());
  } catch (const InvalidArgument& e) {
    PyErr_SetString(PyExc_ValueError, in_python(e).c_str());
  } catch (const KeyReuseError& e) {
    PyErr_SetString(classes().key_reuse, in_python(e).c_str());
  } catch (const TypeMismatch& e) {
    PyErr_SetString(PyExc_TypeError, in_python(e).c_str());
  } catch (const OutOfRange& e) {
    PyErr_SetString(classes().out_of_range, in_python(e).c_str());
  } catch (const LeakedTracer& e) {
    PyErr_SetString(classes().unexpected_tracer, in_python(e).c_str());
  } catch (const ValueOfTracer& e) {
    PyErr_SetString(classes().concretization, in_python(e).c_str());
  } catch (const checkpoints::CheckpointError& e) {
    PyErr_SetString(classes().checkpoint, in_python(e).c_str());
  } catch (const InvalidState& e) {
    PyErr_SetString(PyExc_RuntimeError, in_python(e).c_str());
  } catch (const Unsupported& e) {
    PyErr_SetString(PyExc_NotImplementedError, in_python(e).c_str());
  } catch (const OutOfMemory& e) {
    PyErr_SetString(PyExc_MemoryError, in_python(e).c_str());
  } catch (const Disagreement& e) {
    PyErr_SetString(classes().disagreement, in_python(e).c_str());
  } catch (const ProcessFailed& e) {
    PyErr_SetString(classes().process_failed, in_python(e).c_str());
  } catch (const DeadlineExceeded& e) {
    PyErr_SetString(classes().deadline_exceeded, in_python(e).c_str());
  } catch (const elastic::Fenced& e) {
    PyErr_SetString(classes().fenced, in_python(e).c_str());
  } catch (const DistributedError& e) {
    PyErr_SetString(classes().distributed, in_python(e).c_str());
  } catch (const Error& e) {
    PyErr_SetString(PyExc_RuntimeError, in_python(e).c_str());
  } catch (const std::exception&) {
    throw;  // nanobind knows it.
  } catch (...) {
    raise_passing(error);
  }
}

}  // namespace

void rethrow_python_error() {
  if (PyErr_ExceptionMatches(passing_class()) == 0) throw nb::python_error();
  PyObject* type = nullptr;
  PyObject* value = nullptr;
  PyObject* traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  const nb::object held = nb::steal(value);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  const nb::object arguments = held.attr("args");
  const nb::object carried = arguments[0];
  const auto* error = static_cast<const std::exception_ptr*>(PyCapsule_GetPointer(carried.ptr(), kPassing));
  std::rethrow_exception(*error);
}

void raise_current() noexcept {
  try {
    throw;
  } catch (nb::python_error& e) {
    e.restore();
  } catch (const KeptError& e) {
    e.raise();
  } catch (const Error&) {
    translate(std::current_exception(), nullptr);
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
  } catch (...) {
    raise_passing(std::current_exception());
  }
}

void bind_errors(nb::module_& m) {
  Classes& all = classes();
  const nb::object value_error = nb::borrow(PyExc_ValueError);
  const nb::object runtime_error = nb::borrow(PyExc_RuntimeError);
  // JAX raises the one or the other, as the function happens to be made.
  const nb::object type_and_value = nb::steal(PyTuple_Pack(2, PyExc_TypeError, PyExc_ValueError));
  all.shape = make_class(m, "ShapeError", type_and_value,
                         "Shapes of operands that do not fit each other, or what an operation needs.");
  all.promotion = make_class(m, "TypePromotionError", value_error,
                             "Two dtypes that are not promoted while jax_numpy_dtype_promotion is 'strict'.");
  all.key_reuse = make_class(m, "KeyReuseError", nb::borrow(PyExc_TypeError),
                             "A key of random numbers is used twice while jax_debug_key_reuse is on.");
  all.indivisible = make_class(m, "IndivisibleError", value_error,
                               "A dimension is not divisible by the mesh axes it is to be split over.");
  all.duplicate_spec = make_class(m, "DuplicateSpecError", value_error, "A partition spec names one mesh axis twice.");
  all.sharding_type = make_class(m, "ShardingTypeError", value_error,
                                 "Operands that Explicit axes split in ways that an op cannot combine by itself.");
  all.distributed = make_class(m, "DistributedError", runtime_error,
                               "Something between the processes of a job: they cannot meet, or do not agree.");
  all.disagreement = make_class(m, "Disagreement", all.distributed,
                                "Processes of one job do not run the same programs on the same arrays.");
  all.process_failed =
      make_class(m, "ProcessFailed", all.distributed, "Another process died, or left while it was still needed.");
  all.fenced =
      make_class(m, "Fenced", all.distributed, "The other processes of an elastic job have gone on without this one.");
  const nb::object index_and_value = nb::steal(PyTuple_Pack(2, PyExc_IndexError, PyExc_ValueError));
  all.out_of_range =
      make_class(m, "OutOfRange", index_and_value, "An index, a dimension or a number outside its range.");
  const nb::object both = nb::steal(PyTuple_Pack(2, all.distributed, PyExc_TimeoutError));
  all.checkpoint =
      make_class(m, "CheckpointError", PyExc_OSError, "A checkpoint cannot be written, is not there, or is damaged.");
  all.deadline_exceeded = make_class(m, "DeadlineExceeded", both, "What was waited for did not come in time.");
  all.unexpected_tracer = make_class(m, "UnexpectedTracerError", runtime_error,
                                     "A tracer is used after the function whose trace it belongs to, or elsewhere.");
  all.passing = make_class(m, "_Passing", nb::borrow(PyExc_BaseException), "What passes through functions of Python.");
  all.concretization = make_class(m, "ConcretizationTypeError", nb::borrow(PyExc_TypeError),
                                  "The value of an array that is being traced is needed.");
  make_class(m, "TracerBoolConversionError", all.concretization,
             "The truth of an array that is being traced is needed, as by `if`.");
  make_class(m, "TracerArrayConversionError", nb::borrow(PyExc_TypeError),
             "An array that is being traced is to become an array of NumPy.");
  make_class(m, "TracerIntegerConversionError", nb::borrow(PyExc_TypeError),
             "An array that is being traced is to become an integer of Python.");
  make_class(m, "NonConcreteBooleanIndexError", nb::borrow(PyExc_IndexError),
             "An index of bool is being traced, so that the shape of the result is unknown.");
  nb::register_exception_translator(translate);
}

void shape_error(const std::string& text) {
  PyErr_SetString(classes().shape, with_user_line(text).c_str());
  throw nb::python_error();
}

}  // namespace shoal::python
