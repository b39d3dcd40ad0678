// Loops and branches of shoal.lax, whose functions are Python's.
#include "shoal/control_flow.h"

#include <fmt/format.h>
#include <nanobind/stl/optional.h>

#include <deque>
#include <limits>
#include <vector>

#include "bindings/core/flag.h"
#include "bindings/core/tree.h"
#include "bindings/lax/lax.h"
#include "bindings/lax/traceable.h"

namespace shoal::python {
namespace {

// How often a body is repeated: JAX takes True for all trips.
std::int64_t unroll_of(nb::handle unroll, std::string_view function) {
  if (unroll.is_none() || unroll.is(Py_False)) return 1;
  if (unroll.is(Py_True)) return std::numeric_limits<std::int64_t>::max();
  const std::int64_t times = integer(unroll, fmt::format("{}: unroll", function));
  if (times < 0) value_error(fmt::format("{}: unroll must not be negative, got {}", function, times));
  return std::max<std::int64_t>(1, times);
}

nb::object scan(nb::handle f, nb::handle init, nb::handle xs, nb::handle length, Flag reverse, nb::handle unroll) {
  const Traceable body(f, "scan", nb::make_tuple(init, xs));
  lax::ScanOptions options{.reverse = reverse, .unroll = unroll_of(unroll, "scan")};
  if (!length.is_none()) options.length = integer(length, "scan: length");
  const SourceLocation where = user_line();
  return result_of(
      [&](std::any& exemplar) { return detail::call_scan(options, body.flatten(), body.function(), exemplar, where); });
}

nb::object while_loop(nb::handle condition, nb::handle function, nb::handle init, nb::handle max_checkpoints) {
  const lax::WhileOptions options{.max_checkpoints = maybe_integer(max_checkpoints, "while_loop: max_checkpoints")};
  const Traceable question(condition, "while_loop", nb::make_tuple(init));
  const Traceable body(function, "while_loop", nb::make_tuple(init));
  const SourceLocation where = user_line();
  return result_of([&](std::any& exemplar) {
    return detail::call_while(options, body.flatten(), question.function(), body.function(), exemplar, where);
  });
}

nb::object fori_loop(nb::handle lower, nb::handle upper, nb::handle function, nb::handle init, nb::handle unroll,
                     nb::handle max_checkpoints) {
  const Operand first = operand(lower, "fori_loop", "lower");
  const Operand last = operand(upper, "fori_loop", "upper");
  const Traceable body(function, "fori_loop", nb::make_tuple(0, init));
  const Traceable carried(function, "fori_loop", nb::make_tuple(init));
  const lax::ForiOptions options{.unroll = unroll_of(unroll, "fori_loop"),
                                 .max_checkpoints = maybe_integer(max_checkpoints, "fori_loop: max_checkpoints")};
  const SourceLocation where = user_line();
  return result_of([&](std::any& exemplar) {
    return detail::call_fori(options, first, last, carried.flatten(), body.function(), exemplar, where);
  });
}

nb::object cond(nb::handle pred, nb::handle on_true, nb::handle on_false, nb::args operands) {
  const Operand predicate = operand(pred, "cond", "pred");
  const Traceable yes(on_true, "cond", operands);
  const Traceable no(on_false, "cond", operands);
  return result_of([&](std::any& exemplar) {
    return detail::call_cond(predicate, yes.flatten(), yes.function(), no.function(), exemplar);
  });
}

nb::object switch_(nb::handle index, nb::handle branches, nb::args operands) {
  const Operand chosen = operand(index, "switch", "index");
  std::deque<Traceable> traceable;
  for (nb::handle one : branches) traceable.emplace_back(one, "switch", operands);
  if (traceable.empty()) value_error("switch: there are no branches; give one or more");
  return result_of([&](std::any& exemplar) {
    std::vector<detail::TracedFunction> functions;
    for (const Traceable& one : traceable) functions.push_back(one.function());
    return detail::call_switch(chosen, traceable[0].flatten(), functions, exemplar);
  });
}

nb::object map(nb::handle f, nb::handle xs, nb::handle batch_size) {
  const std::optional<std::int64_t> size = maybe_integer(batch_size, "map: batch_size");
  const Traceable function(f, "map", nb::make_tuple(xs));
  const SourceLocation where = user_line();
  return result_of([&](std::any& exemplar) {
    return detail::call_map(size, function.flatten(), function.function(), exemplar, where);
  });
}

nb::object associative_scan(nb::handle fn, nb::handle elems, Flag reverse, nb::handle axis) {
  const lax::AssociativeScanOptions options{.reverse = reverse, .axis = integer(axis, "associative_scan: axis")};
  const ArrayTree elements = array_tree(elems, "associative_scan");
  const SourceLocation where = user_line();
  const auto combine = [&](const std::vector<Array>& a, const std::vector<Array>& b) {
    nb::gil_scoped_acquire held;
    const nb::object result = nb::borrow(fn)(tree_object(elements.tree, a), tree_object(elements.tree, b));
    ArrayTree made = array_tree(result, "associative_scan");
    if (!(made.tree == elements.tree)) {
      type_error(fmt::format("associative_scan: the function returns {}, and should return {}", to_string(made.def),
                             to_string(elements.def)));
    }
    return std::move(made.leaves);
  };
  const detail::CallArguments flat{
      .leaves = elements.leaves, .tree = {.kind = "tuple", .children = {{"", elements.def}}}, .statics = {}};
  return tree_object(elements.tree,
                     unlocked([&] { return detail::call_associative_scan(options, flat, combine, where); }));
}

nb::object optimization_barrier(nb::handle operand) {
  const ArrayTree operands = array_tree(operand, "optimization_barrier");
  const SourceLocation where = user_line();
  return tree_object(operands.tree, unlocked([&] { return detail::call_barrier(operands.leaves, where); }));
}

}  // namespace

void bind_lax_control_flow(nb::module_& m) {
  m.def(
      "scan", scan, "f"_a, "init"_a.none(), "xs"_a = nb::none(), "length"_a = nb::none(), "reverse"_a = Flag(false),
      "unroll"_a = 1,
      "f(carry, x) for the slices x of xs along their first dimension: the last carry, and the stack of what f returns "
      "beside it.");
  m.def("while_loop", while_loop, "cond_fun"_a, "body_fun"_a, "init_val"_a.none(), nb::kw_only(),
        "max_checkpoints"_a = nb::none(),
        "body_fun applied to init_val and then to its own result, as long as cond_fun of it is true. With "
        "max_checkpoints the loop has a derivative in reverse, for which it keeps that number of its states.");
  m.def("fori_loop", fori_loop, "lower"_a, "upper"_a, "body_fun"_a, "init_val"_a.none(), nb::kw_only(),
        "unroll"_a = nb::none(), "max_checkpoints"_a = nb::none(),
        "body_fun(i, value) for i from lower to upper - 1, each on the value that the one before returned.");
  m.def("cond", cond, "pred"_a, "true_fun"_a, "false_fun"_a, "operands"_a,
        "true_fun of the operands if the scalar is true, else false_fun of them; only that one runs.");
  m.def("switch", switch_, "index"_a, "branches"_a, "operands"_a,
        "branches[index] of the operands; an index out of bounds takes the nearest.");
  m.def("map", map, "f"_a, "xs"_a, nb::kw_only(), "batch_size"_a = nb::none(),
        "The stack of f(x) for the slices x of xs along their first dimension, one after the other.");
  m.def("associative_scan", associative_scan, "fn"_a, "elems"_a, "reverse"_a = Flag(false), "axis"_a = 0,
        "For each position along a dimension, the elements up to it combined by an associative function.");
  m.def("optimization_barrier", optimization_barrier, "operand"_a,
        "The arrays of a tree as they are, where nothing that is computed of the results is merged with, or moved to, "
        "what is computed before.");
}

}  // namespace shoal::python
