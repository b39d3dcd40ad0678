"""Functions of one applied to many at once."""

import functools
import operator

from shoal import _core
from shoal._core import lax as _lax
from shoal._misuse import misuse


def _axes(name, axes):
    """in_axes as a prefix of the tuple of positional arguments."""
    if isinstance(axes, list):
        axes = tuple(axes)
    if not (axes is None or isinstance(axes, (int, tuple))) or isinstance(axes, bool):
        raise misuse(
            TypeError,
            f"{name}: in_axes must be an int, None, or a tuple of entries for the positional arguments, got {axes!r}"
        )
    return axes


def vmap(fun, in_axes=0, out_axes=0, axis_name=None, axis_size=None, spmd_axis_name=None, sum_match=False):
    """The function of what is in each place of a dimension, in all places at once: of each argument the dimension that
    in_axes says, an int, None for an argument that is the same in all places, or a tree of these; keyword arguments
    are mapped along their first. Results have it where out_axes says. Collectives inside may name axis_name.

    Args:
      fun: The function of one.
      in_axes: The dimension of each argument that is mapped: an int for all, or a tuple with an entry for each, which
        may be None or a tree; from the end if negative.
      out_axes: Where the results have it, likewise; None: the result is the same in all places.
      axis_name: The name of the places for collectives.
      axis_size: The number of places; needed if no argument is mapped.
      spmd_axis_name: Axes of the mesh that the mapped dimension is split over, in constraints and shard_maps inside.
      sum_match: Must be False.

    Returns:
      The function of many.

    Raises:
      ValueError: By the call: if mapped arguments disagree in size, or none is mapped and there is no axis_size.
      TypeError: If fun is no function, or in_axes is neither an int, None nor a tuple.

    >>> print(jax.vmap(jnp.dot, in_axes=(0, None))(jnp.ones((2, 3)), jnp.arange(3.0)))
    [3. 3.]
    """
    if not callable(fun):
        raise misuse(TypeError, f"vmap: needs a function, got {type(fun)}")
    in_axes = _axes("vmap", in_axes)
    if sum_match:
        raise misuse(NotImplementedError, "vmap: sum_match is not supported")
    split = () if spmd_axis_name is None else spmd_axis_name
    split = [str(axis) for axis in (split if isinstance(split, (tuple, list)) else (split,))]
    size = None if axis_size is None else operator.index(axis_size)

    @functools.wraps(fun)
    def call(*args, **kwargs):
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise misuse(
                ValueError,
                f"vmap: in_axes must be an int, None, or a tuple of entries corresponding to the positional arguments, "
                f"but it has {len(in_axes)} entries for {len(args)} arguments"
            )
        # What is not mapped at all is passed as it is.
        axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)
        mapped = tuple(None if axis is None else argument for axis, argument in zip(axes, args))

        def called(*given):
            given, named = (given[:-1], given[-1]) if kwargs else (given, {})
            chosen = [old if axis is None else new for axis, old, new in zip(axes, args, given)]
            return fun(*chosen, **named)

        name = "" if axis_name is None else str(axis_name)
        if kwargs:
            mapped, axes_of_all = (*mapped, kwargs), (*axes, 0)
        else:
            axes_of_all = axes
        return _lax._vmap(called, mapped, axes_of_all, out_axes, name, size, split)

    return call
