"""Decompositions of matrices, the last two dimensions of arrays, and triangular systems of equations."""

from shoal._core.lax.linalg import *
from shoal._later import YET as _YET, later as _later

__getattr__ = _later(
    __name__,
    {
        _YET: "EigImplementation EighImplementation SvdAlgorithm cholesky_update eig hessenberg householder_product "
        "lu_pivots_to_permutation ormqr qdwh schur tridiagonal tridiagonal_solve"
    },
)
