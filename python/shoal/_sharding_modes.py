"""Functions in whose bodies mesh axes are Auto or Explicit."""

import functools

from shoal import _core
from shoal._functions import _like


def _specs(shardings):
    """The partition specs of a tree of them and of shardings, and the mesh of these."""
    meshes = []

    def spec(one):
        if isinstance(one, _core.NamedSharding):
            meshes.append(one.mesh)
            return one.spec
        return one

    specs = _core.tree_map(spec, shardings, is_leaf=lambda one: one is None)
    return specs, meshes[0] if meshes else None


def auto_axes(f=None, /, *, axes=None, out_sharding=None):
    """The function, in whose body the compiler chooses how Explicit axes split values.

    Args:
      f: The function.
      axes: The axes of the mesh; None: all.
      out_sharding: How results lie; may also be given with the call.
    """
    if f is None:
        return functools.partial(auto_axes, axes=axes, out_sharding=out_sharding)

    def wrap(*args, out_sharding=out_sharding, **kwargs):
        if out_sharding is None:
            raise TypeError("Missing required keyword argument: 'out_sharding'")
        names = [] if axes is None else sorted(axes)
        specs, mesh = _specs(out_sharding)
        mesh = mesh or _core._mesh_of((args, kwargs), "auto_axes")
        with _core.use_abstract_mesh(_core._with_auto(mesh, names, "auto_axes")):
            given, named = _core._relax((args, kwargs), names)
            result = f(*given, **named)
        return _core._split_by(result, specs, mesh, "auto_axes: out_sharding")

    return _like(wrap, f)


def explicit_axes(f=None, /, *, axes=None, in_sharding=None):
    """The function, in whose body Auto axes are Explicit. Its arguments are split as in_sharding says.

    Args:
      f: The function.
      axes: The axes of the mesh; None: all.
      in_sharding: How arguments lie; may also be given with the call.
    """
    if f is None:
        return functools.partial(explicit_axes, axes=axes, in_sharding=in_sharding)

    def wrap(*args, in_sharding=in_sharding, **kwargs):
        if in_sharding is None:
            raise TypeError("Missing required keyword argument: 'in_sharding'")
        names = [] if axes is None else sorted(axes)
        specs, mesh = _specs(in_sharding)
        mesh = mesh or _core._mesh_of((args, kwargs), "explicit_axes")
        mesh = _core._with_explicit(mesh, names, "explicit_axes")
        with _core.use_abstract_mesh(mesh):
            split = _core._split_by(args, specs, mesh, "explicit_axes: in_sharding")
            result = f(*split, **kwargs)
        return _core._relax(result, names)

    return _like(wrap, f)
