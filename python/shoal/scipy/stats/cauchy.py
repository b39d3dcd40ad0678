"""The distribution of Cauchy."""

import math as _math

from shoal import numpy as _np
from shoal.scipy.stats._given import given as _given, standard as _standard


def logpdf(x, loc=0, scale=1):
    """The logarithm of the density."""
    z, scale = _standard(x, loc, scale)
    return -_math.log(_math.pi) - _np.log(scale) - _np.log1p(z * z)


def pdf(x, loc=0, scale=1):
    """The density."""
    return _np.exp(logpdf(x, loc, scale))


def cdf(x, loc=0, scale=1):
    """The share below x."""
    z, _ = _standard(x, loc, scale)
    return 0.5 + _np.arctan(z) / _math.pi


def sf(x, loc=0, scale=1):
    """The share above x."""
    z, _ = _standard(x, loc, scale)
    return 0.5 - _np.arctan(z) / _math.pi


def logcdf(x, loc=0, scale=1):
    """The logarithm of the share below x."""
    return _np.log(cdf(x, loc, scale))


def logsf(x, loc=0, scale=1):
    """The logarithm of the share above x."""
    return _np.log(sf(x, loc, scale))


def ppf(q, loc=0, scale=1):
    """The number below which a share lies."""
    q, loc, scale = _given(q, loc, scale)
    return _np.tan(_math.pi * (q - 0.5)) * scale + loc


def isf(q, loc=0, scale=1):
    """The number above which a share lies."""
    q, loc, scale = _given(q, loc, scale)
    return _np.tan(_math.pi * (0.5 - q)) * scale + loc
