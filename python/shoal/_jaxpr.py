"""The graph that a function is traced to, for programs that look at it."""

from shoal import _core, _functions
from shoal._checkpoint import Primitive, jax_name_of
from shoal.core import ShapedArray
from shoal._misuse import misuse


class JaxprEqn:
    """An equation of a traced graph: its operation, by the name that JAX has for it, and the line that made it."""

    __slots__ = ("primitive", "line")

    def __init__(self, op, line):
        self.primitive = Primitive(jax_name_of(op))
        self.line = line

    def __repr__(self):
        return f"{self.primitive} at {self.line}" if self.line else str(self.primitive)


class Jaxpr:
    """A function traced for arguments of one kind. Its text is the graph, as Shoal writes graphs."""

    def __init__(self, traced):
        self._traced = traced

    def __str__(self):
        return str(self._traced).rstrip("\n")

    __repr__ = __str__

    @property
    def in_avals(self):
        """The types of the arguments, in one list."""
        return [ShapedArray(type.shape, type.dtype, type.weak_type) for type, _ in self._traced._in_types]

    @property
    def out_avals(self):
        """Those of the results."""
        types = _core.tree_leaves(self._traced.out_info)
        return [ShapedArray(type.shape, type.dtype, type.weak_type) for type in types]

    @property
    def eqns(self):
        """The equations, in order; of those that hold graphs, as loops, the inside is in the text alone."""
        return [JaxprEqn(op, line) for op, line in self._traced._eqns]

    @property
    def jaxpr(self):
        """Itself: captured arrays are further inputs of the graph."""
        return self


def make_jaxpr(fun, static_argnums=(), axis_env=None, return_shape=False):
    """A function of the same arguments, which may be ShapeDtypeStructs, that gives the traced graph of `fun`: an object
    with a text, in_avals, out_avals and eqns. With `return_shape` it gives the pair of that and the types of the result.
    Nothing is computed.

    Args:
      fun: The function.
      static_argnums: Positions of arguments that are passed as they are.
      axis_env: Axes that collectives name, and their sizes.
      return_shape: Whether the types of the results are returned, too.
    """
    _functions._check_callable(fun, "make_jaxpr")
    if axis_env:
        raise misuse(
            NotImplementedError,
            f"make_jaxpr: axis_env is not there yet, got {axis_env!r}; trace a function that calls shard_map or vmap, "
            "which bind axes"
        )
    jitted = _functions.jit(fun, static_argnums=static_argnums)

    def traced_graph(*args, **kwargs):
        traced = jitted.trace(*args, **kwargs)
        return (Jaxpr(traced), traced.out_info) if return_shape else Jaxpr(traced)

    name = getattr(fun, "__name__", None)
    if name is not None:
        traced_graph.__name__ = f"make_jaxpr({name})"
        traced_graph.__qualname__ = f"make_jaxpr({getattr(fun, '__qualname__', name)})"
    traced_graph.__module__ = "shoal"
    traced_graph.__wrapped__ = fun
    return traced_graph
