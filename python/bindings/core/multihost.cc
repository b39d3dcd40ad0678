// What the processes of a job do together with data that each has for itself.
#include "shoal/multihost.h"

#include <nanobind/stl/vector.h>

#include "bindings/core/call.h"
#include "bindings/core/flag.h"

namespace shoal::python {
namespace {

// Runs f; where processes disagree, that is an AssertionError, as JAX's utilities raise.
template <class F>
decltype(auto) asserting(F&& f) {
  try {
    return unlocked(std::forward<F>(f));
  } catch (const InvalidArgument& e) {
    PyErr_SetString(PyExc_AssertionError, e.what());
    throw nb::python_error();
  }
}

// The trees of these functions come back as arrays of NumPy where JAX's do.
nb::object numpy_tree(const PyTree& tree, const std::vector<Array>& leaves) {
  std::vector<nb::object> objects;
  for (const Array& leaf : leaves) objects.push_back(nb::cast(leaf).attr("__array__")());
  return tree.unflatten(objects);
}

}  // namespace

void bind_multihost(nb::module_& m) {
  m.def(
      "broadcast_one_to_all",
      [](nb::handle tree, nb::handle is_source) {
        const ArrayTree given = array_tree(tree, "broadcast_one_to_all");
        const std::optional<bool> source =
            is_source.is_none() ? std::nullopt : std::optional(nb::cast<bool>(nb::bool_(nb::borrow(is_source))));
        const SourceLocation where = user_line();
        return numpy_tree(given.tree, asserting([&] {
                            return multihost::detail::broadcast_leaves(given.leaves, given.def, source, where);
                          }));
      },
      "in_tree"_a.none(), "is_source"_a = nb::none(), "The tree of one process, in all of them.");
  m.def(
      "process_allgather",
      [](nb::handle tree, Flag tiled) {
        const ArrayTree given = array_tree(tree, "process_allgather");
        const SourceLocation where = user_line();
        return numpy_tree(given.tree, unlocked([&] {
                            return multihost::detail::gather_leaves(given.leaves, given.def, tiled, where);
                          }));
      },
      "in_tree"_a.none(), "tiled"_a = false, "The trees of all processes, stacked or concatenated.");
  m.def(
      "to_host",
      [](nb::handle tree, std::int64_t chunk_bytes) {
        const ArrayTree given = array_tree(tree, "to_host");
        const SourceLocation where = user_line();
        return numpy_tree(given.tree, unlocked([&] {
                            return multihost::detail::leaves_to_host(given.leaves, given.def, chunk_bytes, where);
                          }));
      },
      "in_tree"_a.none(), "chunk_bytes"_a = std::int64_t{64} << 20,
      "The whole arrays of a tree on every host, gathered in pieces.");
  m.def(
      "sync_global_devices",
      [](const std::string& name) {
        const SourceLocation where = user_line();
        asserting([&] { multihost::sync_global_devices(name, where); });
      },
      "name"_a, "Waits until all processes are here. Raises AssertionError where names differ.");
  m.def(
      "assert_equal",
      [](nb::handle tree, const std::string& message) {
        const ArrayTree given = array_tree(tree, "assert_equal");
        const SourceLocation where = user_line();
        asserting([&] { multihost::detail::check_equal_leaves(given.leaves, given.def, message, where); });
      },
      "in_tree"_a.none(), "fail_message"_a = "", "Raises AssertionError unless all processes give equal trees.");
  m.def(
      "host_local_array_to_global_array",
      [](nb::handle tree, const Mesh& global_mesh, nb::handle specs) {
        const ArrayTree given = array_tree(tree, "host_local_array_to_global_array");
        const SpecTree wanted = spec_tree(specs, "host_local_array_to_global_array: pspecs");
        const SourceLocation where = user_line();
        return tree_object(given.tree, unlocked([&] {
                             return multihost::detail::to_global_leaves(given.leaves, given.def, global_mesh, wanted,
                                                                        where);
                           }));
      },
      "local_inputs"_a.none(), "global_mesh"_a, "pspecs"_a.none(), "Arrays over the mesh, of parts that hosts have.");
  m.def(
      "global_array_to_host_local_array",
      [](nb::handle tree, const Mesh& global_mesh, nb::handle specs) {
        const ArrayTree given = array_tree(tree, "global_array_to_host_local_array");
        const SpecTree wanted = spec_tree(specs, "global_array_to_host_local_array: pspecs");
        const SourceLocation where = user_line();
        return tree_object(given.tree, unlocked([&] {
                             return multihost::detail::to_local_leaves(given.leaves, given.def, global_mesh, wanted,
                                                                       where);
                           }));
      },
      "global_inputs"_a.none(), "global_mesh"_a, "pspecs"_a.none(), "The parts of arrays that this host has.");
  m.def(
      "reached_preemption_sync_point",
      [](std::int64_t step) {
        const SourceLocation where = user_line();
        return unlocked([&] { return multihost::reached_preemption_sync_point(step, where); });
      },
      "step_id"_a, "True in all processes at one step after one of them was told to end.");
}

}  // namespace shoal::python
