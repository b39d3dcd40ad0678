#include "shoal/sparse_linalg.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "base/caller.h"
#include "base/misuse.h"
#include "core/float_format.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/promotion.h"
#include "shoal/control_flow.h"
#include "shoal/lax.h"
#include "shoal/linalg.h"
#include "shoal/numpy.h"

namespace shoal::detail {
namespace {

using Leaves = std::vector<Array>;

// ---- Vectors that are trees.

// x + a y, where a is an array or number.
template <class A>
Leaves plus(const Leaves& x, const A& a, const Leaves& y) {
  Leaves sums;
  for (std::size_t i = 0; i < x.size(); ++i) sums.push_back(x[i] + a * y[i]);
  return sums;
}
template <class A>
Leaves minus(const Leaves& x, const A& a, const Leaves& y) {
  Leaves differences;
  for (std::size_t i = 0; i < x.size(); ++i) differences.push_back(x[i] - a * y[i]);
  return differences;
}
Leaves minus(const Leaves& x, const Leaves& y) {
  Leaves differences;
  for (std::size_t i = 0; i < x.size(); ++i) differences.push_back(x[i] - y[i]);
  return differences;
}
Leaves chosen(const Array& condition, const Leaves& x, const Leaves& y) {
  Leaves all;
  for (std::size_t i = 0; i < x.size(); ++i) all.push_back(shoal::where(condition, x[i], y[i]));
  return all;
}

// The sum over all leaves of what `of` gives for each.
template <class F>
Array total(const Leaves& x, const Leaves& y, F&& of) {
  Array all = of(x[0], y[0]);
  for (std::size_t i = 1; i < x.size(); ++i) all = all + of(x[i], y[i]);
  return all;
}
// The products are of elements that lie on one device, which adds its own: a sum over devices is all that is exchanged.
Array inner_product(const Leaves& x, const Leaves& y) {
  return total(x, y, [](const Array& a, const Array& b) { return sum(conj(a) * b); });
}
// Its real part.
Array real_product(const Leaves& x, const Leaves& y) {
  return total(x, y, [](const Array& a, const Array& b) {
    if (!is_complex(a.dtype()) || !is_complex(b.dtype())) return sum(real(a) * real(b));
    return sum(real(a) * real(b) + imag(a) * imag(b));
  });
}
Array squared(const Leaves& x) { return real_product(x, x); }
Array length(const Leaves& x) { return sqrt(squared(x)); }

// The dtype of numbers that these are multiplied by.
Dtype dtype_of_all(const Leaves& leaves) {
  DtypeAndWeakness all = element_of(leaves[0]);
  for (const Array& leaf : leaves) all = promote_types(all, element_of(leaf));
  return all.dtype;
}

// ---- The arguments.

struct Problem {
  LeafFunction A;
  LeafFunction M;  // May be empty.
  Leaves b;
  Leaves x0;
  std::int64_t size = 0;
  Operand maxiter = 0;

  Leaves preconditioned(const Leaves& x) const { return M ? M(x) : x; }
};

// The function of the user, or of the matrix.
LeafFunction function_of(const LeafOperator& map, char name, std::size_t num_leaves) {
  if (!map.matrix) {
    return [f = map.function](const Leaves& leaves) {
      const Caller::Pause pause;
      return f(leaves);
    };
  }
  const Type& type = impl_of(*map.matrix).type;
  if (type.rank() != 2 || type.shape[0] != type.shape[1]) {
    throw misuse<InvalidArgument>("{} is {}, and should be a square matrix or a function", name, user_string(type));
  }
  if (num_leaves != 1) {
    throw misuse<InvalidArgument>("{} is a matrix, and b a tree of {} arrays; give a function of such trees", name,
                                  num_leaves);
  }
  return [matrix = *map.matrix](const Leaves& leaves) { return Leaves{dot(matrix, leaves[0])}; };
}

Problem problem_of(const Iteration& given) {
  Problem made;
  made.b = given.b.leaves;
  check_values(made.b, given.b.tree, "argument ");
  if (made.b.empty()) throw misuse<InvalidArgument>("b has no arrays");
  for (const Array& one : made.b) {
    const Type& type = impl_of(one).type;
    made.size += one.size();
    if (is_floating(type.dtype) || is_complex(type.dtype)) continue;
    throw misuse<TypeMismatch>("b is {}, and should be of floats or complex numbers", user_string(type));
  }
  if (given.x0) {
    made.x0 = given.x0->leaves;
    check_values(made.x0, given.x0->tree, "x0");
    if (!(given.x0->tree == given.b.tree)) {
      throw misuse<InvalidArgument>("x0 is {}, and should have the structure of b, {}", to_string(given.x0->tree),
                                    to_string(given.b.tree));
    }
    for (std::size_t i = 0; i < made.b.size(); ++i) {
      const Type& type = impl_of(made.b[i]).type;
      if (made.x0[i].shape() != type.shape) {
        throw misuse<InvalidArgument>("x0 is {}, and should have the shape of b, {}",
                                      user_string(impl_of(made.x0[i]).type), user_string(type));
      }
      made.x0[i] = convert(made.x0[i], type.dtype);
    }
  } else {
    for (const Array& one : made.b) made.x0.push_back(shoal::zeros_like(one));
  }
  made.A = function_of(given.A, 'A', made.b.size());
  if (given.M) made.M = function_of(*given.M, 'M', made.b.size());
  made.maxiter = given.maxiter ? *given.maxiter : Operand(10 * made.size);
  return made;
}

// What the square of the length of b - A x has to come down to.
Array squared_tolerance(const Iteration& given, const Leaves& b) {
  return maximum(square(given.tol) * squared(b), square(given.atol));
}

TracedResult result_of(Leaves leaves) {
  TracedResult made;
  made.leaves = tree::flatten(leaves, &made.tree);
  return made;
}

// The solution by solve(A, b), and by itself for the transpose.
Leaves solved_by(const Problem& problem, bool is_symmetric,
                 const std::function<Leaves(const LeafFunction& A, const Leaves& b)>& solve) {
  const auto on_leaves = [solve](const LeafFunction& A, const Leaves& b) { return result_of(solve(A, b)); };
  const auto matvec = [&](const Leaves& x) { return result_of(problem.A(x)); };
  const LinearSolve solvers{.solve = on_leaves, .transpose_solve = on_leaves, .symmetric = is_symmetric};
  std::any exemplar;
  return call_custom_linear_solve(flatten_arguments(std::tuple<Leaves>(problem.b)), matvec, solvers, exemplar,
                                  Caller::line());
}

// ---- Generalized minimal residuals. The vectors of a space are stacked along a first dimension.

// The vector of length 1 in the direction of x, and the length of x; zeros if that is not greater than `least`.
std::pair<Leaves, Array> normalized(const Leaves& x, const Operand& least) {
  const Array norm = length(x);
  const Array is_enough = norm > least;
  Leaves unit;
  for (const Array& one : x) unit.push_back(shoal::where(is_enough, one / norm.astype(one.dtype()), 0));
  return {unit, shoal::where(is_enough, norm, 0)};
}
std::pair<Leaves, Array> normalized(const Leaves& x) { return normalized(x, format_of(length(x).dtype()).epsilon); }

Dims dims_of(const Array& x, std::int64_t first) {
  Dims dims;
  for (std::size_t i = 0; i < x.ndim(); ++i) dims.push_back(first + static_cast<std::int64_t>(i));
  return dims;
}
// The products of the vectors of a space with x.
Array overlaps(const Leaves& space, const Leaves& x) {
  return total(space, x,
               [](const Array& V, const Array& y) { return tensordot(conj(V), y, dims_of(y, 1), dims_of(y, 0)); });
}
// The sum of the vectors of a space, of which only the first ones have factors.
Leaves combination(const Array& factors, const Leaves& space) {
  Leaves sums;
  for (const Array& V : space) {
    const Array first = lax::slice_in_dim(V, 0, factors.shape()[0]);
    sums.push_back(tensordot(factors.astype(V.dtype()), first, 1));
  }
  return sums;
}

// The space that the residual spans, with room for more.
Leaves space_of(const Leaves& unit_residual, std::int64_t restart) {
  Leaves space;
  for (const Array& x : unit_residual) {
    std::vector<lax::PaddingConfig> padding(x.ndim() + 1);
    padding[0].high = restart;
    space.push_back(lax::pad(expand_dims(x, 0), zeros({}, {.dtype = x.dtype()}), padding));
  }
  return space;
}

// What M A makes of vector k becomes vector k + 1, orthogonal to those before, and row k of H what it is made of.
struct Arnoldi {
  Leaves V;
  Array H;
  Array breakdown;  // There is nothing new in it.
};
Arnoldi arnoldi_step(const Problem& problem, const LeafFunction& A, const Leaves& V, const Array& H, const Array& k) {
  Leaves last;
  for (const Array& one : V) last.push_back(lax::dynamic_index_in_dim(one, k, 0, false));
  const Leaves v = problem.preconditioned(A(last));
  const Array norm = length(v);
  const Array h = overlaps(V, v);
  const Leaves rest = minus(v, combination(h, V));
  // Where little is left, roundings are a part of it, and it is made orthogonal again: twice is enough (Giraud, Langou
  // and Rozloznik, "On the loss of orthogonality in the Gram-Schmidt orthogonalization process", 2005).
  using Projected = std::pair<Array, Leaves>;
  const Projected projected = lax::cond(
      length(rest) < 0.7071 * norm,
      [&](const Projected& once) {
        const Array more = overlaps(V, once.second);
        return Projected(once.first + more, minus(once.second, combination(more, V)));
      },
      [](const Projected& once) { return once; }, Projected(h, rest));
  const auto [unit, left] = normalized(projected.second, format_of(norm.dtype()).epsilon * norm);
  Arnoldi made;
  for (std::size_t i = 0; i < V.size(); ++i) {
    made.V.push_back(lax::dynamic_update_index_in_dim(V[i], unit[i], k + 1, 0));
  }
  const Array row = projected.first.astype(H.dtype());
  made.H = lax::dynamic_update_index_in_dim(H, lax::dynamic_update_index_in_dim(row, left.astype(H.dtype()), k + 1, 0),
                                            k, 0);
  made.breakdown = left == 0;
  return made;
}

struct Residual {
  Leaves x;
  Leaves unit;
  Array norm;
};
Residual residual_at(const Problem& problem, const LeafFunction& A, const Leaves& b, Leaves x) {
  auto [unit, norm] = normalized(problem.preconditioned(minus(b, A(x))));
  return {.x = std::move(x), .unit = std::move(unit), .norm = std::move(norm)};
}

// The best x in the space that begins with a residual: all of it is made, and then searched.
Leaves batched_step(const Problem& problem, const LeafFunction& A, const Residual& at, std::int64_t restart) {
  using State = std::tuple<Leaves, Array, Array, Array>;  // V, H, whether there is nothing new, k
  const Dtype dtype = dtype_of_all(at.unit);
  // Ones where the space ends before its time, so that the factors of what is not there are zero.
  const State init(space_of(at.unit, restart), eye(restart, {.m = restart + 1, .dtype = dtype}), Array(false),
                   Array(0));
  const State made =
      lax::while_loop([&](const State& state) { return (std::get<3>(state) < restart) & ~std::get<2>(state); },
                      [&](const State& state) {
                        const auto& [V, H, breakdown, k] = state;
                        Arnoldi next = arnoldi_step(problem, A, V, H, k);
                        return State(std::move(next.V), std::move(next.H), std::move(next.breakdown), k + 1);
                      },
                      init);
  // The factors y with the least |beta e - H' y|.
  const auto [Q, R] = lax::linalg::qr(transpose(std::get<1>(made)), false);
  const Array wanted = conj(Q[0]) * at.norm.astype(dtype);
  return plus(at.x, 1, combination(linalg::solve_triangular(R, wanted), std::get<0>(made)));
}

// ---- Rotations, by which a row of H becomes one of a triangular matrix.

Array element(const Array& x, const Array& k) { return lax::dynamic_index_in_dim(x, k, 0, false); }
Array with_element(const Array& x, const Array& value, const Array& k) {
  return lax::dynamic_update_index_in_dim(x, value, k, 0);
}
// Elements k and k + 1 turned by a cosine and a sine.
Array rotated(const Array& x, const Array& k, const Array& rotation) {
  const Array c = rotation[0];
  const Array s = rotation[1];
  const Array a = element(x, k);
  const Array b = element(x, k + 1);
  return with_element(with_element(x, conj(c) * a - conj(s) * b, k), s * a + c * b, k + 1);
}
// The one that makes the second of two numbers zero.
Array rotation_of(const Array& a, const Array& b) {
  const Array is_less = abs(a) < abs(b);
  const Array t = -(shoal::where(is_less, a, b) / shoal::where(is_less, b, a));
  const Array r = rsqrt(1 + square(abs(t))).astype(t.dtype());
  const Array is_zero = abs(b) == 0;
  return stack({shoal::where(is_zero, 1, shoal::where(is_less, r * t, r)),
                shoal::where(is_zero, 0, shoal::where(is_less, r, r * t))});
}

// The same as batched_step, which ends where the length of the residual is `enough`.
Leaves incremental_step(const Problem& problem, const LeafFunction& A, const Residual& at, std::int64_t restart,
                        const Array& enough) {
  using State = std::tuple<Array, Array, Leaves, Array, Array, Array>;  // k, length, V, R, beta, rotations
  const Dtype dtype = dtype_of_all(at.unit);
  const State init(Array(0), at.norm, space_of(at.unit, restart), eye(restart, {.m = restart + 1, .dtype = dtype}),
                   with_element(zeros({restart + 1}, {.dtype = dtype}), at.norm.astype(dtype), Array(0)),
                   zeros({restart, 2}, {.dtype = dtype}));
  const State made = lax::while_loop(
      [&](const State& state) { return (std::get<0>(state) < restart) & (std::get<1>(state) > enough); },
      [&](const State& state) {
        const auto& [k, norm, V, R, beta, rotations] = state;
        const Arnoldi next = arnoldi_step(problem, A, V, R, k);
        Array row = lax::fori_loop(
            0, k, [&](const Array& i, const Array& x) { return rotated(x, i, element(rotations, i)); },
            element(next.H, k));
        const Array rotation = rotation_of(element(row, k), element(row, k + 1));
        row = rotated(row, k, rotation);
        const Array turned = rotated(beta, k, rotation);
        return State(k + 1, abs(element(turned, k + 1)), next.V, with_element(next.H, row, k), turned,
                     with_element(rotations, rotation, k));
      },
      init);
  const Array R = lax::slice_in_dim(std::get<3>(made), 0, restart, 1, 1);
  const Array y = linalg::solve_triangular(transpose(R), lax::slice_in_dim(std::get<4>(made), 0, restart));
  return plus(at.x, 1, combination(y, std::get<2>(made)));
}

}  // namespace

std::vector<Array> call_cg(const Iteration& iteration, SourceLocation where) {
  const Caller caller("cg", where);
  const Problem problem = problem_of(iteration);
  const auto solve = [=](const LeafFunction& A, const Leaves& b) {
    using State = std::tuple<Leaves, Leaves, Array, Leaves, Array>;  // x, residual, its product with z, direction, k
    const Array enough = squared_tolerance(iteration, b);
    const Leaves r0 = minus(b, A(problem.x0));
    const Leaves z0 = problem.preconditioned(r0);
    const Dtype dtype = dtype_of_all(z0);
    const auto product = [&](const Leaves& r, const Leaves& z) { return real_product(r, z).astype(dtype); };
    const State made = lax::while_loop(
        [&](const State& state) {
          const Array rest = problem.M ? squared(std::get<1>(state)) : real(std::get<2>(state));
          return (rest > enough) & (std::get<4>(state) < problem.maxiter);
        },
        [&](const State& state) {
          const auto& [x, r, gamma, p, k] = state;
          const Leaves Ap = A(p);
          const Array alpha = gamma / product(p, Ap);
          const Leaves rest = minus(r, alpha, Ap);
          const Leaves z = problem.preconditioned(rest);
          const Array next = product(rest, z);
          return State(plus(x, alpha, p), rest, next, plus(z, next / gamma, p), k + 1);
        },
        State(problem.x0, r0, product(r0, z0), z0, Array(0)));
    return std::get<0>(made);
  };
  // A real matrix that is Hermitian is its own transpose.
  const bool is_real =
      std::none_of(problem.b.begin(), problem.b.end(), [](const Array& one) { return is_complex(one.dtype()); });
  return solved_by(problem, is_real, solve);
}

std::vector<Array> call_bicgstab(const Iteration& iteration, SourceLocation where) {
  const Caller caller("bicgstab", where);
  const Problem problem = problem_of(iteration);
  const auto solve = [=](const LeafFunction& A, const Leaves& b) {
    // x, residual, alpha, omega, rho, p, q, k
    using State = std::tuple<Leaves, Leaves, Array, Array, Array, Leaves, Leaves, Array>;
    const Array enough = squared_tolerance(iteration, b);
    const Leaves shadow = minus(b, A(problem.x0));
    const Array one = ones({}, {.dtype = dtype_of_all(b)});
    const State made = lax::while_loop(
        [&](const State& state) {
          const Array& k = std::get<7>(state);
          return (squared(std::get<1>(state)) > enough) & (k < problem.maxiter) & (k >= 0);
        },
        [&](const State& state) {
          const auto& [x, r, alpha, omega, rho, p, q, k] = state;
          const Array next_rho = inner_product(shadow, r);
          const Array beta = next_rho / rho * alpha / omega;
          const Leaves next_p = plus(r, beta, minus(p, omega, q));
          const Leaves p_hat = problem.preconditioned(next_p);
          const Leaves next_q = A(p_hat);
          const Array next_alpha = next_rho / inner_product(shadow, next_q);
          const Leaves s = minus(r, next_alpha, next_q);
          const Array is_enough = squared(s) < enough;
          const Leaves s_hat = problem.preconditioned(s);
          const Leaves t = A(s_hat);
          const Array next_omega = inner_product(t, s) / inner_product(t, t);
          const Leaves half = plus(x, next_alpha, p_hat);
          // Less than 0 where it cannot go on.
          const Array next_k = shoal::where((next_omega == 0) | (next_alpha == 0) | (next_rho == 0), -11, k + 1);
          return State(chosen(is_enough, half, plus(half, next_omega, s_hat)),
                       chosen(is_enough, s, minus(s, next_omega, t)), next_alpha, next_omega, next_rho, next_p, next_q,
                       next_k);
        },
        State(problem.x0, shadow, one, one, one, shadow, shadow, Array(0)));
    return std::get<0>(made);
  };
  return solved_by(problem, false, solve);
}

std::pair<std::vector<Array>, Array> call_gmres(const Iteration& iteration, std::int64_t restart,
                                                linalg::GmresMethod method, SourceLocation where) {
  const Caller caller("gmres", where);
  const Problem problem = problem_of(iteration);
  if (restart < 1) throw misuse<InvalidArgument>("restart is {}, and should be at least 1", restart);
  const std::int64_t dimension = std::min(restart, problem.size);
  const Array norm = length(problem.b);
  const Array enough = maximum(iteration.tol * norm, iteration.atol);
  // The same of what M makes of the residual.
  const Array enough_within = length(problem.preconditioned(problem.b)) * minimum(1, enough / norm);
  const auto solve = [=](const LeafFunction& A, const Leaves& b) {
    using State = std::tuple<Leaves, Leaves, Array, Array>;  // x, residual, its length, k
    const Residual first = residual_at(problem, A, b, problem.x0);
    const State made = lax::while_loop(
        [&](const State& state) { return (std::get<3>(state) < problem.maxiter) & (std::get<2>(state) > enough); },
        [&](const State& state) {
          const Residual at{.x = std::get<0>(state), .unit = std::get<1>(state), .norm = std::get<2>(state)};
          const Residual next = residual_at(problem, A, b,
                                            method == linalg::GmresMethod::kBatched
                                                ? batched_step(problem, A, at, dimension)
                                                : incremental_step(problem, A, at, dimension, enough_within));
          return State(next.x, next.unit, next.norm, std::get<3>(state) + 1);
        },
        State(first.x, first.unit, first.norm, Array(0)));
    return std::get<0>(made);
  };
  Leaves x = solved_by(problem, false, solve);
  Array info = shoal::where(isfinite(length(x)), 0, -1);
  return {std::move(x), std::move(info)};
}

}  // namespace shoal::detail
