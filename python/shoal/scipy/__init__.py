"""Functions of SciPy."""

from shoal.scipy import linalg, special

_LATER = frozenset("cluster fft integrate interpolate ndimage optimize signal sparse spatial stats".split())


def __getattr__(name):
    if name in _LATER:
        raise AttributeError(f"module 'shoal.scipy' has no attribute '{name}': it is not there yet")
    raise AttributeError(f"module 'shoal.scipy' has no attribute '{name}'")
