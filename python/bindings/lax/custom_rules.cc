// Functions with rules of their own: what shoal._custom_rules is made of. Functions and rules take and give lists of
// arrays, with None where there is no tangent.
#include <memory>

#include "bindings/core/call.h"
#include "bindings/core/flag.h"
#include "bindings/core/tree.h"
#include "bindings/lax/lax.h"
#include "bindings/lax/traceable.h"
#include "shoal/custom_batching.h"
#include "shoal/custom_derivatives.h"
#include "shoal/implicit.h"
#include "shoal/ode.h"
#include "shoal/optimize.h"
#include "shoal/sparse_linalg.h"

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

// The rule gives a third thing: the arrays that the pullback is passed again, after the cotangents.
nb::object custom_vjp_with_zeros(nb::handle given, nb::handle function, nb::handle rule) {
  const ListFunction forward(rule);
  const auto kept = [forward](const std::vector<Array>& primals, const std::vector<bool>& changes) {
    return with_python([&] {
      const nb::object made = forward(as_list(primals), as_flags(changes));
      const auto pull_back = [backward = ListFunction(made[1])](const std::vector<Array>& cotangents,
                                                                const std::vector<Array>& arrays) {
        return with_python([&] { return as_arrays(backward(as_list(cotangents), as_list(arrays))); });
      };
      return std::pair(forward.result_of(made[0]),
                       detail::PullbackOfKept{.kept = as_arrays(made[2]), .pull_back = pull_back});
    });
  };
  return called(&detail::call_custom_vjp_with_zeros, given, function, kept);
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

// A function of the library as one of lists.
nb::object list_function(const detail::LeafFunction& function) {
  return nb::cpp_function([function](nb::handle list) {
    const std::vector<Array> leaves = as_arrays(list);
    return as_list(unlocked([&] { return function(leaves); }));
  });
}

// solve(function, list) as the library calls it.
detail::Solve solve(nb::handle f) {
  return [on_lists = ListFunction(f)](const detail::LeafFunction& function, const std::vector<Array>& leaves) {
    return with_python([&] { return on_lists.result_of(on_lists(list_function(function), as_list(leaves))); });
  };
}

// What call(arguments, exemplar, line) gives for these leaves.
template <class Call>
nb::object implicit(nb::handle given, Call&& call) {
  const SourceLocation where = user_line();
  const detail::CallArguments arguments = flat_arguments(as_arrays(given));
  return as_list(unlocked([&] {
    std::any exemplar;
    return call(arguments, exemplar, where);
  }));
}

nb::object custom_root(nb::handle guess, nb::handle f, nb::handle solve_root, nb::handle tangent_solve) {
  const detail::TracedFunction function = traced(ListFunction(f));
  const detail::Solve of_root = solve(solve_root);
  const detail::Solve of_tangent = solve(tangent_solve);
  return implicit(guess, [&](const detail::CallArguments& start, std::any& exemplar, const SourceLocation& where) {
    return detail::call_custom_root(start, function, of_root, of_tangent, exemplar, where);
  });
}

nb::object custom_linear_solve(nb::handle b, nb::handle matvec, nb::handle of_matvec, nb::handle of_transpose,
                               Flag symmetric) {
  const detail::TracedFunction function = traced(ListFunction(matvec));
  detail::LinearSolve solvers{.solve = solve(of_matvec), .transpose_solve = {}, .symmetric = symmetric};
  if (!of_transpose.is_none()) solvers.transpose_solve = solve(of_transpose);
  return implicit(b, [&](const detail::CallArguments& right, std::any& exemplar, const SourceLocation& where) {
    return detail::call_custom_linear_solve(right, function, solvers, exemplar, where);
  });
}

// A matrix, or a function of lists.
detail::LeafOperator linear_operator(nb::handle x) {
  if (PyCallable_Check(x.ptr()) == 0) return {.matrix = as_arrays(nb::make_tuple(x)).at(0)};
  return {.function = [f = ListFunction(x)](const std::vector<Array>& leaves) {
    return with_python([&] { return as_arrays(f(as_list(leaves))); });
  }};
}

// What solves A x = b by iteration; `options` are x0, tol, atol, maxiter and M, with None for what is not given.
detail::Iteration iteration(const char* name, nb::handle A, nb::handle b, nb::tuple options) {
  detail::Iteration made{.A = linear_operator(A),
                         .b = flat_arguments(as_arrays(b)),
                         .x0 = {},
                         .tol = operand(options[1], name, "tol"),
                         .atol = operand(options[2], name, "atol"),
                         .maxiter = {},
                         .M = {}};
  if (!options[0].is_none()) made.x0 = flat_arguments(as_arrays(options[0]));
  if (!options[3].is_none()) made.maxiter = operand(options[3], name, "maxiter");
  if (!options[4].is_none()) made.M = linear_operator(options[4]);
  return made;
}

template <std::vector<Array> (*solver)(const detail::Iteration&, SourceLocation)>
void bind_solver(nb::module_& m, const char* name, const char* bound) {
  m.def(
      bound,
      [name](nb::handle A, nb::handle b, nb::tuple options) {
        const detail::Iteration given = iteration(name, A, b, options);
        const SourceLocation where = user_line();
        return as_list(unlocked([&] { return solver(given, where); }));
      },
      "A"_a, "b"_a, "options"_a);
}

nb::object gmres(nb::handle A, nb::handle b, nb::tuple options, std::int64_t restart, Flag incremental) {
  const detail::Iteration given = iteration("gmres", A, b, options);
  const SourceLocation where = user_line();
  const linalg::GmresMethod method = incremental ? linalg::GmresMethod::kIncremental : linalg::GmresMethod::kBatched;
  const auto [x, info] = unlocked([&] { return detail::call_gmres(given, restart, method, where); });
  return nb::make_tuple(as_list(x), info);
}

// The fields of OptimizeResults; `options` are maxiter, norm, gtol and line_search_maxiter, None where not given.
nb::object minimize(nb::handle fun, nb::handle x0, nb::tuple options) {
  const auto f = [on_lists = ListFunction(fun)](const Array& x) {
    return with_python([&] { return as_arrays(nb::make_tuple(on_lists(nb::cast(x)))).at(0); });
  };
  optimize::MinimizeOptions given;
  if (!options[0].is_none()) given.maxiter = operand(options[0], "minimize", "maxiter");
  if (!options[1].is_none()) given.norm = nb::cast<double>(options[1]);
  if (!options[2].is_none()) given.gtol = operand(options[2], "minimize", "gtol");
  if (!options[3].is_none()) given.line_search_maxiter = nb::cast<std::int64_t>(options[3]);
  const Operand start(array_tree(x0, "minimize").leaves.at(0), user_line());
  const optimize::OptimizeResults made = unlocked([&] { return optimize::minimize(f, start, given); });
  return nb::make_tuple(made.x, made.success, made.status, made.fun, made.jac, made.hess_inv, made.nfev, made.njev,
                        made.nit);
}

// The states of y' = f(list of y and of the time); `options` are the fields of OdeintOptions.
nb::object odeint(nb::handle f, nb::handle y0, nb::handle t, double rtol, double atol, double mxstep, double hmax) {
  const detail::TracedFunction function = traced(ListFunction(f));
  const ode::OdeintOptions options{.rtol = rtol, .atol = atol, .mxstep = mxstep, .hmax = hmax};
  const Operand times = operand(t, "odeint", "t");
  return implicit(y0, [&](const detail::CallArguments& start, std::any&, const SourceLocation& where) {
    return detail::call_odeint(function, start, times, options, where);
  });
}

}  // namespace

void bind_lax_custom_rules(nb::module_& m) {
  nb::class_<PythonClosure>(m, "_Closure").def("consts", &PythonClosure::consts).def("call", &PythonClosure::call);
  m.def("_closure", closure, "f"_a, "arguments"_a, "name"_a);
  m.def("_custom_jvp", custom_jvp, "leaves"_a, "function"_a, "rule"_a);
  m.def("_custom_vjp", custom_vjp, "leaves"_a, "function"_a, "rule"_a);
  m.def("_custom_vjp_with_zeros", custom_vjp_with_zeros, "leaves"_a, "function"_a, "rule"_a);
  m.def("_custom_vmap", custom_vmap, "leaves"_a, "function"_a, "rule"_a);
  m.def("_sequential_vmap", sequential_vmap, "leaves"_a, "function"_a);
  m.def("_custom_root", custom_root, "guess"_a, "f"_a, "solve"_a, "tangent_solve"_a);
  m.def("_custom_linear_solve", custom_linear_solve, "b"_a, "matvec"_a, "solve"_a, "transpose_solve"_a.none(),
        "symmetric"_a);
  bind_solver<&detail::call_cg>(m, "cg", "_cg");
  bind_solver<&detail::call_bicgstab>(m, "bicgstab", "_bicgstab");
  m.def("_gmres", gmres, "A"_a, "b"_a, "options"_a, "restart"_a, "incremental"_a);
  m.def("_minimize", minimize, "fun"_a, "x0"_a, "options"_a);
  m.def("_odeint", odeint, "f"_a, "y0"_a, "t"_a, "rtol"_a, "atol"_a, "mxstep"_a, "hmax"_a);
  m.def("_linear_call", linear_call, "linear"_a, "others"_a, "function"_a, "transposed"_a);
}

}  // namespace shoal::python
