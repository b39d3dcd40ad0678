"""Functions of elements as functions of arrays."""

import functools
import re

from shoal._core import numpy as _numpy
from shoal._misuse import misuse

_NAME = r"\w+"
_DIMENSIONS = rf"\((?:{_NAME}(?:,{_NAME})*)?\)"
_LIST = rf"{_DIMENSIONS}(?:,{_DIMENSIONS})*"


def _parsed(signature):
    """The names of the dimensions of each argument, and of each result."""
    text = "".join(signature.split())
    if not re.fullmatch(f"{_LIST}->{_LIST}", text):
        raise misuse(ValueError, f"not a valid gufunc signature: {signature}")
    return [
        [tuple(re.findall(_NAME, part)) for part in re.findall(_DIMENSIONS, side)] for side in text.split("->")
    ]


def _sizes(arrays, names, sizes, what):
    """Adds the extents of the named dimensions, the last ones of the arrays, to `sizes`."""
    for array, dims in zip(arrays, names):
        if array.ndim < len(dims):
            raise misuse(
                ValueError,
                f"vectorize: {what} with shape {array.shape} does not have enough dimensions for {dims}",
            )
        for name, extent in zip(dims, array.shape[array.ndim - len(dims) :]):
            if sizes.setdefault(name, extent) != extent:
                raise misuse(
                    ValueError,
                    f"vectorize: inconsistent size for core dimension '{name}': {extent} vs {sizes[name]}"
                )


def vectorize(pyfunc, *, excluded=frozenset(), signature=None):
    """The function called with the elements of arrays that broadcast, one call for each place, or, where a signature
    such as '(n),(n)->()' names dimensions, with the arrays along these. Arguments in `excluded`, positions or names,
    are passed as they are.

    Args:
      pyfunc: The function.
      excluded: Positions and names of arguments that are passed whole.
      signature: The dimensions of the function, as "(n),(n)->()".
    """
    for item in excluded:
        if not isinstance(item, (int, str)):
            raise misuse(
                TypeError,
                f"jax.numpy.vectorize can only exclude integer or string arguments, but excluded={excluded!r}",
            )
        if isinstance(item, int) and item < 0:
            raise misuse(ValueError, f"excluded={excluded!r} contains negative numbers")

    @functools.wraps(pyfunc)
    def vectorized(*args, **kwargs):
        inputs, outputs = (None, None) if signature is None else _parsed(signature)
        mapped = [i for i, arg in enumerate(args) if i not in excluded and arg is not None]
        if inputs is not None and len(mapped) != len(inputs):
            raise misuse(TypeError, f"wrong number of positional arguments: expected {len(inputs)}, got {len(mapped)}")
        arrays = [_numpy.asarray(args[i]) for i in mapped]
        names = inputs or [()] * len(arrays)
        sizes = {}
        _sizes(arrays, names, sizes, "input")
        cores = [tuple(a.shape[a.ndim - len(dims) :]) for a, dims in zip(arrays, names)]
        loop = _numpy.broadcast_shapes(*(tuple(a.shape[: a.ndim - len(dims)]) for a, dims in zip(arrays, names)))
        count = 1
        for extent in loop:
            count *= extent
        rows = [_numpy.broadcast_to(a, loop + core).reshape((count,) + core) for a, core in zip(arrays, cores)]

        def call(*parts):
            given = list(args)
            for i, part in zip(mapped, parts):
                given[i] = part
            results = pyfunc(*given, **kwargs)
            several = isinstance(results, tuple)
            results = [_numpy.asarray(r) for r in (results if several else (results,))]
            if outputs is not None and len(results) != len(outputs):
                raise misuse(TypeError, f"wrong number of outputs: expected {len(outputs)}, got {len(results)}")
            for result, dims in zip(results, outputs or [()] * len(results)):
                if result.ndim != len(dims):
                    raise misuse(
                        ValueError,
                        f"vectorize: output of shape {result.shape} must have the dimensions {dims}",
                    )
            _sizes(results, outputs or [()] * len(results), dict(sizes), "output")
            return tuple(results) if several else results[0]

        if count == 0:
            from shoal import ShapeDtypeStruct, eval_shape, tree_util

            types = eval_shape(call, *(ShapeDtypeStruct(core, a.dtype) for a, core in zip(arrays, cores)))
            return tree_util.tree_map(lambda t: _numpy.zeros(loop + tuple(t.shape), t.dtype), types)
        if not loop:
            return call(*(row[0] for row in rows))
        from shoal import tree_util
        from shoal._vmap import vmap

        return tree_util.tree_map(lambda all: all.reshape(loop + tuple(all.shape[1:])), vmap(call)(*rows))

    return vectorized
