"""Functions of the host that traced functions call for their results."""

from shoal import _core
from shoal.dtypes import canonicalize_dtype
from shoal._misuse import misuse

_VMAP_METHODS = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized", None)


def _promised(name, leaf):
    """The type of a result."""
    import numpy as np

    if not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")):
        raise misuse(TypeError, f"{name}: a leaf of result_shape_dtypes needs a shape and a dtype, got {type(leaf)}")
    if canonicalize_dtype(leaf.dtype) != np.dtype(leaf.dtype):
        raise misuse(
            ValueError,
            f"{name}: result_shape_dtypes has {np.dtype(leaf.dtype)}, a 64-bit type, but `jax_enable_x64` is disabled"
        )
    return _core.ShapeDtypeStruct(leaf.shape, leaf.dtype)


def check_order(name, ordered):
    """Raises where calls cannot be made in one order. Within a process they always are.

    Args:
      name: The name of the function in the error.
      ordered: Whether calls must be in one order.
    """
    if ordered and _core._calls_span_processes():
        raise ValueError(
            f"{name}: ordered=True, but each device of the shard_map or pmap makes a call of its own, and the devices are "
            "of several processes, between which calls have no order; leave ordered out, or make one call outside, of the "
            "whole array"
        )


def _device(name, sharding):
    """The device that makes the call; None if it does not matter."""
    if sharding is None:
        return None
    devices = getattr(sharding, "device_set", ())
    if len(devices) != 1:
        raise misuse(
            NotImplementedError,
            f"{name}: the sharding names the device that makes the call, and must be of one, got {sharding}",
        )
    return next(iter(devices))


def _call(name, callback, result_shape_dtypes, sharding, args, kwargs):
    types, result_tree = _core.tree_flatten(result_shape_dtypes)
    leaves, operand_tree = _core.tree_flatten((args, kwargs))

    def call(values):
        given, named = operand_tree.unflatten(values)
        return _core.tree_flatten(callback(*given, **named))[0]

    promised = [_promised(name, leaf) for leaf in types]
    return result_tree.unflatten(_core._call_host(name == "pure_callback", call, promised, leaves, _device(name, sharding)))


def pure_callback(callback, result_shape_dtypes, *args, sharding=None, vmap_method=None, **kwargs):
    """What a function gives for the values of these trees, called when the program comes here. It depends on them alone
    and changes nothing: calls whose results nobody needs are left out. `result_shape_dtypes` is the tree of what it
    gives. `sharding` names the device whose process calls, outside of shard_map and pmap.

    Args:
      callback: The function of the host.
      result_shape_dtypes: A tree of what has a shape and a dtype.
      args: Trees of arrays.
      sharding: Of one device.
      vmap_method: How vmap calls: "sequential", "sequential_unrolled", "expand_dims", "broadcast_all" or None.
      kwargs: Trees of arrays.

    Returns:
      A tree like result_shape_dtypes, of arrays.

    >>> import numpy as np
    >>> print(jax.jit(lambda x: jax.pure_callback(np.sin, x, x))(jnp.zeros(2)))
    [0. 0.]
    """
    if vmap_method not in _VMAP_METHODS:
        raise misuse(
            ValueError,
            f"pure_callback: vmap_method must be one of {list(_VMAP_METHODS)}, got {vmap_method!r}",
        )
    return _call("pure_callback", callback, result_shape_dtypes, sharding, args, kwargs)


def io_callback(callback, result_shape_dtypes, *args, sharding=None, ordered=False, **kwargs):
    """The same of a function that acts: it is called whether its results are needed or not, one call at a time, in the
    order of the program, whether `ordered` or not; with `ordered`, ValueError is raised where devices of several processes
    each make calls.

    Args:
      callback: The function of the host.
      result_shape_dtypes: A tree of what has a shape and a dtype.
      args: Trees of arrays.
      sharding: Of one device.
      ordered: Whether calls must be in the order of the program, as they are within a process.
      kwargs: Trees of arrays.

    Returns:
      A tree like result_shape_dtypes, of arrays.
    """
    check_order("io_callback", ordered)
    return _call("io_callback", callback, result_shape_dtypes, sharding, args, kwargs)
