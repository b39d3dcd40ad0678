"""The exponential distribution."""

from shoal import numpy as _np
from shoal.scipy.stats._given import given as _given, standard as _standard


def logpdf(x, loc=0, scale=1):
    """The logarithm of the density.

    Args:
      x: Where: an array or a number.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    z, scale = _standard(x, loc, scale)
    return _np.where(z < 0, -_np.inf, -z - _np.log(scale))


def pdf(x, loc=0, scale=1):
    """The density.

    Args:
      x: Where: an array or a number.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    return _np.exp(logpdf(x, loc, scale))


def cdf(x, loc=0, scale=1):
    """The share below x.

    Args:
      x: Where: an array or a number.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    z, _ = _standard(x, loc, scale)
    return _np.where(z < 0, 0.0, -_np.expm1(-z))


def sf(x, loc=0, scale=1):
    """The share above x.

    Args:
      x: Where: an array or a number.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    z, _ = _standard(x, loc, scale)
    return _np.where(z < 0, 1.0, _np.exp(-z))


def logcdf(x, loc=0, scale=1):
    """The logarithm of the share below x.

    Args:
      x: Where: an array or a number.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    return _np.log(cdf(x, loc, scale))


def logsf(x, loc=0, scale=1):
    """The logarithm of the share above x.

    Args:
      x: Where: an array or a number.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    z, _ = _standard(x, loc, scale)
    return _np.where(z < 0, 0.0, -z)


def ppf(q, loc=0, scale=1):
    """The number below which a share lies.

    Args:
      q: Shares between 0 and 1.
      loc: Where the distribution lies: what is added to its numbers.
      scale: How wide it is: by what its numbers are multiplied before.
    """
    q, loc, scale = _given(q, loc, scale)
    return _np.where((q < 0) | (q > 1), _np.nan, loc - scale * _np.log1p(-q))
