"""Functions of SciPy."""

from shoal.scipy import linalg, special
from shoal._later import YET as _YET, later as _later

__getattr__ = _later(
    __name__,
    {
        _YET: "cluster fft integrate interpolate ndimage optimize signal sparse spatial stats"
    },
)
