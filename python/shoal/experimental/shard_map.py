"""shard_map with the signature that it had first."""

import functools

from shoal import _functions


def shard_map(f=None, mesh=None, in_specs=None, out_specs=None, check_rep=True, auto=frozenset()):
    """The function run on every device of a mesh, on its own shards; the axes in `auto` are left to the compiler.

    Args:
      f: The function of one device's shards.
      mesh: The mesh.
      in_specs: How arguments are split.
      out_specs: How results are put together.
      check_rep: As check_vma of jax.shard_map.
      auto: The axes that the compiler goes on to place values over.
    """
    if f is None:
        return functools.partial(
            shard_map, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_rep=check_rep, auto=auto
        )
    manual = frozenset(mesh.axis_names) - frozenset(auto) if auto else frozenset()
    return _functions.shard_map(
        f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, axis_names=manual, check_vma=check_rep
    )
