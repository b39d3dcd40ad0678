"""Functions in whose bodies mesh axes are Auto or Explicit."""

import functools

from shoal import _core
from shoal._functions import _name_of, jit


def auto_axes(fun=None, /, *, axes=None, out_sharding=None):
    """The function, in whose body the compiler chooses how Explicit axes split values."""
    if fun is None:
        return functools.partial(auto_axes, axes=axes, out_sharding=out_sharding)

    def wrap(*args, out_sharding=out_sharding):
        if out_sharding is None:
            raise TypeError("Missing required keyword argument: 'out_sharding'")
        names = [] if axes is None else axes

        @jit
        def body(*args):
            mesh = _core._mesh_of(args, "auto_axes")
            return _core._split_by(fun(*_core._relax(args, names)), out_sharding, mesh, "auto_axes: out_sharding")

        return body(*args)

    wrap.__name__ = _name_of(fun)
    return wrap


def explicit_axes(fun=None, /, *, axes=None, in_sharding=None):
    """The function, in whose body Auto axes are Explicit. Its arguments are split as in_sharding says."""
    if fun is None:
        return functools.partial(explicit_axes, axes=axes, in_sharding=in_sharding)

    def wrap(*args, in_sharding=in_sharding):
        if in_sharding is None:
            raise TypeError("Missing required keyword argument: 'in_sharding'")
        names = [] if axes is None else axes

        @jit
        def body(*args):
            mesh = _core._with_explicit(_core._mesh_of(args, "explicit_axes"), names, "explicit_axes")
            split = _core._split_by(args, in_sharding, mesh, "explicit_axes: in_sharding")
            return _core._relax(fun(*split), names)

        return body(*args)

    wrap.__name__ = _name_of(fun)
    return wrap
