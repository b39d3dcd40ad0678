"""The arguments of distributions."""

from shoal import numpy as _numpy


def given(*arguments):
    """As arrays of floats."""
    dtype = _numpy.result_type(*arguments, float)
    return [_numpy.asarray(x, dtype) for x in arguments]


def standard(x, *shapes_loc_scale):
    """Arguments of a distribution with a place and a scale, as arrays of floats: (x - loc) / scale, what gives its shape,
    and the scale."""
    x, *shapes, loc, scale = given(x, *shapes_loc_scale)
    return (x - loc) / scale, *shapes, scale
