"""The functions of scipy.linalg."""

from shoal._core.linalg.scipy import *
from shoal._later import YET as _YET, later as _later

__getattr__ = _later(
    __name__,
    {
        _YET: "circulant companion convolution_matrix dft eigh_tridiagonal expm expm_frechet fiedler fiedler_companion "
        "funm hadamard hankel helmert hessenberg hilbert invhilbert invpascal leslie pascal polar qr_multiply "
        "rsf2csf schur solve_sylvester sqrtm toeplitz"
    },
)
