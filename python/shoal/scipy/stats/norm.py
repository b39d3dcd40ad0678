"""The normal distribution."""

import math as _math

from shoal import numpy as _np
from shoal.scipy import special as _special
from shoal.scipy.stats._given import given as _given, standard as _standard


def logpdf(x, loc=0, scale=1):
    """The logarithm of the density."""
    z, scale = _standard(x, loc, scale)
    return -(z * z + _math.log(2 * _math.pi)) / 2 - _np.log(scale)


def pdf(x, loc=0, scale=1):
    """The density."""
    return _np.exp(logpdf(x, loc, scale))


def cdf(x, loc=0, scale=1):
    """The share below x."""
    z, _ = _standard(x, loc, scale)
    return _special.ndtr(z)


def sf(x, loc=0, scale=1):
    """The share above x."""
    z, _ = _standard(x, loc, scale)
    return _special.ndtr(-z)


def logcdf(x, loc=0, scale=1):
    """The logarithm of the share below x."""
    z, _ = _standard(x, loc, scale)
    return _special.log_ndtr(z)


def logsf(x, loc=0, scale=1):
    """The logarithm of the share above x."""
    z, _ = _standard(x, loc, scale)
    return _special.log_ndtr(-z)


def ppf(q, loc=0, scale=1):
    """The number below which a share lies."""
    q, loc, scale = _given(q, loc, scale)
    return _special.ndtri(q) * scale + loc


def isf(q, loc=0, scale=1):
    """The number above which a share lies."""
    return ppf(1 - q, loc, scale)
