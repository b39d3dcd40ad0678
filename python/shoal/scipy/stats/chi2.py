"""The distribution of a sum of squares of normally distributed numbers."""

from shoal.scipy.stats import gamma as _gamma
from shoal.scipy.stats._given import given as _given


def _of_gamma(x, df, loc, scale):
    """What the gamma distribution takes instead."""
    x, df, loc, scale = _given(x, df, loc, scale)
    return x, df / 2, loc, 2 * scale


def logpdf(x, df, loc=0, scale=1):
    """The logarithm of the density.

    Args:
      x: Where: an array or a number.
      df: The number of degrees of freedom.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    return _gamma.logpdf(*_of_gamma(x, df, loc, scale))


def pdf(x, df, loc=0, scale=1):
    """The density.

    Args:
      x: Where: an array or a number.
      df: The number of degrees of freedom.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    return _gamma.pdf(*_of_gamma(x, df, loc, scale))


def cdf(x, df, loc=0, scale=1):
    """The share below x.

    Args:
      x: Where: an array or a number.
      df: The number of degrees of freedom.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    return _gamma.cdf(*_of_gamma(x, df, loc, scale))


def sf(x, df, loc=0, scale=1):
    """The share above x.

    Args:
      x: Where: an array or a number.
      df: The number of degrees of freedom.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    return _gamma.sf(*_of_gamma(x, df, loc, scale))


def logcdf(x, df, loc=0, scale=1):
    """The logarithm of the share below x.

    Args:
      x: Where: an array or a number.
      df: The number of degrees of freedom.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    return _gamma.logcdf(*_of_gamma(x, df, loc, scale))


def logsf(x, df, loc=0, scale=1):
    """The logarithm of the share above x.

    Args:
      x: Where: an array or a number.
      df: The number of degrees of freedom.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    return _gamma.logsf(*_of_gamma(x, df, loc, scale))
