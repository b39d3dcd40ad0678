"""Functions that make the first parameters of layers: initializer(key, shape, dtype)."""

from shoal._core.lax import full
from shoal._later import later as _later


def _filled(shape, value, dtype, out_sharding):
    return full(shape, value, float if dtype is None else dtype, sharding=out_sharding)


def zeros(key, shape, dtype=None, out_sharding=None):
    """An array of zeros."""
    return _filled(shape, 0, dtype, out_sharding)


def ones(key, shape, dtype=None, out_sharding=None):
    """An array of ones."""
    return _filled(shape, 1, dtype, out_sharding)


def constant(value, dtype=None):
    """An initializer that fills arrays with one value."""
    default = dtype

    def init(key, shape, dtype=None, out_sharding=None):
        return _filled(shape, value, default if dtype is None else dtype, out_sharding)

    return init


__getattr__ = _later(
    __name__,
    {
        "it is not there yet, as it needs random numbers": "Initializer delta_orthogonal glorot_normal glorot_uniform he_normal he_uniform kaiming_normal "
        "kaiming_uniform lecun_normal lecun_uniform normal orthogonal truncated_normal uniform variance_scaling "
        "xavier_normal xavier_uniform"
    },
)
