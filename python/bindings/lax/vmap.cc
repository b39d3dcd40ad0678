// vmap: what shoal._vmap is made of.
#include "shoal/vmap.h"

#include <string>
#include <vector>

#include "bindings/core/tree.h"
#include "bindings/lax/lax.h"
#include "bindings/lax/traceable.h"

namespace shoal::python {
namespace {

nb::object vmap(nb::handle f, nb::object arguments, nb::handle in_axes, nb::handle out_axes, std::string axis_name,
                std::optional<std::int64_t> axis_size, std::vector<std::string> spmd_axis_name) {
  const Traceable function(f, "vmap", arguments);
  const VmapOptions options{.in_axes = axis_tree(in_axes, "vmap: in_axes"),
                            .out_axes = axis_tree(out_axes, "vmap: out_axes"),
                            .axis_name = std::move(axis_name),
                            .spmd_axis_name = std::move(spmd_axis_name),
                            .axis_size = axis_size};
  const SourceLocation where = user_line();
  return result_of([&](std::any& exemplar) {
    return detail::call_vmap(options, function.flatten(), function.function(), exemplar, where);
  });
}

}  // namespace

void bind_lax_vmap(nb::module_& m) {
  m.def("_vmap", vmap, "f"_a, "arguments"_a, "in_axes"_a.none(), "out_axes"_a.none(), "axis_name"_a,
        "axis_size"_a.none(), "spmd_axis_name"_a);
}

}  // namespace shoal::python
