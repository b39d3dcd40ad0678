// Functions with rules of their own: what shoal._custom_rules is made of. Functions and rules take and give lists of
// arrays, with None where there is no tangent.
#include <memory>

#include "bindings/core/call.h"
#include "bindings/core/tree.h"
#include "bindings/lax/lax.h"
#include "bindings/lax/traceable.h"
#include "shoal/custom_batching.h"
#include "shoal/custom_derivatives.h"

namespace shoal::python {
namespace {

nb::list as_list(const std::vector<Array>& arrays) {
  nb::list made;
  for (const Array& array : arrays) made.append(detail::is_empty(array) ? nb::none() : nb::cast(array));
  return made;
}

std::vector<Array> as_arrays(nb::handle list) {
  std::vector<Array> arrays;
  for (nb::handle one : list) arrays.push_back(one.is_none() ? Array() : array_tree(one, "custom rule").leaves.at(0));
  return arrays;
}

detail::CallArguments flat_arguments(std::vector<Array> leaves) {
  detail::CallArguments flat;
  flat.leaves = tree::flatten(leaves, &flat.tree);
  return flat;
}

// A function of lists, which is kept as long as a graph may ask for it.
class ListFunction {
 public:
  explicit ListFunction(nb::handle function) : function_(function) {}

  detail::TracedResult result_of(nb::handle list) const {
    detail::TracedResult made;
    made.leaves = tree::flatten(as_arrays(list), &made.tree);
    return made;
  }
  template <class... Lists>
  nb::object operator()(const Lists&... lists) const {
    return nb::borrow(function_.get())(lists...);
  }

 private:
  Held function_;
};

template <class F>
auto with_python(F&& call) {
  nb::gil_scoped_acquire gil;
  return call();
}

detail::TracedFunction traced(const ListFunction& f) {
  return [f](const std::vector<Array>& leaves) { return with_python([&] { return f.result_of(f(as_list(leaves))); }); };
}

// The function of these arguments as `call` calls it by the rule.
template <class Call, class Rule>
nb::object called(Call* call, nb::handle given, nb::handle function, const Rule& rule) {
  const SourceLocation where = user_line();
  const detail::CallArguments arguments = flat_arguments(as_arrays(given));
  const detail::TracedFunction f = traced(ListFunction(function));
  return as_list(unlocked([&] {
    std::any exemplar;
    return call(arguments, f, rule, exemplar, where);
  }));
}

nb::list as_flags(const std::vector<bool>& flags) {
  nb::list made;
  for (const bool one : flags) made.append(nb::bool_(one));
  return made;
}

nb::object custom_jvp(nb::handle given, nb::handle function, nb::handle rule) {
  const ListFunction on_tangents(rule);
  const auto kept = [on_tangents](const std::vector<Array>& primals, const std::vector<Array>& tangents) {
    return with_python([&] {
      const nb::object made = on_tangents(as_list(primals), as_list(tangents));
      return detail::RuleResult{.result = on_tangents.result_of(made[0]), .tangents = as_arrays(made[1])};
    });
  };
  return called(&detail::call_custom_jvp, given, function, kept);
}

nb::object custom_vjp(nb::handle given, nb::handle function, nb::handle rule) {
  const ListFunction forward(rule);
  const auto kept = [forward](const std::vector<Array>& primals, const std::vector<bool>& changes) {
    return with_python([&] {
      const nb::object made = forward(as_list(primals), as_flags(changes));
      const detail::PullbackRule pull_back = [backward = ListFunction(made[1])](const std::vector<Array>& cotangents) {
        return with_python([&] { return as_arrays(backward(as_list(cotangents))); });
      };
      return std::pair(forward.result_of(made[0]), pull_back);
    });
  };
  return called(&detail::call_custom_vjp, given, function, kept);
}

nb::object custom_vmap(nb::handle given, nb::handle function, nb::handle rule) {
  const ListFunction in_places(rule);
  const auto kept = [in_places](std::int64_t size, const std::vector<bool>& mapped, const std::vector<Array>& leaves) {
    return with_python([&] {
      const nb::object made = in_places(nb::int_(size), as_flags(mapped), as_list(leaves));
      detail::BatchedResult result{.result = in_places.result_of(made[0]), .mapped = {}};
      for (nb::handle one : nb::object(made[1])) result.mapped.push_back(nb::cast<bool>(one));
      return result;
    });
  };
  return called(&detail::call_custom_vmap, given, function, kept);
}

nb::object sequential_vmap(nb::handle given, nb::handle function) {
  return called(&detail::call_custom_vmap, given, function, detail::one_by_one(traced(ListFunction(function))));
}

nb::object linear_call(nb::handle linear, nb::handle others, nb::handle function, nb::handle transposed) {
  const SourceLocation where = user_line();
  const detail::CallArguments first = flat_arguments(as_arrays(linear));
  const detail::CallArguments rest = flat_arguments(as_arrays(others));
  const detail::TracedFunction f = traced(ListFunction(function));
  const detail::TracedFunction back = traced(ListFunction(transposed));
  return as_list(unlocked([&] {
    std::any exemplar;
    return detail::call_linear(first, rest, f, back, exemplar, where);
  }));
}

// A traced function of arguments, and the arrays from outside that it uses.
struct PythonClosure {
  detail::Closure closure;

  nb::object consts() const { return as_list(closure.consts()); }
  nb::object call(nb::handle leaves, nb::handle consts) const {
    const std::vector<Array> given = as_arrays(leaves);
    const std::vector<Array> others = as_arrays(consts);
    const SourceLocation where = user_line();
    return result_object(closure.exemplar(), unlocked([&] { return closure(given, others, where); }));
  }
};

nb::object closure(nb::handle f, nb::object arguments, const char* name) {
  const Traceable function(f, name, arguments);
  const SourceLocation where = user_line();
  return nb::cast(PythonClosure{
      unlocked([&] { return detail::Closure("closure_convert", function.flatten(), function.function(), where); })});
}

}  // namespace

void bind_lax_custom_rules(nb::module_& m) {
  nb::class_<PythonClosure>(m, "_Closure").def("consts", &PythonClosure::consts).def("call", &PythonClosure::call);
  m.def("_closure", closure, "f"_a, "arguments"_a, "name"_a);
  m.def("_custom_jvp", custom_jvp, "leaves"_a, "function"_a, "rule"_a);
  m.def("_custom_vjp", custom_vjp, "leaves"_a, "function"_a, "rule"_a);
  m.def("_custom_vmap", custom_vmap, "leaves"_a, "function"_a, "rule"_a);
  m.def("_sequential_vmap", sequential_vmap, "leaves"_a, "function"_a);
  m.def("_linear_call", linear_call, "linear"_a, "others"_a, "function"_a, "transposed"_a);
}

}  // namespace shoal::python
