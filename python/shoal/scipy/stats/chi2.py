"""The distribution of a sum of squares of normally distributed numbers."""

from shoal.scipy.stats import gamma as _gamma
from shoal.scipy.stats._given import given as _given


def _of_gamma(x, df, loc, scale):
    """What the gamma distribution takes instead."""
    x, df, loc, scale = _given(x, df, loc, scale)
    return x, df / 2, loc, 2 * scale


def logpdf(x, df, loc=0, scale=1):
    """The logarithm of the density."""
    return _gamma.logpdf(*_of_gamma(x, df, loc, scale))


def pdf(x, df, loc=0, scale=1):
    """The density."""
    return _gamma.pdf(*_of_gamma(x, df, loc, scale))


def cdf(x, df, loc=0, scale=1):
    """The share below x."""
    return _gamma.cdf(*_of_gamma(x, df, loc, scale))


def sf(x, df, loc=0, scale=1):
    """The share above x."""
    return _gamma.sf(*_of_gamma(x, df, loc, scale))


def logcdf(x, df, loc=0, scale=1):
    """The logarithm of the share below x."""
    return _gamma.logcdf(*_of_gamma(x, df, loc, scale))


def logsf(x, df, loc=0, scale=1):
    """The logarithm of the share above x."""
    return _gamma.logsf(*_of_gamma(x, df, loc, scale))
