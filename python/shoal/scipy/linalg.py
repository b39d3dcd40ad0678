"""The functions of scipy.linalg."""

from shoal._core.linalg.scipy import *

_LATER = frozenset(
    "circulant companion convolution_matrix dft eigh_tridiagonal expm expm_frechet fiedler fiedler_companion funm "
    "hadamard hankel helmert hessenberg hilbert invhilbert invpascal leslie pascal polar qr_multiply rsf2csf schur "
    "solve_sylvester sqrtm toeplitz".split()
)


def __getattr__(name):
    if name in _LATER:
        raise AttributeError(f"module 'shoal.scipy.linalg' has no attribute '{name}': it is not there yet")
    raise AttributeError(f"module 'shoal.scipy.linalg' has no attribute '{name}'")
