"""Derivatives against finite differences, for tests of programs: check_grads, check_jvp and check_vjp.

Each looks along one random direction, the same in every run: the derivative along it is the central difference
(f(x + eps t) - f(x - eps t)) / (2 eps), and a vector-Jacobian product is compared by its inner product with the direction.
"""

import functools

import numpy as np

from shoal import _core
from shoal._derivatives import jvp, linearize, vjp

# Steps for which what differences of second order neglect is about what rounding adds.
_STEPS = {"bfloat16": 1e-1, "float16": 3e-2, "float32": 1e-3, "float64": 1e-5, "complex64": 1e-3, "complex128": 1e-5}

# By how much numbers that are equal but for rounding may differ, and derivatives that differences approximate.
_ROUNDING = {"bfloat16": 1e-2, "float16": 1e-3, "float32": 1e-6, "float64": 1e-15, "complex64": 1e-6, "complex128": 1e-15}
_DIFFERENCES = {"bfloat16": 1e-1, "float16": 1e-2, "float32": 2e-3, "float64": 1e-5, "complex64": 1e-3, "complex128": 1e-5}


def _is_number(x):
    return isinstance(x, (bool, int, float, complex)) and not isinstance(x, np.generic)


def _dtype(x):
    return _core._dtype_object(_core._dtype_name(type(x))) if _is_number(x) else np.dtype(x.dtype)


def _computed(dtype):
    """The name of the dtype that arrays have for this one: while 64-bit types are off, its half."""
    return dtype.name if dtype.names else _core._dtype_name(dtype)


def _is_exact(dtype):
    return dtype.kind in "biu" or dtype.names is not None  # float0 is a struct.


def _tolerance(dtype, tolerance):
    """The tolerance for a dtype: a number for all, or a dict by dtype that goes before the usual ones."""
    if tolerance is not None and not isinstance(tolerance, dict):
        return tolerance
    given = {_core._dtype_name(key): value for key, value in (tolerance or {}).items()}
    name = _computed(dtype)
    return given.get(name, _DIFFERENCES.get(name, 0))


def _leafwise(function):
    """The function of NumPy on the leaves of trees, which keep dtypes and stay Python's numbers where they are such."""

    def leaf(x, *more):
        value = np.asarray(function(np.asarray(x), *map(np.asarray, more)), dtype=_dtype(x))
        return value.item() if _is_number(x) else value

    return functools.partial(_core.tree_map, leaf)


def _difference(x, y):
    with np.errstate(invalid="ignore"):
        return np.where(x == y, np.zeros((), x.dtype), x - y)  # Infinities of one sign do not differ.


def _direction(random):
    def one(x):
        dtype = _dtype(x)
        if _is_exact(dtype):
            raise TypeError(f"derivatives are checked of floating-point arguments, got {dtype.name}")
        value = random.standard_normal(np.shape(x))
        if dtype.kind == "c":
            value = value + 1j * random.standard_normal(np.shape(x))
        value = np.asarray(value).astype(dtype)
        return value.item() if _is_number(x) else value

    return functools.partial(_core.tree_map, one)


def _numerical_jvp(f, primals, tangents, eps):
    if eps is None:
        eps = max((_STEPS.get(_computed(_dtype(x)), 0) for x in _core.tree_leaves(primals)), default=1)
    step = _leafwise(lambda t: np.multiply(t, np.array(eps, t.dtype), dtype=t.dtype))(tangents)
    ahead = f(*_leafwise(np.add)(primals, step))
    behind = f(*_leafwise(np.subtract)(primals, step))
    return _leafwise(lambda x, y: _difference(x, y) * np.array(0.5 / eps, x.dtype))(ahead, behind)


def _inner_product(xs, ys):
    products = _core.tree_map(lambda x, y: np.real(np.sum(np.conj(np.asarray(x)) * np.asarray(y))), xs, ys)
    return np.asarray(sum(_core.tree_leaves(products)))


def _check_close(xs, ys, atol, rtol, what):
    def compare(x, y):
        x, y = np.asarray(x), np.asarray(y)
        if x.shape != y.shape:
            raise AssertionError(f"{what}: the shapes {x.shape} and {y.shape} differ")
        if _is_exact(x.dtype):
            return
        wide = [v.astype(np.float32) if v.dtype.name in ("bfloat16", "float16") else v for v in (x, y)]
        a, r = (max(_tolerance(v.dtype, t) for v in (x, y)) * x.size for t in (atol, rtol))
        with np.errstate(invalid="ignore"):
            np.testing.assert_allclose(*wide, atol=a, rtol=r, err_msg=what)

    _core.tree_map(compare, xs, ys)


def _check_same_dtypes(xs, ys, what):
    def compare(x, y):
        first, second = _dtype(x), _dtype(y)
        if {first.kind, second.kind} & set("fcV") and not _is_exact(second) and first != second:
            raise AssertionError(f"{what}: the dtypes {first.name} and {second.name} differ")

    _core.tree_map(compare, xs, ys)


def check_jvp(f, f_jvp, args, atol=None, rtol=None, eps=None, err_msg=""):
    """Compares f_jvp(args, tangents), which is to be (f(*args), the derivative along the tangents), with differences of f.

    args: a tuple of trees of floating-point arrays. atol, rtol: a number, or a dict by dtype. eps: the step, which depends on
    the dtype where it is not given. Raises AssertionError where they differ, TypeError for arguments that have no
    derivative.

    Args:
      f: The function.
      f_jvp: Its derivative forward.
      args: Where: its arguments.
      atol: The difference that is allowed.
      rtol: The same, in parts of the value.
      eps: How far arguments are moved for the difference.
      err_msg: What the error says, too.
    """
    args = tuple(args)
    tangents = _direction(np.random.default_rng(0))(args)
    value, derivative = f_jvp(args, tangents)
    _check_same_dtypes(derivative, value, f"{err_msg} tangent".strip())
    expected = f(*args)
    _check_same_dtypes(value, expected, f"{err_msg} primal".strip())
    _check_close(value, expected, atol, rtol, f"{err_msg} primal".strip())
    _check_close(derivative, _numerical_jvp(f, args, tangents, eps), atol, rtol, f"{err_msg} tangent".strip())


def check_vjp(f, f_vjp, args, atol=None, rtol=None, eps=None, err_msg=""):
    """Compares f_vjp(*args), which is to be (f(*args), the function from cotangents to those of the arguments), with
    differences of f. Arguments and errors are those of `check_jvp`.

    Args:
      f: The function.
      f_vjp: Its derivative in reverse.
      args: Where: its arguments.
      atol: The difference that is allowed.
      rtol: The same, in parts of the value.
      eps: How far arguments are moved for the difference.
      err_msg: What the error says, too.
    """
    args = tuple(args)
    random = _direction(np.random.default_rng(0))
    value, pull = f_vjp(*args)
    _check_close(value, f(*args), atol, rtol, f"{err_msg} primal".strip())
    tangents = random(args)
    numerical = _numerical_jvp(f, args, tangents, eps)
    cotangents = random(value)
    conjugate = _leafwise(np.conj)
    pulled = conjugate(pull(conjugate(cotangents)))
    _check_close(
        _inner_product(tangents, pulled), _inner_product(numerical, cotangents), atol, rtol,
        f"{err_msg} cotangent projection".strip(),
    )


def _through_linearize(f, primals, tangents):
    value, linear = linearize(f, *primals)
    return value, linear(*tangents)


def check_grads(f, args, order, modes=("fwd", "rev"), atol=None, rtol=None, eps=None):
    """Compares derivatives of f at args with differences, up to an order: "fwd" those of jvp, "rev" those of vjp, "lin"
    those of linearize, each of each. Arguments and errors are those of `check_jvp`.

    Args:
      f: The function.
      args: Where: its arguments.
      order: How often it is differentiated.
      modes: "fwd", "rev" or both.
      atol: The difference that is allowed.
      rtol: The same, in parts of the value.
      eps: How far arguments are moved for the difference.
    """
    options = dict(atol=atol, rtol=rtol, eps=eps)

    def check(f, args, order, path):
        def deeper(name, derived, at):
            if order > 1:
                check(derived, at, order - 1, f"{path} {name} of".strip())

        if "fwd" in modes:
            pushed = functools.partial(jvp, f)
            check_jvp(f, pushed, args, err_msg=f"{path} JVP".strip(), **options)
            deeper("JVP", pushed, (args, args))
        if "rev" in modes:
            check_vjp(f, functools.partial(vjp, f), args, err_msg=f"{path} VJP".strip(), **options)

            def pulled(*args):
                value, pull = vjp(f, *args)
                return pull(value)

            deeper("VJP", pulled, args)
        if "lin" in modes:
            linear = functools.partial(_through_linearize, f)
            check_jvp(f, linear, args, err_msg=f"{path} LIN".strip(), **options)
            deeper("LIN", linear, (args, args))

    check(f, tuple(args), order, "")
