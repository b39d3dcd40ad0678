"""Decompositions of matrices, the last two dimensions of arrays, and triangular systems of equations."""

from shoal._core.lax.linalg import *

_FUNCTIONS = frozenset(
    "EigImplementation EighImplementation SvdAlgorithm cholesky_update eig hessenberg householder_product"
    " lu_pivots_to_permutation ormqr qdwh schur tridiagonal tridiagonal_solve".split()
)


def __getattr__(name):
    if name in _FUNCTIONS:
        raise AttributeError(f"module 'shoal.lax.linalg' has no attribute '{name}': it is not there yet")
    raise AttributeError(f"module 'shoal.lax.linalg' has no attribute '{name}'")
