"""Functions of SciPy."""

from shoal.scipy import integrate, linalg, optimize, sparse, special, stats
from shoal._later import YET as _YET, later as _later

__getattr__ = _later(
    __name__,
    {
        _YET: "cluster fft interpolate ndimage signal spatial"
    },
)
