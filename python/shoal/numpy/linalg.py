"""Linear algebra with the functions of numpy.linalg."""

from shoal._core.linalg import *
from shoal._core.numpy import cross, diagonal, matmul, matrix_transpose, outer, tensordot, trace, vecdot

_LATER = frozenset("EigResult eig eigvals".split())


def __getattr__(name):
    if name in _LATER:
        raise AttributeError(f"module 'shoal.numpy.linalg' has no attribute '{name}': it is not there yet")
    raise AttributeError(f"module 'shoal.numpy.linalg' has no attribute '{name}'")
