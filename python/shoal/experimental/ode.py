"""Ordinary differential equations."""

from shoal import _core
from shoal._core import lax as _lax
from shoal._implicit import _Unknown
from shoal._misuse import misuse as _misuse


def odeint(func, y0, t, *args, rtol=1.4e-8, atol=1.4e-8, mxstep=float("inf"), hmax=float("inf")):
    """The solution of dy/dt = func(y, t, *args) that is y0 at time t[0], at all times `t`, a vector of floats that
    increase: a tree like y0, each array with a first dimension for the times. y0 is a tree of arrays of floats or complex
    numbers; func returns a tree of the same types. `args` are trees of arrays.

    A step may err by atol + rtol times the state, of which the mean square is taken; `hmax` is the longest step, and
    `mxstep` the greatest number of them from one time to the next, after which the last one is continued. Where func is not finite the solution ends: it is NaN at the times that come after. Derivatives, by
    y0, t, args and what else func uses, are in reverse alone, and solve the adjoint equation backwards.

    TypeError if y0, t or what func returns have other dtypes, ValueError if t is no vector, shapes differ, or an option is
    negative.

    Dormand and Prince, "A family of embedded Runge-Kutta formulae", 1980, with the errors and the quartic between steps of
    Shampine, "Some practical Runge-Kutta formulas", 1986; Chen, Rubanova, Bettencourt and Duvenaud, "Neural ordinary
    differential equations", 2018, appendix C.

    Args:
      func: The function (y, t, *args) that gives the derivative.
      y0: The first state: a tree of arrays.
      t: The times, a vector that increases.
      args: What func is called with, too.
      rtol: The error that is allowed in a step, in parts of the state.
      atol: The error that is always allowed.
      mxstep: The greatest number of steps from one time to the next.
      hmax: The longest step.
    """
    import shoal.numpy as jnp

    state = _Unknown("odeint", y0)
    args = _core.tree_map(_argument, args)

    def on_lists(leaves):
        return state._leaves("func", func(state.tree.unflatten(leaves[:-1]), leaves[-1], *args))

    options = [float(one) for one in (rtol, atol, mxstep, hmax)]
    return state.result(_lax._odeint(on_lists, state.leaves, jnp.asarray(t), *options))


def _argument(leaf):
    import shoal.numpy as jnp

    try:
        return jnp.asarray(leaf)
    except TypeError:
        raise _misuse(TypeError, f"The contents of odeint *args must be arrays or scalars, but got {leaf}.") from None
