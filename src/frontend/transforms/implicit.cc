#include "shoal/implicit.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/promotion.h"
#include "frontend/transforms/leaves.h"
#include "shoal/derivatives.h"
#include "shoal/numpy.h"

namespace shoal::detail {
namespace {

using Leaves = std::vector<Array>;

// The next leaves of a list that several parts make.
class Parts {
 public:
  explicit Parts(const Leaves& leaves) : leaves_(leaves) {}
  Leaves next(std::size_t count) {
    const auto begin = leaves_.begin() + static_cast<std::ptrdiff_t>(begin_);
    begin_ += count;
    return {begin, begin + static_cast<std::ptrdiff_t>(count)};
  }

 private:
  const Leaves& leaves_;
  std::size_t begin_ = 0;
};

// A function of the library that calls others of the user's.
struct Solver {
  std::string_view name;
  SourceLocation where;

  // What `call` gives, the user's function that `what` says: so many arrays, and perhaps more.
  TracedResult called(std::string_view what, std::size_t count, const std::function<TracedResult()>& call) const {
    TracedResult made = [&] {
      const Caller::Pause pause;
      return call();
    }();
    const Caller caller(name, where);
    check_values(made.leaves, made.tree, "result");
    if (made.leaves.size() < count) {
      throw misuse<TypeMismatch>("what {} returns must have the structure of its argument, got {} arrays for {}", what,
                                 made.leaves.size(), count);
    }
    return made;
  }
};

// How function(values) changes; empty if none of the values does.
Leaves change_of(const LeafFunction& function, const Leaves& values, const Leaves& tangents) {
  Leaves changing;
  Leaves changes;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (is_empty(tangents[i])) continue;
    changing.push_back(values[i]);
    changes.push_back(tangents[i]);
  }
  if (changing.empty()) return {};
  const TracedFunction of_changing = [&](const Leaves& leaves) {
    Leaves all = values;
    std::size_t next = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!is_empty(tangents[i])) all[i] = leaves[next++];
    }
    return flat_result<Leaves>(function(all));
  };
  return call_jvp(arguments_of(changing), arguments_of(changes), of_changing, Caller::line()).gradients;
}

// A function of leaves with a derivative of the first leaves of its result.
struct Solved {
  Solver by;
  LeafFunction function;
  std::any exemplar;
  // From the arguments, their tangents and the solution to the tangents of that, which are empty where they are zero.
  std::function<Leaves(const Leaves& arguments, const Leaves& tangents, const Leaves& solution)> tangents_of;
  std::size_t num_solution = 0;
};

Leaves call_solved(const std::shared_ptr<const Solved>& solved, const Leaves& arguments) {
  const auto function = [solved](const Leaves& leaves) {
    TracedResult made = flat_result<Leaves>(solved->function(leaves));
    made.exemplar = solved->exemplar;
    return made;
  };
  const auto rule = [solved](const Leaves& primals, const Leaves& tangents) {
    const Caller caller(solved->by.name, solved->by.where);
    const Leaves result = call_solved(solved, primals);
    Leaves changes = solved->tangents_of(primals, tangents, Parts(result).next(solved->num_solution));
    changes.resize(result.size());
    TracedResult made = flat_result<Leaves>(result);
    made.exemplar = solved->exemplar;
    return RuleResult{.result = std::move(made), .tangents = std::move(changes)};
  };
  std::any exemplar;
  return call_custom_jvp(arguments_of(arguments), function, rule, exemplar, solved->by.where);
}

// ---- Linear equations.

struct Equation {
  std::function<Leaves(const Leaves& x, const Leaves& matrix)> function;
  std::optional<Closure> solve;  // Of the right side and `matrix`.
};

// The solution for the right side b, where `matrix` is what the function uses, `own` what the solver does beside, and
// `other` what that of the transposed equation does. Without that there is none.
Leaves solution_of(const Solver& solver, const Equation& equation, const Equation& transposed, const Leaves& matrix,
                   const Leaves& own, const Leaves& other, const Leaves& b) {
  const std::size_t counts[] = {matrix.size(), own.size(), other.size(), b.size()};
  auto solved = std::make_shared<Solved>();
  solved->by = solver;
  solved->num_solution = b.size();
  solved->exemplar = equation.solve->exemplar();
  solved->function = [=](const Leaves& arguments) {
    Parts parts(arguments);
    const Leaves of_matrix = parts.next(counts[0]);
    const Leaves of_own = parts.next(counts[1]);
    parts.next(counts[2]);
    return (*equation.solve)(joined(parts.next(counts[3]), of_matrix), of_own, Caller::line());
  };
  solved->tangents_of = [=](const Leaves& arguments, const Leaves& tangents, const Leaves& x) {
    Parts parts(arguments);
    const Leaves of_matrix = parts.next(counts[0]);
    const Leaves of_own = parts.next(counts[1]);
    const Leaves of_other = parts.next(counts[2]);
    Parts changes(tangents);
    const Leaves of_function = change_of([&](const Leaves& own_matrix) { return equation.function(x, own_matrix); },
                                         of_matrix, changes.next(counts[0]));
    changes.next(counts[1] + counts[2]);
    Leaves right = changes.next(counts[3]);
    if (of_function.empty() && std::all_of(right.begin(), right.end(), is_empty)) return right;
    for (std::size_t i = 0; i < right.size(); ++i) {
      if (of_function.empty()) continue;
      right[i] = is_empty(right[i]) ? -of_function[i] : right[i] - of_function[i];
    }
    right = detail::with_zeros(std::move(right), x);
    if (!transposed.solve) {
      const Leaves all = (*equation.solve)(joined(right, of_matrix), of_own, Caller::line());
      return Parts(all).next(x.size());
    }
    const std::size_t count = x.size();
    const auto in_turn = [=](const Equation& first, const Equation& second, bool is_transposed) {
      return [=](const Leaves& leaves) {
        Parts given(leaves);
        const Leaves of_right = given.next(count);
        const Leaves its_matrix = given.next(counts[0]);
        const Leaves its_own = given.next(counts[1]);
        const Leaves its_other = given.next(counts[2]);
        const Leaves all = is_transposed ? solution_of(solver, first, second, its_matrix, its_other, its_own, of_right)
                                         : solution_of(solver, first, second, its_matrix, its_own, its_other, of_right);
        return flat_result<Leaves>(Parts(all).next(count));
      };
    };
    std::any exemplar;
    return call_linear(arguments_of(right), arguments_of(joined(joined(of_matrix, of_own), of_other)),
                       in_turn(equation, transposed, false), in_turn(transposed, equation, true), exemplar,
                       Caller::line());
  };
  return call_solved(solved, joined(joined(joined(matrix, own), other), b));
}

// The solver as a function of leaves: the right side, then `matrix`. What it is given may outlive the call in the
// user's hands.
Closure closed_solver(const Solver& solver, const Solve& solve, const Equation& equation, const Leaves& b,
                      const Leaves& matrix) {
  const TracedFunction on_leaves = [&](const Leaves& leaves) {
    Parts parts(leaves);
    const Leaves right = parts.next(b.size());
    const Leaves own_matrix = parts.next(matrix.size());
    return solver.called("solve", b.size(), [&] {
      return solve([of = equation.function, own_matrix](const Leaves& x) { return of(x, own_matrix); }, right);
    });
  };
  return Closure(solver.name, arguments_of(joined(b, matrix)), on_leaves, solver.where);
}

}  // namespace

std::vector<Array> call_custom_root(const CallArguments& guess, const TracedFunction& function, const Solve& solve,
                                    const Solve& tangent_solve, std::any& exemplar, SourceLocation where) {
  const Caller caller("custom_root", where);
  const Solver solver{.name = "custom_root", .where = where};
  const Leaves& start = guess.leaves;
  check_values(start, guess.tree, "argument ");
  const TracedFunction checked = [&](const Leaves& leaves) {
    return solver.called("f", start.size(), [&] { return function(leaves); });
  };
  const Closure of_function("custom_root", guess, checked, where);
  const Leaves consts = of_function.consts();
  const TracedFunction solve_on_leaves = [&](const Leaves& leaves) {
    Parts parts(leaves);
    const Leaves x = parts.next(start.size());
    const Leaves own = parts.next(consts.size());
    return solver.called("solve", start.size(), [&] {
      return solve([of_function, own, where](const Leaves& y) { return of_function(y, own, where); }, x);
    });
  };
  const Closure of_solve("custom_root", arguments_of(joined(start, consts)), solve_on_leaves, where);
  const Leaves more = of_solve.consts();
  const std::size_t counts[] = {consts.size(), more.size(), start.size()};
  auto solved = std::make_shared<Solved>();
  solved->by = solver;
  solved->num_solution = start.size();
  solved->exemplar = of_solve.exemplar();
  solved->function = [=](const Leaves& arguments) {
    Parts parts(arguments);
    const Leaves own = parts.next(counts[0]);
    const Leaves its_more = parts.next(counts[1]);
    return of_solve(joined(parts.next(counts[2]), own), its_more, Caller::line());
  };
  solved->tangents_of = [=](const Leaves& arguments, const Leaves& tangents, const Leaves& root) {
    const Leaves own = Parts(arguments).next(counts[0]);
    const auto at_root = [&](const Leaves& others) { return of_function(root, others, Caller::line()); };
    const Leaves change = change_of(at_root, own, Parts(tangents).next(counts[0]));
    if (change.empty()) return Leaves(root.size());
    const auto of_x = [&](const Leaves& x) { return flat_result<Leaves>(of_function(x, own, Caller::line())); };
    const LinearMap derivative = call_linearize("custom_root", arguments_of(root), of_x, Caller::line()).second;
    const auto push = [derivative, where](const Leaves& x) { return derivative.push_forward(x, where); };
    Leaves made = solver.called("tangent_solve", root.size(), [&] { return tangent_solve(push, change); }).leaves;
    for (Array& one : made) one = -one;
    return made;
  };
  exemplar = solved->exemplar;
  return call_solved(solved, joined(joined(consts, more), start));
}

std::vector<Array> call_custom_linear_solve(const CallArguments& b, const TracedFunction& matvec,
                                            const LinearSolve& options, std::any& exemplar, SourceLocation where) {
  const Caller caller("custom_linear_solve", where);
  const Solver solver{.name = "custom_linear_solve", .where = where};
  const Leaves& right = b.leaves;
  check_values(right, b.tree, "argument ");
  const TracedFunction checked = [&](const Leaves& leaves) {
    TracedResult made = solver.called("matvec", right.size(), [&] { return matvec(leaves); });
    const Caller again(solver.name, where);
    for (std::size_t i = 0; i < right.size(); ++i) {
      const Type& type = impl_of(right[i]).type;
      const Type& given = impl_of(made.leaves[i]).type;
      if (given.dtype == type.dtype && given.shape == type.shape) continue;
      throw misuse<TypeMismatch>("what matvec returns must have the types of b, got {} for {}", user_string(given),
                                 user_string(type));
    }
    return made;
  };
  const Closure closure("custom_linear_solve", b, checked, where);
  const Leaves matrix = closure.consts();
  Equation equation{.function = [closure](const Leaves& x, const Leaves& of) { return closure(x, of, Caller::line()); },
                    .solve = {}};
  equation.solve = closed_solver(solver, options.solve, equation, right, matrix);
  exemplar = equation.solve->exemplar();
  const Leaves own = equation.solve->consts();
  if (!options.transpose_solve && !options.symmetric) return solution_of(solver, equation, {}, matrix, own, {}, right);
  Equation transposed{.function = equation.function, .solve = {}};
  if (!options.symmetric) {
    transposed.function = [closure](const Leaves& x, const Leaves& of) {
      const auto forward = [&](const Leaves& y) { return flat_result<Leaves>(closure(y, of, Caller::line())); };
      return call_linear_transpose(arguments_of(x), forward, Caller::line()).second.pull_back(x, Caller::line());
    };
  }
  transposed.solve = closed_solver(solver, options.transpose_solve ? options.transpose_solve : options.solve,
                                   transposed, right, matrix);
  return solution_of(solver, equation, transposed, matrix, own, transposed.solve->consts(), right);
}

}  // namespace shoal::detail
