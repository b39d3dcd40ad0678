// What derivatives keep: what shoal._checkpoint is made of.
#include "shoal/checkpoint.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "bindings/core/tree.h"
#include "bindings/lax/lax.h"
#include "bindings/lax/traceable.h"

namespace shoal::python {
namespace {

namespace policies = checkpoint_policies;

nb::object checkpoint(nb::handle f, nb::object arguments, const CheckpointPolicy& policy) {
  const Traceable function(f, "checkpoint", arguments);
  const SourceLocation where = user_line();
  return result_of([&](std::any& exemplar) {
    return detail::call_checkpoint(policy, function.flatten(), function.function(), exemplar, where);
  });
}

// A function of Python says None for no, and for yes the memory that it keeps the value in, or "".
CheckpointPolicy of_function(nb::handle function) {
  return CheckpointPolicy([held = Held(function)](const CheckpointedOp& op) -> SaveDecision {
    const nb::gil_scoped_acquire gil;
    const nb::object answer = nb::borrow(held.get())(nb::cast(op));
    if (answer.is_none()) return false;
    return nb::len(answer) == 0 ? SaveDecision(true) : SaveDecision(memory_kind(answer));
  });
}

nb::object answer_of(const SaveDecision& decision) {
  if (!decision.saved) return nb::none();
  return nb::cast(decision.memory_kind ? std::string(decision.memory_kind->name()) : std::string());
}

std::vector<SavedResidual> saved_residuals(nb::handle f, nb::object arguments, std::vector<std::string> names) {
  const Traceable function(f, "saved_residuals", arguments, /*types_allowed=*/true);
  const SourceLocation where = user_line();
  return unlocked(
      [&] { return detail::call_saved_residuals(function.flatten(), function.function(), std::move(names), where); });
}

}  // namespace

void bind_lax_checkpoint(nb::module_& m) {
  nb::class_<CheckpointedOp>(m, "_CheckpointedOp")
      .def_ro("op", &CheckpointedOp::op)
      .def_ro("name", &CheckpointedOp::name)
      .def_ro("operands", &CheckpointedOp::operands)
      .def_prop_ro("dims", [](const CheckpointedOp& op) {
        nb::dict dims;
        for (const auto& [name, list] : op.dims) dims[name.c_str()] = to_tuple(list);
        return dims;
      });
  using Names = std::vector<std::string>;
  nb::class_<CheckpointPolicy>(m, "_CheckpointPolicy")
      .def(nb::init<>())
      .def_static("of_function", of_function)
      .def_static("everything_saveable", policies::everything_saveable)
      .def_static("budget", [](std::int64_t bytes) { return policies::budget(bytes, user_line()); })
      .def_static("dots_saveable", policies::dots_saveable)
      .def_static("dots_with_no_batch_dims_saveable", policies::dots_with_no_batch_dims_saveable)
      .def_static("save_only_these_names", policies::save_only_these_names)
      .def_static("save_any_names_but_these", policies::save_any_names_but_these)
      .def_static("save_anything_except_these_names", policies::save_anything_except_these_names)
      .def_static("save_from_both_policies",
                  [](const CheckpointPolicy& one, const CheckpointPolicy& other) {
                    return policies::save_from_both_policies(one, other, user_line());
                  })
      .def_static("save_and_offload_only_these_names",
                  [](Names saved, Names offloaded, nb::handle memory) {
                    return policies::save_and_offload_only_these_names(
                        {.names_which_can_be_saved = std::move(saved),
                         .names_which_can_be_offloaded = std::move(offloaded),
                         .offload_dst = memory_kind(memory)},
                        user_line());
                  })
      .def_static("offload_dot_with_no_batch_dims",
                  [](nb::handle memory) { return policies::offload_dot_with_no_batch_dims(memory_kind(memory)); })
      .def("decide", [](const CheckpointPolicy& policy, const CheckpointedOp& op) {
        return answer_of(policy.decide(op, user_line()));
      });
  nb::class_<SavedResidual>(m, "SavedResidual", "Something that a derivative keeps.")
      .def_ro("aval", &SavedResidual::type, "Its shape and dtype.")
      .def_prop_ro("memory_kind", [](const SavedResidual& r) { return std::string(r.memory_kind.name()); })
      .def_ro("nbytes", &SavedResidual::bytes)
      .def_ro("argument", &SavedResidual::argument, "The argument that it is; empty if it is none.")
      .def_ro("op", &SavedResidual::op, "What made it; empty for arguments and constants.")
      .def_ro("name", &SavedResidual::name, "What checkpoint_name called it.")
      .def_prop_ro(
          "line", [](const SavedResidual& r) { return to_string(r.where); },
          "The line that made it, or gave it the name.")
      .def("__repr__", [](const SavedResidual& r) { return to_string(r); });
  m.def("_checkpoint", checkpoint, "f"_a, "arguments"_a, "policy"_a);
  m.def("_saved_residuals", saved_residuals, "f"_a, "arguments"_a, "names"_a);
  m.def(
      "_checkpoint_name",
      [](nb::handle x, const std::string& name) {
        const Array array = to_array(x, "checkpoint_name");
        const SourceLocation where = user_line();
        return unlocked([&] { return checkpoint_name(Operand(array, where), name); });
      },
      "x"_a, "name"_a);
  m.def("_memory_kind", [](nb::handle kind) { return std::string(memory_kind(kind).name()); });
}

}  // namespace shoal::python
