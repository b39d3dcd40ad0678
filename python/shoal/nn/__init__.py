"""Functions of neural networks."""

from shoal._core.nn import *
from shoal.nn import initializers

_FUNCTIONS = frozenset("get_scaled_dot_general_config scaled_dot_general scaled_matmul".split())


def __getattr__(name):
    if name in _FUNCTIONS:
        raise AttributeError(f"module 'shoal.nn' has no attribute '{name}': it is not there yet")
    raise AttributeError(f"module 'shoal.nn' has no attribute '{name}'")
