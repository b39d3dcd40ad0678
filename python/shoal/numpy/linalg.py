"""Linear algebra with the functions of numpy.linalg."""

from shoal._core import numpy as _numpy
from shoal._core.linalg import *
from shoal._core.numpy import matrix_transpose, vecdot

del ops, scipy  # Modules of others.


def cross(x1, x2, /, *, axis=-1):
    """The cross product of vectors of three elements.

    Args:
      x1: An array.
      x2: Another one.
      axis: The dimension of the components.
    """
    if _numpy.shape(x1)[axis] != 3 or _numpy.shape(x2)[axis] != 3:
        raise ValueError(
            "Both input arrays must be (arrays of) 3-dimensional vectors, "
            f"but they have {_numpy.shape(x1)[axis]} and {_numpy.shape(x2)[axis]} dimensions instead."
        )
    return _numpy.cross(x1, x2, axis=axis)


def diagonal(x, /, *, offset=0):
    """A diagonal of the last two dimensions.

    Args:
      x: The array.
      offset: Which diagonal: those above the main one are positive.
    """
    return _numpy.diagonal(x, offset, -2, -1)


def matmul(x1, x2, /, *, precision=None, preferred_element_type=None):
    """The matrix product of the last two dimensions.

    Args:
      x1: An array.
      x2: Another one.
      precision: Makes no difference: products are always computed in the operands' own dtype.
      preferred_element_type: The dtype in which products are added, and that of the result.
    """
    return _numpy.matmul(x1, x2, precision=precision, preferred_element_type=preferred_element_type)


def outer(x1, x2, /):
    """The products of all elements of two vectors.

    Args:
      x1: An array.
      x2: Another one.
    """
    if _numpy.ndim(x1) != 1 or _numpy.ndim(x2) != 1:
        raise ValueError(f"Input arrays must be one-dimensional, but they are {_numpy.ndim(x1)=} {_numpy.ndim(x2)=}")
    return _numpy.outer(x1, x2)


def tensordot(x1, x2, /, *, axes=2, precision=None, preferred_element_type=None):
    """The sum over pairs of dimensions.

    Args:
      x1: An array.
      x2: Another one.
      axes: How many dimensions are summed over, or those of both.
      precision: Makes no difference: products are always computed in the operands' own dtype.
      preferred_element_type: The dtype in which products are added, and that of the result.
    """
    return _numpy.tensordot(x1, x2, axes, precision=precision, preferred_element_type=preferred_element_type)


def trace(x, /, *, offset=0, dtype=None):
    """The sum of a diagonal of the last two dimensions.

    Args:
      x: The array.
      offset: Which diagonal: those above the main one are positive.
      dtype: The dtype of the result.
    """
    return _numpy.trace(x, offset, -2, -1, dtype)
