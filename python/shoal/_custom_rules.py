"""Functions whose derivatives the user gives."""

import functools
import inspect
import operator

from shoal import _core
from shoal._core import lax as _lax
from shoal._derivatives import _has_no_tangent, float0
from shoal._misuse import misuse


def _shape(x):
    import numpy as np

    return np.shape(x)


def _zero(like):
    """The tangent of a value that does not change."""
    import numpy as np

    import shoal.numpy as jnp

    return np.zeros(_shape(like), float0()) if _has_no_tangent(like) else jnp.zeros_like(like)


def _is_float0(x):
    return getattr(getattr(x, "dtype", None), "names", None) == ("float0",)


class SymbolicZero:
    """A tangent or cotangent that is zero, of which nothing is computed."""

    def __init__(self, aval):
        self.aval = aval

    shape = property(lambda self: self.aval.shape)
    dtype = property(lambda self: self.aval.dtype)
    ndim = property(lambda self: len(self.aval.shape))
    size = property(lambda self: self.aval.size)

    def __repr__(self):
        return f"SymbolicZero({self.aval})"


def zero_from_primal(value, symbolic_zeros=False):
    """The zero tangent of a value.

    Args:
      value: The value.
      symbolic_zeros: Whether a SymbolicZero stands for it.
    """
    return _symbolic(value) if symbolic_zeros else _zero(value)


def _symbolic(like):
    if _has_no_tangent(like):
        return SymbolicZero(_zero(like))  # There is no type of this dtype.
    return SymbolicZero(_core.ShapeDtypeStruct(_shape(like), like.dtype))


def _name(fun):
    return getattr(fun, "__name__", str(fun))


def _count(name, nondiff, count):
    """The positions of the arguments that are passed as they are."""
    positions = [operator.index(one) for one in (nondiff if isinstance(nondiff, (tuple, list)) else (nondiff,))]
    for position in positions:
        if not -count <= position < count:
            raise misuse(
                IndexError,
                f"{name}: nondiff_argnums has {position}, but the function is called with {count} arguments",
            )
    return [position % count for position in positions]


# What gives a function a rule.
_SETTERS = frozenset(("defjvp", "defjvps", "defvjp", "def_vmap"))


class _WithRules:
    """A function with rules of its own: what custom_jvp, custom_vjp and custom_vmap share."""

    def __init__(self, fun, nondiff_argnums=(), nondiff_argnames=()):
        if not callable(fun):
            raise misuse(TypeError, f"{self._kind}: needs a function, got {type(fun)}")
        functools.update_wrapper(self, fun)
        self.fun = fun
        names = nondiff_argnames if isinstance(nondiff_argnames, (tuple, list)) else (nondiff_argnames,)
        if names:
            known = list(inspect.signature(fun).parameters)
            own = nondiff_argnums if isinstance(nondiff_argnums, (tuple, list)) else (nondiff_argnums,)
            nondiff_argnums = (*own, *(known.index(name) for name in names if name in known))
        self.nondiff_argnums = nondiff_argnums

    def __getattr__(self, name):
        # A rule of another kind is one of the function that this one wraps.
        if name in _SETTERS and isinstance(self.__dict__.get("fun"), _WithRules):
            return getattr(self.fun, name)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)

    def _arguments(self, args, kwargs):
        """The positional arguments, defaults among them. Those of keywords alone the function has by itself."""
        try:
            bound = inspect.signature(self.fun).bind(*args, **kwargs)
        except ValueError:  # A function without a signature.
            return args
        except TypeError as error:
            raise self._unresolved(error) from None
        if bound.kwargs:
            raise self._unresolved(
                f"The following keyword arguments could not be resolved to positions: {', '.join(bound.kwargs)}"
            )
        bound.apply_defaults()
        return bound.args

    def _unresolved(self, why):
        return misuse(
            TypeError,
            f"The input arguments to the {self._kind}-decorated function {_name(self.fun)} could not be resolved to "
            f"positional-only arguments. Binding failed with the error:\n{why}",
        )

    def _call(self, args, run):
        """run(leaves, function of leaves, unflatten, structure of a result) for what is not passed as it is."""
        fixed = sorted(set(_count(self._kind, self.nondiff_argnums, len(args))))
        leaves, tree = _core.tree_flatten(tuple(x for i, x in enumerate(args) if i not in fixed))
        nondiff = [args[i] for i in fixed]
        made = None

        def arguments(chosen):
            rest = iter(tree.unflatten(chosen))
            return [args[i] if i in fixed else next(rest) for i in range(len(args))]

        def flat(result):
            nonlocal made
            values, made = _core.tree_flatten(result)
            return values

        def function(chosen):
            return flat(self.fun(*arguments(chosen)))

        results = run(leaves, function, arguments, tree, nondiff, flat)
        return made.unflatten(results)


def _pair(of, rule, kind, made, what):
    if not (isinstance(made, (tuple, list)) and len(made) == 2):
        raise misuse(
            TypeError,
            f"{kind} {_name(rule)} for function {_name(of.fun)} must produce a pair (list or tuple of length two) "
            f"representing {what}, but got {made}"
        )
    return made


class custom_jvp(_WithRules):
    """fun, whose derivative is what the rule of defjvp says: rule(primals, tangents) gets two tuples, those of the
    arguments, and returns the pair of what fun returns and its tangent. Arguments at `nondiff_argnums` are passed to
    the rule first, as they are.

    Args:
      fun: The function.
      nondiff_argnums: Positions of arguments that are passed as they are.
      nondiff_argnames: Names of such arguments.

    >>> @jax.custom_jvp
    ... def twice(x):
    ...     return 2 * x
    >>> @twice.defjvp
    ... def rule(primals, tangents):
    ...     return twice(*primals), 3 * tangents[0]
    >>> print(jax.grad(twice)(1.0))
    3.0
    """

    _kind = "custom_jvp"
    jvp = None
    symbolic_zeros = False

    def defjvp(self, jvp, symbolic_zeros=False):
        """The rule. With `symbolic_zeros` it gets SymbolicZero where an argument does not change, else zeros."""
        self.jvp, self.symbolic_zeros = jvp, symbolic_zeros
        return jvp

    def defjvps(self, *jvps):
        """A rule for each argument: jvps[i](tangent, result, *primals) is its part of the tangent, None if zero."""
        if self.nondiff_argnums != ():
            raise misuse(TypeError, "Can't use ``defjvps`` with ``nondiff_argnums``.")

        def rule(primals, tangents):
            result = self(*primals)
            parts = [one(tangent, result, *primals) for one, tangent in zip(jvps, tangents) if one]
            if not parts:
                return result, _core.tree_map(_zero, result)
            return result, functools.reduce(lambda x, y: _core.tree_map(operator.add, x, y), parts)

        self.defjvp(rule)

    def __call__(self, *args, **kwargs):
        if self.jvp is None:
            raise misuse(AttributeError, f"No JVP defined for custom_jvp function {_name(self.fun)} using defjvp.")
        return self._call(self._arguments(args, kwargs), self._run)

    def _run(self, leaves, function, arguments, tree, nondiff, flat):
        def rule(primals, tangents):
            zero = _symbolic if self.symbolic_zeros else _zero
            changes = [zero(x) if t is None else t for x, t in zip(primals, tangents)]
            made = self.jvp(*nondiff, tree.unflatten(primals), tree.unflatten(changes))
            kind = "Custom JVP rule"
            result, change = _pair(self, self.jvp, kind, made, "primal and tangent outputs")
            values = flat(result)
            is_zero = lambda x: isinstance(x, SymbolicZero)  # noqa: E731
            of_values, own = _core.tree_flatten(change, is_zero)
            if own != _core.tree_structure(result):
                raise misuse(
                    TypeError,
                    f"{kind} {_name(self.jvp)} for function {_name(self.fun)} must produce primal and tangent outputs "
                    f"with equal container (pytree) structures, but got {_core.tree_structure(result)} and {own} "
                    f"respectively."
                )
            return values, [None if is_zero(t) or _is_float0(t) else t for t in of_values]

        return _lax._custom_jvp(leaves, function, rule)


class CustomVJPPrimal:
    """An argument of a forward rule with symbolic zeros, and whether it is differentiated by."""

    def __init__(self, value, perturbed):
        self.value, self.perturbed = value, perturbed


class _Arrays:
    """A tree, and the arrays among its leaves."""

    def __init__(self, tree):
        self.leaves, self.structure = _core.tree_flatten(tree)
        self.places = [i for i, leaf in enumerate(self.leaves) if isinstance(leaf, _core.Array)]
        self.arrays = [self.leaves[i] for i in self.places]

    def joined(self, arrays):
        """The tree with these arrays in their place."""
        leaves = list(self.leaves)
        for i, array in zip(self.places, arrays):
            leaves[i] = array
        return self.structure.unflatten(leaves)


def _cotangent_leaves(like, given, describe):
    """The leaves of the cotangent of a tree, of which a leaf stands for all those of a part, and None for their zeros."""
    leaves, tree = _core.tree_flatten(like)
    is_none = lambda x: x is None or isinstance(x, SymbolicZero)  # noqa: E731
    parts, own = _core.tree_flatten(given, is_none)
    if own == tree:
        return [_cotangent(x, part) for x, part in zip(leaves, parts)]
    try:
        below = own.flatten_up_to(like)
    except (TypeError, ValueError):
        describe(tree, own)
    return [_cotangent(x, one) for part, one in zip(below, parts) for x in _core.tree_leaves(part)]


def _cotangent(like, given):
    """A cotangent as it is passed on: of the dtype of its float, None if it is none of a number."""
    if isinstance(given, SymbolicZero) and tuple(given.shape) != _shape(like):
        raise misuse(
            ValueError,
            f"custom_vjp: the rule's cotangent is a SymbolicZero of shape {tuple(given.shape)}, and should have the "
            f"shape of its argument, {_shape(like)}. Consider just returning a None here"
        )
    if given is None or isinstance(given, SymbolicZero) or _is_float0(given) or _has_no_tangent(like):
        return None
    import shoal.numpy as jnp

    array = jnp.asarray(given)
    # Of complex numbers there is no part to take silently.
    return array if array.dtype.kind == "c" else array.astype(like.dtype)


class custom_vjp(_WithRules):
    """fun, whose derivative in reverse the rules of defvjp give: fwd(*args) returns the pair of what fun returns and of
    what bwd needs, and bwd(that, cotangent) the tuple of the cotangents of the arguments, None for zeros. Arguments at
    `nondiff_argnums` are passed to bwd first, as they are. Such a function has no derivative forward.

    Args:
      fun: The function.
      nondiff_argnums: Positions of arguments that are passed as they are.
      nondiff_argnames: Names of such arguments.

    >>> @jax.custom_vjp
    ... def clipped(x):
    ...     return x
    >>> clipped.defvjp(lambda x: (x, None), lambda kept, cotangent: (jnp.clip(cotangent, -1, 1),))
    >>> print(jax.grad(lambda x: 5 * clipped(x))(1.0))
    1.0
    """

    _kind = "custom_vjp"
    fwd = bwd = None
    symbolic_zeros = False

    def defvjp(self, fwd, bwd, symbolic_zeros=False, optimize_remat=False):
        """The rules. With `symbolic_zeros` the leaves that fwd gets are CustomVJPPrimal, and bwd gets
        SymbolicZero where no derivative comes back; it is called where the derivative is taken. `optimize_remat` is
        accepted: what nobody needs is never computed."""
        self.fwd, self.bwd, self.symbolic_zeros = fwd, bwd, symbolic_zeros

    def __call__(self, *args, **kwargs):
        if self.fwd is None or self.bwd is None:
            raise misuse(AttributeError, f"No VJP defined for custom_vjp function {_name(self.fun)} using defvjp.")
        args = self._arguments(args, kwargs)
        if self.nondiff_argnums != ():
            self._check_static(args)
        return self._call(args, self._run)

    def _check_static(self, args):
        """Refuses tracers that are passed as they are, which would lose their derivatives."""
        for i in _count(self._kind, self.nondiff_argnums, len(args)):
            for leaf in _core.tree_leaves(args[i]):
                if isinstance(leaf, _core.Array) and leaf._is_tracer:
                    raise misuse(
                        _core.UnexpectedTracerError,
                        f"custom_vjp: argument {i} of {_name(self.fun)} is {leaf._type_text}, which is being traced, and "
                        f"nondiff_argnums says that it is not differentiated; that is for functions and other values "
                        f"that are no arrays: pass arrays as arguments like others, and None as their cotangents"
                    )

    def _run(self, leaves, function, arguments, tree, nondiff, flat):
        def rule(primals, changes):
            seen = primals
            if self.symbolic_zeros:
                seen = [CustomVJPPrimal(x, change) for x, change in zip(primals, changes)]
            result, kept = _pair(
                self,
                self.fwd,
                "Custom VJP fwd rule",
                self.fwd(*arguments(seen)),
                "primal outputs and residuals (values stored from the forward pass for use on the backward pass)",
            )
            values = flat(result)
            of_results = _core.tree_structure(result)

            def backward(cotangents, arrays=None):
                zero = _symbolic if self.symbolic_zeros else _zero
                given = [zero(x) if c is None else c for x, c in zip(values, cotangents)]
                again = kept if arrays is None else split.joined(arrays)
                made = self.bwd(*nondiff, again, of_results.unflatten(given))
                return self._checked(tree.unflatten(primals), made)

            if not self.symbolic_zeros:
                return values, backward
            split = _Arrays(kept)
            return values, backward, split.arrays

        call = _lax._custom_vjp_with_zeros if self.symbolic_zeros else _lax._custom_vjp
        return call(leaves, function, rule)

    def _checked(self, primals, made):
        if not isinstance(made, (tuple, list)) or len(made) != len(primals):
            self._refuse(_core.tree_structure(primals), _core.tree_structure(made))
        return [leaf for x, one in zip(primals, made) for leaf in _cotangent_leaves(x, one, self._refuse)]

    def _refuse(self, expected, own):
        raise misuse(
            TypeError,
            f"Custom VJP bwd rule {_name(self.bwd)} for function {_name(self.fun)} must produce an output with the same "
            f"container (pytree) structure as the args tuple of the primal function, but got {own} where {expected} is "
            f"expected"
        )


class _WithGradient(custom_vjp):
    """A function that returns its value and its derivative in reverse, as a function with rules."""

    def __init__(self, fun):
        super().__init__(lambda *args: self._forward(*args)[0])
        self.given = fun
        self.defvjp(self._forward, self._backward)

    def _forward(self, *args):
        made = self.given(*args)
        if not (isinstance(made, (tuple, list)) and len(made) == 2):
            raise misuse(
                TypeError,
                f"custom_gradient: {_name(self.given)} must return a pair of its value and of the function that gives "
                f"cotangents, got {type(made)}",
            )
        result, pull_back = made
        return result, (pull_back, len(args))

    def _backward(self, kept, cotangent):
        pull_back, count = kept
        made = pull_back(cotangent)
        is_tuple = isinstance(made, (tuple, list)) and len(made) == count
        return (made,) if count == 1 and not is_tuple else made

    def _refuse(self, expected, own):
        raise misuse(
            TypeError,
            f"custom_gradient: the function that {_name(self.given)} returns must give cotangents of the structure "
            f"{expected}, got {own}"
        )


def custom_gradient(fun):
    """fun, which returns the pair of its value and of its derivative in reverse: the function from a cotangent to those
    of the arguments, a tuple if there are several.

    Args:
      fun: The function.
    """
    own = _WithGradient(fun)

    @functools.wraps(fun)
    def call(*args, **kwargs):
        if kwargs:
            raise misuse(TypeError, "custom_gradient: the function is called with positional arguments alone")
        return own(*args)

    return call


def closure_convert(fun, *example_args):
    """A function of the arguments and of the arrays from outside that fun uses and a derivative may be taken by, and
    the list of these: `converted, consts = closure_convert(fun, *args)`, then `converted(*args, *consts)`.

    Args:
      fun: The function.
      example_args: Arguments like those it will be called with.
    """
    if not callable(fun):
        raise misuse(TypeError, f"closure_convert: needs a function, got {type(fun)}")
    tree = _core.tree_structure(example_args)
    closure = _lax._closure(fun, example_args, _name(fun))
    consts = closure.consts()

    def converted(*args_and_consts):
        count = len(args_and_consts) - len(consts)
        args, others = args_and_consts[:count], args_and_consts[count:]
        leaves, own = _core.tree_flatten(tuple(args))
        if own != tree:
            raise misuse(
                TypeError,
                f"The inputs to the closure produced by closure_convert must have the same Pytree structure as the "
                f"example arguments passed when closure_convert was called. Expected {tree}, got {own}"
            )
        return closure.call(leaves, list(others))

    return converted, consts


def linear_transpose(fun, *primals, reduce_axes=()):
    """The transpose of a linear function of arguments like these, which may be types alone: from a cotangent of the
    result to the tuple of those of the arguments.

    Args:
      fun: The linear function.
      primals: Its arguments, or types like theirs.
      reduce_axes: Must be ().

    Raises:
      TypeError: For an argument or a result that is none of floats or complex numbers, or an operation that is not
        linear.

    >>> print(*jax.linear_transpose(lambda x: 3 * x, 1.0)(2.0))
    6.0
    """
    if tuple(reduce_axes):
        raise misuse(NotImplementedError, "linear_transpose: reduce_axes is not supported, as in JAX")
    import shoal.numpy as jnp

    is_type = lambda x: isinstance(x, _core.ShapeDtypeStruct)  # noqa: E731
    primals = _core.tree_map(lambda x: jnp.zeros(x.shape, x.dtype) if is_type(x) else x, primals)
    result, linear = _lax._linear_transpose(fun, primals)
    tree, of_result = _core.tree_structure(primals), _core.tree_structure(result)

    def transposed(cotangent):
        leaves, own = _core.tree_flatten(cotangent)
        if own != of_result:
            raise misuse(
                TypeError,
                f"cotangent tree does not match function output, expected {of_result} but got {own}",
            )
        return tree.unflatten(linear.pull_back(leaves))

    return transposed


def linear_call(fun, fun_transpose, residual_args, linear_args):
    """fun(residual_args, linear_args), which is linear in the second, with a transpose of its own:
    fun_transpose(residual_args, cotangent) gives the cotangent of linear_args.

    Args:
      fun: The function.
      fun_transpose: Its transpose.
      residual_args: A tree that fun need not be linear in.
      linear_args: A tree that fun is linear in.
    """
    linear, of_linear = _core.tree_flatten(linear_args)
    others, of_others = _core.tree_flatten(residual_args)
    of_result = None

    def forward(leaves):
        nonlocal of_result
        made = fun(of_others.unflatten(leaves[len(linear) :]), of_linear.unflatten(leaves[: len(linear)]))
        values, of_result = _core.tree_flatten(made)
        return values

    def backward(leaves):
        count = len(leaves) - len(others)
        made = fun_transpose(of_others.unflatten(leaves[count:]), of_result.unflatten(leaves[:count]))
        values, own = _core.tree_flatten(made)
        if own != of_linear:
            raise misuse(
                TypeError,
                f"linear_call: the transpose must give what has the structure of the linear arguments, {of_linear}, "
                f"got {own}"
            )
        return values

    results = _lax._linear_call(linear, others, forward, backward)
    return of_result.unflatten(results)
