"""The beta distribution."""

from shoal import numpy as _np
from shoal._later import YET as _YET, later as _later
from shoal.scipy import special as _special
from shoal.scipy.stats._given import standard as _standard


def logpdf(x, a, b, loc=0, scale=1):
    """The logarithm of the density."""
    z, a, b, scale = _standard(x, a, b, loc, scale)
    inside = _special.xlogy(a - 1, z) + _special.xlog1py(b - 1, -z) - _special.betaln(a, b) - _np.log(scale)
    return _np.where((z < 0) | (z > 1), -_np.inf, inside)


def pdf(x, a, b, loc=0, scale=1):
    """The density."""
    return _np.exp(logpdf(x, a, b, loc, scale))


__getattr__ = _later(__name__, {_YET: "cdf logcdf logsf sf"})
