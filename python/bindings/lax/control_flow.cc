// Loops and branches of shoal.lax, whose functions are Python's.
#include "shoal/control_flow.h"

#include <fmt/format.h>
#include <nanobind/stl/optional.h>

#include <cmath>
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

// The trips of a scan: whatever int() makes a number of, as for JAX.
std::optional<std::int64_t> trips_of(nb::handle length) {
  if (length.is_none()) return std::nullopt;
  if (const Array* array = array_of(length); array != nullptr && array->is_tracer()) {
    const nb::object error = nb::module_::import_("shoal._core").attr("ConcretizationTypeError");
    PyErr_SetString(
        error.ptr(),
        fmt::format("scan: length must be known when the function is traced, but it is {}{}, which is being "
                    "traced; pass it as a static argument (static_argnums, static_argnames), or count in "
                    "lax.fori_loop or lax.while_loop",
                    name_of(array->dtype()), to_string(array->shape()))
            .c_str());
    throw nb::python_error();
  }
  if (PyIndex_Check(length.ptr()) != 0) return integer(length, "scan: length");
  const nb::object whole = nb::steal(PyNumber_Long(length.ptr()));
  if (!whole.is_valid()) throw nb::python_error();
  return integer(whole, "scan: length");
}

// How a loop is transposed is the library's choice, and changes no numbers.
nb::object scan(nb::handle f, nb::handle init, nb::handle xs, nb::handle length, Flag reverse, nb::handle unroll,
                nb::handle) {
  const Traceable body(f, "scan", "f", nb::make_tuple(init, xs), {"init", "xs"});
  lax::ScanOptions options{.reverse = reverse, .unroll = unroll_of(unroll, "scan")};
  options.length = trips_of(length);
  const SourceLocation where = user_line();
  return result_of(
      [&](std::any& exemplar) { return detail::call_scan(options, body.flatten(), body.function(), exemplar, where); });
}

nb::object while_loop(nb::handle condition, nb::handle function, nb::handle init, nb::handle max_checkpoints) {
  const lax::WhileOptions options{.max_checkpoints = maybe_integer(max_checkpoints, "while_loop: max_checkpoints")};
  const Traceable question(condition, "while_loop", "cond_fun", nb::make_tuple(init), {"init_val"});
  const Traceable body(function, "while_loop", "body_fun", nb::make_tuple(init), {"init_val"});
  const SourceLocation where = user_line();
  return result_of([&](std::any& exemplar) {
    return detail::call_while(options, body.flatten(), question.function(), body.function(), exemplar, where);
  });
}

// The number that an operand is known to be, or nothing.
std::optional<double> known_number(const Operand& x) {
  if (x.number() != nullptr) return to_scalar(*x.number(), float64).as<double>();
  const Array& array = *x.array();
  if (array.is_tracer() || array.ndim() != 0) return std::nullopt;
  return unlocked([&] { return array.item<double>(x.where()); });
}

// JAX takes bounds of one type, or signed integers of which one is a number of Python.
void check_bounds(const Operand& lower, const Operand& upper) {
  const DtypeAndWeakness first = type_of_operand(lower);
  const DtypeAndWeakness last = type_of_operand(upper);
  const auto is_signed_integer = [](Dtype dtype) { return is_integer(dtype) && is_signed(dtype); };
  const bool adapts = is_signed_integer(first.dtype) && is_signed_integer(last.dtype) && first.weak != last.weak;
  if (first.dtype == last.dtype || adapts) return;
  type_error(fmt::format("lower and upper arguments to fori_loop must have equal types, got {} and {}",
                         name_of(first.dtype), name_of(last.dtype)));
}

nb::object fori_loop(nb::handle lower, nb::handle upper, nb::handle function, nb::handle init, nb::handle unroll,
                     nb::handle max_checkpoints);

// A loop that counts in floats: from the whole part of lower to that of upper where both are known, else from lower as
// long as it is less than upper.
nb::object float_loop(const Operand& lower, const Operand& upper, nb::handle function, nb::handle init,
                      nb::handle unroll, nb::handle max_checkpoints) {
  const nb::object body = nb::borrow(function);
  const std::optional<double> first = known_number(lower);
  const std::optional<double> last = known_number(upper);
  if (first && last) {
    const DtypeAndWeakness type = type_of_operand(lower);
    const SourceLocation where = lower.where();
    const nb::object counted = nb::cpp_function(
        [body, type, where](const Array& i, nb::handle value) {
          return body(called_as("fori_loop", where, [&] { return convert(i, type.dtype, type.weak); }), value);
        },
        nb::arg(), nb::arg().none());
    const auto whole = [](double x) { return nb::int_(static_cast<std::int64_t>(std::trunc(x))); };
    return fori_loop(whole(*first), whole(*last), counted, init, unroll, max_checkpoints);
  }
  const nb::object condition =
      nb::cpp_function([](nb::handle state) { return nb::object(state[0]).attr("__lt__")(nb::object(state[1])); });
  const nb::object step = nb::cpp_function(
      [body](nb::handle state) { return nb::make_tuple(state[0] + nb::int_(1), state[1], body(state[0], state[2])); });
  const nb::object start =
      nb::make_tuple(nb::cast(shoal::to_array(lower)), nb::cast(shoal::to_array(upper)), nb::borrow(init));
  return while_loop(condition, step, start, max_checkpoints)[2];
}

nb::object fori_loop(nb::handle lower, nb::handle upper, nb::handle function, nb::handle init, nb::handle unroll,
                     nb::handle max_checkpoints) {
  const Operand first = operand(lower, "fori_loop", "lower");
  const Operand last = operand(upper, "fori_loop", "upper");
  check_bounds(first, last);
  if (!unroll.is_none() && PyObject_IsTrue(unroll.ptr()) != 0 && !(known_number(first) && known_number(last))) {
    value_error("fori_loop: Can only use `unroll` in `fori_loop` if the loop bounds are statically known.");
  }
  if (is_floating(type_of_operand(first).dtype)) {
    return float_loop(first, last, function, init, unroll, max_checkpoints);
  }
  const Traceable body(function, "fori_loop", "body_fun", nb::make_tuple(0, init), {"lower", "init_val"});
  const Traceable carried(function, "fori_loop", "body_fun", nb::make_tuple(init), {"init_val"});
  const lax::ForiOptions options{.unroll = unroll_of(unroll, "fori_loop"),
                                 .max_checkpoints = maybe_integer(max_checkpoints, "fori_loop: max_checkpoints")};
  const SourceLocation where = user_line();
  return result_of([&](std::any& exemplar) {
    return detail::call_fori(options, first, last, carried.flatten(), body.function(), exemplar, where);
  });
}

// The operands of branches, which may also be one under its name.
nb::tuple operands_of(const char* name, nb::args operands, nb::handle operand) {
  if (operand.ptr() == Py_Ellipsis) return std::move(operands);
  if (nb::len(operands) != 0) {
    type_error(
        fmt::format("{}: if the operand keyword is passed there can be no positional operands; got operand={} "
                    "and {}",
                    name, nb::cast<std::string>(nb::repr(operand)), nb::cast<std::string>(nb::repr(operands))));
  }
  return nb::make_tuple(operand);
}

// A function of two arguments that gives what `function` gives of one of them.
nb::object of_one_argument(nb::handle function, bool of_first) {
  return nb::cpp_function([function = nb::borrow(function), of_first](
                              nb::handle first, nb::handle second) { return function(of_first ? first : second); },
                          nb::arg().none(), nb::arg().none());
}

nb::object cond(nb::handle pred, nb::handle on_true, nb::handle on_false, nb::args positional, nb::handle keyword) {
  const auto is_function = [](nb::handle x) { return PyCallable_Check(x.ptr()) != 0; };
  const bool is_old = !is_function(on_true) && is_function(on_false) && nb::len(positional) == 2 &&
                      is_function(positional[1]) && keyword.ptr() == Py_Ellipsis;
  if (is_old) {
    // As it was written once: pred, true_operand, true_fun, false_operand, false_fun.
    nb::object yes = of_one_argument(on_false, true);
    nb::object no = of_one_argument(positional[1], false);
    return cond(pred, yes, no, nb::borrow<nb::args>(nb::make_tuple(on_true, positional[0])), keyword);
  }
  const nb::tuple operands = operands_of("cond", std::move(positional), keyword);
  if (!is_function(on_true) || !is_function(on_false)) {
    type_error("lax.cond: true_fun and false_fun arguments should be callable.");
  }
  if (pred.is_none()) type_error("cond predicate is None");
  if (!is_array_like(pred)) {
    type_error(fmt::format("cond: Pred must be a scalar, got {} of type {}", nb::cast<std::string>(nb::str(pred)),
                           type_text(pred)));
  }
  const Operand predicate = operand(pred, "cond", "pred");
  if (const Dtype dtype = type_of_operand(predicate).dtype; is_complex(dtype)) {
    type_error(fmt::format("cond: Pred type must be either boolean or number, got {}.", name_of(dtype)));
  }
  const Traceable yes(on_true, "cond", "true_fun", operands, {"operands"});
  const Traceable no(on_false, "cond", "false_fun", operands, {"operands"});
  return result_of([&](std::any& exemplar) {
    return detail::call_cond(predicate, yes.flatten(), yes.function(), no.function(), exemplar);
  });
}

nb::object switch_(nb::handle index, nb::handle branches, nb::args positional, nb::handle keyword) {
  const nb::tuple operands = operands_of("switch", std::move(positional), keyword);
  const Operand chosen = operand(index, "switch", "index");
  // A function has no length, and cannot be asked for branches.
  const nb::object iterator = nb::steal(PyObject_GetIter(branches.ptr()));
  if (!iterator.is_valid()) {
    PyErr_Clear();
    type_error(fmt::format("switch: branches must be a sequence of functions, got {}", type_text(branches)));
  }
  std::deque<Traceable> traceable;
  for (nb::handle one : iterator) {
    traceable.emplace_back(one, "switch", fmt::format("branches[{}]", traceable.size()), operands,
                           std::vector<std::string>{"operands"});
  }
  if (traceable.empty()) value_error("switch: there are no branches; give one or more");
  return result_of([&](std::any& exemplar) {
    std::vector<detail::TracedFunction> functions;
    for (const Traceable& one : traceable) functions.push_back(one.function());
    return detail::call_switch(chosen, traceable[0].flatten(), functions, exemplar);
  });
}

nb::object map(nb::handle f, nb::handle xs, nb::handle batch_size) {
  std::optional<std::int64_t> size = maybe_integer(batch_size, "map: batch_size");
  if (size == 0) size.reset();
  const Traceable function(f, "map", "f", nb::make_tuple(xs), {"xs"});
  const SourceLocation where = user_line();
  return result_of([&](std::any& exemplar) {
    return detail::call_map(size, function.flatten(), function.function(), exemplar, where);
  });
}

nb::object associative_scan(nb::handle fn, nb::handle elems, Flag reverse, nb::handle axis) {
  if (PyCallable_Check(fn.ptr()) == 0) {
    type_error(fmt::format("associative_scan: fn must be a function, got {}", type_text(fn)));
  }
  const lax::AssociativeScanOptions options{.reverse = reverse, .axis = integer(axis, "associative_scan: axis")};
  const ArrayTree elements = array_tree(elems, "associative_scan: elems");
  const SourceLocation where = user_line();
  const auto combine = [&](const std::vector<Array>& a, const std::vector<Array>& b) {
    nb::gil_scoped_acquire held;
    const nb::object result = nb::borrow(fn)(tree_object(elements.tree, a), tree_object(elements.tree, b));
    ArrayTree made = array_tree(result, "associative_scan: the result of fn");
    if (!(made.tree == elements.tree)) {
      type_error(fmt::format("associative_scan: fn returns {}, and should return {}", to_string(made.def),
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
      "scan", scan, "f"_x, "init"_x, "xs"_x = nb::none(), "length"_a = nb::none(), "reverse"_x = Flag(false),
      "unroll"_a = 1, "_split_transpose"_a = false,
      "f(carry, x) for the slices x of xs along their first dimension: the last carry, and the stack of what f returns "
      "beside it.");
  m.def("while_loop", while_loop, "cond_fun"_x, "body_fun"_x, "init_val"_x, nb::kw_only(),
        "max_checkpoints"_a = nb::none(),
        "body_fun applied to init_val and then to its own result, as long as cond_fun of it is true. With "
        "max_checkpoints the loop has a derivative in reverse, for which it keeps that number of its states.");
  m.def("fori_loop", fori_loop, "lower"_x, "upper"_x, "body_fun"_x, "init_val"_x, nb::kw_only(),
        "unroll"_a = nb::none(), "max_checkpoints"_a = nb::none(),
        "body_fun(i, value) for i from lower to upper - 1, each on the value that the one before returned.");
  m.def("cond", cond, "pred"_x, "true_fun"_x, "false_fun"_x, "operands"_a, "operand"_x = nb::ellipsis(),
        "true_fun of the operands if the scalar is true, else false_fun of them; only that one runs.");
  m.def("switch", switch_, "index"_x, "branches"_x, "operands"_a, "operand"_x = nb::ellipsis(),
        "branches[index] of the operands; an index out of bounds takes the nearest.");
  m.def("map", map, "f"_x, "xs"_x, nb::kw_only(), "batch_size"_a = nb::none(),
        "The stack of f(x) for the slices x of xs along their first dimension, one after the other.");
  m.def("associative_scan", associative_scan, "fn"_x, "elems"_x, "reverse"_x = Flag(false), "axis"_x = 0,
        "For each position along a dimension, the elements up to it combined by an associative function.");
  m.def("optimization_barrier", optimization_barrier, "operand"_x,
        "The arrays of a tree as they are, where nothing that is computed of the results is merged with, or moved to, "
        "what is computed before.");
}

}  // namespace shoal::python
