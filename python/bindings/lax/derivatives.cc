// Derivatives: what shoal._derivatives is made of.
#include "shoal/derivatives.h"

#include <fmt/format.h>

#include <memory>

#include "bindings/core/flag.h"
#include "bindings/core/tree.h"
#include "bindings/lax/lax.h"
#include "bindings/lax/traceable.h"

namespace shoal::python {
namespace {

// The tree of the arguments of a call, with these leaves.
nb::object like_arguments(nb::handle arguments, const std::vector<Array>& leaves) {
  std::vector<nb::object> held;
  return tree_object(PyTree::flatten(arguments, held), leaves);
}

// Errors name chosen arguments by their positions in the user's call.
void name_positions(TreeDef& chosen, nb::handle positions) {
  auto child = chosen.children.begin();
  for (nb::handle position : positions) (child++)->key = fmt::format("[{}]", nb::cast<std::size_t>(position));
}

nb::object value_and_grad(nb::handle f, nb::object arguments, nb::tuple positions, bool with_value, Flag holomorphic,
                          Flag allow_int, Flag strong_zeros) {
  const Traceable function(f, with_value ? "value_and_grad" : "grad", arguments);
  const GradOptions options{.holomorphic = holomorphic, .allow_int = allow_int, .strong_zeros = strong_zeros};
  const SourceLocation where = user_line();
  detail::CallArguments flat = function.flatten();
  name_positions(flat.tree, positions);
  detail::Differentiated made = unlocked([&] {
    return detail::call_value_and_grad(with_value ? "value_and_grad" : "grad", options, flat,
                                       std::vector<bool>(flat.leaves.size(), true), function.function(), where);
  });
  return nb::make_tuple(result_object(made.exemplar, std::move(made.results)),
                        like_arguments(arguments, made.gradients));
}

// The result and, for each of its arrays, the tree of its blocks. The argument is the one at the only position, or the
// tuple of them.
nb::object jacobian(nb::handle f, nb::object argument, nb::object positions, bool forward, Flag holomorphic,
                    Flag allow_int, Flag strong_zeros) {
  const char* name = forward ? "jacfwd" : "jacrev";
  const Traceable function(f, name, nb::make_tuple(argument));
  const GradOptions options{.holomorphic = holomorphic, .allow_int = allow_int, .strong_zeros = strong_zeros};
  const SourceLocation where = user_line();
  detail::CallArguments flat = function.flatten();
  if (nb::isinstance<nb::tuple>(positions)) {
    flat.tree.children[0].key = "";
    name_positions(flat.tree.children[0].tree, positions);
  } else {
    name_positions(flat.tree, nb::make_tuple(positions));
  }
  detail::Jacobian made = unlocked([&] {
    return detail::call_jacobian(name, forward ? detail::Direction::kForward : detail::Direction::kReverse, options,
                                 flat, std::vector<bool>(flat.leaves.size(), true), function.function(), where);
  });
  const std::size_t num_results = made.made.results.size();
  nb::list rows;
  auto next = made.blocks.begin();
  for (std::size_t i = 0; i < num_results; ++i) {
    const auto end = next + static_cast<std::ptrdiff_t>(made.blocks.size() / num_results);
    rows.append(like_arguments(argument, std::vector<Array>(next, end)));
    next = end;
  }
  return nb::make_tuple(result_object(made.made.exemplar, std::move(made.made.results)), rows);
}

nb::object jvp(nb::handle f, nb::object primals, nb::object tangents, Flag strong_zeros) {
  const Traceable function(f, "jvp", primals);
  const Traceable changes(f, "jvp", tangents);
  const SourceLocation where = user_line();
  detail::Differentiated made = unlocked([&] {
    return detail::call_jvp(function.flatten(), changes.flatten(), function.function(), where, strong_zeros);
  });
  return nb::make_tuple(result_object(made.exemplar, std::move(made.results)),
                        result_object(made.exemplar, std::move(made.gradients)));
}

// A linear map of arrays, which are given and returned as lists.
struct Map {
  detail::LinearMap map;

  nb::object push_forward(nb::handle tangents) const {
    const std::vector<Array> given = array_tree(tangents, "linearize").leaves;
    const SourceLocation where = user_line();
    return mapped([&] { return map.push_forward(given, where); });
  }
  nb::object pull_back(nb::handle cotangents) const {
    const std::vector<Array> given = array_tree(cotangents, "vjp").leaves;
    const SourceLocation where = user_line();
    return mapped([&] { return map.pull_back(given, where); });
  }
  nb::object arrays() const { return list(map.arrays()); }
  Map with_arrays(const std::vector<Array>& arrays) const { return {map.with_arrays(arrays)}; }
  bool is_same_function(const Map& other) const { return map.is_same_function(other.map); }
  static nb::object list(const std::vector<Array>& arrays) {
    nb::list made;
    for (const Array& array : arrays) made.append(nb::cast(array));
    return std::move(made);
  }
  // JAX raises a ValueError for tangents and cotangents of other dtypes, or a TypeError: ShapeError is both.
  template <class F>
  static nb::object mapped(F&& call) {
    try {
      return list(unlocked(call));
    } catch (const TypeMismatch& error) {
      shape_error(error.what());
    }
  }
};

nb::object linearize(nb::handle f, nb::object primals, const std::string& name, Flag strong_zeros) {
  const char* const caller = name == "vjp" ? "vjp" : "linearize";
  const Traceable function(f, caller, primals);
  const SourceLocation where = user_line();
  auto [made, map] =
      unlocked([&] { return detail::call_linearize(caller, function.flatten(), function.function(), where); });
  return nb::make_tuple(result_object(made.exemplar, std::move(made.results)),
                        nb::cast(Map{strong_zeros ? map.with_strong_zeros() : std::move(map)}));
}

nb::object linear_transpose(nb::handle f, nb::object primals) {
  const Traceable function(f, "linear_transpose", primals);
  const SourceLocation where = user_line();
  auto [made, map] =
      unlocked([&] { return detail::call_linear_transpose(function.flatten(), function.function(), where); });
  // Of the results, which have no values, the structure is all that is asked for.
  return nb::make_tuple(result_object(made.exemplar, std::move(made.results)), nb::cast(Map{std::move(map)}));
}

}  // namespace

void bind_lax_derivatives(nb::module_& m) {
  nb::class_<Map>(m, "_LinearMap")
      .def("push_forward", &Map::push_forward)
      .def("pull_back", &Map::pull_back)
      .def("arrays", &Map::arrays)
      .def("with_arrays",
           [](const Map& self, nb::handle arrays) { return self.with_arrays(array_tree(arrays, "vjp").leaves); })
      .def("__eq__", &Map::is_same_function)
      .def("__hash__", [](const Map& self) { return self.map.hash(); });
  m.def("_value_and_grad", value_and_grad, "f"_a, "arguments"_a, "positions"_a, "with_value"_a, "holomorphic"_a,
        "allow_int"_a, "strong_zeros"_a);
  m.def("_jacobian", jacobian, "f"_a, "argument"_a, "positions"_a, "forward"_a, "holomorphic"_a, "allow_int"_a,
        "strong_zeros"_a);
  m.def("_jvp", jvp, "f"_a, "primals"_a, "tangents"_a, "strong_zeros"_a);
  m.def("_linearize", linearize, "f"_a, "primals"_a, "name"_a, "strong_zeros"_a);
  m.def("_linear_transpose", linear_transpose, "f"_a, "primals"_a);
  m.def("_stop_gradient", [](const Array& x) {
    const SourceLocation where = user_line();
    return unlocked([&] { return stop_gradient(Operand(x, where)); });
  });
  m.def("_without_ended_tangents", &detail::without_ended_tangents, "x"_a);
}

}  // namespace shoal::python
