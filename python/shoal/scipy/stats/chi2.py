"""The distribution of a sum of squares of normally distributed numbers."""

from shoal.scipy.stats import gamma as _gamma
from shoal.scipy.stats._given import given as _given


def logpdf(x, df, loc=0, scale=1):
    """The logarithm of the density."""
    x, df, loc, scale = _given(x, df, loc, scale)
    return _gamma.logpdf(x, df / 2, loc, 2 * scale)


def pdf(x, df, loc=0, scale=1):
    """The density."""
    x, df, loc, scale = _given(x, df, loc, scale)
    return _gamma.pdf(x, df / 2, loc, 2 * scale)


def cdf(x, df, loc=0, scale=1):
    """The share below x."""
    x, df, loc, scale = _given(x, df, loc, scale)
    return _gamma.cdf(x, df / 2, loc, 2 * scale)


def sf(x, df, loc=0, scale=1):
    """The share above x."""
    x, df, loc, scale = _given(x, df, loc, scale)
    return _gamma.sf(x, df / 2, loc, 2 * scale)


def logcdf(x, df, loc=0, scale=1):
    """The logarithm of the share below x."""
    x, df, loc, scale = _given(x, df, loc, scale)
    return _gamma.logcdf(x, df / 2, loc, 2 * scale)


def logsf(x, df, loc=0, scale=1):
    """The logarithm of the share above x."""
    x, df, loc, scale = _given(x, df, loc, scale)
    return _gamma.logsf(x, df / 2, loc, 2 * scale)
