"""The distribution of Pareto."""

from shoal import numpy as _np
from shoal.scipy.stats._given import given as _given, standard as _standard


def logpdf(x, b, loc=0, scale=1):
    """The logarithm of the density.

    Args:
      x: Where: an array or a number.
      b: A shape of the distribution.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    z, b, scale = _standard(x, b, loc, scale)
    return _np.where(z < 1, -_np.inf, _np.log(b / scale) - (b + 1) * _np.log(z))


def pdf(x, b, loc=0, scale=1):
    """The density.

    Args:
      x: Where: an array or a number.
      b: A shape of the distribution.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    return _np.exp(logpdf(x, b, loc, scale))


def cdf(x, b, loc=0, scale=1):
    """The share below x.

    Args:
      x: Where: an array or a number.
      b: A shape of the distribution.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    z, b, _ = _standard(x, b, loc, scale)
    return _np.where(z < 1, 0, 1 - z**-b)


def logcdf(x, b, loc=0, scale=1):
    """The logarithm of the share below x.

    Args:
      x: Where: an array or a number.
      b: A shape of the distribution.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    z, b, _ = _standard(x, b, loc, scale)
    return _np.where(z < 1, -_np.inf, _np.log1p(-(z**-b)))


def logsf(x, b, loc=0, scale=1):
    """The logarithm of the share above x.

    Args:
      x: Where: an array or a number.
      b: A shape of the distribution.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    z, b, _ = _standard(x, b, loc, scale)
    return _np.where(z < 1, 0, -b * _np.log(z))


def sf(x, b, loc=0, scale=1):
    """The share above x.

    Args:
      x: Where: an array or a number.
      b: A shape of the distribution.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    return _np.exp(logsf(x, b, loc, scale))


def ppf(q, b, loc=0, scale=1):
    """The number below which a share q lies.

    Args:
      q: Shares between 0 and 1.
      b: A shape of the distribution.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    q, b, loc, scale = _given(q, b, loc, scale)
    value = loc + scale * (1 - q) ** (-1 / b)
    return _np.where((q < 0) | (q > 1) | _np.isnan(q), _np.nan, value)
