"""Decompositions of matrices, the last two dimensions of arrays, and triangular systems of equations."""

import enum as _enum

from shoal._core.lax.linalg import *


class EigImplementation(_enum.Enum):
    """How JAX computes eigenvalues of matrices of no special kind. Here it is by LAPACK."""

    CUSOLVER = "cusolver"
    MAGMA = "magma"
    LAPACK = "lapack"


class EighImplementation(_enum.Enum):
    """How JAX computes eigenvalues of Hermitian matrices. Here the size of a matrix decides."""

    QR = "qr"
    JACOBI = "jacobi"
    QDWH = "qdwh"


class SvdAlgorithm(_enum.Enum):
    """How JAX computes singular values. Here the size of a matrix decides."""

    DEFAULT = "default"
    QR = "QR"
    JACOBI = "Jacobi"
    POLAR = "polar"
    DIVIDE_AND_CONQUER = "divide_and_conquer"
