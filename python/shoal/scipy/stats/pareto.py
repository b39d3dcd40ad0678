"""The distribution of Pareto."""

from shoal import numpy as _np
from shoal.scipy.stats._given import given as _given, standard as _standard


def logpdf(x, b, loc=0, scale=1):
    """The logarithm of the density."""
    z, b, scale = _standard(x, b, loc, scale)
    return _np.where(z < 1, -_np.inf, _np.log(b / scale) - (b + 1) * _np.log(z))


def pdf(x, b, loc=0, scale=1):
    """The density."""
    return _np.exp(logpdf(x, b, loc, scale))


def cdf(x, b, loc=0, scale=1):
    """The share below x."""
    z, b, _ = _standard(x, b, loc, scale)
    return _np.where(z < 1, 0, 1 - z**-b)


def logcdf(x, b, loc=0, scale=1):
    """The logarithm of the share below x."""
    z, b, _ = _standard(x, b, loc, scale)
    return _np.where(z < 1, -_np.inf, _np.log1p(-(z**-b)))


def logsf(x, b, loc=0, scale=1):
    """The logarithm of the share above x."""
    z, b, _ = _standard(x, b, loc, scale)
    return _np.where(z < 1, 0, -b * _np.log(z))


def sf(x, b, loc=0, scale=1):
    """The share above x."""
    return _np.exp(logsf(x, b, loc, scale))


def ppf(q, b, loc=0, scale=1):
    """The number below which a share q lies."""
    q, b, loc, scale = _given(q, b, loc, scale)
    value = loc + scale * (1 - q) ** (-1 / b)
    return _np.where((q < 0) | (q > 1) | _np.isnan(q), _np.nan, value)
