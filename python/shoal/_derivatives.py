"""Derivatives of functions of trees."""

import functools
import operator

from shoal import _core
from shoal._core import lax as _lax
from shoal._misuse import misuse


def float0():
    """The dtype of tangents and cotangents of integers and bool, which have none."""
    import numpy as np

    return np.dtype([("float0", np.void, 0)])


def _check_function(name, fun):
    if not callable(fun):
        raise misuse(TypeError, f"{name}: needs a function, got {type(fun)}")


def _positions(name, argnums, count):
    """The positions that argnums names among so many arguments."""
    try:
        positions = [operator.index(one) for one in (argnums if isinstance(argnums, (tuple, list)) else (argnums,))]
    except TypeError:
        raise misuse(TypeError, f"{name}: argnums must be an integer or a tuple of integers, got {argnums!r}") from None
    for position in positions:
        if not -count <= position < count:
            raise misuse(
                TypeError,
                f"{name}: argnums has {position}, but the function is called with {count} arguments",
            )
    return tuple(position % count for position in positions)


def _replaced(args, positions, chosen):
    """The arguments with others at these positions."""
    given = list(args)
    for position, argument in zip(positions, chosen):
        given[position] = argument
    return given


def _pair(name, result):
    """The value and what is passed on beside it."""
    if not (isinstance(result, (tuple, list)) and len(result) == 2):
        raise misuse(
            TypeError,
            f"{name}: with has_aux the function returns a pair of value and aux, got {type(result)}",
        )
    return result


def _with_aux(name, fun, has_aux):
    """The function of the value alone, and what gives the aux of its last call."""
    aux = None

    def value(*args, **kwargs):
        nonlocal aux
        result = fun(*args, **kwargs)
        if has_aux:
            result, aux = _pair(name, result)
        return result

    def passed_on():
        return _core.tree_map(
            lambda leaf: _lax._without_ended_tangents(leaf) if isinstance(leaf, _core.Array) else leaf, aux
        )

    return value, passed_on


def _has_no_tangent(x):
    """Whether x is an integer, a bool or a key of random numbers."""
    import numpy as np

    dtype = x.dtype if hasattr(x, "dtype") else np.result_type(x)
    return dtype.kind in "biu" or hasattr(dtype, "_shoal_implementation")


def _as_float0(values, gradients):
    """The gradients of a tree of values; those of integers, bool and keys are of float0."""
    likes = _core.tree_leaves(values)
    if all(isinstance(like, float) or (hasattr(like, "dtype") and like.dtype.kind in "fc") for like in likes):
        return gradients
    import numpy as np

    leaves, tree = _core.tree_flatten(gradients)
    return tree.unflatten(
        [np.zeros(np.shape(like), float0()) if _has_no_tangent(like) else one for one, like in zip(leaves, likes)]
    )


def _differentiated(name, with_value, fun, argnums, has_aux, holomorphic, allow_int, strong_zeros):
    _check_function(name, fun)

    @functools.wraps(fun)
    def call(*args, **kwargs):
        positions = _positions(name, argnums, len(args))
        value_of, aux = _with_aux(name, fun, has_aux)

        def value(*chosen):
            result = value_of(*_replaced(args, positions, chosen), **kwargs)
            if not _core.tree_structure(result) == _core.tree_structure(0):
                raise misuse(
                    TypeError,
                    f"{name}: the function returns a tree, and only scalars have gradients, got {result}",
                )
            return result

        chosen = tuple(args[position] for position in positions)
        result, gradients = _lax._value_and_grad(
            value, chosen, positions, with_value, holomorphic, allow_int, strong_zeros
        )
        if allow_int:
            gradients = _as_float0(chosen, gradients)
        if not isinstance(argnums, (tuple, list)):
            gradients = gradients[0]
        if has_aux:
            return ((result, aux()), gradients) if with_value else (gradients, aux())
        return (result, gradients) if with_value else gradients

    return call


def grad(
    fun, argnums=0, has_aux=False, holomorphic=False, allow_int=False, reduce_axes=(), *, strong_zeros=False
):
    """The function that gives the gradient of fun, which returns a real scalar, by the arguments at `argnums`: a tree
    like the argument, or a tuple of these. With `has_aux` fun returns a pair, whose second is passed on. With
    `strong_zeros` what is multiplied with zero on the way back, element by element, is zero, where the other factor is
    infinite or NaN, too: the gradient of where(x > 0, sqrt(x), 0) is 0 at 0, and not NaN.

    Args:
      fun: The function, whose value is a scalar of real floats.
      argnums: The position of the argument, or a tuple of several.
      has_aux: Whether fun returns a pair of its value and of a tree that is passed on.
      holomorphic: Whether fun is one of complex numbers that has a complex derivative.
      allow_int: Whether arrays of integers may be differentiated by; their gradients are of float0.
      reduce_axes: Must be ().
      strong_zeros: Whether a cotangent of zero stays zero.

    Returns:
      A function of the same arguments, which gives a tree like the argument, or a tuple of these; with has_aux a pair
      of this and of what is passed on.

    Raises:
      TypeError: By the call: if the value is no scalar of floats, or an argument has arrays of other dtypes.

    >>> print(jax.grad(lambda x: x ** 3)(2.0))
    12.0
    """
    _no_reduce_axes("grad", reduce_axes)
    return _differentiated("grad", False, fun, argnums, has_aux, holomorphic, allow_int, strong_zeros)


def value_and_grad(
    fun, argnums=0, has_aux=False, holomorphic=False, allow_int=False, reduce_axes=(), *, strong_zeros=False
):
    """The function that gives a pair of what fun returns and its gradient, as grad.

    Args:
      fun: The function, whose value is a scalar of real floats.
      argnums: As of grad.
      has_aux: As of grad; then the first of the pair is what fun returns.
      holomorphic: As of grad.
      allow_int: As of grad.
      reduce_axes: Must be ().
      strong_zeros: As of grad.

    Returns:
      A function of the same arguments.

    >>> value, slope = jax.value_and_grad(lambda x: x ** 2)(3.0)
    >>> print(value, slope)
    9.0 6.0
    """
    _no_reduce_axes("value_and_grad", reduce_axes)
    return _differentiated("value_and_grad", True, fun, argnums, has_aux, holomorphic, allow_int, strong_zeros)


def _no_reduce_axes(name, reduce_axes):
    if tuple(reduce_axes):
        raise misuse(NotImplementedError, f"{name}: reduce_axes is not supported, as in JAX; got {reduce_axes}")


def _changes(name, what, values, changes, error=TypeError):
    """The changes of these values; those of integers, which have none, as numbers that stand for them."""
    leaves, tree = _core.tree_flatten(values)
    given, own = _core.tree_flatten(changes)
    if own != tree:
        raise misuse(error, f"{name}: {what} must have the structure {tree} of their values, got {own}")
    return tree.unflatten(
        [value if getattr(getattr(one, "dtype", None), "names", None) == ("float0",) else one for value, one in zip(leaves, given)]
    )


def jvp(fun, primals, tangents, has_aux=False, *, strong_zeros=False):
    """fun at the tuple `primals`, and how that changes when these change by the tuple `tangents`. With `strong_zeros` a
    tangent of zero stays zero where it is multiplied with what is infinite or NaN.

    Args:
      fun: The function.
      primals: The arguments, a tuple or list.
      tangents: How they change: a tuple or list of trees of the same types.
      has_aux: Whether fun returns a pair of its value and of a tree that is passed on.
      strong_zeros: Whether a tangent of zero stays zero.

    Returns:
      What fun returns, and how it changes; with has_aux also what is passed on.

    Raises:
      TypeError: If tangents are not of the types of the arguments.

    >>> value, change = jax.jvp(lambda x: x ** 2, (3.0,), (1.0,))
    >>> print(value, change)
    9.0 6.0
    """
    _check_function("jvp", fun)
    for what, given in (("primals", primals), ("tangents", tangents)):
        if not isinstance(given, (tuple, list)):
            raise misuse(TypeError, f"jvp: {what} must be a tuple, got {type(given)}")
    value, aux = _with_aux("jvp", fun, has_aux)
    changes = tuple(_changes("jvp", "tangents", tuple(primals), tuple(tangents)))
    result, change = _lax._jvp(value, tuple(primals), changes, strong_zeros)
    change = _as_float0(result, change)
    return (result, change, aux()) if has_aux else (result, change)


class _LinearFunction:
    """A derivative at a point: a tree of the arrays that it holds, so that jitted functions may take and return it."""

    def __init__(self, linear, primals, result):
        self._linear, self._primals, self._result = linear, primals, result

    def tree_flatten(self):
        leaves, primals = _core.tree_flatten(self._primals)
        results, result = _core.tree_flatten(self._result)
        arrays = self._linear.arrays()
        return arrays[: len(arrays) - len(leaves) - len(results)] + leaves + results, (self._linear, primals, result)

    @classmethod
    def tree_unflatten(cls, aux, children):
        linear, primals, result = aux
        children = list(children)
        leaves = children[len(children) - primals.num_leaves - result.num_leaves :]
        values = primals.unflatten(leaves[: primals.num_leaves]), result.unflatten(leaves[primals.num_leaves :])
        # Trees are also made of what is no array, to be looked at.
        return cls(linear.with_arrays(children) if _are_arrays(children) else linear, *values)


def _are_arrays(values):
    """Whether a tree is made of arrays or numbers, and not of what stands for them."""
    return all(isinstance(one, (_core.Array, bool, int, float, complex)) or hasattr(one, "__array__") for one in values)


class PullBack(_LinearFunction):
    """What vjp gives: from a cotangent of the result to the tuple of those of the arguments."""

    def __call__(self, cotangent):
        given = _core.tree_leaves(_changes("vjp", "cotangents", self._result, cotangent, ValueError))
        return _as_float0(self._primals, _core.tree_structure(self._primals).unflatten(self._linear.pull_back(given)))


class PushForward(_LinearFunction):
    """What linearize gives: from tangents of the arguments to that of the result."""

    def __call__(self, *tangents):
        given = _core.tree_leaves(_changes("linearize", "tangents", self._primals, tangents))
        return _as_float0(self._result, _core.tree_structure(self._result).unflatten(self._linear.push_forward(given)))


for _kind in (PullBack, PushForward):
    _core._register(_kind, _kind.tree_flatten, _kind.tree_unflatten)


def vjp(fun, *primals, has_aux=False, reduce_axes=(), strong_zeros=False):
    """fun at these arguments, and its derivative in reverse: the function from a cotangent of the result to the tuple of
    those of the arguments. fun runs once. `strong_zeros` as of grad.

    Args:
      fun: The function.
      primals: Its arguments.
      has_aux: Whether fun returns a pair of its value and of a tree that is passed on.
      reduce_axes: Must be ().
      strong_zeros: As of grad.

    Returns:
      What fun returns, and the function from its cotangent; with has_aux also what is passed on.

    >>> value, back = jax.vjp(lambda x, y: x * y, 3.0, 4.0)
    >>> print(*back(1.0))
    4.0 3.0
    """
    _check_function("vjp", fun)
    _no_reduce_axes("vjp", reduce_axes)
    value, aux = _with_aux("vjp", fun, has_aux)
    result, linear = _lax._linearize(value, primals, "vjp", strong_zeros)
    pull_back = PullBack(linear, primals, result)
    return (result, pull_back, aux()) if has_aux else (result, pull_back)


def linearize(fun, *primals, has_aux=False, strong_zeros=False):
    """fun at these arguments, and its derivative there: the function from tangents of the arguments to that of the
    result. fun runs once. `strong_zeros` as of jvp.

    Args:
      fun: The function.
      primals: Its arguments.
      has_aux: Whether fun returns a pair of its value and of a tree that is passed on.
      strong_zeros: As of jvp.

    Returns:
      What fun returns, and the function from tangents of the arguments; with has_aux also what is passed on.

    >>> value, change = jax.linearize(lambda x: x ** 2, 3.0)
    >>> print(change(10.0))
    60.0
    """
    _check_function("linearize", fun)
    value, aux = _with_aux("linearize", fun, has_aux)
    result, linear = _lax._linearize(value, primals, "linearize", strong_zeros)
    push_forward = PushForward(linear, primals, result)
    return (result, push_forward, aux()) if has_aux else (result, push_forward)


def _argument(name, argnums, args):
    """The chosen argument, or the tuple of them, its position, or the tuple of these, and the arguments with others in
    their place."""
    positions = _positions(name, argnums, len(args))
    several = isinstance(argnums, (tuple, list))

    def with_chosen(chosen):
        return _replaced(args, positions, chosen if several else (chosen,))

    chosen = tuple(args[position] for position in positions)
    return (chosen, positions, with_chosen) if several else (chosen[0], positions[0], with_chosen)


def _jacobian(name, fun, argnums, has_aux, holomorphic, allow_int, strong_zeros):
    _check_function(name, fun)

    @functools.wraps(fun)
    def call(*args, **kwargs):
        chosen, positions, with_chosen = _argument(name, argnums, args)
        value, aux = _with_aux(name, lambda one: fun(*with_chosen(one), **kwargs), has_aux)
        forward = name == "jacfwd"
        result, rows = _lax._jacobian(value, chosen, positions, forward, holomorphic, allow_int, strong_zeros)
        # A tree like the result outside, like the argument inside.
        jacobian = _core.tree_structure(result).unflatten(rows)
        return (jacobian, aux()) if has_aux else jacobian

    return call


def jacfwd(fun, argnums=0, has_aux=False, holomorphic=False, *, strong_zeros=False):
    """The function that gives the Jacobian of fun by the arguments at `argnums`, column by column: for each array of the
    result a tree like the argument, of arrays with the dimensions of both. `strong_zeros` as of jvp.

    Args:
      fun: The function.
      argnums: The position of the argument, or a tuple of several.
      has_aux: Whether fun returns a pair of its value and of a tree that is passed on.
      holomorphic: Whether fun is one of complex numbers that has a complex derivative.
      strong_zeros: As of jvp.

    Returns:
      A function of the same arguments.

    Raises:
      TypeError: By the call: for arguments that are not of real floats, or with holomorphic not complex.

    >>> print(jax.jacfwd(lambda x: x ** 2)(jnp.array([1.0, 2.0])))
    [[2. 0.]
     [0. 4.]]
    """
    return _jacobian("jacfwd", fun, argnums, has_aux, holomorphic, False, strong_zeros)


def jacrev(fun, argnums=0, has_aux=False, holomorphic=False, allow_int=False, *, strong_zeros=False):
    """The same as jacfwd, row by row, in reverse; `strong_zeros` as of grad.

    Args:
      fun: The function.
      argnums: The position of the argument, or a tuple of several.
      has_aux: Whether fun returns a pair of its value and of a tree that is passed on.
      holomorphic: Whether fun is one of complex numbers that has a complex derivative.
      allow_int: Whether arrays of integers may be differentiated by.
      strong_zeros: As of grad.

    Returns:
      A function of the same arguments.

    >>> print(jax.jacrev(lambda x: x.sum())(jnp.array([1.0, 2.0])))
    [1. 1.]
    """
    return _jacobian("jacrev", fun, argnums, has_aux, holomorphic, allow_int, strong_zeros)


jacobian = jacrev


def hessian(fun, argnums=0, has_aux=False, holomorphic=False, *, strong_zeros=False):
    """The function that gives the second derivatives of fun, a tree like the argument of trees like the argument.
    `strong_zeros` holds for both derivatives.

    Args:
      fun: The function.
      argnums: The position of the argument, or a tuple of several.
      has_aux: Whether fun returns a pair of its value and of a tree that is passed on.
      holomorphic: Whether fun is one of complex numbers that has a complex derivative.
      strong_zeros: As of grad.

    Returns:
      A function of the same arguments.

    >>> print(jax.hessian(lambda x: x ** 3)(2.0))
    12.0
    """
    _check_function("hessian", fun)
    first = jacrev(fun, argnums, has_aux, holomorphic, strong_zeros=strong_zeros)
    return jacfwd(first, argnums, has_aux, holomorphic, strong_zeros=strong_zeros)


def stop_gradient(x):
    """The arrays of a tree as constants of derivatives.

    Args:
      x: A tree of arrays.

    Returns:
      A tree like it.

    >>> print(jax.grad(lambda x: x * lax.stop_gradient(x))(3.0))
    3.0
    """
    return _core.tree_map(lambda leaf: _lax._stop_gradient(leaf) if isinstance(leaf, _core.Array) else leaf, x)
