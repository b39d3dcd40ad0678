"""Random numbers. A key is an array uint32[2], as PRNGKey, split and fold_in make it."""

from shoal._core.random import *
from shoal._core.random import _check_keys
from shoal._later import later as _later

_TYPED = "keys with a type of their own are not there yet; PRNGKey makes a raw one, which all functions take"


def key(seed, *, impl=None, dtype=None):
    """Not there yet: PRNGKey makes a key."""
    raise NotImplementedError(f"key: {_TYPED}")


def wrap_key_data(key_bits_array, *, impl=None, dtype=None):
    """Not there yet: all functions take raw keys."""
    raise NotImplementedError(f"wrap_key_data: {_TYPED}")


def key_data(keys):
    """The bits of keys, which raw keys are themselves."""
    return _check_keys(keys, "key_data")


def key_impl(keys):
    """The name of what makes numbers of keys."""
    _check_keys(keys, "key_impl")
    return "threefry2x32"


__getattr__ = _later(__name__, {_TYPED: "Key key_dtype", "primitives are not there yet": "random_gamma_p"})
