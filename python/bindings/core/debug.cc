// Looking at arrays, and at values while a program runs.
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <sstream>

#include "bindings/core/kept_error.h"
#include "bindings/core/tree.h"
#include "frontend/array/trace.h"

namespace shoal::python {
namespace {

void print(const std::string& text) { nb::module_::import_("sys").attr("stdout").attr("write")(text); }

// How a picture is asked for. A notebook's page shows it as an image, unless colours are refused; all else is text.
class Look {
 public:
  Look(nb::handle use_color, nb::handle max_width, double scale) : scale_(scale) {
    const nb::object standard = nb::module_::import_("sys").attr("stdout");
    const bool is_refused = !use_color.is_none() && !nb::cast<bool>(use_color);
    on_page_ = !is_refused && nb::cast<bool>(notebook().attr("is_page")());
    use_color_ = use_color.is_none() ? nb::hasattr(standard, "isatty") && nb::cast<bool>(standard.attr("isatty")())
                                     : !is_refused;
    if (!max_width.is_none()) max_width_ = static_cast<int>(integer(max_width, "max_width"));
  }

  void show(const Array& array, SourceLocation where) const {
    if (on_page_) return show_on_page(debug::sharding_svg(array, where), array.sharding());
    std::ostringstream text;
    debug::visualize_array_sharding(array, options(text), where);
    print(text.str());
  }
  void show(const Shape& shape, const Sharding& sharding, SourceLocation where) const {
    if (on_page_) return show_on_page(debug::sharding_svg(shape, sharding, where), sharding);
    std::ostringstream text;
    debug::visualize_sharding(shape, sharding, options(text), where);
    print(text.str());
  }

 private:
  static nb::object notebook() { return nb::module_::import_("shoal._notebook"); }
  static void show_on_page(const std::string& image, const Sharding& sharding) {
    notebook().attr("show_sharding")(image, to_object(sharding));
  }
  debug::VisualizeOptions options(std::ostream& out) const {
    return {.use_color = use_color_, .max_width = max_width_, .scale = scale_, .out = &out};
  }

  bool on_page_ = false, use_color_ = false;
  std::optional<int> max_width_;
  double scale_;
};

// What a function gives for values.
nb::object call_with(const Held& f, const std::vector<Array>& values) {
  nb::list list;
  for (const Array& value : values) list.append(nb::cast(value));
  return f.get()(list);
}

}  // namespace

void bind_debug(nb::module_& m) {
  m.def(
      "visualize_array_sharding",
      [](const Array& array, nb::handle use_color, double scale, nb::handle max_width) {
        const SourceLocation where = user_line();
        const Look look(use_color, max_width, scale);
        if (!array.is_tracer()) return look.show(array, where);
        // The picture is made when the program is compiled.
        debug::inspect_array_sharding({array, where}, [shape = array.shape(), look, where](const Sharding& sharding) {
          call_back([&] { look.show(shape, sharding, where); });
        });
      },
      "arr"_a, nb::kw_only(), "use_color"_a = nb::none(), "scale"_a = 1.0, "max_width"_a = nb::none(),
      "Draws where the shards of an array lie.");
  m.def(
      "visualize_sharding",
      [](nb::handle shape, nb::handle where_to, nb::handle use_color, double scale, nb::handle max_width) {
        Look(use_color, max_width, scale)
            .show(dims(shape, "visualize_sharding: shape"), sharding(where_to, "visualize_sharding: sharding"),
                  user_line());
      },
      "shape"_a, "sharding"_a, nb::kw_only(), "use_color"_a = nb::none(), "scale"_a = 1.0, "max_width"_a = nb::none(),
      "Draws how an array of this shape would lie.");
  m.def("_sharding_svg", [](const Array& array) { return debug::sharding_svg(array, user_line()); });
  m.def(
      "inspect_array_sharding",
      [](nb::handle value, nb::handle callback) {
        debug::inspect_array_sharding(
            operand(value, "inspect_array_sharding", "value"),
            [held = Held(callback)](const Sharding& sharding) { call_back([&] { held.get()(to_object(sharding)); }); });
      },
      "value"_a, nb::kw_only(), "callback"_a, "Calls a function with where an array lies, when that is known.");
  m.def("_calls_span_processes", [] {
    const Trace* trace = Trace::current();
    if (trace == nullptr || trace->mesh().empty() || trace->mesh().is_abstract()) return false;
    const std::vector<Device>& devices = trace->mesh().devices();
    return std::ranges::any_of(
        devices, [&](const Device& device) { return device.process_index != devices.front().process_index; });
  });
  m.def("_debug_callback", [](nb::handle f, nb::handle values) {
    const std::vector<Operand> list = operand_list(values, "debug.callback", "arguments");
    const SourceLocation where = user_line();
    const auto call = [held = Held(f)](const std::vector<Array>& values) {
      call_back([&] { call_with(held, values); });
    };
    unlocked([&] { debug::callback(call, list, where); });
  });
  m.def("_call_host", [](bool is_pure, nb::handle f, const std::vector<ShapeDtypeStruct>& results, nb::handle operands,
                         const std::optional<Device>& device) {
    const std::string_view name = is_pure ? "pure_callback" : "io_callback";
    detail::CallArguments arguments;
    arguments.tree.kind = "tuple";
    for (nb::handle one : operands) {
      arguments.tree.children.push_back(
          {detail::index_text(arguments.leaves.size()), {.kind = "leaf", .children = {}}});
      arguments.leaves.push_back(to_array(one, name, "arguments"));
    }
    const std::vector<Array> types(results.begin(), results.end());
    const SourceLocation where = user_line();
    const auto call = [held = Held(f), name](const std::vector<Array>& values) {
      std::vector<Array> given;
      call_back([&] {
        for (nb::handle value : call_with(held, values)) given.push_back(to_array(value, name, "a result"));
      });
      return given;
    };
    return unlocked([&] { return detail::call_host(name, call, types, arguments, {.device = device}, where); });
  });
}

}  // namespace shoal::python
