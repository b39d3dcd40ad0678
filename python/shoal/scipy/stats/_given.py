"""The arguments of distributions."""

from shoal import numpy as _numpy


def given(*arguments):
    """As arrays of floats."""
    dtype = _numpy.result_type(*arguments, float)
    return [_numpy.asarray(x, dtype) for x in arguments]
