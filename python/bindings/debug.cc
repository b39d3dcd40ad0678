// Looking at arrays, and at values while a program runs.
#include <nanobind/stl/vector.h>

#include <sstream>

#include "kept_error.h"
#include "tree.h"

namespace shoal::python {
namespace {

debug::VisualizeOptions options_of(nb::handle use_color, nb::handle max_width, double scale, std::ostream& out) {
  debug::VisualizeOptions options{.scale = scale, .out = &out};
  const nb::object standard = nb::module_::import_("sys").attr("stdout");
  options.use_color = use_color.is_none() ? nb::hasattr(standard, "isatty") && nb::cast<bool>(standard.attr("isatty")())
                                          : nb::cast<bool>(use_color);
  if (!max_width.is_none()) options.max_width = static_cast<int>(integer(max_width, "max_width"));
  return options;
}

void show(const std::string& text) { nb::module_::import_("sys").attr("stdout").attr("write")(text); }

// A function of values that the library calls, on any thread.
std::function<void(const std::vector<Array>&)> with_gil(nb::handle f) {
  return [held = Held(f)](const std::vector<Array>& values) {
    call_back([&] {
      nb::list list;
      for (const Array& value : values) list.append(nb::cast(value));
      held.get()(list);
    });
  };
}

}  // namespace

void bind_debug(nb::module_& m) {
  m.def(
      "visualize_array_sharding",
      [](const Array& array, nb::handle use_color, double scale, nb::handle max_width) {
        const SourceLocation where = user_line();
        std::ostringstream text;
        const debug::VisualizeOptions options = options_of(use_color, max_width, scale, text);
        if (array.is_tracer()) {
          // The picture is made when the program is compiled.
          const Shape shape = array.shape();
          const bool color = *options.use_color;
          const std::optional<int> width = options.max_width;
          debug::inspect_array_sharding({array, where}, [shape, color, width, scale](const Sharding& sharding) {
            std::ostringstream later;
            debug::visualize_sharding(shape, sharding,
                                      {.use_color = color, .max_width = width, .scale = scale, .out = &later});
            call_back([&] { show(later.str()); });
          });
          return;
        }
        debug::visualize_array_sharding(array, options, where);
        show(text.str());
      },
      "arr"_a, nb::kw_only(), "use_color"_a = nb::none(), "scale"_a = 1.0, "max_width"_a = nb::none(),
      "Draws where the shards of an array lie.");
  m.def(
      "visualize_sharding",
      [](nb::handle shape, nb::handle where_to, nb::handle use_color, double scale, nb::handle max_width) {
        std::ostringstream text;
        debug::visualize_sharding(dims(shape, "visualize_sharding: shape"),
                                  sharding(where_to, "visualize_sharding: sharding"),
                                  options_of(use_color, max_width, scale, text), user_line());
        show(text.str());
      },
      "shape"_a, "sharding"_a, nb::kw_only(), "use_color"_a = nb::none(), "scale"_a = 1.0, "max_width"_a = nb::none(),
      "Draws how an array of this shape would lie.");
  m.def("_sharding_html", [](const Array& array) { return debug::sharding_html(array, user_line()); });
  m.def("_sharding_svg", [](const Array& array) { return debug::sharding_svg(array, user_line()); });
  m.def(
      "inspect_array_sharding",
      [](nb::handle value, nb::handle callback) {
        debug::inspect_array_sharding(
            operand(value, "inspect_array_sharding", "value"),
            [held = Held(callback)](const Sharding& sharding) { call_back([&] { held.get()(to_object(sharding)); }); });
      },
      "value"_a, nb::kw_only(), "callback"_a, "Calls a function with where an array lies, when that is known.");
  m.def("_debug_callback", [](nb::handle f, nb::handle values) {
    const std::vector<Operand> list = operand_list(values, "debug.callback", "arguments");
    const SourceLocation where = user_line();
    auto call = with_gil(f);
    unlocked([&] { debug::callback(std::move(call), list, where); });
  });
}

}  // namespace shoal::python
