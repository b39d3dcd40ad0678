// Records of what the process does and when.
#include <nanobind/stl/optional.h>

#include <memory>

#include "bindings/core/convert.h"

namespace shoal::python {
namespace {

// An annotation lasts as long as its `with` block.
struct Annotation {
  std::string name;
  std::optional<std::int64_t> step;
  std::unique_ptr<profiler::TraceAnnotation> open;
};

}  // namespace

void bind_profiler(nb::module_& m) {
  m.def("_start_trace", [](const std::string& path) { profiler::start_trace(path, user_line()); });
  m.def("_stop_trace", [] {
    const SourceLocation where = user_line();
    unlocked([&] { profiler::stop_trace(where); });
  });
  nb::class_<Annotation>(m, "TraceAnnotation", "Shows the time of a `with` block under a name.")
      .def(
          "__init__",
          [](Annotation* self, std::string name, nb::kwargs) {
            new (self) Annotation{std::move(name), {}, {}};
          },
          "name"_a, "kwargs"_a)
      .def("__enter__",
           [](nb::object self) {
             auto& annotation = nb::cast<Annotation&>(self);
             annotation.open =
                 annotation.step
                     ? std::make_unique<profiler::StepTraceAnnotation>(annotation.name, *annotation.step, user_line())
                     : std::make_unique<profiler::TraceAnnotation>(annotation.name, user_line());
             return self;
           })
      .def("__exit__", [](Annotation& annotation, nb::args) { annotation.open.reset(); });
  nb::class_<profiler::StepTimer>(m, "StepTimer", "Tells how the time of each step of a loop is split.")
      .def(nb::init<>())
      .def(
          "lap",
          [](profiler::StepTimer& timer) {
            const profiler::TimeSplit spent = timer.lap();
            nb::dict result;
            result["total"] = spent.total;
            result["compute"] = spent.compute;
            result["exchange"] = spent.exchange;
            result["waiting"] = spent.waiting;
            return result;
          },
          "Where the time since the last lap went, in seconds.");
  m.def("_step_annotation", [](std::string name, std::int64_t step) { return Annotation{std::move(name), step, {}}; });
}

}  // namespace shoal::python
