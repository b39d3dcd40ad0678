// shoal.run_log: what a program measures while it runs.
#include "shoal/run_log.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <string>
#include <vector>

#include "bindings/training/training.h"

namespace shoal::python {

void bind_run_log(nb::module_& m) {
  nb::class_<RunLog>(m, "RunLog", "Rows of named numbers, one for each step that is told: a table, curves, a page.")
      .def(nb::init<std::string>(), "title"_a = "run")
      .def(
          "add",
          [](RunLog& self, std::int64_t step, nb::kwargs values) {
            std::map<std::string, double> numbers;
            for (const auto& [name, value] : values) {
              // Arrays of one element are waited for.
              numbers.emplace(nb::cast<std::string>(name), nb::cast<double>(nb::float_(nb::borrow(value))));
            }
            self.add(step, numbers);
          },
          "step"_a, "values"_a, "What was measured at a step: add(10, loss=0.5, seconds=0.1).")
      .def("describe", &RunLog::describe, "heading"_a, "text"_a,
           "A part of the page beside the curves, shown as it is: how arrays are split, or the summary of a trace.")
      .def("csv", &RunLog::csv, "\"step,loss,seconds\" and a line for each row; what is missing is empty.")
      .def(
          "svg", [](const RunLog& self, const std::vector<std::string>& names) { return self.svg(names, user_line()); },
          "names"_a, "A picture with a curve for each name. Raises ValueError for names that nothing was told of.")
      .def("html", &RunLog::html, "A page with each curve, a table and the descriptions, which needs no other file.")
      .def(
          "save",
          [](const RunLog& self, nb::handle path, const std::vector<std::string>& names) {
            self.save(nb::cast<std::string>(nb::module_::import_("os").attr("fspath")(path)), names, user_line());
          },
          "path"_a, "names"_a = std::vector<std::string>(),
          "Writes that to a file: .csv, .html, or .svg with a curve of `names`, or of all that there are. Raises "
          "ValueError for other endings.");
  m.def("progress_bar", &progress_bar, "fraction"_a, "width"_a = 30, "A bar for a terminal: \"[#####     ]\".");
}

}  // namespace shoal::python
