"""Trees as vectors."""

import warnings as _warnings

from shoal import numpy as _numpy
from shoal.tree_util import tree_flatten as _tree_flatten, tree_unflatten as _tree_unflatten
from shoal._misuse import misuse as _misuse


def ravel_pytree(pytree):
    """The leaves of a tree in one vector, and the function that makes such a tree of a vector.

    Args:
      pytree: A tree of arrays.
    """
    leaves, structure = _tree_flatten(pytree)
    arrays = [_numpy.asarray(leaf) for leaf in leaves]
    dtype = _numpy.result_type(*(a.dtype for a in arrays)) if arrays else _numpy.float32
    flat = _numpy.concatenate([a.astype(dtype).ravel() for a in arrays]) if arrays else _numpy.zeros(0, dtype)
    types = [(a.shape, a.dtype) for a in arrays]
    is_uniform = all(kind == flat.dtype for _, kind in types)

    def unravel(flat_vector):
        vector = _numpy.asarray(flat_vector)
        if vector.shape != flat.shape:
            raise _misuse(
                ValueError,
                f"unravel function given array of shape {vector.shape}, but expected shape {flat.shape}",
            )
        # Trees of one dtype may come back in another.
        if not is_uniform and vector.dtype != flat.dtype:
            raise _misuse(
                TypeError,
                f"unravel function given array of dtype {vector.dtype}, but expected dtype {flat.dtype}",
            )
        parts, begin = [], 0
        for shape, kind in types:
            size = 1
            for extent in shape:
                size *= extent
            part = vector[begin : begin + size].reshape(shape)
            with _warnings.catch_warnings():
                _warnings.simplefilter("ignore")  # Complex numbers that were real are so again.
                parts.append(part if is_uniform else part.astype(kind))
            begin += size
        return _tree_unflatten(structure, parts)

    return flat, unravel
