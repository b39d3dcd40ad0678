"""Functions of neural networks."""

from shoal._core.nn import *
from shoal._later import YET as _YET, later as _later
from shoal.nn import initializers

__getattr__ = _later(
    __name__,
    {
        _YET: "get_scaled_dot_general_config scaled_dot_general scaled_matmul"
    },
)
