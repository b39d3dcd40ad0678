"""The functions of scipy.linalg."""

from shoal._core.linalg.scipy import *
from shoal._later import YET as _YET, later as _later
from shoal.scipy._matrices import (
    circulant,
    companion,
    convolution_matrix,
    dft,
    fiedler,
    hadamard,
    hankel,
    helmert,
    hilbert,
    invhilbert,
    invpascal,
    leslie,
    pascal,
    toeplitz,
)

__getattr__ = _later(
    __name__,
    {
        _YET: "eigh_tridiagonal expm expm_frechet fiedler_companion funm hessenberg polar qr_multiply rsf2csf schur "
        "solve_sylvester sqrtm"
    },
)
