"""The least value of a function."""

from typing import NamedTuple

from shoal import _core
from shoal._core import lax as _lax
from shoal._misuse import misuse as _misuse


class OptimizeResults(NamedTuple):
    """What minimize finds: x, whether the gradient is small there (`success`, `status` 0; 1 if maxiter is reached, 3
    and 5 if a search along a line failed), the value, the gradient, what is known of the inverse of the Hessian, and
    how often the function, its gradient and a step were computed."""

    x: _core.Array
    success: _core.Array
    status: _core.Array
    fun: _core.Array
    jac: _core.Array
    hess_inv: _core.Array
    nfev: _core.Array
    njev: _core.Array
    nit: _core.Array


def minimize(fun, x0, args=(), *, method, tol=None, options=None):
    """The x near the vector x0 where fun(x, *args), a real scalar, is least, by the `method` "BFGS". `options` may have
    maxiter, norm and gtol (the gradient's norm at which it ends) and line_search_maxiter; `tol` is accepted, and means
    nothing, as in JAX.

    Args:
      fun: The function, of a vector and of args, which gives a scalar.
      x0: Where it begins.
      args: What fun is called with, too.
      method: "BFGS".
      tol: The gradient's norm at which it ends.
      options: maxiter, norm, gtol and line_search_maxiter.
    """
    if not isinstance(args, tuple):
        raise _misuse(TypeError, f"args argument to minimize must be a tuple, got {args}")
    if method.lower() != "bfgs":
        raise _misuse(ValueError, f"Method {method} not recognized")
    names = ("maxiter", "norm", "gtol", "line_search_maxiter")
    unknown = set(options or ()) - set(names)
    if unknown:
        raise _misuse(TypeError, f"minimize: options has {sorted(unknown)}, and may have {', '.join(names)}")
    given = tuple((options or {}).get(name) for name in names)
    return OptimizeResults(*_lax._minimize(lambda x: fun(x, *args), x0, given))
