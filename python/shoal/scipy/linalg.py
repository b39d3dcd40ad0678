"""The functions of scipy.linalg."""

from shoal._core.linalg.scipy import *

_LATER = frozenset(
    "bandwidth eigh_tridiagonal expm expm_frechet fiedler funm hankel hessenberg hilbert invhilbert helmert ldl pascal "
    "polar qr_multiply rsf2csf schur solve_sylvester sqrtm toeplitz vandermonde".split()
)


def __getattr__(name):
    if name in _LATER:
        raise AttributeError(f"module 'shoal.scipy.linalg' has no attribute '{name}': it is not there yet")
    raise AttributeError(f"module 'shoal.scipy.linalg' has no attribute '{name}'")
