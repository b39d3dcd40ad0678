// What shoal.elastic stands on: a job whose state is a tree of Python.
#include "shoal/elastic.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/core/kept_error.h"
#include "bindings/core/tree.h"
#include "bindings/training/training.h"

namespace shoal::python {
namespace {

constexpr const char* kState = "elastic.run: the state";

// make(mesh, processes, is_first, generation) gives a state and a step.
elastic::detail::LeafProgram program_of(const Held& make, const elastic::World& world,
                                        const std::shared_ptr<std::optional<PyTree>>& structure) {
  elastic::detail::LeafProgram program;
  call_back([&] {
    const nb::object made =
        make.get()(nb::cast(world.mesh), list_of(world.processes), world.is_first, world.generation);
    if (!nb::isinstance<nb::tuple>(made) || nb::len(made) != 2 || !nb::isinstance<nb::callable>(made[1])) {
      type_error("elastic.run: make must return a state and a function, got " + type_text(made));
    }
    const nb::object state = made[0];
    ArrayTree tree = array_tree(state, kState);
    *structure = tree.tree;
    program.leaves = std::move(tree.leaves);
    program.tree = named_def(state, tree.tree);
    program.ends_job = [](const std::exception_ptr& error) {
      try {
        std::rethrow_exception(error);
      } catch (const KeptError& kept) {
        const nb::gil_scoped_acquire gil;
        return kept.ends_program();
      } catch (...) {
        return false;
      }
    };
    program.step = [step = Held(made[1]), tree = std::move(tree.tree)](std::vector<Array> leaves, std::int64_t i) {
      std::vector<Array> next;
      call_back([&] {
        nb::object now = tree_object(tree, leaves);
        leaves.clear();
        const nb::object arguments = nb::make_tuple(std::move(now), i);
        ArrayTree given = array_tree(step.get()(*arguments), kState);
        if (!(given.tree == tree)) {
          type_error("elastic.run: step must return a state like the one that it is given, " +
                     to_string(tree.to_def()) + "; got " + to_string(given.def));
        }
        next = std::move(given.leaves);
      });
      return next;
    };
  });
  return program;
}

}  // namespace

void bind_elastic(nb::module_& m) {
  m.def(
      "run",
      [](nb::handle make, std::int64_t steps, const std::vector<std::int64_t>& mesh_shape,
         const std::vector<std::string>& axis_names, const std::vector<std::string>& data_axes, int min_processes,
         std::int64_t copy_every, const std::string& checkpoints, std::int64_t checkpoint_every,
         std::optional<std::int64_t> checkpoints_kept, std::optional<std::int64_t> admit_every, double patience) {
        const elastic::Options options{
            .steps = steps,
            .mesh_shape = Shape(mesh_shape.begin(), mesh_shape.end()),
            .axis_names = axis_names,
            .data_axes = data_axes,
            .min_processes = min_processes,
            .copy_every = copy_every,
            .checkpoints = checkpoints,
            .checkpoint_every = checkpoint_every,
            .checkpoints_kept = checkpoints_kept,
            .admit_every = admit_every,
            .patience = std::chrono::milliseconds(static_cast<std::int64_t>(patience * 1000))};
        const auto structure = std::make_shared<std::optional<PyTree>>();
        const SourceLocation where = user_line();
        std::vector<Array> leaves = unlocked([&, held = Held(make)] {
          return elastic::detail::run_leaves(
              options, [&](const elastic::World& world) { return program_of(held, world, structure); }, where);
        });
        return tree_object(**structure, leaves);
      },
      "make"_a, "steps"_a, "mesh_shape"_a, "axis_names"_a, "data_axes"_a, "min_processes"_a, "copy_every"_a,
      "checkpoints"_a, "checkpoint_every"_a, "checkpoints_kept"_a.none(), "admit_every"_a.none(), "patience"_a);
}

}  // namespace shoal::python
