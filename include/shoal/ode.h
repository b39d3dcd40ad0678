// Ordinary differential equations: ode::odeint.
//
// It goes in jit, vmap and over devices: states stay as they are split, and what devices exchange is the lengths of
// errors and what the function itself needs.
#pragma once

#include <limits>
#include <type_traits>
#include <vector>

#include "shoal/array.h"
#include "shoal/callable.h"
#include "shoal/custom_derivatives.h"
#include "shoal/tree.h"

namespace shoal::ode {

struct OdeintOptions {
  double rtol = 1.4e-8;  ///< A step may err by atol + rtol times the state, of which the mean square is taken.
  double atol = 1.4e-8;  ///< The error that is always allowed.
  /// The greatest number of steps from one time to the next; after that the last step is continued.
  double mxstep = std::numeric_limits<double>::infinity();
  double hmax = std::numeric_limits<double>::infinity();  ///< The longest step.
};

}  // namespace shoal::ode

namespace shoal::detail {

/// The function takes the leaves of a state and a time.
std::vector<Array> call_odeint(const TracedFunction& function, const CallArguments& y0, const Operand& t,
                               const ode::OdeintOptions& options, SourceLocation where);

}  // namespace shoal::detail

namespace shoal::ode {

/// The solution of dy/dt = func(y, t) that is y0 at time t[0], at all times `t`, a vector of floats that increase: a
/// tree like y0, each array with a first dimension for the times. y0 is a tree of arrays of floats or complex numbers,
/// of any shapes; func gets one like it and a scalar of t's dtype, is traced once, and returns a tree of the types of
/// y0. Throws TypeMismatch if y0, t or what func returns have other dtypes, ShapeMismatch if that has other shapes, and
/// InvalidArgument if t is no vector of at least one time or an option is negative. Where func is not finite the
/// solution ends: it is NaN at the times that come after.
///
/// Steps are of order 5, with lengths by the difference to order 4: Dormand and Prince, "A family of embedded
/// Runge-Kutta formulae", 1980. Between them goes the quartic of Shampine, "Some practical Runge-Kutta formulas", 1986.
/// The first length is that of Hairer, Nørsett and Wanner, "Solving Ordinary Differential Equations I", II.4.
/// Derivatives, by y0, t and all that func uses, are in reverse alone, and solve the adjoint equation backwards: Chen,
/// Rubanova, Bettencourt and Duvenaud, "Neural ordinary differential equations", 2018, appendix C.
/// @param func The derivative by the time.
/// @param y0 The first state.
/// @param t The times.
template <class F, class Y>
detail::ArgumentOf<Y> odeint(F func, const Y& y0, const Operand& t, const OdeintOptions& options = {},
                             SourceLocation where = SourceLocation::current()) {
  using State = detail::ArgumentOf<Y>;
  static_assert(std::is_same_v<std::decay_t<std::invoke_result_t<F&, const State&, const Array&>>, State>,
                "func returns a tree like the state that it gets");
  const State start = detail::keep(y0);
  const auto on_leaves = detail::on_leaves<State>(func, std::tuple<State, Array>(start, Array()));
  return detail::with_leaves(
      start, detail::call_odeint(on_leaves, detail::flatten_arguments(std::tuple<State>(start)), t, options, where));
}

}  // namespace shoal::ode
