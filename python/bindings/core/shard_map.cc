// shard_map, and the axes that are Auto or Explicit in the body of a function.
#include <memory>

#include "bindings/core/call.h"
#include "bindings/core/flag.h"

namespace shoal::python {
namespace {

struct ShardMapped {
  Callee callee;
  ShardMapOptions options;
};

nb::object call(const ShardMapped& mapped, nb::handle args, nb::handle kwargs) {
  const PythonCall python_call(mapped.callee, args, kwargs);
  const SourceLocation where = user_line();
  std::any exemplar;
  std::vector<Array> results = unlocked([&] {
    const detail::CallArguments flat = python_call.flatten();
    return detail::call_shard_map(mapped.options, flat, python_call.function(), exemplar, where);
  });
  return result_object(exemplar, std::move(results));
}

}  // namespace

void bind_shard_map(nb::module_& m) {
  nb::class_<ShardMapped>(m, "_ShardMapped", nb::type_slots(FunctionSlots<ShardMapped, call>::slots),
                          nb::dynamic_attr(), nb::is_weak_referenceable(),
                          "A function that runs on every device of a mesh, on its own shards.");
  m.def(
      "_shard_map",
      [](nb::object function, std::string name, nb::handle mesh_object, nb::handle in_specs, nb::handle out_specs,
         nb::handle axis_names, Flag check_vma, Flag infer_in_specs) {
        return ShardMapped{Callee{std::move(function), std::move(name), {}, {}},
                           {.mesh = mesh(mesh_object, "shard_map: mesh"),
                            .in_specs = spec_tree(in_specs, "shard_map: in_specs"),
                            .out_specs = spec_tree(out_specs, "shard_map: out_specs"),
                            .axis_names = names(axis_names, "shard_map: axis_names"),
                            .check_vma = check_vma,
                            .infer_in_specs = infer_in_specs}};
      },
      "function"_a, "name"_a, "mesh"_a.none(), "in_specs"_a.none(), "out_specs"_a.none(), "axis_names"_a, "check_vma"_a,
      "infer_in_specs"_a);
  // The bodies of auto_axes and explicit_axes, which are jitted functions.
  m.def("_relax", [](nb::handle tree, nb::handle axes) {
    const ArrayTree given = array_tree(tree, "auto_axes");
    const SourceLocation where = user_line();
    return tree_object(given.tree, detail::relax(given.leaves, names(axes, "auto_axes: axes"), where));
  });
  m.def("_mesh_of", [](nb::handle tree, const std::string& function) {
    return detail::mesh_of(array_tree(tree, function).leaves, function, user_line());
  });
  m.def("_with_auto", [](const Mesh& mesh, nb::handle axes, const std::string& function) {
    return detail::with_auto(mesh, names(axes, function), function, user_line());
  });
  m.def("_with_explicit", [](const Mesh& mesh, nb::handle axes, const std::string& function) {
    return detail::with_explicit(mesh, names(axes, function), function, user_line());
  });
  m.def("_split_by", [](nb::handle tree, nb::handle specs, const Mesh& mesh, const std::string& what) {
    const ArrayTree given = array_tree(tree, what);
    return tree_object(given.tree,
                       detail::split_by(given.leaves, given.def, spec_tree(specs, what), mesh, what, user_line()));
  });
}

}  // namespace shoal::python
